//! Reads that wait until an SSTable was compared with its digest.
//!
//! A read that needs such an SSTable stops with its name ([`Stop::Await`]) wherever it runs. Its session waits, on no thread, until the
//! engine tells what became of the SSTable, and carries out the whole read once more. At its deadline the read has timed out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use coordinator::{CoordinatorError, ReplicaError};
use engine::Compared;
use model::command::Consistency;
use partition::{Deadline, ReadError};
use tokio::sync::oneshot;

use super::Exchange;
use super::select::Stop;
use crate::metrics::Metrics;

/// Between two lines in the log that say why reads time out.
const TOLD_NANOS: u64 = 10_000_000_000;

/// When the log last said why reads time out.
#[derive(Debug, Default)]
pub(super) struct Told(AtomicU64);

impl Told {
    fn is_due(&self, now: u64) -> bool {
        let due = self.0.load(Ordering::Relaxed);
        now >= due && {
            let next = now.saturating_add(TOLD_NANOS);
            self.0.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        }
    }
}

/// Counts a read that waits.
struct Waiting<'m>(&'m Metrics);

impl<'m> Waiting<'m> {
    fn count(metrics: &'m Metrics) -> Waiting<'m> {
        metrics.reads_awaiting_proof.add(1);
        metrics.reads_awaited_proof.add(1);
        Waiting(metrics)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.reads_awaiting_proof.add(-1);
    }
}

/// The SSTable for which a request that was carried out in part by the coordinator has to wait.
pub(super) fn awaited(failure: &CoordinatorError) -> Option<&Arc<str>> {
    match failure {
        CoordinatorError::ReadFailure { cause: ReplicaError::Read(ReadError::Unproven(name)), .. } => {
            Some(name)
        }
        _ => None,
    }
}

/// Waits until the SSTable whose Data.db is `name` was compared; counts the time, and notes it for the trace.
///
/// # Errors
/// When the SSTable cannot be read, when the deadline came first, and when nothing is compared any more.
pub(super) async fn compared(
    exchange: &mut Exchange,
    name: &Arc<str>,
    consistency: Consistency,
    deadline: &Deadline,
) -> Result<(), Stop> {
    let sessions = Arc::clone(&exchange.sessions);
    let node = &sessions.node;
    let _waiting = Waiting::count(&node.metrics);
    let started = node.env.clock.monotonic_nanos();
    let (tell, told) = oneshot::channel();
    // Nobody listens any more when the client is gone.
    let tell = Box::new(move |news| drop(tell.send(news)));
    let demand = node.engine.demand_proof(name, tell);
    let news = tokio::time::timeout(deadline.left(), told).await;
    drop(demand);
    let now = node.env.clock.monotonic_nanos();
    let nanos = now.saturating_sub(started);
    exchange.waits.proof_nanos += nanos;
    exchange.note(|| match news {
        Ok(Ok(Compared::Known)) => {
            format!("Waited {} us until {name} was compared with its digest", nanos / 1_000)
        }
        _ => format!("Waited {} us in vain for {name} to be compared with its digest", nanos / 1_000),
    });
    match news {
        Ok(Ok(Compared::Known)) => Ok(()),
        Ok(Ok(Compared::Failed(error))) => Err(Stop::of_read(consistency, error)),
        Ok(Ok(Compared::Ended) | Err(_)) | Err(_) => {
            node.metrics.reads_timed_out_for_proof.add(1);
            if sessions.told.is_due(now) {
                tracing::warn!(data = %name, "a read timed out while it waited for an SSTable to be compared with its digest");
            }
            Err(Stop::of_read(consistency, ReadError::TimedOut))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_now_and_then() {
        let told = Told::default();
        assert!(told.is_due(5));
        assert!(!told.is_due(TOLD_NANOS));
        assert!(told.is_due(TOLD_NANOS + 5));
    }
}
