//! Lives of rings: clients, faults of nodes and of the network, in an order that a seed draws.
//!
//! `RING_SEED=n` lives one life, and shows it with `--nocapture`; `RING_SEEDS=n` so many, from `RING_FIRST` on.
//! `make simulate` does so in a faster build.

mod history;
mod life;
mod tables;

use life::{Left, Plan, live, rows_max};

/// Seeds of an ordinary run, of each kind.
const SEEDS: u64 = 10;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// What happens in the life of a seed. One of eight is without faults.
fn plan(seed: u64) -> Plan {
    Plan { nodes: 3 + (seed % 3) as u8, operations: 40, has_faults: seed % 8 != 0 }
}

/// Lives one life, and says how it is lived again.
fn named(seed: u64) -> Left {
    let outcome = std::panic::catch_unwind(|| {
        let left = live(seed, plan(seed));
        if number("RING_SEED").is_some() {
            left.faults.iter().for_each(|fault| println!("{fault}"));
            left.history.operations.iter().for_each(|operation| println!("{operation:?}"));
            println!("{} turns", left.turns);
        }
        left.history.check(&left.last, rows_max());
        left
    });
    outcome.unwrap_or_else(|_| panic!("RING_SEED={seed} cargo test -p testkit --test ring"))
}

/// Half of the seeds.
fn every_second(first: u64) {
    if let Some(seed) = number("RING_SEED") {
        if seed % 2 == first {
            named(seed);
        }
        return;
    }
    let (from, seeds) = (number("RING_FIRST").unwrap_or(0), number("RING_SEEDS").unwrap_or(SEEDS));
    (from..from + seeds).filter(|seed| seed % 2 == first).for_each(|seed| drop(named(seed)));
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
    for seed in [0, 1] {
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
