//! What carries messages from node to node: connections ([`super::tcp`]), or the network of a simulation.
//!
//! 1. A message arrives once or not at all. Two messages may arrive in another order than they were sent.
//! 2. Sending never waits. What has no room is refused, what is too late is left out.
//! 3. A message that was surely not sent is told to [`Inbox::lost`]. Of one that may have arrived nothing is
//!    told.

use super::message::Message;
use super::verb::Verb;
use crate::endpoint::Endpoint;
use std::net::SocketAddr;
use std::sync::Weak;

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// As many bytes wait for the peer as may wait.
    #[error("too many messages wait to be sent")]
    Full,
    /// No message may be that long.
    #[error("a message of {bytes} bytes, at most {max} are sent")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// As many nodes are known as may be.
    #[error("messages go to too many nodes")]
    TooManyPeers,
    /// The node stops.
    #[error("this node sends no more messages")]
    Stopped,
}

/// Why a message that was taken was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// Nobody waits for it any more.
    #[error("it waited for too long")]
    Expired,
    /// Its payload is encoded for another messaging version than that of the connection.
    #[error("the peer speaks another messaging version")]
    Version,
    /// The connection was given up, because the peer is thought dead or this node stops.
    #[error("the connection was given up")]
    Interrupted,
}

/// Sends messages.
pub trait Transport: Send + Sync {
    /// Who gets what arrives from now on, while it is there.
    fn attach(&self, inbox: Weak<dyn Inbox>);

    /// The messaging version of the connections to a peer; `None` before the first one.
    fn version(&self, to: Endpoint) -> Option<u32>;

    /// Where a peer is reached from now on, which may be another address than the one that it is known by.
    /// Its connections move there, and nothing is lost. A network without such addresses does nothing.
    fn reach_at(&self, _to: Endpoint, _at: SocketAddr) {}

    /// Sends a message.
    ///
    /// # Errors
    /// When it is not taken, so that it surely does not arrive.
    fn send(&self, to: Endpoint, message: Message) -> Result<(), SendError>;

    /// The peer is thought dead: what waits for it is lost, and its connections are closed. The next message
    /// connects anew.
    fn interrupt(&self, to: Endpoint);

    /// As [`Transport::interrupt`]; the peer has left, and what is known of it is forgotten.
    fn forget(&self, to: Endpoint);
}

/// Takes messages. A slow one slows its connection down; it must not wait for messages itself.
pub trait Inbox: Send + Sync {
    /// A message arrived, with a payload encoded for that messaging version.
    fn receive(&self, from: Endpoint, version: u32, message: Message);

    /// A message was taken and surely not sent.
    fn lost(&self, to: Endpoint, verb: Verb, id: u64, loss: Loss);
}
