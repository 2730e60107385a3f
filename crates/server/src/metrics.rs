//! What the node counts, in one place: requests by kind, errors by code, statements, and reads and writes of
//! each table. The session and the replica count; /metrics, `system_views` and nodetool read.

pub use crate::histogram::{Counter, Gauge, Histogram, Meter, Recent, Summary};

use crate::profile::Profiler;
use crate::reads::ReadLog;
use arc_swap::ArcSwap;
use model::TableSchema;
use partition::CostSnapshot;
use std::sync::Arc;
use uuid::Uuid;

/// Requests of the native protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's words")]
pub enum RequestKind {
    Options,
    Startup,
    Register,
    Query,
    Prepare,
    Execute,
    Batch,
}

impl RequestKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [RequestKind; 7] = [
        RequestKind::Options,
        RequestKind::Startup,
        RequestKind::Register,
        RequestKind::Query,
        RequestKind::Prepare,
        RequestKind::Execute,
        RequestKind::Batch,
    ];

    /// The protocol's word in small letters.
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Options => "options",
            RequestKind::Startup => "startup",
            RequestKind::Register => "register",
            RequestKind::Query => "query",
            RequestKind::Prepare => "prepare",
            RequestKind::Execute => "execute",
            RequestKind::Batch => "batch",
        }
    }
}

/// Error codes of the native protocol with their names; what else there is counts as the first.
pub const ERROR_CODES: [(u32, &str); 17] = [
    (0x0000, "server_error"),
    (0x000a, "protocol_error"),
    (0x0100, "bad_credentials"),
    (0x1000, "unavailable"),
    (0x1001, "overloaded"),
    (0x1002, "is_bootstrapping"),
    (0x1003, "truncate_error"),
    (0x1100, "write_timeout"),
    (0x1200, "read_timeout"),
    (0x1300, "read_failure"),
    (0x1500, "write_failure"),
    (0x2000, "syntax_error"),
    (0x2100, "unauthorized"),
    (0x2200, "invalid"),
    (0x2300, "config_error"),
    (0x2400, "already_exists"),
    (0x2500, "unprepared"),
];

/// Durations in nanoseconds, and how often in the last minute.
#[derive(Debug, Default)]
pub struct Latency {
    /// Nanoseconds.
    pub nanos: Histogram,
    /// Events in each second.
    pub meter: Meter,
}

impl Latency {
    /// Counts a duration.
    #[inline]
    pub fn record(&self, nanos: u64) {
        self.nanos.record(nanos);
    }
}

/// What is counted for one table.
#[derive(Debug)]
pub struct TableMetrics {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Reads of single partitions.
    pub read: Latency,
    /// Reads of ranges of partitions.
    pub scan: Latency,
    /// Writes, from the arrival at the replica until they are kept.
    pub write: Latency,
    /// Reads of single partitions, whole requests.
    pub coordinator_read: Latency,
    /// Reads of ranges, whole requests.
    pub coordinator_scan: Latency,
    /// Writes, whole requests.
    pub coordinator_write: Latency,
    /// Live rows of each read.
    pub rows_per_read: Histogram,
    /// Tombstones of each read.
    pub tombstones_per_read: Histogram,
    /// SSTables that each read opened.
    pub sstables_per_read: Histogram,
    /// Calls to the disk of each read.
    pub ios_per_read: Histogram,
    /// Bytes that each read took from the disk.
    pub disk_bytes_per_read: Histogram,
    /// Bytes that each read answered.
    pub returned_bytes_per_read: Histogram,
    /// Hundredths of a byte that each read took from the disk for each byte that it answered.
    pub read_amplification: Histogram,
    /// Pages of index and data that reads found in memory.
    pub page_hits: Counter,
    /// Pages that they loaded.
    pub page_misses: Counter,
    /// Partitions of which the row cache had what was asked for.
    pub row_cache_hits: Counter,
    /// Partitions that were looked for in the row cache in vain.
    pub row_cache_misses: Counter,
    /// SSTables that a bloom filter had a read leave out.
    pub bloom_exclusions: Counter,
    /// SSTables that a bloom filter had a read look into in vain.
    pub bloom_false_positives: Counter,
    /// Of the last minutes.
    pub rows_per_recent_read: Recent,
    /// Of the last minutes.
    pub tombstones_per_recent_read: Recent,
}

/// What a read came to.
#[derive(Clone, Copy, Debug)]
pub struct ReadNumbers<'c> {
    /// Live rows.
    pub rows: u64,
    /// Tombstones that were left after the merge.
    pub tombstones: u64,
    /// Everything else.
    pub cost: &'c CostSnapshot,
}

impl TableMetrics {
    fn new(table: &TableSchema) -> TableMetrics {
        TableMetrics {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            read: Latency::default(),
            scan: Latency::default(),
            write: Latency::default(),
            coordinator_read: Latency::default(),
            coordinator_scan: Latency::default(),
            coordinator_write: Latency::default(),
            rows_per_read: Histogram::default(),
            tombstones_per_read: Histogram::default(),
            sstables_per_read: Histogram::default(),
            ios_per_read: Histogram::default(),
            disk_bytes_per_read: Histogram::default(),
            returned_bytes_per_read: Histogram::default(),
            read_amplification: Histogram::default(),
            page_hits: Counter::default(),
            page_misses: Counter::default(),
            row_cache_hits: Counter::default(),
            row_cache_misses: Counter::default(),
            bloom_exclusions: Counter::default(),
            bloom_false_positives: Counter::default(),
            rows_per_recent_read: Recent::default(),
            tombstones_per_recent_read: Recent::default(),
        }
    }

    /// Counts a read that is over: how long the engine worked for it, how long the whole request took, and
    /// what it met. The rows of a page are pulled through the coordinator, so one place sees both durations.
    pub fn record_read(&self, is_scan: bool, local_nanos: u64, total_nanos: u64, met: &ReadNumbers<'_>) {
        let (local, total) =
            if is_scan { (&self.scan, &self.coordinator_scan) } else { (&self.read, &self.coordinator_read) };
        local.record(local_nanos);
        total.record(total_nanos);
        let ReadNumbers { rows, tombstones, cost } = met;
        self.rows_per_read.record(*rows);
        self.tombstones_per_read.record(*tombstones);
        self.sstables_per_read.record(cost.sstables_read);
        self.ios_per_read.record(cost.ios);
        self.disk_bytes_per_read.record(cost.disk_bytes);
        self.returned_bytes_per_read.record(cost.returned_bytes);
        self.read_amplification.record(cost.disk_bytes.saturating_mul(100) / cost.returned_bytes.max(1));
        self.page_hits.add(cost.index_page_hits + cost.chunk_hits);
        let misses = cost.index_page_misses + cost.chunk_misses;
        if misses > 0 {
            self.page_misses.add(misses);
        }
        if cost.skipped_by_bloom + cost.bloom_false_positives > 0 {
            self.bloom_exclusions.add(cost.skipped_by_bloom);
            self.bloom_false_positives.add(cost.bloom_false_positives);
        }
        if cost.row_cache_hits + cost.row_cache_misses > 0 {
            self.row_cache_hits.add(cost.row_cache_hits);
            self.row_cache_misses.add(cost.row_cache_misses);
        }
    }

    fn tick(&self) {
        for latency in [
            &self.read,
            &self.scan,
            &self.write,
            &self.coordinator_read,
            &self.coordinator_scan,
            &self.coordinator_write,
        ] {
            latency.meter.tick(latency.nanos.count());
        }
        self.rows_per_recent_read.tick(&self.rows_per_read);
        self.tombstones_per_recent_read.tick(&self.tombstones_per_read);
    }
}

/// What is counted for the node.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: [Latency; RequestKind::ALL.len()],
    errors: [Counter; ERROR_CODES.len()],
    /// Reads that left the network threads because they had to wait or grew long.
    pub reads_moved: Counter,
    /// Reads that ended because their answers had no room in memory, and began anew.
    pub answers_without_room: Counter,
    /// Reads that wait for an SSTable to be compared with its digest.
    pub reads_awaiting_proof: Gauge,
    /// Those that ever did, each time.
    pub reads_awaited_proof: Counter,
    /// Those that timed out meanwhile.
    pub reads_timed_out_for_proof: Counter,
    /// Reads that wait for a reader thread or run on one.
    pub reader_tasks: Gauge,
    /// Prepared statements that are kept.
    pub prepared_statements: Gauge,
    /// Prepared statements that made room for others.
    pub prepared_statements_evicted: Counter,
    /// Executions of prepared statements.
    pub prepared_statements_executed: Counter,
    /// Executions of statements that came as text.
    pub regular_statements_executed: Counter,
    /// What is remembered of reads.
    pub reads: ReadLog,
    /// Samples of the most active partitions, while somebody wants them.
    pub profiler: Profiler,
    /// Requests slower than `slow_query_log_timeout`.
    pub slow_queries: Counter,
    /// Partitions of each logged batch.
    pub partitions_per_logged_batch: Histogram,
    /// Partitions of each unlogged batch.
    pub partitions_per_unlogged_batch: Histogram,
    /// Partitions of each counter batch.
    pub partitions_per_counter_batch: Histogram,
    /// Panics.
    pub exceptions: Counter,
    tables: ArcSwap<foldhash::HashMap<Uuid, Arc<TableMetrics>>>,
}

impl Metrics {
    /// Counts a request that was answered, an error included.
    #[inline]
    pub fn record_request(&self, kind: RequestKind, nanos: u64) {
        if let Some(latency) = self.requests.get(kind as usize) {
            latency.record(nanos);
        }
    }

    /// Requests of one kind.
    pub fn request(&self, kind: RequestKind) -> &Latency {
        &self.requests[kind as usize]
    }

    /// Counts an error answer.
    pub fn record_error(&self, code: u32) {
        let at = ERROR_CODES.iter().position(|(known, _)| *known == code).unwrap_or(0);
        if let Some(counter) = self.errors.get(at) {
            counter.add(1);
        }
    }

    /// Error answers: code, name, how many.
    pub fn errors(&self) -> impl Iterator<Item = (u32, &'static str, u64)> {
        ERROR_CODES.iter().zip(&self.errors).map(|((code, name), counter)| (*code, *name, counter.get()))
    }

    /// What is counted for `table`.
    pub fn table(&self, table: &TableSchema) -> Arc<TableMetrics> {
        if let Some(found) = self.tables.load().get(&table.id) {
            return Arc::clone(found);
        }
        self.tables.rcu(|tables| {
            let mut tables = foldhash::HashMap::clone(tables);
            tables.entry(table.id).or_insert_with(|| Arc::new(TableMetrics::new(table)));
            tables
        });
        match self.tables.load().get(&table.id) {
            Some(found) => Arc::clone(found),
            // Forgotten in between: the table was dropped.
            None => Arc::new(TableMetrics::new(table)),
        }
    }

    /// What was counted for a table so far.
    pub fn table_by_id(&self, id: Uuid) -> Option<Arc<TableMetrics>> {
        self.tables.load().get(&id).cloned()
    }

    /// All tables that were used, by name.
    pub fn tables(&self) -> Vec<Arc<TableMetrics>> {
        let mut all: Vec<Arc<TableMetrics>> = self.tables.load().values().cloned().collect();
        all.sort_by(|a, b| (&a.keyspace, &a.table).cmp(&(&b.keyspace, &b.table)));
        all
    }

    /// Forgets tables that `exists` denies.
    pub fn retain_tables(&self, exists: impl Fn(Uuid) -> bool) {
        if self.tables.load().keys().all(|id| exists(*id)) {
            return;
        }
        self.tables.rcu(|tables| {
            let mut tables = foldhash::HashMap::clone(tables);
            tables.retain(|id, _| exists(*id));
            tables
        });
    }

    /// Takes note of all rates; called every [`crate::histogram::TICK_SECONDS`].
    pub fn tick(&self) {
        self.requests.iter().for_each(|latency| latency.meter.tick(latency.nanos.count()));
        self.tables.load().values().for_each(|table| table.tick());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CqlType;

    #[test]
    fn tables_are_made_once_and_forgotten_when_dropped() {
        let metrics = Metrics::default();
        let table = TableSchema::builder("ks", "t", Uuid::nil()).partition_key("k", CqlType::Int).build();
        metrics.table(&table).write.record(5);
        metrics.table(&table).write.record(7);
        assert_eq!(metrics.table_by_id(table.id).map(|t| t.write.nanos.count()), Some(2));
        metrics.retain_tables(|_| true);
        assert_eq!(metrics.tables().len(), 1);
        metrics.retain_tables(|_| false);
        assert!(metrics.tables().is_empty());
    }

    #[test]
    fn unknown_errors_count_as_server_errors() {
        let metrics = Metrics::default();
        metrics.record_error(0x2200);
        metrics.record_error(0x7777);
        let counted: Vec<_> = metrics.errors().filter(|(_, _, n)| *n > 0).collect();
        assert_eq!(counted, [(0, "server_error", 1), (0x2200, "invalid", 1)]);
    }
}
