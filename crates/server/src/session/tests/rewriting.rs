//! What operators have done to whole SSTables.

use super::*;
use crate::storage;
use std::path::PathBuf;
use tools::api::{
    CollectGarbage, Compact, CompactionThresholds, ConcurrentCompactors, ForceCompact, Granularity,
    ScrubSstables, Selection, TokenRange, UpgradeSstables, VerifySstables,
};

/// Calls the engine where it may block.
async fn on_engine<T: Send + 'static>(
    db: &Db,
    work: impl FnOnce(&engine::Engine) -> T + Send + 'static,
) -> T {
    let engine = Arc::clone(&db.node.state.engine);
    tokio::task::spawn_blocking(move || work(&engine)).await.unwrap()
}

fn selection() -> Selection {
    Selection { keyspace: Some("ks".to_owned()), tables: vec!["t".to_owned()] }
}

/// The paths of the Data.db files of the table.
fn files(engine: &engine::Engine) -> Vec<PathBuf> {
    let table = engine.table_named("ks", "t").unwrap();
    let view = table.view();
    view.sstables.iter().map(|t| t.descriptor().path(sstable::Component::Data)).collect()
}

/// A table with an SSTable for each of three partitions.
async fn filled(env: &Env) -> (Db, Client) {
    let db = Db::open(env).await;
    let mut client = db.client(ProtocolVersion::V5).await;
    create(&mut client).await;
    for k in 0..3 {
        cql(&mut client, &format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 'value')")).await;
        on_engine(&db, |engine| engine.flush("ks", None)).await.unwrap();
    }
    (db, client)
}

async fn keys(client: &mut Client) -> usize {
    select(client, "SELECT k FROM ks.t").await.rows.len()
}

#[test]
fn parts_of_a_table_are_compacted() {
    run(async {
        let (db, mut client) = filled(&Env::for_test(1)).await;
        let compact = |wanted: Compact| on_engine(&db, move |engine| storage::compact(engine, &wanted));
        let before = on_engine(&db, files).await;
        let named = Compact { files: before[..2].to_vec(), ..Compact::default() };
        compact(named).await.unwrap();
        let after = on_engine(&db, files).await;
        assert!(after.len() == 2 && after.contains(&before[2]), "{after:?}");
        let gone = Compact { files: before[..1].to_vec(), ..Compact::default() };
        assert!(compact(gone).await.unwrap_err().to_string().ends_with("is no Data.db of a table here"));

        let partition = |key: &str| Compact {
            selection: selection(),
            partition: Some(key.to_owned()),
            ..Compact::default()
        };
        compact(partition("1")).await.unwrap();
        assert_eq!(on_engine(&db, files).await.len(), 2, "only one SSTable has it, or two met");
        let refusal = compact(partition("x")).await.unwrap_err().to_string();
        assert!(refusal.starts_with("Unable to parse partition key 'x' for table ks.t; "), "{refusal}");
        let range = Some(TokenRange { start: 7, end: 7 });
        compact(Compact { selection: selection(), range, ..Compact::default() }).await.unwrap();
        assert_eq!(on_engine(&db, files).await.len(), 1);
        assert_eq!(keys(&mut client).await, 3);
        db.stop().await;
    });
}

#[test]
fn sound_sstables_are_written_anew_and_damaged_ones_left_alone() {
    run(async {
        let env = Env::for_test(1);
        let (db, mut client) = filled(&env).await;
        let before = on_engine(&db, files).await;
        let upgrade = UpgradeSstables { selection: selection(), ..UpgradeSstables::default() };
        on_engine(&db, move |engine| storage::upgrade(engine, &upgrade)).await.unwrap();
        assert_eq!(on_engine(&db, files).await, before, "all are of the newest version");

        let verify = || {
            let wanted = VerifySstables { selection: selection(), ..VerifySstables::default() };
            on_engine(&db, move |engine| storage::verify(engine, &wanted))
        };
        let scrub = |no_snapshot| {
            let wanted = ScrubSstables { selection: selection(), no_snapshot };
            on_engine(&db, move |engine| storage::scrub(engine, &wanted))
        };
        assert_eq!(verify().await.unwrap(), []);
        assert_eq!(scrub(false).await.unwrap(), []);
        let anew = on_engine(&db, files).await;
        assert!(anew.len() == 3 && anew.iter().all(|file| !before.contains(file)), "{anew:?}");
        let snapshots = on_engine(&db, |engine| engine.list_snapshots()).await.unwrap();
        assert!(snapshots.iter().any(|snapshot| snapshot.tag.starts_with("pre-scrub-")));
        assert_eq!(keys(&mut client).await, 3);

        let mut bytes = env.fs.read(&anew[1]).unwrap().to_vec();
        bytes[3] ^= 1;
        env.fs.write(&anew[1], &bytes).unwrap();
        let found = verify().await.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(scrub(true).await.unwrap().len(), 1);
        assert_eq!(on_engine(&db, files).await, anew);
        db.stop().await;
    });
}

#[test]
fn settings_that_cannot_be_are_refused_in_cassandras_words() {
    run(async {
        let (db, _) = filled(&Env::for_test(1)).await;
        let set = |table: &'static str, min, max| {
            let (keyspace, table) = ("ks".to_owned(), table.to_owned());
            let wanted = CompactionThresholds { keyspace, table, min, max };
            let set = on_engine(&db, move |engine| storage::set_thresholds(engine, &wanted));
            async { set.await.map_err(|error| error.to_string()) }
        };
        assert_eq!(set("t", 5, 40).await, Ok(()));
        assert_eq!(set("t", 50, 40).await.unwrap_err(), "Min threshold cannot be greater than max.");
        assert_eq!(set("t", 1, 40).await.unwrap_err(), "Min threshold must be at least 2");
        assert!(set("t", 0, 0).await.unwrap_err().starts_with("Disabling compaction by setting"));
        assert_eq!(set("nope", 5, 10).await.unwrap_err(), "ColumnFamilyStore for ks/nope not found.");
        let compactors = |compactors| {
            let wanted = ConcurrentCompactors { compactors };
            on_engine(&db, move |engine| storage::set_compactors(engine, wanted))
        };
        assert!(compactors(3).await.is_ok());
        let refusal = compactors(0).await.unwrap_err().to_string();
        assert_eq!(refusal, "concurrent_compactors should be great than 0.");
        assert!(compactors(5_000).await.is_err());
        db.stop().await;
    });
}

#[test]
fn partitions_without_grace_are_named_by_their_keys() {
    run(async {
        let (db, mut client) = filled(&Env::for_test(1)).await;
        on_engine(&db, |engine| engine.set_auto_compaction("ks", Some("t"), false)).await.unwrap();
        let force = |keyspace: &str, table: &str, key: &str| {
            let (keyspace, table) = (keyspace.to_owned(), table.to_owned());
            let wanted = ForceCompact { keyspace, table, keys: vec![key.to_owned()] };
            on_engine(&db, move |engine| storage::force_compact(engine, &wanted))
        };
        cql(&mut client, "DELETE FROM ks.t WHERE k = 1").await;
        on_engine(&db, |engine| engine.flush("ks", None)).await.unwrap();
        let before = on_engine(&db, files).await.len();
        force("ks", "t", "1").await.unwrap();
        let left = on_engine(&db, files).await.len();
        assert_eq!(left, before - 2, "the row and the tombstone are gone");
        for (keyspace, table, key, words) in [
            ("nosuch", "t", "1", "Keyspace nosuch does not exist"),
            ("ks", "nosuch", "1", "Unknown keyspace/cf pair (ks.nosuch)"),
            ("ks", "t", "x", "Unable to make int from 'x'"),
        ] {
            let refusal = force(keyspace, table, key).await.unwrap_err();
            assert!(
                matches!(&refusal, storage::StorageError::Invalid(told) if told.contains(words)),
                "{refusal}"
            );
        }
        assert_eq!(keys(&mut client).await, 2);
        db.stop().await;
    });
}

#[test]
fn garbage_is_collected_cell_by_cell_when_it_is_asked_for() {
    run(async {
        let (db, mut client) = filled(&Env::for_test(1)).await;
        on_engine(&db, |engine| engine.set_auto_compaction("ks", Some("t"), false)).await.unwrap();
        for k in 0..3 {
            cql(&mut client, &format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 'newer')")).await;
        }
        on_engine(&db, |engine| engine.flush("ks", None)).await.unwrap();
        let rows = |engine: &engine::Engine| {
            let view = engine.table_named("ks", "t").unwrap().view();
            view.sstables.iter().map(|t| t.stats().total_columns_set).sum::<i64>()
        };
        let collect = |granularity: Granularity| {
            let wanted = CollectGarbage { selection: selection(), granularity };
            on_engine(&db, move |engine| storage::collect_garbage(engine, &wanted))
        };
        let before = on_engine(&db, rows).await;
        collect(Granularity::Row).await.unwrap();
        assert_eq!(on_engine(&db, rows).await, before);
        collect(Granularity::Cell).await.unwrap();
        assert_eq!(on_engine(&db, rows).await, before - 3);
        assert_eq!(keys(&mut client).await, 3);
        db.stop().await;
    });
}
