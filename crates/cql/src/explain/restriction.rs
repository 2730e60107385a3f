//! What a bound SELECT asks for, as CQL with its values: for lists of reads that were carried out, where the
//! statement alone has bind markers.
//!
//! It is made from the command, not from the statement. So it may spell the same thing in another way: `k IN
//! (1)` is `k = 1`. Rows that take several slices stand with an OR between them, which CQL does not have.

use super::text::{condition, in_list, key_values, literal, name, range, tuple};
use model::clustering::{BoundKind, Clustering, Component, Slice};
use model::command::{ClusteringFilter, PartitionSelection, ReadCommand};
use model::key::DecoratedKey;
use model::{ColumnDef, TableSchema};
use std::sync::Arc;

/// Bytes of the whole text.
const BYTES_MAX: usize = 1_024;
/// Where a text was cut.
const CUT: char = '…';
/// Slices that are told, each in part where it is long.
const SLICES_MAX: usize = 3;

/// The conditions on partitions, rows and columns, and the limits, with their values; cut where it is long.
/// Empty for a read of everything.
pub fn restriction(command: &ReadCommand) -> String {
    let table = command.table.as_ref();
    let mut terms = Vec::new();
    match &command.partitions {
        PartitionSelection::Keys(keys) => terms.extend(of_keys(table, keys)),
        PartitionSelection::Range(bounds) => {
            let token = format!("token({})", names(table.partition_key()));
            terms.extend(range(table, bounds, &token));
        }
    }
    match &command.clusterings {
        ClusteringFilter::Names { names, .. } => terms.extend(of_names(table, names)),
        ClusteringFilter::Slices { slices, .. } => terms.extend(of_slices(table, slices)),
    }
    let mut text = String::new();
    let add = |text: &mut String, between: &str, term: &str| {
        if !text.is_empty() {
            text.push_str(between);
        }
        text.push_str(term);
    };
    terms.iter().for_each(|term| add(&mut text, " AND ", term));
    for filter in &command.row_filter {
        let Some(column) = table.column_by_id(filter.column) else { continue };
        if text.len() > BYTES_MAX {
            break;
        }
        add(&mut text, " AND ", &condition(column, filter));
    }
    let limits = &command.limits;
    for (word, limit) in [("PER PARTITION LIMIT", limits.rows_per_partition), ("LIMIT", limits.rows)] {
        if limit != u64::MAX {
            add(&mut text, " ", &format!("{word} {limit}"));
        }
    }
    cut(text)
}

fn cut(mut text: String) -> String {
    if text.len() > BYTES_MAX {
        let mut end = BYTES_MAX - CUT.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push(CUT);
    }
    text
}

fn names(columns: &[Arc<ColumnDef>]) -> String {
    columns.iter().map(|column| name(column)).collect::<Vec<_>>().join(", ")
}

/// Several columns stand in parentheses.
fn name_of(columns: &[Arc<ColumnDef>]) -> String {
    if columns.len() == 1 { names(columns) } else { format!("({})", names(columns)) }
}

fn equal(columns: &[Arc<ColumnDef>], values: Vec<String>) -> Vec<String> {
    columns.iter().zip(values).map(|(column, value)| format!("{} = {value}", name(column))).collect()
}

fn of_keys(table: &TableSchema, keys: &[DecoratedKey]) -> Vec<String> {
    let columns = table.partition_key();
    match keys {
        [only] => equal(columns, key_values(table, only)),
        several => {
            let shown = several.iter().map(|key| tuple(key_values(table, key), columns.len()));
            vec![format!("{} IN {}", name_of(columns), in_list(several.len(), shown))]
        }
    }
}

fn values_of(columns: &[Arc<ColumnDef>], prefix: &Clustering, skip: usize) -> Vec<String> {
    let component = |(column, component): (&Arc<ColumnDef>, Component<'_>)| match component {
        Component::Null => "null".to_owned(),
        Component::Value(bytes) => literal(&column.ty, bytes),
    };
    columns.iter().zip(prefix.iter()).skip(skip).map(component).collect()
}

fn of_names(table: &TableSchema, names: &[Clustering]) -> Vec<String> {
    let columns = table.clustering_columns();
    match names {
        // Only what is static.
        [] => Vec::new(),
        [only] => equal(columns, values_of(columns, only, 0)),
        several => {
            let shown = several.iter().map(|name| tuple(values_of(columns, name, 0), columns.len()));
            vec![format!("{} IN {}", name_of(columns), in_list(several.len(), shown))]
        }
    }
}

fn of_slices(table: &TableSchema, slices: &[Slice]) -> Vec<String> {
    match slices {
        [only] => of_slice(table, only),
        several => {
            let shown = several.iter().take(SLICES_MAX).map(|slice| of_slice(table, slice).join(" AND "));
            let mut text = shown.collect::<Vec<_>>().join(" OR ");
            if several.len() > SLICES_MAX {
                text.push_str(&format!(" OR … {} slices in all", several.len()));
            }
            if several.is_empty() { Vec::new() } else { vec![format!("({text})")] }
        }
    }
}

/// The values that start and end have in common, then how far each goes besides.
fn of_slice(table: &TableSchema, slice: &Slice) -> Vec<String> {
    let columns = table.clustering_columns();
    let (start, end) = (&slice.start.prefix, &slice.end.prefix);
    let common = start.iter().zip(end.iter()).take_while(|(a, b)| a == b).count();
    let mut terms = equal(columns, values_of(columns, &start.prefix(common), 0));
    for bound in [&slice.start, &slice.end] {
        let (is_inclusive, is_start) = match bound.kind {
            BoundKind::InclStart => (true, true),
            BoundKind::ExclStart => (false, true),
            BoundKind::InclEnd => (true, false),
            _ => (false, false),
        };
        let of = columns.get(common..bound.prefix.len()).unwrap_or_default();
        let Some(first) = of.first() else { continue };
        let is_lower = is_start != first.descending;
        let sign = match (is_lower, is_inclusive) {
            (true, true) => ">=",
            (true, false) => ">",
            (false, true) => "<=",
            (false, false) => "<",
        };
        // Of columns with different orders the sign is that of the first one.
        let mixed = if of.iter().any(|c| c.descending != first.descending) { " as stored" } else { "" };
        let values = tuple(values_of(columns, &bound.prefix, common), of.len());
        terms.push(format!("{} {sign} {values}{mixed}", name_of(of)));
    }
    terms
}
