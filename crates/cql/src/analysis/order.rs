//! ORDER BY.

use super::context::Analyzer;
use super::restrictions::Restrictions;
use crate::ast::{OrderByExpression, Select};
use crate::error::{Result, bail};
use crate::result::ColumnRef;
use model::ColumnKind;

/// What ORDER BY asks for.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Whether each partition is read last to first.
    pub(crate) reversed: bool,
    /// For several partitions: the columns to sort by, each with whether it is descending.
    pub(crate) sort: Vec<(ColumnRef, bool)>,
}

impl Analyzer<'_> {
    pub(crate) fn order(&self, select: &Select, restrictions: &Restrictions) -> Result<Order> {
        const DECLARED: &str = "Order by currently only supports the ordering of columns following their declared order in the \
             PRIMARY KEY";
        if select.order_by.is_empty() {
            return Ok(Order::default());
        }
        let mut columns = Vec::with_capacity(select.order_by.len());
        for order in &select.order_by {
            match &order.expression {
                OrderByExpression::Column(name) => {
                    let column = self.column(name)?;
                    // Of a column that stands twice the last direction counts, at the first place.
                    match columns.iter_mut().find(|(known, _)| *known == column) {
                        Some((_, descending)) => *descending = order.descending,
                        None => columns.push((column, order.descending)),
                    }
                }
                OrderByExpression::Ann { column, .. } => {
                    self.column(column)?;
                    bail!("ANN ordering by vector requires the column to be indexed")
                }
            }
        }
        if restrictions.partition.is_range() {
            bail!("ORDER BY is only supported when the partition key is restricted by an EQ or an IN.");
        }
        let fixed = restrictions.clustering.fixed();
        let mut next = 0;
        let mut reversed = None;
        for (column, descending) in &columns {
            if column.kind != ColumnKind::Clustering {
                bail!(
                    "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {}",
                    column.name
                );
            }
            while next != column.position {
                if !fixed.contains(&next) || next > column.position {
                    bail!("{DECLARED}");
                }
                next += 1;
            }
            next += 1;
            let against_storage = *descending != column.descending;
            if *reversed.get_or_insert(against_storage) != against_storage {
                bail!("Unsupported order by relation");
            }
        }
        let sort = if restrictions.partition.has_in() {
            columns.iter().map(|(column, descending)| (ColumnRef::of(column), *descending)).collect()
        } else {
            Vec::new()
        };
        Ok(Order { reversed: reversed.unwrap_or(false), sort })
    }
}
