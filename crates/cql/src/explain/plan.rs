//! The steps that a bound SELECT consists of, before anything is read.

use super::{Step, text};
use crate::plan::BoundSelect;
use crate::result::GroupBy;
use model::command::{ClusteringFilter, PartitionSelection, ReadCommand};
use model::{ColumnDef, TableSchema};

/// Columns that are named.
const COLUMNS_MAX: usize = 8;

/// The plan of a read whose pages have at most `page_rows` rows.
pub fn plan(select: &BoundSelect, page_rows: Option<u32>) -> Vec<Step> {
    let command = select.command.as_ref();
    let table = command.table.as_ref();
    let mut steps =
        vec![Step::new("read", format!("{}.{}", table.keyspace, table.name), access(&command.partitions))];
    if matches!(&command.partitions, PartitionSelection::Keys(keys) if keys.is_empty()) {
        return steps;
    }
    let key = names(table.partition_key().iter());
    steps.push(Step::new("partition", key, text::keys(table, &command.partitions)));
    if !table.visible_clustering().is_empty() {
        let detail = rows(table, &command.clusterings);
        steps.push(Step::new("rows", names(table.visible_clustering().iter()), detail));
    }
    steps.push(columns(command));
    for condition in &command.row_filter {
        let Some(column) = table.column_by_id(condition.column) else { continue };
        let detail = format!("{}, checked on each row after it was read", text::condition(column, condition));
        steps.push(Step::new("filter", column.name.clone(), detail));
    }
    steps.push(order(select));
    steps.extend(group(select));
    steps.extend(limit(select));
    steps.push(page(select, page_rows));
    if select.bypasses_cache {
        steps.push(Step::new("cache", "", "bypassed: what is loaded does not stay"));
    }
    steps
}

fn access(partitions: &PartitionSelection) -> String {
    match partitions {
        PartitionSelection::Keys(keys) => match keys.len() {
            0 => "nothing: no row can match".to_owned(),
            1 => "one partition, by its key".to_owned(),
            count => format!("{count} partitions, by their keys, one after the other"),
        },
        PartitionSelection::Range(range) if *range == model::key::KeyRange::FULL => {
            "every partition, in ring order".to_owned()
        }
        PartitionSelection::Range(_) => "the partitions of a range, in ring order".to_owned(),
    }
}

fn names<'c>(columns: impl ExactSizeIterator<Item = &'c std::sync::Arc<ColumnDef>>) -> String {
    let count = columns.len();
    and_more(columns.take(COLUMNS_MAX).map(|c| c.name.as_str()).collect::<Vec<_>>().join(", "), count)
}

/// The names of the first of so many columns, and how many more there are.
fn and_more(mut names: String, count: usize) -> String {
    if count > COLUMNS_MAX {
        names.push_str(&format!(" and {} more", count - COLUMNS_MAX));
    }
    names
}

fn rows(table: &TableSchema, filter: &ClusteringFilter) -> String {
    match filter {
        ClusteringFilter::Names { names, .. } if names.is_empty() => "none: only what is static".to_owned(),
        ClusteringFilter::Names { names, .. } => {
            format!("{} by name: {}", names.len(), text::names(table, names))
        }
        _ if filter.is_all() => "all of each partition".to_owned(),
        ClusteringFilter::Slices { slices, .. } if slices.is_empty() => "none".to_owned(),
        ClusteringFilter::Slices { slices, .. } => {
            let noun = if slices.len() == 1 { "slice" } else { "slices" };
            format!("{} {noun}: {}", slices.len(), text::slices(table, slices))
        }
    }
}

fn columns(command: &ReadCommand) -> Step {
    let table = command.table.as_ref();
    let cells = table.static_columns().iter().chain(table.regular_columns());
    let shown: Vec<_> = cells.filter(|c| !table.is_hidden(c)).collect();
    let all = shown.len();
    let wanted: Vec<_> = shown.into_iter().filter(|c| command.columns.contains(c.id)).collect();
    let others = match command.columns.elements {
        Some(_) => "the others, and of other elements,",
        None => "the others",
    };
    let detail = match (wanted.len(), all) {
        (_, 0) => "the table has none besides the key".to_owned(),
        (count, all) if count == all && command.columns.elements.is_some() => {
            format!("all {all}: values of other elements are stepped over")
        }
        (count, all) if count == all => format!("all {all}"),
        (0, all) => format!("none of {all}: their values are stepped over"),
        (count, all) => format!("{count} of {all}: values of {others} are stepped over"),
    };
    let shown = |column: &ColumnDef| match command.columns.elements_of(column.id) {
        Some(elements) => text::elements(column, elements),
        None => column.name.clone(),
    };
    let target = wanted.iter().take(COLUMNS_MAX).map(|column| shown(column)).collect::<Vec<_>>().join(", ");
    Step::new("columns", and_more(target, wanted.len()), detail)
}

fn order(select: &BoundSelect) -> Step {
    let table = select.command.table.as_ref();
    if !select.shape.order.is_empty() {
        let by = select.shape.order.iter().filter_map(|(column, descending)| {
            let name = &table.column_by_id(column.id)?.name;
            Some(if *descending { format!("{name} descending") } else { name.clone() })
        });
        let by = by.collect::<Vec<_>>().join(", ");
        return Step::new("order", by, "sorted in memory after all rows were read");
    }
    let detail = match select.command.is_reversed() {
        true => "as stored, last to first",
        false => "as stored",
    };
    Step::new("order", names(table.visible_clustering().iter()), detail)
}

fn group(select: &BoundSelect) -> Option<Step> {
    if !select.is_grouped {
        return None;
    }
    let table = select.command.table.as_ref();
    let by = select.shape.group_by.iter().map(|by| match by {
        GroupBy::Column(column) => table.column_by_id(column.id).map_or("", |c| c.name.as_str()),
        GroupBy::Expr(_) => "a function of the last clustering column",
    });
    let by = by.collect::<Vec<_>>().join(", ");
    Some(match by.is_empty() {
        true => Step::new("group", "", "one row of all rows that are read"),
        false => Step::new("group", by, "one row of each group of neighbours"),
    })
}

fn limit(select: &BoundSelect) -> Option<Step> {
    let with = &select.with;
    let mut parts = Vec::new();
    let of_what = if select.is_grouped { " of the result" } else { "" };
    if with.limit != u64::MAX {
        parts.push(format!("{}{of_what}", counted(with.limit)));
    }
    if with.limit_per_partition != u64::MAX {
        parts.push(format!("{}{of_what} of each partition", counted(with.limit_per_partition)));
    }
    if select.command.limits.distinct {
        parts.push("one row of each partition".to_owned());
    }
    (!parts.is_empty()).then(|| Step::new("limit", "", format!("at most {}", parts.join(", "))))
}

/// So many rows.
fn counted(rows: u64) -> String {
    format!("{rows} {}", if rows == 1 { "row" } else { "rows" })
}

fn page(select: &BoundSelect, page_rows: Option<u32>) -> Step {
    let detail = match page_rows {
        None => "not paged: one answer".to_owned(),
        Some(_) if select.is_grouped && !select.has_groups() => "one answer".to_owned(),
        Some(rows) => format!("at most {}, as the client asked", counted(rows.into())),
    };
    Step::new("page", "", detail)
}
