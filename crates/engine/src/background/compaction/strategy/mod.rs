//! Compaction strategies: which SSTables of a table to compact next.
//!
//! Words. A *candidate* is what a strategy sees of an SSTable. A *pick* is a set of candidates to be
//! compacted together, with what its output shall look like. Strategies are pure: the same candidates, the
//! same pick. They are asked again after each flush and each compaction, with the candidates that no
//! compaction works on.
//!
//! All of them fall back, when nothing else is to do, to a single SSTable most of which is droppable
//! tombstones, and hand whole expired SSTables to be dropped without being read.

mod leveled;
mod size_tiered;
mod time_window;
mod tombstones;
mod unified;

pub use leveled::Leveled;
pub use size_tiered::SizeTiered;
pub use time_window::TimeWindow;
pub use tombstones::TombstoneOptions;
pub use unified::Unified;

use model::DecoratedKey;
use model::schema::CompactionOptions;
use std::collections::BTreeMap;
use std::str::FromStr;

/// What a strategy knows of an SSTable.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Names the SSTable in a [`Pick`].
    pub id: u64,
    /// Bytes of its data file.
    pub bytes: u64,
    /// Its level, for [`Leveled`].
    pub level: u32,
    /// Smallest and largest timestamp of its data, in microseconds.
    pub timestamps: (i64, i64),
    /// First and last key.
    pub keys: (DecoratedKey, DecoratedKey),
    /// Latest local deletion time in seconds: behind it (and gc_grace) everything in it has expired.
    pub max_local_deletion_time: u32,
    /// Estimated part of its cells that are tombstones old enough to be dropped, from 0 to 1.
    pub droppable_ratio: f64,
    /// Seconds since it was written.
    pub age_s: u64,
}

impl Candidate {
    /// Whether the key ranges of the two meet.
    pub fn overlaps(&self, other: &Candidate) -> bool {
        self.keys.0 <= other.keys.1 && other.keys.0 <= self.keys.1
    }

    /// Part of the ring between the first and the last key, in (0, 1].
    fn ring_share(&self) -> f64 {
        let width = (self.keys.1.token.0 as i128) - (self.keys.0.token.0 as i128);
        (width as f64 / 2f64.powi(64)).clamp(f64::MIN_POSITIVE, 1.0)
    }
}

/// What a compaction's output shall look like.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Level of the new SSTables.
    pub level: u32,
    /// A new SSTable is started at the first partition after this many bytes; `u64::MAX` for one SSTable.
    pub sstable_bytes: u64,
    /// Number of equal parts of the ring; a new SSTable is started at each border. 1 for no borders.
    pub shards: u32,
    /// Each new SSTable is half of what is left of `sstable_bytes`, until that is little.
    pub halves: bool,
}

/// Nothing smaller is made where SSTables are halves of each other.
const HALF_BYTES_MIN: u64 = 50 << 20;

impl Output {
    /// One SSTable, level 0.
    pub const ONE: Output = Output { level: 0, sstable_bytes: u64::MAX, shards: 1, halves: false };

    /// Bytes after which the new SSTable ends that so many were made before.
    pub fn bytes_of(&self, before: usize) -> u64 {
        if !self.halves {
            return self.sstable_bytes;
        }
        let half = u32::try_from(before + 1).ok().and_then(|n| self.sstable_bytes.checked_shr(n));
        half.filter(|half| *half >= HALF_BYTES_MIN).unwrap_or(u64::MAX)
    }
}

/// SSTables to be compacted together.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// Ids of the candidates.
    pub inputs: Vec<u64>,
    /// The output.
    pub output: Output,
}

/// A strategy with its options.
pub trait Strategy: Send + Sync {
    /// The next SSTables to compact, `None` when there is nothing to do.
    fn pick(&self, candidates: &[Candidate]) -> Option<Pick>;

    /// Whether a table's compactions must not run beside each other: the levels of one would not see what
    /// another is about to put there.
    fn runs_alone(&self) -> bool {
        false
    }

    /// Estimated number of compactions until there is nothing to do.
    fn pending(&self, candidates: &[Candidate]) -> usize;

    /// Everything together, when a user asks for it: one pick for each output that must stay apart.
    fn major(&self, candidates: &[Candidate]) -> Vec<Pick> {
        match candidates {
            [] => Vec::new(),
            all => vec![Pick { inputs: ids(all), output: Output::ONE }],
        }
    }
}

/// The strategy that a table's options name; one that is not known compacts as size-tiered does.
pub fn from_options(options: &CompactionOptions) -> Box<dyn Strategy> {
    let map = &options.options;
    match options.short_class() {
        "LeveledCompactionStrategy" => Box::new(Leveled::new(map)),
        "TimeWindowCompactionStrategy" => Box::new(TimeWindow::new(map)),
        "UnifiedCompactionStrategy" => Box::new(Unified::new(map)),
        _ => Box::new(SizeTiered::new(map)),
    }
}

/// Whether the table compacts by itself (`'enabled': 'true'`, the default).
pub fn is_enabled(options: &CompactionOptions) -> bool {
    options.options.get("enabled").is_none_or(|v| !v.eq_ignore_ascii_case("false"))
}

/// SSTables of which everything has expired and shadows nothing in the others: they can be dropped unread
/// (Cassandra's `getFullyExpiredSSTables`).
pub fn fully_expired<'a>(
    candidates: &'a [Candidate],
    others: &[Candidate],
    oldest_unflushed_micros: i64,
    gc_before_s: u32,
) -> Vec<&'a Candidate> {
    let dead = |c: &Candidate| c.max_local_deletion_time < gc_before_s;
    // What may still be shadowed: data that is not itself about to be dropped.
    let living = candidates.iter().filter(|c| !dead(c)).chain(others);
    let oldest_living = living.map(|c| c.timestamps.0).min().unwrap_or(i64::MAX).min(oldest_unflushed_micros);
    candidates.iter().filter(|c| dead(c) && c.timestamps.1 < oldest_living).collect()
}

fn ids(candidates: &[Candidate]) -> Vec<u64> {
    candidates.iter().map(|c| c.id).collect()
}

/// An option as a number; statements validate options, so what does not parse here gets the default.
fn option<T: FromStr>(map: &BTreeMap<String, String>, name: &str, default: T) -> T {
    map.get(name).and_then(|v| v.trim().parse().ok()).unwrap_or(default)
}

#[cfg(test)]
mod tests;
