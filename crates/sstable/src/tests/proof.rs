//! Proof.db: what it says is true, pages of an index are compared with it, and without it everything is read
//! as before.

use super::support::*;
use crate::big::fences::Fences;
use crate::big::samples::Sample;
use crate::compression::CompressionParams;
use crate::proof::sections::SectionWriter;
use crate::proof::{Content, IndexProof, PageSummer, PageSums, Proof};
use crate::{Component, Descriptor, SsTable, Uncached, Version, verify};
use bytes::Bytes;
use env::fs::FileSystem;
use model::TableSchema;
use model::command::ClusteringFilter;
use model::key::{KeyRange, Token};
use partition::ReadError;
use proptest::prelude::{any, proptest};
use std::sync::Arc;

const PAGE: usize = 4096;

fn path(version: Version, component: Component) -> std::path::PathBuf {
    Descriptor { version, ..descriptor(1) }.path(component)
}

/// A large partition, with an index of several pages.
fn written(version: Version) -> (Arc<dyn FileSystem>, Arc<TableSchema>) {
    let (table, partitions) = super::reading::numbered(3_000, 25);
    let fs = memory();
    let compression = (version != Version::OA).then(CompressionParams::lz4);
    write_version(&fs, &table, &partitions, options(&partitions, compression, 128), version).unwrap();
    (fs, table)
}

/// Every row, in pieces from the index of rows.
fn read(fs: &Arc<dyn FileSystem>, table: &Arc<TableSchema>, version: Version) -> Result<usize, ReadError> {
    let descriptor = Descriptor { version, ..descriptor(1) };
    let sstable =
        Arc::new(SsTable::open(fs.as_ref(), &descriptor, 1, Arc::new(Uncached)).map_err(|e| match e {
            crate::OpenError::Read(e) => e,
            other => panic!("{other}"),
        })?);
    let mut rows = 0;
    for i in (0..3_000).step_by(20) {
        let name = super::reading::names([i], i % 40 == 0);
        let mut found = sstable.read(&key(1), &name, &all(table), table, &context())?.unwrap();
        rows += collect(&mut found, table, i % 40 == 0)?[0].items.len();
    }
    let mut scan = sstable.scan(&KeyRange::FULL, &ClusteringFilter::all(), &all(table), table, &context())?;
    Ok(rows + collect(&mut scan, table, false)?[0].items.len())
}

const ROWS: usize = 3_000 + 150;

fn indexes(version: Version) -> &'static [Component] {
    match version.is_bti() {
        true => &[Component::Partitions, Component::Rows],
        false => &[Component::Index],
    }
}

#[test]
fn a_proof_holds_what_was_written() {
    for version in [Version::NB, Version::OA, Version::DA] {
        let (fs, _) = written(version);
        let bytes = |component| fs.read(&path(version, component)).unwrap();
        let proof = Proof::decode(bytes(Component::Proof).into()).unwrap().proof().unwrap();
        let sums_of = |component| {
            let bytes = bytes(component);
            PageSums { len: bytes.len() as u64, crcs: bytes.chunks(PAGE).map(crc32fast::hash).collect() }
        };
        let of_index = proof.index.unwrap();
        assert_eq!(of_index.index, sums_of(indexes(version)[0]));
        assert_eq!(of_index.rows, indexes(version).get(1).map_or(PageSums::default(), |rows| sums_of(*rows)));
        assert_eq!(proof.digest, crc32fast::hash(&bytes(Component::Data)));
        if !version.is_bti() {
            assert_eq!(of_index.summary_crc, crc32fast::hash(&bytes(Component::Summary)));
        }
        let toc = String::from_utf8(bytes(Component::Toc)).unwrap();
        assert!(toc.lines().any(|line| line == "Proof.db"), "{toc}");
        let descriptor = Descriptor { version, ..descriptor(1) };
        assert_eq!(verify(fs.as_ref(), &descriptor, &|_| {}).unwrap().findings, []);
    }
}

#[test]
fn a_page_of_an_index_that_is_not_as_it_was_written_is_named() {
    for version in [Version::NB, Version::OA, Version::DA] {
        let (fs, table) = written(version);
        assert_eq!(read(&fs, &table, version).unwrap(), ROWS);
        for component in indexes(version) {
            let path = path(version, *component);
            let sound = fs.read(&path).unwrap();
            let pages = sound.len().div_ceil(PAGE);
            for page in 0..pages {
                let mut damaged = sound.clone();
                let at = (page * PAGE + 77).min(damaged.len() - 1);
                damaged[at] ^= 4;
                check_is_named(&fs, &table, version, *component, page * PAGE, damaged);
            }
            if pages > 2 {
                let mut damaged = sound.clone();
                damaged[..2 * PAGE].rotate_left(PAGE);
                check_is_named(&fs, &table, version, *component, 0, damaged);
            }
            check_is_named(
                &fs,
                &table,
                version,
                *component,
                sound.len() - 1,
                sound[..sound.len() - 1].to_vec(),
            );
            check_is_named(&fs, &table, version, *component, sound.len(), [&sound[..], &[0]].concat());
            fs.write(&path, &sound).unwrap();
        }
    }
}

/// A read that meets the page says which it is, and so does a check.
fn check_is_named(
    fs: &Arc<dyn FileSystem>,
    table: &Arc<TableSchema>,
    version: Version,
    component: Component,
    place: usize,
    damaged: Vec<u8>,
) {
    fs.write(&path(version, component), &damaged).unwrap();
    match read(fs, table, version) {
        // What is never looked at does not matter.
        Ok(rows) => assert_eq!(rows, ROWS),
        Err(ReadError::Corrupt { file, detail, .. }) => {
            assert!(
                file.ends_with(&component.to_string()) && detail.contains("Proof.db"),
                "{file}: {detail}"
            );
        }
        Err(other) => panic!("{other}"),
    }
    let descriptor = Descriptor { version, ..descriptor(1) };
    let found = verify(fs.as_ref(), &descriptor, &|_| {}).unwrap().findings;
    let names = |f: &&crate::Finding| f.component == component && f.offset == Some(place as u64);
    assert!(found.iter().any(|f| names(&f)), "{component} {place}: {found:?}");
}

/// Whatever becomes of a proof, no row is hidden, and a check says that it is of no use.
#[test]
fn a_damaged_proof_is_not_used() {
    for version in [Version::NB, Version::DA] {
        let (fs, table) = written(version);
        let path = path(version, Component::Proof);
        let sound = fs.read(&path).unwrap();
        let mut rng = Rng::new(4);
        for i in 0..60 {
            let mut damaged = sound.clone();
            match i {
                0..50 => damaged[rng.below(sound.len() as u64) as usize] ^= 1 << (i % 8),
                50 => damaged.push(0),
                _ => damaged.truncate(rng.below(sound.len() as u64) as usize),
            }
            fs.write(&path, &damaged).unwrap();
            assert_eq!(read(&fs, &table, version).unwrap(), ROWS);
            let descriptor = Descriptor { version, ..descriptor(1) };
            let found = verify(fs.as_ref(), &descriptor, &|_| {}).unwrap().findings;
            assert!(found.iter().any(|f| f.component == Component::Proof), "{i}: {found:?}");
        }
    }
}

#[test]
fn the_proof_of_another_sstable_is_not_used() {
    let (other, _) = written(Version::NB);
    let strange = other.read(&path(Version::NB, Component::Proof)).unwrap();
    let (table, mut partitions) = super::reading::numbered(3_000, 25);
    partitions[0].items.pop();
    let fs = memory();
    let options = options(&partitions, Some(CompressionParams::lz4()), 128);
    write(&fs, &table, &partitions, options).unwrap();
    fs.write(&path(Version::NB, Component::Proof), &strange).unwrap();
    assert_eq!(read(&fs, &table, Version::NB).unwrap(), ROWS - 1);
    let found = verify(fs.as_ref(), &descriptor(1), &|_| {}).unwrap().findings;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].component, Component::Proof);
}

/// A proof with each section, and no more bytes than it takes.
fn small() -> Proof {
    let pages = |len: u64| PageSums { len, crcs: vec![7; len.div_ceil(PAGE as u64) as usize] };
    let mut fences = Fences::default();
    fences.add(9, 8, &[vec![1, 2], vec![3]]);
    let samples = vec![Sample { token: Token(-5), position: 11 }];
    let (index, rows) = (pages(5_000), pages(70));
    let index = Some(IndexProof { summary_crc: 3, index, rows, samples, fences });
    Proof { digest: 1, data_len: 1 << 20, table_crc: 2, index, chunks: vec![4, 5], adopted: None }
}

#[test]
fn no_byte_of_a_proof_can_change_or_be_missing() {
    let sound = small().encode();
    assert_eq!(Proof::decode(sound.clone().into()).unwrap(), Content::Proof(small()));
    for bit in 0..8 * sound.len() {
        let mut damaged = sound.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let found = Proof::decode(damaged.into());
        assert!(matches!(found, Err(_) | Ok(Content::OtherLayout)), "{bit}: {found:?}");
    }
    for len in 0..sound.len() {
        assert!(Proof::decode(sound[..len].to_vec().into()).is_err(), "{len}");
    }
    let longer = [&sound[..], &[0]].concat();
    assert!(Proof::decode(longer.into()).unwrap_err().detail.contains("behind the last section"));
}

#[test]
fn a_proof_with_another_magic_or_without_a_section_that_it_needs_is_not_used() {
    let mut other = small().encode();
    other[7] = b'1';
    assert_eq!(Proof::decode(other.into()).unwrap(), Content::OtherLayout);
    let mut without = SectionWriter::new();
    without.section(*b"CHNK", |out| out.extend_from_slice(&[0; 8]));
    let error = Proof::decode(without.finish().into()).unwrap_err();
    assert_eq!(error.detail, "section DATA is missing");
}

#[test]
fn sections_that_are_not_known_are_skipped_and_repeated_ones_refused() {
    let data = |out: &mut Vec<u8>| out.extend_from_slice(&[0; 16]);
    let mut file = SectionWriter::new();
    file.section(*b"LATR", |out| out.push(1));
    file.section(*b"DATA", data);
    let found = Proof::decode(file.finish().into()).unwrap().proof().unwrap();
    assert_eq!((found.data_len, found.index, found.chunks), (0, None, Vec::new()));
    let mut file = SectionWriter::new();
    file.section(*b"DATA", data);
    file.section(*b"DATA", data);
    let error = Proof::decode(file.finish().into()).unwrap_err();
    assert_eq!(error.detail, "section DATA stands twice");
}

proptest! {
    #[test]
    fn a_proof_is_read_as_it_was_written(
        numbers in any::<[u32; 3]>(), data_len in any::<u64>(), file in proptest::collection::vec(any::<u8>(), 0..20_000),
        cuts in proptest::collection::vec(1..9_000usize, 1..4), chunks in proptest::collection::vec(any::<u32>(), 0..20),
        has_index in any::<bool>(), samples in proptest::collection::vec(any::<(i64, u64)>(), 0..4),
        texts in proptest::collection::vec(proptest::collection::vec(any::<Vec<u8>>(), 1..5), 0..4),
    ) {
        let mut summer = PageSummer::default();
        let mut rest = &file[..];
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(cut.min(rest.len()));
            summer.add(now);
            rest = later;
        }
        let index = summer.finish();
        assert_eq!(index.crcs, file.chunks(PAGE).map(crc32fast::hash).collect::<Vec<_>>());
        let [digest, table_crc, summary_crc] = numbers;
        let samples = samples.into_iter().map(|(token, position)| Sample { token: Token(token), position }).collect();
        let mut fences = Fences::default();
        texts.iter().enumerate().for_each(|(n, texts)| fences.add(7 * n as u64, 64, texts));
        let index = has_index.then(|| IndexProof { summary_crc, index, rows: PageSums::default(), samples, fences });
        let proof = Proof { digest, data_len, table_crc, index, chunks, adopted: None };
        assert_eq!(Proof::decode(Bytes::from(proof.encode())).unwrap(), Content::Proof(proof));
    }
}
