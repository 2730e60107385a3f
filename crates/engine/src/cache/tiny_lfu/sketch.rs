//! How often keys were needed lately: a count-min sketch of four-bit counters that are halved again and
//! again.

/// The largest count.
pub(super) const COUNT_MAX: u8 = 15;
/// Counters for each entry of the cache. With [`PROBES`] and [`ADDITIONS_FOR_EACH`] it decides how often a
/// key counts as known that is not: one in nineteen when the counts are about to be halved, far fewer before.
const COUNTERS_FOR_EACH: u64 = 64;
/// After so many additions for each entry of the cache all counts are halved.
const ADDITIONS_FOR_EACH: u64 = 10;
/// Counters that a key has.
const PROBES: u64 = 4;
/// Counters in a word.
const PER_WORD: u64 = 16;
/// Words of a line of the processor's cache.
const LINE_WORDS: usize = 8;
/// Entries of the largest sketch, of 512 MiB: a cache of more shares its counters.
const ENTRIES_MAX: u64 = 1 << 24;
/// All bits that a halved word can have.
const HALVES: u64 = 0x7777_7777_7777_7777;

/// A line of the processor's cache: a key has all its counters in one, so counting it waits for memory once.
/// Lines lie so because the allocator begins large blocks with a page.
///
/// A plain array, because the allocator hands those out zeroed: the sketch of a large cache takes no memory
/// before keys are counted.
type Line = [u64; LINE_WORDS];

/// Counts of hashes, at least as large as they should be, lately.
pub(super) struct Sketch {
    lines: Box<[Line]>,
    additions: u64,
    additions_max: u64,
}

/// Word and shift of each of a hash's counters in its line.
fn places(mixed: u64) -> impl Iterator<Item = (usize, u64)> {
    // Seven bits for each of them; they may fall together, which only makes a count less exact.
    (0..PROBES).map(move |n| {
        let at = mixed >> (n * 7);
        ((at / PER_WORD) as usize % LINE_WORDS, at % PER_WORD * 4)
    })
}

/// Lines of a sketch for a cache of about `entries`.
fn lines_for(entries: u64) -> usize {
    let words = (entries.min(ENTRIES_MAX) * COUNTERS_FOR_EACH / PER_WORD).next_power_of_two() as usize;
    words.div_ceil(LINE_WORDS)
}

impl Sketch {
    /// A sketch for a cache of about `entries`.
    pub fn new(entries: u64) -> Sketch {
        let entries = entries.min(ENTRIES_MAX);
        let additions_max = (entries * ADDITIONS_FOR_EACH).max(64);
        let lines = vec![[0; LINE_WORDS]; lines_for(entries)].into();
        Sketch { lines, additions: 0, additions_max }
    }

    /// The hash's line, and what says where its counters are in it.
    fn line_of(&self, hash: u64) -> (usize, u64) {
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as usize & (self.lines.len() - 1), mixed)
    }

    /// How often the hash was needed.
    pub fn count(&self, hash: u64) -> u8 {
        let (line, mixed) = self.line_of(hash);
        let words = &self.lines[line];
        let counts = places(mixed).map(|(word, shift)| (words[word] >> shift) as u8 & COUNT_MAX);
        counts.min().unwrap_or(0)
    }

    /// Counts `n` more.
    pub fn add(&mut self, hash: u64, n: u8) {
        if n == 0 {
            return;
        }
        // Raising only what is lower than the new count keeps the counts of others small.
        let count = u64::from(self.count(hash).saturating_add(n).min(COUNT_MAX));
        let (line, mixed) = self.line_of(hash);
        let words = &mut self.lines[line];
        for (word, shift) in places(mixed) {
            let word = &mut words[word];
            if (*word >> shift) & u64::from(COUNT_MAX) < count {
                *word = *word & !(u64::from(COUNT_MAX) << shift) | count << shift;
            }
        }
        self.additions += u64::from(n);
        if self.additions >= self.additions_max {
            self.additions /= 2;
            let words = self.lines.iter_mut().flatten();
            words.for_each(|word| *word = (*word >> 1) & HALVES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cache_is_so_large_that_its_counts_take_all_memory() {
        assert_eq!(lines_for(u64::MAX) * size_of::<Line>(), 512 << 20);
        assert_eq!(lines_for(100), 64);
    }

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
