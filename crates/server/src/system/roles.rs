//! `system_views`: what the node remembers of roles, and what came of looks at their networks.

use super::rows::{IntoValue, VirtualRows};
use crate::state::NodeState;

/// `roles_cache_keys`: the roles that are remembered.
pub(super) fn roles(state: &NodeState, rows: &mut VirtualRows) {
    for name in state.auth.remembered() {
        rows.add([name.as_ref().into_value()], &[]);
    }
}

/// `credentials_cache_keys`: the roles whose hashes are remembered.
pub(super) fn credentials(state: &NodeState, rows: &mut VirtualRows) {
    for name in state.auth.credentials.names(state.env.clock.monotonic_nanos()) {
        rows.add([name.as_ref().into_value()], &[]);
    }
}

/// `network_permissions_cache_keys`: the same ones, where roles are held to data centers.
pub(super) fn network_permissions(state: &NodeState, rows: &mut VirtualRows) {
    if state.auth.holds_to_datacenters() {
        roles(state, rows);
    }
}

/// `permissions_cache_keys`: the resources on which remembered roles have permissions.
pub(super) fn permissions(state: &NodeState, rows: &mut VirtualRows) {
    for (name, resource) in state.auth.remembered_permissions() {
        rows.add([name.as_ref().into_value(), resource.into_value()], &[]);
    }
}

/// `cidr_filtering_metrics_counts`.
pub(super) fn cidr_counts(state: &NodeState, rows: &mut VirtualRows) {
    for (name, count) in state.auth.cidr_stats().counts {
        rows.add([name.into_value()], &[("value", count.into_value())]);
    }
}

/// `cidr_filtering_metrics_latencies`.
pub(super) fn cidr_latencies(state: &NodeState, rows: &mut VirtualRows) {
    for (name, nanos) in state.auth.cidr_stats().latencies {
        rows.add(
            [name.into_value()],
            &[
                ("max", nanos.max.into_value()),
                ("p50th", nanos.p50.into_value()),
                ("p95th", nanos.p95.into_value()),
                ("p999th", nanos.p999.into_value()),
                ("p99th", nanos.p99.into_value()),
            ],
        );
    }
}
