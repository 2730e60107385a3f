//! A whole node, engine and coordinator, in the world of a simulation ([`env::sim`]): its flushes,
//! compactions, syncs and readers take turns with the clients of a test, drawn from one seed.
//!
//! A node is opened on files in memory. Who wants to cut the power takes [`MemoryFileSystem::crash`] at any
//! turn and opens another node on what is left.
//!
//! - [`member`]: a node of a ring;
//! - [`network`]: what carries messages between the nodes of a ring;
//! - [`ring`]: all nodes of a ring, and what can happen to them.

pub mod member;
pub mod network;
pub mod ring;

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coordinator::{
    Answer, CasRequest, Coordinator, CoordinatorError, LocalReplica, LocalStore, NoHints, Node, Page,
    Proving, PullError, ReadRequest, ReaderHooks, Readers, Replica, ReplicaError, SingleNode,
};
use engine::{Compared, Engine, EngineError, EngineOptions, SyncTicket, WriteError, WriteOptions};
use env::Env;
use env::fs::memory::MemoryFileSystem;
use env::fs::{EntryKind, FileSystem};
use env::tasks::block_on;
use model::command::ReadCommand;
use model::{Consistency, Mutation, Schema, TableSchema, WriteType};
use partition::{BoxedStream, Deadline, ReadContext, ReadError};
use tokio::sync::oneshot;

/// Threads for reads that have to wait.
const READERS: usize = 2;

/// A node.
#[derive(Clone)]
pub struct SimNode {
    /// Its tables.
    pub engine: Arc<Engine>,
    /// Its only replica's coordinator.
    pub coordinator: Arc<Coordinator>,
}

impl Debug for SimNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimNode").field("host_id", &self.engine.host_id()).finish_non_exhaustive()
    }
}

impl SimNode {
    /// Starts a node on the files of `env`.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn open(env: &Env, options: EngineOptions) -> Result<SimNode, EngineError> {
        let engine = Engine::open(options, env.clone())?;
        engine.start_proving()?;
        let readers = Arc::new(Readers::new(env.clone(), READERS, ReaderHooks::none()));
        let store = Arc::new(Store { engine: Arc::clone(&engine), env: env.clone() });
        let local = Arc::new(LocalReplica::new(store, readers));
        let replica = Arc::clone(&local) as Arc<dyn Replica>;
        let node = Arc::new(Node::new(engine.host_id(), "datacenter1", "rack1", replica));
        let schema = Arc::clone(&engine);
        let topology = SingleNode::new(Arc::clone(&node), move || schema.schema());
        let coordinator = Coordinator::new(env.clone(), Arc::new(topology), node, local, Arc::new(NoHints));
        Ok(SimNode { engine, coordinator: Arc::new(coordinator) })
    }

    /// Writes, and waits for the acknowledgement.
    ///
    /// # Errors
    /// Those of [`Coordinator::write`].
    pub fn write(&self, mutation: Mutation) -> Result<(), CoordinatorError> {
        block_on(self.coordinator.write(vec![mutation], Consistency::One, WriteType::Simple, None))
    }

    /// Adds to counters, and waits for the acknowledgement.
    ///
    /// # Errors
    /// Those of [`Coordinator::write_counters`].
    pub fn count(&self, mutation: Mutation) -> Result<(), CoordinatorError> {
        block_on(self.coordinator.write_counters(vec![mutation], Consistency::One, None, &mut ()))
    }

    /// What `take` makes of all rows of a command.
    ///
    /// # Errors
    /// Those of [`Coordinator::collect`].
    pub fn read<T: Send + 'static>(
        &self,
        command: ReadCommand,
        take: impl Fn(&mut Page) -> Result<T, PullError> + Clone + Send + 'static,
    ) -> Result<T, CoordinatorError> {
        let request = ReadRequest::all(Arc::new(command), Consistency::One, ReadContext::default());
        block_on(self.coordinator.collect(&request, take, None, &mut ()))
    }

    /// Writes what `decide` makes of what `take` made of the rows of a command about one partition.
    ///
    /// # Errors
    /// Those of [`Coordinator::cas`].
    pub fn decide<T: Send + 'static>(
        &self,
        read: ReadCommand,
        take: impl Fn(&mut Page) -> Result<T, PullError> + Clone + Send + 'static,
        mut decide: impl FnMut(T, i64) -> Option<Mutation> + Send,
    ) -> Result<(), CoordinatorError> {
        let keys = match &read.partitions {
            model::command::PartitionSelection::Keys(keys) => keys.clone(),
            model::command::PartitionSelection::Range(_) => Vec::new(),
        };
        let Some(key) = keys.into_iter().next() else {
            return Err(CoordinatorError::Invalid("a condition is about one partition".to_owned()));
        };
        let request = CasRequest {
            key,
            reads: vec![read],
            consistency: Consistency::One,
            serial_consistency: Consistency::LocalSerial,
            context: ReadContext::default(),
            read_deadline: None,
            contention_deadline: None,
            write_deadline: None,
        };
        let decide = |found: Vec<T>, ballot| {
            let mutation = found.into_iter().next().and_then(|found| decide(found, ballot));
            Ok::<_, CoordinatorError>(mutation.map(|mutation| vec![mutation]))
        };
        block_on(self.coordinator.cas(request, take, decide, &mut ()))
    }

    /// Ends the node, with what is in memory kept by the commit log alone. Its readers end with its last
    /// handle.
    pub fn close(self) {
        self.engine.close();
    }
}

/// The content of every file below `dir`, by path.
///
/// # Panics
/// When a file cannot be read.
pub fn files(fs: &MemoryFileSystem, dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    for entry in fs.read_dir(dir).expect("a directory") {
        let path = dir.join(entry.name);
        match entry.kind {
            EntryKind::Dir => out.append(&mut files(fs, &path)),
            _ => drop(out.insert(path.clone(), fs.read(&path).expect("a file"))),
        }
    }
    out
}

/// The engine, as the replica of its node.
struct Store {
    engine: Arc<Engine>,
    env: Env,
}

impl Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

impl LocalStore for Store {
    fn schema(&self) -> Arc<Schema> {
        self.engine.schema()
    }

    fn stream(&self, command: &Arc<ReadCommand>, context: &ReadContext) -> Result<BoxedStream, ReadError> {
        self.engine.read(command, context)
    }

    fn proven(&self, name: Arc<str>, _: Option<Deadline>) -> Proving {
        let engine = Arc::clone(&self.engine);
        Box::pin(async move {
            let (tell, told) = oneshot::channel();
            let demand = engine.demand_proof(&name, Box::new(move |news| drop(tell.send(news))));
            let news = told.await.ok();
            drop(demand);
            match news {
                Some(Compared::Known) => Ok(()),
                Some(Compared::Failed(error)) => Err(error),
                Some(Compared::Ended) | None => Err(ReadError::TimedOut),
            }
        })
    }

    fn mutate(&self, mutation: Arc<Mutation>, _: Option<&Deadline>) -> Answer<()> {
        let at_once = WriteOptions { may_block: false, ..WriteOptions::default() };
        match self.engine.apply(&mutation, at_once) {
            Ok(ticket) => Answer::later(synced(ticket)),
            Err(WriteError::WouldBlock) => {
                let (engine, (tell, told)) = (Arc::clone(&self.engine), oneshot::channel());
                let waiting = move || drop(tell.send(engine.apply(&mutation, WriteOptions::default())));
                let started = self.env.tasks.spawn("write", waiting);
                Answer::later(async move {
                    started.map_err(|error| ReplicaError::Write(error.to_string()))?;
                    let ticket = told.await.map_err(|error| ReplicaError::Write(error.to_string()))?;
                    synced(ticket.map_err(|error| write_error(&error))?).await
                })
            }
            Err(error) => Answer::ready(Err(write_error(&error))),
        }
    }

    fn truncate(&self, table: Arc<TableSchema>) -> Answer<()> {
        let (engine, (tell, told)) = (Arc::clone(&self.engine), oneshot::channel());
        let emptying = move || drop(tell.send(engine.truncate(&table.keyspace, &table.name)));
        let started = self.env.tasks.spawn("truncation", emptying);
        Answer::later(async move {
            started.map_err(|error| ReplicaError::Write(error.to_string()))?;
            let truncated = told.await.map_err(|error| ReplicaError::Write(error.to_string()))?;
            truncated.map_err(|error| ReplicaError::Write(error.to_string()))
        })
    }

    fn truncated_millis(&self, table: &TableSchema) -> Answer<Option<i64>> {
        let millis = self.engine.truncated_millis(table.id);
        Answer::ready(millis.map_err(|error| ReplicaError::Write(error.to_string())))
    }
}

async fn synced(ticket: SyncTicket) -> Result<(), ReplicaError> {
    let (tell, told) = oneshot::channel();
    ticket.on_synced(Box::new(move |outcome| drop(tell.send(outcome))));
    let outcome = told.await.map_err(|error| ReplicaError::Write(error.to_string()))?;
    outcome.map_err(|error| write_error(&error))
}

fn write_error(error: &WriteError) -> ReplicaError {
    match error {
        WriteError::Overloaded { .. } => ReplicaError::Overloaded(error.to_string()),
        _ => ReplicaError::Write(error.to_string()),
    }
}
