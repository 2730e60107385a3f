//! The list of reads: what is in it, its order, the read that is open.

use super::super::layout::read_columns;
use super::super::text;
use super::{Action, App};
use crate::api::{ReadSample, SampleQuery};
use ratatui::crossterm::event::{KeyCode, KeyEvent};

/// A column, by which reads can be sorted too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) enum ReadColumn {
    Time,
    Took,
    Waited,
    Sstables,
    Ios,
    DiskBytes,
    Returned,
    Tombstones,
    Table,
    What,
}

use ReadColumn as C;

impl ReadColumn {
    /// All columns from left to right.
    pub(in crate::top) const ALL: [ReadColumn; 10] = [
        C::Time,
        C::Took,
        C::Waited,
        C::Sstables,
        C::Ios,
        C::DiskBytes,
        C::Returned,
        C::Tombstones,
        C::Table,
        C::What,
    ];

    /// What stands above it.
    pub(in crate::top) fn title(self) -> &'static str {
        match self {
            C::Time => "TIME",
            C::Took => "TOOK",
            C::Waited => "WAIT",
            C::Sstables => "SST",
            C::Ios => "IO",
            C::DiskBytes => "READ",
            C::Returned => "ANSWER",
            C::Tombstones => "TOMB",
            C::Table => "TABLE",
            C::What => "WHERE, STATEMENT",
        }
    }

    /// Characters with the gap before it; the last column takes what is left.
    pub(in crate::top) fn width(self) -> u16 {
        match self {
            C::Time | C::Took | C::Waited => 8,
            C::Sstables => 4,
            C::Ios => 5,
            C::DiskBytes | C::Returned => 7,
            C::Tombstones => 6,
            C::Table => 16,
            C::What => 10,
        }
    }

    /// Whether it stands at the left of its room.
    pub(in crate::top) fn is_text(self) -> bool {
        matches!(self, C::Time | C::Table | C::What)
    }

    /// What stands in it.
    pub(in crate::top) fn text(self, of: &ReadSample) -> String {
        let count = |name: &str| text::number(cost(of, name) as f64);
        let bytes = |name: &str| text::bytes(cost(of, name) as f64);
        match self {
            C::Time => text::time_of_day(of.second),
            C::Took => text::duration(of.micros),
            C::Waited => text::duration(waited(of)),
            C::Sstables => count("sstables_read"),
            C::Ios => count("ios"),
            C::DiskBytes => bytes("disk_bytes"),
            C::Returned => bytes("returned_bytes"),
            C::Tombstones => count("tombstones_left"),
            C::Table => text::one_line(&format!("{}.{}", of.keyspace, of.table)),
            C::What => {
                let failed = if of.failure.is_some() { "FAILED " } else { "" };
                text::one_line(format!("{failed}{} {}", of.restriction, of.statement).trim_start())
            }
        }
    }

    fn key(self, of: &ReadSample) -> u64 {
        match self {
            C::Time => of.at_millis.max(0) as u64,
            C::Waited => waited(of),
            C::Sstables => cost(of, "sstables_read"),
            C::Ios => cost(of, "ios"),
            C::DiskBytes => cost(of, "disk_bytes"),
            C::Returned => cost(of, "returned_bytes"),
            C::Tombstones => cost(of, "tombstones_left"),
            C::Took | C::Table | C::What => of.micros,
        }
    }
}

/// Microseconds that a read waited, for whatever it was.
fn waited(of: &ReadSample) -> u64 {
    of.reader_wait_micros.saturating_add(of.proof_wait_micros)
}

/// What was counted; what is not there is 0.
pub(in crate::top) fn cost(of: &ReadSample, name: &str) -> u64 {
    of.cost.get(name).copied().unwrap_or(0)
}

/// The list.
#[derive(Debug)]
pub(in crate::top) struct ReadsPane {
    /// What was asked for, in words.
    pub(in crate::top) title: String,
    /// What was asked for.
    pub(in crate::top) query: SampleQuery,
    /// The reads in their order; nothing while the node has not answered.
    pub(in crate::top) found: Option<Result<Vec<ReadSample>, String>>,
    /// The column by which reads are sorted, the largest first.
    pub(in crate::top) sort: ReadColumn,
    /// The current line.
    pub(in crate::top) selected: usize,
    /// Whether the current read is shown whole.
    pub(in crate::top) is_open: bool,
}

impl ReadsPane {
    pub(super) fn new(title: String, query: SampleQuery) -> ReadsPane {
        ReadsPane { title, query, found: None, sort: C::Took, selected: 0, is_open: false }
    }

    pub(super) fn take(&mut self, answer: Result<Vec<ReadSample>, String>) {
        self.found = Some(answer);
        self.put_in_order();
    }

    fn put_in_order(&mut self) {
        let sort = self.sort;
        if let Some(Ok(reads)) = &mut self.found {
            reads.sort_by_key(|read| std::cmp::Reverse((sort.key(read), read.micros, read.at_millis)));
        }
    }

    /// How many reads there are.
    pub(in crate::top) fn len(&self) -> usize {
        self.found.as_ref().and_then(|found| found.as_ref().ok()).map_or(0, Vec::len)
    }

    /// The current read.
    pub(in crate::top) fn current(&self) -> Option<&ReadSample> {
        self.found.as_ref()?.as_ref().ok()?.get(self.selected)
    }

    /// Sorts by a column of numbers.
    pub(super) fn sort_by(&mut self, column: ReadColumn) {
        if !matches!(column, C::Table | C::What) {
            self.sort = column;
            self.selected = 0;
            self.put_in_order();
        }
    }

    /// Sorts by the next of the columns of numbers that a window of this width shows, or by the one before.
    fn sort_by_next(&mut self, is_forward: bool, width: u16) {
        let shown = read_columns(width).into_iter().map(|(column, _)| column);
        let numbers: Vec<ReadColumn> = shown.filter(|column| !matches!(column, C::Table | C::What)).collect();
        let at = numbers.iter().position(|column| *column == self.sort).unwrap_or(0);
        let step = if is_forward { 1 } else { numbers.len().saturating_sub(1) };
        self.sort_by(numbers.get((at + step) % numbers.len().max(1)).copied().unwrap_or(C::Took));
    }
}

impl App {
    pub(super) fn key_in_reads(&mut self, key: KeyEvent) -> Action {
        let width = self.size.width;
        let Some(pane) = &mut self.reads else { return Action::Draw };
        let last = pane.len().saturating_sub(1);
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => pane.selected = pane.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => pane.selected = (pane.selected + 1).min(last),
            KeyCode::PageUp => pane.selected = pane.selected.saturating_sub(10),
            KeyCode::PageDown => pane.selected = (pane.selected + 10).min(last),
            KeyCode::Home => pane.selected = 0,
            KeyCode::End => pane.selected = last,
            KeyCode::Right | KeyCode::Char('s') if !pane.is_open => pane.sort_by_next(true, width),
            KeyCode::Left | KeyCode::Char('S') if !pane.is_open => pane.sort_by_next(false, width),
            KeyCode::Enter => pane.is_open = !pane.is_open && pane.current().is_some(),
            KeyCode::Char('u') => return Action::Fetch(pane.query.clone()),
            KeyCode::Esc if pane.is_open => pane.is_open = false,
            KeyCode::Esc => self.close_reads(),
            _ => {}
        }
        Action::Draw
    }
}
