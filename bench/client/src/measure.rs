//! What a run measures, and how it is told.
//!
//! 1. A run has a [`Window`]; what lies before it warms up. Or it has parts (`crate::parts`), each with
//!    latencies of its own.
//! 2. Each thread fills a [`Tally`] of its own; they are added up at the end.
//! 3. A latency runs from the instant an operation was *meant* to begin: in a closed loop that is when it
//!    began, at a fixed rate when the rate wanted it. So a server that stalls is charged for every operation
//!    that it held up, and not only for the one it was working on.

use std::collections::BTreeMap;
use std::time::Instant;

use hdrhistogram::Histogram;
use protocol::response::error::ErrorResponse;
use serde::Serialize;

/// Nanoseconds since the start of the run, on every thread.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// Starts at zero.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Now.
    pub fn now_ns(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// The measured part of a run, in nanoseconds of its [`Clock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The end of the warm-up.
    pub begin_ns: u64,
    /// The end of the run; `u64::MAX`: when the workload ends.
    pub end_ns: u64,
}

impl Window {
    /// True for an instant inside.
    pub fn holds(self, at_ns: u64) -> bool {
        (self.begin_ns..self.end_ns).contains(&at_ns)
    }
}

/// Latencies up to ten minutes with three digits.
fn histogram() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, 600_000_000_000, 3);
    made.unwrap_or_else(|error| unreachable!("fixed bounds: {error}"))
}

/// What one thread saw.
#[derive(Debug, Default)]
pub struct Tally {
    /// Answers of rows, those of the warm-up included.
    pub reads: u64,
    /// Answers whose values were compared with the data.
    pub checked: u64,
    /// Operations that got no answer in the patience after the end.
    pub unanswered: u64,
    /// Refusals by what they said.
    errors: BTreeMap<String, u64>,
    /// What was measured, by the index of the part.
    parts: Vec<Part>,
}

/// What one thread saw of one part.
#[derive(Debug)]
pub struct Part {
    /// Operations answered in it.
    pub operations: u64,
    /// From the instant meant to the answer, in nanoseconds.
    latency: Histogram<u64>,
    /// From the instant meant to the sending, in nanoseconds: the client's own lateness, and its waiting for
    /// a place.
    lag: Histogram<u64>,
}

impl Default for Part {
    fn default() -> Self {
        Self { operations: 0, latency: histogram(), lag: histogram() }
    }
}

impl Part {
    /// Records the latency of an operation.
    pub fn latency(&mut self, nanos: u64) {
        self.latency.saturating_record(nanos.max(1));
    }

    /// Records how late an operation was sent.
    pub fn lag(&mut self, nanos: u64) {
        self.lag.saturating_record(nanos.max(1));
    }

    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        // Both have the same bounds, so nothing can fall outside.
        let _ = self.latency.add(&other.latency);
        let _ = self.lag.add(&other.lag);
    }
}

impl Tally {
    /// The part with this index.
    pub fn part(&mut self, index: usize) -> &mut Part {
        if self.parts.len() <= index {
            self.parts.resize_with(index + 1, Part::default);
        }
        // It is there now.
        &mut self.parts[index]
    }

    /// Counts a refusal.
    pub fn refused(&mut self, error: &ErrorResponse) {
        *self.errors.entry(error.to_string()).or_default() += 1;
    }

    /// Adds what another thread saw.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.checked += other.checked;
        self.unanswered += other.unanswered;
        for (text, count) in &other.errors {
            *self.errors.entry(text.clone()).or_default() += count;
        }
        for (index, part) in other.parts.iter().enumerate() {
            self.part(index).add(part);
        }
    }

    /// The figures of a part that was measured for `window_s` seconds, and what is known of the whole run.
    pub fn figures(&mut self, part: usize, window_s: f64) -> Figures {
        let (answers_checked, unanswered, errors) = (self.checked, self.unanswered, self.errors.clone());
        let part = self.part(part);
        Figures {
            operations: part.operations,
            operations_per_s: part.operations as f64 / window_s,
            latency_us: Percentiles::of(&part.latency),
            send_lag_us: (!part.lag.is_empty()).then(|| Percentiles::of(&part.lag)),
            answers_checked,
            unanswered,
            errors,
        }
    }
}

/// The figures of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// Operations answered inside the window.
    pub operations: u64,
    /// Throughput.
    pub operations_per_s: f64,
    /// Latency at the client.
    pub latency_us: Percentiles,
    /// At a fixed rate: how late operations were sent, which is part of their latency.
    pub send_lag_us: Option<Percentiles>,
    /// Answers whose values were compared with the data.
    pub answers_checked: u64,
    /// Operations that never got an answer.
    pub unanswered: u64,
    /// Refusals by what they said.
    pub errors: BTreeMap<String, u64>,
}

/// A distribution in microseconds.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Percentiles {
    pub count: u64,
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub p99_99: f64,
    pub max: f64,
}

impl Percentiles {
    fn of(histogram: &Histogram<u64>) -> Self {
        let us = |nanos: u64| nanos as f64 / 1e3;
        let at = |quantile| us(histogram.value_at_quantile(quantile));
        Self {
            count: histogram.len(),
            mean: histogram.mean() / 1e3,
            min: us(histogram.min()),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: us(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_all_threads_are_in_microseconds() {
        let mut all = Tally::default();
        for thread in 0..2 {
            let mut tally = Tally::default();
            let part = tally.part(1);
            part.operations = 500;
            (0..500).for_each(|i| part.latency((thread * 500 + i + 1) * 1_000));
            all.add(&tally);
        }
        assert_eq!(all.figures(0, 2.0).operations, 0);
        let figures = all.figures(1, 2.0);
        assert_eq!((figures.operations, figures.operations_per_s), (1_000, 500.0));
        let close = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.002;
        assert!(close(figures.latency_us.p50, 500.0), "{:?}", figures.latency_us);
        assert!(close(figures.latency_us.p99_9, 999.0), "{:?}", figures.latency_us);
        assert!(close(figures.latency_us.max, 1_000.0), "{:?}", figures.latency_us);
        assert!(figures.send_lag_us.is_none());
    }

    #[test]
    fn refusals_are_counted_by_what_they_said() {
        let mut tally = Tally::default();
        tally.refused(&ErrorResponse::overloaded("busy"));
        let mut all = Tally::default();
        all.add(&tally);
        all.add(&tally);
        assert_eq!(all.figures(0, 1.0).errors, BTreeMap::from([("[code=1001] busy".to_owned(), 2)]));
    }

    #[test]
    fn a_window_does_not_hold_its_end() {
        let window = Window { begin_ns: 10, end_ns: 20 };
        assert_eq!([9, 10, 19, 20].map(|at| window.holds(at)), [false, true, true, false]);
    }
}
