//! The promoted index of a partition, and its entry in Index.db, as they are written (`big/index.rs` reads
//! them).

use super::fences::{Fences, blocks_between, separator};
use super::index::{Edge, WIDTH_BASE};
use crate::index::{BlockRule, LONG_BLOCK_BYTES, WrittenPartition, WrittenUnfiltered};
use bytes::Bytes;
use model::clustering::Position;
use model::{ClusteringComparator, Deletion, byte_comparable, vint};
use partition::codec::{EncodeError, Layout, SliceInput, write_prefix};

/// The promoted index of a partition that is being written.
///
/// An index of too many blocks becomes one of half as many, each twice as long, also the blocks that were
/// there before. All blocks stay equally long, because a search begins where a clustering would lie if they
/// are.
#[derive(Debug)]
pub(crate) struct PromotedIndexBuilder {
    blocks: Vec<BuiltBlock>,
    /// The first and the last position of each, as they are written.
    edges: Vec<u8>,
    /// Where the last of them ends.
    end: u64,
    /// Blocks that there may be while they are shorter than [`LONG_BLOCK_BYTES`].
    blocks_max: usize,
    /// How many blocks as the rule makes them become one, and how many of those the last one has. A power of
    /// two; the end of a chunk makes up for those that are missing in it.
    factor: u64,
    in_last: u64,
    /// The one that is not finished.
    first: Edge,
    last: Edge,
    block_start: u64,
    is_open: bool,
    descriptions: Vec<u8>,
}

/// A block that is finished; it ends where the next one starts.
#[derive(Debug)]
struct BuiltBlock {
    start: u64,
    open_at_end: Deletion,
    /// Where its positions stand in the builder's edges.
    first: u32,
    last: u32,
}

impl PromotedIndexBuilder {
    /// Builds indexes of partitions. Of one of more than `blocks_max` blocks they become longer.
    pub fn new(blocks_max: usize) -> PromotedIndexBuilder {
        PromotedIndexBuilder {
            blocks: Vec::new(),
            edges: Vec::new(),
            end: 0,
            blocks_max,
            factor: 1,
            in_last: 0,
            first: Edge::default(),
            last: Edge::default(),
            block_start: 0,
            is_open: false,
            descriptions: Vec::new(),
        }
    }

    /// Forgets the partition before.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.edges.clear();
        (self.factor, self.in_last) = (1, 0);
        self.is_open = false;
    }

    /// Whether the partition whose entry was appended last has an index of its rows.
    pub fn has_several(&self) -> bool {
        self.blocks.len() >= 2
    }

    /// Whether a row or marker from `start` to `end` neither begins nor ends a block. Then it need not be
    /// added, if the last one of the partition is ([`PromotedIndexBuilder::set_last`]).
    #[inline]
    pub fn is_within(&self, rule: &BlockRule, start: u64, end: u64) -> bool {
        self.is_open && !rule.ends(0, self.block_start, start, end)
    }

    /// Takes the position of the last row or marker, which was not added.
    pub fn set_last(&mut self, position: Position<'_>) {
        self.last.set(position);
    }

    /// Takes a row or marker.
    pub fn add(&mut self, layout: &Layout, unfiltered: &WrittenUnfiltered<'_>) -> Result<(), EncodeError> {
        let WrittenUnfiltered { position, start, end, open_after, blocks } = unfiltered;
        if !self.is_open {
            self.is_open = true;
            self.block_start = *start;
            self.first.set(*position);
        }
        self.last.set(*position);
        if blocks.ends(0, self.block_start, *start, *end) {
            self.close(layout, *end, *open_after)?;
            if blocks.ends_chunk(self.block_start, *end) {
                self.in_last = self.in_last.next_multiple_of(blocks.in_chunk());
            }
            if self.blocks.len() > self.blocks_max
                && self.factor.saturating_mul(blocks.len) < LONG_BLOCK_BYTES
            {
                self.halve(blocks);
            }
        }
        Ok(())
    }

    /// Finishes a block: as one of its own, or as a part of the last one.
    fn close(&mut self, layout: &Layout, end: u64, open_at_end: Deletion) -> Result<(), EncodeError> {
        match self.blocks.last_mut().filter(|_| self.in_last < self.factor) {
            Some(block) => {
                self.edges.truncate(block.last as usize);
                block.open_at_end = open_at_end;
                self.in_last += 1;
            }
            None => {
                let first = self.edges.len() as u32;
                write_prefix(&mut self.edges, layout.clustering_types(), self.first.position())?;
                let last = self.edges.len() as u32;
                self.blocks.push(BuiltBlock { start: self.block_start, open_at_end, first, last });
                self.in_last = 1;
            }
        }
        write_prefix(&mut self.edges, layout.clustering_types(), self.last.position())?;
        self.end = end;
        self.is_open = false;
        Ok(())
    }

    /// Makes one of each two blocks, unless a chunk of several ends with the first.
    fn halve(&mut self, rule: &BlockRule) {
        let (blocks, edges) = (std::mem::take(&mut self.blocks), std::mem::take(&mut self.edges));
        let copy = |from: u32, to: u32| edges.get(from as usize..to as usize).unwrap_or_default();
        let mut behind = blocks.iter().skip(1);
        let ends_with_chunk = self.factor < rule.in_chunk();
        let mut is_half = false;
        for block in &blocks {
            let (end, edges_end) =
                behind.next().map_or((self.end, edges.len() as u32), |b| (b.start, b.first));
            match self.blocks.last_mut().filter(|_| is_half) {
                Some(whole) => {
                    self.edges.truncate(whole.last as usize);
                    whole.open_at_end = block.open_at_end;
                    is_half = false;
                }
                None => {
                    let first = self.edges.len() as u32;
                    self.edges.extend_from_slice(copy(block.first, block.last));
                    self.blocks.push(BuiltBlock { first, last: self.edges.len() as u32, ..*block });
                    is_half = !(ends_with_chunk && rule.ends_chunk(block.start, end));
                }
            }
            self.edges.extend_from_slice(copy(block.last, edges_end));
        }
        self.in_last = self.in_last.min(self.factor) + if is_half { 0 } else { self.factor };
        self.factor *= 2;
    }

    /// Describes the blocks; yields where each description starts.
    fn describe(&mut self, layout: &Layout) -> Result<Vec<u32>, EncodeError> {
        let mut offsets = Vec::with_capacity(self.blocks.len());
        let mut behind = self.blocks.iter().skip(1);
        for BuiltBlock { start, open_at_end, first, .. } in &self.blocks {
            let (end, edges_end) =
                behind.next().map_or((self.end, self.edges.len()), |b| (b.start, b.first as usize));
            offsets.push(self.descriptions.len() as u32);
            self.descriptions
                .extend_from_slice(self.edges.get(*first as usize..edges_end).unwrap_or_default());
            vint::write_unsigned(&mut self.descriptions, *start);
            vint::write_signed(&mut self.descriptions, (end - start) as i64 - WIDTH_BASE);
            self.descriptions.push(!open_at_end.is_none() as u8);
            if !open_at_end.is_none() {
                layout.deletion_times().write(&mut self.descriptions, open_at_end)?;
            }
        }
        Ok(offsets)
    }

    /// Adds the fences between the blocks of the entry that was appended last, and ends there
    /// ([`super::fences`]).
    pub fn add_fences(
        &self,
        entry_end: u64,
        layout: &Layout,
        comparator: &ClusteringComparator,
        out: &mut Fences,
    ) {
        let Some(between) = blocks_between(self.blocks.len(), self.descriptions.len()) else { return };
        if !comparator.columns().all(|(ty, _)| byte_comparable::is_exact(ty)) {
            return;
        }
        let numbers = (between..self.blocks.len()).step_by(between);
        // What was written can be read; if not, a search does without.
        let fences: Option<Vec<_>> =
            numbers.map(|number| self.fence_before(number, layout, comparator)).collect();
        out.add(entry_end, between as u32, &fences.unwrap_or_default());
    }

    fn fence_before(
        &self,
        number: usize,
        layout: &Layout,
        comparator: &ClusteringComparator,
    ) -> Option<Vec<u8>> {
        let mut edge = Edge::default();
        let mut encoded = |from: u32, to: u32| {
            let bytes = self.edges.get(from as usize..to as usize)?;
            edge.read(&mut SliceInput::new(Bytes::copy_from_slice(bytes)), layout).ok()?;
            let mut out = Vec::new();
            byte_comparable::encode_position(comparator, edge.position(), &mut out);
            Some(out)
        };
        let [.., before, block] = self.blocks.get(..=number)? else { return None };
        let (last, first) = (encoded(before.last, block.first)?, encoded(block.first, block.last)?);
        let mut fence = Vec::new();
        separator(&last, &first, &mut fence).then_some(fence)
    }

    /// Appends the entry of the partition.
    pub fn finish(
        &mut self,
        out: &mut Vec<u8>,
        layout: &Layout,
        partition: &WrittenPartition<'_>,
    ) -> Result<(), EncodeError> {
        if self.is_open {
            self.close(layout, partition.len, Deletion::NONE)?;
        }
        let key = partition.key.key.0.as_ref();
        out.extend_from_slice(&(key.len() as u16).to_be_bytes());
        out.extend_from_slice(key);
        vint::write_unsigned(out, partition.position);
        self.descriptions.clear();
        if self.blocks.len() < 2 {
            vint::write_unsigned(out, 0);
            return Ok(());
        }
        let offsets = self.describe(layout)?;
        let mut head = Vec::with_capacity(32);
        vint::write_unsigned(&mut head, partition.header_len);
        layout.deletion_times().write(&mut head, &partition.deletion)?;
        vint::write_unsigned(&mut head, offsets.len() as u64);
        vint::write_unsigned(out, (head.len() + self.descriptions.len() + 4 * offsets.len()) as u64);
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.descriptions);
        offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
        Ok(())
    }
}
