//! The engine's part of the settings.

use super::{CommitFailurePolicy, CommitlogSync, DiskFailurePolicy, MemoryShares, Settings, UnprovenReads};
use engine::{EngineOptions, FailurePolicy, SyncMode};
use env::Env;
use env::tasks::Tasks;
use std::path::Path;

pub(super) fn engine_options(env: &Env, settings: &Settings, memory: MemoryShares) -> EngineOptions {
    let data_dirs = settings.data_file_directories.clone();
    let root = data_dirs.first().cloned().unwrap_or_default();
    let flush_writers = settings.memtable_flush_writers.map_or(data_dirs.len().max(2), |n| n as usize);
    let memtables = match (settings.memtable_heap_space, settings.memtable_offheap_space) {
        (None, None) => memory.memtables,
        (on, off) => on.map_or(0, |b| b.0).saturating_add(off.map_or(0, |b| b.0)),
    };
    let (data_access, index_access) = settings.disk_access_mode.accesses();
    let threshold = settings.memtable_cleanup_threshold.unwrap_or(1.0 / (flush_writers as f64 + 1.0));
    EngineOptions {
        commitlog_dir: settings.commitlog_directory.clone().unwrap_or_default(),
        commitlog_sync: match settings.commitlog_sync {
            CommitlogSync::Periodic => SyncMode::Periodic { period_ms: settings.commitlog_sync_period.0 },
            CommitlogSync::Batch => SyncMode::Batch,
            CommitlogSync::Group => SyncMode::Group { window_ms: settings.commitlog_sync_group_window.0 },
        },
        commitlog_segment_bytes: settings.commitlog_segment_size.0,
        max_mutation_bytes: settings.max_mutation_size.map(|size| size.0),
        commitlog_total_bytes: settings.commitlog_total_space.map_or_else(
            || default_log_bytes(env, &root).max(settings.commitlog_segment_size.0),
            |size| size.0,
        ),
        tolerates_damaged_sstables: matches!(
            settings.disk_failure_policy,
            DiskFailurePolicy::BestEffort | DiskFailurePolicy::Ignore
        ),
        gives_up_directories: settings.disk_failure_policy == DiskFailurePolicy::BestEffort,
        commit_failure_policy: match settings.commit_failure_policy {
            CommitFailurePolicy::Stop => FailurePolicy::Stop,
            CommitFailurePolicy::Die => FailurePolicy::Die,
            CommitFailurePolicy::StopCommit => FailurePolicy::StopCommit,
            CommitFailurePolicy::Ignore => FailurePolicy::Ignore,
        },
        memtable_bytes_max: memtables,
        memtable_cleanup_threshold: threshold,
        flush_writers,
        write_wait_timeout_ms: settings.write_request_timeout.0,
        page_cache_bytes: settings.file_cache_size.map_or(memory.page_cache, |size| size.0),
        cache_index_pages: settings.cache_index_pages,
        row_cache_bytes: settings.row_cache_size.0,
        data_access,
        index_access,
        concurrent_compactors: settings.concurrent_compactors.map_or_else(default_compactors, |n| n as usize),
        compaction_bytes_per_s: settings.compaction_throughput.0,
        min_free_bytes: settings.min_free_space_per_drive.0,
        compaction_space_share: settings.max_space_usable_for_compactions_in_percentage,
        proves_sstables: settings.sstable_proving_enabled,
        adopts_sstables: settings.sstable_adoption_enabled,
        awaits_proofs: settings.sstable_unproven_reads == UnprovenReads::Wait,
        proving_bytes_per_s: settings.sstable_proving_throughput.0,
        auto_snapshot: settings.auto_snapshot,
        auto_snapshot_ttl_s: settings
            .auto_snapshot_ttl
            .map(|ttl| u32::try_from(ttl.0.div_ceil(1_000)).unwrap_or(u32::MAX)),
        column_index_bytes: settings.column_index_size.map_or(engine::COLUMN_INDEX_BYTES, |size| size.0),
        early_open_bytes: settings.sstable_preemptive_open_interval.0.map_or(u64::MAX, |size| size.0),
        incremental_backups: settings.incremental_backups,
        uuid_sstable_identifiers: settings.uuid_sstable_identifiers_enabled,
        storage_compatibility: settings.storage_compatibility_mode,
        sstable_format: settings.sstable,
        local_system_dir: settings.local_system_data_file_directory.clone(),
        data_dirs,
        ..EngineOptions::under(&root)
    }
}

/// As many as cores, at least 2 and at most 8.
fn default_compactors() -> usize {
    Tasks::of_machine().parallelism().clamp(2, 8)
}

/// The smaller of 8 GiB and a quarter of the device.
fn default_log_bytes(env: &Env, data_dir: &Path) -> u64 {
    let device = data_dir.ancestors().find_map(|dir| env.fs.space(dir).ok());
    device.map_or(8 << 30, |space| (space.total_bytes / 4).min(8 << 30))
}
