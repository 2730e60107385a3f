//! From the commit log back into memtables.
//!
//! The log is read up to three times: for the local keyspaces, for the rest, and, when all of it does not fit
//! into memory, for what did not. The first two passes change nothing on disk; the third flushes as it goes.

use crate::commitlog::format;
use crate::commitlog::replay::{ReplayReport, Segments};
use crate::commitlog::{IntervalSet, LogPosition};
use crate::engine::{Engine, Tables};
use crate::error::EngineError;
use crate::system::{SYSTEM, SYSTEM_SCHEMA};
use crate::table::TableStore;
use model::{Mutation, TableSchema};
use partition::codec::mutation::{MutationError, decode_mutation};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Which mutations a reading of the log is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Those of `system` and `system_schema`.
    Local,
    /// The others.
    Rest,
    /// All that found no room in memory before.
    Deferred,
}

/// What a replay knows and finds.
#[derive(Default)]
pub(crate) struct Replay {
    /// The host id whose SSTables' intervals count.
    pub(crate) trusted: Option<Uuid>,
    pub(crate) truncated: BTreeMap<Uuid, LogPosition>,
    /// Positions that SSTables cover, by table; filled when a table is first met.
    covered: BTreeMap<Uuid, IntervalSet>,
    /// By segment, the last position of each table that went into a memtable.
    pub(crate) dirty: BTreeMap<i64, BTreeMap<Uuid, u32>>,
    /// Where memory was full: of local mutations, of the others.
    deferred_local: Option<LogPosition>,
    deferred_rest: Option<LogPosition>,
    /// Mutations of tables that are in no schema.
    unknown: BTreeMap<Uuid, u64>,
    /// Whether the log cannot be left to the next reader: it has places that are torn, damage that is
    /// ignored, or entries that Cassandra, were it the next to start here, would not find.
    is_frail: bool,
    skipped: u64,
}

impl Replay {
    /// Whether the write is in an SSTable, or was truncated.
    fn is_kept_elsewhere(&mut self, table: &TableStore, position: LogPosition) -> bool {
        let id = table.schema().id;
        if self.truncated.get(&id).is_some_and(|until| position <= *until) {
            return true;
        }
        let trusted = self.trusted;
        self.covered.entry(id).or_insert_with(|| table.covered_log(trusted)).contains(position)
    }

    fn deferred(&mut self, is_local: bool) -> &mut Option<LogPosition> {
        if is_local { &mut self.deferred_local } else { &mut self.deferred_rest }
    }

    pub(crate) fn warn_of_unknown_tables(&self) {
        for (table, mutations) in &self.unknown {
            tracing::warn!(%table, mutations, "mutations of a table that does not exist any more are left out");
        }
    }
}

impl Engine {
    /// Reads the log. Only [`Pass::Deferred`] touches the disk.
    pub(crate) fn replay(
        &self,
        segments: &mut Segments,
        pass: Pass,
        replay: &mut Replay,
    ) -> Result<ReplayReport, EngineError> {
        let tables = self.tables.load();
        let files = segments.files().to_vec();
        let ignore = self.options.commitlog_ignore_replay_errors;
        let lookup = |id: Uuid| tables.get(&id).map(|t| t.schema());
        replay.skipped = 0;
        let report = segments.replay(ignore, |logged| {
            let first = first_table(logged.mutation).and_then(lookup);
            let is_local = first.as_ref().is_some_and(|t| t.keyspace == SYSTEM || t.keyspace == SYSTEM_SCHEMA);
            let is_due = match pass {
                Pass::Local => is_local,
                Pass::Rest => !is_local,
                Pass::Deferred => replay.deferred(is_local).is_some_and(|from| logged.position >= from),
            };
            if !is_due {
                return Ok(());
            }
            let times = format::deletion_times(logged.version);
            let mutation = match decode_mutation(logged.mutation, times, &lookup) {
                Ok(mutation) => mutation,
                Err(MutationError::UnknownTable(id)) => {
                    *replay.unknown.entry(id).or_default() += 1;
                    return Ok(());
                }
                Err(error) if ignore => {
                    tracing::error!(position = ?logged.position, %error, "ignoring a mutation in the commit log");
                    return Ok(());
                }
                Err(error) => {
                    let found = files.iter().find(|s| s.id == logged.position.segment);
                    return Err(EngineError::CommitLog {
                        path: found.map(|s| s.path.clone()).unwrap_or_default(),
                        offset: u64::from(logged.position.offset),
                        detail: format!("the mutation that ends here cannot be decoded: {error}"),
                    });
                }
            };
            if pass != Pass::Deferred && !first.as_deref().is_some_and(must_be_known) {
                let is_full = self.memory.used() > self.cleanup_bytes();
                let deferred = replay.deferred(is_local);
                if is_full {
                    deferred.get_or_insert(logged.position);
                }
                if deferred.is_some() {
                    return Ok(());
                }
            }
            self.apply_replayed(&tables, &mutation, logged.position, replay);
            if pass == Pass::Deferred && self.memory.used() > self.cleanup_bytes() {
                self.flush_replayed(logged.position, replay)?;
            }
            Ok(())
        })?;
        replay.is_frail |= report.unmarked + report.torn + report.ignored > 0;
        if report.mutations > 0 {
            tracing::info!(?report, skipped = replay.skipped, ?pass, "commit log read");
        }
        Ok(report)
    }

    fn apply_replayed(
        &self,
        tables: &Tables,
        mutation: &Mutation,
        position: LogPosition,
        replay: &mut Replay,
    ) {
        for update in &mutation.updates {
            let id = update.table.id;
            let Some(table) = tables.get(&id) else { continue };
            if replay.is_kept_elsewhere(table, position) {
                replay.skipped += 1;
                continue;
            }
            let grown = table.with_memtable(|memtable| memtable.apply(update));
            self.memory.add(grown);
            let last = replay.dirty.entry(position.segment).or_default().entry(id).or_default();
            *last = position.offset.max(*last);
        }
    }

    /// Replays what found no room in memory, and leaves nothing in memory alone that the log does not hold
    /// for sure.
    pub(crate) fn finish_replay(
        &self,
        segments: &mut Segments,
        replay: &mut Replay,
    ) -> Result<(), EngineError> {
        let Some(last) = segments.files().last().map(|s| s.id) else { return Ok(()) };
        if replay.deferred_local.is_some() || replay.deferred_rest.is_some() {
            self.replay(segments, Pass::Deferred, replay)?;
        }
        segments.forget();
        if replay.is_frail {
            self.flush_replayed(LogPosition { segment: last, offset: u32::MAX }, replay)?;
        }
        Ok(())
    }

    /// What was replayed up to `position` goes to SSTables that say so.
    fn flush_replayed(&self, position: LogPosition, replay: &mut Replay) -> Result<(), EngineError> {
        for table in self.tables() {
            let _turn = table.flush_turn.lock();
            self.switch_memtable_at(&table, position);
            self.write_flushing(&table)?;
        }
        replay.dirty.clear();
        Ok(())
    }
}

/// Whether a table's mutations decide how the rest is understood.
fn must_be_known(table: &TableSchema) -> bool {
    table.keyspace == SYSTEM_SCHEMA || (table.keyspace == SYSTEM && table.name == "local")
}

/// The table of a serialized mutation's first update.
fn first_table(mutation: &[u8]) -> Option<Uuid> {
    let (_, len) = model::vint::read_unsigned(mutation)?;
    Uuid::from_slice(mutation.get(len..len + 16)?).ok()
}
