//! Bloom filters without a checksum, as foreign writers leave them.

use super::*;
use env::fs::memory::MemoryFileSystem;
use sstable::statistics::Statistics;
use sstable::{Component, Descriptor};

/// Enough for an index that is not gone over when it is opened.
const KEYS: i32 = 10_000;

/// Takes the checksum of Filter.db away, and with `lacks` every bit of it.
fn make_foreign(fs: &MemoryFileSystem, descriptor: &Descriptor, lacks: bool) {
    let path = descriptor.path(Component::Statistics);
    let mut statistics = Statistics::read(fs, descriptor).unwrap();
    assert!(statistics.filter_crc.take().is_some());
    fs.write(&path, &statistics.encode(descriptor.version).unwrap()).unwrap();
    if lacks {
        let path = descriptor.path(Component::Filter);
        let mut filter = fs.read(&path).unwrap();
        filter[8..].fill(0);
        fs.write(&path, &filter).unwrap();
    }
}

#[test]
fn filters_without_checksum_are_checked_in_the_background() {
    let table = simple_table("t");
    for lacks in [false, true] {
        let fs = MemoryFileSystem::new();
        let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap();
        create(&engine, &[&table]);
        for k in 0..KEYS {
            write(&engine, &insert(&table, k, 0, "x", 1)).unwrap();
        }
        engine.flush("ks", None).unwrap();
        let view = engine.table(table.id).unwrap().view();
        let [sstable] = &view.sstables[..] else { panic!("one SSTable") };
        make_foreign(&fs, sstable.descriptor(), lacks);
        engine.drain().unwrap();
        engine.close();
        drop(engine);

        let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 2)).unwrap();
        wait_until(|| engine.stats().filters_unproven == 0);
        wait_until(|| engine.stats().filters_checked == 1);
        assert_eq!(engine.stats().filters_damaged, lacks as u64);
        let view = engine.table(table.id).unwrap().view();
        let there =
            |keys: std::ops::Range<i32>| keys.filter(|k| view.sstables[0].may_contain(&key(*k))).count();
        assert_eq!(there(0..KEYS), KEYS as usize);
        let passing = there(KEYS..KEYS * 2);
        assert_eq!(passing > KEYS as usize / 2, lacks, "{passing}");
        engine.close();
    }
}

#[test]
fn a_check_waits_while_compactions_are_paused() {
    let table = simple_table("t");
    let fs = MemoryFileSystem::new();
    let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap();
    create(&engine, &[&table]);
    for k in 0..KEYS {
        write(&engine, &insert(&table, k, 0, "x", 1)).unwrap();
    }
    engine.flush("ks", None).unwrap();
    let directory = engine.table(table.id).unwrap().dirs()[0].clone();
    let own = engine.table(table.id).unwrap().view().sstables[0].descriptor().clone();
    make_foreign(&fs, &own, false);
    let foreign = Descriptor::new(&directory, sstable::SsTableId::Sequence(77), own.version);
    for component in Component::ALL.iter().filter(|c| fs.exists(&own.path(**c)).unwrap()) {
        fs.hard_link(&own.path(*component), &foreign.path(*component)).unwrap();
    }
    engine.set_compactions_paused(true);
    assert_eq!(engine.load_new_sstables("ks", "t").unwrap().len(), 1);
    assert_eq!((engine.stats().filters_unproven, engine.stats().filters_checked), (1, 0));
    engine.set_compactions_paused(false);
    wait_until(|| engine.stats().filters_checked == 1);
    assert_eq!(engine.stats().filters_unproven, 0);
    engine.close();
}
