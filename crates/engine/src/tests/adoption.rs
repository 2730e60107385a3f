//! Large partitions of SSTables that another program wrote are described as in the node's own.

use super::proving::{foreign_of, names, table};
use super::*;
use crate::SnapshotOptions;
use env::fs::memory::MemoryFileSystem;
use sstable::{Component, Descriptor};

fn open_with(fs: &MemoryFileSystem, adopts_sstables: bool) -> Arc<Engine> {
    let options = EngineOptions { proving_bytes_per_s: 0, adopts_sstables, ..options() };
    Engine::open(options, env_on(Arc::new(fs.clone()), 3)).unwrap()
}

/// Large partitions are described in the same pass; what was only compared before somebody waited is read
/// once more.
#[test]
fn large_partitions_are_described() {
    let (fs, found, expected) = foreign_of(&[5, 5, 60]);
    let engine = open_with(&fs, true);
    assert_eq!(engine.proving_stats().unadopted, 3);
    engine.start_proving().unwrap();
    wait_until(|| engine.proving_stats().unadopted == 0);
    let stats = engine.proving_stats();
    assert_eq!((stats.adopted, stats.unproven), (3, 0));
    assert!(stats.adopted_bytes > 0, "{stats:?}");
    assert_eq!(contents(&engine, &table()), expected);
    let blocks = |found: &[Descriptor]| {
        found.iter().filter(|d| fs.exists(&d.path(Component::Blocks)).unwrap()).count()
    };
    assert_eq!(stats.adopted_partitions, blocks(&found) as u64);
    assert!(blocks(&found) > 0);
    // A snapshot has the component, and a compaction takes it away with its SSTable.
    engine.snapshot("taken", &["ks".to_owned()], Some("t"), SnapshotOptions::default()).unwrap();
    let snapshot = found[0].directory.join("snapshots/taken");
    assert_eq!(
        names(&fs, &snapshot).iter().filter(|name| name.ends_with("-Blocks.db")).count(),
        blocks(&found)
    );
    engine.compact("ks", Some("t")).unwrap();
    wait_until(|| blocks(&found) == 0);
    assert_eq!(contents(&engine, &table()), expected);
    engine.close();
    drop(engine);
    let engine = open_with(&fs, true);
    assert_eq!(engine.proving_stats().unadopted, 0);
    assert_eq!(contents(&engine, &table()), expected);
}

#[test]
fn nothing_is_described_where_an_operator_wants_it_so() {
    let (fs, found, _) = foreign_of(&[60]);
    let engine = open_with(&fs, false);
    engine.start_proving().unwrap();
    wait_until(|| engine.proving_stats().unproven == 0);
    assert_eq!(engine.proving_stats().adopted, 0);
    assert!(!fs.exists(&found[0].path(Component::Blocks)).unwrap());
    engine.close();
    drop(engine);
    // The next start may.
    let engine = open_with(&fs, true);
    engine.start_proving().unwrap();
    wait_until(|| engine.proving_stats().unadopted == 0);
    assert_eq!(engine.proving_stats().adopted, 1);
}
