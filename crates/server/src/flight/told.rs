//! What the audit log is told of bulk reads.
//!
//! ```text
//! GetFlightInfo ─> tickets, one a range of tokens        told if it fails
//! DoGet, first ticket of a statement ─> rows             SELECT, one entry for each table
//! DoGet, its other tickets ─> rows                       nothing more
//! ```
//!
//! 1. A ticket says all that its rows need, and anybody can write one. So not the plan is told but the read:
//!    a node that forgets what was told, as after a restart, tells it again.
//! 2. A statement is the same while its user, the client's address, its text with its values, and its moment
//!    are. Its limit does not count: what is left of it shrinks as `ilion export` goes along.
//! 3. A range of tokens that is fetched more often than its statement was told is told.
//! 4. What was told is forgotten after an hour, or for others where there are many.

use crate::audit::kind::{Context, Kind};
use crate::audit::{Audit, Entry};
use crate::redact;
use crate::state::NodeState;
use bulk::flight::{LogOfCaller, ReadLog};
use bulk::sql::TableName;
use bulk::ticket::{Asked, Ticket};
use parking_lot::Mutex;
use ring::digest;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tonic::{Code, Status};

/// Statements that are remembered.
const STATEMENTS_MAX: usize = 1_024;
/// Ranges of tokens that are, of all statements.
const RANGES_MAX: usize = 65_536;
/// How long they are.
const REMEMBERED_MS: i64 = 3_600_000;

type Hash = [u8; digest::SHA256_OUTPUT_LEN];

fn hash(parts: &[&[u8]]) -> Hash {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut out = [0; digest::SHA256_OUTPUT_LEN];
    out.copy_from_slice(context.finish().as_ref());
    out
}

/// A statement that was told.
#[derive(Debug, Default)]
struct Told {
    at_ms: i64,
    times: u32,
    /// How often each range of tokens was fetched.
    fetched: HashMap<Hash, u32>,
}

#[derive(Debug, Default)]
struct Memory {
    statements: HashMap<Hash, Told>,
    /// The oldest first; those that were forgotten may be among them.
    by_age: VecDeque<(i64, Hash)>,
    ranges: usize,
}

/// The reads that were told.
#[derive(Debug, Default)]
pub(crate) struct ToldReads(Mutex<Memory>);

impl ToldReads {
    /// Whether the read of a ticket is to be told; it counts as told then.
    fn is_news(&self, user: Option<&str>, from: IpAddr, ticket: &Ticket, now_ms: i64) -> bool {
        let mut whole = Ticket { split: None, ..ticket.clone() };
        if let Asked::Scan(select) = &mut whole.asked {
            select.limit = None;
        }
        let range = Ticket { asked: Asked::Sql(String::new()), ..ticket.clone() };
        let user = user.map_or(Vec::new(), |user| [b"u", user.as_bytes()].concat());
        let statement = hash(&[&user, from.to_string().as_bytes(), &whole.to_bytes()]);
        self.0.lock().is_news(statement, hash(&[&range.to_bytes()]), now_ms)
    }
}

impl Memory {
    fn is_news(&mut self, statement: Hash, range: Hash, now_ms: i64) -> bool {
        while let Some((at_ms, oldest)) = self.by_age.front() {
            let is_old = now_ms.saturating_sub(*at_ms) >= REMEMBERED_MS;
            let is_full = self.statements.len() >= STATEMENTS_MAX || self.ranges >= RANGES_MAX;
            if !is_old && !is_full {
                break;
            }
            if let Some(told) = self.statements.remove(oldest) {
                self.ranges -= told.fetched.len();
            }
            self.by_age.pop_front();
        }
        let told = self.statements.entry(statement).or_default();
        if told.times == 0 {
            told.at_ms = now_ms;
            self.by_age.push_back((now_ms, statement));
        }
        let ranges_before = told.fetched.len();
        let fetched = told.fetched.entry(range).or_default();
        *fetched = fetched.saturating_add(1);
        let is_news = *fetched > told.times;
        told.times += u32::from(is_news);
        self.ranges += told.fetched.len() - ranges_before;
        is_news
    }
}

/// The log of one request.
struct Log {
    state: Arc<NodeState>,
    user: Option<Arc<str>>,
    source: SocketAddr,
    /// When the request came.
    at_ms: i64,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("user", &self.user).field("source", &self.source).finish_non_exhaustive()
    }
}

/// What goes along with a request that comes now, by somebody who has logged in or has not; `None` where no
/// audit log is on. Waits for the log's room, for a bounded time.
pub(crate) async fn log_of_caller(
    state: &Arc<NodeState>,
    user: Option<&Arc<str>>,
    source: SocketAddr,
) -> Option<LogOfCaller> {
    let audit = state.logs.audit()?;
    let at_ms = state.env.now_micros().div_euclid(1_000);
    if audit.is_full() {
        audit.room().await;
    }
    let nobody = || (!state.auth.authenticates()).then(|| crate::net::ANONYMOUS.into());
    let user = user.cloned().or_else(nobody);
    Some(LogOfCaller(Arc::new(Log { state: Arc::clone(state), user, source, at_ms })))
}

impl Log {
    fn entry(&self, kind: Kind, table: Option<&TableName>, operation: Arc<str>) -> Entry {
        let context = Context {
            kind,
            keyspace: table.map(|table| table.keyspace.clone()),
            scope: table.map(|table| table.table.clone()),
        };
        Entry {
            user: self.user.clone(),
            source: self.source,
            at_ms: self.at_ms,
            kind: context.kind,
            batch: None,
            keyspace: context.keyspace.map(Arc::from),
            scope: context.scope,
            operation,
        }
    }

    /// An entry for each table, or one where there is none.
    fn each(&self, audit: &Audit, kind: Kind, statement: &str, tables: &[TableName]) {
        let operation: Arc<str> = statement.into();
        if tables.is_empty() {
            audit.push(self.entry(kind, None, Arc::clone(&operation)));
        }
        for table in tables {
            audit.push(self.entry(kind, Some(table), Arc::clone(&operation)));
        }
    }
}

impl ReadLog for Log {
    fn read(&self, ticket: &Ticket, statement: &str, tables: &[TableName]) {
        let Some(audit) = self.state.logs.audit() else { return };
        let (user, now_ms) = (self.user.as_deref(), self.state.env.now_micros().div_euclid(1_000));
        if self.state.told_reads.is_news(user, self.source.ip(), ticket, now_ms) {
            self.each(&audit, Kind::Select, statement, tables);
        }
    }

    fn prepared(&self, statement: &str, tables: &[TableName]) {
        if let Some(audit) = self.state.logs.audit() {
            self.each(&audit, Kind::PrepareStatement, statement, tables);
        }
    }

    fn failed(&self, statement: &str, table: Option<&TableName>, why: &Status) {
        let Some(audit) = self.state.logs.audit() else { return };
        let kind = match why.code() {
            Code::PermissionDenied => Kind::UnauthorizedAttempt,
            Code::Unauthenticated => Kind::LoginError,
            _ => Kind::RequestFailure,
        };
        let reason = match why.code() {
            // It may quote the password.
            Code::InvalidArgument if redact::names_password(statement) => {
                "Syntax Exception. Obscured for security reasons.".into()
            }
            _ => redact::behind_password(why.message()),
        };
        let statement = redact::behind_password(statement);
        let operation = match statement.is_empty() {
            true => reason.into_owned(),
            false => format!("{statement}; {reason}"),
        };
        audit.push(self.entry(kind, table, operation.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulk::{Select, Split};
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn ticket(text: &str, after: Option<i64>) -> Ticket {
        let split = Some(Split { after, ..Split::FULL });
        Ticket { asked: Asked::Sql(text.to_owned()), now_s: 7, split }
    }

    #[test]
    fn tickets_of_a_statement_are_one_read() {
        let told = ToldReads::default();
        let is_news = |user: &str, from: [u8; 4], ticket: &Ticket| {
            told.is_news(Some(user), IpAddr::from(from), ticket, 1_000)
        };
        assert!(is_news("bob", [127, 0, 0, 1], &ticket("a", None)));
        for after in 1..70 {
            assert!(!is_news("bob", [127, 0, 0, 1], &ticket("a", Some(after))));
        }
        assert!(is_news("amy", [127, 0, 0, 1], &ticket("a", Some(1))), "another user");
        assert!(is_news("bob", [127, 0, 0, 2], &ticket("a", Some(1))), "another place");
        assert!(is_news("bob", [127, 0, 0, 1], &ticket("b", Some(1))), "another statement");
        assert!(is_news("bob", [127, 0, 0, 1], &Ticket { now_s: 8, ..ticket("a", None) }), "another moment");
    }

    #[test]
    fn a_range_that_is_fetched_again_is_told_again() {
        let told = ToldReads::default();
        let is_news = |after| told.is_news(None, HERE, &ticket("a", after), 1_000);
        assert_eq!([None, Some(1), None, Some(1), Some(1)].map(is_news), [true, false, true, false, true]);
    }

    #[test]
    fn what_is_left_of_a_limit_makes_no_other_statement() {
        let told = ToldReads::default();
        let scan = |limit, after| Ticket {
            asked: Asked::Scan(Select { limit: Some(limit), ..Select::of("ks", "t") }),
            ..ticket("", Some(after))
        };
        assert!(told.is_news(None, HERE, &scan(10, 1), 0) && !told.is_news(None, HERE, &scan(3, 2), 0));
    }

    #[test]
    fn what_was_told_is_forgotten_after_an_hour_and_where_there_is_much() {
        let told = ToldReads::default();
        let is_news = |text: &str, after, at_ms| told.is_news(None, HERE, &ticket(text, after), at_ms);
        assert!(is_news("a", None, 0) && !is_news("a", Some(1), REMEMBERED_MS - 1));
        assert!(is_news("a", Some(2), REMEMBERED_MS));
        for i in 0..3 * STATEMENTS_MAX {
            assert!(is_news(&format!("{i}"), None, REMEMBERED_MS));
        }
        assert!(is_news("a", Some(3), REMEMBERED_MS));
        for after in 0..RANGES_MAX as i64 + 10 {
            is_news("b", Some(after), REMEMBERED_MS);
        }
        let memory = told.0.lock();
        let ranges: usize = memory.statements.values().map(|told| told.fetched.len()).sum();
        assert!(memory.statements.len() <= STATEMENTS_MAX && memory.by_age.len() <= STATEMENTS_MAX);
        assert!(memory.ranges == ranges && ranges <= RANGES_MAX, "{} {ranges}", memory.ranges);
    }
}
