//! AUTH_RESPONSE: the client's step of authentication.
//!
//! ```text
//! bytes token        SASL PLAIN: see `sasl`
//! ```

use bytes::Bytes;
#[cfg(any(test, feature = "client"))]
use bytes::BytesMut;

use crate::error::BodyError;
use crate::primitives::Reader;

/// A step of authentication.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthResponse {
    /// The token, which holds secrets.
    pub token: Option<Bytes>,
}

/// Says how long the token is, never what it is.
impl std::fmt::Debug for AuthResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuthResponse({} bytes)", self.token.as_ref().map_or(0, Bytes::len))
    }
}

impl AuthResponse {
    /// Reads the body.
    pub fn decode(reader: &mut Reader) -> Result<Self, BodyError> {
        Ok(Self { token: reader.bytes("an authentication token")? })
    }

    /// Appends the body.
    #[cfg(any(test, feature = "client"))]
    pub fn encode(&self, out: &mut BytesMut) {
        crate::primitives::put_bytes(out, self.token.as_deref());
    }
}
