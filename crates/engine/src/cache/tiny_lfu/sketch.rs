//! How often keys were needed lately: a count-min sketch of four-bit counters that are halved again and again.

/// The largest count.
pub(super) const COUNT_MAX: u8 = 15;
/// Counters for each entry of the cache. With [`PROBES`] and [`ADDITIONS_FOR_EACH`] it decides how often a key counts
/// as known that is not: one in twenty when the counts are about to be halved, far fewer before.
const COUNTERS_FOR_EACH: u64 = 64;
/// After so many additions for each entry of the cache all counts are halved.
const ADDITIONS_FOR_EACH: u64 = 10;
/// Counters that a key has.
const PROBES: u64 = 4;
/// Counters in a word.
const PER_WORD: u64 = 16;
/// All bits that a halved word can have.
const HALVES: u64 = 0x7777_7777_7777_7777;

/// Counts of hashes, at least as large as they should be, lately.
pub(super) struct Sketch {
    words: Box<[u64]>,
    additions: u64,
    additions_max: u64,
}

impl Sketch {
    /// A sketch for a cache of about `entries`.
    pub fn new(entries: u64) -> Sketch {
        let words = (entries * COUNTERS_FOR_EACH / PER_WORD).max(8).next_power_of_two() as usize;
        let additions_max = (entries * ADDITIONS_FOR_EACH).max(64);
        Sketch { words: vec![0; words].into(), additions: 0, additions_max }
    }

    /// Word and shift of each of the hash's counters.
    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let mask = self.words.len() as u64 * PER_WORD - 1;
        // The halves of a second hash as start and step (Kirsch and Mitzenmacher, 2006).
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (start, step) = (mixed >> 32, mixed | 1);
        (0..PROBES).map(move |n| {
            let at = start.wrapping_add(step.wrapping_mul(n)) & mask;
            ((at / PER_WORD) as usize, at % PER_WORD * 4)
        })
    }

    /// How often the hash was needed.
    pub fn count(&self, hash: u64) -> u8 {
        let counts = self.places(hash).map(|(word, shift)| (self.words[word] >> shift) as u8 & COUNT_MAX);
        counts.min().unwrap_or(0)
    }

    /// Counts `n` more.
    pub fn add(&mut self, hash: u64, n: u8) {
        if n == 0 {
            return;
        }
        // Raising only what is lower than the new count keeps the counts of others small.
        let count = u64::from(self.count(hash).saturating_add(n).min(COUNT_MAX));
        for (word, shift) in self.places(hash) {
            let word = &mut self.words[word];
            if (*word >> shift) & u64::from(COUNT_MAX) < count {
                *word = *word & !(u64::from(COUNT_MAX) << shift) | count << shift;
            }
        }
        self.additions += u64::from(n);
        if self.additions >= self.additions_max {
            self.additions /= 2;
            self.words.iter_mut().for_each(|word| *word = (*word >> 1) & HALVES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_not_too_small_until_they_are_halved() {
        let mut sketch = Sketch::new(100);
        let hash = |n: u64| n.wrapping_mul(0xd134_2543_de82_ef95);
        for n in 0..60 {
            sketch.add(hash(n), (n % 12) as u8);
        }
        assert!((0..60).all(|n| sketch.count(hash(n)) >= (n % 12) as u8));
        let exact = (0..60).filter(|n| sketch.count(hash(*n)) == (*n % 12) as u8).count();
        assert!(exact > 50, "{exact}");
        assert!((1_000..1_060).filter(|n| sketch.count(hash(*n)) == 0).count() > 50);
    }

    #[test]
    fn old_counts_fade_and_none_overflows() {
        let mut sketch = Sketch::new(100);
        for _ in 0..100 {
            sketch.add(7, 15);
        }
        assert!(sketch.count(7) <= COUNT_MAX);
        for n in 0..5_000u64 {
            sketch.add(n.wrapping_mul(0xd134_2543_de82_ef95) | 1 << 63, 1);
        }
        assert!(sketch.count(7) <= 2, "{}", sketch.count(7));
    }
}
