//! What clients did and saw, and what must be true of it.
//!
//! Moments are numbers in the order in which things happened. An operation has a begin and an end; one that
//! failed, or whose answer never came, may have happened at any moment since its begin, or never.
//!
//! 1. **Registers** (the rows of `plain`): what is read at QUORUM is not older than what was acknowledged at
//!    QUORUM, or read at QUORUM, before the read began. Older means by timestamp, as writes of nodes whose
//!    clocks differ are ordered so. A row that is not there has a deletion that explains it. So a row that
//!    is deleted does not come back.
//! 2. **Conditions** (`register`): each success read what no other success read, and at least what was
//!    acknowledged before it began; serial reads too.
//! 3. **Counters**: as many as were acknowledged, and as were begun at most.
//! 4. **Batches**: both halves of a logged batch are there in the end, or none; both if it was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use super::tables::{Change, Found, Wanted};

/// When something happened.
pub type Moment = u64;

/// What a client did.
#[derive(Clone, Debug)]
pub enum Did {
    /// To a partition of `plain`; whether at QUORUM or ALL.
    Wrote { k: i32, change: Change, timestamp: i64, is_quorum: bool },
    /// From `plain` at QUORUM or ALL; nothing where it failed.
    Read { wanted: Wanted, is_reversed: bool, rows: Vec<Found> },
    /// Raised the register by one; what it read.
    Raised { before: i64 },
    /// Read the register at SERIAL.
    Looked { value: i64 },
    /// Added one to the counter of that partition.
    Counted { k: i32 },
    /// Wrote a number to both partitions.
    Paired { partitions: [i32; 2], number: i64 },
}

/// An operation.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "who did it where is shown where a check fails")]
pub struct Operation {
    pub client: usize,
    pub node: u8,
    pub begin: Moment,
    /// When it was acknowledged.
    pub end: Option<Moment>,
    pub did: Did,
}

/// All that happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub operations: Vec<Operation>,
}

/// What is there in the end, as read at ALL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Last {
    pub plain: Vec<Found>,
    pub register: Vec<Found>,
    pub counter: Vec<Found>,
    pub pairs: Vec<Found>,
}

/// A row of `plain`.
type Place = (i32, i32);

impl History {
    /// Holds the history to all that was promised.
    ///
    /// # Panics
    /// When a promise was not kept.
    pub fn check(&self, last: &Last, rows: i32) {
        let end = Moment::MAX;
        let all = Did::Read { wanted: Wanted::Everything, is_reversed: false, rows: last.plain.clone() };
        let ending = Operation { client: 0, node: 0, begin: end - 1, end: Some(end), did: all };
        let reads = self.operations.iter().filter(|operation| operation.end.is_some()).chain([&ending]);
        for read in reads {
            self.check_read(read, rows);
        }
        self.check_conditions(last);
        self.check_counters(last);
        self.check_batches(last);
    }

    fn check_read(&self, read: &Operation, rows: i32) {
        let Did::Read { wanted, is_reversed, rows: found } = &read.did else { return };
        let mut by_place: BTreeMap<Place, Found> = BTreeMap::new();
        for row in found {
            assert!(by_place.insert((row.k, row.c), *row).is_none(), "a row came twice: {read:?}");
        }
        for (k, c) in self.places(rows) {
            let is_asked_for = match wanted {
                Wanted::Everything => true,
                Wanted::Partition(of) => *of == k,
                // Behind the last row of as many as were asked for, nothing is known.
                Wanted::First(of, limit) => {
                    let edge = found.last().filter(|_| found.len() as u64 == *limit).map(|row| row.c);
                    *of == k && edge.is_none_or(|edge| if *is_reversed { c >= edge } else { c <= edge })
                }
            };
            if is_asked_for {
                self.check_row((k, c), by_place.get(&(k, c)), read);
            }
        }
    }

    fn places(&self, rows: i32) -> BTreeSet<Place> {
        let written = self.operations.iter().filter_map(|operation| match &operation.did {
            Did::Wrote { k, .. } => Some(*k),
            _ => None,
        });
        written.flat_map(|k| (0..rows).map(move |c| (k, c))).collect()
    }

    fn check_row(&self, place: Place, found: Option<&Found>, read: &Operation) {
        let read_end = read.end.expect("a read that succeeded");
        // The least that it has to see, and who says so.
        let (mut least, mut because) = (i64::MIN, None);
        for operation in &self.operations {
            if operation.end.is_none_or(|end| end >= read.begin) {
                continue;
            }
            let seen = match &operation.did {
                Did::Wrote { timestamp, is_quorum: true, .. } if operation.touches(place) => *timestamp,
                Did::Read { rows, .. } => {
                    let same = rows.iter().find(|row| (row.k, row.c) == place);
                    same.map_or(i64::MIN, |row| row.timestamp)
                }
                _ => continue,
            };
            if seen > least {
                (least, because) = (seen, Some(operation));
            }
        }
        let explains = |operation: &&Operation| {
            operation.begin < read_end
                && operation.touches(place)
                && match (&operation.did, found) {
                    (Did::Wrote { change: Change::Put(_, value), timestamp, .. }, Some(row)) => {
                        (*value, *timestamp) == (row.value, row.timestamp)
                    }
                    (Did::Wrote { change: Change::Put(..), .. }, None) => false,
                    (Did::Wrote { timestamp, .. }, None) => *timestamp >= least,
                    _ => false,
                }
        };
        let explanation = self.operations.iter().find(explains);
        match found {
            Some(row) => {
                assert!(
                    row.timestamp >= least,
                    "row {place:?}: {read:?}\nsaw {row:?}, which is older than {because:?}"
                );
                assert!(explanation.is_some(), "row {place:?}: nobody wrote {row:?}, which {read:?} saw");
            }
            None => assert!(
                least == i64::MIN || explanation.is_some(),
                "row {place:?}: {read:?}\ndid not see {because:?}"
            ),
        }
    }

    fn check_conditions(&self, last: &Last) {
        let mut raised: Vec<&Operation> = Vec::new();
        for operation in &self.operations {
            let seen = match operation.did {
                Did::Raised { before } if operation.end.is_some() => before,
                Did::Looked { value } if operation.end.is_some() => value,
                _ => continue,
            };
            for earlier in &raised {
                let Did::Raised { before } = earlier.did else { continue };
                let is_earlier = earlier.end.is_some_and(|end| end < operation.begin);
                let is_later = operation.end.is_some_and(|end| end < earlier.begin);
                let raises = matches!(operation.did, Did::Raised { .. });
                assert!(!raises || seen != before, "both read the same: {earlier:?}\n{operation:?}");
                assert!(!is_earlier || seen > before, "{operation:?}\ndid not see {earlier:?}");
                assert!(!is_later || seen <= before, "{operation:?}\nsaw what came later: {earlier:?}");
            }
            if matches!(operation.did, Did::Raised { .. }) {
                raised.push(operation);
            }
        }
        self.check_looks();
        let begun = self.operations.iter().filter(|operation| matches!(operation.did, Did::Raised { .. }));
        let (acknowledged, begun) = (raised.len() as i64, begun.count() as i64);
        let value = last.register.first().map_or(0, |row| row.value);
        assert!((acknowledged..=begun).contains(&value), "raised to {value} of {acknowledged} to {begun}");
    }

    /// Serial reads never go back.
    fn check_looks(&self) {
        let looks: Vec<(&Operation, i64)> = self
            .operations
            .iter()
            .filter_map(|operation| match operation.did {
                Did::Looked { value } => operation.end.map(|_| (operation, value)),
                _ => None,
            })
            .collect();
        for (one, value) in &looks {
            for (other, later) in &looks {
                let is_before = one.end.is_some_and(|end| end < other.begin);
                assert!(!is_before || value <= later, "{other:?}\nwent back behind {one:?}");
            }
        }
    }

    fn check_counters(&self, last: &Last) {
        let mut counts: BTreeMap<i32, (i64, i64)> = BTreeMap::new();
        for operation in &self.operations {
            if let Did::Counted { k } = operation.did {
                let (acknowledged, begun) = counts.entry(k).or_default();
                *acknowledged += i64::from(operation.end.is_some());
                *begun += 1;
            }
        }
        for (k, (acknowledged, begun)) in counts {
            let value = last.counter.iter().find(|row| row.k == k).map_or(0, |row| row.value);
            assert!(
                (acknowledged..=begun).contains(&value),
                "counter {k} is {value}, of {acknowledged} to {begun}"
            );
        }
    }

    fn check_batches(&self, last: &Last) {
        for operation in &self.operations {
            let Did::Paired { partitions, number } = operation.did else { continue };
            let is_in = |k: i32| last.pairs.iter().any(|row| (row.k, row.value) == (k, number));
            let [one, other] = partitions.map(is_in);
            assert!(one == other, "half of a batch is there: {operation:?}, {one} and {other}");
            assert!(one || operation.end.is_none(), "a batch is gone: {operation:?}");
        }
    }
}

impl Operation {
    /// Whether it is a write of that row.
    fn touches(&self, (k, c): Place) -> bool {
        match &self.did {
            Did::Wrote { k: of, change, .. } => {
                *of == k
                    && match change {
                        Change::Put(at, _) | Change::Delete(at) => *at == c,
                        Change::DeleteAll => true,
                    }
            }
            _ => false,
        }
    }
}
