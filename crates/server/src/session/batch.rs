//! BATCH: texts and prepared statements with their values, bound one by one and executed as one.

use std::sync::Arc;

use cql::ast;
use cql::plan::{BatchProduct, Bound, BoundBatch, StatementKind};
use protocol::request::{Batch, BatchKind, StatementText};
use protocol::response::error::ErrorResponse;

use super::options::{self, Options};
use super::run::Work;
use super::{Exchange, Progress, error};

/// Bytes of the texts of all statements of a batch: each is bound, however often a prepared one is named.
const TEXT_BYTES_MAX: usize = 64 << 20;

pub(super) fn start(exchange: &mut Exchange, batch: Batch) -> Result<Progress, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    let mut options = Options::of(&sessions, &batch.params, false)?;
    options.bind.guard = exchange.guard();
    let guard = options.bind.guard.clone();
    let schema = sessions.node.schema();
    let keyspace = exchange.keyspace_for(batch.params.keyspace.as_deref(), &schema)?;
    exchange.note_batch_for_logs(options.consistency);
    exchange.note_times_for_logs(&options);
    let mut statements = Vec::with_capacity(batch.statements.len());
    let mut product = BatchProduct::default();
    let mut text_bytes = 0;
    for part in batch.statements {
        let statement = match part.text {
            StatementText::Query(text) => {
                Arc::new(exchange.compile(text.into(), keyspace.as_deref(), &schema, guard.as_deref())?)
            }
            StatementText::Prepared(id) => match sessions.statements.get(&id) {
                Some(statement) => statement,
                None => return Err(ErrorResponse::unprepared(&id)),
            },
        };
        exchange.note_for_logs(&statement);
        text_bytes += statement.text.len();
        if text_bytes > TEXT_BYTES_MAX {
            return Err(ErrorResponse::invalid("Batch too large"));
        }
        let (markers, values) = (statement.plan.bind_variables.len(), part.values.len());
        if markers != values {
            return Err(ErrorResponse::invalid(format!(
                "There were {markers} markers(?) in CQL but {values} bound variables"
            )));
        }
        if exchange.text.is_none() {
            exchange.text = Some(Arc::clone(&statement.text));
        }
        statements.push((statement, options::positional(part.values)));
    }
    let is_modification =
        |kind| matches!(kind, StatementKind::Insert | StatementKind::Update | StatementKind::Delete);
    if statements.iter().any(|(statement, _)| !is_modification(statement.plan.kind)) {
        return Err(ErrorResponse::invalid(
            "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.",
        ));
    }
    for (statement, _) in &statements {
        exchange.authorize(statement, None)?;
    }
    for (statement, _) in &statements {
        exchange.validate(statement, guard.as_deref())?;
    }
    exchange.guard_levels(StatementKind::Batch, &options)?;
    options.bind.unmasks = statements.iter().all(|(statement, _)| exchange.unmasks(statement));
    // What is wrong with a statement is told before what is wrong with a value, as Cassandra does.
    let mut bound = Vec::with_capacity(statements.len());
    for (statement, values) in statements {
        let write = statement.plan.bind_in_batch(&values, &options.bind);
        let write = exchange.guarded(guard.as_deref(), write)?;
        product.count(&write).map_err(error::of_cql)?;
        bound.push(write);
    }
    let kind = match batch.kind {
        BatchKind::Logged => ast::BatchKind::Logged,
        BatchKind::Unlogged => ast::BatchKind::Unlogged,
        BatchKind::Counter => ast::BatchKind::Counter,
    };
    match BoundBatch::assemble(kind, bound).map_err(error::of_cql)? {
        Bound::Batch(batch) => Ok(Progress::Waits(Work::Batch(batch, options))),
        Bound::Cas(plan) => Ok(Progress::Waits(Work::Conditional(plan, options))),
        _ => Err(error::internal("a batch became something else")),
    }
}
