//! The tables of a ring's clients, and the commands about them.

use std::sync::Arc;

use coordinator::{Page, PullError};
use env::random::Random;
use model::clustering::Slice;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::schema::Replication;
use model::{
    Cell, Clustering, CqlType, DecoratedKey, Deletion, KeyspaceSchema, Liveness, Mutation, PartitionKey,
    PartitionUpdate, Row, TableSchema,
};
use uuid::Uuid;

use super::pages::Order;

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
    /// Rows as those of `plain`, of a table that is truncated now and then.
    pub emptied: Arc<TableSchema>,
}

/// A table of rows that are written, deleted and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    Plain,
    Emptied,
}

impl Tables {
    /// Tables. Where `forgets` is set, `plain` forgets what was deleted or has expired as soon as it may.
    pub fn new(random: &Random, forgets: bool) -> Tables {
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
        let mut plain = rows("plain", 1);
        if forgets {
            Arc::make_mut(&mut plain).options.gc_grace_seconds = 0;
        }
        Tables {
            plain,
            register: finish(named("register", 2).regular("v", CqlType::Blob).build()),
            counter: finish(named("counter", 3).regular("v", CqlType::Counter).build()),
            pairs: rows("pairs", 4),
            emptied: rows("emptied", 5),
        }
    }

    pub fn of(&self, register: Register) -> &Arc<TableSchema> {
        match register {
            Register::Plain => &self.plain,
            Register::Emptied => &self.emptied,
        }
    }

    /// In which order the rows of a table are stored.
    pub fn order(&self, register: Register) -> Order {
        let column = self.of(register).clustering_columns().first();
        Order { is_descending: column.is_some_and(|column| column.descending) }
    }

    /// The keyspace.
    pub fn keyspace(&self, replication: Replication) -> KeyspaceSchema {
        let mut keyspace = KeyspaceSchema::new(KEYSPACE, replication);
        let all = [&self.plain, &self.register, &self.counter, &self.pairs, &self.emptied];
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Of one partition; else of all.
    pub partition: Option<i32>,
    /// So many rows at most.
    pub rows: u64,
    /// So many rows of each partition at most.
    pub rows_per_partition: u64,
    /// Just the partitions that have a row.
    pub is_distinct: bool,
    /// From the last row of the partition to its first.
    pub is_backwards: bool,
}

impl Wanted {
    pub const EVERYTHING: Wanted = Wanted {
        partition: None,
        rows: u64::MAX,
        rows_per_partition: u64::MAX,
        is_distinct: false,
        is_backwards: false,
    };

    /// All rows of a partition.
    pub fn partition(k: i32) -> Wanted {
        Wanted { partition: Some(k), ..Wanted::EVERYTHING }
    }

    /// Rows of each partition at most.
    pub fn rows_of_each(&self) -> u64 {
        if self.is_distinct { 1 } else { self.rows_per_partition }
    }
}

pub fn read_of(table: &Arc<TableSchema>, wanted: Wanted, now_s: u32) -> ReadCommand {
    let partitions = match wanted.partition {
        Some(k) => PartitionSelection::Keys(vec![key(k)]),
        None => PartitionSelection::Range(KeyRange::FULL),
    };
    ReadCommand {
        table: Arc::clone(table),
        partitions,
        clusterings: ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed: wanted.is_backwards },
        columns: match wanted.is_distinct {
            true => ColumnSelection::of(Vec::new()),
            false => ColumnSelection::all(table),
        },
        row_filter: Vec::new(),
        limits: DataLimits {
            rows: wanted.rows,
            rows_per_partition: wanted.rows_per_partition,
            distinct: wanted.is_distinct,
        },
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

/// The clustering of a row, of which there may be none.
pub fn c_of(clustering: &Clustering) -> i32 {
    clustering.value(0).map_or(0, int)
}

/// The first row of each partition of a page, of which values were not asked for.
pub fn first_rows(page: &mut Page) -> Result<Vec<Found>, PullError> {
    let mut out = Vec::new();
    while let Some(row) = page.next_row()? {
        let Some(found) = row.row else { continue };
        let (k, c) = (int(&row.key.key.0), c_of(&found.clustering));
        out.push(Found { k, c, value: 0, timestamp: found.liveness.timestamp });
    }
    Ok(out)
}

/// All rows of a page. Values are numbers, perhaps with padding behind, or counters.
pub fn rows(page: &mut Page, is_counter: bool) -> Result<Vec<Found>, PullError> {
    let mut out = Vec::new();
    while let Some(row) = page.next_row()? {
        let Some(found) = row.row else { continue };
        let Some(cell) = found.cells.first().filter(|cell| cell.is_live(row.now_s)) else {
            // A replica whose clock is ahead has made a tombstone of a value that expired. By the clock of
            // the read the row still lives, and counts, without its value.
            if found.liveness.ttl > 0 {
                let (k, c) = (int(&row.key.key.0), c_of(&found.clustering));
                out.push(Found { k, c, value: 0, timestamp: found.liveness.timestamp });
            }
            continue;
        };
        let value = match cell.value.first_chunk::<8>() {
            Some(number) if !is_counter => i64::from_be_bytes(*number),
            _ => model::counter::total(&cell.value),
        };
        let c = c_of(&found.clustering);
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

/// Until when a row that is written lives.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    pub ttl_s: i32,
    /// The second at which it is over, by the clock of who wrote it.
    pub end_s: u32,
}

/// What is written to a partition.
#[derive(Clone, Debug)]
pub enum Change {
    /// A row's value; how long it lives, unless for ever.
    Put(i32, i64, Option<Life>),
    /// A row's deletion.
    Delete(i32),
    /// All rows' deletion.
    DeleteAll,
}

pub fn mutation(table: &Arc<TableSchema>, k: i32, change: &Change, timestamp: i64, now_s: u32) -> Mutation {
    let mut update = PartitionUpdate::new(Arc::clone(table), key(k));
    let column = table.column("v").expect("a column").id;
    match change {
        Change::Put(c, value, life) => {
            let has_rows = table.column("c").is_some();
            let clustering = if has_rows {
                Clustering::from_values([&c.to_be_bytes()[..]])
            } else {
                Clustering::default()
            };
            let mut row = Row::new(clustering);
            let padding = if has_rows && value % 3 == 0 { 300 } else { 0 };
            let value = padded(*value, padding);
            let (liveness, cell) = match life {
                None => (Liveness::new(timestamp), Cell::live(column, timestamp, value)),
                Some(Life { ttl_s, end_s }) => (
                    Liveness::expiring(timestamp, *ttl_s, *end_s),
                    Cell::expiring(column, timestamp, *ttl_s, *end_s, value),
                ),
            };
            row.liveness = liveness;
            row.cells.push(cell);
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
