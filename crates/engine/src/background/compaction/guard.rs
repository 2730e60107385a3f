//! What a compaction must not forget: deletions that may still shadow data outside of it.

use super::task::{Leaving, Task};
use crate::table::TableStore;
use model::{DecoratedKey, TableSchema};
use partition::PurgeGuard;
use sstable::SsTable;
use std::sync::Arc;

/// Looks at everything that the table holds beside the inputs, as it is when a partition is reached: a flush
/// may have brought older data since the compaction began.
pub(crate) struct Outside {
    table: Arc<TableStore>,
    inputs: Vec<Arc<SsTable>>,
    /// Partitions whose tombstones may go however young they are.
    without_grace: Vec<DecoratedKey>,
    /// Set by `only_purge_repaired_tombstones` for unrepaired data: nothing is forgotten.
    keeps_all: bool,
}

impl Outside {
    pub(crate) fn new(task: &Task, keeps_all: bool) -> Outside {
        let without_grace = match &task.leaving {
            Leaving::YoungTombstones(keys) => keys.clone(),
            Leaving::NothingElse | Leaving::Shadowed(_) => Vec::new(),
        };
        let (table, inputs) = (Arc::clone(&task.table), task.all().cloned().collect());
        Outside { table, inputs, without_grace, keeps_all }
    }
}

/// Whether the table keeps the tombstones of what was not repaired (`only_purge_repaired_tombstones`).
pub(super) fn only_purges_repaired(schema: &TableSchema) -> bool {
    let option = schema.options.compaction.options.get("only_purge_repaired_tombstones");
    option.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

impl PurgeGuard for Outside {
    fn max_purgeable_timestamp(&mut self, key: &DecoratedKey) -> i64 {
        if self.keeps_all {
            return i64::MIN;
        }
        let view = self.table.view();
        let outside = view
            .sstables
            .iter()
            .filter(|t| !self.inputs.iter().any(|input| Arc::ptr_eq(input, t)))
            .filter(|t| t.may_contain(key))
            .map(|t| t.oldest_timestamp());
        let memtables = view.flushing.iter().map(|f| &f.memtable).chain([&view.memtable]);
        let in_memory = memtables.filter_map(|m| m.minima().timestamp);
        outside.chain(in_memory).min().unwrap_or(i64::MAX)
    }

    fn ignores_grace(&self, key: &DecoratedKey) -> bool {
        self.without_grace.contains(key)
    }
}
