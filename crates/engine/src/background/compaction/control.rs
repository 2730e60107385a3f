//! What operators set of compactions, until the next start.

use super::manager::State;
use super::strategy::{self, Strategy};
use crate::background::Background;
use crate::error::EngineError;
use model::TableSchema;
use model::schema::CompactionOptions;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many SSTables are compacted together: at least, and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// At least.
    pub min: u32,
    /// At most.
    pub max: u32,
}

impl Thresholds {
    /// Those that a table's options say.
    fn of(options: &CompactionOptions) -> Thresholds {
        let number = |name: &str, default| {
            options.options.get(name).and_then(|text| text.trim().parse().ok()).unwrap_or(default)
        };
        Thresholds { min: number(MIN, 4), max: number(MAX, 32) }
    }
}

const MIN: &str = "min_threshold";
const MAX: &str = "max_threshold";

impl State {
    /// The strategy of a table, with what operators set.
    pub(super) fn strategy(&self, schema: &TableSchema) -> Box<dyn Strategy> {
        let options = &schema.options.compaction;
        let Some(Thresholds { min, max }) = self.thresholds.get(&schema.id) else {
            return strategy::from_options(options);
        };
        let mut options = options.clone();
        options.options.insert(MIN.to_owned(), min.to_string());
        options.options.insert(MAX.to_owned(), max.to_string());
        strategy::from_options(&options)
    }
}

impl Background {
    /// [`crate::Engine::set_auto_compaction`].
    pub(crate) fn set_auto_compaction(
        &self,
        keyspace: &str,
        table: Option<&str>,
        enabled: bool,
    ) -> Result<(), EngineError> {
        let tables = self.catalog.tables_of(keyspace, table)?;
        let mut state = self.compactions.state.lock();
        for table in tables {
            state.switched.insert(table.schema().id, enabled);
        }
        drop(state);
        self.compactions.nudge();
        Ok(())
    }

    /// [`crate::Engine::auto_compaction`].
    pub(crate) fn auto_compaction(&self, keyspace: &str, table: &str) -> Result<bool, EngineError> {
        let schema = self.catalog.table_named(keyspace, table)?.schema();
        let switched = self.compactions.state.lock().switched.get(&schema.id).copied();
        Ok(switched.unwrap_or_else(|| strategy::is_enabled(&schema.options.compaction)))
    }

    /// [`crate::Engine::compaction_thresholds`].
    pub(crate) fn compaction_thresholds(
        &self,
        keyspace: &str,
        table: &str,
    ) -> Result<Thresholds, EngineError> {
        let schema = self.catalog.table_named(keyspace, table)?.schema();
        let set = self.compactions.state.lock().thresholds.get(&schema.id).copied();
        Ok(set.unwrap_or_else(|| Thresholds::of(&schema.options.compaction)))
    }

    /// [`crate::Engine::set_compaction_thresholds`].
    pub(crate) fn set_compaction_thresholds(
        &self,
        keyspace: &str,
        table: &str,
        thresholds: Thresholds,
    ) -> Result<(), EngineError> {
        let id = self.catalog.table_named(keyspace, table)?.schema().id;
        self.compactions.state.lock().thresholds.insert(id, thresholds);
        self.compactions.nudge();
        Ok(())
    }

    /// [`crate::Engine::concurrent_compactors`].
    pub(crate) fn concurrent_compactors(&self) -> usize {
        self.compactions.concurrent.load(Ordering::SeqCst)
    }

    /// [`crate::Engine::set_concurrent_compactors`].
    pub(crate) fn set_concurrent_compactors(self: &Arc<Self>, count: usize) -> io::Result<()> {
        self.compactions.start(self, count.max(1))?;
        self.compactions.nudge();
        Ok(())
    }
}
