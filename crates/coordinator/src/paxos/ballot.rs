//! The words of Paxos: ballots, proposals and promises (Cassandra's `Commit` and `PrepareResponse`, the first
//! version of its protocol).

use model::{DecoratedKey, Mutation, PartitionUpdate, Row, TableSchema};
use std::sync::Arc;
use uuid::Uuid;

/// Ticks of 100 ns between 1582-10-15 and 1970-01-01.
const TICKS_TO_1970: i64 = 0x01b2_1dd2_1381_4000;

/// The number of an attempt to decide: a version 1 uuid, whose time is that of what is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ballot(pub Uuid);

impl Ballot {
    /// Before every other.
    pub const NONE: Ballot = Ballot(Uuid::nil());

    /// Its time in microseconds since the epoch: the timestamp of what it decides.
    pub fn micros(self) -> i64 {
        let (high, _) = self.0.as_u64_pair();
        let ticks = (high & 0x0fff) << 48 | (high >> 16 & 0xffff) << 32 | high >> 32;
        (ticks as i64).saturating_sub(TICKS_TO_1970).div_euclid(10)
    }

    /// Whether it comes after another. Of two that share a microsecond none does: their states would share a
    /// timestamp, and either could be lost.
    pub fn is_after(self, other: Ballot) -> bool {
        self.micros() > other.micros()
    }
}

/// What a ballot is about: a partition, and what shall be written to it.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The attempt.
    pub ballot: Ballot,
    /// What is written when it is decided. Nothing in a request for a promise.
    pub update: Arc<PartitionUpdate>,
}

impl Proposal {
    /// That nothing is written.
    pub fn empty(ballot: Ballot, table: &Arc<TableSchema>, key: &DecoratedKey) -> Proposal {
        Proposal { ballot, update: Arc::new(PartitionUpdate::new(Arc::clone(table), key.clone())) }
    }

    /// The same at the time of another ballot. Deletions come a microsecond before what is written along with
    /// them, as in Cassandra.
    pub(crate) fn at(&self, ballot: Ballot) -> Proposal {
        let mut update = PartitionUpdate::clone(&self.update);
        let (now, before) = (ballot.micros(), ballot.micros() - 1);
        for deletion in [&mut update.deletion]
            .into_iter()
            .chain(update.range_tombstones.iter_mut().map(|tombstone| &mut tombstone.deletion))
        {
            if !deletion.is_none() {
                deletion.timestamp = before;
            }
        }
        let set = |row: &mut Row| {
            if !row.liveness.is_none() {
                row.liveness.timestamp = now;
            }
            if !row.deletion.is_none() {
                row.deletion.timestamp = before;
            }
            row.complex_deletions.iter_mut().for_each(|(_, deletion)| deletion.timestamp = before);
            row.cells.iter_mut().for_each(|cell| cell.timestamp = now);
        };
        update.static_row.iter_mut().chain(&mut update.rows).for_each(set);
        Proposal { ballot, update: Arc::new(update) }
    }

    pub(crate) fn mutation(&self) -> Mutation {
        Mutation::of(PartitionUpdate::clone(&self.update))
    }
}

/// What a replica answers to a request for a promise.
#[derive(Clone, Debug)]
pub struct Promise {
    /// Whether it will accept nothing before the ballot.
    pub is_promised: bool,
    /// The last proposal that it has accepted. In a refusal, the ballot that it has promised.
    pub in_progress: Proposal,
    /// The last decision that it knows of.
    pub committed: Proposal,
}
