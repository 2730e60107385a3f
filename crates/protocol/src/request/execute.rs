//! EXECUTE: run a prepared statement.
//!
//! ```text
//! short bytes prepared id
//! v5: short bytes result metadata id
//! query parameters
//! ```

#[cfg(any(test, feature = "client"))]
use bytes::BytesMut;

use super::QueryParams;
use crate::error::BodyError;
use crate::primitives::{Reader, ShortId};
use crate::version::ProtocolVersion;

/// Run a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execute {
    /// The id that PREPARE gave.
    pub id: ShortId,
    /// The id of the result metadata that the client holds; `None` before v5.
    pub result_metadata_id: Option<ShortId>,
    /// How to run it.
    pub params: QueryParams,
}

impl Execute {
    /// Reads the body.
    pub fn decode(version: ProtocolVersion, reader: &mut Reader) -> Result<Self, BodyError> {
        let id = reader.short_id()?;
        let result_metadata_id = match version {
            ProtocolVersion::V5 => Some(reader.short_id()?),
            _ => None,
        };
        let params = QueryParams::decode(version, reader)?.check_page_size()?;
        Ok(Self { id, result_metadata_id, params })
    }

    /// Appends the body.
    #[cfg(any(test, feature = "client"))]
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        crate::primitives::put_short_bytes(out, &self.id);
        if version >= ProtocolVersion::V5 {
            crate::primitives::put_short_bytes(out, self.result_metadata_id.as_deref().unwrap_or_default());
        }
        self.params.encode(version, out);
    }
}
