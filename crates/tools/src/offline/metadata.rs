//! `ilion sstable metadata`: what an SSTable says about itself, in the words of Cassandra's sstablemetadata.

mod histogram;

use super::dump::key_text;
use super::output::Output;
use super::source;
use super::{Failure, Outcome};
use clap::Args;
use env::Env;
use histogram::Histogram;
use model::types::calendar::Date;
use model::types::numbers::write_double;
use model::{BoundKind, ClusteringBound, DecoratedKey, NO_DELETION_TIME, Slice, TableSchema};
use partition::codec::HeaderColumn;
use serde_json::{Value, json};
use sstable::compression::CompressionInfo;
use sstable::statistics::{EstimatedHistogram, Statistics, Stats};
use sstable::{Component, Descriptor, SsTable, Uncached, table_of_header};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";

/// Arguments of `metadata`.
#[derive(Debug, Args)]
pub(super) struct MetadataArgs {
    /// Components of SSTables, or directories
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// A JSON array with an object for each SSTable
    #[arg(long)]
    json: bool,
    /// Seconds for which tombstones are kept, when counting those that may be dropped
    #[arg(short = 'g', long = "gc_grace_seconds", visible_alias = "gc-grace-seconds", default_value_t = 0)]
    gc_grace_s: u32,
}

/// Everything that is shown of one SSTable.
struct Metadata {
    descriptor: Descriptor,
    statistics: Statistics,
    table: TableSchema,
    compressor: Option<&'static str>,
    /// The first and the last key, when the index can be read.
    ends: Option<(DecoratedKey, DecoratedKey)>,
    files: Vec<(Component, u64)>,
    droppable: f64,
}

impl Metadata {
    fn read(env: &Env, descriptor: &Descriptor, gc_before: u32) -> Result<Metadata, Failure> {
        let fs = env.fs.as_ref();
        let statistics = Statistics::read(fs, descriptor).map_err(Failure::new)?;
        let info = CompressionInfo::of_sstable(fs, descriptor).map_err(Failure::new)?;
        let opened = SsTable::open(fs, descriptor, 0, Arc::new(Uncached)).ok();
        let files = Component::ALL.iter().filter_map(|c| Some((*c, fs.file_len(&descriptor.path(*c)).ok()?)));
        Ok(Metadata {
            table: table_of_header(&statistics.header).map_err(Failure::new)?,
            compressor: info.map(|info| info.params.compressor.class()),
            ends: opened.map(|t| (t.first_key().clone(), t.last_key().clone())),
            files: files.collect(),
            droppable: droppable(&statistics.stats, gc_before),
            descriptor: descriptor.clone(),
            statistics,
        })
    }

    fn bound(&self, bound: &ClusteringBound) -> Vec<String> {
        let columns = self.table.clustering_columns().iter().enumerate().take(bound.prefix.len());
        columns.map(|(i, c)| bound.prefix.value(i).map_or("null".to_owned(), |v| c.ty.to_text(v))).collect()
    }

    /// `[1:a, 9)`: the clusterings between which all rows and markers lie.
    fn covered(&self) -> String {
        let Slice { start, end } = &self.statistics.stats.covered_clusterings;
        if self.statistics.stats.covered_clusterings.is_all() {
            return "ALL".to_owned();
        }
        let open = if start.kind == BoundKind::ExclStart { '(' } else { '[' };
        let close = if end.kind == BoundKind::ExclEnd { ')' } else { ']' };
        format!("{open}{}, {}{close}", self.bound(start).join(":"), self.bound(end).join(":"))
    }

    fn column_types(columns: &[HeaderColumn]) -> String {
        let texts = columns.iter().map(|c| format!("{}:{}", c.name, c.ty.class_name()));
        texts.collect::<Vec<_>>().join(", ")
    }

    fn clustering_types(&self) -> Vec<String> {
        self.table.clustering_columns().iter().map(|c| c.class_name()).collect()
    }

    fn json(&self) -> Value {
        let Metadata { statistics, descriptor, .. } = self;
        let (stats, header) = (&statistics.stats, &statistics.header);
        let local = |seconds: u32| (seconds != NO_DELETION_TIME).then_some(seconds);
        let buckets = |h: &EstimatedHistogram| -> Vec<Value> {
            let used = h.buckets().filter(|(_, count)| *count > 0);
            used.map(|(limit, count)| json!({"up_to": limit, "count": count})).collect()
        };
        let columns = |columns: &[HeaderColumn]| -> Vec<Value> {
            let each = columns.iter();
            each.map(|c| json!({"name": c.name, "type": c.ty.to_string(), "class": c.ty.class_name()}))
                .collect()
        };
        let key = |key: &DecoratedKey| json!({"token": key.token.0, "key": key_text(&self.table, key)});
        let intervals = stats.commit_log_intervals.iter().map(|(start, end)| {
            json!({
                "start": {"segment": start.segment, "position": start.offset},
                "end": {"segment": end.segment, "position": end.offset},
            })
        });
        json!({
            "sstable": descriptor.to_string(),
            "version": descriptor.version.to_string(),
            "format": descriptor.version.format(),
            "components": self.files.iter().map(|(c, len)| json!({"name": c.file_part(), "bytes": len})).collect::<Vec<_>>(),
            "partitioner": PARTITIONER,
            "bloom_filter_fp_chance": statistics.bloom_fp_chance,
            "minimum_timestamp": stats.min_timestamp,
            "maximum_timestamp": stats.max_timestamp,
            "min_local_deletion_time": local(stats.min_local_deletion_time),
            "max_local_deletion_time": local(stats.max_local_deletion_time),
            "compressor": self.compressor,
            "compression_ratio": (stats.compression_ratio >= 0.0).then_some(stats.compression_ratio),
            "ttl_min": stats.min_ttl,
            "ttl_max": stats.max_ttl,
            "first": self.ends.as_ref().map(|(first, _)| key(first)),
            "last": self.ends.as_ref().map(|(_, last)| key(last)),
            "min_clustering": self.bound(&stats.covered_clusterings.start),
            "max_clustering": self.bound(&stats.covered_clusterings.end),
            "token_space_coverage": stats.token_space_coverage,
            "has_partition_deletions": stats.has_partition_deletions,
            "estimated_droppable_tombstones": self.droppable,
            "sstable_level": stats.level,
            "repaired_at": stats.repaired_at_ms,
            "pending_repair": stats.pending_repair.map(|id| id.to_string()),
            "is_transient": stats.is_transient,
            "originating_host_id": stats.host_id.map(|id| id.to_string()),
            "replay_positions_covered": intervals.collect::<Vec<_>>(),
            "total_columns_set": stats.total_columns_set,
            "total_rows": stats.total_rows,
            "has_legacy_counter_shards": stats.has_legacy_counter_shards,
            "tombstone_drop_times": stats.tombstones.bins().map(|(at, n)| json!({"seconds": at, "count": n})).collect::<Vec<_>>(),
            "partition_sizes": buckets(&stats.partition_sizes),
            "cells_per_partition": buckets(&stats.cells_per_partition),
            "estimated_cardinality": statistics.estimated_keys(),
            "encoding_stats": {
                "min_timestamp": header.stats.min_timestamp,
                "min_local_deletion_time": header.min_local_deletion_time(),
                "min_ttl": header.stats.min_ttl,
            },
            "key_type": header.key_type,
            "clustering_types": self.clustering_types(),
            "static_columns": columns(&header.static_columns),
            "regular_columns": columns(&header.regular_columns),
        })
    }

    fn print(&self, out: &mut Output) -> Result<(), Failure> {
        let (stats, header) = (&self.statistics.stats, &self.statistics.header);
        let mut fields = Fields { out };
        fields.field("SSTable", &self.descriptor)?;
        fields.field("Partitioner", PARTITIONER)?;
        fields.field("Bloom Filter FP chance", double(self.statistics.bloom_fp_chance))?;
        fields.dated("Minimum timestamp", stats.min_timestamp, 1_000_000)?;
        fields.dated("Maximum timestamp", stats.max_timestamp, 1_000_000)?;
        fields.field("Duration", spread(stats.max_timestamp.wrapping_sub(stats.min_timestamp)))?;
        fields.deletion("SSTable min local deletion time", stats.min_local_deletion_time)?;
        fields.deletion("SSTable max local deletion time", stats.max_local_deletion_time)?;
        match self.compressor {
            None => fields.field("Compressor", "-")?,
            Some(class) => {
                fields.field("Compressor", format_args!("org.apache.cassandra.io.compress.{class}"))?;
                fields.field("Compression ratio", double(stats.compression_ratio))?;
            }
        }
        fields.duration("TTL min", stats.min_ttl)?;
        fields.duration("TTL max", stats.max_ttl)?;
        if let Some((first, last)) = &self.ends {
            for (name, key) in [("First token", first), ("Last token", last)] {
                fields.field(name, format_args!("{} ({})", key.token.0, key_text(&self.table, key)))?;
            }
        }
        fields.field("Covered clusterings", self.covered())?;
        fields.field("Estimated droppable tombstones", double(self.droppable))?;
        fields.field("SSTable Level", stats.level)?;
        match stats.repaired_at_ms {
            0 => fields.field("Repaired at", 0)?,
            at => fields.field("Repaired at", format_args!("{at} ({})", date(at.div_euclid(1000))))?,
        }
        let id = |id: Option<uuid::Uuid>| id.map_or("--".to_owned(), |id| id.to_string());
        fields.field("Originating host id", id(stats.host_id))?;
        fields.field("Pending repair", id(stats.pending_repair))?;
        let position = |p: &sstable::statistics::CommitLogPosition| {
            format!("CommitLogPosition(segmentId={}, position={})", p.segment, p.offset)
        };
        let intervals = stats.commit_log_intervals.iter();
        let intervals: Vec<String> =
            intervals.map(|(start, end)| format!("{}={}", position(start), position(end))).collect();
        fields.field("Replay positions covered", format_args!("{{{}}}", intervals.join(", ")))?;
        fields.field("totalColumnsSet", stats.total_columns_set)?;
        fields.field("totalRows", stats.total_rows)?;
        fields.field("Estimated tombstone drop times", "")?;
        let drops = stats.tombstones.bins().map(|(at, count)| (i64::from(at), count as i64));
        let at = |at: i64| if at == 0 { format!("{at} ") } else { format!("{at} ({})", date(at)) };
        Histogram::new("Drop Time", drops, &at).print(fields.out)?;
        fields.field("Partition Size", "")?;
        let size = |bytes: i64| format!("{bytes} {}", readable_bytes(bytes));
        Histogram::new("Size (bytes)", used(&stats.partition_sizes), &size).print(fields.out)?;
        fields.field("Column Count", "")?;
        Histogram::new("Columns", used(&stats.cells_per_partition), &|n| n.to_string()).print(fields.out)?;
        fields.field("Local token space coverage", double(stats.token_space_coverage.unwrap_or(f64::NAN)))?;
        if let Some(keys) = self.statistics.estimated_keys() {
            fields.field("Estimated cardinality", keys)?;
        }
        fields.duration("EncodingStats minTTL", header.stats.min_ttl)?;
        fields.dated("EncodingStats minLocalDeletionTime", i64::from(header.min_local_deletion_time()), 1)?;
        fields.dated("EncodingStats minTimestamp", header.stats.min_timestamp, 1_000_000)?;
        fields.field("KeyType", &header.key_type)?;
        fields.field("ClusteringTypes", format_args!("[{}]", self.clustering_types().join(", ")))?;
        fields.field("StaticColumns", Self::column_types(&header.static_columns))?;
        fields.field("RegularColumns", Self::column_types(&header.regular_columns))?;
        fields.field("IsTransient", stats.is_transient)
    }
}

/// The share of cells that are tombstones which may be dropped.
fn droppable(stats: &Stats, gc_before: u32) -> f64 {
    let cells = stats.cells_per_partition.mean().ceil() * stats.cells_per_partition.count() as f64;
    if cells > 0.0 { stats.tombstones.count_until(gc_before) as f64 / cells } else { 0.0 }
}

fn used(histogram: &EstimatedHistogram) -> impl Iterator<Item = (i64, i64)> {
    histogram
        .buckets()
        .filter(|(_, count)| *count > 0)
        .map(|(limit, count)| (limit.unwrap_or(i64::MAX), count))
}

fn double(value: f64) -> String {
    let mut out = String::new();
    write_double(&mut out, value);
    out
}

/// `11/21/2026 12:37:58`, UTC.
fn date(seconds: i64) -> String {
    let date = Date::from_epoch_days(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let (hours, minutes, seconds) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{:02}/{:02}/{:04} {hours:02}:{minutes:02}:{seconds:02}", date.month, date.day, date.year)
}

/// The time between two timestamps.
fn spread(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    format!("Days: {days} Hours: {hours} Minutes: {} Seconds: {}", seconds / 60 % 60, seconds % 60)
}

/// `1 day 3 hours 46 minutes 40 seconds`: without what is zero at either end.
fn words(seconds: i64) -> String {
    let parts = [
        (seconds / 86_400, "day"),
        (seconds / 3_600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let first = parts.iter().position(|(n, _)| *n > 0).unwrap_or(parts.len());
    let last = parts.iter().rposition(|(n, _)| *n > 0).unwrap_or(0);
    let shown = parts.iter().take(last + 1).skip(first);
    let texts = shown.map(|(n, unit)| format!("{n} {unit}{}", if *n == 1 { "" } else { "s" }));
    texts.collect::<Vec<_>>().join(" ")
}

/// `(3.2 kB)`, `(35 B)`.
fn readable_bytes(bytes: i64) -> String {
    match bytes {
        0 => String::new(),
        1..1024 => format!("({bytes} B)"),
        _ => {
            let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
            while value >= 1024.0 && unit < 4 {
                value /= 1024.0;
                unit += 1;
            }
            format!("({value:.1} {}B)", ["k", "M", "G", "T", "P"][unit])
        }
    }
}

struct Fields<'o> {
    out: &'o mut Output,
}

impl Fields<'_> {
    fn field(&mut self, name: &str, value: impl Display) -> Result<(), Failure> {
        Ok(self.out.line(&format!("{name}: {value}"))?)
    }

    /// A point in time in units of which `per_s` make a second, with its date.
    fn dated(&mut self, name: &str, value: i64, per_s: i64) -> Result<(), Failure> {
        let shown = if value == 0 { "--".to_owned() } else { date(value.div_euclid(per_s)) };
        self.field(name, format_args!("{shown} ({value})"))
    }

    fn deletion(&mut self, name: &str, seconds: u32) -> Result<(), Failure> {
        match seconds {
            NO_DELETION_TIME => self.field(name, format_args!("no tombstones ({})", i64::MAX)),
            0 => self.field(name, "no tombstones (0)"),
            at => self.field(name, format_args!("{} ({at})", date(i64::from(at)))),
        }
    }

    fn duration(&mut self, name: &str, seconds: i32) -> Result<(), Failure> {
        match seconds {
            0 => self.field(name, 0),
            i32::MAX => self.field(name, format_args!("{seconds} (never)")),
            _ => self.field(name, format_args!("{seconds} ({})", words(i64::from(seconds)))),
        }
    }
}

pub(super) fn run(env: &Env, args: &MetadataArgs, out: &mut Output) -> Result<Outcome, Failure> {
    let now_s = env.clock.now_millis().div_euclid(1000).clamp(0, i64::from(u32::MAX)) as u32;
    let gc_before = now_s.saturating_sub(args.gc_grace_s);
    let mut documents = Vec::new();
    for descriptor in source::find(env, &args.paths)? {
        let metadata = Metadata::read(env, &descriptor, gc_before)?;
        match args.json {
            true => documents.push(metadata.json()),
            false => metadata.print(out)?,
        }
    }
    if args.json {
        out.json(&documents)?;
    }
    Ok(Outcome::Sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_sstablemetadatas() {
        assert_eq!(words(100_000), "1 day 3 hours 46 minutes 40 seconds");
        assert_eq!((words(3).as_str(), words(7_200).as_str()), ("3 seconds", "2 hours"));
        assert_eq!(words(86_401), "1 day 0 hours 0 minutes 1 second");
        assert_eq!((readable_bytes(3_311).as_str(), readable_bytes(35).as_str()), ("(3.2 kB)", "(35 B)"));
        assert_eq!(readable_bytes(5 << 20), "(5.0 MB)");
        assert_eq!(date(1_795_264_678), "11/21/2026 12:37:58");
        assert_eq!(spread(90_061_000_000), "Days: 1 Hours: 1 Minutes: 1 Seconds: 1");
    }
}
