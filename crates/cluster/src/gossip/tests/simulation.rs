//! Histories of several nodes, each with several seeds.

use super::world::World;
use super::*;

fn for_seeds(history: impl Fn(World)) {
    for seed in 1..=4 {
        history(World::new(seed, 5));
    }
}

#[test]
fn all_find_each_other_and_hear_what_is_new() {
    for_seeds(|mut world| {
        world.run(15);
        world.check_agreement();
        world.set(3, AppState::LOAD, "1.0");
        world.set(5, AppState::SCHEMA, "a");
        world.set(3, AppState::LOAD, "2.0");
        world.run(15);
        world.check_agreement();
    });
}

#[test]
fn lost_and_late_messages_only_make_it_slower() {
    for_seeds(|mut world| {
        (world.loss, world.delay_millis_max) = (0.3, 1_500);
        world.run(60);
        world.set(4, AppState::LOAD, "1.0");
        world.run(60);
        world.check_agreement();
    });
}

#[test]
fn a_node_that_crashed_is_found_dead_and_comes_back_with_a_new_generation() {
    for_seeds(|mut world| {
        world.run(60);
        world.crash(4);
        world.run(60);
        assert_eq!(world.all_think_alive(4), [false; 4]);
        world.check_agreement();
        world.start(4);
        world.set(4, AppState::LOAD, "9.0");
        world.run(30);
        assert_eq!(world.all_think_alive(4), [true; 4]);
        world.check_agreement();
    });
}

#[test]
fn a_node_that_starts_anew_before_anybody_missed_it_is_heard() {
    for_seeds(|mut world| {
        world.run(30);
        world.crash(3);
        world.run(2);
        world.start(3);
        world.set(3, AppState::LOAD, "9.0");
        world.run(20);
        world.check_agreement();
    });
}

#[test]
fn a_node_that_stops_is_known_dead_before_it_is_missed() {
    for_seeds(|mut world| {
        world.run(30);
        world.stop(5);
        world.run(5);
        assert_eq!(world.all_think_alive(5), [false; 4]);
        world.start(5);
        world.run(20);
        world.check_agreement();
    });
}

#[test]
fn a_stop_that_some_did_not_hear_spreads_by_gossip() {
    for_seeds(|mut world| {
        world.run(30);
        world.loss = 0.7;
        world.stop(5);
        world.loss = 0.0;
        world.run(60);
        assert_eq!(world.all_think_alive(5), [false; 4]);
        world.check_agreement();
    });
}

#[test]
fn two_halves_find_each_other_again() {
    for_seeds(|mut world| {
        world.run(30);
        world.cut_off = [endpoint(2), endpoint(4)].into();
        world.run(90);
        for (node, others) in [(1, [3, 5].as_slice()), (3, &[1, 5]), (2, &[4]), (4, &[2])] {
            let others: Vec<_> = others.iter().map(|other| endpoint(*other)).collect();
            assert_eq!(world.node(node).gossiper.live(), others, "of {node}");
        }
        world.set(1, AppState::LOAD, "1.0");
        world.set(4, AppState::LOAD, "4.0");
        world.cut_off.clear();
        world.run(60);
        world.check_agreement();
    });
}

#[test]
fn a_slow_node_is_not_taken_for_dead() {
    for_seeds(|mut world| {
        world.slow_down(3, 3);
        world.run(60);
        let before = world.trace.len();
        world.run(200);
        assert!(!world.trace[before..].contains("is now DOWN"), "{}", &world.trace[before..]);
        world.check_agreement();
    });
}

#[test]
fn a_node_that_left_is_forgotten_by_all() {
    for_seeds(|mut world| {
        world.run(30);
        let expires_millis = (EPOCH + 100) * 1_000;
        world.node(4).gossiper.set_status(Status::Left { token: 4, expires_millis });
        world.run(20);
        assert_eq!(world.all_think_alive(4), [false; 4]);
        world.crash(4);
        world.run(60);
        world.check_agreement();
        world.run(90);
        for node in [1, 2, 3, 5] {
            assert_eq!(world.node(node).gossiper.state(&endpoint(4)), None, "of {node}");
        }
    });
}

/// A dozen things that happen to nodes, then peace.
fn a_random_history(seed: u64) -> World {
    const NODES: u8 = 5;
    let mut world = World::new(seed, NODES);
    let chance = Random::from_seed(seed ^ 0xfeed);
    for step in 0..12 {
        world.run(chance.below(45));
        let node = 1 + chance.below(u64::from(NODES)) as u8;
        let is_up = world.node(node).is_up;
        match chance.below(8) {
            0 if is_up => world.crash(node),
            1 if is_up => world.stop(node),
            2 | 3 if !is_up => world.start(node),
            4 => world.cut_off = (1..=NODES).filter(|_| chance.below(2) == 0).map(endpoint).collect(),
            5 => world.cut_off.clear(),
            6 => world.loss = chance.unit() / 2.0,
            _ if is_up => world.set(node, AppState::LOAD, &step.to_string()),
            _ => {}
        }
    }
    (world.loss, world.cut_off) = (0.0, BTreeSet::new());
    for node in 1..=NODES {
        if !world.node(node).is_up {
            world.start(node);
        }
    }
    world
}

#[test]
fn random_histories_end_in_agreement() {
    for seed in 1..=12 {
        let mut world = a_random_history(seed);
        world.run(60);
        world.check_agreement();
    }
}

fn a_rough_history(seed: u64) -> String {
    let mut world = World::new(seed, 6);
    (world.loss, world.delay_millis_max) = (0.1, 300);
    world.slow_down(6, 2);
    world.run(40);
    world.crash(2);
    world.run(40);
    world.cut_off = [endpoint(1), endpoint(3)].into();
    world.run(60);
    world.start(2);
    world.cut_off.clear();
    world.stop(5);
    world.run(60);
    world.check_agreement();
    world.trace
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 1..=4 {
        assert_eq!(a_rough_history(seed), a_rough_history(seed));
    }
    assert_ne!(a_rough_history(1), a_rough_history(2));
}
