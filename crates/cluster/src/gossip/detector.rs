//! Who is thought dead: the phi accrual failure detector, as Cassandra has it.
//!
//! A node's heartbeats arrive at intervals. The longer a node is silent, measured in its own mean interval,
//! the larger is its phi: with exponentially distributed intervals it is the negative logarithm of the chance
//! that the next heartbeat is merely late. Above the threshold the node is taken for dead.
//!
//! ```text
//! phi = silence / mean interval / ln 10
//! ```
//! - The first interval of a node is taken as 2 s, so that few samples do not convict.
//! - An interval of more than 2 s is left out of the mean: a long outage is not what a node is used to.
//! - Who was itself away for more than 5 s knows nothing of others. For 5 s more it convicts nobody.
//!
//! Time comes in as nanoseconds of a monotonic clock. Sources: "The phi accrual failure detector"
//! (Hayashibara et al.), CASSANDRA-2597, `FailureDetector` and `ArrivalWindow` of Cassandra 4.0. Cassandra
//! 5.0 counts its limit of 2 s in the wrong unit, so that it never applies; here it does.

use crate::endpoint::Endpoint;
use std::collections::BTreeMap;

/// Intervals that a window remembers.
const SAMPLES_MAX: usize = 1_000;
/// What stands for the first interval.
const INITIAL_INTERVAL_NANOS: u64 = 2_000_000_000;
/// The longest interval that counts.
const INTERVAL_NANOS_MAX: u64 = 2_000_000_000;
/// The longest time between two rounds that is not a pause of this node.
const LOCAL_PAUSE_NANOS_MAX: u64 = 5_000_000_000;

/// The threshold of `phi_convict_threshold`, unless it is set.
pub const DEFAULT_PHI_CONVICT_THRESHOLD: f64 = 8.0;

/// The last intervals between heartbeats of one node.
#[derive(Clone, Debug, Default)]
pub struct ArrivalWindow {
    last_nanos: Option<u64>,
    intervals: Vec<u64>,
    /// Where the oldest interval is, once the window is full.
    oldest: usize,
    sum: u64,
    last_phi: Option<f64>,
}

impl ArrivalWindow {
    /// A heartbeat arrived.
    pub fn add(&mut self, now_nanos: u64) {
        match self.last_nanos.replace(now_nanos) {
            None => self.push(INITIAL_INTERVAL_NANOS),
            Some(last) => {
                let interval = now_nanos.saturating_sub(last);
                if interval <= INTERVAL_NANOS_MAX {
                    self.push(interval);
                }
            }
        }
    }

    fn push(&mut self, interval: u64) {
        self.sum += interval;
        if self.intervals.len() < SAMPLES_MAX {
            self.intervals.push(interval);
        } else if let Some(oldest) = self.intervals.get_mut(self.oldest) {
            self.sum -= *oldest;
            *oldest = interval;
            self.oldest = (self.oldest + 1) % SAMPLES_MAX;
        }
    }

    /// The mean interval in nanoseconds; 0 before the first heartbeat.
    pub fn mean_nanos(&self) -> f64 {
        match self.intervals.len() {
            0 => 0.0,
            len => self.sum as f64 / len as f64,
        }
    }

    /// How sure it is that the node is dead; 0 before the first heartbeat.
    pub fn phi(&self, now_nanos: u64) -> f64 {
        let mean = self.mean_nanos();
        match self.last_nanos {
            Some(last) if mean > 0.0 => {
                now_nanos.saturating_sub(last) as f64 / mean / std::f64::consts::LN_10
            }
            _ => 0.0,
        }
    }
}

/// What speaks for a node being dead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suspicion {
    /// How sure it is.
    pub phi: f64,
    /// Above which phi a node is taken for dead.
    pub threshold: f64,
    /// How long ago its last heartbeat arrived, in nanoseconds.
    pub silent_nanos: u64,
    /// The mean interval of its heartbeats, in nanoseconds.
    pub mean_nanos: f64,
}

/// The windows of all nodes.
#[derive(Debug)]
pub struct FailureDetector {
    windows: BTreeMap<Endpoint, ArrivalWindow>,
    threshold: f64,
    last_round_nanos: u64,
    paused_nanos: Option<u64>,
}

impl FailureDetector {
    /// A detector that knows nobody.
    pub fn new(threshold: f64, now_nanos: u64) -> FailureDetector {
        FailureDetector {
            windows: BTreeMap::new(),
            threshold,
            last_round_nanos: now_nanos,
            paused_nanos: None,
        }
    }

    /// Sets the phi above which a node is taken for dead.
    pub fn set_threshold(&mut self, threshold: f64) {
        self.threshold = threshold;
    }

    /// A newer heartbeat of a node arrived.
    pub fn report(&mut self, endpoint: Endpoint, now_nanos: u64) {
        self.windows.entry(endpoint).or_default().add(now_nanos);
    }

    /// Forgets what a node is used to.
    pub fn remove(&mut self, endpoint: &Endpoint) {
        self.windows.remove(endpoint);
    }

    /// Begins a round of judgements. Says whether anybody may be convicted in it.
    pub fn begin_round(&mut self, now_nanos: u64) -> bool {
        let since = now_nanos.saturating_sub(self.last_round_nanos);
        self.last_round_nanos = now_nanos;
        if since > LOCAL_PAUSE_NANOS_MAX {
            self.paused_nanos = Some(now_nanos);
        }
        self.paused_nanos.is_none_or(|at| now_nanos.saturating_sub(at) >= LOCAL_PAUSE_NANOS_MAX)
    }

    /// Whether a node is to be taken for dead.
    pub fn is_convicted(&mut self, endpoint: &Endpoint, now_nanos: u64) -> bool {
        let Some(window) = self.windows.get_mut(endpoint) else { return false };
        let phi = window.phi(now_nanos);
        window.last_phi = Some(phi);
        phi > self.threshold
    }

    /// Why a node is or was suspected; `None` for one that was never heard.
    pub fn suspicion(&self, endpoint: &Endpoint, now_nanos: u64) -> Option<Suspicion> {
        let window = self.windows.get(endpoint)?;
        let silent_nanos = now_nanos.saturating_sub(window.last_nanos?);
        let (phi, mean_nanos) = (window.phi(now_nanos), window.mean_nanos());
        Some(Suspicion { phi, threshold: self.threshold, silent_nanos, mean_nanos })
    }

    /// The phi of each node when it was last judged.
    pub fn phis(&self) -> impl Iterator<Item = (Endpoint, f64)> {
        self.windows.iter().filter_map(|(endpoint, window)| Some((*endpoint, window.last_phi?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn window(arrivals: impl IntoIterator<Item = u64>) -> ArrivalWindow {
        let mut window = ArrivalWindow::default();
        arrivals.into_iter().for_each(|at| window.add(at));
        window
    }

    fn endpoint() -> Endpoint {
        Endpoint::new([127, 0, 0, 1].into(), 7_000)
    }

    #[test]
    fn nobody_is_suspected_before_the_first_heartbeat() {
        assert_eq!((window([]).phi(9 * SECOND), window([]).mean_nanos()), (0.0, 0.0));
    }

    #[test]
    fn phi_is_silence_in_means_over_the_logarithm_of_ten() {
        // 111, 222, 333 as in FailureDetectorTest of Cassandra: a first interval of 2 s, then two of 111 ns.
        let window = window([111, 222, 333]);
        assert_eq!(window.mean_nanos(), (2e9 + 222.0) / 3.0);
        let phi = 666.0 / window.mean_nanos() / std::f64::consts::LN_10;
        assert!((window.phi(999) - phi).abs() < 1e-18);
        assert_eq!(window.phi(100), 0.0, "a clock that went back is no silence");
    }

    #[test]
    fn a_steady_node_is_convicted_after_eighteen_and_a_half_intervals() {
        let window = window((1..=2_000).map(|second| second * SECOND));
        assert_eq!(window.mean_nanos(), 1e9);
        assert!((window.phi(2_001 * SECOND) - std::f64::consts::LOG10_E).abs() < 1e-9);
        assert!(window.phi(2_018 * SECOND) < 8.0 && window.phi(2_019 * SECOND) > 8.0);
    }

    #[test]
    fn a_first_heartbeat_alone_convicts_after_thirty_seven_seconds() {
        let window = window([SECOND]);
        assert!(window.phi(37 * SECOND) < 8.0 && window.phi(38 * SECOND) > 8.0);
    }

    #[test]
    fn a_long_outage_is_not_what_a_node_is_used_to() {
        let mut window = window([0, SECOND]);
        let mean = window.mean_nanos();
        window.add(100 * SECOND);
        assert_eq!((window.mean_nanos(), window.phi(100 * SECOND)), (mean, 0.0));
        window.add(102 * SECOND);
        assert!(window.mean_nanos() > mean);
    }

    #[test]
    fn a_window_forgets_its_oldest_intervals() {
        let slow = (0..=1_000).map(|second| second * 2 * SECOND);
        let fast = (1..=1_500).map(|second| 2_000 * SECOND + second * SECOND);
        let window = window(slow.chain(fast));
        assert_eq!((window.mean_nanos(), window.intervals.len()), (1e9, SAMPLES_MAX));
    }

    #[test]
    fn who_was_away_convicts_nobody_for_five_seconds() {
        let mut detector = FailureDetector::new(DEFAULT_PHI_CONVICT_THRESHOLD, 0);
        detector.report(endpoint(), SECOND);
        assert!(detector.begin_round(5 * SECOND));
        assert!(!detector.begin_round(100 * SECOND), "95 s away");
        assert!(!detector.begin_round(101 * SECOND) && !detector.begin_round(104 * SECOND));
        assert!(detector.begin_round(105 * SECOND));
        assert!(detector.is_convicted(&endpoint(), 105 * SECOND));
    }

    #[test]
    fn phis_are_those_of_the_last_judgement() {
        let mut detector = FailureDetector::new(DEFAULT_PHI_CONVICT_THRESHOLD, 0);
        detector.report(endpoint(), SECOND);
        assert_eq!(detector.phis().count(), 0);
        assert!(!detector.is_convicted(&endpoint(), 3 * SECOND));
        let phis: Vec<_> = detector.phis().collect();
        assert_eq!(phis, [(endpoint(), 1.0 / std::f64::consts::LN_10)]);
        detector.remove(&endpoint());
        assert_eq!(detector.phis().count(), 0);
    }

    #[test]
    fn a_lower_threshold_convicts_sooner() {
        let mut detector = FailureDetector::new(0.5, 0);
        detector.report(endpoint(), 0);
        assert!(detector.is_convicted(&endpoint(), 4 * SECOND));
        detector.set_threshold(1.0);
        assert!(!detector.is_convicted(&endpoint(), 4 * SECOND));
    }
}
