//! The tables of a ring's clients, and the commands about them.

use std::sync::Arc;

use coordinator::{Page, PullError};
use env::random::Random;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::schema::Replication;
use model::{
    Cell, Clustering, CqlType, DecoratedKey, Deletion, KeyspaceSchema, Liveness, Mutation, PartitionKey,
    PartitionUpdate, Row, TableSchema,
};
use uuid::Uuid;

/// The name of the keyspace.
pub const KEYSPACE: &str = "ks";

/// The tables.
#[derive(Clone)]
pub struct Tables {
    /// Rows that are written, deleted and read.
    pub plain: Arc<TableSchema>,
    /// What conditions raise.
    pub register: Arc<TableSchema>,
    /// What increments raise.
    pub counter: Arc<TableSchema>,
    /// What logged batches write.
    pub pairs: Arc<TableSchema>,
}

impl Tables {
    pub fn new(random: &Random) -> Tables {
        let strategy = ["SizeTiered", "Leveled", "Unified"][random.below(3) as usize];
        let strategy = format!("org.apache.cassandra.db.compaction.{strategy}CompactionStrategy");
        let finish = |mut table: TableSchema| {
            table.options.compaction.class = strategy.clone();
            table.options.compaction.options.clear();
            Arc::new(table)
        };
        let named = |name, id| {
            TableSchema::builder(KEYSPACE, name, Uuid::from_u128(id)).partition_key("k", CqlType::Int)
        };
        let rows = |name, id| {
            finish(
                named(name, id)
                    .clustering("c", CqlType::Int, random.below(2) == 0)
                    .regular("v", CqlType::Blob)
                    .build(),
            )
        };
        Tables {
            plain: rows("plain", 1),
            register: finish(named("register", 2).regular("v", CqlType::Blob).build()),
            counter: finish(named("counter", 3).regular("v", CqlType::Counter).build()),
            pairs: rows("pairs", 4),
        }
    }

    /// The keyspace, of three replicas.
    pub fn keyspace(&self) -> KeyspaceSchema {
        let mut keyspace = KeyspaceSchema::new(KEYSPACE, Replication::simple(3));
        let all = [&self.plain, &self.register, &self.counter, &self.pairs];
        keyspace.tables.extend(all.map(|table| (table.name.clone(), Arc::clone(table))));
        keyspace
    }
}

pub fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    Partition(i32),
    /// The first rows of a partition.
    First(i32, u64),
    Everything,
}

pub fn read_of(table: &Arc<TableSchema>, wanted: Wanted, now_s: u32) -> ReadCommand {
    let (partitions, rows) = match wanted {
        Wanted::Partition(k) => (PartitionSelection::Keys(vec![key(k)]), u64::MAX),
        Wanted::First(k, rows) => (PartitionSelection::Keys(vec![key(k)]), rows),
        Wanted::Everything => (PartitionSelection::Range(KeyRange::FULL), u64::MAX),
    };
    ReadCommand {
        table: Arc::clone(table),
        partitions,
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits { rows, ..DataLimits::NONE },
        now_s,
    }
}

/// A row that was read: partition, clustering (0 where there is none), value and its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub k: i32,
    pub c: i32,
    pub value: i64,
    pub timestamp: i64,
}

/// All rows of a page. Values are numbers, perhaps with padding behind, or counters.
pub fn rows(page: &mut Page, is_counter: bool) -> Result<Vec<Found>, PullError> {
    let mut out = Vec::new();
    while let Some(row) = page.next_row()? {
        let Some(found) = row.row else { continue };
        let Some(cell) = found.cells.first().filter(|cell| cell.is_live(row.now_s)) else { continue };
        let value = match cell.value.first_chunk::<8>() {
            Some(number) if !is_counter => i64::from_be_bytes(*number),
            _ => model::counter::total(&cell.value),
        };
        let c = found.clustering.value(0).map_or(0, int);
        out.push(Found { k: int(&row.key.key.0), c, value, timestamp: cell.timestamp });
    }
    Ok(out)
}

/// Value bytes of a number: with padding, so that SSTables have several blocks.
fn padded(value: i64, padding: usize) -> bytes::Bytes {
    let mut bytes = value.to_be_bytes().to_vec();
    bytes.resize(8 + padding, 7);
    bytes.into()
}

/// What is written to a partition.
#[derive(Clone, Debug)]
pub enum Change {
    /// A row's value.
    Put(i32, i64),
    /// A row's deletion.
    Delete(i32),
    /// All rows' deletion.
    DeleteAll,
}

pub fn mutation(table: &Arc<TableSchema>, k: i32, change: &Change, timestamp: i64, now_s: u32) -> Mutation {
    let mut update = PartitionUpdate::new(Arc::clone(table), key(k));
    let column = table.column("v").expect("a column").id;
    match change {
        Change::Put(c, value) => {
            let has_rows = table.column("c").is_some();
            let clustering = if has_rows {
                Clustering::from_values([&c.to_be_bytes()[..]])
            } else {
                Clustering::default()
            };
            let mut row = Row::new(clustering);
            row.liveness = Liveness::new(timestamp);
            let padding = if has_rows && value % 3 == 0 { 300 } else { 0 };
            row.cells.push(Cell::live(column, timestamp, padded(*value, padding)));
            update.add_row(row);
        }
        Change::Delete(c) => {
            let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
            row.deletion = Deletion::new(timestamp, now_s);
            update.add_row(row);
        }
        Change::DeleteAll => update.deletion = Deletion::new(timestamp, now_s),
    }
    Mutation::of(update)
}

/// One more.
pub fn increment(table: &Arc<TableSchema>, k: i32, timestamp: i64) -> Mutation {
    let mut update = PartitionUpdate::new(Arc::clone(table), key(k));
    let column = table.column("v").expect("a column").id;
    let mut row = Row::new(Clustering::default());
    row.cells.push(Cell::live(column, timestamp, 1_i64.to_be_bytes().to_vec().into()));
    update.add_row(row);
    Mutation::of(update)
}
