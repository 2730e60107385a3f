//! `fqltool replay`: sends the requests of logs to nodes again, one after the other.
//!
//! 1. The records of all paths come in the order of their starts.
//! 2. Left out are those of other keyspaces (`--keyspace`), changes of the schema unless they are asked for,
//!    and statements about roles, whose passwords the log does not have.
//! 3. Each request goes to every target before the next one goes to any, in the protocol's version in which
//!    it came, with its keyspace in use and the timestamp that its writes had.
//! 4. Reads are read to their end. So a record of a later page is left out: the first one brought it.
//! 5. Results go into `RESULTS/TARGET/results.jsonl` ([`super::results`]), the replayed requests into the
//!    file of `--store-queries`, in the format of the log.

use std::collections::HashMap;
use std::io::Write;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use cql::ast::Statement;
use env::Env;
use env::fs::WriteFile;
use protocol::ProtocolVersion;
use protocol::query_log::{HEAD, Logged, Record};
use protocol::request::{QueryParams, Request};
use protocol::response::{Response, ResultBody};
use rustls::ClientConfig;

use super::connection::Connection;
use super::results::{Line, hex};
use super::target::Target;
use super::{Failure, files, print, records, stored_at};
use crate::client::access;

/// Rows of a page of a read that had none.
const PAGE_ROWS: i32 = 5_000;
/// How often the number of queries is told.
const TELL_EVERY: u64 = 5_000;
/// What results are called.
pub(super) const RESULTS_FILE: &str = "results.jsonl";

/// Arguments of `fqltool replay`.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// Hosts to replay the logs to, can be repeated: HOST, HOST:PORT or USER:PASSWORD@HOST:PORT
    #[arg(long, required = true)]
    target: Vec<String>,
    /// Speak TLS with the targets
    #[arg(long)]
    ssl: bool,
    /// Certificates that say which nodes to trust, for --ssl
    #[arg(long, value_name = "FILE")]
    ssl_ca: Option<PathBuf>,
    /// Own certificate and its key in one file, where the targets ask for one, for --ssl
    #[arg(long, value_name = "FILE")]
    ssl_cert: Option<PathBuf>,
    /// Where to store the results of the queries, an existing directory
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Only replay queries against this keyspace and queries without keyspace set
    #[arg(long)]
    keyspace: Option<String>,
    /// Path to store the queries executed, in the order of the results: a file, or a directory that is there
    #[arg(long, value_name = "PATH", requires = "results")]
    store_queries: Option<PathBuf>,
    /// Replays DDL statements as well, they are excluded from replaying by default
    #[arg(long)]
    replay_ddl_statements: bool,
    /// Files of the log, or directories with them
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

/// A target with its sessions and its results.
struct Node {
    target: Target,
    /// Whom to trust; `None` without TLS.
    tls: Option<Arc<ClientConfig>>,
    /// A session for each version.
    sessions: HashMap<u8, Connection>,
    results: Option<Box<dyn WriteFile>>,
    /// The query whose answer has begun last.
    begun: Option<u64>,
}

/// Records of one path, the oldest first.
type Source = Peekable<Box<dyn Iterator<Item = Result<Record, Failure>>>>;

pub(super) fn run(env: &Env, args: &ReplayArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let tls = access::trust(env, args.ssl, args.ssl_ca.as_deref(), args.ssl_cert.as_deref())
        .map_err(Failure::Other)?;
    let node = |text: &String| Node::new(env, text, tls.clone(), args.results.as_deref());
    let mut nodes = args.target.iter().map(node).collect::<Result<Vec<Node>, Failure>>()?;
    let mut stored = match &args.store_queries {
        Some(path) => {
            let mut file = env.fs.create(&stored_at(env, path))?;
            file.write_all(HEAD)?;
            Some(file)
        }
        None => None,
    };
    let mut sources = sources(env, &args.paths)?;
    let (mut replayed, mut left_out) = (0, 0);
    while let Some(record) = next(&mut sources)? {
        if !is_wanted(&record, args) {
            left_out += 1;
            continue;
        }
        for node in &mut nodes {
            if let Err(error) = node.replay(replayed, &record) {
                let query = statement_of(&record);
                print(out, &format!("QUERY {query} got exception: {}: {error}\n", node.target))?;
            }
        }
        if let Some(stored) = &mut stored {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            stored.write_all(&bytes)?;
        }
        replayed += 1;
        if replayed % TELL_EVERY == 0 {
            print(out, &format!("{replayed} queries\n"))?;
        }
    }
    for node in &mut nodes {
        node.results.as_mut().map_or(Ok(()), |file| file.flush())?;
    }
    stored.as_mut().map_or(Ok(()), |file| file.flush())?;
    print(out, &format!("{replayed} queries, {left_out} left out\n"))?;
    Ok(())
}

/// A source for each path; the files of a directory follow each other.
fn sources(env: &Env, paths: &[PathBuf]) -> Result<Vec<Source>, Failure> {
    let source = |path: &PathBuf| -> Result<Source, Failure> {
        let (env, files) = (env.clone(), files(env, std::slice::from_ref(path))?);
        let of_file = move |file: PathBuf| -> Box<dyn Iterator<Item = Result<Record, Failure>>> {
            match records(&env, &file) {
                Ok(records) => Box::new(records.map(|record| record.map_err(Failure::from))),
                Err(failure) => Box::new(std::iter::once(Err(failure))),
            }
        };
        let all: Box<dyn Iterator<Item = Result<Record, Failure>>> =
            Box::new(files.into_iter().flat_map(of_file));
        Ok(all.peekable())
    };
    paths.iter().map(source).collect()
}

/// The oldest record of all sources.
fn next(sources: &mut [Source]) -> Result<Option<Record>, Failure> {
    let mut oldest: Option<(usize, i64)> = None;
    for (at, source) in sources.iter_mut().enumerate() {
        let started = match source.peek() {
            None => continue,
            Some(Ok(record)) => record.started_ms,
            // It is told now.
            Some(Err(_)) => i64::MIN,
        };
        if oldest.is_none_or(|(_, before)| started < before) {
            oldest = Some((at, started));
        }
    }
    let source = oldest.and_then(|(at, _)| sources.get_mut(at));
    source.and_then(Iterator::next).transpose()
}

fn is_wanted(record: &Record, args: &ReplayArgs) -> bool {
    let is_of_another = |wanted: &String| record.keyspace.as_ref().is_some_and(|keyspace| keyspace != wanted);
    if args.keyspace.as_ref().is_some_and(is_of_another) {
        return false;
    }
    let Logged::Query(query) = &record.request else { return true };
    if query.params.paging_state.is_some() {
        return false;
    }
    match cql::parser::parse_statement(&query.statement).map(|parsed| parsed.statement) {
        Ok(statement) if is_about_roles(&statement) => false,
        Ok(statement) => args.replay_ddl_statements || !is_ddl(&statement),
        Err(_) => true,
    }
}

fn is_about_roles(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateRole(_)
            | Statement::AlterRole(_)
            | Statement::DropRole { .. }
            | Statement::Grant(_)
            | Statement::Revoke(_)
            | Statement::GrantRole(_)
            | Statement::RevokeRole(_)
            | Statement::AddIdentity { .. }
            | Statement::DropIdentity { .. }
    )
}

fn is_ddl(statement: &Statement) -> bool {
    !matches!(
        statement,
        Statement::Select(_)
            | Statement::Insert(_)
            | Statement::InsertJson(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Batch(_)
            | Statement::Use(_)
            | Statement::Truncate(_)
            | Statement::ListPermissions(_)
            | Statement::ListRoles(_)
            | Statement::ListUsers
            | Statement::Describe(_)
            | Statement::Explain { .. }
    )
}

/// What a record asks, on one line.
pub(super) fn statement_of(record: &Record) -> String {
    match &record.request {
        Logged::Query(query) => query.statement.replace('\n', " "),
        Logged::Batch(batch) => format!("BATCH of {} statements", batch.statements.len()),
    }
}

/// The request of a record as it is sent again.
fn request_of(record: &Record) -> Request {
    let again = |params: &mut QueryParams| {
        params.paging_state = None;
        params.skip_metadata = false;
        if params.timestamp_us.is_none() && record.generated_timestamp != i64::MIN {
            params.timestamp_us = Some(record.generated_timestamp);
        }
    };
    match record.request.clone() {
        Logged::Query(mut query) => {
            again(&mut query.params);
            query.params.page_size.get_or_insert(PAGE_ROWS);
            Request::Query(query)
        }
        Logged::Batch(mut batch) => {
            again(&mut batch.params);
            Request::Batch(batch)
        }
    }
}

impl Node {
    fn new(
        env: &Env,
        text: &str,
        tls: Option<Arc<ClientConfig>>,
        results: Option<&Path>,
    ) -> Result<Node, Failure> {
        let target = Target::parse(text).map_err(Failure::Other)?;
        let file = |base: &Path| {
            if !env.fs.exists(base)? {
                let words = format!("The results path ({}) should be an existing directory", base.display());
                return Err(Failure::Other(words));
            }
            // As it was named, without the login.
            let directory = base.join(text.rsplit_once('@').map_or(text, |(_, place)| place));
            env.fs.create_dir_all(&directory)?;
            Ok(env.fs.create(&directory.join(RESULTS_FILE))?)
        };
        let results = results.map(file).transpose()?;
        Ok(Node { target, tls, sessions: HashMap::new(), results, begun: None })
    }

    fn session(&mut self, version: ProtocolVersion) -> std::io::Result<&mut Connection> {
        let number = version.number();
        if !self.sessions.contains_key(&number) {
            self.sessions.insert(number, Connection::open(&self.target, self.tls.as_ref(), version)?);
        }
        self.sessions.get_mut(&number).ok_or_else(|| std::io::ErrorKind::NotConnected.into())
    }

    /// Sends a request, and keeps what comes of it. An error of the node is a result, too.
    fn replay(&mut self, number: u64, record: &Record) -> std::io::Result<()> {
        let done = self.send(number, record);
        if let Err(error) = &done {
            // What its session was doing is not known any more.
            self.sessions.remove(&record.version.number());
            let broken = error.to_string();
            self.write(&match self.begun == Some(number) {
                true => Line::Broken { broken },
                false => Line::Query { query: number, columns: None, failed: Some(broken) },
            })?;
        }
        done
    }

    fn send(&mut self, number: u64, record: &Record) -> std::io::Result<()> {
        let mut request = request_of(record);
        if let Some(keyspace) = &record.keyspace {
            self.session(record.version)?.use_keyspace(keyspace)?;
        }
        let mut is_first = true;
        loop {
            let said = self.session(record.version)?.call(request.clone())?;
            let rows = match said {
                Response::Error(error) => {
                    let failed = Some(error.message.clone());
                    self.write(&Line::Query { query: number, columns: None, failed })?;
                    return Ok(());
                }
                Response::Result(ResultBody::Rows(rows)) => rows,
                _ => return self.write(&Line::Query { query: number, columns: None, failed: None }),
            };
            if std::mem::take(&mut is_first) {
                self.begun = Some(number);
                let columns = rows.columns.iter().flatten();
                let columns = columns.map(|column| (column.name.clone(), column.kind.to_string())).collect();
                self.write(&Line::Query { query: number, columns: Some(columns), failed: None })?;
            }
            for row in &rows.rows {
                let row = row.iter().map(|value| value.as_ref().map(|bytes| hex(bytes))).collect();
                self.write(&Line::Row { row })?;
            }
            match (&mut request, rows.paging_state) {
                (Request::Query(query), Some(state)) => query.params.paging_state = Some(state),
                _ => return Ok(()),
            }
        }
    }

    fn write(&mut self, line: &Line) -> std::io::Result<()> {
        let Some(file) = &mut self.results else { return Ok(()) };
        let mut bytes = serde_json::to_vec(line).map_err(std::io::Error::other)?;
        bytes.push(b'\n');
        file.write_all(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Consistency;
    use protocol::request::Query;

    fn record(statement: &str, started_ms: i64, keyspace: Option<&str>) -> Record {
        let params = QueryParams::new(Consistency::One);
        Record {
            started_ms,
            version: ProtocolVersion::V4,
            generated_timestamp: 7,
            generated_now_s: 1,
            keyspace: keyspace.map(str::to_owned),
            request: Logged::Query(Query { statement: statement.to_owned(), params }),
        }
    }

    fn args(keyspace: Option<&str>, replay_ddl_statements: bool) -> ReplayArgs {
        ReplayArgs {
            target: Vec::new(),
            ssl: false,
            ssl_ca: None,
            ssl_cert: None,
            results: None,
            keyspace: keyspace.map(str::to_owned),
            store_queries: None,
            replay_ddl_statements,
            paths: Vec::new(),
        }
    }

    #[test]
    fn other_keyspaces_changes_of_the_schema_and_roles_are_left_out() {
        let is_wanted = |statement: &str, keyspace, args: &ReplayArgs| {
            super::is_wanted(&record(statement, 1, keyspace), args)
        };
        let plain = args(None, false);
        assert!(is_wanted("SELECT * FROM t", Some("ks"), &plain));
        assert!(!is_wanted("CREATE TABLE t (k int PRIMARY KEY)", None, &plain));
        assert!(is_wanted("DROP TABLE t", None, &args(None, true)));
        assert!(!is_wanted("ALTER ROLE r WITH PASSWORD = '*******'", None, &args(None, true)));
        let of_ks = args(Some("ks"), false);
        assert!(is_wanted("SELECT 1", None, &of_ks) && is_wanted("SELECT 1", Some("ks"), &of_ks));
        assert!(!is_wanted("SELECT 1", Some("other"), &of_ks));
    }

    #[test]
    fn records_of_all_paths_come_in_the_order_of_their_starts() {
        let env = Env::for_test(1);
        let file = |name: &str, starts: &[i64]| {
            let mut bytes = HEAD.to_vec();
            assert!(starts.iter().all(|start| record("q", *start, None).encode(&mut bytes)));
            env.fs.write(name.as_ref(), &bytes).unwrap();
        };
        env.fs.create_dir_all("/a".as_ref()).unwrap();
        file("/a/1.fql", &[1, 4]);
        file("/a/2.fql", &[6]);
        file("/b.fql", &[2, 3, 5]);
        let mut sources = sources(&env, &["/a".into(), "/b.fql".into()]).unwrap();
        let mut starts = Vec::new();
        while let Some(record) = next(&mut sources).unwrap() {
            starts.push(record.started_ms);
        }
        assert_eq!(starts, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_write_has_the_timestamp_that_it_had() {
        let Request::Query(query) = request_of(&record("q", 1, None)) else { panic!("a query") };
        assert_eq!(query.params.timestamp_us, Some(7));
    }
}
