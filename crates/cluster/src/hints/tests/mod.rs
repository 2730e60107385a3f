//! Hints of a ring whose nodes a test can stop.

mod damage;
mod delivery;
mod files;
mod keeping;

use super::format::{FileId, VERSION_40, append_entry, decode_hint, encode_hint};
use super::reader::{HintsReader, Next};
use super::writer::HintsWriter;
use super::*;
use crate::endpoint::Endpoint;
use crate::ring::{Member, Members, Phase};
use crate::serve::Spawn;
use bytes::Bytes;
use coordinator::{Answer, DataRequest, Hint, Hints, Node, Promise, Proposal, Replica, ReplicaError};
use env::Env;
use env::clock::ManualClock;
use env::fs::FileSystem;
use env::fs::faulty::{Fault, FaultyFileSystem, Op};
use env::fs::memory::{Crash, MemoryFileSystem};
use env::random::Random;
use env::tasks::block_on;
use model::schema::{KeyspaceSchema, Replication, Schema, TableOptions};
use model::{
    Cell, Clustering, CqlType, DecoratedKey, Liveness, Mutation, PartitionKey, PartitionUpdate, Row,
    TableSchema,
};
use partition::{Deadline, Digest, Recording};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use uuid::Uuid;

const DIR: &str = "/node/hints";
const GC_GRACE_S: i32 = 864_000;

fn table(keyspace: &str, name: &str, id: u128, gc_grace_seconds: i32) -> Arc<TableSchema> {
    let table = TableSchema::builder(keyspace, name, Uuid::from_u128(id))
        .partition_key("k", CqlType::Int)
        .regular("v", CqlType::Int)
        .options(TableOptions { gc_grace_seconds, ..TableOptions::default() })
        .build();
    Arc::new(table)
}

fn schema() -> Arc<Schema> {
    let mut ks = KeyspaceSchema::new("ks", Replication::simple(3));
    for (name, id, grace_s) in [("t", 1, GC_GRACE_S), ("brief", 2, 60), ("graceless", 3, 0)] {
        ks.tables.insert(name.into(), table("ks", name, id, grace_s));
    }
    let mut system = KeyspaceSchema::new("system", Replication::local());
    system.tables.insert("batches".into(), table("system", "batches", 4, GC_GRACE_S));
    Arc::new(Schema::default().with_keyspace(ks).with_keyspace(system))
}

/// A write of `v` to the table.
fn write_to(keyspace: &str, name: &str, v: i32) -> Arc<Mutation> {
    let schema = schema();
    let table = Arc::clone(schema.table(keyspace, name).unwrap());
    let mut row = Row::new(Clustering::empty());
    row.liveness = Liveness::new(1);
    let column = table.column("v").unwrap().id;
    row.cells.push(Cell::live(column, 1, Bytes::copy_from_slice(&v.to_be_bytes())));
    let key = DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(&v.to_be_bytes())));
    let mut update = PartitionUpdate::new(table, key);
    update.rows.push(row);
    Arc::new(Mutation::of(update))
}

fn write(v: i32) -> Arc<Mutation> {
    write_to("ks", "t", v)
}

/// What [`write`] wrote.
fn written(mutation: &Mutation) -> i32 {
    let key = &mutation.updates[0].key.key.0;
    i32::from_be_bytes(key[..].try_into().unwrap())
}

fn host(id: u128) -> Uuid {
    Uuid::from_u128(0xA000 + id)
}

/// How a node answers hints.
#[derive(Clone, Debug)]
enum Mode {
    /// It keeps them, after so long.
    Keeps(Duration),
    /// It says nothing.
    Silent,
    /// It fails.
    Fails(ReplicaError),
    /// It fails with hints of this value alone.
    FailsAt(i32, ReplicaError),
}

/// A node elsewhere that a test can stop.
#[derive(Debug)]
struct Peer {
    env: Env,
    mode: Mutex<Mode>,
    /// What it has kept, in this order.
    got: Mutex<Vec<i32>>,
    /// Hints that it has not answered.
    open: AtomicUsize,
    open_max: AtomicUsize,
}

impl Peer {
    fn new(env: Env) -> Arc<Peer> {
        let mode = Mutex::new(Mode::Keeps(Duration::from_millis(1)));
        let (open, open_max) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Peer { env, mode, got: Mutex::default(), open, open_max })
    }

    fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    fn got(&self) -> Vec<i32> {
        self.got.lock().unwrap().clone()
    }
}

/// The replica of a [`Peer`].
#[derive(Debug)]
struct Remote(Arc<Peer>);

fn unasked<T>() -> Answer<T> {
    Answer::ready(Err(ReplicaError::Write("not asked for here".into())))
}

impl Replica for Remote {
    fn hint(&self, hint: Hint, _: Option<&Deadline>) -> Answer<()> {
        let (peer, mode) = (Arc::clone(&self.0), self.0.mode.lock().unwrap().clone());
        let v = written(&hint.mutation);
        let after = match mode {
            Mode::Silent => return Answer::later(std::future::pending()),
            Mode::Fails(error) => return Answer::ready(Err(error)),
            Mode::FailsAt(bad, error) if bad == v => return Answer::ready(Err(error)),
            Mode::FailsAt(..) => Duration::from_millis(1),
            Mode::Keeps(after) => after,
        };
        peer.got.lock().unwrap().push(v);
        let open = peer.open.fetch_add(1, Ordering::SeqCst) + 1;
        peer.open_max.fetch_max(open, Ordering::SeqCst);
        // It works whether anybody looks at the answer or not.
        let until_nanos = peer.env.clock.monotonic_nanos() + after.as_nanos() as u64;
        Answer::later(async move {
            let left = until_nanos.saturating_sub(peer.env.clock.monotonic_nanos());
            peer.env.tasks.sleep(Duration::from_nanos(left)).await;
            peer.open.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        })
    }
    fn read_data(&self, _: &DataRequest) -> Answer<Recording> {
        unasked()
    }
    fn read_digest(&self, _: &DataRequest) -> Answer<Digest> {
        unasked()
    }
    fn mutate(&self, _: Arc<Mutation>, _: Option<&Deadline>) -> Answer<()> {
        unasked()
    }
    fn repair(&self, _: Arc<Mutation>, _: Option<&Deadline>) -> Answer<()> {
        unasked()
    }
    fn prepare(&self, _: Proposal, _: Option<&Deadline>) -> Answer<Promise> {
        unasked()
    }
    fn propose(&self, _: Proposal, _: Option<&Deadline>) -> Answer<bool> {
        unasked()
    }
    fn commit(&self, _: Proposal, _: Option<&Deadline>) -> Answer<()> {
        unasked()
    }
    fn truncate(&self, _: Arc<TableSchema>) -> Answer<()> {
        unasked()
    }
    fn truncated_millis(&self, _: &TableSchema) -> Answer<Option<i64>> {
        unasked()
    }
}

/// A node, dead at first, and who it is.
fn dead_node(id: u128, env: &Env) -> (Arc<Node>, Arc<Peer>) {
    let peer = Peer::new(env.clone());
    let node = Arc::new(Node::new(host(id), "dc1", "r1", Arc::new(Remote(Arc::clone(&peer)))));
    node.set_alive(false);
    (node, peer)
}

/// Files in memory, over a clock that stands still.
struct World {
    clock: Arc<ManualClock>,
    memory: MemoryFileSystem,
    faulty: FaultyFileSystem,
    env: Env,
}

impl World {
    fn new() -> World {
        World::over(MemoryFileSystem::new(), Arc::new(ManualClock::default()))
    }

    fn over(memory: MemoryFileSystem, clock: Arc<ManualClock>) -> World {
        let faulty = FaultyFileSystem::new(Arc::new(memory.clone()));
        let env = Env::new(Arc::clone(&clock) as _, Arc::new(Random::from_seed(1)), Arc::new(faulty.clone()));
        World { clock, memory, faulty, env }
    }

    fn store_with(&self, options: HintsOptions) -> Arc<HintStore> {
        let spawn: Spawn = Arc::new(|_| panic!("no task is wanted here"));
        HintStore::open(self.env.clone(), options, HintsSettings::default(), schema, spawn).unwrap()
    }

    fn store(&self) -> Arc<HintStore> {
        self.store_with(HintsOptions::new(Path::new(DIR)))
    }

    /// The names in the directory.
    fn names(&self) -> Vec<String> {
        let entries = self.env.fs.read_dir(Path::new(DIR)).unwrap();
        entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
    }

    /// The bytes of the files of hints, oldest first.
    fn contents(&self) -> Vec<Vec<u8>> {
        let names = self.names().into_iter().filter(|name| FileId::of_name(name).is_some());
        names.map(|name| self.env.fs.read(&Path::new(DIR).join(name)).unwrap()).collect()
    }
}

/// All hints of a file that can be read, and whether they end where the file does.
fn read_all(bytes: &[u8]) -> Option<(Vec<i32>, bool)> {
    let fs = MemoryFileSystem::new();
    let path = Path::new("/file");
    fs.write(path, bytes).unwrap();
    let reader = HintsReader::open(&fs, path, bytes.len() as u64).ok()?;
    let (mut out, mut position, version) = (Vec::new(), reader.start(), reader.id().messaging_version());
    loop {
        let page = reader.page(position).unwrap();
        for hint in page.hints.into_iter().filter_map(|read| read.hint.ok()) {
            let lookup = |id: Uuid| schema().table_by_id(id).cloned();
            out.push(written(&decode_hint(hint, version, &lookup).unwrap().mutation));
        }
        match page.next {
            Next::Page(next) => position = next,
            Next::End => return Some((out, true)),
            Next::Lost(_) => return Some((out, false)),
        }
    }
}

fn entry_of(v: i32, version: i32) -> Vec<u8> {
    let hint = Hint { mutation: write(v), written_millis: 1_577_836_800_000, gc_grace_s: 864_000 };
    let id = FileId { host_id: host(1), created_millis: 1, version };
    let mut out = Vec::new();
    append_entry(&mut out, |out| encode_hint(&hint, id.messaging_version(), out)).unwrap();
    out
}
