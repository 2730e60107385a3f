//! `system.compaction_history`: a row for each compaction that came to its end, which is kept for a week. The
//! table's own compactions and scrubs are left out, as in Cassandra
//! (`SystemKeyspace.updateCompactionHistory`).

use super::merges::MergedRows;
use super::task::{CompactionKind, Task};
use crate::background::Background;
use crate::system::SYSTEM;
use bytes::Bytes;
use model::{
    Cell, Clustering, DecoratedKey, Liveness, Mutation, PartitionKey, PartitionUpdate, Row, TableSchema,
};
use sstable::SsTable;
use std::sync::Arc;

const COMPACTION_HISTORY: &str = "compaction_history";

impl Background {
    /// Writes down a compaction that is over. One that cannot be written down is forgotten: it has happened
    /// all the same.
    pub(super) fn record_compaction(&self, task: &Task, outputs: &[Arc<SsTable>], merged: &MergedRows) {
        let compacted = task.table.schema();
        let is_of_history = compacted.keyspace == SYSTEM && compacted.name == COMPACTION_HISTORY;
        if is_of_history || task.kind == CompactionKind::Scrub {
            return;
        }
        let table = self.catalog.system_table(COMPACTION_HISTORY);
        let bytes_in: u64 = task.all().map(|t| t.data_file_bytes()).sum();
        let bytes_out: u64 = outputs.iter().map(|t| t.data_file_bytes()).sum();
        let micros = self.catalog.env.now_micros();
        let values: [(&str, Bytes); 6] = [
            ("bytes_in", (bytes_in as i64).to_be_bytes().to_vec().into()),
            ("bytes_out", (bytes_out as i64).to_be_bytes().to_vec().into()),
            ("columnfamily_name", compacted.name.clone().into()),
            ("compacted_at", (micros / 1_000).to_be_bytes().to_vec().into()),
            ("compaction_properties", properties(task.kind.name())),
            ("keyspace_name", compacted.keyspace.clone().into()),
        ];
        let mut row = NewRow::of(&table, micros);
        values.into_iter().for_each(|(column, value)| row.set(column, Bytes::new(), value));
        for (inputs, partitions) in merged {
            let (inputs, partitions) = (i64::from(*inputs) as i32, *partitions as i64);
            let path = Bytes::copy_from_slice(&inputs.to_be_bytes());
            row.set("rows_merged", path, Bytes::copy_from_slice(&partitions.to_be_bytes()));
        }
        let key = DecoratedKey::new(PartitionKey::from_components(&[task.id.as_bytes()]));
        let mut update = PartitionUpdate::new(Arc::clone(&table), key);
        update.rows.push(row.finish());
        if let Err(error) = self.writing.apply_at_once(&Mutation::of(update)) {
            tracing::debug!(%error, "a compaction is missing from the history");
        }
    }
}

/// A row whose cells expire as the table says.
struct NewRow<'t> {
    table: &'t TableSchema,
    row: Row,
    micros: i64,
    ttl_s: i32,
    expires_s: u32,
}

impl NewRow<'_> {
    fn of(table: &TableSchema, micros: i64) -> NewRow<'_> {
        let ttl_s = table.options.default_time_to_live;
        let expires_s = u32::try_from(micros / 1_000_000 + i64::from(ttl_s)).unwrap_or(u32::MAX - 1);
        let mut row = Row::new(Clustering::empty());
        row.liveness = Liveness::expiring(micros, ttl_s, expires_s);
        NewRow { table, row, micros, ttl_s, expires_s }
    }

    /// Sets a cell, unless the directory's release does not have the column.
    fn set(&mut self, column: &str, path: Bytes, value: Bytes) {
        if let Some(column) = self.table.column(column) {
            let cell = Cell::expiring(column.id, self.micros, self.ttl_s, self.expires_s, value);
            self.row.cells.push(cell.with_path(path));
        }
    }

    fn finish(mut self) -> Row {
        self.row.cells.sort_by(|a, b| (a.column, &a.path).cmp(&(b.column, &b.path)));
        self.row
    }
}

/// A frozen map of texts with the one entry that there is.
fn properties(kind: &str) -> Bytes {
    let mut out = 1i32.to_be_bytes().to_vec();
    for text in ["compaction_type", kind] {
        out.extend_from_slice(&(text.len() as i32).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    out.into()
}
