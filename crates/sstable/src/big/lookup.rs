//! Summary.db and Index.db of an open SSTable.
//!
//! Before a key that passed the filter is called absent, the order of the entries around it is checked, and
//! its neighbours against the data.

use super::directory::{self, Candidate};
use super::fences::Fences;
use super::index::{IndexEntry, IndexWalk};
use super::samples::Sample;
use super::summary::{Summary, SummaryBuilder};
use crate::bloom::BloomFilter;
use crate::index::Entry;
use crate::key_filter::{FilterCheck, KeyFilter, PACE_BYTES, Pace};
use crate::pages::{Cursor, FileId, FilePart, PageSource, PagedFile, Uncached};
use bytes::Bytes;
use model::key::{KeyBound, KeyRange, Token};
use model::{DecoratedKey, PartitionKey};
use partition::codec::{DecodeError, DeletionTimes, Input, Layout};
use partition::{ReadContext, ReadError};
use smallvec::SmallVec;
use std::sync::Arc;

/// Partitions for each entry of a summary that has to be rebuilt.
const REBUILT_INTERVAL: u32 = 128;
/// No entry of Index.db is shorter: the key's length, a byte of key, the position and the size of the
/// promoted index.
const ENTRY_BYTES_MIN: u64 = 5;
/// A filter without checksum is proven at once when Index.db has no more bytes.
const PROVEN_AT_ONCE_BYTES: u64 = 64 << 10;

/// Why a Summary.db cannot be used: it is damaged itself, or does not fit the index.
pub(crate) enum SummaryError {
    Decode(DecodeError),
    Read(ReadError),
}

impl From<ReadError> for SummaryError {
    fn from(error: ReadError) -> SummaryError {
        SummaryError::Read(error)
    }
}

/// The index of an open SSTable.
#[derive(Debug)]
pub(crate) struct BigIndex {
    summary: Summary,
    /// Between the entries of the summary.
    samples: Vec<Sample>,
    /// Between the blocks of large partitions.
    fences: Fences,
    file: Arc<PagedFile>,
    pages: Arc<dyn PageSource>,
    times: DeletionTimes,
}

impl BigIndex {
    /// Takes Summary.db, if there is one, and checks it against the end of the index; makes it anew
    /// otherwise.
    pub fn open(
        summary: Option<Bytes>,
        samples: Vec<Sample>,
        fences: Fences,
        file: Arc<PagedFile>,
        pages: Arc<dyn PageSource>,
        times: DeletionTimes,
    ) -> Result<BigIndex, SummaryError> {
        let summary = match summary {
            Some(bytes) => {
                let summary = Summary::decode(bytes).map_err(SummaryError::Decode)?;
                check_summary(&summary, &file)?;
                summary
            }
            None => rebuild_summary(&file)?,
        };
        Ok(BigIndex { summary, samples, fences, file, pages, times })
    }

    /// The index of what was written so far.
    pub fn growing(
        summary: Summary,
        samples: Vec<Sample>,
        file: Arc<PagedFile>,
        pages: Arc<dyn PageSource>,
        times: DeletionTimes,
    ) -> BigIndex {
        BigIndex { summary, samples, fences: Fences::default(), file, pages, times }
    }

    pub fn first_key(&self) -> &DecoratedKey {
        &self.summary.first
    }

    pub fn last_key(&self) -> &DecoratedKey {
        &self.summary.last
    }

    /// The keys that are in memory.
    pub fn known_keys(&self) -> impl Iterator<Item = &DecoratedKey> {
        self.summary.entries.iter().map(|(key, _)| key).chain([&self.summary.last])
    }

    pub fn memory_bytes(&self) -> usize {
        self.summary.memory_bytes() + size_of_val(self.samples.as_slice()) + self.fences.memory_bytes()
    }

    /// What lies between the blocks of large partitions, where that is known.
    pub fn fences(&self) -> Option<&Fences> {
        Some(&self.fences).filter(|fences| !fences.is_empty())
    }

    /// The pages that a cache may have, those of directories among them.
    pub fn pages(&self) -> impl Iterator<Item = (FileId, u64)> + '_ {
        let of_summary = self.summary.entries.iter().map(|(_, position)| *position);
        let parts = of_summary.chain(self.samples.iter().map(|sample| sample.position));
        let directories = self.directories();
        self.file.pages().chain(parts.map(move |start| (directories, start)))
    }

    fn directories(&self) -> FileId {
        FileId { sstable: self.file.id.sstable, part: FilePart::IndexDirectory }
    }

    /// The entry of the summary before a key.
    pub fn interval(&self, key: &DecoratedKey) -> Option<usize> {
        self.summary.floor(key)
    }

    /// Number of [`BigIndex::interval`]s.
    pub fn intervals(&self) -> usize {
        self.summary.entries.len()
    }

    /// How many keys of the summary lie in a range, and for how many partitions each stands.
    pub fn sampled(&self, range: &KeyRange) -> (u64, u64) {
        let keys = self.summary.entries.iter().filter(|(key, _)| range.contains(key)).count();
        (keys as u64, self.summary.min_index_interval.into())
    }

    /// Makes the filter that is missing, for about so many keys; `None` when the SSTable is to have none.
    pub fn make_filter(&self, keys: u64, fp_chance: f64) -> Result<Option<BloomFilter>, ReadError> {
        let keys = keys.min(self.file.len / ENTRY_BYTES_MIN);
        let Some(mut filter) = BloomFilter::new(keys, fp_chance) else { return Ok(None) };
        let mut walk = IndexWalk::new(uncached(&self.file), 0);
        while let Some(entry) = walk.next()? {
            filter.add(&DecoratedKey::new(PartitionKey(entry.key)));
        }
        Ok(Some(filter))
    }

    /// Proves a filter at once when that costs little.
    pub fn prove_if_small(&self, filter: &KeyFilter) -> Result<(), ReadError> {
        if self.file.len <= PROVEN_AT_ONCE_BYTES {
            walk_filter(filter, &mut IndexWalk::new(uncached(&self.file), 0), &mut |_| true)?;
        }
        Ok(())
    }

    /// Proves a filter or gives it up.
    pub fn check_filter(
        &self,
        filter: &KeyFilter,
        context: &ReadContext,
        pace: Pace<'_>,
    ) -> Result<FilterCheck, ReadError> {
        walk_filter(filter, &mut IndexWalk::new(self.cursor(context), 0), pace)
    }

    fn cursor(&self, context: &ReadContext) -> Cursor {
        Cursor::new(Arc::clone(&self.file), Arc::clone(&self.pages), context.clone())
    }

    /// Finds the entry of a key.
    pub fn find(
        &self,
        key: &DecoratedKey,
        filter: Option<&KeyFilter>,
        layout: &Layout,
        data: &mut Cursor,
    ) -> Result<Option<Entry>, ReadError> {
        let Some(interval) = self.summary.floor(key).filter(|_| *key <= self.summary.last) else {
            return Ok(None);
        };
        let part = self.part(interval, key.token);
        if part.end.saturating_sub(part.start) > directory::NEAR_BYTES && part.first == Some(key.token) {
            let mut index = self.cursor(data.context());
            index.seek(part.start);
            if let Some(entry) = entry_of(key, &mut index)? {
                return Ok(Some(Entry::Big(entry, Box::new(index))));
            }
        }
        if let Some(candidates) = self.candidates(&part, key.token, data.context())? {
            for candidate in candidates {
                if let Some(position) = candidate.position
                    && is_key_at(key, position, data)?
                {
                    return Ok(Some(Entry::Small(position)));
                }
                let mut index = self.cursor(data.context());
                index.seek(part.start + candidate.offset);
                if let Some(entry) = entry_of(key, &mut index)? {
                    return Ok(Some(Entry::Big(entry, Box::new(index))));
                }
            }
        }
        let mut index = self.cursor(data.context());
        let (start, end) = self.bounds(interval);
        if part.start > start {
            index.seek(part.start);
            while index.position() < part.end {
                if let Some(entry) = entry_of(key, &mut index)? {
                    return Ok(Some(Entry::Big(entry, Box::new(index))));
                }
            }
        }
        index.seek(start);
        while index.position() < end {
            if let Some(entry) = entry_of(key, &mut index)? {
                return Ok(Some(Entry::Big(entry, Box::new(index))));
            }
        }
        if let Some(filter) = filter {
            if filter.is_asked() && !filter.passes(key) {
                self.prove_interval(filter, interval, &mut index)?;
            }
            self.check_absence(key, interval, &mut index, layout, data)?;
        }
        Ok(None)
    }

    /// The entries of an interval of the summary among which those of a token are.
    fn part(&self, interval: usize, token: Token) -> Part {
        let (start, end) = self.bounds(interval);
        let behind = self.samples.partition_point(|sample| sample.token <= token);
        let inside = |at: Option<usize>| {
            at.and_then(|at| self.samples.get(at))
                .filter(|sample| start < sample.position && sample.position < end)
        };
        let (before, behind) = (inside(behind.checked_sub(1)), inside(Some(behind)));
        let sampled = |interval: usize| self.summary.entries.get(interval).map(|(sample, _)| sample.token);
        Part {
            start: before.map_or(start, |sample| sample.position),
            end: behind.map_or(end, |sample| sample.position),
            first: before.map(|sample| sample.token).or_else(|| sampled(interval)),
            behind: behind
                .map(|sample| sample.token)
                .or_else(|| sampled(interval + 1))
                .unwrap_or(self.summary.last.token),
        }
    }

    /// The entries of a part of an interval that may have a key of the token, by the part's directory, if it
    /// is to have one.
    fn candidates(
        &self,
        part: &Part,
        token: Token,
        context: &ReadContext,
    ) -> Result<Option<Candidates>, ReadError> {
        let Part { start, end, first, behind } = *part;
        if self.file.is_growing() && end == self.file.len {
            return Ok(None);
        }
        if !self.pages.keeps(FilePart::IndexDirectory, context)
            || end.saturating_sub(start) > directory::SPAN_BYTES_MAX
        {
            return Ok(None);
        }
        let expected = directory::expected(first.unwrap_or(Token::MIN), token, behind);
        let file = self.directories();
        let mut found = Candidates::new();
        let mut search = |directory: &[u8]| {
            found.extend(directory::candidates(directory, token, expected));
        };
        if self.pages.look(file, start, context, &mut search)? {
            return Ok(Some(found));
        }
        let mut make = || directory::build(&mut self.cursor(context), start, end).map(Bytes::from);
        match self.pages.page(file, start, context, &mut make) {
            Ok(directory) => search(&directory),
            Err(ReadError::WouldBlock) => return Err(ReadError::WouldBlock),
            // An entry is damaged; the search says so if it meets it.
            Err(_) => return Ok(None),
        }
        Ok(Some(found))
    }

    /// Finds out whether the filter has every key of an interval of the summary.
    #[cold]
    fn prove_interval(
        &self,
        filter: &KeyFilter,
        interval: usize,
        index: &mut Cursor,
    ) -> Result<(), ReadError> {
        let (start, end) = self.bounds(interval);
        index.seek(start);
        while index.position() < end {
            let entry = IndexEntry::read(index)?;
            if !filter.passes(&DecoratedKey::new(PartitionKey(entry.key))) {
                filter.give_up();
                return Ok(());
            }
        }
        filter.prove(interval);
        Ok(())
    }

    /// Where the entries of an interval of the summary start and end.
    fn bounds(&self, interval: usize) -> (u64, u64) {
        let at = |i: usize| self.summary.entries.get(i).map(|(_, position)| *position);
        (at(interval).unwrap_or(0), at(interval + 1).unwrap_or(self.file.len))
    }

    /// Fails when an entry around the place of a key that was not found is not what the summary, the order of
    /// keys and the data say.
    #[cold]
    fn check_absence(
        &self,
        key: &DecoratedKey,
        interval: usize,
        index: &mut Cursor,
        layout: &Layout,
        data: &mut Cursor,
    ) -> Result<(), ReadError> {
        let (before, behind) = self.sides(interval, &|found| found <= key, index, layout)?;
        before.iter().chain(&behind).try_for_each(|side| check_key(&side.key, side.entry.position, data))?;
        behind.map_or(Ok(()), |behind| self.check_rest(interval, behind, index))
    }

    /// The last entry of an interval for which `is_before` holds, and the one behind it. Entries up to the
    /// latter are checked to ascend, and to leave no room between the two. No entry of the next interval may
    /// be before. The caller checks what entries say of the data.
    fn sides(
        &self,
        interval: usize,
        is_before: &dyn Fn(&DecoratedKey) -> bool,
        index: &mut Cursor,
        layout: &Layout,
    ) -> Result<(Option<Side>, Option<Side>), ReadError> {
        index.seek(self.bounds(interval).0);
        let mut before: Option<Side> = None;
        while index.position() < self.file.len {
            let side = self.side(interval, before.as_ref(), index)?;
            if !is_before(&side.key) {
                if let Some(before) = &before {
                    self.check_length(&before.entry, side.entry.position, index, layout)?;
                }
                return Ok((before, Some(side)));
            }
            before = Some(side);
        }
        self.check_last(before.as_ref(), index)?;
        Ok((before, None))
    }

    /// The entry at the cursor, which is of an interval or the first behind it. It has to lie behind the one
    /// before, and samples of the summary have to be where the summary says.
    fn side(&self, interval: usize, before: Option<&Side>, index: &mut Cursor) -> Result<Side, ReadError> {
        let (start, end) = self.bounds(interval);
        let sample = |i: usize| self.summary.entries.get(i).map(|(key, _)| key);
        let at = index.position();
        let entry = IndexEntry::read(index)?;
        let key = DecoratedKey::new(PartitionKey(entry.key.clone()));
        let is_where_sampled = match at {
            at if at == start => sample(interval) == Some(&key),
            at if at == end => sample(interval + 1) == Some(&key),
            at => at < end,
        };
        match is_where_sampled && before.is_none_or(|before| before.key < key) {
            true => Ok(Side { at, key, entry }),
            false => Err(index.malformed("keys out of order, or not those of the summary".to_owned())),
        }
    }

    /// Checks that the rest of an interval ascends, too. Entries that changed places with others are in order
    /// somewhere, but not up to the next sample.
    fn check_rest(&self, interval: usize, from: Side, index: &mut Cursor) -> Result<(), ReadError> {
        let (_, end) = self.bounds(interval);
        let mut last = from;
        while last.at < end {
            index.seek(last.entry.end);
            if index.is_at_end() {
                return self.check_last(Some(&last), index);
            }
            last = self.side(interval, Some(&last), index)?;
        }
        Ok(())
    }

    /// Nothing comes behind the last key of the summary, and no other key is the last one.
    fn check_last(&self, last: Option<&Side>, index: &Cursor) -> Result<(), ReadError> {
        match last.is_some_and(|last| last.key == self.summary.last) {
            true => Ok(()),
            false => Err(index.malformed("the last key is not the one of the summary".to_owned())),
        }
    }

    /// A damaged length may have swallowed the entries that follow. So the last block of an entry's rows has
    /// to be described at the entry's end, and to end where the partition of the next entry starts.
    fn check_length(
        &self,
        entry: &IndexEntry,
        next: u64,
        index: &Cursor,
        layout: &Layout,
    ) -> Result<(), ReadError> {
        if !entry.has_rows() {
            return Ok(());
        }
        let rows = entry.promoted(Box::new(index.clone()), self.times)?;
        let end = rows.map(|mut rows| rows.last(layout)).transpose()?.map(|last| last.end);
        let end = end.and_then(|end| entry.position.checked_add(end));
        // The byte that ends a partition belongs to its last block or to none.
        match end.and_then(|end| next.checked_sub(end)) {
            Some(0 | 1) => Ok(()),
            _ => Err(index.malformed(format!("blocks up to {end:?}, the next partition at {next}"))),
        }
    }

    /// Where the first partition of a range starts in the data, and a walk from there.
    pub fn walk(
        &self,
        range: &KeyRange,
        layout: &Layout,
        data: &mut Cursor,
    ) -> Result<Option<(u64, IndexWalk)>, ReadError> {
        let mut index = self.cursor(data.context());
        if range.start == KeyBound::Unbounded {
            return Ok(Some((0, IndexWalk::new(index, 0))));
        }
        let before = self.summary.entries.partition_point(|(key, _)| range.is_before_start(key));
        let is_before = |key: &DecoratedKey| range.is_before_start(key);
        let interval = before.saturating_sub(1);
        let (before, first) = self.sides(interval, &is_before, &mut index, layout)?;
        let Some(first) = first else { return Ok(None) };
        check_key(&first.key, first.entry.position, data)?;
        let (at, position) = (first.at, first.entry.position);
        // In front of the key that a range begins with is nothing that the range has.
        if !matches!(&range.start, KeyBound::Key { key, .. } if *key == first.key) {
            before.map_or(Ok(()), |before| check_key(&before.key, before.entry.position, data))?;
            self.check_rest(interval, first, &mut index)?;
        }
        Ok(Some((position, IndexWalk::new(index, at))))
    }

    /// A walk from the entry of the summary before a range.
    pub fn walk_unproven(&self, range: &KeyRange, context: &ReadContext) -> IndexWalk {
        let before = self.summary.entries.partition_point(|(key, _)| range.is_before_start(key));
        let start = before.checked_sub(1).and_then(|interval| self.summary.entries.get(interval));
        IndexWalk::new(self.cursor(context), start.map_or(0, |(_, position)| *position))
    }
}

/// Entries of an interval of the summary, from one sample to the next.
#[derive(Debug)]
struct Part {
    start: u64,
    end: u64,
    /// The token of the first one.
    first: Option<Token>,
    /// The token of the entry behind them, or of the last one of all.
    behind: Token,
}

/// Entries that may be a key's; mostly one.
type Candidates = SmallVec<[Candidate; 2]>;

/// An entry beside a place in Index.db.
#[derive(Debug)]
struct Side {
    /// Where it starts.
    at: u64,
    key: DecoratedKey,
    entry: IndexEntry,
}

/// Proves a filter or gives it up; yields where in Index.db the first key is that does not pass.
fn walk_filter(filter: &KeyFilter, walk: &mut IndexWalk, pace: Pace<'_>) -> Result<FilterCheck, ReadError> {
    let (mut position, mut told) = (0, 0);
    while let Some(entry) = walk.next()? {
        if !filter.passes(&DecoratedKey::new(PartitionKey(entry.key))) {
            filter.give_up();
            let what = format!("the key of the entry at {position} of Index.db does not pass");
            return Ok(FilterCheck::Lacks(what));
        }
        position = entry.end;
        if position - told >= PACE_BYTES {
            if !pace(position - told) {
                return Ok(FilterCheck::Stopped);
            }
            told = position;
        }
    }
    filter.prove_all();
    Ok(FilterCheck::Sound)
}

/// Whether the partition that starts at `position` in the data is the key's.
fn is_key_at(key: &DecoratedKey, position: u64, data: &mut Cursor) -> Result<bool, ReadError> {
    data.seek(position);
    let len = data.u16()? as u64;
    data.with_slice(len, |found| found == key.key.0)
}

fn check_key(key: &DecoratedKey, position: u64, data: &mut Cursor) -> Result<(), ReadError> {
    match is_key_at(key, position, data)? {
        true => Ok(()),
        false => Err(data.malformed("the partition key is not the one of the index".to_owned())),
    }
}

/// The entry at the cursor if it is the key's; the cursor is behind it either way.
#[inline]
fn entry_of(key: &DecoratedKey, index: &mut Cursor) -> Result<Option<IndexEntry>, ReadError> {
    let at = index.position();
    let len = index.u16()? as u64;
    if index.with_slice(len, |found| found == key.key.0)? {
        index.seek(at);
        return IndexEntry::read(index).map(Some);
    }
    index.uvint()?;
    let size = index.uvint()?;
    index.skip(size)?;
    Ok(None)
}

fn uncached(index: &Arc<PagedFile>) -> Cursor {
    Cursor::new(Arc::clone(index), Arc::new(Uncached), ReadContext::default())
}

/// Fails when the index does not end as the summary says: with the last entry's key, and then up to the last
/// key.
fn check_summary(summary: &Summary, index: &Arc<PagedFile>) -> Result<(), ReadError> {
    let Some((sampled, start)) = summary.entries.last() else { return Ok(()) };
    let mut walk = IndexWalk::new(uncached(index), *start);
    let (mut first, mut last): (Option<bool>, Option<DecoratedKey>) = (None, None);
    while let Some(entry) = walk.next()? {
        let key = DecoratedKey::new(PartitionKey(entry.key));
        first = first.or(Some(key == *sampled));
        last = Some(key);
    }
    match first == Some(true) && last.as_ref() == Some(&summary.last) {
        true => Ok(()),
        false => Err(walk.cursor.malformed("the last keys are not those of the summary".to_owned())),
    }
}

/// Makes the summary that is missing from the index.
fn rebuild_summary(index: &Arc<PagedFile>) -> Result<Summary, ReadError> {
    let mut walk = IndexWalk::new(uncached(index), 0);
    let mut builder = SummaryBuilder::new(REBUILT_INTERVAL);
    let mut position = 0;
    while let Some(entry) = walk.next()? {
        let key = DecoratedKey::new(PartitionKey(entry.key));
        if builder.last().is_some_and(|last| *last >= key) {
            return Err(walk.cursor.malformed("keys are out of order".to_owned()));
        }
        builder.add(&key, position);
        position = entry.end;
    }
    builder.finish().ok_or_else(|| walk.cursor.malformed("the index is empty".to_owned()))
}
