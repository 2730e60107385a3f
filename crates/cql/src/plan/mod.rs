//! Plans: a statement in which everything is looked up, and what an execution makes of it.
//!
//! ```text
//! text ── parser ──> ParsedStatement ── prepare ──> Prepared ── bind ──> Bound ──> read commands, mutations
//!                                       (schema)                (values, clock)
//! ```
//! A [`Prepared`] holds the definitions of the tables that it was made for, so binding it looks up no name.
//! It is stale as soon as one of [`Prepared::tables`] or its keyspace changes; whoever keeps it must drop it
//! then.
//!
//! Statements that change the schema or describe it pass through as trees ([`Bound::Schema`],
//! [`Bound::Describe`]): they have no markers, and their effect depends on the schema at execution. So do
//! statements about roles and permissions ([`Bound::Role`], `roles`).

mod batch;
mod bound;
mod cas;
mod change;
mod compact;
mod json_insert;
mod prepare;
pub mod roles;
mod select;
#[cfg(test)]
pub(crate) mod tests;
mod weight;
mod write;

pub use crate::analysis::product::BatchProduct;
pub use batch::BoundBatch;
pub(crate) use bound::OwnedResultRow;
pub use bound::{Bound, BoundExplain, BoundSelect, RowsRead};
pub use cas::{CasOutcome, CasPlan};
pub(crate) use change::Change;
pub use prepare::prepare;
pub use write::BoundWrite;

use crate::analysis::BindInput;
use crate::ast;
use crate::bind::{BindContext, BoundValues, ColumnSpec};
use crate::error::{Result, bail};
use crate::guardrails::Guard;
use std::sync::Arc;
use uuid::Uuid;

/// What kind of statement a plan is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum StatementKind {
    Select,
    Insert,
    Update,
    Delete,
    Batch,
    Truncate,
    Use,
    Schema,
    Role,
    Describe,
    Explain,
}

/// A table that a plan was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRef {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Id of the table: a table that was dropped and created anew is another one.
    pub id: Uuid,
}

/// A statement, ready to be executed with values.
#[derive(Debug)]
pub struct Prepared {
    /// What kind of statement.
    pub kind: StatementKind,
    /// The bind markers, in order.
    pub bind_variables: Vec<ColumnSpec>,
    /// For each column of the partition key the index of its marker; empty when any is not given by a marker.
    pub partition_key_binds: Vec<u16>,
    /// The columns of the result; empty when there is none, and for conditional writes, whose columns depend
    /// on the outcome.
    pub result_columns: Vec<ColumnSpec>,
    /// The tables.
    pub tables: Vec<TableRef>,
    /// Whether every table is named with its keyspace, so the plan holds whatever keyspace is in use. USE,
    /// DESCRIBE and changes of the schema never are, as in Cassandra.
    pub is_qualified: bool,
    /// Whether the statement has IF conditions.
    pub is_conditional: bool,
    /// Masked columns that WHERE of a read or IF of a write look at. Who sees only their masks would learn
    /// their values from the answers.
    pub masked_conditions: Vec<String>,
    /// Whether its rows are of a table with masks, so that [`BindContext::unmasks`] makes a difference.
    pub has_masks: bool,
    pub(crate) plan: Plan,
}

/// The plan proper.
#[derive(Debug)]
pub(crate) enum Plan {
    Select(Box<select::SelectPlan>),
    Write(Box<write::WritePlan>),
    Batch(Box<batch::BatchPlan>),
    Truncate(Arc<model::TableSchema>),
    Use(String),
    Schema(Arc<ast::Statement>),
    Role(Arc<ast::Statement>),
    Describe(Arc<ast::Describe>),
    Explain { analyze: bool, select: Box<select::SelectPlan> },
}

impl Prepared {
    /// Whether executing the statement gives rows. Conditional writes do, though their columns are not known
    /// before.
    pub fn returns_rows(&self) -> bool {
        !self.result_columns.is_empty() || self.is_conditional || self.kind == StatementKind::Describe
    }

    /// The tree of a statement that changes the schema; `None` for others.
    pub fn schema_change(&self) -> Option<&Arc<ast::Statement>> {
        match &self.plan {
            Plan::Schema(statement) => Some(statement),
            _ => None,
        }
    }

    /// The tree of a statement about roles; `None` for others.
    pub fn about_roles(&self) -> Option<&Arc<ast::Statement>> {
        match &self.plan {
            Plan::Role(statement) => Some(statement),
            _ => None,
        }
    }

    /// The keyspace that USE names; `None` for other statements.
    pub fn used_keyspace(&self) -> Option<&str> {
        match &self.plan {
            Plan::Use(keyspace) => Some(keyspace),
            _ => None,
        }
    }

    /// Judges by guardrails what a statement is made of, once, when it is prepared.
    ///
    /// # Errors
    /// What they do not allow.
    pub fn guard_preparation(&self, guard: &Guard) -> Result<()> {
        match &self.plan {
            Plan::Select(select) | Plan::Explain { select, .. } => select.guard_preparation(guard),
            _ => Ok(()),
        }
    }

    /// Judges by guardrails whoever prepares or executes it, as far as that goes without values.
    ///
    /// # Errors
    /// What they do not allow.
    pub fn guard_execution(&self, guard: &Guard) -> Result<()> {
        match &self.plan {
            Plan::Select(select) | Plan::Explain { select, .. } => select.guard_execution(guard),
            Plan::Write(write) => write.guard_execution(guard),
            Plan::Batch(batch) => batch.writes.iter().try_for_each(|write| write.guard_execution(guard)),
            Plan::Truncate(_) => guard.drop_or_truncate(),
            _ => Ok(()),
        }
    }

    /// Puts values into a write that is part of a batch.
    pub fn bind_in_batch(&self, values: &BoundValues, ctx: &BindContext) -> Result<BoundWrite> {
        let Plan::Write(plan) = &self.plan else {
            bail!("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.");
        };
        let values = values.in_order(&self.bind_variables)?;
        plan.bind(&BindInput { values: &values, ctx })
    }

    /// Puts values into the plan.
    pub fn bind(&self, values: &BoundValues, ctx: &BindContext) -> Result<Bound> {
        let values = values.in_order(&self.bind_variables)?;
        let input = BindInput { values: &values, ctx };
        Ok(match &self.plan {
            Plan::Select(plan) => Bound::Select(Box::new(plan.bind(&input)?)),
            Plan::Explain { analyze, select } => {
                Bound::Explain(Box::new(BoundExplain { analyze: *analyze, select: select.bind(&input)? }))
            }
            Plan::Write(plan) => {
                let write = plan.bind(&input)?;
                if write.is_conditional() {
                    Bound::Cas(Box::new(CasPlan::new(vec![write], false)?))
                } else {
                    Bound::Write(Box::new(write))
                }
            }
            Plan::Batch(plan) => plan.bind(&input)?,
            Plan::Truncate(table) => Bound::Truncate(Arc::clone(table)),
            Plan::Use(keyspace) => Bound::Use(keyspace.clone()),
            Plan::Schema(statement) => Bound::Schema(Arc::clone(statement)),
            Plan::Role(statement) => Bound::Role(Arc::clone(statement)),
            Plan::Describe(describe) => Bound::Describe(Arc::clone(describe)),
        })
    }
}
