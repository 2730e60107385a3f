//! When what is deleted or expires in an SSTable may be dropped: a histogram of at most 100 points in time.
//!
//! ```text
//! i32 max bins | i32 bins | bins * { f64 seconds, i64 count }
//! ```

use model::NO_DELETION_TIME;
use partition::codec::{DecodeError, Input, SliceInput};
use std::collections::BTreeMap;

const BINS_MAX: usize = 100;
const ROUND_S: u32 = 60;

/// A histogram of local deletion times.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TombstoneHistogram {
    /// Count of each time, in seconds.
    bins: BTreeMap<u32, u64>,
}

impl TombstoneHistogram {
    /// Counts a local deletion time, rounded up to a minute; none is not counted.
    pub fn add(&mut self, seconds: u32) {
        if seconds == NO_DELETION_TIME {
            return;
        }
        let rounded = seconds.div_ceil(ROUND_S).saturating_mul(ROUND_S).min(i32::MAX as u32 - 1);
        *self.bins.entry(rounded).or_insert(0) += 1;
        if self.bins.len() > BINS_MAX {
            self.merge_nearest();
        }
    }

    /// Puts the two bins that lie closest together into one between them.
    fn merge_nearest(&mut self) {
        let nearest = self
            .bins
            .iter()
            .zip(self.bins.iter().skip(1))
            .min_by_key(|((a, _), (b, _))| *b - *a)
            .map(|((a, m), (b, n))| (*a, *m, *b, *n));
        if let Some((a, m, b, n)) = nearest {
            self.bins.remove(&a);
            self.bins.remove(&b);
            let middle = (a as u128 * m as u128 + b as u128 * n as u128) / (m as u128 + n as u128).max(1);
            *self.bins.entry(middle as u32).or_insert(0) += m + n;
        }
    }

    /// About how many deletions and expirations lie at or before `seconds`.
    pub fn count_until(&self, seconds: u32) -> u64 {
        self.bins.range(..=seconds).fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(BINS_MAX as i32).to_be_bytes());
        out.extend_from_slice(&(self.bins.len() as i32).to_be_bytes());
        for (seconds, count) in &self.bins {
            out.extend_from_slice(&(*seconds as f64).to_be_bytes());
            out.extend_from_slice(&(*count as i64).to_be_bytes());
        }
    }

    pub(super) fn decode(input: &mut SliceInput) -> Result<TombstoneHistogram, DecodeError> {
        input.i32()?;
        let count = input.i32()?;
        if count < 0 || count as usize * 16 > input.remaining() {
            return Err(input.malformed(format!("a histogram of {count} bins")));
        }
        let mut bins = BTreeMap::new();
        for _ in 0..count {
            let seconds = input.f64()?;
            let n = input.i64()?.max(0) as u64;
            let bin = bins.entry(seconds as u32).or_insert(0u64);
            *bin = bin.saturating_add(n);
        }
        Ok(TombstoneHistogram { bins })
    }
}
