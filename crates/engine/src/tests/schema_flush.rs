//! What a Cassandra that takes over after a crash finds of the schema: it looks before it replays the log.

use super::*;
use crate::WriteError;
use env::clock::Clock;
use env::fs::faulty::{Fault, FaultyFileSystem, Op};
use env::fs::memory::{Crash, MemoryFileSystem};
use std::collections::BTreeSet;
use std::time::Duration;

const AT_ONCE: WriteOptions = WriteOptions { may_block: false, wait_ms_max: u64::MAX };

struct Node {
    fs: MemoryFileSystem,
    clock: Arc<ManualClock>,
    engine: Arc<Engine>,
}

impl Node {
    fn new() -> Node {
        let fs = MemoryFileSystem::new();
        Node::on(fs.clone(), Arc::new(fs))
    }

    fn on(fs: MemoryFileSystem, seen: Arc<dyn FileSystem>) -> Node {
        let clock = Arc::new(ManualClock::default());
        let env = Env::new(Arc::clone(&clock) as Arc<dyn Clock>, Arc::new(Random::from_seed(1)), seen);
        Node { fs, clock, engine: Engine::open(options(), env).unwrap() }
    }

    /// Makes the keyspace hold these tables, which is one change.
    fn change(&self, tables: &[&Arc<TableSchema>]) {
        create(&self.engine, tables);
    }

    /// The columns of the tables that SSTables tell of, were the power lost now: by table, as many as there
    /// are.
    fn on_disk(&self) -> BTreeMap<String, usize> {
        let left = self.fs.crash(Crash::LoseUnsynced);
        let log = &self.engine.options().commitlog_dir;
        for entry in left.read_dir(log).unwrap() {
            left.remove_file(&log.join(entry.name)).unwrap();
        }
        let engine = Engine::open(options(), env_on(Arc::new(left), 2)).unwrap();
        let schema = engine.schema();
        let tables = schema.keyspace("ks").into_iter().flat_map(|keyspace| keyspace.tables.values());
        tables.map(|table| (table.name.clone(), table.all_columns().len())).collect()
    }

    /// How many SSTables a table of `system_schema` has had, if no compaction took any away.
    fn files_of(&self, name: &str) -> usize {
        self.engine.table_named("system_schema", name).unwrap().view().sstables.len()
    }
}

fn columns(tables: &[(&str, usize)]) -> BTreeMap<String, usize> {
    tables.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

fn with_column(table: &Arc<TableSchema>, name: &str) -> Arc<TableSchema> {
    Arc::new(table.to_builder().regular(name, CqlType::Text).build())
}

#[test]
fn a_change_is_in_sstables_at_once_and_those_of_the_next_second_together() {
    let node = Node::new();
    node.engine.set_compactions_paused(true);
    let [t, u, v, w] = ["t", "u", "v", "w"].map(simple_table);
    node.change(&[&t]);
    assert_eq!(node.on_disk(), columns(&[("t", 3)]));

    let before = (node.files_of("tables"), node.files_of("columns"));
    node.change(&[&t, &u]);
    node.change(&[&with_column(&t, "x"), &u]);
    node.change(&[&with_column(&t, "x"), &u, &v]);
    node.change(&[&with_column(&t, "x"), &v]);
    node.clock.advance(Duration::from_millis(999));
    node.engine.writing.keep();
    assert_eq!((node.files_of("tables"), node.files_of("columns")), before);
    node.clock.advance(Duration::from_millis(1));
    node.engine.writing.keep();
    assert_eq!((node.files_of("tables"), node.files_of("columns")), (before.0 + 1, before.1 + 1));
    assert_eq!(node.on_disk(), columns(&[("t", 4), ("v", 3)]));

    node.clock.advance(Duration::from_secs(1));
    node.change(&[&with_column(&t, "x"), &v, &w]);
    assert_eq!(node.on_disk().len(), 3, "a second without a change: at once again");
}

#[test]
fn who_comes_when_another_has_flushed_does_not_put_off_the_next_flush() {
    let node = Node::new();
    let [t, u] = ["t", "u"].map(simple_table);
    node.change(&[&t]);
    node.clock.advance(Duration::from_secs(2));
    // As one who saw the table wait, and found it flushed when the state was free.
    let late = node.engine.catalog.table(t.id).unwrap();
    late.set_awaits_schema(true);
    node.engine.writing.flush_definition(&late);
    node.change(&[&t, &u]);
    assert_eq!(node.on_disk().len(), 2, "nothing was flushed for two seconds: at once");
}

#[test]
fn a_write_to_a_table_whose_definition_waits_brings_it_to_sstables_first() {
    let node = Node::new();
    let [t, u] = ["t", "u"].map(simple_table);
    node.change(&[&t]);
    node.change(&[&t, &u]);
    node.engine.apply(&insert(&t, 1, 1, "a", 1), AT_ONCE).unwrap().wait().unwrap();
    assert_eq!(node.on_disk(), columns(&[("t", 3)]), "of this table all is known");
    let refused = node.engine.apply(&insert(&u, 1, 1, "a", 1), AT_ONCE);
    assert!(matches!(refused, Err(WriteError::WouldBlock)), "it takes files");
    assert!(contents(&node.engine, &u).is_empty());
    write(&node.engine, &insert(&u, 1, 1, "a", 1)).unwrap();
    assert_eq!(node.on_disk(), columns(&[("t", 3), ("u", 3)]));
    node.engine.apply(&insert(&u, 1, 2, "a", 1), AT_ONCE).unwrap().wait().unwrap();

    let altered = with_column(&t, "x");
    node.change(&[&altered, &u]);
    assert_eq!(node.on_disk(), columns(&[("t", 3), ("u", 3)]));
    node.engine.apply(&insert(&u, 1, 3, "a", 1), AT_ONCE).unwrap().wait().unwrap();
    write(&node.engine, &insert(&altered, 1, 1, "b", 2)).unwrap();
    assert_eq!(
        node.on_disk(),
        columns(&[("t", 4), ("u", 3)]),
        "the log must not name a column that nobody knows"
    );
}

#[test]
fn an_sstable_is_never_newer_than_the_definition_of_its_table() {
    let node = Node::new();
    let t = simple_table("t");
    node.change(&[&t]);
    write(&node.engine, &insert(&t, 1, 1, "a", 1)).unwrap();
    let wider = with_column(&t, "x");
    node.change(&[&wider]);
    assert_eq!(node.on_disk(), columns(&[("t", 3)]));
    node.engine.flush("ks", None).unwrap();
    assert_eq!(node.on_disk(), columns(&[("t", 4)]), "the header of the SSTable names the column");
    node.change(&[&with_column(&wider, "y")]);
    assert_eq!(node.on_disk(), columns(&[("t", 4)]));
    node.engine.compact("ks", None).unwrap();
    assert_eq!(node.on_disk(), columns(&[("t", 5)]));
}

#[test]
fn a_schema_that_cannot_be_flushed_stands_in_nobodys_way() {
    let fs = MemoryFileSystem::new();
    let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
    let node = Node::on(fs, Arc::new(faulty.clone()));
    let [t, u] = ["t", "u"].map(simple_table);
    node.change(&[&t]);
    let fault = faulty.add(Fault::on(Op::Create).path("system_schema"));
    node.change(&[&t, &u]);
    write(&node.engine, &insert(&u, 1, 1, "a", 1)).unwrap();
    assert!(faulty.struck(fault) > 0);
    assert_eq!(node.on_disk(), columns(&[("t", 3)]));
    faulty.heal();
    wait_until(|| node.on_disk().len() == 2);
}

#[test]
fn a_dropped_keyspace_makes_sstables_only_where_it_has_rows() {
    let fs = MemoryFileSystem::new();
    let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
    let node = Node::on(fs, Arc::new(faulty.clone()));
    node.engine.set_compactions_paused(true);
    let t = simple_table("t");
    node.change(&[&t]);
    write(&node.engine, &insert(&t, 1, 1, "a", 1)).unwrap();
    node.engine.flush("ks", None).unwrap();
    let names: Vec<_> = crate::system::schema_tables(node.engine.catalog.release()).collect();
    let files = || -> Vec<usize> { names.iter().map(|name| node.files_of(name)).collect() };
    let before = files();
    node.clock.advance(Duration::from_secs(2));
    let syncs = faulty.add(Fault::on(Op::Sync).path("system_schema").never());
    let mut schema = model::Schema::clone(&node.engine.schema());
    schema.keyspaces.remove("ks");
    node.engine.install_schema(schema).unwrap();
    let with_more = names.iter().zip(before.iter().zip(files())).filter(|(_, (old, new))| *old < new);
    let with_more: BTreeSet<_> = with_more.map(|(name, _)| *name).collect();
    assert_eq!(with_more, BTreeSet::from(["columns", "keyspaces", "tables"]));
    assert_eq!(faulty.seen(syncs).calls, 33, "eleven files for each of three SSTables");
    assert!(node.on_disk().is_empty(), "the log is not needed to know of it");
}

#[test]
fn a_drop_of_what_waits_in_memory_is_as_durable_as_before() {
    let node = Node::new();
    let [t, u] = ["t", "u"].map(simple_table);
    node.change(&[&t]);
    node.change(&[&t, &u]);
    let mut schema = model::Schema::clone(&node.engine.schema());
    schema.keyspaces.remove("ks");
    node.engine.install_schema(schema).unwrap();
    node.clock.advance(Duration::from_secs(1));
    node.engine.writing.keep();
    assert!(node.on_disk().is_empty());
}
