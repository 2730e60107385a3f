//! One split of one request, as record batches.
//!
//! A scan is a chain of steps, mostly of one; each is a read command. The first batch opens the stream of the
//! first. From then on each row that `LiveRows` finds is appended to the columns, until a batch is full. What is
//! yielded is not looked at again. Damage makes other steps of the ones that are left ([`salvage`]), if that is
//! asked for.

mod deletions;
mod rows;
mod salvage;

use crate::{Batches, BulkError, ScanRequest};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use deletions::{Appended, RowsAndDeletions};
use engine::table::HeldTable;
use env::sync::Mutex;
use model::command::{PartitionSelection, ReadCommand};
use model::key::{KeyBound, KeyRange};
use model::row::ResultRow;
use model::{ColumnDef, DecoratedKey};
use partition::{LiveRows, PageLimits, PlainRow, ReadContext};
use rows::RowColumns;
pub use salvage::Loss;
use salvage::{Noted, Place};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// Damages that one scan goes on behind, at most: where there are more the error stands.
const LOSSES_MAX: usize = 10_000;
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
}

impl Step {
    /// The same of other partitions.
    fn of(&self, partitions: PartitionSelection) -> Step {
        let mut command = self.command.as_ref().clone();
        command.partitions = partitions;
        Step { command: Arc::new(command), ..self.clone() }
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
    salvaging: Option<Salvaging>,
    context: ReadContext,
    schema: SchemaRef,
    columns: RowColumns,
    /// The columns, where deletions are handed out.
    deletions_of: Option<Vec<Arc<ColumnDef>>>,
    rows: Option<Rows>,
    is_over: bool,
    counts: ScanCounts,
    /// Bytes of the values that were handed out.
    appended_bytes: u64,
}

impl Scan {
    pub(crate) fn new(
        held: HeldTable,
        request: &ScanRequest,
        command: Arc<ReadCommand>,
        context: ReadContext,
        salvages: bool,
    ) -> Scan {
        let rows_wanted = command.limits.rows.min(context.rows_wanted);
        let first = Step { held: held.clone(), command: Arc::clone(&command), except: Arc::default() };
        Scan {
            steps: VecDeque::from([first]),
            salvaging: salvages.then(Salvaging::default),
            held,
            command,
            context: ReadContext { rows_wanted, ..context },
            schema: request.schema(),
            columns: RowColumns::new(request),
            deletions_of: request.options.deletions.then(|| request.columns.clone()),
            rows: None,
            is_over: false,
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

    /// About how many bytes of the SSTables it has gone over, before compression: by the rows that it met, or
    /// by what it handed out, where memtables have more.
    pub fn bytes_done(&self) -> u64 {
        let met = u128::from(self.cost().rows_scanned) * u128::from(self.held.data_bytes());
        let met = met / u128::from(self.held.stored_rows().max(1));
        u64::try_from(met).unwrap_or(u64::MAX).max(self.appended_bytes)
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
            if self.rows.is_none() && !self.open(batch.rows as u64)? {
                return Ok(true);
            }
            let is_over = match &mut self.rows {
                Some(Rows::Live(live)) => fill_with_live(live, &mut self.columns, batch)?,
                Some(Rows::WithDeletions(rows)) => fill_with_deletions(rows, &mut self.columns, batch)?,
                None => true,
            };
            if is_over {
                self.rows = None;
                self.steps.pop_front();
            }
        }
        Ok(false)
    }

    /// Opens the first step that is left; false if there is none. So many rows of the batch are there already.
    fn open(&mut self, in_batch: u64) -> Result<bool, BulkError> {
        let Some(step) = self.steps.front() else { return Ok(false) };
        let mut command = Arc::clone(&step.command);
        if command.limits.rows != u64::MAX {
            let done = self.counts.rows.saturating_add(in_batch);
            Arc::make_mut(&mut command).limits.rows = command.limits.rows.saturating_sub(done);
        }
        let mut stream = step.held.read(&command, &self.context)?;
        if let Some(salvaging) = &self.salvaging {
            stream = Box::new(Noted::new(stream, &salvaging.place, &step.except));
        }
        let context = self.context.clone();
        self.rows = Some(match &self.deletions_of {
            None => Rows::Live(LiveRows::new(stream, command, context, PageLimits::NONE)),
            Some(columns) => {
                Rows::WithDeletions(Box::new(RowsAndDeletions::new(stream, &command, columns, context)))
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
        let step = self.steps.pop_front().filter(|_| salvaging.losses.len() < LOSSES_MAX);
        let Some((left, losses)) = step.and_then(|step| salvage::behind(&step, &place, found, &self.context))
        else {
            return Err(error);
        };
        left.into_iter().rev().for_each(|step| self.steps.push_front(step));
        salvaging.losses.extend(losses);
        Ok(())
    }
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
        let next = self.next_batch().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.is_over = true;
            // A reader that fails has nothing more to say, and its pages are not needed.
            self.rows = None;
        }
        next
    }
}
