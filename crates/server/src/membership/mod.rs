//! This node as a member of a ring: the parts of crate `cluster`, with what they need of the node.
//!
//! 1. [`Membership::new`] puts them together before anything is said; `peers` are the nodes that
//!    `system.peers` remembers.
//! 2. [`Membership::join`] listens for other nodes, asks who is there, and takes this node's part of the
//!    ring. A node that has never been a member takes it only where it has no data to take over: data are
//!    not streamed.
//! 3. [`Membership::set_ready`] tells the others that clients are let in, or no more.
//! 4. [`Membership::leave`] says farewell when the node stops.

mod host;
mod links;
mod peers;
mod shown;

pub(crate) use shown::RingView;

use crate::config::{Allocation, Config, RingConfig};
use crate::node::StartError;
use crate::slices::take_time;
use crate::state::NodeState;
use crate::traces::NodeTraces;
use cluster::endpoint::Endpoint;
use cluster::gossip::{Settings, Text};
use cluster::hints::{self, Dispatcher, HintStore, HintsOptions, HintsSettings};
use cluster::member::{Member, MemberError, MemberOptions};
use cluster::messaging::tcp::{TcpOptions, TcpTransport};
use cluster::messaging::{Framing, Messenger, MessengerOptions, Versions};
use cluster::remote::RemoteTimeouts;
use cluster::ring::RingTopology;
use cluster::ring::allocation::{AllocationError, allocate};
use cluster::serve::{ReplicaServer, Spawn};
use coordinator::{Coordinator, DiskUsage, Node as RingNode, Strategy};
use engine::{EngineError, StorageCompatibility};
use host::NodeHost;
use links::{NodeLinks, Place};
use partition::NanoClock;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use tokio::runtime::Handle;

/// How long farewells may take to be sent.
const FAREWELL: Duration = Duration::from_secs(1);
/// Until when everybody has heard of a change (`cassandra.ring_delay_ms`).
const RING_DELAY_MILLIS: u64 = 30_000;

/// Why a node is no member of its ring.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// The storage port cannot be had, in Cassandra's words.
    #[error(
        "/{0} is in use by another process. Change listen_address:storage_port in cassandra.yaml to values that do not \
         conflict with other services"
    )]
    Port(std::net::SocketAddr),
    /// The ring does not want it.
    #[error(transparent)]
    Member(#[from] MemberError),
    /// It would take over data that nobody gives it.
    #[error(
        "this node would take over a part of the data of keyspace {0}: Ilion cannot stream data yet, so it joins a ring only \
         before there are tables in it. With auto_bootstrap: false it joins without the data: rows are missing from it until reads at \
         ALL have repaired them"
    )]
    Bootstrap(String),
    /// Data would be looked for where they are not.
    #[error(
        "keyspace {0} has transient replicas, which Ilion does not support: its replication has to be changed before this node \
         joins"
    )]
    Transient(String),
    /// No choice of tokens makes the parts of all nodes alike.
    #[error(transparent)]
    Allocation(#[from] AllocationError),
    /// The keyspace for which tokens are to be chosen is not there.
    #[error("Problem opening token allocation keyspace {0}")]
    AllocationKeyspace(String),
    /// The choice of tokens came to no end.
    #[error("the tokens of this node could not be chosen: {0}")]
    Choice(String),
    /// What it remembers of others cannot be read or written.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Hints cannot be kept.
    #[error("the directory of hints cannot be used: {0}")]
    Hints(#[source] std::io::Error),
    /// A name that it would tell others is too long.
    #[error("{0} is too long to be told to other nodes")]
    TooLong(&'static str),
}

/// This node in its ring.
pub struct Membership {
    state: Arc<NodeState>,
    member: Arc<Member>,
    transport: Arc<TcpTransport>,
    store: Arc<HintStore>,
    dispatcher: Arc<Dispatcher>,
    spawn: Spawn,
    /// Whether it owned tokens before this start.
    has_bootstrapped: bool,
}

impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership").finish_non_exhaustive()
    }
}

/// This node's address among nodes.
pub(crate) fn own_endpoint(config: &Config) -> Endpoint {
    Endpoint::new(config.broadcast_address, config.settings.storage_port)
}

impl Membership {
    /// The parts of a member that says nothing yet. A runtime of tokio has to be there.
    ///
    /// # Errors
    /// When what the node remembers of others cannot be read.
    pub(crate) fn new(
        state: &Arc<NodeState>,
        ring: &RingConfig,
        this: &Arc<RingNode>,
        has_bootstrapped: bool,
    ) -> Result<Membership, MembershipError> {
        let (env, config) = (&state.env, &state.config);
        let me = own_endpoint(config);
        let runtime = Handle::current();
        let mut tcp = TcpOptions::new(me);
        let versions = messaging_versions(config.engine.storage_compatibility);
        tcp.versions = versions;
        tcp.listen = vec![std::net::SocketAddr::new(config.listen_address, me.port)];
        let listens_there = config.listen_address.is_unspecified() || config.listen_address == me.ip;
        if config.settings.listen_on_broadcast_address && !listens_there {
            tcp.listen.push(me.socket());
        }
        tcp.connect_from = Some(config.listen_address).filter(|address| !address.is_unspecified());
        let framing = if ring.compresses { Framing::Lz4 } else { Framing::Crc };
        let of_schema = Arc::clone(&state.engine);
        let topology = Arc::new(RingTopology::new(Arc::clone(this), move || of_schema.schema()));
        let of_places = Arc::clone(&topology);
        let links = NodeLinks {
            env: env.clone(),
            framing,
            tls: state.node_tls.clone(),
            place: Place { datacenter: Arc::clone(&this.datacenter), rack: Arc::clone(&this.rack) },
            place_of: Box::new(move |endpoint| {
                let members = of_places.members();
                let node = &members.by_endpoint(&endpoint)?.node;
                Some(Place { datacenter: Arc::clone(&node.datacenter), rack: Arc::clone(&node.rack) })
            }),
            warned_s: AtomicI64::new(0),
        };
        let transport = Arc::new(TcpTransport::new(env.clone(), tcp, Arc::new(links), runtime.clone()));
        let messenger =
            Messenger::new(env.clone(), MessengerOptions::default(), Arc::clone(&transport) as Arc<_>);
        let spawn: Spawn = Arc::new(move |task| {
            runtime.spawn(task);
        });
        let too_long = |what| move |_| MembershipError::TooLong(what);
        let options = MemberOptions {
            gossip: Settings {
                endpoint: me,
                cluster_name: Text::new(&config.settings.cluster_name).map_err(too_long("cluster_name"))?,
                partitioner: Text::new(crate::system::PARTITIONER).map_err(too_long("the partitioner"))?,
                seeds: ring.seeds.iter().copied().map(Endpoint::from).collect::<BTreeSet<_>>(),
                ring_delay_millis: RING_DELAY_MILLIS,
                phi_convict_threshold: ring.phi_convict_threshold,
            },
            host_id: state.engine.host_id(),
            generation: state.generation,
            has_bootstrapped,
            release_version: state.release_version.clone(),
            messaging_version: versions.max,
            native: Endpoint::new(config.broadcast_rpc_address, config.cql_address.port()),
            internal: config.listen_address,
            prefers_local: config.prefers_local,
            sstable_versions: vec![peers::sstable_version(&state.engine)],
            timeouts: RemoteTimeouts {
                request: Duration::from_millis(config.settings.request_timeout.0),
                truncate: Duration::from_millis(config.settings.truncate_request_timeout.0),
            },
        };
        let host = Arc::new(NodeHost::new(state));
        let of_hints = Arc::clone(&state.engine);
        let store = HintStore::open(
            env.clone(),
            hints_options(config),
            hints_settings(config),
            move || of_hints.schema(),
            Arc::clone(&spawn),
        )
        .map_err(MembershipError::Hints)?;
        let of_ring = Arc::clone(&topology);
        let dispatcher = Dispatcher::new(Arc::clone(&store), move || of_ring.members(), Arc::clone(&spawn));
        // The host is new.
        let _ = host.hints.set(Arc::clone(&dispatcher));
        let saved = peers::load(&state.engine, env, me)?;
        let tasks = Arc::clone(&spawn);
        let member = Member::new(env.clone(), options, messenger, topology, host, tasks, saved);
        let of_hook = Arc::downgrade(&member);
        state.engine.on_schema_change(Box::new(move |mutations, schema| {
            if let Some(member) = of_hook.upgrade() {
                member.schema_changed(mutations, schema.version);
            }
        }));
        Ok(Membership {
            state: Arc::clone(state),
            member,
            transport,
            store,
            dispatcher,
            spawn,
            has_bootstrapped,
        })
    }

    /// The same, for operators to look at.
    pub(crate) fn view(&self) -> RingView {
        RingView {
            member: Arc::clone(&self.member),
            transport: Arc::clone(&self.transport),
            store: Arc::clone(&self.store),
            dispatcher: Arc::clone(&self.dispatcher),
        }
    }

    /// Gossips again, as after a new start. `is_ready` says whether clients are let in. It waits for the
    /// disk.
    ///
    /// # Errors
    /// When the number of the start cannot be written down.
    pub(crate) fn start_gossip(&self, is_ready: bool) -> Result<(), MembershipError> {
        self.member.start_gossip(is_ready, |generation| {
            crate::node::keep_generation(&self.state, generation).map_err(MembershipError::from)
        })
    }

    /// The ring as the coordinator asks for it.
    pub(crate) fn topology(&self) -> Arc<RingTopology> {
        Arc::clone(self.member.topology())
    }

    /// Who keeps writes for nodes that miss them.
    pub(crate) fn hints(&self) -> Arc<HintStore> {
        Arc::clone(&self.store)
    }

    /// Has requests of other nodes answered by `coordinator`'s node.
    pub(crate) fn serve(&self, coordinator: &Arc<Coordinator>) {
        let (clock, env) = (self.state.env.clock.clone(), self.state.env.clone());
        let nanos: NanoClock = Arc::new(move || clock.monotonic_nanos());
        let engine = Arc::clone(&self.state.engine);
        let server = ReplicaServer::new(
            Arc::clone(coordinator),
            move || engine.schema(),
            nanos,
            move || env.clock.now_millis(),
            Arc::clone(&self.spawn),
            Arc::new(NodeTraces { state: Arc::clone(&self.state), coordinator: Arc::clone(coordinator) }),
        );
        server.attach(self.member.messenger());
    }

    /// Has what other nodes ask for done on the threads of clients. It is said before [`Membership::join`].
    pub(crate) fn read_on(&self, threads: Vec<Handle>) {
        self.transport.read_on(threads);
    }

    /// Becomes a member.
    ///
    /// # Errors
    /// [`MembershipError`]; nothing was said of tokens then.
    pub(crate) async fn join(&self) -> Result<(), StartError> {
        self.try_join().await.map_err(StartError::Membership)
    }

    async fn try_join(&self) -> Result<(), MembershipError> {
        let addresses = self.transport.listen().map_err(|(listen, error)| {
            tracing::error!(%listen, %error, "the storage port cannot be had");
            MembershipError::Port(listen)
        })?;
        tracing::info!(?addresses, "listens for other nodes");
        let around = self.member.look_around().await?;
        let is_alone = around.others.is_empty();
        tracing::info!(others = around.others.len(), "asked who is in the ring");
        self.member.begin().await?;
        if let Some(keyspace) = with_transient_replicas(&self.state.engine.schema()) {
            return Err(MembershipError::Transient(keyspace.to_owned()));
        }
        if !self.has_bootstrapped && !is_alone && self.state.config.settings.auto_bootstrap {
            let schema = self.state.engine.schema();
            let of_users = schema.keyspaces.values().find(|keyspace| {
                !keyspace.is_virtual && !keyspace.tables.is_empty() && !keyspace.name.starts_with("system")
            });
            if let Some(keyspace) = of_users {
                return Err(MembershipError::Bootstrap(keyspace.name.clone()));
            }
        }
        let tokens = match self.state.tokens() {
            [] => self.choose_tokens().await?,
            known => known.to_vec(),
        };
        self.member.take_tokens(tokens)?;
        self.dispatcher.start().map_err(MembershipError::Hints)?;
        let state = Arc::clone(&self.state);
        match take_time(move || crate::node::complete_bootstrap(&state)).await {
            Ok(completed) => completed?,
            Err(error) => tracing::error!(%error, "that the node has joined is not written down"),
        }
        Ok(())
    }

    /// The tokens of a new node, so that the nodes of its data center hold much the same. They are written
    /// down.
    async fn choose_tokens(&self) -> Result<Vec<i64>, MembershipError> {
        let config = &self.state.config;
        let replicas = match config.ring.as_ref().and_then(|ring| ring.allocation.as_ref()) {
            Some(Allocation::Keyspace(name)) => {
                let schema = self.state.engine.schema();
                let keyspace = schema.keyspace(name).filter(|keyspace| !keyspace.is_virtual);
                let keyspace = keyspace.ok_or_else(|| MembershipError::AllocationKeyspace(name.clone()))?;
                Strategy::of(&keyspace.replication).in_datacenter(&config.data_center)
            }
            Some(Allocation::Replicas(replicas)) => *replicas,
            None => 1,
        };
        let (neighbours, state) = (self.member.neighbours(), Arc::clone(&self.state));
        let chosen = take_time(move || {
            let (config, random) = (&state.config, &state.env.random);
            let (datacenter, rack, count) = (&config.data_center, &config.rack, config.num_tokens());
            let tokens = allocate(&neighbours, datacenter, rack, replicas as usize, count, random)?;
            tracing::info!(replicas, nodes = neighbours.len(), ?tokens, "has chosen its tokens");
            crate::node::keep_tokens(&state, &tokens)?;
            // Nobody else chooses them.
            let _ = state.tokens.set(tokens.clone());
            Ok(tokens)
        });
        chosen.await.unwrap_or_else(|error| Err(MembershipError::Choice(error.to_string())))
    }

    /// Waits until the others have a change of the schema that was just made here, for a few seconds.
    pub(crate) async fn agree(&self) {
        self.member.agree().await;
    }

    /// Tells the others whether clients are let in.
    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.member.set_ready(is_ready);
    }

    /// Tells the others how full this node's disks are.
    pub(crate) fn set_disk_usage(&self, usage: DiskUsage) {
        self.member.set_disk_usage(usage);
    }

    /// Says farewell, and takes no messages any more.
    pub(crate) async fn leave(&self) {
        self.member.announce_shutdown().await;
        let dispatcher = Arc::clone(&self.dispatcher);
        match take_time(move || dispatcher.stop()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "hints in memory could not be written"),
            Err(error) => tracing::error!(%error, "hints in memory were not written"),
        }
        self.transport.flush(FAREWELL).await;
        self.transport.stop();
    }
}

/// A keyspace that has transient replicas.
pub(crate) fn with_transient_replicas(schema: &model::Schema) -> Option<&str> {
    let mut keyspaces = schema.keyspaces.values();
    keyspaces.find(|keyspace| Strategy::has_transient(&keyspace.replication)).map(|keyspace| &*keyspace.name)
}

/// The messages that a node speaks, as `MessagingService` of Cassandra 5.0 has it.
fn messaging_versions(mode: StorageCompatibility) -> Versions {
    match mode {
        StorageCompatibility::Cassandra4 => Versions::CASSANDRA_4,
        StorageCompatibility::Upgrading | StorageCompatibility::None => Versions::CASSANDRA_5,
    }
}

/// Where hints lie, and how they are written.
fn hints_options(config: &Config) -> HintsOptions {
    let settings = &config.settings;
    let beside = settings.data_file_directories.first().map(|directory| directory.with_file_name("hints"));
    let directory = settings.hints_directory.clone().or(beside).unwrap_or_else(|| "hints".into());
    HintsOptions {
        flush_period: Duration::from_millis(settings.hints_flush_period.0),
        ack_timeout: Duration::from_millis(settings.write_request_timeout.0),
        file_version: match config.engine.storage_compatibility {
            StorageCompatibility::Cassandra4 => hints::format::VERSION_40,
            StorageCompatibility::Upgrading | StorageCompatibility::None => hints::format::VERSION_50,
        },
        ..HintsOptions::new(&directory)
    }
}

fn hints_settings(config: &Config) -> HintsSettings {
    let settings = &config.settings;
    HintsSettings {
        is_enabled: settings.hinted_handoff_enabled,
        disabled_datacenters: settings.hinted_handoff_disabled_datacenters.iter().cloned().collect(),
        window: Duration::from_millis(settings.max_hint_window.0),
        is_window_persistent: settings.hint_window_persistent_enabled,
        host_bytes_max: settings.max_hints_size_per_host.0,
        file_bytes_max: settings.max_hints_file_size.0,
        throttle_bytes: settings.hinted_handoff_throttle.0,
        deliveries_max: settings.max_hints_delivery_threads as usize,
    }
}
