//! What a member of a ring needs of this node.

use super::peers;
use crate::slices::take_time;
use crate::state::NodeState;
use cluster::endpoint::Endpoint;
use cluster::hints::Dispatcher;
use cluster::member::{Host, PeerRecord, Pending, RingEvent};
use coordinator::Node as RingNode;
use model::{Mutation, Schema};
use protocol::response::Event;
use protocol::response::event::{StatusChange, TopologyChange};
use std::sync::{Arc, OnceLock, Weak};
use uuid::Uuid;

/// This node.
pub(super) struct NodeHost {
    state: Weak<NodeState>,
    engine: Arc<engine::Engine>,
    /// Who sends hints to nodes that are back, once there is somebody.
    pub(super) hints: OnceLock<Arc<Dispatcher>>,
}

impl NodeHost {
    pub(super) fn new(state: &Arc<NodeState>) -> NodeHost {
        NodeHost { state: Arc::downgrade(state), engine: Arc::clone(&state.engine), hints: OnceLock::new() }
    }
}

impl Host for NodeHost {
    fn schema(&self) -> Arc<Schema> {
        self.engine.schema()
    }

    fn schema_mutations(&self) -> Pending<Result<Vec<Mutation>, String>> {
        let engine = Arc::clone(&self.engine);
        Box::pin(async move {
            match take_time(move || engine.schema_mutations()).await {
                Ok(rows) => rows.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    fn merge_schema(&self, mutations: Vec<Mutation>) -> Pending<Result<Uuid, String>> {
        let (engine, state) = (Arc::clone(&self.engine), Weak::clone(&self.state));
        Box::pin(async move {
            let merged = match take_time(move || engine.merge_schema(mutations)).await {
                Ok(merged) => merged.map_err(|error| error.to_string())?,
                Err(error) => return Err(error.to_string()),
            };
            let version = merged.new.version;
            if let Some(state) = state.upgrade()
                && !Arc::ptr_eq(&merged.old, &merged.new)
                && let Some(told) = state.schema_merged.get()
            {
                told(merged.old, merged.new);
            }
            Ok(version)
        })
    }

    fn data_bytes(&self) -> u64 {
        self.engine.tables().iter().map(|table| table.stats().disk_bytes).sum()
    }

    fn save_peer(&self, peer: &PeerRecord) {
        if let Some(state) = self.state.upgrade()
            && let Err(error) = peers::save(&state, peer)
        {
            tracing::warn!(peer = %peer.endpoint, %error, "a node of the ring is not written down");
        }
    }

    fn forget_peer(&self, endpoint: Endpoint, host_id: Option<Uuid>) {
        if let (Some(hints), Some(host_id)) = (self.hints.get(), host_id) {
            let hints = Arc::clone(hints);
            tokio::task::spawn_blocking(move || hints.excise(host_id));
        }
        if let Some(state) = self.state.upgrade()
            && let Err(error) = peers::forget(&state, endpoint)
        {
            tracing::warn!(peer = %endpoint, %error, "a node that left the ring stays written down");
        }
    }

    fn is_back(&self, node: &Arc<RingNode>) {
        if let Some(hints) = self.hints.get() {
            hints.is_back(node);
        }
    }

    fn tell(&self, event: RingEvent) {
        let Some(state) = self.state.upgrade() else { return };
        let event = match event {
            RingEvent::Up(native) => Event::Status(StatusChange::Up, native.socket()),
            RingEvent::Down(native) => Event::Status(StatusChange::Down, native.socket()),
            RingEvent::Joined(native) => Event::Topology(TopologyChange::NewNode, native.socket()),
            RingEvent::Left(native) => Event::Topology(TopologyChange::RemovedNode, native.socket()),
        };
        state.connections.broadcast(&event);
    }
}
