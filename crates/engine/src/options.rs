//! Settings of the engine: plain data, validated once by [`EngineOptions::validate`], which `Engine::open`
//! calls.

use crate::commitlog::format;
use env::fs::Access;
use model::NO_DELETION_TIME;
use sstable::Version;
use std::path::{Path, PathBuf};

/// Bytes of a block of rows in the index, unless set otherwise: a read of one row decodes half of them on
/// average. A block costs about 40 bytes, so the index of wide partitions grows to a hundredth of the data.
pub const COLUMN_INDEX_BYTES: u64 = 4 << 10;

/// When a write counts as kept (`commitlog_sync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// At once; the log is synced every `period_ms`. Writers wait when the last sync is more than half a
    /// period late.
    Periodic {
        /// Milliseconds between syncs.
        period_ms: u64,
    },
    /// When its bytes are on the device; writers that wait together share a sync.
    Batch,
    /// As `Batch`, but a sync starts only every `window_ms`, so that more writers share it.
    Group {
        /// Milliseconds between syncs.
        window_ms: u64,
    },
}

/// What follows a failed sync or write of the commit log (`commit_failure_policy`). Whatever it says, the
/// writers concerned get an error. A disk without room for a new segment is no failure in this sense: writes
/// are refused until there is room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// As `StopCommit`, and the server is told to close its doors.
    Stop,
    /// As `StopCommit`, and the server is told to end the process.
    Die,
    /// No more writes until a restart; reads go on.
    StopCommit,
    /// The log goes on in a new segment.
    Ignore,
}

/// With which releases the files stay compatible (`storage_compatibility_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageCompatibility {
    /// Files that Cassandra 4.x reads, too. Expirations end in January 2038.
    #[default]
    Cassandra4,
    /// Files of 5.0, while nodes of 4.x may still be in the ring.
    Upgrading,
    /// Files of 5.0.
    None,
}

impl StorageCompatibility {
    /// The last second at which something may expire.
    pub fn expiration_max_s(self) -> u32 {
        match self {
            StorageCompatibility::Cassandra4 => i32::MAX as u32 - 1,
            StorageCompatibility::Upgrading | StorageCompatibility::None => NO_DELETION_TIME - 2,
        }
    }
}

/// The layout of the index of new SSTables (`sstable.selected_format`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SsTableFormat {
    /// A sorted list of partitions.
    #[default]
    Big,
    /// A trie.
    Bti,
}

/// Beyond which size the log tells of a partition that is written; `None`: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionLimits {
    /// Bytes before compression, for a warning.
    pub bytes_warn: Option<u64>,
    /// The same for an error.
    pub bytes_fail: Option<u64>,
    /// Tombstones, for a warning.
    pub tombstones_warn: Option<u64>,
    /// The same for an error.
    pub tombstones_fail: Option<u64>,
}

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Directories that hold one directory for each keyspace. New SSTables go to the one with the most room.
    pub data_dirs: Vec<PathBuf>,
    /// Directory of what the node knows about itself (`system`, `system_schema`), when it has one of its own.
    pub local_system_dir: Option<PathBuf>,
    /// Directory of the commit log.
    pub commitlog_dir: PathBuf,
    /// When a write counts as kept.
    pub commitlog_sync: SyncMode,
    /// Bytes of a commit log segment; a mutation may have half of it.
    pub commitlog_segment_bytes: u64,
    /// Largest size of a serialized mutation, in bytes (`max_mutation_size`); half a segment when not set.
    pub max_mutation_bytes: Option<u64>,
    /// Bytes of all segments; above, the tables that keep the oldest segment are flushed.
    pub commitlog_total_bytes: u64,
    /// What follows a failed sync.
    pub commit_failure_policy: FailurePolicy,
    /// Whether a table with a damaged SSTable is opened without it, and refuses reads, instead of nothing
    /// being opened. Tables of the node itself must be whole.
    pub tolerates_damaged_sstables: bool,
    /// Whether a data directory in which a write failed takes no new SSTables any more, while there is
    /// another one.
    pub gives_up_directories: bool,
    /// Whether replay skips damaged parts of the log instead of refusing to start.
    pub commitlog_ignore_replay_errors: bool,
    /// Bytes of all memtables; writers wait above it.
    pub memtable_bytes_max: u64,
    /// Part of `memtable_bytes_max` at which the largest memtable is flushed, in (0, 1).
    pub memtable_cleanup_threshold: f64,
    /// Threads that write SSTables.
    pub flush_writers: usize,
    /// Milliseconds that a write waits for memtable memory before it is refused.
    pub write_wait_timeout_ms: u64,
    /// Threads that compact.
    pub concurrent_compactors: usize,
    /// Bytes that compactions write a second; 0 for no limit.
    pub compaction_bytes_per_s: u64,
    /// Bytes of a device that compactions leave free.
    pub min_free_bytes: u64,
    /// Part of what is free beyond that which they may use, in [0, 1].
    pub compaction_space_share: f64,
    /// Whether SSTables without a Proof.db are compared with their digests in the background.
    pub proves_sstables: bool,
    /// Whether reads fail with [`partition::ReadError::Unproven`] until that was done of what they need
    /// ([`crate::Engine::demand_proof`]); without `proves_sstables` they do not.
    pub awaits_proofs: bool,
    /// Whether large partitions of such SSTables are described, too, so that reads of them cost what they
    /// cost in the node's own files; without `proves_sstables` they are not.
    pub adopts_sstables: bool,
    /// Bytes that are read a second for it; 0 for no limit.
    pub proving_bytes_per_s: u64,
    /// Bytes of the page cache.
    pub page_cache_bytes: u64,
    /// Whether index pages stay in it.
    pub cache_index_pages: bool,
    /// Bytes of the row cache; 0 for none.
    pub row_cache_bytes: u64,
    /// How Data.db is read (`disk_access_mode`).
    pub data_access: Access,
    /// How the files of indexes are read.
    pub index_access: Access,
    /// Whether dropping or truncating a table leaves a snapshot.
    pub auto_snapshot: bool,
    /// Seconds after which such a snapshot is removed; never without them.
    pub auto_snapshot_ttl_s: Option<u32>,
    /// Bytes of rows after which an SSTable's index starts another block.
    pub column_index_bytes: u64,
    /// Which partitions the log tells of when they are written.
    pub partition_limits: PartitionLimits,
    /// Bytes of rows that a compaction writes before what it wrote can be read; `u64::MAX` for its end.
    pub early_open_bytes: u64,
    /// Whether each flushed and each imported SSTable is linked into `backups/` of its table, unless the
    /// table says no.
    pub incremental_backups: bool,
    /// Whether SSTables get 28-character time uuids as ids instead of numbers.
    pub uuid_sstable_identifiers: bool,
    /// With which releases new files stay compatible.
    pub storage_compatibility: StorageCompatibility,
    /// The format of new SSTables.
    pub sstable_format: SsTableFormat,
}

impl EngineOptions {
    /// Cassandra's defaults for a data directory that holds `data/` and `commitlog/`.
    pub fn under(root: &Path) -> EngineOptions {
        EngineOptions {
            data_dirs: vec![root.join("data")],
            local_system_dir: None,
            commitlog_dir: root.join("commitlog"),
            commitlog_sync: SyncMode::Periodic { period_ms: 10_000 },
            commitlog_segment_bytes: 32 << 20,
            max_mutation_bytes: None,
            commitlog_total_bytes: 8 << 30,
            commit_failure_policy: FailurePolicy::Stop,
            tolerates_damaged_sstables: false,
            gives_up_directories: false,
            commitlog_ignore_replay_errors: false,
            memtable_bytes_max: 512 << 20,
            memtable_cleanup_threshold: 0.33,
            flush_writers: 2,
            write_wait_timeout_ms: 2_000,
            concurrent_compactors: 2,
            compaction_bytes_per_s: 64 << 20,
            min_free_bytes: 50 << 20,
            compaction_space_share: 0.95,
            proves_sstables: true,
            adopts_sstables: true,
            awaits_proofs: false,
            proving_bytes_per_s: 64 << 20,
            page_cache_bytes: 512 << 20,
            cache_index_pages: true,
            row_cache_bytes: 0,
            data_access: Access::Buffered,
            index_access: Access::Buffered,
            auto_snapshot: true,
            auto_snapshot_ttl_s: None,
            column_index_bytes: COLUMN_INDEX_BYTES,
            partition_limits: PartitionLimits::default(),
            early_open_bytes: 50 << 20,
            incremental_backups: false,
            uuid_sstable_identifiers: false,
            storage_compatibility: StorageCompatibility::default(),
            sstable_format: SsTableFormat::default(),
        }
    }

    /// Every directory that holds tables.
    pub(crate) fn table_roots(&self) -> impl Iterator<Item = &PathBuf> {
        self.data_dirs.iter().chain(&self.local_system_dir)
    }

    /// The version of commit log segments.
    pub fn commitlog_version(&self) -> i32 {
        match self.storage_compatibility {
            StorageCompatibility::Cassandra4 => format::VERSION_40,
            StorageCompatibility::Upgrading | StorageCompatibility::None => format::VERSION_50,
        }
    }

    /// The version of SSTables that flushes and compactions write.
    pub fn sstable_version(&self) -> Version {
        match (self.sstable_format, self.storage_compatibility) {
            (SsTableFormat::Bti, _) => Version::DA,
            (SsTableFormat::Big, StorageCompatibility::Cassandra4) => Version::NB,
            (SsTableFormat::Big, _) => Version::OA,
        }
    }

    /// Largest size of a serialized mutation, in bytes.
    pub fn mutation_bytes_max(&self) -> u64 {
        self.max_mutation_bytes.unwrap_or(self.segment_mutation_bytes_max())
    }

    /// The largest that a segment of the commit log takes.
    pub(crate) fn segment_mutation_bytes_max(&self) -> u64 {
        self.commitlog_segment_bytes / 2
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// The first setting that cannot be, in words.
    pub fn validate(&self) -> Result<(), String> {
        let reject = |what: &str| Err(what.to_owned());
        if self.data_dirs.is_empty() {
            return reject("data_file_directories must name at least one directory");
        }
        if let Some(dir) = &self.local_system_dir {
            if self.data_dirs.contains(dir) {
                return reject(
                    "local_system_data_file_directory must not be the same as any data_file_directories",
                );
            }
            if *dir == self.commitlog_dir {
                return reject(
                    "local_system_data_file_directory must not be the same as the commitlog_directory",
                );
            }
        }
        if self.data_dirs.contains(&self.commitlog_dir) {
            return reject("commitlog_directory must not be the same as a data_file_directory");
        }
        if self.sstable_format == SsTableFormat::Bti
            && self.storage_compatibility == StorageCompatibility::Cassandra4
        {
            return reject(
                "Selected sstable format 'bti' is not available when in storage compatibility mode 'CASSANDRA_4'.",
            );
        }
        match self.commitlog_sync {
            SyncMode::Periodic { period_ms: 0 } => {
                return reject("commitlog_sync_period must be positive");
            }
            SyncMode::Group { window_ms: 0 } => {
                return reject("commitlog_sync_group_window must be positive");
            }
            _ => {}
        }
        if !(4096..1 << 31).contains(&self.commitlog_segment_bytes) {
            return reject("commitlog_segment_size must be at least 4KiB and less than 2GiB");
        }
        if !(1..=self.segment_mutation_bytes_max()).contains(&self.mutation_bytes_max()) {
            return reject("commitlog_segment_size must be at least twice the size of max_mutation_size");
        }
        if self.commitlog_total_bytes < self.commitlog_segment_bytes {
            return reject("commitlog_total_space must hold at least one segment");
        }
        if self.memtable_bytes_max < 1 << 16 {
            return reject("memtable space must be at least 64KiB");
        }
        if !(self.memtable_cleanup_threshold > 0.0 && self.memtable_cleanup_threshold < 1.0) {
            return reject("memtable_cleanup_threshold must lie between 0 and 1");
        }
        if !(0.0..=1.0).contains(&self.compaction_space_share) {
            return reject("max_space_usable_for_compactions_in_percentage must be between 0 and 1");
        }
        if self.concurrent_compactors == 0 {
            return reject("concurrent_compactors should be strictly greater than 0, but was 0");
        }
        if self.flush_writers == 0 {
            return reject("memtable_flush_writers must be at least 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_nonsense_is_not() {
        let good = EngineOptions::under(Path::new("/d"));
        assert_eq!(good.validate(), Ok(()));
        assert_eq!(good.mutation_bytes_max(), 16 << 20);
        let spoil: [fn(&mut EngineOptions); 13] = [
            |o| o.data_dirs.clear(),
            |o| o.commitlog_dir = o.data_dirs[0].clone(),
            |o| o.local_system_dir = Some(o.data_dirs[0].clone()),
            |o| o.local_system_dir = Some(o.commitlog_dir.clone()),
            |o| o.commitlog_sync = SyncMode::Periodic { period_ms: 0 },
            |o| o.commitlog_sync = SyncMode::Group { window_ms: 0 },
            |o| o.commitlog_segment_bytes = 1 << 31,
            |o| o.max_mutation_bytes = Some((16 << 20) + 1),
            |o| o.max_mutation_bytes = Some(0),
            |o| o.commitlog_total_bytes = 1,
            |o| o.memtable_cleanup_threshold = 1.0,
            |o| o.compaction_space_share = 1.01,
            |o| o.flush_writers = 0,
        ];
        for change in spoil {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(bad.validate().is_err(), "{bad:?}");
        }
    }
}
