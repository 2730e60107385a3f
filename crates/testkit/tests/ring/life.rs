//! A life of a ring: what its clients do, and what happens to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::random::Random;
use env::sim::Simulation;
use env::tasks::TaskHandle;
use testkit::sim::ring::Ring;

use super::client::{Habits, KINDS, ROWS, Shared};
use super::faults::Happened;
use super::history::{History, Last};
use super::levels::Layout;
use super::tables::{Register, Tables};

const CLIENTS: usize = 3;
/// How long a message may be on its way: nobody carries out a write that is later than its timeout.
const ECHO_MICROS_MAX: i64 = 2_500_000;
/// The same where nothing fails.
const FAIR_ECHO_MICROS_MAX: i64 = 10_000;
/// Until batches that were left behind are completed.
const BATCHES_COMPLETED: Duration = Duration::from_secs(30);

/// What may happen in a life.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The data centers of the ring, and their nodes.
    pub layout: Layout,
    /// Operations of each client.
    pub operations: usize,
    /// Whether anything fails.
    pub has_faults: bool,
    /// Whether nodes lose their power or are restarted. Where they do not, hints bring everything that was
    /// written to all replicas.
    pub has_restarts: bool,
}

/// What a life leaves.
pub struct Left {
    pub history: History,
    pub last: Last,
    /// Of its turns.
    pub fingerprint: u64,
    pub turns: u64,
    /// Faults that happened, for people to read.
    pub faults: Vec<String>,
}

/// Lives one life, and holds it to what is promised.
pub fn live(seed: u64, plan: Plan) -> Left {
    Simulation::run(seed, |simulation| {
        let random = Random::from_seed(seed.wrapping_mul(31).wrapping_add(7));
        let layout = plan.layout;
        let name_of = |node| layout.datacenters[layout.datacenter_of(node)].name.to_owned();
        let mut ring = Ring::new(simulation, seed, layout.nodes(), name_of, Ring::small_options(seed));
        for number in ring.numbers() {
            ring.start(number).unwrap_or_else(|error| panic!("node {number} does not start: {error}"));
        }
        ring.settle();
        let tables = Tables::new(&random, !plan.has_faults);
        let first = ring.nodes().get(1).expect("the first node");
        let schema = first.engine.schema().with_keyspace(tables.keyspace(layout.replication()));
        first.engine.install_schema(schema).expect("a schema");
        drop(first);
        ring.settle();

        let shared = Shared {
            tables,
            layout: layout.clone(),
            nodes: ring.nodes().clone(),
            numbers: ring.numbers(),
            tasks: ring.tasks(),
            operations: Arc::default(),
            moments: Arc::default(),
            clock: Arc::clone(simulation.clock()),
            values: Arc::default(),
            clients_left: Arc::new(AtomicU64::new(CLIENTS as u64)),
            habits: Habits {
                idle_millis_max: [30, 300, 1_000][random.below(3) as usize],
                favourite: random.below(KINDS - 1),
            },
        };
        let clients: Vec<TaskHandle> = (0..CLIENTS)
            .map(|client| {
                let (shared, random) = (shared.clone(), Random::from_seed(random.u64()));
                let work = move || shared.be_client(client, plan.operations, &random);
                ring.tasks().spawn(format!("client {client}"), work).expect("a task")
            })
            .collect();
        let mut happened = Happened::default();
        while shared.clients_left.load(Ordering::SeqCst) > 0 {
            ring.wait(Duration::from_millis(200 + random.below(4_000)));
            happened.next(&mut ring, &layout, &random, plan.has_faults, plan.has_restarts);
        }
        clients.into_iter().for_each(TaskHandle::join);
        for number in ring.numbers() {
            ring.skew(number, 0);
        }
        ring.settle();
        ring.wait(BATCHES_COMPLETED);
        ring.settle();
        if layout.has_all_everywhere() && !plan.has_restarts {
            shared.replicas_have_all();
        }
        let last = shared.read_all();
        shared.replicas_agree(&last);
        let operations = shared.operations.lock().clone();
        let left = Left {
            history: History {
                layout,
                operations,
                micros: shared.moments.lock().clone(),
                orders: [Register::Plain, Register::Emptied].map(|register| shared.tables.order(register)),
                echo_micros_max: match plan.has_faults {
                    true => ECHO_MICROS_MAX + 2 * happened.skew_micros_max,
                    false => FAIR_ECHO_MICROS_MAX,
                },
                skew_micros_max: happened.skew_micros_max,
            },
            last,
            fingerprint: simulation.fingerprint(),
            turns: simulation.turns(),
            faults: happened.told,
        };
        drop(shared);
        ring.close();
        left
    })
}

/// Rows of a partition of `plain`.
pub fn rows_max() -> i32 {
    ROWS as i32
}
