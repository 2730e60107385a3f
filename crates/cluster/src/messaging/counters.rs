//! What was counted of messages: by verb, and by peer and direction.
//!
//! By verb it is what `nodetool tpstats` lists as dropped. By peer it is what
//! `system_views.internode_outbound` and `internode_inbound` have, whose columns give the fields their names.

use super::verb::Verb;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Messages and their bytes.
#[derive(Debug, Default)]
pub struct Counts {
    /// Number of messages.
    pub count: Count,
    /// Their length, in bytes.
    pub bytes: Count,
}

impl Counts {
    /// Adds a message.
    pub fn add(&self, bytes: usize) {
        self.count.add(1);
        self.bytes.add(bytes as u64);
    }

    fn add_to(&self, sum: &mut Sum) {
        sum.count += self.count.get();
        sum.bytes += self.bytes.get();
    }
}

/// What [`Counts`] stood at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of messages.
    pub count: u64,
    /// Their length, in bytes.
    pub bytes: u64,
}

/// What became of messages to a peer.
#[derive(Debug, Default)]
pub struct OutboundCounters {
    /// Written to a connection.
    pub sent: Counts,
    /// Too late.
    pub expired: Counts,
    /// Lost with a connection, or encoded for another version.
    pub error: Counts,
    /// Refused for want of room.
    pub overload: Counts,
    /// Tries to connect.
    pub connection_attempts: Count,
    /// Those that led to a connection.
    pub successful_connection_attempts: Count,
}

/// What became of messages from a peer.
#[derive(Debug, Default)]
pub struct InboundCounters {
    /// Whole messages that arrived.
    pub received: Counts,
    /// Handed on in time.
    pub processed: Counts,
    /// Too late when they arrived.
    pub expired: Counts,
    /// Of an unknown verb, or no messages.
    pub error: Counts,
    /// Frames that failed their checksum and were left out.
    pub corrupt_frames_recovered: Count,
    /// Frames that ended their connection.
    pub corrupt_frames_unrecovered: Count,
    /// How often reading waited for room.
    pub throttled_count: Count,
    /// For how long, in nanoseconds.
    pub throttled_nanos: Count,
}

/// [`OutboundCounters`] at one moment, with what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outbound {
    /// Written to a connection.
    pub sent: Sum,
    /// Too late.
    pub expired: Sum,
    /// Lost with a connection, or encoded for another version.
    pub error: Sum,
    /// Refused for want of room.
    pub overload: Sum,
    /// Not written yet.
    pub pending: Sum,
    /// Tries to connect.
    pub connection_attempts: u64,
    /// Those that led to a connection.
    pub successful_connection_attempts: u64,
    /// Connections at this moment.
    pub active_connections: u64,
    /// Bytes of the peer's reserve in use.
    pub using_reserve_bytes: u64,
}

impl Outbound {
    /// Adds what was counted of one connection.
    pub fn add(&mut self, counters: &OutboundCounters) {
        counters.sent.add_to(&mut self.sent);
        counters.expired.add_to(&mut self.expired);
        counters.error.add_to(&mut self.error);
        counters.overload.add_to(&mut self.overload);
        self.connection_attempts += counters.connection_attempts.get();
        self.successful_connection_attempts += counters.successful_connection_attempts.get();
    }
}

/// [`InboundCounters`] at one moment, with what is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inbound {
    /// Whole messages that arrived.
    pub received: Sum,
    /// Handed on in time.
    pub processed: Sum,
    /// Too late when they arrived.
    pub expired: Sum,
    /// Of an unknown verb, or no messages.
    pub error: Sum,
    /// Frames that failed their checksum and were left out.
    pub corrupt_frames_recovered: u64,
    /// Frames that ended their connection.
    pub corrupt_frames_unrecovered: u64,
    /// How often reading waited for room.
    pub throttled_count: u64,
    /// For how long, in nanoseconds.
    pub throttled_nanos: u64,
    /// Connections at this moment.
    pub active_connections: u64,
    /// Bytes of the peer's reserve in use.
    pub using_reserve_bytes: u64,
}

impl Inbound {
    /// Adds what was counted.
    pub fn add(&mut self, counters: &InboundCounters) {
        counters.received.add_to(&mut self.received);
        counters.processed.add_to(&mut self.processed);
        counters.expired.add_to(&mut self.expired);
        counters.error.add_to(&mut self.error);
        self.corrupt_frames_recovered += counters.corrupt_frames_recovered.get();
        self.corrupt_frames_unrecovered += counters.corrupt_frames_unrecovered.get();
        self.throttled_count += counters.throttled_count.get();
        self.throttled_nanos += counters.throttled_nanos.get();
    }
}

/// What became of the messages of one verb, on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerbCounts {
    /// Taken by the transport.
    pub sent: u64,
    /// Arrived.
    pub received: u64,
    /// Arrived and were too late, there or in a queue behind.
    pub dropped: u64,
}

/// [`VerbCounts`] of each verb.
#[derive(Debug)]
pub(super) struct VerbCounters(Vec<[Count; 3]>);

/// A column of [`VerbCounters`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Sent,
    Received,
    Dropped,
}

impl Default for VerbCounters {
    fn default() -> VerbCounters {
        let verbs = Verb::ALL.iter().map(|verb| usize::from(verb.number()) + 1).max();
        VerbCounters((0..verbs.unwrap_or(0)).map(|_| Default::default()).collect())
    }
}

impl VerbCounters {
    pub(super) fn count(&self, verb: Verb, event: Event) {
        if let Some([sent, received, dropped]) = self.0.get(usize::from(verb.number())) {
            match event {
                Event::Sent => sent.add(1),
                Event::Received => received.add(1),
                Event::Dropped => dropped.add(1),
            }
        }
    }

    pub(super) fn of(&self, verb: Verb) -> VerbCounts {
        let counts = self.0.get(usize::from(verb.number()));
        let [sent, received, dropped] = counts.map_or([0; 3], |counts| counts.each_ref().map(Count::get));
        VerbCounts { sent, received, dropped }
    }
}
