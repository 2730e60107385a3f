//! SUPPORTED: the answer to OPTIONS.
//!
//! ```text
//! string multimap    PROTOCOL_VERSIONS, COMPRESSION, CQL_VERSION
//! ```

use bytes::BytesMut;

#[cfg(any(test, feature = "client"))]
use crate::error::BodyError;
#[cfg(any(test, feature = "client"))]
use crate::primitives::Reader;
use crate::primitives::put_string_multimap;

/// What the server supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supported {
    /// Names and their possible values, in the order to send.
    pub options: Vec<(String, Vec<String>)>,
}

impl Supported {
    /// Appends the body.
    pub fn encode(&self, out: &mut BytesMut) {
        put_string_multimap(out, &self.options);
    }

    /// Reads the body.
    #[cfg(any(test, feature = "client"))]
    pub fn decode(reader: &mut Reader) -> Result<Self, BodyError> {
        Ok(Self { options: reader.string_multimap()? })
    }
}
