//! What logs of requests are told of a request.
//!
//! 1. A request that comes while a log is on keeps what it executes ([`Logged`]). Others keep nothing.
//! 2. Where the log's queue is full it waits before it is begun, for a bounded time.
//! 3. When it is over, and before it is answered, its entries go to the queue.
//!
//! | request | entries of the audit log |
//! |---|---|
//! | QUERY, EXECUTE | one of the statement's type |
//! | PREPARE | `PREPARE_STATEMENT` |
//! | BATCH | `BATCH`, and one for each statement, with the same batch id |
//! | any that fails | `UNAUTHORIZED_ATTEMPT` or `REQUEST_FAILURE`: the text, and why |

use std::sync::Arc;

use cql::ast::Statement as Tree;
use model::Consistency;
use protocol::query_log::Record;
use protocol::request::Request;
use protocol::response::error::{ErrorKind, ErrorResponse};
use uuid::Uuid;

use super::options::Options;
use super::statements::Statement;
use super::{Exchange, admit};
use crate::audit::kind::{Context, Kind};
use crate::audit::{Audit, Entry, Kept};
use crate::metrics::RequestKind;
use crate::redact;
use crate::state::NodeState;

/// What a request that is to be logged executes.
pub(super) struct Logged {
    /// When it came, in milliseconds since 1970.
    at_ms: i64,
    /// What the full query log needs of the request, where that is on.
    kept: Option<Kept>,
    /// The timestamp in microseconds and the instant in seconds that the node gave.
    generated: (i64, u32),
    /// The statement, or those of a batch, as far as they were understood.
    statements: Vec<Arc<Statement>>,
    /// Of a batch.
    consistency: Option<Consistency>,
}

impl Logged {
    /// For a request that comes now; `None` where no log is on.
    #[inline]
    pub(super) fn new(node: &NodeState, request: &Request) -> Option<Box<Logged>> {
        if !node.logs.is_any_on() {
            return None;
        }
        let at_ms = node.env.now_micros().div_euclid(1_000);
        Some(Box::new(Logged {
            at_ms,
            kept: node.logs.queries().and_then(|_| Kept::of(request)),
            generated: (i64::MIN, 0),
            statements: Vec::new(),
            consistency: None,
        }))
    }
}

/// Begins a request when its logs have room, or when it has waited long enough.
pub(super) async fn when_there_is_room(exchange: Exchange, request: Request, is_long: bool) {
    exchange.sessions.node.logs.room().await;
    if let Some(handling) = admit(exchange, request, is_long) {
        handling.await;
    }
}

impl Exchange {
    /// Whether the request has to wait for the queue of a log.
    pub(super) fn finds_a_full_log(&self) -> bool {
        self.logged.is_some() && self.sessions.node.logs.is_any_full()
    }

    /// Keeps the timestamp and the instant that the node gave.
    pub(super) fn note_times_for_logs(&mut self, options: &Options) {
        if let Some(logged) = &mut self.logged {
            logged.generated = (options.bind.timestamp_micros, options.bind.now_s);
        }
    }

    /// Keeps a statement that is executed or prepared.
    pub(super) fn note_for_logs(&mut self, statement: &Arc<Statement>) {
        if let Some(logged) = &mut self.logged {
            logged.statements.push(Arc::clone(statement));
        }
    }

    /// Keeps that it is a batch.
    pub(super) fn note_batch_for_logs(&mut self, consistency: Consistency) {
        if let Some(logged) = &mut self.logged {
            logged.consistency = Some(consistency);
        }
    }

    /// Tells the logs what the request came to.
    pub(super) fn tell_logs(&mut self, kind: RequestKind, failure: Option<&ErrorResponse>) {
        let Some(mut logged) = self.logged.take() else { return };
        // Those that are on now: one that has ended since takes nothing any more.
        let logs = &self.sessions.node.logs;
        if let (Some(queries), Some(kept), None) = (logs.queries(), logged.kept.take(), failure)
            && let Some(record) = self.record(&logged, kept)
        {
            queries.push(&record);
        }
        if let Some(audit) = logs.audit() {
            match failure {
                None => self.audit_success(&logged, &audit, kind),
                Some(error) => audit.push(self.failure(&logged, kind, error)),
            }
        }
    }

    /// The record of a success in the full query log.
    fn record(&self, logged: &Logged, kept: Kept) -> Option<Record> {
        let (timestamp, now_s) = logged.generated;
        let texts = logged.statements.iter().map(|statement| operation_of(statement).as_ref().to_owned());
        Some(Record {
            started_ms: logged.at_ms,
            version: self.version,
            generated_timestamp: if kept.has_timestamp() { i64::MIN } else { timestamp },
            generated_now_s: i64::from(now_s),
            keyspace: self.connection.keyspace().as_deref().map(str::to_owned),
            request: kept.with_texts(texts.collect())?,
        })
    }

    fn audit_success(&self, logged: &Logged, audit: &Audit, kind: RequestKind) {
        if kind == RequestKind::Batch {
            let id = self.sessions.node.env.random_uuid();
            let statements = logged.statements.len();
            let operation = format!("BatchId:[{id}] - BATCH of [{statements}] statements");
            let whole = Context { kind: Kind::Batch, keyspace: None, scope: None };
            audit.push(self.entry(logged, whole, Some(id), operation.into()));
            for statement in &logged.statements {
                audit.push(self.entry(logged, context(statement), Some(id), operation_of(statement)));
            }
        } else if let Some(statement) = logged.statements.first() {
            let context = context(statement);
            let operation = operation_of(statement);
            if kind == RequestKind::Prepare {
                let keyspace = context.keyspace.as_deref().map(Arc::from);
                let prepared = Context { kind: Kind::PrepareStatement, ..context };
                audit.push(Entry { keyspace, ..self.entry(logged, prepared, None, operation) });
            } else {
                audit.push(self.entry(logged, context, None, operation));
            }
        }
    }

    /// The entry of a failure.
    fn failure(&self, logged: &Logged, kind: RequestKind, error: &ErrorResponse) -> Entry {
        let statement = logged.statements.first().filter(|_| logged.consistency.is_none());
        let text = match (logged.consistency, statement, &self.text) {
            // Cassandra counts those that it understood.
            (Some(consistency), ..) => {
                format!("BATCH of {} statements at consistency {consistency}", logged.statements.len())
            }
            (None, Some(statement), _) => operation_of(statement).as_ref().to_owned(),
            (None, None, Some(text)) => redact::behind_password(text).into_owned(),
            (None, None, None) if kind == RequestKind::Execute => "null".to_owned(),
            (None, None, None) => String::new(),
        };
        // A syntax error may quote the password.
        let names_password = || self.text.as_deref().is_some_and(redact::names_password);
        let reason = match error.kind {
            ErrorKind::Syntax if names_password() => {
                "Syntax Exception. Obscured for security reasons.".into()
            }
            _ => redact::behind_password(&error.message),
        };
        let operation = if text.is_empty() { reason.into_owned() } else { format!("{text}; {reason}") };
        let kind_of_failure = match error.kind {
            ErrorKind::Unauthorized => Kind::UnauthorizedAttempt,
            ErrorKind::BadCredentials => Kind::LoginError,
            _ => Kind::RequestFailure,
        };
        // Of what was executed by its id Cassandra tells the table, too.
        let told = statement.filter(|_| kind == RequestKind::Execute).map(|statement| context(statement));
        let context = match told {
            Some(context) => Context { kind: kind_of_failure, ..context },
            None => Context { kind: kind_of_failure, keyspace: None, scope: None },
        };
        self.entry(logged, context, None, operation.into())
    }

    /// An entry of this request. Its keyspace is the statement's, or the one in use.
    fn entry(&self, logged: &Logged, context: Context, batch: Option<Uuid>, operation: Arc<str>) -> Entry {
        Entry {
            user: Some(self.connection.user()),
            source: self.connection.peer,
            at_ms: logged.at_ms,
            kind: context.kind,
            batch,
            keyspace: context.keyspace.map(Arc::from).or_else(|| self.connection.keyspace()),
            scope: context.scope,
            operation,
        }
    }
}

fn context(statement: &Statement) -> Context {
    Context::of_statement(&statement.plan, statement.keyspace.as_deref())
}

/// The text of a statement without its passwords.
fn operation_of(statement: &Statement) -> Arc<str> {
    let options = match statement.plan.about_roles().map(Arc::as_ref) {
        Some(Tree::CreateRole(create)) => &create.options,
        Some(Tree::AlterRole(alter)) => &alter.options,
        _ => return Arc::clone(&statement.text),
    };
    redact::known_passwords(&statement.text, options).into()
}
