//! What a scan asks for, and the schema of its batches.

use crate::deletion::deletion_field;
use crate::types::field_of;
use crate::{BulkError, Cancel, Pace, Select, Split};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use model::command::{
    ClusteringFilter, ColumnSelection, DataLimits, FilterExpression, PartitionSelection, ReadCommand,
};
use model::key::KeyRange;
use model::{ColumnDef, ColumnKind, CqlType, TableSchema};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How values are given. Files of some formats have no types for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// As Arrow has them.
    #[default]
    Arrow,
    /// For JSON: uuids, blobs and durations as the text of CQL.
    Json,
    /// For CSV: as for JSON, and collections, tuples, user types and vectors as literals of CQL.
    Flat,
}

/// What becomes of a value of no bytes that is no text and no blob. CQL has such values of every type, Arrow
/// has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EmptyValues {
    /// It is null, and counted ([`crate::ScanCounts::empty_values`]).
    #[default]
    Null,
    /// It is null, and a further column `empty(name)` is true beside it.
    Marked,
    /// It ends the scan.
    Refused,
}

/// The form of the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScanOptions {
    /// How values are given.
    pub form: Form,
    /// What becomes of empty values.
    pub empty_values: EmptyValues,
    /// Whether each static and regular column is followed by `writetime(name)` in microseconds and
    /// `ttl(name)`, the seconds that are left, as the functions of CQL give them. Of a multi-cell column they
    /// are lists, with an entry for each element; of a user type, for each field that is there.
    pub cell_times: bool,
    /// Whether a column with the token of each partition comes first, named as CQL would: `token(k)`. Rows of
    /// a split ascend by it.
    pub token: bool,
    /// Whether deletions are handed out, too, as rows of their own ([`crate::deletion`]). Cells have their
    /// times then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deletions: bool,
}

/// What a scan asks for.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// Partitions, rows, filter, limits and the moment. Its columns are at least those of `columns` and of
    /// the filter.
    pub command: Arc<ReadCommand>,
    /// The columns that are handed out, in this order; any kind, none twice.
    pub columns: Vec<Arc<ColumnDef>>,
    /// Their form.
    pub options: ScanOptions,
    /// Whether scans go on behind damaged data ([`crate::Loss`]).
    pub salvages: bool,
    /// The words that it was made of, for who sends it on.
    pub words: Option<Arc<Select>>,
    /// Ends scans of it when its rows are not wanted any more.
    pub cancel: Cancel,
    /// How fast a scan of it may go; `None`: as fast as it can.
    pub pace: Option<Pace>,
}

/// What stands in a column of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The value.
    Value,
    /// Whether it was empty.
    IsEmpty,
    /// When it was written.
    WriteTime,
    /// How long it has to live.
    Ttl,
}

impl ScanRequest {
    /// All rows of a table as of `now_s`, with the named columns, or all of them.
    ///
    /// # Errors
    /// When the table has no such column, or one is named twice.
    pub fn of_table(
        table: &Arc<TableSchema>,
        columns: Option<&[String]>,
        now_s: u32,
        options: ScanOptions,
    ) -> Result<ScanRequest, BulkError> {
        let command = ReadCommand {
            table: Arc::clone(table),
            partitions: PartitionSelection::Range(KeyRange::FULL),
            clusterings: ClusteringFilter::all(),
            columns: ColumnSelection::all(table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s,
        };
        ScanRequest::of_command(command, columns, options)
    }

    /// The rows of a read command, with the named columns, or all of them. The command's own columns become
    /// those that are needed.
    ///
    /// # Errors
    /// When the table has no such column, one is named twice, rows are asked for in reverse, or deletions
    /// are asked for with what chooses among rows.
    pub fn of_command(
        mut command: ReadCommand,
        columns: Option<&[String]>,
        mut options: ScanOptions,
    ) -> Result<ScanRequest, BulkError> {
        if command.is_reversed() {
            return Err(BulkError::Request("rows come in clustering order, not in reverse".to_owned()));
        }
        let table = &command.table;
        let columns = match columns {
            None => table.select_star(),
            Some(names) => {
                let mut out: Vec<Arc<ColumnDef>> = Vec::with_capacity(names.len());
                for name in names {
                    let no_column = || format!("{}.{} has no column {name}", table.keyspace, table.name);
                    let column = table.column(name).ok_or_else(|| BulkError::Request(no_column()))?;
                    if out.iter().any(|other| other.id == column.id) {
                        return Err(BulkError::Request(format!("column {name} is asked for twice")));
                    }
                    out.push(Arc::clone(column));
                }
                out
            }
        };
        if options.deletions {
            crate::deletion::check(&command, &columns, options.form)?;
            options.cell_times = true;
        }
        let is_cell = |c: &&Arc<ColumnDef>| matches!(c.kind, ColumnKind::Static | ColumnKind::Regular);
        let filtered = command.row_filter.iter().map(|e: &FilterExpression| e.column);
        let needed = columns.iter().filter(is_cell).map(|c| c.id);
        let has_cells = |id: &model::ColumnId| table.column_by_id(*id).is_some_and(|c| is_cell(&c));
        let needed: Vec<_> = needed.chain(filtered.filter(has_cells)).collect();
        let all = table.static_columns().len() + table.regular_columns().len();
        let selection = ColumnSelection::of(needed);
        command.columns =
            if selection.columns.len() == all { ColumnSelection::all(table) } else { selection };
        Ok(ScanRequest {
            command: Arc::new(command),
            columns,
            options,
            salvages: false,
            words: None,
            cancel: Cancel::default(),
            pace: None,
        })
    }

    /// The same, of which scans go on behind damaged data, and tell what they left out.
    #[must_use]
    pub fn salvaging(self) -> ScanRequest {
        ScanRequest { salvages: true, ..self }
    }

    /// The same of partitions with tokens greater than `after` and not greater than `through`.
    pub fn within(mut self, after: i64, through: i64) -> ScanRequest {
        let split = Split { after: Some(after), through: Some(through), ..Split::FULL };
        let command = Arc::make_mut(&mut self.command);
        command.partitions = split.of(&command.partitions);
        self
    }

    /// Rows that the whole request asks for at most, if it says so.
    pub fn limit(&self) -> Option<u64> {
        Some(self.command.limits.rows).filter(|rows| *rows != u64::MAX)
    }

    /// What the columns of a batch are made of.
    pub(crate) fn outputs(&self) -> Vec<(Arc<ColumnDef>, Part)> {
        let mut out = Vec::new();
        for column in &self.columns {
            out.push((Arc::clone(column), Part::Value));
            if self.options.empty_values == EmptyValues::Marked && can_be_lost(column) {
                out.push((Arc::clone(column), Part::IsEmpty));
            }
            let is_cell = matches!(column.kind, ColumnKind::Static | ColumnKind::Regular);
            if self.options.cell_times && is_cell {
                out.push((Arc::clone(column), Part::WriteTime));
                // A counter has no TTL.
                if !self.command.table.is_counter {
                    out.push((Arc::clone(column), Part::Ttl));
                }
            }
        }
        out
    }

    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        let mut fields: Vec<FieldRef> = Vec::new();
        if self.options.token {
            fields.push(Arc::new(Field::new(self.token_name(), DataType::Int64, false)));
        }
        let outputs = self.outputs();
        fields.extend(outputs.iter().map(|(column, part)| field(column, *part, self.options.form)));
        if self.options.deletions {
            fields.push(field_of("writetime()", &CqlType::BigInt, self.options.form));
            if !self.command.table.is_counter {
                fields.push(field_of("ttl()", &CqlType::Int, self.options.form));
            }
            fields.push(deletion_field(&self.command.table, self.options.form));
        }
        Arc::new(Schema::new(fields))
    }

    /// `token(k1, k2)`.
    pub(crate) fn token_name(&self) -> String {
        let names: Vec<&str> =
            self.command.table.partition_key().iter().map(|column| column.name.as_str()).collect();
        format!("token({})", names.join(", "))
    }
}

/// Whether an empty value of the column has no place in Arrow.
fn can_be_lost(column: &ColumnDef) -> bool {
    column.ty.is_null_when_empty() && !column.is_multi_cell()
}

/// The type of write times or TTLs of a column's cells.
pub(crate) fn time_type(column: &ColumnDef, of_one: CqlType) -> CqlType {
    if column.is_multi_cell() { CqlType::list(of_one, false) } else { of_one }
}

/// The field of a part of a column.
pub(crate) fn field(column: &ColumnDef, part: Part, form: Form) -> FieldRef {
    let name = &column.name;
    match part {
        Part::Value => field_of(name, &column.ty, form),
        Part::IsEmpty => Arc::new(Field::new(format!("empty({name})"), DataType::Boolean, false)),
        Part::WriteTime => field_of(&format!("writetime({name})"), &time_type(column, CqlType::BigInt), form),
        Part::Ttl => field_of(&format!("ttl({name})"), &time_type(column, CqlType::Int), form),
    }
}
