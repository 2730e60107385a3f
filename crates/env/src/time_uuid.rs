//! Version 1 uuids (RFC 9562, section 5.1) that never repeat and never go back.
//!
//! A version 1 uuid counts ticks of 100 ns since 1582-10-15. The wall clock gives microseconds, so ten uuids
//! fit into one of its steps; a generator that needs more, or whose clock was set back, runs ahead of the
//! clock by single ticks until the clock has caught up. Two generators differ by their node id and clock
//! sequence, which are random; the node id carries the multicast bit, so it can be no network card's address.
//!
//! ```text
//! byte  0        4     6         8          10
//!       | time_low | mid | 1|hi | 10|clk_seq | node (6 bytes) |
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::random::Random;

/// Ticks of 100 ns between 1582-10-15 and 1970-01-01.
const TICKS_TO_1970: u64 = 0x01b2_1dd2_1381_4000;

/// The timestamp field has 60 bits.
const TICKS_MAX: u64 = (1 << 60) - 1;

/// Makes version 1 uuids; safe to share between threads.
#[derive(Debug)]
pub struct TimeUuids {
    /// The clock sequence with the variant bits, then the node: the second half of every uuid made here.
    low: u64,
    /// The ticks of the latest uuid.
    latest: AtomicU64,
}

impl TimeUuids {
    /// A generator with a random node id and clock sequence.
    pub fn new(random: &Random) -> Self {
        let mut node = [0; 6];
        random.fill(&mut node);
        node[0] |= 0x01;
        Self::with_node(node, random.u64() as u16)
    }

    /// A generator for the given node id; of `clock_sequence` the low 14 bits count.
    pub fn with_node(node: [u8; 6], clock_sequence: u16) -> Self {
        let node = node.iter().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
        let variant_and_sequence = 0x8000 | u64::from(clock_sequence & 0x3fff);
        Self { low: (variant_and_sequence << 48) | node, latest: AtomicU64::new(0) }
    }

    /// The next uuid at a wall time of `now_micros` since 1970. Its time is `now_micros` unless that would
    /// not be later than the previous uuid's.
    pub fn next(&self, now_micros: i64) -> Uuid {
        let now = ticks(now_micros);
        let mut latest = self.latest.load(Ordering::Relaxed);
        loop {
            let next = now.max(latest + 1);
            match self.latest.compare_exchange_weak(latest, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Uuid::from_u64_pair(time_fields(next), self.low),
                Err(other) => latest = other,
            }
        }
    }
}

/// The microseconds since 1970 in a version 1 uuid, rounded down; `None` for another version.
pub fn micros(id: &Uuid) -> Option<i64> {
    if id.get_version_num() != 1 {
        return None;
    }
    let high = id.as_u64_pair().0;
    let ticks = ((high & 0x0fff) << 48) | (((high >> 16) & 0xffff) << 32) | (high >> 32);
    Some((ticks as i64 - TICKS_TO_1970 as i64).div_euclid(10))
}

/// 100 ns ticks since 1582 for a wall time, held within what the field can carry.
fn ticks(micros: i64) -> u64 {
    let ticks = i128::from(micros) * 10 + i128::from(TICKS_TO_1970);
    ticks.clamp(0, i128::from(TICKS_MAX)) as u64
}

/// The first half of a version 1 uuid.
fn time_fields(ticks: u64) -> u64 {
    let (low, mid, high) = (ticks & 0xffff_ffff, (ticks >> 32) & 0xffff, (ticks >> 48) & 0x0fff);
    (low << 32) | (mid << 16) | 0x1000 | high
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "threads and waits of a test")]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::*;

    const NOW: i64 = 1_700_000_000_123_456;

    fn generator() -> TimeUuids {
        TimeUuids::with_node([0x01, 2, 3, 4, 5, 6], 0x3abc)
    }

    #[test]
    fn a_uuid_carries_its_time_version_variant_and_node() {
        let id = generator().next(NOW);
        assert_eq!((id.get_version_num(), id.get_variant()), (1, uuid::Variant::RFC4122));
        assert_eq!(micros(&id), Some(NOW));
        assert_eq!(id.get_node_id(), Some([1, 2, 3, 4, 5, 6]));
        let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
        assert_eq!(seconds as i64 * 1_000_000 + i64::from(nanos) / 1_000, NOW, "the uuid crate agrees");
    }

    #[test]
    fn uuids_of_one_microsecond_go_up_by_a_tick() {
        let ids = generator();
        let made: Vec<u64> =
            (0..25).map(|_| ids.next(NOW).get_timestamp().unwrap().to_gregorian().0).collect();
        assert!(made.windows(2).all(|pair| pair[1] == pair[0] + 1), "{made:?}");
        assert_eq!(micros(&ids.next(NOW + 1_000)), Some(NOW + 1_000), "and the clock catches up");
    }

    #[test]
    fn a_clock_set_back_does_not_bring_uuids_back() {
        let ids = generator();
        let before = ids.next(NOW).get_timestamp().unwrap().to_gregorian().0;
        let after = ids.next(NOW - 3_600_000_000).get_timestamp().unwrap().to_gregorian().0;
        assert_eq!(after, before + 1);
    }

    #[test]
    fn threads_never_share_a_uuid() {
        let ids = Arc::new(generator());
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let ids = ids.clone();
                std::thread::spawn(move || (0..2_000).map(|_| ids.next(NOW)).collect::<Vec<_>>())
            })
            .collect();
        let all: HashSet<Uuid> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(all.len(), 8_000);
    }

    #[test]
    fn generators_of_different_seeds_have_different_nodes() {
        let node = |seed| TimeUuids::new(&Random::from_seed(seed)).next(NOW).get_node_id().unwrap();
        assert_ne!(node(1), node(2));
        assert_eq!(node(1)[0] & 1, 1, "the multicast bit");
    }

    #[test]
    fn times_outside_the_field_are_held_at_its_ends() {
        assert_eq!(ticks(i64::MIN), 0);
        assert_eq!(ticks(i64::MAX), TICKS_MAX);
        assert_eq!(micros(&generator().next(-5)), Some(-5), "before 1970 but after 1582");
    }

    #[test]
    fn other_versions_have_no_time() {
        assert_eq!(micros(&Uuid::nil()), None);
    }
}
