//! The routes about the node among others: ranges, gossip, messages, hints.
//!
//! Where there is no ring, what is asked is answered as of a node that is alone, and what is to be changed is
//! refused.

use super::handlers::{Api, blocking};
use super::{ApiError, Json};
use crate::membership::RingView;
use crate::node::Node;
use crate::slices::take_time;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use coordinator::Strategy;
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tools::api::{
    BatchlogThrottle, Gossip, Handoff, MessageCounts, Messages, PendingHints, ReadRepairs, RingRanges,
    SetGossip, SetHandoff, TruncateHints,
};

const KIB: u64 = 1 << 10;

/// The ring, for what changes something of it.
fn ring(node: &Node) -> Result<&RingView, ApiError> {
    let alone = || {
        ApiError::new(StatusCode::CONFLICT, "refused", "this node is in no ring: there are no other nodes")
    };
    node.state.ring.get().ok_or_else(alone)
}

/// A keyspace.
#[derive(Debug, Deserialize)]
pub(super) struct OfKeyspace {
    keyspace: String,
}

pub(super) async fn ranges(State(node): State<Arc<Node>>, Query(of): Query<OfKeyspace>) -> Api<RingRanges> {
    let schema = node.state.schema();
    let Some(keyspace) = schema.keyspace(&of.keyspace) else {
        return Err(ApiError::not_found(format!("No such keyspace: {}", of.keyspace)));
    };
    let strategy = Strategy::of(&keyspace.replication);
    let found = match node.state.ring.get() {
        Some(ring) => ring.ranges(schema.version, &strategy),
        None => RingRanges { schema_version: schema.version.to_string(), ranges: Vec::new() },
    };
    Ok(axum::Json(found))
}

pub(super) async fn gossip(State(node): State<Arc<Node>>) -> axum::Json<Gossip> {
    axum::Json(node.state.ring.get().map(RingView::gossip).unwrap_or_default())
}

pub(super) async fn set_gossip(
    State(node): State<Arc<Node>>,
    Json(SetGossip { running }): Json<SetGossip>,
) -> Result<StatusCode, ApiError> {
    let refused = |words: &str| Err(ApiError::new(StatusCode::CONFLICT, "refused", words));
    let ring = ring(&node)?;
    if ring.gossips() == running {
        return Ok(StatusCode::NO_CONTENT);
    }
    if !running {
        tracing::warn!("gossip stops, as the operator asked");
        if node.lets_clients_in().await {
            tracing::warn!("clients are still let in, and the other nodes take this one for dead");
        }
        return match ring.stop_gossip() {
            true => Ok(StatusCode::NO_CONTENT),
            false => refused(
                "Unable to stop gossip because the node is not in the normal state. Try to stop the node \
                 instead.",
            ),
        };
    }
    if ring.has_left() || node.state.is_drained() {
        return refused("Unable to start gossip because the node was drained.");
    }
    tracing::warn!("gossip starts, as the operator asked");
    let is_ready = node.lets_clients_in().await;
    let started = take_time(move || match &node.membership {
        Some(membership) => membership.start_gossip(is_ready).map_err(|error| error.to_string()),
        None => Ok(()),
    });
    match started.await {
        Ok(Ok(())) => Ok(StatusCode::NO_CONTENT),
        Ok(Err(error)) => Err(ApiError::failed(error)),
        Err(error) => Err(ApiError::failed(format!("the operation did not end: {error}"))),
    }
}

pub(super) async fn messages(State(node): State<Arc<Node>>) -> axum::Json<Messages> {
    let ring = node.state.ring.get();
    let [large, small, gossip] = ring.map_or([MessageCounts::default(); 3], RingView::message_counts);
    let repairs = node.coordinator.read_repairs();
    axum::Json(Messages {
        mode: if node.state.is_drained() { "DRAINED" } else { "NORMAL" }.to_owned(),
        large,
        small,
        gossip,
        verbs: ring.map(RingView::verb_messages).unwrap_or_default(),
        read_repairs: ReadRepairs {
            attempted: repairs.attempted(),
            blocking: repairs.blocking(),
            background: 0,
        },
    })
}

pub(super) async fn handoff(State(node): State<Arc<Node>>) -> axum::Json<Handoff> {
    let settings = &node.state.config.settings;
    axum::Json(match node.state.ring.get() {
        Some(ring) => ring.handoff(),
        None => Handoff {
            running: false,
            paused: false,
            disabled_data_centers: Vec::new(),
            window_millis: settings.max_hint_window.0,
            throttle_bytes: settings.hinted_handoff_throttle.0,
        },
    })
}

pub(super) async fn set_handoff(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<SetHandoff>,
) -> Result<StatusCode, ApiError> {
    let ring = ring(&node)?;
    for name in [&wanted.disable_data_center, &wanted.enable_data_center].into_iter().flatten() {
        if !ring.has_data_center(name) {
            return Err(ApiError::not_found(format!("no node of the ring is in the data center {name}")));
        }
    }
    ring.set_handoff(&wanted);
    tracing::info!(?wanted, "hinted handoff was changed");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn batchlog_throttle(State(node): State<Arc<Node>>) -> axum::Json<BatchlogThrottle> {
    let bytes = node.state.batchlog_throttle.load(Ordering::Relaxed);
    axum::Json(BatchlogThrottle { kibibytes_per_second: bytes / KIB })
}

pub(super) async fn set_batchlog_throttle(
    State(node): State<Arc<Node>>,
    Json(BatchlogThrottle { kibibytes_per_second }): Json<BatchlogThrottle>,
) -> StatusCode {
    node.state.batchlog_throttle.store(kibibytes_per_second.saturating_mul(KIB), Ordering::Relaxed);
    tracing::info!(kibibytes_per_second, "the throttle of batches that are replayed was changed");
    StatusCode::NO_CONTENT
}

pub(super) async fn pending(State(node): State<Arc<Node>>) -> axum::Json<Vec<PendingHints>> {
    axum::Json(node.state.ring.get().map(RingView::pending_hints).unwrap_or_default())
}

pub(super) async fn truncate(
    State(node): State<Arc<Node>>,
    Json(TruncateHints { address }): Json<TruncateHints>,
) -> Result<StatusCode, ApiError> {
    let ring = ring(&node)?;
    let host_id = match &address {
        None => None,
        Some(address) => {
            let unknown = || ApiError::not_found(format!("Can't delete hints for unknown address {address}"));
            let parsed: IpAddr = address.parse().map_err(|_| unknown())?;
            Some(ring.host_id_at(parsed).ok_or_else(unknown)?)
        }
    };
    blocking(&node, move |state| {
        if let Some(ring) = state.ring.get() {
            ring.truncate_hints(host_id);
        }
        Ok(())
    })
    .await
    .map(|()| StatusCode::NO_CONTENT)
}
