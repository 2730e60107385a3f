//! Reading an SSTable that is still being written, as far as it goes (CASSANDRA-6916).
//!
//! What was handed to the files will not change. What comes after it is copied into memory: the chunk that is
//! not full, the last page of the index, the incomplete nodes of the trie. Of the outline it is left out. So
//! the pages that a reader leaves in the cache are those of the finished SSTable, if it is opened with the
//! same number.

use super::SsTableWriter;
use crate::big::lookup::BigIndex;
use crate::bti::partitions::BtiIndex;
use crate::descriptor::Component;
use crate::error::{WriteError, file_name};
use crate::index::{GrowingIndex, Index};
use crate::key_filter::KeyFilter;
use crate::minima::Minima;
use crate::outline::Outline;
use crate::pages::{FileId, FilePart, INDEX_PAGE_BYTES, PageLayout, PageSource, PagedFile};
use crate::statistics::Statistics;
use crate::table::{OnDisk, SsTable, Standing};
use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::BytesMut;
use env::fs::ReadFile;
use std::sync::{Arc, OnceLock};

/// The file's bytes from the start of the page that `len` lies in, up to it.
fn last_page(file: &dyn ReadFile, len: u64) -> Result<(u64, BytesMut), WriteError> {
    let start = len - len % INDEX_PAGE_BYTES;
    let mut bytes = BytesMut::zeroed((len - start) as usize);
    file.read_exact_at(start, &mut bytes)?;
    Ok((start, bytes))
}

impl SsTableWriter {
    /// Opens what was written so far; `None` before the end of the first partition. `number` is the one that
    /// the finished SSTable will be opened with. Call it between partitions.
    ///
    /// # Errors
    /// When a file cannot be written or read, and inside of a partition.
    pub fn open_early(
        &mut self,
        number: u64,
        pages: &Arc<dyn PageSource>,
    ) -> Result<Option<SsTable>, WriteError> {
        if self.current.key.is_some() {
            return Err(WriteError::OutOfOrder("an opening inside of a partition"));
        }
        let Some(index) = self.index.so_far()? else { return Ok(None) };
        let (layout, start, tail) = self.data.so_far()?;
        let places = if self.data.is_compressed() { self.data.crcs().to_vec() } else { Vec::new() };
        let data = self.file(number, Component::Data, FilePart::Data, layout)?;
        let data = data.with_tail(start, tail).with_places(places);
        let outline = match self.outline.so_far()? {
            firsts if firsts.is_empty() => None,
            firsts => {
                let file = self.file(number, Component::Outline, FilePart::Outline, PageLayout::Sealed)?;
                Some(Outline::growing(file, firsts, data.len))
            }
        };
        let times = self.descriptor.version.deletion_times();
        let index = match index {
            GrowingIndex::Big { summary, samples, pages: layout } => {
                let file = self.file(number, Component::Index, FilePart::Index, layout)?;
                let (start, page) = last_page(file.raw(), file.len)?;
                let file = Arc::new(file.with_tail(start, page.freeze()));
                Index::Big(Box::new(BigIndex::growing(summary, samples, file, Arc::clone(pages), times)))
            }
            GrowingIndex::Bti(mut known) => {
                let [of_partitions, of_rows] = std::mem::take(&mut known.pages);
                let partitions = self.file(number, Component::Partitions, FilePart::Index, of_partitions)?;
                let (at, forked) = std::mem::take(&mut known.partitions);
                let (start, mut page) = last_page(partitions.raw(), at)?;
                page.extend_from_slice(&forked);
                let partitions = Arc::new(partitions.with_tail(start, page.freeze()));
                let rows = self.file(number, Component::Rows, FilePart::Rows, of_rows)?;
                let (start, page) = last_page(rows.raw(), known.rows_len)?;
                let rows = Arc::new(rows.with_tail(start, page.freeze()));
                Index::Bti(Arc::new(BtiIndex::growing(known, partitions, rows, Arc::clone(pages), times)))
            }
        };
        let mut stats = self.collector.clone().finish();
        stats.level = self.options.level;
        stats.repaired_at_ms = self.options.repaired_at_ms;
        stats.pending_repair = self.options.pending_repair;
        let statistics = Statistics {
            bloom_fp_chance: self.options.bloom_fp_chance,
            filter_crc: None,
            cardinality: None,
            stats,
            header: self.header.clone(),
        };
        let (row_bytes, partition_bytes) = statistics.stats.mean_bytes(data.len);
        Ok(Some(SsTable {
            row_bytes,
            partition_bytes,
            descriptor: self.descriptor.clone(),
            minima: Minima::of(&self.descriptor, &statistics),
            statistics,
            index,
            filter: self.filter.clone().map(KeyFilter::proven),
            data: Arc::new(data),
            outline: outline.map_or_else(OnceLock::new, OnceLock::from),
            adopted: OnceLock::new(),
            is_proven: true,
            standing: Standing::proven(),
            pages: Arc::clone(pages),
            layout: ArcSwapOption::empty(),
            on_disk: ArcSwap::from_pointee(OnDisk { components: Vec::new(), bytes: self.data.written() }),
        }))
    }

    fn file(
        &self,
        number: u64,
        component: Component,
        part: FilePart,
        layout: PageLayout,
    ) -> Result<PagedFile, WriteError> {
        let path = self.descriptor.path(component);
        let file = self.fs.open_read(&path)?;
        Ok(PagedFile::new(FileId { sstable: number, part }, file_name(&path), file, layout))
    }
}
