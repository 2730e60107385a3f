//! The sizes of tables that clients divide them by.

use super::*;
use crate::node::estimates;

/// Rows of an estimates table: its texts behind the keyspace, then mean size and count of partitions.
async fn estimated(client: &mut Client, table: &str, texts: &str) -> Vec<(Vec<String>, i64, i64)> {
    let statement = format!(
        "SELECT {texts}, mean_partition_size, partitions_count FROM system.{table} WHERE keyspace_name = 'ks'"
    );
    let rows = select(client, &statement).await.rows;
    let number = |value: &Option<Bytes>| i64::from_be_bytes(value.as_deref().unwrap().try_into().unwrap());
    rows.iter()
        .map(|row| {
            let (texts, numbers) = row.split_at(row.len() - 2);
            let text = |value: &Option<Bytes>| String::from_utf8(value.clone().unwrap().into()).unwrap();
            (texts.iter().map(text).collect(), number(&numbers[0]), number(&numbers[1]))
        })
        .collect()
}

const RANGES: &str = "table_name, range_start, range_end";

async fn record(db: &Db) {
    let state = Arc::clone(&db.node.state);
    tokio::task::spawn_blocking(move || estimates::record(&state)).await.unwrap().unwrap();
}

async fn flush(db: &Db) {
    let engine = Arc::clone(&db.node.state.engine);
    tokio::task::spawn_blocking(move || engine.flush("ks", None)).await.unwrap().unwrap();
}

async fn fill(client: &mut Client, count: i32) {
    let prepared = prepare(client, "INSERT INTO ks.t (k, c, v) VALUES (?, 1, 'value')").await;
    for k in 0..count {
        result(client.call(execute(&prepared, with_values(vec![int(k)]))).await);
    }
}

fn with_tokens(tokens: &'static str) -> impl FnOnce(&mut Config) {
    move |config| {
        config.settings.num_tokens = tokens.split(',').count() as u32;
        config.settings.initial_token = Some(tokens.to_owned());
    }
}

/// As Cassandra counts: the summary of 3000 partitions has 24 keys, and each stands for 128 partitions.
#[test]
fn a_node_of_one_token_has_two_ranges_and_counts_by_the_summary() {
    run(async {
        let db = Db::open_with(&Env::for_test(1), with_tokens("0")).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        fill(&mut client, 3_000).await;
        record(&db).await;
        let rows = estimated(&mut client, "size_estimates", RANGES).await;
        let texts: Vec<[&str; 3]> =
            rows.iter().map(|(t, ..)| [t[0].as_str(), t[1].as_str(), t[2].as_str()]).collect();
        assert_eq!(texts, [["t", "-9223372036854775808", "0"], ["t", "0", "-9223372036854775808"]]);
        assert!(rows.iter().all(|(_, mean, count)| (*mean, *count) == (0, 0)), "memtables do not count");

        flush(&db).await;
        record(&db).await;
        let rows = estimated(&mut client, "size_estimates", RANGES).await;
        assert_eq!(rows.len(), 2);
        assert_eq!(rows.iter().map(|(_, _, count)| count).sum::<i64>(), 24 * 128);
        assert!(rows.iter().all(|(_, mean, count)| (30..80).contains(mean) && *count > 1_200), "{rows:?}");
        let typed = estimated(&mut client, "table_estimates", "range_type").await;
        let kinds: Vec<&str> = typed.iter().map(|(t, ..)| t[0].as_str()).collect();
        assert_eq!(kinds, ["local_primary", "local_primary", "primary", "primary"]);
        let counts = |rows: &[(Vec<String>, i64, i64)]| rows.iter().map(|row| row.2).collect::<Vec<_>>();
        assert_eq!((counts(&typed[..2]), counts(&typed[2..])), (counts(&rows), counts(&rows)));
        db.stop().await;
    });
}

#[test]
fn several_tokens_divide_a_table_and_a_dropped_one_is_forgotten_at_once() {
    run(async {
        let env = Env::for_test(1);
        let tokens = || with_tokens("-4611686018427387904,0,4611686018427387904");
        let db = Db::open_with(&env, tokens()).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        cql(&mut client, "CREATE TABLE ks.other (k int PRIMARY KEY)").await;
        fill(&mut client, 4_000).await;
        flush(&db).await;
        record(&db).await;
        let rows = estimated(&mut client, "size_estimates", RANGES).await;
        assert_eq!(rows.len(), 8, "four ranges of two tables");
        for (texts, _, count) in &rows {
            let expected = if texts[0] == "t" { 800..1_200 } else { 0..1 };
            assert!(expected.contains(count), "{texts:?}: {count}");
        }
        cql(&mut client, "DROP TABLE ks.t").await;
        for (table, rows) in [("size_estimates", 4), ("table_estimates", 8)] {
            let left = estimated(&mut client, table, "table_name").await;
            assert_eq!(left.len(), rows);
            assert!(left.iter().all(|(texts, ..)| texts[0] == "other"));
        }
        db.stop().await;

        let db = Db::open_with(&env, tokens()).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        assert_eq!(estimated(&mut client, "size_estimates", RANGES).await.len(), 4);
        cql(&mut client, "DROP KEYSPACE ks").await;
        assert_eq!(estimated(&mut client, "size_estimates", RANGES).await.len(), 0);
        db.stop().await;
    });
}

#[test]
fn a_keyspace_without_a_replica_here_has_no_primary_range() {
    run(async {
        let db = Db::open_with(&Env::for_test(1), with_tokens("0")).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let engine = Arc::clone(&db.node.state.engine);
        let elsewhere = move || {
            let mut schema = model::Schema::clone(&engine.schema());
            let keyspace = Arc::make_mut(schema.keyspaces.get_mut("ks").unwrap());
            keyspace.replication.class = "NetworkTopologyStrategy".to_owned();
            keyspace.replication.options = [("elsewhere".to_owned(), "1".to_owned())].into();
            engine.install_schema(schema)
        };
        tokio::task::spawn_blocking(elsewhere).await.unwrap().unwrap();
        record(&db).await;
        assert_eq!(estimated(&mut client, "size_estimates", RANGES).await.len(), 0);
        let typed = estimated(&mut client, "table_estimates", "range_type").await;
        assert!(typed.iter().all(|(texts, ..)| texts[0] == "local_primary") && typed.len() == 2);
        db.stop().await;
    });
}

/// As after a crash between a drop and the removal of its rows.
#[test]
fn a_round_forgets_tables_that_are_gone() {
    run(async {
        let db = Db::open_with(&Env::for_test(1), with_tokens("0")).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        record(&db).await;
        let engine = Arc::clone(&db.node.state.engine);
        let drop_table = move || {
            let mut schema = model::Schema::clone(&engine.schema());
            Arc::make_mut(schema.keyspaces.get_mut("ks").unwrap()).tables.remove("t");
            engine.install_schema(schema)
        };
        tokio::task::spawn_blocking(drop_table).await.unwrap().unwrap();
        assert_eq!(estimated(&mut client, "size_estimates", RANGES).await.len(), 2);
        record(&db).await;
        for table in ["size_estimates", "table_estimates"] {
            assert_eq!(estimated(&mut client, table, "table_name").await.len(), 0);
        }
        db.stop().await;
    });
}
