//! What messages carry: each request and its answer as bytes (`org.apache.cassandra.db` and
//! `org.apache.cassandra.service.paxos` of Cassandra 4.0 to 5.0).
//!
//! - [`command`]: reads; [`selection`]: which columns, rows and partitions they ask for;
//! - [`answer`]: what is answered to them;
//! - [`schema`]: what tables there are;
//! - [`write`]: mutations, hints and logged batches; [`paxos`]: conditional writes.
//!
//! Tables are named by their ids, so a decoder needs the schema.

pub mod answer;
pub mod command;
pub mod paxos;
pub mod schema;
mod selection;
pub mod write;

use model::TableSchema;
use partition::codec::mutation::MutationError;
use partition::codec::{DecodeError, DeletionTimes, EncodeError};
use std::sync::Arc;
use uuid::Uuid;

/// How a schema finds a table by its id.
pub type Lookup<'a> = &'a dyn Fn(Uuid) -> Option<Arc<TableSchema>>;

/// Why a payload cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The bytes are not what they should be.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// It is of a table or a column that this node does not know (yet).
    #[error("{0}")]
    Schema(String),
    /// It asks for something that this node does not do.
    #[error("{0}")]
    Unsupported(String),
}

impl From<MutationError> for PayloadError {
    fn from(error: MutationError) -> PayloadError {
        match error {
            MutationError::Malformed(error) => PayloadError::Malformed(error),
            other => PayloadError::Schema(other.to_string()),
        }
    }
}

/// Why a payload cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsentError {
    /// A value is not one of its type.
    #[error(transparent)]
    Value(#[from] EncodeError),
    /// A key or a name is longer than the format holds.
    #[error("{0} bytes are too many for a key or a name in a message")]
    TooLong(usize),
}

/// How local deletion times are held in messages of a version.
pub fn deletion_times(version: u32) -> DeletionTimes {
    if version >= 13 { DeletionTimes::Unsigned } else { DeletionTimes::Signed }
}

/// Appends bytes with their length as two bytes before them.
fn write_short(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), UnsentError> {
    let len = u16::try_from(bytes.len()).map_err(|_| UnsentError::TooLong(bytes.len()))?;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

fn write_vbytes(out: &mut Vec<u8>, bytes: &[u8]) {
    model::vint::write_unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
