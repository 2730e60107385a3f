//! What becomes of a statement and its values, whether it came as text or was prepared.

use std::pin::pin;
use std::sync::Arc;

use coordinator::trace::within;
use cql::ast;
use cql::bind::BoundValues;
use cql::plan::{Bound, BoundBatch, BoundExplain, BoundWrite, CasPlan};
use model::TableSchema;
use protocol::response::error::ErrorResponse;
use protocol::response::{Response, ResultBody};

use super::options::Options;
use super::statements::Statement;
use super::{Answer, Exchange, Progress, describe, explain, principal, schema, select, write};
use crate::running::RunningRequest;

/// What a result says about its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metadata {
    /// All.
    Full,
    /// Nothing: the client knows them.
    Skip,
    /// All, and that what the client knows is outdated.
    Changed,
}

/// What is left of a statement whose values are bound.
pub(super) enum Work {
    /// To read on a thread that may wait.
    Read(Box<select::Read>),
    Explain(Arc<Statement>, Box<BoundExplain>, Options),
    Write(Box<BoundWrite>, Options),
    Batch(Box<BoundBatch>, Options),
    Conditional(Box<CasPlan>, Options),
    Truncate(Arc<TableSchema>),
    /// With the keyspace of unqualified names.
    Schema(Arc<ast::Statement>, Option<Arc<str>>),
    /// The same of a statement about roles.
    Role(Arc<ast::Statement>, Option<Arc<str>>),
}

impl Work {
    /// Does it, listed as what `describe` says from when it waits first.
    pub(super) async fn watched(
        self,
        exchange: &mut Exchange,
        describe: impl Fn() -> RunningRequest,
    ) -> Result<Answer, ErrorResponse> {
        let (running, trace) = (Arc::clone(&exchange.sessions.node.running), exchange.trace_session());
        // What takes it by value would make room for it several times.
        let work = pin!(self.run(exchange));
        match trace {
            None => running.watch(describe, work).await,
            Some(trace) => running.watch(describe, within(trace, work)).await,
        }
    }

    /// A future is as long as the longest of what it may wait for, and is copied when it is made. So only
    /// what most writes are made of stands in it; the rest has a box of its own.
    async fn run(self, exchange: &mut Exchange) -> Result<Answer, ErrorResponse> {
        match self {
            Work::Write(bound, options) => write::single(exchange, &bound, &options).await,
            Work::Read(read) => Box::pin(select::on_reader(exchange, *read)).await,
            Work::Explain(statement, bound, options) => {
                Box::pin(explain::run(exchange, &statement, *bound, options)).await
            }
            Work::Batch(bound, options) => Box::pin(write::batch(exchange, *bound, &options)).await,
            Work::Conditional(plan, options) => Box::pin(write::conditional(exchange, *plan, &options)).await,
            Work::Truncate(table) => Box::pin(write::truncate(exchange, table)).await,
            Work::Schema(tree, keyspace) => {
                Box::pin(schema::change(exchange, &tree, keyspace.as_deref())).await
            }
            Work::Role(tree, keyspace) => {
                Box::pin(principal::about_roles(exchange, &tree, keyspace.as_deref())).await
            }
        }
    }
}

/// Binds, and executes as far as that goes without waiting. `in_use` says the keyspace in use: DESCRIBE is of
/// it, whatever it was when the statement was prepared.
pub(super) fn start(
    exchange: &mut Exchange,
    statement: Arc<Statement>,
    in_use: impl FnOnce(&Exchange) -> Option<Arc<str>>,
    values: BoundValues,
    mut options: Options,
    metadata: Metadata,
) -> Result<Progress, ErrorResponse> {
    exchange.authorize(&statement, statement.keyspace.as_deref())?;
    exchange.validate(&statement, options.bind.guard.as_deref())?;
    exchange.guard_levels(statement.plan.kind, &options)?;
    options.bind.unmasks = exchange.unmasks(&statement);
    let bound = statement.plan.bind(&values, &options.bind);
    let bound = exchange.guarded(options.bind.guard.as_deref(), bound)?;
    if let Bound::Select(select) = &bound {
        exchange.guard_filters(select, options.consistency)?;
    }
    let work = match bound {
        Bound::Select(bound) => return select::start(exchange, statement, bound, options, metadata),
        Bound::Explain(bound) => Work::Explain(statement, bound, options),
        Bound::Write(bound) => Work::Write(bound, options),
        Bound::Batch(bound) => Work::Batch(bound, options),
        Bound::Cas(plan) => Work::Conditional(plan, options),
        Bound::Truncate(table) => Work::Truncate(table),
        Bound::Use(keyspace) => {
            exchange.connection.use_keyspace(&keyspace);
            let set = Response::Result(ResultBody::SetKeyspace(keyspace));
            return Ok(Progress::Over(Answer::Response(set)));
        }
        Bound::Schema(tree) => Work::Schema(tree, statement.keyspace.clone()),
        Bound::Role(tree) => Work::Role(tree, statement.keyspace.clone()),
        Bound::Describe(tree) => {
            let keyspace = in_use(exchange);
            return describe::run(exchange, &tree, keyspace.as_deref(), &options).map(Progress::Over);
        }
    };
    Ok(Progress::Waits(work))
}
