//! Logged batches that did not end well are completed: at the start those of the last run, then every
//! [`REPLAY_INTERVAL`] those that failed or were late, as by Cassandra's `BatchlogManager`. In a ring those
//! of the last run count as late ones: their replicas may not be there yet.

use super::{Node, StartError};
use crate::slices::take_time;
use crate::timeouts::TimeoutKind;
use coordinator::LateReplay;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time between two looks at the batch log.
const REPLAY_INTERVAL: Duration = Duration::from_secs(10);

/// Completes what the last run left unfinished.
pub(crate) async fn finish(node: &Node) -> Result<(), StartError> {
    if node.membership.is_some() {
        node.coordinator.expect_late_batches();
        return Ok(());
    }
    match node.coordinator.replay_batches().await {
        Ok(0) => Ok(()),
        Ok(count) => {
            tracing::info!(count, "completed logged batches that the last run left unfinished");
            Ok(())
        }
        Err(error) => Err(StartError::Prepare {
            what: "logged batches of the last run cannot be completed",
            cause: error.to_string(),
        }),
    }
}

/// Completes late batches as long as the node runs.
pub(crate) async fn keep_finishing(node: Arc<Node>) {
    let mut ticks = node.state.env.tasks.ticks(REPLAY_INTERVAL);
    loop {
        ticks.next().await;
        if !node.state.is_drained() {
            finish_late(&node).await;
        }
    }
}

/// Completes batches that were written longer ago than twice `write_request_timeout`. Until then their
/// requests may still end well.
pub(crate) async fn finish_late(node: &Arc<Node>) {
    let late = LateReplay {
        timeout_ms: node.state.timeouts.get(TimeoutKind::Write).0.saturating_mul(2),
        bytes_per_second: node.state.batchlog_throttle.load(Ordering::Relaxed),
    };
    let (node, runtime) = (Arc::clone(node), tokio::runtime::Handle::current());
    let goes_on = {
        let state = Arc::clone(&node.state);
        move || !state.is_drained()
    };
    // The log is read from end to end, which network threads have no time for.
    let replay = move || runtime.block_on(node.coordinator.replay_late_batches(late, &goes_on));
    match take_time(replay).await {
        Ok(Ok(0)) => {}
        Ok(Ok(count)) => tracing::info!(count, "completed logged batches that had failed or were late"),
        Ok(Err(error)) => tracing::warn!(%error, "logged batches cannot be completed yet"),
        Err(error) => tracing::error!(%error, "the replay of the batch log did not end"),
    }
}
