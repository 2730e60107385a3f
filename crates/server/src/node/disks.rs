//! How full the disks of the data are, where `data_disk_usage_percentage_*` asks for it (Cassandra's
//! `DiskUsageMonitor`, CASSANDRA-17150).
//!
//! 1. At the start and every [`INTERVAL`] the files below the data directories are added up, and what
//!    memtables will add to them. What may still be written besides makes the whole.
//! 2. The node's own coordinator knows it then, and those of other nodes through gossip. They refuse what
//!    ordinary roles write to a replica whose disks are full, and warn where there is little room.
//! 3. The log tells of each change, and every [`REMINDER`] while there is little room.

use super::Node;
use crate::config::ByteSize;
use crate::slices::take_time;
use crate::state::NodeState;
use coordinator::DiskUsage;
use cql::guardrails::Thresholds;
use env::fs::{EntryKind, FileSystem};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(30);
/// Time after which the log tells again of disks that are as full as before.
const REMINDER: Duration = Duration::from_secs(1_800);

/// Looks at the disks as long as the node runs; not at all where nobody asked for it.
pub(crate) async fn keep_watching(node: Arc<Node>) {
    let thresholds = node.state.config.guardrails.data_disk_usage_percentage;
    if thresholds == Thresholds::default() {
        return;
    }
    let (tasks, clock) = (&node.state.env.tasks, &node.state.env.clock);
    let mut ticks = tasks.ticks(INTERVAL);
    let (mut before, mut told_nanos) = (DiskUsage::NotAvailable, 0);
    loop {
        let state = Arc::clone(&node.state);
        let used = match take_time(move || used(&state)).await {
            Ok(Ok(used)) => used,
            Ok(Err(error)) => {
                tracing::warn!(%error, "how full the disks are could not be found out");
                ticks.next().await;
                continue;
            }
            Err(error) => {
                tracing::error!(%error, "the look at the disks did not end");
                return;
            }
        };
        let usage = judge(used.percent(), thresholds);
        if usage != before {
            node.coordinator.set_disk_usage(usage);
            if let Some(membership) = &node.membership {
                membership.set_disk_usage(usage);
            }
        }
        let now = clock.monotonic_nanos();
        let is_due = now.saturating_sub(told_nanos) >= REMINDER.as_nanos() as u64;
        if usage != before || is_due && usage > DiskUsage::Spacious {
            tell(&used, usage, thresholds);
            told_nanos = now;
        }
        before = usage;
        ticks.next().await;
    }
}

/// Bytes of data, and of what they may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    used_bytes: u64,
    total_bytes: u64,
}

impl Used {
    /// Rounded up. Memtables may take it above 100.
    fn percent(self) -> u64 {
        self.used_bytes.saturating_mul(100).div_ceil(self.total_bytes.max(1))
    }
}

fn judge(percent: u64, thresholds: Thresholds) -> DiskUsage {
    let passes = |threshold: u64| threshold > 0 && percent > threshold;
    match (passes(thresholds.fail), passes(thresholds.warn)) {
        (true, _) => DiskUsage::Full,
        (false, true) => DiskUsage::Stuffed,
        (false, false) => DiskUsage::Spacious,
    }
}

fn tell(used: &Used, usage: DiskUsage, thresholds: Thresholds) {
    let percent = used.percent();
    let Used { used_bytes, total_bytes } = *used;
    let start = format!(
        "Guardrail local_data_disk_usage violated: Local data disk usage {percent}%({})",
        usage.word()
    );
    match usage {
        DiskUsage::Full => tracing::error!(
            used_bytes,
            total_bytes,
            "{start} exceeds failure threshold of {}%, will stop accepting writes",
            thresholds.fail
        ),
        DiskUsage::Stuffed => tracing::warn!(
            used_bytes,
            total_bytes,
            "{start} exceeds warning threshold of {}%",
            thresholds.warn
        ),
        _ => tracing::info!(used_bytes, total_bytes, "Local data disk usage is {percent}%"),
    }
}

fn used(state: &NodeState) -> io::Result<Used> {
    let fs = state.env.fs.as_ref();
    let mut files_bytes = 0;
    let mut free = BTreeMap::new();
    for directory in &state.engine.options().data_dirs {
        files_bytes += bytes_below(fs, directory)?;
        let space = fs.space(directory)?;
        free.insert(space.device, space.free_bytes);
    }
    let free_bytes: u64 = free.into_values().sum();
    let largest =
        state.config.settings.data_disk_usage_max_disk_size.map_or(u64::MAX, |ByteSize(bytes)| bytes);
    let memtables_bytes: u64 =
        state.engine.tables().iter().map(|table| table.stats().memtable_data_bytes).sum();
    Ok(Used {
        used_bytes: files_bytes + memtables_bytes,
        total_bytes: files_bytes.saturating_add(free_bytes).min(largest),
    })
}

/// What the files below a directory take. One that goes meanwhile takes nothing.
fn bytes_below(fs: &dyn FileSystem, directory: &Path) -> io::Result<u64> {
    let entries = match fs.read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut bytes = 0;
    for entry in entries {
        let path = directory.join(&entry.name);
        bytes += match entry.kind {
            EntryKind::Dir => bytes_below(fs, &path)?,
            EntryKind::File => fs.file_len(&path).unwrap_or(0),
            _ => 0,
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_judged_by_their_thresholds() {
        let judged = |percent, warn, fail| judge(percent, Thresholds { warn, fail });
        assert_eq!(judged(70, 70, 90), DiskUsage::Spacious);
        assert_eq!(judged(71, 70, 90), DiskUsage::Stuffed);
        assert_eq!(judged(91, 70, 90), DiskUsage::Full);
        assert_eq!(judged(100, 0, 90), DiskUsage::Full);
        assert_eq!(judged(100, 90, 0), DiskUsage::Stuffed);
        assert_eq!(Used { used_bytes: 701, total_bytes: 1_000 }.percent(), 71);
        assert_eq!(Used { used_bytes: 5, total_bytes: 0 }.percent(), 500);
    }

    #[test]
    fn files_of_all_folders_count() {
        let env = env::Env::for_test(135);
        let fs = env.fs.as_ref();
        let at = Path::new("/data");
        assert_eq!(bytes_below(fs, at).unwrap(), 0);
        fs.create_dir_all(&at.join("ks/t/snapshots/one")).unwrap();
        for (file, bytes) in [("ks/t/a", 10), ("ks/t/snapshots/one/b", 7), ("c", 3)] {
            fs.write(&at.join(file), &vec![0; bytes]).unwrap();
        }
        assert_eq!(bytes_below(fs, at).unwrap(), 20);
    }
}
