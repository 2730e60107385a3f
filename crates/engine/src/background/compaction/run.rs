//! Carrying out a task.
//!
//! 1. Where SSTables are compared with their digests, inputs are of which that is not known yet
//!    ([`crate::background::prover`]).
//! 2. A transaction log is started in the directory of the inputs.
//! 3. The inputs are merged and purged, for `garbagecollect` after they lost what other SSTables shadow
//!    ([`super::shadows`]), into new SSTables, around the page cache, at the pace of the throttle;
//!    a new one is started where the task's output says so. Each is recorded in the log before it is written.
//!    Now and then what was written is opened for those who read single partitions ([`EarlyOpening`]); what
//!    was hot of it stays so ([`Warmth`]).
//! 4. Under the table's lock, if all inputs are still part of the table (it was not truncated or dropped
//!    meanwhile): the inputs are recorded, the log is committed, the view gets the outputs for the inputs.
//! 5. The pages of the inputs leave the page cache and their files are removed. Readers that have them open
//!    go on. The compaction is written down in `system.compaction_history`.
//!
//! When anything fails before the commit, or the commit itself, the new files and their pages are removed and
//! the table is as before.

use super::guard::{Outside, only_purges_repaired};
use super::merges::Merges;
use super::strategy::Output;
use super::task::{Leaving, Task};
use super::throttle::{Stopped, Throttle};
use crate::background::Background;
use crate::error::EngineError;
use crate::table::EarlyOpening;
use crate::turns::InTurns;
use crate::warm::{HotPages, Metered, Warmth};
use model::TableSchema;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::KeyRange;
use partition::codec::EncodingStats;
use partition::{BoxedStream, Event, Fragment, PartitionStream, Purge, ReadContext, Unshadowed, merge};
use sstable::statistics::CommitLogPosition;
use sstable::txn_log::{Operation, TxnLog};
use sstable::{Descriptor, SsTable, SsTableWriter, WriteError, WriterOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes written between two looks at the throttle.
const STEP_BYTES: u64 = 256 << 10;
/// Fragments between two looks at the bytes written.
const STEP_FRAGMENTS: u32 = 256;

/// What was written is opened again when it has grown by this part of it at least, so that the work for it
/// stays proportional to what is written.
const EARLY_SHARE: u64 = 16;

/// How a run ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The outputs stand for the inputs.
    Done,
    /// It was told to stop, or the table was truncated or dropped; nothing changed.
    Abandoned,
}

impl Background {
    /// Carries out a task.
    pub(crate) fn run_compaction(&self, task: &Task, throttle: &Throttle) -> Result<Outcome, EngineError> {
        let Some(directory) = task.all().next().map(|t| t.descriptor().directory.clone()) else {
            return Ok(Outcome::Done);
        };
        if !self.prove_inputs(task)? {
            return Ok(Outcome::Abandoned);
        }
        self.compact_in(task, throttle, &directory).inspect_err(|error| {
            // What cannot be read says nothing about the next write.
            if !matches!(error, EngineError::Read(_) | EngineError::Open(_)) {
                self.catalog.files.homes.note_failure(&directory, task.table.homes(), error);
            }
        })
    }

    /// Step 1; whether to go on.
    fn prove_inputs(&self, task: &Task) -> Result<bool, EngineError> {
        if !self.catalog.options.proves_sstables {
            return Ok(true);
        }
        let is_over = || {
            task.cancelled.load(Ordering::Relaxed)
                || task.table.is_dropped()
                || self.compactions.is_stopping()
        };
        for input in task.inputs.iter().filter(|input| input.is_unproven()) {
            match self.prove(&task.table, input, None, &mut |bytes| self.prover.spend(bytes, is_over)) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                // It was told, and the next pick leaves it out.
                Err(_) if input.condemned().is_some() => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn compact_in(&self, task: &Task, throttle: &Throttle, directory: &Path) -> Result<Outcome, EngineError> {
        let id = self.catalog.env.time_uuid();
        let (fs, version) = (Arc::clone(&self.catalog.env.fs), self.catalog.files.version);
        let mut log = TxnLog::create(fs, directory, version, Operation::Compaction, id)?;
        let run = Run { background: self, task, throttle, directory: directory.to_owned() };
        let mut progress = Progress::default();
        let written = run.write(&mut log, &mut progress);
        if !matches!(written, Ok(true)) {
            // Nobody brings pages of the outputs back when those leave the cache.
            task.table.change_view(|view| view.close_early(&task.inputs));
        }
        match written {
            Ok(true) => self.replace(task, log, progress),
            Ok(false) => {
                log.abort()?;
                Ok(Outcome::Abandoned)
            }
            Err(error) => {
                if let Err(error) = log.abort() {
                    tracing::warn!(%error, "files of a failed compaction stay until the next start");
                }
                Err(error)
            }
        }
    }

    /// Steps 4 and 5.
    fn replace(&self, task: &Task, mut log: TxnLog, progress: Progress) -> Result<Outcome, EngineError> {
        let Progress { outputs, warmths, merges, .. } = progress;
        let written = outputs.clone();
        let gone: Vec<Arc<SsTable>> = task.all().cloned().collect();
        let mut result = None;
        task.table.change_view(|view| {
            let is_here = |t: &Arc<SsTable>| view.sstables.iter().any(|s| Arc::ptr_eq(s, t));
            let is_settled = task.table.check_settled().is_ok();
            if task.table.is_dropped() || !is_settled || !gone.iter().all(is_here) {
                view.close_early(&task.inputs);
                result = Some(log.abort().map(|()| None));
                return;
            }
            let recorded = log.remove(gone.iter().map(|t| t.descriptor()));
            let committed = match recorded {
                Ok(()) => log.commit().map_err(|error| {
                    task.table.note(&error);
                    error.into()
                }),
                Err(error) => log.abort().and(Err(error)),
            };
            match committed {
                Ok(_) => view.replace_sstables(&gone, outputs),
                Err(_) => view.close_early(&task.inputs),
            }
            result = Some(committed.map(Some));
        });
        match result.transpose()?.flatten() {
            None => Ok(Outcome::Abandoned),
            Some(committed) => {
                warmths.into_iter().for_each(Warmth::stay);
                self.catalog.files.forget(&gone);
                if let Err(error) = committed.clean_up() {
                    tracing::warn!(%error, "files of compacted SSTables stay until the next start");
                }
                self.record_compaction(task, &written, &merges.counted());
                Ok(Outcome::Done)
            }
        }
    }
}

/// What was written so far.
#[derive(Default)]
struct Progress {
    outputs: Vec<Arc<SsTable>>,
    /// Of the outputs, and of one that could not be finished.
    warmths: Vec<Warmth>,
    merges: Merges,
    /// Of the next output.
    current: Option<(SsTableWriter, Warmth)>,
}

struct Run<'a> {
    background: &'a Background,
    task: &'a Task,
    throttle: &'a Throttle,
    directory: PathBuf,
}

impl Run<'_> {
    /// Step 3: writes the new SSTables and opens them; `false` when told to stop.
    fn write(&self, log: &mut TxnLog, progress: &mut Progress) -> Result<bool, EngineError> {
        let schema = self.task.table.schema();
        self.background.writing.flush_definition(&self.task.table);
        if self.task.inputs.is_empty() {
            return Ok(true);
        }
        if self.pay(0).is_err() {
            return Ok(false);
        }
        let heat = Arc::<HotPages>::default();
        let mut stream = self.stream(&schema, &heat, &progress.merges)?;
        let mut fragment = Fragment::default();
        let mut borders = Borders::new(&self.task.output);
        let (mut paid, mut fragments, mut before) = (0u64, 0u32, 0u64);
        let mut opening_at = self.background.catalog.options.early_open_bytes;
        loop {
            let event = stream.next(&mut fragment)?;
            if event == Event::PartitionStart || event == Event::End {
                let crosses = event == Event::PartitionStart && borders.crosses(fragment.key.token.0);
                let current = progress.current.as_ref();
                let full = current.is_some_and(|(w, _)| {
                    w.file_bytes() >= self.task.output.bytes_of(progress.outputs.len())
                });
                if (event == Event::End || crosses || full)
                    && let Some((done, _)) = current
                {
                    if self.pay(done.file_bytes() - paid).is_err() {
                        return Ok(false);
                    }
                    before += done.data_bytes();
                    self.finish(progress)?;
                    paid = 0;
                }
            }
            if event == Event::End {
                return Ok(true);
            }
            let (writer, warmth) = match &mut progress.current {
                Some(started) => started,
                None => {
                    let number = self.background.catalog.files.next_number();
                    let mut started = self.start(log, &schema)?;
                    let (warmth, sink) =
                        Warmth::of_compaction(number, &self.background.catalog.files.pages, &heat);
                    started.tell_pages_to(sink);
                    progress.current.insert((started, warmth))
                }
            };
            warmth.starts(event, &fragment);
            writer.append(event, &fragment)?;
            warmth.wrote(event, &fragment, writer.data_bytes());
            let written = before + writer.data_bytes();
            if event == Event::PartitionEnd && written >= opening_at {
                self.open_early(writer, warmth, &progress.outputs)?;
                opening_at = written.saturating_add(
                    self.background.catalog.options.early_open_bytes.max(written / EARLY_SHARE),
                );
            }
            fragments += 1;
            if fragments.is_multiple_of(STEP_FRAGMENTS) || event == Event::PartitionEnd {
                let bytes = writer.file_bytes();
                self.task.completed_bytes.store(before + writer.data_bytes(), Ordering::Relaxed);
                if bytes - paid >= STEP_BYTES || fragments.is_multiple_of(STEP_FRAGMENTS) {
                    if self.pay(bytes - paid).is_err() {
                        return Ok(false);
                    }
                    paid = bytes;
                }
            }
        }
    }

    fn pay(&self, bytes: u64) -> Result<(), Stopped> {
        let task = self.task;
        self.throttle.spend(bytes, || task.cancelled.load(Ordering::Relaxed) || task.table.is_dropped())
    }

    /// The inputs merged, without what may be forgotten; `heat` is counted on the way.
    fn stream(
        &self,
        schema: &Arc<TableSchema>,
        heat: &Arc<HotPages>,
        merges: &Merges,
    ) -> Result<impl PartitionStream + use<>, EngineError> {
        let context = ReadContext { fill_cache: false, ..ReadContext::default() };
        let columns = ColumnSelection::all(schema);
        let sources = self
            .task
            .inputs
            .iter()
            .map(|t| {
                let scan = t.scan(&KeyRange::FULL, &ClusteringFilter::all(), &columns, schema, &context)?;
                let metered = InTurns::new(Metered::new(scan, t, heat));
                Ok(Box::new(merges.input(metered)) as BoxedStream)
            })
            .collect::<Result<Vec<_>, EngineError>>()?;
        let mut merged: BoxedStream = Box::new(merges.merge(merge(schema, sources, false)));
        if let Leaving::Shadowed(garbage) = self.task.leaving {
            let shadows = self.background.shadows(self.task, schema, garbage);
            merged = Box::new(Unshadowed::new(Arc::clone(schema), merged, shadows, garbage));
        }
        let is_repaired = self.task.inputs.iter().all(|t| t.stats().repaired_at_ms > 0);
        let keeps_all = only_purges_repaired(schema) && !is_repaired;
        let guard = Outside::new(self.task, keeps_all);
        let now_s = (self.background.catalog.env.now_micros() / 1_000_000) as u32;
        let gc_before_s = now_s.saturating_sub(schema.options.gc_grace_seconds.max(0) as u32);
        Ok(Purge::new(merged, guard, now_s, gc_before_s))
    }

    fn start(&self, log: &mut TxnLog, schema: &Arc<TableSchema>) -> Result<SsTableWriter, EngineError> {
        let descriptor: Descriptor =
            self.task.table.next_descriptor(&self.background.catalog.files, &self.directory);
        log.add(&descriptor)?;
        let fs = Arc::clone(&self.background.catalog.env.fs);
        Ok(SsTableWriter::new(fs, descriptor, Arc::clone(schema), self.options(schema)?)?)
    }

    fn options(&self, schema: &TableSchema) -> Result<WriterOptions, EngineError> {
        let inputs = &self.task.inputs;
        let headers = || inputs.iter().map(|t| t.header());
        let stats = || headers().map(|header| header.stats);
        let host_id = self.background.catalog.host_id();
        let intervals = inputs.iter().flat_map(|t| t.commit_log_intervals(host_id)).copied();
        let repaired = || inputs.iter().map(|t| t.stats().repaired_at_ms);
        Ok(WriterOptions {
            estimated_partitions: inputs.iter().map(|t| t.estimated_partitions()).sum(),
            encoding_stats: EncodingStats {
                min_timestamp: stats().map(|s| s.min_timestamp).min().unwrap_or_default(),
                min_local_deletion_time: headers()
                    .map(|h| h.min_local_deletion_time())
                    .min()
                    .unwrap_or_default(),
                min_ttl: stats().map(|s| s.min_ttl).min().unwrap_or_default(),
            },
            commit_log_intervals: union(intervals),
            host_id: Some(host_id),
            repaired_at_ms: repaired().min().unwrap_or(0),
            pending_repair: inputs.first().and_then(|t| t.stats().pending_repair),
            level: self.task.output.level as i32,
            ..self.background.catalog.files.writer_options(schema)?
        })
    }

    /// Lets what was written so far be read.
    fn open_early(
        &self,
        writer: &mut SsTableWriter,
        warmth: &mut Warmth,
        finished: &[Arc<SsTable>],
    ) -> Result<(), EngineError> {
        let Some(latest) = writer.open_early(warmth.number(), &self.background.catalog.files.pages)? else {
            return Ok(());
        };
        let (through, latest) = (latest.last_key().clone(), Arc::new(latest));
        warmth.look_up(&latest, &self.task.table.schema());
        let outputs = finished.iter().cloned().chain([latest]).collect();
        let opening = EarlyOpening { inputs: self.task.inputs.clone(), outputs, through };
        self.task.table.change_view(|view| view.open_early(opening));
        Ok(())
    }

    /// Ends the current output.
    fn finish(&self, progress: &mut Progress) -> Result<(), EngineError> {
        let Some((writer, warmth)) = progress.current.take() else { return Ok(()) };
        let warmth = progress.warmths.push_mut(warmth);
        let written = match writer.finish() {
            Err(WriteError::Empty) => return Ok(()),
            other => other?,
        };
        let (files, schema) = (&self.background.catalog.files, self.task.table.schema());
        files.tell_of_large(&schema, &written);
        // What was written must be readable before anything is given up for it.
        let output = files.open_as(&written.descriptor, warmth.number(), &schema)?;
        warmth.look_up(&output, &schema);
        progress.outputs.push(output);
        Ok(())
    }
}

/// Intervals that touch become one.
fn union(
    intervals: impl Iterator<Item = (CommitLogPosition, CommitLogPosition)>,
) -> Vec<(CommitLogPosition, CommitLogPosition)> {
    let mut sorted: Vec<_> = intervals.collect();
    sorted.sort();
    let mut out: Vec<(CommitLogPosition, CommitLogPosition)> = Vec::new();
    for (start, end) in sorted {
        match out.last_mut() {
            Some((_, last)) if *last >= start => *last = (*last).max(end),
            _ => out.push((start, end)),
        }
    }
    out
}

/// Borders of equal parts of the ring.
struct Borders {
    shards: i128,
    current: Option<i128>,
}

impl Borders {
    fn new(output: &Output) -> Borders {
        Borders { shards: i128::from(output.shards.max(1)), current: None }
    }

    /// Whether a border lies between the last token that was asked for and this one.
    fn crosses(&mut self, token: i64) -> bool {
        let shard = ((i128::from(token) - i128::from(i64::MIN)) * self.shards) >> 64;
        let crossed = self.current.is_some_and(|current| current != shard);
        self.current = Some(shard);
        crossed
    }
}
