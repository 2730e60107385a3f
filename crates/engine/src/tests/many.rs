//! Many SSTables, counted in calls to the file system: what it takes to open and to remove them.

use super::*;
use crate::options::{SsTableFormat, StorageCompatibility};
use env::clock::Clock;
use env::fs::disk::DiskFileSystem;
use env::fs::faulty::{Fault, FaultId, FaultyFileSystem, Op, Seen};
use env::fs::memory::MemoryFileSystem;
use env::sync::Mutex;
use sstable::{Component, Descriptor, Version, descriptor};
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::{Field, Visit};
use tracing::span;

/// Those that are written.
const VERSIONS: [Version; 3] = [Version::NB, Version::OA, Version::DA];

fn in_version(version: Version) -> EngineOptions {
    let storage_compatibility = match version {
        Version::NB => StorageCompatibility::Cassandra4,
        _ => StorageCompatibility::None,
    };
    let sstable_format = if version.is_bti() { SsTableFormat::Bti } else { SsTableFormat::Big };
    EngineOptions { sstable_format, storage_compatibility, ..options() }
}

/// A stopped node with one SSTable of so many partitions of 1 KiB, and the table's directory.
fn node(version: Version, partitions: i32) -> (MemoryFileSystem, Arc<TableSchema>, Descriptor) {
    let fs = MemoryFileSystem::new();
    let engine = Engine::open(in_version(version), env_on(Arc::new(fs.clone()), 1)).unwrap();
    let table = simple_table("t");
    create(&engine, &[&table]);
    let random = Random::from_seed(5);
    for k in 0..partitions {
        let value: String = (0..64).map(|_| format!("{:016x}", random.below(u64::MAX))).collect();
        write(&engine, &insert(&table, k, 0, &value, 1)).unwrap();
    }
    engine.flush_all().unwrap();
    let dir = engine.catalog.table_dirs(&table).remove(0);
    engine.close();
    let mut listing = descriptor::list(&fs, &dir).unwrap();
    let (one, _) = listing.tables.pop_first().unwrap();
    assert_eq!(one.version, version);
    (fs, table, one)
}

/// Puts SSTables with the same content beside one, until there are `count`.
fn multiply(fs: &MemoryFileSystem, one: &Descriptor, count: u64) {
    for n in 2..=count {
        let other = Descriptor::new(&one.directory, sstable::SsTableId::Sequence(n), one.version);
        for component in Component::ALL {
            if fs.exists(&one.path(*component)).unwrap() && !fs.exists(&other.path(*component)).unwrap() {
                fs.hard_link(&one.path(*component), &other.path(*component)).unwrap();
            }
        }
    }
}

/// What was done to files whose names end so.
struct Watch {
    fs: FaultyFileSystem,
    rules: Vec<(&'static str, FaultId)>,
}

impl Watch {
    fn new(fs: &MemoryFileSystem) -> Watch {
        let fs = FaultyFileSystem::new(Arc::new(fs.clone()));
        let mut rules = vec![("list", fs.add(Fault::on(Op::ReadDir).path("/ks/").never()))];
        for op in [Op::Open, Op::Read] {
            rules.push(("all", fs.add(Fault::on(op).path("/ks/").never())));
        }
        for component in Component::ALL {
            let part = format!("-{component}");
            for op in [Op::Open, Op::Read] {
                rules.push((component.file_part(), fs.add(Fault::on(op).path("/ks/").path(&part).never())));
            }
        }
        Watch { fs, rules }
    }

    fn seen(&self) -> Vec<(&'static str, Seen)> {
        self.rules.iter().map(|(name, id)| (*name, self.fs.seen(*id))).collect()
    }

    /// Of files of a component, by all calls.
    fn of(&self, component: &str) -> Seen {
        let mine = self.seen().into_iter().filter(|(name, _)| *name == component);
        mine.fold(Seen::default(), |sum, (_, seen)| Seen {
            calls: sum.calls + seen.calls,
            bytes: sum.bytes + seen.bytes,
        })
    }
}

fn opened(fs: &MemoryFileSystem, version: Version) -> Watch {
    let watch = Watch::new(fs);
    Engine::open(in_version(version), env_on(Arc::new(watch.fs.clone()), 2)).unwrap().close();
    watch
}

#[test]
fn each_of_many_sstables_costs_the_same_to_open() {
    for version in VERSIONS {
        let (fs, table, one) = node(version, 20);
        let mut seen = Vec::new();
        for count in [100, 400, 700] {
            multiply(&fs.clone(), &one, count);
            seen.push(opened(&fs, version).seen());
        }
        for ((name, a), ((_, b), (_, c))) in seen[0].iter().zip(seen[1].iter().zip(&seen[2])) {
            let more = |x: &Seen, y: &Seen| (y.calls - x.calls, y.bytes - x.bytes);
            assert_eq!(more(a, b), more(b, c), "{version:?} {name}");
            assert_eq!(more(a, b).0 % 300, 0, "{version:?} {name}");
            match *name {
                "list" => assert_eq!(more(a, b).0, 0, "the directory is listed for each SSTable"),
                "all" => assert!(more(a, b).0 <= 300 * 16, "{version:?}: {:?} for 300 SSTables", more(a, b)),
                _ => {}
            }
        }
        let engine = Engine::open(in_version(version), env_on(Arc::new(fs), 2)).unwrap();
        assert_eq!(engine.table(table.id).unwrap().view().sstables.len(), 700);
        assert_eq!(contents(&engine, &table).len(), 20);
        engine.close();
    }
}

/// What Cassandras of versions that are not written left has no proof of its index.
#[test]
fn each_of_many_sstables_of_older_versions_costs_the_same_to_open() {
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures");
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(7))
        .partition_key("k", CqlType::Int)
        .clustering("a", CqlType::Int, false)
        .clustering("b", CqlType::Int, false)
        .regular("v", CqlType::Int)
        .build();
    let table = Arc::new(table);
    for set in ["3.5-ma", "3.0.7-mb", "3.11.3-mc", "3.11.10-md", "3.11.19-me", "4.0-rc1-na"] {
        let fs = MemoryFileSystem::new();
        let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap();
        create(&engine, &[&table]);
        let dir = engine.catalog.table_dirs(&table).remove(0);
        engine.close();
        let written = descriptor::list(&DiskFileSystem, &sets.join(set).join("ranges")).unwrap();
        let (from, _) = written.tables.first_key_value().unwrap();
        let one = Descriptor { directory: dir, ..from.clone() };
        assert!(!VERSIONS.contains(&one.version));
        fs.create_dir_all_durable(&one.directory).unwrap();
        for component in Component::ALL.iter().filter(|c| DiskFileSystem.exists(&from.path(**c)).unwrap()) {
            fs.write(&one.path(*component), &DiskFileSystem.read(&from.path(*component)).unwrap()).unwrap();
        }
        let seen = [100, 200, 300].map(|count| {
            multiply(&fs, &one, count);
            opened(&fs, Version::NB)
        });
        // Calls and bytes of a hundred more.
        let more = |component| {
            let [a, b, c] = seen.each_ref().map(|watch| watch.of(component));
            let added = (b.calls - a.calls, b.bytes - a.bytes);
            assert_eq!((c.calls - b.calls, c.bytes - b.bytes), added, "{set} {component}");
            added
        };
        assert_eq!(more("list").0, 0, "the directory is listed for each SSTable");
        let (calls, bytes) = more("all");
        assert_eq!(calls, 100 * 14, "{set}: {bytes} bytes");
        assert_eq!(more(Component::Data.file_part()), (100, 0), "{set}: Data.db is opened and not read");
        for component in [Component::Digest, Component::Toc] {
            assert_eq!(more(component.file_part()), (0, 0), "{set} {component}");
        }
    }
}

#[test]
fn the_length_of_data_and_index_does_not_matter_to_opening() {
    for version in VERSIONS {
        for without in [None, Some(Component::Proof)] {
            let costs = [1_000, 4_000].map(|partitions| {
                let (fs, _, one) = node(version, partitions);
                without.iter().for_each(|c| fs.remove_file(&one.path(*c)).unwrap());
                let watch = opened(&fs, version);
                let is_bti = one.version.is_bti();
                let (index, small) = match is_bti {
                    true => (Component::Partitions, [Component::Rows, Component::Toc]),
                    false => (Component::Index, [Component::Toc, Component::Digest]),
                };
                let bytes = |component: Component| watch.of(component.file_part()).bytes;
                assert_eq!(bytes(Component::Data), 0, "{version:?}");
                assert!(bytes(index) <= 4 * 4096, "{version:?}: {} bytes of the index", bytes(index));
                assert!(small.iter().all(|c| bytes(*c) <= 4096), "{version:?}");
                // What is read whole is short beside the data: filter, summary, offsets of chunks, checksums.
                let data = fs.file_len(&one.path(Component::Data)).unwrap();
                let all = watch.of("all");
                assert!(all.bytes < 16_384 + data / 50, "{version:?}: {all:?} of {data} bytes of data");
                (all.calls, watch.of(Component::Data.file_part()).calls)
            });
            assert_eq!(costs[0], costs[1], "{version:?} without {without:?}");
        }
    }
}

/// A clock that goes on by a second whenever somebody looks at it.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now_micros(&self) -> i64 {
        ManualClock::START_MICROS
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.fetch_add(1_000_000_000, Ordering::SeqCst)
    }
}

/// Events with a field `opened`, by its value and that of `all`.
#[derive(Default)]
struct ToldProgress(Arc<Mutex<Vec<(u64, u64)>>>);

#[derive(Default)]
struct Fields {
    opened: Option<u64>,
    all: u64,
}

impl Visit for Fields {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "opened" => self.opened = Some(value),
            "all" => self.all = value,
            _ => {}
        }
    }
}

impl tracing::Subscriber for ToldProgress {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some(opened) = fields.opened {
            self.0.lock().push((opened, fields.all));
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn progress_is_told_while_sstables_are_opened() {
    // Few enough for one thread, whose events come to this test.
    const SSTABLES: u64 = 60;
    let (fs, _, one) = node(Version::OA, 3);
    multiply(&fs, &one, SSTABLES);
    let clock = Arc::new(Ticking::default());
    let env = Env::new(clock, Arc::new(Random::from_seed(2)), Arc::new(fs));
    let told = ToldProgress::default();
    let lines = Arc::clone(&told.0);
    tracing::subscriber::with_default(told, || Engine::open(in_version(Version::OA), env).unwrap().close());
    let lines = lines.lock();
    let of_table: Vec<u64> = lines.iter().filter(|(_, all)| *all == SSTABLES).map(|(n, _)| *n).collect();
    // A second each, a line when two have passed.
    assert_eq!(of_table, (1..=SSTABLES / 3).map(|n| 3 * n).collect::<Vec<_>>());
}

#[test]
fn removing_many_sstables_lists_their_directory_a_constant_number_of_times() {
    for version in VERSIONS {
        let listings = [30, 300].map(|count| {
            let (fs, table, one) = node(version, 3);
            multiply(&fs, &one, count);
            let watch = Watch::new(&fs);
            let engine = Engine::open(in_version(version), env_on(Arc::new(watch.fs.clone()), 2)).unwrap();
            let before = watch.of("list").calls;
            engine.compact("ks", Some("t")).unwrap();
            assert_eq!(engine.table(table.id).unwrap().view().sstables.len(), 1);
            let compacted = watch.of("list").calls;
            engine.close();

            multiply(
                &fs,
                &descriptor::list(&fs, &one.directory).unwrap().tables.pop_first().unwrap().0,
                count,
            );
            let engine = Engine::open(in_version(version), env_on(Arc::new(watch.fs.clone()), 2)).unwrap();
            engine.set_auto_compaction("ks", Some("t"), false).unwrap();
            let opened = watch.of("list").calls;
            engine.truncate("ks", "t").unwrap();
            let left = descriptor::list(&fs, &one.directory).unwrap();
            assert_eq!((left.tables.len(), left.txn_logs.len()), (0, 0));
            let truncated = watch.of("list").calls;
            engine.close();
            (compacted - before, truncated - opened)
        });
        assert_eq!(listings[0], listings[1], "{version:?}");
    }
}
