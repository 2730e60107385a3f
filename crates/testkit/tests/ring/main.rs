//! Lives of rings: clients, faults of nodes and of the network, in an order that a seed draws.
//!
//! `RING_SEED=n` lives one life, and shows it with `--nocapture`; `RING_SEEDS=n` so many, from
//! `RING_FIRST` on.
//! `make simulate` does so in a faster build.

#![allow(clippy::print_stdout, reason = "what a seed did is shown to who lives it again")]

mod client;
mod faults;
mod history;
mod levels;
mod life;
mod pages;
mod registers;
mod tables;
mod truncation;

use levels::Layout;
use life::{Left, Plan, live, rows_max};

/// Seeds of an ordinary run.
const SEEDS: u64 = 1_000;
/// A run ends after so many seeds that fail.
const FAILURES_MAX: usize = 10;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// What happens in the life of a seed: to one of eight nothing, to two of eight no restarts. Two of eight
/// have two data centers, one of eight has one replica or two of everything, the others have three.
fn plan(seed: u64) -> Plan {
    let (has_faults, has_restarts) = (!seed.is_multiple_of(8), !matches!(seed % 8, 0 | 3 | 6));
    let layout = match (seed % 8, seed / 8 % 3) {
        (2 | 6, 0) => Layout::of_two([2, 2], [2, 2]),
        (2 | 6, 1) => Layout::of_two([3, 2], [3, 2]),
        (2 | 6, _) => Layout::of_two([3, 2], [2, 2]),
        (5, at) => Layout::of_one(3, if at == 0 { 2 } else { 1 }),
        _ => Layout::of_one(if has_restarts { 3 + (seed % 3) as u8 } else { 3 }, 3),
    };
    Plan { layout, operations: 40, has_faults, has_restarts }
}

/// Lives one life, and holds it to what is promised.
fn hold(seed: u64) {
    let left = live(seed, plan(seed));
    if number("RING_SEED").is_some() {
        left.faults.iter().for_each(|fault| println!("{fault}"));
        left.history.operations.iter().for_each(|operation| println!("{operation:?}"));
        println!("{} turns", left.turns);
    }
    left.history.check(&left.last, rows_max());
}

/// Half of the seeds. Those that fail are named with how they are lived again.
fn every_second(first: u64) {
    let (from, seeds) = match number("RING_SEED") {
        Some(seed) => (seed, 1),
        None => (number("RING_FIRST").unwrap_or(0), number("RING_SEEDS").unwrap_or(SEEDS)),
    };
    let mut failed = Vec::new();
    for seed in (from..from + seeds).filter(|seed| seed % 2 == first) {
        if std::panic::catch_unwind(|| hold(seed)).is_err() {
            println!("RING_SEED={seed} cargo test -p testkit --test ring -- --nocapture");
            failed.push(seed);
        }
        if failed.len() >= FAILURES_MAX {
            break;
        }
    }
    assert!(failed.is_empty(), "these seeds fail, each again with RING_SEED: {failed:?}");
}

#[test]
fn a_ring_keeps_its_promises_whatever_happens_to_it() {
    every_second(0);
}

#[test]
fn it_does_so_with_the_other_half_of_the_seeds() {
    every_second(1);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in [1, 2, 3] {
        let (one, other) = (live(seed, plan(seed)), live(seed, plan(seed)));
        let text = |left: &Left| format!("{:?}\n{:?}\n{:?}", left.faults, left.history, left.last);
        assert_eq!(text(&one), text(&other), "seed {seed}");
        assert_eq!(
            (one.turns, one.fingerprint),
            (other.turns, other.fingerprint),
            "seed {seed}: other turns"
        );
    }
}
