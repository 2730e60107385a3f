//! The heat map as it is remembered here, and as much of it as fits on a screen.
//!
//! 1. Each look at the node brings the counts of its last seconds; [`History::absorb`] keeps them for up to
//!    [`SECONDS_MAX`].
//! 2. [`History::grid`] lays seconds out in columns and bands in rows. A column holds one or more seconds and
//!    begins at a multiple of them, so that it does not change its content as time goes by. When there are
//!    more bands than rows, bands without reads are left out at either end, then the fastest ones share the
//!    lowest row.
//! 3. Who points at a cell points at a band and a second ([`Place`]): it stays there when columns move on.

use crate::api::{Band, HeatColumns};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Seconds that are remembered.
pub(super) const SECONDS_MAX: usize = 3_600;

/// Counts by second and band.
#[derive(Debug, Default)]
pub(super) struct History {
    bands: Vec<Band>,
    seconds: BTreeMap<u64, Vec<u32>>,
}

/// A band in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The band.
    pub(super) band: usize,
    /// The second since the epoch.
    pub(super) second: u64,
}

/// Bands and seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Area {
    /// The bands.
    pub(super) bands: RangeInclusive<usize>,
    /// The seconds since the epoch.
    pub(super) seconds: RangeInclusive<u64>,
}

impl Area {
    /// The smallest area with both.
    pub(super) fn with(&self, other: &Area) -> Area {
        fn join<T: Ord + Copy>(a: &RangeInclusive<T>, b: &RangeInclusive<T>) -> RangeInclusive<T> {
            *a.start().min(b.start())..=*a.end().max(b.end())
        }
        Area { bands: join(&self.bands, &other.bands), seconds: join(&self.seconds, &other.seconds) }
    }

    /// Whether they share a band in a second.
    pub(super) fn meets(&self, other: &Area) -> bool {
        self.bands.start() <= other.bands.end()
            && other.bands.start() <= self.bands.end()
            && self.seconds.start() <= other.seconds.end()
            && other.seconds.start() <= self.seconds.end()
    }
}

/// What a screen shows of a [`History`].
#[derive(Debug, Default)]
pub(super) struct Grid {
    /// The bands of each row, the slowest first.
    pub(super) rows: Vec<RangeInclusive<usize>>,
    /// The seconds of each column, the earliest first.
    pub(super) columns: Vec<RangeInclusive<u64>>,
    /// For each row and column the reads; `None` where nobody looked.
    pub(super) cells: Vec<Vec<Option<u64>>>,
}

impl Grid {
    /// The bands and seconds of a cell; the nearest one if there is no such cell, `None` of an empty grid.
    pub(super) fn area(&self, row: usize, column: usize) -> Option<Area> {
        let row = row.min(self.rows.len().checked_sub(1)?);
        let column = column.min(self.columns.len().checked_sub(1)?);
        Some(Area { bands: self.rows.get(row)?.clone(), seconds: self.columns.get(column)?.clone() })
    }

    /// Row and column in which a place lies, or the nearest.
    pub(super) fn cell_of(&self, place: Place) -> (usize, usize) {
        let row = self.rows.iter().position(|bands| *bands.start() <= place.band);
        let column = self.columns.iter().position(|seconds| place.second <= *seconds.end());
        let last = |len: usize| len.saturating_sub(1);
        (row.unwrap_or(last(self.rows.len())), column.unwrap_or(last(self.columns.len())))
    }

    /// The largest count.
    pub(super) fn max(&self) -> u64 {
        self.cells.iter().flatten().flatten().copied().max().unwrap_or(0)
    }
}

impl History {
    /// Takes the counts of the last seconds.
    pub(super) fn absorb(&mut self, heat: &HeatColumns) {
        if self.bands != heat.bands {
            // Another node's bands.
            self.seconds.clear();
            self.bands = heat.bands.clone();
        }
        let first = (heat.last_second + 1).saturating_sub(heat.counts.len() as u64);
        for (second, counts) in (first..).zip(&heat.counts) {
            self.seconds.insert(second, counts.clone());
        }
        while self.seconds.len() > SECONDS_MAX {
            self.seconds.pop_first();
        }
    }

    /// The bands, the fastest first.
    pub(super) fn bands(&self) -> &[Band] {
        &self.bands
    }

    /// The last second that is known.
    pub(super) fn last_second(&self) -> Option<u64> {
        self.seconds.last_key_value().map(|(second, _)| *second)
    }

    /// Reads of an area.
    pub(super) fn count(&self, area: &Area) -> u64 {
        let columns = self.seconds.range(area.seconds.clone());
        columns.map(|(_, counts)| sum_of(counts, &area.bands)).sum()
    }

    /// At most `width` columns of `step` seconds, of which the last one holds `end`, and at most `height`
    /// rows.
    pub(super) fn grid(&self, width: usize, height: usize, step: u64, end: u64) -> Grid {
        let step = step.max(1);
        let last = end / step;
        let first = last.saturating_sub((width as u64).saturating_sub(1));
        let columns: Vec<_> = (first..=last).map(|n| n * step..=n * step + (step - 1)).collect();
        let columns = if width == 0 { Vec::new() } else { columns };
        let rows = self.rows(height);
        let cell = |bands: &RangeInclusive<usize>, seconds: &RangeInclusive<u64>| {
            let mut known = self.seconds.range(seconds.clone()).peekable();
            known.peek()?;
            Some(known.map(|(_, counts)| sum_of(counts, bands)).sum())
        };
        let cells = rows.iter().map(|bands| columns.iter().map(|seconds| cell(bands, seconds)).collect());
        Grid { cells: cells.collect(), rows, columns }
    }

    /// Which bands share which row, the slowest first.
    fn rows(&self, height: usize) -> Vec<RangeInclusive<usize>> {
        let bands = self.bands.len();
        if height == 0 || bands == 0 {
            return Vec::new();
        }
        if bands <= height {
            return (0..bands).rev().map(|band| band..=band).collect();
        }
        let is_used = |band: &usize| self.seconds.values().any(|c| c.get(*band).is_some_and(|n| *n > 0));
        // Without any read: from the band of 100 us on, where reads are expected.
        let slowest = (0..bands).rev().find(is_used).unwrap_or((height + 2).min(bands - 1));
        let fastest = (0..bands).find(is_used).unwrap_or(slowest.saturating_sub(height - 1));
        // Room that is left shows bands above, then below.
        let room = height.saturating_sub(slowest - fastest + 1);
        let top = (slowest + room).min(bands - 1);
        let bottom = (top + 1).saturating_sub(height);
        let lowest = bottom.min(fastest)..=bottom;
        (bottom + 1..=top).rev().map(|band| band..=band).chain([lowest]).collect()
    }
}

fn sum_of(counts: &[u32], bands: &RangeInclusive<usize>) -> u64 {
    counts.iter().enumerate().filter(|(band, _)| bands.contains(band)).map(|(_, n)| u64::from(*n)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten bands; the counts of the bands of each second from `first` on.
    fn heat(first: u64, counts: &[[u32; 10]]) -> HeatColumns {
        let bands = (0..10).map(|n| Band { from_micros: n * 10, to_micros: (n < 9).then_some(n * 10 + 10) });
        HeatColumns {
            bands: bands.collect(),
            last_second: first + counts.len() as u64 - 1,
            counts: counts.iter().map(|c| c.to_vec()).collect(),
        }
    }

    fn one(band: usize, count: u32) -> [u32; 10] {
        std::array::from_fn(|at| if at == band { count } else { 0 })
    }

    #[test]
    fn looks_overlap_and_leave_gaps() {
        let mut history = History::default();
        history.absorb(&heat(100, &[one(2, 5), one(2, 1)]));
        history.absorb(&heat(101, &[one(2, 7), one(3, 1)]));
        history.absorb(&heat(104, &[one(2, 9)]));
        assert_eq!(history.last_second(), Some(104));
        let grid = history.grid(6, 10, 1, 104);
        assert_eq!(grid.cells[7], [None, Some(5), Some(7), Some(0), None, Some(9)]);
        assert_eq!(grid.cells[6], [None, Some(0), Some(0), Some(1), None, Some(0)]);
        assert_eq!((grid.rows[7].clone(), grid.columns[1].clone(), grid.max()), (2..=2, 100..=100, 9));
    }

    #[test]
    fn columns_begin_at_multiples_of_their_seconds() {
        let mut history = History::default();
        history.absorb(&heat(100, &[one(0, 1); 7]));
        let grid = history.grid(3, 10, 5, 106);
        assert_eq!(grid.columns, [95..=99, 100..=104, 105..=109]);
        assert_eq!(grid.cells[9], [None, Some(5), Some(2)]);
        assert!(history.grid(0, 10, 1, 106).columns.is_empty());
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut history = History::default();
        for second in 0..SECONDS_MAX as u64 + 10 {
            history.absorb(&heat(second, &[one(0, 1)]));
        }
        let area = Area { bands: 0..=9, seconds: 0..=u64::MAX };
        assert_eq!(history.count(&area), SECONDS_MAX as u64);
    }

    #[test]
    fn few_rows_show_the_bands_with_reads() {
        let mut history = History::default();
        history.absorb(&heat(100, &[one(4, 1), one(5, 1)]));
        assert_eq!(history.grid(2, 4, 1, 101).rows, [7..=7, 6..=6, 5..=5, 4..=4]);
        history.absorb(&heat(102, &[one(9, 1)]));
        assert_eq!(history.grid(2, 4, 1, 101).rows, [9..=9, 8..=8, 7..=7, 4..=6], "the fastest share a row");
        assert_eq!(history.grid(2, 10, 1, 101).rows.len(), 10);
        assert!(history.grid(2, 0, 1, 101).rows.is_empty());
        assert!(History::default().grid(2, 4, 1, 101).rows.is_empty());
    }

    #[test]
    fn the_bands_of_fewer_rows_hold_all_reads() {
        let mut history = History::default();
        history.absorb(&heat(100, &[[1; 10]]));
        for height in 1..=10 {
            let grid = history.grid(1, height, 1, 100);
            let seen: u64 = grid.cells.iter().flatten().flatten().sum();
            assert_eq!((grid.rows.len(), seen), (height, 10));
        }
    }

    #[test]
    fn places_stay_where_they_are_when_columns_move() {
        let mut history = History::default();
        history.absorb(&heat(100, &[one(4, 1); 10]));
        let place = Place { band: 4, second: 105 };
        assert_eq!(history.grid(10, 10, 1, 109).cell_of(place), (5, 5));
        assert_eq!(history.grid(10, 10, 1, 112).cell_of(place), (5, 2));
        assert_eq!(history.grid(10, 10, 1, 199).cell_of(place), (5, 0), "gone to the left");
        assert_eq!(history.grid(10, 10, 1, 103).cell_of(place), (5, 9), "not there yet");
        let grid = history.grid(10, 10, 5, 109);
        assert_eq!(grid.area(99, 99), Some(Area { bands: 0..=0, seconds: 105..=109 }));
        assert_eq!(Grid::default().area(0, 0), None);
    }

    #[test]
    fn areas_join_and_meet() {
        let cell = |band: usize, second: u64| Area { bands: band..=band, seconds: second..=second };
        let area = cell(4, 101).with(&cell(2, 105));
        assert_eq!(area, Area { bands: 2..=4, seconds: 101..=105 });
        assert!(area.meets(&cell(3, 103)) && !area.meets(&cell(5, 103)) && !area.meets(&cell(3, 106)));
    }
}
