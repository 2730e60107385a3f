//! Writes under conditions.
//!
//! Life cycle: [`CasPlan::read`] is run in the partition of [`CasPlan::key`] while nobody else writes there;
//! [`CasPlan::evaluate`] says whether all conditions hold, and gives the mutation if they do;
//! [`CasPlan::result_columns`] and [`CasPlan::write_result`] make the result set, which shows the rows when they do
//! not.
//!
//! The reader hands on the static row of the partition even when none of the rows asked for exists (as a row of
//! static content only).

use super::RowsRead;
use super::bound::OwnedResultRow;
use super::write::{BoundConditions, BoundWrite, Target, WriteKind};
use crate::analysis::condition::Seen;
use crate::bind::ColumnSpec;
use crate::error::{Result, bail};
use crate::result::{ColumnRef, RowSink};
use model::clustering::Clustering;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::DecoratedKey;
use model::mutation::{Mutation, PartitionUpdate};
use model::types::CqlType;
use model::{ColumnDef, ColumnId, ColumnKind, TableSchema};
use std::collections::{HashMap, HashSet};
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
    writes: Vec<BoundWrite>,
    is_batch: bool,
    /// The columns that a refusal shows; `None` for all of them.
    shown: Option<Vec<Arc<ColumnDef>>>,
    /// The columns whose content counts as existing.
    relevant: ColumnSelection,
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
    /// Puts writes together, of which at least one has conditions.
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
        if writes.iter().any(|w| w.keys.iter().any(|other| *other != key)) {
            bail!("Batch with conditions cannot span multiple partitions");
        }
        check_mixed(&writes)?;
        let shown = shown_columns(&table, &writes, is_batch);
        let relevant = relevant_columns(&table, &writes);
        let read = read_command(&table, &key, &writes, &relevant, now_s);
        Ok(CasPlan { table, key, read, writes, is_batch, shown, relevant })
    }

    /// Evaluates the conditions on the rows of [`CasPlan::read`]; writes get `timestamp_micros`, which has to be
    /// later than that of every write before in the partition.
    pub fn evaluate(&self, rows: &RowsRead, timestamp_micros: i64) -> Result<CasOutcome> {
        for write in &self.writes {
            if !self.holds(write, rows) {
                return Ok(CasOutcome::NotApplied);
            }
        }
        let updates = self.writes.iter().map(|write| write.update(&self.key, rows, timestamp_micros));
        let merged = super::batch::merge_updates(updates.collect::<Result<_>>()?);
        let nothing = || PartitionUpdate::new(Arc::clone(&self.table), self.key.clone());
        Ok(CasOutcome::Applied(Mutation::of(merged.unwrap_or_else(nothing))))
    }

    fn holds(&self, write: &BoundWrite, rows: &RowsRead) -> bool {
        let exists = || match row_of(write) {
            Some(name) => rows.rows.iter().any(|r| r.row.as_ref().is_some_and(|row| row.clustering == *name)),
            None => rows.rows.iter().any(|r| self.has_static(r)),
        };
        match &write.conditions {
            BoundConditions::None => true,
            BoundConditions::Exists => exists(),
            BoundConditions::NotExists => !exists(),
            BoundConditions::Columns(conditions) => {
                let mut seen = Seen::default();
                conditions.iter().all(|condition| {
                    let row = match (condition.is_static(), row_of(write)) {
                        (false, Some(name)) => rows.of(&self.key, Some(name)),
                        _ => rows.of(&self.key, None),
                    };
                    condition.holds(&self.table, row.as_ref(), &mut seen)
                })
            }
        }
    }

    fn has_static(&self, row: &OwnedResultRow) -> bool {
        row.static_row.as_ref().is_some_and(|s| {
            s.cells.iter().any(|cell| self.relevant.contains(cell.column) && cell.is_live(row.now_s))
        })
    }

    /// The rows that a refusal shows.
    fn shown_rows<'r>(&self, rows: &'r RowsRead) -> Vec<&'r OwnedResultRow> {
        rows.rows.iter().filter(|r| r.row.is_some() || self.has_static(r)).collect()
    }

    fn shown_refs(&self) -> Vec<Arc<ColumnDef>> {
        self.shown.clone().unwrap_or_else(|| self.table.select_star())
    }

    /// The columns of the result set: `[applied]`, and those of the rows that are shown if it is false.
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

    /// Writes the rows of the result set.
    pub fn write_result<S: RowSink + ?Sized>(&self, outcome: &CasOutcome, rows: &RowsRead, sink: &mut S) {
        let shown = self.shown_rows(rows);
        if outcome.is_applied() || shown.is_empty() {
            sink.begin_row();
            sink.value(Some(&[u8::from(outcome.is_applied())]));
            sink.end_row();
            return;
        }
        // Columns that do not matter are shown as null, whether they were read or not.
        let is_key = |c: &ColumnDef| matches!(c.kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
        let columns: Vec<Option<ColumnRef>> = self
            .shown_refs()
            .iter()
            .map(|c| (is_key(c) || self.relevant.contains(c.id)).then(|| ColumnRef::of(c)))
            .collect();
        for row in shown {
            sink.begin_row();
            sink.value(Some(&[0]));
            for column in &columns {
                let value = column.as_ref().and_then(|column| column.value(&self.table, &row.as_row()));
                sink.value(value.as_deref());
            }
            sink.end_row();
        }
    }

    /// The writes, for a batch that takes them in.
    pub(crate) fn into_writes(self) -> Vec<BoundWrite> {
        self.writes
    }

    /// Whether the plan is a batch.
    pub fn is_batch(&self) -> bool {
        self.is_batch
    }
}

/// The row that conditions of a write are about; `None` for the static row.
fn row_of(write: &BoundWrite) -> Option<&Clustering> {
    match &write.target {
        Target::Rows(names) => names.first(),
        _ => None,
    }
}

/// Refuses conditions of different kinds on one row. Those of each row are looked at once, in the order of the writes.
fn check_mixed(writes: &[BoundWrite]) -> Result<()> {
    use BoundConditions::{Columns, Exists, None as Nothing, NotExists};
    let mut first: HashMap<Option<&Clustering>, &BoundConditions> = HashMap::with_capacity(writes.len());
    for write in writes {
        if matches!(write.conditions, Nothing) {
            continue;
        }
        // All that came before of the row were of one kind.
        match (*first.entry(row_of(write)).or_insert(&write.conditions), &write.conditions) {
            (NotExists, Exists) | (Exists, NotExists) => {
                bail!("Cannot mix IF EXISTS and IF NOT EXISTS conditions for the same row")
            }
            (Columns(_), Exists | NotExists) | (Exists | NotExists, Columns(_)) => {
                bail!("Cannot mix IF conditions and IF NOT EXISTS for the same row")
            }
            _ => {}
        }
    }
    Ok(())
}

fn conditions_of(writes: &[BoundWrite]) -> impl Iterator<Item = &crate::analysis::condition::BoundCondition> {
    writes.iter().flat_map(|w| match &w.conditions {
        BoundConditions::Columns(conditions) => conditions.as_slice(),
        _ => &[],
    })
}

fn has_existence(writes: &[BoundWrite]) -> bool {
    writes.iter().any(|w| matches!(w.conditions, BoundConditions::Exists | BoundConditions::NotExists))
}

fn shown_columns(table: &TableSchema, writes: &[BoundWrite], is_batch: bool) -> Option<Vec<Arc<ColumnDef>>> {
    if has_existence(writes) {
        return None;
    }
    let mut columns: Vec<Arc<ColumnDef>> = Vec::new();
    if is_batch {
        columns.extend(table.partition_key().iter().chain(table.clustering_columns()).cloned());
    }
    let mut shown: HashSet<ColumnId> = columns.iter().map(|column| column.id).collect();
    // Static columns come last, whatever the order of the conditions.
    for is_static in [false, true] {
        for condition in conditions_of(writes) {
            let column = &condition.column;
            if (column.kind == ColumnKind::Static) == is_static && shown.insert(column.id) {
                columns.push(Arc::clone(column));
            }
        }
    }
    Some(columns)
}

/// For existence everything of the rows and of the static row that is written; otherwise the columns of conditions.
fn relevant_columns(table: &TableSchema, writes: &[BoundWrite]) -> ColumnSelection {
    if !has_existence(writes) {
        return ColumnSelection::of(conditions_of(writes).map(|c| c.column.id).collect());
    }
    let touches_rows = writes.iter().any(|w| !matches!(w.target, Target::Static));
    let touches_static = writes
        .iter()
        .any(|w| w.target == Target::Static || (w.kind != WriteKind::Delete && !w.static_changes.is_empty()));
    let mut columns: Vec<ColumnId> = Vec::new();
    if touches_rows {
        columns.extend(table.regular_columns().iter().map(|c| c.id));
    }
    if touches_static {
        columns.extend(table.static_columns().iter().map(|c| c.id));
    }
    ColumnSelection::of(columns)
}

fn read_command(
    table: &Arc<TableSchema>,
    key: &DecoratedKey,
    writes: &[BoundWrite],
    relevant: &ColumnSelection,
    now_s: u32,
) -> ReadCommand {
    let comparator = table.comparator();
    let mut names: Vec<Clustering> = Vec::new();
    let mut columns = relevant.clone();
    for write in writes {
        if let Target::Rows(rows) = &write.target
            && (write.is_conditional() || write.read_before.is_some())
        {
            names.extend(rows.iter().cloned());
        }
        if let Some(before) = &write.read_before {
            let more = columns.columns.iter().chain(before.columns.columns.iter()).copied().collect();
            columns = ColumnSelection::of(more);
        }
    }
    names.sort_by(|a, b| comparator.compare(a, b));
    names.dedup_by(|a, b| comparator.compare(a, b).is_eq());
    // With conditions on the static row only, one row shows whether the partition exists at all.
    let (clusterings, rows) = if names.is_empty() {
        (ClusteringFilter::all(), 1)
    } else {
        (ClusteringFilter::Names { names, reversed: false }, u64::MAX)
    };
    ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Keys(vec![key.clone()]),
        clusterings,
        columns,
        row_filter: Vec::new(),
        limits: DataLimits { rows, ..DataLimits::NONE },
        now_s,
    }
}
