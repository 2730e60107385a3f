//! Writing to a connection from the thread that has a message, past the task of the connection.
//!
//! While the task of a plain connection waits for messages, its senders may write small ones themselves: nobody
//! has to be woken for that. What the socket does not take is left for the task. The task takes the shortcut
//! away before it writes, so what is written keeps its order.

use super::super::frame::{Framing, Packer};
use super::super::limits::{Allowance, Room};
use super::super::message::Message;
use super::stream::Link;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A second handle of a connection's socket.
#[derive(Debug)]
pub(super) struct Shortcut {
    socket: OwnedFd,
    version: u32,
    packer: Packer,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
    /// What that counts.
    room: Option<Room>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// The socket has it.
    Written,
    /// A part of it, or nothing yet, and the rest is left for the task.
    Left,
    /// It has to go through the queue.
    No,
}

impl Shortcut {
    /// That of a connection, unless something is wrapped around its bytes.
    pub(super) fn of(link: &Link, framing: Framing, version: u32) -> Option<Shortcut> {
        let Link::Plain(tcp) = link else { return None };
        // Without a second handle messages go the long way.
        let socket = rustix::io::fcntl_dupfd_cloexec(tcp, 0).ok()?;
        Some(Shortcut { socket, version, packer: Packer::new(framing), unsent: Vec::new(), room: None })
    }

    /// Writes a small message of that length, without waiting. What is left of it counts to `allowance`.
    pub(super) fn pass(&mut self, message: &Message, len: usize, allowance: &Arc<Allowance>) -> Passed {
        if !self.unsent.is_empty() || !message.suits(self.version) {
            return Passed::No;
        }
        self.packer.push(len, |payload| message.encode(payload), &mut self.unsent);
        self.packer.finish(&mut self.unsent);
        loop {
            match send(&self.socket, &self.unsent, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(written) if written == self.unsent.len() => {
                    self.unsent.clear();
                    return Passed::Written;
                }
                Ok(written) => {
                    self.unsent.drain(..written);
                    break;
                }
                Err(Errno::INTR) => {}
                // A connection that is broken shows when the task writes.
                Err(_) => break,
            }
        }
        self.room = allowance.take_message(len);
        Passed::Left
    }

    /// Takes what is left, and what it counts until it is written.
    pub(super) fn take_unsent(&mut self, out: &mut Vec<u8>) -> Option<Room> {
        out.append(&mut self.unsent);
        self.room.take()
    }
}
