//! Rows as a table for people: a line for each row and marker, deleted and expiring ones with a note.
//!
//! Lines are laid out in pages, so that any number of them takes little memory; long values are cut.

use super::super::output::Output;
use super::json::{Style, path_text, value_type};
use super::{Sink, times};
use model::{Cell, ColumnDef, CqlType, DecoratedKey, Row, TableSchema, counter};
use partition::{Event, Fragment, RangeChange};
use std::io;
use std::sync::Arc;

const PAGE_LINES: usize = 200;
const CELL_CHARS_MAX: usize = 40;

/// Lays rows out as they come.
pub(super) struct RowTable<'o> {
    out: &'o mut Output,
    table: Arc<TableSchema>,
    style: Style,
    widths: Vec<usize>,
    page: Vec<Vec<String>>,
    header_done: bool,
    key: Vec<String>,
}

fn cut(text: String) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() <= CELL_CHARS_MAX {
        return text;
    }
    text.chars().take(CELL_CHARS_MAX - 1).chain(['…']).collect()
}

impl<'o> RowTable<'o> {
    pub(super) fn new(out: &'o mut Output, table: Arc<TableSchema>, style: Style) -> RowTable<'o> {
        RowTable {
            out,
            table,
            style,
            widths: Vec::new(),
            page: Vec::new(),
            header_done: false,
            key: Vec::new(),
        }
    }

    fn header(&self) -> Vec<String> {
        let table = &self.table;
        let columns = table.partition_key().iter().chain(table.clustering_columns());
        let columns = columns.chain(table.static_columns()).chain(table.regular_columns());
        columns.map(|c| cut(c.name.clone())).chain(["note".to_owned()]).collect()
    }

    fn time(&self, micros: i64) -> String {
        if self.style.raw_times { micros.to_string() } else { times::of_micros(micros) }
    }

    fn start(&mut self, key: &DecoratedKey) {
        let columns = self.table.partition_key().iter().enumerate();
        let count = self.table.partition_key().len();
        self.key = columns.map(|(i, c)| c.ty.to_literal(key.key.component(count, i))).collect();
    }

    fn line(&mut self, clustering: &[String], cells: &[String], note: String) -> io::Result<()> {
        let table = &self.table;
        let pad = |cells: &[String], len: usize| {
            (0..len).map(|i| cells.get(i).cloned().unwrap_or_default()).collect::<Vec<_>>()
        };
        let mut line: Vec<String> = self.key.iter().cloned().map(cut).collect();
        line.extend(pad(clustering, table.clustering_columns().len()).into_iter().map(cut));
        let count = table.static_columns().len() + table.regular_columns().len();
        line.extend(pad(cells, count).into_iter().map(cut));
        line.push(note);
        self.page.push(line);
        if self.page.len() >= PAGE_LINES { self.flush() } else { Ok(()) }
    }

    fn row(&mut self, row: &Row, is_static: bool) -> io::Result<()> {
        let table = Arc::clone(&self.table);
        let mut notes = Vec::new();
        if !row.deletion.is_none() {
            notes.push(format!("deleted up to {}", self.time(row.deletion.timestamp)));
        }
        let expiring = row.cells.iter().filter(|c| c.is_expiring()).map(|c| c.local_deletion_time);
        let liveness = Some(&row.liveness).filter(|l| l.is_expiring()).map(|l| l.local_expiration_time);
        if let Some(first) = expiring.chain(liveness).min() {
            let verb = if i64::from(first) <= self.style.now_s { "expired" } else { "expires" };
            notes.push(format!("{verb} {}", times::of_seconds(i64::from(first))));
        }
        let statics = table.static_columns().iter().map(|c| (c, is_static));
        let regulars = table.regular_columns().iter().map(|c| (c, !is_static));
        let cells: Vec<String> = statics
            .chain(regulars)
            .map(|(column, here)| if here { column_text(column, row) } else { String::new() })
            .collect();
        let columns = table.clustering_columns().iter().enumerate();
        let clustering: Vec<String> = match is_static {
            true => vec!["(static)".to_owned()],
            false => columns.map(|(i, c)| c.ty.to_literal(row.clustering.value(i))).collect(),
        };
        self.line(&clustering, &cells, notes.join(", "))
    }

    fn change(&mut self, change: &RangeChange) -> io::Result<()> {
        let prefix = &change.position.prefix;
        let columns = self.table.clustering_columns().iter().enumerate().take(prefix.len());
        let clustering: Vec<String> = columns.map(|(i, c)| c.ty.to_literal(prefix.value(i))).collect();
        let side = if change.position.kind == model::BoundKind::InclStart { "before" } else { "after" };
        let note = match change.deletion.is_none() {
            true => format!("deleted range ends {side} this"),
            false => format!("deleted up to {} from {side} this", self.time(change.deletion.timestamp)),
        };
        self.line(&clustering, &[], note)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut lines = std::mem::take(&mut self.page);
        if !std::mem::replace(&mut self.header_done, true) {
            lines.insert(0, self.header());
        }
        let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
        self.widths.resize(columns, 0);
        for line in &lines {
            for (width, cell) in self.widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for line in lines {
            let cells: Vec<String> =
                line.iter().zip(&self.widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            self.out.line(cells.join(" | ").trim_end().trim_end_matches(" |"))?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}

fn scalar_text(column: &ColumnDef, cell: &Cell) -> String {
    match &column.ty {
        _ if cell.is_tombstone() => "<deleted>".to_owned(),
        CqlType::Counter => counter::total(&cell.value).to_string(),
        ty => value_type(ty, &cell.path).to_literal(Some(&cell.value)),
    }
}

/// The cells of a column, as CQL.
fn column_text(column: &ColumnDef, row: &Row) -> String {
    let cells = row.cells_of(column.id);
    if !column.is_multi_cell() {
        return cells.first().map(|cell| scalar_text(column, cell)).unwrap_or_default();
    }
    let deleted = row.complex_deletions.iter().any(|(id, _)| *id == column.id);
    if cells.is_empty() {
        return if deleted { "<deleted>".to_owned() } else { String::new() };
    }
    let path = |cell: &Cell| match (&column.ty, column.ty.path_type()) {
        (CqlType::Udt { .. }, _) | (_, None) => path_text(&column.ty, &cell.path),
        (_, Some(ty)) => ty.to_literal(Some(&cell.path)),
    };
    let items: Vec<String> = cells
        .iter()
        .map(|cell| match &column.ty {
            CqlType::List { .. } => scalar_text(column, cell),
            CqlType::Set { .. } if cell.is_tombstone() => format!("{} <deleted>", path(cell)),
            CqlType::Set { .. } => path(cell),
            _ => format!("{}: {}", path(cell), scalar_text(column, cell)),
        })
        .collect();
    match column.ty {
        CqlType::List { .. } => format!("[{}]", items.join(", ")),
        _ => format!("{{{}}}", items.join(", ")),
    }
}

impl Sink for RowTable<'_> {
    fn take(&mut self, event: Event, fragment: &Fragment, _position: u64) -> io::Result<()> {
        match event {
            Event::PartitionStart => {
                self.start(&fragment.key);
                if !fragment.deletion.is_none() {
                    let note = format!("partition deleted up to {}", self.time(fragment.deletion.timestamp));
                    self.line(&[], &[], note)?;
                }
                Ok(())
            }
            Event::StaticRow => self.row(&fragment.row, true),
            Event::Row => self.row(&fragment.row, false),
            Event::RangeChange => self.change(&fragment.change),
            Event::PartitionEnd | Event::End => Ok(()),
        }
    }
}
