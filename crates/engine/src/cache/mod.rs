//! The caches: of pages, here, and of rows ([`rows`]).
//!
//! The page cache: index pages and decompressed data chunks of all tables, under one budget of bytes.
//!
//! Neither kind has a share of its own: what is needed most stays ([`tiny_lfu`]), and pages that are needed
//! once, or now and then, pass through, however many there are and whatever they hold. So a scan does not
//! push out what is read again and again, and index pages of cold partitions do not starve the chunks of hot
//! ones. Reads that ask not to fill the cache (compaction, whole tables) use what is there and leave nothing
//! behind.

mod rows;
pub(crate) mod tiny_lfu;

pub use rows::RowCache;
pub(crate) use rows::{CachedRows, PartitionHead};

use crate::options::EngineOptions;
use bytes::Bytes;
use env::fs::Access;
use foldhash::fast::FixedState;
use partition::{ReadContext, ReadError};
use sstable::count_page;
use sstable::{FileId, FilePart, PageSource};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use tiny_lfu::{Busy, TinyLfu, Usage};

/// Bytes that a page costs besides its content: key, queue entry, allocation.
const PAGE_OVERHEAD_BYTES: u64 = 96;
/// Size of a small page, from which the largest the number of pages is estimated.
const PAGE_BYTES_MIN: u64 = 4 << 10;

/// A read of a range of partitions that goes over more than one in so many bytes of the cache reads around
/// it.
const SCAN_PART: u64 = 10;

/// Looking for a page by its key takes as long as going over so many of all (100 ns and 35 ns in a cache of a
/// million).
const FIND_COST: u64 = 3;

fn weight_of(page: &[u8]) -> u64 {
    page.len() as u64 + PAGE_OVERHEAD_BYTES
}

/// One cache for all SSTables.
pub struct PageCache {
    cache: TinyLfu<(FileId, u64), Bytes, FixedState>,
    misses: AtomicU64,
    /// Whether index pages stay.
    keeps_index: bool,
    /// How data and indexes are read.
    data_access: Access,
    index_access: Access,
}

/// Numbers of a cache for metrics. Its entries are pages, or heads of partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Entries in the cache.
    pub entries: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Bytes allowed.
    pub capacity_bytes: u64,
    /// Entries found.
    pub hits: u64,
    /// Entries not found.
    pub misses: u64,
    /// Entries that were put in.
    pub insertions: u64,
    /// Entries that made room for others.
    pub evictions: u64,
}

impl CacheStats {
    fn new(usage: &Usage, misses: u64) -> CacheStats {
        CacheStats {
            entries: usage.entries,
            bytes: usage.weight,
            capacity_bytes: usage.capacity,
            hits: usage.hits,
            misses,
            insertions: usage.insertions,
            evictions: usage.evictions,
        }
    }
}

impl PageCache {
    /// A cache of at most `capacity_bytes`.
    pub fn new(capacity_bytes: u64) -> PageCache {
        PageCache {
            cache: TinyLfu::new(capacity_bytes, PAGE_BYTES_MIN, FixedState::default()),
            misses: AtomicU64::new(0),
            keeps_index: true,
            data_access: Access::Buffered,
            index_access: Access::Buffered,
        }
    }

    /// A cache of `page_cache_bytes`, in front of files that are read as the options say.
    pub fn of(options: &EngineOptions) -> PageCache {
        PageCache {
            keeps_index: options.cache_index_pages,
            data_access: options.data_access,
            index_access: options.index_access,
            ..PageCache::new(options.page_cache_bytes)
        }
    }

    /// Numbers for metrics.
    pub fn stats(&self) -> CacheStats {
        CacheStats::new(&self.cache.usage(), self.misses.load(Ordering::Relaxed))
    }

    /// Bytes of SSTables above which a read of a range of partitions should not fill the cache.
    pub fn scan_bytes_max(&self) -> u64 {
        self.cache.usage().capacity / SCAN_PART
    }

    /// Drops the index pages.
    pub fn clear_index(&self) {
        self.cache.retain(|(file, _)| file.part == FilePart::Data);
    }

    /// What `read` makes of a page that is here.
    fn find<R>(
        &self,
        key: &(FileId, u64),
        context: &ReadContext,
        read: impl FnOnce(&Bytes) -> R,
    ) -> Result<Option<R>, ReadError> {
        // A read that leaves nothing behind makes nothing hotter either.
        let counts = context.fill_cache;
        match context.may_block {
            false => self.cache.try_read(key, counts, read).map_err(|Busy| ReadError::WouldBlock),
            true => Ok(self.cache.read(key, counts, read)),
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
    fn access(&self, part: FilePart) -> Access {
        if part == FilePart::Data { self.data_access } else { self.index_access }
    }

    fn keeps(&self, part: FilePart, context: &ReadContext) -> bool {
        context.fill_cache && (part == FilePart::Data || self.keeps_index && context.fill_index_cache)
    }

    fn has(&self, file: FileId, page: u64) -> bool {
        self.cache.contains(&(file, page))
    }

    fn keep(&self, file: FileId, page: u64, content: &[u8], count: u8) {
        let weight = weight_of(content);
        self.cache.insert((file, page), Bytes::copy_from_slice(content), weight, count);
    }

    fn forget(&self, sstables: &[u64], count: u64, pages: &mut dyn Iterator<Item = (FileId, u64)>) {
        if count <= self.cache.slots() / FIND_COST {
            return self.cache.remove_by_and_by(pages);
        }
        let mut gone = sstables.to_vec();
        gone.sort_unstable();
        self.cache.retain_by_and_by(|(file, _)| gone.binary_search(&file.sstable).is_err());
    }

    fn look(
        &self,
        file: FileId,
        page: u64,
        context: &ReadContext,
        look: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, ReadError> {
        let found = self.find(&(file, page), context, |page| look(page))?.is_some();
        if found {
            count_page(context, file.part, true);
        }
        Ok(found)
    }

    fn page(
        &self,
        file: FileId,
        page: u64,
        context: &ReadContext,
        load: &mut dyn FnMut() -> Result<Bytes, ReadError>,
    ) -> Result<Bytes, ReadError> {
        let key = (file, page);
        let found = self.find(&key, context, Bytes::clone)?;
        if let Some(found) = found {
            count_page(context, file.part, true);
            return Ok(found);
        }
        count_page(context, file.part, false);
        if !context.may_load() {
            return Err(ReadError::WouldBlock);
        }
        context.check_deadline()?;
        let loaded = load();
        // What is not loaded now is looked for again by a thread that may wait.
        if !matches!(loaded, Err(ReadError::WouldBlock)) {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
        let loaded = loaded?;
        if self.keeps(file.part, context) {
            self.cache.offer(key, loaded.clone(), weight_of(&loaded));
        }
        Ok(loaded)
    }
}
