//! The directory of an interval: where in Index.db, and where in the data, a key of the interval may be. An
//! interval is one of the summary, or a part of one, where there are samples between the summary's
//! (`big/samples.rs`).
//!
//! ```text
//! directory := i64 token of the first entry | u64 place of its partition in the data | u64 shift
//!              | n * ( u32 tag | u32 place of the partition behind the first one's )
//!              | n * u32 offset of the entry from the interval's start                     little-endian
//! tag       := (token - token of the first entry) >> shift, so that the last one's takes 32 bits
//! ```
//! An interval of the summary has 128 entries or so, of any length, and a search for a key would decode half
//! of them. The directory is made of the entries when an interval is first searched, and kept in the page
//! cache. Tags ascend as tokens do, so a search finds a key. It begins where the key's token lies between the
//! tokens at the ends. Tokens are spread evenly, so the search looks at few lines of the processor's cache. A
//! partition without an index of rows is found in the data without another look at Index.db, which would say
//! no more than its place. All of it is a hint. The key at the place, or at the offset, is compared. A key
//! that is not found through the directory is searched for in the entries.

use super::index::IndexEntry;
use crate::pages::{Course, Cursor, INDEX_PAGE_BYTES};
use model::DecoratedKey;
use model::key::{PartitionKey, Token};
use partition::ReadError;
use partition::codec::Input;

/// Longer intervals have no directory: an offset has no room for them.
pub(crate) const SPAN_BYTES_MAX: u64 = u32::MAX as u64;
/// In longer intervals the first key is looked for without the directory. In others its page of Index.db
/// would be looked at for its sake alone.
pub(crate) const NEAR_BYTES: u64 = 2 * INDEX_PAGE_BYTES;
/// Nor have intervals of more entries than any summary leaves out.
const ENTRIES_MAX: usize = 16 << 10;

const HEADER_BYTES: usize = 24;
/// A tag, an offset or a place.
const NUMBER_BYTES: usize = 4;
/// The place of a partition that has an index of rows, or lies too far behind the first one.
const NO_PLACE: u32 = u32::MAX;

/// An entry that may be a key's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Where the entry starts, in bytes from the interval's start.
    pub offset: u64,
    /// Where its partition starts in the data, if that is all that the entry says.
    pub position: Option<u64>,
}

/// Makes the directory of the entries from `start` to `end`, which are at most [`SPAN_BYTES_MAX`] apart.
pub(crate) fn build(index: &mut Cursor, start: u64, end: u64) -> Result<Vec<u8>, ReadError> {
    let (mut tokens, mut offsets, mut positions) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = start;
    index.look_ahead(|ahead| ahead.course = Course::Forward(end));
    while at < end {
        index.seek(at);
        let entry = IndexEntry::read(index)?;
        if offsets.len() >= ENTRIES_MAX {
            return Err(index.malformed(format!("more than {ENTRIES_MAX} entries from {start} on")));
        }
        offsets.push((at - start) as u32);
        positions.push((entry.position, entry.has_rows()));
        at = entry.end;
        tokens.push(DecoratedKey::new(PartitionKey(entry.key)).token);
    }
    let first = tokens.first().copied().unwrap_or(Token::MIN);
    let base = positions.first().map_or(0, |(position, _)| *position);
    let span = tokens.last().map_or(0, |last| distance(first, *last));
    let shift = (u64::BITS - span.leading_zeros()).saturating_sub(u32::BITS);
    let place = |(position, has_rows): &(u64, bool)| {
        let place = position.checked_sub(base).and_then(|place| u32::try_from(place).ok());
        place.filter(|_| !has_rows).unwrap_or(NO_PLACE)
    };
    let tags = tokens.iter().map(|token| (distance(first, *token) >> shift) as u32);
    let pairs = tags.zip(positions.iter().map(place)).flat_map(|(tag, place)| [tag, place]);
    let mut out = Vec::with_capacity(HEADER_BYTES + 3 * NUMBER_BYTES * tokens.len());
    out.extend_from_slice(&first.0.to_le_bytes());
    out.extend_from_slice(&base.to_le_bytes());
    out.extend_from_slice(&u64::from(shift).to_le_bytes());
    for number in pairs.chain(offsets) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    Ok(out)
}

/// How far `token` lies behind `first`, around the ring if it does not.
fn distance(first: Token, token: Token) -> u64 {
    token.0.wrapping_sub(first.0) as u64
}

/// Where in an interval a token may be expected whose entries begin with one token and end before another:
/// between 0 and 1.
pub(crate) fn expected(first: Token, token: Token, behind: Token) -> f64 {
    distance(first, token) as f64 / distance(first, behind).max(1) as f64
}

/// The entries that may have a key of this token, which is `expected` there.
pub(crate) fn candidates(
    directory: &[u8],
    token: Token,
    expected: f64,
) -> impl Iterator<Item = Candidate> + '_ {
    let (header, numbers) = directory.split_at_checked(HEADER_BYTES).unwrap_or_default();
    let (header, _) = header.as_chunks::<8>();
    let header = |at: usize| header.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (first, base, shift) = (Token(header(0) as i64), header(1), header(2));
    let count = numbers.len() / (3 * NUMBER_BYTES);
    let (pairs, offsets) = numbers.split_at_checked(2 * NUMBER_BYTES * count).unwrap_or_default();
    let ((pairs, _), (offsets, _)) = (pairs.as_chunks::<8>(), offsets.as_chunks::<NUMBER_BYTES>());
    // The tag in the lower half, the place in the upper one.
    let pair = move |at: usize| pairs.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let tag = move |at: usize| u64::from(pair(at) as u32);
    let wanted = distance(first, token).checked_shr(shift as u32).unwrap_or(u64::MAX);
    let start = partition_point_near((count as f64 * expected) as usize, count, |at| tag(at) < wanted);
    (start..count).take_while(move |at| tag(*at) == wanted).map(move |at| Candidate {
        offset: offsets.get(at).map_or(0, |bytes| u32::from_le_bytes(*bytes)).into(),
        position: match (pair(at) >> u32::BITS) as u32 {
            NO_PLACE => None,
            place => Some(base.saturating_add(place.into())),
        },
    })
}

/// The first of `count` for which `is_before` does not hold, which is expected near `guess`: steps away from
/// there are doubled until it lies between two of them.
pub(super) fn partition_point_near(guess: usize, count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    let (mut at, mut step) = (guess.min(count.saturating_sub(1)), 1);
    while low < high {
        if is_before(at) {
            low = at + 1;
            at = if high == count { low.saturating_add(step) } else { low + (high - low) / 2 };
        } else {
            high = at;
            at = if low == 0 { high.saturating_sub(step + 1) } else { low + (high - low) / 2 };
        }
        at = at.min(high.saturating_sub(1));
        step *= 2;
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_found_from_any_guess() {
        for count in 0..40 {
            for found in 0..=count {
                for guess in 0..45 {
                    assert_eq!(partition_point_near(guess, count, |at| at < found), found, "{count} {guess}");
                }
            }
        }
    }

    #[test]
    fn a_good_guess_looks_at_few_entries() {
        for found in 10..990usize {
            let looks = std::cell::Cell::new(0);
            let guess = found.saturating_add_signed(found as isize % 5 - 2);
            partition_point_near(guess, 1000, |at| {
                looks.set(looks.get() + 1);
                assert!(at.abs_diff(found) <= 8, "{found}: looked at {at}");
                at < found
            });
            assert!(looks.get() <= 5, "{found}: {} looks", looks.get());
        }
    }
}
