//! A thousand lives of a node: clients, flushes, compactions and a loss of power, in an order that a seed
//! draws.
//!
//! Each client owns partitions and knows what they hold after each of its operations. Registers that all
//! clients raise by conditions, and counters, have to end with as many as were acknowledged.
//!
//! 1. Every read of a client during its life sees what the client wrote.
//! 2. What the power cut leaves holds every acknowledged operation of each client, and of the one in flight
//!    all or nothing of each partition.
//! 3. The node that is closed and opened again holds exactly what was written.
//!
//! `SIM_SEED=n` runs one seed, `SIM_SEEDS=n` as many as that, and `SIM_SECONDS=n` new ones for so long. Those
//! begin anywhere, or at `SIM_SEED`; with `--nocapture` the first one is shown.

mod history;

use env::fs::faulty::FaultyFileSystem;
use env::fs::memory::MemoryFileSystem;
use env::sim::Simulation;
use history::Life;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use testkit::sim::files;

/// Seeds of an ordinary run.
const SEEDS: u64 = 1_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// What a life leaves.
struct Left {
    /// Of its turns.
    fingerprint: u64,
    disk: MemoryFileSystem,
    /// Whether the power was cut while it lasted.
    was_cut: bool,
}

/// Lives one life.
fn live(seed: u64) -> Left {
    Simulation::run(seed, |simulation| {
        let disk = MemoryFileSystem::with_clock(simulation.clock().clone());
        let env = simulation.env(&FaultyFileSystem::new(Arc::new(disk.clone())));
        let was_cut = Life::new(seed, simulation, env, disk.clone()).run();
        Left { fingerprint: simulation.fingerprint(), disk, was_cut }
    })
}

/// Lives one life, and says how it is lived again; whether the power was cut.
fn named(seed: u64) -> bool {
    let outcome = std::panic::catch_unwind(|| live(seed));
    outcome.unwrap_or_else(|_| panic!("SIM_SEED={seed} cargo test -p testkit --test sim")).was_cut
}

/// The first seed of a long run: the one that was asked for, or else any.
#[allow(clippy::disallowed_methods, clippy::print_stdout, reason = "real time, told to who runs it")]
fn anywhere() -> u64 {
    static FIRST: OnceLock<u64> = OnceLock::new();
    // Both halves of the seeds begin at the same.
    *FIRST.get_or_init(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let first = number("SIM_SEED").unwrap_or(since.as_secs() * 1_000_000);
        println!("SIM_SEED={first} is the first");
        first
    })
}

/// Half of the seeds from anywhere, until the time is over; at least one.
#[allow(clippy::disallowed_methods, clippy::print_stdout, reason = "real time, told to who runs it")]
fn for_so_long(seconds: u64, first: u64) {
    let (started, long) = (Instant::now(), Duration::from_secs(seconds));
    let mut lives = 0;
    for seed in (anywhere() + first..).step_by(2) {
        named(seed);
        lives += 1;
        if started.elapsed() >= long {
            break;
        }
    }
    println!("{lives} lives from {} in steps of 2", anywhere() + first);
}

/// Half of the seeds.
fn every_second(first: u64) {
    if let Some(seconds) = number("SIM_SECONDS") {
        for_so_long(seconds, first);
        return;
    }
    if let Some(seed) = number("SIM_SEED") {
        named(seed);
        return;
    }
    let seeds = number("SIM_SEEDS").unwrap_or(SEEDS);
    let cut = (first..seeds).step_by(2).filter(|seed| named(*seed)).count() as u64;
    assert!(seeds < 100 || cut > seeds / 8, "the power was cut in {cut} lives");
}

#[test]
fn a_node_keeps_its_promises_in_whatever_order_things_happen() {
    every_second(0);
}

#[test]
fn it_does_so_with_the_other_half_of_the_seeds() {
    every_second(1);
}

#[test]
fn the_same_seed_gives_the_same_turns_and_the_same_bytes() {
    for seed in 0..20 {
        let (first, again) = (live(seed), live(seed));
        assert_eq!(first.fingerprint, again.fingerprint, "seed {seed}: other turns");
        let (one, other) = (files(&first.disk, Path::new("/")), files(&again.disk, Path::new("/")));
        let names = |files: &std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| {
            files.keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(names(&one), names(&other), "seed {seed}");
        for (path, bytes) in &one {
            assert!(bytes == &other[path], "seed {seed}: {} has other bytes", path.display());
        }
    }
}
