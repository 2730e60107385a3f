//! Rows and markers a line each, as sstabledump prints them with `-d`.

use super::super::output::Output;
use super::json::path_text;
use super::{Sink, key_text};
use model::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnDef, CqlType, DecoratedKey, Deletion, Row,
    TableSchema, counter,
};
use partition::{Event, Fragment};
use std::fmt::Write;
use std::io;
use std::sync::Arc;

/// Writes lines as fragments come.
pub(super) struct InternalDump<'o> {
    out: &'o mut Output,
    table: Arc<TableSchema>,
    key: String,
    /// The deletion of a partition whose rows have not begun yet.
    deletion: Deletion,
    open: Deletion,
}

fn deletion_text(deletion: &Deletion) -> String {
    format!("deletedAt={}, localDeletion={}", deletion.timestamp, deletion.local_deletion_time)
}

impl<'o> InternalDump<'o> {
    pub(super) fn new(out: &'o mut Output, table: Arc<TableSchema>) -> InternalDump<'o> {
        InternalDump { out, table, key: String::new(), deletion: Deletion::NONE, open: Deletion::NONE }
    }

    fn start(&mut self, key: &DecoratedKey, deletion: Deletion) {
        self.key = key_text(&self.table, key);
        self.deletion = deletion;
        self.open = Deletion::NONE;
    }

    /// The line of the partition's deletion, once it is known where its rows start.
    fn begin(&mut self, position: u64) -> io::Result<()> {
        let deletion = std::mem::replace(&mut self.deletion, Deletion::NONE);
        if deletion.is_none() {
            return Ok(());
        }
        self.line(position, &deletion_text(&deletion))
    }

    fn line(&mut self, position: u64, text: &str) -> io::Result<()> {
        self.out.line(&format!("[{}]@{position} {text}", self.key))
    }

    fn row(&mut self, row: &Row, is_static: bool, position: u64) -> io::Result<()> {
        self.begin(position)?;
        let mut out = String::from("Row[info=[");
        let liveness = &row.liveness;
        let _ = write!(out, "ts={}", liveness.timestamp);
        if liveness.is_expiring() {
            let _ = write!(out, " ttl={}, let={}", liveness.ttl, liveness.local_expiration_time);
        }
        out.push(']');
        if !row.deletion.is_none() {
            let kind = if row.is_shadowable { "(shadowable)" } else { "" };
            let _ = write!(out, " del={}{kind}", deletion_text(&row.deletion));
        }
        out.push_str(" ]: ");
        out.push_str(&match is_static {
            true => "STATIC".to_owned(),
            false => self.literals(&row.clustering),
        });
        out.push_str(" | ");
        let table = Arc::clone(&self.table);
        let columns = if is_static { table.static_columns() } else { table.regular_columns() };
        let mut is_first = true;
        for column in columns {
            let deletion = row.complex_deletions.iter().find(|(id, _)| *id == column.id);
            let cells = row.cells_of(column.id);
            if deletion.is_none() && cells.is_empty() {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                out.push_str(", ");
            }
            if let Some((_, deletion)) = deletion {
                let _ = write!(out, "del({})={}", column.name, deletion_text(deletion));
            }
            for cell in cells {
                if column.is_multi_cell() {
                    out.push_str(", ");
                }
                out.push_str(&cell_text(column, cell));
            }
        }
        self.line(position, &out)
    }

    fn literals(&self, clustering: &Clustering) -> String {
        let columns = self.table.clustering_columns().iter().enumerate();
        columns.map(|(i, c)| c.ty.to_literal(clustering.value(i))).collect::<Vec<_>>().join(", ")
    }

    fn change(&mut self, bound: &ClusteringBound, now: Deletion, position: u64) -> io::Result<()> {
        self.begin(position)?;
        let before = std::mem::replace(&mut self.open, now);
        let is_before = bound.kind == BoundKind::InclStart;
        let at = |deletion: &Deletion| format!("{}/{}", deletion.timestamp, deletion.local_deletion_time);
        let (kind, deletions) = match (before.is_none(), now.is_none(), is_before) {
            (true, _, true) => ("INCL_START_BOUND", at(&now)),
            (true, _, false) => ("EXCL_START_BOUND", at(&now)),
            (false, true, true) => ("EXCL_END_BOUND", at(&before)),
            (false, true, false) => ("INCL_END_BOUND", at(&before)),
            (false, false, true) => ("EXCL_END_INCL_START_BOUNDARY", format!("{}-{}", at(&before), at(&now))),
            (false, false, false) => {
                ("INCL_END_EXCL_START_BOUNDARY", format!("{}-{}", at(&before), at(&now)))
            }
        };
        let columns = self.table.clustering_columns().iter().enumerate().take(bound.prefix.len());
        let values: Vec<String> = columns
            .map(|(i, c)| bound.prefix.value(i).map_or("null".to_owned(), |value| c.ty.to_text(value)))
            .collect();
        self.line(position, &format!("Marker {kind}({})@{deletions}", values.join(", ")))
    }
}

fn cell_text(column: &ColumnDef, cell: &Cell) -> String {
    let name = &column.name;
    if column.ty.is_counter() && !cell.is_tombstone() {
        return format!("[{name}={} ts={}]", counter::total(&cell.value), cell.timestamp);
    }
    let times = if cell.is_expiring() {
        format!("ts={} ttl={} ldt={}", cell.timestamp, cell.ttl, cell.local_deletion_time)
    } else if cell.is_tombstone() {
        format!("ts={} ldt={}", cell.timestamp, cell.local_deletion_time)
    } else {
        format!("ts={}", cell.timestamp)
    };
    let value = |ty: &CqlType| match cell.is_tombstone() {
        true => "<tombstone>".to_owned(),
        // Values of fields are shown as if they were values of the whole type: most are not, and show as
        // bytes.
        false if ty.validate(&cell.value).is_err() => CqlType::Blob.to_literal(Some(&cell.value)),
        false => ty.to_text(&cell.value),
    };
    match &column.ty {
        CqlType::Udt { .. } => format!("[{name}={} {times}]", value(&column.ty)),
        ty if ty.is_multi_cell() => {
            let value = value(super::json::value_type(ty, &cell.path));
            format!("[{name}[{}]={value} {times}]", path_text(ty, &cell.path))
        }
        ty => format!("[{name}={} {times}]", value(ty)),
    }
}

impl Sink for InternalDump<'_> {
    fn take(&mut self, event: Event, fragment: &Fragment, position: u64) -> io::Result<()> {
        match event {
            Event::PartitionStart => {
                self.start(&fragment.key, fragment.deletion);
                Ok(())
            }
            Event::StaticRow => self.row(&fragment.row, true, position),
            Event::Row => self.row(&fragment.row, false, position),
            Event::RangeChange => self.change(&fragment.change.position, fragment.change.deletion, position),
            Event::PartitionEnd => self.begin(position),
            Event::End => Ok(()),
        }
    }
}
