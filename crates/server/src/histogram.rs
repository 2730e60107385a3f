//! Counters, gauges and histograms that many threads fill without waiting for each other.

mod recent;

pub use recent::{Recent, Summary};

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Parts that a number is counted in, for threads not to take the processor's lines from each other at each
/// request.
const PARTS: usize = 4;

/// The part in which this thread counts.
#[inline]
fn own_part() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(PARTS) };
    }
    if OWN.get() == PARTS {
        OWN.set(NEXT.fetch_add(1, Ordering::Relaxed) % PARTS);
    }
    OWN.get()
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter([CounterPart; PARTS]);

/// Alone in its line, with the one that processors fetch along.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CounterPart(AtomicU64);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        if let Some(part) = self.0.get(own_part()) {
            part.0.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.iter().map(|part| part.0.load(Ordering::Relaxed)).sum()
    }
}

/// A number that grows and shrinks.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds `n`, which may be negative, and returns the sum.
    #[inline]
    pub fn add(&self, n: i64) -> i64 {
        self.0.fetch_add(n, Ordering::Relaxed) + n
    }

    /// Sets the number.
    pub fn set(&self, n: i64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Buckets inside each power of two: quantiles are right within an eighth.
const STEPS_LOG2: u32 = 3;
const BUCKETS: usize = ((64 - STEPS_LOG2 + 1) << STEPS_LOG2) as usize;

/// How numbers are distributed.
///
/// ```text
/// bucket of v   v < 8: v itself; else 8 for each power of two: (power - 2) * 8 + the three bits below the first
/// ```
#[derive(Default)]
pub struct Histogram {
    /// Made when a thread first counts in it.
    parts: [OnceLock<Box<HistogramPart>>; PARTS],
}

struct HistogramPart {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram").field("count", &self.count()).field("max", &self.max()).finish()
    }
}

impl Default for HistogramPart {
    fn default() -> Self {
        HistogramPart {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}

fn bucket_of(value: u64) -> usize {
    if value < 1 << STEPS_LOG2 {
        return value as usize;
    }
    let power = 63 - value.leading_zeros();
    let step = (value >> (power - STEPS_LOG2)) & ((1 << STEPS_LOG2) - 1);
    (((power - STEPS_LOG2 + 1) << STEPS_LOG2) as u64 + step) as usize
}

/// The largest value of a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let (group, step) = (bucket as u64 >> STEPS_LOG2, bucket as u64 & ((1 << STEPS_LOG2) - 1));
    if group == 0 {
        return step;
    }
    let width = 1u128 << (group - 1);
    ((((1 << STEPS_LOG2) + step + 1) as u128 * width) - 1).min(u128::from(u64::MAX)) as u64
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn record(&self, value: u64) {
        let Some(part) = self.parts.get(own_part()) else { return };
        let part = part.get_or_init(Box::default);
        if let Some(bucket) = part.buckets.get(bucket_of(value)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        // Most reads touch no disk and no tombstones: zeros cost one addition.
        if value > 0 {
            part.sum.fetch_add(value, Ordering::Relaxed);
            if value > part.max.load(Ordering::Relaxed) {
                part.max.fetch_max(value, Ordering::Relaxed);
            }
        }
    }

    /// Counts what another one has counted.
    pub fn absorb(&self, other: &Histogram) {
        let Some(own) = self.parts.get(own_part()) else { return };
        let own = own.get_or_init(Box::default);
        for part in other.parts() {
            for (bucket, more) in own.buckets.iter().zip(&part.buckets) {
                bucket.fetch_add(more.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            own.sum.fetch_add(part.sum.load(Ordering::Relaxed), Ordering::Relaxed);
            own.max.fetch_max(part.max.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn parts(&self) -> impl Iterator<Item = &HistogramPart> {
        self.parts.iter().filter_map(|part| part.get()).map(Box::as_ref)
    }

    /// What each bucket holds.
    fn counts(&self) -> [u64; BUCKETS] {
        let mut counts = [0; BUCKETS];
        for part in self.parts() {
            counts.iter_mut().zip(&part.buckets).for_each(|(n, bucket)| *n += bucket.load(Ordering::Relaxed));
        }
        counts
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.parts().map(|part| part.sum.load(Ordering::Relaxed)).sum()
    }

    /// The largest.
    pub fn max(&self) -> u64 {
        self.parts().map(|part| part.max.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    /// Their mean; 0 when there are none.
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum() as f64 / count as f64,
        }
    }

    /// The value that the part `q` (0 to 1) of all values does not exceed; 0 when there are none.
    pub fn quantile(&self, q: f64) -> u64 {
        let counts = self.counts();
        let wanted = (counts.iter().sum::<u64>() as f64 * q).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_bound(at).min(self.max());
            }
        }
        self.max()
    }

    /// The smallest value, within the width of a bucket; 0 when there are none.
    pub fn min(&self) -> u64 {
        let first = self.counts().iter().position(|count| *count > 0);
        first.map_or(0, |at| if at == 0 { 0 } else { upper_bound(at - 1) + 1 })
    }

    /// The buckets that hold something: the largest value of each, and how many it holds.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let counts = self.counts().into_iter().enumerate();
        counts.filter(|(_, count)| *count > 0).map(|(at, count)| (upper_bound(at), count)).collect()
    }

    /// For each of `bounds`, which ascend, how many values do not exceed it (within the width of a bucket).
    pub fn cumulative(&self, bounds: &[u64]) -> Vec<u64> {
        let mut out = Vec::with_capacity(bounds.len());
        let counts = self.counts();
        let mut buckets = counts.iter().enumerate().peekable();
        let mut seen = 0;
        for bound in bounds {
            while let Some((at, count)) = buckets.peek() {
                if upper_bound(*at) > *bound {
                    break;
                }
                seen += **count;
                buckets.next();
            }
            out.push(seen);
        }
        out
    }
}

/// Seconds between two ticks of a [`Meter`].
pub const TICK_SECONDS: f64 = 5.0;

/// Events in each second, as an average over the last minute that fades out.
#[derive(Debug, Default)]
pub struct Meter {
    counted: AtomicU64,
    /// Bits of an `f64`.
    rate: AtomicU64,
    ticks: AtomicU64,
}

impl Meter {
    /// Takes note of a counter; called every [`TICK_SECONDS`].
    pub fn tick(&self, count: u64) {
        let since = count.saturating_sub(self.counted.swap(count, Ordering::Relaxed)) as f64 / TICK_SECONDS;
        let weight = match self.ticks.fetch_add(1, Ordering::Relaxed) {
            0 => 1.0,
            _ => 1.0 - (-TICK_SECONDS / 60.0).exp(),
        };
        let before = self.per_second();
        self.rate.store((before + weight * (since - before)).to_bits(), Ordering::Relaxed);
    }

    /// The rate.
    pub fn per_second(&self) -> f64 {
        f64::from_bits(self.rate.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..2_000).chain([u64::MAX, u64::MAX - 1, 1 << 40, (1 << 40) - 1, 123_456_789]) {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS, "{value}");
            assert!(value <= upper_bound(bucket), "{value}");
            assert!(bucket == 0 || value > upper_bound(bucket - 1), "{value}");
        }
    }

    #[test]
    fn quantiles_are_right_within_an_eighth() {
        let histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.mean()), (0, 0.0));
        (1..=1_000).for_each(|v| histogram.record(v));
        for (q, exact) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1_000.0)] {
            let found = histogram.quantile(q) as f64;
            assert!(found >= exact && found <= exact * 1.125, "{q}: {found}");
        }
        assert_eq!((histogram.count(), histogram.sum(), histogram.max()), (1_000, 500_500, 1_000));
    }

    #[test]
    fn cumulative_counts_ascend_to_the_total() {
        let histogram = Histogram::default();
        [1, 10, 100, 1_000].iter().for_each(|v| histogram.record(*v));
        assert_eq!(histogram.cumulative(&[1, 15, 127, u64::MAX]), [1, 2, 3, 4]);
    }

    #[test]
    fn what_threads_count_adds_up() {
        let (histogram, counter) = (Histogram::default(), Counter::default());
        std::thread::scope(|scope| {
            for thread in 1..=2 * PARTS as u64 {
                let (histogram, counter) = (&histogram, &counter);
                scope.spawn(move || {
                    (0..100).for_each(|_| histogram.record(thread));
                    counter.add(thread);
                });
            }
        });
        assert_eq!((histogram.count(), histogram.sum(), histogram.max()), (800, 3_600, 8));
        assert_eq!((histogram.quantile(0.5), histogram.min(), counter.get()), (4, 1, 36));
    }

    #[test]
    fn a_meter_fades() {
        let meter = Meter::default();
        meter.tick(50);
        assert_eq!(meter.per_second(), 10.0);
        meter.tick(50);
        assert!(meter.per_second() < 10.0 && meter.per_second() > 9.0);
    }
}
