//! Snapshots: taken, listed, cleared, by hand and by their age.

use super::store::{fill, open};
use super::*;
use crate::{EngineError, SnapshotOptions};
use env::fs::memory::MemoryFileSystem;

#[test]
fn snapshots_are_taken_listed_and_cleared() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let engine = open(&fs);
    engine.set_schema_text(Box::new(|table| format!("CREATE TABLE {}", table.name)));
    create(&engine, &[&table, &simple_table("u")]);
    fill(&engine, &table, 0..20);
    engine.snapshot("tag", &["ks".to_owned()], Some("t"), SnapshotOptions::default()).unwrap();
    let again = engine.snapshot("tag", &["ks".to_owned()], Some("t"), SnapshotOptions::default());
    assert!(matches!(again, Err(EngineError::SnapshotExists(_))));
    let list = engine.list_snapshots().unwrap();
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!((list[0].tag.as_str(), list[0].table.as_str(), list[0].true_size_bytes), ("tag", "t", 0));
    assert_eq!(list[0].created_at, "2020-01-01T00:00:00.000Z");
    let dir = &engine.table(table.id).unwrap().dirs()[0].join("snapshots/tag");
    assert_eq!(fs.read_to_string(&dir.join("schema.cql")).unwrap(), "CREATE TABLE t");
    let manifest = fs.read_to_string(&dir.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"files\" : [ \"nb-1-big-Data.db\" ]"), "{manifest}");
    engine.truncate("ks", "t").unwrap();
    assert!(engine.list_snapshots().unwrap()[0].true_size_bytes > 0);
    engine.clear_snapshot(Some("tag"), &[]).unwrap();
    assert_eq!(engine.list_snapshots().unwrap(), []);
}

#[test]
fn snapshots_with_a_ttl_go_when_it_is_over_after_a_restart_too() {
    let fs = MemoryFileSystem::new();
    let clock = Arc::new(ManualClock::default());
    let open = || {
        let random = Arc::new(env::random::Random::from_seed(1));
        Engine::open(options(), Env::new(clock.clone(), random, Arc::new(fs.clone()))).unwrap()
    };
    let pass = |seconds| clock.advance(std::time::Duration::from_secs(seconds));
    let table = simple_table("t");
    let engine = open();
    create(&engine, &[&table]);
    fill(&engine, &table, 0..20);
    let for_a = |ttl_s| SnapshotOptions { skip_flush: false, ttl_s };
    let names = |engine: &Engine| -> Vec<String> {
        let mut names: Vec<_> = engine.list_snapshots().unwrap().into_iter().map(|s| s.tag).collect();
        names.sort();
        names
    };
    for (name, ttl_s) in [("day", Some(86_400)), ("minute", Some(60)), ("ever", None)] {
        engine.snapshot(name, &["ks".to_owned()], Some("t"), for_a(ttl_s)).unwrap();
    }
    let minute = engine.list_snapshots().unwrap().into_iter().find(|s| s.tag == "minute").unwrap();
    assert_eq!(minute.expires_at.as_deref(), Some("2020-01-01T00:01:00.000Z"));
    assert_eq!(engine.remove_expired_snapshots().unwrap(), 0);
    pass(59);
    assert_eq!(engine.remove_expired_snapshots().unwrap(), 0);
    pass(1);
    assert_eq!(engine.remove_expired_snapshots().unwrap(), 1);
    assert_eq!(names(&engine), ["day", "ever"]);
    engine.close();
    let engine = open();
    assert_eq!(engine.remove_expired_snapshots().unwrap(), 0);
    pass(86_400);
    assert_eq!(engine.remove_expired_snapshots().unwrap(), 1);
    assert_eq!(names(&engine), ["ever"]);
}

#[test]
fn snapshots_of_truncated_and_dropped_tables_may_expire() {
    let clock = Arc::new(ManualClock::default());
    let fs = Arc::new(MemoryFileSystem::new());
    let env = Env::new(clock.clone(), Arc::new(env::random::Random::from_seed(1)), fs);
    let options = crate::EngineOptions { auto_snapshot: true, auto_snapshot_ttl_s: Some(3_600), ..options() };
    let engine = Engine::open(options, env).unwrap();
    let table = simple_table("t");
    create(&engine, &[&table]);
    fill(&engine, &table, 0..20);
    engine.truncate("ks", "t").unwrap();
    clock.advance(std::time::Duration::from_secs(60));
    fill(&engine, &table, 0..20);
    create(&engine, &[&simple_table("u")]);
    let mut expected = vec!["2020-01-01T01:00:00.000Z", "2020-01-01T01:01:00.000Z"];
    for seconds in [3_540, 60] {
        let found = engine.list_snapshots().unwrap();
        let mut times: Vec<_> = found.iter().map(|s| s.expires_at.as_deref().unwrap()).collect();
        times.sort_unstable();
        assert_eq!(times, expected);
        clock.advance(std::time::Duration::from_secs(seconds));
        assert_eq!(engine.remove_expired_snapshots().unwrap(), 1);
        expected.remove(0);
    }
    assert!(engine.list_snapshots().unwrap().is_empty());
}

#[test]
fn names_of_snapshots_lead_nowhere_else() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let engine = open(&fs);
    create(&engine, &[&table]);
    fill(&engine, &table, 0..20);
    engine.snapshot(".hidden", &[], None, SnapshotOptions::default()).unwrap();
    let dir = engine.table(table.id).unwrap().dirs()[0].clone();
    fs.create_dir_all(&dir.join("precious")).unwrap();
    let absolute = dir.join("precious").to_string_lossy().into_owned();
    for name in ["", ".", "..", "../precious", "a/../../precious", "a/b", "/", "a\0b", absolute.as_str()] {
        let refused =
            |done| matches!(done, Err(EngineError::SnapshotName { name: told, .. }) if told == name);
        assert!(refused(engine.snapshot(name, &[], None, SnapshotOptions::default())), "taken: {name:?}");
        assert!(refused(engine.clear_snapshot(Some(name), &[])), "cleared: {name:?}");
    }
    let long = "a".repeat(256);
    for name in ["a\nb", "\u{202e}gpj.bat", "a\u{200b}", "\u{1b}[2J", "a\u{7f}", &long] {
        let taken = engine.snapshot(name, &[], None, SnapshotOptions::default());
        assert!(
            matches!(taken, Err(EngineError::SnapshotName { name: told, .. }) if told == name),
            "{name:?}"
        );
    }
    // Another node took it once; it can go.
    engine.clear_snapshot(Some("a\nb"), &[]).unwrap();
    assert!(fs.exists(&dir.join("precious")).unwrap());
    let names: Vec<_> = engine.list_snapshots().unwrap().into_iter().map(|s| s.tag).collect();
    assert!(!names.is_empty() && names.iter().all(|name| name == ".hidden"), "{names:?}");
    engine.clear_snapshot(Some(".hidden"), &[]).unwrap();
    assert_eq!(engine.list_snapshots().unwrap(), []);
}
