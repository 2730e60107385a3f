//! PREPARE: a statement to be run later, by its id.
//!
//! ```text
//! long string statement
//! v5: u32 flags | [01] string keyspace
//! ```

#[cfg(any(test, feature = "client"))]
use bytes::{BufMut, BytesMut};

use crate::error::BodyError;
use crate::primitives::Reader;
use crate::version::ProtocolVersion;

const KEYSPACE: u32 = 0x01;

/// Prepare a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepare {
    /// The statement.
    pub statement: String,
    /// The keyspace of unqualified names; v5.
    pub keyspace: Option<String>,
}

impl Prepare {
    /// Reads the body.
    pub fn decode(version: ProtocolVersion, reader: &mut Reader) -> Result<Self, BodyError> {
        let statement = reader.long_string()?;
        let mut keyspace = None;
        if version >= ProtocolVersion::V5 && reader.u32("prepare flags")? & KEYSPACE != 0 {
            keyspace = Some(reader.string()?);
        }
        Ok(Self { statement, keyspace })
    }

    /// Appends the body.
    #[cfg(any(test, feature = "client"))]
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        crate::primitives::put_long_string(out, &self.statement);
        if version < ProtocolVersion::V5 {
            return;
        }
        match &self.keyspace {
            Some(keyspace) => {
                out.put_u32(KEYSPACE);
                crate::primitives::put_string(out, keyspace);
            }
            None => out.put_u32(0),
        }
    }
}
