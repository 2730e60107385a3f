//! The bloom filter of an open SSTable, and how far its "no" is to be believed.
//!
//! Filter.db has no checksum, and a bit that is lost from it hides partitions. A filter is *proven* as a
//! whole when it was made here from Index.db, when Statistics.db holds its checksum ([`crate::statistics`]),
//! or when a walk over Index.db has found every key to pass. Otherwise it is proven piece by piece, for one
//! interval of the summary at a time. The first read that the filter turns away there walks the interval's
//! entries in Index.db, which costs what a false positive costs. If all their keys pass, no later "no" in
//! that interval can be wrong. A filter that some key does not pass is not asked any more.

use crate::bloom::BloomFilter;
use model::DecoratedKey;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A bloom filter and what is known of its soundness. The flags guard no other memory, so their order is of
/// no matter.
#[derive(Debug)]
pub(crate) struct KeyFilter {
    bloom: BloomFilter,
    is_proven: AtomicBool,
    is_damaged: AtomicBool,
    /// A bit for each interval of the summary.
    proven: Vec<AtomicU64>,
}

/// What a walk over all keys found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilterCheck {
    /// Every key passes.
    Sound,
    /// It was told to stop.
    Stopped,
    /// A key does not pass; the text says which.
    Lacks(String),
}

/// Told now and then of the bytes that a walk went on; `false` ends it.
pub(crate) type Pace<'a> = &'a mut dyn FnMut(u64) -> bool;

/// Bytes between two calls.
pub(crate) const PACE_BYTES: u64 = 64 << 10;

impl KeyFilter {
    /// A filter that holds all keys.
    pub fn proven(bloom: BloomFilter) -> KeyFilter {
        KeyFilter {
            bloom,
            is_proven: AtomicBool::new(true),
            is_damaged: AtomicBool::new(false),
            proven: Vec::new(),
        }
    }

    /// A filter that may lack keys, over so many intervals of the summary.
    pub fn unproven(bloom: BloomFilter, intervals: usize) -> KeyFilter {
        KeyFilter {
            bloom,
            is_proven: AtomicBool::new(false),
            is_damaged: AtomicBool::new(false),
            proven: (0..intervals.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.bloom.memory_bytes() + self.proven.len() * 8
    }

    /// Whether the filter has the key, be that right or wrong.
    pub fn passes(&self, key: &DecoratedKey) -> bool {
        self.bloom.may_contain(key)
    }

    /// Whether all keys are known to pass.
    pub fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Whether the filter is asked: no key is known that it should pass and does not.
    pub fn is_asked(&self) -> bool {
        !self.is_damaged.load(Ordering::Relaxed)
    }

    /// Whether a key is certainly not there. `interval` finds the interval of the summary that it would lie
    /// in.
    #[inline]
    pub fn excludes(&self, key: &DecoratedKey, interval: impl FnOnce() -> Option<usize>) -> bool {
        !self.passes(key)
            && (self.is_proven()
                || (self.is_asked() && interval().is_some_and(|interval| self.is_proven_for(interval))))
    }

    fn is_proven_for(&self, interval: usize) -> bool {
        let bit = 1 << (interval % 64);
        self.proven.get(interval / 64).is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// All keys of an interval were found to pass.
    pub fn prove(&self, interval: usize) {
        if let Some(word) = self.proven.get(interval / 64) {
            word.fetch_or(1 << (interval % 64), Ordering::Relaxed);
        }
    }

    /// All keys were found to pass.
    pub fn prove_all(&self) {
        self.is_proven.store(true, Ordering::Relaxed);
    }

    /// A key was found that does not pass.
    pub fn give_up(&self) {
        self.is_proven.store(false, Ordering::Relaxed);
        self.is_damaged.store(true, Ordering::Relaxed);
    }
}
