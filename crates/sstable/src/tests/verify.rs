//! What a check of an SSTable finds.

use super::support::*;
use crate::compression::{CompressionParams, Compressor};
use crate::{Component, Descriptor, WorkDone, verify};
use env::fs::FileSystem;
use model::command::ClusteringFilter;
use model::key::KeyRange;
use std::cell::RefCell;
use std::sync::Arc;

fn sample(compression: Option<CompressionParams>) -> Arc<dyn FileSystem> {
    let mut rng = Rng::new(11);
    let table = random_table(&mut rng);
    let partitions = random_partitions(&mut rng, &table, 15, 8);
    let fs = memory();
    write(&fs, &table, &partitions, options(&partitions, compression, 60)).unwrap();
    fs
}

fn findings(fs: &Arc<dyn FileSystem>) -> Vec<crate::Finding> {
    verify(fs.as_ref(), &descriptor(1), &|_| {}).unwrap().findings
}

#[test]
fn random_sstables_are_sound() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let table = random_table(&mut rng);
        let partitions = random_partitions(&mut rng, &table, 12, 8);
        let fs = memory();
        let compression =
            (seed % 2 == 0).then(|| CompressionParams { chunk_len: 512, ..CompressionParams::lz4() });
        if write(&fs, &table, &partitions, options(&partitions, compression, 60)).is_none() {
            continue;
        }
        // Random texts and blobs stand for values of other types in these tables; those findings are right.
        let found: Vec<_> = findings(&fs).into_iter().filter(|f| !f.expected.contains("in column")).collect();
        assert_eq!(found, [], "seed {seed}");
    }
}

#[test]
fn progress_goes_on_inside_a_partition() {
    for compression in [None, Some(CompressionParams { chunk_len: 512, ..CompressionParams::lz4() })] {
        let made = (12..500).map(|seed| {
            let mut rng = Rng::new(seed);
            let table = random_table(&mut rng);
            let partitions = random_partitions(&mut rng, &table, 1, 400);
            (table, partitions)
        });
        let is_row = |item: &&Item| matches!(item, Item::Row(_));
        let is_long = |partitions: &[Partition]| partitions[0].items.iter().filter(is_row).count() > 40;
        let (table, partitions) = made.into_iter().find(|(_, partitions)| is_long(partitions)).unwrap();
        let fs = memory();
        write(&fs, &table, &partitions, options(&partitions, compression, 60)).unwrap();
        let told = RefCell::new(Vec::new());
        let rows = verify(fs.as_ref(), &descriptor(1), &|work| told.borrow_mut().push(work)).unwrap().rows;
        check_progress(&told.take(), 3, rows);

        let mut next = || Ok(Descriptor::new(DIRECTORY, crate::SsTableId::Sequence(2), crate::Version::NB));
        let tell = |work| told.borrow_mut().push(work);
        assert_eq!(crate::salvage(&fs, &descriptor(1), &mut next, &tell).unwrap().rows, rows);
        check_progress(&told.take(), 1, rows);
    }
}

/// Whether somebody who reads the data so many times told of it in steps of a row, and to its end.
fn check_progress(told: &[WorkDone], passes: u64, rows: u64) {
    assert!(rows > 40);
    assert!(told.is_sorted_by_key(|work| work.done));
    assert!(told.iter().all(|work| work.of == told[0].of && work.done <= work.of));
    let last_pass = told[0].of / passes * (passes - 1);
    let mut steps: Vec<u64> = told.iter().map(|work| work.done).filter(|done| *done > last_pass).collect();
    steps.dedup();
    assert!(steps.len() as u64 >= rows - 1, "{} steps for {rows} rows", steps.len());
    assert!(told[0].of - told[told.len() - 1].done < 16, "{:?}", told.last());
}

/// `1:a`, only `1`, with a bound behind it, and what is none: keys of one column of a composite type.
#[test]
fn a_key_of_a_composite_type_may_be_cut_short() {
    let ty = model::CqlType::parse_class("CompositeType(Int32Type,UTF8Type)").unwrap().ty;
    let builder = model::TableSchema::builder("ks", "t", uuid::Uuid::nil()).partition_key("k", ty);
    let table = Arc::new(builder.regular("v", model::CqlType::Int).build());
    for (key, is_sound) in [
        (&b"\0\x04\0\0\0\x01\0\0\x01a\0"[..], true),
        (b"\0\x04\0\0\0\x01\0", true),
        (b"\0\x04\0\0\0\x01\x01", true),
        (b"\xff\xff\0\x04\0\0\0\x01\0", true),
        (b"\0\x04\0\0\0\x01\0\0\x02a\0", false),
        (b"\0\x04\0\0\0\x01\0\0\x01a", false),
    ] {
        let key = model::DecoratedKey::new(model::PartitionKey(bytes::Bytes::from_static(key)));
        let deletion = model::Deletion { timestamp: 5, local_deletion_time: 5 };
        let partitions = [Partition { key, deletion, static_row: None, items: vec![] }];
        let fs = memory();
        write(&fs, &table, &partitions, options(&partitions, None, 60)).unwrap();
        assert_eq!(findings(&fs).is_empty(), is_sound, "{:?}", findings(&fs));
    }
}

#[test]
fn a_flipped_bit_in_what_has_checksums_is_found() {
    for compression in [None, Some(CompressionParams { chunk_len: 512, ..CompressionParams::lz4() })] {
        let fs = sample(compression);
        let before = findings(&fs);
        let mut rng = Rng::new(5);
        for component in [Component::Data, Component::Crc, Component::Statistics, Component::Digest] {
            let path = descriptor(1).path(component);
            let Ok(bytes) = fs.read(&path) else { continue };
            for _ in 0..60 {
                let bit = rng.below(bytes.len() as u64 * 8) as usize;
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                fs.write(&path, &damaged).unwrap();
                let found = findings(&fs);
                assert!(found.iter().any(|f| !before.contains(f)), "bit {bit} of {component}");
            }
            fs.write(&path, &bytes).unwrap();
        }
        assert_eq!(findings(&fs), before);
    }
}

#[test]
fn flipped_bits_and_cuts_anywhere_never_panic() {
    let fs = sample(Some(CompressionParams { chunk_len: 512, ..CompressionParams::lz4() }));
    let mut rng = Rng::new(6);
    for component in Component::ALL {
        let path = descriptor(1).path(*component);
        let Ok(bytes) = fs.read(&path) else { continue };
        for _ in 0..80 {
            let mut damaged = bytes.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(4) {
                0 => damaged.truncate(at),
                1 => damaged[at] = 0xff,
                _ => damaged[at] ^= 1 << rng.below(8),
            }
            fs.write(&path, &damaged).unwrap();
            findings(&fs);
        }
        fs.write(&path, &bytes).unwrap();
    }
}

#[test]
fn missing_components_are_found() {
    for component in [
        Component::Data,
        Component::Index,
        Component::Statistics,
        Component::Toc,
        Component::Digest,
        Component::Filter,
    ] {
        let fs = sample(None);
        fs.remove_file(&descriptor(1).path(component)).unwrap();
        let found = findings(&fs);
        assert!(
            found.iter().any(|f| f.component == component && f.found.contains("missing")),
            "{component}: {found:?}"
        );
    }
}

/// The checksum of a chunk says nothing of its place. Here chunks even hold whole partitions of one length.
#[test]
fn chunks_that_changed_places_are_found() {
    use model::{Cell, Clustering, CqlType, Deletion, Liveness, Row, TableSchema};
    let table = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .regular("v", CqlType::Blob)
        .build();
    let (table, v) = (Arc::new(table.clone()), table.column("v").unwrap().id);
    let partition = |k: u32, len: usize| {
        let mut row = Row::new(Clustering::empty());
        row.liveness = Liveness::new(7);
        row.cells.push(Cell::live(v, 7, vec![k as u8; len].into()));
        Partition { key: key(k), deletion: Deletion::NONE, static_row: None, items: vec![Item::Row(row)] }
    };
    let compression = CompressionParams {
        compressor: Compressor::Noop,
        chunk_len: 512,
        max_compressed_len: i32::MAX as u32,
        options: Default::default(),
    };
    let (fs, partitions) = (8..64)
        .find_map(|len| {
            let mut partitions: Vec<_> = (0..64).map(|k| partition(k, len)).collect();
            partitions.sort_by(|a, b| a.key.cmp(&b.key));
            let fs = memory();
            let options = options(&partitions, Some(compression.clone()), 4096);
            let meta = write(&fs, &table, &partitions, options).unwrap();
            (meta.data_bytes == 64 * 64).then_some((fs, partitions))
        })
        .unwrap();
    let path = descriptor(1).path(Component::Data);
    let sound = fs.read(&path).unwrap();
    let chunk = sound.len() / 8;
    let mut damaged = sound.clone();
    damaged[2 * chunk..3 * chunk].copy_from_slice(&sound[5 * chunk..6 * chunk]);
    damaged[5 * chunk..6 * chunk].copy_from_slice(&sound[2 * chunk..3 * chunk]);
    fs.write(&path, &damaged).unwrap();
    let sstable = open(&fs).unwrap();
    let filter = ClusteringFilter::all();
    let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
    assert!(collect(&mut scan, &table, false).is_err());
    for (i, partition) in partitions.iter().enumerate() {
        let stream = sstable.read(&partition.key, &filter, &all(&table), &table, &context()).unwrap();
        let found = collect(&mut stream.unwrap(), &table, false);
        match i / 8 {
            2 | 5 => assert!(found.is_err()),
            _ => assert_eq!(found.unwrap(), std::slice::from_ref(partition)),
        }
    }
    assert!(findings(&fs).iter().any(|f| f.component == Component::Digest));
}
