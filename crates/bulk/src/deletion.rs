//! Deletions as rows: the column `deletion()` (docs/formats/arrow.md).
//!
//! ```text
//! deletion() := null                                   a row that is live
//!             | { kind, timestamp, local_deletion_time, column, element, start, end }
//! start, end := null (open) | { values, length, inclusive }
//! ```
//! A row that is live looks as it does without deletions. Each deletion is a row of its own, with the columns
//! of the partition key, those of the clustering where it is about one row, and no value.
//!
//! What a TTL has ended is a deletion, as it is for Cassandra: of a cell, an element, or what INSERT wrote of
//! a row.

use crate::BulkError;
use crate::request::Form;
use crate::types::field_of;
use arrow_schema::FieldRef;
use bytes::Bytes;
use model::command::ReadCommand;
use model::types::UserType;
use model::types::collection::encode_tuple;
use model::{BoundKind, Cell, ClusteringBound, ColumnDef, CqlType, Deletion, Liveness, TableSchema};
use std::sync::Arc;

/// The name of the column.
pub const DELETION: &str = "deletion()";

/// What is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A partition.
    Partition,
    /// Rows between two bounds.
    Range,
    /// A row.
    Row,
    /// What INSERT wrote of a row: it has expired, and older INSERTs do not count any more.
    Marker,
    /// All elements of a column whose elements are cells of their own.
    Collection,
    /// The value of a column.
    Cell,
    /// One element of a collection, or a field of a user type.
    Element,
}

impl Kind {
    /// Its name in the column.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Partition => "partition",
            Kind::Range => "range",
            Kind::Row => "row",
            Kind::Marker => "marker",
            Kind::Collection => "collection",
            Kind::Cell => "cell",
            Kind::Element => "element",
        }
    }
}

fn made_up(name: &str, fields: Vec<(String, CqlType)>) -> CqlType {
    let definition = UserType { keyspace: String::new(), name: name.to_owned(), fields };
    CqlType::Udt { definition: Arc::new(definition), multi_cell: false }
}

/// The type of the column, as a user type that no keyspace has. Only tables with clustering columns have
/// bounds.
pub(crate) fn deletion_type(table: &TableSchema) -> CqlType {
    let field = |name: &str, ty: CqlType| (name.to_owned(), ty);
    let mut fields = vec![
        field("kind", CqlType::Text),
        field("timestamp", CqlType::BigInt),
        field("local_deletion_time", CqlType::BigInt),
        field("column", CqlType::Text),
        field("element", CqlType::Text),
    ];
    let clusterings = table.visible_clustering();
    if !clusterings.is_empty() {
        let values = clusterings.iter().map(|c| (c.name.clone(), c.ty.clone())).collect();
        let bound = made_up(
            "bound",
            vec![
                field("values", made_up("values", values)),
                field("length", CqlType::Int),
                field("inclusive", CqlType::Boolean),
            ],
        );
        fields.push(field("start", bound.clone()));
        fields.push(field("end", bound));
    }
    made_up("deletion", fields)
}

/// The field of the column.
pub(crate) fn deletion_field(table: &TableSchema, form: Form) -> FieldRef {
    field_of(DELETION, &deletion_type(table), form)
}

/// Refuses requests that deletions make no sense with.
pub(crate) fn check(command: &ReadCommand, columns: &[Arc<ColumnDef>], form: Form) -> Result<(), BulkError> {
    let refuse = |text: &str| Err(BulkError::Request(text.to_owned()));
    let limits = &command.limits;
    // Of a table whose rows are static ones for the engine, the others are not asked for.
    let is_whole = command.clusterings.is_all() || command.table.is_static_compact();
    if !command.row_filter.is_empty() || !is_whole {
        return refuse(
            "deletions are handed out of whole tables and token ranges: conditions choose among rows, and \
             nobody could tell what they leave out of deletions",
        );
    }
    if limits.rows != u64::MAX || limits.rows_per_partition != u64::MAX || limits.distinct {
        return refuse(
            "deletions are not handed out with a limit of rows: what lies behind it would be lost",
        );
    }
    let table = &command.table;
    let mut keys = table.partition_key().iter().chain(table.visible_clustering());
    if let Some(missing) = keys.find(|key| columns.iter().all(|column| column.id != key.id)) {
        return Err(BulkError::Request(format!(
            "deletions name what they delete by its key: column {} has to be asked for, too",
            missing.name
        )));
    }
    match form {
        Form::Flat => refuse("CSV has no place for the bounds of deletions; take parquet, arrow or json"),
        Form::Arrow | Form::Json => Ok(()),
    }
}

/// What a deletion is of, besides the key.
#[derive(Debug, Default)]
pub(crate) struct Target<'a> {
    pub column: Option<&'a ColumnDef>,
    pub element: Option<String>,
    /// Of a range, from and to a change in it.
    pub bounds: Option<(&'a ClusteringBound, &'a ClusteringBound)>,
}

/// A value of the column.
pub(crate) fn encode(kind: Kind, deletion: Deletion, of: &Target<'_>, table: &TableSchema) -> Bytes {
    let text = |text: &str| Some(Bytes::copy_from_slice(text.as_bytes()));
    let number = |number: i64| Some(Bytes::copy_from_slice(&number.to_be_bytes()));
    let mut fields = vec![
        text(kind.name()),
        number(deletion.timestamp),
        number(i64::from(deletion.local_deletion_time)),
        of.column.and_then(|column| text(&column.name)),
        of.element.as_deref().and_then(text),
    ];
    if let Some((start, end)) = of.bounds {
        fields.push(bound(start, BoundKind::InclStart, table));
        fields.push(bound(end, BoundKind::ExclStart, table));
    }
    encode_tuple(fields)
}

/// One end of a range. A change lies before all rows of its prefix, or behind them: `inclusive_side` is the
/// side on which the range has them.
fn bound(at: &ClusteringBound, inclusive_side: BoundKind, table: &TableSchema) -> Option<Bytes> {
    if at.prefix.is_empty() {
        return None;
    }
    let columns = table.visible_clustering().len();
    let values = (0..columns).map(|i| at.prefix.value(i).map(Bytes::copy_from_slice));
    let length = i32::try_from(at.prefix.len()).unwrap_or(i32::MAX);
    let fields = [
        Some(encode_tuple(values)),
        Some(Bytes::copy_from_slice(&length.to_be_bytes())),
        Some(Bytes::copy_from_slice(&[u8::from(at.kind == inclusive_side)])),
    ];
    Some(encode_tuple(fields))
}

/// The element of a column that a cell is, as CQL shows it: the key of a map, the element of a set, the time
/// uuid of a list, the name of a field.
pub(crate) fn element_of(column: &ColumnDef, path: &[u8]) -> Result<String, BulkError> {
    let wrong = |detail: String| BulkError::Value { column: column.name.clone(), detail };
    if let CqlType::Udt { definition, .. } = &column.ty {
        let index = path.as_array().map(|index| usize::from(u16::from_be_bytes(*index)));
        let field = index.and_then(|index| definition.fields.get(index));
        return match field {
            Some((name, _)) => Ok(name.clone()),
            None => Err(wrong(format!("{} bytes that name no field", path.len()))),
        };
    }
    let ty = column.ty.path_type().unwrap_or(CqlType::Blob);
    ty.validate(path).map_err(|error| wrong(error.to_string()))?;
    Ok(ty.to_literal(Some(path)))
}

/// The deletion that a cell is which is not live.
pub(crate) fn of_cell(cell: &Cell) -> Deletion {
    Deletion::new(cell.timestamp, began(cell.local_deletion_time, cell.ttl))
}

/// The deletion that an INSERT is which has expired.
pub(crate) fn of_marker(liveness: &Liveness) -> Deletion {
    Deletion::new(liveness.timestamp, began(liveness.local_expiration_time, liveness.ttl))
}

/// When something was written that a TTL has ended, as a compaction counts its age; of a tombstone, when it
/// was made.
fn began(ends_s: u32, ttl: i32) -> u32 {
    match ttl {
        i32::MAX => ends_s,
        ttl => ends_s.saturating_sub(u32::try_from(ttl).unwrap_or(0)),
    }
}
