//! Rings.

use env::sim::Simulation;
use testkit::sim::ring::Ring;

#[test]
fn a_ring_forms() {
    Simulation::run(1, |simulation| {
        let mut ring = Ring::new(simulation, 1, 3, Ring::small_options(1));
        for number in ring.numbers() {
            ring.start(number).unwrap();
        }
        ring.settle();
        println!("{} turns, {:?}", simulation.turns(), ring.network().counts());
        ring.close();
    });
}
