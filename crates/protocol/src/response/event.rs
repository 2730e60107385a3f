//! EVENT: what registered connections are told, on stream -1.
//!
//! ```text
//! string TOPOLOGY_CHANGE | string NEW_NODE, REMOVED_NODE, MOVED_NODE | inet
//! string STATUS_CHANGE   | string UP, DOWN | inet
//! string SCHEMA_CHANGE   | schema change
//! ```
//!
//! The address is the one where the node serves clients.

use std::net::SocketAddr;

use bytes::BytesMut;

use super::schema_change::SchemaChange;
#[cfg(any(test, feature = "client"))]
use crate::error::BodyError;
#[cfg(any(test, feature = "client"))]
use crate::primitives::Reader;
use crate::primitives::{put_inet, put_string};
use crate::version::ProtocolVersion;

/// What a connection can register for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Nodes join, leave and move.
    TopologyChange,
    /// Nodes go up and down.
    StatusChange,
    /// The schema changes.
    SchemaChange,
}

impl EventKind {
    /// The word in bodies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TopologyChange => "TOPOLOGY_CHANGE",
            Self::StatusChange => "STATUS_CHANGE",
            Self::SchemaChange => "SCHEMA_CHANGE",
        }
    }

    /// The kind of a word, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::TopologyChange, Self::StatusChange, Self::SchemaChange]
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name))
    }
}

/// How the ring changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyChange {
    /// A node joined.
    NewNode,
    /// A node left.
    RemovedNode,
    /// A node has another token.
    MovedNode,
}

impl TopologyChange {
    const fn name(self) -> &'static str {
        match self {
            Self::NewNode => "NEW_NODE",
            Self::RemovedNode => "REMOVED_NODE",
            Self::MovedNode => "MOVED_NODE",
        }
    }
}

/// How a node's state changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusChange {
    /// It serves clients.
    Up,
    /// It does not.
    Down,
}

impl StatusChange {
    const fn name(self) -> &'static str {
        match self {
            Self::Up => "UP",
            Self::Down => "DOWN",
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// To the ring.
    Topology(TopologyChange, SocketAddr),
    /// To a node.
    Status(StatusChange, SocketAddr),
    /// To the schema.
    Schema(SchemaChange),
}

impl Event {
    /// What to have registered for.
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::Topology(..) => EventKind::TopologyChange,
            Self::Status(..) => EventKind::StatusChange,
            Self::Schema(_) => EventKind::SchemaChange,
        }
    }

    /// Appends the body.
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        put_string(out, self.kind().name());
        match self {
            Self::Topology(change, address) => {
                put_string(out, change.name());
                put_inet(out, *address);
            }
            Self::Status(change, address) => {
                put_string(out, change.name());
                put_inet(out, *address);
            }
            Self::Schema(change) => change.encode(version, out),
        }
    }

    /// Reads the body.
    #[cfg(any(test, feature = "client"))]
    pub fn decode(reader: &mut Reader) -> Result<Self, BodyError> {
        let name = reader.string()?;
        let Some(kind) = EventKind::from_name(&name) else { return Err(BodyError::EventType { name }) };
        if kind == EventKind::SchemaChange {
            return Ok(Self::Schema(SchemaChange::decode(reader)?));
        }
        let change = reader.string()?;
        let address = reader.inet()?;
        Ok(match change.as_str() {
            "NEW_NODE" => Self::Topology(TopologyChange::NewNode, address),
            "REMOVED_NODE" => Self::Topology(TopologyChange::RemovedNode, address),
            "MOVED_NODE" => Self::Topology(TopologyChange::MovedNode, address),
            "UP" => Self::Status(StatusChange::Up, address),
            "DOWN" => Self::Status(StatusChange::Down, address),
            _ => return Err(BodyError::Tag { what: "change", tag: change }),
        })
    }
}
