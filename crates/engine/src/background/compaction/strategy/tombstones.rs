//! The fallback of all strategies: rewriting one SSTable for the tombstones in it.

use super::{Candidate, Output, Pick, option};
use std::collections::BTreeMap;

/// When an SSTable is worth rewriting for its tombstones.
#[derive(Clone, Debug)]
pub struct TombstoneOptions {
    /// Droppable part from which it is worth it.
    threshold: f64,
    /// Age from which it is worth it.
    interval_s: u64,
    /// Whether tombstones that may shadow data elsewhere count.
    unchecked: bool,
}

impl TombstoneOptions {
    /// Reads `tombstone_threshold`, `tombstone_compaction_interval`, `unchecked_tombstone_compaction`.
    pub fn new(map: &BTreeMap<String, String>) -> TombstoneOptions {
        TombstoneOptions {
            threshold: option(map, "tombstone_threshold", 0.2),
            interval_s: option(map, "tombstone_compaction_interval", 86_400),
            unchecked: option(map, "unchecked_tombstone_compaction", false),
        }
    }

    /// The SSTable with the largest droppable part, if one is worth it. Without `unchecked`, one that
    /// overlaps older data is not: its tombstones would have to stay.
    pub fn pick(&self, candidates: &[Candidate], output: impl Fn(&Candidate) -> Output) -> Option<Pick> {
        candidates
            .iter()
            .filter(|c| c.droppable_ratio > self.threshold && c.age_s > self.interval_s)
            .filter(|c| self.unchecked || !shadows_older(c, candidates))
            .max_by(|a, b| a.droppable_ratio.total_cmp(&b.droppable_ratio).then(b.id.cmp(&a.id)))
            .map(|c| Pick { inputs: vec![c.id], output: output(c) })
    }
}

fn shadows_older(candidate: &Candidate, all: &[Candidate]) -> bool {
    all.iter()
        .any(|o| o.id != candidate.id && o.overlaps(candidate) && o.timestamps.0 <= candidate.timestamps.1)
}
