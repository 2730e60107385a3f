//! How fast SSTables become record batches.
//!
//! ```text
//! cargo run --release -p bulk --example scan -- make DIR [NAME=NUMBER...]
//! cargo run --release -p bulk --example scan -- read DIR [NAME=NUMBER...]
//! ```
//! `make` writes a table of text columns, with chunks of 16 KiB and LZ4: a partition key, a clustering, and
//! `columns` more of `bytes` characters. It has `rows`, with `in_partition` of them in each partition, in so
//! many `sstables`. Several SSTables overlap: each has every n-th row of each partition. `read` is told the
//! `columns` too. It scans the table `rounds` times, with its first columns (`asked`; 0 counts rows), on so
//! many `threads`, and prints a line of JSON for each round. The files should be in the system's cache.

use bulk::{ScanOptions, ScanRequest, Source};
use bytes::Bytes;
use env::fs::FileSystem;
use env::fs::disk::DiskFileSystem;
use env::thread::{cpu_nanos, kernel_nanos};
use model::{Cell, Clustering, CqlType, DecoratedKey, Deletion, Liveness, PartitionKey, Row, TableSchema};
use partition::{Event, Fragment};
use sstable::{Descriptor, SsTableId, SsTableWriter, Version, WriterOptions, descriptor};
use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

type Outcome<T> = Result<T, Box<dyn Error>>;

const NOW_S: u32 = 1_700_000_000;
/// The table, and what is done with it.
struct Shape {
    rows: u64,
    in_partition: u64,
    sstables: u64,
    /// Regular columns.
    columns: u64,
    /// Characters of a value of theirs.
    bytes: u64,
    /// Columns that are read.
    asked: u64,
    threads: u64,
    rounds: u64,
}

impl Shape {
    fn parse(arguments: &[String]) -> Outcome<Shape> {
        let mut shape = Shape {
            rows: 5_000_000,
            in_partition: 10,
            sstables: 1,
            columns: 4,
            bytes: 16,
            asked: u64::MAX,
            threads: 1,
            rounds: 3,
        };
        for argument in arguments {
            let (name, number) = argument.split_once('=').ok_or("NAME=NUMBER is expected")?;
            let field = match name {
                "rows" => &mut shape.rows,
                "in_partition" => &mut shape.in_partition,
                "sstables" => &mut shape.sstables,
                "columns" => &mut shape.columns,
                "bytes" => &mut shape.bytes,
                "asked" => &mut shape.asked,
                "threads" => &mut shape.threads,
                "rounds" => &mut shape.rounds,
                _ => return Err(format!("there is no {name}").into()),
            };
            *field = number.parse()?;
        }
        Ok(shape)
    }

    fn table(&self) -> Arc<TableSchema> {
        let mut builder = TableSchema::builder("bench", "rows", Uuid::from_u128(1))
            .partition_key("k", CqlType::Text)
            .clustering("c", CqlType::Text, false);
        for i in 0..self.columns {
            builder = builder.regular(&format!("v{i:02}"), CqlType::Text);
        }
        Arc::new(builder.build())
    }
}

/// Sixteen characters that a number always gives.
fn text(seed: u64) -> [u8; 16] {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    std::array::from_fn(|_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        b"abcdefghijklmnopqrstuvwxyz012345"[(x >> 40) as usize % 32]
    })
}

/// So many characters that a number always gives.
fn value(seed: u64, bytes: u64) -> Bytes {
    let parts = (0..bytes.div_ceil(16)).flat_map(|part| text(seed ^ part.rotate_left(40)));
    parts.take(bytes as usize).collect()
}

fn make(directory: &Path, shape: &Shape) -> Outcome<()> {
    let Shape { rows, in_partition: per_partition, sstables, .. } = *shape;
    let table = shape.table();
    let fs: Arc<dyn FileSystem> = Arc::new(DiskFileSystem);
    fs.create_dir_all(directory)?;
    let mut keys: Vec<DecoratedKey> = (0..rows / per_partition)
        .map(|i| DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(&text(i)))))
        .collect();
    keys.sort();
    for n in 0..sstables {
        let descriptor = Descriptor::new(directory, SsTableId::Sequence(n + 1), Version::NB);
        let options =
            WriterOptions { estimated_partitions: keys.len() as u64, ..WriterOptions::of_table(&table)? };
        let mut writer = SsTableWriter::new(Arc::clone(&fs), descriptor, Arc::clone(&table), options)?;
        let mut fragment = Fragment::default();
        for (i, key) in keys.iter().enumerate() {
            (fragment.key, fragment.deletion) = (key.clone(), Deletion::NONE);
            writer.append(Event::PartitionStart, &fragment)?;
            for row in (n..per_partition).step_by(sstables as usize) {
                let seed = (i as u64 * per_partition + row) * 64;
                let clustering = format!("{row:016}");
                let mut out = Row::new(Clustering::from_values([clustering.as_bytes()]));
                out.liveness = Liveness::new(1_600_000_000_000_000 + i as i64);
                for (at, column) in table.regular_columns().iter().enumerate() {
                    let value = value(seed + at as u64, shape.bytes);
                    out.cells.push(Cell::live(column.id, out.liveness.timestamp, value));
                }
                fragment.row = out;
                writer.append(Event::Row, &fragment)?;
            }
            writer.append(Event::PartitionEnd, &fragment)?;
        }
        writer.finish()?;
    }
    Ok(())
}

fn read(directory: &Path, shape: &Shape) -> Outcome<()> {
    let table = shape.table();
    let descriptors = descriptor::live(&DiskFileSystem, directory)?;
    let disk: Arc<dyn FileSystem> = Arc::new(DiskFileSystem);
    let source = Source::of_sstables(&disk, &descriptors, &table)?;
    let asked = usize::try_from(shape.asked)?;
    let names: Vec<String> = table.select_star().iter().take(asked).map(|c| c.name.clone()).collect();
    let request = ScanRequest::of_table(&table, Some(&names), NOW_S, ScanOptions::default())?;
    let splits = Arc::new(source.splits(&request, 64)?);
    for _ in 0..shape.rounds {
        let (next, rows, cpu) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let shared = Arc::new((next, rows, cpu));
        let started = kernel_nanos();
        let mut tasks = Vec::new();
        for _ in 0..shape.threads {
            let (source, request) = (source.clone(), request.clone());
            let (splits, shared) = (Arc::clone(&splits), Arc::clone(&shared));
            tasks.push(env::tasks::Tasks::of_machine().spawn("scan", move || {
                let before = cpu_nanos();
                while let Some(split) = splits.get(shared.0.fetch_add(1, Ordering::Relaxed) as usize) {
                    for batch in source.scan(&request, split) {
                        let rows = batch.map_or(0, |batch| batch.num_rows() as u64);
                        shared.1.fetch_add(rows, Ordering::Relaxed);
                    }
                }
                shared.2.fetch_add(cpu_nanos() - before, Ordering::Relaxed);
            })?);
        }
        tasks.into_iter().for_each(|task| {
            task.join();
        });
        let seconds = (kernel_nanos() - started) as f64 / 1e9;
        let rows = shared.1.load(Ordering::Relaxed);
        let cpu_s = shared.2.load(Ordering::Relaxed) as f64 / 1e9;
        let peak_bytes = peak_bytes();
        writeln!(
            std::io::stdout(),
            r#"{{"rows": {rows}, "seconds": {seconds:.4}, "cpu_s": {cpu_s:.4}, "peak_bytes": {peak_bytes}}}"#
        )?;
    }
    Ok(())
}

/// The most memory that the process had, where the kernel tells.
#[allow(clippy::disallowed_methods, reason = "no file of a data directory")]
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_at_checked(2) {
        Some(([verb, directory], rest)) if verb == "make" => make(Path::new(directory), &Shape::parse(rest)?),
        Some(([verb, directory], rest)) if verb == "read" => read(Path::new(directory), &Shape::parse(rest)?),
        _ => Err("make DIR [NAME=NUMBER...], or read DIR [NAME=NUMBER...]".into()),
    }
}
