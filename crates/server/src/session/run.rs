//! What becomes of a statement and its values, whether it came as text or was prepared.

use std::sync::Arc;

use cql::bind::BoundValues;
use cql::plan::Bound;
use protocol::response::error::ErrorResponse;
use protocol::response::{Response, ResultBody};

use super::options::Options;
use super::statements::Statement;
use super::{Answer, Exchange, describe, error, explain, schema, select, write};

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

/// Binds and executes. `keyspace` is the one of unqualified names.
pub(super) async fn execute(
    exchange: &mut Exchange,
    statement: &Arc<Statement>,
    keyspace: Option<&str>,
    values: BoundValues,
    options: Options,
    metadata: Metadata,
) -> Result<Answer, ErrorResponse> {
    match statement.plan.bind(&values, &options.bind).map_err(error::of_cql)? {
        Bound::Select(bound) => select::run(exchange, statement, *bound, options, metadata).await,
        Bound::Explain(bound) => explain::run(exchange, statement, *bound, options).await,
        Bound::Write(bound) => write::single(exchange, *bound, &options).await,
        Bound::Batch(bound) => write::batch(exchange, *bound, &options).await,
        Bound::Cas(plan) => write::conditional(exchange, *plan, &options).await,
        Bound::Truncate(table) => write::truncate(exchange, table).await,
        Bound::Use(keyspace) => {
            exchange.connection.use_keyspace(&keyspace);
            Ok(Answer::Response(Response::Result(ResultBody::SetKeyspace(keyspace))))
        }
        Bound::Schema(tree) => schema::change(exchange, &tree, keyspace).await,
        Bound::Describe(tree) => describe::run(exchange, &tree, keyspace, &options),
    }
}
