//! One run of one workload: from the settings to a line of JSON.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use clap::Args;
use protocol::ProtocolVersion;
use serde::Serialize;

use crate::connection::Connection;
use crate::error::Error;
use crate::lane::Lane;
use crate::measure::{Clock, Figures, Tally, Window};
use crate::pace::{Pace, Schedule};
use crate::proc::{Sample, Usage};
use crate::worker::{Prepared, Worker};
use crate::workloads::{self, Scale, Share};

/// Operations in flight on a connection at a fixed rate, at the most. More would be late anyway, and lateness counts.
const OPEN_PLACES: u16 = 1_024;

/// How long a client with one operation in flight watches for its answer. Longer operations than this are not much
/// longer for a client that has to be woken, and a server with work for that long may need the core.
const WATCH_NS: u64 = 300_000;

/// What to run.
#[derive(Debug, Args)]
pub struct Settings {
    /// The server
    #[arg(long)]
    address: SocketAddr,
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
    /// Version of the native protocol
    #[arg(long, default_value_t = 5)]
    protocol: u8,
    /// The server's process, to count its CPU time, memory and I/O
    #[arg(long)]
    server_pid: Option<u32>,
    /// Where random choices start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    workload: &'a str,
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

    fn window(&self) -> Window {
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let begin_ns = nanos(self.warm_up_s);
        Window { begin_ns, end_ns: self.seconds.map_or(u64::MAX, |seconds| begin_ns + nanos(seconds)) }
    }

    /// The places of one of the connections.
    fn places(&self, connection: u32, connections: u32) -> u16 {
        let Some(in_flight) = self.in_flight else { return OPEN_PLACES };
        let share = in_flight / connections + u32::from(connection < in_flight % connections);
        u16::try_from(share).unwrap_or(u16::MAX)
    }
}

/// Runs a workload and prints its figures.
pub fn run(settings: &Settings) -> Result<(), Error> {
    let shape = settings.shape()?;
    let mut workers = workers(settings, shape)?;
    // The clock starts when everything is ready.
    let clock = Clock::start();
    let window = settings.window();
    for worker in &mut workers {
        worker.clock = clock;
    }
    let (tally, usage) = measure(workers, clock, window, settings.server_pid)?;
    let report = Report {
        workload: &settings.workload,
        in_flight: settings.in_flight,
        rate: settings.rate,
        connections: shape.connections,
        threads: shape.threads,
        protocol: settings.protocol,
        warm_up_s: settings.warm_up_s,
        figures: tally.figures(settings.seconds.unwrap_or(usage.window_s)),
        usage,
    };
    serde_json::to_writer(io::stdout().lock(), &report).map_err(|error| Error::Usage(error.to_string()))?;
    println!();
    Ok(())
}

/// Opens everything.
fn workers(settings: &Settings, shape: Shape) -> Result<Vec<Worker>, Error> {
    let Shape { version, connections, threads } = shape;
    let mut lanes: Vec<Vec<Lane>> = (0..threads).map(|_| Vec::new()).collect();
    let mut statements = None;
    for (index, thread) in (0..connections).zip((0..threads as usize).cycle()) {
        let mut connection = Connection::open(settings.address, version)?;
        if statements.is_none() {
            let share = Share { index: 0, of: 1, seed: settings.seed };
            let all = workloads::open(&settings.workload, settings.scale(), share)?.statements();
            let prepared: Result<Vec<_>, _> =
                all.into_iter().map(|statement| Prepared::new(&mut connection, statement)).collect();
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
                window: settings.window(),
            })
        })
        .collect()
}

/// Lets the threads work and takes the counters at either end of the window.
fn measure(
    workers: Vec<Worker>,
    clock: Clock,
    window: Window,
    server_pid: Option<u32>,
) -> Result<(Tally, Usage), Error> {
    let threads = workers.len();
    let (done, results) = mpsc::channel();
    for worker in workers {
        let done = done.clone();
        thread::spawn(move || {
            // Without it the kernel may round a wait up by 50 us, which would show as the server's latency.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            // Nor should work of the machine that the kernel can interrupt. Where it refuses, the client waits its turn.
            let _ = env::thread::ask_for_short_slices();
            let _ = done.send(worker.run());
        });
    }
    drop(done);

    let mut tally = Tally::default();
    let mut finished = 0;
    let mut wait_until = |at_ns: u64, tally: &mut Tally| -> Result<(), Error> {
        while finished < threads {
            let now_ns = clock.now_ns();
            if now_ns >= at_ns {
                break;
            }
            match results.recv_timeout(Duration::from_nanos((at_ns - now_ns).min(3_600_000_000_000))) {
                Ok(result) => {
                    finished += 1;
                    tally.add(&result?);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::Protocol("a thread of the client ended without a word".to_owned()));
                }
            }
        }
        Ok(())
    };
    wait_until(window.begin_ns, &mut tally)?;
    let begin = Sample::take(server_pid)?;
    wait_until(window.end_ns, &mut tally)?;
    let end = Sample::take(server_pid)?;
    wait_until(u64::MAX, &mut tally)?;
    let usage = end.since(&begin, tally.operations);
    Ok((tally, usage))
}
