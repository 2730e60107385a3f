//! The heat map's cursor and selection.

use super::super::history::{Area, Place};
use super::super::text;
use super::{Action, App, Focus};
use crate::api::Band;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Seconds of a column.
const STEPS: [u64; 6] = [1, 2, 5, 10, 30, 60];

/// Cursor, selection, seconds of a column.
#[derive(Debug, Default)]
pub(in crate::top) struct HeatPane {
    /// The cursor; while nobody has moved it, it is at the newest column.
    pub(in crate::top) cursor: Option<Place>,
    /// The other corner of the selection.
    pub(in crate::top) anchor: Option<Place>,
    /// The selection whose reads are listed.
    pub(in crate::top) listed: Option<Area>,
    zoom: usize,
}

impl HeatPane {
    /// Seconds of a column.
    pub(in crate::top) fn step(&self) -> u64 {
        STEPS.get(self.zoom).copied().unwrap_or(1)
    }

    /// Fewer seconds in a column, or more.
    pub(super) fn zoom(&mut self, by: isize) {
        self.zoom = self.zoom.saturating_add_signed(-by).min(STEPS.len() - 1);
    }
}

/// The bounds of bands, in words: `2ms-10ms`, `10s and more`.
pub(in crate::top) fn bands_text(bands: &std::ops::RangeInclusive<usize>, all: &[Band]) -> String {
    let from = all.get(*bands.start()).map_or(0, |band| band.from_micros);
    match all.get(*bands.end()).and_then(|band| band.to_micros) {
        Some(to) => format!("{}-{}", text::bound(from), text::bound(to)),
        None => format!("{} and more", text::bound(from)),
    }
}

/// An area in words.
pub(super) fn title(area: &Area, bands: &[Band], count: u64) -> String {
    let (from, to) = (*area.seconds.start(), *area.seconds.end());
    let time = match from == to {
        true => text::time_of_day(from),
        false => format!("{} to {}", text::time_of_day(from), text::time_of_day(to)),
    };
    format!("{} at {time}: {} reads", bands_text(&area.bands, bands), text::number(count as f64))
}

impl App {
    /// Row and column of the cursor.
    pub(in crate::top) fn cursor_cell(&self) -> (usize, usize) {
        let grid = self.grid();
        match self.heat.cursor {
            Some(place) => grid.cell_of(place),
            // The slowest reads of the newest column that has any.
            None => {
                let columns = grid.columns.len();
                let hot_row = |column: usize| {
                    let is_hot = |row: &Vec<Option<u64>>| row.get(column).is_some_and(|cell| *cell > Some(0));
                    Some((grid.cells.iter().position(is_hot)?, column))
                };
                (0..columns).rev().find_map(hot_row).unwrap_or((0, columns.saturating_sub(1)))
            }
        }
    }

    /// What is selected, or under the cursor if nothing is.
    pub(in crate::top) fn selection(&self) -> Option<Area> {
        let grid = self.grid();
        let (row, column) = self.cursor_cell();
        let here = grid.area(row, column)?;
        let Some(anchor) = self.heat.anchor else { return Some(here) };
        let (row, column) = grid.cell_of(anchor);
        Some(here.with(&grid.area(row, column)?))
    }

    /// Puts the cursor on a cell, or the nearest one.
    pub(super) fn point_at(&mut self, row: usize, column: usize) {
        if let Some(area) = self.grid().area(row, column) {
            self.heat.cursor = Some(Place { band: *area.bands.end(), second: *area.seconds.start() });
        }
    }

    fn move_cursor(&mut self, rows: isize, columns: isize) {
        let (row, column) = self.cursor_cell();
        self.point_at(row.saturating_add_signed(rows), column.saturating_add_signed(columns));
    }

    /// Fixes the corner of a selection where the cursor is.
    pub(super) fn drop_anchor(&mut self) {
        let (row, column) = self.cursor_cell();
        self.point_at(row, column);
        self.heat.anchor = self.heat.cursor;
    }

    pub(super) fn key_in_heat(&mut self, key: KeyEvent) -> Action {
        let step = match key.code {
            KeyCode::Up | KeyCode::Char('k') => Some((-1, 0)),
            KeyCode::Down | KeyCode::Char('j') => Some((1, 0)),
            KeyCode::Left => Some((0, -1)),
            KeyCode::Right | KeyCode::Char('l') => Some((0, 1)),
            KeyCode::PageUp => Some((0, -10)),
            KeyCode::PageDown => Some((0, 10)),
            KeyCode::Home => Some((0, -(u16::MAX as isize))),
            KeyCode::End => Some((0, u16::MAX as isize)),
            _ => None,
        };
        if let Some((rows, columns)) = step {
            if key.modifiers.contains(KeyModifiers::SHIFT) && self.heat.anchor.is_none() {
                self.drop_anchor();
            }
            self.move_cursor(rows, columns);
            return Action::Draw;
        }
        match key.code {
            KeyCode::Char(' ' | 'v') if self.heat.anchor.is_some() => self.heat.anchor = None,
            KeyCode::Char(' ' | 'v') => self.drop_anchor(),
            KeyCode::Char('b') => self.select_row(),
            KeyCode::Enter => return self.list_selection(),
            KeyCode::Esc if self.heat.anchor.is_some() => self.heat.anchor = None,
            KeyCode::Esc if self.reads.is_some() => self.close_reads(),
            KeyCode::Esc => self.heat.cursor = None,
            _ => {}
        }
        Action::Draw
    }

    /// Selects the band of the cursor over all columns.
    fn select_row(&mut self) {
        let (row, _) = self.cursor_cell();
        self.point_at(row, 0);
        self.heat.anchor = self.heat.cursor;
        self.point_at(row, usize::MAX);
    }

    /// Opens the list of the reads of the selection.
    pub(super) fn list_selection(&mut self) -> Action {
        let Some(area) = self.selection() else { return Action::Draw };
        let action = self.list_area(&area);
        self.heat.listed = Some(area);
        self.heat.anchor = None;
        action
    }

    /// Closes the list of reads.
    pub(super) fn close_reads(&mut self) {
        self.reads = None;
        self.heat.listed = None;
        self.heat.anchor = None;
        if self.focus == Focus::Reads {
            self.focus = Focus::Tables;
        }
    }
}
