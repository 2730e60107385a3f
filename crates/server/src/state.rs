//! What the parts of a node share: configuration, engine, counters, connections, and who the node is.
//!
//! It is made once, when the node is opened (`node`), and knows nothing of those who use it.

use crate::audit::RequestLogs;
use crate::auth::Auth;
use crate::config::Config;
use crate::membership::RingView;
use crate::metrics::Metrics;
use crate::net;
use crate::running::RunningRequests;
use crate::timeouts::Timeouts;
use crate::tls::{NodeTls, Tls};
use cluster::messaging::VERSION_50;
use engine::{Engine, StorageCompatibility};
use env::Env;
use model::Schema;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A probability that is changed while the node runs; none is drawn for 0.
#[derive(Debug, Default)]
pub struct TraceProbability(AtomicU64);

impl TraceProbability {
    /// 0 to 1.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Sets it, for requests that come from now on.
    pub fn set(&self, probability: f64) {
        self.0.store(probability.to_bits(), Ordering::Relaxed);
    }

    /// Whether it is the next request's turn.
    #[inline]
    pub fn strikes(&self, env: &Env) -> bool {
        let bits = self.0.load(Ordering::Relaxed);
        // What is drawn is below 1.
        bits != 0 && env.random.unit() < f64::from_bits(bits)
    }
}

/// Told of a schema that changed because another node's did: the one before, and the one now.
pub(crate) type SchemaMerged = Box<dyn Fn(Arc<Schema>, Arc<Schema>) + Send + Sync>;

/// What the parts of a node share.
pub struct NodeState {
    /// Clock, randomness, files.
    pub env: Env,
    /// What the node was told.
    pub config: Config,
    /// The tables.
    pub engine: Arc<Engine>,
    /// Bulk reads of them.
    #[cfg(feature = "bulk")]
    pub bulk: Arc<bulk::work::Work>,
    /// What the audit log was told of them.
    #[cfg(feature = "bulk")]
    pub(crate) told_reads: crate::flight::ToldReads,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// Requests that wait for something.
    pub running: Arc<RunningRequests>,
    /// How long requests may take.
    pub timeouts: Timeouts,
    /// Bytes of late logged batches that are replayed in a second; 0 is no limit.
    pub batchlog_throttle: AtomicU64,
    /// Which share of requests is traced that did not ask for it.
    pub trace_probability: TraceProbability,
    /// Who clients are and what they may do.
    pub auth: Auth,
    /// What clients do, for those who ask later.
    pub logs: RequestLogs,
    /// The open connections.
    pub connections: Arc<net::Registry>,
    /// TLS for clients, where somebody may speak it.
    pub tls: Option<Arc<Tls>>,
    /// TLS between nodes, where some may speak it.
    pub node_tls: Option<Arc<NodeTls>>,
    /// Tokens of the node, once they are known.
    pub(crate) tokens: OnceLock<Vec<i64>>,
    /// Version of the Cassandra whose directory this is, or whose behaviour this is: what clients are told.
    pub release_version: String,
    /// Who is told when the schema of other nodes was merged into this one's: the schema before, and now.
    pub(crate) schema_merged: OnceLock<SchemaMerged>,
    /// The ring that the node is a member of, for operators to look at.
    pub(crate) ring: OnceLock<RingView>,
    /// Number of this start.
    pub generation: i32,
    /// Monotonic time of the start.
    pub(crate) started_nanos: u64,
    /// Whether the node takes no more writes and no clients.
    pub(crate) drained: AtomicBool,
}

impl std::fmt::Debug for NodeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeState").field("host_id", &self.engine.host_id()).finish_non_exhaustive()
    }
}

impl NodeState {
    /// Whether a request took as long as `slow_query_log_timeout`.
    #[inline]
    pub fn is_slow(&self, nanos: u64) -> bool {
        let millis = self.config.settings.slow_query_log_timeout.0;
        millis > 0 && nanos / 1_000_000 >= millis
    }

    /// Milliseconds since the start.
    pub fn uptime_millis(&self) -> u64 {
        self.env.clock.monotonic_nanos().saturating_sub(self.started_nanos) / 1_000_000
    }

    /// The last second at which something may expire. While the ring upgrades, nodes whose messages cannot
    /// say more decide (`Cell.getVersionedMaxDeletiontionTime` of Cassandra 5.0).
    pub(crate) fn expiration_max_s(&self) -> u32 {
        let mode = self.engine.options().storage_compatibility;
        let is_held_back = mode == StorageCompatibility::Upgrading
            && self.ring.get().is_some_and(|ring| ring.messaging_version_min() < VERSION_50);
        if is_held_back { StorageCompatibility::Cassandra4 } else { mode }.expiration_max_s()
    }

    /// Whether the node was drained: it takes no more writes and no clients.
    pub fn is_drained(&self) -> bool {
        self.drained.load(Ordering::SeqCst)
    }

    /// Tokens of the node, in the order of the ring. None before a new node has chosen them.
    pub fn tokens(&self) -> &[i64] {
        self.tokens.get().map_or(&[], Vec::as_slice)
    }

    /// The schema in force, virtual keyspaces included.
    pub fn schema(&self) -> Arc<Schema> {
        self.engine.schema()
    }
}
