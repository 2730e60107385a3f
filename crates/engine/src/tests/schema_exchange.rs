//! Schemas of several nodes become one.

use super::*;
use env::fs::memory::MemoryFileSystem;
use model::schema::{Replication, Schema, TableBuilder};

fn open(fs: &MemoryFileSystem, seed: u64) -> Arc<Engine> {
    Engine::open(options(), env_on(Arc::new(fs.clone()), seed)).unwrap()
}

fn with_table(engine: &Engine, id: u128, change: impl Fn(TableBuilder) -> TableBuilder) {
    let mut schema = Schema::clone(&engine.schema());
    let mut keyspace = match schema.keyspace("ks") {
        Some(keyspace) => KeyspaceSchema::clone(keyspace),
        None => KeyspaceSchema::new("ks", Replication::simple(3)),
    };
    let builder = match keyspace.tables.get("t") {
        Some(table) => table.to_builder(),
        None => TableSchema::builder("ks", "t", Uuid::from_u128(id))
            .partition_key("k", CqlType::Int)
            .regular("v", CqlType::Int),
    };
    keyspace.tables.insert("t".to_owned(), Arc::new(change(builder).build()));
    schema.keyspaces.insert("ks".to_owned(), Arc::new(keyspace));
    engine.install_schema(schema).unwrap();
}

#[test]
fn nodes_that_exchange_their_schemas_agree_on_them_and_on_their_version() {
    let (here, there) = (MemoryFileSystem::new(), MemoryFileSystem::new());
    let (a, b) = (open(&here, 1), open(&there, 2));
    with_table(&a, 7, |builder| builder);
    b.merge_schema(a.schema_mutations().unwrap()).unwrap();
    // Both change it without knowing of each other.
    with_table(&a, 7, |builder| builder.regular("of_a", CqlType::Int));
    with_table(&b, 7, |builder| builder.regular("of_b", CqlType::Text));
    let (of_a, of_b) = (a.schema_mutations().unwrap(), b.schema_mutations().unwrap());
    let merged = b.merge_schema(of_a.clone()).unwrap();
    let v = |schema: &Schema| schema.table("ks", "t").unwrap().column("v").unwrap().id;
    assert_eq!(v(&merged.old), v(&merged.new), "ids stay");
    a.merge_schema(of_b).unwrap();
    a.merge_schema(of_a).unwrap();
    assert_eq!(a.schema().version, b.schema().version);
    for engine in [&a, &b] {
        let schema = engine.schema();
        let table = schema.table("ks", "t").unwrap();
        assert!(["v", "of_a", "of_b"].iter().all(|name| table.column(name).is_some()));
    }
    let version = b.schema().version;
    b.close();
    let again = open(&there, 3);
    assert_eq!(again.schema().version, version);
    assert!(again.schema().table("ks", "t").unwrap().column("of_a").is_some());
}

#[test]
fn what_is_stored_already_is_not_written_again() {
    let (here, there) = (MemoryFileSystem::new(), MemoryFileSystem::new());
    let (a, b) = (open(&here, 1), open(&there, 2));
    with_table(&a, 7, |builder| builder.regular("w", CqlType::Int));
    with_table(&a, 7, |builder| builder.drop_column("w", 5));
    let told = a.schema_mutations().unwrap();
    let files = |engine: &Engine| -> Vec<_> {
        let tables = engine.tables();
        let of_schema = tables.iter().filter(|table| table.schema().keyspace == "system_schema");
        of_schema.map(|table| (table.schema().name.clone(), table.view().sstables.len())).collect()
    };
    let first = b.merge_schema(told.clone()).unwrap();
    let after_first = files(&b);
    let again = b.merge_schema(told.clone()).unwrap();
    assert!(Arc::ptr_eq(&again.old, &again.new) && Arc::ptr_eq(&first.new, &again.new));
    assert_eq!(files(&b), after_first);
    // A deletion is news once, even of keyspaces that a node makes again by itself.
    let mut deletion = told;
    for update in deletion.iter_mut().flat_map(|mutation| &mut mutation.updates) {
        update.rows.clear();
        update.deletion = model::Deletion { timestamp: 1, local_deletion_time: 1 };
    }
    let merged = b.merge_schema(deletion.clone()).unwrap();
    assert!(!Arc::ptr_eq(&merged.old, &merged.new));
    let merged = b.merge_schema(deletion).unwrap();
    assert!(Arc::ptr_eq(&merged.old, &merged.new));
}

#[test]
fn what_is_stored_but_not_in_force_is_put_in_force() {
    let (here, there) = (MemoryFileSystem::new(), MemoryFileSystem::new());
    let (a, b) = (open(&here, 1), open(&there, 2));
    with_table(&a, 7, |builder| builder);
    let told = a.schema_mutations().unwrap();
    // As after a change that failed when its tables were to be opened.
    b.writing.apply_durably(&told).unwrap();
    assert!(b.schema().keyspace("ks").is_none());
    b.merge_schema(told).unwrap();
    assert!(b.schema().table("ks", "t").is_some());
    assert_eq!(b.schema().version, a.schema().version);
}

#[test]
fn a_keyspace_that_another_node_dropped_goes() {
    let (here, there) = (MemoryFileSystem::new(), MemoryFileSystem::new());
    let (a, b) = (open(&here, 1), open(&there, 2));
    with_table(&a, 7, |builder| builder);
    b.merge_schema(a.schema_mutations().unwrap()).unwrap();
    let mut schema = Schema::clone(&a.schema());
    schema.keyspaces.remove("ks");
    a.install_schema(schema).unwrap();
    let merged = b.merge_schema(a.schema_mutations().unwrap()).unwrap();
    assert!(merged.old.keyspace("ks").is_some());
    assert!(merged.new.keyspace("ks").is_none());
    assert_eq!(merged.new.version, a.schema().version);
    assert!(b.table(Uuid::from_u128(7)).is_none());
}

#[test]
fn what_no_start_could_load_is_not_taken() {
    let (here, there) = (MemoryFileSystem::new(), MemoryFileSystem::new());
    let (a, b) = (open(&here, 1), open(&there, 2));
    with_table(&a, 7, |builder| builder);
    let mut mutations = a.schema_mutations().unwrap();
    for update in mutations.iter_mut().flat_map(|mutation| &mut mutation.updates) {
        if update.table.name == "columns" {
            let ty = update.table.column("type").unwrap().id;
            let types =
                update.rows.iter_mut().flat_map(|row| &mut row.cells).filter(|cell| cell.column == ty);
            types.for_each(|cell| cell.value = "no such type".into());
        }
    }
    let version = b.schema().version;
    assert!(matches!(b.merge_schema(mutations), Err(crate::EngineError::Schema(_))));
    assert_eq!(b.schema().version, version);
    b.close();
    assert_eq!(open(&there, 3).schema().version, version);
}
