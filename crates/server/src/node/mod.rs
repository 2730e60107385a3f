//! The node: what everything in the process hangs together by, and the order of its start and its end.
//!
//! Start ([`Node::open`], then [`crate::run`]):
//! 1. Keys and certificates of TLS are loaded. The engine locks the data directories, opens the tables and
//!    reads the commit log. Nothing is changed yet.
//! 2. `system.local` is compared with the configuration.
//! 3. The engine takes the directories over; a Cassandra's saved key cache is forgotten; `system.local` is
//!    written; the virtual keyspaces join the schema.
//! 4. Batches that a crash left unfinished are completed.
//! 5. Sample data, when it was asked for and there is none.
//! 6. The admin API listens, then clients are let in, then one line says where.
//!
//! Meanwhile batches that fail are completed (`batches.rs`), and the sizes of tables are estimated
//! (`estimates.rs`).
//!
//! End, at SIGTERM or SIGINT:
//! 1. Nobody is let in any more; requests in flight have [`SHUTDOWN_GRACE`] to be answered.
//! 2. Memtables are flushed, the log is synced and closed; the process ends with status 0.
//!
//! A second signal ends the process at once, as a crash would: nothing acknowledged is lost by it.

pub(crate) mod batches;
pub(crate) mod disks;
mod error;
pub(crate) mod estimates;
mod saved_caches;

pub use error::StartError;

use crate::audit::RequestLogs;
use crate::auth::Auth;
use crate::config::Config;
use crate::membership::Membership;
use crate::metrics::Metrics;
use crate::net;
use crate::replica;
use crate::slices::take_time;
use crate::state::{NodeState, TraceProbability};
use crate::system::{catalog, local};
use crate::timeouts::Timeouts;
use crate::tls::{NodeTls, Tls};
use coordinator::{Coordinator, Hints, NoHints, Replica, SingleNode, Topology};
use engine::{Engine, EngineError, Opening};
use env::Env;
use model::TableSchema;
use partition::ReadContext;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Mutex;

/// How long requests in flight may take when the node shuts down.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// A node that is open.
pub struct Node {
    /// What its parts share.
    pub state: Arc<NodeState>,
    /// Carries out requests.
    pub coordinator: Arc<Coordinator>,
    /// The ring that it is a member of.
    pub(crate) membership: Option<Membership>,
    transport: Mutex<Transport>,
    /// Known once the node is as far as to let clients in.
    start_transport: OnceLock<StartTransport>,
}

/// What lets clients in.
enum Transport {
    /// Nothing yet.
    Closed,
    Open(net::Server),
    /// Nothing, until the operator says otherwise.
    Disabled,
    /// Nothing any more: after a drain, or a failure.
    Shut,
}

/// Begins to let clients in.
pub(crate) type StartTransport = Box<dyn Fn() -> io::Result<net::Server> + Send + Sync>;

/// Why clients are not let in, though the operator asked for it.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// In Cassandra's words.
    #[error("Unable to start native transport because the node was drained.")]
    Drained,
    /// `commit_failure_policy` or `disk_failure_policy` shut them out.
    #[error(
        "Unable to start native transport because a failure shut clients out: the log says which, and the node has to start again."
    )]
    Failed,
    /// The node is not that far.
    #[error("Unable to start native transport because the node is still starting.")]
    Starting,
    /// The port cannot be had.
    #[error("Unable to start native transport: {0}")]
    Io(#[from] io::Error),
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Node {
    /// Opens the data directories. May block on the disk.
    ///
    /// # Errors
    /// When another process uses them, what is there is damaged, or they are another cluster's.
    pub fn open(env: Env, config: Config, metrics: Arc<Metrics>) -> Result<Arc<Node>, StartError> {
        let started_nanos = env.clock.monotonic_nanos();
        let tls = Tls::load(&env, &config.settings)?.map(|loaded| {
            loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            loaded.tls
        });
        let node_tls = match &config.ring {
            Some(_) => NodeTls::load(&env, &config.settings)?.map(|loaded| {
                loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                loaded.tls
            }),
            None => None,
        };
        crate::admin::may_listen(&config, tls.is_some()).map_err(StartError::Admin)?;
        let locked = |error| match error {
            EngineError::Locked { path } => StartError::Locked(path),
            other => StartError::Engine(other),
        };
        let opening = Opening::examine(config.engine.clone(), env.clone()).map_err(locked)?;
        let identity = next_identity(&env, &config, &opening)?;
        let engine = opening.take_over().map_err(locked)?;
        let release = engine.release();
        if let Some(directory) = &config.settings.saved_caches_directory
            && saved_caches::forget_keys(env.fs.as_ref(), directory)? > 0
        {
            tracing::info!(directory = %directory.display(), "the saved key cache was removed");
        }
        engine.set_schema_text(Box::new(move |table| cql::describe::schema_cql(table, release)));
        write_identity(&env, &config, &engine, &identity)?;
        engine.install_schema(catalog::with_virtual(&engine.schema()))?;
        let host = SocketAddr::new(config.broadcast_address, config.settings.storage_port);
        let state = Arc::new(NodeState {
            env: env.clone(),
            metrics,
            timeouts: Timeouts::new(&config.settings),
            batchlog_throttle: AtomicU64::new(config.settings.batchlog_replay_throttle.0),
            trace_probability: TraceProbability::default(),
            running: Arc::default(),
            auth: Auth::new(config.auth, &config.settings, &config.data_center, env.tasks.parallelism()),
            logs: RequestLogs::new(
                &env,
                host,
                &config.settings.audit_logging_options,
                &config.settings.full_query_logging_options,
            ),
            connections: Arc::new(net::Registry::new()),
            tls,
            node_tls,
            tokens: decided(&identity.tokens),
            schema_merged: OnceLock::new(),
            ring: OnceLock::new(),
            generation: identity.generation,
            release_version: identity.release_version.clone().unwrap_or_default(),
            started_nanos,
            drained: AtomicBool::new(false),
            #[cfg(feature = "bulk")]
            bulk: Arc::new(bulk::work::Work::new(env.clone(), config.settings.bulk_throughput.0)),
            #[cfg(feature = "bulk")]
            told_reads: crate::flight::ToldReads::default(),
            config,
            engine,
        });
        state.logs.start().map_err(|cause| StartError::Prepare {
            what: "the audit log cannot be written",
            cause: cause.to_string(),
        })?;
        let local = Arc::new(replica::local(&state));
        let (datacenter, rack) = (&state.config.data_center, &state.config.rack);
        let this = Arc::new(coordinator::Node::new(
            state.engine.host_id(),
            datacenter,
            rack,
            Arc::clone(&local) as Arc<dyn Replica>,
        ));
        let has_bootstrapped = identity.bootstrapped.is_some();
        let membership = match &state.config.ring {
            Some(ring) => Some(Membership::new(&state, ring, &this, has_bootstrapped)?),
            None => None,
        };
        let topology: Arc<dyn Topology> = match &membership {
            Some(membership) => membership.topology(),
            None => {
                let of_schema = Arc::clone(&state.engine);
                Arc::new(SingleNode::new(Arc::clone(&this), move || of_schema.schema()))
            }
        };
        let hints: Arc<dyn Hints> = match &membership {
            Some(membership) => membership.hints(),
            None => Arc::new(NoHints),
        };
        let coordinator = Arc::new(Coordinator::new(env, topology, this, local, hints));
        if let Some(membership) = &membership {
            // The state is new.
            let _ = state.ring.set(membership.view());
            membership.serve(&coordinator);
        }
        Ok(Arc::new(Node {
            state,
            coordinator,
            membership,
            transport: Mutex::new(Transport::Closed),
            start_transport: OnceLock::new(),
        }))
    }

    /// Whether clients are let in.
    pub async fn lets_clients_in(&self) -> bool {
        matches!(*self.transport.lock().await, Transport::Open(_))
    }

    /// Says how clients are let in, and lets them in if `now`, unless they were shut out before.
    pub(crate) async fn set_transport(&self, start: StartTransport, now: bool) -> io::Result<()> {
        let mut transport = self.transport.lock().await;
        let start = self.start_transport.get_or_init(|| start);
        if now && let Transport::Closed = *transport {
            *transport = Transport::Open(start()?);
        }
        Ok(())
    }

    /// Lets clients in because the operator says so; nothing happens if they are.
    ///
    /// # Errors
    /// A drain or a failure shut them out for good, or the port cannot be had.
    pub async fn enable_clients(&self) -> Result<(), TransportError> {
        let mut transport = self.transport.lock().await;
        match *transport {
            Transport::Open(_) => return Ok(()),
            Transport::Shut if self.state.is_drained() => return Err(TransportError::Drained),
            Transport::Shut => return Err(TransportError::Failed),
            Transport::Closed | Transport::Disabled => {}
        }
        let start = self.start_transport.get().ok_or(TransportError::Starting)?;
        *transport = Transport::Open(start()?);
        tracing::info!("clients are let in, as the operator asked");
        Ok(())
    }

    /// Shuts clients out, and waits at most `grace` for what is in flight, until the operator says otherwise.
    pub async fn disable_clients(&self, grace: Duration) {
        let mut transport = self.transport.lock().await;
        if let Transport::Shut = *transport {
            return;
        }
        // The lock is held meanwhile: who enables it at once finds the port free.
        if let Transport::Open(server) = std::mem::replace(&mut *transport, Transport::Disabled) {
            tracing::info!("clients are shut out, as the operator asked");
            server.shutdown(grace).await;
        }
    }

    /// Lets no more clients in, and waits at most `grace` for what is in flight.
    pub async fn stop_clients(&self, grace: Duration) {
        let transport = std::mem::replace(&mut *self.transport.lock().await, Transport::Shut);
        if let Transport::Open(server) = transport {
            server.shutdown(grace).await;
        }
    }

    /// Lets no more clients in and writes everything to SSTables. The node then only answers operators.
    ///
    /// # Errors
    /// When a flush fails. The commit log has what it could not write.
    pub async fn drain(&self) -> Result<(), EngineError> {
        if let Some(membership) = &self.membership {
            membership.set_ready(false);
        }
        self.stop_clients(SHUTDOWN_GRACE).await;
        if let Some(membership) = &self.membership {
            membership.leave().await;
        }
        if self.state.drained.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        // The batch log is not kept in SSTables: what a failure left in it is completed now.
        if let Err(error) = self.coordinator.replay_batches().await {
            tracing::error!(%error, "logged batches could not be completed");
        }
        let engine = Arc::clone(&self.state.engine);
        let drained = match take_time(move || crate::storage::drain(&engine)).await {
            Ok(result) => result,
            Err(error) => {
                tracing::error!(%error, "the drain did not end");
                Err(EngineError::Drained)
            }
        };
        if drained.is_err() {
            // Another attempt may succeed: the disk may have room by then.
            self.state.drained.store(false, Ordering::SeqCst);
        }
        drained
    }
}

/// Reads who the node was and decides who it is. What is refused is refused before anything is written.
fn next_identity(env: &Env, config: &Config, opening: &Opening) -> Result<local::Identity, StartError> {
    let now_s = u32::try_from(env.now_seconds()).unwrap_or(u32::MAX);
    let read = |table: &Arc<TableSchema>| {
        opening.read(&local::whole_table(table, now_s), &ReadContext::default()).map_err(EngineError::from)
    };
    let table = opening.system_table("local");
    let before = local::identity(&table, read(&table)?, now_s).map_err(EngineError::from)?;
    let identity = before.next(env, config)?;
    if !config.single_node && config.ring.is_none() {
        let mut peers = Vec::new();
        for name in ["peers_v2", "peers"] {
            let table = opening.system_table(name);
            peers.extend(local::peers(&table, read(&table)?, now_s).map_err(EngineError::from)?);
        }
        local::check_alone(peers, config.broadcast_address)?;
    }
    Ok(identity)
}

/// Writes down who the node is.
fn write_identity(
    env: &Env,
    config: &Config,
    engine: &Engine,
    identity: &local::Identity,
) -> Result<(), StartError> {
    let table = engine.system_table("local");
    let mutation = identity.mutation(&table, config, env.now_micros());
    let ticket = engine.apply(&mutation, engine::WriteOptions::default()).map_err(EngineError::from)?;
    ticket.wait().map_err(EngineError::from)?;
    // Cassandra flushes this table at each start too: another node that opens the directory looks for it in
    // SSTables.
    engine.flush("system", Some("local"))?;
    Ok(())
}

/// Writes down the number of a start of gossip.
pub(crate) fn keep_generation(state: &NodeState, generation: i32) -> Result<(), EngineError> {
    let table = state.engine.system_table("local");
    let mutation = local::generation(&table, generation, state.env.now_micros());
    let ticket = state.engine.apply(&mutation, engine::WriteOptions::default())?;
    ticket.wait()?;
    state.engine.flush("system", Some("local"))
}

/// The tokens of a node, if they are known before it has seen its ring.
fn decided(tokens: &[i64]) -> OnceLock<Vec<i64>> {
    let known = OnceLock::new();
    if !tokens.is_empty() {
        // It is new.
        let _ = known.set(tokens.to_vec());
    }
    known
}

/// Writes down which tokens the node is to own.
pub(crate) fn keep_tokens(state: &NodeState, tokens: &[i64]) -> Result<(), EngineError> {
    let table = state.engine.system_table("local");
    let mutation = local::chosen(&table, tokens, state.env.now_micros());
    let ticket = state.engine.apply(&mutation, engine::WriteOptions::default())?;
    ticket.wait()?;
    state.engine.flush("system", Some("local"))
}

/// Writes down that the node owns its tokens: it has been a member of its ring.
pub(crate) fn complete_bootstrap(state: &NodeState) -> Result<(), EngineError> {
    let table = state.engine.system_table("local");
    let mutation = local::bootstrapped(&table, state.env.now_micros());
    let ticket = state.engine.apply(&mutation, engine::WriteOptions::default())?;
    ticket.wait()?;
    state.engine.flush("system", Some("local"))
}
