//! Where everything stands on a terminal of any size. Pure functions.
//!
//! ```text
//! +--------------------------------+
//! | head: two lines                |
//! | upper: tables, reads or a read |
//! | scans: while there are some    |
//! | heat: title                    |
//! |       gutter | cells           |
//! |       axis                     |
//! | foot: the keys                 |
//! +--------------------------------+
//! ```

use super::app::{ReadColumn, TableColumn};
use crate::api::BANDS;
use ratatui::layout::Rect;
use std::ops::Range;

/// Lines above everything.
const HEAD: u16 = 2;
/// Lines below everything.
const FOOT: u16 = 1;
/// Columns at the left of the heat map, for the bounds of bands.
pub(super) const GUTTER: u16 = 7;
/// Bands of the heat map, its title and its axis.
const HEAT_MAX: u16 = BANDS as u16 + 2;
/// Tables with bulk reads that are shown at the most.
const SCANS_MAX: usize = 3;
/// Lines below which bulk reads have no room.
const SCANS_FROM: u16 = 16;
/// Lines below which there is room for one pane only.
const BOTH_MIN: u16 = 10;

/// What the upper pane shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upper {
    /// The table of tables.
    Tables,
    /// The list of reads.
    Reads,
    /// One read, which takes all the room there is.
    Read,
}

/// Where everything stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Panes {
    /// The node, and what is wrong.
    pub(super) head: Rect,
    /// Tables, reads or a read; may be empty.
    pub(super) upper: Rect,
    /// The bulk reads under way, below a title; may be empty.
    pub(super) scans: Rect,
    /// The heat map with title, gutter and axis; may be empty.
    pub(super) heat: Rect,
    /// The keys.
    pub(super) foot: Rect,
}

impl Panes {
    /// The panes of a terminal; `None` when it is smaller than 40 by 8. So many tables have bulk reads.
    pub(super) fn of(size: Rect, upper: Upper, heat_has_focus: bool, scanned: usize) -> Option<Panes> {
        if size.width < 40 || size.height < 8 {
            return None;
        }
        let scans = match scanned {
            0 => 0,
            _ if upper == Upper::Read || size.height < SCANS_FROM => 0,
            _ => scanned.min(SCANS_MAX) as u16 + 1,
        };
        let middle = size.height - HEAD - FOOT - scans;
        let heat = match upper {
            Upper::Read => 0,
            _ if middle < BOTH_MIN => {
                if heat_has_focus {
                    middle
                } else {
                    0
                }
            }
            Upper::Tables => (middle * 2).div_ceil(3).min(HEAT_MAX),
            Upper::Reads => (middle / 2).min(HEAT_MAX),
        };
        let line = |y: u16, height: u16| Rect::new(size.x, size.y + y, size.width, height);
        Some(Panes {
            head: line(0, HEAD),
            upper: line(HEAD, middle - heat),
            scans: line(HEAD + middle - heat, scans),
            heat: line(HEAD + middle - heat + scans, heat),
            foot: line(size.height - FOOT, FOOT),
        })
    }

    /// The cells of the heat map.
    pub(super) fn heat_cells(&self) -> Rect {
        let Rect { x, y, width, height } = self.heat;
        Rect::new(
            x + GUTTER.min(width),
            y + 1.min(height),
            width.saturating_sub(GUTTER),
            height.saturating_sub(2),
        )
    }
}

/// The columns of tables that fit, and where they stand; the first one takes what is left.
pub(super) fn table_columns(width: u16) -> Vec<(TableColumn, Range<u16>)> {
    fit(&TableColumn::ALL, width, |c| c.width(), 0)
}

/// Width from which on reads have all columns: below it the last one needs the room more.
const READS_WHOLE_FROM: u16 = 100;

/// The columns of reads, and where they stand; the last one takes what is left.
pub(super) fn read_columns(width: u16) -> Vec<(ReadColumn, Range<u16>)> {
    let has_room = |c: &ReadColumn| width >= READS_WHOLE_FROM || *c != ReadColumn::Waited;
    let all: Vec<ReadColumn> = ReadColumn::ALL.into_iter().filter(has_room).collect();
    fit(&all, width, |c| c.width(), all.len() - 1)
}

/// As many of the columns as fit, from left to right; `elastic` takes what is left.
fn fit<C: Copy>(all: &[C], width: u16, of: impl Fn(C) -> u16, elastic: usize) -> Vec<(C, Range<u16>)> {
    let mut left = width;
    let mut shown: Vec<(C, u16)> = Vec::new();
    for column in all {
        let Some(rest) = left.checked_sub(of(*column)) else { break };
        left = rest;
        shown.push((*column, of(*column)));
    }
    let at = elastic.min(shown.len().saturating_sub(1));
    if let Some((_, width)) = shown.get_mut(at) {
        *width += left;
    }
    let mut x = 0;
    let place = |(column, width): (C, u16)| {
        let room = x..x + width;
        x += width;
        (column, room)
    };
    shown.into_iter().map(place).collect()
}

/// The first of the lines that are shown, so that the current one is among them.
pub(super) fn first_line(selected: usize, height: usize) -> usize {
    (selected + 1).saturating_sub(height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panes_fill_every_terminal_and_do_not_overlap() {
        for (width, height) in [(40, 8), (80, 24), (80, 25), (200, 60), (1_000, 400)] {
            for upper in [Upper::Tables, Upper::Reads, Upper::Read] {
                for focus in [false, true] {
                    let scanned = usize::from(width % 7);
                    let panes = Panes::of(Rect::new(0, 0, width, height), upper, focus, scanned).unwrap();
                    let stack = [panes.head, panes.upper, panes.scans, panes.heat, panes.foot];
                    let mut y = 0;
                    for pane in stack {
                        assert_eq!((pane.x, pane.y, pane.width), (0, y, width));
                        y += pane.height;
                    }
                    assert_eq!(y, height);
                    assert!(panes.heat.height == 0 || panes.heat_cells().bottom() < panes.heat.bottom());
                }
            }
        }
        assert_eq!(Panes::of(Rect::new(0, 0, 39, 24), Upper::Tables, false, 0), None);
        assert_eq!(Panes::of(Rect::new(0, 0, 80, 7), Upper::Tables, false, 0), None);
    }

    #[test]
    fn twelve_bands_fit_beside_the_tables_on_80_by_24() {
        let panes = Panes::of(Rect::new(0, 0, 80, 24), Upper::Tables, false, 0).unwrap();
        assert_eq!((panes.heat_cells().height, panes.heat_cells().width, panes.upper.height), (12, 73, 7));
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_the_rest_takes_the_room() {
        let columns = table_columns(80);
        assert_eq!(columns.last().map(|(c, room)| (*c, room.end)), Some((TableColumn::Tombstones, 80)));
        assert_eq!(columns[0], (TableColumn::Table, 0..21));
        assert_eq!(table_columns(200).len(), TableColumn::ALL.len());
        assert_eq!(
            read_columns(80).last().map(|(c, room)| (*c, room.clone())),
            Some((ReadColumn::What, 61..80))
        );
        assert_eq!(read_columns(100).len(), ReadColumn::ALL.len());
        assert!(table_columns(3).is_empty());
    }

    #[test]
    fn the_current_line_is_shown() {
        assert_eq!([first_line(0, 5), first_line(4, 5), first_line(5, 5), first_line(9, 0)], [0, 0, 1, 10]);
    }
}
