//! The seam between an SSTable and the layouts of its index.
//!
//! An [`Index`] finds partitions, a [`Walk`] goes through them in order, and a [`RowIndex`] finds blocks of
//! rows in a large partition. What they say is not covered by checksums; whoever follows them compares with
//! the data.

mod walk;

pub(crate) use walk::Walk;

use crate::big::fences::Fences;
use crate::big::index::{IndexEntry, PromotedIndex};
use crate::big::lookup::BigIndex;
use crate::big::samples::Sample;
use crate::big::summary::Summary;
use crate::big::writer::BigIndexWriter;
use crate::bti::partitions::{BtiIndex, Located};
use crate::bti::rows::RowTrie;
use crate::bti::writer::{BtiIndexWriter, GrowingBti};
use crate::descriptor::Component;
use crate::error::WriteError;
use crate::key_filter::{FilterCheck, KeyFilter, Pace};
use crate::pages::{Cursor, FileId, FilePart, PageLayout};
use crate::proof::PageSums;
use model::clustering::Position;
use model::key::KeyRange;
use model::{ClusteringBound, ClusteringComparator, DecoratedKey, Deletion, Slice};
use partition::codec::Layout;
use partition::{ReadContext, ReadError};
use std::sync::Arc;

/// The index of an open SSTable.
#[derive(Debug)]
pub(crate) enum Index {
    Big(Box<BigIndex>),
    Bti(Arc<BtiIndex>),
}

impl Index {
    /// The first partition.
    pub fn first_key(&self) -> &DecoratedKey {
        match self {
            Index::Big(index) => index.first_key(),
            Index::Bti(index) => index.first_key(),
        }
    }

    /// The last partition.
    pub fn last_key(&self) -> &DecoratedKey {
        match self {
            Index::Big(index) => index.last_key(),
            Index::Bti(index) => index.last_key(),
        }
    }

    /// The keys that are known without a read, the first and the last among them.
    pub fn known_keys(&self) -> Box<dyn Iterator<Item = &DecoratedKey> + '_> {
        match self {
            Index::Big(index) => Box::new(index.known_keys()),
            Index::Bti(index) => Box::new([index.first_key(), index.last_key()].into_iter()),
        }
    }

    /// Bytes of memory, pages aside.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Index::Big(index) => index.memory_bytes(),
            Index::Bti(index) => index.memory_bytes(),
        }
    }

    /// What lies between the blocks of large partitions, where that is known.
    pub fn fences(&self) -> Option<&Fences> {
        match self {
            Index::Big(index) => index.fences(),
            Index::Bti(_) => None,
        }
    }

    /// The pages that a cache may have.
    pub fn pages(&self) -> Box<dyn Iterator<Item = (FileId, u64)> + '_> {
        match self {
            Index::Big(index) => Box::new(index.pages()),
            Index::Bti(index) => Box::new(index.pages()),
        }
    }

    /// The stretch of keys that `key` would lie in, as a [`KeyFilter`] counts them.
    pub fn interval(&self, key: &DecoratedKey) -> Option<usize> {
        match self {
            Index::Big(index) => index.interval(key),
            Index::Bti(index) => index.interval(key),
        }
    }

    /// Finds a partition. An absence is proven from the data, which is read through `data`. What this shows
    /// about the filter is noted in the filter.
    pub fn find(
        &self,
        key: &DecoratedKey,
        filter: Option<&KeyFilter>,
        layout: &Layout,
        data: &mut Cursor,
    ) -> Result<Option<Entry>, ReadError> {
        match self {
            Index::Bti(index) => {
                Ok(index.find(key, filter, layout, data)?.map(|(located, rows)| match located.rows {
                    None => Entry::Small(located.position),
                    Some(_) => Entry::Bti(located, Box::new(rows)),
                }))
            }
            Index::Big(index) => index.find(key, filter, layout, data),
        }
    }

    /// The partitions of a range: where the first one starts in the data, and a walk that begins there.
    /// `None` when there is none.
    pub fn walk(
        &self,
        range: &KeyRange,
        layout: &Layout,
        data: &mut Cursor,
    ) -> Result<Option<(u64, Walk)>, ReadError> {
        match self {
            Index::Bti(index) => Ok(index
                .walk(range, layout, data)?
                .map(|(position, walk)| (position, Walk::Bti(Box::new(walk))))),
            Index::Big(index) => Ok(index
                .walk(range, layout, data)?
                .map(|(position, walk)| (position, Walk::Big(Box::new(walk))))),
        }
    }

    /// A walk that begins at a bound or at a partition before it, without a look at the data.
    pub fn walk_unproven(&self, range: &KeyRange, context: &ReadContext) -> Result<Walk, ReadError> {
        match self {
            Index::Big(index) => Ok(Walk::Big(Box::new(index.walk_unproven(range, context)))),
            Index::Bti(index) => Ok(Walk::Bti(Box::new(index.walk_unproven(range, context)?))),
        }
    }

    /// Proves the filter by all keys, or gives it up.
    pub fn check_filter(
        &self,
        filter: &KeyFilter,
        data: &mut Cursor,
        pace: Pace<'_>,
    ) -> Result<FilterCheck, ReadError> {
        match self {
            Index::Big(index) => index.check_filter(filter, data.context(), pace),
            Index::Bti(index) => index.check_filter(filter, data, pace),
        }
    }
}

/// A partition that was found in the index.
#[derive(Debug)]
pub(crate) enum Entry {
    /// One without an index of its rows, by its place.
    Small(u64),
    Big(IndexEntry, Box<Cursor>),
    Bti(Located, Box<Cursor>),
}

impl Entry {
    /// Whether it was found in Blocks.db.
    pub fn is_adopted(&self) -> bool {
        matches!(self, Entry::Big(_, cursor) if cursor.part() == FilePart::Blocks)
    }

    /// Where the partition starts in the data.
    pub fn position(&self) -> u64 {
        match self {
            Entry::Small(position) => *position,
            Entry::Big(entry, _) => entry.position,
            Entry::Bti(located, _) => located.position,
        }
    }

    /// Whether the partition has an index of its rows.
    pub fn has_rows(&self) -> bool {
        match self {
            Entry::Small(_) => false,
            Entry::Big(entry, _) => entry.has_rows(),
            Entry::Bti(located, _) => located.rows.is_some(),
        }
    }

    /// The index of the partition's rows, if it has one; only the first time.
    pub fn take_rows(&mut self, layout: &Layout) -> Result<Option<RowIndex>, ReadError> {
        let place = Entry::Small(self.position());
        match std::mem::replace(self, place) {
            Entry::Small(_) => Ok(None),
            Entry::Bti(located, rows) => Ok(rows_of(&located, *rows, layout)),
            Entry::Big(entry, cursor) => {
                Ok(entry.promoted(cursor, layout.deletion_times())?.map(RowIndex::Big))
            }
        }
    }
}

fn rows_of(located: &Located, rows: Cursor, layout: &Layout) -> Option<RowIndex> {
    let entry = located.rows.as_ref()?;
    Some(RowIndex::Bti(Box::new(entry.rows(rows, layout.deletion_times()))))
}

/// A run of rows and markers that the index knows the start of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// How many blocks lie before it; 0 where that is not known.
    pub number: u64,
    /// Bytes from the partition's start.
    pub start: u64,
    /// Where the next block starts; of the last one the end of the partition may be a part.
    pub end: u64,
    /// The range deletion that holds at its start.
    pub open: Deletion,
    /// The one that holds at its end, where the index says.
    pub open_at_end: Option<Deletion>,
}

/// Where a search among the blocks of a partition may begin. None of it need be right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hints<'a> {
    /// Where the SSTable has rows.
    pub covered: &'a Slice,
    /// What lies between the blocks of large partitions.
    pub fences: Option<&'a Fences>,
}

/// The blocks of a partition, in place.
#[derive(Debug)]
pub(crate) enum RowIndex {
    Big(Box<PromotedIndex>),
    Bti(Box<RowTrie>),
}

impl RowIndex {
    /// Bytes from the partition's start to its first row or marker.
    pub fn header_len(&mut self) -> Result<u64, ReadError> {
        match self {
            RowIndex::Big(index) => Ok(index.header_len),
            RowIndex::Bti(index) => index.header_len(),
        }
    }

    /// Says how many bytes the data has before the first row or marker. False if the index has another number
    /// at hand; if not, blocks that start earlier are refused when the index gives them.
    pub fn fits_header(&mut self, header_len: u64) -> bool {
        match self {
            RowIndex::Big(index) => index.header_len == header_len,
            RowIndex::Bti(index) => {
                index.set_header_len(header_len);
                true
            }
        }
    }

    /// Says that every page of the index was compared with its checksum. Then what the index says in one
    /// place need not be compared with another place. `may_delete`: whether range deletions may be open
    /// anywhere.
    pub fn believe(&mut self, may_delete: bool) {
        match self {
            RowIndex::Big(index) => index.believe(may_delete),
            RowIndex::Bti(index) => index.believe(),
        }
    }

    /// Bytes from the partition's start to the byte that ends it, when the index says that.
    pub fn end(&mut self) -> Result<Option<u64>, ReadError> {
        match self {
            RowIndex::Big(_) => Ok(None),
            RowIndex::Bti(index) => index.end().map(Some),
        }
    }

    /// The deletion of the partition, which the index repeats.
    pub fn deletion(&self) -> Deletion {
        match self {
            RowIndex::Big(index) => index.deletion,
            RowIndex::Bti(index) => index.deletion,
        }
    }

    /// The first block that may hold something at or behind `bound`; `None` when all end before it. Of an
    /// index that is believed its end may be a guess, where it would take another page to know it. `hints`
    /// say where a search begins.
    pub fn reaching(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
        hints: Hints<'_>,
    ) -> Result<Option<Block>, ReadError> {
        match self {
            RowIndex::Big(index) => index.reaching(layout, comparator, bound, hints),
            RowIndex::Bti(index) => index.around(comparator, bound, true).map(Some),
        }
    }

    /// The last block that may hold something before `bound`; `None` when all start behind it. `hints` as for
    /// [`RowIndex::reaching`].
    pub fn starting_by(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
        hints: Hints<'_>,
    ) -> Result<Option<Block>, ReadError> {
        match self {
            RowIndex::Big(index) => index.starting_by(layout, comparator, bound, hints),
            RowIndex::Bti(index) => index.around(comparator, bound, false).map(Some),
        }
    }

    /// The first block.
    pub fn first(&mut self, layout: &Layout) -> Result<Block, ReadError> {
        match self {
            RowIndex::Big(index) => index.first(layout),
            RowIndex::Bti(index) => index.first(),
        }
    }

    /// The last block.
    pub fn last(&mut self, layout: &Layout) -> Result<Block, ReadError> {
        match self {
            RowIndex::Big(index) => index.last(layout),
            RowIndex::Bti(index) => index.last(),
        }
    }

    /// The block behind the one that was given last, which is `block`; `None` behind the last.
    pub fn behind(&mut self, layout: &Layout, block: &Block) -> Result<Option<Block>, ReadError> {
        match self {
            RowIndex::Big(index) => index.behind(layout, block),
            RowIndex::Bti(index) => index.behind(block),
        }
    }

    /// Whether a row or marker at `position` may lie in the block that was given last; `is_first` if it is
    /// the block's first. Touches no page.
    pub fn holds(
        &mut self,
        comparator: &ClusteringComparator,
        position: Position<'_>,
        is_first: bool,
    ) -> bool {
        match self {
            RowIndex::Big(index) => index.holds(comparator, position, is_first),
            RowIndex::Bti(index) => index.holds(comparator, position),
        }
    }

    /// The block before another one; `None` before the first.
    pub fn before(&mut self, layout: &Layout, block: &Block) -> Result<Option<Block>, ReadError> {
        match self {
            RowIndex::Big(index) => index.before(layout, block),
            RowIndex::Bti(index) => index.before(block),
        }
    }
}

/// A row or marker that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenUnfiltered<'a> {
    pub position: Position<'a>,
    /// Where it starts and ends, in bytes from the partition's start.
    pub start: u64,
    pub end: u64,
    /// The range deletion that holds after it.
    pub open_after: Deletion,
    /// Where blocks end.
    pub blocks: BlockRule,
}

/// Blocks that the promoted index of a partition may have before two of them become one.
pub(crate) const BLOCKS_MAX: usize = 512 << 10;
/// Blocks need not be longer than this: a chunk of the usual length.
pub(crate) const LONG_BLOCK_BYTES: u64 = 16 << 10;

/// Where the blocks of a partition end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRule {
    /// Bytes after which one ends.
    pub len: u64,
    /// Bytes of the chunks that blocks are to end with.
    pub chunk_len: Option<u64>,
    /// Where the partition starts in the data.
    pub partition_start: u64,
}

impl BlockRule {
    /// Whether a block that starts at `block` ends with what lies from `start` to `end`, if it is to have
    /// `len_min` bytes at least. A block that could not reach the end of the next chunk ends with this chunk,
    /// because reading it would take one chunk more. Places are bytes from the partition's start.
    pub fn ends(&self, len_min: u64, block: u64, start: u64, end: u64) -> bool {
        let spare = if self.ends_chunk(start, end) { self.chunk_len.unwrap_or(1) - 1 } else { 0 };
        end - block >= self.len.max(len_min).saturating_sub(spare)
    }

    /// How many blocks a chunk that they are to end with has, about: a power of two.
    pub fn in_chunk(&self) -> u64 {
        let blocks = self.chunk_len.unwrap_or(0) / self.len.max(1);
        blocks.checked_ilog2().map_or(1, |power| 1 << power)
    }

    /// Whether a chunk that blocks are to end with ends there.
    pub fn ends_chunk(&self, start: u64, end: u64) -> bool {
        let chunk = |place: u64, len: u64| (self.partition_start + place) / len;
        self.chunk_len.is_some_and(|len| chunk(start, len) < chunk(end, len))
    }
}

/// A partition that was written to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenPartition<'a> {
    pub key: &'a DecoratedKey,
    pub deletion: Deletion,
    /// Where it starts in the data.
    pub position: u64,
    /// Bytes to the first row or marker.
    pub header_len: u64,
    /// Bytes to its end, the end's byte included.
    pub len: u64,
}

/// A finished index.
#[derive(Debug)]
pub(crate) struct FinishedIndex {
    /// Components that are complete.
    pub files: Vec<Component>,
    /// The content of Summary.db, if the layout has one.
    pub summary: Option<Vec<u8>>,
    /// Checksums of Index.db or Partitions.db.
    pub index: PageSums,
    /// Checksums of Rows.db.
    pub rows: PageSums,
    /// Samples of Index.db between those of the summary.
    pub samples: Vec<Sample>,
    /// Fences between blocks of large partitions in Index.db.
    pub fences: Fences,
}

/// The index of an SSTable that is being written.
#[derive(Debug)]
pub(crate) enum IndexWriter {
    Big(Box<BigIndexWriter>),
    Bti(Box<BtiIndexWriter>),
}

/// What is known of the index of an SSTable that is being written.
#[derive(Debug)]
pub(crate) enum GrowingIndex {
    Big {
        summary: Summary,
        /// Between those that the summary has.
        samples: Vec<Sample>,
        /// How the full pages of Index.db lie.
        pages: PageLayout,
    },
    Bti(GrowingBti),
}

impl IndexWriter {
    /// Gets ready for the rows of a partition.
    pub fn start_partition(&mut self) {
        match self {
            IndexWriter::Big(writer) => writer.start_partition(),
            IndexWriter::Bti(writer) => writer.start_partition(),
        }
    }

    /// Takes a row or marker of the partition.
    pub fn add(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        unfiltered: &WrittenUnfiltered<'_>,
    ) -> Result<(), WriteError> {
        match self {
            IndexWriter::Big(writer) => Ok(writer.add(layout, unfiltered)?),
            IndexWriter::Bti(writer) => writer.add(comparator, unfiltered),
        }
    }

    /// Takes the partition itself.
    pub fn end_partition(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        partition: &WrittenPartition<'_>,
    ) -> Result<(), WriteError> {
        match self {
            IndexWriter::Big(writer) => writer.end_partition(layout, comparator, partition),
            IndexWriter::Bti(writer) => writer.end_partition(partition),
        }
    }

    /// Hands the files what cannot change any more, and yields the index of the partitions so far; `None`
    /// before the first.
    pub fn so_far(&mut self) -> Result<Option<GrowingIndex>, WriteError> {
        Ok(match self {
            IndexWriter::Big(writer) => {
                let (samples, pages) = writer.so_far()?;
                writer.summary().map(|summary| GrowingIndex::Big { summary, samples, pages })
            }
            IndexWriter::Bti(writer) => writer.so_far()?.map(GrowingIndex::Bti),
        })
    }

    /// Completes the files and syncs them.
    pub fn finish(self) -> Result<FinishedIndex, WriteError> {
        match self {
            IndexWriter::Big(writer) => writer.finish(),
            IndexWriter::Bti(writer) => writer.finish(),
        }
    }
}
