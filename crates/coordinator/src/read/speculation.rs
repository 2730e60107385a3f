//! When a replica that was not asked yet is asked, too: `speculative_retry` of a table.
//!
//! ```text
//! policy := ALWAYS | NEVER | NONE | simple | ( MIN | MAX ) '(' simple ',' simple ')'
//! simple := number ( p | percentile ) | number ms
//! ```
//! A percentile is that of the last [`SAMPLES_MAX`] gathered reads of the table. As long as there are none it
//! stands for half the time that is left for the read, as in Cassandra.

use env::sync::Mutex;
use foldhash::{HashMap, HashMapExt as _};
use std::time::Duration;
use uuid::Uuid;

/// Reads of a table that a percentile is of.
const SAMPLES_MAX: usize = 256;

/// How long the reads of each table took.
pub(crate) struct Latencies(Mutex<HashMap<Uuid, Samples>>);

#[derive(Default)]
struct Samples {
    nanos: Vec<u64>,
    /// The place of the next one.
    next: usize,
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        Latencies(Mutex::new(HashMap::new()))
    }

    /// Takes note of a read.
    pub(super) fn add(&self, table: Uuid, nanos: u64) {
        let mut tables = self.0.lock();
        let samples = tables.entry(table).or_default();
        // It takes the place of the oldest, once there are as many as may be.
        match samples.nanos.get_mut(samples.next) {
            Some(oldest) => *oldest = nanos,
            None => samples.nanos.push(nanos),
        }
        samples.next = (samples.next + 1) % SAMPLES_MAX;
    }

    /// What so many percent of the reads of a table took at most; `None` if there were none.
    pub(super) fn percentile(&self, table: Uuid, percent: f64) -> Option<Duration> {
        let mut nanos = self.0.lock().get(&table)?.nanos.clone();
        let rank = (nanos.len() as f64 * percent / 100.0).ceil() as usize;
        let at = rank.saturating_sub(1).min(nanos.len().checked_sub(1)?);
        Some(Duration::from_nanos(*nanos.select_nth_unstable(at).1))
    }
}

/// How long the replicas that were asked first are waited for alone, by a policy; `None` for ever.
pub(super) fn patience(policy: &str, percentile: impl Fn(f64) -> Option<Duration>) -> Option<Duration> {
    let policy = policy.trim().to_ascii_uppercase();
    let both = |arguments: &str| {
        let (left, right) = arguments.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
        Some((simple(left, &percentile)?, simple(right, &percentile)?))
    };
    match policy.as_str() {
        "ALWAYS" => Some(Duration::ZERO),
        // Cassandra's words for "never".
        "NEVER" | "NONE" => None,
        _ if policy.starts_with("MIN") => both(policy.get(3..)?).map(|(left, right)| left.min(right)),
        _ if policy.starts_with("MAX") => both(policy.get(3..)?).map(|(left, right)| left.max(right)),
        other => simple(other, &percentile),
    }
}

fn simple(text: &str, percentile: impl Fn(f64) -> Option<Duration>) -> Option<Duration> {
    let text = text.trim();
    if let Some(millis) = text.strip_suffix("MS") {
        return Duration::try_from_secs_f64(millis.parse::<f64>().ok()? / 1_000.0).ok();
    }
    percentile(text.strip_suffix("PERCENTILE").or_else(|| text.strip_suffix('P'))?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    #[test]
    fn policies_are_waits() {
        let percentile = |percent: f64| millis((percent * 10.0) as u64);
        for (text, expected) in [
            ("ALWAYS", millis(0)),
            ("NEVER", None),
            ("NONE", None),
            ("50ms", millis(50)),
            ("99p", millis(990)),
            ("99.5PERCENTILE", millis(995)),
            ("MIN(99p,50ms)", millis(50)),
            ("MAX(99p,50ms)", millis(990)),
            ("min(2000ms, 99p)", millis(990)),
            ("-1ms", None),
            ("", None),
            ("MIN(", None),
        ] {
            assert_eq!(patience(text, percentile), expected, "{text}");
        }
        assert_eq!(patience("99p", |_| None), None);
    }

    #[test]
    fn a_percentile_is_of_the_last_reads() {
        let (latencies, table) = (Latencies::new(), Uuid::from_u128(1));
        assert_eq!(latencies.percentile(table, 99.0), None);
        latencies.add(table, 7);
        for percent in [0.1, 50.0, 99.9] {
            assert_eq!(latencies.percentile(table, percent), Some(Duration::from_nanos(7)));
        }
        (1..=1_000).for_each(|nanos| latencies.add(table, nanos));
        let of = |percent| latencies.percentile(table, percent).unwrap().as_nanos();
        assert_eq!((of(0.1), of(50.0), of(99.9)), (745, 872, 1_000));
        assert_eq!(latencies.percentile(Uuid::from_u128(2), 99.0), None);
    }
}
