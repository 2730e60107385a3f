//! What clients did and saw, and what must be true of it.
//!
//! Moments are numbers in the order in which things happened. An operation has a begin and an end; one that
//! failed, or whose answer never came, may have happened at any moment since its begin, or never.
//!
//! 1. **Registers** (the rows of `plain`): what is read is not older than what was acknowledged, or read,
//!    before the read began ([`super::registers`]). So are those of `emptied`, which is truncated besides
//!    ([`super::truncation`]).
//! 2. **Conditions** (`register`), at SERIAL, or always at LOCAL_SERIAL of one data center: each success read
//!    what no other success read, and at least what was acknowledged before it began; serial reads too.
//! 3. **Counters**: as many as were acknowledged, and as were begun at most.
//! 4. **Batches**: both halves of a logged batch are there in the end, or none; both if it was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use model::Consistency;

use super::levels::Layout;
use super::pages::{Order, Seen, Until};
use super::registers::Place;
use super::tables::{Change, Found, Register, Wanted};

/// When something happened.
pub type Moment = u64;

/// What a client did.
#[derive(Clone, Debug)]
pub enum Did {
    /// To a partition.
    Wrote { table: Register, k: i32, change: Change, timestamp: i64, level: Consistency },
    /// From a table; the pages that came.
    Read { table: Register, wanted: Wanted, level: Consistency, page_rows_max: u64, pages: Vec<Seen> },
    /// Emptied that table of its own.
    Truncated,
    /// Raised that register by one; what it read.
    Raised { k: i32, before: i64 },
    /// Read that register.
    Looked { k: i32, value: i64 },
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
    /// When the client turned to something else.
    pub over: Moment,
    /// When it was acknowledged.
    pub end: Option<Moment>,
    pub did: Did,
}

/// All that happened.
#[derive(Clone, Debug)]
pub struct History {
    pub layout: Layout,
    pub operations: Vec<Operation>,
    /// When each moment was, in microseconds since the epoch.
    pub micros: Vec<i64>,
    /// In which orders rows are stored: of `plain`, of `emptied`.
    pub orders: [Order; 2],
    /// How long after an operation its messages may still arrive, in microseconds, by true time.
    pub echo_micros_max: i64,
    /// By how much the clock of a node was ahead or behind at most.
    pub skew_micros_max: i64,
}

/// What is there in the end, as read at ALL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Last {
    pub plain: Vec<Found>,
    pub emptied: Vec<Found>,
    pub register: Vec<Found>,
    pub counter: Vec<Found>,
    pub pairs: Vec<Found>,
}

impl History {
    /// Holds the history to all that was promised.
    ///
    /// # Panics
    /// When a promise was not kept.
    pub fn check(&self, last: &Last, rows: i32) {
        self.check_reads(rows);
        self.check_read(&last_read(Register::Plain, last.plain.clone()), rows);
        self.check_read(&last_read(Register::Emptied, last.emptied.clone()), rows);
        self.check_conditions(last);
        self.check_counters(last);
        self.check_batches(last);
    }

    fn check_conditions(&self, last: &Last) {
        let registers: BTreeSet<i32> = self.operations.iter().filter_map(Operation::register).collect();
        for k in registers {
            self.check_register(k, last);
        }
    }

    fn check_register(&self, k: i32, last: &Last) {
        let mut raised: Vec<&Operation> = Vec::new();
        let mut begun = 0;
        for operation in self.operations.iter().filter(|operation| operation.register() == Some(k)) {
            let raises = matches!(operation.did, Did::Raised { .. });
            begun += i64::from(raises);
            let seen = match operation.did {
                Did::Raised { before, .. } if operation.end.is_some() => before,
                Did::Looked { value, .. } if operation.end.is_some() => value,
                _ => continue,
            };
            for earlier in &raised {
                let Did::Raised { before, .. } = earlier.did else { continue };
                let is_earlier = earlier.end.is_some_and(|end| end < operation.begin);
                let is_later = operation.end.is_some_and(|end| end < earlier.begin);
                assert!(!raises || seen != before, "both read the same: {earlier:?}\n{operation:?}");
                assert!(!is_earlier || seen > before, "{operation:?}\ndid not see {earlier:?}");
                assert!(!is_later || seen <= before, "{operation:?}\nsaw what came later: {earlier:?}");
            }
            if raises {
                raised.push(operation);
            }
        }
        self.check_looks(k);
        let acknowledged = raised.len() as i64;
        let value = last.register.iter().find(|row| row.k == k).map_or(0, |row| row.value);
        assert!(
            (acknowledged..=begun).contains(&value),
            "register {k} is raised to {value}, of {acknowledged} to {begun}"
        );
    }

    /// Serial reads never go back.
    fn check_looks(&self, register: i32) {
        let looks: Vec<(&Operation, i64)> = self
            .operations
            .iter()
            .filter_map(|operation| match operation.did {
                Did::Looked { k, value } if k == register => operation.end.map(|_| (operation, value)),
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

/// The read at ALL that found these rows in the end.
fn last_read(table: Register, rows: Vec<Found>) -> Operation {
    let end = Moment::MAX;
    let page = Seen { node: 1, begin: end - 1, end, now_s: u32::MAX, rows, until: Until::End };
    let (wanted, level) = (Wanted::EVERYTHING, Consistency::All);
    let did = Did::Read { table, wanted, level, page_rows_max: u64::MAX, pages: vec![page] };
    Operation { client: 0, node: 1, begin: end - 1, over: end, end: Some(end), did }
}

impl History {
    pub fn order(&self, register: Register) -> Order {
        self.orders[register as usize]
    }

    /// When a moment was, in microseconds since the epoch; the end of the life comes after all.
    pub fn micros(&self, moment: Moment) -> i64 {
        usize::try_from(moment).ok().and_then(|moment| self.micros.get(moment).copied()).unwrap_or(i64::MAX)
    }
}

impl Operation {
    /// The register that it is about.
    fn register(&self) -> Option<i32> {
        match self.did {
            Did::Raised { k, .. } | Did::Looked { k, .. } => Some(k),
            _ => None,
        }
    }

    /// Whether it is a write of that row.
    pub fn touches(&self, register: Register, (k, c): Place) -> bool {
        match &self.did {
            Did::Wrote { table, k: of, change, .. } => {
                (*table, *of) == (register, k)
                    && match change {
                        Change::Put(at, ..) | Change::Delete(at) => *at == c,
                        Change::DeleteAll => true,
                    }
            }
            _ => false,
        }
    }
}
