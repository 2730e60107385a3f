//! One split of one request, as record batches.
//!
//! A scan is a chain of steps, mostly of one; each is a read command. The first batch opens the stream of the
//! first. From then on each row that `LiveRows` finds is appended to the columns, until a batch is full. What
//! is yielded is not looked at again. Damage makes other steps of the ones that are left ([`salvage`]), if
//! that is asked for.

mod deletions;
mod rows;
mod salvage;

use crate::split::Part;
use crate::{Batches, BulkError, Cancel, ScanRequest};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use deletions::{Appended, RowsAndDeletions};
use engine::table::HeldTable;
use env::sync::Mutex;
use model::command::{ClusteringFilter, PartitionSelection, ReadCommand};
use model::key::{KeyBound, KeyRange};
use model::row::ResultRow;
use model::{ClusteringBound, ColumnDef, DecoratedKey, Slice};
use partition::{LiveRows, PageLimits, PlainRow, ReadContext, ReadCost, ReadError};
use rows::RowColumns;
pub use salvage::Loss;
use salvage::{Noted, Place};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// Damages that one scan goes on behind, at most: where there are more the error stands.
pub const LOSSES_MAX: usize = 10_000;
/// Rows of a batch, at most: enough that what is done once for a batch does not count, and few enough that
/// the columns of a narrow table stay in the processor's caches.
pub const BATCH_ROWS_MAX: usize = 8_192;
/// Bytes of values after which a batch is over. The row that exceeds them is part of it.
pub const BATCH_BYTES_MAX: u64 = 8 << 20;

/// What a scan has yielded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanCounts {
    /// Rows.
    pub rows: u64,
    /// How many of them are deletions.
    #[serde(default)]
    pub deletions: u64,
    /// Empty values that became null ([`crate::EmptyValues`]).
    pub empty_values: u64,
}

/// Where the rows of batches come from.
enum Rows {
    Live(Box<LiveRows>),
    WithDeletions(Box<RowsAndDeletions>),
}

/// A batch that is being made.
#[derive(Debug, Default)]
struct Filling {
    rows: usize,
    /// How many of them are deletions.
    deletions: u64,
    /// Bytes of their values.
    bytes: u64,
}

impl Filling {
    #[inline]
    fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS_MAX || self.bytes >= BATCH_BYTES_MAX
    }
}

/// One read of a scan.
#[derive(Clone)]
struct Step {
    held: HeldTable,
    command: Arc<ReadCommand>,
    /// Partitions that are left out.
    except: Arc<[DecoratedKey]>,
    /// Which rows of the partitions.
    part: Part,
}

impl Step {
    /// The same of other partitions.
    fn of(&self, partitions: PartitionSelection) -> Step {
        let mut command = self.command.as_ref().clone();
        command.partitions = partitions;
        Step { command: Arc::new(command), ..self.clone() }
    }

    /// Its rows in a slice, at most `limit`.
    fn within(&self, slice: Slice, limit: u64) -> Arc<ReadCommand> {
        let mut command = self.command.as_ref().clone();
        command.clusterings = ClusteringFilter::Slices { slices: vec![slice], reversed: false };
        command.limits.rows = limit;
        Arc::new(command)
    }

    fn of_range(&self, start: KeyBound, end: KeyBound) -> Step {
        self.of(PartitionSelection::Range(KeyRange { start, end }))
    }
}

/// What a scan that goes on behind damage knows.
#[derive(Default)]
struct Salvaging {
    place: Arc<Mutex<Place>>,
    losses: Vec<Loss>,
}

/// A scan. After an error it is over.
pub struct Scan {
    held: HeldTable,
    command: Arc<ReadCommand>,
    /// What is still to be read, the step that is open first.
    steps: VecDeque<Step>,
    /// Why the request or the split is none for the table.
    refusal: Option<BulkError>,
    salvaging: Option<Salvaging>,
    /// Rows before the open step, but for deletions.
    live_before: u64,
    context: ReadContext,
    schema: SchemaRef,
    columns: RowColumns,
    /// The columns, where deletions are handed out.
    deletions_of: Option<Vec<Arc<ColumnDef>>>,
    rows: Option<Rows>,
    is_over: bool,
    cancel: Cancel,
    counts: ScanCounts,
    /// Bytes of the values that were handed out.
    appended_bytes: u64,
}

impl Scan {
    pub(crate) fn new(
        held: HeldTable,
        request: &ScanRequest,
        steps: Result<Vec<(ReadCommand, Part)>, BulkError>,
        context: ReadContext,
    ) -> Scan {
        let command = Arc::clone(&request.command);
        let rows_wanted = command.limits.rows.min(context.rows_wanted);
        let (steps, refusal) = match steps {
            Ok(steps) => (steps, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let step = |(command, part)| Step {
            held: held.clone(),
            command: Arc::new(command),
            except: Arc::default(),
            part,
        };
        Scan {
            steps: steps.into_iter().map(step).collect(),
            refusal,
            live_before: 0,
            salvaging: request.salvages.then(Salvaging::default),
            held,
            command,
            context: ReadContext { rows_wanted, ..context },
            schema: request.schema(),
            columns: RowColumns::new(request),
            deletions_of: request.options.deletions.then(|| request.columns.clone()),
            rows: None,
            is_over: false,
            cancel: request.cancel.clone(),
            counts: ScanCounts::default(),
            appended_bytes: 0,
        }
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What was yielded so far.
    pub fn counts(&self) -> ScanCounts {
        self.counts
    }

    /// About how many bytes of the SSTables it has gone over, before compression: by what it read, or by what
    /// it handed out, where memtables have more.
    pub fn bytes_done(&self) -> u64 {
        gone_over(&self.context.cost, &self.held).max(self.appended_bytes)
    }

    /// The cost of it, so far.
    pub fn cost(&self) -> partition::CostSnapshot {
        self.context.cost.snapshot()
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, BulkError> {
        if self.held.is_dropped() {
            let table = &self.command.table;
            return Err(BulkError::Dropped(format!("{}.{}", table.keyspace, table.name)));
        }
        if let Some(refusal) = self.refusal.take() {
            return Err(refusal);
        }
        let mut batch = Filling::default();
        self.is_over = loop {
            match self.fill(&mut batch) {
                Ok(is_over) => break is_over,
                Err(error) => self.leave_out(error)?,
            }
        };
        if batch.rows == 0 {
            return Ok(None);
        }
        let (arrays, empties) = self.columns.finish()?;
        self.counts.rows += batch.rows as u64;
        self.counts.deletions += batch.deletions;
        self.appended_bytes += batch.bytes;
        self.counts.empty_values += empties;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.rows));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?))
    }

    /// Appends rows until the batch is full, or the scan is over: then the result is true.
    fn fill(&mut self, batch: &mut Filling) -> Result<bool, BulkError> {
        while !batch.is_full() {
            if self.rows.is_none() && !self.open(batch)? {
                return Ok(true);
            }
            let is_over = match &mut self.rows {
                Some(Rows::Live(live)) => fill_with_live(live, &mut self.columns, batch)?,
                Some(Rows::WithDeletions(rows)) => fill_with_deletions(rows, &mut self.columns, batch)?,
                None => true,
            };
            if is_over {
                self.rows = None;
                self.end_step(batch)?;
            }
        }
        Ok(false)
    }

    /// Rows so far, but for deletions.
    fn live_rows(&self, batch: &Filling) -> u64 {
        (self.counts.rows - self.counts.deletions) + (batch.rows as u64 - batch.deletions)
    }

    /// Leaves the step that is open. If it was the head of a partition and found no row, the partition may be
    /// a row by its static values alone: if there is no other row in it.
    fn end_step(&mut self, batch: &Filling) -> Result<(), BulkError> {
        let found_rows = self.live_rows(batch) > self.live_before;
        let mut lone = None;
        if let Some(step) = self.steps.front()
            && let Part::Head(cut) = &step.part
            && !found_rows
            && !step.command.row_filter.iter().any(|e| partition::filter::is_about_rows(&step.command, e))
        {
            if let Some(salvaging) = &self.salvaging {
                salvaging.place.lock().stay_inside();
            }
            let slice = Slice { start: cut.clone(), end: ClusteringBound::TOP };
            let rest = step.within(slice, 1);
            let stream = step.held.read(&rest, &self.context)?;
            let mut rows = LiveRows::new(stream, rest, self.context.clone(), PageLimits::NONE);
            if rows.next_row()?.is_none() {
                lone = Some(Step { part: Part::Statics, ..step.clone() });
            }
        }
        self.steps.pop_front();
        if let Some(step) = lone {
            self.steps.push_front(step);
        }
        Ok(())
    }

    /// Opens the first step that is left; false if there is none.
    fn open(&mut self, batch: &Filling) -> Result<bool, BulkError> {
        let live_rows = self.live_rows(batch);
        let Some(step) = self.steps.front() else { return Ok(false) };
        self.live_before = live_rows;
        let mut command = Arc::clone(&step.command);
        if command.limits.rows != u64::MAX {
            let done = self.counts.rows.saturating_add(batch.rows as u64);
            Arc::make_mut(&mut command).limits.rows = command.limits.rows.saturating_sub(done);
        }
        let mut stream = step.held.read(&command, &self.context)?;
        if let Some(salvaging) = &self.salvaging {
            stream = Box::new(Noted::new(stream, &salvaging.place, &step.except));
        }
        let context = self.context.clone();
        self.rows = Some(match &self.deletions_of {
            Some(columns) if step.part != Part::Statics => {
                let rows = RowsAndDeletions::new(stream, &command, columns, &step.part, context);
                Rows::WithDeletions(Box::new(rows))
            }
            _ => {
                let mut rows = LiveRows::new(stream, command, context, PageLimits::NONE);
                if step.part == Part::Statics {
                    rows.with_lone_statics();
                }
                Rows::Live(rows)
            }
        });
        Ok(true)
    }

    /// Goes on behind damage, if that is asked for and can be done.
    fn leave_out(&mut self, error: BulkError) -> Result<(), BulkError> {
        let (Some(salvaging), BulkError::Read(found)) = (&mut self.salvaging, &error) else {
            return Err(error);
        };
        self.rows = None;
        let place = std::mem::take(&mut *salvaging.place.lock());
        let step = self.steps.pop_front();
        let behind = step.and_then(|step| salvage::behind(&step, &place, found, &self.context));
        let has_room = |losses: &[Loss]| salvaging.losses.len() + losses.len() <= LOSSES_MAX;
        let Some((left, losses)) = behind.filter(|(_, losses)| has_room(losses)) else {
            return Err(error);
        };
        left.into_iter().rev().for_each(|step| self.steps.push_front(step));
        salvaging.losses.extend(losses);
        Ok(())
    }
}

/// About how many bytes of a table's SSTables a read has gone over, before compression: by the rows that it
/// met, which are counted at the end of each partition, or by the bytes that it had to load.
pub(crate) fn gone_over(cost: &ReadCost, held: &HeldTable) -> u64 {
    let met = u128::from(cost.rows_scanned.get()) * u128::from(held.data_bytes());
    let met = u64::try_from(met / u128::from(held.stored_rows().max(1))).unwrap_or(u64::MAX);
    met.max(cost.decompressed_bytes.get()).max(cost.disk_bytes.get())
}

fn fill_with_deletions(
    rows: &mut RowsAndDeletions,
    columns: &mut RowColumns,
    batch: &mut Filling,
) -> Result<bool, BulkError> {
    while !batch.is_full() {
        match rows.next(columns)? {
            Appended::Row(bytes) => batch.bytes += bytes,
            Appended::Deletion(bytes) => {
                batch.bytes += bytes;
                batch.deletions += 1;
            }
            Appended::Nothing => return Ok(true),
        }
        batch.rows += 1;
    }
    Ok(false)
}

fn fill_with_live(
    live: &mut LiveRows,
    columns: &mut RowColumns,
    batch: &mut Filling,
) -> Result<bool, BulkError> {
    let mut failure = None;
    while !batch.is_full() {
        let mut take = |base: &ResultRow<'_>, row: PlainRow<'_>| match columns.append_plain(base, row) {
            Ok(appended) => {
                batch.rows += 1;
                batch.bytes += appended;
                !batch.is_full()
            }
            Err(error) => {
                failure = Some(error);
                false
            }
        };
        let row = live.next_row_or(Some(&mut take))?;
        if let Some(error) = failure.take() {
            return Err(error);
        }
        if let Some(row) = row {
            batch.bytes += columns.append(&row)?;
            batch.rows += 1;
        } else if !batch.is_full() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Batches for Scan {
    fn schema(&self) -> &SchemaRef {
        Scan::schema(self)
    }

    fn counts(&self) -> ScanCounts {
        Scan::counts(self)
    }

    fn bytes_done(&self) -> u64 {
        Scan::bytes_done(self)
    }

    fn losses(&self) -> &[Loss] {
        self.salvaging.as_ref().map_or(&[], |salvaging| &salvaging.losses)
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch, BulkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = match self.cancel.is_cancelled() {
            true => Some(Err(BulkError::Cancelled)),
            false => self.next_batch().transpose(),
        };
        // Then the deadline of its reads is over.
        let next = next.map(|batch| match batch {
            Err(BulkError::Read(ReadError::TimedOut)) if self.cancel.is_cancelled() => {
                Err(BulkError::Cancelled)
            }
            batch => batch,
        });
        if !matches!(next, Some(Ok(_))) {
            self.is_over = true;
            // A reader that fails has nothing more to say, and its pages are not needed.
            self.rows = None;
        }
        next
    }
}

/// A stream as a scan reads it that goes on behind damage.
#[cfg(test)]
pub(crate) fn noted(stream: partition::BoxedStream) -> partition::BoxedStream {
    Box::new(Noted::new(stream, &Arc::default(), &Arc::default()))
}
