//! Counter updates: what a client sends is a difference, what is kept is this node's running total.
//!
//! Under the locks of the partitions, the node reads its own shard of every counter of the update, adds the
//! difference and replaces the cell by a context with that one shard (docs/formats/sstable-big.md). The shard's clock is the
//! wall clock in microseconds, or one more than before where that is larger.

use crate::Coordinator;
use crate::error::{CoordinatorError, WriteType};
use crate::read::{ReadRequest, pull_failed};
use model::command::{
    ClusteringFilter, ColumnSelection, Consistency, DataLimits, PartitionSelection, ReadCommand,
};
use model::{Cell, Clustering, ColumnId, DecoratedKey, Mutation, PartitionUpdate, Row, counter};
use partition::{Deadline, PageLimits, ReadContext};
use std::sync::Arc;

/// This node's part of a counter.
struct OwnShard {
    /// The row; `None` for the static row.
    place: Option<Clustering>,
    column: ColumnId,
    clock: i64,
    count: i64,
}

impl Coordinator {
    /// Writes counter updates. Each live cell of a counter column holds the difference as an 8-byte number.
    ///
    /// # Errors
    /// `Invalid` for consistency ANY; those of reads and writes. A failed update may have counted or not.
    pub async fn write_counters(
        &self,
        mut mutations: Vec<Mutation>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
    ) -> Result<(), CoordinatorError> {
        if consistency == Consistency::Any {
            let table = mutations.iter().flat_map(|m| &m.updates).next().map_or("", |u| &u.table.name);
            return Err(CoordinatorError::Invalid(format!(
                "Consistency level ANY is not yet supported for counter table {table}"
            )));
        }
        crate::write::validate_for_write(consistency)?;
        let keys: Vec<DecoratedKey> =
            mutations.iter().flat_map(|m| &m.updates).map(|u| u.key.clone()).collect();
        let too_late = || CoordinatorError::WriteTimeout {
            consistency,
            received: 0,
            block_for: 1,
            write_type: WriteType::Counter,
        };
        let _held = self.counter_locks.lock_until(deadline, &keys).await.ok_or_else(too_late)?;
        for update in mutations.iter_mut().flat_map(|m| &mut m.updates) {
            let added = self.add_totals(update, consistency, deadline).await;
            added.map_err(|error| match error {
                CoordinatorError::ReadTimeout { .. } => too_late(),
                other => other,
            })?;
        }
        self.write(mutations, consistency, WriteType::Counter, deadline).await
    }

    async fn add_totals(
        &self,
        update: &mut PartitionUpdate,
        consistency: Consistency,
        deadline: Option<&Deadline>,
    ) -> Result<(), CoordinatorError> {
        let names: Vec<Clustering> = update.rows.iter().map(|r| r.clustering.clone()).collect();
        let mut shards = Vec::new();
        if !names.is_empty() {
            self.own_shards(update, names, consistency, deadline, &mut shards).await?;
        }
        if update.static_row.is_some() {
            // No names: just the static row, whether or not the partition has rows.
            self.own_shards(update, Vec::new(), consistency, deadline, &mut shards).await?;
        }
        let now = self.env.now_micros();
        let host = self.host_id.into_bytes();
        let table = &update.table;
        let rows = update.rows.iter_mut().map(|r| (Some(r.clustering.clone()), r));
        let statics = update.static_row.iter_mut().map(|r| (None, r));
        for (place, row) in rows.chain(statics) {
            for cell in
                row.cells.iter_mut().filter(|c| !c.is_tombstone() && table.is_counter_column(c.column))
            {
                let (clock, count) = shards
                    .iter()
                    .find(|own| own.column == cell.column && own.place == place)
                    .map_or((0, 0), |own| (own.clock, own.count));
                add(cell, host, now.max(clock.saturating_add(1)), count);
            }
        }
        Ok(())
    }

    /// Reads this node's shards of the counters of the rows `names`, or of the static row.
    async fn own_shards(
        &self,
        update: &PartitionUpdate,
        names: Vec<Clustering>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
        found: &mut Vec<OwnShard>,
    ) -> Result<(), CoordinatorError> {
        let command = ReadCommand {
            columns: ColumnSelection::all(&update.table),
            partitions: PartitionSelection::Keys(vec![update.key.clone()]),
            clusterings: ClusteringFilter::Names { names, reversed: false },
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: (self.env.now_micros() / 1_000_000) as u32,
            table: Arc::clone(&update.table),
        };
        let mut rows = self
            .read(ReadRequest {
                command: Arc::new(command),
                consistency: Consistency::One,
                page: PageLimits::NONE,
                after: None,
                context: ReadContext { deadline: deadline.cloned(), ..ReadContext::default() },
            })
            .await?;
        let host = self.host_id.into_bytes();
        let mut collect = |place: Option<&Clustering>, row: &Row| {
            for cell in row.cells.iter().filter(|c| !c.is_tombstone()) {
                let shards = counter::shards(&cell.value).unwrap_or_default();
                if let Some(own) = shards.iter().find(|s| s.id == host) {
                    let place = place.cloned();
                    found.push(OwnShard { place, column: cell.column, clock: own.clock, count: own.count });
                }
            }
        };
        while let Some(result) = rows.next_row().map_err(|e| pull_failed(consistency, e))? {
            match (result.row, result.static_row) {
                (Some(row), _) => collect(Some(&row.clustering), row),
                (None, Some(statics)) => collect(None, statics),
                (None, None) => {}
            }
        }
        Ok(())
    }
}

/// Replaces a difference by the new running total.
fn add(cell: &mut Cell, host: [u8; 16], clock: i64, count: i64) {
    let difference = cell.value.first_chunk::<8>().map_or(0, |b| i64::from_be_bytes(*b));
    cell.value = counter::global(host, clock, count.wrapping_add(difference));
}
