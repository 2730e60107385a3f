//! The latency of reads over time: how many in each band of each second, and a few reads of each band.
//!
//! ```text
//! cell of (second, band):  u32 second | u32 count
//! ```
//! A cell is one atomic number, so that a count never belongs to another second than it says; seconds share cells
//! once [`SECONDS`] have gone by.

use super::ReadRecord;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds that are remembered.
pub const SECONDS: usize = 300;
/// Reads that are remembered of each band.
const SAMPLES: usize = 64;

/// Upper bounds of all bands but the last, in microseconds.
const BOUNDS_MICROS: [u64; BANDS - 1] = [
    20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

/// How many bands of latency there are.
pub const BANDS: usize = 19;

/// A band of latencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// Microseconds from which on.
    pub from_micros: u64,
    /// Microseconds below which; none for the last band.
    pub to_micros: Option<u64>,
}

/// Counts of a span of seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatColumns {
    /// The bands, fastest first.
    pub bands: Vec<Band>,
    /// The second of the last column, since the epoch.
    pub last_second: u64,
    /// For each second, oldest first, the reads of each band.
    pub counts: Vec<Vec<u32>>,
}

/// Counts and samples.
pub struct HeatMap {
    cells: Box<[[AtomicU64; BANDS]]>,
    samples: [Mutex<VecDeque<Arc<ReadRecord>>>; BANDS],
}

impl std::fmt::Debug for HeatMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeatMap").finish_non_exhaustive()
    }
}

impl Default for HeatMap {
    fn default() -> Self {
        let column = || [const { AtomicU64::new(0) }; BANDS];
        HeatMap {
            cells: std::iter::repeat_with(column).take(SECONDS).collect(),
            samples: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

fn band_of(nanos: u64) -> usize {
    BOUNDS_MICROS.partition_point(|bound| nanos >= bound * 1_000)
}

impl HeatMap {
    /// Counts a read that was answered in `second`. Returns whether it should be [kept](HeatMap::keep): of each band the
    /// first, second, fourth, eighth and so on of a second are, so that busy bands cost no more than others.
    #[inline]
    pub fn count(&self, second: u64, nanos: u64) -> bool {
        let column = self.cells.get(second as usize % SECONDS);
        let Some(cell) = column.and_then(|column| column.get(band_of(nanos))) else { return false };
        let stamp = u64::from(second as u32) << 32;
        let next = |cell: u64| if cell & !0xffff_ffff == stamp { cell.saturating_add(1) } else { stamp | 1 };
        let before = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |cell| Some(next(cell)));
        (next(before.unwrap_or(0)) as u32).is_power_of_two()
    }

    /// Keeps a read as a sample of its band.
    pub fn keep(&self, read: &Arc<ReadRecord>) {
        let Some(samples) = self.samples.get(band_of(read.nanos)) else { return };
        let mut samples = samples.lock();
        if samples.len() >= SAMPLES {
            samples.pop_front();
        }
        samples.push_back(Arc::clone(read));
    }

    /// The counts of `seconds` seconds, of which the last is `now`.
    pub fn columns(&self, now: u64, seconds: usize) -> HeatColumns {
        let seconds = seconds.clamp(1, SECONDS) as u64;
        let bounds = || BOUNDS_MICROS.iter().copied();
        let bands = [0].into_iter().chain(bounds()).zip(bounds().map(Some).chain([None]));
        let counts = (now.saturating_sub(seconds - 1)..=now).map(|second| {
            let of = |cell: &AtomicU64| {
                let cell = cell.load(Ordering::Relaxed);
                if (cell >> 32) as u32 == second as u32 { cell as u32 } else { 0 }
            };
            self.cells.get(second as usize % SECONDS).map_or_else(Vec::new, |c| c.iter().map(of).collect())
        });
        HeatColumns {
            bands: bands.map(|(from_micros, to_micros)| Band { from_micros, to_micros }).collect(),
            last_second: now,
            counts: counts.collect(),
        }
    }

    /// The reads that are kept of a band, newest first; none of a band that does not exist.
    pub fn samples(&self, band: usize) -> Vec<Arc<ReadRecord>> {
        self.samples.get(band).map_or_else(Vec::new, |kept| kept.lock().iter().rev().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::record;
    use super::*;

    #[test]
    fn bands_part_the_latencies() {
        assert_eq!((band_of(0), band_of(19_999), band_of(20_000)), (0, 0, 1));
        assert_eq!((band_of(9_999_999_999), band_of(u64::MAX)), (BANDS - 2, BANDS - 1));
        let columns = HeatMap::default().columns(1, 1);
        assert_eq!(columns.bands.len(), BANDS);
        assert!(columns.bands.windows(2).all(|pair| pair[0].to_micros == Some(pair[1].from_micros)));
    }

    #[test]
    fn each_second_has_its_own_counts_and_old_ones_are_forgotten() {
        let map = HeatMap::default();
        for _ in 0..3 {
            map.count(1_000, 30_000);
        }
        map.count(1_001, 30_000);
        map.count(1_001, 3_000_000_000);
        let columns = map.columns(1_002, 3);
        let of_band: Vec<u32> = columns.counts.iter().map(|column| column[1]).collect();
        assert_eq!((of_band, columns.counts[1][16]), (vec![3, 1, 0], 1));
        map.count(1_000 + SECONDS as u64, 30_000);
        assert_eq!(map.columns(1_000 + SECONDS as u64, 1).counts[0][1], 1, "a cell is used again");
        assert_eq!(map.columns(1_000, 1).counts[0][1], 0);
    }

    #[test]
    fn samples_get_fewer_as_a_band_fills_and_are_bounded() {
        let map = HeatMap::default();
        assert_eq!((0..1_000).filter(|_| map.count(7, 30_000)).count(), 10);
        for n in 0..SAMPLES as u64 + 10 {
            map.keep(&record("SELECT", 30_000 + n));
        }
        let kept = map.samples(1);
        assert_eq!((kept.len(), kept[0].nanos), (SAMPLES, 30_000 + SAMPLES as u64 + 9));
        assert!(map.samples(0).is_empty() && map.samples(99).is_empty());
    }
}
