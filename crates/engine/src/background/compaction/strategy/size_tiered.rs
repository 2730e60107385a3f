//! Size-tiered: SSTables of similar size are compacted together.
//!
//! 1. SSTables are sorted by size and put into buckets: one joins a bucket when its size lies between
//!    `bucket_low` and `bucket_high` times the bucket's average, or when both are below `min_sstable_size`.
//! 2. A bucket of `min_threshold` or more is worth a compaction; the one of the smallest SSTables goes first,
//!    and no more than `max_threshold` of its smallest.

use super::{Candidate, Output, Pick, Strategy, TombstoneOptions, ids, option};
use std::collections::BTreeMap;

/// The strategy; also what [`super::TimeWindow`] does inside its newest window and [`super::Leveled`] in a
/// crowded level 0.
#[derive(Clone, Debug)]
pub struct SizeTiered {
    min_threshold: usize,
    max_threshold: usize,
    min_sstable_bytes: u64,
    bucket_low: f64,
    bucket_high: f64,
    tombstones: TombstoneOptions,
}

impl SizeTiered {
    /// Reads the strategy's options.
    pub fn new(map: &BTreeMap<String, String>) -> SizeTiered {
        SizeTiered {
            min_threshold: option(map, "min_threshold", 4usize).max(2),
            max_threshold: option(map, "max_threshold", 32usize).max(2),
            min_sstable_bytes: option(map, "min_sstable_size", 50 << 20),
            bucket_low: option(map, "bucket_low", 0.5),
            bucket_high: option(map, "bucket_high", 1.5),
            tombstones: TombstoneOptions::new(map),
        }
    }

    /// At most this many SSTables are compacted together.
    pub(super) fn max_threshold(&self) -> usize {
        self.max_threshold
    }

    /// How a single SSTable full of tombstones is found.
    pub(super) fn tombstones(&self) -> &TombstoneOptions {
        &self.tombstones
    }

    /// SSTables of similar size, each bucket sorted by size, buckets in the order of their sizes.
    fn buckets<'a>(&self, candidates: &'a [Candidate]) -> Vec<Vec<&'a Candidate>> {
        let mut sorted: Vec<&Candidate> = candidates.iter().collect();
        sorted.sort_by_key(|c| (c.bytes, c.id));
        let mut buckets: Vec<(f64, Vec<&Candidate>)> = Vec::new();
        for candidate in sorted {
            let size = candidate.bytes as f64;
            let joins = |average: f64| {
                (size > average * self.bucket_low && size < average * self.bucket_high)
                    || (candidate.bytes < self.min_sstable_bytes && average < self.min_sstable_bytes as f64)
            };
            match buckets.iter_mut().find(|(average, _)| joins(*average)) {
                Some((average, members)) => {
                    *average = (*average * members.len() as f64 + size) / (members.len() + 1) as f64;
                    members.push(candidate);
                }
                None => buckets.push((size, vec![candidate])),
            }
        }
        buckets.into_iter().map(|(_, members)| members).collect()
    }

    /// The ids of the next bucket to compact.
    pub(super) fn bucket(&self, candidates: &[Candidate]) -> Option<Vec<u64>> {
        self.buckets(candidates)
            .into_iter()
            .find(|b| b.len() >= self.min_threshold)
            .map(|b| b.iter().take(self.max_threshold).map(|c| c.id).collect())
    }

    /// Number of compactions that the buckets make.
    pub(super) fn pending_buckets(&self, candidates: &[Candidate]) -> usize {
        self.buckets(candidates)
            .iter()
            .filter(|b| b.len() >= self.min_threshold)
            .map(|b| b.len().div_ceil(self.max_threshold))
            .sum()
    }
}

impl Strategy for SizeTiered {
    fn pick(&self, candidates: &[Candidate]) -> Option<Pick> {
        match self.bucket(candidates) {
            Some(inputs) => Some(Pick { inputs, output: Output::ONE }),
            None => self.tombstones.pick(candidates, |_| Output::ONE),
        }
    }

    fn pending(&self, candidates: &[Candidate]) -> usize {
        self.pending_buckets(candidates)
    }

    fn major(&self, candidates: &[Candidate]) -> Vec<Pick> {
        match candidates {
            [] => Vec::new(),
            all => vec![Pick { inputs: ids(all), output: Output::ONE }],
        }
    }
}
