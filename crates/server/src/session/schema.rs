//! Statements that change the schema: one at a time, each judged by what the one before left.
//!
//! 1. `cql::ddl` makes the next schema of the present one.
//! 2. The engine makes it durable and puts it in force.
//! 3. Prepared statements that it concerns are dropped, registered clients are told, then the one that asked.

use std::sync::Arc;

use cql::ast::Statement;
use cql::ddl::{self, DdlContext, DdlOutcome};
use protocol::response::error::ErrorResponse;
use protocol::response::schema_change::{ChangeKind, ChangeTarget, SchemaChange};
use protocol::response::{Event, Response, ResultBody};

use super::{Answer, Exchange, error};

pub(super) async fn change(
    exchange: &mut Exchange,
    statement: &Statement,
    keyspace: Option<&str>,
) -> Result<Answer, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    let node = &sessions.node;
    let _turn = sessions.schema_turn.lock().await;
    let old = node.schema();
    let context = DdlContext {
        schema: &old,
        keyspace,
        new_table_id: node.env.time_uuid(),
        now_micros: node.env.now_micros(),
        datacenter: &node.config.data_center,
    };
    let Some(outcome) = ddl::apply(statement, &context).map_err(error::of_cql)? else {
        return Ok(Answer::VOID);
    };
    let DdlOutcome { schema, change, warnings } = outcome;
    let engine = Arc::clone(&node.engine);
    let installed = tokio::task::spawn_blocking(move || engine.install_schema(schema)).await;
    let new = match installed {
        Ok(Ok(new)) => new,
        Ok(Err(failure)) => return Err(error::internal(&failure.to_string())),
        Err(failure) => return Err(error::internal(&failure.to_string())),
    };
    sessions.statements.invalidate(&old, &new);
    let change = to_protocol(change);
    node.connections.broadcast(&Event::Schema(change.clone()));
    warnings.into_iter().for_each(|warning| exchange.warn(warning));
    exchange.note(|| format!("Schema version is now {}", new.version));
    Ok(Answer::Response(Response::Result(ResultBody::SchemaChange(change))))
}

fn to_protocol(change: ddl::SchemaChange) -> SchemaChange {
    let name = change.name.unwrap_or_default();
    SchemaChange {
        kind: match change.kind {
            ddl::ChangeKind::Created => ChangeKind::Created,
            ddl::ChangeKind::Updated => ChangeKind::Updated,
            ddl::ChangeKind::Dropped => ChangeKind::Dropped,
        },
        target: match change.target {
            ddl::ChangeTarget::Keyspace => ChangeTarget::Keyspace,
            ddl::ChangeTarget::Table => ChangeTarget::Table { name },
            ddl::ChangeTarget::Type => ChangeTarget::Type { name },
        },
        keyspace: change.keyspace,
    }
}
