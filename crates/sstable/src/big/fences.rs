//! Fences between the blocks of large promoted indexes: where a search among them is to begin.
//!
//! A search guesses where a clustering would lie if all lay evenly ([`super::search`]). In a time series with
//! gaps the guess is far off, and each guess takes two pages of Index.db. So each 64th block of a large index
//! has a fence, or more blocks where descriptions are long. A fence is text that is greater than everything
//! before the block and not greater than its first position, cut as short as that allows. Separators of the
//! `bti` layout are the same. A bound lies between two fences.
//!
//! ```text
//! fences := ( u64 where the entry ends in Index.db | u32 blocks from one fence to the next | u32 fences
//!           | ( u16 length | text ) of each ) of each partition that has some, in the order of the file
//! ```
//! They are kept in Proof.db (docs/formats/proof.md), whose checksum covers them, and in memory: 7 to 8 bytes
//! for each where a number is the clustering.

use super::directory::partition_point_near;
use crate::pages::INDEX_PAGE_BYTES;
use bytes::Bytes;
use model::ClusteringComparator;
use model::byte_comparable;
use model::clustering::Position;
use partition::codec::{DecodeError, Input, SliceInput};
use std::ops::Range;

/// Blocks from one fence to the next, at most.
const BLOCKS_BETWEEN_MAX: usize = 64;
/// An index whose descriptions take less lies in few pages.
pub(crate) const FENCED_BYTES_MIN: u64 = 24 << 10;

/// Blocks from one fence to the next in an index of `blocks` blocks, whose descriptions take
/// `described_bytes`. It is about as many as one page describes. `None` if the index needs no fences.
pub(crate) fn blocks_between(blocks: usize, described_bytes: usize) -> Option<usize> {
    let in_page = blocks.saturating_mul(INDEX_PAGE_BYTES as usize) / described_bytes.max(1);
    (described_bytes as u64 >= FENCED_BYTES_MIN).then_some(in_page.clamp(1, BLOCKS_BETWEEN_MAX))
}

/// The fences of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fences {
    partitions: Vec<Fenced>,
    /// Where each fence ends in the text of all.
    ends: Vec<u32>,
    text: Vec<u8>,
}

/// A partition that has fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fenced {
    entry_end: u64,
    /// Blocks from one fence to the next.
    between: u32,
    /// How many fences there are before its own, and up to its last.
    start: u32,
    end: u32,
}

impl Fences {
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(self.partitions.as_slice()) + size_of_val(self.ends.as_slice()) + self.text.len()
    }

    /// Adds the fences of the partition whose entry ends at `entry_end`, with `between` blocks from one to
    /// the next. Adds none if one of them is too long.
    pub fn add(&mut self, entry_end: u64, between: u32, fences: &[Vec<u8>]) {
        let len = fences.iter().map(Vec::len).sum::<usize>();
        let fits = u32::try_from(self.text.len() + len).is_ok() && fences.iter().all(|f| f.len() <= 0xffff);
        if !fits || fences.is_empty() {
            return;
        }
        let start = self.ends.len() as u32;
        for fence in fences {
            self.text.extend_from_slice(fence);
            self.ends.push(self.text.len() as u32);
        }
        let end = self.ends.len() as u32;
        self.partitions.push(Fenced { entry_end, between, start, end });
    }

    fn fence(&self, number: u32) -> &[u8] {
        let end = |number: u32| self.ends.get(number as usize).map_or(0, |end| *end as usize);
        let start = number.checked_sub(1).map_or(0, end);
        self.text.get(start..end(number)).unwrap_or_default()
    }

    /// The blocks between the fences before and behind a position, in the partition whose entry ends there;
    /// the last may not exist. `None` if it has no fences. They are looked for from block `guess` on. `key`
    /// is overwritten.
    pub fn around(
        &self,
        entry_end: u64,
        comparator: &ClusteringComparator,
        position: Position<'_>,
        guess: u64,
        key: &mut Vec<u8>,
    ) -> Option<Range<u64>> {
        let at = self.partitions.binary_search_by_key(&entry_end, |partition| partition.entry_end).ok()?;
        let partition = self.partitions.get(at)?;
        key.clear();
        byte_comparable::encode_position(comparator, position, key);
        let (between, count) = (u64::from(partition.between), partition.end - partition.start);
        let before = partition_point_near((guess / between) as usize, count as usize, |number| {
            self.fence(partition.start + number as u32) <= key.as_slice()
        });
        let (before, count) = (before as u64, u64::from(count));
        let end = if before == count { u64::MAX } else { (before + 1) * between };
        Some(before * between..end)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 * self.partitions.len() + 2 * self.ends.len() + self.text.len());
        for Fenced { entry_end, between, start, end } in &self.partitions {
            out.extend_from_slice(&entry_end.to_be_bytes());
            out.extend_from_slice(&between.to_be_bytes());
            out.extend_from_slice(&(end - start).to_be_bytes());
            for number in *start..*end {
                let fence = self.fence(number);
                out.extend_from_slice(&(fence.len() as u16).to_be_bytes());
                out.extend_from_slice(fence);
            }
        }
        out
    }

    pub fn decode(bytes: Bytes) -> Result<Fences, DecodeError> {
        let mut input = SliceInput::new(bytes);
        let mut fences = Fences::default();
        while input.remaining() > 0 {
            let entry_end = u64::from_be_bytes(input.array()?);
            let between = u32::from_be_bytes(input.array()?);
            let count = u32::from_be_bytes(input.array()?);
            let is_behind = fences.partitions.last().is_none_or(|before| before.entry_end < entry_end);
            if between == 0 || count == 0 || !is_behind {
                return Err(
                    input.malformed(format!("{count} fences for each {between} blocks at {entry_end}"))
                );
            }
            let start = fences.ends.len() as u32;
            for _ in 0..count {
                let len = input.u16()?;
                let text = &mut fences.text;
                input.with_slice(len.into(), |fence| text.extend_from_slice(fence))?;
                fences.ends.push(fences.text.len() as u32);
            }
            let end = fences.ends.len() as u32;
            fences.partitions.push(Fenced { entry_end, between, start, end });
        }
        Ok(fences)
    }
}

/// Appends the shortest text that is greater than the position `last` and not greater than `first`, which
/// follows it; both as [`byte_comparable`] has them. False, with nothing appended, where there is none: an
/// empty value and a null inside of a tuple have the same encoding.
pub(crate) fn separator(last: &[u8], first: &[u8], out: &mut Vec<u8>) -> bool {
    let common = last.iter().zip(first).take_while(|(a, b)| a == b).count();
    let (Some(before), Some(after)) = (last.get(common), first.get(common)) else { return false };
    if before > after {
        return false;
    }
    out.extend(first.iter().take(common).chain([&(before + 1)]));
    true
}
