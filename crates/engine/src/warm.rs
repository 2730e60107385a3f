//! What readers find in the page cache when an SSTable that was just written takes the place of others, or of a memtable.
//!
//! 1. Pages of data go there while they are written. Of a flush all, as ones that were needed a little, because what they hold
//!    was in memory until now; flushes of tables that nobody reads warm nothing. Of a compaction those that hold something
//!    that lay in pages that are in the cache ([`Metered`]), so that what was hot stays so.
//! 2. Nobody knows for which of its rows a page is in the cache, and the rows of one page go to as many as inputs interleave.
//!    Those that are hot for the most part count as needed again and again, the others as needed a little: where the cache is
//!    full, that displaces nothing but what was needed once. Of the others there are [`PARTS_MAX`] for each page of the inputs
//!    that is in the cache, at most.
//!    Of a row that lies in more than [`SHORT_PAGES`] pages each cell is as hot as the pages that it lay in, about, so that a
//!    column that is read of long rows stays hot and the others cold; the merge hands the bytes of values on, by which they
//!    are known again.
//! 3. An input says whether a fragment was hot when it is asked for the next one, and pages end inside of fragments. So what
//!    becomes of a page is settled when the fragment that it ended in is counted; until then it is kept aside, if it may be
//!    hot. That is as much as the longest row, which is in memory besides.
//! 4. The index has other pages than those of the inputs, and what is made of them besides. So the first and the last
//!    fragment that begin in a page of data that is warmed are noted (where the page before is warmed, too, the
//!    last), and looked up in the index of the new SSTable as a read would before anybody reads it. (Of one that
//!    began in the page before, that page is not warmed: looking it up would, since where the index has not the whole
//!    key the data is compared.) Of long rows the pages of the outline are looked up, too. Notes take [`NOTED_BYTES_MAX`] at most; of more, every other one is forgotten.
//! 5. When the SSTable is given up before it is a part of its table, its pages leave the cache, those among them that readers
//!    brought there.

use crate::turns::give_way;
use bytes::Bytes;
use model::{Clustering, ClusteringBound, DecoratedKey, PartitionKey, Row, TableSchema};
use parking_lot::Mutex;
use partition::codec::LONG_VALUE_BYTES;
use partition::{Event, Fragment, PartitionStream, ReadContext, ReadError};
use sstable::{FileId, FilePart, PageSink, PageSource, SsTable, SsTableStream};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a page counts as that a compaction made of hot ones for the most part: as needed this many times.
const COMPACTED_COUNT: u8 = 4;
/// One of a flush, or with less that is hot: more than a page that was read once, less than one that is read again and again.
const FLUSHED_COUNT: u8 = 2;
/// Pages that a compaction warms for each hot one of its inputs because a lesser part of them is hot, at most: as many as size-tiered
/// compaction has inputs.
const PARTS_MAX: u64 = 32;
/// A row that lies in more pages than this is hot here and there.
const SHORT_PAGES: u64 = 4;
/// A row with this many bytes may have an outline of its own.
const LONG_ROW_BYTES: u64 = 2 * LONG_VALUE_BYTES as u64;
/// Bytes of memory for places in the index between two times that they are looked up.
const NOTED_BYTES_MAX: usize = 4 << 20;

/// How much of what the inputs of a compaction yielded was hot.
#[derive(Debug, Default)]
pub(crate) struct Heat {
    /// Fragments that were used, and those of them that were hot.
    used: AtomicU64,
    hot: AtomicU64,
    /// Inputs that stand at a fragment that may be hot, and was not used yet.
    hot_heads: AtomicU64,
    /// The hot values of the long rows that inputs stand at, by where they lie in memory.
    hot_values: Mutex<HashSet<usize>>,
    /// How many these are.
    hot_value_count: AtomicU64,
    /// Pages of inputs that were in the cache.
    hot_pages: AtomicU64,
    /// Pages that were warmed because a lesser part of them was hot.
    parts: AtomicU64,
}

/// Adds without a locked instruction: one thread does.
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl Heat {
    fn so_far(&self) -> Used {
        Used { all: self.used.load(Ordering::Relaxed), hot: self.hot.load(Ordering::Relaxed) }
    }

    fn has_hot_head(&self) -> bool {
        self.hot_heads.load(Ordering::Relaxed) > 0
    }

    /// An input goes on to a row with these hot values, from one with others.
    fn go_to_values(&self, before: &mut Vec<usize>, now: impl Iterator<Item = usize>) {
        let mut values = self.hot_values.lock();
        before.drain(..).for_each(|value| _ = values.remove(&value));
        before.extend(now.filter(|value| values.insert(*value)));
        self.hot_value_count.store(values.len() as u64, Ordering::Relaxed);
    }

    /// Where the hot values of a row lie, which was written from `start` to `end`.
    fn hot_spots(&self, row: &Row, start: u64, end: u64, out: &mut Vec<Range<u64>>) {
        if self.hot_value_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let values = self.hot_values.lock();
        for (value, spot) in values_at(row, start, end).filter(|(value, _)| values.contains(&identity(value)))
        {
            match out.last_mut() {
                Some(last) if spot.start.saturating_sub(last.end) < value.len() as u64 => last.end = spot.end,
                _ => out.push(spot),
            }
        }
    }

    /// Whether one more page may be warmed because a lesser part of it is hot.
    fn takes_part(&self) -> bool {
        let takes = self.parts.load(Ordering::Relaxed) < self.hot_pages.load(Ordering::Relaxed) * PARTS_MAX;
        add(&self.parts, u64::from(takes));
        takes
    }
}

/// What tells a value from all others that are in memory.
fn identity(value: &Bytes) -> usize {
    value.as_ptr().addr()
}

/// The values of a row that lies between `start` and `end`, and where each lies, about: what is before them is as long for each.
fn values_at(row: &Row, start: u64, end: u64) -> impl Iterator<Item = (&Bytes, Range<u64>)> {
    let bytes: u64 = row.cells.iter().map(|cell| cell.value.len() as u64).sum();
    let heads = end.saturating_sub(start).saturating_sub(bytes);
    let count = row.cells.len().max(1) as u64;
    let mut before = 0;
    let all = (1..).zip(&row.cells).map(move |(number, cell)| {
        let at = start + heads * number / count + before;
        before += cell.value.len() as u64;
        (&cell.value, at..at + cell.value.len() as u64)
    });
    all.filter(|(value, _)| !value.is_empty())
}

/// Fragments that were used.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    all: u64,
    hot: u64,
}

/// An input of a compaction whose fragments are counted in a [`Heat`]: each once it was used, which is when whoever merges asks
/// for the next one. It is hot if the page that it begins in and more than half of those that it lies in are in the cache: who
/// read a row across two pages needed both.
pub(crate) struct Metered {
    stream: Box<SsTableStream>,
    sstable: Arc<SsTable>,
    heat: Arc<Heat>,
    /// The page that was looked at last, and whether it is in the cache.
    page: Option<u64>,
    page_is_hot: bool,
    /// Whether the input stands at a fragment, which is counted when it was used.
    has_head: bool,
    /// Whether the page is hot that this begins in.
    begins_hot: bool,
    /// The hot values of the long row that the input stands at.
    hot_values: Vec<usize>,
}

impl Metered {
    pub fn new(stream: Box<SsTableStream>, sstable: &Arc<SsTable>, heat: &Arc<Heat>) -> Metered {
        Metered {
            stream,
            sstable: Arc::clone(sstable),
            heat: Arc::clone(heat),
            page: None,
            page_is_hot: false,
            has_head: false,
            begins_hot: false,
            hot_values: Vec::new(),
        }
    }

    fn go_to_page(&mut self, page: u64) {
        if self.page != Some(page) {
            self.page = Some(page);
            self.page_is_hot = self.sstable.has_page(page);
            add(&self.heat.hot_pages, u64::from(self.page_is_hot));
        }
    }

    /// Counts the fragment before, and goes to the one that the stream stands at, if it is not `over`.
    fn meter(&mut self, over: bool) {
        let at = self.stream.position();
        if self.has_head {
            let (mut pages, mut hot) = (1, u64::from(self.begins_hot));
            let (first, last) = (self.page.unwrap_or_default(), self.sstable.page_of(at.saturating_sub(1)));
            for page in first + 1..=last {
                self.go_to_page(page);
                pages += 1;
                hot += u64::from(self.page_is_hot);
            }
            add(&self.heat.used, 1);
            if self.begins_hot {
                add(&self.heat.hot, u64::from(hot * 2 > pages));
            }
            if self.begins_hot || !self.hot_values.is_empty() {
                add(&self.heat.hot_heads, u64::MAX);
            }
        }
        if !self.hot_values.is_empty() {
            self.heat.go_to_values(&mut self.hot_values, std::iter::empty());
        }
        self.has_head = !over;
        if over {
            return;
        }
        self.go_to_page(self.sstable.page_of(at));
        self.begins_hot = self.page_is_hot;
        add(&self.heat.hot_heads, u64::from(self.begins_hot));
    }

    /// Looks for the hot values of the row that the input stands at, if it is long. A value is hot if more than half of the pages
    /// are that it lies in.
    fn meter_values(&mut self, row: &Row) {
        let (start, end) = (self.stream.position(), self.stream.end());
        let sstable = &self.sstable;
        let pages_of = |spot: &Range<u64>| sstable.page_of(spot.start)..=sstable.page_of(spot.end.max(1) - 1);
        let pages = pages_of(&(start..end));
        if pages.end() - pages.start() < SHORT_PAGES {
            return;
        }
        let hot: Vec<bool> = pages.clone().map(|page| sstable.has_page(page)).collect();
        if !hot.contains(&true) {
            return;
        }
        let is_hot = |spot: &Range<u64>| {
            let (mut all, mut are_hot) = (0, 0);
            for page in pages_of(spot) {
                let page_is_hot = hot.get(page.saturating_sub(*pages.start()) as usize);
                all += 1;
                are_hot += u64::from(page_is_hot.is_some_and(|is_hot| *is_hot));
            }
            are_hot * 2 > all
        };
        let values = values_at(row, start, end).filter(|(_, spot)| is_hot(spot));
        self.heat.go_to_values(&mut self.hot_values, values.map(|(value, _)| identity(value)));
        add(&self.heat.hot_heads, u64::from(!self.begins_hot && !self.hot_values.is_empty()));
    }
}

impl PartitionStream for Metered {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        let event = self.stream.next(out)?;
        self.meter(event == Event::End);
        if event == Event::Row {
            self.meter_values(&out.row);
        }
        Ok(event)
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.stream.skip_partition()
    }
}

/// A place in an SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    key: DecoratedKey,
    bound: ClusteringBound,
    /// Whether it is a row that may have an outline of its own.
    is_long_row: bool,
}

impl Place {
    /// Goes to what was written of the partition `key`, in so many bytes.
    fn go_to(&mut self, key: &DecoratedKey, event: Event, fragment: &Fragment, bytes: u64) {
        self.key.clone_from(key);
        self.is_long_row = event == Event::Row && bytes >= LONG_ROW_BYTES;
        match event {
            Event::Row => {
                self.bound.kind = ClusteringBound::BOTTOM.kind;
                self.bound.prefix.assign(&fragment.row.clustering);
            }
            Event::RangeChange => self.bound.clone_from(&fragment.change.position),
            Event::PartitionStart | Event::StaticRow => self.bound = ClusteringBound::BOTTOM,
            Event::PartitionEnd | Event::End => self.bound = ClusteringBound::TOP,
        }
    }

    /// The same, with a key that is not a part of a larger buffer.
    fn to_note(&self) -> Place {
        let bytes = bytes::Bytes::copy_from_slice(&self.key.key.0);
        let key = DecoratedKey { token: self.key.token, key: PartitionKey(bytes) };
        Place { key, bound: self.bound.clone(), is_long_row: self.is_long_row }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Place>() + self.key.key.0.len() + self.bound.prefix.data_size()
    }
}

impl Default for Place {
    fn default() -> Place {
        let bound = ClusteringBound { kind: ClusteringBound::BOTTOM.kind, prefix: Clustering::empty() };
        Place { key: Fragment::default().key, bound, is_long_row: false }
    }
}

/// Places in an SSTable, in its order.
#[derive(Debug, Default)]
struct Notes {
    places: Vec<Place>,
    bytes: usize,
}

impl Notes {
    fn push(&mut self, place: &Place) {
        if self.places.last() == Some(place) {
            return;
        }
        self.places.push(place.to_note());
        self.bytes += place.memory_bytes();
        if self.bytes > NOTED_BYTES_MAX {
            let mut stays = false;
            self.places.retain(|_| {
                stays = !stays;
                stays
            });
            self.bytes = self.places.iter().map(Place::memory_bytes).sum();
        }
    }

    fn forget_all_but_last(&mut self) {
        self.places.drain(..self.places.len().saturating_sub(1));
        self.bytes = self.places.iter().map(Place::memory_bytes).sum();
    }
}

/// Warms one SSTable.
#[derive(Debug)]
pub(crate) struct Warmth {
    file: FileId,
    cache: Arc<dyn PageSource>,
    /// Number of pages of data that ended.
    pages: u64,
    /// What was opened of it last.
    opened: Option<Arc<SsTable>>,
    /// Whether it became a part of its table.
    stays: bool,
    /// Of the inputs; `None`: a memtable.
    heat: Option<Arc<Heat>>,
    /// What was counted when this was settled last.
    seen: Used,
    ended: Arc<Ended>,
    /// Where in Data.db the fragment that was written last begins and ends.
    start: u64,
    end: u64,
    /// The parts of it that are hot, if it is a long row of which not nothing is.
    spots: Vec<Range<u64>>,
    /// Where the page begins that is not full yet, and how much of it is hot.
    page_start: u64,
    hot_bytes: u64,
    /// The first fragment that began in the page, if there is one.
    first: Place,
    has_first: bool,
    /// The fragment in which pages ended last.
    last: Place,
    /// Whether the page that ended last was warmed.
    before_is_warm: bool,
    noted: Notes,
    /// The partition that is being written.
    current: Option<DecoratedKey>,
}

impl Warmth {
    /// Of what a compaction writes as the SSTable with this number, and what sees its pages meanwhile. `heat` is that of
    /// the inputs.
    pub fn of_compaction(
        number: u64,
        pages: &Arc<dyn PageSource>,
        heat: &Arc<Heat>,
    ) -> (Warmth, Box<dyn PageSink>) {
        Warmth::new(number, pages, Some(Arc::clone(heat)))
    }

    /// Of what a flush writes as the SSTable with this number, and what sees its pages meanwhile.
    pub fn of_flush(number: u64, pages: &Arc<dyn PageSource>) -> (Warmth, Box<dyn PageSink>) {
        Warmth::new(number, pages, None)
    }

    fn new(number: u64, pages: &Arc<dyn PageSource>, heat: Option<Arc<Heat>>) -> (Warmth, Box<dyn PageSink>) {
        let ended = Arc::<Ended>::default();
        let sink = Sink { heat: heat.clone(), ended: Arc::clone(&ended) };
        let warmth = Warmth {
            file: FileId { sstable: number, part: FilePart::Data },
            cache: Arc::clone(pages),
            pages: 0,
            opened: None,
            stays: false,
            seen: heat.as_ref().map(|heat| heat.so_far()).unwrap_or_default(),
            heat,
            ended,
            start: 0,
            end: 0,
            spots: Vec::new(),
            page_start: 0,
            hot_bytes: 0,
            first: Place::default(),
            has_first: false,
            last: Place::default(),
            before_is_warm: false,
            noted: Notes::default(),
            current: None,
        };
        (warmth, Box::new(sink))
    }

    /// The SSTable's number.
    pub fn number(&self) -> u64 {
        self.file.sstable
    }

    /// A fragment is going to be written, for which the inputs were asked after the one before.
    pub fn starts(&mut self, event: Event, fragment: &Fragment) {
        self.settle();
        if event == Event::PartitionStart {
            self.current = Some(fragment.key.clone());
        }
    }

    /// The fragment was written, up to `end` in Data.db.
    pub fn wrote(&mut self, event: Event, fragment: &Fragment, end: u64) {
        (self.start, self.end) = (self.end, end);
        self.spots.clear();
        if let (Event::Row, Some(heat)) = (event, &self.heat) {
            heat.hot_spots(&fragment.row, self.start, end, &mut self.spots);
        }
        let Some(key) = &self.current else { return };
        if !self.has_first && !matches!(event, Event::PartitionEnd | Event::End) {
            self.has_first = true;
            self.first.go_to(key, event, fragment, end - self.start);
        }
        if self.ended.any.load(Ordering::Relaxed) {
            self.last.go_to(key, event, fragment, end - self.start);
        }
    }

    /// Counts the fragment that was written last, puts the pages that ended in it into the cache or not, and notes where those begin
    /// and end that it put there.
    fn settle(&mut self) {
        let used = match &self.heat {
            Some(heat) => {
                let so_far = heat.so_far();
                let seen = std::mem::replace(&mut self.seen, so_far);
                Used { all: so_far.all - seen.all, hot: so_far.hot - seen.hot }
            }
            None => Used::default(),
        };
        let spots = std::mem::take(&mut self.spots);
        let hot_in = |from: u64, to: u64| match to.saturating_sub(from) {
            0 => 0,
            _ if !spots.is_empty() => {
                spots.iter().map(|spot| spot.end.min(to).saturating_sub(spot.start.max(from))).sum()
            }
            // A fragment in which several inputs meet is as hot as they are on the average.
            bytes if used.hot > 0 => (bytes * used.hot / used.all).max(1),
            _ => 0,
        };
        let (mut begins, mut first, mut any) = (self.has_first, false, false);
        let pages = match self.ended.any.load(Ordering::Relaxed) {
            true => self.ended.take(),
            false => Vec::new(),
        };
        self.has_first &= pages.is_empty();
        for Page { number, len, content } in pages {
            self.pages = number + 1;
            let page_end = self.page_start + len;
            let here = hot_in(self.start.max(self.page_start), page_end);
            let hot = std::mem::take(&mut self.hot_bytes) + here;
            self.page_start = page_end;
            let count = match &self.heat {
                None => Some(FLUSHED_COUNT),
                Some(_) if hot == 0 => None,
                Some(_) if hot * 2 >= len => Some(COMPACTED_COUNT),
                Some(heat) => heat.takes_part().then_some(FLUSHED_COUNT),
            };
            let is_warm = match (count, content) {
                (Some(count), Some(content)) => {
                    self.cache.keep(self.file, number, &content, count);
                    first |= begins && !self.before_is_warm;
                    any = true;
                    true
                }
                _ => false,
            };
            self.before_is_warm = is_warm;
            begins = false;
        }
        self.hot_bytes += hot_in(self.start.max(self.page_start), self.end);
        self.start = self.end;
        self.spots = spots;
        self.spots.clear();
        self.ended.began_hot.store(self.hot_bytes > 0, Ordering::Relaxed);
        if first {
            self.noted.push(&self.first);
        }
        if any {
            self.noted.push(&self.last);
        }
    }

    /// Looks up what was noted since the last time, and the last of it again the next time: in an SSTable that still grows
    /// the end of the index has no pages yet.
    pub fn look_up(&mut self, output: &Arc<SsTable>, schema: &Arc<TableSchema>) {
        // The last page ends with the file.
        self.wrote(Event::End, &Fragment::default(), self.end);
        self.settle();
        self.opened = Some(Arc::clone(output));
        if !schema.options.caching.keys {
            self.noted = Notes::default();
        }
        let context = ReadContext::default();
        for place in &self.noted.places {
            // Whoever reads the partition is told what is wrong with it.
            let _ = output.look_up(&place.key, &place.bound, place.is_long_row, schema, &context);
            give_way();
        }
        self.noted.forget_all_but_last();
    }

    /// The SSTable is a part of its table: its pages stay as long as it does.
    pub fn stay(mut self) {
        self.stays = true;
    }
}

/// What is given up leaves nothing in the cache, however that comes about.
impl Drop for Warmth {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let opened = self.opened.as_ref();
        let (file, written) = (self.file, 0..self.pages);
        let count = self.pages + opened.map_or(0, |opened| opened.page_count());
        let written = written.map(|page| (file, page));
        let mut pages = written.chain(opened.iter().flat_map(|opened| opened.pages()));
        self.cache.forget(&[file.sstable], count, &mut pages);
    }
}

/// The pages that ended with the last fragment. One thread writes and settles.
#[derive(Debug, Default)]
struct Ended {
    /// Whether the first of them, which began before, has something hot for certain.
    began_hot: AtomicBool,
    /// Whether there are any.
    any: AtomicBool,
    pages: Mutex<Vec<Page>>,
}

impl Ended {
    fn take(&self) -> Vec<Page> {
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.pages.lock())
    }
}

#[derive(Debug)]
struct Page {
    number: u64,
    len: u64,
    /// Of one that may be hot.
    content: Option<Box<[u8]>>,
}

/// Puts pages aside while they are written.
#[derive(Debug)]
struct Sink {
    heat: Option<Arc<Heat>>,
    ended: Arc<Ended>,
}

impl PageSink for Sink {
    fn page(&mut self, page: u64, content: &[u8]) {
        let is_first = !self.ended.any.swap(true, Ordering::Relaxed);
        let began_hot = is_first && self.ended.began_hot.load(Ordering::Relaxed);
        let may_be_hot = began_hot || self.heat.as_ref().is_none_or(|heat| heat.has_hot_head());
        let (len, content) = (content.len() as u64, may_be_hot.then(|| content.into()));
        self.ended.pages.lock().push(Page { number: page, len, content });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_bounded_and_covers_all_there_was() {
        let mut notes = Notes::default();
        let place = |n: u32| Place {
            key: DecoratedKey::new(PartitionKey(n.to_be_bytes().to_vec().into())),
            ..Place::default()
        };
        const COUNT: u32 = 200_000;
        for n in 0..COUNT {
            notes.push(&place(n));
            notes.push(&place(n));
            assert!(notes.bytes <= NOTED_BYTES_MAX);
        }
        assert_eq!(notes.bytes, notes.places.iter().map(Place::memory_bytes).sum::<usize>());
        assert!(notes.bytes > NOTED_BYTES_MAX / 3);
        assert_eq!((notes.places.first(), notes.places.last()), (Some(&place(0)), Some(&place(COUNT - 1))));
        notes.forget_all_but_last();
        assert_eq!((notes.places.len(), notes.bytes), (1, place(0).memory_bytes()));
    }

    #[test]
    fn a_hot_page_warms_so_many_by_a_part_of_it_and_no_more() {
        let heat = Heat::default();
        assert!(!heat.takes_part());
        add(&heat.hot_pages, 2);
        assert_eq!((0..1_000).filter(|_| heat.takes_part()).count() as u64, 2 * PARTS_MAX);
    }
}
