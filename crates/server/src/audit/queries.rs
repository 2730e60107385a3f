//! The full query log: every query, execution and batch that succeeds, with its values, for `ilion fqltool`.
//!
//! Records are encoded when the request is over, not by the writer: values are slices of the request's
//! frame, and would keep it in memory (`protocol::query_log` is the format). Passwords of statements about
//! roles are left out, as in the audit log; no filter applies.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::Env;
use protocol::primitives::Value;
use protocol::query_log::{EXTENSION, HEAD, Logged, Record};
use protocol::request::{Batch, BatchKind, BatchStatement, Query, QueryParams, Request, StatementText};

use super::files::{self, Naming};
use super::queue::{BinLog, Form, LogCounts, LogOptions};

const NAMING: Naming = Naming { prefix: "queries", extension: EXTENSION };
/// Memory of a record besides its bytes.
const FIXED_BYTES: u64 = 64;

/// How the full query log is: `full_query_logging_options` of cassandra.yaml.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryLogOptions {
    /// Where its files are; it has to be said before the log can be turned on.
    pub log_dir: Option<PathBuf>,
    /// Queue and files.
    pub log: LogOptions,
}

/// Why the full query log is not turned on.
#[derive(Debug, thiserror::Error)]
pub enum QueryLogError {
    /// In Cassandra's words.
    #[error("Binlog is already configured")]
    IsOn,
    /// In Cassandra's words.
    #[error("you might have forgotten to specify a directory to save logs")]
    NoDirectory,
    /// The directory cannot be used.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A full query log that is on.
pub(crate) struct Queries {
    pub(super) options: QueryLogOptions,
    pub(super) log: BinLog<Vec<u8>>,
}

impl Queries {
    pub(super) fn open(
        env: &Env,
        options: &QueryLogOptions,
        counts: &Arc<LogCounts>,
    ) -> Result<Queries, QueryLogError> {
        let directory = options.log_dir.clone().ok_or(QueryLogError::NoDirectory)?;
        let form = Form {
            what: "full query log",
            naming: NAMING,
            head: HEAD,
            encode: Box::new(|record: &Vec<u8>, out: &mut Vec<u8>| out.extend_from_slice(record)),
        };
        let log = BinLog::open(env, directory, &options.log, form, counts)?;
        Ok(Queries { options: options.clone(), log })
    }

    /// Has a record written.
    pub(crate) fn push(&self, record: &Record) {
        let mut bytes = Vec::new();
        match record.encode(&mut bytes) {
            true => {
                let weight = bytes.len() as u64 + FIXED_BYTES;
                self.log.push(bytes, weight);
            }
            false => self.log.drop_one(),
        }
    }

    /// Whether a request has to wait for room.
    pub(crate) fn is_full(&self) -> bool {
        self.log.is_full()
    }

    /// Waits for room, for a bounded time.
    pub(crate) async fn room(&self) {
        self.log.room().await;
    }
}

/// Removes the files of the log from a directory.
pub(super) fn remove_files(env: &Env, directory: &Path) -> io::Result<usize> {
    files::remove_all(env, directory, NAMING)
}

/// What a request says besides its texts, kept until it is over.
pub(crate) enum Kept {
    /// Of QUERY and EXECUTE.
    One(QueryParams),
    /// Of BATCH: the values of each statement.
    Batch(BatchKind, Vec<Vec<Value>>, QueryParams),
}

impl Kept {
    /// What the log needs of a request; `None` for those that it does not have.
    pub(crate) fn of(request: &Request) -> Option<Kept> {
        match request {
            Request::Query(query) => Some(Kept::One(query.params.clone())),
            Request::Execute(execute) => Some(Kept::One(execute.params.clone())),
            Request::Batch(batch) => {
                let values = batch.statements.iter().map(|part| part.values.clone()).collect();
                Some(Kept::Batch(batch.kind, values, batch.params.clone()))
            }
            _ => None,
        }
    }

    /// Whether the client gave the timestamp.
    pub(crate) fn has_timestamp(&self) -> bool {
        let (Kept::One(params) | Kept::Batch(_, _, params)) = self;
        params.timestamp_us.is_some()
    }

    /// The request with the texts of its statements.
    pub(crate) fn with_texts(self, texts: Vec<String>) -> Option<Logged> {
        match self {
            Kept::One(params) => {
                let statement = texts.into_iter().next()?;
                Some(Logged::Query(Query { statement, params }))
            }
            Kept::Batch(kind, values, params) => {
                let part = |(text, values)| BatchStatement { text: StatementText::Query(text), values };
                let statements = texts.into_iter().zip(values).map(part).collect();
                Some(Logged::Batch(Batch { kind, statements, params }))
            }
        }
    }
}
