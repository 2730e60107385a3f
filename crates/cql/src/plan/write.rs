//! INSERT, UPDATE and DELETE of one table.

use super::change::{self, Change, Stamp};
use super::{RowsRead, compact, json_insert};
use crate::analysis::condition::{BoundCondition, ConditionPlan};
use crate::analysis::keys::KEY_BYTES_MAX;
use crate::analysis::masks;
use crate::analysis::modification::Operation;
use crate::analysis::product;
use crate::analysis::restrictions::Restrictions;
use crate::analysis::{BindInput, Expr};
use crate::bind::{BoundValue, UuidSource};
use crate::error::{Result, bail};
use crate::guardrails::{Findings, Guard, Inspection};
use model::TableSchema;
use model::clustering::{Clustering, Slice};
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::DecoratedKey;
use model::mutation::{Mutation, PartitionUpdate, RangeTombstone};
use model::row::Row;
use model::{ColumnId, ColumnKind, Deletion, Liveness};
use std::sync::Arc;

/// The longest TTL, in seconds: 20 years.
const TTL_MAX: i32 = 20 * 365 * 24 * 60 * 60;
/// The last second at which something can expire where the files are those of Cassandra 4.x.
const EXPIRATION_MAX_2038: u32 = i32::MAX as u32 - 1;

/// Which statement it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Insert,
    Update,
    Delete,
}

/// What must hold for the write to happen.
#[derive(Debug)]
pub(crate) enum Conditions {
    None,
    NotExists,
    Exists,
    Columns(Vec<ConditionPlan>),
}

/// A write with all its names resolved.
#[derive(Debug)]
pub(crate) struct WritePlan {
    pub(crate) table: Arc<TableSchema>,
    pub(crate) kind: WriteKind,
    pub(crate) restrictions: Restrictions,
    pub(crate) operations: Vec<Operation>,
    /// Whether the static row is all that is touched.
    pub(crate) only_static: bool,
    pub(crate) timestamp: Option<Expr>,
    pub(crate) ttl: Option<Expr>,
    pub(crate) conditions: Conditions,
    /// INSERT JSON: where the document comes from.
    pub(crate) json: Option<json_insert::JsonSource>,
}

/// Which rows of each partition are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Partition,
    Static,
    Rows(Vec<Clustering>),
    Slices(Vec<Slice>),
}

impl Target {
    /// Rows, or ranges of rows, in each partition.
    pub(crate) fn count(&self) -> usize {
        match self {
            Target::Partition | Target::Static => 1,
            Target::Rows(names) => names.len(),
            Target::Slices(slices) => slices.len(),
        }
    }
}

/// What must hold, with values.
#[derive(Clone, Debug)]
pub(crate) enum BoundConditions {
    None,
    NotExists,
    Exists,
    Columns(Vec<BoundCondition>),
}

/// A write with its values.
///
/// A counter update has one cell for each increment, whose value is not a counter context but the increment
/// itself, 8 bytes big-endian; [`BoundWrite::is_counter`] says so. The node that leads the update makes
/// contexts of them.
#[derive(Clone, Debug)]
pub struct BoundWrite {
    /// The table.
    pub table: Arc<TableSchema>,
    /// Whether the write increments (or deletes) counters.
    pub is_counter: bool,
    /// The read whose rows [`BoundWrite::mutations`] wants: for operations on elements of lists.
    pub read_before: Option<ReadCommand>,
    /// Whether USING TIMESTAMP was given.
    pub has_timestamp: bool,
    /// Whether WHERE has an IN on the partition key.
    pub(crate) has_key_in: bool,
    /// Whether WHERE has an IN on the clustering columns.
    pub(crate) has_clustering_in: bool,
    pub(crate) kind: WriteKind,
    pub(crate) keys: Vec<DecoratedKey>,
    pub(crate) target: Target,
    /// Whether an operation names a static column, also if its values change nothing.
    pub(crate) names_static: bool,
    pub(crate) static_changes: Vec<Change>,
    pub(crate) row_changes: Vec<Change>,
    /// Whether rows are deleted as a whole. A DELETE of elements that are unset changes nothing.
    deletes_rows: bool,
    pub(crate) timestamp: i64,
    pub(crate) ttl: i32,
    pub(crate) now_s: u32,
    /// The last second at which something may expire.
    pub(crate) expiration_max_s: u32,
    pub(crate) conditions: BoundConditions,
    pub(crate) uuids: Arc<dyn UuidSource>,
    findings: Option<Box<Findings>>,
}

impl WritePlan {
    pub(crate) fn is_conditional(&self) -> bool {
        !matches!(self.conditions, Conditions::None)
    }

    /// The masked columns that IF looks at.
    pub(crate) fn masked_conditions(&self) -> Vec<String> {
        match &self.conditions {
            Conditions::Columns(plans) => {
                masks::masked_among(&self.table, &plans.iter().map(|p| p.column.id).collect::<Vec<_>>())
            }
            Conditions::None | Conditions::Exists | Conditions::NotExists => Vec::new(),
        }
    }

    /// What guardrails say of it without its values.
    pub(crate) fn guard_execution(&self, guard: &Guard) -> Result<()> {
        if self.timestamp.is_some() { guard.user_timestamps() } else { Ok(()) }
    }

    pub(crate) fn bind(&self, input: &BindInput<'_>) -> Result<BoundWrite> {
        match &self.json {
            None => self.bind_values(input),
            Some(json) => {
                let values = json.values(&self.table, input)?;
                self.bind_values(&BindInput { values: &values, ..*input })
            }
        }
    }

    fn bind_values(&self, input: &BindInput<'_>) -> Result<BoundWrite> {
        let timestamp = match &self.timestamp {
            Some(expr) => bind_timestamp(expr, input)?,
            None => None,
        };
        if let (Some(guard), Some(timestamp)) = (&input.ctx.guard, timestamp) {
            guard.timestamp(&self.table.name, timestamp, input.ctx.now_micros)?;
        }
        let ttl = self.bind_ttl(input)?;
        let keys = self.restrictions.partition.keys(input)?;
        let target = self.target(input)?;
        product::check_write(keys.len(), target.count())?;
        let (mut static_changes, mut row_changes) = (Vec::new(), Vec::new());
        let mut inspection = input.ctx.guard.as_ref().map(Inspection::new);
        for operation in &self.operations {
            let is_static = operation.column.kind == ColumnKind::Static;
            let changes = if is_static { &mut static_changes } else { &mut row_changes };
            let from = changes.len();
            operation.bind(input, changes)?;
            if let Some(inspection) = &mut inspection {
                inspection.look_at(operation, changes.get(from..).unwrap_or_default());
            }
        }
        if self.kind == WriteKind::Insert && self.operations.is_empty() {
            row_changes.extend(compact::value_of_key(&self.table)?);
        }
        let conditions = match &self.conditions {
            Conditions::None => BoundConditions::None,
            Conditions::NotExists => BoundConditions::NotExists,
            Conditions::Exists => BoundConditions::Exists,
            Conditions::Columns(plans) => {
                BoundConditions::Columns(plans.iter().map(|plan| plan.bind(input)).collect::<Result<_>>()?)
            }
        };
        let read_before = self.read_before(&keys, &target, input);
        Ok(BoundWrite {
            table: Arc::clone(&self.table),
            is_counter: self.table.is_counter,
            read_before,
            has_timestamp: timestamp.is_some(),
            has_key_in: self.restrictions.partition.has_in(),
            has_clustering_in: self.restrictions.clustering.has_in(),
            kind: self.kind,
            keys,
            target,
            names_static: self.operations.iter().any(|o| o.column.kind == ColumnKind::Static),
            static_changes,
            row_changes,
            deletes_rows: self.kind == WriteKind::Delete && self.operations.is_empty(),
            timestamp: timestamp.unwrap_or(input.ctx.timestamp_micros),
            ttl,
            now_s: input.ctx.now_s,
            expiration_max_s: input.ctx.expiration_max_s,
            conditions,
            uuids: Arc::clone(&input.ctx.uuids),
            findings: inspection.and_then(Inspection::finish),
        })
    }

    fn target(&self, input: &BindInput<'_>) -> Result<Target> {
        let clustering = &self.restrictions.clustering;
        if self.only_static {
            return Ok(Target::Static);
        }
        // The only row of a table without clustering columns is a row, though its deletion is that of the
        // partition.
        let is_single_row = self.table.clustering_columns().is_empty() && !self.table.is_static_compact();
        let is_whole = self.operations.is_empty() && !self.restrictions.has_clustering;
        if self.kind == WriteKind::Delete && is_whole && !is_single_row {
            return Ok(Target::Partition);
        }
        if self.kind != WriteKind::Delete || clustering.names_rows() {
            let names = clustering.names(input)?;
            for name in &names {
                compact::check_clustering(&self.table, name)?;
                if name.data_size() > KEY_BYTES_MAX {
                    bail!("Key length of {} is longer than maximum of {KEY_BYTES_MAX}", name.data_size());
                }
            }
            return Ok(Target::Rows(names));
        }
        match clustering.bind(input, false)? {
            Some(filter) => Ok(Target::Slices(filter.to_slices())),
            // Nothing is greater or less than a null, and who asks to delete that made a mistake.
            None if clustering.ends_at_null(input)? => {
                bail!("Invalid null value in condition for a range of rows to delete")
            }
            // An empty range deletes nothing.
            None => Ok(Target::Slices(Vec::new())),
        }
    }

    /// The TTL in seconds; 0 for none.
    fn bind_ttl(&self, input: &BindInput<'_>) -> Result<i32> {
        let default = self.table.options.default_time_to_live;
        let (ttl, word) = match &self.ttl {
            None => (default, "default "),
            Some(expr) => match expr.eval(&input.scope())? {
                BoundValue::Unset => return Ok(default),
                BoundValue::Null => return Ok(0),
                BoundValue::Bytes(bytes) => match bytes.as_array::<4>() {
                    Some(bytes) => (i32::from_be_bytes(*bytes), ""),
                    None => return Ok(0),
                },
            },
        };
        if self.kind == WriteKind::Delete {
            return Ok(0);
        }
        if ttl < 0 {
            bail!("A TTL must be greater or equal to 0, but was {ttl}");
        }
        if ttl > TTL_MAX {
            bail!("ttl is too large. requested ({ttl}) maximum ({TTL_MAX})");
        }
        // By the clock, whatever moment came with the request. From that one an expiration stops at the last
        // second, as in Cassandra (CASSANDRA-14092).
        let now_s = input.ctx.now_micros.div_euclid(1_000_000);
        if ttl > 0 && now_s + i64::from(ttl) > i64::from(input.ctx.expiration_max_s) {
            let last = match input.ctx.expiration_max_s {
                EXPIRATION_MAX_2038 => "2038-01-19T03:14:06+00:00",
                _ => "2106-02-07T06:28:13+00:00",
            };
            bail!(
                "Request on table {}.{} with {word}ttl of {ttl} seconds exceeds maximum supported expiration date of \
                 {last}. In order to avoid this use a lower TTL, change the expiration date overflow policy or \
                 upgrade to a version where this limitation is fixed. See CASSANDRA-14092 and CASSANDRA-14227 for \
                 more details.",
                self.table.keyspace,
                self.table.name
            );
        }
        Ok(ttl)
    }

    fn read_before(
        &self,
        keys: &[DecoratedKey],
        target: &Target,
        input: &BindInput<'_>,
    ) -> Option<ReadCommand> {
        let columns: Vec<ColumnId> =
            self.operations.iter().filter(|o| o.needs_read()).map(|o| o.column.id).collect();
        if columns.is_empty() {
            return None;
        }
        let names = match target {
            Target::Rows(names) => names.clone(),
            _ => Vec::new(),
        };
        Some(ReadCommand {
            table: Arc::clone(&self.table),
            partitions: PartitionSelection::Keys(keys.to_vec()),
            clusterings: ClusteringFilter::Names { names, reversed: false },
            columns: ColumnSelection::of(columns),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: input.ctx.now_s,
        })
    }
}

/// A timestamp in microseconds; `None` when it is not set.
pub(crate) fn bind_timestamp(expr: &Expr, input: &BindInput<'_>) -> Result<Option<i64>> {
    match expr.eval(&input.scope())? {
        BoundValue::Unset => Ok(None),
        BoundValue::Null => bail!("Invalid null value of timestamp"),
        BoundValue::Bytes(bytes) => match bytes.as_array::<8>().map(|b| i64::from_be_bytes(*b)) {
            Some(i64::MIN) => {
                bail!("Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807]")
            }
            Some(micros) => Ok(Some(micros)),
            None => bail!("Invalid null value of timestamp"),
        },
    }
}

impl BoundWrite {
    pub(crate) fn is_conditional(&self) -> bool {
        !matches!(self.conditions, BoundConditions::None)
    }

    /// The partitions that are written.
    pub fn keys(&self) -> &[DecoratedKey] {
        &self.keys
    }

    /// Tells what guardrails say of the values.
    ///
    /// # Errors
    /// What they do not allow.
    pub(crate) fn tell_findings(&self) -> Result<()> {
        self.findings.as_ref().map_or(Ok(()), |findings| findings.tell())
    }

    /// The mutations, one for each partition. `rows` are those of [`BoundWrite::read_before`].
    ///
    /// # Errors
    /// When an element of a list is not there, and what guardrails refuse.
    pub fn mutations(&self, rows: &RowsRead) -> Result<Vec<Mutation>> {
        self.tell_findings()?;
        self.keys.iter().map(|key| Ok(Mutation::of(self.update(key, rows, self.timestamp)?))).collect()
    }

    /// What one partition changes.
    pub(crate) fn update(
        &self,
        key: &DecoratedKey,
        rows: &RowsRead,
        timestamp: i64,
    ) -> Result<PartitionUpdate> {
        let expiration_max = self.expiration_max_s;
        let stamp = Stamp { timestamp, ttl: self.ttl, now_s: self.now_s, expiration_max };
        let deletion = Deletion::new(timestamp, self.now_s);
        let mut update = PartitionUpdate::new(Arc::clone(&self.table), key.clone());
        let uuids = self.uuids.as_ref();
        if !self.static_changes.is_empty() {
            // They are made once for each row that the statement names, as in Cassandra: a counter counts
            // them all.
            let times = match &self.target {
                Target::Rows(names) => names.len(),
                _ => 1,
            };
            let mut row = Row::new(Clustering::empty());
            for time in 0..times {
                let mut next = Row::new(Clustering::empty());
                let before = rows.of(&self.table, key, None);
                change::apply(&self.table, &self.static_changes, &mut next, before, stamp, uuids)?;
                match time {
                    0 => row = next,
                    _ => change::join(&self.table, &mut row, next),
                }
            }
            if times > 1 {
                change::sort(&self.table, &mut row);
            }
            if !row.is_empty() {
                update.add_static(row);
            }
        }
        match &self.target {
            Target::Static => {}
            Target::Partition => update.deletion = deletion,
            Target::Slices(_) if !self.deletes_rows => {
                bail!("Range deletions are not supported for specific columns")
            }
            Target::Slices(slices) => update
                .range_tombstones
                .extend(slices.iter().cloned().map(|slice| RangeTombstone { slice, deletion })),
            Target::Rows(_) if self.deletes_rows && self.table.clustering_columns().is_empty() => {
                update.deletion = deletion;
            }
            Target::Rows(names) => {
                for name in names {
                    let mut row = Row::new(name.clone());
                    if self.deletes_rows {
                        row.deletion = deletion;
                    } else if self.kind == WriteKind::Insert && self.table.compact.is_none() {
                        row.liveness = match self.ttl {
                            0 => Liveness::new(timestamp),
                            ttl => Liveness::expiring(timestamp, ttl, stamp.expiration()),
                        };
                    }
                    let before = rows.of(&self.table, key, Some(name));
                    change::apply(&self.table, &self.row_changes, &mut row, before, stamp, uuids)?;
                    if !row.is_empty() {
                        update.add_row(row);
                    }
                }
            }
        }
        Ok(update)
    }
}
