//! Bloom filters that nobody has proven yet, checked in the background.
//!
//! Filter.db of a foreign writer has no checksum, and a filter that lacks a key would hide a partition. So it
//! turns no key away that it is not known to turn away rightly: reads prove it piece by piece, and one thread
//! goes over the indexes of such SSTables from end to end.
//!
//! 1. It looks for them when the engine starts, when SSTables were loaded, and now and then besides.
//! 2. One at a time is checked, around the page cache, at the common pace of compactions; with them it
//!    pauses.
//! 3. A filter that lacks a key is not asked any more: a warning names the file. An index that cannot be read
//!    is told as a failure of the disk, and the SSTable is not looked at again.

use crate::engine::{Engine, looks};
use crate::table::TableStore;
use env::background::Background;
use env::sync::Mutex;
use partition::ReadContext;
use sstable::{Descriptor, SsTable};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often the thread looks when nobody nudges it.
const TICK: Duration = Duration::from_secs(60);

/// The thread, and what it found.
#[derive(Default)]
pub(crate) struct FilterChecks {
    background: Arc<Background>,
    pub(crate) checked: AtomicU64,
    pub(crate) damaged: AtomicU64,
    /// SSTables whose index could not be read.
    unreadable: Mutex<HashSet<Descriptor>>,
}

impl FilterChecks {
    /// Starts the thread.
    pub(crate) fn start(self: &Arc<Self>, engine: &Arc<Engine>) -> io::Result<()> {
        let this = Arc::clone(self);
        let look = looks(engine, move |engine| this.check_all(engine));
        self.background.start(&engine.env.tasks, ["filter-check".to_owned()], TICK, look)?;
        self.nudge();
        Ok(())
    }

    /// Makes the thread look.
    pub(crate) fn nudge(&self) {
        self.background.nudge();
    }

    /// Ends the thread. The throttle of compactions has to be stopped before.
    pub(crate) fn stop(&self) {
        self.background.stop();
    }

    fn is_stopping(&self) -> bool {
        self.background.is_stopping()
    }

    fn check_all(&self, engine: &Engine) {
        let unproven = engine.unproven_filters();
        if unproven > 0 {
            tracing::info!(sstables = unproven, "bloom filters are checked against the indexes");
        }
        let before = self.checked.load(Ordering::Relaxed);
        while let Some((table, sstable)) = self.next(engine) {
            if !self.check(engine, &table, &sstable) {
                break;
            }
        }
        let checked = self.checked.load(Ordering::Relaxed) - before;
        if checked > 0 {
            tracing::info!(checked, left = engine.unproven_filters(), "bloom filters were checked");
        }
    }

    fn next(&self, engine: &Engine) -> Option<(Arc<TableStore>, Arc<SsTable>)> {
        let unreadable = self.unreadable.lock();
        engine.tables().into_iter().find_map(|table| {
            let view = table.view();
            let is_due = |t: &&Arc<SsTable>| t.has_unproven_filter() && !unreadable.contains(t.descriptor());
            let found = view.sstables.iter().find(is_due).cloned();
            found.map(|sstable| (table, sstable))
        })
    }

    /// Checks one; whether to go on.
    fn check(&self, engine: &Engine, table: &TableStore, sstable: &Arc<SsTable>) -> bool {
        let context = ReadContext { fill_cache: false, ..ReadContext::default() };
        let is_gone = || {
            self.is_stopping()
                || table.is_dropped()
                || !table.view().sstables.iter().any(|t| Arc::ptr_eq(t, sstable))
        };
        let mut pace = |bytes| engine.compactions.spend(bytes, is_gone);
        match sstable.check_filter_at_pace(&context, &mut pace) {
            Ok(true) => {
                self.checked.fetch_add(1, Ordering::Relaxed);
            }
            // The SSTable is gone, or the engine ends.
            Ok(false) => return !self.is_stopping() && !engine.compactions.is_stopping(),
            Err(error) if !sstable.has_unproven_filter() => {
                self.checked.fetch_add(1, Ordering::Relaxed);
                self.damaged.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%error, "a bloom filter is not used");
            }
            Err(error) => {
                tracing::error!(%error, "the bloom filter of an SSTable could not be checked");
                engine.report_read_failure(&error);
                self.unreadable.lock().insert(sstable.descriptor().clone());
            }
        }
        !self.is_stopping()
    }
}

impl Engine {
    /// Number of SSTables whose bloom filters are not proven yet.
    pub(crate) fn unproven_filters(&self) -> u64 {
        let of = |table: &Arc<TableStore>| {
            table.view().sstables.iter().filter(|t| t.has_unproven_filter()).count()
        };
        self.tables().iter().map(|table| of(table) as u64).sum()
    }
}
