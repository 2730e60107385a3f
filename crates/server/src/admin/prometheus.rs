//! /metrics: everything that is counted, in Prometheus's text format or as OpenMetrics.
//!
//! ```text
//! # HELP ilion_requests_seconds ...
//! # TYPE ilion_requests_seconds histogram
//! ilion_requests_seconds_bucket{kind="query",le="0.001"} 12
//! ```

mod internode;

use super::exposition::Format;
use crate::audit::LogCounts;
use crate::histogram::Histogram;
use crate::metrics::{RequestKind, TableMetrics};
use crate::state::NodeState;
use crate::storage;
use coordinator::Coordinator;
use std::fmt::Write;
use std::path::Path;
use tools::api::TableReport;

/// Upper bounds of buckets of durations, in nanoseconds, with Prometheus's spelling in seconds. They are
/// close together where reads that find all in memory, or most of it, are.
const BOUNDS: [(u64, &str); 24] = [
    (16_000, "0.000016"),
    (32_000, "0.000032"),
    (50_000, "0.00005"),
    (64_000, "0.000064"),
    (75_000, "0.000075"),
    (100_000, "0.0001"),
    (125_000, "0.000125"),
    (150_000, "0.00015"),
    (200_000, "0.0002"),
    (250_000, "0.00025"),
    (375_000, "0.000375"),
    (500_000, "0.0005"),
    (750_000, "0.00075"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
];

/// Upper bounds of buckets of counts.
const COUNTS: [u64; 10] = [0, 1, 2, 4, 8, 16, 64, 256, 1_024, 16_384];
/// Upper bounds of buckets of bytes.
const BYTES: [u64; 8] = [0, 256, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20];
/// Upper bounds of buckets of ratios, in hundredths, with Prometheus's spelling of the ratio.
const RATIOS: [(u64, &str); 13] = [
    (0, "0"),
    (50, "0.5"),
    (100, "1"),
    (125, "1.25"),
    (150, "1.5"),
    (200, "2"),
    (300, "3"),
    (400, "4"),
    (800, "8"),
    (1_600, "16"),
    (6_400, "64"),
    (25_600, "256"),
    (102_400, "1024"),
];

/// The document in the making.
struct Page {
    text: String,
    format: Format,
}

impl Page {
    fn new(format: Format) -> Page {
        Page { text: String::new(), format }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let name = self.format.family(name, kind);
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.text.push_str(name);
        self.labels(labels, None);
        let _ = writeln!(self.text, " {value}");
    }

    fn labels(&mut self, labels: &[(&str, &str)], bound: Option<&str>) {
        let all = labels.iter().copied().chain(bound.map(|b| ("le", b)));
        for (at, (name, value)) in all.clone().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{name}=\"{escaped}\"");
        }
        if all.count() > 0 {
            self.text.push('}');
        }
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    /// One histogram of a family; `sum` is in the unit of the bounds' spellings.
    fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        bounds: &[(u64, impl std::fmt::Display)],
        sum: impl std::fmt::Display,
        histogram: &Histogram,
    ) {
        let (total, format) = (histogram.count(), self.format);
        let mut bucket = |bound: &str, count: u64| {
            self.text.push_str(name);
            self.text.push_str("_bucket");
            self.labels(labels, Some(bound));
            let _ = writeln!(self.text, " {count}");
        };
        let values: Vec<u64> = bounds.iter().map(|(value, _)| *value).collect();
        for ((_, bound), count) in bounds.iter().zip(histogram.cumulative(&values)) {
            bucket(&format.bound(bound), count);
        }
        bucket("+Inf", total);
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, total);
    }

    fn seconds(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        self.histogram(name, labels, &BOUNDS, histogram.sum() as f64 / 1e9, histogram);
    }

    fn counts(&mut self, name: &str, labels: &[(&str, &str)], bounds: &[u64], histogram: &Histogram) {
        let bounds: Vec<(u64, u64)> = bounds.iter().map(|bound| (*bound, *bound)).collect();
        self.histogram(name, labels, &bounds, histogram.sum(), histogram);
    }

    /// A histogram that was filled with hundredths.
    fn ratios(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        self.histogram(name, labels, &RATIOS, histogram.sum() as f64 / 1e2, histogram);
    }
}

/// Bytes of memory that the process uses; 0 when the system does not say.
pub(super) fn resident_bytes(state: &NodeState) -> u64 {
    let mut page = [0; 4096];
    let read = state.env.fs.open_read(Path::new("/proc/self/status")).and_then(|f| f.read_at(0, &mut page));
    let text = String::from_utf8_lossy(page.get(..read.unwrap_or(0)).unwrap_or_default()).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The document.
pub(super) fn render(state: &NodeState, coordinator: &Coordinator, format: Format) -> String {
    let mut page = Page::new(format);
    clients(&mut page, state);
    storage_numbers(&mut page, state);
    tables(&mut page, state);
    if let Some(ring) = state.ring.get() {
        internode::numbers(&mut page, ring, coordinator);
    }
    page.gauge("ilion_uptime_seconds", "Seconds since the start.", state.uptime_millis() as f64 / 1e3);
    page.gauge("process_resident_memory_bytes", "Memory of the process.", resident_bytes(state));
    page.counter("ilion_exceptions_total", "Panics.", state.metrics.exceptions.get());
    page.family("ilion_build_info", "gauge", "Versions.");
    let versions =
        [("version", env!("CARGO_PKG_VERSION")), ("release_version", state.release_version.as_str())];
    page.sample("ilion_build_info", &versions, 1);
    page.text.push_str(format.end());
    page.text
}

fn clients(page: &mut Page, state: &NodeState) {
    let (metrics, traffic) = (&state.metrics, &state.connections.traffic);
    let name = "ilion_requests_seconds";
    page.family(name, "histogram", "Requests of clients by kind, from decoding to the answer.");
    for kind in RequestKind::ALL {
        page.seconds(name, &[("kind", kind.name())], &metrics.request(kind).nanos);
    }
    page.family("ilion_errors_total", "counter", "Error answers by code.");
    for (_, name, count) in metrics.errors() {
        page.sample("ilion_errors_total", &[("code", name)], count);
    }
    page.gauge("ilion_connections", "Connections that are open.", state.connections.len());
    page.counter(
        "ilion_requests_rate_limited_total",
        "Requests beyond native_transport_max_requests_per_second.",
        traffic.rate_limited.get(),
    );
    page.counter("ilion_connections_accepted_total", "Connections accepted.", traffic.accepted.get());
    page.counter(
        "ilion_connections_refused_total",
        "Connections turned away by a limit.",
        traffic.refused.get(),
    );
    page.counter(
        "ilion_connections_too_slow_total",
        "Connections closed because the client sent or took something too slowly.",
        traffic.too_slow.get(),
    );
    page.counter(
        "ilion_tls_handshakes_total",
        "TLS handshakes that were completed.",
        traffic.tls_handshakes.get(),
    );
    page.counter(
        "ilion_tls_resumed_total",
        "TLS handshakes that went on with an earlier session.",
        traffic.tls_resumed.get(),
    );
    page.counter("ilion_tls_failures_total", "TLS handshakes that failed.", traffic.tls_failures.get());
    let logins = &state.auth.logins;
    page.counter("ilion_logins_total", "Logins with a password.", logins.by_password.get());
    page.counter(
        "ilion_tls_logins_total",
        "Logins with a certificate (mutual TLS).",
        logins.by_certificate.get(),
    );
    page.counter("ilion_login_failures_total", "Logins that were refused.", logins.failures.get());
    page.counter(
        "ilion_logins_limited_total",
        "Logins that were not looked at: too many of their address had failed.",
        logins.limited.get(),
    );
    request_logs(page, state);
    page.counter("ilion_received_bytes_total", "Bytes from clients.", traffic.received_bytes.get());
    page.counter("ilion_sent_bytes_total", "Bytes to clients.", traffic.sent_bytes.get());
    page.gauge("ilion_requests_in_flight", "Requests in flight.", state.connections.requests_in_flight());
    page.counter(
        "ilion_reads_moved_total",
        "Reads that went on outside the network threads.",
        metrics.reads_moved.get(),
    );
    page.counter(
        "ilion_answers_without_room_total",
        "Reads begun anew because their answers had no room in memory.",
        metrics.answers_without_room.get(),
    );
    let name = "ilion_reads_awaiting_proof";
    let waiting = metrics.reads_awaiting_proof.get();
    page.gauge(name, "Reads that wait for an SSTable to be compared with its digest.", waiting);
    let name = "ilion_reads_awaited_proof_total";
    let waited = metrics.reads_awaited_proof.get();
    page.counter(name, "Waits of reads for an SSTable to be compared with its digest.", waited);
    let name = "ilion_reads_timed_out_for_proof_total";
    let late = metrics.reads_timed_out_for_proof.get();
    page.counter(name, "Reads that timed out in such a wait.", late);
    page.gauge(
        "ilion_data_directories_given_up",
        "Data directories that take no new SSTables (disk_failure_policy: best_effort).",
        state.engine.given_up_directories().len(),
    );
    page.gauge("ilion_prepared_statements", "Prepared statements.", metrics.prepared_statements.get());
    page.counter(
        "ilion_prepared_statements_evicted_total",
        "Prepared statements that made room for others.",
        metrics.prepared_statements_evicted.get(),
    );
    page.counter(
        "ilion_prepared_statements_executed_total",
        "Executions of prepared statements.",
        metrics.prepared_statements_executed.get(),
    );
    page.counter(
        "ilion_regular_statements_executed_total",
        "Executions of statements that came as text.",
        metrics.regular_statements_executed.get(),
    );
    page.counter("ilion_slow_queries_total", "Requests that were slow.", metrics.slow_queries.get());
}

/// The logs of what clients do.
fn request_logs(page: &mut Page, state: &NodeState) {
    let logs = [("audit", &state.logs.audit_counts), ("queries", &state.logs.query_counts)];
    let mut family = |name: &str, help: &str, of: fn(&LogCounts) -> u64| {
        page.family(name, "counter", help);
        logs.iter().for_each(|(log, counts)| page.sample(name, &[("log", log)], of(counts)));
    };
    family("ilion_request_log_entries_total", "Entries written to logs of requests.", |c| c.written.get());
    family("ilion_request_log_dropped_total", "Entries that logs of requests lost.", |c| c.dropped.get());
    family("ilion_request_log_failures_total", "Writes of them that failed.", |c| c.failures.get());
    family("ilion_request_log_waits_total", "Requests that waited for their queues.", |c| c.waits.get());
}

fn storage_numbers(page: &mut Page, state: &NodeState) {
    let stats = state.engine.stats();
    page.gauge("ilion_memtable_bytes", "Memory of memtables.", stats.memtable_bytes);
    page.gauge("ilion_memtable_limit_bytes", "Memory allowed for memtables.", stats.memtable_limit_bytes);
    page.counter("ilion_flushes_total", "Memtables that became SSTables.", stats.flushes);
    page.counter("ilion_flush_failures_total", "Flushes that failed.", stats.flush_failures);
    page.gauge("ilion_flushes_pending", "Flushes that wait.", stats.flushes_pending);
    page.gauge("ilion_commitlog_segments", "Segments of the commit log.", stats.commitlog.segments);
    page.gauge("ilion_commitlog_bytes", "Bytes of the commit log.", stats.commitlog.bytes);
    page.counter("ilion_commitlog_appends_total", "Mutations appended.", stats.commitlog.appends);
    page.counter("ilion_commitlog_syncs_total", "Syncs of the commit log.", stats.commitlog.syncs);
    page.counter("ilion_commitlog_failures_total", "Syncs and writes that failed.", stats.commitlog.failures);
    let cache = storage::page_cache(&state.engine);
    page.gauge("ilion_page_cache_bytes", "Bytes in the page cache.", cache.used_bytes);
    page.gauge("ilion_page_cache_limit_bytes", "Bytes allowed for the page cache.", cache.capacity_bytes);
    page.counter("ilion_page_cache_hits_total", "Pages found in the page cache.", cache.hits);
    page.counter("ilion_page_cache_misses_total", "Pages read from disk.", cache.misses);
    page.counter("ilion_page_cache_insertions_total", "Pages put into the page cache.", cache.insertions);
    let name = "ilion_page_cache_evictions_total";
    page.counter(name, "Pages that made room for others in the page cache.", cache.evictions);
    let cache = storage::row_cache(&state.engine);
    page.gauge("ilion_row_cache_bytes", "Bytes in the row cache.", cache.used_bytes);
    page.gauge("ilion_row_cache_limit_bytes", "Bytes allowed for the row cache.", cache.capacity_bytes);
    page.gauge("ilion_row_cache_entries", "Partitions in the row cache.", cache.entries);
    page.counter("ilion_row_cache_hits_total", "Partitions found in the row cache.", cache.hits);
    page.counter("ilion_row_cache_misses_total", "Partitions not found in it.", cache.misses);
    page.counter("ilion_row_cache_insertions_total", "Partitions put into the row cache.", cache.insertions);
    let name = "ilion_row_cache_evictions_total";
    page.counter(name, "Partitions that made room for others in the row cache.", cache.evictions);
    let name = "ilion_bloom_filters_checked_total";
    page.counter(name, "Bloom filters checked against their index.", stats.filters_checked);
    let name = "ilion_bloom_filters_damaged_total";
    page.counter(name, "Bloom filters that lacked a key and are not used.", stats.filters_damaged);
    let name = "ilion_bloom_filters_unproven";
    page.gauge(name, "Bloom filters that are still to be checked.", stats.filters_unproven);
    let proving = stats.proving;
    let name = "ilion_sstables_proven_total";
    page.counter(name, "SSTables found to be as their digests say.", proving.proven);
    let name = "ilion_sstables_unproven";
    page.gauge(name, "SSTables not compared with their digests yet.", proving.unproven);
    let name = "ilion_sstables_condemned";
    page.gauge(name, "SSTables that are not as their digests say; reads of them fail.", proving.condemned);
    let name = "ilion_sstables_adopted_total";
    page.counter(name, "SSTables of other programs whose large partitions were described.", proving.adopted);
    let name = "ilion_sstables_unadopted";
    page.gauge(name, "SSTables with large partitions that are still to be described.", proving.unadopted);
    let name = "ilion_adopted_partitions";
    page.gauge(name, "Large partitions of other programs that are described.", proving.adopted_partitions);
    let name = "ilion_adoption_bytes";
    page.gauge(name, "Bytes on disk that describe them.", proving.adopted_bytes);
    let name = "ilion_sstable_proving_bytes_total";
    page.counter(name, "Bytes of Data.db read to compare them with digests.", proving.bytes);
    if let Some(bulk) = storage::bulk(state) {
        page.gauge("ilion_bulk_scans_active", "Scans of whole tables that run.", bulk.running.len() as u64);
        page.counter("ilion_bulk_scans_total", "Scans of splits of tables that began.", bulk.scans);
        page.counter("ilion_bulk_scan_failures_total", "Those that failed.", bulk.failures);
        page.counter("ilion_bulk_rows_total", "Rows that they made.", bulk.rows);
        let help = "Bytes of SSTables that they went over, before compression.";
        page.counter("ilion_bulk_bytes_total", help, bulk.bytes);
    }
    let compactions = storage::compactions(&state.engine);
    page.gauge("ilion_compactions_active", "Compactions that run.", compactions.running());
    page.gauge("ilion_compactions_pending", "Compactions that are due.", compactions.pending);
    page.counter("ilion_compactions_total", "Compactions that ended.", compactions.completed);
    page.counter("ilion_compaction_failures_total", "Compactions that failed.", compactions.failed);
}

fn tables(page: &mut Page, state: &NodeState) {
    let counted = state.metrics.tables();
    type Counted = fn(&TableMetrics) -> &Histogram;
    let families: [(&str, &str, Counted); 3] = [
        ("ilion_table_reads_seconds", "Reads of single partitions.", |t| &t.read.nanos),
        ("ilion_table_scans_seconds", "Reads of ranges of partitions.", |t| &t.scan.nanos),
        ("ilion_table_writes_seconds", "Writes.", |t| &t.write.nanos),
    ];
    for (name, help, of) in families {
        page.family(name, "histogram", help);
        for table in counted.iter().filter(|t| of(t).count() > 0) {
            page.seconds(name, &[("keyspace", &table.keyspace), ("table", &table.table)], of(table));
        }
    }
    let families: [(&str, &str, &[u64], Counted); 6] = [
        ("ilion_table_read_sstables", "SSTables opened by each read.", &COUNTS, |t| &t.sstables_per_read),
        ("ilion_table_read_ios", "Calls to the disk of each read.", &COUNTS, |t| &t.ios_per_read),
        ("ilion_table_read_disk_bytes", "Bytes each read took from the disk.", &BYTES, |t| {
            &t.disk_bytes_per_read
        }),
        ("ilion_table_read_returned_bytes", "Bytes each read answered.", &BYTES, |t| {
            &t.returned_bytes_per_read
        }),
        ("ilion_table_read_rows", "Live rows of each read.", &COUNTS, |t| &t.rows_per_read),
        ("ilion_table_read_tombstones", "Tombstones of each read.", &COUNTS, |t| &t.tombstones_per_read),
    ];
    for (name, help, bounds, of) in families {
        page.family(name, "histogram", help);
        for table in counted.iter().filter(|t| of(t).count() > 0) {
            page.counts(name, &[("keyspace", &table.keyspace), ("table", &table.table)], bounds, of(table));
        }
    }
    let name = "ilion_table_read_amplification";
    page.family(name, "histogram", "Bytes each read took from the disk for each byte that it answered.");
    for table in counted.iter().filter(|t| t.read_amplification.count() > 0) {
        let labels = [("keyspace", table.keyspace.as_str()), ("table", &table.table)];
        page.ratios(name, &labels, &table.read_amplification);
    }
    type Counts = fn(&TableMetrics) -> [u64; 2];
    let families: [(&str, &str, Counts); 2] = [
        (
            "ilion_table_read_pages_total",
            "Pages of index and data that reads touched: found in memory (hit) or loaded (miss).",
            |t| [t.page_hits.get(), t.page_misses.get()],
        ),
        (
            "ilion_table_row_cache_lookups_total",
            "Partitions that reads looked for in the row cache: it had what they wanted (hit) or not (miss).",
            |t| [t.row_cache_hits.get(), t.row_cache_misses.get()],
        ),
    ];
    for (name, help, of) in families {
        page.family(name, "counter", help);
        for table in counted.iter().filter(|t| of(t) != [0, 0]) {
            for (found, count) in ["hit", "miss"].into_iter().zip(of(table)) {
                let labels =
                    [("keyspace", table.keyspace.as_str()), ("table", &table.table), ("found", found)];
                page.sample(name, &labels, count);
            }
        }
    }
    let stats = storage::tables(&state.engine);
    type Number = fn(&TableReport) -> u64;
    let families: [(&str, &str, Number); 3] = [
        ("ilion_table_sstables", "SSTables.", |t| t.sstables),
        ("ilion_table_disk_bytes", "Bytes of SSTables.", |t| t.live_bytes),
        ("ilion_table_memtable_bytes", "Bytes of memtables.", |t| t.memtable_bytes),
    ];
    for (name, help, of) in families {
        page.family(name, "gauge", help);
        for table in &stats {
            page.sample(name, &[("keyspace", &table.keyspace), ("table", &table.table)], of(table));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_cumulative_and_labels_escaped() {
        let (mut page, histogram) = (Page::new(Format::Prometheus), Histogram::default());
        histogram.record(100_000);
        histogram.record(2_000_000_000);
        page.seconds("x_seconds", &[("table", "a\"b")], &histogram);
        let lines: Vec<&str> = page.text.lines().collect();
        assert_eq!(lines.len(), BOUNDS.len() + 3);
        assert_eq!(lines[0], "x_seconds_bucket{table=\"a\\\"b\",le=\"0.000016\"} 0");
        assert_eq!(lines[4], "x_seconds_bucket{table=\"a\\\"b\",le=\"0.000075\"} 0");
        assert_eq!(lines[6], "x_seconds_bucket{table=\"a\\\"b\",le=\"0.000125\"} 1");
        assert_eq!(lines[24], "x_seconds_bucket{table=\"a\\\"b\",le=\"+Inf\"} 2");
        assert_eq!(lines[25], "x_seconds_sum{table=\"a\\\"b\"} 2.0001");
        assert_eq!(lines[26], "x_seconds_count{table=\"a\\\"b\"} 2");
    }

    #[test]
    fn a_family_of_openmetrics_is_named_without_the_suffix_of_its_samples() {
        let mut page = Page::new(Format::OpenMetrics);
        page.counter("x_total", "Xs.", 3);
        page.gauge("y_total", "Ys.", 4);
        page.histogram("z", &[], &[(1, "1")], 0, &Histogram::default());
        let lines: Vec<&str> = page.text.lines().collect();
        assert_eq!(lines[..3], ["# HELP x Xs.", "# TYPE x counter", "x_total 3"]);
        assert_eq!(lines[3..6], ["# HELP y_total Ys.", "# TYPE y_total gauge", "y_total 4"]);
        assert_eq!(lines[6..8], ["z_bucket{le=\"1.0\"} 0", "z_bucket{le=\"+Inf\"} 0"]);
    }

    #[test]
    fn ratios_are_told_in_ones() {
        let (mut page, histogram) = (Page::new(Format::Prometheus), Histogram::default());
        [0, 110, 250].iter().for_each(|hundredths| histogram.record(*hundredths));
        page.ratios("x", &[], &histogram);
        let lines: Vec<&str> = page.text.lines().collect();
        assert_eq!(lines.len(), RATIOS.len() + 3);
        for (at, line) in [
            (0, "x_bucket{le=\"0\"} 1"),
            (2, "x_bucket{le=\"1\"} 1"),
            (3, "x_bucket{le=\"1.25\"} 2"),
            (5, "x_bucket{le=\"2\"} 2"),
            (6, "x_bucket{le=\"3\"} 3"),
            (14, "x_sum 3.6"),
            (15, "x_count 3"),
        ] {
            assert_eq!(lines[at], line);
        }
    }

    #[test]
    fn bounds_ascend_and_are_spelt_as_they_are() {
        for (bounds, unit) in [(&BOUNDS[..], 1e-9), (&RATIOS[..], 1e-2)] {
            assert!(bounds.is_sorted_by(|(a, _), (b, _)| a < b));
            for (value, spelt) in bounds {
                let exact = *value as f64 * unit;
                assert!((spelt.parse::<f64>().unwrap() - exact).abs() <= exact * 1e-9, "{spelt}");
            }
        }
    }
}
