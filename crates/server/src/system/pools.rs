//! Those of Cassandra's pools of threads that have a counterpart here.

use crate::metrics::RequestKind;
use crate::state::NodeState;
use tools::api::Pool;

/// All of them, by name.
pub fn list(state: &NodeState) -> Vec<Pool> {
    let metrics = &state.metrics;
    let requests = RequestKind::ALL.iter().map(|kind| metrics.request(*kind).nanos.count()).sum();
    let compactions = crate::storage::compactions(&state.engine);
    let flushes = crate::storage::flushes(&state.engine);
    let pool = |name: &str, active: u64, active_max: usize, pending: u64, completed: u64| Pool {
        name: name.to_owned(),
        active,
        active_max: active_max as u64,
        pending,
        completed,
    };
    let in_flight = state.connections.requests_in_flight() as u64;
    let readers = state.config.settings.concurrent_reads as usize;
    let tasks = u64::try_from(metrics.reader_tasks.get()).unwrap_or(0);
    let reading = tasks.min(readers as u64);
    vec![
        pool(
            "CompactionExecutor",
            compactions.running() as u64,
            compactions.concurrent_compactors as usize,
            compactions.pending,
            compactions.completed,
        ),
        pool("MemtableFlushWriter", 0, state.config.engine.flush_writers, flushes.pending, flushes.completed),
        pool("Native-Transport-Requests", in_flight, state.env.tasks.parallelism(), 0, requests),
        pool("ReadStage", reading, readers, tasks - reading, metrics.reads_moved.get()),
    ]
}
