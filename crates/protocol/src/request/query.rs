//! QUERY: a statement as text.
//!
//! ```text
//! long string statement | query parameters
//! ```

#[cfg(any(test, feature = "client"))]
use bytes::BytesMut;

use super::QueryParams;
use crate::error::BodyError;
use crate::primitives::Reader;
use crate::version::ProtocolVersion;

/// Run a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The statement.
    pub statement: String,
    /// How to run it.
    pub params: QueryParams,
}

impl Query {
    /// Reads the body.
    pub fn decode(version: ProtocolVersion, reader: &mut Reader) -> Result<Self, BodyError> {
        let statement = reader.long_string()?;
        let params = QueryParams::decode(version, reader)?.check_page_size()?;
        Ok(Self { statement, params })
    }

    /// Appends the body.
    #[cfg(any(test, feature = "client"))]
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        crate::primitives::put_long_string(out, &self.statement);
        self.params.encode(version, out);
    }
}
