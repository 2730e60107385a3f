//! What each verb prints, line by line as Cassandra's nodetool does. Lines about what Ilion does not have
//! (repairs, row cache, secondary indexes) are left out.

use crate::api::{
    CacheReport, ClearSnapshots, Cluster, CompactionStats, ImportedDirectory, Info, Percentiles,
    SnapshotEntry, Status, TableHistograms, TableReport, TakeSnapshot, Version,
};
use crate::format::{bytes, columns, file_size, pretty_bytes};
use std::collections::BTreeMap;
use std::fmt::Write;

const MIB: f64 = (1u64 << 20) as f64;

fn words(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// The directories that `import` failed with, and why; nothing when there are none.
pub(super) fn failed_imports(answer: &[ImportedDirectory]) -> String {
    let mut out = String::new();
    for failed in answer {
        let Some(reason) = &failed.failure else { continue };
        if out.is_empty() {
            out.push_str("Some directories failed to import, check server logs for details:\n");
        }
        let _ = writeln!(out, "{}\n  {reason}", failed.directory.display());
    }
    out
}

/// `status`.
pub(super) fn status(status: &Status) -> String {
    let mut by_data_center: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for node in &status.nodes {
        by_data_center.entry(&node.data_center).or_default().push(node);
    }
    let mut out = String::new();
    for (data_center, nodes) in by_data_center {
        let title = format!("Datacenter: {data_center}");
        let _ = writeln!(out, "{title}\n{}", "=".repeat(title.len()));
        out.push_str("Status=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n");
        let single = nodes.iter().all(|node| node.tokens.len() == 1);
        let mut rows = vec![match single {
            true => words(&["--", "Address", "Load", "Owns (effective)", "Host ID", "Token", "Rack"]),
            false => words(&["--", "Address", "Load", "Tokens", "Owns (effective)", "Host ID", "Rack"]),
        }];
        for node in nodes {
            let owns = format!("{:.1}%", node.owns * 100.0);
            let load = file_size(node.load_bytes);
            let mut row = vec![node.state.clone(), node.address.clone(), load];
            if single {
                row.extend([owns, node.host_id.clone(), node.tokens.concat(), node.rack.clone()]);
            } else {
                let tokens = node.tokens.len().to_string();
                row.extend([tokens, owns, node.host_id.clone(), node.rack.clone()]);
            }
            rows.push(row);
        }
        out.push_str(&columns(&rows, "  "));
        out.push('\n');
    }
    out
}

/// `info`.
pub(super) fn info(info: &Info, all_tokens: bool) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<23}: {value}");
    };
    line("ID", info.host_id.clone());
    line("Gossip active", "false".to_owned());
    line("Native Transport active", info.native_transport_active.to_string());
    line("Load", file_size(info.load_bytes));
    line("Generation No", info.generation.to_string());
    line("Uptime (seconds)", info.uptime_seconds.to_string());
    line("Resident Memory (MB)", format!("{:.2}", info.resident_bytes as f64 / MIB));
    line(
        "Memtable Memory (MB)",
        format!("{:.2} / {:.2}", info.memtable_bytes as f64 / MIB, info.memtable_bytes_max as f64 / MIB),
    );
    line("Data Center", info.data_center.clone());
    line("Rack", info.rack.clone());
    line("Exceptions", info.exceptions.to_string());
    line("Row Cache", format!("{} recent hit rate, 0 save period in seconds", cache(&info.row_cache)));
    line("Page Cache", format!("{} hit rate", cache(&info.page_cache)));
    match info.tokens.as_slice() {
        [single] => line("Token", single.clone()),
        several if all_tokens => several.iter().for_each(|token| line("Token", token.clone())),
        several => {
            line("Token", format!("(invoke with -T/--tokens to see all {} tokens)", several.len()));
        }
    }
    line("Bootstrap state", "COMPLETED".to_owned());
    line("Drained", info.drained.to_string());
    for directory in &info.given_up_directories {
        line("Takes no new SSTables", directory.display().to_string());
    }
    out
}

/// What a cache holds, up to the rate of hits.
fn cache(cache: &CacheReport) -> String {
    let requests = cache.hits + cache.misses;
    let rate = match requests {
        0 => "NaN".to_owned(),
        _ => format!("{:.3}", cache.hits as f64 / requests as f64),
    };
    format!(
        "entries {}, size {}, capacity {}, {} hits, {requests} requests, {rate}",
        cache.entries,
        file_size(cache.used_bytes),
        file_size(cache.capacity_bytes),
        cache.hits
    )
}

/// `describecluster`.
pub(super) fn cluster(cluster: &Cluster) -> String {
    let mut out = format!(
        "Cluster Information:\n\tName: {}\n\tSnitch: {}\n\tDynamicEndPointSnitch: disabled\n\tPartitioner: {}\n\
         \tSchema versions:\n\t\t{}: [{}]\n\n",
        cluster.name, cluster.snitch, cluster.partitioner, cluster.schema_version, cluster.address
    );
    out.push_str(
        "Stats for all nodes:\n\tLive: 1\n\tJoining: 0\n\tMoving: 0\n\tLeaving: 0\n\tUnreachable: 0\n\n",
    );
    let _ = write!(
        out,
        "Data Centers: \n\t{} #Nodes: 1 #Down: 0\n\nDatabase versions:\n\t{}: [{}:{}]\n\nKeyspaces:\n",
        cluster.data_center, cluster.release_version, cluster.address, cluster.storage_port
    );
    for keyspace in &cluster.keyspaces {
        let options: Vec<String> = keyspace.options.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let _ = writeln!(
            out,
            "\t{} -> Replication class: {} {{{}}}",
            keyspace.keyspace,
            keyspace.class,
            options.join(", ")
        );
    }
    out
}

/// `version`.
pub(super) fn version(version: &Version) -> String {
    format!("ReleaseVersion: {}\nIlionVersion: {}\n", version.release_version, version.ilion_version)
}

/// `compactionstats`.
pub(super) fn compactions(stats: &CompactionStats, human: bool) -> String {
    let throughput = match stats.throughput_bytes {
        0 => "unlimited".to_owned(),
        limit => format!("{:?}", limit as f64 / MIB),
    };
    let mut rows = vec![
        vec!["concurrent compactors".to_owned(), stats.concurrent_compactors.to_string()],
        vec!["pending tasks".to_owned(), stats.pending.to_string()],
    ];
    for pending in &stats.pending_by_table {
        rows.push(vec![pending.keyspace.clone(), pending.table.clone(), pending.tasks.to_string()]);
    }
    rows.extend([
        vec!["compactions completed".to_owned(), stats.completed.to_string()],
        vec!["compactions aborted".to_owned(), stats.failed.to_string()],
        vec!["compaction throughput (MiB/s)".to_owned(), throughput],
    ]);
    let mut out = columns(&rows, " ");
    if stats.active.is_empty() {
        return out;
    }
    let head = ["id", "compaction type", "keyspace", "table", "completed", "total", "unit", "progress"];
    let mut rows = vec![words(&head)];
    let mut left = 0;
    for task in &stats.active {
        let amount = |n: u64| if task.unit == "bytes" { bytes(n, human) } else { n.to_string() };
        let progress = match task.total {
            0 => "n/a".to_owned(),
            total => format!("{:.2}%", task.completed as f64 / total as f64 * 100.0),
        };
        left += task.total.saturating_sub(task.completed);
        rows.push(vec![
            task.id.to_string(),
            task.kind.clone(),
            task.keyspace.clone(),
            task.table.clone(),
            amount(task.completed),
            amount(task.total),
            task.unit.clone(),
            progress,
        ]);
    }
    out.push_str(&columns(&rows, " "));
    let remaining = match stats.throughput_bytes {
        0 => "n/a".to_owned(),
        limit => {
            let seconds = left / limit;
            format!("{}h{:02}m{:02}s", seconds / 3_600, seconds / 60 % 60, seconds % 60)
        }
    };
    let _ = writeln!(out, "Active compaction remaining time : {remaining:>10}");
    out
}

/// `snapshot`.
pub(super) fn snapshot(body: &TakeSnapshot) -> String {
    let what = if !body.tables.is_empty() {
        let names: Vec<String> = body.tables.iter().map(|t| format!("{}.{}", t.keyspace, t.table)).collect();
        names.join(",")
    } else if body.keyspaces.is_empty() {
        "all keyspaces".to_owned()
    } else {
        body.keyspaces.join(", ")
    };
    let ttl = body.ttl.as_ref().map_or_else(String::new, |ttl| format!(", ttl={ttl}"));
    format!(
        "Requested creating snapshot(s) for [{what}] with snapshot name [{0}] and options {{skipFlush={1}{ttl}}}\n\
         Snapshot directory: {0}\n",
        body.name, body.skip_flush
    )
}

/// `clearsnapshot`.
pub(super) fn cleared(body: &ClearSnapshots) -> String {
    let keyspaces = match body.keyspaces.as_slice() {
        [] => "all keyspaces".to_owned(),
        some => some.join(", "),
    };
    match &body.name {
        Some(name) => {
            format!("Requested clearing snapshot(s) for [{keyspaces}] with snapshot name [{name}]\n")
        }
        None => format!("Requested clearing snapshot(s) for [{keyspaces}] with [all snapshots]\n"),
    }
}

/// A name that a terminal shows and does not act on: another node may have given it.
fn visible(name: &str) -> String {
    let plain = |c: char| !c.is_control() && !c.escape_debug().to_string().starts_with("\\u{");
    name.chars().map(|c| if plain(c) { c.to_string() } else { c.escape_unicode().to_string() }).collect()
}

/// `listsnapshots`.
pub(super) fn snapshots(found: &[SnapshotEntry], ephemeral: bool) -> String {
    if found.is_empty() {
        return "Snapshot Details: \nThere are no snapshots\n".to_owned();
    }
    let head = [
        "Snapshot name",
        "Keyspace name",
        "Column family name",
        "True size",
        "Size on disk",
        "Creation time",
        "Expiration time",
    ];
    let mut rows = vec![words(&head)];
    for entry in found {
        rows.push(vec![
            visible(&entry.name),
            entry.keyspace.clone(),
            entry.table.clone(),
            file_size(entry.true_bytes),
            file_size(entry.disk_bytes),
            entry.created_at.clone(),
            entry.expires_at.clone().unwrap_or_default(),
        ]);
    }
    if ephemeral {
        let column = std::iter::once("Ephemeral").chain(std::iter::repeat("false"));
        rows.iter_mut().zip(column).for_each(|(row, word)| row.push(word.to_owned()));
    }
    let total: u64 = found.iter().map(|entry| entry.true_bytes).sum();
    format!("Snapshot Details: \n{}\nTotal TrueDiskSpaceUsed: {}\n\n", columns(&rows, " "), file_size(total))
}

/// `tablestats`.
pub(super) fn tables(stats: &[TableReport], total: usize, human: bool) -> String {
    let mut by_keyspace: BTreeMap<&str, Vec<&TableReport>> = BTreeMap::new();
    for table in stats {
        by_keyspace.entry(&table.keyspace).or_default().push(table);
    }
    let mut out = format!("Total number of tables: {total}\n----------------\n");
    for (keyspace, tables) in by_keyspace {
        let _ = writeln!(out, "Keyspace: {keyspace}");
        let sum = |of: &dyn Fn(&TableReport) -> u64| tables.iter().map(|t| of(t)).sum::<u64>();
        let mean = |count: u64, of: &dyn Fn(&TableReport) -> (u64, Option<f64>)| match count {
            0 => "NaN".to_owned(),
            count => {
                let time: f64 =
                    tables.iter().map(|t| of(t)).map(|(n, ms)| n as f64 * ms.unwrap_or(0.0)).sum();
                format!("{:?}", time / count as f64)
            }
        };
        let (reads, writes) = (sum(&|t| t.reads), sum(&|t| t.writes));
        let _ = writeln!(out, "\tRead Count: {reads}");
        let _ = writeln!(out, "\tRead Latency: {} ms", mean(reads, &|t| (t.reads, t.read_millis)));
        let _ = writeln!(out, "\tWrite Count: {writes}");
        let _ = writeln!(out, "\tWrite Latency: {} ms", mean(writes, &|t| (t.writes, t.write_millis)));
        let _ = writeln!(out, "\tPending Flushes: {}", sum(&|t| t.pending_flushes));
        for table in tables {
            table_lines(&mut out, table, human);
        }
        out.push_str("----------------\n");
    }
    out
}

fn table_lines(out: &mut String, table: &TableReport, human: bool) {
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "\t\t{name}: {value}");
    };
    let millis = |value: Option<f64>| value.map_or_else(|| "NaN".to_owned(), |ms| format!("{ms:.3}"));
    line("Table", table.table.clone());
    line("SSTable count", table.sstables.to_string());
    line("Old SSTable count", "0".to_owned());
    line("Max SSTable size", pretty_bytes(table.sstable_bytes_max));
    line("Space used (live)", bytes(table.live_bytes, human));
    line("Space used (total)", bytes(table.live_bytes, human));
    let off_heap = table.bloom_bytes + table.index_summary_bytes;
    line("Off heap memory used (total)", bytes(off_heap, human));
    line("SSTable Compression Ratio", format!("{:.5}", table.compression_ratio.unwrap_or(-1.0)));
    line("Number of partitions (estimate)", table.partitions.to_string());
    line("Memtable cell count", table.memtable_writes.to_string());
    line("Memtable data size", bytes(table.memtable_bytes, human));
    line("Local read count", table.reads.to_string());
    line("Local read latency", format!("{} ms", millis(table.read_millis)));
    line("Local write count", table.writes.to_string());
    line("Local write latency", format!("{} ms", millis(table.write_millis)));
    let ratio = if table.writes == 0 { 0.0 } else { table.reads as f64 / table.writes as f64 };
    line("Local read/write ratio", format!("{ratio:.5}"));
    line("Pending flushes", table.pending_flushes.to_string());
    line("Bloom filter space used", bytes(table.bloom_bytes, human));
    line("Index summary off heap memory used", bytes(table.index_summary_bytes, human));
    line("Compacted partition maximum bytes", table.partition_max_bytes.to_string());
    line("Compacted partition mean bytes", table.partition_mean_bytes.to_string());
    out.push('\n');
}

/// `tablehistograms`: the columns of Cassandra's nodetool in its layout, and behind them what a read of the
/// table took from the disk and how many tombstones it met.
pub(super) fn histograms(tables: &[TableHistograms]) -> String {
    let mut out = String::new();
    for table in tables {
        let sizes = (table.partition_bytes, table.partition_cells);
        if sizes.0.is_none() || sizes.1.is_none() {
            out.push_str(
                "No SSTables exists, unable to calculate 'Partition Size' and 'Cell Count' percentiles\n",
            );
        }
        let _ = writeln!(out, "{}/{} histograms", table.keyspace, table.table);
        let mut line = |name: &str, cells: [String; 8]| {
            let _ = write!(out, "{name:<10}");
            for cell in cells {
                let _ = write!(out, "{cell:>18}");
            }
            out.push('\n');
        };
        for [name, cells @ ..] in [
            [
                "Percentile",
                "Read Latency",
                "Write Latency",
                "SSTables",
                "Partition Size",
                "Cell Count",
                "Disk I/Os",
                "Amplification",
                "Tombstones",
            ],
            ["", "(micros)", "(micros)", "", "(bytes)", "", "", "(read/answered)", ""],
        ] {
            line(name, cells.map(str::to_owned));
        }
        type Of = fn(&Percentiles) -> f64;
        let lines: [(&str, Of); 7] = [
            ("50%", |p| p.p50),
            ("75%", |p| p.p75),
            ("95%", |p| p.p95),
            ("98%", |p| p.p98),
            ("99%", |p| p.p99),
            ("Min", |p| p.min),
            ("Max", |p| p.max),
        ];
        for (name, of) in lines {
            let exact = |percentiles: &Percentiles| format!("{:.2}", of(percentiles));
            let size = |sizes: &Option<Percentiles>| format!("{:.0}", sizes.as_ref().map_or(f64::NAN, of));
            let cells = [
                exact(&table.read_micros),
                exact(&table.write_micros),
                exact(&table.sstables_per_read),
                size(&sizes.0),
                size(&sizes.1),
                exact(&table.ios_per_read),
                exact(&table.read_amplification),
                exact(&table.tombstones_per_read),
            ];
            line(name, cells);
        }
        out.push('\n');
    }
    out
}
