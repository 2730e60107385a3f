//! How hints are kept and sent.

use super::format::VERSION_40;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is said when the node starts.
#[derive(Clone, Debug)]
pub struct HintsOptions {
    /// Where the files lie (`hints_directory`).
    pub directory: PathBuf,
    /// Version of the files that are written: [`VERSION_40`], or
    /// [`VERSION_50`](super::format::VERSION_50) where `storage_compatibility_mode` is NONE or UPGRADING.
    pub file_version: i32,
    /// Until hints that are in memory are written (`hints_flush_period`); as often it is looked whether some
    /// can be sent.
    pub flush_period: Duration,
    /// Bytes of hints that are in memory at most; more are not kept. Half of it is written at once.
    pub buffer_bytes_max: usize,
    /// Writes whose late answers are waited for. Those beyond it are kept at once.
    pub late_max: usize,
    /// How long a node may take to acknowledge a hint, or a write that is late (`write_request_timeout`).
    pub ack_timeout: Duration,
}

impl HintsOptions {
    /// Cassandra's defaults, for files in this directory.
    pub fn new(directory: &Path) -> HintsOptions {
        HintsOptions {
            directory: directory.to_owned(),
            file_version: VERSION_40,
            flush_period: Duration::from_secs(10),
            buffer_bytes_max: 32 << 20,
            late_max: 4096,
            ack_timeout: Duration::from_secs(2),
        }
    }
}

/// What may be changed while the node runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintsSettings {
    /// Whether hints are kept (`hinted_handoff_enabled`).
    pub is_enabled: bool,
    /// Data centers whose nodes get none (`hinted_handoff_disabled_datacenters`).
    pub disabled_datacenters: BTreeSet<String>,
    /// A node that is down for longer gets none (`max_hint_window`).
    pub window: Duration,
    /// Whether the window begins with the oldest hint that was not sent yet, however often the node came back
    /// (`hint_window_persistent_enabled`).
    pub is_window_persistent: bool,
    /// Bytes of hints for one node; 0 for no bound (`max_hints_size_per_host`).
    pub host_bytes_max: u64,
    /// A file that has more bytes is closed (`max_hints_file_size`).
    pub file_bytes_max: u64,
    /// Bytes a second that are sent, for each delivery and divided by the number of other nodes; 0 for no
    /// bound (`hinted_handoff_throttle`).
    pub throttle_bytes: u64,
    /// Nodes that are sent hints at the same time (`max_hints_delivery_threads`).
    pub deliveries_max: usize,
}

impl Default for HintsSettings {
    /// Cassandra's.
    fn default() -> HintsSettings {
        HintsSettings {
            is_enabled: true,
            disabled_datacenters: BTreeSet::new(),
            window: Duration::from_secs(3 * 3600),
            is_window_persistent: true,
            host_bytes_max: 0,
            file_bytes_max: 128 << 20,
            throttle_bytes: 1024 << 10,
            deliveries_max: 2,
        }
    }
}
