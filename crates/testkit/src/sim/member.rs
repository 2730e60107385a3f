//! A node of a simulated ring: engine, coordinator, gossip, messages and hints, over the [`Network`] of the
//! ring.
//!
//! 1. [`RingNode::open`] puts the parts together as the server does, and joins the ring. It runs on a task of
//!    the node's group, so all of its tasks are of that group.
//! 2. Clients hand their requests over by [`RingNode::ask`]. The node's executor carries them out: a node
//!    that is paused answers later, and one that is gone does not.
//! 3. [`RingNode::power_off`] cuts the wire and takes the files as they are, in one turn. What the node does
//!    afterwards nobody sees: [`RingNode::bury`] ends its tasks.
//! 4. [`RingNode::shut_down`] is the orderly end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::future::Future;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cluster::endpoint::Endpoint;
use cluster::gossip::{Settings, Text};
use cluster::hints::{Dispatcher, HintStore, HintsOptions, HintsSettings};
use cluster::member::{Host, Member, MemberOptions, PeerRecord, Pending, RingEvent};
use cluster::messaging::{Messenger, MessengerOptions, Transport, VERSION_40};
use cluster::remote::RemoteTimeouts;
use cluster::ring::{Members, RingTopology};
use cluster::serve::{NoTraces, ReplicaServer, Spawn};
use coordinator::{Coordinator, LateReplay, LocalReplica, Node, ReaderHooks, Readers, Replica};
use engine::{Engine, EngineOptions};
use env::Env;
use env::fs::memory::{Crash, MemoryFileSystem};
use env::sim::Executor;
use env::sync::Mutex;
use env::tasks::{TaskHandle, Tasks, block_on};
use model::{DecoratedKey, Mutation, PartitionKey, Schema};
use partition::{Deadline, NanoClock};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::network::{Network, Wire};
use super::{READERS, Store};

/// Between two looks at the batch log.
const REPLAY_INTERVAL: Duration = Duration::from_secs(10);
/// Until farewells and answers that are on their way have arrived.
const LINGER: Duration = Duration::from_secs(1);
/// The generation before the first life: when the clock of a simulation begins.
const GENERATION: i32 = 1_577_836_800;

/// How long requests may take. They are Cassandra's.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// A read.
    pub read: Duration,
    /// A write.
    pub write: Duration,
    /// Until a conditional write has its turn.
    pub contention: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            read: Duration::from_secs(5),
            write: Duration::from_secs(2),
            contention: Duration::from_secs(1),
        }
    }
}

/// Who a node is, over all of its lives.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its number, from 1 on.
    pub number: u8,
    /// Its address in this life.
    pub address: Endpoint,
    /// Addresses of the seeds.
    pub seeds: Vec<Endpoint>,
    /// Its tokens.
    pub tokens: Vec<i64>,
    /// Its data center. All of its nodes are in one rack.
    pub datacenter: String,
    /// Number of this life, from 1 on.
    pub life: u32,
    /// Whether an earlier life was a member.
    pub has_bootstrapped: bool,
    /// The nodes that earlier lives wrote down.
    pub peers: Peers,
}

/// The nodes that a node remembers, which stand for `system.peers_v2`.
pub type Peers = Arc<Mutex<BTreeMap<Endpoint, PeerRecord>>>;

/// The address of a node after so many changes of it. No two nodes ever have the same.
pub fn endpoint(number: u8, changes: u8) -> Endpoint {
    Endpoint::new(IpAddr::from([127, 0, changes, number]), 7_000)
}

/// A node.
pub struct RingNode {
    /// Its tables.
    pub engine: Arc<Engine>,
    /// What clients ask.
    pub coordinator: Arc<Coordinator>,
    /// Its part in the ring.
    pub member: Arc<Member>,
    /// The hints that it has for others.
    pub hints: Arc<HintStore>,
    env: Env,
    clock: NanoClock,
    dispatcher: Arc<Dispatcher>,
    executor: Executor,
    polling: Mutex<Option<TaskHandle>>,
    wire: Arc<Wire>,
}

impl Debug for RingNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingNode").field("host_id", &self.engine.host_id()).finish_non_exhaustive()
    }
}

/// What a member needs of the node.
struct NodeHost {
    engine: Arc<Engine>,
    tasks: Tasks,
    peers: Peers,
    hints: OnceLock<Arc<Dispatcher>>,
}

impl Host for NodeHost {
    fn schema(&self) -> Arc<Schema> {
        self.engine.schema()
    }

    fn schema_mutations(&self) -> Pending<Result<Vec<Mutation>, String>> {
        let engine = Arc::clone(&self.engine);
        let rows = aside(&self.tasks, move || engine.schema_mutations().map_err(|error| error.to_string()));
        Box::pin(async move { rows.await? })
    }

    fn merge_schema(&self, mutations: Vec<Mutation>) -> Pending<Result<Uuid, String>> {
        let engine = Arc::clone(&self.engine);
        let merged = aside(&self.tasks, move || {
            let merged = engine.merge_schema(mutations).map_err(|error| error.to_string())?;
            Ok::<_, String>(merged.new.version)
        });
        Box::pin(async move { merged.await? })
    }

    fn data_bytes(&self) -> u64 {
        self.engine.tables().iter().map(|table| table.stats().disk_bytes).sum()
    }

    fn save_peer(&self, peer: &PeerRecord) {
        self.peers.lock().insert(peer.endpoint, peer.clone());
    }

    fn forget_peer(&self, endpoint: Endpoint, _: Option<Uuid>) {
        self.peers.lock().remove(&endpoint);
    }

    fn is_back(&self, node: &Arc<Node>) {
        if let Some(hints) = self.hints.get() {
            hints.is_back(node);
        }
    }

    fn tell(&self, _: RingEvent) {}
}

/// Does something that may wait for the disk on a task of its own.
fn aside<T: Send + 'static>(
    tasks: &Tasks,
    work: impl FnOnce() -> T + Send + 'static,
) -> Pending<Result<T, String>> {
    let (tell, told) = oneshot::channel();
    let started = tasks.spawn("aside", move || drop(tell.send(work())));
    Box::pin(async move {
        started.map_err(|error| error.to_string())?;
        told.await.map_err(|error| error.to_string())
    })
}

impl RingNode {
    /// Starts a node on the files of `env`, and has it join its ring.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn open(
        env: &Env,
        options: EngineOptions,
        network: &Network,
        who: &Identity,
    ) -> Result<RingNode, String> {
        let node = RingNode::put_together(env, options, network, who)?;
        let joined = block_on(node.join(who));
        if joined.is_err() {
            node.wire.close();
            node.bury();
        }
        joined.map(|()| node)
    }

    fn put_together(
        env: &Env,
        options: EngineOptions,
        network: &Network,
        who: &Identity,
    ) -> Result<RingNode, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let engine = Engine::open(options, env.clone()).map_err(|error| text(&error))?;
        engine.start_proving().map_err(|error| text(&error))?;
        let own = who.address;
        let (executor, polling) =
            Executor::start(&env.tasks, format!("node {}", who.number)).map_err(|error| text(&error))?;
        let readers = Arc::new(Readers::new(env.clone(), READERS, ReaderHooks::none()));
        let store = Arc::new(Store { engine: Arc::clone(&engine), env: env.clone() });
        let local = Arc::new(LocalReplica::new(store, readers));
        let replica = Arc::clone(&local) as Arc<dyn Replica>;
        let this = Arc::new(Node::new(engine.host_id(), &who.datacenter, "rack1", replica));
        let of_schema = Arc::clone(&engine);
        let topology = Arc::new(RingTopology::new(Arc::clone(&this), move || of_schema.schema()));
        let wire = Arc::new(network.connect(own, env, &executor));
        let transport = Arc::clone(&wire) as Arc<dyn Transport>;
        let messenger = Messenger::new(env.clone(), MessengerOptions::default(), transport);
        let of_tasks = executor.clone();
        let spawn: Spawn = Arc::new(move |task| of_tasks.spawn(task));

        let of_hints = Arc::clone(&engine);
        let hints_options = HintsOptions {
            flush_period: Duration::from_secs(1),
            ..HintsOptions::new(Path::new("/node/hints"))
        };
        let settings = HintsSettings::default();
        let schema = move || of_hints.schema();
        let hints = HintStore::open(env.clone(), hints_options, settings, schema, Arc::clone(&spawn))
            .map_err(|error| text(&error))?;
        let of_ring = Arc::clone(&topology);
        let dispatcher = Dispatcher::new(Arc::clone(&hints), move || of_ring.members(), Arc::clone(&spawn));
        let host = Arc::new(NodeHost {
            engine: Arc::clone(&engine),
            tasks: env.tasks.clone(),
            peers: Arc::clone(&who.peers),
            hints: OnceLock::from(Arc::clone(&dispatcher)),
        });
        let saved = who.peers.lock().values().cloned().collect();
        let options = member_options(&engine, who, own)?;
        let of_ring = Arc::clone(&topology);
        let member = Member::new(env.clone(), options, messenger, of_ring, host, Arc::clone(&spawn), saved);
        let of_hook = Arc::downgrade(&member);
        engine.on_schema_change(Box::new(move |mutations, schema| {
            if let Some(member) = of_hook.upgrade() {
                member.schema_changed(mutations, schema.version);
            }
        }));
        let keeper = Arc::clone(&hints) as Arc<dyn coordinator::Hints>;
        let coordinator = Arc::new(Coordinator::new(env.clone(), topology, this, local, keeper));
        let of_clock = Arc::clone(&env.clock);
        let clock: NanoClock = Arc::new(move || of_clock.monotonic_nanos());
        let (of_server, wall) = (Arc::clone(&engine), Arc::clone(&env.clock));
        let server = ReplicaServer::new(
            Arc::clone(&coordinator),
            move || of_server.schema(),
            Arc::clone(&clock),
            move || wall.now_millis(),
            spawn,
            Arc::new(NoTraces),
        );
        server.attach(member.messenger());
        let polling = Mutex::new(Some(polling));
        let env = env.clone();
        Ok(RingNode { engine, coordinator, member, hints, env, clock, dispatcher, executor, polling, wire })
    }

    async fn join(&self, who: &Identity) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        self.member.look_around().await.map_err(|error| format!("node {}: {error}", who.number))?;
        self.member.begin().await.map_err(|error| text(&error))?;
        self.member.take_tokens(who.tokens.clone()).map_err(|error| text(&error))?;
        self.dispatcher.start().map_err(|error| text(&error))?;
        let (coordinator, tasks) = (Arc::clone(&self.coordinator), self.env.tasks.clone());
        let late = LateReplay {
            timeout_ms: Timeouts::default().write.as_millis() as u64 * 2,
            bytes_per_second: 1 << 20,
        };
        self.executor.spawn(async move {
            // What cannot be completed yet is tried again.
            let _ = coordinator.replay_batches().await;
            let mut ticks = tasks.ticks(REPLAY_INTERVAL);
            loop {
                ticks.next().await;
                let _ = coordinator.replay_late_batches(late, &|| true).await;
            }
        });
        self.member.set_ready(true);
        Ok(())
    }

    /// A deadline that is so far away.
    pub fn deadline(&self, left: Duration) -> Deadline {
        Deadline::new(&self.clock, (self.clock)().saturating_add(left.as_nanos() as u64))
    }

    /// Its world.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Has the node carry out a request, and waits for the answer; `None` when none comes in `patience`.
    pub fn ask<T: Send + 'static>(
        &self,
        tasks: &Tasks,
        patience: Duration,
        request: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = oneshot::channel();
        self.executor.spawn(async move { drop(tell.send(request.await)) });
        block_on(tasks.timeout(patience, told)).ok()?.ok()
    }

    /// Number of nodes that it thinks alive, itself among them.
    pub fn live(&self) -> usize {
        self.member.topology().members().iter().filter(|member| member.node.is_alive()).count()
    }

    /// Bytes of hints that wait for other nodes.
    pub fn has_hints(&self) -> bool {
        !self.dispatcher.pending().is_empty()
    }

    /// Cuts the wire, and takes what a loss of power leaves of its files. No turn of anybody lies between.
    pub fn power_off(&self, disk: &MemoryFileSystem, crash: Crash) -> MemoryFileSystem {
        self.wire.close();
        disk.crash(crash)
    }

    /// Ends all tasks of a node that nobody hears any more.
    pub fn bury(&self) {
        self.executor.stop();
        // Files are gone, for all that it knows.
        let _ = self.dispatcher.stop();
        let polling = self.polling.lock().take();
        if let Some(polling) = polling {
            polling.join();
        }
        // Nodes elsewhere hold the messenger, whose handlers hold the coordinator, which holds those nodes.
        self.member.topology().set_members(Members::new(Vec::new()));
        let key = DecoratedKey::new(PartitionKey::from_components(&[b""]));
        drop(self.coordinator.topology().placement("system", &key));
        self.engine.close();
    }

    /// Ends the node as its operator would. It runs on a task of the node's group.
    pub fn shut_down(&self) {
        self.member.set_ready(false);
        block_on(self.member.announce_shutdown());
        block_on(self.env.tasks.sleep(LINGER));
        self.wire.close();
        self.bury();
    }
}

fn member_options(engine: &Engine, who: &Identity, own: Endpoint) -> Result<MemberOptions, String> {
    let text = |text: &str| Text::new(text).map_err(|error| error.to_string());
    Ok(MemberOptions {
        gossip: Settings {
            endpoint: own,
            cluster_name: text("ring")?,
            partitioner: text("org.apache.cassandra.dht.Murmur3Partitioner")?,
            seeds: who.seeds.iter().copied().collect::<BTreeSet<_>>(),
            ring_delay_millis: 30_000,
            phi_convict_threshold: 8.0,
        },
        host_id: engine.host_id(),
        generation: GENERATION + who.life as i32,
        has_bootstrapped: who.has_bootstrapped,
        release_version: "5.0.5".to_owned(),
        messaging_version: VERSION_40,
        native: Endpoint::new(own.ip, 9_042),
        internal: own.ip,
        prefers_local: false,
        sstable_versions: vec!["big-nb".to_owned()],
        timeouts: RemoteTimeouts::default(),
    })
}
