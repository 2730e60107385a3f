//! Scans that go on behind damage: every row is a true one, and sound partitions are whole.

use super::damage::copied;
use super::running::engine_on;
use super::values::Shown;
use super::{rows_of, rows_of_batch};
use crate::export::{ExportOptions, Format, MANIFEST, Manifest, NoProgress, export};
use crate::{Batches, Loss, ScanOptions, ScanRequest, Source, Split};
use bytes::Bytes;
use engine::{Engine, WriteOptions};
use env::Env;
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::key::{KeyBound, KeyRange};
use model::{
    Cell, Clustering, CqlType, DecoratedKey, Deletion, Liveness, Mutation, PartitionKey, PartitionUpdate,
    Row, TableSchema,
};
use partition::{Event, Fragment, ReadContext};
use sstable::{
    Component, Descriptor, SsTable, SsTableId, SsTableWriter, Uncached, Version, WriterOptions, descriptor,
    table_of_header,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

const NOW_S: u32 = 1_700_000_000;
const PARTITIONS: i32 = 300;
const CHUNK_BYTES: u64 = 16 << 10;

fn table() -> Arc<TableSchema> {
    let builder = TableSchema::builder("ks", "t", Uuid::from_u128(9)).partition_key("k", CqlType::Int);
    let builder = builder.clustering("c", CqlType::Int, false).static_column("s", CqlType::Int);
    Arc::new(builder.regular("v", CqlType::Blob).build())
}

fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

/// Three SSTables that share partitions, and delete of each other.
fn world(version: Version) -> (Arc<dyn FileSystem>, Vec<Descriptor>, Arc<TableSchema>) {
    let (table, random) = (table(), Random::from_seed(4));
    let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
    let directory = Path::new("/data/ks/t");
    fs.create_dir_all(directory).unwrap();
    let mut keys: Vec<i32> = (0..PARTITIONS).collect();
    keys.sort_by_key(|k| key(*k));
    let (s, v) = (table.column("s").unwrap().id, table.column("v").unwrap().id);
    for number in 0..3 {
        let descriptor = Descriptor::new(directory, SsTableId::Sequence(number as u64 + 1), version);
        let options = WriterOptions { estimated_partitions: 300, ..WriterOptions::of_table(&table).unwrap() };
        let mut writer =
            SsTableWriter::new(Arc::clone(&fs), descriptor, Arc::clone(&table), options).unwrap();
        let mut fragment = Fragment::default();
        for k in keys.iter().filter(|k| *k % 3 != number) {
            let timestamp = 5 + i64::from(number);
            fragment.key = key(*k);
            fragment.deletion = match (number, k % 10) {
                (2, 0) => Deletion::new(6, NOW_S - 9),
                _ => Deletion::NONE,
            };
            writer.append(Event::PartitionStart, &fragment).unwrap();
            fragment.row = Row::new(Clustering::empty());
            fragment.row.cells.push(Cell::live(s, timestamp, Bytes::copy_from_slice(&k.to_be_bytes())));
            writer.append(Event::StaticRow, &fragment).unwrap();
            for c in 0..random.below(if k % 50 == 7 { 90 } else { 9 }) as i32 {
                let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
                if (c + k) % 7 == number {
                    row.deletion = Deletion::new(timestamp, NOW_S - 9);
                } else {
                    row.liveness = Liveness::new(timestamp);
                    let value: Vec<u8> = (0..500).map(|_| random.below(256) as u8).collect();
                    row.cells.push(Cell::live(v, timestamp, Bytes::from(value)));
                }
                fragment.row = row;
                writer.append(Event::Row, &fragment).unwrap();
            }
            writer.append(Event::PartitionEnd, &fragment).unwrap();
        }
        writer.finish().unwrap();
    }
    let found = descriptor::live(fs.as_ref(), directory).unwrap();
    (fs, found, table)
}

fn request(table: &Arc<TableSchema>) -> ScanRequest {
    ScanRequest::of_table(table, None, NOW_S, ScanOptions::default()).unwrap()
}

/// What a scan finds that goes on behind damage.
fn saved(source: &Source, request: &ScanRequest, splits: &[Split]) -> (Vec<Vec<Shown>>, Vec<Loss>) {
    let (mut rows, mut losses) = (Vec::new(), Vec::new());
    let request = &request.clone().salvaging();
    for split in splits {
        let mut scan = source.scan(request, split);
        scan.by_ref().for_each(|batch| rows_of_batch(request, &batch.unwrap(), &mut rows));
        losses.extend_from_slice(scan.losses());
    }
    (rows, losses)
}

type Around = (Vec<i32>, Option<i32>, Option<i32>);

/// Partitions of an SSTable that have something in a chunk, the one before them, and the one behind them.
fn partitions_in(sstable: &Arc<SsTable>, table: &Arc<TableSchema>, chunk: u64) -> Around {
    let position = |k: i32, inclusive| {
        let range = KeyRange { start: KeyBound::Key { key: key(k), inclusive }, end: KeyBound::Unbounded };
        let found = sstable.position_of(&range, table, &ReadContext::default()).unwrap();
        found.unwrap_or_else(|| sstable.data_bytes())
    };
    let (from, to) = (chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES);
    let mut keys: Vec<i32> = (0..PARTITIONS).collect();
    keys.sort_by_key(|k| key(*k));
    keys.retain(|k| position(*k, true) < position(*k, false));
    let inside: Vec<i32> =
        keys.iter().copied().filter(|k| position(*k, true) < to && position(*k, false) > from).collect();
    let before = keys.iter().copied().rfind(|k| position(*k, false) <= from);
    let behind = keys.iter().copied().find(|k| position(*k, true) >= to);
    (inside, before, behind)
}

/// Those of `keys` that may be left out for damage of a chunk.
fn lost_with(
    sstable: &Arc<SsTable>,
    table: &Arc<TableSchema>,
    chunk: u64,
    keys: Range<i32>,
) -> BTreeSet<i32> {
    let (inside, before, behind) = partitions_in(sstable, table, chunk);
    let mut lost: BTreeSet<i32> = inside.into_iter().collect();
    if sstable.descriptor().version == Version::DA {
        // Keys are in the data alone: nobody can tell where between those around them they are.
        let (before, behind) = (before.map(key), behind.map(key));
        let is_unknown = |k: &i32| {
            before.as_ref().is_none_or(|before| key(*k) > *before)
                && behind.as_ref().is_none_or(|behind| key(*k) < *behind)
        };
        lost.extend(keys.filter(is_unknown));
    }
    lost
}

/// Damages a chunk of a data file; the result is the file as it was.
fn damage(fs: &dyn FileSystem, descriptor: &Descriptor, chunk: u64, chunks: u64) -> Vec<u8> {
    let info = fs.read(&descriptor.path(Component::CompressionInfo)).unwrap();
    let offsets = &info[info.len() - 8 * chunks as usize..];
    let at = offsets.chunks(8).nth(chunk as usize).unwrap();
    let data = descriptor.path(Component::Data);
    let sound = fs.read(&data).unwrap();
    let mut bytes = sound.clone();
    bytes[u64::from_be_bytes(at.try_into().unwrap()) as usize + 5] ^= 0x40;
    fs.write(&data, &bytes).unwrap();
    sound
}

#[test]
fn sound_partitions_are_whole_and_every_row_is_true() {
    for version in [Version::NB, Version::OA, Version::DA] {
        let (fs, found, table) = world(version);
        let request = request(&table);
        let open = || Source::of_sstables(&fs, &found, &table).unwrap();
        let truth = rows_of(&open(), &request, &[Split::FULL]);
        let number_of = |row: &Vec<Shown>| row[0].as_ref().unwrap().parse::<i32>().unwrap();
        let mut tried = 0;
        for descriptor in &found {
            let sstable = Arc::new(SsTable::open(fs.as_ref(), descriptor, 0, Arc::new(Uncached)).unwrap());
            let chunks = sstable.data_bytes().div_ceil(CHUNK_BYTES);
            let data = descriptor.path(Component::Data);
            for chunk in (0..chunks).step_by(5) {
                let lost = lost_with(&sstable, &table, chunk, 0..PARTITIONS);
                let before = damage(fs.as_ref(), descriptor, chunk, chunks);
                let source = open();
                let whole = [Split::FULL];
                let at = key(17).token.0;
                let halves =
                    [Split { through: Some(at), ..Split::FULL }, Split { after: Some(at), ..Split::FULL }];
                for splits in [&whole[..], &halves[..]] {
                    let what = format!("{version:?} {descriptor} chunk {chunk}, {} splits", splits.len());
                    let (rows, losses) = saved(&source, &request, splits);
                    let mut left = truth.iter();
                    assert!(
                        rows.iter().all(|row| left.any(|other| other == row)),
                        "{what}: a row that is not"
                    );
                    let sound = |rows: &[Vec<Shown>]| -> Vec<Vec<Shown>> {
                        rows.iter().filter(|row| !lost.contains(&number_of(row))).cloned().collect()
                    };
                    let (rows, expected) = (sound(&rows), sound(&truth));
                    let missing = expected.iter().find(|row| !rows.contains(row));
                    assert!(rows == expected, "{what}: {missing:?} is missing of {lost:?}; {losses:?}");
                    assert!(!losses.is_empty(), "{what}");
                    assert!(losses.iter().all(|loss| loss.file == *sstable.data_name().as_ref()));
                }
                // As before, where nobody asks for it.
                assert!(open().scan(&request, &Split::FULL).any(|batch| batch.is_err()));
                fs.write(&data, &before).unwrap();
                tried += 1;
            }
        }
        assert!(tried > 15, "{tried}");
    }
}

#[test]
fn rows_that_come_of_damaged_fixtures_are_true() {
    for name in ["5.0.5-da/mix_lz4", "5.0.5-nb/mix_plain", "3.11.19-me/collections", "5.0.5-oa/kinds"] {
        let (fs, directory) = copied(name);
        let found = descriptor::live(fs.as_ref(), &directory).unwrap();
        let header = SsTable::open(fs.as_ref(), &found[0], 0, Arc::new(Uncached)).unwrap();
        let table = Arc::new(table_of_header(header.header()).unwrap());
        let request = request(&table);
        let truth = rows_of(&Source::of_sstables(&fs, &found, &table).unwrap(), &request, &[Split::FULL]);
        let data = found[0].path(Component::Data);
        let sound = fs.read(&data).unwrap();
        let mut met = 0;
        for at in (0..sound.len()).step_by(sound.len() / 30 + 1) {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x40;
            fs.write(&data, &bytes).unwrap();
            let Ok(source) = Source::of_sstables(&fs, &found, &table) else { continue };
            let (rows, losses) = saved(&source, &request, &[Split::FULL]);
            let mut left = truth.iter();
            assert!(rows.iter().all(|row| left.any(|other| other == row)), "{name} at {at}");
            assert!(rows.len() == truth.len() || !losses.is_empty(), "{name} at {at}");
            met += usize::from(!losses.is_empty());
        }
        assert!(met > 15, "{name}: {met}");
    }
}

#[test]
fn an_export_of_what_is_sound_says_what_is_not() {
    let (fs, found, table) = world(Version::NB);
    let data = found[1].path(Component::Data);
    let mut bytes = fs.read(&data).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs.write(&data, &bytes).unwrap();
    let source = Source::of_sstables(&fs, &found, &table).unwrap();
    let env = Env::for_test(1).with_fs(Arc::clone(&fs));
    let options = ExportOptions {
        directory: PathBuf::from("/out"),
        format: Format::Parquet,
        compression: Format::Parquet.default_compression(),
        threads: 1,
    };
    let of = |source: &Source| -> Arc<dyn crate::Table> { Arc::new(source.clone()) };
    let run = |request| export(&env, &of(&source), &request, &[], &options, Arc::new(NoProgress));
    assert!(run(request(&table)).unwrap_err().to_string().contains("is corrupt at offset"));
    let summary = run(request(&table).salvaging()).unwrap();
    assert!(!summary.losses.is_empty());
    for loss in &summary.losses {
        let said = loss.to_string();
        assert!(said.contains("-Data.db is corrupt at offset") && said.contains("left out: "), "{said}");
        assert!(loss.bytes.is_some_and(|bytes| bytes > 0), "{loss:?}");
    }
    let manifest = Manifest::read(fs.as_ref(), &options.directory.join(MANIFEST)).unwrap().unwrap();
    assert!(manifest.is_complete);
    assert_eq!(manifest.files[0].losses, summary.losses);
    // The same again says the same.
    assert_eq!(run(request(&table).salvaging()).unwrap().losses, summary.losses);
}

#[test]
fn what_a_node_found_damaged_is_compared_before_it_is_exported() {
    let (fs, found, table) = world(Version::DA);
    let request = request(&table);
    let open = || Source::of_sstables(&fs, &found, &table).unwrap();
    let is_sound = |source: &Source| source.scan(&request, &Split::FULL).all(|batch| batch.is_ok());
    let truth = rows_of(&open(), &request, &[Split::FULL]);
    // As a Cassandra wrote it.
    fs.remove_file(&found[1].path(Component::Proof)).unwrap();
    let sstable = SsTable::open(fs.as_ref(), &found[1], 0, Arc::new(Uncached)).unwrap();
    let sound = damage(fs.as_ref(), &found[1], 3, sstable.data_bytes().div_ceil(CHUNK_BYTES));
    sstable.prove(&fs, None, &mut |_| true).unwrap_err();
    let mark = sstable.mark_of_damage(fs.as_ref()).unwrap().unwrap();
    sstable.keep_proof(fs.as_ref(), &mark).unwrap();

    let source = open();
    assert!(!is_sound(&source));
    let (rows, losses) = saved(&source, &request, &[Split::FULL]);
    assert!(!losses.is_empty() && truth.len() / 2 < rows.len() && rows.len() < truth.len());
    assert!(rows.iter().all(|row| truth.contains(row)));
    // In its parts as well, wherever they end.
    let splits = source.splits(&request.clone().salvaging(), 8).unwrap();
    assert_eq!(saved(&source, &request, &splits).0, rows);

    fs.write(&found[1].path(Component::Data), &sound).unwrap();
    assert_eq!(rows_of(&open(), &request, &[Split::FULL]), truth);
}

/// Partitions of a running node that are in SSTables, and those that are in memory alone.
const STORED: Range<i32> = 0..200;
const IN_MEMORY: Range<i32> = 1_000..1_030;

/// Writes a row with a value that nothing compresses, or deletes the partition.
fn write(engine: &Engine, table: &Arc<TableSchema>, k: i32, c: Option<i32>, timestamp: i64) {
    let mut update = PartitionUpdate::new(Arc::clone(table), key(k));
    match c {
        None => update.deletion = Deletion::new(timestamp, NOW_S - 9),
        Some(c) => {
            let random = Random::from_seed((k * 1_000 + c) as u64);
            let value: Vec<u8> = (0..400).map(|_| random.below(256) as u8).collect();
            let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
            row.liveness = Liveness::new(timestamp);
            row.cells.push(Cell::live(table.column("v").unwrap().id, timestamp, Bytes::from(value)));
            update.rows.push(row);
        }
    }
    let _ = engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap();
}

/// A node whose oldest writes are in an SSTable, of which a chunk may be damaged, and the newer ones in
/// memory: rows, deletions, and partitions of their own. The SSTable as it was is returned, too.
fn node(table: &Arc<TableSchema>, chunk: Option<u64>) -> (Arc<Engine>, Arc<SsTable>) {
    let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
    let engine = engine_on(Arc::clone(&fs), table);
    for k in STORED {
        (0..6).for_each(|c| write(&engine, table, k, Some(c), 10));
    }
    engine.flush("ks", None).unwrap();
    let found = engine.table(table.id).unwrap().view().sstables[0].descriptor().clone();
    engine.close();
    drop(engine);
    let sstable = Arc::new(SsTable::open(fs.as_ref(), &found, 0, Arc::new(Uncached)).unwrap());
    if let Some(chunk) = chunk {
        damage(fs.as_ref(), &found, chunk, sstable.data_bytes().div_ceil(CHUNK_BYTES));
    }
    let engine = engine_on(fs, table);
    for k in STORED {
        write(&engine, table, k, Some(500), 20);
        match k % 4 {
            0 => write(&engine, table, k, None, 15),
            1 => write(&engine, table, k, Some(2), 20),
            _ => {}
        }
    }
    for k in IN_MEMORY {
        write(&engine, table, k, Some(1), 20);
    }
    (engine, sstable)
}

#[test]
fn what_is_in_memory_is_merged_around_damage() {
    let table = table();
    let number_of = |row: &Vec<Shown>| row[0].as_ref().unwrap().parse::<i32>().unwrap();
    let run = |engine: &Arc<Engine>| {
        let source = Source::of_node(engine.table(table.id).unwrap().hold());
        let request = request(source.table());
        let splits = source.splits(&request, 3).unwrap();
        let is_sound = source.scan(&request, &Split::FULL).all(|batch| batch.is_ok());
        (saved(&source, &request, &splits), is_sound)
    };
    let (engine, sstable) = node(&table, None);
    let ((truth, losses), is_sound) = run(&engine);
    assert!(losses.is_empty() && is_sound && truth.len() > 900, "{}", truth.len());
    let chunks = sstable.data_bytes().div_ceil(CHUNK_BYTES);
    assert!(chunks > 9, "{chunks}");
    for chunk in [0, chunks / 2, chunks - 1] {
        let lost = lost_with(&sstable, &table, chunk, 0..IN_MEMORY.end);
        let (engine, _) = node(&table, Some(chunk));
        let ((rows, losses), is_sound) = run(&engine);
        assert!(!losses.is_empty() && !is_sound, "chunk {chunk}");
        let mut left = truth.iter();
        assert!(rows.iter().all(|row| left.any(|other| other == row)), "chunk {chunk}: a row that is not");
        let sound = |rows: &[Vec<Shown>]| -> Vec<Vec<Shown>> {
            rows.iter().filter(|row| !lost.contains(&number_of(row))).cloned().collect()
        };
        assert!(sound(&rows) == sound(&truth), "chunk {chunk}: {lost:?} {losses:?}");
        assert!(rows.len() < truth.len(), "chunk {chunk}");
    }
}
