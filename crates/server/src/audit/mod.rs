//! The logs of what clients do: the audit log, as Cassandra's `AuditLogManager` has it, and the full query
//! log ([`queries`]), which is written in the same way.
//!
//! ```text
//! session, login ──> Entry ── filter ──> queue ──> writer ──> audit_logs_dir/audit-20261126T010000Z-0.jsonl
//! ```
//! 1. A request looks once whether a log is on ([`RequestLogs::is_any_on`], a relaxed load). If not, that is
//!    all that it pays.
//! 2. What a request or a login came to is an [`entry`] of some [`kind`]; the [`filter`] may leave it out.
//! 3. [`queue`] bounds what waits to be written, how long clients wait for that, and counts what is lost.
//! 4. [`files`] roll and have a bound together ([`roll`]).
//!
//! `nodetool enableauditlog` and `disableauditlog` change it while the node runs; a restart does as
//! cassandra.yaml says. BinAuditLogger writes lines of JSON here, where Cassandra writes Chronicle's queues.

mod entry;
mod files;
mod filter;
pub(crate) mod kind;
mod options;
mod queries;
mod queue;
mod roll;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use env::Env;
use parking_lot::Mutex;
use protocol::response::error::{ErrorKind, ErrorResponse};

pub(crate) use entry::Entry;
use files::Naming;
use filter::Filter;
pub use filter::FilterOptions;
use kind::Kind;
pub use options::{AuditLogger, AuditOptions};
pub(crate) use queries::Kept;
use queries::Queries;
pub use queries::{QueryLogError, QueryLogOptions};
use queue::{BinLog, Form};
pub use queue::{LogCounts, LogOptions, WAIT_MAX};
pub use roll::RollCycle;

/// The bit of the audit log among those that are on.
const AUDIT: u8 = 1;
/// The bit of the full query log.
const QUERIES: u8 = 2;

/// The logs of what clients do.
pub struct RequestLogs {
    env: Env,
    /// The node's address and port among nodes.
    host: SocketAddr,
    /// A bit for each log that is on.
    on: AtomicU8,
    audit: ArcSwapOption<Audit>,
    /// What the audit log is given at a start.
    configured: AuditOptions,
    /// What is counted of the audit log.
    pub audit_counts: Arc<LogCounts>,
    queries: ArcSwapOption<Queries>,
    /// What cassandra.yaml says of the full query log.
    configured_queries: QueryLogOptions,
    /// What is counted of the full query log.
    pub query_counts: Arc<LogCounts>,
    /// Held by who turns a log on or off.
    turn: Mutex<()>,
}

/// An audit log that is on.
pub(crate) struct Audit {
    options: ArcSwap<AuditOptions>,
    filter: ArcSwap<Filter>,
    /// None of NoOpAuditLogger.
    log: Option<BinLog<Entry>>,
}

impl std::fmt::Debug for RequestLogs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestLogs").field("on", &self.on).finish_non_exhaustive()
    }
}

impl RequestLogs {
    /// The logs of a node with this address among nodes, none of them on.
    pub fn new(
        env: &Env,
        host: SocketAddr,
        configured: &AuditOptions,
        queries: &QueryLogOptions,
    ) -> RequestLogs {
        RequestLogs {
            env: env.clone(),
            host,
            on: AtomicU8::new(0),
            audit: ArcSwapOption::empty(),
            configured: configured.clone(),
            audit_counts: Arc::default(),
            queries: ArcSwapOption::empty(),
            configured_queries: queries.clone(),
            query_counts: Arc::default(),
            turn: Mutex::default(),
        }
    }

    /// Turns on what cassandra.yaml says.
    ///
    /// # Errors
    /// When a directory cannot be used.
    pub fn start(&self) -> io::Result<()> {
        if self.configured.enabled {
            self.enable_audit(&self.configured)?;
        }
        Ok(())
    }

    /// Whether any log is on.
    #[inline]
    pub(crate) fn is_any_on(&self) -> bool {
        self.on.load(Ordering::Relaxed) != 0
    }

    /// The audit log, if it is on.
    pub(crate) fn audit(&self) -> Option<Arc<Audit>> {
        if self.is_any_on() { self.audit.load_full() } else { None }
    }

    /// Turns the audit log on, or changes how it is. May block.
    ///
    /// # Errors
    /// When the directory cannot be used; the log stays as it was.
    pub fn enable_audit(&self, wanted: &AuditOptions) -> io::Result<()> {
        let _turn = self.turn.lock();
        let wanted = AuditOptions { enabled: true, filter: wanted.filter.in_force(), ..wanted.clone() };
        let before = self.audit.load_full();
        if let Some(audit) = before.as_ref().filter(|audit| audit.options.load().is_written_as(&wanted)) {
            audit.filter.store(Arc::new(Filter::new(&wanted.filter)));
            audit.options.store(Arc::new(wanted));
            return Ok(());
        }
        let log = match wanted.logger {
            AuditLogger::NoOp => None,
            AuditLogger::Bin | AuditLogger::File => Some(self.open_audit(&wanted)?),
        };
        let audit = Audit {
            filter: ArcSwap::from_pointee(Filter::new(&wanted.filter)),
            options: ArcSwap::from_pointee(wanted),
            log,
        };
        self.audit.store(Some(Arc::new(audit)));
        self.on.fetch_or(AUDIT, Ordering::SeqCst);
        end(before);
        Ok(())
    }

    fn open_audit(&self, wanted: &AuditOptions) -> io::Result<BinLog<Entry>> {
        let host = self.host;
        let is_text = wanted.logger == AuditLogger::File;
        let extension = if is_text { "log" } else { "jsonl" };
        let form = Form {
            what: "audit log",
            naming: Naming { prefix: "audit", extension },
            head: b"",
            encode: match is_text {
                true => Box::new(move |entry: &Entry, out: &mut Vec<u8>| entry.write_text(host, out)),
                false => Box::new(move |entry: &Entry, out: &mut Vec<u8>| entry.write_json(host, out)),
            },
        };
        let directory = wanted.audit_logs_dir.clone().unwrap_or_else(|| "audit".into());
        BinLog::open(&self.env, directory, &wanted.log, form, &self.audit_counts)
    }

    /// Turns the audit log off, and writes what it has. May block.
    pub fn disable_audit(&self) {
        let _turn = self.turn.lock();
        self.on.fetch_and(!AUDIT, Ordering::SeqCst);
        end(self.audit.swap(None));
    }

    /// Whether the audit log is on, and how it is; how a start would have it if it is not.
    pub fn audit_options(&self) -> (bool, AuditOptions) {
        match self.audit.load_full() {
            Some(audit) => (true, audit.options.load().as_ref().clone()),
            None => (false, self.configured.clone()),
        }
    }

    /// What the audit log is given at a start.
    pub fn configured_audit(&self) -> &AuditOptions {
        &self.configured
    }

    /// Ends every log. May block.
    pub fn stop(&self) {
        self.disable_audit();
        self.disable_queries();
    }

    /// The full query log, if it is on.
    pub(crate) fn queries(&self) -> Option<Arc<Queries>> {
        if self.is_any_on() { self.queries.load_full() } else { None }
    }

    /// Whether a request has to wait for the queue of a log.
    pub(crate) fn is_any_full(&self) -> bool {
        self.audit().is_some_and(|audit| audit.is_full())
            || self.queries().is_some_and(|queries| queries.is_full())
    }

    /// Waits until every log has room, for at most [`WAIT_MAX`].
    pub(crate) async fn room(&self) {
        let (audit, queries) = (self.audit(), self.queries());
        let of_audit = async {
            if let Some(audit) = audit.filter(|audit| audit.is_full()) {
                audit.room().await;
            }
        };
        let of_queries = async {
            if let Some(queries) = queries.filter(|queries| queries.is_full()) {
                queries.room().await;
            }
        };
        tokio::join!(of_audit, of_queries);
    }

    /// Turns the full query log on. May block.
    ///
    /// # Errors
    /// When it is on, has no directory, or cannot use it.
    pub fn enable_queries(&self, wanted: &QueryLogOptions) -> Result<(), QueryLogError> {
        let _turn = self.turn.lock();
        if self.queries.load().is_some() {
            return Err(QueryLogError::IsOn);
        }
        let queries = Queries::open(&self.env, wanted, &self.query_counts)?;
        self.queries.store(Some(Arc::new(queries)));
        self.on.fetch_or(QUERIES, Ordering::SeqCst);
        Ok(())
    }

    /// Turns the full query log off, and writes what it has. May block.
    pub fn disable_queries(&self) {
        let _turn = self.turn.lock();
        self.end_queries();
    }

    fn end_queries(&self) -> Option<Arc<Queries>> {
        self.on.fetch_and(!QUERIES, Ordering::SeqCst);
        let ended = self.queries.swap(None);
        if let Some(queries) = &ended {
            queries.log.stop();
        }
        ended
    }

    /// Turns the full query log off and removes its files, from where it was and where cassandra.yaml has it.
    /// May block.
    ///
    /// # Errors
    /// When files stay.
    pub fn reset_queries(&self) -> io::Result<usize> {
        let _turn = self.turn.lock();
        let ended = self.end_queries();
        let used = ended.as_ref().and_then(|queries| queries.options.log_dir.clone());
        let mut removed = 0;
        for directory in used.iter().chain(&self.configured_queries.log_dir) {
            removed += queries::remove_files(&self.env, directory)?;
        }
        Ok(removed)
    }

    /// Whether the full query log is on, and how it is; how cassandra.yaml has it if it is not.
    pub fn query_options(&self) -> (bool, QueryLogOptions) {
        match self.queries.load_full() {
            Some(queries) => (true, queries.options.clone()),
            None => (false, self.configured_queries.clone()),
        }
    }

    /// What cassandra.yaml says of the full query log.
    pub fn configured_queries(&self) -> &QueryLogOptions {
        &self.configured_queries
    }

    /// Notes a login, or that it failed.
    pub(crate) fn note_login(
        &self,
        user: Option<&Arc<str>>,
        source: SocketAddr,
        failure: Option<&ErrorResponse>,
    ) {
        let Some(audit) = self.audit() else { return };
        let (kind, operation) = match failure {
            None => (Kind::LoginSuccess, "LOGIN SUCCESSFUL".to_owned()),
            Some(error) => {
                let kind = match error.kind {
                    ErrorKind::Unauthorized => Kind::UnauthorizedAttempt,
                    _ => Kind::LoginError,
                };
                (kind, format!("LOGIN FAILURE; {}", crate::redact::behind_password(&error.message)))
            }
        };
        audit.push(Entry {
            user: user.cloned(),
            source,
            at_ms: self.env.now_micros().div_euclid(1_000),
            kind,
            batch: None,
            keyspace: None,
            scope: None,
            operation: operation.into(),
        });
    }
}

/// Ends a log that nobody finds any more.
fn end(audit: Option<Arc<Audit>>) {
    if let Some(log) = audit.as_ref().and_then(|audit| audit.log.as_ref()) {
        log.stop();
    }
}

impl Audit {
    /// Has an entry written, if the filter keeps it.
    pub(crate) fn push(&self, entry: Entry) {
        let Some(log) = &self.log else { return };
        let (keyspace, user) = (entry.keyspace.as_deref(), entry.user.as_deref());
        if self.filter.load().keep(keyspace, entry.kind.category(), user) {
            let weight = entry.weight();
            log.push(entry, weight);
        }
    }

    /// Whether a request has to wait for room.
    pub(crate) fn is_full(&self) -> bool {
        self.log.as_ref().is_some_and(BinLog::is_full)
    }

    /// Waits for room, for at most [`WAIT_MAX`].
    pub(crate) async fn room(&self) {
        if let Some(log) = &self.log {
            log.room().await;
        }
    }
}
