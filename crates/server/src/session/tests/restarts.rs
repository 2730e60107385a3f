//! What was accepted is there after a restart: schemas, what DESCRIBE tells of them, and what was written.
//!
//! Hostile statements are drawn from a seed; which of them are refused is not asked here. What is asked: the
//! node opens again, describes the same schema, and reads the same values, before the restart and after it,
//! from memtables and from SSTables.

use super::*;

/// Numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn type_name(&mut self) -> &'static str {
        self.of(&[
            "\"int\"",
            "\"list\"",
            "\"frozen\"",
            "\"Foo\"",
            "\"a b\"",
            "\"q\"\"q\"",
            "\"a'b\"",
            "\"empty\"",
            "\"select\"",
            "\"true\"",
            "\"byte\"",
            "\"a<b\"",
            "\"a,b\"",
            "\"ü\"",
            "plain",
            "\"varchar\"",
            "\"key\"",
        ])
    }

    fn column_name(&mut self) -> &'static str {
        self.of(&[
            "\"select\"",
            "\"Foo\"",
            "\"a b\"",
            "\"q\"\"q\"",
            "\"a'b\"",
            "\"ü\"",
            "ttl",
            "\"int\"",
            "v",
            "w",
            "x",
        ])
    }

    fn table_name(&mut self) -> &'static str {
        self.of(&["\"select\"", "\"Foo\"", "t", "\"1t\"", "\"_t\"", "\"table\""])
    }

    fn column_type(&mut self, depth: usize) -> String {
        let plain = ["int", "text", "blob", "uuid", "varint", "decimal", "duration", "inet", "time", "date"];
        match self.below(if depth > 3 { 2 } else { 20 }) {
            0 | 1 | 12.. => self.of(&plain).to_owned(),
            2 => format!("frozen<list<{}>>", self.column_type(depth + 1)),
            3 => format!("frozen<map<text, {}>>", self.column_type(depth + 1)),
            4 => format!("tuple<{}, {}>", self.column_type(depth + 1), self.column_type(depth + 1)),
            5 => format!(
                "vector<{}, {}>",
                self.column_type(depth + 1),
                self.of(&["1", "3", "2147483647", "0"])
            ),
            6 => format!("frozen<{}>", self.type_name()),
            7 => self.type_name().to_owned(),
            8 => format!("set<{}>", self.column_type(depth + 1)),
            9 => format!("'{}'", self.class(depth)),
            10 => format!("list<frozen<{}>>", self.type_name()),
            _ => format!("list<'{}'>", self.class(depth)),
        }
    }

    fn class(&mut self, depth: usize) -> String {
        match self.below(if depth > 3 { 1 } else { 14 }) {
            0 | 11.. => "Int32Type".to_owned(),
            1 => "org.apache.cassandra.db.marshal.DateType".to_owned(),
            2 => self
                .of(&["EmptyType", "LexicalUUIDType", "CounterColumnType", "nope", "BytesType"])
                .to_owned(),
            3 => format!("ListType({})", self.class(depth + 1)),
            4 => format!("FrozenType(MapType(UTF8Type,{}))", self.class(depth + 1)),
            5 => format!("TupleType({},{})", self.class(depth + 1), self.class(depth + 1)),
            6 => format!("UserType({},706c61696e,61:{})", self.of(&["ks", "other"]), self.class(depth + 1)),
            7 => format!("VectorType({},{})", self.class(depth + 1), self.of(&["2", "0", "2147483648"])),
            8 => format!(
                "CompositeType({},{}{})",
                self.class(depth + 1),
                self.class(depth + 1),
                self.of(&["", "(reversed=true)", ",UserType(ks,706c61696e,61:Int32Type)", ","])
            ),
            9 => format!(
                "DynamicCompositeType({}=>{},A=>{})",
                self.of(&["a", "Q", "+", "$", "aa"]),
                self.class(depth + 1),
                self.class(depth + 1)
            ),
            _ => format!("ReversedType({})", self.class(depth + 1)),
        }
    }

    /// But `cdc`, which is not written, as by a Cassandra whose `cdc_enabled` is false.
    fn option(&mut self) -> String {
        self.of(&[
            "comment = 'it''s \"quoted\" \u{0}\u{fc}'",
            "extensions = {'a': 0xff, '': 0x}",
            "compression = {'class': 'ZstdCompressor', 'compression_level': 3}",
            "compression = {'enabled': false}",
            "compression = {'class': 'LZ4Compressor', 'min_compress_ratio': '1.5'}",
            "compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': 10}",
            "compaction = {'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4, L8'}",
            "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_size': 3}",
            "caching = {'keys': 'none', 'rows_per_partition': 10}",
            "bloom_filter_fp_chance = 0.1",
            "bloom_filter_fp_chance = NaN",
            "crc_check_chance = NaN",
            "default_time_to_live = 86400",
            "speculative_retry = 'MIN(99.5p,20ms)'",
            "additional_write_policy = 'never'",
            "memtable = 'default'",
            "min_index_interval = 7 AND max_index_interval = 9",
            "gc_grace_seconds = 0",
        ])
        .to_owned()
    }

    fn statement(&mut self) -> String {
        match self.below(14) {
            0 | 1 => format!(
                "CREATE TYPE ks.{} (a {}, {} {})",
                self.type_name(),
                self.column_type(1),
                self.column_name(),
                self.column_type(1)
            ),
            2 => format!(
                "ALTER TYPE ks.{} ADD {} {}",
                self.type_name(),
                self.column_name(),
                self.column_type(2)
            ),
            3 => format!("ALTER TYPE ks.{} RENAME a TO {}", self.type_name(), self.column_name()),
            4 => format!("DROP TYPE ks.{}", self.type_name()),
            5 => format!(
                "ALTER TABLE ks.{} DROP {} USING TIMESTAMP {}",
                self.table_name(),
                self.column_name(),
                self.of(&["-5", "0", "1500", "9223372036854775807", "-9223372036854775808"])
            ),
            6 => format!(
                "ALTER TABLE ks.{} ADD {} {}",
                self.table_name(),
                self.column_name(),
                self.column_type(0)
            ),
            7 => format!("ALTER TABLE ks.{} WITH {}", self.table_name(), self.option()),
            8 => format!("ALTER TABLE ks.{} DROP {}", self.table_name(), self.column_name()),
            9 => format!("DROP TABLE ks.{}", self.table_name()),
            10 => format!(
                "CREATE TABLE ks.{} (k int, c {}, s {} static, {} {}, PRIMARY KEY (k, c)) WITH \
                 CLUSTERING ORDER BY (c DESC) AND {}",
                self.table_name(),
                self.column_type(1),
                self.column_type(0),
                self.column_name(),
                self.column_type(0),
                self.option()
            ),
            _ => format!(
                "CREATE TABLE ks.{} (k int PRIMARY KEY, {} {}, {} {}) WITH {}",
                self.table_name(),
                self.column_name(),
                self.column_type(0),
                self.column_name(),
                self.column_type(0),
                self.option()
            ),
        }
    }
}

/// What is told of the schema, and what the tables of `ks` hold.
async fn told(client: &mut Client) -> Vec<Vec<Vec<Option<Bytes>>>> {
    let mut out = vec![select(client, "DESCRIBE KEYSPACE ks WITH INTERNALS").await.rows];
    let tables =
        select(client, "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks'").await;
    for row in tables.rows {
        let name = String::from_utf8(row[0].clone().unwrap().to_vec()).unwrap();
        out.push(select(client, &format!("SELECT * FROM ks.\"{}\"", name.replace('"', "\"\""))).await.rows);
    }
    out
}

/// A node with a commit log of short segments, which are soon read.
async fn open(env: &Env) -> Db {
    Db::open_with(env, |config| config.settings.commitlog_segment_size.0 = 1 << 20).await
}

async fn write_defaults(client: &mut Client) {
    let columns =
        "SELECT table_name, column_name, type, kind FROM system_schema.columns WHERE keyspace_name = 'ks'";
    for row in select(client, columns).await.rows {
        let cell =
            |n: usize| String::from_utf8(row[n].clone().unwrap().to_vec()).unwrap().replace('"', "\"\"");
        let value = match cell(2).as_str() {
            "int" | "varint" | "decimal" => "7",
            "text" => "'x'",
            "blob" => "0x01",
            ty if ty.starts_with("'org.apache.cassandra.db.marshal.CompositeType") => "''",
            "\"\"int\"\"" | "plain" | "\"\"Foo\"\"" | "frozen<\"\"int\"\">" => "{a: null}",
            _ => "null",
        };
        if cell(3) == "regular" || cell(3) == "static" {
            let cql = format!("UPDATE ks.\"{}\" SET \"{}\" = {value} WHERE k = 1", cell(0), cell(1));
            // Rows with clusterings need one; static columns do not.
            drop(client.call(query(&cql, params())).await);
        }
        let cql = format!("INSERT INTO ks.\"{}\" (k) VALUES (2)", cell(0));
        drop(client.call(query(&cql, params())).await);
    }
}

#[test]
fn hostile_schemas_are_refused_or_survive_a_restart() {
    let mut accepted = 0;
    for seed in 1..=2u64 {
        run(async {
            let env = Env::for_test(seed);
            let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let db = open(&env).await;
            let mut client = db.client(ProtocolVersion::V5).await;
            cql(&mut client, KEYSPACE).await;
            for name in ["\"int\"", "\"Foo\"", "\"a b\"", "\"select\"", "plain", "\"q\"\"q\""] {
                cql(&mut client, &format!("CREATE TYPE ks.{name} (a int)")).await;
            }
            for _ in 0..120 {
                let statement = draw.statement();
                match client.call(query(&statement, params())).await {
                    Response::Error(refused) => {
                        assert_ne!(refused.kind, ErrorKind::Server, "{statement}: {}", refused.message);
                    }
                    _ => accepted += 1,
                }
            }
            write_defaults(&mut client).await;
            let before = told(&mut client).await;
            db.stop().await;
            let db = open(&env).await;
            let mut client = db.client(ProtocolVersion::V5).await;
            assert_eq!(told(&mut client).await, before, "seed {seed}, replayed");
            let engine = Arc::clone(&db.node.state.engine);
            tokio::task::spawn_blocking(move || engine.flush("ks", None)).await.unwrap().unwrap();
            assert_eq!(told(&mut client).await, before, "seed {seed}, flushed");
            db.stop().await;
        });
    }
    assert!(accepted > 30, "{accepted} of 240 statements did something");
}

#[test]
fn a_user_type_named_like_a_type_of_cql_holds_its_own_values_after_a_restart() {
    run(async {
        let env = Env::for_test(77);
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        cql(&mut client, KEYSPACE).await;
        cql(&mut client, "CREATE TYPE ks.\"int\" (a text)").await;
        cql(&mut client, "CREATE TABLE ks.t (k int PRIMARY KEY, v frozen<\"int\">, w list<frozen<\"int\">>)")
            .await;
        cql(&mut client, "INSERT INTO ks.t (k, v, w) VALUES (1, {a: 'own'}, [{a: 'x'}])").await;
        let read = "SELECT v.a FROM ks.t";
        assert_eq!(select(&mut client, read).await.rows, [[Some(Bytes::from("own"))]]);
        db.stop().await;
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        assert_eq!(select(&mut client, read).await.rows, [[Some(Bytes::from("own"))]]);
        let create = select(&mut client, "DESCRIBE TYPE ks.\"int\"").await.rows[0][3].clone().unwrap();
        assert_eq!(create, "CREATE TYPE ks.\"int\" (\n    a text\n);");
        db.stop().await;
    });
}

#[test]
fn the_deepest_types_that_are_accepted_are_written_flushed_and_read_after_a_restart() {
    run(async {
        let env = Env::for_test(78);
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        cql(&mut client, KEYSPACE).await;
        cql(&mut client, "CREATE TYPE ks.t0 (a int)").await;
        for n in 1..=62 {
            cql(&mut client, &format!("CREATE TYPE ks.t{n} (a frozen<t{}>)", n - 1)).await;
        }
        let list = format!("{}int{}", "frozen<list<".repeat(63), ">>".repeat(63));
        cql(&mut client, &format!("CREATE TABLE ks.t (k int PRIMARY KEY, v frozen<t62>, l {list})")).await;
        let value = format!("{}7{}", "{a: ".repeat(63), "}".repeat(63));
        let elements = format!("{}7{}", "[".repeat(63), "]".repeat(63));
        cql(&mut client, &format!("INSERT INTO ks.t (k, v, l) VALUES (1, {value}, {elements})")).await;
        let read = "SELECT v, l, toJson(v), toJson(l) FROM ks.t";
        let before = select(&mut client, read).await.rows;
        let engine = Arc::clone(&db.node.state.engine);
        tokio::task::spawn_blocking(move || engine.flush("ks", None)).await.unwrap().unwrap();
        assert_eq!(select(&mut client, read).await.rows, before);
        db.stop().await;
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        assert_eq!(select(&mut client, read).await.rows, before);
        db.stop().await;
    });
}
