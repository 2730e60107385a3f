//! This node as a replica: the engine and the virtual tables behind the trait that a remote node will have too.
//!
//! - A read is carried out where it is asked for. Whether it may wait for the disk says its context; a page that is
//!   not resident ends it with `WouldBlock`, and whoever asked repeats it on a thread that may wait.
//! - A write goes to the log and the memtable in place. It waits for the log's sync without holding a thread; one
//!   that has to wait for memtable memory moves to a thread that may block. At its deadline it is answered as late.

use crate::metrics::TableMetrics;
use crate::node::NodeState;
use crate::storage;
use crate::system::VirtualTables;
use coordinator::{Answer, Replica, ReplicaError};
use engine::{SyncTicket, WriteError, WriteOptions};
use model::command::ReadCommand;
use model::{Mutation, TableSchema};
use partition::{BoxedStream, Deadline, ReadContext};
use std::sync::Arc;
use tokio::sync::oneshot;

/// This node.
#[derive(Debug)]
pub struct LocalReplica {
    state: Arc<NodeState>,
    virtual_tables: VirtualTables,
}

impl LocalReplica {
    /// The node of `state`.
    pub fn new(state: Arc<NodeState>) -> LocalReplica {
        LocalReplica { state, virtual_tables: VirtualTables::new() }
    }
}

impl Replica for LocalReplica {
    fn is_alive(&self) -> bool {
        true
    }

    fn datacenter(&self) -> &str {
        &self.state.config.data_center
    }

    fn read(&self, command: &Arc<ReadCommand>, context: &ReadContext) -> Answer<BoxedStream> {
        if let Some(stream) = self.virtual_tables.read(&self.state, command) {
            return Answer::ready(Ok(stream));
        }
        Answer::ready(self.state.engine.read(command, context).map_err(ReplicaError::from))
    }

    fn write(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()> {
        let deadline = deadline.cloned();
        let mut timer = WriteTimer::start(&self.state, &mutation);
        match self.state.engine.apply(&mutation, WriteOptions { may_block: false, ..WriteOptions::default() })
        {
            Ok(ticket) => match ticket.poll() {
                Some(fate) => {
                    timer.stop();
                    Answer::ready(fate.map_err(write_error))
                }
                None => Answer::later(async move {
                    let fate = synced(ticket, deadline).await;
                    timer.stop();
                    fate
                }),
            },
            Err(WriteError::WouldBlock) => {
                let state = Arc::clone(&self.state);
                Answer::later(async move {
                    let until = deadline.clone();
                    let apply = move || {
                        let left = until.map_or(u64::MAX, |deadline| deadline.left().as_millis() as u64);
                        let options = WriteOptions { may_block: true, wait_ms_max: left };
                        state.engine.apply(&mutation, options).map_err(write_error)
                    };
                    let ticket = blocking(apply).await?;
                    let fate = synced(ticket, deadline).await;
                    timer.stop();
                    fate
                })
            }
            Err(error) => Answer::ready(Err(write_error(error))),
        }
    }

    fn truncate(&self, table: Arc<TableSchema>) -> Answer<()> {
        let state = Arc::clone(&self.state);
        Answer::later(blocking(move || {
            storage::truncate(&state.engine, &table).map_err(|e| ReplicaError::Write(e.to_string()))
        }))
    }

    fn truncated_millis(&self, table: &TableSchema) -> Result<Option<i64>, ReplicaError> {
        let millis = self.state.engine.truncated_millis(table.id);
        millis.map_err(|error| ReplicaError::Write(error.to_string()))
    }
}

/// Waits for the log without holding a thread. A write that is late is kept all the same, if the device is not broken.
async fn synced(ticket: SyncTicket, deadline: Option<Deadline>) -> Result<(), ReplicaError> {
    let (tell, told) = oneshot::channel();
    ticket.on_synced(Box::new(move |fate| {
        // Nobody listens any more when the client is gone; the write is kept all the same.
        let _ = tell.send(fate);
    }));
    let told = match deadline {
        None => told.await,
        Some(deadline) => match tokio::time::timeout(deadline.left(), told).await {
            Ok(told) => told,
            Err(_) => return Err(ReplicaError::TimedOut),
        },
    };
    match told {
        Ok(fate) => fate.map_err(write_error),
        Err(_) => {
            Err(ReplicaError::Write("the commit log was closed before the write was synced".to_owned()))
        }
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ReplicaError> + Send + 'static,
) -> Result<T, ReplicaError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ReplicaError::Write(format!("the operation did not end: {error}"))),
    }
}

fn write_error(error: WriteError) -> ReplicaError {
    match error {
        WriteError::Overloaded { .. } => ReplicaError::Overloaded(error.to_string()),
        WriteError::MutationTooLarge { .. } => ReplicaError::TooLarge(error.to_string()),
        other => ReplicaError::Write(other.to_string()),
    }
}

/// Counts a write of each table that it touches.
struct WriteTimer {
    state: Arc<NodeState>,
    tables: Vec<Arc<TableMetrics>>,
    started_nanos: u64,
}

impl WriteTimer {
    fn start(state: &Arc<NodeState>, mutation: &Mutation) -> WriteTimer {
        WriteTimer {
            tables: mutation.updates.iter().map(|u| state.metrics.table(&u.table)).collect(),
            started_nanos: state.env.clock.monotonic_nanos(),
            state: Arc::clone(state),
        }
    }

    fn stop(&mut self) {
        let nanos = self.state.env.clock.monotonic_nanos().saturating_sub(self.started_nanos);
        self.tables.iter().for_each(|table| table.write.record(nanos));
    }
}
