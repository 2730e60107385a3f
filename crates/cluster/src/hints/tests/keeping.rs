//! Which writes are kept, and where.

use super::*;
use crate::hints::format::ENTRY_OVERHEAD_BYTES;
use coordinator::{LocalReplica, LocalStore, Proving, ReaderHooks, Readers};
use model::command::ReadCommand;
use partition::{BoxedStream, ReadContext, ReadError};

const HOUR: Duration = Duration::from_secs(3600);

/// A store with a dead node.
fn case() -> (World, Arc<HintStore>, Arc<Node>) {
    let world = World::new();
    let store = world.store();
    let (node, _) = dead_node(1, &world.env);
    (world, store, node)
}

fn kept(world: &World) -> Vec<i32> {
    world.contents().iter().flat_map(|bytes| read_all(bytes).unwrap().0).collect()
}

#[test]
fn a_write_that_was_missed_is_on_disk_after_a_flush() {
    let (world, store, node) = case();
    for v in 0..5 {
        store.missed(&node, &write(v));
    }
    assert!(world.names().is_empty(), "it is in memory");
    store.flush().unwrap();
    assert_eq!(kept(&world), [0, 1, 2, 3, 4]);
    assert_eq!(store.counts().created, 5);
}

#[test]
fn each_node_has_files_of_its_own() {
    let (world, store, node) = case();
    let (other, _) = dead_node(2, &world.env);
    store.missed(&node, &write(1));
    store.missed(&other, &write(2));
    store.flush().unwrap();
    let of = |name: &String| FileId::of_name(name).unwrap().host_id;
    assert_eq!(world.names().iter().map(of).collect::<Vec<_>>(), [host(1), host(2)]);
}

#[test]
fn errors_after_which_a_write_may_be_missing_leave_a_hint() {
    let (_, store, node) = case();
    let elsewhere = ReplicaError::Elsewhere { address: [127, 0, 0, 1].into(), code: 0, name: "UNKNOWN" };
    let all = [
        (ReplicaError::TimedOut, 1),
        (ReplicaError::Overloaded("full".into()), 2),
        (elsewhere, 3),
        (ReplicaError::TooLarge("large".into()), 3),
        (ReplicaError::Write("no value of its type".into()), 3),
    ];
    for (error, created) in all {
        store.failed(&node, &write(1), &error);
        assert_eq!(store.counts().created, created, "{error}");
    }
}

#[test]
fn what_is_nobody_elses_or_of_no_use_is_not_kept() {
    let (_, store, node) = case();
    store.missed(&node, &write_to("system", "batches", 1));
    store.missed(&node, &write_to("ks", "graceless", 1));
    store.change(|settings| settings.is_enabled = false);
    store.missed(&node, &write(1));
    store.change(|settings| settings.is_enabled = true);
    store.change(|settings| settings.disabled_datacenters = ["dc1".to_owned()].into());
    store.missed(&node, &write(1));
    assert_eq!((store.counts().created, store.counts().not_stored), (0, 0));
    store.change(|settings| settings.disabled_datacenters = ["dc2".to_owned()].into());
    store.missed(&node, &write(1));
    assert_eq!(store.counts().created, 1);
}

#[test]
fn a_node_that_is_down_for_longer_than_the_window_gets_no_more() {
    let (world, store, node) = case();
    store.change(|settings| settings.is_window_persistent = false);
    store.went_down(node.id);
    world.clock.advance(HOUR * 3);
    store.missed(&node, &write(1));
    world.clock.advance(HOUR);
    store.missed(&node, &write(2));
    assert_eq!((store.counts().created, store.counts().not_stored), (1, 1));
    store.came_back(node.id);
    store.missed(&node, &write(3));
    assert_eq!(store.counts().created, 2);
}

#[test]
fn a_node_that_is_alive_has_no_window_behind_it() {
    let (world, store, node) = case();
    store.change(|settings| settings.is_window_persistent = false);
    store.missed(&node, &write(1));
    node.set_alive(true);
    world.clock.advance(HOUR * 4);
    store.failed(&node, &write(2), &ReplicaError::TimedOut);
    node.set_alive(false);
    world.clock.advance(HOUR * 4);
    store.missed(&node, &write(3));
    assert_eq!((store.counts().created, store.counts().not_stored), (3, 0), "nobody said that it came back");
}

#[test]
fn a_persistent_window_begins_with_the_oldest_hint() {
    let (world, store, node) = case();
    store.missed(&node, &write(1));
    store.flush().unwrap();
    store.came_back(node.id);
    world.clock.advance(HOUR * 4);
    store.missed(&node, &write(2));
    assert_eq!((store.counts().created, store.counts().not_stored), (1, 1));
    store.truncate(Some(node.id));
    store.missed(&node, &write(3));
    assert_eq!(store.counts().created, 2);
}

#[test]
fn a_node_has_at_most_so_many_bytes_of_hints() {
    let (_, store, node) = case();
    let entry_bytes = entry_of(1, VERSION_40).len() as u64;
    store.change(|settings| settings.host_bytes_max = 3 * entry_bytes);
    for v in 0..10 {
        store.missed(&node, &write(v));
    }
    assert_eq!((store.counts().created, store.counts().not_stored), (4, 6), "the last one reaches beyond it");
}

#[test]
fn memory_is_bounded_and_free_again_when_hints_are_written() {
    let world = World::new();
    let entry_bytes = entry_of(1, VERSION_40).len();
    let buffer_bytes_max = 10 * entry_bytes + ENTRY_OVERHEAD_BYTES;
    let store = world.store_with(HintsOptions { buffer_bytes_max, ..HintsOptions::new(Path::new(DIR)) });
    let (node, _) = dead_node(1, &world.env);
    for round in 1..=3 {
        for v in 0..20 {
            store.missed(&node, &write(v));
        }
        let counts = store.counts();
        assert_eq!((counts.created, counts.not_stored), (10 * round, 10 * round));
        store.flush().unwrap();
    }
    assert_eq!(kept(&world).len(), 30);
}

#[test]
fn a_full_file_is_closed_and_no_hint_is_cut_in_two() {
    let (world, store, node) = case();
    store.change(|settings| settings.file_bytes_max = 300);
    for v in 0..20 {
        store.missed(&node, &write(v));
    }
    store.flush().unwrap();
    let contents = world.contents();
    assert!(contents.len() > 2 && contents.iter().all(|bytes| read_all(bytes).unwrap().1));
    let entry_bytes = entry_of(1, VERSION_40).len();
    assert!(contents.iter().all(|bytes| bytes.len() < 300 + entry_bytes));
    let full = contents.iter().filter(|bytes| bytes.len() >= 300).count();
    let crcs: Vec<String> = world.names().into_iter().filter(|name| name.ends_with(".crc32")).collect();
    assert_eq!(crcs.len(), full);
    for name in crcs {
        let crc = world.env.fs.read_to_string(&Path::new(DIR).join(&name)).unwrap();
        let bytes = world.env.fs.read(&Path::new(DIR).join(name.replace("crc32", "hints"))).unwrap();
        assert_eq!(crc, format!("{:x}", crc32fast::hash(&bytes)));
    }
    assert_eq!(kept(&world), (0..20).collect::<Vec<_>>());
}

#[test]
fn what_a_disk_does_not_take_stays_in_memory() {
    for op in [Op::Create, Op::Write, Op::Sync, Op::SyncDir] {
        let (world, store, node) = case();
        store.missed(&node, &write(1));
        store.flush().unwrap();
        let fault = world.faulty.add(Fault::on(op).path("hints"));
        store.close(node.id);
        store.missed(&node, &write(2));
        let failed = store.flush();
        world.faulty.remove(fault);
        assert!(failed.is_err(), "{op:?}");
        store.missed(&node, &write(3));
        store.flush().unwrap();
        let mut kept = kept(&world);
        kept.dedup();
        assert_eq!(kept, [1, 2, 3], "{op:?}");
    }
}

#[test]
fn truncated_and_excised_hints_are_gone_from_memory_and_disk() {
    let (world, store, node) = case();
    let (other, _) = dead_node(2, &world.env);
    for node in [&node, &other] {
        store.missed(node, &write(1));
        store.flush().unwrap();
        store.missed(node, &write(2));
    }
    store.truncate(Some(node.id));
    store.flush().unwrap();
    assert_eq!(store.waiting(), [other.id]);
    store.excise(other.id);
    store.work();
    store.flush().unwrap();
    assert!(store.waiting().is_empty() && world.names().is_empty());
    store.missed(&node, &write(3));
    store.truncate(None);
    store.flush().unwrap();
    assert!(world.names().is_empty());
}

#[test]
fn files_are_found_after_a_restart_and_new_ones_are_younger() {
    let (world, store, node) = case();
    store.missed(&node, &write(1));
    store.shut().unwrap();
    let before = world.names();
    let store = world.store();
    assert_eq!(store.waiting(), [node.id]);
    store.missed(&node, &write(2));
    store.flush().unwrap();
    assert!(world.names().iter().all(|name| !before.contains(name) || world.names().len() > before.len()));
    assert_eq!(kept(&world), [1, 2], "the clock stands still, and the names do not");
}

/// A node that has no data.
#[derive(Debug)]
struct Empty;

impl LocalStore for Empty {
    fn schema(&self) -> Arc<Schema> {
        schema()
    }
    fn stream(&self, _: &Arc<ReadCommand>, _: &ReadContext) -> Result<BoxedStream, ReadError> {
        Err(ReadError::TimedOut)
    }
    fn proven(&self, _: Arc<str>, _: Option<Deadline>) -> Proving {
        Box::pin(async { Ok(()) })
    }
    fn mutate(&self, _: Arc<Mutation>, _: Option<&Deadline>) -> Answer<()> {
        unasked()
    }
    fn truncate(&self, _: Arc<TableSchema>) -> Answer<()> {
        unasked()
    }
    fn truncated_millis(&self, _: &TableSchema) -> Answer<Option<i64>> {
        unasked()
    }
}

#[test]
fn a_node_keeps_no_hints_for_itself() {
    let (world, store, _) = case();
    let readers = Arc::new(Readers::new(world.env.clone(), 1, ReaderHooks::none()));
    let this = Arc::new(LocalReplica::new(Arc::new(Empty), readers));
    let node = Arc::new(Node::new(host(9), "dc1", "r1", this));
    store.missed(&node, &write(1));
    store.failed(&node, &write(1), &ReplicaError::TimedOut);
    store.late(&node, &write(1), Answer::later(std::future::pending()));
    assert_eq!((store.counts().created, store.waiting().len()), (0, 0));
}
