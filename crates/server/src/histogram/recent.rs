//! What a histogram counted in the last five minutes. Those who count have nothing to do with it: its buckets
//! are looked at now and then, and what they grew by is added up for each minute.

use super::{BUCKETS, Histogram, TICK_SECONDS, upper_bound};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Whole minutes that are remembered, beside the one that runs.
const MINUTES: usize = 4;
/// Ticks of a minute.
const TICKS: u32 = (60.0 / TICK_SECONDS) as u32;

/// Values of some minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The largest, within the width of a bucket.
    pub max: u64,
}

impl Summary {
    /// Their mean; none without any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    fn add(&mut self, other: Summary) {
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

/// The last minutes of a [`Histogram`], which is handed over anew each time.
#[derive(Debug, Default)]
pub struct Recent(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The buckets as they were looked at last; none before anything was counted.
    seen: Vec<u64>,
    seen_sum: u64,
    ticks: u32,
    running: Summary,
    minutes: VecDeque<Summary>,
}

impl State {
    fn look(&mut self, histogram: &Histogram) {
        let counts = histogram.counts();
        if self.seen.is_empty() {
            if counts.iter().all(|count| *count == 0) {
                return;
            }
            self.seen = vec![0; BUCKETS];
        }
        let mut grown = Summary::default();
        for (at, (now, before)) in counts.iter().zip(&mut self.seen).enumerate() {
            if *now > *before {
                grown.count += *now - *before;
                grown.max = upper_bound(at);
                *before = *now;
            }
        }
        let sum = histogram.sum();
        grown.sum = sum.saturating_sub(self.seen_sum);
        grown.max = grown.max.min(histogram.max());
        self.seen_sum = sum;
        self.running.add(grown);
    }
}

impl Recent {
    /// Takes note of what was counted; called every [`TICK_SECONDS`].
    pub fn tick(&self, histogram: &Histogram) {
        let mut state = self.0.lock();
        state.look(histogram);
        state.ticks += 1;
        if state.ticks == TICKS {
            state.ticks = 0;
            let minute = std::mem::take(&mut state.running);
            state.minutes.push_back(minute);
            if state.minutes.len() > MINUTES {
                state.minutes.pop_front();
            }
        }
    }

    /// The last five minutes, this moment included.
    pub fn summary(&self, histogram: &Histogram) -> Summary {
        let mut state = self.0.lock();
        state.look(histogram);
        let mut out = state.running;
        state.minutes.iter().for_each(|minute| out.add(*minute));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_minutes_are_remembered() {
        let (histogram, recent) = (Histogram::default(), Recent::default());
        assert_eq!(recent.summary(&histogram).mean(), None);
        [0, 4, 100].iter().for_each(|value| histogram.record(*value));
        let first = recent.summary(&histogram);
        assert_eq!(first, Summary { count: 3, sum: 104, max: 100 });
        (0..TICKS * MINUTES as u32).for_each(|_| recent.tick(&histogram));
        assert_eq!(recent.summary(&histogram), first);
        histogram.record(3);
        assert_eq!(recent.summary(&histogram), Summary { count: 4, sum: 107, max: 100 });
        (0..TICKS).for_each(|_| recent.tick(&histogram));
        assert_eq!(recent.summary(&histogram), Summary { count: 1, sum: 3, max: 3 });
        (0..TICKS * MINUTES as u32).for_each(|_| recent.tick(&histogram));
        assert_eq!(recent.summary(&histogram), Summary::default());
    }
}
