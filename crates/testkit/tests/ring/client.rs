//! Clients of a ring: what they do, and what they note of it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coordinator::{CasRequest, Coordinator, CoordinatorError, ReadRequest};
use env::clock::{Clock, ManualClock};
use env::random::Random;
use env::sync::Mutex;
use env::tasks::{Tasks, block_on};
use model::{Consistency, WriteType};
use partition::ReadContext;
use testkit::sim::member::{RingNode, Timeouts};
use testkit::sim::ring::Nodes;

use super::history::{Did, Last, Moment, Operation};
use super::levels::Layout;
use super::pages::{Asked, Paging};
use super::tables::{Change, Found, Life, Register, Tables, Wanted, increment, key, mutation, read_of, rows};
use super::truncation::Emptying;

const PARTITIONS: u64 = 3;
/// Rows of a partition.
pub const ROWS: u64 = 4;
/// Short enough that rows end within a life.
const TTL_SECONDS_MAX: u64 = 8;
/// How long a client waits for an answer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What clients share.
#[derive(Clone)]
pub struct Shared {
    pub tables: Tables,
    pub layout: Layout,
    pub nodes: Nodes,
    pub numbers: Vec<u8>,
    pub tasks: Tasks,
    pub operations: Arc<Mutex<Vec<Operation>>>,
    pub moments: Arc<Mutex<Vec<i64>>>,
    /// The true time.
    pub clock: Arc<ManualClock>,
    pub values: Arc<AtomicU64>,
    pub clients_left: Arc<AtomicU64>,
    pub habits: Habits,
}

/// How clients of a life differ from those of another.
#[derive(Clone, Copy)]
pub struct Habits {
    /// Between two operations, at most.
    pub idle_millis_max: u64,
    /// The kind of every third operation.
    pub favourite: u64,
}

/// Kinds of operations, some of which are drawn more often than others.
pub const KINDS: u64 = 24;

/// An operation that was begun.
pub struct Begun {
    pub client: usize,
    pub node: u8,
    pub begin: Moment,
}

impl Shared {
    pub fn moment(&self) -> Moment {
        let mut moments = self.moments.lock();
        moments.push(self.clock.now_micros());
        moments.len() as Moment - 1
    }

    pub fn note(&self, begun: Begun, is_done: bool, did: Did) {
        let over = self.moment();
        let Begun { client, node, begin } = begun;
        let end = is_done.then_some(over);
        self.operations.lock().push(Operation { client, node, begin, over, end, did });
    }

    pub fn be_client(&self, client: usize, operations: usize, random: &Random) {
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
    pub fn ask<T: Send + 'static>(
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
                let (table, change) = (Register::Plain, self.change(now_s, random));
                let level = self.layout.level_of_write(random);
                let written = mutation(&self.tables.plain, k, &change, timestamp, now_s);
                let done = self.ask(number, node, async move {
                    let deadline = Some(&write_deadline);
                    coordinator.write(vec![written], level, WriteType::Simple, deadline).await
                });
                self.note(begun, done.is_some(), Did::Wrote { table, k, change, timestamp, level });
            }
            7..=12 => {
                let level = self.layout.level_of_read(random);
                self.look_through(begun, node, Register::Plain, (k, level), random);
            }
            13 | 14 => {
                let (k, serial) = self.register_of(number, random);
                self.raise(begun, node, (k, serial), random.below(4) > 0, random);
            }
            15 => {
                let (k, serial) = self.register_of(number, random);
                let found = self.read(number, node, &self.tables.register, Wanted::partition(k), serial);
                let value = found.as_ref().and_then(|rows| rows.first()).map_or(0, |row| row.value);
                self.note(begun, found.is_some(), Did::Looked { k, value });
            }
            16 | 17 => {
                let written = increment(&self.tables.counter, k, coordinator.next_timestamp());
                let consistency = self.layout.level_of_count(random);
                let done = self.ask(number, node, async move {
                    let deadline = Some(&write_deadline);
                    coordinator.write_counters(vec![written], consistency, deadline, &mut ()).await
                });
                self.note(begun, done.is_some(), Did::Counted { k });
            }
            18 | 19 => self.pair(begun, node, random),
            20 | 21 => self.empty(begun, node, Emptying::Write, k, random),
            22 => self.empty(begun, node, Emptying::Read, k, random),
            _ => self.empty(begun, node, Emptying::Truncate, k, random),
        }
    }

    /// Reads some of a table, perhaps in pages.
    pub fn look_through(
        &self,
        begun: Begun,
        node: &Arc<RingNode>,
        table: Register,
        (k, level): (i32, Consistency),
        random: &Random,
    ) {
        let wanted = Wanted::drawn(k, ROWS, random);
        let paging = (random.below(3) == 0).then(|| Paging::drawn(random));
        let asked = Asked { table: self.tables.of(table), wanted, consistency: level, paging };
        let (pages, is_whole) = self.read_pages((begun.node, node), asked, random);
        let page_rows_max = paging.map_or(u64::MAX, Paging::rows);
        self.note(begun, is_whole, Did::Read { table, wanted, level, page_rows_max, pages });
    }

    pub fn change(&self, now_s: u32, random: &Random) -> Change {
        let c = random.below(ROWS) as i32;
        match random.below(10) {
            0 => Change::DeleteAll,
            1 | 2 => Change::Delete(c),
            kind => {
                let value = self.values.fetch_add(1, Ordering::SeqCst) as i64 + 1;
                let ttl_s = 1 + random.below(TTL_SECONDS_MAX) as i32;
                let life = Life { ttl_s, end_s: now_s + ttl_s as u32 };
                Change::Put(c, value, (kind < 5).then_some(life))
            }
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

    /// A register, and at which level it is always decided about: one is of all data centers, and each data
    /// center has one of its own.
    fn register_of(&self, node: u8, random: &Random) -> (i32, Consistency) {
        match self.layout.has_several() && random.below(2) == 0 {
            true => (1 + self.layout.datacenter_of(node) as i32, Consistency::LocalSerial),
            false => (0, Consistency::Serial),
        }
    }

    /// Raises a register by one, on condition that nobody else did meanwhile; or looks at it with a
    /// condition that does not hold.
    fn raise(
        &self,
        begun: Begun,
        node: &Arc<RingNode>,
        (k, serial_consistency): (i32, Consistency),
        does_hold: bool,
        random: &Random,
    ) {
        let timeouts = Timeouts::default();
        let (table, now_s) = (Arc::clone(&self.tables.register), node.env().now_seconds() as u32);
        let read_deadline = node.deadline(timeouts.read);
        let request = CasRequest {
            key: key(k),
            reads: vec![read_of(&table, Wanted::partition(k), now_s)],
            // What is decided stands, wherever it is already kept.
            consistency: self.layout.level_of_read(random),
            serial_consistency,
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
            let raised = mutation(&table, k, &Change::Put(0, value + 1, None), ballot, now_s);
            Ok::<_, CoordinatorError>(does_hold.then(|| vec![raised]))
        };
        let coordinator: Arc<Coordinator> = Arc::clone(&node.coordinator);
        let take = |page: &mut coordinator::Page| rows(page, false);
        let done =
            self.ask(begun.node, node, async move { coordinator.cas(request, take, decide, &mut ()).await });
        let before = *before.lock();
        let did = if does_hold { Did::Raised { k, before } } else { Did::Looked { k, value: before } };
        self.note(begun, done.is_some(), did);
    }

    /// Writes a number to two partitions, in a logged batch.
    fn pair(&self, begun: Begun, node: &Arc<RingNode>, random: &Random) {
        let number = self.values.fetch_add(1, Ordering::SeqCst) as i64 + 1;
        let first = random.below(PARTITIONS) as i32;
        let partitions = [first, first + 100];
        let coordinator = Arc::clone(&node.coordinator);
        let (timestamp, now_s) = (coordinator.next_timestamp(), node.env().now_seconds() as u32);
        let put = Change::Put(number as i32, number, None);
        let of = |k: &i32| mutation(&self.tables.pairs, *k, &put, timestamp, now_s);
        let mutations = partitions.iter().map(of).collect();
        let deadline = node.deadline(Timeouts::default().write);
        let level = self.layout.level_of_read(random);
        let done = self.ask(begun.node, node, async move {
            coordinator.write_logged_batch(mutations, level, Some(&deadline)).await
        });
        self.note(begun, done.is_some(), Did::Paired { partitions, number });
    }

    /// Everything, at ALL.
    pub fn read_all(&self) -> Last {
        let node = self.nodes.get(1).expect("the first node");
        let read = |table| {
            let found = self.read(1, &node, table, Wanted::EVERYTHING, Consistency::All);
            found.unwrap_or_else(|| panic!("{} cannot be read at ALL", table.name))
        };
        Last {
            plain: read(&self.tables.plain),
            emptied: read(&self.tables.emptied),
            register: read(&self.tables.register),
            counter: read(&self.tables.counter),
            pairs: read(&self.tables.pairs),
        }
    }

    /// All nodes have the same rows, without a read that repaired them.
    pub fn replicas_have_all(&self) {
        let own = |node: &Arc<RingNode>| {
            let command = read_of(&self.tables.plain, Wanted::EVERYTHING, node.env().now_seconds() as u32);
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
    pub fn replicas_agree(&self, last: &Last) {
        for (number, _) in self.nodes.all() {
            let node = self.nodes.get(number).expect("a node");
            for (table, found) in [(Register::Plain, &last.plain), (Register::Emptied, &last.emptied)] {
                let table = self.tables.of(table);
                let again = self.read(number, &node, table, Wanted::EVERYTHING, Consistency::One);
                assert_eq!(again.as_ref(), Some(found), "node {number} at ONE, after a read at ALL");
            }
        }
        assert_eq!(self.read_all(), *last, "a second read at ALL");
    }
}
