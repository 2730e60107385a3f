//! QUERY: a statement as text, executed once.

use std::sync::Arc;

use protocol::request::Query;
use protocol::response::error::ErrorResponse;

use super::options::{self, Options};
use super::run::{self, Metadata};
use super::{Exchange, Progress};
use crate::redact;

pub(super) fn start(exchange: &mut Exchange, query: Query) -> Result<Progress, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    let text: Arc<str> = query.statement.into();
    exchange.text = Some(Arc::clone(&text));
    exchange.note(|| format!("Parsing {}", redact::passwords(&text)));
    let mut options = Options::of(&sessions, &query.params, false)?;
    options.bind.guard = exchange.guard();
    exchange.note_times_for_logs(&options);
    let schema = sessions.node.schema();
    let keyspace = exchange.keyspace_for(query.params.keyspace.as_deref(), &schema)?;
    exchange.note(|| "Preparing statement".to_owned());
    let guard = options.bind.guard.as_deref();
    let statement = Arc::new(exchange.compile(text, keyspace.as_deref(), &schema, guard)?);
    exchange.note_for_logs(&statement);
    sessions.node.metrics.regular_statements_executed.add(1);
    let markers = &statement.plan.bind_variables;
    if options::count_of_values(&query.params, markers) != markers.len() {
        return Err(ErrorResponse::invalid("Invalid amount of bind variables"));
    }
    let metadata = if options.skip_metadata { Metadata::Skip } else { Metadata::Full };
    let values = options::values(query.params);
    run::start(exchange, statement, |_| keyspace, values, options, metadata)
}
