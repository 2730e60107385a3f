//! Connections that come and go: each from its SYN to READY or AUTH_SUCCESS, or to the refusal of its
//! password.
//!
//! Each thread opens one connection after the other and closes it at once. Percentiles are of that time, from
//! the instant a connection was begun; at a fixed rate, from when it was due.

use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use protocol::ProtocolVersion;
use protocol::response::error::ErrorKind;
use serde::Serialize;

use crate::connection::Connection;
use crate::door::{self, Door};
use crate::error::Error;
use crate::measure::{Clock, Figures, Percentiles, Tally};
use crate::pace::{Pace, Schedule};
use crate::proc::{Sample, Usage};

/// What to open.
#[derive(Debug, Args)]
pub struct Settings {
    /// The server
    #[arg(long)]
    address: SocketAddr,
    #[command(flatten)]
    door: door::Settings,
    /// Connections a second; without it each thread opens the next one when it has the last
    #[arg(long)]
    rate: Option<f64>,
    /// Threads of the client
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// For how long
    #[arg(long)]
    seconds: f64,
    /// The password is wrong: each connection has to be refused
    #[arg(long)]
    refused: bool,
    /// Each connection comes from another address, in 127.77.0.0/16
    #[arg(long)]
    from_many: bool,
    /// Compute a bcrypt hash of so many rounds before each connection, to compare its time
    #[arg(long)]
    bcrypt: Option<u32>,
    /// The processes of the server, to count their CPU time
    #[arg(long, value_delimiter = ',')]
    server_pid: Vec<u32>,
}

#[derive(Debug, Serialize)]
struct Report {
    threads: u32,
    rate: Option<f64>,
    #[serde(flatten)]
    figures: Figures,
    bcrypt_us: Option<Percentiles>,
    usage: Usage,
}

/// Opens connections and prints the figures.
pub fn run(settings: &Settings) -> Result<(), Error> {
    if settings.threads == 0 || settings.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err(Error::Usage("threads begin at 1, and a rate is above 0".to_owned()));
    }
    let door = settings.door.open()?;
    let before = Sample::take(&settings.server_pid)?;
    let clock = Clock::start();
    let (mut all, mut hashes) = (Tally::default(), Tally::default());
    let results: Vec<_> = thread::scope(|scope| {
        let door = &door;
        let threads = (0..settings.threads)
            .map(|thread| scope.spawn(move || Thread::new(settings, door, clock, thread).run()));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    for result in results {
        let gone = |_| Error::Protocol("a thread of the client ended without a word".to_owned());
        let (opened, hashed) = result.map_err(gone)??;
        all.add(&opened);
        hashes.add(&hashed);
    }
    let spent = Sample::take(&settings.server_pid)?.since(&before);
    let operations = all.part(0).operations;
    let usage = spent.usage(operations);
    let figures = all.figures(0, usage.window_s);
    let bcrypt_us = settings.bcrypt.map(|_| hashes.figures(0, usage.window_s).latency_us);
    let report = Report { threads: settings.threads, rate: settings.rate, figures, bcrypt_us, usage };
    serde_json::to_writer(io::stdout().lock(), &report).map_err(|error| Error::Usage(error.to_string()))?;
    println!();
    Ok(())
}

/// One thread of it.
struct Thread<'a> {
    settings: &'a Settings,
    door: &'a Door,
    clock: Clock,
    pace: Pace,
    /// The number of the next connection, which no other thread uses.
    number: u64,
    opened: Tally,
    hashed: Tally,
}

impl<'a> Thread<'a> {
    fn new(settings: &'a Settings, door: &'a Door, clock: Clock, thread: u32) -> Self {
        let (thread, of) = (u64::from(thread), u64::from(settings.threads));
        let pace = settings.rate.map_or(Pace::Closed, |rate| Pace::Open(Schedule::new(rate, thread, of)));
        let (opened, hashed) = (Tally::default(), Tally::default());
        Self { settings, door, clock, pace, number: thread, opened, hashed }
    }

    fn run(mut self) -> Result<(Tally, Tally), Error> {
        let end_ns = (self.settings.seconds * 1e9) as u64;
        loop {
            if let Some(rounds) = self.settings.bcrypt {
                self.hash(rounds)?;
            }
            let mut now_ns = self.clock.now_ns();
            if let Some(idle_ns) = self.pace.idle_ns(now_ns) {
                thread::sleep(Duration::from_nanos(idle_ns));
                now_ns = self.clock.now_ns();
            }
            if now_ns >= end_ns {
                return Ok((self.opened, self.hashed));
            }
            let meant_ns = self.pace.due(now_ns).unwrap_or(now_ns);
            self.pace.sent();
            self.open(meant_ns)?;
        }
    }

    fn open(&mut self, meant_ns: u64) -> Result<(), Error> {
        let &Settings { address, from_many, refused, threads, .. } = self.settings;
        let number = self.number;
        self.number += u64::from(threads);
        let opened = match from_many {
            true => Connection::open_from(door::source(number), address, ProtocolVersion::V5, self.door),
            false => Connection::open(address, ProtocolVersion::V5, self.door),
        };
        match opened {
            Ok(_) if refused => {
                return Err(Error::WrongAnswer("a wrong password let somebody in".to_owned()));
            }
            Ok(_) => {}
            Err(Error::Refused { error, .. })
                if refused && matches!(error.kind, ErrorKind::BadCredentials) => {}
            Err(Error::Refused { error, .. }) => {
                self.opened.refused(&error);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let part = self.opened.part(0);
        part.operations += 1;
        part.latency(self.clock.now_ns().saturating_sub(meant_ns));
        Ok(())
    }

    fn hash(&mut self, rounds: u32) -> Result<(), Error> {
        let began = Instant::now();
        let hash = bcrypt::bcrypt(rounds, *b"sixteen bytes of", b"a password\0");
        std::hint::black_box(hash);
        self.hashed.part(0).latency(began.elapsed().as_nanos() as u64);
        Ok(())
    }
}
