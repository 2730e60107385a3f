//! The latency of reads over time: how many in each band of each second, and a few reads of each band.
//!
//! ```text
//! cell of (second, band):  u32 second | u32 count
//! ```
//! A cell is one atomic number, so that a count never belongs to another second than it says; seconds share
//! cells once [`HEAT_SECONDS`] have gone by.

use super::ReadRecord;
use model::TableSchema;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tools::api::{BANDS, Band, HEAT_SECONDS, HeatColumns, SampleQuery};

/// Reads that are remembered of each band: those of all seconds of a band with few reads, of the last two and
/// a half minutes of a busy one.
const SAMPLES: usize = 600;
/// Of each band the first, second, fourth and eighth read of a second are remembered.
const SAMPLED_UP_TO: u32 = 8;
/// Reads of one answer, unless somebody asks for fewer.
const ANSWER_MAX: usize = 1_000;

/// Upper bounds of all bands but the last, in microseconds.
const BOUNDS_MICROS: [u64; BANDS - 1] = [
    20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 5_000_000, 10_000_000,
];

/// Whether somebody wants to see this read, its band apart.
fn admits(query: &SampleQuery, read: &ReadRecord) -> bool {
    let is_of = |wanted: &Option<String>, name: fn(&TableSchema) -> &str| {
        wanted.as_deref().is_none_or(|wanted| read.table.as_deref().is_some_and(|t| name(t) == wanted))
    };
    query.from_second.is_none_or(|from| read.second >= from)
        && query.to_second.is_none_or(|to| read.second <= to)
        && is_of(&query.keyspace, |t| &t.keyspace)
        && is_of(&query.table, |t| &t.name)
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
            cells: std::iter::repeat_with(column).take(HEAT_SECONDS).collect(),
            samples: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

fn band_of(nanos: u64) -> usize {
    BOUNDS_MICROS.partition_point(|bound| nanos >= bound * 1_000)
}

impl HeatMap {
    /// Counts a read that was answered in `second`. Returns whether it should be [kept](HeatMap::keep): of
    /// each band the first, second, fourth and eighth of a second are, so that busy bands cost no more than
    /// others.
    #[inline]
    pub fn count(&self, second: u64, nanos: u64) -> bool {
        let column = self.cells.get(second as usize % HEAT_SECONDS);
        let Some(cell) = column.and_then(|column| column.get(band_of(nanos))) else { return false };
        let stamp = u64::from(second as u32) << 32;
        let next = |cell: u64| if cell & !0xffff_ffff == stamp { cell.saturating_add(1) } else { stamp | 1 };
        let before = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |cell| Some(next(cell)));
        let nth = next(before.unwrap_or(0)) as u32;
        nth <= SAMPLED_UP_TO && nth.is_power_of_two()
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
        let seconds = seconds.clamp(1, HEAT_SECONDS) as u64;
        let bounds = || BOUNDS_MICROS.iter().copied();
        let bands = [0].into_iter().chain(bounds()).zip(bounds().map(Some).chain([None]));
        let counts = (now.saturating_sub(seconds - 1)..=now).map(|second| {
            let of = |cell: &AtomicU64| {
                let cell = cell.load(Ordering::Relaxed);
                if (cell >> 32) as u32 == second as u32 { cell as u32 } else { 0 }
            };
            self.cells
                .get(second as usize % HEAT_SECONDS)
                .map_or_else(Vec::new, |c| c.iter().map(of).collect())
        });
        HeatColumns {
            bands: bands.map(|(from_micros, to_micros)| Band { from_micros, to_micros }).collect(),
            last_second: now,
            counts: counts.collect(),
        }
    }

    /// The reads that are kept and wanted, newest first.
    pub fn samples(&self, query: &SampleQuery) -> Vec<Arc<ReadRecord>> {
        let first = query.from_band.unwrap_or(0);
        let bands = query.to_band.unwrap_or(BANDS).saturating_add(1).saturating_sub(first);
        let mut found: Vec<Arc<ReadRecord>> = Vec::new();
        for kept in self.samples.iter().skip(first).take(bands) {
            found.extend(kept.lock().iter().filter(|read| admits(query, read)).cloned());
        }
        found.sort_by_key(|read| std::cmp::Reverse(read.at_micros));
        found.truncate(query.limit.unwrap_or(ANSWER_MAX).min(ANSWER_MAX));
        found
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
        map.count(1_000 + HEAT_SECONDS as u64, 30_000);
        assert_eq!(map.columns(1_000 + HEAT_SECONDS as u64, 1).counts[0][1], 1, "a cell is used again");
        assert_eq!(map.columns(1_000, 1).counts[0][1], 0);
    }

    #[test]
    fn samples_get_fewer_as_a_band_fills_and_are_bounded() {
        let map = HeatMap::default();
        assert_eq!((0..1_000).filter(|_| map.count(7, 30_000)).count(), 4);
        assert!(map.count(8, 30_000), "each second begins anew");
        for n in 0..SAMPLES as u64 + 10 {
            map.keep(&record("SELECT", 30_000 + n));
        }
        let all = map.samples(&SampleQuery::default());
        assert_eq!(all.len(), SAMPLES);
        assert_eq!(all.iter().map(|read| read.nanos).min(), Some(30_010), "the oldest made room");
    }

    #[test]
    fn samples_are_found_by_band_second_and_table() {
        let map = HeatMap::default();
        let schema = TableSchema::builder("ks", "t", uuid::Uuid::nil());
        let table = Arc::new(schema.partition_key("k", model::CqlType::Int).build());
        for (second, micros, of) in [(100, 30, None), (101, 30, Some(&table)), (102, 3_000, Some(&table))] {
            let read =
                ReadRecord { table: of.cloned(), second, ..(*record("SELECT", micros * 1_000)).clone() };
            map.keep(&Arc::new(ReadRecord { at_micros: second as i64 * 1_000_000, ..read }));
        }
        let seconds =
            |query: SampleQuery| -> Vec<u64> { map.samples(&query).iter().map(|r| r.second).collect() };
        let any = SampleQuery::default;
        assert_eq!(seconds(any()), [102, 101, 100]);
        assert_eq!(seconds(SampleQuery { from_band: Some(1), to_band: Some(1), ..any() }), [101, 100]);
        assert_eq!(seconds(SampleQuery { from_band: Some(2), ..any() }), [102]);
        assert_eq!(seconds(SampleQuery { from_band: Some(usize::MAX), ..any() }), [0; 0]);
        assert_eq!(seconds(SampleQuery { from_second: Some(101), to_second: Some(101), ..any() }), [101]);
        assert_eq!(seconds(SampleQuery { table: Some("t".to_owned()), limit: Some(1), ..any() }), [102]);
        assert_eq!(seconds(SampleQuery { keyspace: Some("other".to_owned()), ..any() }), [0; 0]);
    }
}
