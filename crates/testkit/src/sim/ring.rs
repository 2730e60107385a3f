//! A ring in a simulated world, and what can happen to its nodes.
//!
//! Each node has a group of tasks, a clock and files of its own. All take turns with the clients of a test,
//! drawn from one seed.
//!
//! 1. [`Ring::start`] starts a node on the files that its last life left.
//! 2. [`Ring::crash`] cuts the power, [`Ring::stop`] ends a node in order, [`Ring::pause`] stops its process
//!    for a while, [`Ring::skew`] sets its clock, [`Ring::change_address`] has it come back elsewhere.
//!    [`Ring::network`] cuts ways and changes the weather.
//! 3. [`Ring::settle`] mends everything, and waits until the nodes agree on who is there and on the schema,
//!    and have sent all hints.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::endpoint::Endpoint;
use engine::EngineOptions;
use env::clock::{Clock, SkewedClock};
use env::fs::faulty::FaultyFileSystem;
use env::fs::memory::{Crash, MemoryFileSystem};
use env::random::Random;
use env::sim::{Group, Simulation};
use env::sync::Mutex;
use env::tasks::{TaskHandle, Tasks, block_on};

use super::member::{Identity, Peers, RingNode, endpoint};
use super::network::Network;

/// Tokens of a node.
const TOKENS: usize = 4;
/// Until when a ring in fair weather has to agree.
const SETTLED_SECONDS_MAX: u32 = 600;

/// The nodes that are there, by number. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    shared: Arc<Mutex<BTreeMap<u8, Arc<RingNode>>>>,
}

impl Nodes {
    /// A node, while it is there.
    pub fn get(&self, number: u8) -> Option<Arc<RingNode>> {
        self.shared.lock().get(&number).cloned()
    }

    /// Whether this life of a node lasts.
    pub fn is_there(&self, number: u8, node: &Arc<RingNode>) -> bool {
        self.get(number).is_some_and(|there| Arc::ptr_eq(&there, node))
    }

    /// All of them.
    pub fn all(&self) -> Vec<(u8, Arc<RingNode>)> {
        self.shared.lock().iter().map(|(number, node)| (*number, Arc::clone(node))).collect()
    }
}

/// What stays of a node from life to life.
struct Place {
    who: Identity,
    /// How often its address has changed.
    changes: u8,
    clock: Arc<SkewedClock>,
    disk: MemoryFileSystem,
}

/// A ring.
pub struct Ring<'s> {
    simulation: &'s Simulation,
    options: EngineOptions,
    network: Network,
    places: BTreeMap<u8, Place>,
    nodes: Nodes,
    burials: Vec<TaskHandle>,
}

impl<'s> Ring<'s> {
    /// A ring of so many nodes, none of which was started yet. The first is the seed. `datacenter_of` names
    /// the data center of each.
    pub fn new(
        simulation: &'s Simulation,
        seed: u64,
        nodes: u8,
        datacenter_of: impl Fn(u8) -> String,
        options: EngineOptions,
    ) -> Ring<'s> {
        let random = Random::from_seed(seed ^ 0x5EED);
        let place = |number: u8| {
            let mut tokens: Vec<i64> = (0..TOKENS).map(|_| random.u64() as i64).collect();
            // The first of tokens that are spread evenly is the smallest one.
            if number == 1 && seed.is_multiple_of(2) {
                tokens[0] = i64::MIN;
            }
            let who = Identity {
                number,
                address: endpoint(number, 0),
                seeds: Vec::new(),
                tokens,
                datacenter: datacenter_of(number),
                life: 0,
                has_bootstrapped: false,
                peers: Peers::default(),
            };
            let of = Arc::clone(simulation.clock()) as Arc<dyn Clock>;
            let disk = MemoryFileSystem::with_clock(simulation.clock().clone());
            (number, Place { who, changes: 0, clock: Arc::new(SkewedClock::new(of, 0)), disk })
        };
        Ring {
            simulation,
            options,
            network: Network::new(random.u64()),
            places: (1..=nodes).map(place).collect(),
            nodes: Nodes::default(),
            burials: Vec::new(),
        }
    }

    /// Engine options that make much happen in a short life, drawn from a seed.
    pub fn small_options(seed: u64) -> EngineOptions {
        let random = Random::from_seed(seed);
        EngineOptions {
            commitlog_sync: engine::SyncMode::Batch,
            commitlog_segment_bytes: 64 << 10,
            commitlog_total_bytes: 256 << 10,
            memtable_bytes_max: [128 << 10, 1 << 20][random.below(2) as usize],
            page_cache_bytes: 64 << 10,
            flush_writers: 1,
            concurrent_compactors: 1,
            auto_snapshot: false,
            column_index_bytes: 512,
            early_open_bytes: u64::MAX,
            ..EngineOptions::under(Path::new("/node"))
        }
    }

    /// Numbers of all nodes.
    pub fn numbers(&self) -> Vec<u8> {
        self.places.keys().copied().collect()
    }

    /// The nodes that are there.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// What carries their messages.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Tasks and timers of clients.
    pub fn tasks(&self) -> Tasks {
        self.simulation.tasks()
    }

    /// Starts a node, and waits until it is a member.
    ///
    /// # Panics
    /// When there is no such node, or no task for it.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn start(&mut self, number: u8) -> Result<Arc<RingNode>, String> {
        let seed = self.endpoint(1);
        let place = self.places.get_mut(&number).expect("a node of the ring");
        place.who.life += 1;
        place.who.seeds = vec![seed];
        let files = FaultyFileSystem::new(Arc::new(place.disk.clone()));
        let clock = Arc::clone(&place.clock) as Arc<dyn Clock>;
        let life = u64::from(number) * 1_000 + u64::from(place.who.life);
        let env = self.simulation.env_of(life, clock, Arc::new(files));
        let outcome = Arc::new(Mutex::new(None));
        let (tell, network) = (Arc::clone(&outcome), self.network.clone());
        let (options, who) = (self.options.clone(), place.who.clone());
        let opens = move || *tell.lock() = Some(RingNode::open(&env, options, &network, &who));
        let opening = self.simulation.spawn_in(group(number), format!("start of {number}"), opens);
        opening.expect("a task").join();
        let opened = outcome.lock().take().unwrap_or_else(|| Err("it does not start".to_owned()));
        let node = Arc::new(opened?);
        place.who.has_bootstrapped = true;
        self.nodes.shared.lock().insert(number, Arc::clone(&node));
        Ok(node)
    }

    /// Where a node is, or will be when it starts.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn endpoint(&self, number: u8) -> Endpoint {
        self.places.get(&number).expect("a node of the ring").who.address
    }

    /// Gives a node that is not there another address for its next life.
    pub fn change_address(&mut self, number: u8) {
        if let Some(place) = self.places.get_mut(&number) {
            place.changes = place.changes.saturating_add(1);
            place.who.address = endpoint(number, place.changes);
        }
    }

    /// Cuts the power of a node. Its next life begins with what that leaves.
    pub fn crash(&mut self, number: u8, crash: Crash) {
        // No turn of anybody lies between the end of the node and of what clients believe of it.
        let Some(node) = self.nodes.get(number) else { return };
        let Some(place) = self.places.get_mut(&number) else { return };
        place.disk = node.power_off(&place.disk, crash);
        self.nodes.shared.lock().remove(&number);
        self.simulation.pause(group(number), Duration::ZERO);
        self.end(number, move || node.bury());
    }

    /// Ends a node in order, and waits for that.
    pub fn stop(&mut self, number: u8) {
        let Some(node) = self.nodes.shared.lock().remove(&number) else { return };
        self.simulation.pause(group(number), Duration::ZERO);
        let ending = self.simulation.spawn_in(group(number), "end", move || node.shut_down());
        ending.expect("a task").join();
    }

    fn end(&mut self, number: u8, work: impl FnOnce() + Send + 'static) {
        let burial = self.simulation.spawn_in(group(number), format!("burial of {number}"), work);
        self.burials.push(burial.expect("a task"));
    }

    /// Stops the process of a node for so long.
    pub fn pause(&self, number: u8, duration: Duration) {
        self.simulation.pause(group(number), duration);
    }

    /// Sets by how much a node's clock is ahead.
    pub fn skew(&self, number: u8, ahead_micros: i64) {
        if let Some(place) = self.places.get(&number) {
            place.clock.set_ahead_micros(ahead_micros);
        }
    }

    /// Cuts both ways between two parts of the ring.
    pub fn part(&self, some: &[u8]) {
        for one in self.numbers() {
            for other in self.numbers() {
                if some.contains(&one) != some.contains(&other) {
                    self.network.cut(self.endpoint(one), self.endpoint(other));
                }
            }
        }
    }

    /// Mends everything, starts who is not there, and waits until all agree.
    ///
    /// # Panics
    /// When they do not in time.
    pub fn settle(&mut self) {
        self.network.heal();
        for number in self.numbers() {
            self.simulation.pause(group(number), Duration::ZERO);
            if self.nodes.get(number).is_none() {
                self.start(number).unwrap_or_else(|error| panic!("node {number} does not start: {error}"));
            }
        }
        let mut differing = String::new();
        for _ in 0..SETTLED_SECONDS_MAX {
            differing = self.differing();
            if differing.is_empty() {
                return;
            }
            self.wait(Duration::from_secs(1));
        }
        panic!("the ring does not agree: {differing}");
    }

    /// In what the nodes differ that has to be the same in the end.
    fn differing(&self) -> String {
        let (all, count) = (self.nodes.all(), self.places.len());
        let versions: Vec<_> = all.iter().map(|(_, node)| node.engine.schema().version).collect();
        if versions.windows(2).any(|two| two[0] != two[1]) {
            return format!("schemas {versions:?}");
        }
        for (number, node) in &all {
            if node.live() != count {
                return format!("node {number} thinks that {} of {count} are alive", node.live());
            }
            let known = node.member.topology().members().iter().count();
            if known != count {
                return format!("node {number} knows {known} nodes");
            }
            if node.has_hints() {
                return format!("node {number} has hints");
            }
        }
        String::new()
    }

    /// Lets time pass.
    pub fn wait(&self, duration: Duration) {
        block_on(self.simulation.tasks().sleep(duration));
    }

    /// Ends all nodes.
    pub fn close(mut self) {
        for (number, node) in self.nodes.all() {
            self.nodes.shared.lock().remove(&number);
            self.simulation.pause(group(number), Duration::ZERO);
            self.end(number, move || {
                node.power_off(&MemoryFileSystem::new(), Crash::LoseUnsynced);
                node.bury();
            });
        }
        self.burials.into_iter().for_each(TaskHandle::join);
    }
}

/// The group of a node's tasks.
fn group(number: u8) -> Group {
    Group::from(number)
}
