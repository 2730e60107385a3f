//! How hot the inputs of a compaction are, fragment by fragment, and of long rows value by value.

use bytes::Bytes;
use env::sync::Mutex;
use model::Row;
use partition::{Event, Fragment, PartitionStream, ReadError};
use sstable::{SsTable, SsTableStream};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages that a compaction warms for each hot one of its inputs because a lesser part of them is hot, at
/// most: as many as size-tiered compaction has inputs.
pub(super) const PARTS_MAX: u64 = 32;
/// A row that lies in more pages than this is hot here and there.
pub(super) const SHORT_PAGES: u64 = 4;

/// How much of what the inputs of a compaction yielded was hot.
#[derive(Debug, Default)]
pub(crate) struct HotPages {
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

impl HotPages {
    pub(super) fn so_far(&self) -> Used {
        Used { all: self.used.load(Ordering::Relaxed), hot: self.hot.load(Ordering::Relaxed) }
    }

    pub(super) fn has_hot_head(&self) -> bool {
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
    pub(super) fn hot_spots(&self, row: &Row, start: u64, end: u64, out: &mut Vec<Range<u64>>) {
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
    pub(super) fn takes_part(&self) -> bool {
        let takes = self.parts.load(Ordering::Relaxed) < self.hot_pages.load(Ordering::Relaxed) * PARTS_MAX;
        add(&self.parts, u64::from(takes));
        takes
    }
}

/// What tells a value from all others that are in memory.
fn identity(value: &Bytes) -> usize {
    value.as_ptr().addr()
}

/// The values of a row that lies between `start` and `end`, and where each lies, about: what is before them
/// is as long for each.
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
pub(super) struct Used {
    pub all: u64,
    pub hot: u64,
}

/// An input of a compaction whose fragments are counted in a [`HotPages`], each when the merge asks for the
/// next one. A fragment is hot if the page that it begins in is cached, and more than half of its pages:
/// who read a row across two pages needed both.
pub(crate) struct Metered {
    stream: Box<SsTableStream>,
    sstable: Arc<SsTable>,
    heat: Arc<HotPages>,
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
    pub fn new(stream: Box<SsTableStream>, sstable: &Arc<SsTable>, heat: &Arc<HotPages>) -> Metered {
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

    /// Looks for the hot values of the row that the input stands at, if it is long. A value is hot if more
    /// than half of the pages are that it lies in.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_page_warms_so_many_by_a_part_of_it_and_no_more() {
        let heat = HotPages::default();
        assert!(!heat.takes_part());
        add(&heat.hot_pages, 2);
        assert_eq!((0..1_000).filter(|_| heat.takes_part()).count() as u64, 2 * PARTS_MAX);
    }
}
