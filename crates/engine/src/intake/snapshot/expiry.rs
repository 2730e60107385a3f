//! Snapshots that live for a time: their manifests say when it is over, so a restart forgets nothing.
//!
//! The directories are looked through once after the start, and then only when a snapshot is known to be due.

use super::time::millis_of;
use super::{SNAPSHOTS, SnapshotInfo};
use crate::error::EngineError;
use crate::intake::Intake;
use env::fs::EntryKind;
use std::sync::atomic::{AtomicI64, Ordering};

/// When the next snapshot is due, in milliseconds since 1970.
#[derive(Debug)]
pub(crate) struct NextExpiry(AtomicI64);

impl Default for NextExpiry {
    /// Nobody knows: the directories are to be looked through.
    fn default() -> Self {
        NextExpiry(AtomicI64::new(i64::MIN))
    }
}

impl NextExpiry {
    /// Notes a snapshot that is due then.
    pub(super) fn is_at_most(&self, millis: i64) {
        self.0.fetch_min(millis, Ordering::SeqCst);
    }
}

impl Intake {
    /// [`crate::Engine::remove_expired_snapshots`].
    pub(crate) fn remove_expired_snapshots(&self) -> Result<usize, EngineError> {
        let now = self.catalog.env.clock.now_millis();
        if self.next_expiry.0.load(Ordering::SeqCst) > now {
            return Ok(0);
        }
        // A snapshot that is taken meanwhile lowers it again.
        self.next_expiry.0.store(i64::MAX, Ordering::SeqCst);
        let removed = self.look_for_expired(now);
        if removed.is_err() {
            self.next_expiry.is_at_most(now);
        }
        removed
    }

    fn look_for_expired(&self, now: i64) -> Result<usize, EngineError> {
        let fs = &self.catalog.env.fs;
        let mut removed = 0;
        for (keyspace, table, dir) in self.table_directories()? {
            let above = dir.join(SNAPSHOTS);
            if !fs.exists(&above)? {
                continue;
            }
            for tag in fs.read_dir(&above)?.into_iter().filter(|e| e.kind == EntryKind::Dir) {
                let path = above.join(&tag.name);
                let Some(expires) = self.manifest(&path).expires_at.as_deref().and_then(millis_of) else {
                    continue;
                };
                if expires > now {
                    self.next_expiry.is_at_most(expires);
                    continue;
                }
                fs.remove_dir_all(&path)?;
                removed += 1;
                let snapshot = tag.name.to_string_lossy();
                tracing::info!(keyspace, table, %snapshot, "a snapshot expired and was removed");
            }
        }
        Ok(removed)
    }
}

impl SnapshotInfo {
    /// Whether it is removed when its time is over.
    pub fn has_ttl(&self) -> bool {
        self.expires_at.is_some()
    }
}
