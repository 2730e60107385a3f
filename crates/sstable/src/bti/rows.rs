//! Rows.db: where blocks of rows lie in a large partition (docs/formats/sstable-bti.md).
//!
//! ```text
//! trie of separators | entry := sbytes key | uvint position in the data | vint root - position of this field
//!                               | uvint number of blocks | deletion
//! payload := signed offset in the partition, as many bytes as bits 0..2 say | [bit 3: deletion open at the start]
//! ```
//! A separator is greater than everything before its block and not greater than the block's first position.
//! The first block's is empty; one more, behind the last block, has the offset of the partition's end.

use super::trie::TrieCursor;
use crate::index::Block;
use crate::pages::Cursor;
use bytes::Bytes;
use model::clustering::Position;
use model::{ClusteringBound, ClusteringComparator, Deletion, byte_comparable};
use partition::ReadError;
use partition::codec::{DeletionTimes, Input};
use std::cmp::Ordering;

pub(super) const OPEN_DELETION: u8 = 8;

/// What a block is taken for whose end is in a page that is not in memory: most of Ilion's and of Cassandra's
/// are no longer.
const BLOCK_BYTES_USUAL: u64 = 4 << 10;

/// An entry of Rows.db.
#[derive(Clone, Debug)]
pub(crate) struct RowsEntry {
    pub key: Bytes,
    /// Where the partition starts in the data.
    pub position: u64,
    /// The deletion of the partition.
    deletion: Deletion,
    root: u64,
}

impl RowsEntry {
    /// Reads the entry at the cursor.
    pub fn read(input: &mut Cursor, times: DeletionTimes) -> Result<RowsEntry, ReadError> {
        let start = input.position();
        let len = input.u16()? as u64;
        let key = input.bytes(len)?;
        let base = input.position();
        let position = input.uvint()?;
        let distance = input.vint()?;
        input.uvint()?;
        let deletion = times.read(input)?;
        match base.checked_add_signed(distance).filter(|root| *root < start) {
            Some(root) => Ok(RowsEntry { key, position, deletion, root }),
            None => Err(input.malformed(format!("the root of the rows at distance {distance}"))),
        }
    }

    /// The partition's blocks.
    pub fn rows(&self, input: Cursor, times: DeletionTimes) -> RowTrie {
        let (trie, deletion) = (TrieCursor::new(input, self.root), self.deletion);
        RowTrie {
            trie,
            ahead: None,
            times,
            header_len: None,
            deletion,
            limit: None,
            key: Vec::new(),
            is_believed: false,
        }
    }
}

/// The offset and the open deletion at the current separator.
fn read_separator(trie: &mut TrieCursor, times: DeletionTimes) -> Result<(u64, Deletion), ReadError> {
    let payload = trie.payload()?;
    let input = &mut trie.input;
    let Some(payload) = payload else {
        return Err(input.malformed("no separator here".to_owned()));
    };
    input.seek(payload.position);
    let len = payload.bits & !OPEN_DELETION;
    let offset = read_signed(input, len)?;
    if len == 0 || offset < 0 {
        return Err(input.malformed(format!("the offset {offset} in {len} bytes")));
    }
    let open = match payload.bits & OPEN_DELETION {
        0 => Deletion::NONE,
        _ => times.read(input)?,
    };
    Ok((offset as u64, open))
}

fn set_key(out: &mut Option<Vec<u8>>, separator: &TrieCursor) {
    let out = out.get_or_insert_default();
    out.clear();
    out.extend(separator.key());
}

/// Reads a big-endian number with its sign, of up to eight bytes.
pub(super) fn read_signed(input: &mut Cursor, len: u8) -> Result<i64, ReadError> {
    input.with_slice(len.into(), |bytes| {
        let sign = bytes.first().map_or(0, |byte| i64::from(*byte as i8) >> 8);
        bytes.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte))
    })
}

/// The blocks of a partition, in place.
#[derive(Clone, Debug)]
pub(crate) struct RowTrie {
    trie: TrieCursor,
    /// Looks at the separator behind the one that the trie is at.
    ahead: Option<TrieCursor>,
    times: DeletionTimes,
    /// Bytes from the partition's start to its first row or marker, when that is known.
    header_len: Option<u64>,
    /// The deletion of the partition.
    pub deletion: Deletion,
    /// The separator behind the block that was given last, if there is one; its own is where the trie is.
    limit: Option<Vec<u8>>,
    key: Vec<u8>,
    /// Whether what it says is right.
    is_believed: bool,
}

impl RowTrie {
    /// See [`crate::index::RowIndex::believe`].
    pub fn believe(&mut self) {
        self.is_believed = true;
    }

    /// Says how many bytes the data has before the first row or marker. No block may start before.
    pub fn set_header_len(&mut self, header_len: u64) {
        self.header_len = Some(header_len);
    }

    /// Bytes from the partition's start to its first row or marker: as the data has it, if that was said, or
    /// else as the first separator.
    pub fn header_len(&mut self) -> Result<u64, ReadError> {
        if let Some(header_len) = self.header_len {
            return Ok(header_len);
        }
        let mut first = self.trie.clone();
        first.seek_first()?;
        Ok(*self.header_len.insert(read_separator(&mut first, self.times)?.0))
    }

    /// Bytes from the partition's start to the byte that ends it.
    pub fn end(&mut self) -> Result<u64, ReadError> {
        let header_len = self.header_len()?;
        let mut last = self.trie.clone();
        last.seek_last()?;
        let end = read_separator(&mut last, self.times)?.0;
        match header_len < end {
            true => Ok(end),
            false => Err(last.input.malformed(format!("rows from {header_len} to {end}"))),
        }
    }

    /// The block that holds what is at `bound`, or would: whatever lies before it is less, whatever behind
    /// greater. Where the end of the block is in a page that is not in memory, a trie that is believed
    /// `may_guess` it.
    pub fn around(
        &mut self,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
        may_guess: bool,
    ) -> Result<Block, ReadError> {
        self.encode(comparator, bound.position());
        self.trie.seek_floor(&self.key)?;
        self.here(may_guess && self.is_believed)
    }

    fn encode(&mut self, comparator: &ClusteringComparator, position: Position<'_>) {
        self.key.clear();
        byte_comparable::encode_position(comparator, position, &mut self.key);
    }

    /// The block behind the one that was given last, which is `block`; `None` behind the last.
    pub fn behind(&mut self, block: &Block) -> Result<Option<Block>, ReadError> {
        if !self.trie.next()? {
            return Ok(None);
        }
        match self.starting_here(false)? {
            Some(next) if next.start != block.end => {
                let Block { start, end, .. } = next;
                Err(self.trie.input.malformed(format!("a block from {start} to {end}")))
            }
            next => Ok(next),
        }
    }

    /// Whether a row or marker at `position` may lie in the block that was given last.
    pub fn holds(&mut self, comparator: &ClusteringComparator, position: Position<'_>) -> bool {
        self.encode(comparator, position);
        let begins = self.trie.key().cmp(self.key.iter().copied());
        begins != Ordering::Greater && self.limit.as_ref().is_none_or(|limit| self.key < *limit)
    }

    /// The block of the current separator; of the last one, the block before. `may_guess` as for
    /// [`RowTrie::starting_here`].
    fn here(&mut self, may_guess: bool) -> Result<Block, ReadError> {
        match self.starting_here(may_guess)? {
            Some(block) => Ok(block),
            None => {
                let (end, _) = read_separator(&mut self.trie, self.times)?;
                self.step_back(end).map(|block| Block { open_at_end: Some(Deletion::NONE), ..block })
            }
        }
    }

    /// The block of the current separator; `None` at the last one, which none follows. Where the end of the
    /// block is in a page that is not in memory, it `may_guess` that.
    fn starting_here(&mut self, may_guess: bool) -> Result<Option<Block>, ReadError> {
        let (start, open) = read_separator(&mut self.trie, self.times)?;
        let (end, open_at_end) = match self.separator_behind(may_guess) {
            Ok(Some((end, open))) => (end, Some(open)),
            Ok(None) => return Ok(None),
            Err(ReadError::WouldBlock) if may_guess => {
                self.limit = None;
                (start.saturating_add(BLOCK_BYTES_USUAL), None)
            }
            Err(e) => return Err(e),
        };
        Ok(Some(Block { open_at_end, ..self.block(start, end, open)? }))
    }

    /// The offset and the open deletion at the separator behind the current one, if there is one.
    fn separator_behind(&mut self, in_memory_only: bool) -> Result<Option<(u64, Deletion)>, ReadError> {
        let ahead = match &mut self.ahead {
            Some(ahead) => {
                ahead.stand_at(&self.trie);
                ahead
            }
            none => none.insert(self.trie.clone()),
        };
        ahead.in_memory_only = in_memory_only;
        if !ahead.next()? {
            return Ok(None);
        }
        set_key(&mut self.limit, ahead);
        read_separator(ahead, self.times).map(Some)
    }

    /// The first block.
    pub fn first(&mut self) -> Result<Block, ReadError> {
        self.trie.seek_first()?;
        self.here(false)
    }

    /// The last block.
    pub fn last(&mut self) -> Result<Block, ReadError> {
        self.trie.seek_last()?;
        self.here(false)
    }

    /// The block before another one. A search since may have left the trie at a later block, never at an
    /// earlier one.
    pub fn before(&mut self, block: &Block) -> Result<Option<Block>, ReadError> {
        if block.start == self.header_len()? {
            return Ok(None);
        }
        while read_separator(&mut self.trie, self.times)?.0 > block.start && self.trie.previous()? {}
        match read_separator(&mut self.trie, self.times)?.0 == block.start {
            true => self.step_back(block.start).map(Some),
            false => Err(self.trie.input.malformed(format!("no separator of the block at {}", block.start))),
        }
    }

    fn step_back(&mut self, end: u64) -> Result<Block, ReadError> {
        set_key(&mut self.limit, &self.trie);
        if !self.trie.previous()? {
            return Err(self.trie.input.malformed(format!("no block before offset {end}")));
        }
        let (start, open) = read_separator(&mut self.trie, self.times)?;
        self.block(start, end, open)
    }

    fn block(&self, start: u64, end: u64, open: Deletion) -> Result<Block, ReadError> {
        let is_early =
            self.header_len.is_some_and(|first| start < first || start == first && !open.is_none());
        if is_early || start >= end {
            return Err(self.trie.input.malformed(format!("a block from {start} to {end}")));
        }
        Ok(Block { number: 0, start, end, open, open_at_end: None })
    }
}
