//! Entry points for fuzzing: each takes bytes from anywhere as one component of an SSTable whose other
//! components are sound, and reads all of it. None may panic, whatever the bytes.

use crate::big::samples::Sample;
use crate::bloom::BloomFilter;
use crate::checksum::{SEALED_BYTES, seal_page};
use crate::compression::{CompressionInfo, CompressionParams, Compressor};
use crate::descriptor::{Component, Descriptor, SsTableId, Version};
use crate::pages::{INDEX_PAGE_BYTES, Uncached};
use crate::proof::{self, PageSummer, Proof};
use crate::statistics::Statistics;
use crate::{Adoption, Proved, SsTable, SsTableWriter, WriterOptions, verify};
use bytes::Bytes;
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use model::command::{ClusteringFilter, ColumnSelection};
use model::elements::{ElementSelection, PathRange};
use model::key::{KeyRange, Token};
use model::{
    Cell, Clustering, ClusteringBound, CqlType, DecoratedKey, Deletion, Liveness, PartitionKey, Row, Slice,
    TableSchema,
};
use partition::codec::mutation::decode_mutation;
use partition::codec::{DeletionTimes, LONG_VALUE_BYTES};
use partition::{Event, Fragment, PartitionStream, RangeChange, ReadContext, ReadError};
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

const DIRECTORY: &str = "/fuzz";
const KEYS: u32 = 3;

pub(crate) fn table() -> Arc<TableSchema> {
    Arc::new(
        TableSchema::builder("ks", "t", Uuid::nil())
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, true)
            .clustering("d", CqlType::Text, false)
            .static_column("s", CqlType::Text)
            .regular("m", CqlType::map(CqlType::Int, CqlType::Text, true))
            .regular("v", CqlType::Int)
            .build(),
    )
}

fn key(i: u32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(&i.to_be_bytes())))
}

fn clustering(c: i32, d: &str) -> Clustering {
    Clustering::from_values([&c.to_be_bytes()[..], d.as_bytes()])
}

pub(crate) fn descriptor(version: Version) -> Descriptor {
    Descriptor::new(DIRECTORY, SsTableId::Sequence(1), version)
}

/// A small SSTable with everything that the format knows, but for long values.
fn sample(
    table: &Arc<TableSchema>,
    compression: Option<CompressionParams>,
    version: Version,
) -> Option<MemoryFileSystem> {
    sample_of(table, compression, version, Bytes::from_static(b"static"))
}

fn sample_of(
    table: &Arc<TableSchema>,
    compression: Option<CompressionParams>,
    version: Version,
    static_value: Bytes,
) -> Option<MemoryFileSystem> {
    let memory = MemoryFileSystem::new();
    memory.create_dir_all(Path::new(DIRECTORY)).ok()?;
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let options = WriterOptions {
        compression,
        column_index_bytes: 64,
        row_index_bytes: 64,
        min_index_interval: 2,
        estimated_partitions: KEYS as u64,
        ..WriterOptions::default()
    };
    let mut writer = SsTableWriter::new(fs, descriptor(version), Arc::clone(table), options).ok()?;
    let mut keys: Vec<DecoratedKey> = (0..KEYS).map(key).collect();
    keys.sort();
    let id = |name: &str| table.column(name).map(|c| c.id);
    let (s, m, v) = (id("s")?, id("m")?, id("v")?);
    let value = |text: &'static str| Bytes::from_static(text.as_bytes());
    let mut fragment = Fragment::default();
    for key in keys {
        fragment.key = key;
        fragment.deletion = Deletion::new(1, 2);
        writer.append(Event::PartitionStart, &fragment).ok()?;
        fragment.row = Row::default();
        fragment.row.cells.push(Cell::live(s, 5, static_value.clone()));
        writer.append(Event::StaticRow, &fragment).ok()?;
        for c in (0..10).rev() {
            let bound = ClusteringBound::start_at(Clustering::from_values([&i32::to_be_bytes(c)[..]]));
            let deletion = if c % 3 == 0 { Deletion::NONE } else { Deletion::new(3, c as u32) };
            fragment.change = RangeChange::at(bound, deletion);
            writer.append(Event::RangeChange, &fragment).ok()?;
            fragment.row = Row::new(clustering(c, "d"));
            fragment.row.liveness = Liveness::expiring(9, 20, 30);
            fragment.row.complex_deletions.push((m, Deletion::new(4, 4)));
            let path = Bytes::from_static(&[0, 0, 0, 7]);
            fragment.row.cells.push(Cell::expiring(m, 9, 20, 30, value("map")).with_path(path));
            fragment.row.cells.push(Cell::live(v, 9, Bytes::copy_from_slice(&i32::to_be_bytes(c))));
            writer.append(Event::Row, &fragment).ok()?;
        }
        writer.append(Event::PartitionEnd, &fragment).ok()?;
    }
    writer.finish().ok()?;
    Some(memory)
}

fn drain(stream: &mut dyn PartitionStream) -> Result<(), ReadError> {
    let mut fragment = Fragment::default();
    while stream.next(&mut fragment)? != Event::End {}
    Ok(())
}

/// The element of the map that the rows of the sample have.
fn an_element(table: &TableSchema) -> Option<ColumnSelection> {
    let column = table.column("m")?.id;
    let path = PathRange::of(Bytes::from_static(&[0, 0, 0, 7]));
    let elements = vec![ElementSelection::new(column, CqlType::Int, vec![path])];
    Some(ColumnSelection { elements: Some(Arc::new(elements)), ..ColumnSelection::of(vec![column]) })
}

/// Reads everything in every way; errors are what damaged files are expected to give.
fn read_everything(fs: &MemoryFileSystem, table: &Arc<TableSchema>, version: Version) {
    let Ok(sstable) = SsTable::open(fs, &descriptor(version), 1, Arc::new(Uncached)) else { return };
    let sstable = Arc::new(sstable);
    let columns =
        [Some(ColumnSelection::all(table)), Some(ColumnSelection::of(Vec::new())), an_element(table)];
    let slice = Slice {
        start: ClusteringBound::start_at(Clustering::from_values([&i32::to_be_bytes(6)[..]])),
        end: ClusteringBound::end_at(clustering(2, "d")),
    };
    let context = ReadContext::default();
    for reversed in [false, true] {
        for slices in [vec![Slice::ALL], vec![slice.clone()], vec![]] {
            let filter = ClusteringFilter::Slices { slices, reversed };
            for columns in columns.iter().flatten() {
                let scan = sstable.scan(&KeyRange::FULL, &filter, columns, table, &context);
                let _ = scan.and_then(|mut scan| drain(&mut scan));
                for i in 0..KEYS + 1 {
                    if let Ok(Some(mut stream)) = sstable.read(&key(i), &filter, columns, table, &context) {
                        let _ = drain(&mut stream);
                    }
                }
            }
        }
    }
}

fn with_component(component: Component, bytes: &[u8], compression: Option<CompressionParams>) {
    let versions: &[Version] = match component {
        Component::Partitions | Component::Rows => &[Version::DA],
        Component::Data | Component::Filter => &[Version::NB, Version::OA, Version::DA],
        Component::Index => &[Version::NB, Version::OA],
        _ => &[Version::NB],
    };
    let table = table();
    for version in versions {
        let Some(fs) = sample(&table, compression.clone(), *version) else { return };
        // Without checksums, so that the bytes reach the decoder.
        let _ = fs.remove_file(&descriptor(*version).path(Component::Proof));
        if component == Component::Data {
            let _ = fs.remove_file(&descriptor(*version).path(Component::Crc));
        }
        if fs.write(&descriptor(*version).path(component), bytes).is_ok() {
            read_everything(&fs, &table, *version);
        }
        let digest = crc32fast::hash(bytes).to_string();
        let digest_path = descriptor(*version).path(Component::Digest);
        if component == Component::Data && fs.write(&digest_path, digest.as_bytes()).is_ok() {
            adopt(&fs, *version);
            read_everything(&fs, &table, *version);
        }
    }
}

/// Statistics.db, and its parts without their checksums.
pub fn fuzz_statistics(bytes: &[u8]) {
    let bare = [Version::MA, Version::MB, Version::MC, Version::ME];
    for version in bare.into_iter().chain([Version::NA, Version::NB, Version::OA, Version::DA]) {
        let _ = Statistics::decode(Bytes::copy_from_slice(bytes), version);
    }
    Statistics::decode_parts_unchecked(bytes);
}

/// CompressionInfo.db.
pub fn fuzz_compression_info(bytes: &[u8]) {
    let _ = CompressionInfo::decode(Bytes::copy_from_slice(bytes), Version::ME);
    with_component(Component::CompressionInfo, bytes, Some(CompressionParams::lz4()));
}

/// Index.db.
pub fn fuzz_index_entry(bytes: &[u8]) {
    with_component(Component::Index, bytes, None);
}

/// Partitions.db.
pub fn fuzz_partitions(bytes: &[u8]) {
    with_component(Component::Partitions, bytes, None);
}

/// Rows.db.
pub fn fuzz_rows(bytes: &[u8]) {
    with_component(Component::Rows, bytes, None);
}

/// A sample with an outline.
fn outlined(table: &Arc<TableSchema>) -> Option<MemoryFileSystem> {
    sample_of(table, None, Version::NB, vec![7; LONG_VALUE_BYTES].into())
}

/// Outline.db: its pages without their checksums, the last of a Data.db that is not there. They are given
/// those that fit.
pub fn fuzz_outline(bytes: &[u8]) {
    let table = table();
    let Some(fs) = outlined(&table) else { return };
    let path = descriptor(Version::NB).path(Component::Outline);
    let Some(root) = fs.read(&path).ok().and_then(|sound| Some(*sound.last_chunk::<4096>()?)) else { return };
    let mut pages: Vec<Vec<u8>> = bytes.chunks(SEALED_BYTES).map(<[u8]>::to_vec).collect();
    if let (Some(last), Some(tied)) = (pages.last_mut(), root.get(8..20)) {
        last.iter_mut().skip(8).zip(tied).for_each(|(byte, fits)| *byte = *fits);
    }
    pages.iter_mut().zip(0..).for_each(|(page, number)| seal_page(page, number));
    if fs.write(&path, &pages.concat()).is_ok() {
        read_everything(&fs, &table, Version::NB);
    }
}

/// The sections of a Proof.db with checksums that hold. What ties them to Data.db is what `sound` has.
fn resealed(bytes: &[u8], sound: Proof) -> Vec<u8> {
    let Some((head, mut rest)) = bytes.split_at_checked(proof::sections::HEAD_BYTES) else {
        return bytes.to_vec();
    };
    let digest = sound.digest.to_be_bytes();
    let data = [&digest[..], &sound.data_len.to_be_bytes(), &sound.table_crc.to_be_bytes()].concat();
    let mut out = head.to_vec();
    while let Some((begin, behind)) = rest.split_first_chunk::<12>() {
        let len = begin.last_chunk().map_or(0, |len| u64::from_be_bytes(*len));
        let content = usize::try_from(len).ok().and_then(|len| behind.split_at_checked(len));
        let Some((content, behind)) = content else { break };
        let fits: &[u8] = match begin.first_chunk() {
            Some(&proof::DATA) => &data,
            Some(&proof::DAMAGED) => &digest,
            _ => &[],
        };
        let mut section = [&begin[..], content].concat();
        section.iter_mut().skip(begin.len()).zip(fits).for_each(|(byte, fits)| *byte = *fits);
        out.extend_from_slice(&section);
        out.extend_from_slice(&crc32fast::hash(&section).to_be_bytes());
        rest = behind.get(4..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// An SSTable with this Proof.db, made to fit.
pub(crate) fn with_proof(
    bytes: &[u8],
    table: &Arc<TableSchema>,
    compression: Option<CompressionParams>,
    version: Version,
) -> Option<MemoryFileSystem> {
    let fs = sample(table, compression, version)?;
    let path = descriptor(version).path(Component::Proof);
    let sound = Proof::decode(fs.read(&path).ok()?.into()).ok()?.proof()?;
    fs.write(&path, &resealed(bytes, sound)).ok()?;
    Some(fs)
}

/// Proof.db, with checksums and a Data.db that it does not fit: it is given those that do.
pub fn fuzz_proof(bytes: &[u8]) {
    let table = table();
    for (compression, version) in [(Some(CompressionParams::lz4()), Version::NB), (None, Version::DA)] {
        let Some(fs) = with_proof(bytes, &table, compression, version) else { return };
        read_everything(&fs, &table, version);
        let _ = verify(&fs, &descriptor(version), &|_| {});
    }
}

/// Describes every partition of an SSTable as if another program had written it.
fn adopt(fs: &MemoryFileSystem, version: Version) -> Option<()> {
    let _ = fs.remove_file(&descriptor(version).path(Component::Proof));
    let sstable = SsTable::open(fs, &descriptor(version), 1, Arc::new(Uncached)).ok()?;
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let small = Adoption { partition_bytes_min: 0, block_bytes: 64, bytes_for_one: 0 };
    match sstable.prove(&shared, Some(small), &mut |_| true).ok()? {
        Proved::Sound(proof) => sstable.keep_proof(fs, &proof).ok(),
        _ => None,
    }
}

/// A sample whose partitions are described.
fn adopted(table: &Arc<TableSchema>, version: Version) -> Option<MemoryFileSystem> {
    let fs = sample(table, Some(CompressionParams::lz4()), version)?;
    adopt(&fs, version).map(|()| fs)
}

/// Blocks.db, with checksums that fit.
pub fn fuzz_blocks(bytes: &[u8]) {
    let table = table();
    for version in [Version::NB, Version::DA] {
        let Some(fs) = adopted(&table, version) else { return };
        let path = descriptor(version).path(Component::Proof);
        let proof = fs.read(&path).ok().and_then(|file| Proof::decode(file.into()).ok()?.proof());
        let Some(mut proof) = proof else { return };
        let mut sums = PageSummer::default();
        sums.add(bytes);
        proof.adopted.iter_mut().for_each(|adopted| adopted.pages = std::mem::take(&mut sums).finish());
        let blocks = descriptor(version).path(Component::Blocks);
        if fs.write(&path, &proof.encode()).is_ok() && fs.write(&blocks, bytes).is_ok() {
            read_everything(&fs, &table, version);
            let _ = verify(&fs, &descriptor(version), &|_| {});
        }
    }
}

/// Summary.db.
pub fn fuzz_summary(bytes: &[u8]) {
    with_component(Component::Summary, bytes, None);
}

/// Filter.db.
pub fn fuzz_filter(bytes: &[u8]) {
    let _ = BloomFilter::decode(Bytes::copy_from_slice(bytes), Version::ME);
    with_component(Component::Filter, bytes, None);
}

/// Data.db, not compressed.
pub fn fuzz_data_partition(bytes: &[u8]) {
    with_component(Component::Data, bytes, None);
}

/// CRC.db.
pub fn fuzz_crc(bytes: &[u8]) {
    with_component(Component::Crc, bytes, None);
}

/// Digest.crc32, which tools read, and whoever opens a proof or an outline.
pub fn fuzz_digest(bytes: &[u8]) {
    verify_with(Component::Digest, bytes);
}

/// TOC.txt, which only tools read.
pub fn fuzz_toc(bytes: &[u8]) {
    verify_with(Component::Toc, bytes);
}

fn verify_with(component: Component, bytes: &[u8]) {
    let Some(fs) = sample(&table(), None, Version::NB) else { return };
    if fs.write(&descriptor(Version::NB).path(component), bytes).is_ok() {
        let _ = verify(&fs, &descriptor(Version::NB), &|_| {});
    }
}

/// A chunk of a compressed Data.db with a right checksum. The first byte says which compressor wrote it, and
/// which power of two its length is.
pub fn fuzz_compressed_chunk(bytes: &[u8]) {
    const COMPRESSORS: [Compressor; 4] =
        [Compressor::Lz4, Compressor::Snappy, Compressor::Deflate, Compressor::Zstd { level: 3 }];
    let Some((settings, chunk)) = bytes.split_first() else { return };
    let Some(compressor) = COMPRESSORS.get(usize::from(settings & 3)) else { return };
    let len = 1 << (settings >> 2).min(16);
    if let Ok(plain) = compressor.decompress(chunk, len) {
        assert_eq!(plain.len(), len);
    }
}

/// A mutation of the commit log.
pub fn fuzz_mutation(bytes: &[u8]) {
    let table = table();
    let _ = decode_mutation(bytes, DeletionTimes::Signed, &|_| Some(Arc::clone(&table)));
}

/// A transaction log.
pub fn fuzz_txn_log(bytes: &[u8]) {
    let _ = crate::txn_log::parse(bytes);
}

/// Sound bytes of the components that the entry points above take: seeds for a fuzzer.
pub fn fuzz_seeds() -> Vec<(Component, Vec<u8>)> {
    let table = table();
    let mut out = Vec::new();
    for (compression, version) in [
        (None, Version::NB),
        (Some(CompressionParams::lz4()), Version::NB),
        (None, Version::OA),
        (None, Version::DA),
    ] {
        let Some(fs) = sample(&table, compression, version) else { continue };
        for component in Component::ALL {
            out.extend(fs.read(&descriptor(version).path(*component)).ok().map(|bytes| (*component, bytes)));
        }
    }
    let made_later = |(component, bytes): &(Component, Vec<u8>)| {
        let bytes = (*component == Component::Proof).then(|| bytes.clone())?;
        let proof = Proof::decode(bytes.into()).ok()?.proof()?;
        Some((Component::Proof, Proof { index: None, ..proof }.encode()))
    };
    let with_samples = |(component, bytes): &(Component, Vec<u8>)| {
        let bytes = (*component == Component::Proof).then(|| bytes.clone())?;
        let mut proof = Proof::decode(bytes.into()).ok()?.proof()?;
        proof.index.as_mut()?.samples = vec![Sample { token: Token::MIN, position: 7 }];
        Some((Component::Proof, proof.encode()))
    };
    let with_fences = |(component, bytes): &(Component, Vec<u8>)| {
        let bytes = (*component == Component::Proof).then(|| bytes.clone())?;
        let mut proof = Proof::decode(bytes.into()).ok()?.proof()?;
        proof.index.as_mut()?.fences.add(9, 8, &[vec![1, 2], vec![3]]);
        Some((Component::Proof, proof.encode()))
    };
    let of_damage = |(component, bytes): &(Component, Vec<u8>)| {
        let bytes = (*component == Component::Proof).then(|| bytes.clone())?;
        let proof = Proof::decode(bytes.into()).ok()?.proof()?;
        Some((Component::Proof, proof::mark_of_damage(proof.digest)))
    };
    let proofs = out.iter().filter_map(made_later).chain(out.iter().filter_map(with_samples));
    let proofs = proofs.chain(out.iter().filter_map(with_fences));
    let others: Vec<_> = proofs.chain(out.iter().filter_map(of_damage)).collect();
    out.extend(others);
    out.extend([Version::NB, Version::DA].iter().filter_map(|version| {
        let blocks = descriptor(*version).path(Component::Blocks);
        Some((Component::Blocks, adopted(&table, *version)?.read(&blocks).ok()?))
    }));
    let outline =
        outlined(&table).and_then(|fs| fs.read(&descriptor(Version::NB).path(Component::Outline)).ok());
    out.extend(outline.map(|file| {
        let pages = file.chunks(INDEX_PAGE_BYTES as usize).filter_map(|page| page.get(..SEALED_BYTES));
        (Component::Outline, pages.flatten().copied().collect())
    }));
    out
}
