//! Writes under conditions.
//!
//! Life cycle:
//! 1. [`CasPlan::read`] is run in the partition of [`CasPlan::key`] while nobody else writes there.
//! 2. [`CasPlan::evaluate`] says whether all conditions hold, and gives the mutation if they do.
//! 3. [`CasPlan::result_columns`] and [`CasPlan::write_result`] make the result set. It shows the rows when
//!    the conditions do not hold.
//!
//! Conditions belong to rows, not to statements. The conditions of one batch on one row are put together, and
//! may not contradict each other in kind. The rows with conditions are read. Where only the static row has
//! any, the first row of the partition is read, which a refusal shows.
//!
//! All deletions get the timestamp just before that of the writes. So a batch deletes what was there before
//! it. Within one row that the batch both deletes and writes the deletion wins, as in a batch without
//! conditions.
//!
//! The reader hands on the static row of the partition even when none of the rows asked for exists (as a row
//! of static content only).

use super::RowsRead;
use super::bound::OwnedResultRow;
use super::write::{BoundConditions, BoundWrite, Target, WriteKind};
use crate::analysis::condition::{BoundCondition, Seen};
use crate::analysis::{Expr, Scope, masks};
use crate::bind::ColumnSpec;
use crate::error::{Result, bail};
use crate::result::RowSink;
use bytes::Bytes;
use model::clustering::{Clustering, ClusteringComparator};
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::DecoratedKey;
use model::mutation::{Mutation, PartitionUpdate};
use model::row::{ResultRow, Row};
use model::types::CqlType;
use model::{ColumnDef, ColumnId, ColumnKind, Deletion, TableSchema};
use std::collections::HashSet;
use std::sync::Arc;

/// One or more writes of one partition that happen together or not at all.
#[derive(Clone, Debug)]
pub struct CasPlan {
    /// The table.
    pub table: Arc<TableSchema>,
    /// The partition.
    pub key: DecoratedKey,
    /// What has to be read to evaluate the conditions and to make the mutation.
    pub read: ReadCommand,
    /// Reads the first row of the partition, where a refusal shows that and it is not among the others.
    pub read_first: Option<ReadCommand>,
    /// Whether it is a batch.
    pub is_batch: bool,
    writes: Vec<BoundWrite>,
    conditions: ConditionsByRow,
    /// The columns that a refusal shows; `None` for all of them.
    shown: Option<Vec<Arc<ColumnDef>>>,
    /// The columns whose content counts as existing.
    relevant: ColumnSelection,
}

/// What must hold of each row.
#[derive(Clone, Debug, Default)]
struct ConditionsByRow {
    of_static: Option<RowCondition>,
    /// In the order of the rows.
    of_rows: Vec<(Clustering, RowCondition)>,
}

/// What must hold of one row.
#[derive(Clone, Debug)]
enum RowCondition {
    Exists,
    NotExists,
    Columns(Vec<BoundCondition>),
}

/// Whether conditions hold.
#[derive(Clone, Debug)]
pub enum CasOutcome {
    /// They do: what is to be written.
    Applied(Mutation),
    /// They do not.
    NotApplied,
}

impl CasOutcome {
    /// Whether the conditions hold.
    pub fn is_applied(&self) -> bool {
        matches!(self, CasOutcome::Applied(_))
    }
}

impl CasPlan {
    /// Puts writes together. At least one of them has conditions.
    pub(crate) fn new(writes: Vec<BoundWrite>, is_batch: bool) -> Result<CasPlan> {
        let Some(first) = writes
            .iter()
            .find_map(|w| w.keys.first().map(|key| (Arc::clone(&w.table), key.clone(), w.now_s)))
        else {
            bail!("A conditional statement needs a partition key");
        };
        let (table, key, now_s) = first;
        if writes.iter().any(|w| w.table.id != table.id) {
            bail!("Batch with conditions cannot span multiple tables");
        }
        let mut conditions = ConditionsByRow::default();
        for write in &writes {
            check_single_row(write, &key, is_batch)?;
            conditions.add(write)?;
        }
        let shown = shown_columns(&table, &writes, is_batch);
        let relevant = relevant_columns(&table, &writes);
        let read = read_command(&table, &key, &writes, &conditions, &relevant, now_s);
        let shows_first = conditions.of_rows.is_empty() && !read.clusterings.is_all();
        let read_first =
            shows_first.then(|| first_row(ReadCommand { columns: relevant.clone(), ..read.clone() }));
        Ok(CasPlan { table, key, read, read_first, is_batch, writes, conditions, shown, relevant })
    }

    /// Evaluates the conditions on the rows of [`CasPlan::read`]; writes get `timestamp_micros`, which has to
    /// be later than that of every write before in the partition.
    pub fn evaluate(&self, rows: &RowsRead, timestamp_micros: i64) -> Result<CasOutcome> {
        if !self.holds(rows) {
            return Ok(CasOutcome::NotApplied);
        }
        self.writes.iter().try_for_each(BoundWrite::tell_findings)?;
        let updates = self.writes.iter().map(|write| write.update(&self.key, rows, timestamp_micros));
        let merged = super::batch::merge_updates(updates.collect::<Result<_>>()?);
        let nothing = || PartitionUpdate::new(Arc::clone(&self.table), self.key.clone());
        let mut merged = merged.unwrap_or_else(nothing);
        put_deletions_first(&mut merged, timestamp_micros);
        Ok(CasOutcome::Applied(Mutation::of(merged)))
    }

    fn holds(&self, rows: &RowsRead) -> bool {
        let of_static = self.conditions.of_static.as_ref().is_none_or(|condition| {
            let row = rows.rows.iter().find(|row| self.has_static(row));
            condition.holds(&self.table, row.map(OwnedResultRow::as_row).as_ref())
        });
        of_static
            && self.conditions.of_rows.iter().all(|(name, condition)| {
                let row = rows.of(&self.table, &self.key, Some(name));
                condition.holds(&self.table, row.as_ref())
            })
    }

    fn has_static(&self, row: &OwnedResultRow) -> bool {
        row.static_row.as_ref().is_some_and(|s| {
            s.cells.iter().any(|cell| self.relevant.contains(cell.column) && cell.is_live(row.now_s))
        })
    }

    /// The rows that a refusal shows: those with conditions, and the static row alone where none of them
    /// exists. The rows that a refusal shows, of those of [`CasPlan::read_first`] if there is that, else of
    /// [`CasPlan::read`].
    fn shown_rows<'r>(&self, rows: &'r RowsRead) -> Vec<ResultRow<'r>> {
        let comparator = self.table.comparator();
        let has_condition = |row: &Row| {
            self.conditions.of_rows.is_empty() || self.conditions.find(comparator, &row.clustering).is_ok()
        };
        let with_condition = rows.rows.iter().filter(|r| r.row.as_ref().is_some_and(has_condition));
        let found: Vec<_> = with_condition.map(OwnedResultRow::as_row).collect();
        if !found.is_empty() {
            return found;
        }
        let lone = rows.rows.iter().find(|row| self.has_static(row));
        lone.map(|row| ResultRow { row: None, ..row.as_row() }).into_iter().collect()
    }

    fn shown_refs(&self) -> Vec<Arc<ColumnDef>> {
        self.shown.clone().unwrap_or_else(|| self.table.select_star())
    }

    /// The columns of the result set: `[applied]`, and those of the rows that are shown if it is false.
    /// `rows` are those of [`CasPlan::read_first`] if there is that, else of [`CasPlan::read`].
    pub fn result_columns(&self, outcome: &CasOutcome, rows: &RowsRead) -> Vec<ColumnSpec> {
        let spec = |name: &str, ty: CqlType| ColumnSpec {
            keyspace: self.table.keyspace.as_str().into(),
            table: self.table.name.as_str().into(),
            name: name.to_owned(),
            ty,
        };
        let mut columns = vec![spec("[applied]", CqlType::Boolean)];
        if !outcome.is_applied() && !self.shown_rows(rows).is_empty() {
            columns.extend(self.shown_refs().iter().map(|c| spec(&c.name, c.ty.clone())));
        }
        columns
    }

    /// Writes the rows of the result set, of the same rows.
    ///
    /// Masked columns are shown to who may UNMASK them; the others see what a SELECT would show. (Cassandra
    /// shows their values to everybody who may read the table.)
    ///
    /// # Errors
    /// When a mask cannot be applied.
    pub fn write_result<S: RowSink + ?Sized>(
        &self,
        outcome: &CasOutcome,
        rows: &RowsRead,
        unmasks: bool,
        sink: &mut S,
    ) -> Result<()> {
        let shown = self.shown_rows(rows);
        if outcome.is_applied() || shown.is_empty() {
            sink.begin_row();
            sink.value(Some(&[u8::from(outcome.is_applied())]));
            sink.end_row();
            return Ok(());
        }
        // Columns that do not matter are shown as null, whether they were read or not.
        let is_key = |c: &ColumnDef| matches!(c.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
        let columns: Vec<Expr> = self
            .shown_refs()
            .iter()
            .map(|c| match is_key(c) || self.relevant.contains(c.id) {
                true => masks::shown(&self.table, c),
                false => Expr::NULL,
            })
            .collect();
        for row in &shown {
            let scope = Scope {
                values: &[],
                now_micros: 0,
                uuids: None,
                table: Some(&self.table),
                row: Some(row),
                aggregates: &[],
                unmasks,
            };
            let values = columns.iter().map(|column| column.eval_or_null(&scope));
            let values = values.collect::<Result<Vec<Option<Bytes>>>>()?;
            sink.begin_row();
            sink.value(Some(&[0]));
            values.iter().for_each(|value| sink.value(value.as_deref()));
            sink.end_row();
        }
        Ok(())
    }
}

/// The row that conditions of a write are about; `None` for the static row.
fn row_of(write: &BoundWrite) -> Option<&Clustering> {
    match &write.target {
        Target::Rows(names) => names.first(),
        _ => None,
    }
}

/// Refuses writes of several partitions, and of several rows that IN names.
fn check_single_row(write: &BoundWrite, key: &DecoratedKey, is_batch: bool) -> Result<()> {
    let what = if write.kind == WriteKind::Update { "updates" } else { "deletions" };
    if write.has_key_in {
        match is_batch {
            true => bail!(
                "Batch with conditions cannot span multiple partitions (you cannot use IN on the partition key)"
            ),
            false => bail!("IN on the partition key is not supported with conditional {what}"),
        }
    }
    if write.keys.iter().any(|other| other != key) {
        bail!("Batch with conditions cannot span multiple partitions");
    }
    if write.has_clustering_in {
        bail!("IN on the clustering key columns is not supported with conditional {what}");
    }
    Ok(())
}

impl ConditionsByRow {
    /// Adds the conditions of a statement to those of its row, and those on static columns to those of the
    /// static row.
    fn add(&mut self, write: &BoundWrite) -> Result<()> {
        let comparator = write.table.comparator();
        let row = row_of(write);
        match &write.conditions {
            BoundConditions::None => Ok(()),
            BoundConditions::Exists => self.put(comparator, row, RowCondition::Exists),
            BoundConditions::NotExists => self.put(comparator, row, RowCondition::NotExists),
            BoundConditions::Columns(conditions) => {
                let (of_static, of_row): (Vec<_>, Vec<_>) =
                    conditions.iter().cloned().partition(BoundCondition::is_static);
                if !of_row.is_empty() {
                    self.put(comparator, row, RowCondition::Columns(of_row))?;
                }
                if !of_static.is_empty() {
                    self.put(comparator, None, RowCondition::Columns(of_static))?;
                }
                Ok(())
            }
        }
    }

    fn put(
        &mut self,
        comparator: &ClusteringComparator,
        row: Option<&Clustering>,
        new: RowCondition,
    ) -> Result<()> {
        let Some(row) = row else {
            return match &mut self.of_static {
                Some(known) => known.add(new),
                none => {
                    *none = Some(new);
                    Ok(())
                }
            };
        };
        match self.find(comparator, row) {
            Ok(at) => self.of_rows.get_mut(at).map_or(Ok(()), |(_, known)| known.add(new)),
            Err(at) => {
                self.of_rows.insert(at, (row.clone(), new));
                Ok(())
            }
        }
    }

    /// Where a row's conditions are, or would be.
    fn find(&self, comparator: &ClusteringComparator, row: &Clustering) -> std::result::Result<usize, usize> {
        self.of_rows.binary_search_by(|(known, _)| comparator.compare(known, row))
    }
}

impl RowCondition {
    /// Adds a condition on the same row.
    fn add(&mut self, new: RowCondition) -> Result<()> {
        use RowCondition::{Columns, Exists, NotExists};
        match (self, new) {
            (Columns(known), Columns(more)) => known.extend(more),
            (Exists, Exists) | (NotExists, NotExists) => {}
            (Exists, NotExists) | (NotExists, Exists) => {
                bail!("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row")
            }
            (Columns(_), Exists) => bail!("Cannot mix IF conditions and IF EXISTS for the same row"),
            (Columns(_), NotExists) | (Exists | NotExists, Columns(_)) => {
                bail!("Cannot mix IF conditions and IF NOT EXISTS for the same row")
            }
        }
        Ok(())
    }

    /// Whether it holds of a row, `None` for one that does not exist.
    fn holds(&self, table: &TableSchema, row: Option<&ResultRow<'_>>) -> bool {
        match self {
            RowCondition::Exists => row.is_some(),
            RowCondition::NotExists => row.is_none(),
            RowCondition::Columns(conditions) => {
                let mut seen = Seen::default();
                conditions.iter().all(|condition| condition.holds(table, row, &mut seen))
            }
        }
    }
}

/// Gives all deletions the timestamp just before that of the writes.
fn put_deletions_first(update: &mut PartitionUpdate, timestamp_micros: i64) {
    let before = timestamp_micros.saturating_sub(1);
    let put = |deletion: &mut Deletion| {
        if !deletion.is_none() {
            deletion.timestamp = before;
        }
    };
    put(&mut update.deletion);
    update.range_tombstones.iter_mut().for_each(|range| put(&mut range.deletion));
    for row in update.rows.iter_mut().chain(&mut update.static_row) {
        put(&mut row.deletion);
        row.complex_deletions.iter_mut().for_each(|(_, deletion)| put(deletion));
    }
}

fn has_existence(writes: &[BoundWrite]) -> bool {
    writes.iter().any(|w| matches!(w.conditions, BoundConditions::Exists | BoundConditions::NotExists))
}

/// The columns of conditions in the order of the statements, of each the regular ones first.
fn shown_columns(table: &TableSchema, writes: &[BoundWrite], is_batch: bool) -> Option<Vec<Arc<ColumnDef>>> {
    if has_existence(writes) {
        return None;
    }
    let mut columns: Vec<Arc<ColumnDef>> = Vec::new();
    if is_batch {
        columns.extend(table.partition_key().iter().chain(table.clustering_columns()).cloned());
    }
    let mut shown: HashSet<ColumnId> = columns.iter().map(|column| column.id).collect();
    for write in writes {
        let BoundConditions::Columns(conditions) = &write.conditions else { continue };
        for is_static in [false, true] {
            for condition in conditions.iter().filter(|c| c.is_static() == is_static) {
                if shown.insert(condition.column.id) {
                    columns.push(Arc::clone(&condition.column));
                }
            }
        }
    }
    Some(columns)
}

/// The columns whose content makes a row exist. These are all regular columns where rows are written, and all
/// static ones where a conditional statement writes any; otherwise the columns of conditions.
fn relevant_columns(table: &TableSchema, writes: &[BoundWrite]) -> ColumnSelection {
    let touches_rows = writes.iter().any(|write| !matches!(write.target, Target::Static | Target::Partition));
    let touches_static = writes.iter().any(|write| write.is_conditional() && write.names_static);
    let mut columns: Vec<ColumnId> = Vec::new();
    if touches_rows {
        columns.extend(table.regular_columns().iter().map(|c| c.id));
    }
    if touches_static {
        columns.extend(table.static_columns().iter().map(|c| c.id));
    }
    for write in writes {
        if let BoundConditions::Columns(conditions) = &write.conditions {
            columns.extend(conditions.iter().map(|condition| condition.column.id));
        }
    }
    ColumnSelection::of(columns)
}

fn read_command(
    table: &Arc<TableSchema>,
    key: &DecoratedKey,
    writes: &[BoundWrite],
    conditions: &ConditionsByRow,
    relevant: &ColumnSelection,
    now_s: u32,
) -> ReadCommand {
    let comparator = table.comparator();
    let mut names: Vec<Clustering> = conditions.of_rows.iter().map(|(name, _)| name.clone()).collect();
    let mut columns = relevant.clone();
    let is_of_rows = |id: &ColumnId| table.regular_columns().iter().any(|column| column.id == *id);
    for write in writes {
        let Some(before) = &write.read_before else { continue };
        if let Target::Rows(rows) = &write.target
            && before.columns.columns.iter().any(is_of_rows)
        {
            names.extend(rows.iter().cloned());
        }
        let more = columns.columns.iter().chain(before.columns.columns.iter()).copied().collect();
        columns = ColumnSelection::of(more);
    }
    names.sort_by(|a, b| comparator.compare(a, b));
    names.dedup_by(|a, b| comparator.compare(a, b).is_eq());
    let has_rows = !names.is_empty();
    let command = ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Keys(vec![key.clone()]),
        clusterings: ClusteringFilter::Names { names, reversed: false },
        columns,
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s,
    };
    // With conditions on the static row only, one row shows whether the partition exists at all.
    if has_rows { command } else { first_row(command) }
}

/// The same of the first row of the partition.
fn first_row(command: ReadCommand) -> ReadCommand {
    let limits = DataLimits { rows: 1, ..DataLimits::NONE };
    ReadCommand { clusterings: ClusteringFilter::all(), limits, ..command }
}
