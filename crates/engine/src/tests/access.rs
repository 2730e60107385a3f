//! Engines on a real disk, whose files are read in every way.

use super::caching::read_one;
use super::store::rows;
use super::*;
use env::fs::Access::{self, Buffered, Direct, Mapped};
use env::fs::disk::DiskFileSystem;

fn open(dir: &Path, data_access: Access, index_access: Access) -> Arc<Engine> {
    let EngineOptions { data_dirs, commitlog_dir, .. } = EngineOptions::under(dir);
    let options = EngineOptions { data_dirs, commitlog_dir, data_access, index_access, ..options() };
    Engine::open(options, env_on(Arc::new(DiskFileSystem), 1)).unwrap()
}

#[test]
fn flushes_compactions_and_restarts_work_in_every_access_mode() {
    for (data, index) in [(Buffered, Buffered), (Direct, Direct), (Buffered, Mapped), (Mapped, Mapped)] {
        let dir = tempfile::tempdir().unwrap();
        let (table, single) = (simple_table("t"), simple_table("single"));
        let engine = open(dir.path(), data, index);
        create(&engine, &[&table, &single]);
        (0..200).for_each(|k| write(&engine, &insert(&single, k, 0, "v", 1)).unwrap());
        for range in [0..50, 50..120, 120..150] {
            super::store::fill(&engine, &table, range);
            engine.flush_all().unwrap();
        }
        assert_eq!(contents(&engine, &table), rows(0..150));
        engine.compact("ks", Some("t")).unwrap();
        assert_eq!(contents(&engine, &table), rows(0..150));
        engine.close();
        let engine = open(dir.path(), data, index);
        assert_eq!(contents(&engine, &table), rows(0..150));

        let cost = read_one(&engine, &single, 7);
        assert!(cost.ios >= 2, "{cost:?}");
        let is_direct = engine.table(single.id).unwrap().view().sstables[0].data_access() == Direct;
        assert_eq!(cost.direct_ios, if is_direct { cost.ios } else { 0 }, "{data:?} {index:?}");
        match (data, index) {
            (Mapped, Mapped) => assert_eq!(cost.mapped_ios, cost.ios),
            (_, Mapped) => assert_eq!(cost.mapped_ios, cost.ios - cost.chunk_misses),
            _ => assert_eq!(cost.mapped_ios, 0),
        }
        engine.truncate("ks", "t").unwrap();
        assert_eq!(contents(&engine, &table).len(), 0);
        engine.close();
    }
}
