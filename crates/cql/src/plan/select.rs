//! SELECT.

use super::BoundSelect;
use crate::analysis::masks;
use crate::analysis::order::Order;
use crate::analysis::restrictions::{NEEDS_FILTERING, Restrictions, Verb};
use crate::analysis::selection::{ColumnsRead, Selected};
use crate::analysis::{Analyzer, BindInput, Expr, Receiver, Scope};
use crate::ast::{OrderByExpression, Select};
use crate::bind::{BoundValue, ColumnSpec};
use crate::error::{CqlError, Result, bail};
use crate::guardrails::Guard;
use crate::result::{Circumstances, GroupBy, Inputs, Shape};
use model::TableSchema;
use model::command::{ClusteringFilter, DataLimits, PartitionSelection, ReadCommand};
use model::schema::is_system_keyspace;
use model::types::CqlType;
use model::{ColumnKind, command};
use std::sync::Arc;

/// A SELECT with all its names resolved.
#[derive(Debug)]
pub(crate) struct SelectPlan {
    table: Arc<TableSchema>,
    restrictions: Restrictions,
    /// Whether each partition is read last to first.
    reversed: bool,
    columns_read: ColumnsRead,
    shape: Arc<Shape>,
    is_distinct: bool,
    allows_filtering: bool,
    bypasses_cache: bool,
    /// What the client is told of an aggregation of many partitions.
    warning: Option<&'static str>,
    limit: Option<Expr>,
    per_partition_limit: Option<Expr>,
}

impl SelectPlan {
    pub(crate) fn new(analyzer: &Analyzer<'_>, select: &Select) -> Result<(SelectPlan, Vec<ColumnSpec>)> {
        let table = &analyzer.table;
        // In Cassandra's order, as far as it shows in which of several mistakes is told.
        let only_static = analyzer.selects_only_static(select)?;
        let verb = Verb::Select { allow_filtering: select.allow_filtering };
        let restrictions = analyzer.restrictions(verb, &select.filter, only_static)?;
        let selected = analyzer.selection(select)?;
        if select.distinct {
            if select.per_partition_limit.is_some() {
                bail!("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries");
            }
            check_distinct(table, &selected, &restrictions)?;
            if restrictions.partition.has_in() {
                check_distinct_order(analyzer, select)?;
            }
        }
        let group_by = analyzer.group_by(select, &restrictions)?;
        let is_aggregate = !selected.aggregates.is_empty() && group_by.is_empty();
        if select.per_partition_limit.is_some() && is_aggregate {
            bail!("PER PARTITION LIMIT is not allowed with aggregate queries.");
        }
        let Order { reversed, sort } = analyzer.order(select, &restrictions)?;
        if restrictions.scans_unasked {
            bail!("{NEEDS_FILTERING}");
        }
        let per_partition_limit =
            limit(analyzer, select.per_partition_limit.as_ref(), "[per_partition_limit]")?;
        let limit = limit(analyzer, select.limit.as_ref(), "[limit]")?;
        let columns_read = ColumnsRead::of(table, &selected, &restrictions.filter);
        let warning = match &restrictions.partition {
            _ if selected.aggregates.is_empty() && group_by.is_empty() => None,
            partition if partition.is_unrestricted() => Some("Aggregation query used without partition key"),
            // Not where the token decides and IN only filters.
            partition if partition.has_in() && !(partition.is_on_token() && partition.is_range()) => {
                Some("Aggregation query used on multiple partition keys (IN restriction)")
            }
            _ => None,
        };
        let columns: Vec<ColumnSpec> = selected.columns;
        let shape = Shape {
            table: Arc::clone(table),
            columns: columns.clone(),
            outputs: selected.outputs,
            aggregates: selected.aggregates,
            group_by,
            json: selected.json,
            order: sort,
            includes_static_only: !restrictions.has_clustering && !restrictions.has_regular,
        };
        let plan = SelectPlan {
            table: Arc::clone(table),
            restrictions,
            reversed,
            columns_read,
            shape: Arc::new(shape),
            is_distinct: select.distinct,
            allows_filtering: select.allow_filtering,
            bypasses_cache: select.bypass_cache,
            warning,
            limit,
            per_partition_limit,
        };
        Ok((plan, columns))
    }

    /// The masked columns that the WHERE clause looks at.
    pub(crate) fn masked_conditions(&self) -> Vec<String> {
        masks::masked_among(&self.table, &self.restrictions.columns)
    }

    /// What guardrails say when the statement is prepared, also only to be executed once.
    pub(crate) fn guard_preparation(&self, guard: &Guard) -> Result<()> {
        if self.shape.group_by.is_empty() { Ok(()) } else { guard.group_by() }
    }

    /// What they say whenever it is executed.
    pub(crate) fn guard_execution(&self, guard: &Guard) -> Result<()> {
        let filters = self.allows_filtering && !is_system_keyspace(&self.table.keyspace);
        if filters { guard.allow_filtering() } else { Ok(()) }
    }

    /// What they say of the values.
    fn guard_values(
        &self,
        guard: &Guard,
        partitions: &PartitionSelection,
        limit: u64,
        input: &BindInput<'_>,
    ) -> Result<()> {
        let table = &self.table.name;
        if let PartitionSelection::Keys(keys) = partitions
            && self.restrictions.partition.has_in()
        {
            guard.partition_keys(table, keys.len())?;
        }
        match input.ctx.page_size {
            // What fits into a page is read without paging.
            Some(rows) if rows > 0 && (self.shape.is_grouped() || limit > u64::from(rows)) => {
                guard.page_size(table, rows)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn bind(&self, input: &BindInput<'_>) -> Result<BoundSelect> {
        let limit = bind_limit(self.limit.as_ref(), input)?;
        let per_partition = bind_limit(self.per_partition_limit.as_ref(), input)?;
        if self.shape.is_computed() {
            self.shape.precheck(&Scope { table: Some(&self.table), ..input.scope() })?;
        }
        let is_sorted = !self.shape.order.is_empty();
        if is_sorted && input.ctx.page_size.is_some() {
            bail!(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either \
                 remove the ORDER BY or the IN and sort client side, or disable paging for this query"
            );
        }
        let mut partitions = self.restrictions.partition.bind(input)?;
        if let Some(guard) = &input.ctx.guard {
            self.guard_values(guard, &partitions, limit, input)?;
        }
        let row_filter = self.restrictions.filter.bind(input)?;
        let clusterings = match self.restrictions.clustering.bind(input, self.reversed)? {
            Some(clusterings) => clusterings,
            None => {
                // IN () and the like: nothing can match, static rows included.
                partitions = PartitionSelection::Keys(Vec::new());
                ClusteringFilter::Slices { slices: Vec::new(), reversed: self.reversed }
            }
        };
        let is_grouped = self.shape.is_grouped();
        let limits = if is_grouped {
            DataLimits { distinct: self.reads_partitions_only(), ..DataLimits::NONE }
        } else if is_sorted {
            DataLimits { rows_per_partition: per_partition.min(limit), ..DataLimits::NONE }
        } else {
            DataLimits { rows: limit, rows_per_partition: per_partition, distinct: self.is_distinct }
        };
        Ok(BoundSelect {
            command: Arc::new(ReadCommand {
                table: Arc::clone(&self.table),
                partitions,
                clusterings,
                columns: self.columns_read.bind(&input.scope())?,
                row_filter,
                limits,
                now_s: input.ctx.now_s,
            }),
            is_grouped,
            is_sorted,
            bypasses_cache: self.bypasses_cache,
            warning: self.warning,
            shape: Arc::clone(&self.shape),
            with: Circumstances {
                inputs: self
                    .shape
                    .is_computed()
                    .then(|| Inputs { values: input.values.into(), uuids: Arc::clone(&input.ctx.uuids) }),
                now_micros: input.ctx.now_micros,
                limit,
                limit_per_partition: per_partition,
                unmasks: input.ctx.unmasks,
            },
        })
    }

    /// Whether DISTINCT holds although rows are grouped: only by the partition key.
    fn reads_partitions_only(&self) -> bool {
        self.is_distinct
            && self
                .shape
                .group_by
                .iter()
                .all(|by| matches!(by, GroupBy::Column(column) if column.kind == ColumnKind::PartitionKey))
    }
}

fn not_distinct(column: &str) -> CqlError {
    CqlError::invalid(format!(
        "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {column})"
    ))
}

/// The rows of several partitions are sorted by columns that would have to be requested.
fn check_distinct_order(analyzer: &Analyzer<'_>, select: &Select) -> Result<()> {
    for order in &select.order_by {
        if let OrderByExpression::Column(name) = &order.expression {
            let column = analyzer.column(name)?;
            if matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular) {
                return Err(not_distinct(&column.name));
            }
        }
    }
    Ok(())
}

fn check_distinct(table: &TableSchema, selected: &Selected, restrictions: &Restrictions) -> Result<()> {
    if restrictions.has_clustering || restrictions.has_regular {
        bail!(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns."
        );
    }
    let name = |id| table.column_by_id(id).map_or_else(String::new, |c| c.name.clone());
    let mut requested = Vec::new();
    let mut refused = None;
    selected.for_each_column(&mut |column, _| {
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Static) {
            requested.push(column.id);
        } else if refused.is_none() {
            refused = Some(name(column.id));
        }
    });
    if let Some(column) = refused {
        return Err(not_distinct(&column));
    }
    if restrictions.partition.is_range()
        && let Some(missing) = table.partition_key().iter().find(|c| !requested.contains(&c.id))
    {
        bail!(
            "SELECT DISTINCT queries must request all the partition key columns (missing {})",
            missing.name
        );
    }
    Ok(())
}

fn limit(analyzer: &Analyzer<'_>, term: Option<&crate::ast::Term>, name: &str) -> Result<Option<Expr>> {
    let Some(term) = term else { return Ok(None) };
    // Its value is looked at when the statement is executed, a constant's too.
    analyzer.term(term, &Receiver::new(name, CqlType::Int)).map(Some)
}

fn positive(bytes: &[u8]) -> Result<u64> {
    match bytes.as_array::<4>().map(|b| i32::from_be_bytes(*b)) {
        Some(limit) if limit > 0 => Ok(limit as u64),
        Some(_) => bail!("LIMIT must be strictly positive"),
        None => bail!("Invalid null value of limit"),
    }
}

fn bind_limit(expr: Option<&Expr>, input: &BindInput<'_>) -> Result<u64> {
    let Some(expr) = expr else { return Ok(u64::MAX) };
    match expr.eval(&input.scope())? {
        BoundValue::Bytes(bytes) => positive(&bytes),
        BoundValue::Null => bail!("Invalid null value of limit"),
        BoundValue::Unset => Ok(command::DataLimits::NONE.rows),
    }
}
