//! A connection and the operations in flight on it, by stream.

use crate::connection::Connection;
use crate::workloads::Operation;

/// An operation that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub struct InFlight {
    /// When it was meant to begin.
    pub meant_ns: u64,
    /// What it asked.
    pub operation: Operation,
}

/// One connection under load.
#[derive(Debug)]
pub struct Lane {
    /// The connection.
    pub connection: Connection,
    /// The socket did not take everything.
    pub blocked: bool,
    slots: Vec<Option<InFlight>>,
    free: Vec<i16>,
}

impl Lane {
    /// A lane with `places` operations in flight at the most.
    pub fn new(connection: Connection, places: u16) -> Self {
        let places = places.min(i16::MAX as u16);
        let free = (0..places as i16).rev().collect();
        Self { connection, blocked: false, slots: vec![None; usize::from(places)], free }
    }

    /// True if another operation may begin.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// The number of operations in flight.
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a place; `None` if there is none.
    pub fn begin(&mut self, operation: InFlight) -> Option<i16> {
        let stream = self.free.pop()?;
        *self.slots.get_mut(stream as usize)? = Some(operation);
        Some(stream)
    }

    /// Gives the place back; `None` if nothing was asked on that stream.
    pub fn end(&mut self, stream: i16) -> Option<InFlight> {
        let slot = self.slots.get_mut(usize::try_from(stream).ok()?)?;
        let operation = slot.take()?;
        self.free.push(stream);
        Some(operation)
    }
}
