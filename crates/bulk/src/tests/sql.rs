//! SQL on tables, compared with DataFusion alone on all of their rows.

use super::running::engine_on;
use crate::sql::{Sql, SqlLimits, analyzer_rules};
use crate::ticket::{Asked, Ticket};
use crate::work::Work;
use crate::{BulkError, ScanOptions, ScanRequest, Select, Source, Split, Table, Tables};
use arrow_array::RecordBatch;
use arrow_cast::pretty::pretty_format_batches;
use bytes::Bytes;
use datafusion::datasource::MemTable;
use datafusion::execution::context::SessionContext;
use datafusion::execution::session_state::SessionStateBuilder;
use engine::{Engine, WriteOptions};
use env::Env;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use futures::TryStreamExt;
use model::{
    Cell, Clustering, CqlType, DecoratedKey, Liveness, Mutation, PartitionKey, PartitionUpdate, Row, Schema,
    TableSchema,
};
use proptest::prelude::*;
use std::sync::Arc;
use uuid::Uuid;

/// A literal of SQL, and the bytes of the same value.
type Value = (String, Vec<u8>);

/// The columns that are no key, with literals of SQL and the bytes of the same values.
fn columns() -> Vec<(&'static str, CqlType, Vec<Value>)> {
    let text = |values: &[&str]| values.iter().map(|v| (format!("'{v}'"), v.as_bytes().to_vec())).collect();
    let number = |values: &[i64], bytes: fn(i64) -> Vec<u8>| -> Vec<(String, Vec<u8>)> {
        values.iter().map(|v| (v.to_string(), bytes(*v))).collect()
    };
    let uuids = (1..4u128).map(|n| {
        let uuid = Uuid::from_u128(n << 100 | n);
        (format!("'{uuid}'"), uuid.as_bytes().to_vec())
    });
    let addresses: [(&str, &[u8]); 3] =
        [("10.0.0.1", &[10, 0, 0, 1]), ("9.9.9.9", &[9, 9, 9, 9]), ("0.0.0.0", &[0; 4])];
    let addresses = addresses.iter().map(|(text, bytes)| (format!("'{text}'"), bytes.to_vec()));
    let days: [(&str, u32); 3] =
        [("1969-12-31", (1 << 31) - 1), ("1970-01-01", 1 << 31), ("2024-02-29", (1 << 31) + 19782)];
    let days = days.iter().map(|(text, days)| (format!("DATE '{text}'"), days.to_be_bytes().to_vec()));
    let moments: [(&str, i64); 3] = [
        ("1969-12-31T23:59:59.999Z", -1),
        ("1970-01-01T00:00:00Z", 0),
        ("2024-01-01T00:00:00Z", 1_704_067_200_000),
    ];
    let moments = moments.iter().map(|(text, ms)| (format!("TIMESTAMP '{text}'"), ms.to_be_bytes().to_vec()));
    let floats = [-1.5f64, 0.0, -0.0, 7.25].map(|v| (format!("{v:?}"), v.to_be_bytes().to_vec()));
    vec![
        ("s", CqlType::Text, text(&["x", "y"])),
        ("t", CqlType::Text, text(&["", "a", "ab", "b''c", "ž"])),
        ("a", CqlType::Ascii, text(&["", "A", "a"])),
        ("i", CqlType::Int, number(&[-5, 0, 3, 1 << 30], |v| (v as i32).to_be_bytes().to_vec())),
        ("b", CqlType::BigInt, number(&[-5, 0, 3, 1 << 40], |v| v.to_be_bytes().to_vec())),
        ("y", CqlType::TinyInt, number(&[-128, 0, 127], |v| (v as i8).to_be_bytes().to_vec())),
        (
            "vi",
            CqlType::Varint,
            number(&[-1, 0, 100], |v| vec![v as u8])
                .into_iter()
                .map(|(v, bytes)| (format!("'{v}'"), bytes))
                .collect(),
        ),
        ("bo", CqlType::Boolean, vec![("true".into(), vec![1]), ("false".into(), vec![0])]),
        ("u", CqlType::Uuid, uuids.collect()),
        ("n", CqlType::Inet, addresses.collect()),
        ("da", CqlType::Date, days.collect()),
        ("ts", CqlType::Timestamp, moments.collect()),
        ("d", CqlType::Double, floats.into()),
    ]
}

pub(super) fn table() -> Arc<TableSchema> {
    let mut builder = TableSchema::builder("ks", "t", Uuid::from_u128(11))
        .partition_key("k", CqlType::Int)
        .partition_key("k2", CqlType::Text)
        .clustering("c", CqlType::Int, true)
        .clustering("c2", CqlType::Text, false);
    for (name, ty, _) in columns() {
        builder = match name {
            "s" => builder.static_column(name, ty),
            _ => builder.regular(name, ty),
        };
    }
    Arc::new(builder.build())
}

/// Writes rows of random values: null, empty, and each that there is.
pub(super) fn fill(engine: &Engine, table: &Arc<TableSchema>, random: &Random) {
    let columns = columns();
    for i in 0..400 {
        let k = random.below(4) as i32;
        let key: [&[u8]; 2] = [&k.to_be_bytes(), if random.below(2) == 0 { b"a" } else { b"" }];
        let key = DecoratedKey::new(PartitionKey::from_components(&key));
        let mut update = PartitionUpdate::new(Arc::clone(table), key);
        let is_static = random.below(20) == 0;
        let c = (random.below(6) as i32).to_be_bytes();
        let clustering = match is_static {
            true => Clustering::empty(),
            false => Clustering::from_values([&c[..], if random.below(2) == 0 { b"p" } else { b"q" }]),
        };
        let mut row = Row::new(clustering);
        row.liveness = if is_static { Liveness::NONE } else { Liveness::new(i + 1) };
        for (name, _, values) in columns.iter().filter(|(name, ..)| (*name == "s") == is_static) {
            let id = table.column(name).unwrap().id;
            match random.below(10) {
                0 => {}
                1 => row.cells.push(Cell::live(id, i + 1, Bytes::new())),
                _ => {
                    let (_, bytes) = &values[random.below(values.len() as u64) as usize];
                    row.cells.push(Cell::live(id, i + 1, Bytes::from(bytes.clone())));
                }
            }
        }
        row.cells.sort_by_key(|cell| cell.column);
        match is_static {
            true => update.add_static(row),
            false => update.add_row(row),
        }
        let _ = engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap();
        if i % 150 == 149 {
            engine.flush("ks", None).unwrap();
        }
    }
}

#[derive(Debug)]
pub(super) struct OneTable {
    pub schema: Arc<Schema>,
    pub source: Arc<dyn Table>,
}

impl Tables for OneTable {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }

    fn table(&self, keyspace: &str, name: &str) -> Result<Arc<dyn Table>, BulkError> {
        match (keyspace, name) {
            ("ks", "t") => Ok(Arc::clone(&self.source)),
            _ => Err(BulkError::UnknownTable(format!("{keyspace}.{name}"))),
        }
    }

    fn names(&self) -> Vec<(String, String)> {
        vec![("ks".to_owned(), "t".to_owned())]
    }
}

fn shown(batches: &[RecordBatch]) -> Vec<String> {
    let text = pretty_format_batches(batches).unwrap().to_string();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines.dedup_by(|a, b| a.starts_with('+') && b.starts_with('+'));
    lines
}

/// One comparison.
fn condition(random: &Random) -> String {
    let mut all: Vec<(&str, Vec<String>)> = columns()
        .into_iter()
        .map(|(name, _, values)| (name, values.into_iter().map(|v| v.0).collect()))
        .collect();
    let of = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
    all.push(("k", of(&["0", "1", "2", "9"])));
    all.push(("k2", of(&["'a'", "''", "'z'"])));
    all.push(("c", of(&["0", "1", "3", "5"])));
    all.push(("c2", of(&["'p'", "'q'"])));
    // Keys more often: most combinations that a table takes over are of them.
    let at = random.below(all.len() as u64 + 8) as usize;
    let (name, values) = &all[if at < all.len() { at } else { all.len() - 1 - at % 4 }];
    let value = || values[random.below(values.len() as u64) as usize].clone();
    match random.below(9) {
        0..4 => format!("{name} = {}", value()),
        4 => format!("{name} IN ({}, {})", value(), value()),
        5 => format!("{name} > {}", value()),
        6 => format!("{} >= {name}", value()),
        7 => format!("{name} IS NOT NULL"),
        _ => format!("{name} <> {}", value()),
    }
}

#[test]
fn random_statements_answer_what_datafusion_alone_finds() {
    let table = table();
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    let random = Random::from_seed(5);
    fill(&engine, &table, &random);
    let source = Source::of_node(engine.table(table.id).unwrap().hold());
    let env = Env::for_test(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();

    let all = ScanRequest::of_table(source.table(), None, 1, ScanOptions::default()).unwrap();
    let batches: Vec<_> = source.scan(&all, &Split::FULL).map(Result::unwrap).collect();
    let state =
        SessionStateBuilder::new().with_default_features().with_analyzer_rules(analyzer_rules()).build();
    let alone = SessionContext::new_with_state(state);
    alone.register_table("t", Arc::new(MemTable::try_new(all.schema(), vec![batches]).unwrap())).unwrap();

    let work = Arc::new(Work::new(env.clone(), 0));
    let watched = work.watch(Arc::new(source), "test");
    let tables = Arc::new(OneTable { schema: engine.schema(), source: watched });
    let sql = Sql::new(env, tables, SqlLimits::default()).unwrap();
    let mut taken_over = 0;
    for turn in 0..150 {
        let mut conditions: Vec<String> = (0..1 + random.below(4)).map(|_| condition(&random)).collect();
        if random.below(5) == 0 {
            conditions.push(format!("({} OR {})", condition(&random), condition(&random)));
        }
        let what = ["*", "count(*)", "c, t, u", "upper(t) AS up, i + 1 AS more"][random.below(4) as usize];
        let text = format!("SELECT {what} FROM t WHERE {}", conditions.join(" AND "));
        let (expected, found, in_parts) = runtime.block_on(async {
            let expected = alone.sql(&text).await.unwrap().collect().await.unwrap();
            let query = sql.plan(&text, 1, None).await.unwrap();
            taken_over +=
                u32::from(format!("{:?}", query.physical_plan().await.unwrap()).contains("where=["));
            let found: Vec<_> = query.run().await.unwrap().try_collect().await.unwrap();
            let mut in_parts = Vec::new();
            for part in query.parts(|_| 3).await.unwrap() {
                let query = sql.plan(&text, 1, part.split).await.unwrap();
                in_parts.extend(query.run().await.unwrap().try_collect::<Vec<_>>().await.unwrap());
            }
            (expected, found, in_parts)
        });
        assert_eq!(shown(&found), shown(&expected), "turn {turn}: {text}");
        assert_eq!(shown(&in_parts), shown(&expected), "turn {turn}, in parts: {text}");
    }
    assert!(taken_over > 100, "{taken_over}");
    let stats = work.stats();
    assert!(
        stats.scans >= 250 && stats.failures == 0 && stats.rows > 0 && work.running().is_empty(),
        "{stats:?}"
    );
}

#[test]
fn a_count_that_is_known_scans_nothing() {
    let table = Arc::new(
        TableSchema::builder("ks", "t", Uuid::from_u128(12))
            .partition_key("k", CqlType::Int)
            .regular("v", CqlType::Int)
            .build(),
    );
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    let env = Env::for_test(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let write = |k: i32| {
        let key = DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]));
        let mut update = PartitionUpdate::new(Arc::clone(&table), key);
        let mut row = Row::new(Clustering::empty());
        row.liveness = Liveness::new(1);
        update.add_row(row);
        let _ = engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap();
    };
    // How many rows a statement finds, and how many scans it takes.
    let ask = |text: &str| {
        let source = Source::of_node(engine.table(table.id).unwrap().hold());
        let work = Arc::new(Work::new(env.clone(), 0));
        let watched = work.watch(Arc::new(source), "test");
        let tables = Arc::new(OneTable { schema: engine.schema(), source: watched });
        let sql = Sql::new(env.clone(), tables, SqlLimits::default()).unwrap();
        let batches: Vec<RecordBatch> = runtime.block_on(async {
            let query = sql.plan(text, 1, None).await.unwrap();
            query.run().await.unwrap().try_collect().await.unwrap()
        });
        (shown(&batches).join(" "), work.stats().scans)
    };
    (0..7).for_each(write);
    let (answer, scans) = ask("SELECT count(*) AS n FROM t");
    assert!(answer.contains("| 7 |") && scans > 0, "{answer}, {scans}: some are in memory");
    engine.flush("ks", None).unwrap();
    for text in ["SELECT count(*) AS n FROM t", "SELECT count(1) AS n FROM t"] {
        let (answer, scans) = ask(text);
        assert!(answer.contains("| 7 |") && scans == 0, "{answer}, {scans}");
    }
    for text in [
        "SELECT count(v) AS n FROM t",
        "SELECT count(*) AS n FROM t WHERE k = 3",
        "SELECT count(*) AS n FROM (SELECT * FROM t LIMIT 3)",
    ] {
        let (answer, scans) = ask(text);
        assert!(!answer.contains("| 7 |") && scans > 0, "{text}: {answer}, {scans}");
    }
}

#[test]
fn statements_that_do_more_than_read_are_refused() {
    let table = table();
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    let source = Source::of_node(engine.table(table.id).unwrap().hold());
    let tables = Arc::new(OneTable { schema: engine.schema(), source: Arc::new(source) });
    let sql = Sql::new(Env::for_test(1), tables, SqlLimits::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for text in [
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
        "CREATE TABLE x AS SELECT 1",
        "CREATE VIEW x AS SELECT 1",
        "INSERT INTO t SELECT * FROM t",
        "DELETE FROM t",
        "DROP TABLE t",
        "COPY t TO '/tmp/x.csv'",
        "SET datafusion.execution.batch_size = 1",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM nosuch.t",
        "SELECT * FROM t WHERE u = 'no uuid'",
    ] {
        assert!(runtime.block_on(sql.plan(text, 1, None)).is_err(), "{text}");
    }
}

#[test]
fn long_and_deep_statements_do_not_end_the_process() {
    let table = table();
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    let source = Source::of_node(engine.table(table.id).unwrap().hold());
    let tables = Arc::new(OneTable { schema: engine.schema(), source: Arc::new(source) });
    let sql = Sql::new(Env::for_test(1), tables, SqlLimits::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let plan = |text: String| {
        let sql = &sql;
        runtime.block_on(async move { sql.plan(&text, 1, None).await.map(|query| query.schema()) })
    };
    let many = |count: usize, condition: &str, word: &str| vec![condition; count].join(word);
    assert!(plan(format!("SELECT k FROM t WHERE {}", many(130, "c + i > k", " AND "))).is_ok());
    assert!(plan(format!("SELECT k FROM t WHERE {}", many(200, "c > k", " OR "))).is_ok());
    assert!(plan(format!("SELECT k FROM t WHERE k IN ({})", many(9_000, "1", ", "))).is_ok());
    let refused = plan(format!("SELECT k FROM t WHERE {}", many(9_000, "k", " + "))).unwrap_err();
    assert!(refused.to_string().contains("operators"), "{refused}");
    assert!(plan(format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000))).is_err());
    assert!(plan(format!("SELECT {}1", "- ".repeat(5_000))).is_err());
    assert!(
        plan(format!("SELECT '{}'", "x".repeat(300_000))).unwrap_err().to_string().contains("are the most")
    );
}

#[test]
fn words_make_no_sense_for_other_tables() {
    let table = table();
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    let (env, schema) = (Env::for_test(1), engine.schema());
    let refused = |select: Select| select.request(&env, &schema).unwrap_err().to_string();
    let of = |filter: &str| Select { filter: Some(filter.to_owned()), ..Select::of("ks", "t") };
    assert!(refused(Select::of("ks", "nosuch")).contains("nosuch"));
    assert!(refused(of("nosuch = 1")).contains("nosuch"));
    assert!(refused(of("k = 1 GROUP BY k, k2")).contains("conditions"));
    assert!(refused(of("k = 1; DROP TABLE ks.t")).contains("line 1"));
    let request =
        Select { limit: Some(3), ..of("k = 1 AND k2 = 'a' LIMIT 9") }.request(&env, &schema).unwrap();
    assert_eq!(request.limit(), Some(3));
}

proptest! {
    #[test]
    fn tickets_are_read_again_and_no_bytes_harm(
        filter in proptest::option::of(".{0,40}"),
        sql in ".{0,80}",
        range in proptest::option::of(any::<(i64, i64)>()),
        now_s: u32,
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
    ) {
        let select = Select { filter, token_range: range, limit: Some(u64::from(now_s)), ..Select::of("ks", "t") };
        let split = range.map(|(after, through)| Split { after: Some(after), through: Some(through), ..Split::FULL });
        for asked in [Asked::Scan(select.clone()), Asked::Sql(sql.clone())] {
            let ticket = Ticket { asked, now_s, split: split.clone() };
            let mut bytes = ticket.to_bytes();
            prop_assert_eq!(&Ticket::of_bytes(&bytes).unwrap(), &ticket);
            let at = at.index(bytes.len());
            bytes[at] ^= 0x41;
            let _ = Ticket::of_bytes(&bytes);
            bytes.truncate(at);
            prop_assert!(Ticket::of_bytes(&bytes).is_err());
        }
        prop_assert!(Ticket::of_bytes(&noise).is_err());
        let behind: Vec<u8> = b"ILT1".iter().copied().chain(noise).collect();
        let _ = Ticket::of_bytes(&behind);
    }
}
