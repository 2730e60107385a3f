//! EXPLAIN through a real socket.

use super::*;

/// Rows of EXPLAIN without their numbers, as text.
fn steps(rows: &Rows) -> Vec<String> {
    let text = |value: &Option<Bytes>| String::from_utf8(value.clone().unwrap().to_vec()).unwrap();
    rows.rows.iter().map(|row| format!("{} {}: {}", text(&row[1]), text(&row[2]), text(&row[3]))).collect()
}

#[test]
fn explain_says_how_and_with_analyze_what_it_touched() {
    run(async {
        let db = Db::open(&Env::for_test(61)).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        cql(
            client,
            "CREATE KEYSPACE e WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )
        .await;
        cql(client, "CREATE TABLE e.t (k int, c int, v text, PRIMARY KEY (k, c))").await;
        for c in 0..10 {
            cql(client, &format!("INSERT INTO e.t (k, c, v) VALUES (1, {c}, 'v{c}')")).await;
        }
        let flush = |db: &Db| {
            let engine = Arc::clone(&db.node.state.engine);
            tokio::task::spawn_blocking(move || engine.flush("e", Some("t")).unwrap())
        };
        flush(&db).await.unwrap();
        cql(client, "INSERT INTO e.t (k, c, v) VALUES (2, 1, 'x')").await;
        flush(&db).await.unwrap();

        let reads = db.node.state.engine.stats().page_cache.misses;
        let plan = select(client, "EXPLAIN SELECT v FROM e.t WHERE k = 1 AND c >= 4").await;
        let names = |rows: &Rows| -> Vec<String> {
            rows.columns.iter().flatten().map(|column| column.name.clone()).collect()
        };
        assert_eq!(names(&plan), ["step", "operation", "target", "detail"]);
        assert_eq!(
            steps(&plan)[6..],
            [
                "memtable active: searched, the key is not there",
                "sstable nb-2-big: skipped: its keys lie elsewhere",
                "sstable nb-1-big: to be read"
            ]
        );
        assert_eq!(db.node.state.engine.stats().page_cache.misses, reads, "a plan reads nothing");

        let text = "EXPLAIN ANALYZE SELECT v FROM e.t WHERE k = ? AND c >= ?";
        let prepared = prepare(client, text).await;
        assert_eq!((prepared.bind.len(), prepared.partition_key_indexes.clone()), (2, vec![0]));
        assert_eq!(prepared.result.len(), 6);
        let execute = |page| {
            Request::Execute(Execute {
                id: prepared.id[..].into(),
                result_metadata_id: Some(prepared.result_metadata_id[..].into()),
                params: QueryParams { page_size: Some(page), ..with_values(vec![int(1), int(4)]) },
            })
        };
        for (page, total) in
            [(100, "6 rows in 36 bytes, which is all"), (4, "4 rows in 24 bytes, and more pages follow")]
        {
            let analyzed = rows(client.call(execute(page)).await);
            assert_eq!(analyzed.paging_state, None);
            let steps = steps(&analyzed);
            assert_eq!(
                steps[6..],
                [
                    "memtable active: searched, the key is not there",
                    "sstable nb-2-big: skipped: its keys lie elsewhere",
                    "sstable nb-1-big: read",
                    "wait : for a reader thread",
                    format!("total e.t: {total}").as_str(),
                ]
            );
            let figures = analyzed.rows.last().unwrap()[5].clone().unwrap();
            let figure = |name: &str| {
                let mut pairs = model::types::collection::pairs(&figures);
                let found = pairs.find(|(key, _)| *key == name.as_bytes());
                found.map(|(_, value)| i64::from_be_bytes(value.try_into().unwrap()))
            };
            assert_eq!(figure("sstables_considered"), Some(2));
            assert_eq!(figure("skipped_by_range"), Some(1));
            assert_eq!(figure("rows_returned"), Some(page.min(6).into()));
            assert_eq!(figure("chunk_misses").or(figure("chunk_hits")), Some(1), "one chunk holds all");
        }
        // What is read with BYPASS CACHE is loaded again and again; a plain read makes it resident.
        let cache = || db.node.state.engine.stats().page_cache;
        crate::storage::invalidate_cache(&db.node.state.engine, tools::api::CacheKind::Pages);
        let before = cache();
        for _ in 0..2 {
            let read = select(client, "SELECT v FROM e.t WHERE k = 1 AND c >= 4 BYPASS CACHE").await;
            assert_eq!(read.rows.len(), 6);
        }
        let analyzed = select(client, "EXPLAIN ANALYZE SELECT v FROM e.t WHERE k = 1 BYPASS CACHE").await;
        assert!(steps(&analyzed).contains(&"cache : bypassed: what is loaded does not stay".to_owned()));
        assert_eq!((cache().insertions, cache().entries), (before.insertions, 0));
        assert!(cache().misses >= before.misses + 6, "{:?}", cache());
        select(client, "SELECT v FROM e.t WHERE k = 1 AND c >= 4").await;
        let filled = cache();
        assert!(filled.insertions > before.insertions);
        select(client, "SELECT v FROM e.t WHERE k = 1 AND c >= 4 BYPASS CACHE").await;
        assert_eq!(cache().misses, filled.misses, "resident pages are used");
        let refused =
            error(client.call(query("EXPLAIN INSERT INTO e.t (k, c) VALUES (1, 1)", params())).await);
        assert_eq!(refused.0, ErrorKind::Syntax);
        assert!(refused.1.contains("only SELECT can be explained, not 'INSERT'"), "{}", refused.1);
        let views = select(client, "EXPLAIN ANALYZE SELECT * FROM system_views.settings").await;
        assert!(
            steps(&views)
                .contains(&"virtual settings: made of what the node knows when it is read".to_owned())
        );
        db.stop().await;
    });
}

/// What EXPLAIN ANALYZE counted: of the row of this operation, if it has the figure.
fn figure(rows: &Rows, operation: &str, name: &str) -> Option<i64> {
    let row = rows.rows.iter().find(|row| row[1].as_deref() == Some(operation.as_bytes()))?;
    let figures = row[5].clone()?;
    let mut pairs = model::types::collection::pairs(&figures);
    let found = pairs.find(|(key, _)| *key == name.as_bytes());
    found.map(|(_, value)| i64::from_be_bytes(value.try_into().unwrap()))
}

#[test]
fn tombstones_are_the_same_in_memtables_and_sstables_and_after_the_merge() {
    run(async {
        let db = Db::open(&Env::for_test(62)).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        for statement in [
            "CREATE KEYSPACE e WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE e.t (k int, c int, v text, l list<int>, PRIMARY KEY (k, c))",
            // A collection that is written whole is no tombstone.
            "INSERT INTO e.t (k, c, v, l) VALUES (1, 1, 'a', [1, 2])",
            "INSERT INTO e.t (k, c, v, l) VALUES (1, 2, 'b', [3])",
            "DELETE v FROM e.t WHERE k = 1 AND c = 2",
            "DELETE FROM e.t WHERE k = 1 AND c = 3",
            // Nor is what a row was before.
            "DELETE FROM e.t USING TIMESTAMP 5 WHERE k = 1 AND c = 4",
            "INSERT INTO e.t (k, c, v) VALUES (1, 4, 'c') USING TIMESTAMP 6",
            "DELETE FROM e.t WHERE k = 1 AND c > 10 AND c < 20",
        ] {
            cql(client, statement).await;
        }
        for source in ["memtable", "sstable"] {
            let analyzed = select(client, "EXPLAIN ANALYZE SELECT * FROM e.t WHERE k = 1").await;
            for (operation, name) in [
                (source, "tombstones_scanned"),
                ("total", "tombstones_scanned"),
                ("total", "tombstones_left"),
            ] {
                assert_eq!(figure(&analyzed, operation, name), Some(4), "{source} {operation} {name}");
            }
            let engine = Arc::clone(&db.node.state.engine);
            tokio::task::spawn_blocking(move || engine.flush("e", Some("t")).unwrap()).await.unwrap();
        }
        select(client, "SELECT * FROM e.t WHERE k = 1").await;
        let counted =
            "SELECT max FROM system_views.tombstones_per_read WHERE keyspace_name = 'e' AND table_name = 't'";
        let counted = select(client, counted).await;
        let max = f64::from_be_bytes(counted.rows[0][0].as_deref().unwrap().try_into().unwrap());
        assert_eq!(max, 4.0);
        db.stop().await;
    });
}

#[test]
fn sstables_behind_cached_rows_are_said_to_be_read_only_where_they_have_to() {
    run(async {
        let db = Db::open(&Env::for_test(63)).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        db.node.state.engine.row_cache().set_capacity(16 << 20);
        for statement in [
            "CREATE KEYSPACE e WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE e.t (k int, c int, PRIMARY KEY (k, c)) WITH caching = {'keys': 'ALL', 'rows_per_partition': '2'}",
        ] {
            cql(client, statement).await;
        }
        for c in 0..5 {
            cql(client, &format!("INSERT INTO e.t (k, c) VALUES (1, {c})")).await;
        }
        let engine = Arc::clone(&db.node.state.engine);
        tokio::task::spawn_blocking(move || engine.flush("e", Some("t")).unwrap()).await.unwrap();
        let told = |rows: &Rows, word: &str| -> String {
            steps(rows).into_iter().find(|step| step.starts_with(word)).unwrap_or_default()
        };
        let read = "SELECT * FROM e.t WHERE k = 1 LIMIT 2";
        let explained = select(client, &format!("EXPLAIN {read}")).await;
        assert_eq!(told(&explained, "sstable"), "sstable nb-1-big: to be read");
        select(client, read).await;
        let explained = select(client, &format!("EXPLAIN {read}")).await;
        assert_eq!(told(&explained, "rowcache"), "rowcache heads: to be read");
        let behind = "sstable nb-1-big: to be read where the row cache does not answer";
        assert_eq!(told(&explained, "sstable"), behind);
        let analyzed = select(client, &format!("EXPLAIN ANALYZE {read}")).await;
        assert_eq!(told(&analyzed, "sstable"), "", "it did answer");
        db.stop().await;
    });
}

/// A clock on which every look costs ten milliseconds.
#[derive(Debug, Default)]
struct Hurrying(env::clock::ManualClock);

impl env::clock::Clock for Hurrying {
    fn now_micros(&self) -> i64 {
        self.0.now_micros()
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.advance(Duration::from_millis(10));
        self.0.monotonic_nanos()
    }
}

#[test]
fn slow_reads_are_kept_with_their_costs() {
    run(async {
        let env = Env::for_test(62);
        let env = Env::new(Arc::new(Hurrying::default()), Arc::clone(&env.random), Arc::clone(&env.fs));
        let db = Db::open_with(&env, |config| config.settings.slow_query_log_timeout.0 = 10).await;
        let client = &mut db.client(ProtocolVersion::V4).await;
        cql(
            client,
            "CREATE KEYSPACE e WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )
        .await;
        cql(client, "CREATE TABLE e.t (k text, c int, v text, PRIMARY KEY (k, c))").await;
        let long = "x".repeat(20_000);
        for c in 0..20 {
            cql(client, &format!("INSERT INTO e.t (k, c, v) VALUES ('a', {c}, '{long}')")).await;
        }
        select(client, "SELECT * FROM e.t WHERE k = 'a'").await;
        let view = "SELECT query, restriction, micros, cost FROM system_views.slow_queries WHERE keyspace_name = 'e'";
        let found = select(client, view).await;
        let text = |value: &Option<Bytes>| String::from_utf8(value.clone().unwrap().to_vec()).unwrap();
        let row = &found.rows[0];
        assert_eq!(
            (text(&row[0]), text(&row[1])),
            ("SELECT * FROM e.t WHERE k = 'a'".to_owned(), "k = 'a'".to_owned())
        );
        assert!(i64::from_be_bytes(row[2].as_deref().unwrap().try_into().unwrap()) >= 10_000);
        let cost = row[3].clone().unwrap();
        let mut pairs = model::types::collection::pairs(&cost);
        let (_, rows) = pairs.find(|(name, _)| *name == b"rows_returned").unwrap();
        assert_eq!(rows, 20i64.to_be_bytes());
        let histogram = select(client, "SELECT count, max FROM system_views.returned_bytes_per_read WHERE keyspace_name = 'e' AND table_name = 't'").await;
        let max = f64::from_be_bytes(histogram.rows[0][1].as_deref().unwrap().try_into().unwrap());
        assert!(max > 4e5, "{max}");
        db.stop().await;
    });
}
