//! Messages between nodes: messaging versions 12 and 13, which Cassandra 4.0 to 5.0 speak.
//!
//! ```text
//!  gossip, remote, serve            call, send, respond; handlers of requests
//!            │
//!        messenger                  ids, timeouts, answers to calls
//!            │
//!        transport                  a message arrives once or not at all
//!            │
//!           tcp                     three connections to each peer, a listener for theirs
//!            │
//!  handshake, frame, unpack, message    bytes, without I/O
//! ```
//! A connection carries messages one way: from who opened it to who accepted it. Answers take the connections
//! of who answers. So a node listens where its handshakes say that it does.
//!
//! - [`handshake`]: the two messages that open a connection; [`frame`]: checksums, compression, whole
//!   messages and pieces of large ones; [`unpack`]: messages out of frames;
//! - [`message`], [`param`], [`failure`], [`verb`]: what a message says besides its payload;
//! - [`transport`]: what carries messages; [`tcp`]: over connections;
//! - [`messenger`]: calls and their answers;
//! - [`limits`], [`counters`]: what may wait, and what was counted.

mod callbacks;
pub mod counters;
pub mod failure;
pub mod frame;
pub mod fuzz;
pub mod handshake;
pub mod limits;
pub mod message;
pub mod messenger;
pub mod param;
pub mod tcp;
pub mod transport;
pub mod unpack;
pub mod verb;

pub use failure::FailureReason;
pub use frame::Framing;
pub use handshake::{ConnectionKind, VERSION_40, VERSION_50, Versions};
pub use message::{Flags, Message};
pub(crate) use messenger::nanos;
pub use messenger::{CallError, Handler, Messenger, MessengerOptions, ReplyTo, Request};
pub use param::{Forward, Param, Threshold, TraceType};
pub use transport::{Inbox, Loss, SendError, Transport};
pub use verb::{TimeoutKind, Verb};
