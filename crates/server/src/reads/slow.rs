//! The log of slow requests.
//!
//! A request that took `slow_query_log_timeout` or longer is kept, and told in the log at the next report,
//! together with the others of the same statement since the last one: a node in trouble writes
//! [`STATEMENTS_MAX`] lines for each report, however many requests are slow.

use super::{ReadRecord, cost_text};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Statements of one report.
const STATEMENTS_MAX: usize = 50;
/// Requests that are kept.
const KEPT_MAX: usize = 500;

/// One statement since the last report.
#[derive(Debug)]
struct Seen {
    times: u64,
    nanos_min: u64,
    nanos_sum: u64,
    worst: Arc<ReadRecord>,
}

#[derive(Debug, Default)]
struct Pending {
    statements: HashMap<Arc<str>, Seen>,
    /// Requests of statements for which there was no room.
    others: u64,
}

/// The slow requests.
#[derive(Debug, Default)]
pub struct SlowLog {
    /// With the number of each: how many there were before it.
    kept: Mutex<VecDeque<(u64, Arc<ReadRecord>)>>,
    pending: Mutex<Pending>,
}

/// What a report says of a statement.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) times: u64,
    pub(super) millis_min: u64,
    pub(super) millis_avg: u64,
    pub(super) worst: Arc<ReadRecord>,
}

impl SlowLog {
    /// Keeps a slow request.
    pub fn add(&self, read: &Arc<ReadRecord>) {
        {
            let mut kept = self.kept.lock();
            let number = kept.back().map_or(0, |(number, _)| number + 1);
            if kept.len() >= KEPT_MAX {
                kept.pop_front();
            }
            kept.push_back((number, Arc::clone(read)));
        }
        let mut pending = self.pending.lock();
        let has_room = pending.statements.len() < STATEMENTS_MAX;
        match pending.statements.get_mut(&read.statement) {
            Some(seen) => {
                seen.times += 1;
                seen.nanos_min = seen.nanos_min.min(read.nanos);
                seen.nanos_sum = seen.nanos_sum.saturating_add(read.nanos);
                if read.nanos > seen.worst.nanos {
                    seen.worst = Arc::clone(read);
                }
            }
            None if has_room => {
                let seen =
                    Seen { times: 1, nanos_min: read.nanos, nanos_sum: read.nanos, worst: Arc::clone(read) };
                pending.statements.insert(Arc::clone(&read.statement), seen);
            }
            None => pending.others += 1,
        }
    }

    /// The requests that are kept, newest first, with their numbers.
    pub fn kept(&self) -> Vec<(u64, Arc<ReadRecord>)> {
        self.kept.lock().iter().rev().cloned().collect()
    }

    /// What a report would say, the slowest first, and how many requests it leaves out; the next one starts
    /// anew.
    pub(super) fn take(&self) -> (Vec<Line>, u64) {
        let Pending { statements, others } = std::mem::take(&mut *self.pending.lock());
        let mut lines: Vec<Line> = statements
            .into_values()
            .map(|seen| Line {
                times: seen.times,
                millis_min: seen.nanos_min / 1_000_000,
                millis_avg: seen.nanos_sum / seen.times.max(1) / 1_000_000,
                worst: seen.worst,
            })
            .collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.worst.nanos));
        (lines, others)
    }

    /// Writes the log: a line for each statement that was slow since the last report, with the values, the
    /// waits and the cost of its slowest execution.
    pub fn report(&self, timeout_millis: u64) {
        let (lines, others) = self.take();
        for line in lines {
            let read = &line.worst;
            let table = read.table.as_deref();
            tracing::warn!(
                target: "ilion::slow_query",
                statement = &*read.statement,
                keyspace = table.map_or("", |t| t.keyspace.as_str()),
                table = table.map_or("", |t| t.name.as_str()),
                restriction = read.restriction,
                client = %read.client,
                times = line.times,
                min_ms = line.millis_min,
                avg_ms = line.millis_avg,
                max_ms = read.nanos / 1_000_000,
                reader_wait_micros = read.waits.reader_nanos / 1_000,
                proof_wait_micros = read.waits.proof_nanos / 1_000,
                timeout_ms = timeout_millis,
                cost = cost_text(&read.cost),
                "slow query"
            );
        }
        if others > 0 {
            tracing::warn!(target: "ilion::slow_query", others, "more statements were slow than are told of");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record;
    use super::*;

    #[test]
    fn a_report_has_a_line_for_each_statement_and_then_starts_anew() {
        let log = SlowLog::default();
        for millis in [600, 900, 700] {
            log.add(&record("SELECT a", millis * 1_000_000));
        }
        log.add(&record("SELECT b", 2_000_000_000));
        let (lines, others) = log.take();
        let told: Vec<_> = lines
            .iter()
            .map(|l| (&*l.worst.statement, l.times, l.millis_min, l.millis_avg, l.worst.nanos / 1_000_000))
            .collect();
        assert_eq!(told, [("SELECT b", 1, 2_000, 2_000, 2_000), ("SELECT a", 3, 600, 733, 900)]);
        assert_eq!((others, log.take().0.len(), log.kept().len()), (0, 0, 4));
    }

    #[test]
    fn what_is_kept_and_told_is_bounded() {
        let log = SlowLog::default();
        for n in 0..KEPT_MAX + 100 {
            log.add(&record(&format!("SELECT {n}"), 1));
        }
        let (lines, others) = log.take();
        assert_eq!((lines.len(), others as usize), (STATEMENTS_MAX, KEPT_MAX + 100 - STATEMENTS_MAX));
        assert_eq!(log.kept().len(), KEPT_MAX);
        assert_eq!(&*log.kept()[0].1.statement, format!("SELECT {}", KEPT_MAX + 99));
    }
}
