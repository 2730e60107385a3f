//! Partitions.db and Rows.db of an SSTable that is being written.

use super::packer::{PackedPayload, PageFile, TriePacker};
use super::partitions::hash_byte;
use crate::big::fences::{Fences, separator};
use crate::descriptor::Component;
use crate::error::WriteError;
use crate::index::{FinishedIndex, LONG_BLOCK_BYTES, WrittenPartition, WrittenUnfiltered};
use crate::pages::PageLayout;
use env::fs::WriteFile;
use model::clustering::Position;
use model::{ClusteringComparator, DecoratedKey, Deletion, byte_comparable, vint};
use partition::codec::{DeletionTimes, EncodeError};

/// A block that is not long is at least 2 to the power of minus this of what lies before it in its partition.
/// So a huge partition has a few hundred thousand blocks.
const BLOCKS_SHIFT: u32 = 18;

/// Writes the index.
#[derive(Debug)]
pub(crate) struct BtiIndexWriter {
    partitions: PageFile,
    keys: TriePacker,
    rows: PageFile,
    blocks: BlockTrie,
    times: DeletionTimes,
    count: u64,
    first: Option<DecoratedKey>,
    /// The last partition, which is added when the next one tells how much of its key is needed.
    last: Option<Pending>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Pending {
    key: DecoratedKey,
    encoded: Vec<u8>,
    number: i64,
    /// Bytes of the key that tell it from the one before.
    distinct: usize,
}

impl Pending {
    fn add_to(&self, keys: &mut TriePacker, len: usize, out: &mut PageFile) -> std::io::Result<()> {
        let mut bytes = vec![hash_byte(&self.key)];
        let size = write_signed(&mut bytes, self.number);
        let key = self.encoded.get(..len).unwrap_or(&self.encoded);
        keys.add(key, PackedPayload { bits: 7 + size, bytes }, out)
    }
}

/// What is known of the index of an SSTable that is being written.
#[derive(Debug)]
pub(crate) struct GrowingBti {
    pub first: DecoratedKey,
    pub last: DecoratedKey,
    pub count: u64,
    pub root: u64,
    /// How Partitions.db would go on from a position if it ended with the last partition.
    pub partitions: (u64, Vec<u8>),
    /// Bytes of Rows.db.
    pub rows_len: u64,
    /// How the full pages of both files lie.
    pub pages: [PageLayout; 2],
}

/// Appends a number in as few bytes as keep its sign; yields how many.
fn write_signed(out: &mut Vec<u8>, number: i64) -> u8 {
    let redundant = if number < 0 { number.leading_ones() } else { number.leading_zeros() };
    let len = 8 - (redundant as usize - 1) / 8;
    out.extend(number.to_be_bytes().iter().skip(8 - len));
    len as u8
}

impl BtiIndexWriter {
    /// Writes Partitions.db and Rows.db to these files.
    pub fn new(partitions: Box<dyn WriteFile>, rows: Box<dyn WriteFile>, times: DeletionTimes) -> Self {
        BtiIndexWriter {
            partitions: PageFile::new(partitions),
            keys: TriePacker::default(),
            rows: PageFile::new(rows),
            blocks: BlockTrie::default(),
            times,
            count: 0,
            first: None,
            last: None,
            buffer: Vec::new(),
        }
    }

    pub fn start_partition(&mut self) {
        self.blocks.clear();
    }

    pub fn add(
        &mut self,
        comparator: &ClusteringComparator,
        unfiltered: &WrittenUnfiltered<'_>,
    ) -> Result<(), WriteError> {
        self.blocks.add(comparator, unfiltered, self.times, &mut self.rows)
    }

    pub fn end_partition(&mut self, partition: &WrittenPartition<'_>) -> Result<(), WriteError> {
        let number = match self.blocks.finish(partition.len - 1, self.times, &mut self.rows)? {
            None => !(partition.position as i64),
            Some((root, blocks)) => {
                let start = self.rows.position();
                let key = &partition.key.key.0;
                self.buffer.clear();
                self.buffer.extend_from_slice(&(key.len() as u16).to_be_bytes());
                self.buffer.extend_from_slice(key);
                let base = start + self.buffer.len() as u64;
                vint::write_unsigned(&mut self.buffer, partition.position);
                vint::write_signed(&mut self.buffer, root as i64 - base as i64);
                vint::write_unsigned(&mut self.buffer, blocks);
                self.times.write(&mut self.buffer, &partition.deletion)?;
                self.rows.write(&self.buffer)?;
                start as i64
            }
        };
        let mut encoded = Vec::with_capacity(partition.key.key.0.len() + 16);
        byte_comparable::encode_key(partition.key, &mut encoded);
        let mut distinct = 0;
        if let Some(last) = self.last.take() {
            distinct = last.encoded.iter().zip(&encoded).take_while(|(a, b)| a == b).count() + 1;
            self.add_key(&last, last.distinct.max(distinct))?;
        }
        if self.first.is_none() {
            self.first = Some(partition.key.clone());
        }
        self.last = Some(Pending { key: partition.key.clone(), encoded, number, distinct });
        Ok(())
    }

    fn add_key(&mut self, pending: &Pending, len: usize) -> Result<(), WriteError> {
        pending.add_to(&mut self.keys, len, &mut self.partitions)?;
        self.count += 1;
        Ok(())
    }

    /// The index of the partitions so far; `None` before the first. Both files hold what cannot change any
    /// more.
    pub fn so_far(&mut self) -> Result<Option<GrowingBti>, WriteError> {
        let (Some(first), Some(last)) = (&self.first, &self.last) else { return Ok(None) };
        let mut partitions = self.partitions.fork()?;
        let start = partitions.position();
        let mut keys = self.keys.clone();
        last.add_to(&mut keys, last.distinct, &mut partitions)?;
        let root = keys.finish(&mut partitions)?;
        Ok(Some(GrowingBti {
            first: first.clone(),
            last: last.key.clone(),
            count: self.count + 1,
            root,
            partitions: (start, partitions.into_forked()),
            rows_len: self.rows.fork()?.position(),
            pages: [self.partitions.pages_so_far(), self.rows.pages_so_far()],
        }))
    }

    /// Completes both files.
    pub fn finish(mut self) -> Result<FinishedIndex, WriteError> {
        let (Some(first), Some(last)) = (self.first.take(), self.last.take()) else {
            return Err(WriteError::Empty);
        };
        self.add_key(&last, last.distinct)?;
        let root = self.keys.finish(&mut self.partitions)?;
        let keys_at = self.partitions.position();
        self.buffer.clear();
        for key in [&first, &last.key] {
            self.buffer.extend_from_slice(&(key.key.0.len() as u16).to_be_bytes());
            self.buffer.extend_from_slice(&key.key.0);
        }
        for number in [keys_at, self.count, root] {
            self.buffer.extend_from_slice(&number.to_be_bytes());
        }
        self.partitions.write(&self.buffer)?;
        Ok(FinishedIndex {
            files: vec![Component::Partitions, Component::Rows],
            summary: None,
            index: self.partitions.finish()?,
            rows: self.rows.finish()?,
            samples: Vec::new(),
            fences: Fences::default(),
        })
    }
}

/// Whether the encodings of a partition's positions have the order of the positions. A partition whose
/// encodings do not is written without an index of its rows.
#[derive(Debug, PartialEq, Eq)]
enum Order {
    /// By the types of the clustering columns.
    Given,
    /// So far: the encoding of the last position.
    Behind(Vec<u8>),
    Broken,
}

/// The blocks of the partition that is being written.
#[derive(Debug)]
struct BlockTrie {
    trie: TriePacker,
    count: u64,
    /// The open block: where it starts, and the range deletion that held there.
    block: Option<(u64, Deletion)>,
    open: Deletion,
    /// The separator before the open block.
    separator: Vec<u8>,
    order: Order,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Default for BlockTrie {
    fn default() -> Self {
        BlockTrie {
            trie: TriePacker::default(),
            count: 0,
            block: None,
            open: Deletion::NONE,
            separator: Vec::new(),
            order: Order::Given,
            first: Vec::new(),
            last: Vec::new(),
        }
    }
}

impl BlockTrie {
    fn clear(&mut self) {
        self.trie.clear();
        self.count = 0;
        self.block = None;
        self.open = Deletion::NONE;
        self.order = Order::Given;
    }

    fn add(
        &mut self,
        comparator: &ClusteringComparator,
        unfiltered: &WrittenUnfiltered<'_>,
        times: DeletionTimes,
        rows: &mut PageFile,
    ) -> Result<(), WriteError> {
        if self.order != Order::Given || (self.block.is_none() && self.count == 0) {
            self.check_order(comparator, unfiltered.position);
        }
        let (start, _) = *self.block.get_or_insert((unfiltered.start, self.open));
        if start == unfiltered.start {
            self.first.clear();
            byte_comparable::encode_position(comparator, unfiltered.position, &mut self.first);
            self.set_separator();
        }
        self.open = unfiltered.open_after;
        let len_min = (unfiltered.start >> BLOCKS_SHIFT).min(LONG_BLOCK_BYTES);
        if unfiltered.blocks.ends(len_min, start, unfiltered.start, unfiltered.end) {
            self.last.clear();
            byte_comparable::encode_position(comparator, unfiltered.position, &mut self.last);
            self.close(times, rows)?;
        } else {
            self.note_last(comparator, unfiltered);
        }
        Ok(())
    }

    /// Looks whether positions have encodings in their order. They have, unless those of some column are not
    /// exact.
    fn check_order(&mut self, comparator: &ClusteringComparator, position: Position<'_>) {
        let mut encoded = Vec::new();
        match &mut self.order {
            Order::Broken => {}
            Order::Given if comparator.columns().all(|(ty, _)| byte_comparable::is_exact(ty)) => {}
            Order::Given => {
                byte_comparable::encode_position(comparator, position, &mut encoded);
                self.order = Order::Behind(encoded);
            }
            Order::Behind(before) => {
                byte_comparable::encode_position(comparator, position, &mut encoded);
                self.order = if *before < encoded { Order::Behind(encoded) } else { Order::Broken };
            }
        }
    }

    fn note_last(&mut self, comparator: &ClusteringComparator, unfiltered: &WrittenUnfiltered<'_>) {
        // Only a partition that has blocks will need the end of its last one.
        if self.count > 0 {
            self.last.clear();
            byte_comparable::encode_position(comparator, unfiltered.position, &mut self.last);
        }
    }

    /// The shortest text that is greater than the end of the block before, and not greater than the first
    /// position.
    fn set_separator(&mut self) {
        self.separator.clear();
        if self.count > 0 && !separator(&self.last, &self.first, &mut self.separator) {
            self.order = Order::Broken;
        }
    }

    fn close(&mut self, times: DeletionTimes, rows: &mut PageFile) -> Result<(), WriteError> {
        let Some((start, open)) = self.block.take() else { return Ok(()) };
        if self.order == Order::Broken {
            return Ok(());
        }
        let payload = separator_payload(start, &open, times)?;
        self.trie.add(&self.separator, payload, rows)?;
        self.count += 1;
        Ok(())
    }

    /// Writes the trie of a partition of more than one block, which ends at `end`. Yields its root and the
    /// number of blocks.
    fn finish(
        &mut self,
        end: u64,
        times: DeletionTimes,
        rows: &mut PageFile,
    ) -> Result<Option<(u64, u64)>, WriteError> {
        if self.count > 0 {
            self.close(times, rows)?;
        }
        if self.count < 2 || self.order == Order::Broken {
            return Ok(None);
        }
        // One more, about as long as the last separator, so that what lies behind all rows is seen to.
        let mut at = self.separator.iter().zip(&self.last).take_while(|(a, b)| a == b).count();
        while self.last.get(at) == Some(&0xff) {
            at += 1;
        }
        let byte = self.last.get(at).map_or(0, |byte| byte + 1);
        self.last.truncate(at);
        self.last.push(byte);
        self.trie.add(&self.last, separator_payload(end, &Deletion::NONE, times)?, rows)?;
        Ok(Some((self.trie.finish(rows)?, self.count)))
    }
}

fn separator_payload(
    offset: u64,
    open: &Deletion,
    times: DeletionTimes,
) -> Result<PackedPayload, EncodeError> {
    let mut bytes = Vec::with_capacity(20);
    let mut bits = write_signed(&mut bytes, offset as i64);
    if !open.is_none() {
        bits |= super::rows::OPEN_DELETION;
        times.write(&mut bytes, open)?;
    }
    Ok(PackedPayload { bits, bytes })
}
