//! Whether rows and markers lie where they belong.
//!
//! The checksum of a chunk says nothing of its place. Where rows have one length, the sizes by which they
//! refer to each other fit in any place. Clusterings tell, and one in each page is looked at: the first one
//! that starts there. It has to lie behind the first one of every page before. If the index was asked for the
//! block, it also has to lie inside the edges that the index gives. A page that comes too early is found with
//! the next page at the latest. Where the checksum of each page is also stored elsewhere ([`crate::proof`]),
//! nothing has to be looked at.

use crate::index::{Block, RowIndex};
use crate::pages::Cursor;
use model::clustering::Position;
use model::{ClusteringBound, ClusteringComparator};
use partition::ReadError;
use partition::codec::{Input, Layout};
use std::cmp::Ordering;

/// What a walk through a partition knows of the order of its pages.
#[derive(Debug)]
pub(super) struct Places {
    /// What starts before this in the data lies in pages that were looked at.
    seen_until: u64,
    /// What started first in the last of them, if that was looked at.
    first: ClusteringBound,
    knows_first: bool,
    /// The block that the index of rows gave last.
    block: Option<Block>,
    partition_start: u64,
    /// Whether each page is known to be where it belongs.
    is_proven: bool,
}

impl Default for Places {
    fn default() -> Self {
        Places {
            seen_until: 0,
            first: ClusteringBound::BOTTOM,
            knows_first: false,
            block: None,
            partition_start: 0,
            is_proven: false,
        }
    }
}

impl Places {
    /// Starts a partition. A page that has its key is where it belongs, and so is every page if that
    /// `is_proven`.
    pub fn begin(&mut self, data: &Cursor, partition_start: u64, is_proven: bool) {
        self.is_proven = is_proven;
        self.forget();
        if !is_proven {
            self.seen_until = data.page_end(partition_start);
        }
        self.block = None;
        self.partition_start = partition_start;
    }

    /// Forgets the pages: what comes next is not behind them.
    pub fn forget(&mut self) {
        self.seen_until = if self.is_proven { u64::MAX } else { 0 };
        self.knows_first = false;
    }

    /// Notes the block that the index of rows gave.
    pub fn enter(&mut self, block: Block) {
        self.block = Some(block);
    }

    /// Whether what starts at `start` is the first that is met of its page, and has to be checked.
    #[inline]
    pub fn is_new(&self, start: u64) -> bool {
        start >= self.seen_until
    }

    /// Whether something that was not checked starts where what ends at `end` ends.
    #[inline]
    pub fn is_new_behind(&self, end: u64) -> bool {
        end > self.seen_until
    }

    /// Takes the row or marker at `start`, which is at `position`. `rows` is the index that gave the block.
    pub fn check(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        rows: Option<&mut RowIndex>,
        start: u64,
        position: Position<'_>,
    ) -> Result<(), ReadError> {
        let order = comparator.compare_positions(self.first.position(), position);
        if self.knows_first && order != Ordering::Less {
            data.seek(start);
            return Err(data.malformed("rows or markers are out of order".to_owned()));
        }
        if let Some(rows) = rows
            && let Some(block) = self.block_at(layout, rows, start)?
            && !rows.holds(comparator, position, start == self.partition_start.saturating_add(block.start))
        {
            data.seek(start);
            return Err(data.malformed("the index has this row or marker in another block".to_owned()));
        }
        self.seen_until = data.page_end(start);
        self.knows_first = true;
        self.first.kind = position.kind;
        self.first.prefix.assign(position.prefix);
        Ok(())
    }

    /// The block with the row or marker that starts at `start`. It is the block that the index gave last, or
    /// one behind it.
    fn block_at(
        &mut self,
        layout: &Layout,
        rows: &mut RowIndex,
        start: u64,
    ) -> Result<Option<Block>, ReadError> {
        while let Some(block) = self.block
            && self.partition_start.saturating_add(block.end) <= start
        {
            self.block = rows.behind(layout, &block)?;
        }
        Ok(self.block)
    }
}
