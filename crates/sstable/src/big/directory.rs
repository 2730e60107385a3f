//! The directory of an interval: where in it an entry of Index.db may be, by a part of the key's token.
//!
//! ```text
//! directory := n * u16 tag | n * u32 offset of the entry from the interval's start        little-endian
//! ```
//! An interval of the summary has 128 entries or so, of any length, and a search for a key would decode half of them.
//! The directory is made of the entries when an interval is first searched, and kept in the page cache; it is a
//! hint, so the key at the offset is compared all the same.

use super::index::IndexEntry;
use crate::pages::Cursor;
use model::DecoratedKey;
use model::key::{PartitionKey, Token};
use partition::ReadError;

/// Longer intervals have no directory: to make it would read a page for almost every entry.
pub(crate) const SPAN_BYTES_MAX: u64 = 64 << 10;

const TAG_BYTES: usize = 2;
const OFFSET_BYTES: usize = 4;

/// Keys are sorted by token, so its low bits are the ones that tell neighbours apart.
fn tag(token: Token) -> [u8; TAG_BYTES] {
    (token.0 as u16).to_le_bytes()
}

/// Makes the directory of the entries from `start` to `end`, which are at most [`SPAN_BYTES_MAX`] apart.
pub(crate) fn build(index: &mut Cursor, start: u64, end: u64) -> Result<Vec<u8>, ReadError> {
    let (mut tags, mut offsets) = (Vec::with_capacity(1 << 10), Vec::with_capacity(1 << 9));
    let mut at = start;
    while at < end {
        index.seek(at);
        let entry = IndexEntry::read(index)?;
        tags.extend_from_slice(&tag(DecoratedKey::new(PartitionKey(entry.key)).token));
        offsets.extend_from_slice(&((at - start) as u32).to_le_bytes());
        at = entry.end;
    }
    tags.append(&mut offsets);
    Ok(tags)
}

/// Offsets of the entries that may have a key of this token.
pub(crate) fn candidates(directory: &[u8], token: Token) -> impl Iterator<Item = u64> + '_ {
    let count = directory.len() / (TAG_BYTES + OFFSET_BYTES);
    let (tags, offsets) = directory.split_at_checked(count * TAG_BYTES).unwrap_or_default();
    let (tags, _) = tags.as_chunks::<TAG_BYTES>();
    let (offsets, _) = offsets.as_chunks::<OFFSET_BYTES>();
    let wanted = tag(token);
    tags.iter()
        .zip(offsets)
        .filter(move |(tag, _)| **tag == wanted)
        .map(|(_, offset)| u64::from(u32::from_le_bytes(*offset)))
}
