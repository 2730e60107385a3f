//! One table of the node: its memtables and SSTables, and the view that readers take of them.
//!
//! A [`TableView`] is immutable. Whoever changes the set (a write barrier that switches the memtable, a
//! flush, a compaction, a truncation) builds a new one under [`TableStore`]'s lock and swaps it in; readers
//! keep the one they took, and with it the memtables and the files of its SSTables, for as long as they need.

mod cached;
mod estimates;
mod files;
mod held;
pub(crate) mod homes;
mod large;
mod newest_first;
mod read;
mod survey;

pub use estimates::RangeEstimate;
pub(crate) use files::FileContext;
pub use held::{HeldTable, LargePartition};
pub(crate) use survey::TableFiles;

use crate::cache::{CachedRows, RowCache};
use crate::commitlog::{IntervalSet, LogPosition};
use crate::error::EngineError;
use crate::memtable::Memtable;
use arc_swap::ArcSwap;
use env::sync::Mutex;
use model::{DecoratedKey, TableSchema};
use partition::ReadError;
use sstable::txn_log::CommitError;
use sstable::{SsTable, SsTableId};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uuid::Uuid;

/// A memtable that takes no more writes and waits to become an SSTable.
#[derive(Clone, Debug)]
pub struct FlushingMemtable {
    /// The memtable.
    pub memtable: Arc<Memtable>,
    /// Its writes lie at or before this position of the commit log.
    pub end: LogPosition,
}

/// What a table holds at one moment. Everything in it is older or newer, never both: the current memtable is
/// newer than the flushing ones, those are newer than the SSTables that were made before.
#[derive(Clone, Debug)]
pub struct TableView {
    /// Takes the writes.
    pub memtable: Arc<Memtable>,
    /// Oldest first.
    pub flushing: Vec<FlushingMemtable>,
    /// Newest first, by their newest timestamp.
    pub sstables: Arc<Vec<Arc<SsTable>>>,
    /// What running compactions have written so far.
    pub early: Vec<Arc<EarlyOpening>>,
    /// Counts the changes of `sstables`.
    pub sstable_set: u64,
    /// Where heads of partitions are cached, if they are.
    pub(crate) cached_rows: Option<Arc<CachedRows>>,
    /// A memtable that became an SSTable just now: cached heads may be older.
    pub(crate) settling: Option<Arc<Memtable>>,
    /// Why rows are missing that should be there: an SSTable could not be opened. Reads are refused, and
    /// compactions.
    pub(crate) damage: Option<ReadError>,
}

/// What a running compaction has written so far, for those who read single partitions: pages of its output
/// become resident while those of its inputs still are, and the end of the compaction is no cliff
/// (CASSANDRA-6916).
#[derive(Debug)]
pub struct EarlyOpening {
    /// What it compacts. They are among the view's SSTables until it ends.
    pub inputs: Vec<Arc<SsTable>>,
    /// What it wrote; the last one is not finished.
    pub outputs: Vec<Arc<SsTable>>,
    /// Up to this key the outputs stand for the inputs.
    pub through: DecoratedKey,
}

impl EarlyOpening {
    fn replaces(&self, sstable: &Arc<SsTable>) -> bool {
        self.inputs.iter().any(|input| Arc::ptr_eq(input, sstable))
    }
}

impl TableView {
    /// Adds and removes SSTables: what a flush, a compaction, an import and a truncation do. Those to remove
    /// are found by identity.
    pub fn replace_sstables(&mut self, remove: &[Arc<SsTable>], add: impl IntoIterator<Item = Arc<SsTable>>) {
        let mut tables: Vec<_> = self.sstables.iter().cloned().collect();
        tables.retain(|table| !remove.iter().any(|gone| Arc::ptr_eq(gone, table)));
        self.early.retain(|early| !remove.iter().any(|gone| early.replaces(gone)));
        tables.extend(add);
        tables.sort_by_key(|table| std::cmp::Reverse(table.newest_timestamp()));
        self.sstables = Arc::new(tables);
        self.sstable_set += 1;
        if let Some(rows) = &self.cached_rows {
            rows.set_sstable_set(self.sstable_set);
        }
    }

    /// Replaces the oldest flushing memtable by its SSTable, if it made one. [`TableStore::settle`] has to
    /// follow.
    pub(crate) fn end_flush(&mut self, sstable: Option<Arc<SsTable>>) {
        let flushed = self.flushing.remove(0);
        self.replace_sstables(&[], sstable);
        self.settling = self.cached_rows.is_some().then_some(flushed.memtable);
    }

    /// Lets no cached row be found any more: what the SSTables say changes in another way than by a flush or
    /// a compaction.
    pub(crate) fn forget_cached_rows(&mut self) {
        let renewed = self.cached_rows.as_ref().and_then(|rows| rows.renewed());
        self.set_cached_rows(renewed);
    }

    fn set_cached_rows(&mut self, rows: Option<Arc<CachedRows>>) {
        if let Some(rows) = &rows {
            rows.set_sstable_set(self.sstable_set);
        }
        self.cached_rows = rows;
    }

    /// Lets a compaction's outputs be read, or more of them than before; not if an input is gone.
    pub(crate) fn open_early(&mut self, opening: EarlyOpening) {
        let is_here = |input: &Arc<SsTable>| self.sstables.iter().any(|t| Arc::ptr_eq(t, input));
        if opening.inputs.iter().all(is_here) {
            self.close_early(&opening.inputs);
            self.early.push(Arc::new(opening));
        }
    }

    /// The compaction of `inputs` failed, or was given up.
    pub(crate) fn close_early(&mut self, inputs: &[Arc<SsTable>]) {
        self.early.retain(|early| !inputs.iter().any(|input| early.replaces(input)));
    }

    /// The SSTables that a partition is in, if it is in any; newest first when `early` is empty.
    pub(crate) fn sstables_for<'v>(
        &'v self,
        key: &'v DecoratedKey,
    ) -> impl Iterator<Item = &'v Arc<SsTable>> {
        let open = move || self.early.iter().filter(move |early| *key <= early.through);
        let whole = self.sstables.iter().filter(move |t| !open().any(|early| early.replaces(t)));
        whole.chain(open().flat_map(|early| &early.outputs))
    }
}

/// A table.
pub struct TableStore {
    schema: ArcSwap<TableSchema>,
    view: ArcSwap<TableView>,
    /// Held while a new view is made from the current one.
    view_change: Mutex<()>,
    /// Held by the one flush or truncation that runs.
    pub(crate) flush_turn: Mutex<()>,
    /// Whether a flush is queued already.
    pub(crate) flush_queued: AtomicBool,
    /// Whether the last flush failed: it is tried again besides the queue.
    pub(crate) flush_failing: AtomicBool,
    /// Whether the keyspace's writes go to the commit log.
    durable_writes: AtomicBool,
    /// Set when the table is dropped: nothing is flushed any more.
    dropped: AtomicBool,
    /// Whether a transaction failed to commit and the next start may find that it did not fail. Until then
    /// SSTables are added only: none goes, by compaction or truncation, nor is any looked for in the
    /// directories.
    in_doubt: AtomicBool,
    /// The table's directory in each data directory.
    dirs: Vec<PathBuf>,
    /// Bytes of SSTables above which a read of a range of partitions leaves nothing in the page cache.
    scan_bytes_max: u64,
    row_cache: Arc<RowCache>,
    /// The largest sequence number among the table's SSTables.
    last_sequence: AtomicU64,
    /// Whether its definition is not in an SSTable yet, and has to be before anything else of it.
    awaits_schema: AtomicBool,
    /// Whether Cassandra has been told to build the table's indexes anew.
    pub(crate) indexes_left: AtomicBool,
    pub(crate) reads: AtomicU64,
    /// How many they were when a memtable was written last.
    reads_at_flush: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) memtable_switches: AtomicU64,
}

impl TableStore {
    pub(crate) fn new(
        schema: Arc<TableSchema>,
        durable_writes: bool,
        dirs: Vec<PathBuf>,
        memtable: Memtable,
        (sstables, last_sequence): (Vec<Arc<SsTable>>, u64),
        scan_bytes_max: u64,
        row_cache: Arc<RowCache>,
    ) -> TableStore {
        let mut view = TableView {
            memtable: Arc::new(memtable),
            flushing: Vec::new(),
            sstables: Arc::default(),
            early: Vec::new(),
            sstable_set: 0,
            cached_rows: row_cache.of_table(&schema),
            settling: None,
            damage: None,
        };
        view.replace_sstables(&[], sstables);
        TableStore {
            schema: ArcSwap::new(schema),
            view: ArcSwap::from_pointee(view),
            scan_bytes_max,
            row_cache,
            last_sequence: AtomicU64::new(last_sequence),
            view_change: Mutex::new(()),
            flush_turn: Mutex::new(()),
            flush_queued: AtomicBool::new(false),
            flush_failing: AtomicBool::new(false),
            durable_writes: AtomicBool::new(durable_writes),
            dropped: AtomicBool::new(false),
            in_doubt: AtomicBool::new(false),
            dirs,
            awaits_schema: AtomicBool::new(false),
            indexes_left: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            reads_at_flush: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            memtable_switches: AtomicU64::new(0),
        }
    }

    /// The definition as it is now.
    pub fn schema(&self) -> Arc<TableSchema> {
        self.schema.load_full()
    }

    pub(crate) fn set_schema(&self, schema: Arc<TableSchema>, durable_writes: bool) {
        self.durable_writes.store(durable_writes, Ordering::Relaxed);
        let before = self.schema.swap(Arc::clone(&schema));
        let rows = if Arc::ptr_eq(&before, &schema) { None } else { self.row_cache.of_table(&schema) };
        if rows.is_some() || !Arc::ptr_eq(&before, &schema) && self.view.load().cached_rows.is_some() {
            self.change_view(|view| view.set_cached_rows(rows));
        }
    }

    pub(crate) fn awaits_schema(&self) -> bool {
        self.awaits_schema.load(Ordering::Acquire)
    }

    pub(crate) fn set_awaits_schema(&self, awaits: bool) {
        self.awaits_schema.store(awaits, Ordering::Release);
    }

    /// Whether writes go to the commit log.
    pub fn durable_writes(&self) -> bool {
        self.durable_writes.load(Ordering::Relaxed)
    }

    /// Whether the table was dropped.
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::SeqCst)
    }

    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::SeqCst);
    }

    /// Refuses reads and compactions from now on: an SSTable is there that cannot be opened.
    pub(crate) fn set_damaged(&self, cause: ReadError) {
        self.change_view(|view| view.damage = Some(cause));
    }

    /// Why an SSTable is missing from the view.
    pub fn damage(&self) -> Option<ReadError> {
        self.view.load().damage.clone()
    }

    /// Notes what became of a transaction that did not commit.
    pub(crate) fn note(&self, error: &CommitError) {
        if error.is_in_doubt() && !self.in_doubt.swap(true, Ordering::SeqCst) {
            let schema = self.schema();
            tracing::error!(keyspace = schema.keyspace, table = schema.name, %error, "the table is neither compacted nor truncated until the node was started again");
        }
    }

    /// Refuses what takes SSTables away, when a transaction is in doubt.
    ///
    /// # Errors
    /// [`EngineError::InDoubt`].
    pub(crate) fn check_settled(&self) -> Result<(), EngineError> {
        if !self.in_doubt.load(Ordering::SeqCst) {
            return Ok(());
        }
        let schema = self.schema();
        Err(EngineError::InDoubt { keyspace: schema.keyspace.clone(), table: schema.name.clone() })
    }

    /// Lets new SSTables have other names than one that came from outside.
    pub(crate) fn note_name(&self, id: SsTableId) {
        if let SsTableId::Sequence(n) = id {
            self.last_sequence.fetch_max(n, Ordering::SeqCst);
        }
    }

    /// The table's directories.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Those of them that new SSTables go to.
    pub(crate) fn homes(&self) -> &[PathBuf] {
        homes::homes_among(&self.dirs, &self.schema())
    }

    /// What the table holds now.
    pub fn view(&self) -> Arc<TableView> {
        self.view.load_full()
    }

    /// The current memtable, for a writer that holds the engine's barrier.
    pub(crate) fn with_memtable<T>(&self, apply: impl FnOnce(&Memtable) -> T) -> T {
        apply(&self.view.load().memtable)
    }

    /// Replaces the view by what `change` makes of it. The one way in which the set of memtables and SSTables
    /// of a table changes, compaction's included.
    pub fn change_view(&self, change: impl FnOnce(&mut TableView)) {
        let _turn = self.view_change.lock();
        let mut view = TableView::clone(&self.view.load());
        change(&mut view);
        self.view.store(Arc::new(view));
    }

    /// The positions of the commit log whose writes are in SSTables that `host_id` wrote.
    pub(crate) fn covered_log(&self, host_id: Option<Uuid>) -> IntervalSet {
        let mut out = IntervalSet::default();
        let view = self.view.load();
        for (start, end) in
            host_id.iter().flat_map(|id| view.sstables.iter().flat_map(|t| t.commit_log_intervals(*id)))
        {
            out.add(files::from_disk(*start), files::from_disk(*end));
        }
        out
    }
}
