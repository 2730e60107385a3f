//! Writing to a connection from the thread that has messages, past the task of the connection.
//!
//! 1. A thread that serves clients says once that it gathers what it sends ([`gather_here`]). It then wakes
//!    nobody: it remembers the connections whose queues it has added to.
//! 2. Before it rests ([`write_gathered`]), or when much waits, it writes the small messages of these queues,
//!    those of one connection at once. That is possible while the task of a plain connection waits.
//! 3. What the socket does not take is left for the task, as are large messages. The task takes the shortcut
//!    away before it writes, so what is written keeps its order.

use super::super::frame::{Framing, Packer};
use super::Shared;
use super::outbound::Outbound;
use super::queue::Entry;
use super::stream::Link;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Messages that a thread gathers at the most.
const MESSAGES_MAX: usize = 64;
/// How long one waits at the most until the thread sends another.
const WAIT_NANOS: u64 = 100_000;

thread_local! {
    static GATHERED: RefCell<Option<Gathered>> = const { RefCell::new(None) };
}

/// What a thread has put into queues since it rested.
#[derive(Default)]
struct Gathered {
    connections: Vec<(Arc<Outbound>, Arc<Shared>)>,
    messages: usize,
    since_nanos: u64,
}

/// Has this thread gather what it sends. Whoever says so calls [`write_gathered`] before the thread rests.
pub fn gather_here() {
    GATHERED.set(Some(Gathered::default()));
}

/// Writes what this thread has gathered.
pub fn write_gathered() {
    let connections = GATHERED.with_borrow_mut(|gathered| match gathered {
        Some(gathered) => std::mem::take(gathered).connections,
        None => Vec::new(),
    });
    connections.into_iter().for_each(|(outbound, shared)| outbound.write_waiting(&shared));
}

/// Takes note of a message in the queue of a connection. False on a thread that does not gather.
pub(super) fn gather(outbound: &Arc<Outbound>, shared: &Arc<Shared>, now_nanos: u64) -> bool {
    let is_due = GATHERED.with_borrow_mut(|gathered| {
        let gathered = gathered.as_mut()?;
        if gathered.connections.is_empty() {
            gathered.since_nanos = now_nanos;
        }
        if !gathered.connections.iter().any(|(known, _)| Arc::ptr_eq(known, outbound)) {
            gathered.connections.push((Arc::clone(outbound), Arc::clone(shared)));
        }
        gathered.messages += 1;
        let waited_nanos = now_nanos.saturating_sub(gathered.since_nanos);
        Some(gathered.messages >= MESSAGES_MAX || waited_nanos >= WAIT_NANOS)
    });
    if is_due == Some(true) {
        write_gathered();
    }
    is_due.is_some()
}

/// A second handle of a connection's socket.
#[derive(Debug)]
pub(super) struct Shortcut {
    socket: OwnedFd,
    pub(super) version: u32,
    packer: Packer,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
    /// The messages that are in it, with the room that they take.
    entries: Vec<Entry>,
}

impl Shortcut {
    /// That of a connection, unless something is wrapped around its bytes.
    pub(super) fn of(link: &Link, framing: Framing, version: u32) -> Option<Shortcut> {
        let Link::Plain(tcp) = link else { return None };
        // Without a second handle messages go the long way.
        let socket = rustix::io::fcntl_dupfd_cloexec(tcp, 0).ok()?;
        let packer = Packer::new(framing);
        Some(Shortcut { socket, version, packer, unsent: Vec::new(), entries: Vec::new() })
    }

    /// Adds a small message to what is written next.
    pub(super) fn push(&mut self, entry: Entry) {
        self.packer.push(entry.len, |payload| entry.message.encode(payload), &mut self.unsent);
        self.entries.push(entry);
    }

    /// Writes without waiting. Whether the socket has taken all.
    pub(super) fn write(&mut self) -> bool {
        self.packer.finish(&mut self.unsent);
        while !self.unsent.is_empty() {
            match send(&self.socket, &self.unsent, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(Errno::INTR) => {}
                // A connection that is broken shows when the task writes.
                Err(_) => return false,
            }
        }
        self.entries.clear();
        true
    }

    /// Takes what is left, and the messages that it is of.
    pub(super) fn take_unsent(&mut self, out: &mut Vec<u8>) -> Vec<Entry> {
        out.append(&mut self.unsent);
        std::mem::take(&mut self.entries)
    }
}
