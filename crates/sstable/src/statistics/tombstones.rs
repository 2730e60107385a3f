//! When what is deleted or expires in an SSTable may be dropped: a histogram of at most 100 points in time.
//!
//! ```text
//! i32 max bins | i32 bins | bins * { f64 seconds, i64 count }        before `oa`
//!                         | bins * { i64 seconds, i32 count }        from `oa` on
//! ```

use model::NO_DELETION_TIME;
use partition::codec::{DecodeError, DeletionTimes, Input, SliceInput};
use std::collections::BTreeMap;

const BINS_MAX: usize = 100;
const ROUND_S: u32 = 60;
/// The last time that can be.
const SECONDS_MAX: u32 = NO_DELETION_TIME - 2;

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
        let rounded = seconds.div_ceil(ROUND_S).saturating_mul(ROUND_S).min(SECONDS_MAX);
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

    /// Points in time, in seconds, and how many deletions and expirations each stands for.
    pub fn bins(&self) -> impl Iterator<Item = (u32, u64)> {
        self.bins.iter().map(|(seconds, count)| (*seconds, *count))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>, times: DeletionTimes) {
        // Times that the version cannot hold fall together.
        let mut bins: BTreeMap<u32, u64> = BTreeMap::new();
        for (seconds, count) in &self.bins {
            let bin = bins.entry(times.to_bits(*seconds)).or_insert(0);
            *bin = bin.saturating_add(*count);
        }
        out.extend_from_slice(&(BINS_MAX as i32).to_be_bytes());
        out.extend_from_slice(&(bins.len() as i32).to_be_bytes());
        for (seconds, count) in bins {
            match times {
                DeletionTimes::Signed => {
                    out.extend_from_slice(&(seconds as f64).to_be_bytes());
                    out.extend_from_slice(&(count.min(i64::MAX as u64) as i64).to_be_bytes());
                }
                DeletionTimes::Unsigned => {
                    out.extend_from_slice(&(seconds as i64).to_be_bytes());
                    out.extend_from_slice(&(count.min(i32::MAX as u64) as i32).to_be_bytes());
                }
            }
        }
    }

    pub(super) fn decode(
        input: &mut SliceInput,
        times: DeletionTimes,
    ) -> Result<TombstoneHistogram, DecodeError> {
        input.i32()?;
        let count = input.i32()?;
        let bytes = if times == DeletionTimes::Signed { 16 } else { 12 };
        if count < 0 || count as usize * bytes > input.remaining() {
            return Err(input.malformed(format!("a histogram of {count} bins")));
        }
        let mut bins = BTreeMap::new();
        for _ in 0..count {
            let (seconds, n) = match times {
                DeletionTimes::Signed => (input.f64()? as i64, input.i64()?),
                DeletionTimes::Unsigned => (input.i64()?, input.i32()? as i64),
            };
            // Negative times come from expirations that overflowed.
            let seconds = u32::try_from(seconds).map_or(SECONDS_MAX, |s| s.min(SECONDS_MAX));
            let bin = bins.entry(seconds).or_insert(0u64);
            *bin = bin.saturating_add(n.max(0) as u64);
        }
        Ok(TombstoneHistogram { bins })
    }
}
