//! Files of real Cassandra nodes (`testdata/make.py`), read and compared with text that was checked against
//! what the node's own tools print. `REWRITE=1` writes the text anew.

use super::support::*;
use crate::compression::{CompressionParams, Compressor};
use crate::descriptor::list;
use crate::statistics::{EstimatedHistogram, Statistics};
use crate::{Descriptor, SsTable, SsTableId, SsTableWriter, Uncached, Version};
use env::fs::FileSystem;
use env::fs::disk::DiskFileSystem;
use model::command::ClusteringFilter;
use model::key::KeyRange;
use model::{
    BoundKind, ClusteringBound, Component, CqlType, Deletion, NO_DELETION_TIME, Row, Slice, TableSchema,
};
use partition::codec::DeletionTimes;
use partition::codec::SerializationHeader;
use partition::codec::mutation::{decode_mutation, encode_mutation};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

pub fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// A table with the columns of a header.
pub fn table_of(header: &SerializationHeader) -> Arc<TableSchema> {
    table_with_id(header, Uuid::nil())
}

fn table_with_id(header: &SerializationHeader, id: Uuid) -> Arc<TableSchema> {
    let mut builder = TableSchema::builder("ks", "t", id);
    for (i, ty) in CqlType::parse_key_class(&header.key_type).unwrap().into_iter().enumerate() {
        builder = builder.partition_key(&format!("pk{i}"), ty);
    }
    for (i, (ty, descending)) in header.clustering.iter().enumerate() {
        builder = builder.clustering(&format!("ck{i}"), ty.clone(), *descending);
    }
    for column in &header.static_columns {
        builder = builder.static_column(&column.name, column.ty.clone());
    }
    for column in &header.regular_columns {
        builder = builder.regular(&column.name, column.ty.clone());
    }
    Arc::new(builder.build())
}

pub fn open_all(directory: &Path) -> Vec<Arc<SsTable>> {
    let open = |(i, descriptor): (usize, &Descriptor)| {
        Arc::new(SsTable::open(&DiskFileSystem, descriptor, i as u64, Arc::new(Uncached)).unwrap())
    };
    list(&DiskFileSystem, directory).unwrap().tables.keys().enumerate().map(open).collect()
}

/// Bytes as hexadecimal digits; long ones as their length and first bytes.
fn hex(bytes: &[u8]) -> String {
    let digits = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    match bytes.len() {
        0..=40 => digits(bytes),
        len => format!("{}..{len}", digits(&bytes[..8])),
    }
}

fn component(component: Component<'_>) -> String {
    match component {
        Component::Null => "null".to_owned(),
        Component::Value(value) => hex(value),
    }
}

fn deletion(d: &Deletion) -> String {
    match d.is_none() {
        true => "-".to_owned(),
        false => format!("{}@{}", d.timestamp, d.local_deletion_time),
    }
}

fn dump_row(out: &mut String, table: &TableSchema, what: &str, row: &Row) {
    let clustering: Vec<String> = row.clustering.iter().map(component).collect();
    write!(out, "  {what} [{}]", clustering.join(" ")).unwrap();
    if !row.liveness.is_none() {
        write!(out, " live {}", row.liveness.timestamp).unwrap();
        if row.liveness.is_expiring() {
            write!(out, " ttl {} until {}", row.liveness.ttl, row.liveness.local_expiration_time).unwrap();
        }
    }
    if !row.deletion.is_none() {
        write!(out, " deleted {}", deletion(&row.deletion)).unwrap();
    }
    out.push('\n');
    for def in table.static_columns().iter().chain(table.regular_columns()) {
        let gone = row.complex_deletion(def.id);
        if !gone.is_none() {
            writeln!(out, "    {} deleted {}", def.name, deletion(&gone)).unwrap();
        }
        for cell in row.cells_of(def.id) {
            write!(out, "    {}[{}] = {} @{}", def.name, hex(&cell.path), hex(&cell.value), cell.timestamp)
                .unwrap();
            if cell.is_expiring() {
                write!(out, " ttl {}", cell.ttl).unwrap();
            }
            if cell.local_deletion_time != NO_DELETION_TIME {
                write!(out, " until {}", cell.local_deletion_time).unwrap();
            }
            out.push('\n');
        }
    }
}

/// Where covered clusterings start or end; the lists of older versions always include their values.
fn edge(bound: &ClusteringBound) -> String {
    let values: Vec<String> = bound.prefix.iter().map(component).collect();
    let kind = match bound.kind {
        BoundKind::InclStart | BoundKind::InclEnd => String::new(),
        kind => format!("{kind:?}"),
    };
    format!("{kind}[{}]", values.join(" "))
}

pub fn dump(table: &TableSchema, partitions: &[Partition]) -> String {
    let mut out = String::new();
    for partition in partitions {
        writeln!(out, "{} {}", hex(&partition.key.key.0), deletion(&partition.deletion)).unwrap();
        if let Some(row) = &partition.static_row {
            dump_row(&mut out, table, "static", row);
        }
        for item in &partition.items {
            match item {
                Item::Row(row) => dump_row(&mut out, table, "row", row),
                Item::Change(change) => {
                    let prefix: Vec<String> = (0..change.position.prefix.len())
                        .filter_map(|i| change.position.prefix.value(i))
                        .map(hex)
                        .collect();
                    let side = change.position.kind;
                    writeln!(out, "  {side:?} [{}] {}", prefix.join(" "), deletion(&change.deletion))
                        .unwrap();
                }
            }
        }
    }
    out
}

pub fn read_all(
    sstable: &Arc<SsTable>,
    table: &Arc<TableSchema>,
    filter: &ClusteringFilter,
) -> Vec<Partition> {
    let mut scan = sstable.scan(&KeyRange::FULL, filter, &all(table), table, &context()).unwrap();
    collect(&mut scan, table, filter.is_reversed()).unwrap()
}

fn compare(version: &str, name: &str) {
    let directory = testdata().join(version).join(name);
    let mut text = String::new();
    for sstable in open_all(&directory) {
        let table = table_of(sstable.header());
        let forward = read_all(&sstable, &table, &ClusteringFilter::all());
        text.push_str(&dump(&table, &forward));
        let stats = sstable.stats();
        writeln!(
            text,
            "timestamps {}..{} deletions {}..{} ttls {}..{} rows {} columns {} clustering {}..{}",
            stats.min_timestamp,
            stats.max_timestamp,
            stats.min_local_deletion_time,
            stats.max_local_deletion_time,
            stats.min_ttl,
            stats.max_ttl,
            stats.total_rows,
            stats.total_columns_set,
            edge(&stats.covered_clusterings.start),
            edge(&stats.covered_clusterings.end),
        )
        .unwrap();
        let mut rng = Rng::new(5);
        let backward = ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed: true };
        let reversed = read_all(&sstable, &table, &backward);
        for (expected, found) in forward.iter().zip(&reversed) {
            check(&table, expected, &backward, found, &mut rng);
        }
        for partition in &forward {
            assert!(sstable.may_contain(&partition.key));
            for reversed in [false, true] {
                let rows: Vec<_> = partition
                    .items
                    .iter()
                    .filter_map(|item| match item {
                        Item::Row(row) => Some(row.clustering.clone()),
                        Item::Change(_) => None,
                    })
                    .collect();
                for name in rows.iter().step_by(7) {
                    let filter = ClusteringFilter::Names { names: vec![name.clone()], reversed };
                    let stream =
                        sstable.read(&partition.key, &filter, &all(&table), &table, &context()).unwrap();
                    let found = collect(&mut stream.unwrap(), &table, reversed).unwrap();
                    check(&table, partition, &filter, &found[0], &mut rng);
                }
            }
        }
        rewritten_is_the_same(&table, &forward, &sstable);
    }
    let golden = directory.join("rows.txt");
    if std::env::var_os("REWRITE").is_some() {
        DiskFileSystem.write(&golden, text.as_bytes()).unwrap();
    }
    let expected = DiskFileSystem.read_to_string(&golden).unwrap();
    assert_eq!(text, expected, "{}", golden.display());
}

/// What we write from what was read holds the same, and our statistics agree with Cassandra's.
fn rewritten_is_the_same(table: &Arc<TableSchema>, partitions: &[Partition], theirs: &SsTable) {
    let fs = memory();
    let version = theirs.descriptor().version;
    let version = if version.is_written() { version } else { Version::NB };
    let mut options = options(partitions, None, 4096);
    options.encoding_stats = theirs.header().stats;
    write_version(&fs, table, partitions, options, version).unwrap();
    let sstable = open_version(&fs, version).unwrap();
    let cardinality = |fs: &dyn FileSystem, sstable: &SsTable| {
        Statistics::read(fs, sstable.descriptor()).unwrap().cardinality.unwrap()
    };
    assert_eq!(cardinality(fs.as_ref(), &sstable), cardinality(&DiskFileSystem, theirs));
    let theirs = theirs.stats();
    assert_eq!(read_all(&sstable, table, &ClusteringFilter::all()), partitions);
    let ours = sstable.stats();
    let of = |s: &crate::statistics::Stats| {
        (
            (s.min_timestamp, s.max_timestamp, s.min_local_deletion_time, s.max_local_deletion_time),
            (s.min_ttl, s.max_ttl, s.total_rows, s.total_columns_set, s.has_legacy_counter_shards),
        )
    };
    assert_eq!(of(ours), of(theirs));
    assert_eq!(ours.tombstones, theirs.tombstones);
    if version.has_covered_slice() {
        assert_eq!(ours.covered_clusterings, theirs.covered_clusterings);
        assert_eq!(ours.has_partition_deletions, theirs.has_partition_deletions);
        assert!(ours.key_range.is_some() && ours.key_range == theirs.key_range);
    }
    // Releases differ in the number of buckets, not in their limits.
    let used = |h: &EstimatedHistogram| h.buckets().filter(|(_, n)| *n > 0).collect::<Vec<_>>();
    assert_eq!(used(&ours.partition_sizes), used(&theirs.partition_sizes));
    assert_eq!(used(&ours.cells_per_partition), used(&theirs.cells_per_partition));
}

macro_rules! golden {
    ($($test:ident: $version:literal $name:literal;)*) => {
        $(#[test] fn $test() { compare($version, $name); })*
    };
}

golden! {
    wide_partitions_of_5_0: "5.0.5" "wide";
    all_types_of_5_0: "5.0.5" "kinds";
    counters_of_5_0: "5.0.5" "counters";
    deflated_of_5_0: "5.0.5" "deflated";
    snappy_of_5_0: "5.0.5" "snappy";
    wide_partitions_of_4_1: "4.1.10" "wide";
    all_types_of_4_1: "4.1.10" "kinds";
    counters_of_4_1: "4.1.10" "counters";
    deflated_of_4_1: "4.1.10" "deflated";
    snappy_of_4_1: "4.1.10" "snappy";
    wide_partitions_of_5_0_oa: "5.0.5-none" "wide";
    all_types_of_5_0_oa: "5.0.5-none" "kinds";
    counters_of_5_0_oa: "5.0.5-none" "counters";
    deflated_of_5_0_oa: "5.0.5-none" "deflated";
    snappy_of_5_0_oa: "5.0.5-none" "snappy";
    wide_partitions_of_3_11_10_md: "3.11.10" "wide";
    all_types_of_3_11_10_md: "3.11.10" "kinds";
    counters_of_3_11_10_md: "3.11.10" "counters";
    wide_partitions_of_3_11: "3.11.19" "wide";
    all_types_of_3_11: "3.11.19" "kinds";
    counters_of_3_11: "3.11.19" "counters";
    deflated_of_3_11: "3.11.19" "deflated";
    snappy_of_3_11: "3.11.19" "snappy";
    wide_partitions_of_5_0_da: "5.0.5-bti" "wide";
    all_types_of_5_0_da: "5.0.5-bti" "kinds";
    counters_of_5_0_da: "5.0.5-bti" "counters";
    deflated_of_5_0_da: "5.0.5-bti" "deflated";
    snappy_of_5_0_da: "5.0.5-bti" "snappy";
    static_compact_tables_of_3_11: "3.11.19" "fixed";
    dense_tables_of_3_11: "3.11.19" "dense";
    dense_tables_without_values_of_3_11: "3.11.19" "marks";
    dense_tables_of_two_clusterings_of_3_11: "3.11.19" "pairs";
    compact_counters_of_3_11: "3.11.19" "sums";
    empty_components_and_values_of_3_11: "3.11.19" "empties";
}

/// Rewrites the fixtures of 5.0 into `$SSTABLE_OUT/<table>/`, each with another compressor, for Cassandra's
/// own tools to read. `SSTABLE_VERSION=oa` writes that version instead of `nb`.
#[test]
#[ignore = "makes files for people and for the conformance suite"]
fn rewrite_for_cassandra() {
    let out = PathBuf::from(std::env::var_os("SSTABLE_OUT").unwrap());
    let is_oa = std::env::var_os("SSTABLE_VERSION").is_some_and(|version| version == "oa");
    let version = if is_oa { Version::OA } else { Version::NB };
    let compressors = [
        ("wide", Some(Compressor::Snappy)),
        ("kinds", Some(Compressor::Lz4)),
        ("counters", None),
        ("deflated", Some(Compressor::Zstd { level: 3 })),
        ("snappy", Some(Compressor::Deflate)),
    ];
    let fs: Arc<dyn FileSystem> = Arc::new(DiskFileSystem);
    for (name, compressor) in compressors {
        let sstable = open_all(&testdata().join("5.0.5").join(name)).remove(0);
        let table = table_of(sstable.header());
        let partitions = read_all(&sstable, &table, &ClusteringFilter::all());
        let compression =
            compressor.map(|compressor| CompressionParams { compressor, ..CompressionParams::lz4() });
        let mut options = options(&partitions, compression, 4096);
        options.min_index_interval = 128;
        let directory = out.join(name);
        fs.create_dir_all(&directory).unwrap();
        let descriptor = Descriptor::new(directory, SsTableId::Sequence(1), version);
        let mut writer = SsTableWriter::new(fs.clone(), descriptor, table, options).unwrap();
        partitions.iter().for_each(|p| p.append_to(&mut writer));
        writer.finish().unwrap();
    }
}

/// Mutations from the commit log of a 5.0.5 node that ran `make.py`: what we decode encodes to the same
/// bytes.
#[test]
fn mutations_of_a_commit_log_encode_as_they_were() {
    let text = DiskFileSystem.read_to_string(&testdata().join("5.0.5/mutations.txt")).unwrap();
    let mut tables: HashMap<Uuid, Arc<TableSchema>> = HashMap::new();
    let mut count = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["table", name, id] => {
                let sstable = open_all(&testdata().join("5.0.5").join(name)).remove(0);
                let id = Uuid::parse_str(id).unwrap();
                tables.insert(id, table_with_id(sstable.header(), id));
            }
            ["mutation", hex] => {
                let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digit).collect();
                let mutation =
                    decode_mutation(&bytes, DeletionTimes::Signed, &|id| tables.get(&id).cloned()).unwrap();
                let mut again = Vec::new();
                encode_mutation(&mutation, DeletionTimes::Signed, &mut again).unwrap();
                assert_eq!(again, bytes, "{mutation:?}");
                count += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(count, 24);
}
