//! Index.db: where partitions lie, and where blocks of rows lie in large ones (docs/formats/sstable-nb.md).
//!
//! ```text
//! entry := sbytes key | uvint position in the data | uvint size of what follows, 0 when not indexed
//!          [ uvint header length | deletion | uvint n | n * block | n * i32 offset of the block's description ]
//! block := prefix first | prefix last | uvint offset in the partition | vint width - 65536
//!          | bool, [deletion] open at the end of the block
//! ```
//! The table of offsets lets a search touch only the blocks that it compares.

use crate::pages::Cursor;
use bytes::Bytes;
use model::clustering::Position;
use model::{BoundKind, Clustering, ClusteringBound, ClusteringComparator, Deletion, vint};
use partition::ReadError;
use partition::codec::{
    EncodeError, Input, Layout, read_deletion_time, read_prefix, write_deletion_time, write_prefix,
};
use std::cmp::Ordering;

const WIDTH_BASE: i64 = 64 << 10;
/// Bytes of a partition's header beside its key: the key's length and the deletion.
const HEADER_LEN_MIN: u64 = 14;

/// An entry of Index.db.
#[derive(Debug)]
pub(crate) struct IndexEntry {
    pub key: Bytes,
    /// Where the partition starts in the data.
    pub position: u64,
    /// Where the promoted index starts in Index.db, when there is one.
    promoted: Option<u64>,
    /// Where the next entry starts.
    pub end: u64,
}

impl IndexEntry {
    /// Reads the entry at the cursor and leaves the cursor behind it.
    pub fn read<I: Input>(input: &mut I) -> Result<IndexEntry, I::Error> {
        let len = input.u16()?;
        let key = input.bytes(len as u64)?;
        let position = input.uvint()?;
        let size = input.uvint()?;
        let start = input.position();
        input.skip(size)?;
        Ok(IndexEntry { key, position, promoted: (size > 0).then_some(start), end: input.position() })
    }

    /// The promoted index of the entry.
    pub fn promoted<I: Input + Seek>(&self, input: &mut I) -> Result<Option<PromotedIndex>, I::Error> {
        let Some(start) = self.promoted else { return Ok(None) };
        input.seek_to(start);
        let header_len = input.uvint()?;
        if header_len < HEADER_LEN_MIN + self.key.len() as u64 {
            return Err(input.malformed(format!("{header_len} bytes before the first row")));
        }
        read_deletion_time(input)?;
        let count = input.uvint()?;
        let blocks_at = input.position();
        let table_len = count.checked_mul(4).filter(|len| *len < self.end - blocks_at);
        let Some(offsets_at) = table_len.map(|len| self.end - len) else {
            return Err(input.malformed(format!("{count} blocks in {} bytes", self.end - blocks_at)));
        };
        if count == 0 {
            return Ok(None);
        }
        Ok(Some(PromotedIndex { header_len, blocks_at, offsets_at, count, scratch: Clustering::empty() }))
    }
}

/// An input that can go to any place.
pub(crate) trait Seek {
    /// Goes to an offset.
    fn seek_to(&mut self, position: u64);
}

impl Seek for Cursor {
    fn seek_to(&mut self, position: u64) {
        self.seek(position);
    }
}

/// The blocks of a partition, in place.
#[derive(Debug)]
pub(crate) struct PromotedIndex {
    /// Bytes from the partition's start to its first row or marker.
    pub header_len: u64,
    blocks_at: u64,
    offsets_at: u64,
    pub count: u64,
    scratch: Clustering,
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Bytes from the partition's start.
    pub offset: u64,
    /// Bytes of the block; of the last one the end of the partition may be a part.
    pub width: u64,
    /// The range deletion that is open at its end.
    pub open_at_end: Deletion,
}

impl PromotedIndex {
    fn seek_block<I: Input + Seek>(&self, input: &mut I, block: u64) -> Result<(), I::Error> {
        input.seek_to(self.offsets_at + block * 4);
        let offset = input.i32()?;
        let start = self.blocks_at + offset.max(0) as u64;
        if offset < 0 || start >= self.offsets_at {
            return Err(input.malformed(format!("block {block} described at offset {offset}")));
        }
        input.seek_to(start);
        Ok(())
    }

    /// Reads where a block lies.
    pub fn block<I: Input + Seek>(
        &mut self,
        input: &mut I,
        layout: &Layout,
        block: u64,
    ) -> Result<Block, I::Error> {
        self.seek_block(input, block)?;
        read_prefix(input, layout.clustering_types(), &mut self.scratch)?;
        read_prefix(input, layout.clustering_types(), &mut self.scratch)?;
        let offset = input.uvint()?;
        let width = input.vint()?.wrapping_add(WIDTH_BASE);
        let open_at_end = match input.u8()? {
            0 => Deletion::NONE,
            1 => read_deletion_time(input)?,
            other => return Err(input.malformed(format!("{other} where a boolean is expected"))),
        };
        if width <= 0 || offset < self.header_len || offset.checked_add(width as u64).is_none() {
            return Err(input.malformed(format!("block {block} at {offset} of {width} bytes")));
        }
        Ok(Block { offset, width: width as u64, open_at_end })
    }

    fn edge<I: Input + Seek>(
        &mut self,
        input: &mut I,
        layout: &Layout,
        block: u64,
        last: bool,
    ) -> Result<BoundKind, I::Error> {
        self.seek_block(input, block)?;
        let kind = read_prefix(input, layout.clustering_types(), &mut self.scratch)?;
        if last { read_prefix(input, layout.clustering_types(), &mut self.scratch) } else { Ok(kind) }
    }

    fn partition_point<I: Input + Seek>(
        &mut self,
        input: &mut I,
        layout: &Layout,
        last: bool,
        is_before: impl Fn(Position<'_>) -> bool,
    ) -> Result<u64, I::Error> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let kind = self.edge(input, layout, middle, last)?;
            if is_before(Position { kind, prefix: &self.scratch }) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The first block whose end does not lie before `bound`; the number of blocks when there is none.
    pub fn first_reaching<I: Input + Seek>(
        &mut self,
        input: &mut I,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
    ) -> Result<u64, I::Error> {
        self.partition_point(input, layout, true, |edge| {
            comparator.compare_positions(edge, bound.position()) == Ordering::Less
        })
    }

    /// The first block that starts behind `bound`; the number of blocks when there is none.
    pub fn first_behind<I: Input + Seek>(
        &mut self,
        input: &mut I,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
    ) -> Result<u64, I::Error> {
        self.partition_point(input, layout, false, |edge| {
            comparator.compare_positions(edge, bound.position()) != Ordering::Greater
        })
    }
}

/// Entries in order, for scans.
#[derive(Debug)]
pub(crate) struct IndexWalk {
    pub cursor: Cursor,
    next: u64,
}

impl IndexWalk {
    /// Starts at an entry.
    pub fn new(cursor: Cursor, start: u64) -> IndexWalk {
        IndexWalk { cursor, next: start }
    }

    /// The next entry; `None` at the end.
    pub fn next(&mut self) -> Result<Option<IndexEntry>, ReadError> {
        self.cursor.seek(self.next);
        if self.cursor.is_at_end() {
            return Ok(None);
        }
        let entry = IndexEntry::read(&mut self.cursor)?;
        self.next = entry.end;
        Ok(Some(entry))
    }

    /// The entry of the partition at `position`, which must not lie before the next entry's.
    pub fn advance_to(&mut self, position: u64) -> Result<IndexEntry, ReadError> {
        loop {
            match self.next()? {
                Some(entry) if entry.position == position => return Ok(entry),
                Some(entry) if entry.position < position => {}
                _ => {
                    let detail = format!("no entry of the partition at {position} of the data");
                    return Err(self.cursor.malformed(detail));
                }
            }
        }
    }

    /// Where the partition of the next entry starts; `None` at the end. The entry stays the next.
    pub fn peek_position(&mut self) -> Result<Option<u64>, ReadError> {
        let next = self.next;
        let position = self.next()?.map(|entry| entry.position);
        self.next = next;
        Ok(position)
    }
}

/// The promoted index of a partition that is being written.
#[derive(Debug, Default)]
pub(crate) struct PromotedIndexBuilder {
    blocks: Vec<u8>,
    offsets: Vec<u32>,
    first: Edge,
    last: Edge,
    block_start: u64,
    is_open: bool,
}

/// The position of a row or marker, kept in memory that is used again.
#[derive(Debug)]
struct Edge {
    kind: BoundKind,
    prefix: Clustering,
}

impl Default for Edge {
    fn default() -> Self {
        Edge { kind: BoundKind::Row, prefix: Clustering::empty() }
    }
}

impl Edge {
    fn set(&mut self, position: Position<'_>) {
        self.kind = position.kind;
        self.prefix.assign(position.prefix);
    }

    fn position(&self) -> Position<'_> {
        Position { kind: self.kind, prefix: &self.prefix }
    }
}

impl PromotedIndexBuilder {
    /// Forgets the partition before.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.offsets.clear();
        self.is_open = false;
    }

    /// Takes a row or marker that lies from `start` to `end` in the partition; `open` holds after it.
    pub fn add(
        &mut self,
        layout: &Layout,
        position: Position<'_>,
        (start, end): (u64, u64),
        open: &Deletion,
        block_len: u64,
    ) -> Result<(), EncodeError> {
        if !self.is_open {
            self.is_open = true;
            self.block_start = start;
            self.first.set(position);
        }
        self.last.set(position);
        if end - self.block_start >= block_len {
            self.close(layout, end, open)?;
        }
        Ok(())
    }

    fn close(&mut self, layout: &Layout, end: u64, open: &Deletion) -> Result<(), EncodeError> {
        self.offsets.push(self.blocks.len() as u32);
        write_prefix(&mut self.blocks, layout.clustering_types(), self.first.position())?;
        write_prefix(&mut self.blocks, layout.clustering_types(), self.last.position())?;
        vint::write_unsigned(&mut self.blocks, self.block_start);
        vint::write_signed(&mut self.blocks, (end - self.block_start) as i64 - WIDTH_BASE);
        self.blocks.push(!open.is_none() as u8);
        if !open.is_none() {
            write_deletion_time(&mut self.blocks, open);
        }
        self.is_open = false;
        Ok(())
    }

    /// Appends the entry of the partition, which ends at `end`, its last byte included.
    pub fn finish(
        &mut self,
        out: &mut Vec<u8>,
        layout: &Layout,
        (key, position): (&[u8], u64),
        header_len: u64,
        deletion: &Deletion,
        end: u64,
    ) -> Result<(), EncodeError> {
        if self.is_open {
            self.close(layout, end, &Deletion::NONE)?;
        }
        out.extend_from_slice(&(key.len() as u16).to_be_bytes());
        out.extend_from_slice(key);
        vint::write_unsigned(out, position);
        if self.offsets.len() < 2 {
            vint::write_unsigned(out, 0);
            return Ok(());
        }
        let mut head = Vec::with_capacity(32);
        vint::write_unsigned(&mut head, header_len);
        write_deletion_time(&mut head, deletion);
        vint::write_unsigned(&mut head, self.offsets.len() as u64);
        vint::write_unsigned(out, (head.len() + self.blocks.len() + 4 * self.offsets.len()) as u64);
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.blocks);
        self.offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
        Ok(())
    }
}
