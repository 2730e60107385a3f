//! The schema on disk.

use super::*;
use crate::EngineError;
use env::fs::memory::MemoryFileSystem;
use model::ColumnKind;
use model::schema::CompactStorage;
use model::types::UserType;

fn open(fs: &MemoryFileSystem) -> Arc<Engine> {
    Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap()
}

#[test]
fn a_fresh_node_has_the_system_keyspaces_and_keeps_its_host_id() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let (host_id, schema) = (engine.host_id(), engine.schema());
    assert_eq!(schema.keyspaces.len(), 5);
    engine.close();
    let engine = open(&fs);
    assert_eq!(engine.host_id(), host_id);
    assert_eq!(engine.schema(), schema, "the version included");
}

/// That of each fresh Cassandra 5.0.5: nodes that meet agree from the start.
#[test]
fn the_schema_of_a_fresh_node_has_cassandras_version() {
    let schema = open(&MemoryFileSystem::new()).schema();
    assert_eq!(schema.version, Uuid::from_u128(0xd03783d7_b468_3c1a_82f1_8e30b2edde8b));
}

#[test]
fn everything_a_schema_holds_survives_a_restart() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let inner = Arc::new(UserType {
        keyspace: "Ks".to_owned(),
        name: "z_inner".to_owned(),
        fields: vec![("a".to_owned(), CqlType::Int), ("B".to_owned(), CqlType::list(CqlType::Text, false))],
    });
    let udt = |multi_cell| CqlType::Udt { definition: Arc::clone(&inner), multi_cell };
    let outer = Arc::new(UserType {
        keyspace: "Ks".to_owned(),
        name: "a outer".to_owned(),
        fields: vec![("x".to_owned(), udt(false))],
    });
    let mut options =
        model::schema::TableOptions { comment: "it's".to_owned(), gc_grace_seconds: 5, ..Default::default() };
    options.compression.class = None;
    options.extensions.insert("e".to_owned(), vec![0, 255]);
    let table = TableSchema::builder("Ks", "T", Uuid::from_u128(9))
        .partition_key("k2", CqlType::Text)
        .partition_key("k1", CqlType::Uuid)
        .clustering("c2", CqlType::Int, true)
        .clustering("c1", CqlType::Timestamp, false)
        .static_column("s", CqlType::map(CqlType::Text, CqlType::Int, true))
        .regular("u", udt(true))
        .regular("v", CqlType::Udt { definition: Arc::clone(&outer), multi_cell: false })
        .regular("gone", udt(true))
        .options(options)
        .build();
    let dropped = Arc::new(table.to_builder().drop_column("gone", 1_000_000).build());
    let counters = TableSchema::builder("Ks", "c", Uuid::from_u128(8))
        .partition_key("k", CqlType::Int)
        .regular("n", CqlType::Counter);
    let mut keyspace = KeyspaceSchema::new("Ks", Replication::simple(3));
    keyspace.durable_writes = false;
    keyspace.types.insert(inner.name.clone(), Arc::clone(&inner));
    keyspace.types.insert(outer.name.clone(), Arc::clone(&outer));
    keyspace.tables.insert("T".to_owned(), Arc::clone(&dropped));
    keyspace.tables.insert("c".to_owned(), Arc::new(counters.build()));
    let installed = engine.install_schema(engine.schema().with_keyspace(keyspace)).unwrap();
    engine.close();

    let engine = open(&fs);
    let loaded = engine.schema();
    let (before, after) = (&installed.keyspaces["Ks"], &loaded.keyspaces["Ks"]);
    assert_eq!(after.types, before.types);
    assert!(!after.durable_writes);
    assert_eq!(after.tables["c"], before.tables["c"]);
    let table = &after.tables["T"];
    assert_eq!(table.options, dropped.options);
    assert_eq!(
        table.select_star().iter().map(|c| (c.name.clone(), c.ty.clone(), c.descending)).collect::<Vec<_>>(),
        dropped
            .select_star()
            .iter()
            .map(|c| (c.name.clone(), c.ty.clone(), c.descending))
            .collect::<Vec<_>>()
    );
    let gone = table.dropped_column("gone").unwrap();
    assert_eq!((gone.kind, gone.dropped_time_micros), (ColumnKind::Regular, 1_000_000));
    assert!(matches!(gone.ty, CqlType::Tuple(_)), "user types of dropped columns become tuples");
    assert_eq!(loaded.version, installed.version);
}

/// As in a Cassandra whose `cdc_enabled` is false.
#[test]
fn cdc_is_asked_for_until_the_restart_and_not_stored() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let table = simple_table("t");
    create(&engine, &[&table]);
    let without = engine.schema().version;
    let asking = |cdc| {
        let mut builder = table.to_builder();
        builder.options.cdc = cdc;
        Arc::new(builder.build())
    };
    let cdc = |engine: &Engine| engine.schema().table("ks", "t").unwrap().options.cdc;
    create(&engine, &[&asking(Some(true))]);
    assert_eq!((cdc(&engine), engine.schema().version), (Some(true), without));
    engine.close();
    let engine = open(&fs);
    assert_eq!((cdc(&engine), engine.schema().version), (None, without));

    // What a Cassandra that has it wrote stays.
    let tables = crate::system::table(engine.release(), "system_schema", "tables");
    let mut row = Row::new(Clustering::from_values([&b"t"[..]]));
    let cdc_column = tables.column("cdc").unwrap().id;
    row.cells.push(Cell::live(cdc_column, 1, Bytes::from_static(&[1])));
    let ks = DecoratedKey::new(PartitionKey::from_components(&[b"ks"]));
    let mut update = PartitionUpdate::new(tables, ks);
    update.add_row(row);
    write(&engine, &Mutation::of(update)).unwrap();
    engine.close();
    let engine = open(&fs);
    assert_eq!(cdc(&engine), Some(true));
    create(&engine, &[&asking(Some(false))]);
    assert_eq!(cdc(&engine), Some(false));
    engine.close();
    assert_eq!(cdc(&open(&fs)), Some(true));
}

#[test]
fn dropped_tables_and_keyspaces_stay_gone_and_versions_differ() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let empty = engine.schema().version;
    let (t, u) = (simple_table("t"), simple_table("u"));
    create(&engine, &[&t, &u]);
    let both = engine.schema().version;
    write(&engine, &insert(&t, 1, 1, "x", 1)).unwrap();
    engine.flush("ks", None).unwrap();
    create(&engine, &[&u]);
    let one = engine.schema().version;
    assert!(engine.table(t.id).is_none() && engine.schema().table("ks", "t").is_none());
    assert!(matches!(write(&engine, &insert(&t, 1, 2, "x", 1)), Err(crate::WriteError::UnknownTable(_))));
    assert!(!fs.exists(&engine.catalog.table_dirs(&t)[0]).unwrap(), "its directory is gone");
    engine.close();
    let engine = open(&fs);
    assert!(engine.schema().table("ks", "t").is_none() && engine.schema().table("ks", "u").is_some());
    assert_eq!(engine.schema().version, one);
    let mut schema = engine.schema().as_ref().clone();
    schema.keyspaces.remove("ks");
    engine.install_schema(schema).unwrap();
    assert_eq!(engine.schema().version, empty, "tombstones do not count");
    assert!(both != one && one != empty);
    engine.close();
    assert!(open(&fs).schema().keyspace("ks").is_none());
}

#[test]
fn a_dropped_table_leaves_a_snapshot_if_asked_to() {
    let fs = MemoryFileSystem::new();
    let options = crate::EngineOptions { auto_snapshot: true, ..options() };
    let engine = Engine::open(options, env_on(Arc::new(fs), 1)).unwrap();
    let (t, u) = (simple_table("t"), simple_table("u"));
    create(&engine, &[&t, &u]);
    write(&engine, &insert(&t, 1, 1, "x", 1)).unwrap();
    create(&engine, &[&u]);
    let list = engine.list_snapshots().unwrap();
    assert_eq!(list.len(), 1);
    assert!(list[0].tag.starts_with("dropped-") && list[0].tag.ends_with("-t"), "{list:?}");
    assert!(list[0].true_size_bytes > 1_000 && list[0].size_bytes >= list[0].true_size_bytes);
}

/// What a start says after a cell of the rows about the table `ks.t` was written over.
fn refusal(table: &str, clustering: &[&[u8]], column: &str, value: Bytes) -> String {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    create(&engine, &[simple_table("t")]);
    let stored = Arc::clone(engine.schema().table("system_schema", table).unwrap());
    let key = PartitionKey::from_components(&[b"ks"]);
    let mut update = PartitionUpdate::new(Arc::clone(&stored), DecoratedKey::new(key));
    let mut row = Row::new(Clustering::from_values(clustering.iter().copied()));
    row.cells.push(Cell::live(stored.column(column).unwrap().id, i64::MAX, value));
    update.add_row(row);
    write(&engine, &Mutation::of(update)).unwrap();
    engine.close();
    drop(engine);
    Engine::open(options(), env_on(Arc::new(fs), 1)).err().unwrap().to_string()
}

#[test]
fn super_column_families_are_refused_by_name() {
    let flags = model::types::collection::encode_set(&CqlType::Text, ["dense", "super"]);
    let error = refusal("tables", &[b"t"], "flags", flags);
    assert!(error.contains("ks.t is a super column") && error.contains("DROP COMPACT STORAGE"), "{error}");
}

#[test]
fn columns_whose_names_are_no_text_are_refused_by_name() {
    let error = refusal("columns", &[b"t", b"v"], "column_name_bytes", Bytes::from_static(&[0, 0, 0, 1]));
    assert!(error.contains("ks.t has the column v"), "{error}");
}

#[test]
fn compact_storage_and_what_it_hides_outlive_a_restart() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let table = |name: &str, compact: CompactStorage, value: CqlType| {
        let mut builder = TableSchema::builder("ks", name, Uuid::from_u128(name.len() as u128))
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Text, false)
            .regular("value", value);
        builder.compact = Some(compact);
        if compact == CompactStorage::Static {
            builder = builder.static_column("v", CqlType::Int);
        }
        Arc::new(builder.build())
    };
    let tables = [
        table("a", CompactStorage::Static, CqlType::Blob),
        table("bb", CompactStorage::Dense { compound: false }, CqlType::Empty),
        table("ccc", CompactStorage::Dense { compound: true }, CqlType::Int),
        table("dddd", CompactStorage::Dense { compound: false }, CqlType::Counter),
    ];
    create(&engine, &tables.each_ref());
    engine.close();
    drop(engine);
    let engine = open(&fs);
    for table in &tables {
        assert_eq!(engine.schema().table("ks", &table.name), Some(table));
    }
}

#[test]
fn a_definition_that_gives_column_ids_another_meaning_is_refused() {
    let engine = open(&MemoryFileSystem::new());
    let table = simple_table("t");
    create(&engine, &[&table]);
    let anew = TableSchema::builder("ks", "t", table.id)
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("a", CqlType::Text)
        .regular("v", CqlType::Text)
        .build();
    let mut keyspace = engine.schema().keyspaces["ks"].as_ref().clone();
    keyspace.tables.insert("t".to_owned(), Arc::new(anew));
    let refused = engine.install_schema(engine.schema().with_keyspace(keyspace));
    assert!(matches!(refused, Err(EngineError::Schema(_))));
    let altered = Arc::new(table.to_builder().regular("a", CqlType::Text).build());
    create(&engine, &[&altered]);
    assert_eq!(engine.schema().table("ks", "t").unwrap().regular_columns().len(), 2);
}

/// What Ilion wrote before it knew of the index.
#[test]
fn the_index_of_paxos_is_added_to_a_directory_that_lacks_its_row() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let table = crate::system::table(engine.release(), crate::system::SYSTEM_SCHEMA, "indexes");
    let rows = |engine: &Engine| {
        let (mut rows, mut newest) = (Vec::new(), 0);
        let visit = |key: &DecoratedKey, row: Option<&Row>| {
            if let Some(row) = row.filter(|row| row.is_live(0)) {
                rows.push((key.clone(), row.clustering.clone()));
                newest = row.cells[0].timestamp;
            }
        };
        engine.catalog.scan_table(&table, visit).unwrap();
        (rows, newest)
    };
    let (stored, timestamp) = rows(&engine);
    assert_eq!(stored.len(), 1);
    let mut update = PartitionUpdate::new(Arc::clone(&table), stored[0].0.clone());
    let mut gone = Row::new(stored[0].1.clone());
    gone.deletion = model::Deletion { timestamp, local_deletion_time: 1 };
    update.add_row(gone);
    write(&engine, &Mutation::of(update)).unwrap();
    assert_eq!(rows(&engine).0, []);
    engine.close();
    for _ in 0..2 {
        let engine = open(&fs);
        assert_eq!(rows(&engine).0, stored);
        engine.close();
    }
}

#[test]
fn a_change_that_would_not_be_loaded_as_it_is_is_not_stored() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let user_type = |keyspace: &str, field: CqlType| {
        let fields = vec![("a".to_owned(), field)];
        Arc::new(UserType { keyspace: keyspace.to_owned(), name: "u".to_owned(), fields })
    };
    let keyspace = |definition: &Arc<UserType>, options: model::schema::TableOptions| {
        let mut keyspace = KeyspaceSchema::new("ks", Replication::simple(1));
        let own = user_type("ks", CqlType::Int);
        keyspace.types.insert("u".to_owned(), own);
        let ty = CqlType::Udt { definition: Arc::clone(definition), multi_cell: false };
        let table = TableSchema::builder("ks", "t", Uuid::from_u128(9))
            .partition_key("k", CqlType::Int)
            .regular("v", ty)
            .options(options)
            .build();
        keyspace.tables.insert("t".to_owned(), Arc::new(table));
        keyspace
    };
    let own = user_type("ks", CqlType::Int);
    let missing = Arc::new(UserType { name: "w".to_owned(), ..UserType::clone(&own) });
    let nan = model::schema::TableOptions { crc_check_chance: f64::NAN, ..Default::default() };
    let before = engine.schema();
    for (definition, options, words) in [
        (&missing, Default::default(), "no such type"),
        (&user_type("other", CqlType::Int), Default::default(), "the columns of table ks.t"),
        (&user_type("ks", CqlType::Text), Default::default(), "the columns of table ks.t"),
        (&own, nan, "the options of table ks.t"),
    ] {
        let refused = engine.install_schema(before.with_keyspace(keyspace(definition, options))).unwrap_err();
        assert!(matches!(&refused, EngineError::Unstorable(what) if what.contains(words)), "{refused}");
        assert_eq!(engine.schema(), before);
    }
    engine.install_schema(before.with_keyspace(keyspace(&own, Default::default()))).unwrap();
    let installed = engine.schema();
    engine.close();
    assert_eq!(open(&fs).schema().keyspaces["ks"], installed.keyspaces["ks"]);
}
