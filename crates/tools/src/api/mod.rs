//! What the admin API takes and says, as plain data: the one vocabulary of the node's handlers and of all who
//! ask them (nodetool, `top`). Nothing here does I/O or knows an engine.
//!
//! ```text
//! nodetool, top --> request (query pairs, or JSON) --> the node's handlers
//!               <-- answer (JSON), or ErrorBody  <--
//! ```
//! A file holds the requests and answers about one noun. Field names are the JSON's: to rename one is to
//! change the API. A field that was added later has a default, so that a client understands an older node.

mod bulk;
mod caches;
mod cidr;
mod compactions;
mod logs;
mod node;
mod places;
mod profile;
mod reads;
mod ring;
mod snapshots;
mod tables;
mod tuning;

pub use bulk::{BulkScan, BulkStats};
pub use caches::{CacheCapacity, CacheKind, CacheReport, InvalidateCache};
pub use cidr::{AddressQuery, CidrGroup, CidrLatency, CidrStats, DropCidrGroup};
pub use compactions::{
    Autocompaction, AutocompactionStatus, COMPACTION, CollectGarbage, Compact, CompactionRecord,
    CompactionStats, CompactionTask, CompactionThresholds, ConcurrentCompactors, ForceCompact, Granularity,
    PendingTasks, ScrubSstables, SstableFinding, TableAdoption, Throughput, TokenRange, UpgradeSstables,
    VERIFY, VerifySstables,
};
pub use logs::{AuditLog, EnableAuditLog, EnableFullQueryLog, FullQueryLog, LogChanges};
pub use node::{
    Cluster, Health, Info, KeyspaceReplication, NativeTransport, NodeStatus, SetNativeTransport, Status,
    Version,
};
pub use places::{PartitionPlace, TableDirectories, TokenSample};
pub use profile::{JOB_REFUSED, Profile, ProfileJob, Sample, Sampler, SamplerResult, ScheduledProfile};
pub use reads::{BANDS, Band, HEAT_SECONDS, HeatColumns, ReadSample, ReadsByTable, SampleQuery, TableReads};
pub use ring::{
    BatchlogThrottle, ClusterNode, Gossip, GossipNode, GossipState, Handoff, MessageCounts, Messages,
    PendingHints, RangeEndpoint, ReadRepairs, RingRange, RingRanges, SetGossip, SetHandoff, TruncateHints,
    VerbMessages,
};
pub use snapshots::{
    ClearSnapshots, IncrementalBackups, SetIncrementalBackups, SnapshotEntry, TakeSnapshot, ttl_seconds,
};
pub use tables::{
    ImportSstables, ImportedDirectory, Percentiles, QualifiedTable, Refreshed, Selection, TableHistograms,
    TableReport,
};
pub use tuning::{ClientConnection, LogLevel, Pool, RequestLatencies, Timeout, TraceProbability};

use serde::{Deserialize, Serialize};

/// Port of the API when nobody says otherwise.
pub const ADMIN_PORT_DEFAULT: u16 = 9180;

/// The header that every request carries which changes something, with any value: a web page cannot send it.
pub const HEADER: &str = "X-Ilion-Admin";

/// Every error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What kind: `invalid`, `not_found`, `conflict`, `forbidden`, `refused`, `failed`.
    pub error: String,
    /// What went wrong.
    pub message: String,
}
