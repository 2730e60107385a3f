//! The page cache: index pages and decompressed data chunks of all tables, under one budget of bytes.
//!
//! Eviction is S3-FIFO's: a page that is read once passes through a small queue and leaves, so a scan does not push
//! out what is read again and again. Reads that ask not to fill the cache (compaction, bulk scans) use what is there
//! and leave nothing behind.

use bytes::Bytes;
use partition::{ReadContext, ReadError};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use sstable::count_page;
use sstable::{FileId, PageSource};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a page costs besides its content: key, queue entry, allocation.
const PAGE_OVERHEAD_BYTES: u64 = 96;
/// Typical size of a page, from which the number of entries is estimated.
const PAGE_BYTES_TYPICAL: u64 = 12 << 10;

#[derive(Clone)]
struct ByBytes;

impl Weighter<(FileId, u64), Bytes> for ByBytes {
    fn weight(&self, _: &(FileId, u64), page: &Bytes) -> u64 {
        page.len() as u64 + PAGE_OVERHEAD_BYTES
    }
}

/// One cache for all SSTables.
pub struct PageCache {
    cache: Cache<(FileId, u64), Bytes, ByBytes>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Pages in the cache.
    pub pages: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes allowed.
    pub capacity_bytes: u64,
    /// Pages found.
    pub hits: u64,
    /// Pages not found.
    pub misses: u64,
}

impl PageCache {
    /// A cache of at most `capacity_bytes`.
    pub fn new(capacity_bytes: u64) -> PageCache {
        let items = (capacity_bytes / PAGE_BYTES_TYPICAL).max(16) as usize;
        PageCache {
            cache: Cache::with_weighter(items, capacity_bytes, ByBytes),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Numbers for metrics.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            pages: self.cache.len() as u64,
            bytes: self.cache.weight(),
            capacity_bytes: self.cache.capacity(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// Empties the cache.
    pub fn clear(&self) {
        self.cache.clear();
    }
}

impl fmt::Debug for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageCache").field("stats", &self.stats()).finish()
    }
}

impl PageSource for PageCache {
    fn keep(&self, file: FileId, page: u64, content: &[u8]) {
        let key = (file, page);
        self.cache.insert(key, Bytes::copy_from_slice(content));
        // It is as good as read: what comes new and is not read leaves soon.
        self.cache.get(&key);
    }

    fn page(
        &self,
        file: FileId,
        page: u64,
        context: &ReadContext,
        load: &mut dyn FnMut() -> Result<Bytes, ReadError>,
    ) -> Result<Bytes, ReadError> {
        let key = (file, page);
        if let Some(found) = self.cache.get(&key) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            count_page(context, file.part, true);
            return Ok(found);
        }
        if !context.may_block {
            return Err(ReadError::WouldBlock);
        }
        context.check_deadline()?;
        self.misses.fetch_add(1, Ordering::Relaxed);
        count_page(context, file.part, false);
        let loaded = load()?;
        if context.fill_cache {
            self.cache.insert(key, loaded.clone());
        }
        Ok(loaded)
    }
}
