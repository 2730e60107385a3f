//! What readers find in the page cache when an SSTable that was just written takes the place of others, or of a memtable.
//!
//! 1. Pages of data go there while they are written: of a compaction those that are made of pages in the cache, so that what was
//!    hot stays so and nothing cold becomes it; of a flush all, as ones that were needed a little, because what they hold
//!    was in memory until now. Flushes of tables that nobody reads warm nothing.
//! 2. The index has other pages than those of the inputs, and what is made of them besides. So a partition of each such
//!    page of data is noted, and looked up in the new SSTable as a read would before anybody reads it.

use crate::turns::give_way;
use model::command::{ClusteringFilter, ColumnSelection};
use model::{DecoratedKey, PartitionKey, TableSchema};
use partition::{ReadContext, ReadCost};
use sstable::{FileId, FilePart, PageSink, PageSource, SsTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a page counts as that a compaction made of pages in the cache: as needed this many times.
const COMPACTED_COUNT: u8 = 4;
/// And one of a flush: more than a page that was read once, less than one that is read again and again.
const FLUSHED_COUNT: u8 = 2;

/// Warms one SSTable.
#[derive(Debug)]
pub(crate) struct Warmth {
    /// Number of pages that were put into the cache.
    hot_pages: Arc<AtomicU64>,
    /// Those for which a partition was noted.
    noted_pages: u64,
    noted: Vec<DecoratedKey>,
    /// The partition that is being written.
    current: Option<DecoratedKey>,
}

impl Warmth {
    /// Of what a compaction writes as the SSTable with this number, and what sees its pages meanwhile. `cost` is that of
    /// reading the inputs.
    pub fn of_compaction(
        number: u64,
        pages: &Arc<dyn PageSource>,
        cost: &Arc<ReadCost>,
    ) -> (Warmth, Box<dyn PageSink>) {
        let inputs = Inputs { cost: Arc::clone(cost), hits: 0, misses: 0, are_hot: false };
        Warmth::new(number, pages, Some(inputs))
    }

    /// Of what a flush writes as the SSTable with this number, and what sees its pages meanwhile.
    pub fn of_flush(number: u64, pages: &Arc<dyn PageSource>) -> (Warmth, Box<dyn PageSink>) {
        Warmth::new(number, pages, None)
    }

    fn new(number: u64, pages: &Arc<dyn PageSource>, inputs: Option<Inputs>) -> (Warmth, Box<dyn PageSink>) {
        let file = FileId { sstable: number, part: FilePart::Data };
        let (pages, hot_pages) = (Arc::clone(pages), Arc::<AtomicU64>::default());
        let warmer = Warmer { file, pages, inputs, hot_pages: Arc::clone(&hot_pages) };
        (Warmth { hot_pages, noted_pages: 0, noted: Vec::new(), current: None }, Box::new(warmer))
    }

    /// A partition is going to be written; the one before is noted if a page became hot with it.
    pub fn start(&mut self, key: &DecoratedKey) {
        self.note();
        self.current = Some(key.clone());
    }

    fn note(&mut self) {
        let hot_pages = self.hot_pages.load(Ordering::Relaxed);
        if let Some(key) = self.current.take()
            && hot_pages > self.noted_pages
        {
            self.noted_pages = hot_pages;
            // The key may be a part of a larger buffer.
            let bytes = bytes::Bytes::copy_from_slice(&key.key.0);
            self.noted.push(DecoratedKey { token: key.token, key: PartitionKey(bytes) });
        }
    }

    /// Looks up what was noted since the last time, and the last of it again the next time: in an SSTable that still grows
    /// the end of the index has no pages yet.
    pub fn look_up(&mut self, output: &Arc<SsTable>, schema: &Arc<TableSchema>) {
        self.note();
        if !schema.options.caching.keys {
            self.noted.clear();
        }
        let (context, columns) = (ReadContext::default(), ColumnSelection::all(schema));
        for key in &self.noted {
            // Whoever reads the partition is told what is wrong with it.
            let _ = output.read(key, &ClusteringFilter::all(), &columns, schema, &context);
            give_way();
        }
        self.noted.drain(..self.noted.len().saturating_sub(1));
    }
}

/// Puts pages into the cache while they are written.
#[derive(Debug)]
struct Warmer {
    file: FileId,
    pages: Arc<dyn PageSource>,
    /// `None`: a memtable.
    inputs: Option<Inputs>,
    hot_pages: Arc<AtomicU64>,
}

/// The pages of which a page is made.
#[derive(Debug)]
struct Inputs {
    /// Of the reading of the inputs; read here until the last page.
    cost: Arc<ReadCost>,
    hits: u64,
    misses: u64,
    are_hot: bool,
}

impl Inputs {
    /// Whether what was written since the last time may be made of pages that were in the cache: if most of those read since then
    /// were, or those before, which end in it.
    fn look(&mut self) -> bool {
        let (hits, misses) = (self.cost.chunk_hits.get(), self.cost.chunk_misses.get());
        let (resident, absent) = (hits - self.hits, misses - self.misses);
        (self.hits, self.misses) = (hits, misses);
        // Where no page was turned, the last ones go on.
        let were_hot = self.are_hot;
        if resident + absent > 0 {
            self.are_hot = resident >= absent;
        }
        were_hot || self.are_hot
    }
}

impl PageSink for Warmer {
    fn page(&mut self, page: u64, content: &[u8]) {
        let count = match &mut self.inputs {
            None => FLUSHED_COUNT,
            Some(inputs) => match inputs.look() {
                true => COMPACTED_COUNT,
                false => return,
            },
        };
        self.pages.keep(self.file, page, content, count);
        self.hot_pages.fetch_add(1, Ordering::Relaxed);
    }
}
