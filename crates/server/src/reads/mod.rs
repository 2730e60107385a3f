//! Reads that are worth remembering: slow ones for the log and `system_views.slow_queries`, and a few of
//! every latency for who watches (`ilion top`).
//!
//! Every read is counted in the [`HeatMap`]; a [`ReadRecord`] is made only of one that is slow, or that the
//! map takes as a sample of its band. All that is kept is bounded: texts, keys, records.

mod heat;
mod slow;

pub use heat::HeatMap;
pub use slow::SlowLog;

use crate::config::SlowQueryValues;
use crate::redact;
use model::TableSchema;
use partition::CostSnapshot;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use tools::api::ReadSample;

/// Bytes of a statement that are kept.
const STATEMENT_BYTES_MAX: usize = 2_048;

/// Time in which a request waited, on no thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// For a reader thread.
    pub reader_nanos: u64,
    /// For SSTables to be compared with their digests.
    pub proof_nanos: u64,
}

/// One read.
#[derive(Clone, Debug)]
pub struct ReadRecord {
    /// When it was answered, in microseconds since the epoch.
    pub at_micros: i64,
    /// The second of the heat map in which it is counted, since the epoch.
    pub second: u64,
    /// From the arrival of the request to its answer.
    pub nanos: u64,
    /// The part of it in which it waited.
    pub waits: Waits,
    /// The table; `None` for a request that is no read.
    pub table: Option<Arc<TableSchema>>,
    /// The statement's text, or its beginning.
    pub statement: Arc<str>,
    /// What it asked for, as CQL with the values that were bound, in part if it is long.
    pub restriction: String,
    /// Who asked.
    pub client: SocketAddr,
    /// What it cost.
    pub cost: CostSnapshot,
    /// Why it came to no answer, as the client was told.
    pub failure: Option<String>,
}

impl ReadRecord {
    /// For the admin API.
    pub fn to_sample(&self) -> ReadSample {
        let table = self.table.as_deref();
        ReadSample {
            at_millis: self.at_micros / 1_000,
            second: self.second,
            micros: self.nanos / 1_000,
            reader_wait_micros: self.waits.reader_nanos / 1_000,
            proof_wait_micros: self.waits.proof_nanos / 1_000,
            keyspace: table.map_or_else(String::new, |t| t.keyspace.clone()),
            table: table.map_or_else(String::new, |t| t.name.clone()),
            statement: self.statement.to_string(),
            restriction: self.restriction.clone(),
            client: self.client.to_string(),
            cost: nonzero(&self.cost).map(|(name, count)| (name.to_owned(), count)).collect(),
            failure: self.failure.clone(),
        }
    }
}

/// The counters that are not 0.
pub fn nonzero(cost: &CostSnapshot) -> impl Iterator<Item = (&'static str, u64)> {
    cost.entries().filter(|(_, count)| *count > 0)
}

/// The counters that are not 0, as `name=count` words.
pub fn cost_text(cost: &CostSnapshot) -> String {
    nonzero(cost).map(|(name, count)| format!("{name}={count}")).collect::<Vec<_>>().join(" ")
}

/// The statement as it is kept: without passwords, and without values if that is wanted; its beginning if it
/// is long.
pub fn kept(statement: &Arc<str>, values: SlowQueryValues) -> Arc<str> {
    let told = redact::passwords(statement);
    match (values, told) {
        (SlowQueryValues::Shown, Cow::Borrowed(_)) => bounded(statement),
        (SlowQueryValues::Shown, Cow::Owned(told)) => bounded(&told.into()),
        (SlowQueryValues::Redacted, told) => bounded(&redact::literals(&told).into()),
    }
}

/// The text, or its beginning.
fn bounded(statement: &Arc<str>) -> Arc<str> {
    if statement.len() <= STATEMENT_BYTES_MAX {
        return Arc::clone(statement);
    }
    let mut end = STATEMENT_BYTES_MAX;
    while !statement.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &statement[..end]).into()
}

/// What is remembered of reads.
#[derive(Debug, Default)]
pub struct ReadLog {
    /// How many reads of which latency there were, second by second.
    pub heat: HeatMap,
    /// The slow ones.
    pub slow: SlowLog,
}

#[cfg(test)]
pub(crate) fn record(statement: &str, nanos: u64) -> Arc<ReadRecord> {
    Arc::new(ReadRecord {
        at_micros: 1_795_253_000_000_000,
        second: 1_795_253_000,
        nanos,
        waits: Waits { reader_nanos: nanos / 2, proof_nanos: nanos / 4 },
        table: None,
        statement: statement.into(),
        restriction: "k = 'a'".to_owned(),
        client: ([127, 0, 0, 1], 4000).into(),
        cost: CostSnapshot { ios: 2, ..CostSnapshot::default() },
        failure: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_statements_are_kept_in_part() {
        let long: Arc<str> =
            format!("SELECT '{}ž{}'", "x".repeat(STATEMENT_BYTES_MAX - 9), "y".repeat(100)).into();
        let kept = bounded(&long);
        assert!(kept.ends_with("x…") && kept.len() <= STATEMENT_BYTES_MAX + 3, "{}", kept.len());
        let short: Arc<str> = "SELECT".into();
        assert!(Arc::ptr_eq(&bounded(&short), &short));
    }

    #[test]
    fn values_are_kept_as_the_setting_says_and_passwords_never() {
        let read: Arc<str> = "SELECT v FROM t WHERE k = 'geheim'".into();
        assert!(Arc::ptr_eq(&kept(&read, SlowQueryValues::Shown), &read));
        assert_eq!(&*kept(&read, SlowQueryValues::Redacted), "SELECT v FROM t WHERE k = ?");
        let role: Arc<str> = "CREATE ROLE r WITH PASSWORD = 'geheim'".into();
        for values in [SlowQueryValues::Shown, SlowQueryValues::Redacted] {
            let told = kept(&role, values);
            assert!(told.starts_with("CREATE ROLE r WITH PASSWORD") && !told.contains("geheim"), "{told}");
        }
    }

    #[test]
    fn samples_tell_what_was_waited_for() {
        let sample = record("SELECT", 8_000_000).to_sample();
        assert_eq!(
            (sample.micros, sample.reader_wait_micros, sample.proof_wait_micros),
            (8_000, 4_000, 2_000)
        );
    }

    #[test]
    fn samples_name_what_was_counted() {
        let sample = record("SELECT", 1_500).to_sample();
        assert_eq!((sample.micros, sample.at_millis), (1, 1_795_253_000_000));
        assert_eq!(sample.restriction, "k = 'a'");
        assert_eq!(sample.cost.into_iter().collect::<Vec<_>>(), [("ios".to_owned(), 2)]);
    }
}
