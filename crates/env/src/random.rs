//! Random numbers from the kernel or from a seed.
//!
//! The one place that may seed from the kernel. The generator is cryptographic in both cases, so uuids and
//! tokens made from it cannot be guessed; with a seed it repeats itself exactly.

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A shared random generator. The lock is held for a few nanoseconds at a time.
#[derive(Debug)]
pub struct Random {
    generator: Mutex<StdRng>,
}

impl Random {
    /// Seeded by the kernel: different in each process.
    #[allow(clippy::disallowed_methods)]
    pub fn from_kernel() -> Self {
        Self { generator: Mutex::new(rand::make_rng()) }
    }

    /// Repeats the same numbers for the same seed.
    pub fn from_seed(seed: u64) -> Self {
        Self { generator: Mutex::new(StdRng::seed_from_u64(seed)) }
    }

    /// A uniformly random number.
    pub fn u64(&self) -> u64 {
        self.generator.lock().next_u64()
    }

    /// A uniformly random number below `bound`; 0 when `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        // The high half of a 128-bit product maps the number onto the range; the bias is below 2^-64 * bound.
        ((u128::from(self.u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniformly random number in [0, 1).
    pub fn unit(&self) -> f64 {
        // 53 bits are what an f64 holds exactly.
        (self.u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.generator.lock().fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself() {
        let (a, b, c) = (Random::from_seed(1), Random::from_seed(1), Random::from_seed(2));
        let draw = |random: &Random| (0..8).map(|_| random.u64()).collect::<Vec<_>>();
        let from_a = draw(&a);
        assert_eq!(from_a, draw(&b));
        assert_ne!(from_a, draw(&c));
    }

    #[test]
    fn the_kernel_does_not_repeat_itself() {
        assert_ne!(Random::from_kernel().u64(), Random::from_kernel().u64());
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let random = Random::from_seed(3);
        let mut seen = [false; 5];
        for _ in 0..1_000 {
            seen[random.below(5) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!((random.below(0), random.below(1)), (0, 0));
    }

    #[test]
    fn unit_lies_in_its_range() {
        let random = Random::from_seed(4);
        let draws: Vec<f64> = (0..1_000).map(|_| random.unit()).collect();
        assert!(draws.iter().all(|x| (0.0..1.0).contains(x)));
        assert!(draws.iter().any(|x| *x < 0.1) && draws.iter().any(|x| *x > 0.9));
    }

    #[test]
    fn fill_fills_every_byte() {
        let random = Random::from_seed(5);
        let mut ored = [0u8; 33];
        for _ in 0..16 {
            let mut bytes = [0u8; 33];
            random.fill(&mut bytes);
            ored.iter_mut().zip(bytes).for_each(|(o, b)| *o |= b);
        }
        assert!(ored.iter().all(|byte| *byte != 0));
    }
}
