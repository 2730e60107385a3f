//! Counter updates: what a client sends is a difference, what is kept is this node's running total.
//!
//! A replica of the partition leads: this node, or the closest that is alive, which is asked to. What it
//! comes to goes to all replicas as any write does.
//!
//! Under the locks of the partitions, the leader reads its own shard of every counter of the update, adds the
//! difference and replaces the cell by a context with that one shard (docs/formats/sstable-big.md). The
//! shard's clock is the wall clock in microseconds, or one more than before where that is larger.

use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::local::ReadObserver;
use crate::placement::Placement;
use crate::read::{Page, PullError, ReadRequest};
use crate::replica::{Answer, ReplicaError};
use crate::write::{Failed, failed_write};
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::{
    Cell, Clustering, ColumnId, Consistency, DecoratedKey, Mutation, PartitionUpdate, Row, WriteType, counter,
};
use partition::{Deadline, ReadContext};
use std::sync::Arc;

/// This node's part of a counter.
struct OwnShard {
    /// The row; `None` for the static row.
    place: Option<Clustering>,
    column: ColumnId,
    clock: i64,
    count: i64,
}

/// What others lead, and were asked to.
type LedElsewhere = Vec<(Arc<Placement>, Answer<()>)>;

impl Coordinator {
    /// Writes counter updates. Each live cell of a counter column holds the difference as an 8-byte number.
    ///
    /// # Errors
    /// Those of reads and writes. A failed update may have counted or not.
    pub async fn write_counters(
        self: &Arc<Self>,
        mut mutations: Vec<Mutation>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> Result<(), CoordinatorError> {
        let led_elsewhere = self.ask_leaders(&mut mutations, consistency, deadline)?;
        if !mutations.is_empty() {
            self.lead(mutations, consistency, deadline, observer).await?;
        }
        for (placement, answer) in led_elsewhere {
            answer.await.map_err(|cause| {
                let block_for = placement.required(consistency).count();
                let failed = Failed { received: 0, failures: 1, cause };
                failed_write(failed, consistency, block_for, WriteType::Counter)
            })?;
        }
        Ok(())
    }

    /// Takes out of `mutations` what others lead, and asks them to. Nothing is asked before all of it is
    /// known to be possible.
    fn ask_leaders(
        &self,
        mutations: &mut Vec<Mutation>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
    ) -> Result<LedElsewhere, CoordinatorError> {
        let mut elsewhere = Vec::new();
        let mut here = Vec::with_capacity(mutations.len());
        for mutation in std::mem::take(mutations) {
            let placement = self.placement_of(&mutation)?;
            placement.for_write(consistency)?;
            let is_led_here = placement.replicas().iter().any(|node| node.replica.as_local().is_some());
            match is_led_here {
                true => here.push(mutation),
                false => elsewhere.push((placement, mutation)),
            }
        }
        *mutations = here;
        let ask = |(placement, mutation): (Arc<Placement>, Mutation)| {
            // As many are alive as the level wants, so at least one is.
            let leader = placement.replicas().iter().find(|node| node.is_alive());
            let answer = match leader {
                Some(node) => node.replica.lead_counters(Arc::new(mutation), consistency, deadline),
                None => Answer::ready(Err(ReplicaError::TimedOut)),
            };
            (placement, answer)
        };
        Ok(elsewhere.into_iter().map(ask).collect())
    }

    /// Carries out what this node leads.
    async fn lead(
        self: &Arc<Self>,
        mut mutations: Vec<Mutation>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> Result<(), CoordinatorError> {
        let keys: Vec<DecoratedKey> =
            mutations.iter().flat_map(|m| &m.updates).map(|u| u.key.clone()).collect();
        let too_late = || CoordinatorError::WriteTimeout {
            consistency,
            received: 0,
            block_for: 1,
            write_type: WriteType::Counter,
        };
        loop {
            let held =
                self.counter_locks.lock_until(&self.env.tasks, deadline, &keys).await.ok_or_else(too_late)?;
            let interruption = match self.shards_of(&mutations, consistency, deadline, observer).await {
                Ok(shards) => {
                    self.add_totals(&mut mutations, &shards);
                    return self.write_totals(mutations, consistency, deadline).await;
                }
                Err(PullError::Failed(CoordinatorError::ReadTimeout { .. })) => return Err(too_late()),
                Err(PullError::Failed(error)) => return Err(error),
                Err(PullError::Interrupted(interruption)) => interruption,
            };
            // Others do not wait for it, too.
            drop(held);
            self.resumed(interruption, deadline, observer).await.map_err(|error| match error {
                CoordinatorError::ReadTimeout { .. } => too_late(),
                other => other,
            })?;
        }
    }

    /// Carries counter updates out that another coordinator has chosen this replica for.
    ///
    /// # Errors
    /// Those of [`Coordinator::write_counters`], as those of a replica.
    pub async fn lead_counters(
        self: &Arc<Self>,
        mutation: Mutation,
        consistency: Consistency,
        deadline: Option<&Deadline>,
    ) -> Result<(), ReplicaError> {
        let led = self.lead(vec![mutation], consistency, deadline, &mut ()).await;
        led.map_err(|error| match error {
            CoordinatorError::WriteTimeout { .. } => ReplicaError::TimedOut,
            CoordinatorError::Overloaded(message) => ReplicaError::Overloaded(message),
            other => ReplicaError::Write(other.to_string()),
        })
    }

    /// This node's shards of all counters that are updated, in the order of the updates.
    async fn shards_of(
        self: &Arc<Self>,
        mutations: &[Mutation],
        consistency: Consistency,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> Result<Vec<Vec<OwnShard>>, PullError> {
        let mut all = Vec::new();
        for update in mutations.iter().flat_map(|m| &m.updates) {
            let names: Vec<Clustering> = update.rows.iter().map(|r| r.clustering.clone()).collect();
            let mut shards = Vec::new();
            if !names.is_empty() {
                shards = self.own_shards(update, names, consistency, deadline, observer).await?;
            }
            if update.static_row.is_some() {
                // No names: just the static row, whether or not the partition has rows.
                shards.extend(self.own_shards(update, Vec::new(), consistency, deadline, observer).await?);
            }
            all.push(shards);
        }
        Ok(all)
    }

    /// Makes totals of the differences.
    fn add_totals(&self, mutations: &mut [Mutation], shards: &[Vec<OwnShard>]) {
        let now = self.env.now_micros();
        let host = self.host_id.into_bytes();
        let updates = mutations.iter_mut().flat_map(|m| &mut m.updates);
        for (update, shards) in updates.zip(shards) {
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
        }
    }

    /// Reads this node's shards of the counters of the rows `names`, or of the static row.
    async fn own_shards(
        self: &Arc<Self>,
        update: &PartitionUpdate,
        names: Vec<Clustering>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> Result<Vec<OwnShard>, PullError> {
        let command = ReadCommand {
            columns: ColumnSelection::all(&update.table),
            partitions: PartitionSelection::Keys(vec![update.key.clone()]),
            clusterings: ClusteringFilter::Names { names, reversed: false },
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: (self.env.now_micros() / 1_000_000) as u32,
            table: Arc::clone(&update.table),
        };
        let context = ReadContext { deadline: deadline.cloned(), ..ReadContext::default() };
        let host = self.host_id.into_bytes();
        let take = move |page: &mut Page| shards_in(page, host);
        let request = ReadRequest::all(Arc::new(command), consistency, context).of_this_node();
        self.collect_once(&request, take, deadline, observer).await
    }
}

/// The shards of a node in the rows of a page.
fn shards_in(page: &mut Page, host: [u8; 16]) -> Result<Vec<OwnShard>, PullError> {
    let mut found = Vec::new();
    let mut collect = |place: Option<&Clustering>, row: &Row| {
        for cell in row.cells.iter().filter(|c| !c.is_tombstone()) {
            let shards = counter::shards(&cell.value).unwrap_or_default();
            if let Some(own) = shards.iter().find(|s| s.id == host) {
                let place = place.cloned();
                found.push(OwnShard { place, column: cell.column, clock: own.clock, count: own.count });
            }
        }
    };
    while let Some(result) = page.next_row()? {
        match (result.row, result.static_row) {
            (Some(row), _) => collect(Some(&row.clustering), row),
            (None, Some(statics)) => collect(None, statics),
            (None, None) => {}
        }
    }
    Ok(found)
}

/// Replaces a difference by the new running total.
fn add(cell: &mut Cell, host: [u8; 16], clock: i64, count: i64) {
    let difference = cell.value.first_chunk::<8>().map_or(0, |b| i64::from_be_bytes(*b));
    cell.value = counter::global(host, clock, count.wrapping_add(difference));
}
