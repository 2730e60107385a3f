//! Directories that are not understood stay as they are; what other programs left is honoured.

use super::*;
use crate::EngineError;
use crate::commitlog::format;
use env::fs::EntryKind;
use env::fs::faulty::{Fault, FaultyFileSystem, Op};
use env::fs::memory::{Crash, MemoryFileSystem};
use std::path::PathBuf;

/// Every file and directory with its content.
fn tree(fs: &MemoryFileSystem, below: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut out = BTreeMap::new();
    for entry in fs.read_dir(below).unwrap() {
        let path = below.join(&entry.name);
        if entry.kind == EntryKind::Dir {
            out.extend(tree(fs, &path));
            out.insert(path, None);
        } else {
            let bytes = fs.read(&path).unwrap();
            out.insert(path, Some(bytes));
        }
    }
    out
}

/// A node that was killed, with flushed rows and others, in the middle of a flush, and its table's directory.
fn killed_node() -> (MemoryFileSystem, PathBuf) {
    let fs = MemoryFileSystem::new();
    let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap();
    let table = simple_table("t");
    create(&engine, &[&table]);
    (0..10).for_each(|n| write(&engine, &insert(&table, n, n, "flushed", 1)).unwrap());
    engine.flush_all().unwrap();
    (10..20).for_each(|n| write(&engine, &insert(&table, n, n, "in the log", 1)).unwrap());
    let dir = engine.catalog.table_dirs(&table).remove(0);
    let killed = fs.crash(Crash::LoseUnsynced);
    engine.close();
    let add = "ADD:[/node/data/ks/t/nb-7-big-,0,8][0]";
    killed.write(&dir.join("nb_txn_flush_6b1f.log"), add.as_bytes()).unwrap();
    killed.write(&dir.join("nb-1-big-Statistics.db.tmp"), b"half").unwrap();
    (killed, dir)
}

fn change(fs: &MemoryFileSystem, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs.read(path).unwrap();
    change(&mut bytes);
    fs.write(path, &bytes).unwrap();
}

fn segments(fs: &MemoryFileSystem) -> Vec<PathBuf> {
    let dir = Path::new("/node/commitlog");
    fs.read_dir(dir).unwrap().into_iter().map(|e| dir.join(e.name)).collect()
}

/// A segment of Cassandra's: a header and what follows.
fn add_segment(fs: &MemoryFileSystem, version: i32, json: &str, content: &[u8]) {
    let mut bytes = format::header_with(version, 5, json);
    bytes.extend_from_slice(content);
    fs.write(&Path::new("/node/commitlog").join(format::file_name(version, 5)), &bytes).unwrap();
}

/// Lets a Statistics.db say, with the right checksum, that its SSTable is of a partitioner of as long a name.
pub(super) fn name_another_partitioner(bytes: &mut [u8]) {
    let class = b"Murmur3Partitioner";
    let at = bytes.windows(class.len()).position(|w| w == class).unwrap();
    bytes[at..at + class.len()].copy_from_slice(b"RandomsPartitioner");
    let at_toc = |i: usize| u32::from_be_bytes(bytes[8 * i + 12..8 * i + 16].try_into().unwrap());
    let (start, end) = (at_toc(0) as usize, at_toc(1) as usize - 4);
    let crc = crc32fast::hash(&bytes[start..end]).to_be_bytes();
    bytes[end..end + 4].copy_from_slice(&crc);
}

#[test]
fn what_is_not_understood_is_named_and_nothing_is_touched() {
    type Spoil = fn(&MemoryFileSystem, &Path);
    let cases: [(&str, Spoil); 15] = [
        ("zz-9-big", |fs, dir| fs.write(&dir.join("zz-9-big-Data.db"), b"x").unwrap()),
        ("ks-t-ka-1-Data.db", |fs, dir| fs.write(&dir.join("ks-t-ka-1-Data.db"), b"x").unwrap()),
        ("nb-1-big-Statistics.db", |fs, dir| change(fs, &dir.join("nb-1-big-Statistics.db"), |b| b[90] ^= 1)),
        ("no Statistics.db", |fs, dir| fs.remove_file(&dir.join("nb-1-big-Statistics.db")).unwrap()),
        ("RandomsPartitioner", |fs, dir| {
            change(fs, &dir.join("nb-1-big-Statistics.db"), |bytes| name_another_partitioner(bytes));
        }),
        ("is not one of table ks.t", |fs, dir| {
            let keyspace = Path::new("/node/data/system_schema");
            let of = |name: &str| {
                let found = fs.read_dir(keyspace).unwrap().into_iter();
                keyspace.join(found.map(|e| e.name).find(|n| n.to_string_lossy().starts_with(name)).unwrap())
            };
            let other = of("tables-");
            for entry in fs.read_dir(&other).unwrap() {
                let name = entry.name.to_string_lossy().into_owned();
                if let Some(rest) = name.strip_prefix("nb-1-big-") {
                    fs.hard_link(&other.join(&name), &dir.join(format!("nb-8-big-{rest}"))).unwrap();
                }
            }
        }),
        ("retires", |fs, dir| {
            let line = sstable_removal(dir, "nb-1-big-", 1);
            fs.write(&dir.join("nb_txn_compaction_6b20.log"), line.as_bytes()).unwrap();
        }),
        ("line 1", |fs, dir| {
            fs.write(&dir.join("nb_txn_compaction_6b20.log"), b"REMOVE:[x,0,1][5]\nCOMMIT:[,0,0][6]\n")
                .unwrap();
        }),
        ("encrypted", |fs, _| add_segment(fs, 7, "{\"encCipher\":\"AES/CBC/PKCS5Padding\"}", b"")),
        ("nodetool drain", |fs, _| add_segment(fs, 6, "{}", b"")),
        ("newer than 5.0", |fs, _| add_segment(fs, 9, "{}", b"")),
        ("CommitLog-12.log", |fs, _| fs.write("/node/commitlog/CommitLog-12.log".as_ref(), b"x").unwrap()),
        ("is corrupt at offset 36", |fs, _| change(fs, &segments(fs)[0], |b| b[40] ^= 1)),
        ("neither a section", |fs, _| add_segment(fs, 7, "{}", &[7; 600])),
        ("cannot be decoded", |fs, _| {
            let table = simple_table("t").id;
            let mut mutation = vec![1];
            mutation.extend_from_slice(table.as_bytes());
            mutation.extend_from_slice(&[4, 0, 0, 0, 1, 0xff, 0xff, 0xff]);
            let mut section = format::section(|out| out.extend_from_slice(&mutation));
            let at = format::header_with(7, 5, "{}").len() as u32;
            format::place_section(&mut section, 5, at);
            add_segment(fs, 7, "{}", &section);
        }),
    ];
    for (what, spoil) in cases {
        let (fs, dir) = killed_node();
        spoil(&fs, &dir);
        let before = tree(&fs, Path::new("/"));
        let error = match Engine::open(options(), env_on(Arc::new(fs.clone()), 2)) {
            Ok(_) => panic!("{what}: opened"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(what), "{what}: {error}");
        assert!(tree(&fs, Path::new("/")) == before, "{what}: something changed");
    }
}

/// The log of a transaction that retires an SSTable of so many files and has committed.
fn sstable_removal(dir: &Path, prefix: &str, files: i32) -> String {
    use sstable::txn_log::{Record, RecordKind};
    let prefix = dir.join(prefix).display().to_string();
    let record = |kind, prefix, files| Record { kind, prefix, modified_ms: 0, files }.line();
    record(RecordKind::Remove, prefix, files) + &record(RecordKind::Commit, String::new(), 0)
}

/// A stored schema that is not understood: a type, and tables of Thrift.
#[test]
fn a_table_that_is_not_known_leaves_everything_as_it_was() {
    let flags = [&1i32.to_be_bytes()[..], &5i32.to_be_bytes(), b"super"].concat();
    /// A table of system_schema, a row of it, one of its columns and what that is made, and the words that
    /// tell of it.
    type Case<'a> = (&'a str, &'a [&'a [u8]], &'a str, &'a [u8], &'a str);
    let cases: [Case<'_>; 3] = [
        ("columns", &[b"t", b"v"], "type", b"quaternion", "quaternion"),
        (
            "columns",
            &[b"t", b"v"],
            "column_name_bytes",
            &[0, 0, 0, 7],
            "table ks.t has the column v, whose name",
        ),
        ("tables", &[b"t"], "flags", &flags, "table ks.t is a super column family"),
    ];
    for (name, clustering, column, value, words) in cases {
        let (fs, _) = killed_node();
        let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 2)).unwrap();
        let table = crate::system::table(engine.release(), crate::system::SYSTEM_SCHEMA, name);
        let key = DecoratedKey::new(PartitionKey::from_components(&[b"ks"]));
        let mut update = PartitionUpdate::new(Arc::clone(&table), key);
        let mut row = Row::new(Clustering::from_values(clustering.iter().copied()));
        let column = table.column(column).unwrap().id;
        row.cells.push(Cell::live(column, i64::MAX / 2, Bytes::copy_from_slice(value)));
        update.add_row(row);
        write(&engine, &Mutation::of(update)).unwrap();
        let killed = fs.crash(Crash::LoseUnsynced);
        engine.close();
        let before = tree(&killed, Path::new("/"));
        let error = Engine::open(options(), env_on(Arc::new(killed.clone()), 2)).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
        assert!(tree(&killed, Path::new("/")) == before, "{words}");
    }
}

#[test]
fn an_opening_that_is_dropped_leaves_no_trace() {
    let (fs, dir) = killed_node();
    let before = tree(&fs, Path::new("/"));
    let opening = crate::Opening::examine(options(), env_on(Arc::new(fs.clone()), 2)).unwrap();
    let second = crate::Opening::examine(options(), env_on(Arc::new(fs.clone()), 2));
    assert!(matches!(second, Err(EngineError::Locked { .. })));
    drop(opening);
    assert!(tree(&fs, Path::new("/")) == before);
    // Nothing at all is there: nothing is made.
    let empty = MemoryFileSystem::new();
    drop(crate::Opening::examine(options(), env_on(Arc::new(empty.clone()), 2)).unwrap());
    assert!(tree(&empty, Path::new("/")).is_empty());

    let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 2)).unwrap();
    assert_eq!(contents(&engine, &simple_table("t")).len(), 20);
    let names = fs.read_dir(&dir).unwrap();
    assert!(names.iter().all(|e| !e.name.to_string_lossy().ends_with(".tmp")), "{names:?}");
    engine.close();
}

#[test]
fn a_log_that_does_not_fit_into_memory_is_replayed_in_parts() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let small = crate::EngineOptions { memtable_bytes_max: 64 << 20, ..options() };
    let engine = Engine::open(small.clone(), env_on(Arc::new(fs.clone()), 1)).unwrap();
    create(&engine, &[&table]);
    let long = "x".repeat(1_000);
    (0..1_000).for_each(|n| write(&engine, &insert(&table, n % 9, n, &long, 1)).unwrap());
    let killed = fs.crash(Crash::LoseUnsynced);
    engine.close();
    let tight = crate::EngineOptions { memtable_bytes_max: 256 << 10, ..small };
    for round in 0..2 {
        let engine = Engine::open(tight.clone(), env_on(Arc::new(killed.clone()), 1)).unwrap();
        assert_eq!(contents(&engine, &table).len(), 1_000);
        assert!(round > 0 || engine.stats().flushes > 5);
        engine.close();
    }
}

#[test]
fn what_belongs_to_no_table_is_left_alone() {
    let (fs, dir) = killed_node();
    let dropped = Path::new("/node/data/ks/gone-00000000000000000000000000000007");
    let strangers = [
        dropped.join("nb-1-big-Data.db"),
        dropped.join("nb_txn_flush_6b1f.log"),
        dir.join("snapshots/s/nb-1-big-Data.db"),
        dir.join("backups/nb-1-big-Data.db"),
        dir.join(".idx/nb-1-big-Data.db"),
        dir.join("nb-9-big-Index.db"),
        Path::new("/node/data/ks2/t-00000000000000000000000000000007/nb-1-big-Data.db").to_owned(),
        Path::new("/node/hints/x.hints").to_owned(),
    ];
    for path in &strangers {
        fs.create_dir_all(path.parent().unwrap()).unwrap();
        fs.write(path, b"a stranger's").unwrap();
    }
    let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 2)).unwrap();
    let table = simple_table("t");
    assert_eq!(contents(&engine, &table).len(), 20);
    engine.flush_all().unwrap();
    assert!(fs.exists(&dir.join("nb-10-big-Data.db")).unwrap(), "an orphan's number is not used again");
    engine.drain().unwrap();
    engine.close();
    for path in &strangers {
        assert_eq!(fs.read(path).unwrap(), b"a stranger's", "{}", path.display());
    }
}

#[test]
fn a_log_of_the_newer_version_keeps_late_expirations() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let newer =
        crate::EngineOptions { storage_compatibility: crate::StorageCompatibility::None, ..options() };
    let engine = Engine::open(newer, env_on(Arc::new(fs.clone()), 1)).unwrap();
    create(&engine, &[&table]);
    let late = 3_000_000_000;
    let mut mutation = insert(&table, 1, 1, "v", 1);
    let cell = &mut mutation.updates[0].rows[0].cells[0];
    (cell.ttl, cell.local_deletion_time) = (1_000_000_000, late);
    write(&engine, &mutation).unwrap();
    let killed = fs.crash(Crash::LoseUnsynced);
    engine.close();
    assert!(segments(&killed).iter().all(|s| s.to_string_lossy().contains("CommitLog-8-")));
    // Whatever version is written now, both are read.
    let engine = Engine::open(options(), env_on(Arc::new(killed), 1)).unwrap();
    let minima = engine.table(table.id).unwrap().view().memtable.minima();
    assert_eq!(minima.local_deletion_time, Some(late));
    engine.close();
}

#[test]
fn a_table_with_a_damaged_sstable_refuses_reads_where_the_policy_lets_the_node_start() {
    let (fs, dir) = killed_node();
    change(&fs, &dir.join("nb-1-big-Statistics.db"), |bytes| bytes[90] ^= 1);
    assert!(Engine::open(options(), env_on(Arc::new(fs.clone()), 2)).is_err());
    let tolerant = crate::EngineOptions { tolerates_damaged_sstables: true, ..options() };
    let engine = Engine::open(tolerant, env_on(Arc::new(fs.clone()), 2)).unwrap();
    let table = engine.table_named("ks", "t").unwrap();
    let command = ReadCommand {
        table: table.schema(),
        partitions: PartitionSelection::Keys(vec![key(1)]),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(&table.schema()),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 0,
    };
    let error = engine.read(&command, &ReadContext::default()).err().unwrap();
    assert!(error.to_string().contains("nb-1-big-Statistics.db is corrupt at offset"), "{error}");
    assert!(engine.compact("ks", Some("t")).is_err());
    // Writes are kept, and what is left is readable once the operator has taken the SSTable away.
    write(&engine, &insert(&simple_table("t"), 1, 1, "later", 2)).unwrap();
    assert!(engine.load_new_sstables("ks", "t").is_err());
    for entry in fs.read_dir(&dir).unwrap() {
        if entry.name.to_string_lossy().starts_with("nb-1-big-") {
            fs.remove_file(&dir.join(entry.name)).unwrap();
        }
    }
    engine.load_new_sstables("ks", "t").unwrap();
    let found = contents(&engine, &simple_table("t"));
    assert_eq!(
        found.len(),
        20,
        "the log still has what the SSTable had, and nothing says any more that it was flushed"
    );
    assert_eq!(found.get(&(1, 1)).map(String::as_str), Some("later"));
    engine.close();

    let (fs, _) = killed_node();
    let local = Path::new("/node/data/system_schema");
    let mut tables = fs.read_dir(local).unwrap().into_iter().map(|e| local.join(e.name));
    let tables = tables.find(|d| d.to_string_lossy().contains("/tables-")).unwrap();
    change(&fs, &tables.join("nb-1-big-Statistics.db"), |bytes| bytes[90] ^= 1);
    let tolerant = crate::EngineOptions { tolerates_damaged_sstables: true, ..options() };
    assert!(
        Engine::open(tolerant, env_on(Arc::new(fs), 2)).is_err(),
        "the node's own tables are needed whole"
    );
}

#[test]
fn a_table_has_its_directories_from_the_first_moment() {
    let fs = MemoryFileSystem::new();
    let data_dirs = ["/node/one", "/node/two"].map(PathBuf::from).to_vec();
    let options = crate::EngineOptions { data_dirs, ..options() };
    let open =
        |fs: &MemoryFileSystem| Engine::open(options.clone(), env_on(Arc::new(fs.clone()), 1)).unwrap();
    let engine = open(&fs);
    let table = simple_table("t");
    create(&engine, &[&table]);
    let dirs = engine.catalog.table_dirs(&table);
    let there = |fs: &MemoryFileSystem, dirs: &[PathBuf]| -> Vec<bool> {
        dirs.iter().map(|dir| fs.exists(dir).unwrap()).collect()
    };
    assert_eq!(there(&fs, &dirs), [true, true]);
    let of_the_node = engine.catalog.table_dirs(&engine.system_table("local"));
    assert_eq!(there(&fs, &of_the_node), [true, false], "its own tables have one home");
    let killed = fs.crash(Crash::LoseUnsynced);
    engine.close();
    assert_eq!(there(&killed, &dirs), [true, true], "their names are durable");

    dirs.iter().for_each(|dir| killed.remove_dir(dir).unwrap());
    let engine = open(&killed);
    assert_eq!(there(&killed, &dirs), [true, true], "a start makes what is missing");
    let mut schema = engine.schema().as_ref().clone();
    schema.keyspaces.remove("ks");
    engine.install_schema(schema).unwrap();
    assert_eq!(there(&killed, &dirs), [false, false], "they go with the table");
    engine.close();
}

#[test]
fn a_directory_that_cannot_be_made_is_left_to_the_flush() {
    for op in [Op::CreateDir, Op::SyncDir] {
        let fs = MemoryFileSystem::new();
        let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
        let engine = Engine::open(options(), env_on(Arc::new(faulty.clone()), 1)).unwrap();
        faulty.add(Fault::on(op).path("data/ks"));
        let table = simple_table("t");
        create(&engine, &[&table]);
        assert!(!fs.exists(&engine.catalog.table_dirs(&table)[0]).unwrap(), "{op:?}");
        write(&engine, &insert(&table, 1, 1, "kept", 1)).unwrap();
        assert!(engine.flush("ks", None).is_err());

        faulty.heal();
        engine.flush("ks", None).unwrap();
        let killed = fs.crash(Crash::LoseUnsynced);
        engine.close();
        let engine = Engine::open(options(), env_on(Arc::new(killed), 1)).unwrap();
        assert_eq!(contents(&engine, &table).len(), 1, "{op:?}");
        assert_eq!(engine.table(table.id).unwrap().view().sstables.len(), 1, "{op:?}");
        engine.close();
    }
}
