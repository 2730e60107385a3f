//! Files that others wrote, compared with their digests: what is found then, what is written, and what it is
//! not.

use super::damage::Damage;
use super::recorded::{Fixture, sets, tables_of};
use super::support::*;
use crate::compression::{CompressionInfo, CompressionParams};
use crate::proof::Proof;
use crate::stream::Partitions;
use crate::{Component, Descriptor, Proved, SsTable, Uncached, Version, verify};
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::KeyRange;
use model::{CqlType, Deletion, Row, TableSchema};
use partition::{ReadContext, ReadError};
use std::sync::Arc;

fn opened(fs: &MemoryFileSystem, descriptor: &Descriptor) -> Arc<SsTable> {
    Arc::new(SsTable::open(fs, descriptor, 1, Arc::new(Uncached)).unwrap())
}

/// Compares with the digest and writes the proof; the error, if it is damaged.
fn prove(fs: &MemoryFileSystem, sstable: &SsTable) -> Result<(), ReadError> {
    match sstable.prove(&shared(fs), None, &mut |_| true)? {
        Proved::Sound(proof) => sstable.keep_proof(fs, &proof).map_err(ReadError::from),
        other => panic!("{other:?}"),
    }
}

fn toc(fs: &MemoryFileSystem, descriptor: &Descriptor) -> Vec<String> {
    let text = fs.read_to_string(&descriptor.path(Component::Toc)).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_fixture_is_proven_and_stays_sound() {
    for set in sets() {
        for name in tables_of(&set) {
            let fixture = Fixture::load(&set, &name);
            let fs = &fixture.fs;
            for descriptor in &fixture.descriptors {
                let sstable = opened(fs, descriptor);
                assert!(sstable.is_unproven());
                let before = toc(fs, descriptor);
                prove(fs, &sstable).unwrap_or_else(|error| panic!("{set} {name}: {error}"));
                assert!(!sstable.is_unproven() && sstable.condemned().is_none());
                assert!(sstable.files().contains(&descriptor.path(Component::Proof)));
                assert_eq!(toc(fs, descriptor), [&before[..], &["Proof.db".to_owned()]].concat());
                assert!(matches!(sstable.prove(&shared(fs), None, &mut |_| true), Ok(Proved::Known)));
                let again = opened(fs, descriptor);
                assert!(!again.is_unproven() && !again.is_proven, "{set} {name}: the index is compared");
                assert_eq!(verify(fs, descriptor, &|_| {}).unwrap().findings, [], "{set} {name}");
            }
        }
    }
}

/// Every pair of chunks of equal length that is not the same chunk twice: where they are, and how long.
fn equal_chunks(fs: &MemoryFileSystem, descriptor: &Descriptor) -> Vec<(usize, usize, usize)> {
    let bytes = fs.read(&descriptor.path(Component::Data)).unwrap();
    let info = fs.read(&descriptor.path(Component::CompressionInfo)).unwrap();
    let info = CompressionInfo::decode(info.into(), descriptor.version).unwrap();
    let chunks: Vec<_> = (0..).map_while(|i| info.chunk(i, bytes.len() as u64)).collect();
    let mut out = Vec::new();
    for (i, a) in chunks.iter().enumerate() {
        for b in &chunks[i + 1..] {
            let [x, y] = [a, b].map(|(start, len)| *start as usize..(*start + *len) as usize);
            if a.1 == b.1 && bytes[x] != bytes[y] {
                out.push((a.0 as usize, b.0 as usize, a.1 as usize));
            }
        }
    }
    out
}

fn swap(fs: &MemoryFileSystem, descriptor: &Descriptor, (a, b, len): (usize, usize, usize)) {
    let path = descriptor.path(Component::Data);
    let mut bytes = fs.read(&path).unwrap();
    let (first, second) = bytes.split_at_mut(b);
    first[a..a + len].swap_with_slice(&mut second[..len]);
    fs.write(&path, &bytes).unwrap();
}

/// Rows of values that lie over several chunks and do not compress, as a writer without a proof left them.
fn long_values(version: Version) -> (MemoryFileSystem, Arc<TableSchema>, Descriptor) {
    let builder = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1));
    let builder = builder.partition_key("k", CqlType::Int).clustering("c", CqlType::Int, false);
    let table = Arc::new(builder.regular("v", CqlType::Blob).build());
    let v = table.column("v").unwrap().id;
    let mut rng = Rng::new(7);
    let items = (0..3i32).map(|c| {
        let mut row = Row::new(model::Clustering::from_values([&c.to_be_bytes()[..]]));
        let value: Vec<u8> = (0..3_000).map(|_| rng.next() as u8).collect();
        row.cells.push(model::Cell::live(v, 5, value.into()));
        Item::Row(row)
    });
    let items = items.collect();
    let partition = Partition { key: key(1), deletion: Deletion::NONE, static_row: None, items };
    let memory = MemoryFileSystem::new();
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let compression = CompressionParams { chunk_len: 512, ..CompressionParams::lz4() };
    let partitions = [partition];
    let options = options(&partitions, Some(compression), 4096);
    let meta = write_version(&fs, &table, &partitions, options, version).unwrap();
    forget_proof(&memory, version);
    (memory, table, meta.descriptor)
}

fn scan(sstable: &Arc<SsTable>, table: &Arc<TableSchema>) -> Result<Vec<Partition>, ReadError> {
    let filter = ClusteringFilter::all();
    let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(table), table, &context())?;
    collect(&mut scan, table, false)
}

/// Without a proof chunks that lie inside of a value may change places unseen, and with one none may.
#[test]
fn chunks_inside_of_values_that_changed_places_are_seen_once_the_file_was_proven() {
    for version in [Version::NB, Version::DA] {
        let (fs, table, descriptor) = long_values(version);
        let sound = scan(&opened(&fs, &descriptor), &table).unwrap();
        let pairs = equal_chunks(&fs, &descriptor);
        assert!(pairs.len() > 50, "{}", pairs.len());
        let mut unseen = 0;
        for pair in &pairs {
            swap(&fs, &descriptor, *pair);
            let damaged = opened(&fs, &descriptor);
            unseen += usize::from(scan(&damaged, &table).is_ok_and(|found| found != sound));
            let error = prove(&fs, &damaged).unwrap_err();
            assert!(
                matches!(&error, ReadError::Corrupt { file, .. } if file.ends_with("Data.db")),
                "{error}"
            );
            assert_eq!(damaged.condemned().unwrap().to_string(), error.to_string());
            assert_eq!(scan(&damaged, &table).unwrap_err().to_string(), error.to_string());
            let named = damaged.read(&key(1), &ClusteringFilter::all(), &all(&table), &table, &context());
            assert!(named.is_err());
            assert!(!fs.exists(&descriptor.path(Component::Proof)).unwrap());
            swap(&fs, &descriptor, *pair);
        }
        assert!(unseen > pairs.len() / 2, "{unseen} of {} were not seen before", pairs.len());
        // Damage that comes later is met by the reads themselves.
        let proven = opened(&fs, &descriptor);
        prove(&fs, &proven).unwrap();
        for pair in pairs {
            swap(&fs, &descriptor, pair);
            for sstable in [Arc::clone(&proven), opened(&fs, &descriptor)] {
                let error = scan(&sstable, &table).unwrap_err();
                assert!(error.to_string().contains("Proof.db"), "{error}");
            }
            swap(&fs, &descriptor, pair);
        }
        assert_eq!(scan(&proven, &table).unwrap(), sound);
    }
}

/// The same in files of every version that Cassandras wrote.
#[test]
fn no_swap_of_equal_chunks_of_a_fixture_passes_the_proof() {
    let (mut pairs, mut fixtures) = (0, 0);
    for set in sets() {
        for name in tables_of(&set) {
            let fixture = Fixture::load(&set, &name);
            let fs = &fixture.fs;
            let compressed = |d: &&Descriptor| fs.exists(&d.path(Component::CompressionInfo)).unwrap();
            for descriptor in fixture.descriptors.iter().filter(compressed) {
                let proven = opened(fs, descriptor);
                let new = match proven.prove(&shared(fs), None, &mut |_| true).unwrap() {
                    Proved::Sound(new) => new,
                    other => panic!("{other:?}"),
                };
                fixtures += 1;
                for pair in equal_chunks(fs, descriptor).into_iter().take(40) {
                    swap(fs, descriptor, pair);
                    assert!(prove(fs, &opened(fs, descriptor)).is_err(), "{set} {name} {pair:?}");
                    // With the proof of the sound file it is a chunk that is named.
                    proven.keep_proof(fs, &new).unwrap();
                    let sstable = opened(fs, descriptor);
                    let chunks: Vec<u64> = (0..sstable.data.page_count())
                        .filter(|page| sstable.data.check_page(*page, &context()).is_err())
                        .collect();
                    assert_eq!(chunks.len(), 2, "{set} {name} {pair:?}");
                    fs.remove_file(&descriptor.path(Component::Proof)).unwrap();
                    swap(fs, descriptor, pair);
                    pairs += 1;
                }
            }
        }
    }
    println!("{pairs} pairs in {fixtures} SSTables");
    assert!(fixtures > 30, "{fixtures}");
}

macro_rules! proven {
    ($($test:ident: $set:literal $name:literal;)*) => {
        $(#[test] fn $test() {
            let mut damage = Damage::new($set, $name);
            damage.proves = true;
            damage.everywhere(concat!("proven ", $set, " ", $name), Component::ALL);
        })*
    };
}

// Whatever was damaged before the comparison, answers are right or an error.
proven! {
    nb_damaged_before: "5.0.5-nb" "mix_lz4";
    nb_plain_damaged_before: "5.0.5-nb" "mix_plain";
    da_damaged_before: "5.0.5-da" "indexed";
    mc_damaged_before: "3.11.3-mc" "indexed";
    me_damaged_before: "3.11.19-me" "many";
}

/// An index that was damaged before is found as it is without a proof, though the data is proven by then.
#[test]
fn no_damage_to_an_index_becomes_proven() {
    let table = Arc::clone(&super::reading::numbered(300, 25).0);
    let (_, partitions) = super::reading::numbered(300, 25);
    for version in [Version::NB, Version::DA] {
        let memory = MemoryFileSystem::new();
        let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
        let options = options(&partitions, Some(CompressionParams::lz4()), 128);
        let meta = write_version(&fs, &table, &partitions, options, version).unwrap();
        forget_proof(&memory, version);
        let columns = ColumnSelection::all(&table);
        let asks = |sound: &[Partition], _: &TableSchema| super::damage::short_asks(&sound[0]);
        let mut damage = Damage::to(memory, meta.descriptor, table.clone(), columns, asks);
        damage.proves = true;
        let index = [Component::Index, Component::Summary, Component::Partitions, Component::Rows];
        damage.everywhere(&format!("index of {version}"), &index);
    }
}

#[test]
fn a_damaged_chunk_is_named_by_its_place() {
    let (fs, table, descriptor) = long_values(Version::NB);
    let path = descriptor.path(Component::Data);
    let sound = fs.read(&path).unwrap();
    for at in [700, sound.len() - 30] {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        fs.write(&path, &damaged).unwrap();
        let sstable = opened(&fs, &descriptor);
        match prove(&fs, &sstable).unwrap_err() {
            ReadError::Corrupt { offset, detail, .. } => {
                assert!(offset <= at as u64 && at as u64 - offset < 600, "{at}: {offset} {detail}");
            }
            other => panic!("{other}"),
        }
        assert!(scan(&sstable, &table).is_err());
    }
}

#[test]
fn a_table_of_chunks_that_does_not_fit_sound_data_is_named() {
    let (fs, _, descriptor) = long_values(Version::NB);
    let info = descriptor.path(Component::CompressionInfo);
    let mut bytes = fs.read(&info).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs.write(&info, &bytes).unwrap();
    let error = prove(&fs, &opened(&fs, &descriptor)).unwrap_err().to_string();
    assert!(error.contains("CompressionInfo.db") && error.contains("as Digest.crc32 says"), "{error}");
}

#[test]
fn without_a_digest_nothing_is_proven_nor_lost() {
    for text in [None, Some("no number")] {
        let (fs, table, descriptor) = long_values(Version::NB);
        let path = descriptor.path(Component::Digest);
        match text {
            None => fs.remove_file(&path).unwrap(),
            Some(text) => fs.write(&path, text.as_bytes()).unwrap(),
        }
        let sstable = opened(&fs, &descriptor);
        assert!(matches!(sstable.prove(&shared(&fs), None, &mut |_| true), Ok(Proved::NoDigest)));
        assert!(sstable.is_unproven() && scan(&sstable, &table).is_ok());
    }
}

#[test]
fn a_comparison_that_is_ended_proves_nothing() {
    let (fs, _, descriptor) = long_values(Version::NB);
    let sstable = opened(&fs, &descriptor);
    assert!(matches!(sstable.prove(&shared(&fs), None, &mut |_| false), Ok(Proved::Stopped)));
    assert!(sstable.is_unproven() && sstable.condemned().is_none());
    prove(&fs, &sstable).unwrap();
}

/// The proof that a writer made is not replaced, but one that is damaged is, by one of the data only.
#[test]
fn a_damaged_proof_is_told_and_replaced() {
    let (table, partitions) = super::reading::numbered(300, 25);
    let memory = MemoryFileSystem::new();
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    let compression = Some(CompressionParams::lz4());
    let meta = write(&fs, &table, &partitions, options(&partitions, compression, 128)).unwrap();
    let descriptor = meta.descriptor;
    let sstable = opened(&memory, &descriptor);
    assert!(sstable.is_proven && !sstable.is_unproven() && sstable.unfit_proof().is_none());
    let path = descriptor.path(Component::Proof);
    let mut bytes = fs.read(&path).unwrap();
    bytes[30] ^= 1;
    fs.write(&path, &bytes).unwrap();
    let sstable = opened(&memory, &descriptor);
    assert!(sstable.is_unproven() && !sstable.is_proven);
    assert!(sstable.unfit_proof().unwrap().to_string().contains("Proof.db"));
    prove(&memory, &sstable).unwrap();
    let proof = Proof::decode(fs.read(&path).unwrap().into()).unwrap().proof().unwrap();
    assert_eq!(proof.index, None);
    let names = toc(&memory, &descriptor);
    assert_eq!(names.iter().filter(|name| *name == "Proof.db").count(), 1);
    let again = opened(&memory, &descriptor);
    assert!(!again.is_unproven() && !again.is_proven && again.unfit_proof().is_none());
}

/// With fewer checks of chunks nothing that the index says is taken for granted.
#[test]
fn a_check_chance_below_one_leaves_the_index_to_be_compared() {
    let (table, partitions) = super::reading::numbered(300, 25);
    let fs = memory();
    write(&fs, &table, &partitions, options(&partitions, Some(CompressionParams::lz4()), 128)).unwrap();
    let sstable = open(&fs).unwrap();
    sstable.check_by_chance(Arc::new(env::random::Random::from_seed(1)));
    for (chance, believes) in [(1.0, true), (0.5, false), (0.0, false)] {
        let mut asks = (*table).clone();
        asks.options.crc_check_chance = chance;
        sstable.check_schema(&Arc::new(asks)).unwrap();
        assert_eq!(sstable.believes(&Partitions::None), believes, "{chance}");
    }
}

/// A read that salvages takes what lies beside damaged chunks, and nothing of chunks that changed places.
#[test]
fn a_salvage_reads_a_condemned_sstable_where_chunks_are_damaged() {
    for version in [Version::NB, Version::DA] {
        let (fs, table, descriptor) = long_values(version);
        let rows = scan(&opened(&fs, &descriptor), &table).unwrap();
        let path = descriptor.path(Component::Data);
        let sound = fs.read(&path).unwrap();
        let salvages = ReadContext { salvages: true, ..context() };
        let row = |sstable: &Arc<SsTable>, number: usize, context: &ReadContext| {
            let Item::Row(wanted) = &rows[0].items[number] else { panic!("no row") };
            let names = vec![wanted.clustering.clone()];
            let filter = ClusteringFilter::Names { names, reversed: false };
            let mut stream = sstable.read(&key(1), &filter, &all(&table), &table, context)?.unwrap();
            collect(&mut stream, &table, false).map(|found| found[0].items == [Item::Row(wanted.clone())])
        };
        let mut bytes = sound.clone();
        let last = bytes.len() - 10;
        bytes[last] ^= 1;
        fs.write(&path, &bytes).unwrap();
        let damaged = opened(&fs, &descriptor);
        let error = prove(&fs, &damaged).unwrap_err().to_string();
        assert_eq!(row(&damaged, 0, &context()).unwrap_err().to_string(), error);
        assert!(row(&damaged, 0, &salvages).unwrap());
        assert_eq!(row(&damaged, 2, &salvages).unwrap_err().to_string(), error);
        // Where checksums are left out, nobody could tell the sound chunks from the others.
        let mut unchecked = (*table).clone();
        unchecked.options.crc_check_chance = 0.5;
        let unchecked = Arc::new(unchecked);
        damaged.check_by_chance(Arc::new(env::random::Random::from_seed(1)));
        let begin = |table: &Arc<TableSchema>| {
            let filter = ClusteringFilter::all();
            damaged.scan(&KeyRange::FULL, &filter, &all(table), table, &salvages).map(drop)
        };
        assert!(begin(&table).is_ok());
        assert_eq!(begin(&unchecked).unwrap_err().to_string(), error);

        fs.write(&path, &sound).unwrap();
        swap(&fs, &descriptor, equal_chunks(&fs, &descriptor)[0]);
        let mixed = opened(&fs, &descriptor);
        let error = prove(&fs, &mixed).unwrap_err().to_string();
        for number in 0..3 {
            assert_eq!(row(&mixed, number, &salvages).unwrap_err().to_string(), error);
        }
    }
}

/// A mark of damage keeps reads out, not those who save what can be saved, and goes with the damage.
#[test]
fn a_mark_of_damage_holds_until_the_data_is_as_the_digest_says() {
    for version in [Version::NB, Version::DA] {
        let (fs, table, descriptor) = long_values(version);
        let sound = fs.read(&descriptor.path(Component::Data)).unwrap();
        let rows = scan(&opened(&fs, &descriptor), &table).unwrap();
        swap(&fs, &descriptor, equal_chunks(&fs, &descriptor)[0]);
        let sstable = opened(&fs, &descriptor);
        assert!(sstable.mark_of_damage(&fs).unwrap().is_none(), "nobody knows yet");
        prove(&fs, &sstable).unwrap_err();
        let mark = sstable.mark_of_damage(&fs).unwrap().unwrap();
        sstable.keep_proof(&fs, &mark).unwrap();

        let marked = opened(&fs, &descriptor);
        assert!(marked.is_unproven() && marked.condemned().is_none());
        assert!(marked.refusal().unwrap().to_string().contains("compared again"));
        assert!(scan(&marked, &table).is_err());
        assert!(marked.read(&key(1), &ClusteringFilter::all(), &all(&table), &table, &context()).is_err());
        let findings = verify(&fs, &descriptor, &|_| {}).unwrap().findings;
        assert!(findings.iter().any(|f| f.component == Component::Proof), "{findings:?}");
        let saved: Arc<dyn FileSystem> = Arc::new(fs.clone());
        let other = Descriptor { id: crate::SsTableId::Sequence(99), ..descriptor.clone() };
        assert!(crate::salvage(&saved, &descriptor, &mut || Ok(other.clone()), &|_| {}).is_ok());

        // A mark that is damaged itself is none.
        let path = descriptor.path(Component::Proof);
        let bytes = fs.read(&path).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs.write(&path, &flipped).unwrap();
            let other = opened(&fs, &descriptor);
            assert!(other.refusal().is_none() && other.unfit_proof().is_some(), "bit {bit}");
        }
        fs.write(&path, &bytes).unwrap();

        fs.write(&descriptor.path(Component::Data), &sound).unwrap();
        let mended = opened(&fs, &descriptor);
        assert!(scan(&mended, &table).is_err(), "not before it was compared");
        prove(&fs, &mended).unwrap();
        assert_eq!(scan(&mended, &table).unwrap(), rows);
        assert_eq!(scan(&opened(&fs, &descriptor), &table).unwrap(), rows);
    }
}

/// Reads wait but where CRC.db tells the places of chunks, and until somebody knows better.
#[test]
fn reads_wait_where_nothing_tells_the_places_of_chunks() {
    for set in sets() {
        for name in tables_of(&set) {
            let Fixture { fs, descriptors, .. } = &Fixture::load(&set, &name);
            for descriptor in descriptors {
                let is_compressed = fs.exists(&descriptor.path(Component::CompressionInfo)).unwrap();
                let sstable = opened(fs, descriptor);
                let table = &Arc::new(crate::header_table::table_of_header(sstable.header()).unwrap());
                assert!(!sstable.is_awaited() && scan(&sstable, table).is_ok());
                sstable.await_proof(true);
                assert_eq!(sstable.is_awaited(), is_compressed, "{set} {name}");
                let read = sstable.read(&key(1), &ClusteringFilter::all(), &all(table), table, &context());
                for outcome in [scan(&sstable, table).map(drop), read.map(drop)] {
                    let waits =
                        matches!(&outcome, Err(ReadError::Unproven(file)) if file == sstable.data_name());
                    assert_eq!(waits, is_compressed, "{set} {name}");
                }
                prove(fs, &sstable).unwrap();
                assert!(!sstable.is_awaited() && scan(&sstable, table).is_ok());

                fs.remove_file(&descriptor.path(Component::Proof)).unwrap();
                if !is_compressed {
                    fs.remove_file(&descriptor.path(Component::Crc)).unwrap();
                    let unchecked = opened(fs, descriptor);
                    unchecked.await_proof(true);
                    assert!(matches!(scan(&unchecked, table), Err(ReadError::Unproven(_))));
                    unchecked.await_proof(false);
                    assert!(scan(&unchecked, table).is_ok());
                }
            }
        }
    }
}
