//! Keys, clusterings and conditions in words, and as CQL where they are CQL. Every text is bounded, whatever
//! the values are.

use crate::ast::Identifier;
use bytes::Bytes;
use model::clustering::{BoundKind, Clustering, ClusteringBound, Component, Slice};
use model::command::{FilterExpression, Operator, PartitionSelection};
use model::elements::{ElementSelection, PathRange};
use model::key::{DecoratedKey, KeyBound, KeyRange};
use model::{ColumnDef, CqlType, TableSchema, multi_cell};

/// Characters of a value that are shown.
const VALUE_CHARS_MAX: usize = 64;
/// Keys, rows and slices that are shown.
const LIST_MAX: usize = 3;
/// Values of an IN that are shown.
const IN_MAX: usize = 10;

/// The first characters of a value.
fn clipped(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(VALUE_CHARS_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// A value as a constant.
pub(super) fn literal(ty: &CqlType, bytes: &[u8]) -> String {
    // What is not shown is not made into text first.
    let shown = bytes.get(..VALUE_CHARS_MAX * 4).unwrap_or(bytes);
    match ty {
        CqlType::Text | CqlType::Ascii if shown.len() < bytes.len() => {
            clipped(format!("'{}", String::from_utf8_lossy(shown)))
        }
        CqlType::Blob => clipped(ty.to_literal(Some(shown))),
        _ => clipped(ty.to_literal(Some(bytes))),
    }
}

fn value(column: &ColumnDef, bytes: &[u8]) -> String {
    literal(&column.ty, bytes)
}

/// Values in parentheses when there are several columns.
pub(super) fn tuple(values: Vec<String>, columns: usize) -> String {
    match values.as_slice() {
        [only] if columns == 1 => only.clone(),
        _ => format!("({})", values.join(", ")),
    }
}

/// The first of a list, and how many more there are.
fn listed(count: usize, items: impl Iterator<Item = String>) -> String {
    let mut text = items.take(LIST_MAX).collect::<Vec<_>>().join("; ");
    if count > LIST_MAX {
        text.push_str(&format!("; and {} more", count - LIST_MAX));
    }
    text
}

/// The first values of an IN as CQL; how many there are, if not all are shown.
pub(super) fn in_list(count: usize, items: impl Iterator<Item = String>) -> String {
    let mut text = items.take(IN_MAX).collect::<Vec<_>>().join(", ");
    if count > IN_MAX {
        text.push_str(&format!(", … {count} in all"));
    }
    format!("({text})")
}

/// The name of a column as CQL.
pub(super) fn name(column: &ColumnDef) -> String {
    Identifier::quoted(&*column.name).to_cql()
}

/// The values of the key's columns.
pub(super) fn key_values(table: &TableSchema, key: &DecoratedKey) -> Vec<String> {
    let columns = table.partition_key();
    let components = key.key.components(columns.len()).unwrap_or_default();
    columns.iter().zip(&components).map(|(column, bytes)| value(column, bytes)).collect()
}

fn key(table: &TableSchema, key: &DecoratedKey) -> String {
    tuple(key_values(table, key), table.partition_key().len())
}

/// The partitions in words: the first keys, or the range.
pub fn keys(table: &TableSchema, partitions: &PartitionSelection) -> String {
    match partitions {
        PartitionSelection::Keys(keys) => listed(keys.len(), keys.iter().map(|k| key(table, k))),
        PartitionSelection::Range(bounds) => {
            let sides = range(table, bounds, "token");
            if sides.is_empty() { "every token".to_owned() } else { sides.join(" and ") }
        }
    }
}

/// The bounds that a range has, of what is called `token`.
pub(super) fn range(table: &TableSchema, range: &KeyRange, token: &str) -> Vec<String> {
    let side = |bound: &KeyBound, (without, with): (&'static str, &'static str)| match bound {
        KeyBound::Unbounded => None,
        KeyBound::Token { token: of, inclusive } => {
            Some(format!("{token} {} {}", if *inclusive { with } else { without }, of.0))
        }
        KeyBound::Key { key: bound, inclusive } => {
            let sign = if *inclusive { with } else { without };
            Some(format!("key {sign} {} in ring order", key(table, bound)))
        }
    };
    let sides = [side(&range.start, (">", ">=")), side(&range.end, ("<", "<="))];
    sides.into_iter().flatten().collect()
}

fn clustering(table: &TableSchema, prefix: &Clustering) -> String {
    let columns = table.clustering_columns();
    let values = columns.iter().zip(prefix.iter()).map(|(column, component)| match component {
        Component::Null => "null".to_owned(),
        Component::Value(bytes) => value(column, bytes),
    });
    tuple(values.collect(), columns.len())
}

/// Rows by name.
pub(super) fn names(table: &TableSchema, names: &[Clustering]) -> String {
    listed(names.len(), names.iter().map(|name| clustering(table, name)))
}

/// Slices, in storage order.
pub(super) fn slices(table: &TableSchema, slices: &[Slice]) -> String {
    listed(slices.len(), slices.iter().map(|s| slice(table, s)))
}

fn slice(table: &TableSchema, slice: &Slice) -> String {
    if slice.start.prefix == slice.end.prefix && !slice.start.prefix.is_empty() {
        return format!("those of {}", clustering(table, &slice.start.prefix));
    }
    let side = |bound: &ClusteringBound| {
        let word = match bound.kind {
            BoundKind::InclStart => "from",
            BoundKind::ExclStart => "after",
            BoundKind::InclEnd => "up to and with",
            _ => "up to but without",
        };
        (!bound.prefix.is_empty()).then(|| format!("{word} {}", clustering(table, &bound.prefix)))
    };
    match (side(&slice.start), side(&slice.end)) {
        (None, None) => "all".to_owned(),
        (Some(side), None) => format!("{side} to the last"),
        (None, Some(side)) => format!("from the first {side}"),
        (Some(start), Some(end)) => format!("{start} {end}"),
    }
}

/// Some elements of a multi-cell column.
pub(super) fn elements(column: &ColumnDef, elements: &ElementSelection) -> String {
    let (name, ranges) = (&column.name, elements.ranges());
    let end = |path: &Option<Bytes>| {
        path.as_ref().map_or_else(String::new, |path| literal(elements.path_type(), path))
    };
    let field = |path: &Bytes| match &column.ty {
        CqlType::Udt { definition, .. } => definition.fields.get(multi_cell::field_of_path(path)?),
        _ => None,
    };
    let range = |PathRange { from, to }: &PathRange| match from.as_ref().and_then(field) {
        Some((field, _)) => format!("{name}.{field}"),
        None if from == to && from.is_some() => format!("{name}[{}]", end(from)),
        None => format!("{name}[{}..{}]", end(from), end(to)),
    };
    let shown = ranges.iter().take(LIST_MAX).map(range).collect::<Vec<_>>().join(", ");
    match ranges.len() {
        0 => format!("no element of {name}"),
        count if count > LIST_MAX => format!("{shown} and {} more of {name}", count - LIST_MAX),
        _ => shown,
    }
}

/// A condition.
pub(super) fn condition(column: &ColumnDef, condition: &FilterExpression) -> String {
    let (keys, values) = match &column.ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => (None, Some(element.as_ref())),
        CqlType::Map { key, value, .. } => (Some(key.as_ref()), Some(value.as_ref())),
        _ => (None, None),
    };
    let of = |ty: Option<&CqlType>| {
        let ty = ty.unwrap_or(&column.ty);
        listed(condition.values.len(), condition.values.iter().map(|bytes| literal(ty, bytes)))
    };
    let name = name(column);
    let compare = |sign: &str| match &condition.map_key {
        Some(key) => {
            format!("{name}[{}] {sign} {}", literal(keys.unwrap_or(&column.ty), key), of(values))
        }
        None => format!("{name} {sign} {}", of(None)),
    };
    match condition.operator {
        Operator::Eq => compare("="),
        Operator::NotEq => compare("!="),
        Operator::Lt => compare("<"),
        Operator::LtEq => compare("<="),
        Operator::Gt => compare(">"),
        Operator::GtEq => compare(">="),
        Operator::In => {
            let values = condition.values.iter().map(|bytes| literal(&column.ty, bytes));
            format!("{name} IN {}", in_list(condition.values.len(), values))
        }
        Operator::Contains => format!("{name} CONTAINS {}", of(values)),
        Operator::ContainsKey => format!("{name} CONTAINS KEY {}", of(keys)),
    }
}
