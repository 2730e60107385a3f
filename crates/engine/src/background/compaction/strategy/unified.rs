//! Unified: tiers or levels by one parameter, over the *density* of SSTables, in shards of the ring
//! (CASSANDRA-18397; the paper is "Unified Compaction Strategy", CEP-26).
//!
//! 1. The density of an SSTable is its bytes over its share of the ring. Level `n` holds densities from `b *
//!    f^n` to `b * f^(n+1)`, where `b` is the size from which levels begin and the fan-out `f` and the
//!    threshold `t` come from the level's scaling parameter `w`: `f = 2 + |w|`, `t = f` for tiers (`w > 0`),
//!    else 2.
//! 2. Where `t` SSTables of a level overlap at one point of the ring, those that overlap there, directly or
//!    through each other, are compacted together.
//! 3. The output is cut at the borders of equal shards of the ring, more of them for denser data, so that
//!    SSTables stay near `target_sstable_size`.

use super::{Candidate, Output, Pick, Strategy, TombstoneOptions, ids, option};
use std::collections::BTreeMap;

/// Most SSTables that are compacted together.
const INPUTS_MAX: usize = 32;
const LEVEL_MAX: usize = 32;
/// Shards are a power of two times the base count; more than this many are of no use.
const SHARDS_MAX: f64 = 1_048_576.0;

/// The strategy.
#[derive(Clone, Debug)]
pub struct Unified {
    /// Scaling parameters of levels 0, 1, ...; the last one holds for all further levels.
    scaling: Vec<i32>,
    target_bytes: f64,
    min_sstable_bytes: f64,
    growth: f64,
    base_shards: u32,
    flush_bytes: f64,
    tombstones: TombstoneOptions,
}

impl Unified {
    /// Reads the strategy's options.
    pub fn new(map: &BTreeMap<String, String>) -> Unified {
        let scaling: Vec<i32> = map
            .get("scaling_parameters")
            .map_or("T4", String::as_str)
            .split(',')
            .map(|p| parse_scaling(p.trim()).unwrap_or(2))
            .collect();
        let bytes = |name: &str, default: f64| map.get(name).and_then(|v| parse_bytes(v)).unwrap_or(default);
        Unified {
            scaling,
            target_bytes: bytes("target_sstable_size", (1u64 << 30) as f64).max(1.0),
            min_sstable_bytes: bytes("min_sstable_size", (100u64 << 20) as f64),
            growth: option(map, "sstable_growth", 0.333f64).clamp(0.0, 1.0),
            base_shards: option(map, "base_shard_count", 4u32).max(1),
            flush_bytes: bytes("flush_size_override", (100u64 << 20) as f64).max(1.0),
            tombstones: TombstoneOptions::new(map),
        }
    }

    fn scaling_of(&self, level: usize) -> i32 {
        self.scaling.get(level).or(self.scaling.last()).copied().unwrap_or(2)
    }

    /// Level of a density: the first whose upper border lies above it.
    fn level_of(&self, density: f64) -> usize {
        let mut border = self.flush_bytes;
        for level in 0..LEVEL_MAX {
            border *= fanout(self.scaling_of(level));
            if density < border {
                return level;
            }
        }
        LEVEL_MAX
    }

    /// Shards of an output of `density`.
    pub(super) fn shards_for(&self, density: f64) -> u32 {
        let base = f64::from(self.base_shards);
        if self.min_sstable_bytes > 0.0 && density < self.min_sstable_bytes * base {
            // Too little for all the base shards: the largest power of two that keeps SSTables big enough.
            let fit = (density / self.min_sstable_bytes).max(1.0);
            return 2f64.powf(fit.log2().floor()).min(base) as u32;
        }
        // Part of the growth of the data goes into the size of SSTables, the rest into their number.
        let growth = (density / (self.target_bytes * base)).max(1e-9).log2() * (1.0 - self.growth);
        let factor = 2f64.powf(growth.round().max(0.0));
        (base * factor).min(SHARDS_MAX) as u32
    }

    fn output(&self, inputs: &[&Candidate]) -> Output {
        let bytes: u64 = inputs.iter().map(|c| c.bytes).sum();
        let first = inputs.iter().map(|c| c.keys.0.token.0).min().unwrap_or(i64::MIN);
        let last = inputs.iter().map(|c| c.keys.1.token.0).max().unwrap_or(i64::MAX);
        let share = ((last as i128 - first as i128) as f64 / 2f64.powi(64)).clamp(1e-9, 1.0);
        Output {
            level: 0,
            sstable_bytes: u64::MAX,
            shards: self.shards_for(bytes as f64 / share),
            halves: false,
        }
    }

    /// Candidates by level.
    fn levels<'a>(&self, candidates: &'a [Candidate]) -> BTreeMap<usize, Vec<&'a Candidate>> {
        let mut levels: BTreeMap<usize, Vec<&Candidate>> = BTreeMap::new();
        for candidate in candidates {
            let density = candidate.bytes as f64 / candidate.ring_share().max(1e-9);
            levels.entry(self.level_of(density)).or_default().push(candidate);
        }
        levels
    }

    /// Groups of a level whose SSTables overlap, directly or through each other, with the most that overlap
    /// at one point.
    fn groups<'a>(members: &[&'a Candidate]) -> Vec<(Vec<&'a Candidate>, usize)> {
        let mut sorted = members.to_vec();
        sorted.sort_by(|a, b| a.keys.0.cmp(&b.keys.0).then(a.id.cmp(&b.id)));
        let mut groups: Vec<(Vec<&Candidate>, usize)> = Vec::new();
        for candidate in sorted {
            let joins = groups.last().is_some_and(|(g, _)| g.iter().any(|m| m.keys.1 >= candidate.keys.0));
            match groups.last_mut() {
                Some((group, deepest)) if joins => {
                    group.push(candidate);
                    let depth = group.iter().filter(|m| m.keys.1 >= candidate.keys.0).count();
                    *deepest = (*deepest).max(depth);
                }
                _ => groups.push((vec![candidate], 1)),
            }
        }
        groups
    }

    /// Groups that are worth a compaction, lowest level first.
    fn due<'a>(&self, candidates: &'a [Candidate]) -> Vec<Vec<&'a Candidate>> {
        let mut due = Vec::new();
        for (level, members) in self.levels(candidates) {
            let threshold = threshold(self.scaling_of(level));
            due.extend(Self::groups(&members).into_iter().filter(|(_, d)| *d >= threshold).map(|(g, _)| g));
        }
        due
    }
}

/// `T4` is 2, `N` is 0, `L10` is -8; a bare number is itself.
pub(super) fn parse_scaling(text: &str) -> Option<i32> {
    if text == "N" {
        return Some(0);
    }
    if let Some(fanout) = text.strip_prefix('T') {
        return fanout.parse::<i32>().ok().filter(|f| *f >= 2).map(|f| f - 2);
    }
    if let Some(fanout) = text.strip_prefix('L') {
        return fanout.parse::<i32>().ok().filter(|f| *f >= 2).map(|f| 2 - f);
    }
    text.parse().ok()
}

/// `100MiB`, `1GiB`, a bare number of bytes.
pub(super) fn parse_bytes(text: &str) -> Option<f64> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(at)?;
    let scale = match unit.trim() {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024f64.powi(4),
        _ => return None,
    };
    number.parse::<f64>().ok().map(|n| n * scale)
}

fn fanout(scaling: i32) -> f64 {
    2.0 + f64::from(scaling.abs())
}

fn threshold(scaling: i32) -> usize {
    if scaling <= 0 { 2 } else { 2 + scaling as usize }
}

impl Strategy for Unified {
    fn pick(&self, candidates: &[Candidate]) -> Option<Pick> {
        let due = self.due(candidates);
        let Some(group) = due.first() else {
            return self.tombstones.pick(candidates, |c| self.output(&[c]));
        };
        let mut inputs = group.clone();
        inputs.sort_by_key(|c| (c.timestamps.1, c.id));
        inputs.truncate(INPUTS_MAX);
        let output = self.output(&inputs);
        Some(Pick { inputs: inputs.iter().map(|c| c.id).collect(), output })
    }

    fn pending(&self, candidates: &[Candidate]) -> usize {
        self.due(candidates).iter().map(|g| g.len().div_ceil(INPUTS_MAX)).sum()
    }

    fn major(&self, candidates: &[Candidate]) -> Vec<Pick> {
        match candidates {
            [] => Vec::new(),
            all => {
                let output = self.output(&all.iter().collect::<Vec<_>>());
                vec![Pick { inputs: ids(all), output }]
            }
        }
    }
}
