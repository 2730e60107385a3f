//! This node as a replica.
//!
//! Its data can be read where they are: a stream is opened, pulled and turned into an answer by one thread,
//! and nothing is copied in between. Such a read may have to stop: a page has to be loaded, or an SSTable is
//! not compared with its digest yet. Why it stopped never leaves this module:
//!
//! 1. A short read is tried on the thread that asks ([`LocalReplica::try_in_place`]), where it may not wait.
//! 2. Otherwise it runs on the pool of [`Readers`], whose threads may wait for the disk.
//! 3. Where it needs an SSTable that is not proven, it waits on no thread until that is, and begins anew.

mod in_place;
mod promises;
mod readers;

pub use in_place::Tried;
pub(crate) use in_place::{BYTES_MAX as IN_PLACE_BYTES_MAX, short};
pub use readers::{READER_THREAD, ReaderError, ReaderHooks, Readers};

use crate::paxos::{Promise, Proposal};
use crate::replica::{Answer, DataRequest, Hint, Replica, ReplicaError};
use in_place::InPlaceOdds;
use model::command::ReadCommand;
use model::{DecoratedKey, Mutation, Schema, TableSchema};
use partition::{
    BoxedStream, Deadline, Digest, ReadContext, ReadError, Recording, without_outlived, without_purgeable,
};
use promises::Promises;
use std::fmt::{self, Debug};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use uuid::Uuid;

/// The data of this node, with nothing in front of them.
pub trait LocalStore: Send + Sync + Debug {
    /// The schema in force.
    fn schema(&self) -> Arc<Schema>;

    /// The rows of `command`, tombstones included. The stream does its work, and fails, as it is read.
    ///
    /// # Errors
    /// Those of the read, [`ReadError::WouldBlock`] and [`ReadError::Unproven`] among them.
    fn stream(&self, command: &Arc<ReadCommand>, context: &ReadContext) -> Result<BoxedStream, ReadError>;

    /// Waits, on no thread, until the SSTable whose Data.db is `name` was compared with its digest.
    ///
    /// # Errors
    /// When the SSTable cannot be read; [`ReadError::TimedOut`] when the deadline came first.
    fn proven(&self, name: Arc<str>, deadline: Option<Deadline>) -> Proving;

    /// [`Replica::mutate`].
    fn mutate(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()>;

    /// [`Replica::truncate`].
    fn truncate(&self, table: Arc<TableSchema>) -> Answer<()>;

    /// [`Replica::truncated_millis`].
    fn truncated_millis(&self, table: &TableSchema) -> Answer<Option<i64>>;
}

/// The wait of [`LocalStore::proven`].
pub type Proving = Pin<Box<dyn Future<Output = Result<(), ReadError>> + Send>>;

/// How the wait for a thread ended.
#[derive(Clone, Copy, Debug)]
pub enum ReaderWait {
    /// The job began.
    Began {
        /// When, in nanoseconds of the monotonic clock.
        at_nanos: u64,
        /// An id of that moment, for who traces.
        event: Option<Uuid>,
    },
    /// The deadline came first.
    InVain,
}

/// Who wants to know how a read gets on.
pub trait ReadObserver: Send {
    /// Whether events are traced.
    fn is_traced(&self) -> bool {
        false
    }

    /// The read begins, perhaps anew, and counts its cost in `context`.
    fn begins(&mut self, _context: &ReadContext) {}

    /// It waited so long for a thread of the pool.
    fn waited_for_reader(&mut self, _nanos: u64, _how: ReaderWait) {}

    /// It waited so long until an SSTable was compared with its digest, or in vain.
    fn waited_for_proof(&mut self, _name: &str, _nanos: u64, _is_proven: bool) {}

    /// A conditional write met so many others of its partition.
    fn contended(&mut self, _table: &TableSchema, _key: &DecoratedKey, _times: u32) {}
}

/// Nobody.
impl ReadObserver for () {}

/// This node.
pub struct LocalReplica {
    store: Arc<dyn LocalStore>,
    readers: Arc<Readers>,
    odds: InPlaceOdds,
    promises: Arc<Promises>,
}

impl Debug for LocalReplica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalReplica").field("store", &self.store).finish_non_exhaustive()
    }
}

impl LocalReplica {
    /// The node whose data are in `store`.
    pub fn new(store: Arc<dyn LocalStore>, readers: Arc<Readers>) -> LocalReplica {
        let promises = Arc::new(Promises::new(Arc::clone(&store), Arc::clone(&readers)));
        LocalReplica { store, readers, odds: InPlaceOdds::default(), promises }
    }

    /// The threads that may wait for the disk.
    pub fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    /// [`LocalStore::stream`].
    pub(crate) fn stream(
        &self,
        command: &Arc<ReadCommand>,
        context: &ReadContext,
    ) -> Result<BoxedStream, ReadError> {
        self.store.stream(command, context)
    }

    /// [`LocalStore::proven`]; `observer` is told how long that took.
    pub(crate) async fn proven(
        &self,
        name: Arc<str>,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
    ) -> Result<(), ReadError> {
        let started = self.readers.clock().monotonic_nanos();
        let outcome = self.store.proven(Arc::clone(&name), deadline.cloned()).await;
        let nanos = self.readers.clock().monotonic_nanos().saturating_sub(started);
        observer.waited_for_proof(&name, nanos, outcome.is_ok());
        outcome
    }
}

/// Reads for another node, or for a merge with what others have; `take` makes the answer of it.
fn answer<T: Send + 'static>(
    store: &Arc<dyn LocalStore>,
    readers: &Arc<Readers>,
    request: &DataRequest,
    take: fn(Recording, &ReadCommand) -> T,
) -> Answer<T> {
    let (store, readers) = (Arc::clone(store), Arc::clone(readers));
    match record(&*store, request, false) {
        Err(ReadError::WouldBlock | ReadError::Unproven(_)) => {}
        outcome => {
            let outcome = outcome.map(|recording| take(recording, &request.command));
            return Answer::ready(outcome.map_err(ReplicaError::from));
        }
    }
    let request = request.clone();
    Answer::later(async move {
        loop {
            let (source, asked) = (Arc::clone(&store), request.clone());
            let job =
                move |_| record(&*source, &asked, true).map(|recording| take(recording, &asked.command));
            let name = match readers.run(request.deadline.as_ref(), job).await {
                Ok(Err(ReadError::Unproven(name))) => name,
                Ok(outcome) => return outcome.map_err(ReplicaError::from),
                Err(ReaderError::TimedOut) => return Err(ReplicaError::TimedOut),
                Err(error @ ReaderError::Overloaded) => {
                    return Err(ReplicaError::Overloaded(error.to_string()));
                }
                Err(error @ ReaderError::Abandoned) => {
                    let cause = std::io::Error::other(error.to_string());
                    return Err(ReadError::from(cause).into());
                }
            };
            store.proven(name, request.deadline.clone()).await?;
        }
    })
}

impl Replica for LocalReplica {
    fn read_data(&self, request: &DataRequest) -> Answer<Recording> {
        answer(&self.store, &self.readers, request, |recording, _| recording)
    }

    fn read_digest(&self, request: &DataRequest) -> Answer<Digest> {
        answer(&self.store, &self.readers, request, |recording, command| recording.digest(command))
    }

    fn mutate(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()> {
        self.store.mutate(mutation, deadline)
    }

    fn repair(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()> {
        self.store.mutate(mutation, deadline)
    }

    fn hint(&self, hint: Hint, deadline: Option<&Deadline>) -> Answer<()> {
        let Hint { mutation, written_millis, gc_grace_s } = hint;
        let grace_s = mutation.updates.iter().map(|update| i64::from(update.table.options.gc_grace_seconds));
        let grace_s = grace_s.chain([i64::from(gc_grace_s)]).min().unwrap_or(0);
        let age_millis = self.readers.clock().now_millis().saturating_sub(written_millis);
        if age_millis >= grace_s.saturating_mul(1_000) {
            return Answer::ready(Ok(()));
        }
        let (store, deadline) = (Arc::clone(&self.store), deadline.cloned());
        Answer::later(async move {
            let mut kept = Vec::with_capacity(mutation.updates.len());
            for update in &mutation.updates {
                let truncated = store.truncated_millis(&update.table).await?;
                if truncated.is_none_or(|truncated| truncated < written_millis) {
                    kept.push(update.clone());
                }
            }
            match kept.is_empty() {
                true => Ok(()),
                false => store.mutate(Arc::new(Mutation { updates: kept }), deadline.as_ref()).await,
            }
        })
    }

    fn prepare(&self, request: Proposal, deadline: Option<&Deadline>) -> Answer<Promise> {
        let (promises, deadline) = (Arc::clone(&self.promises), deadline.cloned());
        Answer::later(async move { promises.prepare(request, deadline).await })
    }

    fn propose(&self, proposal: Proposal, deadline: Option<&Deadline>) -> Answer<bool> {
        let (promises, deadline) = (Arc::clone(&self.promises), deadline.cloned());
        Answer::later(async move { promises.propose(proposal, deadline).await })
    }

    fn commit(&self, decided: Proposal, deadline: Option<&Deadline>) -> Answer<()> {
        let (promises, deadline) = (Arc::clone(&self.promises), deadline.cloned());
        Answer::later(async move { promises.commit(decided, deadline).await })
    }

    fn truncate(&self, table: Arc<TableSchema>) -> Answer<()> {
        self.store.truncate(table)
    }

    fn truncated_millis(&self, table: &TableSchema) -> Answer<Option<i64>> {
        self.store.truncated_millis(table)
    }

    fn as_local(&self) -> Option<&LocalReplica> {
        Some(self)
    }
}

/// Reads into memory what another node, or a merge with what others have, asks for.
fn record(store: &dyn LocalStore, request: &DataRequest, may_block: bool) -> Result<Recording, ReadError> {
    let deadline = request.deadline.clone();
    let all = ReadContext { deadline, keeps_others: true, ..ReadContext::default() };
    let context = if may_block { all } else { short(all) };
    let stream = without_purgeable(store.stream(&request.command, &context)?, &request.command);
    let stream = without_outlived(stream, &request.command);
    match &request.groups {
        None => Recording::of(stream, &request.command, context, request.page),
        Some(groups) => Recording::of_groups(stream, &request.command, groups, context, request.page),
    }
}
