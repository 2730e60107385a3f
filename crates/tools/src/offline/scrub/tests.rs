//! Scrubs that are refused, and scrubs that are killed.

use super::*;
use env::clock::ManualClock;
use env::fs::faulty::{Fault, FaultyFileSystem};
use env::fs::memory::{Crash, MemoryFileSystem};
use env::fs::{EntryKind, FileSystem};
use env::random::Random;
use sstable::txn_log::{Record, RecordKind};

/// In a data directory, and in none.
const TABLE: &str = "/data/ks/t-0123456789abcdef0123456789abcdef";
const LOOSE: &str = "/loose";
const OUTPUT: &str = "/out";

fn args(directory: &str, output: Option<&str>) -> ScrubArgs {
    ScrubArgs { paths: vec![directory.into()], output: output.map(PathBuf::from), json: false }
}

/// A scrub that is not the first one.
fn scrub_in(fs: &MemoryFileSystem, directory: &str, output: Option<&str>) -> Result<Outcome, Failure> {
    let clock = ManualClock::at_micros(ManualClock::START_MICROS + 1_000_000);
    let env = Env::new(Arc::new(clock), Arc::new(Random::from_seed(2)), Arc::new(fs.clone()));
    run(&env, &args(directory, output), &mut Output::none())
}

fn refusal(fs: &MemoryFileSystem, directory: &str, output: Option<&str>) -> String {
    match scrub_in(fs, directory, output) {
        Err(Failure::Usage(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// A file system with an SSTable that a Cassandra wrote in one directory.
#[allow(clippy::disallowed_methods, reason = "the SSTable lies in the tree")]
fn with_sstable(directory: &str) -> MemoryFileSystem {
    let fs = MemoryFileSystem::new();
    fs.create_dir_all_durable(Path::new(directory)).unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/4.0.17-nb/ranges");
    for entry in std::fs::read_dir(from).unwrap() {
        let name = entry.as_ref().unwrap().file_name().into_string().unwrap();
        if name.starts_with("nb-1-big-") && !name.ends_with(".json") {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            fs.write_atomic(&Path::new(directory).join(name), &bytes).unwrap();
        }
    }
    fs
}

/// Every file below a directory.
fn files(fs: &dyn FileSystem, directory: &Path, out: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs.read_dir(directory).unwrap() {
        let path = directory.join(&entry.name);
        match entry.kind {
            EntryKind::Dir => files(fs, &path, out),
            _ => drop(out.insert(path.clone(), fs.read(&path).unwrap())),
        }
    }
}

fn everything(fs: &dyn FileSystem) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    files(fs, Path::new("/"), &mut out);
    out
}

/// Partitions and rows of the one SSTable in a directory, which has to be sound, and beside which nothing
/// else is.
fn content(fs: &dyn FileSystem, directory: &str) -> (u64, u64) {
    let listing = descriptor::list(fs, Path::new(directory)).unwrap();
    assert_eq!(listing.txn_logs, Vec::<PathBuf>::new());
    let all: Vec<_> = listing.tables.into_keys().collect();
    assert_eq!(all.len(), 1, "{all:?}");
    let report = sstable::verify(fs, &all[0], &|_| {}).unwrap();
    assert_eq!(report.findings, []);
    (report.partitions, report.rows)
}

/// A scrub that is killed at its `calls`th change of the disk, in the middle of it if it is a write; whether
/// it was.
fn killed(fs: &MemoryFileSystem, calls: u64, directory: &str, output: Option<&str>) -> bool {
    let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
    let fault = faulty.add(Fault::on_any_change().after(calls).short_write(40));
    let env = Env::for_test(1).with_fs(Arc::new(faulty.clone()));
    let outcome = run(&env, &args(directory, output), &mut Output::none());
    let killed = faulty.struck(fault) > 0;
    assert!(killed || outcome.is_ok_and(|outcome| outcome == Outcome::Sound));
    killed
}

fn has_tables(fs: &MemoryFileSystem, directory: &str) -> bool {
    let directory = Path::new(directory);
    fs.exists(directory).unwrap() && !descriptor::list(fs, directory).unwrap().tables.is_empty()
}

#[test]
fn a_scrub_ends_what_a_scrub_that_was_killed_anywhere_has_left() {
    for (directory, output) in [(TABLE, None), (LOOSE, None), (TABLE, Some(OUTPUT)), (LOOSE, Some(OUTPUT))] {
        let expected = content(&with_sstable(directory), directory);
        let target = output.unwrap_or(directory);
        let (mut committed, mut uncommitted) = (0, 0);
        for calls in 0.. {
            let fs = with_sstable(directory);
            if !killed(&fs, calls, directory, output) {
                assert_eq!(content(&fs, target), expected);
                break;
            }
            for after in [fs.clone(), fs.crash(Crash::LoseUnsynced), fs.crash(Crash::ScatteredPages(calls))] {
                let left = match after.exists(Path::new(target)).unwrap() {
                    true => txn_log::understand(&after, &[target.into()]).unwrap(),
                    false => Vec::new(),
                };
                assert!(left.len() < 2 && left.iter().all(|left| left.is_of(Operation::Scrub)));
                committed += left.iter().filter(|left| left.committed).count();
                uncommitted += left.iter().filter(|left| !left.committed).count();
                // Killed behind the COMMIT, one with an output has done its work: the next would do it once
                // more.
                if output.is_some() && left.iter().any(|left| left.committed) {
                    let said = refusal(&after, directory, output);
                    assert!(said.contains("is whole and stays in /out"), "{said}");
                } else if output.is_none_or(|_| left.len() == 1 || !has_tables(&after, target)) {
                    let outcome = scrub_in(&after, directory, output);
                    assert!(matches!(outcome, Ok(Outcome::Sound)), "{directory} at {calls}: {outcome:?}");
                }
                let snapshots = Path::new(directory).join(SNAPSHOTS);
                for snapshot in after.read_dir(&snapshots).unwrap_or_default() {
                    let path = snapshots.join(&snapshot.name);
                    assert!(after.exists(&path.join("manifest.json")).unwrap(), "{path:?} at {calls}");
                    assert_eq!(content(&after, path.to_str().unwrap()), expected, "{path:?} at {calls}");
                }
                assert_eq!(content(&after, target), expected, "{directory} at {calls}");
                assert_eq!(content(&after, directory), expected, "{directory} at {calls}");
            }
        }
        assert!(committed > 3 && uncommitted > 3, "{directory}: {committed} and {uncommitted}");
    }
}

/// With the line of a log, or of its name, changed by `change`.
fn with_log(directory: &str, output: Option<&str>, change: &dyn Fn(&str) -> String) -> MemoryFileSystem {
    for calls in 0.. {
        let fs = with_sstable(directory);
        assert!(killed(&fs, calls, directory, output), "no kill leaves a log with two lines");
        let target = Path::new(output.unwrap_or(directory));
        let logs = match fs.exists(target).unwrap() {
            true => descriptor::list(&fs, target).unwrap().txn_logs,
            false => Vec::new(),
        };
        let Some(log) = logs.first() else { continue };
        let text = fs.read_to_string(log).unwrap();
        if text.lines().count() > 1 {
            fs.write(log, change(&text).as_bytes()).unwrap();
            return fs;
        }
    }
    unreachable!()
}

#[test]
fn beside_a_log_that_is_not_understood_every_byte_is_left() {
    for (directory, output) in [(TABLE, None), (LOOSE, None), (LOOSE, Some(OUTPUT))] {
        let fs = with_log(directory, output, &|text| text.replacen("ADD", "ADE", 1));
        let before = everything(&fs);
        let text = refusal(&fs, directory, output);
        assert!(text.contains("nb_txn_scrub_") && text.ends_with(".log is damaged in line 1"), "{text}");
        assert_eq!(everything(&fs), before);
    }
    // Somebody has put a file back, or more.
    let fs = with_log(LOOSE, None, &str::to_owned);
    fs.write(&Path::new(LOOSE).join("nb-1-big-Other.db"), b"").unwrap();
    let before = everything(&fs);
    let text = refusal(&fs, LOOSE, None);
    assert!(text.contains("nb_txn_scrub_") && text.contains(" retires /loose/nb-1-big- of "), "{text}");
    assert_eq!(everything(&fs), before);
}

#[test]
fn what_other_operations_left_is_left_to_the_node() {
    let fs = with_sstable(TABLE);
    let table = Path::new(TABLE);
    let record = |directory: &str, n| Record {
        kind: RecordKind::Add,
        prefix: format!("{directory}/nb-{n}-big-"),
        modified_ms: 0,
        files: 8,
    };
    let other = TABLE.replace("/data/", "/more/");
    for (name, lines) in [
        ("nb_txn_compaction_423c7f2a-e563-11f1-a153-99453223a987.log", record(TABLE, 2).line()),
        // Copies of its log lie in two data directories, and the other one may say that it has committed.
        (
            "nb_txn_scrub_423c7f2a-e563-11f1-a153-99453223a987.log",
            record(TABLE, 2).line() + &record(&other, 3).line(),
        ),
    ] {
        fs.write(&table.join(name), lines.as_bytes()).unwrap();
        let before = everything(&fs);
        let text = refusal(&fs, TABLE, None);
        let expected = format!("{TABLE}/{name} was left by an operation that did not end: start the node");
        assert!(text.starts_with(&expected), "{text}");
        assert_eq!(everything(&fs), before);
        fs.remove_file(&table.join(name)).unwrap();
    }
}

/// A node locks its data directory while it runs; what it has open is not replaced under it.
#[test]
fn a_directory_that_a_node_runs_on_is_left_alone() {
    let fs = with_sstable(TABLE);
    let before = everything(&fs);
    let held = fs.lock_exclusive(Path::new("/data")).unwrap();
    let text = refusal(&fs, TABLE, None);
    assert!(text.contains("a node runs on /data"), "{text}");
    assert_eq!(everything(&fs), before);
    drop(held);
    assert!(scrub_in(&fs, TABLE, None).is_ok());
}

/// Otherwise the second would take the transaction of the first for one that was left.
#[test]
fn one_scrub_at_a_time_writes_to_a_directory() {
    let fs = with_sstable(LOOSE);
    for (locked, output) in [(LOOSE, None), (OUTPUT, Some(OUTPUT))] {
        fs.create_dir_all(Path::new(locked)).unwrap();
        let held = fs.lock_exclusive(Path::new(locked)).unwrap();
        let text = refusal(&fs, LOOSE, output);
        assert!(text.starts_with(&format!("another tool works in {locked}: ")), "{text}");
        drop(held);
        assert!(scrub_in(&fs, LOOSE, output).is_ok());
    }
}

#[test]
fn the_data_directory_is_known_by_the_tables_name() {
    let of = |path: &str| super::lock::data_directory(Path::new(path)).unwrap();
    assert_eq!(of(TABLE), Some("/data".into()));
    assert_eq!(of("/data/ks/t"), None);
    assert_eq!(of(&format!("{TABLE}/snapshots/before")), None);
}
