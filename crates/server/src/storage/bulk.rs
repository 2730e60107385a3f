//! Bulk reads, as the admin API and the virtual tables show them.

use crate::state::NodeState;
#[cfg(feature = "bulk")]
use tools::api::BulkScan;
use tools::api::BulkStats;

/// The bulk reads of the node; `None` where it was built without them.
#[cfg(feature = "bulk")]
pub fn bulk(state: &NodeState) -> Option<BulkStats> {
    let stats = state.bulk.stats();
    let of = |scan: ::bulk::work::RunningScan| BulkScan {
        id: scan.id,
        keyspace: scan.keyspace,
        table: scan.table,
        asked_by: scan.asked_by,
        after: scan.split.after,
        through: scan.split.through,
        seconds: scan.seconds,
        rows: scan.rows,
        bytes: scan.bytes,
        bytes_estimate: scan.split.bytes_estimate,
    };
    Some(BulkStats {
        mebibytes_per_second: stats.bytes_per_s >> 20,
        scans: stats.scans,
        failures: stats.failures,
        rows: stats.rows,
        bytes: stats.bytes,
        running: state.bulk.running().into_iter().map(of).collect(),
    })
}

/// The bulk reads of the node; `None` where it was built without them.
#[cfg(not(feature = "bulk"))]
pub fn bulk(_: &NodeState) -> Option<BulkStats> {
    None
}

/// Limits them, 0 for no limit. Whether the node has any.
pub fn set_bulk_throughput(state: &NodeState, bytes_per_s: u64) -> bool {
    #[cfg(feature = "bulk")]
    state.bulk.set_bytes_per_s(bytes_per_s);
    let _ = (state, bytes_per_s);
    cfg!(feature = "bulk")
}
