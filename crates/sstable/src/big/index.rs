//! Index.db: where partitions lie, and where blocks of rows lie in large ones (docs/formats/sstable-big.md).
//!
//! ```text
//! entry := sbytes key | uvint position in the data | uvint size of what follows, 0 when not indexed
//!          [ uvint header length | deletion | uvint n | n * block | n * i32 offset of the block's description ]
//! block := prefix first | prefix last | uvint offset in the partition | vint width - 65536
//!          | bool, [deletion] open at the end of the block
//! ```
//! The table of offsets lets a search touch only the blocks that it compares.

use super::fences::FENCED_BYTES_MIN;
use super::search::Search;
use crate::index::{Block, Hints};
use crate::pages::{Course, Cursor};
use bytes::Bytes;
use model::clustering::Position;
use model::{BoundKind, Clustering, ClusteringBound, ClusteringComparator, Deletion};
use partition::ReadError;
use partition::codec::{DeletionTimes, Input, Layout, read_prefix, skip_prefix};
use std::cmp::Ordering;
use std::ops::Range;

pub(super) const WIDTH_BASE: i64 = 64 << 10;
/// Descriptions of the blocks between two fences are read at once if they are as short as that.
const TOGETHER_BYTES_MAX: u64 = 16 << 10;
/// Bytes of the length of a partition's key.
const KEY_LEN_BYTES: u64 = 2;

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

    /// Whether there is an index of the partition's rows.
    pub fn has_rows(&self) -> bool {
        self.promoted.is_some()
    }

    /// The promoted index of the entry, read through the cursor.
    pub fn promoted(
        &self,
        mut input: Box<Cursor>,
        times: DeletionTimes,
    ) -> Result<Option<Box<PromotedIndex>>, ReadError> {
        let Some(start) = self.promoted else { return Ok(None) };
        input.seek(start);
        let header_len = input.uvint()?;
        if header_len < KEY_LEN_BYTES + self.key.len() as u64 + times.bytes_min() {
            return Err(input.malformed(format!("{header_len} bytes before the first row")));
        }
        let deletion = times.read(&mut *input)?;
        let count = input.uvint()?;
        let blocks_at = input.position();
        // The size of a damaged entry may end it inside of the header.
        let rest = self.end.saturating_sub(blocks_at);
        let table_len = count.checked_mul(4).filter(|len| *len < rest);
        let Some(offsets_at) = table_len.map(|len| self.end - len) else {
            return Err(input.malformed(format!("{count} blocks in {rest} bytes")));
        };
        if count == 0 {
            return Ok(None);
        }
        Ok(Some(Box::new(PromotedIndex {
            header_len,
            deletion,
            blocks_at,
            offsets_at,
            count,
            offsets: Cursor::clone(&input),
            input,
            first: Edge::default(),
            last: Edge::default(),
            search: Search::default(),
            key: Vec::new(),
            together: None,
            is_believed: false,
            may_delete: true,
        })))
    }
}

/// The blocks of a partition, in place.
#[derive(Debug)]
pub(crate) struct PromotedIndex {
    /// Bytes from the partition's start to its first row or marker.
    pub header_len: u64,
    /// The deletion of the partition.
    pub deletion: Deletion,
    blocks_at: u64,
    offsets_at: u64,
    count: u64,
    /// Over descriptions.
    input: Box<Cursor>,
    /// Over the table of offsets: each stays on its page.
    offsets: Cursor,
    /// The first and the last position of the block that was described last.
    first: Edge,
    last: Edge,
    search: Search,
    /// What is searched for, as fences have it.
    key: Vec<u8>,
    /// The offsets and the descriptions of the blocks that a search was narrowed to.
    together: Option<(Range<u64>, Range<u64>)>,
    /// Whether what it says is right.
    is_believed: bool,
    /// Whether range deletions may be open anywhere.
    may_delete: bool,
}

/// What Index.db says of a block.
#[derive(Clone, Copy, Debug)]
struct Described {
    start: u64,
    end: u64,
    open_at_end: Deletion,
}

/// The description of a block, but for its positions, as it is read.
struct RawBlock {
    start: u64,
    width: i64,
    open_at_end: Deletion,
}

impl RawBlock {
    /// Reads a description; the positions into `edges`, where somebody wants them.
    #[inline]
    fn read<I: Input>(
        input: &mut I,
        layout: &Layout,
        edges: Option<(&mut Edge, &mut Edge)>,
    ) -> Result<RawBlock, I::Error> {
        match edges {
            Some((first, last)) => {
                first.read(input, layout)?;
                last.read(input, layout)?;
            }
            None => {
                skip_prefix(input, layout.clustering_types())?;
                skip_prefix(input, layout.clustering_types())?;
            }
        }
        let start = input.uvint()?;
        let width = input.vint()?.wrapping_add(WIDTH_BASE);
        let open_at_end = match input.u8()? {
            0 => Deletion::NONE,
            1 => layout.deletion_times().read(input)?,
            other => return Err(input.malformed(format!("{other} where a boolean is expected"))),
        };
        Ok(RawBlock { start, width, open_at_end })
    }
}

impl PromotedIndex {
    /// See [`crate::index::RowIndex::believe`].
    pub fn believe(&mut self, may_delete: bool) {
        (self.is_believed, self.may_delete) = (true, may_delete);
    }

    /// Says that a search will look at some of these blocks: each part of the index that is not in memory is
    /// read at once.
    fn read_together(&mut self, blocks: Range<u64>) -> Result<(), ReadError> {
        let offsets =
            self.offsets_at + blocks.start * 4..self.offsets_at + (blocks.end + 1).min(self.count) * 4;
        self.together = Some((offsets.clone(), 0..0));
        let start = self.description_at(blocks.start)?;
        let end = if blocks.end < self.count { self.description_at(blocks.end)? } else { self.offsets_at };
        let is_short = end.saturating_sub(start) <= TOGETHER_BYTES_MAX;
        self.together = Some((offsets, if is_short { start..end } else { 0..0 }));
        Ok(())
    }

    /// Where a block is described.
    fn description_at(&mut self, block: u64) -> Result<u64, ReadError> {
        let (at, table) = (self.offsets_at + block * 4, self.offsets_at..self.offsets_at + self.count * 4);
        let together =
            self.together.as_ref().map(|(offsets, _)| offsets).filter(|offsets| offsets.contains(&at));
        self.offsets.look_ahead(|ahead| match together {
            Some(offsets) => ahead.set_near_all(offsets),
            None => ahead.set_near(at, 0, &table),
        });
        self.offsets.seek(at);
        let offset = self.offsets.i32()?;
        let start = self.blocks_at + offset.max(0) as u64;
        if offset < 0 || start >= self.offsets_at {
            return Err(self.offsets.malformed(format!("block {block} described at offset {offset}")));
        }
        Ok(start)
    }

    fn seek_block(&mut self, block: u64) -> Result<(), ReadError> {
        let start = self.description_at(block)?;
        let descriptions = self.blocks_at..self.offsets_at;
        let together = self.together.as_ref().map(|(_, described)| described);
        self.input.look_ahead(|ahead| match together.filter(|described| described.contains(&start)) {
            Some(described) => ahead.set_near_all(described),
            None => ahead.set_near(start, 0, &descriptions),
        });
        self.input.seek(start);
        Ok(())
    }

    /// A description has to end where the next one, or the table of offsets, begins.
    fn described(&mut self, layout: &Layout, block: u64) -> Result<Described, ReadError> {
        let described_until = match self.is_believed {
            true => None,
            false if block + 1 < self.count => Some(self.description_at(block + 1)?),
            false => Some(self.offsets_at),
        };
        self.seek_block(block)?;
        let input = &mut *self.input;
        input.page()?;
        // Only what is not believed is compared with what lies in the block.
        let mut edges = (!self.is_believed).then_some((&mut self.first, &mut self.last));
        let in_page = input.decode_in_page(|page| {
            RawBlock::read(page, layout, edges.as_mut().map(|(first, last)| (&mut **first, &mut **last)))
        });
        let RawBlock { start, width, open_at_end } = match in_page {
            Some(block) => block,
            None => RawBlock::read(input, layout, edges)?,
        };
        if let Some(until) = described_until.filter(|until| *until != input.position()) {
            return Err(input.malformed(format!("block {block} described up to {until}")));
        }
        let end = start.checked_add_signed(width).filter(|end| *end > start && start >= self.header_len);
        match end {
            Some(end) => Ok(Described { start, end, open_at_end }),
            None => Err(input.malformed(format!("block {block} at {start} of {width} bytes"))),
        }
    }

    /// A block has to begin where the one before it ends, and the first one behind the partition's header.
    /// What is open there is said of that one alone.
    fn block(&mut self, layout: &Layout, number: u64) -> Result<Block, ReadError> {
        if self.is_believed && !self.may_delete {
            let Described { start, end, open_at_end } = self.described(layout, number)?;
            return Ok(Block { number, start, end, open: Deletion::NONE, open_at_end: Some(open_at_end) });
        }
        let (follows, open) = match number.checked_sub(1) {
            Some(before) => {
                let before = self.described(layout, before)?;
                (before.end, before.open_at_end)
            }
            None => (self.header_len, Deletion::NONE),
        };
        let Described { start, end, open_at_end } = self.described(layout, number)?;
        if start != follows {
            return Err(self.misplaced(number, start, follows));
        }
        Ok(Block { number, start, end, open, open_at_end: Some(open_at_end) })
    }

    fn misplaced(&self, number: u64, start: u64, follows: u64) -> ReadError {
        self.input.malformed(format!("block {number} at {start} instead of {follows}"))
    }

    /// The first block for which `is_before` does not hold, of how its last position, or else its first, lies
    /// to `bound`.
    fn partition_point(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
        hints: Hints<'_>,
        last: bool,
        is_before: impl Fn(Ordering) -> bool,
    ) -> Result<u64, ReadError> {
        let guess = self.search.start(comparator, bound.position(), hints.covered, self.count);
        if let Some(fences) = hints.fences.filter(|_| self.offsets_at - self.blocks_at >= FENCED_BYTES_MIN) {
            let (end, guess) = (self.offsets_at + self.count * 4, guess.unwrap_or(self.count / 2));
            let within = fences.around(end, comparator, bound.position(), guess, &mut self.key);
            within.into_iter().for_each(|blocks| self.search.set_within(blocks));
        }
        self.together = None;
        while let Some(block) = self.search.next(comparator, bound.position(), hints.covered) {
            if let Some(blocks) = self.search.narrowed().filter(|_| self.together.is_none()).cloned() {
                self.read_together(blocks)?;
            }
            self.seek_block(block)?;
            self.input.page()?;
            // The next description puts it right.
            let edge = &mut self.last;
            if self.input.decode_in_page(|page| edge.read_of_block(page, layout, last)).is_none() {
                edge.read_of_block(&mut *self.input, layout, last)?;
            }
            let is_before = is_before(comparator.compare_positions(edge.position(), bound.position()));
            self.search.answer(block, &mut edge.prefix, is_before);
        }
        Ok(self.search.found())
    }

    /// The first block whose end does not lie before `bound`. `hints` say where the search begins.
    pub fn reaching(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
        hints: Hints<'_>,
    ) -> Result<Option<Block>, ReadError> {
        let found = self.partition_point(layout, comparator, bound, hints, true, Ordering::is_lt)?;
        if found == self.count { Ok(None) } else { self.block(layout, found).map(Some) }
    }

    /// The last block that does not start behind `bound`; `hints` as for [`PromotedIndex::reaching`].
    pub fn starting_by(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
        hints: Hints<'_>,
    ) -> Result<Option<Block>, ReadError> {
        let behind = self.partition_point(layout, comparator, bound, hints, false, Ordering::is_le)?;
        behind.checked_sub(1).map(|last| self.block(layout, last)).transpose()
    }

    /// The block behind another one; `None` behind the last.
    pub fn behind(&mut self, layout: &Layout, block: &Block) -> Result<Option<Block>, ReadError> {
        let number = block.number + 1;
        if number >= self.count {
            return Ok(None);
        }
        let until = self.offsets_at;
        self.input.look_ahead(|ahead| ahead.course = Course::Forward(until));
        let Described { start, end, open_at_end } = self.described(layout, number)?;
        if start != block.end {
            return Err(self.misplaced(number, start, block.end));
        }
        let open = block.open_at_end.unwrap_or(Deletion::NONE);
        Ok(Some(Block { number, start, end, open, open_at_end: Some(open_at_end) }))
    }

    /// Whether a row or marker at `position` may lie in the block that was given last, of an index that is
    /// not believed; `is_first` if it is the block's first.
    pub fn holds(&self, comparator: &ClusteringComparator, position: Position<'_>, is_first: bool) -> bool {
        let begins = comparator.compare_positions(self.first.position(), position);
        let may_begin = if is_first { begins == Ordering::Equal } else { begins == Ordering::Less };
        may_begin && comparator.compare_positions(position, self.last.position()) != Ordering::Greater
    }

    /// The first block.
    pub fn first(&mut self, layout: &Layout) -> Result<Block, ReadError> {
        self.block(layout, 0)
    }

    /// The last block.
    pub fn last(&mut self, layout: &Layout) -> Result<Block, ReadError> {
        self.block(layout, self.count - 1)
    }

    /// The block before another one.
    pub fn before(&mut self, layout: &Layout, block: &Block) -> Result<Option<Block>, ReadError> {
        // Descriptions are read backwards from here on.
        let blocks_at = self.blocks_at;
        self.input.look_ahead(|ahead| ahead.course = Course::Backward(blocks_at));
        block.number.checked_sub(1).map(|before| self.block(layout, before)).transpose()
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
    pub fn new(mut cursor: Cursor, start: u64) -> IndexWalk {
        cursor.look_ahead(|ahead| ahead.course = Course::Forward(u64::MAX));
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

    /// Where the partition of the next entry starts, and its key; `None` at the end. The entry stays the
    /// next.
    pub fn peek(&mut self) -> Result<Option<(u64, Bytes)>, ReadError> {
        let next = self.next;
        let entry = self.next()?;
        self.next = next;
        Ok(entry.map(|entry| (entry.position, entry.key)))
    }
}

/// The position of a row or marker, kept in memory that is used again.
#[derive(Debug)]
pub(super) struct Edge {
    kind: BoundKind,
    prefix: Clustering,
}

impl Default for Edge {
    fn default() -> Self {
        Edge { kind: BoundKind::Row, prefix: Clustering::empty() }
    }
}

impl Edge {
    #[inline]
    pub fn read<I: Input>(&mut self, input: &mut I, layout: &Layout) -> Result<(), I::Error> {
        self.kind = read_prefix(input, layout.clustering_types(), &mut self.prefix)?;
        Ok(())
    }

    /// Reads the last position of the block that is described next, or else its first.
    #[inline]
    fn read_of_block<I: Input>(
        &mut self,
        input: &mut I,
        layout: &Layout,
        last: bool,
    ) -> Result<(), I::Error> {
        if last {
            skip_prefix(input, layout.clustering_types())?;
        }
        self.read(input, layout)
    }

    pub fn set(&mut self, position: Position<'_>) {
        self.kind = position.kind;
        self.prefix.assign(position.prefix);
    }

    pub fn position(&self) -> Position<'_> {
        Position { kind: self.kind, prefix: &self.prefix }
    }
}
