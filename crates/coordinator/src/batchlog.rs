//! Logged batches: all of their mutations, or none, whatever happens to the coordinator in between.
//!
//! 1. The mutations are written to `system.batches`, as one row.
//! 2. Each is applied.
//! 3. The row is deleted.
//!
//! Whoever finds a row there that is old enough (a node that starts: any row) applies its mutations again, which
//! does no harm, and deletes it. A batch of one mutation needs no log: a mutation is kept whole or not at all.

use crate::Coordinator;
use crate::error::{CoordinatorError, WriteType};
use crate::read::{ReadRequest, pull_failed};
use bytes::Bytes;
use model::command::{
    ClusteringFilter, ColumnSelection, Consistency, DataLimits, PartitionSelection, ReadCommand,
};
use model::key::KeyRange;
use model::{
    Cell, Clustering, DecoratedKey, Deletion, Liveness, Mutation, PartitionKey, PartitionUpdate, Row, Schema,
    TableSchema,
};
use partition::codec::DeletionTimes;
use partition::codec::mutation::{decode_mutation, encode_mutation};
use partition::{Deadline, PageLimits, ReadContext};
use std::sync::Arc;
use uuid::Uuid;

/// Version of the mutations' encoding in the batches that are written here: that of the messaging protocol of 4.0.
const MESSAGING_VERSION: i32 = 12;

/// How deletion times are held in mutations of a version of the messaging protocol: 12 is that of 4.0, 13 that of 5.0
/// with `storage_compatibility_mode` other than `CASSANDRA_4`.
fn times_of(version: i32) -> Option<DeletionTimes> {
    match version {
        12 => Some(DeletionTimes::Signed),
        13 => Some(DeletionTimes::Unsigned),
        _ => None,
    }
}

/// A batch that was found in the log.
struct Pending {
    id: Uuid,
    version: Option<i32>,
    mutations: Vec<Bytes>,
}

impl Coordinator {
    /// Writes mutations that belong together.
    ///
    /// # Errors
    /// As [`Coordinator::write`]; a failure to write the log, or not in time, has the write type `BatchLog`, and nothing was applied
    /// then. After another failure the batch may be completed later.
    pub async fn write_logged_batch(
        &self,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
    ) -> Result<(), CoordinatorError> {
        if mutations.len() <= 1 {
            return self.write(mutations, consistency, WriteType::Simple, deadline).await;
        }
        crate::write::validate_for_write(consistency)?;
        for mutation in &mutations {
            self.placement_of(mutation)?.candidates(consistency)?;
        }
        let table = batches_table(&self.topology.schema())?;
        let id = self.env.time_uuid();
        let entry = log_entry(&table, id, &mutations, self.env.now_micros(), || self.env.time_uuid())?;
        self.write(vec![entry], Consistency::One, WriteType::BatchLog, deadline).await?;
        self.write(mutations, consistency, WriteType::Batch, deadline).await?;
        self.forget(&table, id).await
    }

    /// Completes the batches that a crash left unfinished; returns how many. Batches of a version that is not known
    /// are given up, as in Cassandra.
    ///
    /// # Errors
    /// When the log cannot be read or a mutation cannot be written.
    pub async fn replay_batches(&self) -> Result<usize, CoordinatorError> {
        let schema = self.topology.schema();
        let table = batches_table(&schema)?;
        let batches = self.pending_batches(&table).await?;
        let mut count = 0;
        for Pending { id, version, mutations: encoded } in batches {
            let Some(times) = version.and_then(times_of) else {
                tracing::error!(%id, ?version, "a logged batch is of a version that is not known; it is given up");
                self.forget(&table, id).await?;
                continue;
            };
            let mut mutations = Vec::new();
            for bytes in &encoded {
                let lookup = |id: Uuid| schema.table_by_id(id).cloned();
                match decode_mutation(bytes, times, &lookup) {
                    Ok(mutation) => mutations.push(mutation),
                    // A table that was dropped since takes its part of the batch with it.
                    Err(error) => tracing::warn!(%id, %error, "part of a logged batch cannot be replayed"),
                }
            }
            self.write(mutations, Consistency::One, WriteType::Batch, None).await?;
            self.forget(&table, id).await?;
            count += 1;
        }
        Ok(count)
    }

    async fn pending_batches(&self, table: &Arc<TableSchema>) -> Result<Vec<Pending>, CoordinatorError> {
        let command = ReadCommand {
            columns: ColumnSelection::all(table),
            partitions: PartitionSelection::Range(KeyRange::FULL),
            clusterings: ClusteringFilter::all(),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: (self.env.now_micros() / 1_000_000) as u32,
            table: Arc::clone(table),
        };
        let mut rows = self
            .read(ReadRequest {
                command: Arc::new(command),
                consistency: Consistency::One,
                page: PageLimits::NONE,
                after: None,
                context: ReadContext::default(),
            })
            .await?;
        let (list, number) = (column(table, "mutations")?, column(table, "version")?);
        let mut found = Vec::new();
        while let Some(row) = rows.next_row().map_err(|e| pull_failed(Consistency::One, e))? {
            let Ok(id) = Uuid::from_slice(&row.key.key.0) else { continue };
            let version = row.live_cells(number, false).next();
            let version = version.and_then(|c| c.value.as_ref().try_into().ok()).map(i32::from_be_bytes);
            let mutations = row.live_cells(list, false).map(|c| c.value.clone()).collect();
            found.push(Pending { id, version, mutations });
        }
        Ok(found)
    }

    async fn forget(&self, table: &Arc<TableSchema>, id: Uuid) -> Result<(), CoordinatorError> {
        let now = self.env.now_micros();
        let mut update = PartitionUpdate::new(Arc::clone(table), key(id));
        update.deletion = Deletion::new(now, (now / 1_000_000) as u32);
        self.write(vec![Mutation::of(update)], Consistency::One, WriteType::BatchLog, None).await
    }
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
