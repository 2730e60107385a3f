//! Whole engines on the in-memory file system.

mod access;
mod adoption;
mod caching;
mod columns;
mod crash;
mod demands;
mod estimates;
mod filters;
mod held;
pub mod history;
mod import;
mod in_place;
mod many;
mod opening;
mod proving;
mod row_cache;
mod schema;
mod schema_exchange;
mod schema_flush;
mod snapshots;
mod store;

use crate::options::SyncMode;
use crate::{Engine, EngineOptions, WriteOptions};
use bytes::Bytes;
use env::Env;
use env::clock::ManualClock;
use env::fs::FileSystem;
use env::random::Random;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::schema::Replication;
use model::{
    Cell, Clustering, CqlType, DecoratedKey, KeyspaceSchema, Mutation, PartitionKey, PartitionUpdate, Row,
    TableSchema,
};
use partition::{Event, Fragment, ReadContext};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

/// Waits for what the engine's own threads do.
pub fn wait_until(mut done: impl FnMut() -> bool) {
    for _ in 0..12_000 {
        if done() {
            return;
        }
        #[allow(clippy::disallowed_methods, reason = "waits for the engine's own threads")]
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("it did not happen within a minute");
}

/// The name of the segment that the commit log appends to. A fault on all of them would also meet the one
/// that the log makes ahead, whenever it comes to that.
pub fn segment_in_use(fs: &dyn FileSystem) -> String {
    let entries = fs.read_dir(Path::new("/node/commitlog")).unwrap();
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    assert!((1..=2).contains(&names.len()), "one in use, and perhaps the next: {names:?}");
    names.swap_remove(0)
}

/// An environment over `fs`.
pub fn env_on(fs: Arc<dyn FileSystem>, seed: u64) -> Env {
    Env::new(Arc::new(ManualClock::default()), Arc::new(Random::from_seed(seed)), fs)
}

/// Small segments, everything synced before it is acknowledged.
pub fn options() -> EngineOptions {
    EngineOptions {
        commitlog_sync: SyncMode::Batch,
        commitlog_segment_bytes: 64 << 10,
        page_cache_bytes: 1 << 20,
        flush_writers: 1,
        auto_snapshot: false,
        // The clock stands still: nothing would be earned.
        compaction_bytes_per_s: 0,
        proving_bytes_per_s: 0,
        ..EngineOptions::under(Path::new("/node"))
    }
}

/// `k int, c int, v text, PRIMARY KEY (k, c)`.
pub fn simple_table(name: &str) -> Arc<TableSchema> {
    let id = Uuid::from_u128(name.bytes().fold(77, |sum, b| sum * 31 + u128::from(b)));
    let table = TableSchema::builder("ks", name, id)
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Text)
        .build();
    Arc::new(table)
}

/// Adds a keyspace of the given tables.
pub fn create(engine: &Engine, tables: &[impl Borrow<Arc<TableSchema>>]) {
    let tables: Vec<&Arc<TableSchema>> = tables.iter().map(Borrow::borrow).collect();
    let name = &tables[0].keyspace;
    let mut keyspace = KeyspaceSchema::new(name, Replication::simple(1));
    keyspace.tables.extend(tables.iter().map(|t| (t.name.clone(), Arc::clone(t))));
    engine.install_schema(engine.schema().with_keyspace(keyspace)).unwrap();
}

pub fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

/// `INSERT INTO table (k, c, v) VALUES (...) USING TIMESTAMP timestamp`, without the row's liveness.
pub fn insert(table: &Arc<TableSchema>, k: i32, c: i32, value: &str, timestamp: i64) -> Mutation {
    let mut update = PartitionUpdate::new(Arc::clone(table), key(k));
    let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
    let column = table.column("v").unwrap().id;
    row.cells.push(Cell::live(column, timestamp, Bytes::copy_from_slice(value.as_bytes())));
    update.add_row(row);
    Mutation::of(update)
}

/// Writes and waits until the write is acknowledged.
pub fn write(engine: &Engine, mutation: &Mutation) -> Result<(), crate::WriteError> {
    engine.apply(mutation, WriteOptions::default())?.wait()
}

/// Every row of a table as `(k, c) -> v`.
pub fn contents(engine: &Engine, table: &Arc<TableSchema>) -> BTreeMap<(i32, i32), String> {
    let command = ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Range(KeyRange::FULL),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 0,
    };
    let mut stream = engine.read(&command, &ReadContext::default()).unwrap();
    let mut fragment = Fragment::default();
    let mut out = BTreeMap::new();
    let int = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().unwrap());
    loop {
        match stream.next(&mut fragment).unwrap() {
            Event::End => return out,
            Event::Row => {
                let row = &fragment.row;
                if let Some(cell) = row.cells.first() {
                    let value = String::from_utf8(cell.value.to_vec()).unwrap();
                    let at = (int(&fragment.key.key.0), int(row.clustering.value(0).unwrap()));
                    out.insert(at, value);
                }
            }
            _ => {}
        }
    }
}
