//! Room on the disk for what a compaction is going to write, looked for before it begins.
//!
//! A compaction's output is expected to be as large as its inputs, which stay until it is there. Where the
//! device has less room than that and what other compactions are still going to write, the largest inputs are
//! left out; where that is not enough, or the strategy needs all of them, it does not begin: one that fills
//! the disk and fails takes the room from flushes and the commit log meanwhile. The figures are Cassandra's
//! (`Directories.getAvailableSpaceForCompactions`,
//! `CompactionTask.buildCompactionCandidatesForAvailableDiskSpace`).

use super::task::Task;
use crate::background::Background;
use crate::error::EngineError;
use crate::table::homes::data_directory;
use model::TableSchema;
use sstable::SsTable;
use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Task {
    /// Bytes on disk that are still to be written, as far as can be told.
    fn remaining_bytes(&self) -> u64 {
        let disk: u64 = self.inputs.iter().map(|t| t.disk_bytes()).sum();
        let rows: u64 = self.inputs.iter().map(|t| t.data_bytes()).sum();
        let done = self.completed_bytes.load(Ordering::Relaxed).min(rows);
        match rows {
            0 => 0,
            _ => (disk as f64 * (1.0 - done as f64 / rows as f64)) as u64,
        }
    }
}

impl Background {
    /// Those of `inputs` that there is room to compact beside what runs: all of them, or without the largest
    /// where `may_leave_out` says that the others can do without.
    ///
    /// # Errors
    /// [`EngineError::NoRoom`], and when the device cannot be measured.
    pub(super) fn with_room(
        &self,
        schema: &TableSchema,
        mut inputs: Vec<Arc<SsTable>>,
        may_leave_out: bool,
        running: &[Arc<Task>],
    ) -> Result<Vec<Arc<SsTable>>, EngineError> {
        let Some(first) = inputs.first() else { return Ok(inputs) };
        let device = data_directory(&first.descriptor().directory).to_owned();
        let room = self.room_for_compactions(&device, running)?;
        let (sstables, mut expected) = (inputs.len(), inputs.iter().map(|t| t.disk_bytes()).sum::<u64>());
        if expected <= room {
            return Ok(inputs);
        }
        let (all, mut kept) = (expected, inputs.len());
        let mut by_size: Vec<&Arc<SsTable>> = inputs.iter().collect();
        by_size.sort_by_key(|t| Reverse(t.disk_bytes()));
        for largest in &by_size {
            if expected > room {
                (expected, kept) = (expected - largest.disk_bytes(), kept - 1);
            }
        }
        // One alone would only be copied.
        if !may_leave_out || kept < 2 {
            return Err(EngineError::NoRoom {
                keyspace: schema.keyspace.clone(),
                table: schema.name.clone(),
                sstables,
                expected_bytes: all,
                room_bytes: room,
            });
        }
        let smallest: Vec<Arc<SsTable>> = by_size.into_iter().skip(sstables - kept).map(Arc::clone).collect();
        inputs.retain(|t| smallest.iter().any(|kept| Arc::ptr_eq(kept, t)));
        tracing::warn!(
            keyspace = schema.keyspace,
            table = schema.name,
            left_out = sstables - kept,
            expected_bytes = all,
            room_bytes = room,
            "not enough space for a compaction: it goes on without the largest SSTables"
        );
        Ok(inputs)
    }

    /// Bytes that a new compaction may write on a device.
    fn room_for_compactions(&self, device: &Path, running: &[Arc<Task>]) -> Result<u64, EngineError> {
        let free =
            self.catalog.env.fs.space(device)?.free_bytes.saturating_sub(self.catalog.options.min_free_bytes);
        let usable = (free as f64 * self.catalog.options.compaction_space_share) as u64;
        let is_here =
            |task: &&Arc<Task>| task.all().any(|t| data_directory(&t.descriptor().directory) == device);
        let promised: u64 = running.iter().filter(is_here).map(|task| task.remaining_bytes()).sum();
        Ok(usable.saturating_sub(promised))
    }
}
