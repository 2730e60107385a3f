//! Nodes that come back.

use super::*;
use crate::hints::format::{encode_header, encode_header_with};
use env::sim::Simulation;

const SECOND: Duration = Duration::from_secs(1);

/// A node with hints for others, in a simulation.
struct Case {
    env: Env,
    files: FaultyFileSystem,
    store: Arc<HintStore>,
    dispatcher: Arc<Dispatcher>,
    nodes: Vec<(Arc<Node>, Arc<Peer>)>,
}

fn nodes(count: u128, env: &Env) -> Vec<(Arc<Node>, Arc<Peer>)> {
    (1..=count).map(|id| dead_node(id, env)).collect()
}

fn members_of(nodes: &[(Arc<Node>, Arc<Peer>)]) -> Arc<Members> {
    let member = |(node, _): &(Arc<Node>, Arc<Peer>)| Member {
        endpoint: Endpoint::new([127, 0, 0, node.id.as_bytes()[15]].into(), 7000),
        node: Arc::clone(node),
        tokens: Vec::new(),
        phase: Phase::Normal,
        generation: 1,
    };
    Arc::new(Members::new(nodes.iter().map(member).collect()))
}

impl Case {
    fn new(simulation: &Simulation, files: FaultyFileSystem, count: u128) -> Case {
        let nodes = nodes(count, &simulation.env(&files));
        Case::of(simulation, files, nodes)
    }

    fn of(simulation: &Simulation, files: FaultyFileSystem, nodes: Vec<(Arc<Node>, Arc<Peer>)>) -> Case {
        let env = simulation.env(&files);
        let tasks = env.tasks.clone();
        let spawn: Spawn =
            Arc::new(move |future| drop(tasks.spawn("task", move || block_on(future)).unwrap()));
        let options = HintsOptions { buffer_bytes_max: 64 << 10, ..HintsOptions::new(Path::new(DIR)) };
        let store =
            HintStore::open(env.clone(), options, HintsSettings::default(), schema, Arc::clone(&spawn))
                .unwrap();
        let members = members_of(&nodes);
        let dispatcher = Dispatcher::new(Arc::clone(&store), move || Arc::clone(&members), spawn);
        dispatcher.start().unwrap();
        Case { env, files, store, dispatcher, nodes }
    }

    fn wait(&self, duration: Duration) {
        block_on(self.env.tasks.sleep(duration));
    }

    fn miss(&self, at: usize, values: std::ops::Range<i32>) {
        values.for_each(|v| _ = self.store.missed(&self.nodes[at].0, &write(v)));
    }

    fn bring_back(&self, at: usize) {
        self.nodes[at].0.set_alive(true);
        self.dispatcher.is_back(&self.nodes[at].0);
    }

    fn got(&self, at: usize) -> Vec<i32> {
        self.nodes[at].1.got()
    }

    fn names(&self) -> Vec<String> {
        let entries = self.env.fs.read_dir(Path::new(DIR)).unwrap();
        entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
    }
}

fn memory() -> FaultyFileSystem {
    FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()))
}

/// Runs a test in the worlds of some seeds.
fn with(count: u128, test: impl Fn(&Case)) {
    for seed in 0..10 {
        Simulation::run(seed, |simulation| {
            let case = Case::new(simulation, memory(), count);
            test(&case);
            // What waits for a silent node ends.
            case.dispatcher.stop().unwrap();
            case.wait(SECOND * 10);
        });
    }
}

#[test]
fn a_node_that_comes_back_gets_everything_in_order_and_once() {
    with(1, |case| {
        case.store.change(|settings| settings.file_bytes_max = 2000);
        case.miss(0, 0..150);
        case.wait(SECOND * 11);
        case.miss(0, 150..200);
        assert!(case.got(0).is_empty());
        case.bring_back(0);
        case.wait(SECOND * 2);
        assert_eq!(case.got(0), (0..200).collect::<Vec<_>>());
        assert_eq!(case.store.counts().dispatched, 200);
        assert!(case.names().is_empty() && case.dispatcher.pending().is_empty());
    });
}

#[test]
fn hints_for_a_node_that_is_alive_are_sent_behind_the_next_period() {
    with(1, |case| {
        case.nodes[0].0.set_alive(true);
        case.store.failed(&case.nodes[0].0, &write(1), &ReplicaError::TimedOut);
        case.wait(SECOND * 21);
        assert_eq!(case.got(0), [1]);
    });
}

#[test]
fn a_late_answer_that_is_good_leaves_no_hint() {
    with(1, |case| {
        let (node, tasks) = (&case.nodes[0].0, case.env.tasks.clone());
        let after = |millis, outcome: Result<(), ReplicaError>| {
            let tasks = tasks.clone();
            Answer::later(async move {
                tasks.sleep(Duration::from_millis(millis)).await;
                outcome
            })
        };
        case.store.late(node, &write(1), after(100, Ok(())));
        case.store.late(node, &write(2), after(100, Err(ReplicaError::TimedOut)));
        case.store.late(node, &write(3), after(60_000, Ok(())));
        case.store.late(node, &write(4), after(100, Err(ReplicaError::TooLarge("large".into()))));
        case.wait(SECOND * 3);
        assert_eq!(case.store.counts().created, 2);
        case.bring_back(0);
        case.wait(SECOND);
        assert_eq!(case.got(0), [2, 3]);
    });
}

#[test]
fn so_many_late_answers_are_waited_for_and_others_are_hints_at_once() {
    Simulation::run(1, |simulation| {
        let env = simulation.env(&memory());
        let spawn: Spawn = Arc::new(drop);
        let options = HintsOptions { late_max: 2, ..HintsOptions::new(Path::new(DIR)) };
        let store = HintStore::open(env.clone(), options, HintsSettings::default(), schema, spawn).unwrap();
        let (node, _) = dead_node(1, &env);
        (0..5).for_each(|v| store.late(&node, &write(v), Answer::later(std::future::pending())));
        assert_eq!(store.counts().created, 3);
    });
}

#[test]
fn one_task_looks_after_all_late_answers_while_there_are_some() {
    Simulation::run(1, |simulation| {
        let env = simulation.env(&memory());
        let (tasks, begun) = (env.tasks.clone(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&begun);
        let spawn: Spawn = Arc::new(move |future| {
            count.fetch_add(1, Ordering::SeqCst);
            drop(tasks.spawn("task", move || block_on(future)).unwrap());
        });
        let options = HintsOptions::new(Path::new(DIR));
        let store = HintStore::open(env.clone(), options, HintsSettings::default(), schema, spawn).unwrap();
        let (node, _) = dead_node(1, &env);
        for round in 1..=2 {
            // What is there already needs nobody.
            store.late(&node, &write(0), Answer::later(std::future::ready(Ok(()))));
            for v in 0..1000 {
                let tasks = env.tasks.clone();
                store.late(
                    &node,
                    &write(v),
                    Answer::later(async move {
                        tasks.sleep(Duration::from_millis(v as u64 % 200 + 1)).await;
                        Ok(())
                    }),
                );
            }
            assert_eq!(begun.load(Ordering::SeqCst), round);
            block_on(env.tasks.sleep(SECOND));
        }
        assert_eq!(store.counts().created, 0);
    });
}

#[test]
fn what_was_not_acknowledged_at_the_end_is_kept() {
    Simulation::run(1, |simulation| {
        let env = simulation.env(&memory());
        let tasks = env.tasks.clone();
        let spawn: Spawn =
            Arc::new(move |future| drop(tasks.spawn("task", move || block_on(future)).unwrap()));
        let open = || {
            let options = HintsOptions::new(Path::new(DIR));
            let spawn = Arc::clone(&spawn);
            HintStore::open(env.clone(), options, HintsSettings::default(), schema, spawn).unwrap()
        };
        let (store, (node, _)) = (open(), dead_node(1, &env));
        let in_use = Arc::strong_count(&node);
        store.late(&node, &write(1), Answer::later(std::future::pending()));
        store.late(&node, &write(2), Answer::later(std::future::ready(Ok(()))));
        block_on(env.tasks.sleep(Duration::from_millis(100)));
        assert_eq!(store.counts().created, 0, "an answer may still come");
        store.shut().unwrap();
        assert_eq!((store.counts().created, Arc::strong_count(&node)), (1, in_use));
        store.late(&node, &write(3), Answer::later(std::future::pending()));
        assert_eq!(Arc::strong_count(&node), in_use, "nobody looks after it");
        drop(store);
        assert!(open().next_page(node.id).is_some());
    });
}

#[test]
fn a_node_that_says_nothing_is_asked_again_and_gets_everything() {
    with(1, |case| {
        case.nodes[0].1.set(Mode::Silent);
        case.miss(0, 0..300);
        case.bring_back(0);
        case.wait(SECOND * 25);
        assert!(case.got(0).is_empty() && case.store.counts().timed_out > 0);
        case.nodes[0].1.set(Mode::Keeps(Duration::from_millis(1)));
        case.wait(SECOND * 12);
        assert_eq!(case.got(0), (0..300).collect::<Vec<_>>());
    });
}

#[test]
fn a_delivery_goes_on_where_it_stopped() {
    with(1, |case| {
        case.nodes[0].1.set(Mode::FailsAt(250, ReplicaError::TimedOut));
        case.miss(0, 0..300);
        case.bring_back(0);
        case.wait(SECOND * 5);
        let first = case.got(0).len();
        assert_eq!(case.store.counts().dispatched, 250, "up to the one that was not acknowledged");
        case.nodes[0].1.set(Mode::Keeps(Duration::from_millis(1)));
        case.wait(SECOND * 12);
        assert_eq!(case.got(0)[first..], (250..300).collect::<Vec<_>>()[..]);
        assert!(case.names().is_empty());
    });
}

#[test]
fn a_hint_that_can_never_be_sent_holds_nothing_up() {
    with(1, |case| {
        case.nodes[0].1.set(Mode::FailsAt(3, ReplicaError::TooLarge("large".into())));
        case.miss(0, 0..6);
        case.bring_back(0);
        case.wait(SECOND);
        assert_eq!(case.got(0), [0, 1, 2, 4, 5]);
        assert_eq!((case.store.counts().failed, case.names().len()), (1, 0));
    });
}

#[test]
fn a_node_that_fails_keeps_its_hints() {
    with(1, |case| {
        case.nodes[0].1.set(Mode::Fails(ReplicaError::Overloaded("full".into())));
        case.miss(0, 0..6);
        case.bring_back(0);
        case.wait(SECOND * 5);
        assert_eq!((case.got(0).len(), case.dispatcher.pending()[0].files), (0, 1));
    });
}

#[test]
fn a_node_that_is_down_again_is_sent_no_more() {
    with(1, |case| {
        case.nodes[0].1.set(Mode::Keeps(Duration::from_millis(100)));
        case.miss(0, 0..600);
        case.bring_back(0);
        case.wait(Duration::from_millis(50));
        case.nodes[0].0.set_alive(false);
        case.wait(SECOND);
        let sent = case.got(0).len();
        assert!(sent <= IN_FLIGHT_MAX, "{sent}");
        case.wait(SECOND * 15);
        assert_eq!(case.got(0).len(), sent);
        case.bring_back(0);
        case.wait(SECOND * 5);
        let mut got = case.got(0);
        got.sort_unstable();
        got.dedup();
        assert_eq!(got, (0..600).collect::<Vec<_>>());
    });
}

#[test]
fn so_many_hints_are_in_flight_at_most() {
    with(1, |case| {
        case.nodes[0].1.set(Mode::Keeps(SECOND));
        case.miss(0, 0..400);
        case.bring_back(0);
        case.wait(SECOND * 6);
        assert_eq!(case.got(0), (0..400).collect::<Vec<_>>());
        assert_eq!(case.nodes[0].1.open_max.load(Ordering::SeqCst), IN_FLIGHT_MAX);
    });
}

#[test]
fn so_many_nodes_are_sent_hints_at_the_same_time() {
    with(4, |case| {
        case.store.change(|settings| settings.throttle_bytes = 4 << 10);
        for at in 0..4 {
            case.miss(at, 0..100);
        }
        (0..4).for_each(|at| case.bring_back(at));
        case.wait(SECOND / 2);
        let started = (0..4).filter(|at| !case.got(*at).is_empty()).count();
        assert_eq!(started, 2, "max_hints_delivery_threads");
        case.wait(SECOND * 60);
        for at in 0..4 {
            assert_eq!(case.got(at), (0..100).collect::<Vec<_>>());
        }
    });
}

#[test]
fn the_throttle_is_shared_by_the_other_nodes() {
    for (count, seconds) in [(1, 10), (2, 20)] {
        with(count, |case| {
            let bytes = entry_of(1, VERSION_40).len() as u64 - 12;
            case.store.change(move |settings| settings.throttle_bytes = 10 * bytes);
            case.miss(0, 0..100);
            case.bring_back(0);
            case.wait(SECOND * seconds / 2);
            let half = case.got(0).len();
            assert!((45..=55).contains(&half), "{half}");
            case.wait(SECOND * (seconds / 2 + 1));
            assert_eq!(case.got(0).len(), 100);
        });
    }
}

#[test]
fn a_delivery_that_waits_for_the_throttle_ends_with_the_node() {
    with(1, |case| {
        case.store.change(|settings| settings.throttle_bytes = 1);
        case.miss(0, 0..100);
        case.bring_back(0);
        case.wait(SECOND * 5);
        case.nodes[0].0.set_alive(false);
        case.wait(SECOND * 2);
        let sent = case.got(0).len();
        assert_eq!(case.store.counts().dispatched, sent as u64);
        case.store.change(|settings| settings.throttle_bytes = 0);
        case.bring_back(0);
        case.wait(SECOND);
        assert_eq!(case.got(0), (0..100).collect::<Vec<_>>());
    });
}

#[test]
fn a_full_disk_is_tried_once_a_period() {
    with(1, |case| {
        let fault = case.files.add(Fault::on(Op::Create).path("hints/").no_space());
        let half = case.store.options.buffer_bytes_max / entry_of(1, VERSION_40).len();
        case.miss(0, 0..half as i32);
        case.wait(SECOND * 29);
        assert!((3..=4).contains(&case.files.struck(fault)), "{}", case.files.struck(fault));
        case.miss(0, 0..half as i32);
        assert_eq!(case.store.counts().not_stored, half as u64, "memory is full");
        case.files.remove(fault);
        case.wait(SECOND * 10);
        case.bring_back(0);
        case.wait(SECOND * 2);
        assert_eq!(case.got(0).len(), half);
    });
}

#[test]
fn nothing_is_sent_during_a_pause() {
    with(1, |case| {
        case.dispatcher.pause();
        case.miss(0, 0..10);
        case.bring_back(0);
        case.wait(SECOND * 25);
        assert!(case.got(0).is_empty() && case.dispatcher.is_paused());
        case.dispatcher.resume();
        case.wait(SECOND);
        assert_eq!(case.got(0).len(), 10);
    });
}

#[test]
fn expired_hints_are_left_out() {
    with(1, |case| {
        let brief = |v| case.store.missed(&case.nodes[0].0, &write_to("ks", "brief", v));
        brief(1);
        case.miss(0, 2..3);
        case.wait(SECOND * 61);
        brief(3);
        case.bring_back(0);
        case.wait(SECOND);
        assert_eq!((case.got(0), case.store.counts().expired), (vec![2, 3], 1));
        assert!(case.names().is_empty());
    });
}

#[test]
fn hints_of_a_node_that_was_removed_are_dropped_and_others_wait_for_theirs() {
    with(2, |case| {
        case.miss(0, 0..5);
        case.miss(1, 0..5);
        case.wait(SECOND * 11);
        case.dispatcher.excise(host(1));
        case.wait(SECOND);
        let pending = case.dispatcher.pending();
        assert_eq!(pending.iter().map(|host| host.host_id).collect::<Vec<_>>(), [host(2)]);
        assert_eq!(case.names().len(), 1);
        case.dispatcher.truncate(None);
        assert!(case.dispatcher.pending().is_empty() && case.names().is_empty());
    });
}

#[test]
fn what_is_pending_is_listed_with_its_node() {
    with(1, |case| {
        case.store.change(|settings| settings.file_bytes_max = 500);
        case.miss(0, 0..20);
        case.wait(SECOND * 11);
        case.miss(0, 0..1);
        let [pending] = &case.dispatcher.pending()[..] else { panic!("one node") };
        let node = pending.node.as_ref().unwrap();
        assert_eq!((pending.host_id, &*node.rack, &*node.datacenter), (host(1), "r1", "dc1"));
        assert_eq!((node.endpoint.to_string().as_str(), node.is_alive), ("127.0.0.1:7000", false));
        assert_eq!(pending.files, case.names().iter().filter(|name| name.ends_with(".hints")).count());
        assert!(pending.bytes > 1000 && pending.buffered_bytes > 50 && pending.left_alone == 0);
        assert!(pending.oldest_millis < pending.newest_millis);
    });
}

/// Puts a file of Cassandra's into the directory.
fn put(files: &FaultyFileSystem, created_millis: i64, bytes: &dyn Fn(&FileId) -> Vec<u8>) -> PathBuf {
    let id = FileId { host_id: host(1), created_millis, version: VERSION_40 };
    files.create_dir_all(Path::new(DIR)).unwrap();
    let path = Path::new(DIR).join(id.to_string());
    files.write(&path, &bytes(&id)).unwrap();
    path
}

fn entries(values: std::ops::Range<i32>) -> Vec<u8> {
    values.flat_map(|v| entry_of(v, VERSION_40)).collect()
}

#[test]
fn files_that_are_found_at_a_start_are_sent_oldest_first() {
    for seed in 0..10 {
        Simulation::run(seed, |simulation| {
            let files = memory();
            put(&files, 2000, &|id| [encode_header(id), entries(5..9)].concat());
            put(&files, 1000, &|id| [encode_header(id), entries(0..5), vec![0, 0, 0]].concat());
            let case = Case::new(simulation, files, 1);
            case.wait(SECOND);
            case.nodes[0].0.set_alive(true);
            case.wait(SECOND * 11);
            assert_eq!(case.got(0), (0..9).collect::<Vec<_>>());
            assert!(case.names().is_empty());
            case.dispatcher.stop().unwrap();
        });
    }
}

#[test]
fn damage_costs_what_is_damaged_and_the_rest_is_sent() {
    Simulation::run(1, |simulation| {
        let (files, entry_bytes) = (memory(), entry_of(1, VERSION_40).len());
        let damaged = |id: &FileId, at: usize| {
            let (header, mut entries) = (encode_header(id), entries(0..5));
            entries[2 * entry_bytes + at] ^= 1;
            [header, entries].concat()
        };
        put(&files, 1000, &|id| damaged(id, 20));
        let lost = put(&files, 2000, &|id| damaged(id, 1));
        let refused = put(&files, 3000, &|id| encode_header_with(id, "{\"encryption\":{}}"));
        put(&files, 4000, &|id| [encode_header(id), entries(7..9)].concat());
        let case = Case::new(simulation, files, 1);
        case.bring_back(0);
        case.wait(SECOND);
        assert_eq!(case.got(0), [0, 1, 3, 4, 0, 1, 7, 8]);
        assert_eq!(case.store.counts().unreadable, 1);
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        let aside = name(&lost).replace(".hints", ".corrupt.hints");
        assert_eq!(case.names(), [aside, name(&refused)]);
        case.dispatcher.stop().unwrap();
    });
}

#[test]
fn a_file_that_the_disk_does_not_give_is_left_alone() {
    Simulation::run(1, |simulation| {
        let files = memory();
        let path = put(&files, 1000, &|id| [encode_header(id), entries(0..5)].concat());
        put(&files, 2000, &|id| [encode_header(id), entries(5..9)].concat());
        let case = Case::new(simulation, files, 1);
        let fault = case.files.add(Fault::on(Op::Read).path("-1000-"));
        case.bring_back(0);
        case.wait(SECOND);
        assert_eq!(case.got(0), (5..9).collect::<Vec<_>>());
        assert!(case.env.fs.exists(&path).unwrap());
        assert_eq!(case.dispatcher.pending()[0].left_alone, 1);
        case.files.remove(fault);
        case.dispatcher.stop().unwrap();
    });
}

#[test]
fn a_stop_writes_what_is_in_memory_and_closes_the_files() {
    with(1, |case| {
        case.miss(0, 0..5);
        case.dispatcher.stop().unwrap();
        let suffixes: Vec<bool> = case.names().iter().map(|name| name.ends_with(".hints")).collect();
        assert_eq!(suffixes, [false, true], "with its checksum");
    });
}

#[test]
fn half_of_the_memory_is_written_without_waiting_for_the_period() {
    with(1, |case| {
        let half = case.store.options.buffer_bytes_max / 2 / entry_of(1, VERSION_40).len();
        let mutation = write(1);
        (0..half).for_each(|_| _ = case.store.missed(&case.nodes[0].0, &mutation));
        case.wait(SECOND / 10);
        assert!(case.names().is_empty());
        case.store.missed(&case.nodes[0].0, &mutation);
        case.wait(SECOND / 10);
        assert_eq!(case.names().len(), 1);
    });
}

#[test]
fn whatever_happens_each_node_gets_what_was_kept_for_it() {
    for seed in 0..40 {
        Simulation::run(seed, |simulation| {
            let (files, random) = (memory(), Random::from_seed(seed));
            let (mut case, mut kept) = (Case::new(simulation, files.clone(), 2), [Vec::new(), Vec::new()]);
            for v in 0..200 {
                let (at, node) = (v as usize % 2, &case.nodes[v as usize % 2]);
                let before = case.store.counts().created;
                match random.below(12) {
                    0 => node.0.set_alive(false),
                    1 => case.bring_back(at),
                    2 => node.1.set(Mode::Silent),
                    3 => node.1.set(Mode::Fails(ReplicaError::Overloaded("full".into()))),
                    4 => node.1.set(Mode::Keeps(Duration::from_millis(random.below(500)))),
                    5 => case.dispatcher.pause(),
                    6 => case.dispatcher.resume(),
                    7 => case.wait(Duration::from_millis(random.below(15_000))),
                    8 if random.below(4) == 0 => {
                        case.dispatcher.stop().unwrap();
                        let peers = case.nodes;
                        case = Case::of(simulation, files.clone(), peers);
                    }
                    _ => _ = case.store.failed(&node.0, &write(v), &ReplicaError::TimedOut),
                }
                if case.store.counts().created > before {
                    kept[at].push(v);
                }
            }
            case.dispatcher.resume();
            for at in 0..2 {
                case.nodes[at].1.set(Mode::Keeps(Duration::from_millis(1)));
                case.bring_back(at);
            }
            case.wait(SECOND * 40);
            for (at, kept) in kept.iter().enumerate() {
                let mut got = case.got(at);
                got.sort_unstable();
                got.dedup();
                assert_eq!(got, *kept, "seed {seed}");
            }
            assert!(case.names().is_empty(), "{:?}", case.names());
            case.dispatcher.stop().unwrap();
        });
    }
}
