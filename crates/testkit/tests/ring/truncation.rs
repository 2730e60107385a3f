//! A table that is truncated: by clients, and what must be true of it afterwards.
//!
//! A truncation that was acknowledged has emptied each node at some moment between its begin and its end. One
//! that failed may do so at any moment since its begin, unless it was refused because a node was down.
//!
//! 1. What was written after a truncation stays, as if there had been none. Nothing is said of what is
//!    written while one may be at work: nodes are not emptied at the same moment.
//! 2. What was over before a truncation began is not seen after its end, nor does it explain anything then,
//!    not even by hints. For messages that are still on their way nobody can say so, nor for a hint from a
//!    node whose clock is ahead of that of the node which was emptied: a hint is older than a truncation, or
//!    not, by wall clocks, as in Cassandra. So it must have been over for so long.
//! 3. A read that is at work meanwhile may see a row on one node and not on another, and then repairs what
//!    was emptied. Nothing is said of a truncation with such a read, as it is in Cassandra.

use std::sync::Arc;

use coordinator::CoordinatorError;
use env::random::Random;
use model::WriteType;
use testkit::sim::member::{RingNode, Timeouts};

use super::client::{Begun, PATIENCE, Shared};
use super::history::{Did, History, Moment, Operation};
use super::pages::Seen;
use super::tables::{Register, mutation};

/// What a truncation says that was refused.
const REFUSAL: &str = "Error during truncate: Cannot achieve consistency level ALL";

impl History {
    /// Truncations of a table that were not refused.
    fn truncations(&self, register: Register) -> impl Iterator<Item = &Operation> {
        let are_of_it = register == Register::Emptied;
        self.operations.iter().filter(move |operation| are_of_it && matches!(operation.did, Did::Truncated))
    }

    /// Whether what began at a moment, and was acknowledged, is still there at another one.
    pub fn stays(&self, register: Register, begin: Moment, until: Moment) -> bool {
        let is_apart = |truncation: &Operation| {
            truncation.end.is_some_and(|end| end < begin) || truncation.begin > until
        };
        self.truncations(register).all(is_apart)
    }

    /// Whether a truncation has surely taken a write before a page began.
    pub fn is_emptied(&self, register: Register, write: &Operation, page: &Seen) -> bool {
        let has_taken = |truncation: &Operation| {
            truncation.end.is_some_and(|end| end < page.begin)
                && self.is_long_before(write, truncation)
                && !self.has_read_meanwhile(register, truncation)
        };
        self.truncations(register).any(has_taken)
    }

    /// Whether nothing of an operation can arrive any more when another one begins.
    fn is_long_before(&self, one: &Operation, other: &Operation) -> bool {
        self.micros(one.over) + self.echo_micros_max < self.micros(other.begin)
    }

    fn has_read_meanwhile(&self, register: Register, truncation: &Operation) -> bool {
        let mut reads = self.operations.iter().filter(|operation| {
            matches!(&operation.did, Did::Read { table, .. } if *table == register)
                && truncation.end.is_none_or(|end| operation.begin < end)
        });
        reads.any(|read| !self.is_long_before(read, truncation))
    }
}

impl Shared {
    /// Writes to the table that is truncated, or reads it, or truncates it.
    pub fn empty(&self, begun: Begun, node: &Arc<RingNode>, kind: Emptying, k: i32, random: &Random) {
        let (table, number) = (Register::Emptied, begun.node);
        let coordinator = Arc::clone(&node.coordinator);
        let level = self.layout.level_of_read(random);
        match kind {
            Emptying::Write => {
                let (timestamp, now_s) = (coordinator.next_timestamp(), node.env().now_seconds() as u32);
                let change = self.change(now_s, random);
                let written = mutation(self.tables.of(table), k, &change, timestamp, now_s);
                let deadline = node.deadline(Timeouts::default().write);
                let done = self.ask(number, node, async move {
                    coordinator.write(vec![written], level, WriteType::Simple, Some(&deadline)).await
                });
                self.note(begun, done.is_some(), Did::Wrote { table, k, change, timestamp, level });
            }
            Emptying::Read => self.look_through(begun, node, table, (k, level), random),
            Emptying::Truncate => {
                let emptied = Arc::clone(self.tables.of(table));
                let answer =
                    node.ask(&self.tasks, PATIENCE, async move { coordinator.truncate(emptied).await });
                let is_refused = |error: &CoordinatorError| error.to_string() == REFUSAL;
                if !matches!(&answer, Some(Err(error)) if is_refused(error)) {
                    let is_done = matches!(answer, Some(Ok(()))) && self.nodes.is_there(number, node);
                    self.note(begun, is_done, Did::Truncated);
                }
            }
        }
    }
}

/// What is done with the table that is truncated.
#[derive(Clone, Copy, Debug)]
pub enum Emptying {
    Write,
    Read,
    Truncate,
}
