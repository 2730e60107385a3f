//! What this node has: the engine and the virtual tables, as [`coordinator::LocalReplica`] reads and writes
//! them.
//!
//! - A read is carried out where it is asked for. Whether it may wait for the disk says its context.
//! - A write goes to the log and the memtable in place. It waits for the log's sync without holding a thread;
//!   one that has to wait for memtable memory moves to a thread that may block. At its deadline it is
//!   answered as late.
//! - A read that needs an SSTable that was not compared with its digest yet waits here until the engine tells
//!   what became of it.

use crate::metrics::{Metrics, TableMetrics};
use crate::slices::ask_for_short_slices;
use crate::state::NodeState;
use crate::storage;
use crate::system::VirtualTables;
use coordinator::{Answer, LocalReplica, LocalStore, Proving, ReaderHooks, Readers, ReplicaError};
use engine::{Compared, SyncTicket, WriteError, WriteOptions};
use env::tasks::Tasks;
use model::command::ReadCommand;
use model::{Mutation, Schema, TableSchema};
use partition::{BoxedStream, Deadline, ReadContext, ReadError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

/// Between two lines in the log that say why reads time out.
const LOGGED_NANOS: u64 = 10_000_000_000;

/// The data of this node.
#[derive(Debug)]
pub struct Store {
    state: Arc<NodeState>,
    virtual_tables: VirtualTables,
    proof_timeouts: Arc<LogInterval>,
}

/// This node as a replica, with the threads that may wait for its disk.
pub fn local(state: &Arc<NodeState>) -> LocalReplica {
    let metrics = Arc::clone(&state.metrics);
    let hooks = ReaderHooks {
        thread_started: ask_for_short_slices,
        count_jobs: Arc::new(move |more| {
            metrics.reader_tasks.add(more);
        }),
    };
    let threads = state.config.settings.concurrent_reads as usize;
    let readers = Arc::new(Readers::new(state.env.clone(), threads, hooks));
    let store = Store {
        state: Arc::clone(state),
        virtual_tables: VirtualTables::new(),
        proof_timeouts: Arc::default(),
    };
    LocalReplica::new(Arc::new(store), readers)
}

impl LocalStore for Store {
    fn schema(&self) -> Arc<Schema> {
        self.state.engine.schema()
    }

    fn stream(&self, command: &Arc<ReadCommand>, context: &ReadContext) -> Result<BoxedStream, ReadError> {
        match self.virtual_tables.read(&self.state, command) {
            Some(stream) => Ok(stream),
            None => self.state.engine.read(command, context),
        }
    }

    fn proven(&self, name: Arc<str>, deadline: Option<Deadline>) -> Proving {
        let (state, proof_timeouts) = (Arc::clone(&self.state), Arc::clone(&self.proof_timeouts));
        Box::pin(async move {
            let _waiting = AwaitsProof::count(&state.metrics);
            let (tell, told) = oneshot::channel();
            // Nobody listens any more when the client is gone.
            let tell = Box::new(move |news| drop(tell.send(news)));
            let demand = state.engine.demand_proof(&name, tell);
            let news = match deadline {
                None => told.await.ok(),
                Some(deadline) => {
                    state.env.tasks.timeout(deadline.left(), told).await.ok().and_then(Result::ok)
                }
            };
            drop(demand);
            match news {
                Some(Compared::Known) => Ok(()),
                Some(Compared::Failed(error)) => Err(error),
                Some(Compared::Ended) | None => {
                    state.metrics.reads_timed_out_for_proof.add(1);
                    if proof_timeouts.is_due(state.env.clock.monotonic_nanos()) {
                        tracing::warn!(data = %name, "a read timed out while it waited for an SSTable to be compared with its digest");
                    }
                    Err(ReadError::TimedOut)
                }
            }
        })
    }

    fn mutate(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()> {
        let (deadline, tasks) = (deadline.cloned(), self.state.env.tasks.clone());
        let mut timer = WriteTimer::start(&self.state, &mutation);
        if self.state.metrics.profiler.is_running() {
            self.state.metrics.profiler.take_write(&mutation);
        }
        match self.state.engine.apply(&mutation, WriteOptions { may_block: false, ..WriteOptions::default() })
        {
            Ok(ticket) => match ticket.poll() {
                Some(fate) => {
                    timer.stop();
                    Answer::ready(fate.map_err(write_error))
                }
                None => Answer::later(async move {
                    let fate = synced(tasks, ticket, deadline).await;
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
                    let fate = synced(tasks, ticket, deadline).await;
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

    fn truncated_millis(&self, table: &TableSchema) -> Answer<Option<i64>> {
        let millis = self.state.engine.truncated_millis(table.id);
        Answer::ready(millis.map_err(|error| ReplicaError::Write(error.to_string())))
    }
}

/// Counts a read that waits until an SSTable was compared with its digest.
struct AwaitsProof<'m>(&'m Metrics);

impl<'m> AwaitsProof<'m> {
    fn count(metrics: &'m Metrics) -> AwaitsProof<'m> {
        metrics.reads_awaiting_proof.add(1);
        metrics.reads_awaited_proof.add(1);
        AwaitsProof(metrics)
    }
}

impl Drop for AwaitsProof<'_> {
    fn drop(&mut self) {
        self.0.reads_awaiting_proof.add(-1);
    }
}

/// When the log may say the same thing again.
#[derive(Debug, Default)]
struct LogInterval(AtomicU64);

impl LogInterval {
    fn is_due(&self, now: u64) -> bool {
        let due = self.0.load(Ordering::Relaxed);
        now >= due && {
            let next = now.saturating_add(LOGGED_NANOS);
            self.0.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        }
    }
}

/// Waits for the log without holding a thread. A write that is late is kept all the same, if the device is
/// not broken.
async fn synced(tasks: Tasks, ticket: SyncTicket, deadline: Option<Deadline>) -> Result<(), ReplicaError> {
    let (tell, told) = oneshot::channel();
    ticket.on_synced(Box::new(move |fate| {
        // Nobody listens any more when the client is gone; the write is kept all the same.
        let _ = tell.send(fate);
    }));
    let told = match deadline {
        None => told.await,
        Some(deadline) => match tasks.timeout(deadline.left(), told).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_now_and_then() {
        let interval = LogInterval::default();
        assert!(interval.is_due(5));
        assert!(!interval.is_due(LOGGED_NANOS));
        assert!(interval.is_due(LOGGED_NANOS + 5));
    }
}
