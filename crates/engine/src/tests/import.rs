//! SSTables from other directories.

use super::opening::name_another_partitioner;
use super::store::{fill, open, rows};
use super::*;
use crate::{EngineError, ImportOptions};
use env::fs::faulty::{Fault, FaultyFileSystem};
use env::fs::memory::{Crash, MemoryFileSystem};
use std::path::PathBuf;

/// A node whose table `t` has 20 rows in files under `/elsewhere` too, and an empty table `u` of the same
/// columns.
fn with_files(fs: &MemoryFileSystem) -> (Arc<Engine>, Arc<TableSchema>, PathBuf) {
    let engine = open(fs);
    let (t, u) = (simple_table("t"), simple_table("u"));
    create(&engine, &[&t, &u]);
    fill(&engine, &t, 0..20);
    engine.flush("ks", Some("t")).unwrap();
    let from = &engine.catalog.table_dirs(&t)[0];
    let to = PathBuf::from("/elsewhere");
    fs.create_dir_all_durable(&to).unwrap();
    for file in fs.read_dir(from).unwrap() {
        if file.name.to_string_lossy().starts_with("nb-") {
            fs.hard_link(&from.join(&file.name), &to.join(&file.name)).unwrap();
        }
    }
    fs.sync_dir(&to).unwrap();
    (engine, u, to)
}

fn import(engine: &Engine, table: &str, from: &PathBuf, options: ImportOptions) -> crate::ImportedDirectory {
    engine.import("ks", table, std::slice::from_ref(from), &options).unwrap().remove(0)
}

#[test]
fn files_are_moved_renumbered_and_read() {
    let fs = MemoryFileSystem::new();
    let (engine, u, from) = with_files(&fs);
    fill(&engine, &u, 100..110);
    engine.flush("ks", Some("u")).unwrap();
    let done = import(&engine, "u", &from, ImportOptions::default());
    assert_eq!((done.sstables.len(), done.failure), (1, None));
    assert!(done.sstables[0].ends_with("nb-2-big"), "{:?}", done.sstables);
    assert!(fs.read_dir(&from).unwrap().is_empty());
    let mut expected = rows(0..20);
    expected.extend(rows(100..110));
    assert_eq!(contents(&engine, &u), expected);
    engine.close();
    drop(engine);
    assert_eq!(contents(&open(&fs), &u), expected);
}

#[test]
fn what_is_imported_or_loaded_is_backed_up_while_it_is_wanted() {
    let fs = MemoryFileSystem::new();
    let (engine, u, from) = with_files(&fs);
    let home = engine.catalog.table_dirs(&u)[0].clone();
    let backups = || {
        let mut names: Vec<String> = fs
            .read_dir(&home.join("backups"))
            .unwrap_or_default()
            .into_iter()
            .filter_map(|entry| entry.name.into_string().ok())
            .filter(|name| name.ends_with("-Data.db"))
            .collect();
        names.sort();
        names
    };
    let copy = ImportOptions { copy: true, ..ImportOptions::default() };
    let brought = |options| {
        let name = import(&engine, "u", &from, options).sstables.remove(0);
        format!("{}-Data.db", name.rsplit('/').next().unwrap())
    };
    brought(copy);
    assert!(!engine.incremental_backups() && backups().is_empty());
    engine.set_incremental_backups(true);
    let imported = brought(copy);
    assert_eq!(backups(), std::slice::from_ref(&imported));
    for file in fs.read_dir(&from).unwrap() {
        let name = file.name.into_string().unwrap();
        fs.hard_link(&from.join(&name), &home.join(name.replace("nb-1-", "nb-9-"))).unwrap();
    }
    assert_eq!(engine.load_new_sstables("ks", "u").unwrap().len(), 1);
    let loaded = "nb-9-big-Data.db".to_owned();
    assert_eq!(backups(), [imported.clone(), loaded.clone()]);
    engine.compact("ks", Some("u")).unwrap();
    assert_eq!(backups(), [imported.clone(), loaded.clone()]);
    engine.set_incremental_backups(false);
    brought(ImportOptions::default());
    assert_eq!(backups(), [imported, loaded]);
}

#[test]
fn files_that_others_may_change_are_copied() {
    let fs = MemoryFileSystem::new();
    let (engine, u, from) = with_files(&fs);
    let theirs = PathBuf::from("/theirs");
    fs.create_dir_all_durable(&theirs).unwrap();
    let mut handles = Vec::new();
    for file in fs.read_dir(&from).unwrap() {
        let path = theirs.join(&file.name);
        fs.write(&path, &fs.read(&from.join(&file.name)).unwrap()).unwrap();
        fs.share(&path);
        handles.push(fs.open_rw(&path).unwrap());
    }
    assert_eq!(import(&engine, "u", &theirs, ImportOptions::default()).failure, None);
    assert!(fs.read_dir(&theirs).unwrap().is_empty(), "they are moved all the same");
    // Who had them open cuts them.
    handles.iter_mut().for_each(|file| file.truncate(0).unwrap());
    engine.close();
    drop(engine);
    assert_eq!(contents(&open(&fs), &u), rows(0..20));
}

#[test]
fn the_files_of_a_table_are_not_moved_to_another() {
    let fs = MemoryFileSystem::new();
    let (engine, u, _) = with_files(&fs);
    let own = engine.catalog.table_dirs(&simple_table("t"))[0].clone();
    let before = fs.read_dir(&own).unwrap().len();
    for from in [own.clone(), own.join("snapshots").join("..")] {
        let failure = import(&engine, "u", &from, ImportOptions::default()).failure.unwrap();
        assert!(failure.contains("that of ks.t"), "{failure}");
        let failure = import(&engine, "t", &from, ImportOptions::default()).failure.unwrap();
        assert!(failure.contains("the table's own"), "{failure}");
    }
    assert_eq!((fs.read_dir(&own).unwrap().len(), contents(&engine, &u).len()), (before, 0));
    let done = import(&engine, "u", &own, ImportOptions { copy: true, ..ImportOptions::default() });
    assert_eq!((done.failure, contents(&engine, &u)), (None, rows(0..20)));
}

#[test]
fn copied_files_stay() {
    let fs = MemoryFileSystem::new();
    let (engine, u, from) = with_files(&fs);
    let count = fs.read_dir(&from).unwrap().len();
    for _ in 0..2 {
        let done = import(&engine, "u", &from, ImportOptions { copy: true, ..ImportOptions::default() });
        assert_eq!(done.failure, None);
    }
    assert_eq!(fs.read_dir(&from).unwrap().len(), count);
    assert_eq!(contents(&engine, &u), rows(0..20), "the same rows twice are the same rows");
}

#[test]
fn levels_and_repairs_are_kept_only_when_asked_for() {
    let fs = MemoryFileSystem::new();
    let (engine, u, from) = with_files(&fs);
    let descriptor = sstable::descriptor::list(&fs, &from).unwrap().tables.into_keys().next().unwrap();
    sstable::statistics::rewrite(&fs, &descriptor, |stats| {
        stats.level = 3;
        stats.repaired_at_ms = 77;
    })
    .unwrap();
    let stats = |options: ImportOptions| {
        let name = import(&engine, "u", &from, options).sstables.remove(0);
        let store = engine.table(u.id).unwrap();
        let view = store.view();
        let table = view.sstables.iter().find(|t| t.descriptor().to_string() == name).unwrap();
        (table.stats().level, table.stats().repaired_at_ms)
    };
    let copy = ImportOptions { copy: true, ..ImportOptions::default() };
    assert_eq!(stats(ImportOptions { keep_level: true, ..copy }), (3, 0));
    assert_eq!(stats(ImportOptions { keep_repaired: true, ..copy }), (0, 77));
    assert_eq!(stats(ImportOptions { keep_level: true, keep_repaired: true, ..copy }), (3, 77));
    assert_eq!(stats(ImportOptions::default()), (0, 0));
}

#[test]
fn what_is_not_the_tables_or_damaged_is_refused_and_stays() {
    let fs = MemoryFileSystem::new();
    let (engine, u, from) = with_files(&fs);
    let other = TableSchema::builder("ks", "other", Uuid::from_u128(9))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Int)
        .build();
    create(&engine, &[&simple_table("t"), &u, &Arc::new(other)]);
    let failure = import(&engine, "other", &from, ImportOptions::default()).failure.unwrap();
    assert!(failure.contains("column v is of type text, in the table it is int"), "{failure}");

    let data = from.join("nb-1-big-Data.db");
    let sound = fs.read(&data).unwrap();
    let mut damaged = sound.clone();
    damaged[10] ^= 1;
    fs.remove_file(&data).unwrap();
    fs.write(&data, &damaged).unwrap();
    let failure = import(&engine, "u", &from, ImportOptions::default()).failure.unwrap();
    assert!(failure.contains("Data.db") && failure.contains("checksum"), "{failure}");
    assert_eq!(contents(&engine, &u), BTreeMap::new());
    let names = |dir: &Path| -> Vec<_> { fs.read_dir(dir).unwrap().into_iter().map(|e| e.name).collect() };
    assert!(
        !fs.exists(&engine.catalog.table_dirs(&u)[0]).unwrap()
            || names(&engine.catalog.table_dirs(&u)[0]).is_empty()
    );
    fs.write(&data, &sound).unwrap();
    assert_eq!(import(&engine, "u", &from, ImportOptions::default()).failure, None);
    assert_eq!(contents(&engine, &u), rows(0..20));

    let nowhere = engine.import("ks", "u", &[PathBuf::from("/nowhere")], &ImportOptions::default());
    assert!(matches!(nowhere, Err(EngineError::NoDirectory(_))));
    let unknown = engine.import("ks", "nope", &[from], &ImportOptions::default());
    assert!(matches!(unknown, Err(EngineError::UnknownTable { .. })));
}

#[test]
fn sstables_of_another_partitioner_are_refused_by_name() {
    let fs = MemoryFileSystem::new();
    let (engine, u, from) = with_files(&fs);
    let path = from.join("nb-1-big-Statistics.db");
    let mut bytes = fs.read(&path).unwrap();
    name_another_partitioner(&mut bytes);
    fs.remove_file(&path).unwrap();
    fs.write(&path, &bytes).unwrap();
    let names = |dir: &Path| -> Vec<_> { fs.read_dir(dir).unwrap().into_iter().map(|e| e.name).collect() };
    let before = names(&from);
    for verify in [true, false] {
        let options = ImportOptions { verify, ..ImportOptions::default() };
        let failure = import(&engine, "u", &from, options).failure.unwrap();
        assert!(failure.contains("nb-1-big") && failure.contains("RandomsPartitioner"), "{failure}");
    }
    assert_eq!(names(&from), before);
    let home = engine.catalog.table_dirs(&u)[0].clone();
    fs.create_dir_all(&home).unwrap();
    for name in &before {
        fs.hard_link(&from.join(name), &home.join(name)).unwrap();
    }
    let refused = engine.load_new_sstables("ks", "u").unwrap_err().to_string();
    assert!(refused.contains("nb-1-big") && refused.contains("RandomsPartitioner"), "{refused}");
    assert_eq!((names(&home), contents(&engine, &u)), (before, BTreeMap::new()));
}

#[test]
fn a_loss_of_power_leaves_all_in_the_table_or_all_where_it_was() {
    let base = MemoryFileSystem::new();
    let (engine, u, from) = with_files(&base);
    engine.close();
    drop(engine);
    let sources = base.read_dir(&from).unwrap().len();
    let (mut nth, mut moved, mut stayed) = (1, 0, 0);
    loop {
        // A machine of its own for each round.
        let fs = base.crash(Crash::LoseUnsynced);
        let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
        let engine = Engine::open(options(), env_on(Arc::new(faulty.clone()), 1)).unwrap();
        faulty.add(Fault::on_any_change().after(nth - 1));
        let done = import(&engine, "u", &from, ImportOptions::default());
        let finished = done.failure.is_none() && fs.read_dir(&from).unwrap().is_empty();
        engine.close();
        drop(engine);
        let survivor = fs.crash(Crash::LoseUnsynced);
        let engine = open(&survivor);
        match contents(&engine, &u) {
            found if found.is_empty() => {
                assert_eq!(survivor.read_dir(&from).unwrap().len(), sources, "call {nth}");
                stayed += 1;
            }
            found => {
                assert_eq!(found, rows(0..20), "call {nth}");
                moved += 1;
            }
        }
        engine.close();
        if finished {
            break;
        }
        nth += 1;
    }
    assert!(moved > 3 && stayed > 3, "{moved} moved, {stayed} stayed");
}
