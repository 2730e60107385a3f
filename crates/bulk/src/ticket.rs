//! Tickets: what a client of Flight holds of a statement, and sends back to have rows. `ilion` itself gets
//! them for a [`ScanCommand`].
//!
//! A ticket is the four bytes `ILT1` and JSON. It says all that is needed to answer it, so nothing has to be
//! remembered of it, and it is as good after a restart. It grants nothing: whoever makes one up asks for no
//! more than a statement could.

use crate::handle::Prepared;
use crate::{Select, Split};
use serde::{Deserialize, Serialize};

/// How a ticket begins.
const MAGIC: &[u8; 4] = b"ILT1";
/// Bytes of a ticket at most.
pub const TICKET_BYTES_MAX: usize = 1 << 20;

/// What a ticket asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// A scan of a table.
    Scan(Select),
    /// A statement of SQL.
    Sql(String),
    /// A statement with values for its parameters.
    Bound(Prepared),
}

/// Rows that can be fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// The rows.
    pub asked: Asked,
    /// Seconds since the epoch at which TTLs and deletions are judged.
    pub now_s: u32,
    /// The only part of the ring that they come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
}

/// A scan that is to be planned: the answer has a ticket for each split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanCommand {
    /// What is asked for.
    pub select: Select,
    /// Splits at most.
    pub parts: u64,
}

impl ScanCommand {
    /// As JSON.
    pub fn to_json(&self) -> Vec<u8> {
        // It cannot fail, as for tickets.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads one.
    ///
    /// # Errors
    /// When the bytes are no such command.
    pub fn of_json(bytes: &[u8]) -> serde_json::Result<ScanCommand> {
        serde_json::from_slice(bytes)
    }
}

/// Bytes that are no ticket.
#[derive(Debug, thiserror::Error)]
#[error("this is no ticket of Ilion: {0}")]
pub struct TicketError(String);

impl Ticket {
    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        // A map with keys that are strings, in memory: that cannot fail.
        out.extend(serde_json::to_vec(self).unwrap_or_default());
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// When the bytes are no ticket.
    pub fn of_bytes(bytes: &[u8]) -> Result<Ticket, TicketError> {
        if bytes.len() > TICKET_BYTES_MAX {
            return Err(TicketError(format!("it has {} bytes", bytes.len())));
        }
        let json = bytes.strip_prefix(MAGIC).ok_or_else(|| TicketError("it begins otherwise".to_owned()))?;
        serde_json::from_slice(json).map_err(|error| TicketError(error.to_string()))
    }
}
