//! One life of a node: what its clients do, and what they expect.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use coordinator::{Page, PullError};
use engine::{EngineOptions, SsTableFormat, StorageCompatibility, SyncMode};
use env::Env;
use env::fs::memory::{Crash, MemoryFileSystem};
use env::random::Random;
use env::sim::Simulation;
use env::sync::Mutex;
use env::tasks::{TaskHandle, Tasks, block_on, yield_now};
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::schema::Replication;
use model::{
    Cell, Clustering, CqlType, DecoratedKey, Deletion, KeyspaceSchema, Liveness, Mutation, PartitionKey,
    PartitionUpdate, RangeTombstone, Row, Slice, TableSchema,
};
use testkit::sim::SimNode;
use uuid::Uuid;

const CLIENTS: i32 = 3;
/// Partitions of each client.
const PARTITIONS: u64 = 3;
const OPERATIONS: usize = 20;
const ROWS: u64 = 6;
/// The power is cut before its task has had so many turns, of some two hundred in a life.
const TURNS_TO_CUT: u64 = 250;
/// The partition whose register and counter all clients raise.
const SHARED: i32 = 1_000;

/// What a partition holds: the static value, and rows by clustering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Content {
    fixed: Option<Bytes>,
    rows: BTreeMap<i32, Option<Bytes>>,
}

/// What the partitions of a client hold.
type Contents = BTreeMap<i32, Content>;

/// What a client knows: its partitions after each acknowledged operation, and with the one in flight.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: Contents,
    in_flight: Option<Contents>,
    /// Raises of the shared register and counter: acknowledged, and begun.
    raised: (i64, i64),
    counted: (i64, i64),
}

/// What the power cut left, and what was known then.
type Survivor = (MemoryFileSystem, Vec<Known>);

/// A life that goes on.
#[derive(Clone)]
pub struct Life {
    seed: u64,
    env: Env,
    tasks: Tasks,
    disk: MemoryFileSystem,
    options: EngineOptions,
    tables: Tables,
    known: Arc<Vec<Mutex<Known>>>,
    is_over: Arc<AtomicBool>,
    survivor: Arc<Mutex<Option<Survivor>>>,
}

#[derive(Clone)]
struct Tables {
    plain: Arc<TableSchema>,
    register: Arc<TableSchema>,
    counter: Arc<TableSchema>,
}

impl Tables {
    fn new(random: &Random) -> Tables {
        let strategy = ["SizeTiered", "Leveled", "Unified"][random.below(3) as usize];
        let strategy = format!("org.apache.cassandra.db.compaction.{strategy}CompactionStrategy");
        let finish = |mut table: TableSchema| {
            table.options.compaction.class = strategy.clone();
            table.options.compaction.options.clear();
            // What is deleted is forgotten as soon as it may be.
            table.options.gc_grace_seconds = 0;
            Arc::new(table)
        };
        let named =
            |name, id| TableSchema::builder("ks", name, Uuid::from_u128(id)).partition_key("k", CqlType::Int);
        Tables {
            plain: finish(
                named("plain", 1)
                    .static_column("s", CqlType::Blob)
                    .clustering("c", CqlType::Int, random.below(2) == 0)
                    .regular("v", CqlType::Blob)
                    .build(),
            ),
            register: finish(named("register", 2).regular("n", CqlType::BigInt).build()),
            counter: finish(named("counter", 3).regular("n", CqlType::Counter).build()),
        }
    }

    fn all(&self) -> [&Arc<TableSchema>; 3] {
        [&self.plain, &self.register, &self.counter]
    }
}

fn options(random: &Random) -> EngineOptions {
    let is_trie = random.below(2) == 0;
    EngineOptions {
        // Everything acknowledged is synced.
        commitlog_sync: [SyncMode::Batch, SyncMode::Group { window_ms: 1 }][random.below(2) as usize],
        commitlog_segment_bytes: 64 << 10,
        commitlog_total_bytes: 128 << 10,
        memtable_bytes_max: [64 << 10, 1 << 20][random.below(2) as usize],
        page_cache_bytes: 64 << 10,
        row_cache_bytes: [0, 64 << 10][random.below(2) as usize],
        flush_writers: 1 + random.below(2) as usize,
        concurrent_compactors: 1 + random.below(2) as usize,
        auto_snapshot: false,
        column_index_bytes: [512, 4 << 10][random.below(2) as usize],
        early_open_bytes: [4 << 10, u64::MAX][random.below(2) as usize],
        storage_compatibility: if is_trie {
            StorageCompatibility::None
        } else {
            StorageCompatibility::Cassandra4
        },
        sstable_format: if is_trie { SsTableFormat::Bti } else { SsTableFormat::Big },
        ..EngineOptions::under(Path::new("/node"))
    }
}

fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

fn clustering(c: i32) -> Clustering {
    Clustering::from_values([&c.to_be_bytes()[..]])
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

fn all_of(table: &Arc<TableSchema>, k: i32, now_s: u32) -> ReadCommand {
    ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Keys(vec![key(k)]),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s,
    }
}

/// The rows of a partition of the plain table.
fn content(page: &mut Page, columns: [model::ColumnId; 2]) -> Result<Content, PullError> {
    let [fixed, value] = columns;
    let mut out = Content::default();
    while let Some(row) = page.next_row()? {
        out.fixed = row.live_cell(fixed, true).map(|cell| cell.value.clone());
        if let Some(found) = row.row {
            let c = int(found.clustering.value(0).expect("a clustering"));
            out.rows.insert(c, row.live_cell(value, false).map(|cell| cell.value.clone()));
        }
    }
    Ok(out)
}

/// The number of the first row.
fn number(page: &mut Page) -> Result<Option<Bytes>, PullError> {
    let Some(row) = page.next_row()? else { return Ok(None) };
    Ok(row.row.and_then(|row| row.cells.first()).map(|cell| cell.value.clone()))
}

impl Life {
    pub fn new(seed: u64, simulation: &Simulation, env: Env, disk: MemoryFileSystem) -> Life {
        let random = Random::from_seed(seed);
        Life {
            seed,
            env,
            tasks: simulation.tasks(),
            disk,
            options: options(&random),
            tables: Tables::new(&random),
            known: Arc::new((0..CLIENTS).map(|_| Mutex::default()).collect()),
            is_over: Arc::default(),
            survivor: Arc::default(),
        }
    }

    /// Lives it to its end; whether the power was cut before.
    pub fn run(&self) -> bool {
        let node = SimNode::open(&self.env, self.options.clone()).expect("a new node opens");
        let mut keyspace = KeyspaceSchema::new("ks", Replication::simple(1));
        keyspace.tables.extend(self.tables.all().map(|table| (table.name.clone(), Arc::clone(table))));
        node.engine.install_schema(node.engine.schema().with_keyspace(keyspace)).expect("a schema");

        let clients: Vec<TaskHandle> = (0..CLIENTS)
            .map(|client| {
                let (life, node) = (self.clone(), node.clone());
                self.spawn(format!("client {client}"), move || life.be_client(client, &node))
            })
            .collect();
        let (life, operated) = (self.clone(), node.clone());
        let operator = self.spawn("operator".to_owned(), move || life.operate(&operated));
        let life = self.clone();
        let cut = self.spawn("power".to_owned(), move || life.cut_power());
        clients.into_iter().for_each(TaskHandle::join);
        self.is_over.store(true, Ordering::SeqCst);
        operator.join();
        cut.join();
        node.close();

        let known: Vec<Known> = self.known.iter().map(|known| known.lock().clone()).collect();
        self.check(self.env.clone(), &known, "closed and opened again");
        let Some((survivor, known)) = self.survivor.lock().take() else { return false };
        self.check(self.env.with_fs(Arc::new(survivor)), &known, "after the power cut");
        true
    }

    fn spawn(&self, name: String, work: impl FnOnce() + Send + 'static) -> TaskHandle {
        self.tasks.spawn(name, work).expect("a task")
    }

    fn random(&self, of: u64) -> Random {
        Random::from_seed(self.seed.wrapping_mul(1_000).wrapping_add(of))
    }

    /// Writes and reads the partitions of a client.
    fn be_client(&self, client: i32, node: &SimNode) {
        let random = self.random(client as u64 + 1);
        for _ in 0..OPERATIONS {
            let k = client * 10 + random.below(PARTITIONS) as i32;
            match random.below(10) {
                0 | 1 => {
                    let seen = self.read(node, k);
                    let expected = self.known[client as usize].lock().acknowledged.get(&k).cloned();
                    assert_eq!(seen, expected.unwrap_or_default(), "client {client} reads partition {k}");
                }
                2 => self.raise(client, node),
                3 => self.count(client, node),
                _ => self.write(client, k, &random, node),
            }
        }
    }

    fn read(&self, node: &SimNode, k: i32) -> Content {
        let table = &self.tables.plain;
        let columns = ["s", "v"].map(|name| table.column(name).expect("a column").id);
        let command = all_of(table, k, self.env.now_seconds() as u32);
        node.read(command, move |page| content(page, columns)).expect("a read succeeds")
    }

    fn write(&self, client: i32, k: i32, random: &Random, node: &SimNode) {
        let known = &self.known[client as usize];
        let mut after = known.lock().acknowledged.clone();
        let partition = after.entry(k).or_default();
        let (timestamp, now_s) = (node.coordinator.next_timestamp(), self.env.now_seconds() as u32);
        let mut update = PartitionUpdate::new(Arc::clone(&self.tables.plain), key(k));
        let column = |name| self.tables.plain.column(name).expect("a column").id;
        let c = random.below(ROWS) as i32;
        let value = || {
            let mut bytes = vec![0; [8, 300, 3_000][random.below(3) as usize]];
            random.fill(&mut bytes);
            Bytes::from(bytes)
        };
        match random.below(10) {
            0 => {
                update.deletion = Deletion::new(timestamp, now_s);
                *partition = Content::default();
            }
            1 => {
                let mut row = Row::new(clustering(c));
                row.deletion = Deletion::new(timestamp, now_s);
                update.add_row(row);
                partition.rows.remove(&c);
            }
            2 => {
                let slice = Slice::of_prefix(clustering(c));
                update
                    .range_tombstones
                    .push(RangeTombstone { slice, deletion: Deletion::new(timestamp, now_s) });
                partition.rows.remove(&c);
            }
            3 => {
                let value = value();
                let mut row = Row::new(Clustering::default());
                row.cells.push(Cell::live(column("s"), timestamp, value.clone()));
                update.add_static(row);
                partition.fixed = Some(value);
            }
            _ => {
                let value = value();
                let mut row = Row::new(clustering(c));
                row.liveness = Liveness::new(timestamp);
                row.cells.push(Cell::live(column("v"), timestamp, value.clone()));
                update.add_row(row);
                partition.rows.insert(c, Some(value));
            }
        }
        known.lock().in_flight = Some(after.clone());
        node.write(Mutation::of(update)).expect("a write succeeds");
        let mut known = known.lock();
        (known.acknowledged, known.in_flight) = (after, None);
    }

    /// Raises the shared register by one, on condition that nobody else did meanwhile.
    fn raise(&self, client: i32, node: &SimNode) {
        let table = &self.tables.register;
        let column = table.column("n").expect("a column").id;
        self.known[client as usize].lock().raised.1 += 1;
        let raised = |found: Option<Bytes>, ballot| {
            let before = found.map_or(0, |bytes| i64::from_be_bytes(bytes[..].try_into().expect("a bigint")));
            let mut update = PartitionUpdate::new(Arc::clone(table), key(SHARED));
            let mut row = Row::new(Clustering::default());
            row.liveness = Liveness::new(ballot);
            row.cells.push(Cell::live(column, ballot, (before + 1).to_be_bytes().to_vec().into()));
            update.add_row(row);
            Some(Mutation::of(update))
        };
        let command = all_of(table, SHARED, self.env.now_seconds() as u32);
        node.decide(command, number, raised).expect("a condition is decided");
        self.known[client as usize].lock().raised.0 += 1;
    }

    /// Adds one to the shared counter.
    fn count(&self, client: i32, node: &SimNode) {
        let table = &self.tables.counter;
        let column = table.column("n").expect("a column").id;
        self.known[client as usize].lock().counted.1 += 1;
        let mut update = PartitionUpdate::new(Arc::clone(table), key(SHARED));
        let mut row = Row::new(Clustering::default());
        let one = 1_i64.to_be_bytes().to_vec();
        row.cells.push(Cell::live(column, node.coordinator.next_timestamp(), one.into()));
        update.add_row(row);
        node.count(Mutation::of(update)).expect("a counter is raised");
        self.known[client as usize].lock().counted.0 += 1;
    }

    /// Flushes, compacts, and waits, until the clients are done.
    fn operate(&self, node: &SimNode) {
        let random = self.random(100);
        while !self.is_over.load(Ordering::SeqCst) {
            let table = self.tables.all()[random.below(3) as usize].name.clone();
            match random.below(6) {
                0 | 1 => node.engine.flush("ks", Some(&table)).expect("a flush succeeds"),
                2 => node.engine.compact("ks", Some(&table)).expect("a compaction succeeds"),
                3 => node.engine.flush_all().expect("a flush succeeds"),
                _ => block_on(self.tasks.sleep(Duration::from_micros(random.below(5_000)))),
            }
        }
    }

    /// Notes what a loss of power at some moment leaves.
    fn cut_power(&self) {
        let random = self.random(200);
        let turns = random.below(TURNS_TO_CUT);
        for _ in 0..turns {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            yield_now();
        }
        let crash = match random.below(3) {
            0 => Crash::LoseUnsynced,
            1 => Crash::TornPrefix(self.seed),
            _ => Crash::ScatteredPages(self.seed),
        };
        // No turn of anybody lies between the two. `lock` would hand it over at times, and nobody hands it
        // over while he has one of these.
        let free = |known: &Mutex<Known>| known.try_lock().expect("a lock that is free").clone();
        let known = self.known.iter().map(free).collect();
        *self.survivor.lock() = Some((self.disk.crash(crash), known));
    }

    /// Opens a node on what is there, and holds it to what was known.
    fn check(&self, env: Env, known: &[Known], when: &str) {
        let node = SimNode::open(&env, self.options.clone()).unwrap_or_else(|e| panic!("{when}: {e}"));
        if node.engine.schema().table("ks", "plain").is_none() {
            assert!(known.iter().all(|known| known.acknowledged.is_empty()), "{when}: the schema is gone");
            node.close();
            return;
        }
        let total = |of: fn(&Known) -> (i64, i64)| {
            known.iter().map(of).fold((0, 0), |(a, b), (acknowledged, begun)| (a + acknowledged, b + begun))
        };
        for (client, known) in known.iter().enumerate() {
            for k in (0..PARTITIONS as i32).map(|n| client as i32 * 10 + n) {
                let found = self.read(&node, k);
                let of = |contents: &Contents| contents.get(&k).cloned().unwrap_or_default();
                let may_be = [Some(of(&known.acknowledged)), known.in_flight.as_ref().map(of)];
                assert!(
                    may_be.iter().flatten().any(|content| *content == found),
                    "{when}: partition {k} holds {found:?}, and not one of {may_be:?}"
                );
            }
        }
        let now_s = self.env.now_seconds() as u32;
        let register = node.read(all_of(&self.tables.register, SHARED, now_s), number).expect("a read");
        let register =
            register.map_or(0, |bytes| i64::from_be_bytes(bytes[..].try_into().expect("a bigint")));
        let (acknowledged, begun) = total(|known| known.raised);
        assert!(
            (acknowledged..=begun).contains(&register),
            "{when}: {register} of {acknowledged} to {begun}"
        );
        let counter = node.read(all_of(&self.tables.counter, SHARED, now_s), number).expect("a read");
        let counter = counter.map_or(0, |context| model::counter::total(&context));
        let (acknowledged, begun) = total(|known| known.counted);
        assert!(
            (acknowledged..=begun).contains(&counter),
            "{when}: counted {counter} of {acknowledged} to {begun}"
        );
        node.close();
    }
}
