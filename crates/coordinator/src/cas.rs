//! Conditional writes (`IF`): read, decide, write, one at a time for each partition.
//!
//! While this node is the only replica of a partition, and the only coordinator, holding the partition's
//! lock from the read to the acknowledgement makes conditional writes linearizable. They take their
//! timestamps from the same source as other writes, which never goes back: what a later condition wrote wins
//! over whatever was written before.
//!
//! Otherwise a quorum of the replicas decides ([`crate::paxos`]), and the lock just keeps the requests of
//! this node from overtaking each other.

use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::local::ReadObserver;
use crate::paxos::{Ballot, Proposal, Round};
use crate::read::{Page, PullError, ReadRequest};
use crate::topology::unplaced;
use model::command::ReadCommand;
use model::{Consistency, DecoratedKey, Mutation, PartitionUpdate, TableSchema, WriteType};
use partition::{Deadline, ReadContext};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A conditional write.
pub struct CasRequest {
    /// The partition that the conditions and the writes are about.
    pub key: DecoratedKey,
    /// Read what the conditions are about.
    pub reads: Vec<ReadCommand>,
    /// Consistency of the write, once decided.
    pub consistency: Consistency,
    /// Consistency of the decision: `Serial` or `LocalSerial`.
    pub serial_consistency: Consistency,
    /// Cost and deadline of the read.
    pub context: ReadContext,
    /// Until when somebody waits for the read.
    pub read_deadline: Option<Deadline>,
    /// Until when it waits for others of the partition.
    pub contention_deadline: Option<Deadline>,
    /// Until when what was decided has to be kept.
    pub write_deadline: Option<Deadline>,
}

impl Coordinator {
    /// Runs a conditional write. `take` makes something of the rows of each read; `decide` gets that and the
    /// write's timestamp in microseconds and says what to write, `None` when the conditions do not hold. It
    /// is asked again when another write of the partition came before.
    ///
    /// # Errors
    /// Those of reads and writes, `CasTimeout`; the decision's own.
    pub async fn cas<T: Send + 'static, E: From<CoordinatorError>>(
        self: &Arc<Self>,
        mut request: CasRequest,
        take: impl Fn(&mut Page) -> Result<T, PullError> + Clone + Send + 'static,
        mut decide: impl FnMut(Vec<T>, i64) -> Result<Option<Vec<Mutation>>, E> + Send,
        observer: &mut dyn ReadObserver,
    ) -> Result<(), E> {
        validate(&request)?;
        let table = Arc::clone(request.table()?);
        let reads: Vec<Arc<ReadCommand>> =
            std::mem::take(&mut request.reads).into_iter().map(Arc::new).collect();
        let (serial, read_deadline) = (request.serial_consistency, request.read_deadline.as_ref());
        let (contention, write) = (request.contention_deadline.as_ref(), request.write_deadline.as_ref());
        let (key, contentions) = (&request.key, AtomicU32::new(0));
        loop {
            if self.cas_locks.is_held(key) {
                observer.contended(&table, key, 1);
            }
            let waited = self.cas_locks.lock_until(&self.env.tasks, contention, [key]).await;
            let Some(held) = waited else {
                return Err(CoordinatorError::CasTimeout { consistency: serial, block_for: 1 }.into());
            };
            // Another node may have joined while it waited: then this one does not decide alone any more.
            let placement = self.topology.placement(&table.keyspace, key);
            let placement = placement.ok_or_else(|| unplaced(&*self.topology, &table.keyspace))?;
            if request.consistency == Consistency::EachQuorum {
                placement.check_datacenters(request.consistency)?;
            }
            let round = Round {
                coordinator: self,
                placement: &placement,
                table: &table,
                key,
                serial,
                contention,
                write,
                contentions: &contentions,
            };
            let is_alone = placement.is_decided_here();
            let read_at = if is_alone { serial } else { Round::quorum(serial) };
            let begun = if is_alone { Ok(None) } else { round.begin().await.map(Some) };
            let times = contentions.swap(0, Ordering::Relaxed);
            if times > 0 {
                observer.contended(&table, key, times);
            }
            let ballot = begun?;
            let timestamp = ballot.map_or_else(|| self.next_timestamp(), Ballot::micros);
            let mut found = Ok(Vec::with_capacity(reads.len()));
            for read in &reads {
                let Ok(all) = &mut found else { break };
                let read = ReadRequest::all(Arc::clone(read), read_at, request.context.clone());
                match self.collect_once(&read, take.clone(), read_deadline, observer).await {
                    Ok(rows) => all.push(rows),
                    Err(error) => found = Err(error),
                }
            }
            let rows = match found {
                Ok(rows) => rows,
                Err(PullError::Failed(error)) => return Err(error.into()),
                Err(PullError::Interrupted(interruption)) => {
                    // Nothing was decided yet, and others do not wait for it, too.
                    drop(held);
                    self.resumed(interruption, read_deadline, observer).await?;
                    continue;
                }
            };
            let mutations = decide(rows, timestamp)?;
            let Some(ballot) = ballot else {
                let Some(mutations) = mutations else { return Ok(()) };
                let written = self.write(mutations, request.consistency, WriteType::Cas, write).await;
                return written.map_err(|error| E::from(committed(error)));
            };
            let update = Arc::new(together(mutations.unwrap_or_default(), &table, key)?);
            let proposal = Proposal { ballot, update };
            if round.propose(&proposal).await? {
                return match proposal.update.is_empty() {
                    true => Ok(()),
                    false => Ok(self.commit(&placement, &proposal, request.consistency, write).await?),
                };
            }
            drop(held);
            round.pause().await?;
        }
    }
}

impl CasRequest {
    /// The table that it is about.
    fn table(&self) -> Result<&Arc<TableSchema>, CoordinatorError> {
        let read = self.reads.first();
        read.map(|read| &read.table)
            .ok_or_else(|| CoordinatorError::Internal("a condition reads nothing".to_owned()))
    }
}

/// The mutations as one update of a partition.
fn together(
    mutations: Vec<Mutation>,
    table: &Arc<TableSchema>,
    key: &DecoratedKey,
) -> Result<PartitionUpdate, CoordinatorError> {
    let mut all = PartitionUpdate::new(Arc::clone(table), key.clone());
    for update in mutations.into_iter().flat_map(|mutation| mutation.updates) {
        if update.table.id != table.id || update.key != *key {
            let refusal = "a conditional write is of several partitions";
            return Err(CoordinatorError::Internal(refusal.to_owned()));
        }
        all.deletion = all.deletion.max(update.deletion);
        update.rows.into_iter().for_each(|row| all.add_row(row));
        update.static_row.into_iter().for_each(|row| all.add_static(row));
        all.range_tombstones.extend(update.range_tombstones);
    }
    Ok(all)
}

/// What was decided stands, also when it was not kept in time: clients know that from the type.
fn committed(error: CoordinatorError) -> CoordinatorError {
    match error {
        CoordinatorError::WriteTimeout { consistency, received, block_for, .. } => {
            CoordinatorError::WriteTimeout { consistency, received, block_for, write_type: WriteType::Simple }
        }
        other => other,
    }
}

fn validate(request: &CasRequest) -> Result<(), CoordinatorError> {
    let is_serial = |c| matches!(c, Consistency::Serial | Consistency::LocalSerial);
    if !is_serial(request.serial_consistency) {
        return Err(CoordinatorError::Invalid(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL".to_owned(),
        ));
    }
    if is_serial(request.consistency) {
        return Err(CoordinatorError::Invalid(format!(
            "{} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is \
             accepted but I don't care how many replicas commit it for non-SERIAL reads\"",
            request.consistency.name()
        )));
    }
    Ok(())
}
