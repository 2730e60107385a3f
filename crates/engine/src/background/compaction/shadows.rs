//! What shadows an SSTable whose garbage is collected: the other SSTables of its table as they are when the
//! run begins.
//!
//! What one of them does to the input it goes on doing while the input is part of the table: a compaction
//! that purges a tombstone looks at the smallest timestamp of what lies outside of it (`guard.rs`), and so at
//! the input's. Requests for one table run one after the other. So two SSTables with the same deletion do
//! not both lose it for the other's sake.

use super::task::Task;
use crate::background::Background;
use model::command::{ClusteringFilter, ColumnSelection};
use model::{DecoratedKey, TableSchema};
use partition::{BoxedStream, Garbage, ReadContext, ReadError, ShadowSource, merge};
use sstable::SsTable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// SSTables that may shadow data of a compaction's inputs.
pub(super) struct Shadows {
    schema: Arc<TableSchema>,
    sstables: Vec<Arc<SsTable>>,
    columns: ColumnSelection,
    context: ReadContext,
}

impl Background {
    /// Those of the task's table that are beside its inputs, are sound, and have newer data.
    pub(super) fn shadows(&self, task: &Task, schema: &Arc<TableSchema>, garbage: Garbage) -> Shadows {
        let oldest = task.inputs.iter().map(|t| t.oldest_timestamp()).min().unwrap_or(i64::MAX);
        let may_shadow = |t: &Arc<SsTable>| {
            !task.inputs.iter().any(|input| Arc::ptr_eq(input, t))
                && t.refusal().is_none()
                && t.stats().max_timestamp >= oldest
                && (garbage == Garbage::Cells || t.stats().may_have_tombstones())
        };
        let view = task.table.view();
        let sstables = view.sstables.iter().filter(|t| may_shadow(t) && self.is_proven(task, t)).cloned();
        Shadows {
            schema: Arc::clone(schema),
            sstables: sstables.collect(),
            columns: ColumnSelection::all(schema),
            context: ReadContext { fill_cache: false, ..ReadContext::default() },
        }
    }

    /// Whether nothing is lost for the sake of a damaged SSTable. One that is not known to be as it was
    /// written is compared with its digest now.
    fn is_proven(&self, task: &Task, sstable: &Arc<SsTable>) -> bool {
        if !self.catalog.options.proves_sstables || !sstable.is_unproven() {
            return true;
        }
        let is_over = || task.cancelled.load(Ordering::Relaxed) || self.compactions.is_stopping();
        self.prove(&task.table, sstable, None, &mut |bytes| self.prover.spend(bytes, is_over))
            .unwrap_or(false)
    }
}

impl ShadowSource for Shadows {
    fn shadow(&mut self, key: &DecoratedKey) -> Result<Option<BoxedStream>, ReadError> {
        let mut found: Vec<BoxedStream> = Vec::new();
        for sstable in self.sstables.iter().filter(|t| t.may_contain(key)) {
            let all = ClusteringFilter::all();
            if let Some(stream) = sstable.read(key, &all, &self.columns, &self.schema, &self.context)? {
                found.push(stream);
            }
        }
        Ok((!found.is_empty()).then(|| merge(&self.schema, found, false)))
    }
}
