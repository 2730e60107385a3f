//! What is known of an open SSTable without a look at its rows.

use super::SsTable;
use crate::adopted::Adopted;
use crate::descriptor::{Component, Descriptor};
use crate::key_filter::KeyFilter;
use crate::pages::FileId;
use crate::statistics::{CommitLogPosition, Stats};
use env::fs::{Access, FileSystem};
use model::command::ClusteringFilter;
use model::key::KeyRange;
use model::{DecoratedKey, NO_DELETION_TIME, NO_TTL, TableSchema};
use partition::ReadContext;
use partition::codec::SerializationHeader;
use std::path::PathBuf;
use uuid::Uuid;

/// The files of an SSTable.
#[derive(Debug)]
pub(crate) struct OnDisk {
    pub components: Vec<Component>,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl OnDisk {
    /// What is there now.
    pub fn list(fs: &dyn FileSystem, descriptor: &Descriptor) -> OnDisk {
        let mut out = OnDisk { components: Vec::new(), bytes: 0 };
        for component in Component::ALL {
            if let Ok(len) = fs.file_len(&descriptor.path(*component)) {
                out.components.push(*component);
                out.bytes += len;
            }
        }
        out
    }
}

impl SsTable {
    /// The SSTable's name.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The number that the opener gave it ([`crate::FileId::sstable`]).
    pub fn number(&self) -> u64 {
        self.data.id.sstable
    }

    /// Which page of Data.db a position in its uncompressed content lies in.
    pub fn page_of(&self, position: u64) -> u64 {
        self.data.page_of(position)
    }

    /// Whether the page source has a page of Data.db in memory. Asking makes it no hotter.
    pub fn has_page(&self, page: u64) -> bool {
        self.pages.has(self.data.id, page)
    }

    /// The pages that a cache may have of the SSTable. For an SSTable that is being written these are the
    /// pages written so far.
    pub fn pages(&self) -> impl Iterator<Item = (FileId, u64)> + '_ {
        let outline = self.outline.get().into_iter().flat_map(|outline| outline.pages());
        let adopted = self.adopted.get().into_iter().flat_map(Adopted::pages);
        self.data.pages().chain(self.index.pages()).chain(outline).chain(adopted)
    }

    /// How many [`SsTable::pages`] yields, without going over them.
    pub fn page_count(&self) -> u64 {
        let outline = self.outline.get().map_or(0, |outline| outline.pages().size_hint().0);
        let adopted = self.adopted.get().map_or(0, |adopted| adopted.page_count());
        let others = self.data.pages().size_hint().0 + self.index.pages().size_hint().0;
        (others + outline) as u64 + adopted
    }

    /// The components that are there.
    pub fn components(&self) -> Vec<Component> {
        self.on_disk.load().components.clone()
    }

    /// Paths of the components that are there.
    pub fn files(&self) -> Vec<PathBuf> {
        self.on_disk.load().components.iter().map(|c| self.descriptor.path(*c)).collect()
    }

    /// What Statistics.db says about the rows. Before version `na` it may be damaged: rows are left out only
    /// for what the methods below say.
    pub fn stats(&self) -> &Stats {
        &self.statistics.stats
    }

    /// What is certain about the rows, if anything.
    pub(super) fn believed(&self) -> Option<&Stats> {
        Some(&self.statistics.stats).filter(|_| self.descriptor.version.has_metadata_checksums())
    }

    /// No timestamp is smaller. Microseconds.
    pub fn oldest_timestamp(&self) -> i64 {
        self.believed().map_or(i64::MIN, |stats| stats.min_timestamp)
    }

    /// No timestamp is larger. Microseconds.
    pub fn newest_timestamp(&self) -> i64 {
        self.believed().map_or(i64::MAX, |stats| stats.max_timestamp)
    }

    /// Nothing is deleted or expires later; [`NO_DELETION_TIME`] when something may stay for ever. Seconds.
    pub fn last_local_deletion_time(&self) -> u32 {
        self.believed().map_or(NO_DELETION_TIME, |stats| stats.max_local_deletion_time)
    }

    /// Whether there may be any tombstone or anything that expires.
    pub fn may_have_tombstones(&self) -> bool {
        self.believed().is_none_or(Stats::may_have_tombstones)
    }

    /// Whether there may be anything that expires.
    pub fn may_expire(&self) -> bool {
        self.believed().is_none_or(|stats| stats.max_ttl != NO_TTL)
    }

    /// Whether there may be deletions of partitions.
    pub fn may_delete_partitions(&self) -> bool {
        self.believed().is_none_or(Stats::may_have_partition_deletions)
    }

    /// The parts of the commit log that the SSTable certainly holds, if `host_id` wrote it.
    pub fn commit_log_intervals(&self, host_id: Uuid) -> &[(CommitLogPosition, CommitLogPosition)] {
        let written_here = self.believed().filter(|stats| stats.host_id == Some(host_id));
        written_here.map_or(&[], |stats| &stats.commit_log_intervals)
    }

    /// How the rows are encoded; its [`partition::codec::EncodingStats`] are what a merge's are made of.
    pub fn header(&self) -> &SerializationHeader {
        &self.statistics.header
    }

    /// The first partition.
    pub fn first_key(&self) -> &DecoratedKey {
        self.index.first_key()
    }

    /// The last partition.
    pub fn last_key(&self) -> &DecoratedKey {
        self.index.last_key()
    }

    /// Number of partitions, estimated from the statistics.
    pub fn estimated_partitions(&self) -> u64 {
        self.statistics.stats.partition_sizes.count().max(1) as u64
    }

    /// How Data.db is read.
    pub fn data_access(&self) -> Access {
        self.data.raw().access()
    }

    /// Bytes of Data.db.
    pub fn data_file_bytes(&self) -> u64 {
        self.data.raw().len()
    }

    /// Bytes of rows before compression.
    pub fn data_bytes(&self) -> u64 {
        self.data.len
    }

    /// Whether the end of Data.db is there and sound. It is read for this: a file that was cut off is as long
    /// as before to the other components.
    pub fn ends_soundly(&self) -> bool {
        let pages = self.data.page_count();
        let has_all = self.data.stored_pages().is_none_or(|stored| stored == pages);
        let last = pages.checked_sub(1);
        has_all && last.is_some_and(|page| self.data.check_page(page, &ReadContext::default()).is_ok())
    }

    /// Bytes of all components on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.on_disk.load().bytes
    }

    /// Bytes of memory that the open SSTable takes, pages aside.
    pub fn memory_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, KeyFilter::memory_bytes)
            + self.index.memory_bytes()
            + self.data.memory_bytes()
            + self.outline.get().map_or(0, |outline| outline.memory_bytes())
            + self.adopted.get().map_or(0, Adopted::memory_bytes)
    }

    /// Bytes of memory that the bloom filter takes.
    pub fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, KeyFilter::memory_bytes)
    }

    /// Bytes of memory that the index takes, pages aside.
    pub fn index_memory_bytes(&self) -> usize {
        self.index.memory_bytes()
    }

    /// Bytes of memory that the offsets of compressed chunks take.
    pub fn chunk_offsets_bytes(&self) -> usize {
        self.data.memory_bytes()
    }

    /// Whether `key` lies between the first and the last key.
    pub fn covers(&self, key: &DecoratedKey) -> bool {
        key >= self.first_key() && key <= self.last_key()
    }

    /// Whether the range and the SSTable's keys overlap.
    pub fn overlaps(&self, range: &KeyRange) -> bool {
        !range.is_before_start(self.last_key()) && !range.is_after_end(self.first_key())
    }

    /// Whether rows or range tombstones can lie where the filter selects; see
    /// [`Stats::overlaps_clusterings`].
    pub fn overlaps_clusterings(&self, selected: &ClusteringFilter, table: &TableSchema) -> bool {
        self.believed().is_none_or(|stats| stats.overlaps_clusterings(selected, table.comparator()))
    }

    /// Whether partitions have static rows.
    pub fn has_statics(&self) -> bool {
        !self.statistics.header.static_columns.is_empty()
    }
}
