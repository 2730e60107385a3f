//! What a directory that a Cassandra takes over again must not hold, and what it must.

use super::store::fill;
use super::*;
use crate::EngineError;
use crate::system::{self, SYSTEM};
use bytes::Bytes;
use env::fs::memory::{Crash, MemoryFileSystem};
use model::schema::{Index, Release, View};
use model::{
    Cell, Clustering, ClusteringBound, Deletion, Liveness, PartitionKey, PartitionUpdate, RangeTombstone,
    Row, Slice,
};
use partition::PartitionStream;
use std::collections::BTreeMap;

fn open(fs: &MemoryFileSystem) -> Arc<Engine> {
    Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap()
}

/// The rows of a table of `system`, by key and first clustering.
fn rows_of(engine: &Engine, name: &str) -> Vec<(Vec<u8>, usize)> {
    let mut found = Vec::new();
    let table = engine.system_table(name);
    engine
        .catalog
        .scan_table(&table, |key, row| {
            if let Some(row) = row.filter(|row| row.is_live(engine.catalog.now_s())) {
                found.push((key.key.0.to_vec(), row.cells.len()));
            }
        })
        .unwrap();
    found
}

fn batch(engine: &Engine, id: u128, deleted: bool) -> Mutation {
    let table = engine.system_table("batches");
    let key = DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(&id.to_be_bytes())));
    let mut update = PartitionUpdate::new(Arc::clone(&table), key);
    if deleted {
        update.deletion = Deletion::new(20, 1);
    } else {
        let mut row = Row::new(Clustering::empty());
        row.liveness = Liveness::new(10);
        let version = table.column("version").unwrap().id;
        row.cells.push(Cell::live(version, 10, Bytes::from_static(&[0, 0, 0, 12])));
        update.add_row(row);
    }
    Mutation::of(update)
}

#[test]
fn the_batch_log_gets_no_sstable_and_loses_no_batch() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    for (id, deleted) in [(1, false), (2, false), (1, true)] {
        write(&engine, &batch(&engine, id, deleted)).unwrap();
    }
    engine.flush("system", Some("batches")).unwrap();
    let unfinished = vec![(2u128.to_be_bytes().to_vec(), 1)];
    assert_eq!(rows_of(&engine, "batches"), unfinished);
    let files = |engine: &Engine| engine.table_named("system", "batches").unwrap().view().sstables.len();
    assert_eq!(files(&engine), 0);
    engine.close();

    let engine = open(&fs);
    assert_eq!(rows_of(&engine, "batches"), unfinished, "the commit log has it");
    assert!(engine.drain().is_err(), "a drain would lose it");
    engine.close();
    let engine = open(&fs);
    assert_eq!(rows_of(&engine, "batches"), unfinished);
    assert!(engine.drain().is_err());
    write(&engine, &batch(&engine, 2, true)).expect("what stands in the way of a drain can be finished");
    engine.drain().unwrap();
    assert_eq!(files(&engine), 0);
    engine.close();
    assert_eq!(rows_of(&open(&fs), "batches"), []);
}

fn index(name: &str, kind: &str) -> Index {
    let options = BTreeMap::from([("target".to_owned(), "v".to_owned())]);
    Index { name: name.to_owned(), kind: kind.to_owned(), options }
}

/// A row of `system."IndexInfo"` or of `system.built_views`.
fn built(engine: &Engine, table: &str, name: &str) -> Mutation {
    let table = engine.system_table(table);
    let key = DecoratedKey::new(PartitionKey::from_components(&[b"ks"]));
    let mut update = PartitionUpdate::new(table, key);
    let mut row = Row::new(Clustering::from_values([name.as_bytes()]));
    row.liveness = Liveness::new(1);
    update.add_row(row);
    Mutation::of(update)
}

#[test]
fn an_index_does_not_count_as_built_once_its_table_is_written_to() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let mut builder = simple_table("t").to_builder();
    builder.indexes = vec![index("by_v", "COMPOSITES")];
    let table = Arc::new(builder.build());
    create(&engine, &[&table]);
    write(&engine, &built(&engine, "IndexInfo", "by_v")).unwrap();
    engine.close();

    let engine = open(&fs);
    let stored = engine.schema().table("ks", "t").unwrap().indexes.clone();
    assert_eq!(stored, [index("by_v", "COMPOSITES")], "indexes are kept");
    assert_eq!(rows_of(&engine, "IndexInfo").len(), 1);
    let table = Arc::clone(engine.schema().table("ks", "t").unwrap());
    let cannot_wait = crate::WriteOptions { may_block: false, ..Default::default() };
    let refused = engine.apply(&insert(&table, 1, 1, "x", 1), cannot_wait);
    assert!(matches!(refused, Err(crate::WriteError::WouldBlock)), "marking the index takes a sync");
    write(&engine, &insert(&table, 1, 1, "x", 1)).unwrap();
    assert_eq!(rows_of(&engine, "IndexInfo"), []);
    let info = engine.table_named("system", "IndexInfo").unwrap();
    assert!(info.view().memtable.is_empty(), "Cassandra looks for it in SSTables");
    assert!(engine.apply(&insert(&table, 1, 2, "x", 1), cannot_wait).is_ok());
}

#[test]
fn a_truncation_is_known_without_the_log() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let engine = open(&fs);
    create(&engine, &[&table]);
    fill(&engine, &table, 0..20);
    engine.truncate("ks", "t").unwrap();
    let at = engine.truncated_millis(table.id).unwrap();
    assert!(at.is_some());
    engine.close();
    fs.remove_dir_all(&options().commitlog_dir).unwrap();
    assert_eq!(open(&fs).truncated_millis(table.id).unwrap(), at);
}

#[test]
fn a_schema_change_is_known_without_the_log() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    create(&engine, &[&simple_table("t")]);
    let crashed = fs.crash(Crash::LoseUnsynced);
    crashed.remove_dir_all(&options().commitlog_dir).unwrap();
    assert!(open(&crashed).schema().table("ks", "t").is_some());
}

#[test]
fn views_go_with_their_keyspace_and_are_not_called_built_any_more() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let table = simple_table("t");
    create(&engine, &[&table]);
    let mut keyspace = engine.schema().keyspace("ks").unwrap().as_ref().clone();
    let view = View {
        table: simple_table("by_v"),
        base_id: table.id,
        base_name: "t".to_owned(),
        include_all_columns: false,
        where_clause: "v IS NOT NULL".to_owned(),
    };
    keyspace.views.insert("by_v".to_owned(), Arc::new(view));
    engine.install_schema(engine.schema().with_keyspace(keyspace.clone())).unwrap();
    write(&engine, &built(&engine, "built_views", "by_v")).unwrap();
    engine.close();

    let engine = open(&fs);
    assert_eq!(engine.schema().keyspace("ks").unwrap().views, keyspace.views);
    assert!(engine.table_named("ks", "by_v").is_ok(), "it is readable");
    let refused = engine.load_new_sstables("ks", "t");
    assert!(matches!(refused, Err(EngineError::NotWritable(_))), "{refused:?}");
    keyspace.views.clear();
    engine.install_schema(engine.schema().with_keyspace(keyspace)).unwrap();
    assert_eq!(rows_of(&engine, "built_views"), []);
    assert!(engine.table_named("ks", "by_v").is_err());
}

#[test]
fn directories_of_other_releases_are_refused_by_name() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    assert_eq!(engine.release(), Release::V5_0);
    engine.writing.write_local(&[("release_version", Bytes::new(), Bytes::from_static(b"3.11.19"))]).unwrap();
    engine.flush("system", Some("local")).unwrap();
    engine.close();
    let refused = Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).err();
    assert!(matches!(&refused, Some(EngineError::Release(version)) if version == "3.11.19"), "{refused:?}");
}

#[test]
fn what_is_stored_of_the_system_keyspaces_stays_as_it_is() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let mut schema = engine.schema().as_ref().clone();
    let mut traces = schema.keyspace("system_traces").unwrap().as_ref().clone();
    traces.tables.remove("events");
    schema = schema.with_keyspace(traces);
    engine.install_schema(schema).unwrap();
    engine.close();
    let engine = open(&fs);
    assert!(engine.schema().table("system_traces", "events").is_none());
    assert!(system::table(Release::V5_0, SYSTEM, "local").column("tokens").is_some());
}

#[test]
fn what_the_node_knows_about_itself_is_written_to_one_directory_and_found_in_all() {
    let fs = MemoryFileSystem::new();
    let at = |disks: &[&str], own: Option<&str>| {
        let options = EngineOptions {
            data_dirs: disks.iter().map(Path::new).map(Path::to_path_buf).collect(),
            local_system_dir: own.map(Into::into),
            ..options()
        };
        Engine::open(options, env_on(Arc::new(fs.clone()), 1)).unwrap()
    };
    let paths = |engine: &Engine, name: &str| -> Vec<String> {
        let store = engine.table_named("system", name).unwrap();
        let view = store.view();
        let mut found: Vec<String> = view
            .sstables
            .iter()
            .map(|t| t.descriptor().directory.iter().nth(2).unwrap().to_string_lossy().into_owned())
            .collect();
        found.sort();
        found
    };
    let mark = |engine: &Engine, name: &str| {
        write(engine, &built(engine, "IndexInfo", name)).unwrap();
        engine.flush("system", Some("IndexInfo")).unwrap();
    };
    let engine = at(&["/node/b"], None);
    mark(&engine, "i1");
    engine.close();

    let engine = at(&["/node/a", "/node/b"], None);
    mark(&engine, "i2");
    assert_eq!(paths(&engine, "IndexInfo"), ["a", "b"]);
    engine.close();

    let engine = at(&["/node/b", "/node/a"], Some("/node/own"));
    mark(&engine, "i3");
    assert_eq!(paths(&engine, "IndexInfo"), ["a", "b", "own"]);
    // A transaction log stands for one directory: each is compacted by itself, and stays where it is.
    engine.compact("system", Some("IndexInfo")).unwrap();
    assert_eq!(paths(&engine, "IndexInfo"), ["a", "b", "own"]);
    assert_eq!(rows_of(&engine, "IndexInfo").len(), 3);
    let homes = |name| engine.table_named("system", name).unwrap().homes().len();
    assert_eq!((homes("local"), homes("paxos"), homes("batches")), (1, 2, 2));
}

/// A Cassandra that reads one SSTable applies none of its deletions to its rows: nothing writes such rows.
#[test]
fn a_flushed_sstable_holds_nothing_that_it_deletes() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let table = simple_table("t");
    create(&engine, &[&table]);
    let now_s = engine.catalog.now_s();
    let at = |c: i32| Clustering::from_values([&c.to_be_bytes()[..]]);
    for c in 0..4 {
        write(&engine, &insert(&table, 1, c, "gone or not", 10)).unwrap();
        write(&engine, &insert(&table, 2, c, "gone", 10)).unwrap();
        write(&engine, &insert(&table, 3, c, "gone or not", 10)).unwrap();
    }
    let mut range = PartitionUpdate::new(Arc::clone(&table), key(1));
    let slice = Slice { start: ClusteringBound::start_at(at(2)), end: ClusteringBound::TOP };
    range.range_tombstones.push(RangeTombstone { slice, deletion: Deletion::new(20, now_s) });
    let mut partition = PartitionUpdate::new(Arc::clone(&table), key(2));
    partition.deletion = Deletion::new(20, now_s);
    let mut row = Row::new(at(1));
    row.deletion = Deletion::new(20, now_s);
    let mut of_row = PartitionUpdate::new(Arc::clone(&table), key(3));
    of_row.add_row(row);
    for update in [range, partition, of_row] {
        write(&engine, &Mutation::of(update)).unwrap();
    }
    write(&engine, &insert(&table, 2, 9, "newer", 30)).unwrap();
    let expected = contents(&engine, &table);
    engine.flush("ks", Some("t")).unwrap();
    assert_eq!(contents(&engine, &table), expected);
    let [sstable] = &engine.table(table.id).unwrap().view().sstables[..] else { panic!("one SSTable") };
    let columns = ColumnSelection::all(&table);
    let all = ClusteringFilter::all();
    let mut scan = sstable.scan(&KeyRange::FULL, &all, &columns, &table, &ReadContext::default()).unwrap();
    let mut fragment = Fragment::default();
    let mut cells = 0;
    while scan.next(&mut fragment).unwrap() != Event::End {
        cells += std::mem::take(&mut fragment.row).cells.len();
    }
    assert_eq!((cells, expected.len()), (2 + 1 + 3, 2 + 1 + 3));
}

/// Three SSTables of a view of early 3.x: a row, its shadowable deletion, and its return without the older
/// cell.
#[test]
fn a_row_that_came_back_has_its_older_cells() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let table = simple_table("t");
    create(&engine, &[&table]);
    let row_of = |write: &mut dyn FnMut(&mut Row)| {
        let mut row = Row::new(Clustering::from_values([&1_i32.to_be_bytes()[..]]));
        write(&mut row);
        let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
        update.add_row(row);
        Mutation::of(update)
    };
    let deletion = row_of(&mut |row| row.set_deletion(Deletion::new(10, engine.catalog.now_s()), true));
    let returned = row_of(&mut |row| row.liveness = Liveness::new(12));
    let expected = BTreeMap::from([((1, 1), "older".to_owned())]);
    let read_by_name = || {
        let names = vec![Clustering::from_values([&1_i32.to_be_bytes()[..]])];
        let command = ReadCommand {
            partitions: PartitionSelection::Keys(vec![key(1)]),
            clusterings: ClusteringFilter::Names { names, reversed: false },
            columns: ColumnSelection::all(&table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: engine.catalog.now_s(),
            table: Arc::clone(&table),
        };
        let mut stream = engine.read(&command, &ReadContext::default()).unwrap();
        let (mut fragment, mut cells) = (Fragment::default(), Vec::new());
        while stream.next(&mut fragment).unwrap() != Event::End {
            cells.extend(std::mem::take(&mut fragment.row).cells);
        }
        cells.len()
    };
    for (mutation, is_there) in
        [(insert(&table, 1, 1, "older", 5), true), (deletion, false), (returned, true)]
    {
        write(&engine, &mutation).unwrap();
        engine.flush("ks", Some("t")).unwrap();
        assert_eq!(
            (contents(&engine, &table) == expected, read_by_name()),
            (is_there, usize::from(is_there))
        );
    }
    assert_eq!(engine.table(table.id).unwrap().view().sstables.len(), 3);
    engine.compact("ks", Some("t")).unwrap();
    assert_eq!((contents(&engine, &table), read_by_name()), (expected, 1));
}
