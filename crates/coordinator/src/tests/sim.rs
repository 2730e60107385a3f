//! Three replicas that lose, delay and refuse what they are sent, in an order that a seed draws.
//!
//! 1. A read at QUORUM sees every write that was acknowledged at QUORUM or ALL before it began.
//! 2. It sees what any read at QUORUM saw that had ended before it began: the replicas were repaired.
//! 3. Increments by condition that were acknowledged found different numbers, whichever coordinator led them,
//!    and a read at SERIAL sees all that were acknowledged before it began.
//!
//! `SIM_SEED=n` runs one seed.

use super::*;
use env::Env;
use env::fs::faulty::FaultyFileSystem;
use env::sim::Simulation;
use env::sync::Mutex;
use env::tasks::{TaskHandle, block_on};
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use tokio::sync::oneshot;

const SEEDS: u64 = 200;
const CLIENTS: usize = 3;
const OPERATIONS: usize = 12;
const KEYS: i32 = 2;
/// Until when somebody waits for an answer.
const PATIENCE: Duration = Duration::from_millis(20);

/// A replica behind a network that loses and delays.
#[derive(Clone, Debug)]
struct Lossy {
    fake: Arc<Fake>,
    /// The replica that it is to itself.
    own: Arc<LocalReplica>,
    env: Env,
    /// Whether nothing is lost any more.
    is_calm: Arc<AtomicBool>,
    /// What is on its way.
    messages: Arc<Mutex<Vec<TaskHandle>>>,
}

impl Lossy {
    /// Sends a message: it may be lost on its way, or its answer, and arrives when it likes.
    fn send<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Fake) -> Result<T, ReplicaError> + Send + 'static,
    ) -> Answer<T> {
        let (tell, told) = oneshot::channel();
        let Lossy { fake, env, .. } = self.clone();
        let fate = if self.is_calm.load(Ordering::SeqCst) { 50 } else { env.random.below(100) };
        let pause = {
            let env = env.clone();
            move || block_on(env.tasks.sleep(Duration::from_micros(env.random.below(4_000))))
        };
        let carry = move || {
            pause();
            let done = (fate >= 15)
                .then(|| if fate < 20 { Err(ReplicaError::Write("no".into())) } else { work(&fake) });
            pause();
            // Who asked may be gone.
            drop(done.filter(|_| fate < 90).map(|done| tell.send(done)));
        };
        self.messages.lock().push(self.env.tasks.spawn("message", carry).unwrap());
        let tasks = self.env.tasks.clone();
        Answer::later(async move {
            match tasks.timeout(PATIENCE, told).await {
                Ok(Ok(answer)) => answer,
                _ => Err(ReplicaError::TimedOut),
            }
        })
    }
}

impl Replica for Lossy {
    fn read_data(&self, request: &DataRequest) -> Answer<Recording> {
        let request = request.clone();
        self.send(move |fake| fake.record(&request))
    }

    fn read_digest(&self, request: &DataRequest) -> Answer<Digest> {
        let request = request.clone();
        self.send(move |fake| Ok(fake.record(&request)?.digest(&request.command)))
    }

    fn mutate(&self, mutation: Arc<Mutation>, _: Option<&Deadline>) -> Answer<()> {
        self.send(move |fake| block_on(fake.mutate(mutation, None)))
    }

    fn repair(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()> {
        self.mutate(mutation, deadline)
    }

    fn hint(&self, _: Hint, _: Option<&Deadline>) -> Answer<()> {
        unreachable!("hints are carried by who keeps them")
    }

    fn prepare(&self, request: Proposal, _: Option<&Deadline>) -> Answer<Promise> {
        let own = Arc::clone(&self.own);
        self.send(move |_| block_on(own.prepare(request, None)))
    }

    fn propose(&self, proposal: Proposal, _: Option<&Deadline>) -> Answer<bool> {
        let own = Arc::clone(&self.own);
        self.send(move |_| block_on(own.propose(proposal, None)))
    }

    fn commit(&self, decided: Proposal, _: Option<&Deadline>) -> Answer<()> {
        let own = Arc::clone(&self.own);
        self.send(move |_| block_on(own.commit(decided, None)))
    }

    fn truncate(&self, _: Arc<TableSchema>) -> Answer<()> {
        unreachable!("nothing is truncated here")
    }

    fn truncated_millis(&self, _: &TableSchema) -> Answer<Option<i64>> {
        Answer::ready(Ok(None))
    }
}

/// A ring of lossy replicas, and what has to be seen of it.
struct World {
    case: Case,
    env: Env,
    /// One for each client.
    coordinators: Vec<Arc<Coordinator>>,
    is_calm: Arc<AtomicBool>,
    /// The last timestamp.
    last: AtomicI64,
    /// What a read of each key has to see at least.
    seen: [AtomicI64; KEYS as usize],
    /// Operations that were answered.
    answered: AtomicI64,
    /// What was found by increments that were acknowledged.
    found: Mutex<Vec<i64>>,
    /// Increments that may have counted or not.
    in_doubt: AtomicI64,
}

impl World {
    fn new(env: Env, messages: &Arc<Mutex<Vec<TaskHandle>>>) -> World {
        let mut case = case(3, 3);
        let is_calm = Arc::new(AtomicBool::new(false));
        let own = |fake: &Arc<Fake>| {
            let readers = Arc::new(Readers::new(env.clone(), 2, ReaderHooks::none()));
            Arc::new(LocalReplica::new(Arc::clone(fake) as Arc<dyn LocalStore>, readers))
        };
        let node = |fake: &Arc<Fake>| {
            let replica = Lossy {
                fake: Arc::clone(fake),
                own: own(fake),
                env: env.clone(),
                is_calm: Arc::clone(&is_calm),
                messages: Arc::clone(messages),
            };
            Arc::new(Node::new(Uuid::from_u128(7), "dc1", "r1", Arc::new(replica)))
        };
        case.nodes = case.replicas.iter().map(node).collect();
        // Its states of conditional writes are read by other threads.
        case.replicas[1].cold.store(true, Ordering::SeqCst);
        let coordinator = |_| {
            let (schema, nodes) = (Arc::clone(&case.schema), case.nodes.clone());
            let has_others = Arc::new(AtomicBool::new(true));
            let ring = Arc::new(Ring { schema, nodes, pending: Vec::new(), has_others });
            let (this, local) = (Arc::clone(&case.nodes[0]), own(&case.replicas[0]));
            Arc::new(Coordinator::new(env.clone(), ring, this, local, Arc::new(NoHints)))
        };
        World {
            coordinators: (0..CLIENTS).map(coordinator).collect(),
            case,
            env,
            is_calm,
            last: AtomicI64::new(0),
            seen: Default::default(),
            answered: AtomicI64::new(0),
            found: Mutex::default(),
            in_doubt: AtomicI64::new(0),
        }
    }

    /// Raises a register by a condition, or reads it.
    fn decide(&self, client: usize) {
        if self.env.random.below(3) == 0 {
            self.read_register(client).ok();
            return;
        }
        let nanos: Arc<dyn Fn() -> u64 + Send + Sync> = {
            let clock = Arc::clone(&self.env.clock);
            Arc::new(move || clock.monotonic_nanos())
        };
        let until = Deadline::new(&nanos, nanos() + 2_000_000_000);
        let request = CasRequest {
            consistency: Consistency::Quorum,
            serial_consistency: Consistency::Serial,
            contention_deadline: Some(until),
            ..self.case.conditional()
        };
        let mut found = 0;
        let decide = |rows: Vec<Option<i32>>, ballot: i64| {
            found = rows[0].unwrap_or(0);
            Ok::<_, CoordinatorError>(Some(vec![self.case.put(1, found + 1, ballot)]))
        };
        match block_on(self.coordinators[client].cas(request, value, decide, &mut ())) {
            Ok(()) => {
                self.found.lock().push(found.into());
                self.seen[1].fetch_max(i64::from(found) + 1, Ordering::SeqCst);
            }
            Err(_) => drop(self.in_doubt.fetch_add(1, Ordering::SeqCst)),
        }
    }

    fn read_register(&self, client: usize) -> Result<i64, CoordinatorError> {
        let command = Arc::new(self.case.command("t", PartitionSelection::Keys(vec![key(1)])));
        let request = ReadRequest::all(command, Consistency::Serial, ReadContext::default());
        let expected = self.seen[1].load(Ordering::SeqCst);
        let found = block_on(self.coordinators[client].collect(&request, value, None, &mut ()))?;
        let found = i64::from(found.unwrap_or(0));
        assert!(found >= expected, "{found} after {expected}");
        self.seen[1].fetch_max(found, Ordering::SeqCst);
        Ok(found)
    }

    /// What the increments come to.
    fn count_increments(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
        let last = self.read_register(0).expect("nothing is lost any more");
        let mut found = self.found.lock().clone();
        let (counted, in_doubt) = (found.len() as i64, self.in_doubt.load(Ordering::SeqCst));
        assert!((counted..=counted + in_doubt).contains(&last), "{last} of {counted}, {in_doubt} in doubt");
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len() as i64, counted, "two increments of the same number");
        self.answered.fetch_add(counted, Ordering::SeqCst);
    }

    /// Writes or reads at a quorum.
    fn operate(&self, client: usize) {
        let k = self.env.random.below(KEYS as u64) as i32;
        let seen = &self.seen[k as usize];
        let quorum = if self.env.random.below(4) == 0 { Consistency::All } else { Consistency::Quorum };
        match self.env.random.below(5) {
            0 => {
                let level = if self.env.random.below(2) == 0 { Consistency::One } else { quorum };
                let timestamp = 1 + self.last.fetch_add(1, Ordering::SeqCst);
                let put = vec![self.case.put(k, timestamp as i32, timestamp)];
                let written = block_on(self.coordinators[client].write(put, level, WriteType::Simple, None));
                if written.is_ok() && level != Consistency::One {
                    seen.fetch_max(timestamp, Ordering::SeqCst);
                }
            }
            what => {
                let selection = match what {
                    1 => PartitionSelection::Range(KeyRange {
                        start: KeyBound::Key { key: key(k), inclusive: true },
                        end: KeyBound::Key { key: key(k), inclusive: true },
                    }),
                    _ => PartitionSelection::Keys(vec![key(k)]),
                };
                let command = Arc::new(self.case.command("t", selection));
                let request = ReadRequest::all(command, quorum, ReadContext::default());
                let expected = seen.load(Ordering::SeqCst);
                let read = block_on(self.coordinators[client].collect(&request, value, None, &mut ()));
                if let Ok(found) = read {
                    let found = i64::from(found.unwrap_or(0));
                    assert!(found >= expected, "{found} of {k} after {expected}");
                    seen.fetch_max(found, Ordering::SeqCst);
                    self.answered.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }
}

/// What clients do in a life.
#[derive(Clone, Copy)]
enum Life {
    Quorums,
    Conditions,
}

/// Lives one life; how many operations were answered, and a number that stands for all turns.
fn live(life: Life, seed: u64) -> (i64, u64) {
    Simulation::run(seed, |simulation| {
        let disk = MemoryFileSystem::with_clock(simulation.clock().clone());
        let env = simulation.env(&FaultyFileSystem::new(Arc::new(disk)));
        let messages = Arc::new(Mutex::new(Vec::new()));
        let world = Arc::new(World::new(env.clone(), &messages));
        let client = |client| {
            let world = Arc::clone(&world);
            let work = move || match life {
                Life::Quorums => (0..OPERATIONS).for_each(|_| world.operate(client)),
                Life::Conditions => (0..OPERATIONS / 3).for_each(|_| world.decide(client)),
            };
            env.tasks.spawn("client", work).unwrap()
        };
        let clients: Vec<TaskHandle> = (0..CLIENTS).map(client).collect();
        clients.into_iter().for_each(TaskHandle::join);
        if let Life::Conditions = life {
            world.count_increments();
        }
        loop {
            let left = std::mem::take(&mut *messages.lock());
            if left.is_empty() {
                break;
            }
            left.into_iter().for_each(TaskHandle::join);
        }
        (world.answered.load(Ordering::SeqCst), simulation.fingerprint())
    })
}

/// Half of the seeds; operations that were answered.
fn every_second(life: Life, first: u64) -> i64 {
    if let Ok(seed) = std::env::var("SIM_SEED") {
        live(life, seed.parse().expect("a number"));
        return i64::MAX;
    }
    let named = |seed| {
        let outcome = std::panic::catch_unwind(|| live(life, seed));
        outcome.unwrap_or_else(|_| panic!("SIM_SEED={seed} cargo test -p coordinator sim")).0
    };
    (first..SEEDS).step_by(2).map(named).sum()
}

#[test]
fn what_a_quorum_has_acknowledged_or_read_is_read_from_then_on() {
    let answered = every_second(Life::Quorums, 0);
    assert!(answered > SEEDS as i64 / 2 * (CLIENTS * OPERATIONS) as i64 / 3, "{answered} reads");
}

#[test]
fn it_is_so_with_the_other_half_of_the_seeds() {
    every_second(Life::Quorums, 1);
}

#[test]
fn conditions_are_decided_one_after_the_other_by_whichever_coordinator() {
    let counted = every_second(Life::Conditions, 0);
    assert!(counted > SEEDS as i64 / 2, "{counted} increments");
}

#[test]
fn they_are_with_the_other_half_of_the_seeds() {
    every_second(Life::Conditions, 1);
}

#[test]
fn the_same_seed_gives_the_same_turns() {
    for seed in 0..5 {
        for life in [Life::Quorums, Life::Conditions] {
            assert_eq!(live(life, seed), live(life, seed), "seed {seed}");
        }
    }
}
