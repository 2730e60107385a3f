//! Time windows: SSTables whose newest data lies in one window of time are compacted together, and windows
//! that are over never again with others.
//!
//! 1. An SSTable belongs to the window of its largest timestamp.
//! 2. The newest window is compacted as size-tiered does; an older one as soon as it has two SSTables.
//! 3. SSTables in which everything has expired are dropped whole.

use super::{Candidate, Output, Pick, SizeTiered, Strategy, ids, option};
use std::collections::BTreeMap;

/// The strategy.
#[derive(Clone, Debug)]
pub struct TimeWindow {
    window_micros: i64,
    /// Microseconds of one unit of the table's timestamps.
    resolution_micros: f64,
    within: SizeTiered,
}

impl TimeWindow {
    /// Reads the strategy's options.
    pub fn new(map: &BTreeMap<String, String>) -> TimeWindow {
        let unit_s: i64 = match map.get("compaction_window_unit").map(String::as_str) {
            Some("MINUTES") => 60,
            Some("HOURS") => 3600,
            _ => 86_400,
        };
        let size: i64 = option(map, "compaction_window_size", 1).max(1);
        let resolution_micros = match map.get("timestamp_resolution").map(String::as_str) {
            Some("SECONDS") => 1e6,
            Some("MILLISECONDS") => 1e3,
            Some("NANOSECONDS") => 1e-3,
            _ => 1.0,
        };
        TimeWindow {
            window_micros: size.saturating_mul(unit_s).saturating_mul(1_000_000),
            resolution_micros,
            within: SizeTiered::new(map),
        }
    }

    pub(super) fn window(&self, timestamp: i64) -> i64 {
        ((timestamp as f64 * self.resolution_micros) as i64).div_euclid(self.window_micros)
    }

    /// Candidates by window, newest window first.
    fn windows(&self, candidates: &[Candidate]) -> Vec<(i64, Vec<Candidate>)> {
        let mut windows: BTreeMap<i64, Vec<Candidate>> = BTreeMap::new();
        for candidate in candidates {
            windows.entry(self.window(candidate.timestamps.1)).or_default().push(candidate.clone());
        }
        windows.into_iter().rev().collect()
    }
}

impl Strategy for TimeWindow {
    fn pick(&self, candidates: &[Candidate]) -> Option<Pick> {
        let windows = self.windows(candidates);
        let newest = windows.first().map(|(w, _)| *w);
        for (window, members) in &windows {
            let inputs = if Some(*window) == newest {
                self.within.bucket(members)
            } else {
                let mut by_size: Vec<&Candidate> = members.iter().collect();
                by_size.sort_by_key(|c| (c.bytes, c.id));
                (members.len() >= 2)
                    .then(|| by_size.iter().take(self.within.max_threshold()).map(|c| c.id).collect())
            };
            if let Some(inputs) = inputs {
                return Some(Pick { inputs, output: Output::ONE });
            }
        }
        self.within.tombstones().pick(candidates, |_| Output::ONE)
    }

    fn pending(&self, candidates: &[Candidate]) -> usize {
        let windows = self.windows(candidates);
        let newest = windows.first().map_or(0, |(_, members)| self.within.pending_buckets(members));
        let older = windows.iter().skip(1).filter(|(_, members)| members.len() >= 2).count();
        newest + older
    }

    fn major(&self, candidates: &[Candidate]) -> Vec<Pick> {
        self.windows(candidates)
            .into_iter()
            .filter(|(_, members)| members.len() >= 2)
            .map(|(_, members)| Pick { inputs: ids(&members), output: Output::ONE })
            .collect()
    }
}
