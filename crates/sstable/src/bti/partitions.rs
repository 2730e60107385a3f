//! Partitions.db: where partitions lie (docs/formats/sstable-bti.md).
//!
//! ```text
//! trie of keys | sbytes first key | sbytes last key
//! | i64 position of the first key | i64 number of partitions | i64 position of the trie's root
//! payload := u8 hash | signed number of bits - 7 bytes        bits 8..15
//!          | signed number of as many bytes as the bits say    bits 1..7
//! number  := position in Rows.db, or the complement of a position in the data
//! ```
//! Keys are cut where they differ from both neighbours, and the hash is a byte of the filter's. So what was
//! found is compared with the whole key in Rows.db or in the data. Before a key is called absent, or a range
//! begun, the partitions on either side are read in the data. Their keys have to be in order, and the second
//! has to begin where the first ends.

use super::rows::{RowsEntry, read_signed};
use super::trie::{Payload, TrieCursor};
use super::writer::GrowingBti;
use crate::key_filter::{FilterCheck, KeyFilter, PACE_BYTES, Pace};
use crate::pages::{Cursor, FileId, PageSource, PagedFile, Uncached};
use crate::stream::skip_partition;
use model::key::{KeyBound, KeyRange};
use model::{DecoratedKey, PartitionKey, Token, byte_comparable, murmur3};
use partition::codec::{DeletionTimes, Input, Layout};
use partition::{ReadContext, ReadError};
use std::cmp::Ordering;
use std::sync::Arc;

const FOOTER_BYTES: u64 = 24;
/// Partitions for each stretch of keys that the filter is proven for at once.
const INTERVAL_PARTITIONS: u64 = 32;
/// Bytes of the upper nodes of a trie of rows, at most: those of a few hundred thousand blocks.
const UPPER_NODES_BYTES_MAX: u64 = 24 << 10;
/// Payload bits from here on say that there is a hash byte.
const WITH_HASH: u8 = 8;

/// The index of an open SSTable.
#[derive(Debug)]
pub(crate) struct BtiIndex {
    partitions: Arc<PagedFile>,
    rows: Arc<PagedFile>,
    pages: Arc<dyn PageSource>,
    times: DeletionTimes,
    first: DecoratedKey,
    last: DecoratedKey,
    count: u64,
    root: u64,
}

/// A partition that the index knows.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    /// Where it starts in the data.
    pub position: u64,
    /// Its entry in Rows.db, if its rows are indexed.
    pub rows: Option<RowsEntry>,
}

/// What an entry of the trie says.
#[derive(Clone, Copy, Debug)]
struct Target {
    hash: Option<u8>,
    number: i64,
}

/// The byte of a key's hash that stands in the index.
pub(super) fn hash_byte(key: &DecoratedKey) -> u8 {
    murmur3::hash(&key.key.0).1 as u8
}

fn own(key: &[u8]) -> DecoratedKey {
    DecoratedKey::new(PartitionKey(bytes::Bytes::copy_from_slice(key)))
}

impl BtiIndex {
    /// Reads the end of Partitions.db, and the page of the trie's root, which every search begins with and
    /// which stays in memory.
    pub fn open(
        partitions: Arc<PagedFile>,
        rows: Arc<PagedFile>,
        pages: Arc<dyn PageSource>,
        times: DeletionTimes,
    ) -> Result<BtiIndex, ReadError> {
        let mut input = Cursor::new(Arc::clone(&partitions), Arc::new(Uncached), ReadContext::default());
        let Some(footer) = partitions.len.checked_sub(FOOTER_BYTES) else {
            return Err(input.malformed(format!("{} bytes are no index", partitions.len)));
        };
        input.seek(footer);
        let (keys_at, count, root) = (input.i64()?, input.i64()?, input.i64()?);
        let keys_at = u64::try_from(keys_at).ok().filter(|at| *at < footer);
        let root = u64::try_from(root).ok().filter(|root| keys_at.is_some_and(|at| *root < at));
        let (Some(keys_at), Some(root), Ok(count @ 1..)) = (keys_at, root, u64::try_from(count)) else {
            return Err(input.malformed(format!("{count} partitions, the keys at {keys_at:?}")));
        };
        input.seek(keys_at);
        let mut key = || -> Result<DecoratedKey, ReadError> {
            let len = input.u16()? as u64;
            input.with_slice(len, own)
        };
        let (first, last) = (key()?, key()?);
        if input.position() != footer || first > last {
            return Err(input.malformed("first and last key do not fit".to_owned()));
        }
        partitions.keep_page_of(root)?;
        Ok(BtiIndex { partitions, rows, pages, times, first, last, count, root })
    }

    /// The index of what was written so far.
    pub fn growing(
        known: GrowingBti,
        partitions: Arc<PagedFile>,
        rows: Arc<PagedFile>,
        pages: Arc<dyn PageSource>,
        times: DeletionTimes,
    ) -> BtiIndex {
        let GrowingBti { first, last, count, root, .. } = known;
        BtiIndex { partitions, rows, pages, times, first, last, count, root }
    }

    pub fn first_key(&self) -> &DecoratedKey {
        &self.first
    }

    pub fn last_key(&self) -> &DecoratedKey {
        &self.last
    }

    pub fn memory_bytes(&self) -> usize {
        self.first.key.0.len() + self.last.key.0.len() + self.partitions.kept_bytes()
    }

    /// The pages that a cache may have.
    pub fn pages(&self) -> impl Iterator<Item = (FileId, u64)> + use<> {
        self.partitions.pages().chain(self.rows.pages())
    }

    /// Number of [`BtiIndex::interval`]s.
    pub fn intervals(&self) -> usize {
        // A damaged count must not cost memory: a partition takes a byte of the trie at least.
        self.count.min(self.partitions.len).div_ceil(INTERVAL_PARTITIONS) as usize
    }

    /// Which of equal stretches of the ring between first and last key a key lies in.
    pub fn interval(&self, key: &DecoratedKey) -> Option<usize> {
        let inside = *key >= self.first && *key <= self.last;
        let place = (key.token.0 as i128 - self.first.token.0 as i128) as u128;
        inside.then(|| (place * self.intervals() as u128 / self.span()) as usize)
    }

    /// Tokens from the first key's to the last one's.
    fn span(&self) -> u128 {
        (self.last.token.0 as i128 - self.first.token.0 as i128) as u128 + 1
    }

    fn trie(&self, context: &ReadContext) -> TrieCursor {
        let input = Cursor::new(Arc::clone(&self.partitions), Arc::clone(&self.pages), context.clone());
        TrieCursor::new(input, self.root)
    }

    /// A cursor over Rows.db.
    fn rows(&self, context: &ReadContext) -> Cursor {
        Cursor::new(Arc::clone(&self.rows), Arc::clone(&self.pages), context.clone())
    }

    /// What the current entry says.
    fn target(trie: &mut TrieCursor) -> Result<Option<Target>, ReadError> {
        trie.payload()?.map(|payload| Self::target_in(payload, &mut trie.input)).transpose()
    }

    fn target_in(payload: Payload, input: &mut Cursor) -> Result<Target, ReadError> {
        input.seek(payload.position);
        let (hash, len) = match payload.bits {
            bits @ WITH_HASH.. => (Some(input.u8()?), bits - WITH_HASH + 1),
            bits => (None, bits),
        };
        Ok(Target { hash, number: read_signed(input, len)? })
    }

    /// Follows an entry of the trie, into Rows.db if it leads there.
    fn locate(&self, target: Target, rows: &mut Cursor) -> Result<Located, ReadError> {
        if target.number < 0 {
            return Ok(Located { position: !target.number as u64, rows: None });
        }
        let (at, file) = (target.number as u64, 0..self.rows.len);
        // A trie ends where its entry begins, with the root and then the nodes below it.
        let upper_nodes = (self.rows.len / self.count).min(UPPER_NODES_BYTES_MAX);
        rows.look_ahead(|ahead| ahead.set_near(at, upper_nodes, &file));
        rows.seek(at);
        let entry = RowsEntry::read(rows, self.times)?;
        Ok(Located { position: entry.position, rows: Some(entry) })
    }

    /// Finds a partition; the cursor over Rows.db comes with it.
    pub fn find(
        &self,
        key: &DecoratedKey,
        filter: Option<&KeyFilter>,
        layout: &Layout,
        data: &mut Cursor,
    ) -> Result<Option<(Located, Cursor)>, ReadError> {
        let mut trie = self.trie(data.context());
        let mut rows = self.rows(data.context());
        if let Some(payload) = trie.leaf(byte_comparable::key_bytes(key))? {
            let target = Self::target_in(payload, &mut trie.input)?;
            if target.hash.is_none_or(|hash| hash == hash_byte(key)) {
                let located = self.locate(target, &mut rows)?;
                let is_it = match &located.rows {
                    Some(entry) => entry.key == key.key.0,
                    None => has_key(key, located.position, data)?,
                };
                if is_it {
                    return Ok(Some((located, rows)));
                }
            }
        }
        if let Some(filter) = filter.filter(|filter| filter.is_asked() && !filter.passes(key)) {
            self.prove_interval(filter, key, data)?;
        }
        let range = KeyRange {
            start: KeyBound::Key { key: key.clone(), inclusive: true },
            end: KeyBound::Key { key: key.clone(), inclusive: true },
        };
        let mut sought = Vec::with_capacity(key.key.0.len() + 16);
        byte_comparable::encode_key(key, &mut sought);
        trie.seek_floor(&sought)?;
        match self.sides(&mut trie, &range, layout, data)? {
            Some((found, position)) if found == *key => Err(data.malformed(format!(
                "the index does not lead to the partition at {position}, whose key was asked for"
            ))),
            _ => Ok(None),
        }
    }

    /// The first partition of a range, if there is one. Makes sure that there is none between it and the one
    /// before. The trie stands at it afterwards.
    fn sides(
        &self,
        trie: &mut TrieCursor,
        range: &KeyRange,
        layout: &Layout,
        data: &mut Cursor,
    ) -> Result<Option<(DecoratedKey, u64)>, ReadError> {
        let mut rows = self.rows(data.context());
        let mut before: Option<(DecoratedKey, Located)> = None;
        let mut here = self.here(trie, &mut rows, data)?;
        // A cut key says less than the whole one: the floor may lie on either side.
        while here.as_ref().is_some_and(|(key, _)| !range.is_before_start(key)) {
            trie.previous()?;
            here = self.here(trie, &mut rows, data)?;
        }
        let behind = loop {
            match here {
                Some((key, located)) if range.is_before_start(&key) => before = Some((key, located)),
                Some((key, located)) => break Some((key, located.position)),
                None if before.is_some() => break None,
                None => {}
            }
            trie.next()?;
            here = self.here(trie, &mut rows, data)?;
        };
        let end = match &before {
            None => 0,
            Some((_, Located { position, rows: Some(entry) })) => {
                let end = entry.rows(rows, self.times).end()?;
                position.saturating_add(end).saturating_add(1)
            }
            Some((_, Located { position, rows: None })) => {
                data.seek(*position);
                skip_partition(data, layout)?
            }
        };
        let start = behind.as_ref().map_or(data.len(), |(_, position)| *position);
        let in_order = !matches!((&before, &behind), (Some((a, _)), Some((b, _))) if a >= b);
        if end != start || !in_order {
            data.seek(start);
            let detail = format!("the index has a partition here, the one before it ends at {end}");
            return Err(data.malformed(detail));
        }
        Ok(behind)
    }

    /// The partition of the current entry, its key as the data has it. The way through the trie, the hash and
    /// Rows.db have to agree: what is no partition may still look like one.
    fn here(
        &self,
        trie: &mut TrieCursor,
        rows: &mut Cursor,
        data: &mut Cursor,
    ) -> Result<Option<(DecoratedKey, Located)>, ReadError> {
        let Some(target) = Self::target(trie)? else { return Ok(None) };
        let located = self.locate(target, rows)?;
        let key = key_at(located.position, data)?;
        let mut encoded = Vec::with_capacity(key.key.0.len() + 16);
        byte_comparable::encode_key(&key, &mut encoded);
        let is_it = target.hash.is_none_or(|hash| hash == hash_byte(&key))
            && located.rows.as_ref().is_none_or(|entry| entry.key == key.key.0)
            && trie.leads_to(&encoded)?;
        match is_it {
            true => Ok(Some((key, located))),
            false => {
                let detail = format!("the entry of another key than the data has at {}", located.position);
                Err(trie.input.malformed(detail))
            }
        }
    }

    /// Finds out whether the filter has every key of the interval of a key.
    #[cold]
    fn prove_interval(
        &self,
        filter: &KeyFilter,
        key: &DecoratedKey,
        data: &mut Cursor,
    ) -> Result<(), ReadError> {
        let Some(interval) = self.interval(key) else { return Ok(()) };
        let place = (interval as u128 * self.span()).div_ceil(self.intervals().max(1) as u128);
        let token = Token((self.first.token.0 as i128 + place as i128) as i64);
        let mut trie = self.trie(data.context());
        let mut rows = self.rows(data.context());
        let mut sought = Vec::new();
        byte_comparable::encode_token(token, &mut sought);
        trie.seek_floor(&sought)?;
        if trie.payload()?.is_none() {
            trie.seek_first()?;
        }
        while let Some((key, _)) = self.here(&mut trie, &mut rows, data)? {
            match self.interval(&key).map(|other| other.cmp(&interval)) {
                Some(Ordering::Equal) if !filter.passes(&key) => {
                    filter.give_up();
                    return Ok(());
                }
                Some(Ordering::Equal | Ordering::Less) => {}
                _ => break,
            }
            trie.next()?;
        }
        filter.prove(interval);
        Ok(())
    }

    /// Proves a filter or gives it up.
    pub fn check_filter(
        &self,
        filter: &KeyFilter,
        data: &mut Cursor,
        pace: Pace<'_>,
    ) -> Result<FilterCheck, ReadError> {
        let mut trie = self.trie(data.context());
        let mut rows = self.rows(data.context());
        let (mut last, mut told) = (None, 0);
        while trie.next()? {
            let Some((key, located)) = self.here(&mut trie, &mut rows, data)? else { break };
            if last.is_some_and(|last| last >= located.position) {
                return Err(trie.input.malformed("positions do not ascend".to_owned()));
            }
            last = Some(located.position);
            if !filter.passes(&key) {
                filter.give_up();
                let what = format!("the key of the partition at {} does not pass", located.position);
                return Ok(FilterCheck::Lacks(what));
            }
            let done = located.position.saturating_sub(told);
            if done >= PACE_BYTES {
                told = located.position;
                if !pace(done) {
                    return Ok(FilterCheck::Stopped);
                }
            }
        }
        filter.prove_all();
        Ok(FilterCheck::Sound)
    }

    /// Where the first partition of a range starts in the data, and a walk from there.
    pub fn walk(
        self: &Arc<Self>,
        range: &KeyRange,
        layout: &Layout,
        data: &mut Cursor,
    ) -> Result<Option<(u64, PartitionWalk)>, ReadError> {
        let mut trie = self.trie(data.context());
        let rows = self.rows(data.context());
        let position = match &range.start {
            KeyBound::Unbounded => {
                trie.seek_first()?;
                0
            }
            start => {
                let mut sought = Vec::new();
                match start {
                    KeyBound::Key { key, .. } => byte_comparable::encode_key(key, &mut sought),
                    KeyBound::Token { token, .. } => byte_comparable::encode_token(*token, &mut sought),
                    KeyBound::Unbounded => {}
                }
                trie.seek_floor(&sought)?;
                match self.sides(&mut trie, range, layout, data)? {
                    Some((_, position)) => position,
                    None => return Ok(None),
                }
            }
        };
        let walk = PartitionWalk { index: Arc::clone(self), trie, rows, last: None };
        Ok(Some((position, walk)))
    }

    /// A walk from the entry that may be the last before a range: a cut key does not say on which side it is.
    pub fn walk_unproven(
        self: &Arc<Self>,
        range: &KeyRange,
        context: &ReadContext,
    ) -> Result<PartitionWalk, ReadError> {
        let (mut trie, mut sought) = (self.trie(context), Vec::new());
        match &range.start {
            KeyBound::Key { key, .. } => byte_comparable::encode_key(key, &mut sought),
            KeyBound::Token { token, .. } => byte_comparable::encode_token(*token, &mut sought),
            KeyBound::Unbounded => {}
        }
        trie.seek_floor(&sought)?;
        if BtiIndex::target(&mut trie)?.is_none() {
            trie.seek_first()?;
        }
        Ok(PartitionWalk { index: Arc::clone(self), trie, rows: self.rows(context), last: None })
    }
}

/// Partitions in order, for scans.
#[derive(Debug)]
pub(crate) struct PartitionWalk {
    index: Arc<BtiIndex>,
    /// At the next partition.
    trie: TrieCursor,
    pub rows: Cursor,
    last: Option<u64>,
}

impl PartitionWalk {
    /// Where the next partition starts; `None` at the end. It stays the next.
    pub fn peek_position(&mut self) -> Result<Option<u64>, ReadError> {
        let Some(target) = BtiIndex::target(&mut self.trie)? else { return Ok(None) };
        Ok(Some(self.index.locate(target, &mut self.rows)?.position))
    }

    /// Goes behind the partition that starts at `position` in the data, which must not lie before the next
    /// one.
    pub fn advance_to(&mut self, position: u64) -> Result<Located, ReadError> {
        while let Some(target) = BtiIndex::target(&mut self.trie)? {
            let located = self.index.locate(target, &mut self.rows)?;
            if self.last.is_some_and(|last| last >= located.position) || located.position > position {
                break;
            }
            self.last = Some(located.position);
            self.trie.next()?;
            if located.position == position {
                return Ok(located);
            }
        }
        let detail = format!("no entry of the partition at {position} of the data");
        Err(self.trie.input.malformed(detail))
    }
}

fn has_key(key: &DecoratedKey, position: u64, data: &mut Cursor) -> Result<bool, ReadError> {
    data.seek(position);
    let len = data.u16()? as u64;
    data.with_slice(len, |found| found == key.key.0)
}

fn key_at(position: u64, data: &mut Cursor) -> Result<DecoratedKey, ReadError> {
    data.seek(position);
    let len = data.u16()? as u64;
    data.with_slice(len, own)
}
