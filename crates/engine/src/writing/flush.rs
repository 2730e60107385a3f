//! Flushes, and the loops that do them.
//!
//! *Keeper*: looks around twice a second and whenever somebody nudges it, and queues what has to be flushed:
//! the largest memtable when memory is short, the tables of the oldest segment when the log is long, tables
//! whose `memtable_flush_period_in_ms` is over, and every table after the log failed. Changes of the schema
//! that wait it flushes itself. *Writers*: take tables from the queue. A flush that fails leaves its memtable
//! where readers find it. What was flushed, truncated or dropped they free in turns when no reader has it any
//! more; the last reader may be a thread that clients wait for. *Retrier*: tries tables whose flush failed
//! again, later each time, so that the writers are free for others.

use crate::commitlog::LogPosition;
use crate::error::EngineError;
use crate::memtable::Memtable;
use crate::table::{FlushingMemtable, TableStore};
use crate::turns::{give_way, in_turns, in_turns_unless};
use crate::writing::Writing;
use env::background::looks;
use env::background::{BackgroundLoop, Look};
use env::sync::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often the loops look when nobody nudges them.
const TICK: Duration = Duration::from_millis(500);
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// The queue of tables to flush, and the loops that work on it.
#[derive(Default)]
pub(crate) struct Workers {
    keeper: Arc<BackgroundLoop>,
    writers: Arc<BackgroundLoop>,
    retrier: Arc<BackgroundLoop>,
    queue: Mutex<VecDeque<Arc<TableStore>>>,
    failed: Mutex<Vec<Arc<TableStore>>>,
    /// Memtables that no table has any more, and that readers may still have.
    spent: Mutex<Vec<Arc<Memtable>>>,
}

impl Workers {
    /// Starts the loops. They hold the engine only while they work, so that dropping it ends them.
    pub(crate) fn start(self: &Arc<Self>, writing: &Arc<Writing>) -> io::Result<()> {
        let tasks = &writing.catalog.env.tasks;
        self.keeper.start(tasks, ["engine-keeper".to_owned()], TICK, looks(writing, Writing::keep))?;
        let (workers, weak) = (Arc::clone(self), Arc::downgrade(writing));
        let pause = Mutex::new(RETRY_MIN);
        self.retrier.start(tasks, ["flush-retrier".to_owned()], TICK, move || {
            workers.retry(&weak, &mut pause.lock())
        })?;
        let (workers, weak) = (Arc::clone(self), Arc::downgrade(writing));
        let names = (0..writing.catalog.options.flush_writers).map(|n| format!("flush-writer-{n}"));
        self.writers.start(tasks, names, TICK, move || workers.write(&weak))
    }

    /// Flushes what is queued.
    fn write(&self, writing: &Weak<Writing>) -> Look {
        loop {
            self.free_spent();
            let Some(table) = self.queue.lock().pop_front() else { return Look::Again };
            match writing.upgrade() {
                Some(writing) if !self.writers.is_stopping() => {
                    table.flush_queued.store(false, Ordering::SeqCst);
                    writing.try_flush(&table);
                }
                _ => return Look::End,
            }
        }
    }

    /// Tries tables whose flush failed again after a pause. Whoever fails meanwhile waits for the same
    /// moment.
    fn retry(&self, writing: &Weak<Writing>, pause: &mut Duration) -> Look {
        if self.failed.lock().is_empty() {
            *pause = RETRY_MIN;
            return Look::Again;
        }
        if !self.retrier.rest(*pause) {
            return Look::End;
        }
        *pause = (*pause * 2).min(RETRY_MAX);
        let tables = std::mem::take(&mut *self.failed.lock());
        match writing.upgrade() {
            Some(writing) => {
                tables.iter().for_each(|table| writing.try_flush(table));
                Look::Again
            }
            None => Look::End,
        }
    }

    /// Leaves memtables that no table has any more to the writers, which look for them when they are woken,
    /// and twice a second.
    pub(crate) fn free_later(&self, memtables: impl IntoIterator<Item = Arc<Memtable>>) {
        self.spent.lock().extend(memtables);
    }

    /// Frees memtables that no table has and that nobody reads any more.
    fn free_spent(&self) {
        let spent = std::mem::take(&mut *self.spent.lock());
        for memtable in spent {
            match Arc::try_unwrap(memtable) {
                Ok(memtable) => in_turns(|| memtable.free(give_way)),
                Err(memtable) => self.spent.lock().push(memtable),
            }
        }
    }

    /// Leaves a table to the retrier.
    fn retry_later(&self, table: &Arc<TableStore>) {
        let mut failed = self.failed.lock();
        if !failed.iter().any(|known| Arc::ptr_eq(known, table)) {
            failed.push(Arc::clone(table));
            if failed.len() == 1 {
                self.retrier.nudge();
            }
        }
    }

    /// Makes the keeper look around.
    pub(crate) fn nudge(&self) {
        self.keeper.nudge();
    }

    /// Queues a table unless it is queued already.
    pub(crate) fn enqueue(&self, table: &Arc<TableStore>) {
        if !table.flush_queued.swap(true, Ordering::SeqCst) {
            self.queue.lock().push_back(Arc::clone(table));
            self.writers.nudge_one();
        }
    }

    /// Number of tables that wait for a flush.
    pub(crate) fn queue_len(&self) -> usize {
        self.queue.lock().len()
    }

    /// Ends the loops after what they are doing.
    pub(crate) fn stop(&self) {
        for background in [&self.keeper, &self.retrier, &self.writers] {
            background.stop();
        }
    }
}

impl Writing {
    /// One round of the keeper. A table that is being flushed is left alone until that is done, and the end
    /// of a flush makes the keeper look again: queued meanwhile, it would be flushed a second time with next
    /// to nothing in memory.
    pub(crate) fn keep(&self) {
        self.flush_due_changes();
        let enqueue_idle = |table: &Arc<TableStore>| {
            let idle = table.flush_turn.try_lock().is_some();
            if idle && !table.flush_failing.load(Ordering::SeqCst) {
                self.workers.enqueue(table);
            }
        };
        for id in self.log.tables_to_flush(self.catalog.options.commitlog_total_bytes) {
            if let Some(table) = self.catalog.table(id) {
                enqueue_idle(&table);
            }
        }
        // What a failed sync may have lost is in memtables still: their flush makes it durable again.
        let failures = self.log.stats().failures;
        let log_failed = self.log_failures_seen.swap(failures, Ordering::Relaxed) != failures;
        let now = self.catalog.env.clock.monotonic_nanos();
        let mut largest: Option<(u64, Arc<TableStore>)> = None;
        let mut flushing = 0;
        for table in self.catalog.tables() {
            let view = table.view();
            flushing += view.flushing.iter().map(|f| f.memtable.bytes()).sum::<u64>();
            let bytes = view.memtable.bytes();
            if !view.flushing.is_empty() {
                // One that failed for somebody who waited for it.
                enqueue_idle(&table);
            }
            // Another one is flushed while the largest cannot be.
            let fails = table.flush_failing.load(Ordering::SeqCst);
            if !fails && bytes > largest.as_ref().map_or(0, |(most, _)| *most) {
                largest = Some((bytes, Arc::clone(&table)));
            }
            let period_ms = table.schema().options.memtable_flush_period_in_ms.max(0) as u64;
            let age_ms = now.saturating_sub(view.memtable.created_nanos()) / 1_000_000;
            if log_failed && !view.memtable.is_empty() {
                self.workers.enqueue(&table);
            } else if period_ms > 0 && age_ms >= period_ms && !view.memtable.is_empty() {
                enqueue_idle(&table);
            }
        }
        // What is being flushed will be free soon; it does not call for more flushes.
        if self.memory.used().saturating_sub(flushing) > self.cleanup_bytes()
            && let Some((_, table)) = largest
        {
            enqueue_idle(&table);
        }
    }

    /// Flushes a table, or leaves it to the retrier.
    pub(crate) fn try_flush(&self, table: &Arc<TableStore>) {
        let flushed = self.flush_table(table);
        table.flush_failing.store(flushed.is_err(), Ordering::SeqCst);
        if let Err(error) = flushed {
            let schema = table.schema();
            tracing::error!(keyspace = schema.keyspace, table = schema.name, %error, "a flush failed");
            self.catalog.report_failure(&error);
            self.workers.retry_later(table);
        }
    }

    /// Switches the table's memtable if it has writes. None of those that it takes from now on lies at or
    /// before the position that is returned, and no earlier one behind it. Needs the flush turn.
    pub(crate) fn switch_memtable(&self, table: &TableStore) -> LogPosition {
        let gate = self.barrier.write();
        let end = self.log.position();
        self.switch_memtable_at(table, end);
        drop(gate);
        end
    }

    /// Switches the table's memtable, whose writes all lie at or before `end`. No writer may be under way.
    pub(crate) fn switch_memtable_at(&self, table: &TableStore, end: LogPosition) {
        if table.view().memtable.is_empty() {
            return;
        }
        let fresh = Arc::new(Memtable::new(end, self.catalog.env.clock.monotonic_nanos()));
        table.change_view(|view| {
            let memtable = std::mem::replace(&mut view.memtable, fresh);
            view.flushing.push(FlushingMemtable { memtable, end });
        });
        table.memtable_switches.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes what the table has in memory to SSTables; returns when it is durable.
    pub(crate) fn flush_table(&self, table: &TableStore) -> Result<(), EngineError> {
        let turn = table.flush_turn.lock();
        if table.is_dropped() {
            return Ok(());
        }
        self.switch_memtable(table);
        if table.view().flushing.is_empty() {
            return Ok(());
        }
        let written = self.write_flushing(table);
        drop(turn);
        self.workers.writers.nudge_one();
        self.workers.nudge();
        written
    }

    /// Writes the memtables that wait, oldest first. Needs the flush turn.
    pub(crate) fn write_flushing(&self, table: &TableStore) -> Result<(), EngineError> {
        let schema = table.schema();
        self.flush_definition(table);
        while let Some(next) = table.view().flushing.first().cloned() {
            let written = if table.is_batch_log() {
                self.carry_batches(table).map(|()| None)
            } else {
                let memory = Arc::clone(&self.memory);
                in_turns_unless(
                    move || memory.is_short(),
                    || {
                        table.write_memtable(
                            &schema,
                            &self.catalog.files,
                            &next.memtable,
                            next.end,
                            self.catalog.host_id(),
                        )
                    },
                )
            };
            let written = written.inspect_err(|_| {
                self.flush_failures.fetch_add(1, Ordering::Relaxed);
            })?;
            if let Some(sstable) = &written {
                self.catalog.back_up(table, sstable);
            }
            table.change_view(|view| view.end_flush(written));
            table.settle();
            self.log.discard(schema.id, next.end);
            self.memory.release(next.memtable.bytes());
            self.workers.free_later([next.memtable]);
            self.flushes.fetch_add(1, Ordering::Relaxed);
            self.tell_flushed(table);
        }
        Ok(())
    }

    /// [`crate::Engine::flush`].
    pub(crate) fn flush(&self, keyspace: &str, table: Option<&str>) -> Result<(), EngineError> {
        match table {
            Some(table) => self.flush_table(self.catalog.table_named(keyspace, table)?.as_ref()),
            None => {
                let schema = self.catalog.schema();
                let Some(keyspace) = schema.keyspace(keyspace) else {
                    return Err(EngineError::UnknownKeyspace(keyspace.to_owned()));
                };
                let tables = keyspace.stores().filter_map(|t| self.catalog.table(t.id));
                tables.map(|t| self.flush_table(&t)).fold(Ok(()), Result::and)
            }
        }
    }

    /// [`crate::Engine::flush_all`].
    pub(crate) fn flush_all(&self) -> Result<(), EngineError> {
        self.catalog.tables().iter().map(|t| self.flush_table(t)).fold(Ok(()), Result::and)
    }
}
