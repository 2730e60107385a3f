//! Guardrails for writes: timestamps, and the sizes of values and collections.

use super::{Beyond, Guard};
use crate::analysis::modification::{Operation, OperationKind};
use crate::error::{CqlError, Result};
use crate::plan::Change;
use bytes::Bytes;
use model::types::{CqlType, collection};
use std::sync::Arc;

/// Bytes of the time uuid under which an element of a list lies.
const LIST_PATH_BYTES: usize = 16;
/// Bytes that a cell counts beside value and path: timestamp, TTL, time of its deletion.
const CELL_BYTES: usize = 20;

/// What guardrails say of the values of a write: told when it is carried out, which one whose conditions do
/// not hold is not.
#[derive(Clone, Debug)]
pub(crate) struct Findings {
    guard: Arc<Guard>,
    warnings: Vec<String>,
    refusal: Option<CqlError>,
}

impl Findings {
    /// Tells them to the guard of the request.
    pub(crate) fn tell(&self) -> Result<()> {
        self.guard.warnings.lock().extend(self.warnings.iter().cloned());
        self.refusal.clone().map_or(Ok(()), Err)
    }
}

/// Looks at the operations of a write, one by one.
pub(crate) struct Inspection<'g> {
    guard: &'g Arc<Guard>,
    found: Guard,
    refusal: Option<CqlError>,
}

impl<'g> Inspection<'g> {
    pub(crate) fn new(guard: &'g Arc<Guard>) -> Inspection<'g> {
        Inspection { guard, found: Guard::new(Arc::clone(&guard.rules)), refusal: None }
    }

    /// An operation, and the changes that it comes to. Nothing is looked at behind one that is refused.
    pub(crate) fn look_at(&mut self, operation: &Operation, changes: &[Change]) {
        if self.refusal.is_none() {
            self.refusal = self.found.operation(operation, changes).err();
        }
    }

    /// What was found; `None` if that is nothing.
    pub(crate) fn finish(self) -> Option<Box<Findings>> {
        let Inspection { guard, found, refusal } = self;
        let warnings = found.take_warnings();
        let is_something = refusal.is_some() || !warnings.is_empty();
        is_something.then(|| Box::new(Findings { guard: Arc::clone(guard), warnings, refusal }))
    }
}

impl Guard {
    /// The disks of replicas that a write goes to: they are full, or there is little room.
    ///
    /// # Errors
    /// They are full.
    pub fn replica_disk_usage(&self, is_full: bool) -> Result<()> {
        const NAME: &str = "replica_disk_usage";
        if is_full {
            let message = "Write request failed because disk usage exceeds failure threshold";
            return Err(self.refusal(NAME, None, message));
        }
        self.warn(NAME, None, "Replica disk usage exceeds warning threshold");
        Ok(())
    }

    /// USING TIMESTAMP.
    pub(crate) fn user_timestamps(&self) -> Result<()> {
        let allowed = self.rules.user_timestamps_enabled;
        self.require(allowed, "user_timestamps", None, "User provided timestamps (USING TIMESTAMP)")
    }

    /// A timestamp that a statement gives, in microseconds.
    pub(crate) fn timestamp(&self, table: &str, timestamp: i64, now_micros: i64) -> Result<()> {
        let beyond = |micros: u64, sign: i64| {
            let micros = i64::try_from(micros).unwrap_or(i64::MAX);
            now_micros.saturating_add(micros.saturating_mul(sign))
        };
        let message = |side: &'static str, sign: i64| {
            move |at: Beyond| {
                let (word, bound) = (at.word(), beyond(at.threshold, sign));
                format!(
                    "The modification to table {table} has a timestamp {timestamp} {side} allowable {word} threshold \
                     {bound}"
                )
            }
        };
        let reason =
            Some("Timestamps too far in the future can lead to data that can't be easily overwritten");
        self.thresholds(
            self.rules.maximum_timestamp,
            |micros| timestamp > beyond(micros, 1),
            ("maximum_timestamp", reason),
            message("after the maximum", 1),
        )?;
        let reason = Some("Timestamps too far in the past can cause writes can be unexpectedly lost");
        self.thresholds(
            self.rules.minimum_timestamp,
            |micros| timestamp < beyond(micros, -1),
            ("minimum_timestamp", reason),
            message("before the minimum", -1),
        )
    }

    /// An operation on a column, and the changes that it comes to.
    fn operation(&self, operation: &Operation, changes: &[Change]) -> Result<()> {
        let column = operation.column.name.as_str();
        self.reads_list(operation)?;
        let elements = elements_written(operation, changes);
        if let Some(count) = elements {
            self.at_most(count, self.rules.items_per_collection, "items_per_collection", |beyond| {
                let (word, threshold) = (beyond.word(), beyond.threshold);
                format!("Detected collection {column} with {count} items, this exceeds the {word} threshold of {threshold}.")
            })?;
        }
        let mut bytes = 0;
        for (path, value) in changes.iter().flat_map(cells_of) {
            if let Some(value) = value {
                self.value_size(column, value)?;
            }
            if path > 0 {
                self.value_size(column, path)?;
            }
            bytes += CELL_BYTES + path + value.unwrap_or_default();
        }
        if elements.is_none() {
            return Ok(());
        }
        self.at_most(bytes, self.rules.collection_size, "collection_size", |beyond| {
            let (word, threshold) = (beyond.word(), beyond.threshold);
            format!("Detected collection {column} of size {bytes}, this exceeds the {word} threshold of {threshold}.")
        })
    }

    /// Operations on a list for which it has to be read.
    fn reads_list(&self, operation: &Operation) -> Result<()> {
        let what = match operation.kind {
            _ if !operation.needs_read() => return Ok(()),
            OperationKind::SetElement { .. } => "Setting of list items by index requiring read before write",
            OperationKind::DeleteElement(_) => "Removal of list items by index requiring read before write",
            _ => "Removal of list items requiring read before write",
        };
        let allowed = self.rules.read_before_write_list_operations_enabled;
        self.require(allowed, "read_before_write_list_operations", None, what)
    }

    fn value_size(&self, column: &str, bytes: usize) -> Result<()> {
        self.at_most(bytes, self.rules.column_value_size, "column_value_size", |beyond| {
            let (word, threshold) = (beyond.word(), beyond.threshold);
            format!("Value of column '{column}' has size {bytes}, this exceeds the {word} threshold of {threshold}.")
        })
    }
}

/// Bytes of path and value of each cell that a change writes. A tombstone has no value.
fn cells_of(change: &Change) -> Vec<(usize, Option<usize>)> {
    let of_list = |values: &[Bytes]| values.iter().map(|v| (LIST_PATH_BYTES, Some(v.len()))).collect();
    match change {
        Change::Cell { path, value, .. } => vec![(path.len(), value.as_ref().map(Bytes::len))],
        Change::ListAppend { values, .. } | Change::ListPrepend { values, .. } => of_list(values),
        Change::ListSet { value, .. } => vec![(LIST_PATH_BYTES, value.as_ref().map(Bytes::len))],
        _ => Vec::new(),
    }
}

/// The elements that an operation gives a collection; `None` for other operations, and where there are none.
fn elements_written(operation: &Operation, changes: &[Change]) -> Option<usize> {
    let is_given = matches!(operation.kind, OperationKind::Set(_) | OperationKind::Append(_));
    let ty = &operation.column.ty;
    if !is_given || !ty.is_collection() {
        return None;
    }
    if ty.is_multi_cell() {
        let count = changes.iter().map(|change| cells_of(change).len()).sum();
        return (count > 0).then_some(count);
    }
    match changes {
        [Change::Cell { value: Some(value), .. }] => Some(match ty {
            CqlType::Map { .. } => collection::pairs(value).count(),
            _ => collection::elements(value).count(),
        }),
        _ => None,
    }
}
