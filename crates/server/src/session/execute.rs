//! EXECUTE: a statement that was prepared.

use std::sync::Arc;

use cql::plan::StatementKind;
use protocol::ProtocolVersion;
use protocol::request::Execute;
use protocol::response::error::ErrorResponse;

use super::options::{self, Options};
use super::run::{self, Metadata};
use super::{Exchange, Progress, long};

pub(super) fn start(exchange: &mut Exchange, execute: Execute) -> Result<Progress, ErrorResponse> {
    let Some(statement) = exchange.sessions.statements.get(&execute.id) else {
        return Err(ErrorResponse::unprepared(&execute.id));
    };
    if !exchange.is_on_reader && long::is_long_to_bind(&statement) {
        return Ok(Progress::IsLong(Box::new(execute)));
    }
    exchange.text = Some(Arc::clone(&statement.text));
    exchange.note_for_logs(&statement);
    if let Some(trace) = &mut exchange.trace {
        trace.is_prepared(&statement, &execute.params);
    }
    let sessions = &exchange.sessions;
    let is_read = statement.plan.kind == StatementKind::Select;
    let mut options = Options::of(sessions, &execute.params, is_read)?;
    options.bind.guard = exchange.guard();
    exchange.note_times_for_logs(&options);
    let sessions = &exchange.sessions;
    sessions.node.metrics.prepared_statements_executed.add(1);
    let specs = &statement.plan.bind_variables;
    let (markers, values) = (specs.len(), options::count_of_values(&execute.params, specs));
    if values != markers {
        return Err(ErrorResponse::invalid(format!(
            "there were {markers} markers(?) in CQL but {values} bound variables"
        )));
    }
    let metadata = match &execute.result_metadata_id {
        // The columns of a conditional statement depend on its outcome.
        _ if statement.plan.is_conditional => Metadata::Full,
        Some(id) if exchange.version >= ProtocolVersion::V5 && **id != statement.result_metadata_id => {
            Metadata::Changed
        }
        _ if options.skip_metadata => Metadata::Skip,
        _ => Metadata::Full,
    };
    let in_use = |exchange: &Exchange| exchange.connection.keyspace();
    let values = options::values(execute.params);
    run::start(exchange, statement, in_use, values, options, metadata)
}
