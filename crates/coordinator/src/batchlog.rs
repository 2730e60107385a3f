//! Logged batches: all of their mutations, or none, whatever happens to the coordinator in between.
//!
//! 1. The mutations are written to `system.batches`, as one row.
//! 2. Each is applied.
//! 3. The row is deleted.
//!
//! Whoever finds a row there that is old enough (a node that starts: any row) applies its mutations again,
//! which does no harm, and deletes it ([`Coordinator::replay_batches`],
//! [`Coordinator::replay_late_batches`]). The log is read in pages: a node that others could not reach for
//! hours keeps the batches of all that time. What was truncated since stays away. A batch of one mutation
//! needs no log: a mutation is kept whole or not at all.
//!
//! Cassandra: `BatchlogManager`.

use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::paging::PagingState;
use crate::placement::Placement;
use crate::read::{Page, ReadRequest};
use crate::replica::{Answer, LoggedBatch, Replica, ReplicaError};
use crate::topology::{Keepers, Node};
use crate::write::{Failed, failed_write};
use bytes::Bytes;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::{
    Cell, Clustering, Consistency, DecoratedKey, Deletion, Liveness, Mutation, PartitionKey, PartitionUpdate,
    Row, Schema, TableSchema, WriteType,
};
use partition::codec::DeletionTimes;
use partition::codec::mutation::{decode_mutation, encode_mutation};
use partition::{Deadline, PageLimits, ReadContext};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// Version of the mutations' encoding in the batches that are written here: that of the messaging protocol of
/// 4.0.
pub(crate) const MESSAGING_VERSION: i32 = 12;

/// How deletion times are held in mutations of a version of the messaging protocol: 12 is that of 4.0, 13
/// that of 5.0 with `storage_compatibility_mode` other than `CASSANDRA_4`.
pub(crate) fn times_of(version: i32) -> Option<DeletionTimes> {
    match version {
        12 => Some(DeletionTimes::Signed),
        13 => Some(DeletionTimes::Unsigned),
        _ => None,
    }
}

/// Batches of the log that are read at once, as in Cassandra (`BatchlogManager.DEFAULT_PAGE_SIZE`).
const PAGE_BATCHES: u64 = 128;

/// Bytes of batches that are read at once; the one that exceeds them is still read.
const PAGE_BYTES: u64 = 16 << 20;

/// Who waits for the throttle looks as often whether the replay goes on.
const LOOK: Duration = Duration::from_millis(100);

/// Which batches are late, and how fast they are replayed.
#[derive(Clone, Copy, Debug)]
pub struct LateReplay {
    /// Milliseconds after which a batch is late.
    pub timeout_ms: u64,
    /// Bytes of mutations a second, shared by all nodes of the ring (`batchlog_replay_throttle`); 0 for no
    /// bound.
    pub bytes_per_second: u64,
}

/// A batch that was found in the log.
pub(crate) struct Pending {
    id: Uuid,
    /// When it was written.
    millis: i64,
    version: Option<i32>,
    mutations: Vec<Bytes>,
}

impl Pending {
    pub(crate) fn bytes(&self) -> u64 {
        self.mutations.iter().map(|mutation| mutation.len() as u64).sum()
    }
}

/// What became of a batch that was found in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Completed,
    GivenUp,
}

/// Makes the next look at the log worth its cost if work on a batch ends any other way than with its row
/// deleted: with an error, or because nobody waits for it any more.
struct InLog<'a> {
    left_behind: &'a AtomicBool,
    is_forgotten: bool,
}

impl Drop for InLog<'_> {
    fn drop(&mut self) {
        if !self.is_forgotten {
            self.left_behind.store(true, Ordering::SeqCst);
        }
    }
}

impl Coordinator {
    /// Writes mutations that belong together.
    ///
    /// # Errors
    /// As [`Coordinator::write`], and [`CoordinatorError::NoBatchKeeper`]; a failure to write the log, or not
    /// in time, has the write type `BatchLog`, and nothing was applied yet. After any failure the batch may
    /// be completed later.
    pub async fn write_logged_batch(
        &self,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
    ) -> Result<(), CoordinatorError> {
        if mutations.len() <= 1 {
            return self.write(mutations, consistency, WriteType::Simple, deadline).await;
        }
        let keepers = match self.topology.batch_keepers(&self.env.random) {
            Keepers::ThisNode => Vec::new(),
            Keepers::Others(keepers) if keepers.is_empty() && consistency != Consistency::Any => {
                return Err(CoordinatorError::NoBatchKeeper);
            }
            Keepers::Others(keepers) => keepers,
        };
        for mutation in &mutations {
            self.placement_of(mutation)?.for_write(consistency)?;
        }
        if !keepers.is_empty() {
            return self.write_kept_batch(mutations, keepers, consistency, deadline).await;
        }
        let table = batches_table(&self.topology.schema())?;
        let id = self.env.time_uuid();
        let entry = log_entry(&table, id, &mutations, self.env.now_micros(), || self.env.time_uuid())?;
        let mut in_log = InLog { left_behind: &self.batches_left_behind, is_forgotten: false };
        self.write(vec![entry], Consistency::One, WriteType::BatchLog, deadline).await?;
        self.write(mutations, consistency, WriteType::Batch, deadline).await?;
        self.forget(&table, id).await?;
        in_log.is_forgotten = true;
        Ok(())
    }

    /// Writes a batch whose log others keep. All of them must have it before any of it is applied.
    async fn write_kept_batch(
        &self,
        mutations: Vec<Mutation>,
        keepers: Vec<Arc<Node>>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
    ) -> Result<(), CoordinatorError> {
        let (id, written_micros) = (self.env.time_uuid(), self.env.now_micros());
        let batch = Arc::new(LoggedBatch { id, written_micros, mutations });
        let level = if keepers.len() > 1 { Consistency::Two } else { Consistency::One };
        let store = |node: &Arc<Node>| node.replica.store_batch(Arc::clone(&batch), deadline);
        let stored: Vec<Answer<()>> = keepers.iter().map(store).collect();
        for (received, answer) in stored.into_iter().enumerate() {
            answer.await.map_err(|cause| {
                let failed = Failed { received: received as u32, failures: 1, cause };
                failed_write(failed, level, keepers.len() as u32, WriteType::BatchLog)
            })?;
        }
        self.write(batch.mutations.clone(), consistency, WriteType::Batch, deadline).await?;
        for node in &keepers {
            // Who does not hear of it completes the batch again, which does no harm.
            drop(node.replica.remove_batch(id));
        }
        Ok(())
    }

    /// Keeps a batch of another coordinator in the log of this node.
    pub fn store_batch(&self, batch: &LoggedBatch) -> Answer<()> {
        let LoggedBatch { id, written_micros, mutations } = batch;
        let entry = batches_table(&self.topology.schema())
            .and_then(|table| log_entry(&table, *id, mutations, *written_micros, || self.env.time_uuid()));
        match entry {
            Ok(entry) => {
                // Its coordinator may be gone before it is done.
                self.batches_left_behind.store(true, Ordering::SeqCst);
                self.local.mutate(Arc::new(entry), None)
            }
            Err(error) => Answer::ready(Err(ReplicaError::Write(error.to_string()))),
        }
    }

    /// Forgets a batch of another coordinator, which is done.
    pub fn remove_batch(&self, id: Uuid) -> Answer<()> {
        match batches_table(&self.topology.schema()) {
            Ok(table) => self.local.mutate(Arc::new(Mutation::of(self.removal(&table, id))), None),
            Err(error) => Answer::ready(Err(ReplicaError::Write(error.to_string()))),
        }
    }

    fn removal(&self, table: &Arc<TableSchema>, id: Uuid) -> PartitionUpdate {
        let now = self.env.now_micros();
        let mut update = PartitionUpdate::new(Arc::clone(table), key(id));
        update.deletion = Deletion::new(now, (now / 1_000_000) as u32);
        update
    }

    /// Completes every batch of the log, such as those that a crash left unfinished; returns how many.
    /// Batches of a version that is not known are given up, as in Cassandra.
    ///
    /// # Errors
    /// When the log cannot be read, or a mutation cannot be written: the first such error, after the others
    /// were tried.
    pub async fn replay_batches(self: &Arc<Self>) -> Result<usize, CoordinatorError> {
        self.batches_left_behind.store(false, Ordering::SeqCst);
        self.replay_found(None, &|| true).await
    }

    /// Has the next call of [`Coordinator::replay_late_batches`] look at the log, whatever this run wrote.
    pub fn expect_late_batches(&self) {
        self.batches_left_behind.store(true, Ordering::SeqCst);
    }

    /// Completes the batches of the log that are late, or failed; returns how many. Ends early once
    /// `goes_on` says so. A batch is given up that is as old as the smallest `gc_grace_seconds` of its
    /// tables: deletions that came after it may be forgotten. Costs nothing while every batch ends well.
    ///
    /// # Errors
    /// As [`Coordinator::replay_batches`]; what failed is tried again by the next call.
    pub async fn replay_late_batches(
        self: &Arc<Self>,
        late: LateReplay,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<usize, CoordinatorError> {
        if !self.batches_left_behind.swap(false, Ordering::SeqCst) {
            return Ok(0);
        }
        self.replay_found(Some(late), goes_on).await
    }

    /// Replays the batches of the log, a page after the other; with `late` those that are. Each is tried,
    /// whatever becomes of the others. Notes when any is left.
    async fn replay_found(
        self: &Arc<Self>,
        late: Option<LateReplay>,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<usize, CoordinatorError> {
        let mut left = InLog { left_behind: &self.batches_left_behind, is_forgotten: false };
        let schema = self.topology.schema();
        let table = batches_table(&schema)?;
        // What comes into the log from now on is not late.
        let now_ms = self.env.now_micros() / 1_000;
        let is_late = |batch: &Pending| {
            late.is_none_or(|late| now_ms.saturating_sub(batch.millis) > late.timeout_ms as i64)
        };
        let (mut count, mut first_error, mut are_all, mut after) = (0, None, true, None);
        loop {
            let (batches, next) = self.pending_batches(&table, after).await?;
            for batch in batches {
                if !is_late(&batch) {
                    are_all = false;
                    continue;
                }
                if !self.has_turn(&batch, late, goes_on).await {
                    return first_error.map_or(Ok(count), Err);
                }
                match self.finish(&schema, &table, &batch, late.is_some()).await {
                    Ok(Fate::Completed) => count += 1,
                    Ok(Fate::GivenUp) => {}
                    Err(error) => {
                        first_error.get_or_insert(error);
                    }
                }
            }
            match next {
                Some(_) => after = next,
                None => break,
            }
        }
        left.is_forgotten = are_all && first_error.is_none();
        first_error.map_or(Ok(count), Err)
    }

    /// Replays a batch and forgets it. A late one may be too old.
    async fn finish(
        self: &Arc<Self>,
        schema: &Schema,
        table: &Arc<TableSchema>,
        batch: &Pending,
        is_late: bool,
    ) -> Result<Fate, CoordinatorError> {
        // It may have waited for the throttle since it was found.
        let now_ms = is_late.then(|| self.env.now_micros() / 1_000);
        let fate = self.replay(schema, batch, now_ms).await?;
        self.forget(table, batch.id).await?;
        Ok(fate)
    }

    /// Waits until the throttle lets a batch pass. Whether the replay goes on then.
    async fn has_turn(
        &self,
        batch: &Pending,
        late: Option<LateReplay>,
        goes_on: &(dyn Fn() -> bool + Sync),
    ) -> bool {
        let nodes: u32 = self.topology.datacenters().iter().map(|(_, nodes)| nodes).sum();
        let bytes_per_second = late.map_or(0, |late| late.bytes_per_second);
        let mut left = match bytes_per_second {
            0 => Duration::ZERO,
            // Every node may replay to the same one.
            all => Duration::from_secs_f64((batch.bytes() * u64::from(nodes.max(1))) as f64 / all as f64),
        };
        while goes_on() && !left.is_zero() {
            let part = left.min(LOOK);
            self.env.tasks.sleep(part).await;
            left -= part;
        }
        goes_on()
    }

    /// Applies the mutations of a batch again. With `now_ms`, unless it is too old.
    async fn replay(
        self: &Arc<Self>,
        schema: &Schema,
        batch: &Pending,
        now_ms: Option<i64>,
    ) -> Result<Fate, CoordinatorError> {
        let Pending { id, millis, version, mutations: encoded } = batch;
        let Some(times) = version.and_then(times_of) else {
            tracing::error!(%id, ?version, "a logged batch is of a version that is not known; it is given up");
            return Ok(Fate::GivenUp);
        };
        let mut mutations = Vec::new();
        for bytes in encoded {
            let lookup = |id: Uuid| schema.table_by_id(id).cloned();
            match decode_mutation(bytes, times, &lookup) {
                Ok(mutation) => mutations.push(mutation),
                // A table that was dropped since takes its part of the batch with it.
                Err(error) => tracing::warn!(%id, %error, "part of a logged batch cannot be replayed"),
            }
        }
        let tables = mutations.iter().flat_map(|m| &m.updates).map(|update| &update.table);
        let grace_s = tables.map(|table| i64::from(table.options.gc_grace_seconds)).min();
        if let (Some(now_ms), Some(grace_s)) = (now_ms, grace_s)
            && now_ms.saturating_sub(*millis) >= grace_s.saturating_mul(1_000)
        {
            tracing::warn!(%id, grace_s, "a logged batch is older than gc_grace_seconds of its tables; it is given up");
            return Ok(Fate::GivenUp);
        }
        for mutation in &mut mutations {
            let placement = self.placement_of(mutation)?;
            let mut kept = Vec::with_capacity(mutation.updates.len());
            for update in mutation.updates.drain(..) {
                if !truncated_since(&placement, &update.table, *millis).await? {
                    kept.push(update);
                }
            }
            mutation.updates = kept;
        }
        mutations.retain(|mutation| !mutation.updates.is_empty());
        self.write(mutations, Consistency::One, WriteType::Batch, None).await?;
        Ok(Fate::Completed)
    }

    /// A page of the log, and where the next one begins.
    pub(crate) async fn pending_batches(
        self: &Arc<Self>,
        table: &Arc<TableSchema>,
        after: Option<PagingState>,
    ) -> Result<(Vec<Pending>, Option<PagingState>), CoordinatorError> {
        let command = ReadCommand {
            columns: ColumnSelection::all(table),
            partitions: PartitionSelection::Range(KeyRange::FULL),
            clusterings: ClusteringFilter::all(),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: (self.env.now_micros() / 1_000_000) as u32,
            table: Arc::clone(table),
        };
        let command = Arc::new(command);
        let page = PageLimits { rows: PAGE_BATCHES, bytes: PAGE_BYTES, tombstones: u64::MAX };
        let all = ReadRequest::all(Arc::clone(&command), Consistency::One, ReadContext::default());
        let request = ReadRequest { page, after, ..all };
        let (list, number) = (column(table, "mutations")?, column(table, "version")?);
        let take = move |page: &mut Page| {
            let mut found = Vec::new();
            while let Some(row) = page.next_row()? {
                let Ok(id) = Uuid::from_slice(&row.key.key.0) else { continue };
                let version = row.live_cells(number, false).next();
                let version = version.and_then(|c| c.value.as_ref().try_into().ok()).map(i32::from_be_bytes);
                let mutations = row.live_cells(list, false).map(|c| c.value.clone()).collect();
                found.push(Pending { id, millis: millis_of(id), version, mutations });
            }
            Ok((found, page.mark().and_then(|mark| PagingState::of(&command, &mark))))
        };
        self.collect(&request, take, None, &mut ()).await
    }

    async fn forget(&self, table: &Arc<TableSchema>, id: Uuid) -> Result<(), CoordinatorError> {
        let removal = Mutation::of(self.removal(table, id));
        self.write(vec![removal], Consistency::One, WriteType::BatchLog, None).await
    }
}

/// Whether a table was emptied after `millis`.
async fn truncated_since(
    placement: &Placement,
    table: &TableSchema,
    millis: i64,
) -> Result<bool, CoordinatorError> {
    for node in placement.replicas().iter().filter(|node| node.is_alive()) {
        let truncated = node.replica.truncated_millis(table).await;
        let truncated = truncated.map_err(|e| CoordinatorError::of_read(Consistency::One, 0, 1, 1, e))?;
        if truncated.is_some_and(|truncated| millis <= truncated) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The time of a version 1 uuid, in milliseconds since the epoch; of another uuid the latest, since its age
/// is not known.
fn millis_of(id: Uuid) -> i64 {
    let Some(time) = id.get_timestamp() else { return i64::MAX };
    let (seconds, nanos) = time.to_unix();
    i64::try_from(seconds).map_or(i64::MAX, |s| s.saturating_mul(1_000) + i64::from(nanos / 1_000_000))
}

fn batches_table(schema: &Schema) -> Result<Arc<TableSchema>, CoordinatorError> {
    schema
        .table("system", "batches")
        .cloned()
        .ok_or_else(|| CoordinatorError::Internal("the table system.batches is missing".to_owned()))
}

fn column(table: &TableSchema, name: &str) -> Result<model::ColumnId, CoordinatorError> {
    table
        .column(name)
        .map(|c| c.id)
        .ok_or_else(|| CoordinatorError::Internal(format!("the column system.batches.{name} is missing")))
}

fn key(id: Uuid) -> DecoratedKey {
    DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(id.as_bytes())))
}

/// The row of a batch: `id timeuuid, mutations list<blob>, version int`.
fn log_entry(
    table: &Arc<TableSchema>,
    id: Uuid,
    mutations: &[Mutation],
    timestamp: i64,
    mut position: impl FnMut() -> Uuid,
) -> Result<Mutation, CoordinatorError> {
    let (list, version) = (column(table, "mutations")?, column(table, "version")?);
    let mut row = Row::new(Clustering::empty());
    row.liveness = Liveness::new(timestamp);
    for mutation in mutations {
        let mut bytes = Vec::new();
        encode_mutation(mutation, DeletionTimes::Signed, &mut bytes)
            .map_err(|e| CoordinatorError::Internal(e.to_string()))?;
        let path = Bytes::copy_from_slice(position().as_bytes());
        row.cells.push(Cell::live(list, timestamp, bytes.into()).with_path(path));
    }
    let number = Bytes::copy_from_slice(&MESSAGING_VERSION.to_be_bytes());
    row.cells.push(Cell::live(version, timestamp, number));
    row.cells.sort_by_key(|c| c.column);
    let mut update = PartitionUpdate::new(Arc::clone(table), key(id));
    update.rows.push(row);
    Ok(Mutation::of(update))
}
