//! `system_views` about other nodes. A node that is alone has no rows in them.
//!
//! Columns that nothing is counted for here are null: what a connection from another node holds besides the
//! reserve of its node.

use super::rows::{IntoValue, Value, VirtualRows};
use crate::membership::RingView;
use crate::state::NodeState;
use cluster::endpoint::Endpoint;
use cluster::gossip::AppState;
use cluster::messaging::counters::{Outbound, Sum};
use std::net::IpAddr;
use uuid::Uuid;

/// `gossip_info`: what each node says of itself. A state that is superseded by one with a port is shown of
/// this node alone, as Cassandra has it.
pub(super) fn gossip_info(ring: &RingView, rows: &mut VirtualRows) {
    for node in ring.shown() {
        let mut values: Vec<(String, Value)> = vec![
            ("generation".to_owned(), node.generation.into_value()),
            ("heartbeat".to_owned(), node.heartbeat.into_value()),
            ("hostname".to_owned(), node.endpoint.ip.to_string().into_value()),
        ];
        for (key, ..) in &node.values {
            let column = key.name().to_ascii_lowercase();
            values.push((format!("{column}_version"), node.version(*key).into_value()));
            // The tokens are many: only their version is shown.
            if *key != AppState::TOKENS {
                values.push((column, node.value(*key).into_value()));
            }
        }
        let named: Vec<(&str, Value)> =
            values.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        rows.add([node.endpoint.ip.into_value(), i32::from(node.endpoint.port).into_value()], &named);
    }
}

/// The key of a row about messages to or from a node.
fn key(ring: &RingView, of: Endpoint) -> [Value; 4] {
    let (datacenter, rack) = ring.place_of(of);
    let port = i32::from(of.port).into_value();
    [of.ip.into_value(), port, (&*datacenter).into_value(), (&*rack).into_value()]
}

/// `internode_outbound`: messages to each node, over all its connections.
pub(super) fn outbound(state: &NodeState, rows: &mut VirtualRows) {
    let Some(ring) = state.ring.get() else { return };
    for (to, by_kind) in ring.outbound() {
        let sum = |of: fn(&Outbound) -> u64| by_kind.iter().map(of).sum::<u64>().into_value();
        let reserve = by_kind.iter().map(|one| one.using_reserve_bytes).max().unwrap_or(0);
        rows.add(
            key(ring, to),
            &[
                ("active_connections", sum(|one| one.active_connections)),
                ("connection_attempts", sum(|one| one.connection_attempts)),
                ("error_bytes", sum(|one| one.error.bytes)),
                ("error_count", sum(|one| one.error.count)),
                ("expired_bytes", sum(|one| one.expired.bytes)),
                ("expired_count", sum(|one| one.expired.count)),
                ("overload_bytes", sum(|one| one.overload.bytes)),
                ("overload_count", sum(|one| one.overload.count)),
                ("pending_bytes", sum(|one| one.pending.bytes)),
                ("pending_count", sum(|one| one.pending.count)),
                ("sent_bytes", sum(|one| one.sent.bytes)),
                ("sent_count", sum(|one| one.sent.count)),
                ("successful_connection_attempts", sum(|one| one.successful_connection_attempts)),
                // As Cassandra has it, all that waits is what is used.
                ("using_bytes", sum(|one| one.pending.bytes)),
                ("using_reserve_bytes", reserve.into_value()),
            ],
        );
    }
}

/// `internode_inbound`: messages from each node, over all its connections. They are handed on where they
/// arrive, so none of them is scheduled for later.
pub(super) fn inbound(state: &NodeState, rows: &mut VirtualRows) {
    let Some(ring) = state.ring.get() else { return };
    for (from, found) in ring.inbound() {
        let bytes = |sum: Sum| sum.bytes.into_value();
        let count = |sum: Sum| sum.count.into_value();
        rows.add(
            key(ring, from),
            &[
                ("corrupt_frames_recovered", found.corrupt_frames_recovered.into_value()),
                ("corrupt_frames_unrecovered", found.corrupt_frames_unrecovered.into_value()),
                ("error_bytes", bytes(found.error)),
                ("error_count", count(found.error)),
                ("expired_bytes", bytes(found.expired)),
                ("expired_count", count(found.expired)),
                ("processed_bytes", bytes(found.processed)),
                ("processed_count", count(found.processed)),
                ("received_bytes", bytes(found.received)),
                ("received_count", count(found.received)),
                ("scheduled_bytes", 0i64.into_value()),
                ("scheduled_count", 0i64.into_value()),
                ("throttled_count", found.throttled_count.into_value()),
                ("throttled_nanos", found.throttled_nanos.into_value()),
                ("using_reserve_bytes", found.using_reserve_bytes.into_value()),
            ],
        );
    }
}

/// `pending_hints`: what waits for which node.
pub(super) fn pending_hints(state: &NodeState, rows: &mut VirtualRows) {
    let Some(ring) = state.ring.get() else { return };
    for found in ring.pending_hints() {
        let Ok(host_id) = found.host_id.parse::<Uuid>() else { continue };
        let address = found.address.as_deref().and_then(|address| address.parse::<IpAddr>().ok());
        rows.add(
            [host_id.into_value()],
            &[
                ("address", address.into_value()),
                ("dc", found.data_center.into_value()),
                ("files", i32::try_from(found.files).unwrap_or(i32::MAX).into_value()),
                ("newest", found.newest_millis.into_value()),
                ("oldest", found.oldest_millis.into_value()),
                ("port", found.port.map(i32::from).into_value()),
                ("rack", found.rack.into_value()),
                ("status", found.status.into_value()),
            ],
        );
    }
}
