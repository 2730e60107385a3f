//! The load generator of the side-by-side benchmarks: one client for every server.
//!
//! * `bench-client schema`: makes the keyspace and the tables of every workload.
//! * `bench-client run`: runs a workload, closed loop or at a fixed rate, and prints its figures as JSON.
//! * `bench-client logins`: opens connections, one after the other or at a fixed rate.
//! * `bench-client alter`: changes the schema again and again.
//! * `bench-client null`: a server that does nothing, to measure the client itself.
//!
//! A run opens all connections, prepares the workload's statements once, and gives each thread its share of
//! both. Meanwhile the main thread takes the kernel's counters at either end of the measured window.
#![allow(clippy::disallowed_methods)]

mod answer;
mod connection;
mod door;
mod error;
mod lane;
mod logins;
mod measure;
mod null_server;
mod pace;
mod parts;
mod proc;
mod run;
mod wire;
mod worker;
mod workloads;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use protocol::ProtocolVersion;

use crate::connection::Connection;
use crate::door::Door;
use crate::error::Error;

/// How often a table comes and goes, at the most: a server that is quick at it is to do other things besides.
const ALTER_EVERY: Duration = Duration::from_millis(100);

/// How long the nodes of a ring may take to have one schema.
const AGREEMENT_PATIENCE: Duration = Duration::from_secs(60);

#[derive(Parser)]
#[command(name = "bench-client", about = "Load for a server that speaks Cassandra's native protocol")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make the keyspace and the tables
    Schema {
        /// The server, or the nodes of a ring
        #[arg(long, value_delimiter = ',', required = true)]
        address: Vec<SocketAddr>,
        /// On how many nodes each row is
        #[arg(long, default_value_t = 1)]
        replicas: u32,
        #[command(flatten)]
        door: door::Settings,
    },
    /// Make a table, alter it and drop it, ten times a second, and print how often the schema changed
    Alter {
        /// The server
        #[arg(long)]
        address: SocketAddr,
        /// For how long
        #[arg(long)]
        seconds: f64,
    },
    /// Run a workload and print its figures as JSON
    Run(run::Settings),
    /// Open connections, close them at once, and print how long each took as JSON
    Logins(logins::Settings),
    /// Serve nothing, to measure the client itself
    Null {
        /// Where to listen
        #[arg(long)]
        address: SocketAddr,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().verb {
        Verb::Schema { address, replicas, door } => make_schema(&address, replicas, &door),
        Verb::Alter { address, seconds } => alter_schema(address, Duration::from_secs_f64(seconds)),
        Verb::Run(settings) => run::run(&settings),
        Verb::Logins(settings) => logins::run(&settings),
        Verb::Null { address } => null_server::serve(address),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-client: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the tables on the first node, and waits until all nodes have them.
fn make_schema(nodes: &[SocketAddr], replicas: u32, door: &door::Settings) -> Result<(), Error> {
    let door = door.open()?;
    let open = |node: &SocketAddr| Connection::open(*node, ProtocolVersion::V5, &door);
    let mut nodes = nodes.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = nodes.first_mut() else { return Ok(()) };
    for statement in workloads::tables(replicas) {
        first.query(&statement)?;
    }
    let begun = Instant::now();
    loop {
        let versions = nodes.iter_mut().map(schema_version).collect::<Result<Vec<_>, _>>()?;
        if versions.windows(2).all(|pair| pair.first() == pair.last()) {
            return Ok(());
        }
        if begun.elapsed() > AGREEMENT_PATIENCE {
            return Err(Error::Protocol(format!("the nodes do not agree on the schema: {versions:?}")));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn schema_version(node: &mut Connection) -> Result<String, Error> {
    node.query("SELECT schema_version FROM system.local").map(|answer| format!("{answer:?}"))
}

fn alter_schema(address: SocketAddr, time: Duration) -> Result<(), Error> {
    let mut connection = Connection::open(address, ProtocolVersion::V5, &Door::default())?;
    let table = format!("{}.altered", workloads::KEYSPACE);
    let statements = [
        format!("CREATE TABLE {table} (k int PRIMARY KEY, v text)"),
        format!("ALTER TABLE {table} ADD w text"),
        format!("DROP TABLE {table}"),
    ];
    let (start, mut changes) = (Instant::now(), 0);
    let mut next = ALTER_EVERY;
    while start.elapsed() < time {
        statements.iter().try_for_each(|statement| connection.query(statement).map(drop))?;
        changes += statements.len();
        std::thread::sleep(next.saturating_sub(start.elapsed()));
        next += ALTER_EVERY;
    }
    println!("{changes}");
    Ok(())
}
