//! A life of a ring: what its clients do, and what happens to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coordinator::{CasRequest, Coordinator, CoordinatorError, ReadRequest};
use env::fs::memory::Crash;
use env::random::Random;
use env::sim::Simulation;
use env::sync::Mutex;
use env::tasks::{TaskHandle, Tasks, block_on};
use model::schema::Replication;
use model::{Consistency, KeyspaceSchema, WriteType};
use partition::ReadContext;
use testkit::sim::member::{RingNode, Timeouts, endpoint};
use testkit::sim::network::Weather;
use testkit::sim::ring::{Nodes, Ring};

use super::history::{Did, History, Last, Moment, Operation};
use super::tables::{Change, Found, Tables, Wanted, increment, key, mutation, read_of, rows};

const CLIENTS: usize = 3;
const PARTITIONS: u64 = 3;
const ROWS: u64 = 4;
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Until batches that were left behind are completed.
const BATCHES_COMPLETED: Duration = Duration::from_secs(30);

/// What may happen in a life.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Nodes of the ring.
    pub nodes: u8,
    /// Operations of each client.
    pub operations: usize,
    /// Whether anything fails.
    pub has_faults: bool,
    /// Whether nodes lose their power or are restarted. Where they do not, hints bring everything that was
    /// written to all replicas.
    pub has_restarts: bool,
}

/// What a life leaves.
pub struct Left {
    pub history: History,
    pub last: Last,
    /// Of its turns.
    pub fingerprint: u64,
    pub turns: u64,
    /// Faults that happened, for people to read.
    pub faults: Vec<String>,
}

/// What clients share.
#[derive(Clone)]
struct Shared {
    tables: Tables,
    nodes: Nodes,
    numbers: Vec<u8>,
    tasks: Tasks,
    history: Arc<Mutex<History>>,
    moments: Arc<AtomicU64>,
    values: Arc<AtomicU64>,
    clients_left: Arc<AtomicU64>,
    habits: Habits,
}

/// How clients of a life differ from those of another.
#[derive(Clone, Copy)]
struct Habits {
    /// Between two operations, at most.
    idle_millis_max: u64,
    /// The kind of every third operation.
    favourite: u64,
}

/// Kinds of operations, some of which are drawn more often than others.
const KINDS: u64 = 20;

/// Lives one life, and holds it to what is promised.
pub fn live(seed: u64, plan: Plan) -> Left {
    Simulation::run(seed, |simulation| {
        let random = Random::from_seed(seed.wrapping_mul(31).wrapping_add(7));
        let mut ring = Ring::new(simulation, seed, plan.nodes, Ring::small_options(seed));
        for number in ring.numbers() {
            ring.start(number).unwrap_or_else(|error| panic!("node {number} does not start: {error}"));
        }
        ring.settle();
        let tables = Tables::new(&random);
        let first = ring.nodes().get(1).expect("the first node");
        let schema = first.engine.schema().with_keyspace(tables.keyspace());
        first.engine.install_schema(schema).expect("a schema");
        drop(first);
        ring.settle();

        let shared = Shared {
            tables,
            nodes: ring.nodes().clone(),
            numbers: ring.numbers(),
            tasks: ring.tasks(),
            history: Arc::default(),
            moments: Arc::default(),
            values: Arc::default(),
            clients_left: Arc::new(AtomicU64::new(CLIENTS as u64)),
            habits: Habits {
                idle_millis_max: [30, 300, 1_000][random.below(3) as usize],
                favourite: random.below(KINDS),
            },
        };
        let clients: Vec<TaskHandle> = (0..CLIENTS)
            .map(|client| {
                let (shared, random) = (shared.clone(), Random::from_seed(random.u64()));
                let work = move || shared.be_client(client, plan.operations, &random);
                ring.tasks().spawn(format!("client {client}"), work).expect("a task")
            })
            .collect();
        let mut faults = Vec::new();
        while shared.clients_left.load(Ordering::SeqCst) > 0 {
            ring.wait(Duration::from_millis(200 + random.below(4_000)));
            if plan.has_faults {
                faults.push(happen(&mut ring, &random, plan.has_restarts));
            }
        }
        clients.into_iter().for_each(TaskHandle::join);
        for number in ring.numbers() {
            ring.skew(number, 0);
        }
        ring.settle();
        ring.wait(BATCHES_COMPLETED);
        ring.settle();
        if plan.nodes == 3 && !plan.has_restarts {
            shared.replicas_have_all();
        }
        let last = shared.read_all();
        shared.replicas_agree(&last);
        let history = shared.history.lock().clone();
        let left =
            Left { history, last, fingerprint: simulation.fingerprint(), turns: simulation.turns(), faults };
        drop(shared);
        ring.close();
        left
    })
}

/// Lets something happen to the ring; says what.
fn happen(ring: &mut Ring<'_>, random: &Random, has_restarts: bool) -> String {
    let numbers = ring.numbers();
    let any = || numbers[random.below(numbers.len() as u64) as usize];
    let (one, other) = (any(), any());
    let millis = |max: u64| Duration::from_millis(1 + random.below(max));
    let absent: Vec<u8> =
        numbers.iter().copied().filter(|number| ring.nodes().get(*number).is_none()).collect();
    match random.below(14) {
        0 => {
            ring.part(&[one]);
            format!("node {one} is parted")
        }
        1 if one != other => {
            ring.network().cut(endpoint(one), endpoint(other));
            format!("the way from {one} to {other} is cut")
        }
        2 | 3 => {
            let weather = Weather {
                delay_min: Duration::from_micros(200),
                delay_max: millis(1_500),
                lost_per_mille: random.below(100),
                doubled_per_mille: random.below(100),
            };
            ring.network().set_weather(weather);
            format!("{weather:?}")
        }
        4 => {
            let long = millis(15_000);
            ring.pause(one, long);
            format!("node {one} is paused for {long:?}")
        }
        5 => {
            let ahead = random.below(6_000_000) as i64 - 3_000_000;
            ring.skew(one, ahead);
            format!("the clock of node {one} is ahead by {ahead} us")
        }
        6 | 7 if has_restarts && absent.len() < 2 => {
            let crash = match random.below(3) {
                0 => Crash::LoseUnsynced,
                1 => Crash::TornPrefix(random.u64()),
                _ => Crash::ScatteredPages(random.u64()),
            };
            ring.crash(one, crash);
            format!("node {one} loses power: {crash:?}")
        }
        8 if has_restarts && absent.is_empty() => {
            ring.stop(one);
            format!("node {one} is stopped")
        }
        9 if has_restarts && absent.is_empty() => {
            let restart = |number: &u8| {
                ring.stop(*number);
                ring.start(*number).map(drop)
            };
            let restarted: Vec<_> = numbers.iter().map(restart).collect();
            format!("all nodes are restarted, one after the other: {restarted:?}")
        }
        6..=9 if !absent.is_empty() => {
            let started = ring.start(absent[0]).map(drop);
            format!("node {} starts: {started:?}", absent[0])
        }
        10 => {
            let node = ring.nodes().get(one);
            let flushed = node.map(|node| node.engine.flush_all().is_ok());
            format!("node {one} flushes: {flushed:?}")
        }
        11 => {
            let Some(node) = ring.nodes().get(one) else { return "nothing".to_owned() };
            let name = format!("more{}", random.below(1_000));
            let keyspace = KeyspaceSchema::new(&name, Replication::simple(2));
            let made = node.engine.install_schema(node.engine.schema().with_keyspace(keyspace));
            format!("node {one} makes keyspace {name}: {}", made.is_ok())
        }
        _ => {
            ring.network().heal();
            "the network heals".to_owned()
        }
    }
}

/// An operation that was begun.
struct Begun {
    client: usize,
    node: u8,
    begin: Moment,
}

impl Shared {
    fn moment(&self) -> Moment {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, begun: Begun, is_done: bool, did: Did) {
        let end = is_done.then(|| self.moment());
        let Begun { client, node, begin } = begun;
        self.history.lock().operations.push(Operation { client, node, begin, end, did });
    }

    fn be_client(&self, client: usize, operations: usize, random: &Random) {
        for _ in 0..operations {
            let number = self.numbers[random.below(self.numbers.len() as u64) as usize];
            if let Some(node) = self.nodes.get(number) {
                let begun = Begun { client, node: number, begin: self.moment() };
                self.operate(begun, &node, random);
            }
            let idle = Duration::from_millis(random.below(self.habits.idle_millis_max));
            block_on(self.tasks.sleep(idle));
        }
        self.clients_left.fetch_sub(1, Ordering::SeqCst);
    }

    /// The answer to a request; `None` where it failed, and where the node was gone before the client heard
    /// of it.
    fn ask<T: Send + 'static>(
        &self,
        number: u8,
        node: &Arc<RingNode>,
        request: impl Future<Output = Result<T, CoordinatorError>> + Send + 'static,
    ) -> Option<T> {
        let answer = node.ask(&self.tasks, PATIENCE, request)?;
        answer.ok().filter(|_| self.nodes.is_there(number, node))
    }

    fn operate(&self, begun: Begun, node: &Arc<RingNode>, random: &Random) {
        let number = begun.node;
        let (coordinator, timeouts) = (Arc::clone(&node.coordinator), Timeouts::default());
        let write_deadline = node.deadline(timeouts.write);
        let k = random.below(PARTITIONS) as i32;
        let now_s = node.env().now_seconds() as u32;
        let kind = if random.below(3) == 0 { self.habits.favourite } else { random.below(KINDS) };
        match kind {
            0..=6 => {
                let timestamp = coordinator.next_timestamp();
                let change = self.change(random);
                let consistency = match random.below(6) {
                    0 => Consistency::One,
                    1 => Consistency::All,
                    _ => Consistency::Quorum,
                };
                let written = mutation(&self.tables.plain, k, &change, timestamp, now_s);
                let done = self.ask(number, node, async move {
                    let deadline = Some(&write_deadline);
                    coordinator.write(vec![written], consistency, WriteType::Simple, deadline).await
                });
                let is_quorum = consistency != Consistency::One;
                self.note(begun, done.is_some(), Did::Wrote { k, change, timestamp, is_quorum });
            }
            7..=12 => {
                let wanted = match random.below(8) {
                    0 | 1 => Wanted::Everything,
                    2 | 3 => Wanted::First(k, 1 + random.below(ROWS - 1)),
                    _ => Wanted::Partition(k),
                };
                let consistency = if random.below(8) == 0 { Consistency::All } else { Consistency::Quorum };
                let rows = self.read(number, node, &self.tables.plain, wanted, consistency);
                let column = self.tables.plain.clustering_columns().first();
                let is_reversed = column.is_some_and(|column| column.descending);
                let is_done = rows.is_some();
                self.note(begun, is_done, Did::Read { wanted, is_reversed, rows: rows.unwrap_or_default() });
            }
            13 | 14 => self.raise(begun, node, random.below(4) > 0),
            15 => {
                let found =
                    self.read(number, node, &self.tables.register, Wanted::Partition(0), Consistency::Serial);
                let value = found.as_ref().and_then(|rows| rows.first()).map_or(0, |row| row.value);
                self.note(begun, found.is_some(), Did::Looked { value });
            }
            16 | 17 => {
                let written = increment(&self.tables.counter, k, coordinator.next_timestamp());
                let consistency = if random.below(3) == 0 { Consistency::One } else { Consistency::Quorum };
                let done = self.ask(number, node, async move {
                    let deadline = Some(&write_deadline);
                    coordinator.write_counters(vec![written], consistency, deadline, &mut ()).await
                });
                self.note(begun, done.is_some(), Did::Counted { k });
            }
            _ => self.pair(begun, node, random),
        }
    }

    fn change(&self, random: &Random) -> Change {
        let c = random.below(ROWS) as i32;
        match random.below(10) {
            0 => Change::DeleteAll,
            1 | 2 => Change::Delete(c),
            _ => Change::Put(c, self.values.fetch_add(1, Ordering::SeqCst) as i64 + 1),
        }
    }

    fn read(
        &self,
        number: u8,
        node: &Arc<RingNode>,
        table: &Arc<model::TableSchema>,
        wanted: Wanted,
        consistency: Consistency,
    ) -> Option<Vec<Found>> {
        let deadline = node.deadline(Timeouts::default().read);
        let command = read_of(table, wanted, node.env().now_seconds() as u32);
        let context = ReadContext { deadline: Some(deadline.clone()), ..ReadContext::default() };
        let request = ReadRequest::all(Arc::new(command), consistency, context);
        let coordinator = Arc::clone(&node.coordinator);
        let is_counter = Arc::ptr_eq(table, &self.tables.counter);
        let take = move |page: &mut coordinator::Page| rows(page, is_counter);
        self.ask(
            number,
            node,
            async move { coordinator.collect(&request, take, Some(&deadline), &mut ()).await },
        )
    }

    /// Raises the register by one, on condition that nobody else did meanwhile; or looks at it with a
    /// condition that does not hold.
    fn raise(&self, begun: Begun, node: &Arc<RingNode>, does_hold: bool) {
        let timeouts = Timeouts::default();
        let (table, now_s) = (Arc::clone(&self.tables.register), node.env().now_seconds() as u32);
        let read_deadline = node.deadline(timeouts.read);
        let request = CasRequest {
            key: key(0),
            reads: vec![read_of(&table, Wanted::Partition(0), now_s)],
            consistency: Consistency::Quorum,
            serial_consistency: Consistency::Serial,
            context: ReadContext { deadline: Some(read_deadline.clone()), ..ReadContext::default() },
            read_deadline: Some(read_deadline),
            contention_deadline: Some(node.deadline(timeouts.contention)),
            write_deadline: Some(node.deadline(timeouts.write)),
        };
        let before = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&before);
        let decide = move |found: Vec<Vec<Found>>, ballot: i64| {
            let value = found.first().and_then(|rows| rows.first()).map_or(0, |row| row.value);
            *seen.lock() = value;
            let raised = mutation(&table, 0, &Change::Put(0, value + 1), ballot, now_s);
            Ok::<_, CoordinatorError>(does_hold.then(|| vec![raised]))
        };
        let coordinator: Arc<Coordinator> = Arc::clone(&node.coordinator);
        let take = |page: &mut coordinator::Page| rows(page, false);
        let done =
            self.ask(begun.node, node, async move { coordinator.cas(request, take, decide, &mut ()).await });
        let before = *before.lock();
        let did = if does_hold { Did::Raised { before } } else { Did::Looked { value: before } };
        self.note(begun, done.is_some(), did);
    }

    /// Writes a number to two partitions, in a logged batch.
    fn pair(&self, begun: Begun, node: &Arc<RingNode>, random: &Random) {
        let number = self.values.fetch_add(1, Ordering::SeqCst) as i64 + 1;
        let first = random.below(PARTITIONS) as i32;
        let partitions = [first, first + 100];
        let coordinator = Arc::clone(&node.coordinator);
        let (timestamp, now_s) = (coordinator.next_timestamp(), node.env().now_seconds() as u32);
        let of =
            |k: &i32| mutation(&self.tables.pairs, *k, &Change::Put(number as i32, number), timestamp, now_s);
        let mutations = partitions.iter().map(of).collect();
        let deadline = node.deadline(Timeouts::default().write);
        let done = self.ask(begun.node, node, async move {
            coordinator.write_logged_batch(mutations, Consistency::Quorum, Some(&deadline)).await
        });
        self.note(begun, done.is_some(), Did::Paired { partitions, number });
    }

    /// Everything, at ALL.
    fn read_all(&self) -> Last {
        let node = self.nodes.get(1).expect("the first node");
        let read = |table| {
            let found = self.read(1, &node, table, Wanted::Everything, Consistency::All);
            found.unwrap_or_else(|| panic!("{} cannot be read at ALL", table.name))
        };
        Last {
            plain: read(&self.tables.plain),
            register: read(&self.tables.register),
            counter: read(&self.tables.counter),
            pairs: read(&self.tables.pairs),
        }
    }

    /// All nodes have the same rows, without a read that repaired them.
    fn replicas_have_all(&self) {
        let own = |node: &Arc<RingNode>| {
            let command = read_of(&self.tables.plain, Wanted::Everything, node.env().now_seconds() as u32);
            let request = ReadRequest::all(Arc::new(command), Consistency::One, ReadContext::default());
            let (request, coordinator) = (request.of_this_node(), Arc::clone(&node.coordinator));
            let take = |page: &mut coordinator::Page| rows(page, false);
            let read = async move { coordinator.collect(&request, take, None, &mut ()).await };
            node.ask(&self.tasks, PATIENCE, read).expect("an answer").expect("a read of this node")
        };
        let all: Vec<(u8, Vec<Found>)> =
            self.nodes.all().iter().map(|(number, node)| (*number, own(node))).collect();
        for (number, rows) in &all {
            assert_eq!(rows, &all[0].1, "hints have not brought node {number} what node 1 has");
        }
    }

    /// After a read at ALL each node reads the same of the replicas that a ring of three has.
    fn replicas_agree(&self, last: &Last) {
        for (number, _) in self.nodes.all() {
            let node = self.nodes.get(number).expect("a node");
            let again = self.read(number, &node, &self.tables.plain, Wanted::Everything, Consistency::One);
            assert_eq!(again.as_ref(), Some(&last.plain), "node {number} at ONE, after a read at ALL");
        }
        assert_eq!(self.read_all(), *last, "a second read at ALL");
    }
}

/// Rows of a partition of `plain`.
pub fn rows_max() -> i32 {
    ROWS as i32
}
