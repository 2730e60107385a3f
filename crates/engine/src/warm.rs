//! Warming: pages of a new SSTable that go to the page cache while it is written.
//!
//! A new SSTable takes the place of a memtable or of other SSTables. Readers had their rows in memory a
//! moment before, and find them there again.
//!
//! 1. **Data of a flush.** All pages are cached, with a small weight: their rows were in memory until now. A
//!    table that nobody reads is not warmed.
//! 2. **Data of a compaction.** An output page is cached if it holds something of input pages that are in the
//!    cache ([`Metered`]). Nobody knows for which row an input page was cached, and its rows go to several
//!    output pages. A page that is mostly hot gets a large weight, the others a small one: in a full cache
//!    these displace only pages that were needed once. Their number is at most [`hot_pages::PARTS_MAX`] for
//!    each cached input page.
//! 3. **Long rows.** In a row of more than [`hot_pages::SHORT_PAGES`] pages each cell is as hot as its own
//!    pages. So a column that is read stays hot, and the others stay cold. The merge hands the bytes of
//!    values on, and by these they are known again.
//! 4. **When a page is settled.** An input says whether a fragment was hot when it is asked for the next one,
//!    and pages end inside of fragments. A page that may be hot is kept aside until the fragment that it
//!    ended in is counted. That is as much memory as the longest row, which is in memory as well.
//! 5. **The index.** Its pages are not those of the inputs. For each warmed page of data, the first and the
//!    last fragment that begin in it are noted; the last alone, if the page before is warmed, too. Before
//!    anybody reads the SSTable they are looked up in it as a read would. Pages of the outline of long rows
//!    are looked up as well. Notes take at most [`NOTED_BYTES_MAX`]; beyond it every other note is dropped.
//!    (A fragment that began in a page that is not warmed is not looked up. Where the index does not hold the
//!    whole key, that would bring the page in.)
//! 6. **Giving up.** If the SSTable is given up before it is part of its table, its pages leave the cache,
//!    also those that readers brought in.

mod hot_pages;

pub(crate) use hot_pages::{HotPages, Metered};

use crate::turns::give_way;
use env::sync::Mutex;
use hot_pages::Used;
use model::{Clustering, ClusteringBound, DecoratedKey, PartitionKey, TableSchema};
use partition::codec::LONG_VALUE_BYTES;
use partition::{Event, Fragment, ReadContext};
use sstable::{FileId, FilePart, PageSink, PageSource, SsTable};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Weight of an output page whose input pages were mostly hot: as if it was needed this many times.
const COMPACTED_COUNT: u8 = 4;
/// Weight of a page of a flush, and of one that is hot in part: between a page that was read once and one
/// that is read again and again.
const FLUSHED_COUNT: u8 = 2;
/// A row with this many bytes may have an outline of its own.
const LONG_ROW_BYTES: u64 = 2 * LONG_VALUE_BYTES as u64;
/// Bytes of memory for places in the index between two times that they are looked up.
const NOTED_BYTES_MAX: usize = 4 << 20;

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
    heat: Option<Arc<HotPages>>,
    /// What was counted when this was settled last.
    seen: Used,
    ended: Arc<Ended>,
    /// Where in Data.db the fragment that was written last begins and ends.
    start: u64,
    end: u64,
    /// Its hot parts, if it is a long row with any.
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
    /// For the SSTable with this number, which a compaction writes; and the sink that sees its pages. `heat`
    /// is that of the inputs.
    pub fn of_compaction(
        number: u64,
        pages: &Arc<dyn PageSource>,
        heat: &Arc<HotPages>,
    ) -> (Warmth, Box<dyn PageSink>) {
        Warmth::new(number, pages, Some(Arc::clone(heat)))
    }

    /// For the SSTable with this number, which a flush writes; and the sink that sees its pages.
    pub fn of_flush(number: u64, pages: &Arc<dyn PageSource>) -> (Warmth, Box<dyn PageSink>) {
        Warmth::new(number, pages, None)
    }

    fn new(
        number: u64,
        pages: &Arc<dyn PageSource>,
        heat: Option<Arc<HotPages>>,
    ) -> (Warmth, Box<dyn PageSink>) {
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

    /// Counts the fragment that was written last, puts the pages that ended in it into the cache or not, and
    /// notes where those begin and end that it put there.
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

    /// Looks up what was noted since the last time, and the last of it again the next time: in an SSTable
    /// that still grows the end of the index has no pages yet.
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
    heat: Option<Arc<HotPages>>,
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
}
