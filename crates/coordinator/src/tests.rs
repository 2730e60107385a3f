//! The coordinator over replicas that a test can stop, fill and break.

use crate::*;
use bytes::Bytes;
use env::clock::ManualClock;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::{KeyBound, KeyRange, Token};
use model::schema::Replication;
use model::{
    Cell, Clustering, Consistency, CqlType, DecoratedKey, KeyspaceSchema, Liveness, Mutation, PartitionKey,
    PartitionUpdate, Row, Schema, TableSchema, WriteType, reconcile,
};
use partition::{
    BoxedStream, Deadline, Digest, Event, Fragment, PageLimits, PartitionStream, ReadContext, ReadError,
    Recording, without_purgeable,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use uuid::Uuid;

mod batchlog;
mod fakes;
mod hints;
mod levels;
mod paxos;
mod repair;
mod sim;

use fakes::{Fake, Noted, Remote, Verb};

fn schema(factor: u32) -> Schema {
    let mut keyspace = KeyspaceSchema::new("ks", Replication::simple(factor));
    let plain = TableSchema::builder("ks", "t", Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .regular("v", CqlType::Int)
        .build();
    let counters = TableSchema::builder("ks", "counters", Uuid::from_u128(2))
        .partition_key("k", CqlType::Int)
        .static_column("s", CqlType::Counter)
        .clustering("c", CqlType::Int, false)
        .regular("n", CqlType::Counter)
        .build();
    keyspace.tables.insert("t".into(), Arc::new(plain));
    let rows = TableSchema::builder("ks", "rows", Uuid::from_u128(4))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::Int)
        .build();
    keyspace.tables.insert("counters".into(), Arc::new(counters));
    keyspace.tables.insert("rows".into(), Arc::new(rows));
    let mut system = KeyspaceSchema::new("system", Replication::local());
    let batches = TableSchema::builder("system", "batches", Uuid::from_u128(3))
        .partition_key("id", CqlType::TimeUuid)
        .regular("mutations", CqlType::list(CqlType::Blob, true))
        .regular("version", CqlType::Int)
        .build();
    let paxos = TableSchema::builder("system", "paxos", Uuid::from_u128(5))
        .partition_key("row_key", CqlType::Blob)
        .clustering("cf_id", CqlType::Uuid, false)
        .regular("in_progress_ballot", CqlType::TimeUuid)
        .regular("most_recent_commit", CqlType::Blob)
        .regular("most_recent_commit_at", CqlType::TimeUuid)
        .regular("most_recent_commit_version", CqlType::Int)
        .regular("proposal", CqlType::Blob)
        .regular("proposal_ballot", CqlType::TimeUuid)
        .regular("proposal_version", CqlType::Int)
        .build();
    system.tables.insert("batches".into(), Arc::new(batches));
    system.tables.insert("paxos".into(), Arc::new(paxos));
    Schema::default().with_keyspace(keyspace).with_keyspace(system)
}

/// A ring whose nodes all hold everything.
struct Ring {
    schema: Arc<Schema>,
    nodes: Vec<Arc<Node>>,
    pending: Vec<Arc<Node>>,
    /// Whether other nodes coordinate requests.
    has_others: Arc<AtomicBool>,
}

impl Topology for Ring {
    fn batch_keepers(&self, _: &Random) -> Keepers {
        match self.nodes.split_first() {
            Some((_, others)) if !others.is_empty() => {
                Keepers::Others(others.iter().filter(|node| node.is_alive()).take(2).cloned().collect())
            }
            _ => Keepers::ThisNode,
        }
    }

    fn datacenters(&self) -> Vec<(Arc<str>, u32)> {
        Vec::new()
    }

    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }

    fn placement(&self, keyspace: &str, _: &DecoratedKey) -> Option<Arc<Placement>> {
        let strategy = Strategy::of(&self.schema.keyspace(keyspace)?.replication);
        let count = if strategy == Strategy::Local { 1 } else { self.nodes.len() };
        let nodes = self.nodes[..count].to_vec();
        let pending = if strategy == Strategy::Local { Vec::new() } else { self.pending.clone() };
        let placement = Placement::new(strategy, nodes, pending, "dc1".into());
        let has_others = self.has_others.load(Ordering::SeqCst);
        Some(Arc::new(if has_others { placement.with_other_coordinators() } else { placement }))
    }

    /// Keys together as far as they are in the order of the ring.
    fn split(&self, keyspace: &str, selection: &PartitionSelection) -> Option<Parts> {
        let PartitionSelection::Keys(keys) = selection else {
            return self.placement(keyspace, &key(0)).map(Parts::Whole);
        };
        let part = |keys: &[DecoratedKey]| {
            let selection = PartitionSelection::Keys(keys.to_vec());
            Some(Part { selection, placement: self.placement(keyspace, keys.first()?)? })
        };
        let ascending = keys.chunk_by(|before, key| before < key);
        ascending.map(part).collect::<Option<_>>().map(Parts::Several)
    }
}

struct Case {
    clock: Arc<ManualClock>,
    coordinator: Arc<Coordinator>,
    /// What each node holds; the first is the coordinator's own.
    replicas: Vec<Arc<Fake>>,
    nodes: Vec<Arc<Node>>,
    hints: Arc<Noted>,
    schema: Arc<Schema>,
    /// Whether other nodes coordinate requests.
    has_others: Arc<AtomicBool>,
}

fn case(factor: u32, replicas: usize) -> Case {
    Case::of(schema(factor), &vec!["dc1"; replicas], 0)
}

impl Case {
    /// Nodes in these data centers, the last few of which only take their part over.
    fn of(schema: Schema, datacenters: &[&str], pending: usize) -> Case {
        Case::beside(schema, datacenters, pending, datacenters.len() > 1)
    }

    /// The same; whether there are nodes besides that hold nothing.
    fn beside(schema: Schema, datacenters: &[&str], pending: usize, has_others: bool) -> Case {
        let schema = Arc::new(schema);
        let (clock, random) = (Arc::new(ManualClock::default()), Arc::new(Random::from_seed(1)));
        let env = env::Env::new(clock.clone(), random, Arc::new(MemoryFileSystem::new()));
        let replicas: Vec<Arc<Fake>> = datacenters.iter().map(|_| Arc::default()).collect();
        let own = |fake: &Arc<Fake>| {
            fake.schema.set(Arc::clone(&schema)).unwrap();
            let readers = Arc::new(Readers::new(env.clone(), 2, ReaderHooks::none()));
            LocalReplica::new(Arc::clone(fake) as Arc<dyn LocalStore>, readers)
        };
        let local = Arc::new(own(&replicas[0]));
        let node = |(at, fake): (usize, &Arc<Fake>)| {
            let replica: Arc<dyn Replica> = match at {
                0 => Arc::clone(&local) as Arc<dyn Replica>,
                _ => Arc::new(Remote(Arc::clone(fake), own(fake))),
            };
            Arc::new(Node::new(Uuid::from_u128(7 + at as u128), datacenters[at], "r1", replica))
        };
        let nodes: Vec<Arc<Node>> = replicas.iter().enumerate().map(node).collect();
        let (normal, pending) = nodes.split_at(nodes.len() - pending);
        let (normal, pending) = (normal.to_vec(), pending.to_vec());
        let has_others = Arc::new(AtomicBool::new(has_others));
        let (ring_schema, others) = (Arc::clone(&schema), Arc::clone(&has_others));
        let ring = Ring { schema: ring_schema, nodes: normal, pending, has_others: others };
        let (this, hints) = (Arc::clone(&nodes[0]), Arc::new(Noted::default()));
        let coordinator = Arc::new(Coordinator::new(
            env,
            Arc::new(ring),
            this,
            local,
            Arc::clone(&hints) as Arc<dyn Hints>,
        ));
        Case { clock, coordinator, replicas, nodes, hints, schema, has_others }
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

impl Case {
    fn table(&self, name: &str) -> Arc<TableSchema> {
        Arc::clone(self.schema.table("ks", name).unwrap())
    }

    fn put(&self, k: i32, v: i32, timestamp: i64) -> Mutation {
        let table = self.table("t");
        let mut row = Row::new(Clustering::empty());
        row.liveness = Liveness::new(timestamp);
        let column = table.column("v").unwrap().id;
        row.cells.push(Cell::live(column, timestamp, Bytes::copy_from_slice(&v.to_be_bytes())));
        let mut update = PartitionUpdate::new(table, key(k));
        update.rows.push(row);
        Mutation::of(update)
    }

    fn command(&self, table: &str, partitions: PartitionSelection) -> ReadCommand {
        let table = self.table(table);
        ReadCommand {
            columns: ColumnSelection::all(&table),
            table,
            partitions,
            clusterings: ClusteringFilter::all(),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: 1,
        }
    }

    /// A conditional write of partition 1.
    fn conditional(&self) -> CasRequest {
        CasRequest {
            key: key(1),
            reads: vec![self.command("t", PartitionSelection::Keys(vec![key(1)]))],
            consistency: Consistency::One,
            serial_consistency: Consistency::LocalSerial,
            context: ReadContext::default(),
            read_deadline: None,
            contention_deadline: None,
            write_deadline: None,
        }
    }

    fn read(&self, k: i32, consistency: Consistency) -> Result<Option<i32>, CoordinatorError> {
        let command = Arc::new(self.command("t", PartitionSelection::Keys(vec![key(k)])));
        let request = ReadRequest::all(command, consistency, ReadContext::default());
        run(self.coordinator.collect(&request, value, None, &mut ()))
    }

    fn kill(&self, count: usize) {
        self.nodes.iter().take(count).for_each(|node| node.set_alive(false));
    }
}

fn value(page: &mut Page) -> Result<Option<i32>, PullError> {
    let Some(row) = page.next_row()? else { return Ok(None) };
    let cell = row.row.and_then(|row| row.cells.first());
    Ok(cell.map(|cell| i32::from_be_bytes(cell.value.as_ref().try_into().unwrap())))
}

#[test]
fn a_level_that_the_ring_cannot_meet_is_unavailable_before_anything_is_written() {
    let case = case(3, 1);
    for (level, required) in [(Consistency::Quorum, 2), (Consistency::All, 3), (Consistency::Two, 2)] {
        let error =
            run(case.coordinator.write(vec![case.put(1, 1, 1)], level, WriteType::Simple, None)).unwrap_err();
        assert!(
            matches!(error, CoordinatorError::Unavailable { required: r, alive: 1, .. } if r == required),
            "{error:?}"
        );
        assert!(matches!(case.read(1, level), Err(CoordinatorError::Unavailable { .. })));
    }
    assert_eq!(case.read(1, Consistency::One).unwrap(), None);
    run(case.coordinator.write(vec![case.put(1, 5, 1)], Consistency::LocalOne, WriteType::Simple, None))
        .unwrap();
    assert_eq!(case.read(1, Consistency::One).unwrap(), Some(5));
}

#[test]
fn a_quorum_reads_what_a_quorum_wrote_whoever_is_dead() {
    for dead_at_read in 0..3 {
        let case = case(3, 3);
        case.kill(1);
        run(case.coordinator.write(vec![case.put(1, 9, 9)], Consistency::Quorum, WriteType::Simple, None))
            .unwrap();
        for (i, node) in case.nodes.iter().enumerate() {
            node.set_alive(i != dead_at_read);
        }
        assert_eq!(case.read(1, Consistency::Quorum).unwrap(), Some(9));
    }
}

#[test]
fn failures_of_live_replicas_are_counted() {
    let case = case(3, 3);
    case.replicas[0].broken.store(true, Ordering::SeqCst);
    run(case.coordinator.write(vec![case.put(1, 9, 9)], Consistency::Quorum, WriteType::Simple, None))
        .unwrap();
    assert_eq!(case.read(1, Consistency::Quorum).unwrap(), Some(9));
    case.replicas[1].broken.store(true, Ordering::SeqCst);
    let error =
        run(case.coordinator.write(vec![case.put(1, 9, 9)], Consistency::Quorum, WriteType::Simple, None))
            .unwrap_err();
    assert!(matches!(error, CoordinatorError::WriteFailure { block_for: 2, failures: 2, .. }), "{error:?}");
    let error = case.read(1, Consistency::Quorum).unwrap_err();
    assert!(
        matches!(error, CoordinatorError::ReadFailure { received: 1, block_for: 2, failures: 2, .. }),
        "{error:?}"
    );
}

#[test]
fn a_full_replica_is_overloaded_not_failed() {
    let case = case(1, 1);
    case.replicas[0].full.store(true, Ordering::SeqCst);
    let error =
        run(case.coordinator.write(vec![case.put(1, 1, 1)], Consistency::One, WriteType::Simple, None))
            .unwrap_err();
    assert!(matches!(error, CoordinatorError::Overloaded(_)), "{error:?}");
}

#[test]
fn counters_add_up_in_rows_and_in_statics() {
    let case = case(1, 1);
    let table = case.table("counters");
    let add = |difference: i64| {
        let value = Bytes::copy_from_slice(&difference.to_be_bytes());
        let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
        let mut row = Row::new(Clustering::from_values([&1i32.to_be_bytes()[..]]));
        row.cells.push(Cell::live(table.column("n").unwrap().id, 1, value.clone()));
        update.rows.push(row);
        let mut statics = Row::new(Clustering::empty());
        statics.cells.push(Cell::live(table.column("s").unwrap().id, 1, value));
        update.static_row = Some(statics);
        vec![Mutation::of(update)]
    };
    for difference in [5, -2, 10] {
        run(case.coordinator.write_counters(add(difference), Consistency::One, None, &mut ())).unwrap();
    }
    let rows = case.replicas[0].rows.lock().unwrap();
    let update = &rows[&(table.id, key(1))];
    assert_eq!(model::counter::total(&update.rows[0].cells[0].value), 13);
    assert_eq!(model::counter::total(&update.static_row.as_ref().unwrap().cells[0].value), 13);
    let shards = model::counter::shards(&update.rows[0].cells[0].value).unwrap();
    assert_eq!((shards.len(), shards[0].id), (1, Uuid::from_u128(7).into_bytes()));
}

#[test]
fn a_counter_is_told_to_others_when_this_node_has_kept_it() {
    let case = case(3, 3);
    let table = case.table("counters");
    let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
    let mut row = Row::new(Clustering::from_values([&1i32.to_be_bytes()[..]]));
    let one = Bytes::copy_from_slice(&1_i64.to_be_bytes());
    row.cells.push(Cell::live(table.column("n").unwrap().id, 1, one));
    update.rows.push(row);
    case.replicas[0].keeps_writes_waiting.store(true, Ordering::SeqCst);
    let counted = async {
        let add = vec![Mutation::of(update)];
        case.coordinator.write_counters(add, Consistency::Quorum, None, &mut ()).await
    };
    let mut counted = std::pin::pin!(counted);
    let is_done = counted.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(is_done.is_pending(), "two others are a quorum, and do not count without this node");
    let others = case.replicas[1..].iter().map(|other| other.mutations.lock().unwrap().len());
    assert_eq!(others.collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn a_serial_write_without_conditions_wants_a_quorum() {
    for (dead, is_written) in [(1, true), (2, false)] {
        let case = case(3, 3);
        case.kill(dead);
        let write =
            case.coordinator.write(vec![case.put(1, 1, 1)], Consistency::Serial, WriteType::Simple, None);
        assert_eq!(run(write).is_ok(), is_written, "{dead} of three are dead");
    }
}

#[test]
fn reads_refuse_any() {
    let case = case(1, 1);
    let read = case.read(1, Consistency::Any).unwrap_err();
    assert_eq!(read.to_string(), "ANY ConsistencyLevel is only supported for writes");
}

#[test]
fn concurrent_conditions_on_one_partition_take_effect_one_after_the_other() {
    let case = Arc::new(case(1, 1));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let increments: Vec<_> = (0..64)
        .map(|_| {
            let case = Arc::clone(&case);
            runtime.spawn(async move {
                let request = case.conditional();
                let put = |found: Vec<Option<i32>>, ballot: i64| {
                    let next = found[0].unwrap_or(0) + 1;
                    Ok::<_, CoordinatorError>(Some(vec![case.put(1, next, ballot)]))
                };
                case.coordinator.cas(request, value, put, &mut ()).await
            })
        })
        .collect();
    for increment in increments {
        runtime.block_on(increment).unwrap().unwrap();
    }
    assert_eq!(case.read(1, Consistency::One).unwrap(), Some(64));
}

#[test]
fn a_condition_comes_after_every_write_before_it_whatever_the_clock_says() {
    let case = case(1, 1);
    case.clock.set_micros(5_000);
    let before = case.coordinator.next_timestamp();
    case.clock.set_micros(1_000);
    let mut stamp = 0;
    let decide = |_, timestamp| {
        stamp = timestamp;
        Ok::<_, CoordinatorError>(None)
    };
    run(case.coordinator.cas(case.conditional(), value, decide, &mut ())).expect("a decision");
    assert!(stamp > before, "{stamp} after {before}");
}

#[test]
fn an_unmet_condition_writes_nothing() {
    let case = case(1, 1);
    let decide = |_, _| Ok::<_, CoordinatorError>(None);
    run(case.coordinator.cas(case.conditional(), value, decide, &mut ())).unwrap();
    assert!(case.replicas[0].rows.lock().unwrap().is_empty());
}

#[test]
fn pages_of_a_range_yield_every_row_once() {
    let case = case(1, 1);
    for k in 0..10 {
        run(case.coordinator.write(vec![case.put(k, k, 1)], Consistency::One, WriteType::Simple, None))
            .unwrap();
    }
    let command = Arc::new(case.command("t", PartitionSelection::Range(KeyRange::FULL)));
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let request = ReadRequest {
            command: Arc::clone(&command),
            consistency: Consistency::One,
            page: PageLimits { rows: 3, ..PageLimits::NONE },
            after: after.clone(),
            context: ReadContext::default(),
            scope: Scope::Ring,
        };
        let mut rows = case.coordinator.open_local(request).unwrap().unwrap();
        while let Some(v) = value(&mut rows).unwrap() {
            seen.push(v);
        }
        let Some(mark) = rows.mark() else { break };
        let Some(state) = PagingState::of(&command, &mark) else { break };
        let bytes = state.encode(PagingVersion::V4);
        after = Some(PagingState::decode(&bytes, PagingVersion::V4).unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
}

#[test]
fn the_rest_of_a_partition_is_part_of_the_scan_that_goes_on_in_it() {
    let case = case(1, 1);
    let range =
        KeyRange { end: KeyBound::Token { token: Token(i64::MAX), inclusive: true }, ..KeyRange::FULL };
    let row = |c: i32| Clustering::from_values([&c.to_be_bytes()[..]]);
    let asked = |partitions: PartitionSelection, clusterings: ClusteringFilter, row: Option<Clustering>| {
        let command = ReadCommand { clusterings, ..case.command("counters", partitions) };
        let (remaining, remaining_in_partition) = (u64::MAX, u64::MAX);
        let row = row.map(|row| RowMark::of(row, &command.table));
        let after = PagingState { key: key(1).key.0, row, remaining, remaining_in_partition };
        let request = ReadRequest {
            command: Arc::new(command),
            consistency: Consistency::One,
            page: PageLimits { rows: 3, ..PageLimits::NONE },
            after: Some(after),
            context: ReadContext::default(),
            scope: Scope::Ring,
        };
        let mut rows = case.coordinator.open_local(request).unwrap().unwrap();
        assert!(rows.next_row().unwrap().is_none());
        std::mem::take(&mut *case.replicas[0].asked.lock().unwrap())
    };
    let all = || PartitionSelection::Range(range.clone());
    let from =
        |inclusive| KeyRange { start: KeyBound::Key { key: key(1), inclusive }, end: range.end.clone() };
    let one = || Ok(vec![key(1)]);
    let behind = || (Err(from(false)), None);
    // A replica knows from it how much the page is a part of.
    assert_eq!(
        asked(all(), ClusteringFilter::all(), Some(row(5))),
        [(one(), Some(from(true))), behind()],
        "the mark's partition is a leg of its own, of the scan that began there"
    );
    assert_eq!(
        asked(all(), ClusteringFilter::all(), None),
        [behind()],
        "a range says by itself how long it is"
    );
    let some = ClusteringFilter::Names { names: vec![row(7)], reversed: false };
    assert_eq!(asked(all(), some, Some(row(5))), [(one(), None), behind()], "not all rows of the range");
    let keys = PartitionSelection::Keys(vec![key(1), key(2)]);
    let two = (Ok(vec![key(2)]), None);
    assert_eq!(asked(keys, ClusteringFilter::all(), Some(row(5))), [(one(), None), two], "no range at all");
}

#[test]
fn reconciliation_across_replicas_is_by_timestamp() {
    let case = case(2, 2);
    case.kill(1);
    run(case.coordinator.write(vec![case.put(1, 5, 10)], Consistency::One, WriteType::Simple, None)).unwrap();
    case.nodes[0].set_alive(true);
    case.nodes[1].set_alive(false);
    run(case.coordinator.write(vec![case.put(1, 4, 9)], Consistency::One, WriteType::Simple, None)).unwrap();
    case.nodes[1].set_alive(true);
    assert_eq!(case.read(1, Consistency::All).unwrap(), Some(5));
    let (old, new) = (case.put(1, 4, 9), case.put(1, 5, 10));
    let (mut a, b) = (old.updates[0].rows[0].clone(), &new.updates[0].rows[0]);
    reconcile::merge_row_into(&case.table("t"), &mut a, b);
    assert_eq!(a, *b);
}
