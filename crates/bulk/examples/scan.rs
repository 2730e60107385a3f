//! How fast SSTables become record batches.
//!
//! ```text
//! cargo run --release -p bulk --example scan -- make DIR [ROWS [ROWS_PER_PARTITION [SSTABLES]]]
//! cargo run --release -p bulk --example scan -- read DIR [COLUMNS [THREADS]]
//! ```
//! `make` writes a table of six text columns of 16 characters, with chunks of 16 KiB and LZ4: 5 million rows,
//! 10 a partition, in one SSTable unless it is told otherwise. Several SSTables overlap: each has every n-th
//! row of each partition. `read` scans it three times, with its first columns (0 counts rows), and says what
//! each run took. The files should be in the system's cache.

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
const REGULARS: [&str; 4] = ["a", "b", "c", "d"];

fn table() -> Arc<TableSchema> {
    let mut builder = TableSchema::builder("bench", "rows", Uuid::from_u128(1))
        .partition_key("k", CqlType::Text)
        .clustering("c0", CqlType::Text, false);
    for name in REGULARS {
        builder = builder.regular(name, CqlType::Text);
    }
    Arc::new(builder.build())
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

fn make(directory: &Path, rows: u64, per_partition: u64, sstables: u64) -> Outcome<()> {
    let table = table();
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
                let seed = (i as u64 * per_partition + row) * 8;
                let clustering = format!("{row:016}");
                let mut out = Row::new(Clustering::from_values([clustering.as_bytes()]));
                out.liveness = Liveness::new(1_600_000_000_000_000 + i as i64);
                for (at, column) in table.regular_columns().iter().enumerate() {
                    let value = Bytes::copy_from_slice(&text(seed + at as u64));
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

fn read(directory: &Path, columns: usize, threads: usize) -> Outcome<()> {
    let table = table();
    let descriptors = descriptor::live(&DiskFileSystem, directory)?;
    let source = Source::of_sstables(&DiskFileSystem, &descriptors, &table)?;
    let names: Vec<String> = table.select_star().iter().take(columns).map(|c| c.name.clone()).collect();
    let request = ScanRequest::of_table(&table, Some(&names), NOW_S, ScanOptions::default())?;
    let splits = Arc::new(source.splits(&request, 64)?);
    for _ in 0..3 {
        let (next, rows, cpu) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let shared = Arc::new((next, rows, cpu));
        let started = kernel_nanos();
        let mut tasks = Vec::new();
        for _ in 0..threads {
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
        let rows = shared.1.load(Ordering::Relaxed) as f64;
        let cpu = shared.2.load(Ordering::Relaxed) as f64 / 1e9;
        writeln!(
            std::io::stdout(),
            "{rows} rows, {columns} columns, {threads} threads: {seconds:.3} s, {:.2} M rows/s, {:.2} M rows/CPU s",
            rows / seconds / 1e6,
            rows / cpu / 1e6,
        )?;
    }
    Ok(())
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default: u64| args.get(i).map_or(Ok(default), |text| text.parse());
    match args.iter().map(String::as_str).take(2).collect::<Vec<_>>()[..] {
        ["make", directory] => {
            make(Path::new(directory), number(2, 5_000_000)?, number(3, 10)?, number(4, 1)?)
        }
        ["read", directory] => read(Path::new(directory), number(2, 6)? as usize, number(3, 1)? as usize),
        _ => Err("make DIR [ROWS [ROWS_PER_PARTITION [SSTABLES]]], or read DIR [COLUMNS [THREADS]]".into()),
    }
}
