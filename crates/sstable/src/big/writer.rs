//! Index.db and Summary.db of an SSTable that is being written.

use super::builder::PromotedIndexBuilder;
use super::fences::Fences;
use super::samples::{Sample, Sampler};
use super::summary::{Summary, SummaryBuilder};
use crate::descriptor::Component;
use crate::error::WriteError;
use crate::index::{FinishedIndex, WrittenPartition, WrittenUnfiltered};
use crate::pages::PageLayout;
use crate::proof::{PageSummer, PageSums};
use env::fs::WriteFile;
use model::ClusteringComparator;
use partition::codec::{EncodeError, Layout};

/// Writes the index.
#[derive(Debug)]
pub(crate) struct BigIndexWriter {
    file: Box<dyn WriteFile>,
    summary: SummaryBuilder,
    sampler: Sampler,
    fences: Fences,
    blocks: PromotedIndexBuilder,
    buffer: Vec<u8>,
    sums: PageSummer,
}

impl BigIndexWriter {
    /// Writes Index.db to `file`, with an entry of the summary for so many partitions. Of a partition of more
    /// than `blocks_max` blocks they become longer.
    pub fn new(file: Box<dyn WriteFile>, min_index_interval: u32, blocks_max: usize) -> BigIndexWriter {
        BigIndexWriter {
            file,
            summary: SummaryBuilder::new(min_index_interval),
            sampler: Sampler::default(),
            fences: Fences::default(),
            blocks: PromotedIndexBuilder::new(blocks_max),
            buffer: Vec::new(),
            sums: PageSummer::default(),
        }
    }

    pub fn start_partition(&mut self) {
        self.blocks.clear();
    }

    pub fn add(&mut self, layout: &Layout, unfiltered: &WrittenUnfiltered<'_>) -> Result<(), EncodeError> {
        self.blocks.add(layout, unfiltered)
    }

    pub fn end_partition(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        partition: &WrittenPartition<'_>,
    ) -> Result<(), WriteError> {
        let position = self.file.position();
        self.buffer.clear();
        self.blocks.finish(&mut self.buffer, layout, partition)?;
        let is_in_summary = self.summary.add(partition.key, position);
        let entry = Sample { token: partition.key.token, position };
        self.sampler.add(entry, self.buffer.len() as u64, is_in_summary);
        self.sums.add(&self.buffer);
        let end = position + self.buffer.len() as u64;
        self.blocks.add_fences(end, layout, comparator, &mut self.fences);
        Ok(self.file.write_all(&self.buffer)?)
    }

    /// The samples of what was written so far, and how the full pages of the file lie. All that was written
    /// is in the file now.
    pub fn so_far(&mut self) -> Result<(Vec<Sample>, PageLayout), WriteError> {
        self.file.flush()?;
        Ok((self.sampler.so_far(), self.sums.so_far()))
    }

    /// The summary of what was written so far; `None` before the first partition.
    pub fn summary(&self) -> Option<Summary> {
        self.summary.so_far()
    }

    /// Completes Index.db.
    pub fn finish(mut self) -> Result<FinishedIndex, WriteError> {
        self.file.sync_data()?;
        let summary = self.summary.finish().ok_or(WriteError::Empty)?;
        Ok(FinishedIndex {
            files: vec![Component::Index],
            summary: Some(summary.encode()),
            index: self.sums.finish(),
            rows: PageSums::default(),
            samples: self.sampler.finish(),
            fences: self.fences,
        })
    }
}
