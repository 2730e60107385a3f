//! Histograms with buckets that grow by a fifth, as Cassandra keeps them.
//!
//! ```text
//! i32 buckets | buckets * { i64 offset, i64 count }     entry 0 repeats the first offset, entry i has offset i - 1
//! ```
//! Bucket `i` counts values above offset `i - 1` and up to offset `i`; the last one counts all above.

use partition::codec::{DecodeError, Input, SliceInput};
use std::sync::{Arc, OnceLock};

const BUCKETS_MAX: i32 = 1 << 16;

/// Offsets of a histogram of partition sizes, and of one of cell counts.
const SIZES: usize = 155;
const CELLS: usize = 118;

/// A histogram of sizes or counts. A node has two of them for each SSTable, so it takes little memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimatedHistogram {
    /// Shared by all that have the usual ones.
    offsets: Arc<[i64]>,
    /// Up to the last bucket that is in use.
    counts: Vec<i64>,
}

/// So many offsets that grow by a fifth.
fn growing(offsets: usize) -> Arc<[i64]> {
    let grown =
        std::iter::successors(Some(1i64), |last| Some((last + 1).max((*last as f64 * 1.2 + 0.5) as i64)));
    grown.take(offsets).collect()
}

/// The offsets that every histogram of so many has, if they are usual ones.
fn usual(offsets: usize) -> Option<Arc<[i64]>> {
    static OF_SIZES: OnceLock<Arc<[i64]>> = OnceLock::new();
    static OF_CELLS: OnceLock<Arc<[i64]>> = OnceLock::new();
    let shared = match offsets {
        SIZES => &OF_SIZES,
        CELLS => &OF_CELLS,
        _ => return None,
    };
    Some(Arc::clone(shared.get_or_init(|| growing(offsets))))
}

impl EstimatedHistogram {
    /// An empty histogram with the given number of offsets.
    pub fn new(offsets: usize) -> EstimatedHistogram {
        let offsets = usual(offsets).unwrap_or_else(|| growing(offsets));
        EstimatedHistogram { counts: Vec::new(), offsets }
    }

    /// A histogram for sizes of partitions in bytes.
    pub fn partition_sizes() -> EstimatedHistogram {
        EstimatedHistogram::new(SIZES)
    }

    /// A histogram for numbers of cells.
    pub fn cell_counts() -> EstimatedHistogram {
        EstimatedHistogram::new(CELLS)
    }

    /// Counts a value.
    pub fn add(&mut self, value: i64) {
        let at = self.offsets.partition_point(|offset| *offset < value);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
    }

    /// Number of values.
    pub fn count(&self) -> i64 {
        self.counts.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Upper limits of the buckets and how many values each holds; the last has no limit.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<i64>, i64)> {
        self.offsets.iter().map(|o| Some(*o)).chain([None]).zip(self.all_counts())
    }

    fn all_counts(&self) -> impl Iterator<Item = i64> {
        let unused = (self.offsets.len() + 1).saturating_sub(self.counts.len());
        self.counts.iter().copied().chain(std::iter::repeat_n(0, unused))
    }

    /// The mean, as far as the buckets tell.
    pub fn mean(&self) -> f64 {
        let count = self.count();
        if count == 0 {
            return 0.0;
        }
        let last = self.offsets.last().copied().unwrap_or(0);
        self.buckets().map(|(limit, n)| limit.unwrap_or(last) as f64 * n as f64).sum::<f64>() / count as f64
    }

    /// The smallest value, as far as the buckets tell: one more than the limit of the bucket before the first
    /// in use.
    pub fn min(&self) -> i64 {
        match self.counts.iter().position(|n| *n > 0) {
            None | Some(0) => 0,
            Some(at) => self.offsets.get(at - 1).map_or(0, |limit| limit + 1),
        }
    }

    /// The largest value, as far as the buckets tell: the limit of the last bucket in use.
    pub fn max(&self) -> i64 {
        let used = self.buckets().filter(|(_, n)| *n > 0).last();
        used.map_or(0, |(limit, _)| limit.unwrap_or(i64::MAX))
    }

    /// Whether the counted values may have the given sum. It has to lie between the sum of the smallest and
    /// the sum of the largest values that the buckets take.
    pub fn may_sum_to(&self, sum: u64) -> bool {
        let (mut least, mut most) = (0i128, Some(0i128));
        let lowest = [0].into_iter().chain(self.offsets.iter().map(|offset| offset.saturating_add(1)));
        for (lowest, (highest, count)) in lowest.zip(self.buckets()) {
            let count = i128::from(count);
            if count < 0 {
                return false;
            }
            least += i128::from(lowest) * count;
            most = match highest {
                _ if count == 0 => most,
                Some(highest) => most.map(|most| most + i128::from(highest) * count),
                None => None,
            };
        }
        least <= i128::from(sum) && most.is_none_or(|most| i128::from(sum) <= most)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.offsets.len() as i32 + 1).to_be_bytes());
        for (i, count) in self.all_counts().enumerate() {
            let offset = self.offsets.get(i.saturating_sub(1)).copied().unwrap_or(1);
            out.extend_from_slice(&offset.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
    }

    pub(super) fn decode(input: &mut SliceInput) -> Result<EstimatedHistogram, DecodeError> {
        let count = input.i32()?;
        if !(1..=BUCKETS_MAX).contains(&count) || count as usize * 16 > input.remaining() {
            return Err(input.malformed(format!("a histogram of {count} buckets")));
        }
        let (mut offsets, mut counts) = (Vec::new(), Vec::new());
        for i in 0..count {
            let offset = input.i64()?;
            if i > 0 {
                offsets.push(offset);
            }
            counts.push(input.i64()?);
        }
        if !offsets.is_sorted() {
            return Err(input.malformed("the offsets of a histogram do not ascend".to_owned()));
        }
        let in_use = counts.iter().rposition(|count| *count != 0).map_or(0, |last| last + 1);
        counts.truncate(in_use);
        counts.shrink_to_fit();
        let usual = usual(offsets.len()).filter(|usual| **usual == *offsets);
        Ok(EstimatedHistogram { offsets: usual.unwrap_or_else(|| offsets.into()), counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_lie_between_what_the_buckets_take() {
        let mut sizes = EstimatedHistogram::partition_sizes();
        assert!(sizes.may_sum_to(0) && !sizes.may_sum_to(1));
        // Buckets end at 86, 103, 124.
        sizes.add(100);
        sizes.add(104);
        for (sum, may) in [(190, false), (191, true), (204, true), (227, true), (228, false)] {
            assert_eq!(sizes.may_sum_to(sum), may, "{sum}");
        }
        sizes.add(i64::MAX);
        assert!(sizes.may_sum_to(u64::MAX) && !sizes.may_sum_to(227));
        sizes.counts[0] = -1;
        assert!(!sizes.may_sum_to(u64::MAX));
    }
}
