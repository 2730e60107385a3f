//! A node that holds data: this one, or another.
//!
//! The verbs have the shape of messages: all that is asked goes in, all that is answered comes out, and
//! nothing is pulled from the other side afterwards. A server of internode messages calls the same verbs.

use crate::local::LocalReplica;
use crate::paxos::{Promise, Proposal};
use model::command::ReadCommand;
use model::{Consistency, Mutation, TableSchema};
use partition::{Deadline, Digest, GroupLimits, PageLimits, ReadError, Recording};
use std::fmt::Debug;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use uuid::Uuid;

/// What a replica answers: at once, as the node itself does wherever nothing has to be waited for, or later.
pub enum Answer<T> {
    /// This; nothing once it was taken.
    Ready(Option<Result<T, ReplicaError>>),
    /// What this comes to.
    Later(Pin<Box<dyn Future<Output = Result<T, ReplicaError>> + Send>>),
}

impl<T> Answer<T> {
    /// An answer that is there.
    pub fn ready(result: Result<T, ReplicaError>) -> Answer<T> {
        Answer::Ready(Some(result))
    }

    /// An answer that is waited for.
    pub fn later(answer: impl Future<Output = Result<T, ReplicaError>> + Send + 'static) -> Answer<T> {
        Answer::Later(Box::pin(answer))
    }
}

// Nothing in an answer is pinned but what its box holds.
impl<T> Unpin for Answer<T> {}

impl<T> Future for Answer<T> {
    type Output = Result<T, ReplicaError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            // Like that of every future, the outcome is taken once.
            Answer::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            Answer::Later(answer) => answer.as_mut().poll(context),
        }
    }
}

/// Why a replica did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReplicaError {
    /// It has no memory, or no thread, for more at the moment.
    #[error("{0}")]
    Overloaded(String),
    /// It did not do it in time. A write may be kept later.
    #[error("not done in time")]
    TimedOut,
    /// The write is too large to be kept.
    #[error("{0}")]
    TooLarge(String),
    /// It could not read its data.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// It could not keep the write.
    #[error("{0}")]
    Write(String),
    /// A node elsewhere says that it failed.
    #[error("{address} failed: {name}")]
    Elsewhere {
        /// Its address.
        address: IpAddr,
        /// Why, as nodes and clients know it (`RequestFailureReason` of Cassandra).
        code: u16,
        /// The name of that.
        name: &'static str,
    },
}

/// A read, as a replica is asked for it.
#[derive(Clone, Debug)]
pub struct DataRequest {
    /// What is read.
    pub command: Arc<ReadCommand>,
    /// When the replica has read enough: live rows, bytes, tombstones.
    pub page: PageLimits,
    /// The groups that are enough, for another node that makes groups of the rows.
    pub groups: Option<Arc<GroupLimits>>,
    /// Until when somebody waits.
    pub deadline: Option<Deadline>,
}

/// A mutation that a coordinator kept for a replica that missed it.
#[derive(Clone, Debug)]
pub struct Hint {
    /// What was missed, with the timestamps of its time.
    pub mutation: Arc<Mutation>,
    /// When it was written, in milliseconds since the epoch.
    pub written_millis: i64,
    /// `gc_grace_seconds` then, the shortest of its tables.
    pub gc_grace_s: u32,
}

/// A logged batch, as its log keeps it.
#[derive(Clone, Debug)]
pub struct LoggedBatch {
    /// Its time uuid.
    pub id: Uuid,
    /// When it was made, in microseconds since the epoch.
    pub written_micros: i64,
    /// What is in it.
    pub mutations: Vec<Mutation>,
}

/// A node that holds data.
pub trait Replica: Send + Sync + Debug {
    /// Reads what the request asks for, tombstones included, as far as its limits.
    fn read_data(&self, request: &DataRequest) -> Answer<Recording>;

    /// The digest of what [`Replica::read_data`] would answer.
    fn read_digest(&self, request: &DataRequest) -> Answer<Digest>;

    /// Keeps a mutation, or says at the deadline that it has not.
    fn mutate(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()>;

    /// Keeps a mutation, and passes it on to others of its data center, who keep it too. The answers: its
    /// own, then that of each other in their order. A replica that cannot pass it on has the others asked
    /// directly.
    fn mutate_and_pass_on(
        &self,
        others: &[&dyn Replica],
        mutation: &Arc<Mutation>,
        deadline: Option<&Deadline>,
    ) -> Vec<Answer<()>> {
        let own = self.mutate(Arc::clone(mutation), deadline);
        let of_others = others.iter().map(|other| other.mutate(Arc::clone(mutation), deadline));
        std::iter::once(own).chain(of_others).collect()
    }

    /// Keeps what a read found the replica to lack, or says at the deadline that it has not.
    fn repair(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()>;

    /// Keeps what the replica missed, but for tables that were emptied since. A hint that is older than
    /// `gc_grace_seconds` is done with, too, without being kept: what deleted it may be forgotten.
    fn hint(&self, hint: Hint, deadline: Option<&Deadline>) -> Answer<()>;

    /// Keeps a batch until it is done, and completes it if nobody says that it is.
    fn store_batch(&self, _batch: Arc<LoggedBatch>, _deadline: Option<&Deadline>) -> Answer<()> {
        Answer::ready(Err(ReplicaError::Write("this replica keeps no batches".to_owned())))
    }

    /// Forgets a batch, which is done.
    fn remove_batch(&self, _id: Uuid) -> Answer<()> {
        Answer::ready(Ok(()))
    }

    /// Makes totals of the increments of a counter, whose partition it holds, and writes them at
    /// `consistency`. This node leads without being asked.
    fn lead_counters(
        &self,
        _mutation: Arc<Mutation>,
        _consistency: Consistency,
        _deadline: Option<&Deadline>,
    ) -> Answer<()> {
        Answer::ready(Err(ReplicaError::Write("this replica leads no counters".to_owned())))
    }

    /// Promises to accept nothing before a ballot, if it has not promised a later one. The update is empty.
    fn prepare(&self, request: Proposal, deadline: Option<&Deadline>) -> Answer<Promise>;

    /// Accepts a proposal, if it has promised nothing later; whether it has.
    fn propose(&self, proposal: Proposal, deadline: Option<&Deadline>) -> Answer<bool>;

    /// Keeps what was decided.
    fn commit(&self, decided: Proposal, deadline: Option<&Deadline>) -> Answer<()>;

    /// Empties a table.
    fn truncate(&self, table: Arc<TableSchema>) -> Answer<()>;

    /// When a table was last emptied, in milliseconds since the epoch; `None` if never.
    fn truncated_millis(&self, table: &TableSchema) -> Answer<Option<i64>>;

    /// Where other nodes send messages to it, if it is reached by messages.
    fn storage_address(&self) -> Option<SocketAddr> {
        None
    }

    /// The replica as this node, whose data can be read where they are.
    fn as_local(&self) -> Option<&LocalReplica> {
        None
    }
}
