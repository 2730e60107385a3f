//! Compactions that operators ask for. They run on the thread that asks, one after the other.

use super::guard::only_purges_repaired;
use super::manager::{Compactions, Grouped, State, TICK, enlist};
use super::strategy::{Candidate, Output, Pick, Strategy};
use super::task::{CompactionKind, Leaving, Task};
use crate::background::Background;
use crate::error::EngineError;
use crate::table::TableStore;
use env::sync::MutexGuard;
use model::key::KeyRange;
use model::{DecoratedKey, TableSchema};
use partition::Garbage;
use sstable::{Component, SsTable};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which SSTables of a table are to be compacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionRequest {
    /// All together, as its strategy groups them.
    Whole {
        /// Whether a size-tiered table gets SSTables each of which is half of what is left, not a single one.
        split: bool,
    },
    /// Those that reach into parts of the ring.
    Ranges(Vec<KeyRange>),
    /// Those that may have one of these partitions, of which no tombstone is too young to go.
    Keys(Vec<DecoratedKey>),
    /// Those that are named, by the paths of their Data.db.
    Files(Vec<PathBuf>),
    /// Each alone: it is written anew in the version that new SSTables are of.
    Rewrite {
        /// Also those that are of that version.
        all: bool,
        /// Those alone that were written before, in milliseconds since the epoch.
        older_than_ms: Option<i64>,
        /// Why.
        kind: CompactionKind,
    },
    /// Each alone: it is written anew without what others shadow. The oldest come first, so that what they
    /// lose is still there to tell.
    Garbage(Garbage),
}

impl Compactions {
    fn carry_out(
        &self,
        background: &Background,
        table: &Arc<TableStore>,
        request: &CompactionRequest,
    ) -> Result<(), EngineError> {
        if let Some(damage) = table.damage() {
            return Err(damage.into());
        }
        table.check_settled()?;
        match request {
            CompactionRequest::Rewrite { all, older_than_ms, kind } => {
                let fs = background.catalog.env.fs.as_ref();
                let due = each(table, |sstable| {
                    let path = sstable.descriptor().path(Component::Data);
                    (*all || sstable.descriptor().version != background.catalog.files.version)
                        && older_than_ms.is_none_or(|limit_ms| fs.modified_ms(&path).unwrap_or(0) < limit_ms)
                });
                self.rewrite(background, table, due, (*kind, Leaving::NothingElse))
            }
            CompactionRequest::Garbage(garbage) => {
                let only_repaired = only_purges_repaired(&table.schema());
                let mut due = each(table, |sstable| !only_repaired || sstable.stats().repaired_at_ms > 0);
                due.sort_by_key(|sstable| sstable.stats().max_timestamp);
                let leaving = Leaving::Shadowed(*garbage);
                self.rewrite(background, table, due, (CompactionKind::GarbageCollection, leaving))
            }
            _ => self.together(background, table, request),
        }
    }

    /// Waits until nothing is compacted of a table, so that everything is free.
    fn wait_for(&self, schema: &TableSchema) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while state.runs_on(schema.id) && !self.is_stopping() {
            self.ended.wait_for(&mut state, TICK);
        }
        state
    }

    fn together(
        &self,
        background: &Background,
        table: &Arc<TableStore>,
        request: &CompactionRequest,
    ) -> Result<(), EngineError> {
        let schema = table.schema();
        let kind = match request {
            CompactionRequest::Files(_) => CompactionKind::Minor,
            _ => CompactionKind::Major,
        };
        let mut first_failure = None;
        let tasks: Vec<Arc<Task>> = {
            let mut state = self.wait_for(&schema);
            let strategy = state.strategy(&schema);
            let groups = Grouped::of(background, table, |t| state.is_busy(t));
            let mut picks = Vec::new();
            for group in &groups {
                let all = group.candidates.iter();
                let chosen: Vec<Candidate> =
                    all.filter(|c| group.sstable(c).is_some_and(|t| request.means(t))).cloned().collect();
                let found = request.picks(&schema, strategy.as_ref(), &chosen);
                picks.extend(found.into_iter().map(|pick| (group.inputs(&pick), pick.output)));
            }
            let mut tasks = Vec::new();
            for (inputs, output) in picks.into_iter().filter(|(inputs, _)| !inputs.is_empty()) {
                match background.with_room(&schema, inputs, !strategy.runs_alone(), &state.running) {
                    Ok(inputs) => {
                        let plan = (kind, request.leaving(), output);
                        tasks.push(enlist(&mut state, background, table, plan, inputs, Vec::new()));
                    }
                    Err(error) => first_failure = first_failure.or(Some(error)),
                }
            }
            tasks
        };
        for task in &tasks {
            let failure = self.run(background, task);
            first_failure = first_failure.or(failure);
        }
        first_failure.map_or(Ok(()), Err)
    }

    /// Each SSTable is chosen when the one before is done, so there has to be room for one alone.
    fn rewrite(
        &self,
        background: &Background,
        table: &Arc<TableStore>,
        due: Vec<Arc<SsTable>>,
        (kind, leaving): (CompactionKind, Leaving),
    ) -> Result<(), EngineError> {
        let mut first_failure = None;
        for sstable in due {
            let schema = table.schema();
            let task = {
                let mut state = self.wait_for(&schema);
                if self.is_stopping() {
                    break;
                }
                let groups = Grouped::of(background, table, |t| state.is_busy(t));
                let is_it = |t: &Arc<SsTable>| Arc::ptr_eq(t, &sstable);
                let own = |group: &Grouped| {
                    group.candidates.iter().find(|c| group.sstable(c).is_some_and(is_it)).cloned()
                };
                // It may be gone, in another that has the new version.
                let Some(candidate) = groups.iter().find_map(own) else { continue };
                match background.with_room(&schema, vec![Arc::clone(&sstable)], false, &state.running) {
                    Ok(inputs) => {
                        let plan = (kind, leaving.clone(), in_place(&candidate));
                        Ok(enlist(&mut state, background, table, plan, inputs, Vec::new()))
                    }
                    Err(error) => Err(error),
                }
            };
            let failure = match task {
                Ok(task) => {
                    let failure = self.run(background, &task);
                    if task.cancelled.load(Ordering::Relaxed) {
                        break;
                    }
                    failure
                }
                Err(error) => Some(error),
            };
            first_failure = first_failure.or(failure);
        }
        first_failure.map_or(Ok(()), Err)
    }
}

/// The SSTables of a table that are due.
fn each(table: &TableStore, is_due: impl Fn(&SsTable) -> bool) -> Vec<Arc<SsTable>> {
    table.view().sstables.iter().filter(|t| is_due(t)).cloned().collect()
}

/// One SSTable in the level of another.
fn in_place(candidate: &Candidate) -> Output {
    Output { level: candidate.level, ..Output::ONE }
}

impl CompactionRequest {
    /// Whether an SSTable may be compacted.
    fn means(&self, sstable: &SsTable) -> bool {
        match self {
            CompactionRequest::Whole { .. }
            | CompactionRequest::Rewrite { .. }
            | CompactionRequest::Garbage(_) => true,
            CompactionRequest::Keys(keys) => keys.iter().any(|key| sstable.may_contain(key)),
            CompactionRequest::Ranges(ranges) => ranges.iter().any(|range| sstable.overlaps(range)),
            CompactionRequest::Files(files) => files.contains(&sstable.descriptor().path(Component::Data)),
        }
    }

    fn leaving(&self) -> Leaving {
        match self {
            CompactionRequest::Keys(keys) => Leaving::YoungTombstones(keys.clone()),
            _ => Leaving::NothingElse,
        }
    }

    /// What becomes of the SSTables that are meant.
    fn picks(&self, schema: &TableSchema, strategy: &dyn Strategy, chosen: &[Candidate]) -> Vec<Pick> {
        let has_levels = strategy.runs_alone();
        match (self, chosen) {
            (_, []) => Vec::new(),
            (
                CompactionRequest::Ranges(_) | CompactionRequest::Files(_) | CompactionRequest::Keys(_),
                chosen,
            ) if has_levels => {
                // In any level but the lowest a merge of some might overlap the others.
                let output = match chosen {
                    [alone] => in_place(alone),
                    _ => Output::ONE,
                };
                vec![Pick { inputs: chosen.iter().map(|c| c.id).collect(), output }]
            }
            (CompactionRequest::Whole { split: true }, chosen) if is_size_tiered(schema) => {
                let sstable_bytes = chosen.iter().map(|c| c.bytes).sum();
                let output = Output { sstable_bytes, halves: true, ..Output::ONE };
                vec![Pick { inputs: chosen.iter().map(|c| c.id).collect(), output }]
            }
            (_, chosen) => strategy.major(chosen),
        }
    }
}

fn is_size_tiered(schema: &TableSchema) -> bool {
    let others = ["LeveledCompactionStrategy", "TimeWindowCompactionStrategy", "UnifiedCompactionStrategy"];
    !others.contains(&schema.options.compaction.short_class())
}

impl Background {
    /// [`crate::Engine::compact`].
    pub(crate) fn compact(
        &self,
        keyspace: &str,
        table: Option<&str>,
        request: &CompactionRequest,
    ) -> Result<(), EngineError> {
        // What is written anew or named is there already.
        if matches!(request, CompactionRequest::Whole { .. } | CompactionRequest::Ranges(_)) {
            self.writing.flush(keyspace, table)?;
        }
        for table in self.catalog.tables_of(keyspace, table)? {
            self.compactions.carry_out(self, &table, request)?;
        }
        Ok(())
    }

    /// [`crate::Engine::table_of_file`].
    pub(crate) fn table_of_file(&self, file: &Path) -> Option<Arc<TableStore>> {
        self.catalog
            .tables()
            .into_iter()
            .find(|table| table.view().sstables.iter().any(|t| t.descriptor().path(Component::Data) == file))
    }
}
