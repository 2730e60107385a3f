//! The table of tables: which columns it has, their order, the line on which the keys act.

use super::super::rates::Rates;
use super::super::text;
use super::{Action, App};
use crate::api::SampleQuery;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use std::cmp::Ordering;

/// A column, by which tables can be sorted too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) enum TableColumn {
    Table,
    Reads,
    P50,
    P99,
    P999,
    Hits,
    Amplification,
    Sstables,
    Tombstones,
    Ios,
    DiskBytes,
    Rows,
    Max,
}

use TableColumn as C;

impl TableColumn {
    /// All columns, those first that are shown first.
    pub(in crate::top) const ALL: [TableColumn; 13] = [
        C::Table,
        C::Reads,
        C::P50,
        C::P99,
        C::P999,
        C::Hits,
        C::Amplification,
        C::Sstables,
        C::Tombstones,
        C::Ios,
        C::DiskBytes,
        C::Rows,
        C::Max,
    ];

    /// What stands above it.
    pub(in crate::top) fn title(self) -> &'static str {
        match self {
            C::Table => "TABLE",
            C::Reads => "READS/S",
            C::P50 => "P50",
            C::P99 => "P99",
            C::P999 => "P99.9",
            C::Hits => "HIT%",
            C::Amplification => "AMP",
            C::Sstables => "SST",
            C::Tombstones => "TOMB",
            C::Ios => "IO",
            C::DiskBytes => "DISK/S",
            C::Rows => "ROWS",
            C::Max => "MAX",
        }
    }

    /// Characters, with the gap before it; of the first column at least.
    pub(in crate::top) fn width(self) -> u16 {
        match self {
            C::Table => 20,
            C::Reads | C::P50 | C::P99 | C::P999 | C::DiskBytes | C::Max => 8,
            C::Hits | C::Amplification | C::Tombstones | C::Ios | C::Rows => 7,
            C::Sstables => 6,
        }
    }

    /// What stands in it.
    pub(in crate::top) fn text(self, of: &Rates) -> String {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let number = |value: Option<f64>| or_dash(value.map(text::number));
        let duration = |value: Option<u64>| or_dash(value.map(text::duration));
        match self {
            C::Table if of.table.is_empty() => "all".to_owned(),
            C::Table => format!("{}.{}", of.keyspace, of.table),
            C::Reads => text::number(of.reads_per_second.round()),
            C::P50 => duration(of.p50_micros),
            C::P99 => duration(of.p99_micros),
            C::P999 => duration(of.p999_micros),
            C::Hits => or_dash(of.hit_ratio.map(|part| format!("{:.1}", (part * 1e3).floor() / 1e1))),
            C::Amplification => number(of.read_amplification),
            C::Sstables => number(of.sstables),
            C::Tombstones => number(of.tombstones),
            C::Ios => number(of.ios),
            C::DiskBytes => text::bytes(of.disk_bytes_per_second),
            C::Rows => number(of.rows),
            C::Max => duration(of.max_micros),
        }
    }

    fn compare(self, a: &Rates, b: &Rates) -> Ordering {
        let number = |of: fn(&Rates) -> Option<f64>| of(a).unwrap_or(-1.0).total_cmp(&of(b).unwrap_or(-1.0));
        match self {
            C::Table => (&a.keyspace, &a.table).cmp(&(&b.keyspace, &b.table)),
            C::Reads => a.reads_per_second.total_cmp(&b.reads_per_second),
            C::P50 => a.p50_micros.cmp(&b.p50_micros),
            C::P99 => a.p99_micros.cmp(&b.p99_micros),
            C::P999 => a.p999_micros.cmp(&b.p999_micros),
            C::Hits => number(|r| r.hit_ratio),
            C::Amplification => number(|r| r.read_amplification),
            C::Sstables => number(|r| r.sstables),
            C::Tombstones => number(|r| r.tombstones),
            C::Ios => number(|r| r.ios),
            C::DiskBytes => a.disk_bytes_per_second.total_cmp(&b.disk_bytes_per_second),
            C::Rows => number(|r| r.rows),
            C::Max => a.max_micros.cmp(&b.max_micros),
        }
    }

    /// Whether one looks for its smallest values first.
    fn ascends(self) -> bool {
        matches!(self, C::Table | C::Hits)
    }
}

/// Order and current line.
#[derive(Debug)]
pub(in crate::top) struct TablesPane {
    /// The column by which tables are sorted.
    pub(in crate::top) sort: TableColumn,
    /// Whether against the column's own direction.
    pub(in crate::top) is_reversed: bool,
    /// The current line.
    pub(in crate::top) selected: usize,
}

impl Default for TablesPane {
    fn default() -> Self {
        TablesPane { sort: C::Reads, is_reversed: false, selected: 0 }
    }
}

impl TablesPane {
    /// Whether the smallest values come first.
    pub(in crate::top) fn is_ascending(&self) -> bool {
        self.sort.ascends() != self.is_reversed
    }

    /// Sorts by a column; by the same one again, in the other direction.
    pub(in crate::top) fn sort_by(&mut self, column: TableColumn) {
        self.is_reversed = self.sort == column && !self.is_reversed;
        self.sort = column;
    }

    fn sort_by_next(&mut self, step: usize) {
        let at = C::ALL.iter().position(|column| *column == self.sort).unwrap_or(0);
        self.sort = C::ALL.get((at + step) % C::ALL.len()).copied().unwrap_or(C::Reads);
        self.is_reversed = false;
    }
}

/// Keyspaces of the node itself.
fn is_system(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}

impl App {
    /// The tables as they are shown.
    pub(in crate::top) fn sorted_tables(&self) -> Vec<&Rates> {
        let pane = &self.tables;
        let mut tables: Vec<&Rates> =
            self.interval.tables.iter().filter(|t| self.shows_system || !is_system(&t.keyspace)).collect();
        tables.sort_by(|a, b| {
            let order = pane.sort.compare(a, b);
            let order = if pane.is_ascending() { order } else { order.reverse() };
            order.then_with(|| C::Table.compare(a, b))
        });
        tables
    }

    pub(super) fn key_in_tables(&mut self, key: KeyEvent) -> Action {
        let last = self.sorted_tables().len().saturating_sub(1);
        let pane = &mut self.tables;
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => pane.selected = pane.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => pane.selected = (pane.selected + 1).min(last),
            KeyCode::Home => pane.selected = 0,
            KeyCode::End => pane.selected = last,
            KeyCode::Right | KeyCode::Char('s') => pane.sort_by_next(1),
            KeyCode::Left | KeyCode::Char('S') => pane.sort_by_next(C::ALL.len() - 1),
            KeyCode::Char('r') => pane.is_reversed = !pane.is_reversed,
            KeyCode::Enter => return self.list_table(),
            _ => {}
        }
        Action::Draw
    }

    /// Opens the list of the reads of the current table.
    fn list_table(&mut self) -> Action {
        let tables = self.sorted_tables();
        let Some(table) = tables.get(self.tables.selected) else { return Action::Draw };
        let (keyspace, name) = (table.keyspace.clone(), table.table.clone());
        let query = SampleQuery {
            keyspace: Some(keyspace.clone()),
            table: Some(name.clone()),
            ..SampleQuery::default()
        };
        self.list(format!("reads of {keyspace}.{name}"), query)
    }
}
