//! What readers find in the page cache when the outputs of a compaction stand for its inputs: of what was hot as much as
//! before, and nothing of the rest.
//!
//! 1. Pages of data that are made of pages in the cache go there while they are written.
//! 2. The index has other pages than those of the inputs, and what is made of them besides. So a partition of each such
//!    page of data is noted, and looked up in the output as a read would before anybody reads it.

use model::command::{ClusteringFilter, ColumnSelection};
use model::{DecoratedKey, PartitionKey, TableSchema};
use partition::{ReadContext, ReadCost};
use sstable::{FileId, FilePart, PageSink, PageSource, SsTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keeps one output warm.
#[derive(Debug)]
pub(super) struct Warmth {
    /// Number of pages that were put into the cache.
    hot_pages: Arc<AtomicU64>,
    /// Those for which a partition was noted.
    noted_pages: u64,
    noted: Vec<DecoratedKey>,
    /// The partition that is being written.
    current: Option<DecoratedKey>,
}

impl Warmth {
    /// Of the SSTable with this number, and what sees its pages while it is written. `cost` is that of reading the inputs.
    pub fn new(
        number: u64,
        pages: &Arc<dyn PageSource>,
        cost: &Arc<ReadCost>,
    ) -> (Warmth, Box<dyn PageSink>) {
        let hot_pages = Arc::<AtomicU64>::default();
        let warmer = Warmer {
            file: FileId { sstable: number, part: FilePart::Data },
            pages: Arc::clone(pages),
            cost: Arc::clone(cost),
            hits: 0,
            misses: 0,
            is_hot: false,
            hot_pages: Arc::clone(&hot_pages),
        };
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
        }
        self.noted.drain(..self.noted.len().saturating_sub(1));
    }
}

/// Puts the pages of an output into the cache that are made of pages which are there: what was hot stays so, and
/// nothing cold becomes it.
#[derive(Debug)]
struct Warmer {
    file: FileId,
    pages: Arc<dyn PageSource>,
    /// Of the reading of the inputs; read here until the last page.
    cost: Arc<ReadCost>,
    hits: u64,
    misses: u64,
    is_hot: bool,
    hot_pages: Arc<AtomicU64>,
}

impl PageSink for Warmer {
    fn page(&mut self, page: u64, content: &[u8]) {
        let (hits, misses) = (self.cost.chunk_hits.get(), self.cost.chunk_misses.get());
        let (resident, absent) = (hits - self.hits, misses - self.misses);
        (self.hits, self.misses) = (hits, misses);
        // Where no page was turned, the last ones go on.
        if resident + absent > 0 {
            self.is_hot = resident >= absent;
        }
        if self.is_hot {
            self.pages.keep(self.file, page, content);
            self.hot_pages.fetch_add(1, Ordering::Relaxed);
        }
    }
}
