//! Chunks that changed places inside one partition, whole and with their checksums. Rows are of one length,
//! so that the sizes by which they refer to each other fit wherever a chunk lies.

use super::damage::{Ask, Damage, short_asks};
use super::support::{Item, Partition, forget_proof, options, write_version};
use crate::checksum::ChunkCrcs;
use crate::compression::{CompressionParams, Compressor};
use crate::{Component, Version, WriterOptions};
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use model::command::ColumnSelection;
use model::{Cell, Clustering, CqlType, DecoratedKey, Deletion, Liveness, PartitionKey, Row, TableSchema};
use std::sync::Arc;

const CHUNK: u64 = 512;
const ROW: u64 = 64;
const ROWS: i32 = 44;

/// One partition; its rows take [`ROW`] bytes each. The first of them starts `phase` bytes behind where one
/// of a chunk's would.
fn equal_rows(version: Version, phase: usize) -> (Arc<TableSchema>, Partition) {
    let table = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1))
        .partition_key("k", CqlType::Blob)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Blob)
        .build();
    let v = table.column("v").unwrap().id;
    let rows = (0..ROWS).map(|c| {
        let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
        row.liveness = Liveness::new(7);
        row.cells.push(Cell::live(v, 7, vec![c as u8; ROW as usize - 11].into()));
        Item::Row(row)
    });
    // The length of the key and the deletion of the partition lie before its rows, too.
    let deletion = if version == Version::NB { 12 } else { 1 };
    let key = vec![1; ROW as usize - 2 - deletion + phase];
    let key = DecoratedKey::new(PartitionKey(key.into()));
    let partition = Partition { key, deletion: Deletion::NONE, static_row: None, items: rows.collect() };
    (Arc::new(table), partition)
}

/// Writes the partition in chunks of [`CHUNK`] bytes.
fn write_chunks(
    version: Version,
    compressed: bool,
    block: u64,
    phase: usize,
    asks: fn(&[Partition], &TableSchema) -> Vec<Ask>,
) -> Damage {
    let (table, partition) = equal_rows(version, phase);
    let partitions = [partition];
    let memory = MemoryFileSystem::new();
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let compression = compressed.then(|| CompressionParams {
        compressor: Compressor::Noop,
        chunk_len: CHUNK as u32,
        max_compressed_len: i32::MAX as u32,
        options: Default::default(),
    });
    // What has no proof is from others, whose blocks end anywhere.
    let options = WriterOptions { align_blocks: false, ..options(&partitions, compression, block) };
    let meta = write_version(&fs, &table, &partitions, options, version).unwrap();
    assert_eq!(meta.data_bytes, ROW + phase as u64 + ROW * ROWS as u64 + 1, "rows of another length");
    if !compressed {
        let data = fs.read(&meta.descriptor.path(Component::Data)).unwrap();
        write_crcs(&memory, &meta.descriptor.path(Component::Crc), &data);
    }
    let columns = ColumnSelection::all(&table);
    Damage::to(memory, meta.descriptor, table, columns, asks)
}

fn write_crcs(fs: &MemoryFileSystem, path: &std::path::Path, data: &[u8]) {
    let crcs = data.chunks(CHUNK as usize).map(crc32fast::hash).collect();
    fs.write(path, &ChunkCrcs { chunk_len: CHUNK as u32, crcs }.encode()).unwrap();
}

/// Swaps pairs of chunks that hold rows only, and asks; yields what was answered wrongly.
fn swap_all(mut damage: Damage, compressed: bool) -> Vec<String> {
    let stored = CHUNK as usize + if compressed { 4 } else { 0 };
    let path = damage.descriptor.path(Component::Data);
    let sound = damage.fs.read(&path).unwrap();
    let count = sound.len() / stored;
    for a in 1..count {
        for b in (a + 1..count).filter(|b| *b == a + 1 || (a * 3 + b) % 4 == 0) {
            let mut damaged = sound.clone();
            damaged[a * stored..(a + 1) * stored].copy_from_slice(&sound[b * stored..(b + 1) * stored]);
            damaged[b * stored..(b + 1) * stored].copy_from_slice(&sound[a * stored..(a + 1) * stored]);
            damage.fs.write(&path, &damaged).unwrap();
            if !compressed {
                write_crcs(&damage.fs, &damage.descriptor.path(Component::Crc), &damaged);
            }
            damage.ask_all(Component::Data, "swapped", &format!("chunks {a} and {b} swapped"));
        }
    }
    let seen: u64 = damage.tallies.values().map(|tally| tally.failed).sum();
    assert!(seen > 0 || !damage.wrong.is_empty());
    damage.wrong
}

/// Swaps chunks of files that have no proof of their places.
fn assert_found(block: u64, asks: fn(&[Partition], &TableSchema) -> Vec<Ask>) {
    for version in [Version::NB, Version::OA, Version::DA] {
        for compressed in [true, false] {
            for phase in [0, 20] {
                let damage = write_chunks(version, compressed, block, phase, asks);
                forget_proof(&damage.fs, version);
                let wrong = swap_all(damage, compressed);
                let first = wrong.first().map(|text| text.chars().take(600).collect::<String>());
                let what = format!("{version}, blocks of {block}, phase {phase}, compressed {compressed}");
                assert!(wrong.is_empty(), "{what}: {} wrong; {first:?}", wrong.len());
            }
        }
    }
}

#[test]
fn chunks_of_one_partition_that_changed_places_are_found() {
    for block in [128, CHUNK] {
        assert_found(block, |sound, _| short_asks(&sound[0]));
    }
}

/// Where the index of rows tells less than chunk from chunk, the order of those that are read tells.
#[test]
fn chunks_of_one_block_that_changed_places_are_found_by_reading_on() {
    fn asks(sound: &[Partition], _: &TableSchema) -> Vec<Ask> {
        let backwards = short_asks(&sound[0]).into_iter().filter(
            |ask| matches!(ask, Ask::Read { filter, .. } | Ask::First { filter, .. } if filter.is_reversed()),
        );
        [false, true].map(|reversed| Ask::Scan { reversed }).into_iter().chain(backwards).collect()
    }
    for block in [4 * CHUNK, 1 << 16] {
        assert_found(block, asks);
    }
}

/// Where there is a proof, the place of every chunk is known before a byte of it is believed, whatever is
/// read.
#[test]
fn chunks_that_changed_places_are_found_wherever_there_is_a_proof() {
    for version in [Version::NB, Version::OA, Version::DA] {
        for block in [128, 4 * CHUNK, 1 << 16] {
            let damage = write_chunks(version, true, block, 0, |sound, _| short_asks(&sound[0]));
            let wrong = swap_all(damage, true);
            assert!(wrong.is_empty(), "{version}, blocks of {block}: {} wrong", wrong.len());
        }
    }
}
