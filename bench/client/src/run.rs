//! One run of one workload: from the settings to a line of JSON.

use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use clap::Args;
use protocol::{Consistency, ProtocolVersion};
use serde::Serialize;

use crate::connection::Connection;
use crate::door;
use crate::error::Error;
use crate::lane::Lane;
use crate::measure::{Clock, Figures, Tally, Window};
use crate::pace::{Pace, Schedule};
use crate::parts::Measured;
use crate::proc::{Sample, Spent, Usage};
use crate::worker::{Prepared, Worker};
use crate::workloads::{self, Scale, Share};

/// Operations in flight on a connection at a fixed rate, at the most. More would be late anyway, and lateness
/// counts.
const OPEN_PLACES: u16 = 1_024;

/// How long a client with one operation in flight watches for its answer. Longer operations than this are not
/// much longer for a client that has to be woken, and a server with work for that long may need the core.
const WATCH_NS: u64 = 300_000;

/// What to run.
#[derive(Debug, Args)]
pub struct Settings {
    /// The server, or the nodes of a ring, which get connections by turns
    #[arg(long, value_delimiter = ',', required = true)]
    address: Vec<SocketAddr>,
    #[command(flatten)]
    door: door::Settings,
    /// How many replicas have to answer
    #[arg(long, default_value = "LOCAL_ONE", value_parser = consistency)]
    consistency: Consistency,
    /// The workload
    #[arg(long, long_help = format!("The workload, one of:\n{}", workloads::NAMES.join("\n")))]
    workload: String,
    /// Partitions of table base, ten rows each
    #[arg(long, default_value_t = 100_000)]
    partitions: u64,
    /// Rows of the partition of table wide that is loaded or read
    #[arg(long, default_value_t = 100_000)]
    wide_rows: u64,
    /// Rows of the one partition of the tables large and plain
    #[arg(long, default_value_t = 100_000)]
    large_rows: u64,
    /// Closed loop: operations in flight
    #[arg(long, conflicts_with = "rate", required_unless_present = "rate")]
    in_flight: Option<u32>,
    /// Fixed rate: operations a second
    #[arg(long)]
    rate: Option<f64>,
    /// Connections, at the most; never more than operations in flight
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// Threads of the client; never more than connections
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Seconds of the same load before the measured ones
    #[arg(long, default_value_t = 0.0)]
    warm_up_s: f64,
    /// Measured seconds; without it the run ends with its workload
    #[arg(long)]
    seconds: Option<f64>,
    /// Measure parts of the run, which standard input names as they begin, a line each; an empty line:
    /// nothing is measured until the next. The end of the input ends the run; figures are printed for each
    /// name
    #[arg(long, conflicts_with_all = ["warm_up_s", "seconds"])]
    parts: bool,
    /// Version of the native protocol
    #[arg(long, default_value_t = 5)]
    protocol: u8,
    /// The processes of the server, to count their CPU time, memory and I/O together
    #[arg(long, value_delimiter = ',')]
    server_pid: Vec<u32>,
    /// Where random choices start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    workload: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'a str>,
    in_flight: Option<u32>,
    rate: Option<f64>,
    connections: u32,
    threads: u32,
    protocol: u8,
    warm_up_s: f64,
    #[serde(flatten)]
    figures: Figures,
    usage: Usage,
}

/// Settings that fit together.
#[derive(Debug, Clone, Copy)]
struct Shape {
    version: ProtocolVersion,
    connections: u32,
    threads: u32,
}

impl Settings {
    fn shape(&self) -> Result<Shape, Error> {
        let usage = |text: String| Err(Error::Usage(text));
        let Some(version) = ProtocolVersion::from_number(self.protocol) else {
            return usage(format!("no protocol version {}", self.protocol));
        };
        if self.in_flight == Some(0) || self.connections == 0 || self.threads == 0 {
            return usage("in flight, connections and threads begin at 1".to_owned());
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return usage("a rate is above 0".to_owned());
        }
        let seconds = [Some(self.warm_up_s), self.seconds];
        if !seconds.into_iter().flatten().all(|seconds| (0.0..1e6).contains(&seconds)) {
            return usage("seconds are between 0 and a million".to_owned());
        }
        let connections = self.in_flight.map_or(self.connections, |places| self.connections.min(places));
        Ok(Shape { version, connections, threads: self.threads.min(connections) })
    }

    fn scale(&self) -> Scale {
        Scale { partitions: self.partitions, wide_rows: self.wide_rows, large_rows: self.large_rows }
    }

    fn measured(&self) -> Measured {
        if self.parts {
            return Measured::Parts(Mutex::default());
        }
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let begin_ns = nanos(self.warm_up_s);
        let end_ns = self.seconds.map_or(u64::MAX, |seconds| begin_ns + nanos(seconds));
        Measured::Window(Window { begin_ns, end_ns })
    }

    /// The places of one of the connections.
    fn places(&self, connection: u32, connections: u32) -> u16 {
        let Some(in_flight) = self.in_flight else { return OPEN_PLACES };
        let share = in_flight / connections + u32::from(connection < in_flight % connections);
        u16::try_from(share).unwrap_or(u16::MAX)
    }
}

/// A consistency level by its name, as CQL has it.
fn consistency(name: &str) -> Result<Consistency, String> {
    let level = Consistency::ALL_LEVELS.into_iter().find(|level| level.name() == name);
    level.ok_or_else(|| format!("no consistency level {name}"))
}

/// Runs a workload and prints its figures, those of each part on a line.
pub fn run(settings: &Settings) -> Result<(), Error> {
    let shape = settings.shape()?;
    let measured = Arc::new(settings.measured());
    let mut workers = workers(settings, shape, &measured)?;
    // The clock starts when everything is ready.
    let clock = Clock::start();
    for worker in &mut workers {
        worker.clock = clock;
    }
    let mut threads = Threads::start(workers);
    let spent = match &*measured {
        Measured::Window(window) => vec![measure_window(&mut threads, clock, *window, &settings.server_pid)?],
        Measured::Parts(_) => measure_parts(&mut threads, clock, &measured, &settings.server_pid)?,
    };
    let mut tally = threads.tally;
    let names = measured.names();
    for (index, spent) in spent.iter().enumerate() {
        let operations = tally.part(index).operations;
        let usage = spent.usage(operations);
        let report = Report {
            workload: &settings.workload,
            part: names.get(index).map(String::as_str),
            in_flight: settings.in_flight,
            rate: settings.rate,
            connections: shape.connections,
            threads: shape.threads,
            protocol: settings.protocol,
            warm_up_s: settings.warm_up_s,
            figures: tally.figures(index, settings.seconds.unwrap_or(usage.window_s)),
            usage,
        };
        serde_json::to_writer(io::stdout().lock(), &report)
            .map_err(|error| Error::Usage(error.to_string()))?;
        println!();
    }
    Ok(())
}

/// Opens everything.
fn workers(settings: &Settings, shape: Shape, measured: &Arc<Measured>) -> Result<Vec<Worker>, Error> {
    let Shape { version, connections, threads } = shape;
    let mut lanes: Vec<Vec<Lane>> = (0..threads).map(|_| Vec::new()).collect();
    let mut statements = None;
    let door = settings.door.open()?;
    let nodes = settings.address.iter().cycle();
    for ((index, thread), &node) in (0..connections).zip((0..threads as usize).cycle()).zip(nodes) {
        let mut connection = Connection::open(node, version, &door)?;
        // Each node has to know them; their ids are the same.
        if statements.is_none() || (index as usize) < settings.address.len() {
            let share = Share { index: 0, of: 1, seed: settings.seed };
            let all = workloads::open(&settings.workload, settings.scale(), share)?.statements();
            let prepared: Result<Vec<_>, _> = all
                .into_iter()
                .map(|statement| Prepared::new(&mut connection, statement, settings.consistency))
                .collect();
            statements = Some(prepared?);
        }
        connection.begin_load()?;
        if let Some(lanes) = lanes.get_mut(thread) {
            lanes.push(Lane::new(connection, settings.places(index, connections)));
        }
    }
    let statements = statements.unwrap_or_default();
    let clock = Clock::start();
    lanes
        .into_iter()
        .zip(0..)
        .map(|(lanes, index)| {
            let of = u64::from(threads);
            let share = Share { index, of, seed: settings.seed };
            Ok(Worker {
                lanes,
                statements: statements.clone(),
                workload: workloads::open(&settings.workload, settings.scale(), share)?,
                pace: match settings.rate {
                    Some(rate) => Pace::Open(Schedule::new(rate, index, of)),
                    None => Pace::Closed,
                },
                watch_ns: if settings.in_flight == Some(1) { WATCH_NS } else { 0 },
                clock,
                measured: Arc::clone(measured),
            })
        })
        .collect()
}

/// The threads that work, and what those that ended saw.
struct Threads {
    working: usize,
    results: Receiver<Result<Tally, Error>>,
    tally: Tally,
}

impl Threads {
    fn start(workers: Vec<Worker>) -> Self {
        let working = workers.len();
        let (done, results) = mpsc::channel();
        for worker in workers {
            let done = done.clone();
            thread::spawn(move || {
                // Without it the kernel may round a wait up by 50 us, which would show as the server's
                // latency.
                let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
                // Nor should work of the machine that the kernel can interrupt. Where it refuses, the client
                // waits its turn.
                let _ = env::thread::ask_for_short_slices();
                let _ = done.send(worker.run());
            });
        }
        Self { working, results, tally: Tally::default() }
    }

    /// Waits until an instant comes or all have ended.
    fn wait_until(&mut self, clock: Clock, at_ns: u64) -> Result<(), Error> {
        while self.working > 0 {
            let now_ns = clock.now_ns();
            if now_ns >= at_ns {
                break;
            }
            match self.results.recv_timeout(Duration::from_nanos((at_ns - now_ns).min(3_600_000_000_000))) {
                Ok(result) => self.ended(result)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(without_a_word()),
            }
        }
        Ok(())
    }

    /// Fails if a thread has failed; does not wait.
    fn look(&mut self) -> Result<(), Error> {
        while self.working > 0 {
            match self.results.try_recv() {
                Ok(result) => self.ended(result)?,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(without_a_word()),
            }
        }
        Ok(())
    }

    fn ended(&mut self, result: Result<Tally, Error>) -> Result<(), Error> {
        self.working -= 1;
        self.tally.add(&result?);
        Ok(())
    }
}

fn without_a_word() -> Error {
    Error::Protocol("a thread of the client ended without a word".to_owned())
}

/// Lets the threads work and takes the counters at either end of the window.
fn measure_window(
    threads: &mut Threads,
    clock: Clock,
    window: Window,
    server_pids: &[u32],
) -> Result<Spent, Error> {
    threads.wait_until(clock, window.begin_ns)?;
    let begin = Sample::take(server_pids)?;
    threads.wait_until(clock, window.end_ns)?;
    let end = Sample::take(server_pids)?;
    threads.wait_until(clock, u64::MAX)?;
    Ok(end.since(&begin))
}

/// Lets the threads work while parts are named, and takes the counters at either end of each; what each took
/// in all, by index.
fn measure_parts(
    threads: &mut Threads,
    clock: Clock,
    measured: &Measured,
    server_pids: &[u32],
) -> Result<Vec<Spent>, Error> {
    let mut spent: Vec<Spent> = Vec::new();
    let mut current: Option<(usize, Sample)> = None;
    let mut lines = io::stdin().lock().lines();
    loop {
        let line =
            lines.next().transpose().map_err(|error| Error::Usage(format!("standard input: {error}")))?;
        let now_ns = clock.now_ns();
        let next = match &line {
            Some(line) => measured.begin(now_ns, line),
            None => {
                measured.end(now_ns);
                None
            }
        };
        let now = Sample::take(server_pids)?;
        if let Some((part, begin)) = current.take() {
            if spent.len() <= part {
                spent.resize(part + 1, Spent::default());
            }
            if let Some(spent) = spent.get_mut(part) {
                spent.add(&now.since(&begin));
            }
        }
        current = next.map(|part| (part, now));
        threads.look()?;
        if line.is_none() {
            threads.wait_until(clock, u64::MAX)?;
            return Ok(spent);
        }
    }
}
