//! Settings of the engine: plain data, validated once by [`EngineOptions::validate`], which `Engine::open` calls.

use std::path::{Path, PathBuf};

/// When a write counts as kept (`commitlog_sync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// At once; the log is synced every `period_ms`. Writers wait when the last sync is more than half a period
    /// late.
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

/// What follows a failed sync or write of the commit log (`commit_failure_policy`). Whatever it says, the writers
/// concerned get an error. A disk without room for a new segment is no failure in this sense: writes are refused
/// until there is room again.
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

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Directories that hold one directory for each keyspace. New SSTables go to the one with the most room.
    pub data_dirs: Vec<PathBuf>,
    /// Directory of the commit log.
    pub commitlog_dir: PathBuf,
    /// When a write counts as kept.
    pub commitlog_sync: SyncMode,
    /// Bytes of a commit log segment; a mutation may have half of it.
    pub commitlog_segment_bytes: u64,
    /// Bytes of all segments; above, the tables that keep the oldest segment are flushed.
    pub commitlog_total_bytes: u64,
    /// What follows a failed sync.
    pub commit_failure_policy: FailurePolicy,
    /// Whether replay skips damaged parts of the log instead of refusing to start.
    pub commitlog_ignore_replay_errors: bool,
    /// Bytes of all memtables; writers wait above it.
    pub memtable_bytes_max: u64,
    /// Part of `memtable_bytes_max` at which the largest memtable is flushed, in (0, 1).
    pub memtable_cleanup_threshold: f64,
    /// Threads that write SSTables.
    pub flush_writers: usize,
    /// Milliseconds that a write waits for memtable memory before it is refused as overloaded.
    pub write_wait_timeout_ms: u64,
    /// Threads that compact.
    pub concurrent_compactors: usize,
    /// Bytes that compactions write a second; 0 for no limit.
    pub compaction_bytes_per_s: u64,
    /// Bytes of the page cache.
    pub page_cache_bytes: u64,
    /// Whether dropping or truncating a table leaves a snapshot.
    pub auto_snapshot: bool,
    /// Whether SSTables get 28-character time uuids as ids instead of numbers.
    pub uuid_sstable_identifiers: bool,
}

impl EngineOptions {
    /// Cassandra's defaults for a data directory that holds `data/` and `commitlog/`.
    pub fn under(root: &Path) -> EngineOptions {
        EngineOptions {
            data_dirs: vec![root.join("data")],
            commitlog_dir: root.join("commitlog"),
            commitlog_sync: SyncMode::Periodic { period_ms: 10_000 },
            commitlog_segment_bytes: 32 << 20,
            commitlog_total_bytes: 8 << 30,
            commit_failure_policy: FailurePolicy::Stop,
            commitlog_ignore_replay_errors: false,
            memtable_bytes_max: 512 << 20,
            memtable_cleanup_threshold: 0.33,
            flush_writers: 2,
            write_wait_timeout_ms: 2_000,
            concurrent_compactors: 2,
            compaction_bytes_per_s: 64 << 20,
            page_cache_bytes: 512 << 20,
            auto_snapshot: true,
            uuid_sstable_identifiers: false,
        }
    }

    /// Largest size of a serialized mutation, in bytes.
    pub fn mutation_bytes_max(&self) -> u64 {
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
        if self.data_dirs.contains(&self.commitlog_dir) {
            return reject("commitlog_directory must not be the same as a data_file_directory");
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
        if self.commitlog_total_bytes < self.commitlog_segment_bytes {
            return reject("commitlog_total_space must hold at least one segment");
        }
        if self.memtable_bytes_max < 1 << 16 {
            return reject("memtable space must be at least 64KiB");
        }
        if !(self.memtable_cleanup_threshold > 0.0 && self.memtable_cleanup_threshold < 1.0) {
            return reject("memtable_cleanup_threshold must lie between 0 and 1");
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
        let spoil: [fn(&mut EngineOptions); 8] = [
            |o| o.data_dirs.clear(),
            |o| o.commitlog_dir = o.data_dirs[0].clone(),
            |o| o.commitlog_sync = SyncMode::Periodic { period_ms: 0 },
            |o| o.commitlog_sync = SyncMode::Group { window_ms: 0 },
            |o| o.commitlog_segment_bytes = 1 << 31,
            |o| o.commitlog_total_bytes = 1,
            |o| o.memtable_cleanup_threshold = 1.0,
            |o| o.flush_writers = 0,
        ];
        for change in spoil {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(bad.validate().is_err(), "{bad:?}");
        }
    }
}
