//! What this node has promised, accepted and learned of conditional writes: a row of `system.paxos` for each
//! partition, as Cassandra has it.
//!
//! ```text
//! in_progress_ballot                  the last ballot that was promised
//! proposal, _ballot, _version         the last proposal that was accepted, gone when it is decided
//! most_recent_commit, _at, _version   the last decision
//! ```
//! 1. All three verbs are one after the other for each partition, and answer when their state is kept.
//! 2. The cells of a ballot have its time, so the later one stays, whichever is written last.
//! 3. A proposal or a decision is a promise, too: nothing before it is accepted any more.
//! 4. A state expires when all have long forgotten it: after three hours, or the `gc_grace_seconds` of the
//!    table.

use super::{LocalStore, Readers, answer};
use crate::batchlog::{MESSAGING_VERSION, times_of};
use crate::locks::KeyLocks;
use crate::paxos::{Ballot, Promise, Proposal};
use crate::replica::{DataRequest, ReplicaError};
use bytes::Bytes;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::row::ResultRow;
use model::{Cell, Clustering, ColumnId, DecoratedKey, Mutation, PartitionUpdate, Row, TableSchema};
use partition::codec::mutation::{decode_mutation, encode_mutation};
use partition::{Cut, Deadline, LiveRows, PageLimits, ReadContext, ReadError, known};
use std::sync::Arc;
use uuid::Uuid;

/// Seconds that a state is kept at least.
const TTL_MIN_S: i32 = 3 * 60 * 60;

/// The states of this node.
pub(super) struct Promises {
    store: Arc<dyn LocalStore>,
    readers: Arc<Readers>,
    locks: KeyLocks,
}

/// That of a partition.
struct State {
    promised: Ballot,
    accepted: Proposal,
    committed: Proposal,
}

impl Promises {
    pub(super) fn new(store: Arc<dyn LocalStore>, readers: Arc<Readers>) -> Promises {
        Promises { store, readers, locks: KeyLocks::new() }
    }

    /// [`crate::Replica::prepare`].
    pub(super) async fn prepare(
        &self,
        proposal: Proposal,
        deadline: Option<Deadline>,
    ) -> Result<Promise, ReplicaError> {
        let Proposal { ballot, update } = &proposal;
        let _held = self.lock(&update.key, deadline.as_ref()).await?;
        let State { promised, accepted, committed } = self.load(&proposal, deadline.as_ref()).await?;
        if !ballot.is_after(promised) {
            let in_progress = Proposal::empty(promised, &update.table, &update.key);
            return Ok(Promise { is_promised: false, in_progress, committed });
        }
        let state = [("in_progress_ballot", Some(bytes_of(ballot.0)))];
        self.save(&proposal, state, deadline.as_ref()).await?;
        Ok(Promise { is_promised: true, in_progress: accepted, committed })
    }

    /// [`crate::Replica::propose`].
    pub(super) async fn propose(
        &self,
        proposal: Proposal,
        deadline: Option<Deadline>,
    ) -> Result<bool, ReplicaError> {
        let _held = self.lock(&proposal.update.key, deadline.as_ref()).await?;
        let promised = self.load(&proposal, deadline.as_ref()).await?.promised;
        if proposal.ballot != promised && !proposal.ballot.is_after(promised) {
            return Ok(false);
        }
        let state = [
            ("proposal", Some(encoded(&proposal)?)),
            ("proposal_ballot", Some(bytes_of(proposal.ballot.0))),
            ("proposal_version", Some(version())),
        ];
        self.save(&proposal, state, deadline.as_ref()).await?;
        Ok(true)
    }

    /// [`crate::Replica::commit`].
    pub(super) async fn commit(
        &self,
        proposal: Proposal,
        deadline: Option<Deadline>,
    ) -> Result<(), ReplicaError> {
        let _held = self.lock(&proposal.update.key, deadline.as_ref()).await?;
        let truncated = self.store.truncated_millis(&proposal.update.table).await?;
        let is_truncated =
            truncated.is_some_and(|truncated| truncated >= proposal.ballot.micros().div_euclid(1_000));
        if !is_truncated && !proposal.update.is_empty() {
            self.store.mutate(Arc::new(proposal.mutation()), deadline.as_ref()).await?;
        }
        let state = [
            ("proposal", None),
            ("proposal_ballot", None),
            ("proposal_version", None),
            ("most_recent_commit", Some(encoded(&proposal)?)),
            ("most_recent_commit_at", Some(bytes_of(proposal.ballot.0))),
            ("most_recent_commit_version", Some(version())),
        ];
        self.save(&proposal, state, deadline.as_ref()).await
    }

    async fn lock(&self, key: &DecoratedKey, deadline: Option<&Deadline>) -> Result<impl Send, ReplicaError> {
        let locked = self.locks.lock_until(self.readers.tasks(), deadline, [key]).await;
        locked.ok_or(ReplicaError::TimedOut)
    }

    fn table(&self) -> Result<Arc<TableSchema>, ReplicaError> {
        let table = self.store.schema().table("system", "paxos").cloned();
        table.ok_or_else(|| unreadable("the table system.paxos is missing"))
    }

    /// The state of the partition of a proposal.
    async fn load(&self, proposal: &Proposal, deadline: Option<&Deadline>) -> Result<State, ReplicaError> {
        let (table, key) = (&proposal.update.table, &proposal.update.key);
        let paxos = self.table()?;
        let names = vec![Clustering::from_values([&table.id.as_bytes()[..]])];
        let command = Arc::new(ReadCommand {
            columns: ColumnSelection::all(&paxos),
            partitions: PartitionSelection::Keys(vec![DecoratedKey::new(key.key.clone())]),
            clusterings: ClusteringFilter::Names { names, reversed: false },
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: self.now_s(),
            table: Arc::clone(&paxos),
        });
        let request = DataRequest {
            command: Arc::clone(&command),
            page: PageLimits::NONE,
            groups: None,
            deadline: deadline.cloned(),
        };
        let recording = answer(&self.store, &self.readers, &request, |recording, _| recording).await?;
        let stream = known(&paxos, vec![recording], &command, false, &Cut::default());
        let mut rows = LiveRows::new(stream, command, ReadContext::default(), PageLimits::NONE);
        let row = rows.next_row()?;
        let cell = |name: &str| -> Result<Option<Bytes>, ReplicaError> {
            let column = column(&paxos, name)?;
            let cell = row.and_then(|row: ResultRow<'_>| row.live_cell(column, false).cloned());
            Ok(cell.map(|cell| cell.value))
        };
        let ballot = |name: &str| -> Result<Ballot, ReplicaError> {
            let uuid = cell(name)?.and_then(|value| Uuid::from_slice(&value).ok());
            Ok(uuid.map_or(Ballot::NONE, Ballot))
        };
        let saved = |at: &str, update: &str, version: &str| -> Result<Proposal, ReplicaError> {
            let ballot = ballot(at)?;
            let version = cell(version)?.and_then(|value| value.as_ref().try_into().ok());
            match (cell(update)?, version.map(i32::from_be_bytes)) {
                (Some(update), Some(version)) => decoded(ballot, &update, version, table),
                _ => Ok(Proposal::empty(ballot, table, key)),
            }
        };
        let accepted = saved("proposal_ballot", "proposal", "proposal_version")?;
        let committed = saved("most_recent_commit_at", "most_recent_commit", "most_recent_commit_version")?;
        let mut promised = ballot("in_progress_ballot")?;
        for other in [accepted.ballot, committed.ballot] {
            if other.is_after(promised) {
                promised = other;
            }
        }
        Ok(State { promised, accepted, committed })
    }

    /// Keeps parts of the state; `None` forgets one.
    async fn save<const N: usize>(
        &self,
        proposal: &Proposal,
        state: [(&str, Option<Bytes>); N],
        deadline: Option<&Deadline>,
    ) -> Result<(), ReplicaError> {
        let paxos = self.table()?;
        let table = &proposal.update.table;
        let (timestamp, now_s) = (proposal.ballot.micros(), self.now_s());
        let ttl = table.options.gc_grace_seconds.max(TTL_MIN_S);
        let mut row = Row::new(Clustering::from_values([&table.id.as_bytes()[..]]));
        for (name, value) in state {
            let column = column(&paxos, name)?;
            row.cells.push(match value {
                Some(value) => {
                    Cell::expiring(column, timestamp, ttl, now_s.saturating_add(ttl.unsigned_abs()), value)
                }
                None => Cell::tombstone(column, timestamp, now_s),
            });
        }
        row.cells.sort_by_key(|cell| cell.column);
        let mut update = PartitionUpdate::new(paxos, DecoratedKey::new(proposal.update.key.key.clone()));
        update.rows.push(row);
        self.store.mutate(Arc::new(Mutation::of(update)), deadline).await
    }

    fn now_s(&self) -> u32 {
        u32::try_from(self.readers.clock().now_seconds()).unwrap_or(0)
    }
}

fn unreadable(what: &str) -> ReplicaError {
    ReadError::from(std::io::Error::other(what.to_owned())).into()
}

fn column(table: &TableSchema, name: &str) -> Result<ColumnId, ReplicaError> {
    let column = table.column(name).map(|column| column.id);
    column.ok_or_else(|| unreadable(&format!("the column system.paxos.{name} is missing")))
}

fn bytes_of(uuid: Uuid) -> Bytes {
    Bytes::copy_from_slice(uuid.as_bytes())
}

fn version() -> Bytes {
    Bytes::copy_from_slice(&MESSAGING_VERSION.to_be_bytes())
}

/// The update of a proposal: a mutation but for the number of its updates, which is one byte.
fn encoded(proposal: &Proposal) -> Result<Bytes, ReplicaError> {
    let times = times_of(MESSAGING_VERSION).ok_or_else(|| unreadable("no such messaging version"))?;
    let mut bytes = Vec::new();
    let encoded = encode_mutation(&proposal.mutation(), times, &mut bytes);
    encoded.map_err(|error| ReplicaError::Write(error.to_string()))?;
    Ok(Bytes::from(bytes).slice(1..))
}

fn decoded(
    ballot: Ballot,
    update: &Bytes,
    version: i32,
    table: &Arc<TableSchema>,
) -> Result<Proposal, ReplicaError> {
    let times = times_of(version)
        .ok_or_else(|| unreadable(&format!("a proposal of the messaging version {version}")))?;
    let lookup = |id: Uuid| (id == table.id).then(|| Arc::clone(table));
    let mutation = decode_mutation(&[&[1], &update[..]].concat(), times, &lookup);
    let mutation = mutation.map_err(|error| unreadable(&error.to_string()))?;
    let update = mutation.updates.into_iter().next().ok_or_else(|| unreadable("a proposal of nothing"))?;
    Ok(Proposal { ballot, update: Arc::new(update) })
}
