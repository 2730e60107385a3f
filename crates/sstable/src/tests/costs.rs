//! What reads of large partitions cost, to the page: `testdata/costs`, one file for each form of SSTable.
//! `REWRITE=1` writes them anew.
//!
//! A line has a read and its cost with nothing in the cache: calls to the disk, bytes, pages of the index and
//! chunks of the data. A read that is taken in many places has the most and the mean. "Warm" has the pages of
//! the index and the first chunk of the partition in the cache.
//!
//! An index of a partition of 100,000 rows in blocks of three has as many pages as one of millions of rows in
//! blocks of 4 KiB.

use super::reading::{cost_of, cost_of_first, from, names, number, numbered, open_with};
use super::support::{
    Item, Kept, Partition, all, collect, context, forget_proof, key, memory, options, write_version,
};
use crate::compression::CompressionParams;
use crate::{Adoption, FilePart, SsTable, Version, WriterOptions};
use env::fs::FileSystem;
use env::fs::disk::DiskFileSystem;
use model::command::ClusteringFilter;
use model::{ClusteringBound, DecoratedKey, Deletion, Slice, TableSchema};
use partition::CostSnapshot;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Places of a partition in which one row is read.
const PLACES: u64 = 100;

/// Blocks of files that Cassandra wrote.
const OF_CASSANDRA: u64 = 64 * KIB;

/// A partition in an SSTable behind a cache, and the report of what its reads cost.
struct Costs {
    table: Arc<TableSchema>,
    sstable: Arc<SsTable>,
    kept: Arc<Kept>,
    rows: u64,
    report: String,
}

impl Costs {
    fn new(rows: u64, value_bytes: usize, block: u64, compressed: bool, version: Version) -> Costs {
        let (table, partitions) = numbered(rows, value_bytes);
        let mut costs = Costs::of(table, &partitions, block, compressed, version);
        costs.report = format!("{rows} rows of {value_bytes} bytes, blocks of {block}\n");
        costs
    }

    /// The costs of the first partition.
    fn of(
        table: Arc<TableSchema>,
        partitions: &[Partition],
        block: u64,
        compressed: bool,
        version: Version,
    ) -> Costs {
        let compression = compressed.then(CompressionParams::lz4);
        Costs::with(table, partitions, options(partitions, compression, block), version)
    }

    fn with(
        table: Arc<TableSchema>,
        partitions: &[Partition],
        options: WriterOptions,
        version: Version,
    ) -> Costs {
        let (fs, block) = (memory(), options.column_index_bytes);
        write_version(&fs, &table, partitions, options, version).unwrap();
        if block == OF_CASSANDRA {
            forget_proof(fs.as_ref(), version);
        }
        let (sstable, kept) = open_with(&fs, version);
        Costs { table, sstable, kept, rows: partitions[0].items.len() as u64, report: String::new() }
    }

    /// The costs of a partition that another program wrote, once it was described here.
    fn described(rows: u64, value_bytes: usize, adoption: Adoption, version: Version) -> Costs {
        let (table, partitions) = numbered(rows, value_bytes);
        let fs = memory();
        let options = options(&partitions, Some(CompressionParams::lz4()), OF_CASSANDRA);
        write_version(&fs, &table, &partitions, options, version).unwrap();
        forget_proof(fs.as_ref(), version);
        let (sstable, kept) = open_with(&fs, version);
        super::adopted::adopt(&fs, &sstable, adoption);
        let report = format!("{rows} rows of {value_bytes} bytes, described\n");
        Costs { table, sstable, kept, rows, report }
    }

    fn put(&mut self, read: &str, costs: &[CostSnapshot]) {
        let figure = |of: &dyn Fn(&CostSnapshot) -> u64| {
            let most = costs.iter().map(of).max().unwrap();
            match costs.len() {
                1 => most.to_string(),
                n => format!("{most} ({:.2})", costs.iter().map(of).sum::<u64>() as f64 / n as f64),
            }
        };
        let calls = figure(&|c| c.ios);
        let bytes = figure(&|c| c.disk_bytes);
        let index = figure(&|c| c.index_page_hits + c.index_page_misses);
        let chunks = figure(&|c| c.chunk_hits + c.chunk_misses);
        writeln!(self.report, "  {read}: calls {calls}, bytes {bytes}, pages {index}, chunks {chunks}")
            .unwrap();
    }

    fn forget(&self, is_cold: bool) {
        self.kept.forget(|part, page| is_cold || part == FilePart::Data && page > 0);
    }

    /// One row in many places.
    fn rows(&mut self, is_cold: bool) -> Vec<CostSnapshot> {
        let places = (0..PLACES).map(|i| (i * self.rows / PLACES + i % 7).min(self.rows - 1));
        let read = |row| cost_of(&self.sstable, &self.table, &names([row], false), 1);
        if !is_cold {
            for row in places.clone() {
                read(row);
            }
        }
        let costs: Vec<_> = places
            .map(|row| {
                self.forget(is_cold);
                read(row)
            })
            .collect();
        self.put(if is_cold { "one row" } else { "one row, warm" }, &costs);
        costs
    }

    /// A hundred rows by name, from so many places.
    fn names(&mut self, places: u64) {
        let each = 100 / places;
        let rows = (0..places).flat_map(|i| (0..each).map(move |n| (i, n)));
        let rows = rows.map(|(i, n)| i * (self.rows / places) + n);
        self.forget(true);
        let cost = cost_of(&self.sstable, &self.table, &names(rows, false), (places * each) as usize);
        self.put(&format!("100 names in {places} places"), &[cost]);
    }

    /// Rows of a slice from each end and from within.
    fn slices(&mut self, count: u64) -> Vec<CostSnapshot> {
        let (middle, last) = (self.rows / 2, self.rows - count);
        let places = [
            ("no start", ClusteringFilter::all()),
            ("the second block", from(3, false)),
            ("the middle", from(middle, false)),
            ("the last rows", from(last, false)),
            ("the end, reversed", from(self.rows, true)),
            ("the middle, reversed", from(middle, true)),
        ];
        let mut costs = Vec::new();
        for (place, filter) in places {
            self.forget(true);
            let cost = cost_of_first(&self.sstable, &self.table, &filter, count);
            self.put(&format!("{count} rows from {place}"), &[cost]);
            costs.push(cost);
        }
        costs
    }

    /// Rows that are read and left out by turns: slices of one read.
    fn skips(&mut self, read: u64, skip: u64) {
        let slices = (0..20).map(|i| i * (read + skip)).map(|start| Slice {
            start: ClusteringBound::start_at(number(start)),
            end: ClusteringBound::end_at(number(start + read - 1)),
        });
        let filter = ClusteringFilter::Slices { slices: slices.collect(), reversed: false };
        self.forget(true);
        let cost = cost_of(&self.sstable, &self.table, &filter, 20 * read as usize);
        self.put(&format!("20 times {read} rows, {skip} left out"), &[cost]);
    }
}

/// Writes the reports of a form, or compares them.
fn check(form: &str, reports: &[Costs]) {
    let report: String = reports.iter().map(|costs| costs.report.as_str()).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/costs").join(format!("{form}.txt"));
    if std::env::var_os("REWRITE").is_some() {
        DiskFileSystem.write(&path, report.as_bytes()).unwrap();
    }
    let expected = DiskFileSystem.read_to_string(&path).unwrap();
    assert!(report == expected, "{} is now\n{report}", path.display());
}

const KIB: u64 = 1 << 10;

/// What one row of any partition may cost with nothing in the cache.
fn is_within_bar(cost: CostSnapshot) -> bool {
    cost.ios <= 4 && cost.disk_bytes <= 64 * KIB
}

/// Rows of 1 KiB in blocks as Ilion writes them at the start and in the middle of a huge partition, and as
/// Cassandra does.
fn long_rows(form: &str, compressed: bool, version: Version) {
    let reports = [4, 16, 64].map(|block| {
        let mut costs = Costs::new(12_000, 1 << 10, block * KIB, compressed, version);
        for cost in costs.rows(false) {
            // The chunk of the partition's head is the other one.
            assert!(cost.ios <= 1 && cost.index_page_misses == 0, "{cost:?}");
            assert!(block > 16 || cost.chunk_misses <= 2, "{cost:?}");
        }
        for cost in costs.rows(true) {
            // What was written here, or by Cassandra.
            assert!(if block > 16 { cost.ios <= 6 } else { is_within_bar(cost) }, "{cost:?}");
        }
        for count in [32, 256, 4_096] {
            for cost in costs.slices(count) {
                let returned = count * KIB;
                assert!(count < 4_096 || cost.disk_bytes * 5 <= returned * 6, "{cost:?}");
                assert!(cost.ios <= 10 + count / 100, "{cost:?}");
            }
        }
        for (read, skip) in [(1, 1), (1, 64), (64, 64), (1, 500), (64, 500)] {
            costs.skips(read, skip);
        }
        costs
    });
    check(form, &reports);
}

/// Short rows: what a read costs must not grow with its partition.
fn short_rows(form: &str, compressed: bool, version: Version) {
    let reports = [200, 10_000, 100_000].map(|rows| {
        let mut costs = Costs::new(rows, 25, 128, compressed, version);
        for cost in costs.rows(true) {
            assert!(is_within_bar(cost), "{cost:?}");
        }
        costs.slices(100);
        [1, 50, 100].into_iter().for_each(|places| costs.names(places));
        costs
    });
    check(form, &reports);
}

/// What another program wrote costs what it costs in files of Ilion, once it was described.
fn described_rows(form: &str, version: Version) {
    let short = Adoption { block_bytes: 128, bytes_for_one: 0, ..Adoption::default() };
    let mut reports = Vec::new();
    for (rows, value_bytes, adoption) in [(12_000, 1 << 10, Adoption::default()), (100_000, 25, short)] {
        let mut costs = Costs::described(rows, value_bytes, adoption, version);
        for cost in costs.rows(false) {
            // The row may lie across two chunks.
            assert!(cost.index_page_misses == 0 && cost.chunk_misses <= 2, "{cost:?}");
        }
        for cost in costs.rows(true) {
            assert!(is_within_bar(cost), "{cost:?}");
        }
        costs.slices(100);
        [1, 50, 100].into_iter().for_each(|places| costs.names(places));
        reports.push(costs);
    }
    check(form, &reports);
}

#[test]
fn described_rows_of_big() {
    described_rows("nb-described", Version::NB);
}

#[test]
fn described_rows_of_big_of_5_0() {
    described_rows("oa-described", Version::OA);
}

#[test]
fn described_rows_of_bti() {
    described_rows("da-described", Version::DA);
}

#[test]
fn long_rows_of_big() {
    long_rows("big-long-rows", true, Version::NB);
}

#[test]
fn long_rows_of_bti() {
    long_rows("bti-long-rows", true, Version::DA);
}

#[test]
fn long_rows_that_are_not_compressed() {
    long_rows("big-long-rows-plain", false, Version::NB);
}

#[test]
fn short_rows_of_big() {
    short_rows("big-short-rows", false, Version::NB);
}

#[test]
fn short_rows_of_bti() {
    short_rows("bti-short-rows", false, Version::DA);
}

/// Range deletions and the like make a search ask what is open where a block begins, which the block before
/// says.
#[test]
fn one_row_of_a_table_with_tombstones_is_within_the_bar() {
    for version in [Version::NB, Version::OA, Version::DA] {
        let (table, mut partitions) = numbered(6_000, 600);
        for item in partitions[0].items.iter_mut().skip(77).step_by(1_000) {
            let Item::Row(row) = item else { panic!("no row") };
            row.deletion = Deletion::new(4, 4);
        }
        let mut costs = Costs::of(table, &partitions, 4 * KIB, true, version);
        assert!(costs.sstable.may_have_tombstones());
        for cost in costs.rows(true) {
            assert!(is_within_bar(cost), "{version}: {cost:?}");
        }
    }
}

/// Partitions of one interval of the summary: huge ones in a row and apart, with small and middling ones
/// before and behind. Each entry of a huge one fills pages of Index.db.
#[test]
fn one_row_of_any_partition_of_an_interval_is_within_the_bar() {
    let (table, huge) = numbered(4_000, 25);
    let mut keys: Vec<_> = (0..100).map(key).collect();
    keys.sort();
    let rows = |n: usize| match n % 10 {
        1 | 4..=6 => 4_000,
        2 | 8 => 200,
        _ => 1,
    };
    let of = |(n, key): (usize, &DecoratedKey)| Partition {
        key: key.clone(),
        items: huge[0].items[..rows(n)].to_vec(),
        ..huge[0].clone()
    };
    let partitions: Vec<Partition> = keys.iter().enumerate().map(of).collect();
    for version in [Version::NB, Version::OA, Version::DA] {
        let fs = memory();
        let mut options = options(&partitions, Some(CompressionParams::lz4()), 128);
        options.min_index_interval = 128;
        write_version(&fs, &table, &partitions, options, version).unwrap();
        let (sstable, kept) = open_with(&fs, version);
        for (n, key) in keys.iter().enumerate() {
            for row in [0, rows(n) as u64 / 2, rows(n) as u64 - 1] {
                kept.forget(|_, _| true);
                let context = context();
                let name = names([row], false);
                let mut found = sstable.read(key, &name, &all(&table), &table, &context).unwrap().unwrap();
                assert_eq!(collect(&mut found, &table, false).unwrap()[0].items.len(), 1, "{version} {n}");
                drop(found);
                let cost = context.cost.snapshot();
                assert!(is_within_bar(cost), "{version}, partition {n} of {} rows: {cost:?}", rows(n));
            }
        }
    }
}

/// A search begins where a row would lie if all blocks were as long.
#[test]
fn one_row_of_a_partition_whose_blocks_became_longer_is_within_the_bar() {
    let short = numbered(60_000, 25);
    let long = numbered(12_000, 1 << 10);
    let lz4 = |chunk_len| CompressionParams { chunk_len, ..CompressionParams::lz4() };
    for version in [Version::NB, Version::OA] {
        for ((table, partitions), block, compression) in [
            (&short, 128, None),
            (&long, 4 * KIB, Some(lz4(4 << 10))),
            (&long, 4 * KIB, Some(lz4(8 << 10))),
            (&long, 4 * KIB, Some(lz4(16 << 10))),
        ] {
            let options = WriterOptions { blocks_max: 700, ..options(partitions, compression, block) };
            let mut costs = Costs::with(table.clone(), partitions, options, version);
            for cost in costs.rows(true) {
                assert!(is_within_bar(cost), "{version}, blocks of {block}: {cost:?}");
            }
        }
    }
}
