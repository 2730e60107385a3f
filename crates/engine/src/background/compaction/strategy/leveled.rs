//! Levels: from level 1 on, the SSTables of a level do not overlap, and each level may hold `fanout_size`
//! times the bytes of the one above.
//!
//! 1. The highest level that is over its size goes first: one of its SSTables moves down, compacted with
//!    those that it overlaps there; the one that overlaps the least, so that the least is rewritten.
//! 2. Level 0, where flushes arrive, is compacted into level 1 with everything that it overlaps there, once
//!    it has `L0_THRESHOLD` SSTables. When it is crowded, it is first compacted within itself, as size-tiered
//!    does.

use super::{Candidate, Output, Pick, SizeTiered, Strategy, option};
use std::collections::{BTreeMap, BTreeSet};

/// SSTables of level 0 that start a compaction into level 1.
const L0_THRESHOLD: usize = 4;
/// SSTables of level 0 from which it is compacted within itself.
const L0_CROWDED: usize = 32;
/// Most SSTables of level 0 that are compacted together.
const L0_INPUTS_MAX: usize = 32;
const LEVEL_MAX: u32 = 8;
/// A level is over its size when it holds this many times its bytes.
const OVER_SIZE: f64 = 1.001;

/// The strategy.
#[derive(Clone, Debug)]
pub struct Leveled {
    sstable_bytes: u64,
    fanout: u64,
    level0: SizeTiered,
}

impl Leveled {
    /// Reads the strategy's options.
    pub fn new(map: &BTreeMap<String, String>) -> Leveled {
        Leveled {
            sstable_bytes: option(map, "sstable_size_in_mb", 160u64).max(1) << 20,
            fanout: option(map, "fanout_size", 10u64).max(2),
            level0: SizeTiered::new(map),
        }
    }

    fn level_bytes_max(&self, level: u32) -> f64 {
        self.sstable_bytes as f64 * (self.fanout as f64).powi(level as i32)
    }

    fn output(&self, level: u32) -> Output {
        Output { level, sstable_bytes: self.sstable_bytes, shards: 1, halves: false }
    }

    /// Everything of `level` that overlaps any of `with`.
    fn overlapping<'a>(all: &'a [Candidate], level: u32, with: &[&Candidate]) -> Vec<&'a Candidate> {
        all.iter().filter(|c| c.level == level && with.iter().any(|w| w.overlaps(c))).collect()
    }

    /// One SSTable of `level` and what it overlaps in the next.
    fn move_down(&self, candidates: &[Candidate], level: u32) -> Option<Pick> {
        let overlap = |c: &Candidate| Self::overlapping(candidates, level + 1, &[c]);
        let (chosen, below) = candidates
            .iter()
            .filter(|c| c.level == level)
            .map(|c| (c, overlap(c)))
            .min_by_key(|(c, below)| (below.iter().map(|b| b.bytes).sum::<u64>(), c.keys.0.clone()))?;
        let inputs = std::iter::once(chosen).chain(below).map(|c| c.id).collect();
        Some(Pick { inputs, output: self.output(level + 1) })
    }

    fn level0_down(&self, candidates: &[Candidate]) -> Option<Pick> {
        let mut level0: Vec<&Candidate> = candidates.iter().filter(|c| c.level == 0).collect();
        if level0.len() > L0_CROWDED {
            let crowd: Vec<Candidate> = level0.iter().map(|c| (*c).clone()).collect();
            if let Some(inputs) = self.level0.bucket(&crowd) {
                return Some(Pick { inputs, output: self.output(0) });
            }
        }
        if level0.len() < L0_THRESHOLD {
            return None;
        }
        level0.sort_by_key(|c| (c.timestamps.1, c.id));
        level0.truncate(L0_INPUTS_MAX);
        let below = Self::overlapping(candidates, 1, &level0);
        let inputs = level0.iter().chain(&below).map(|c| c.id).collect();
        Some(Pick { inputs, output: self.output(1) })
    }
}

impl Strategy for Leveled {
    fn pick(&self, candidates: &[Candidate]) -> Option<Pick> {
        let bytes = |level| candidates.iter().filter(|c| c.level == level).map(|c| c.bytes).sum::<u64>();
        let crowded = candidates.iter().filter(|c| c.level == 0).count() > L0_CROWDED;
        for level in (1..LEVEL_MAX).rev() {
            if bytes(level) as f64 > self.level_bytes_max(level) * OVER_SIZE {
                // A crowded level 0 costs every read; it goes before the order of the levels.
                if crowded && let Some(pick) = self.level0_down(candidates) {
                    return Some(pick);
                }
                return self.move_down(candidates, level);
            }
        }
        self.level0_down(candidates)
            .or_else(|| self.level0.tombstones().pick(candidates, |c| self.output(c.level)))
    }

    fn runs_alone(&self) -> bool {
        true
    }

    fn pending(&self, candidates: &[Candidate]) -> usize {
        let level0 = candidates.iter().filter(|c| c.level == 0).count() / L0_THRESHOLD;
        let levels: BTreeSet<u32> = candidates.iter().map(|c| c.level).filter(|l| *l > 0).collect();
        let over = levels.iter().map(|level| {
            let bytes: u64 = candidates.iter().filter(|c| c.level == *level).map(|c| c.bytes).sum();
            ((bytes as f64 - self.level_bytes_max(*level)).max(0.0) / self.sstable_bytes as f64).ceil()
                as usize
        });
        level0 + over.sum::<usize>()
    }

    fn major(&self, candidates: &[Candidate]) -> Vec<Pick> {
        let total: u64 = candidates.iter().map(|c| c.bytes).sum();
        if candidates.is_empty() {
            return Vec::new();
        }
        // The level that holds it all, so that nothing has to move again.
        let level = (1..LEVEL_MAX).find(|l| self.level_bytes_max(*l) >= total as f64).unwrap_or(LEVEL_MAX);
        vec![Pick { inputs: super::ids(candidates), output: self.output(level) }]
    }
}
