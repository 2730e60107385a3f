//! AUTHENTICATE, AUTH_CHALLENGE and AUTH_SUCCESS: the server's steps of authentication.
//!
//! ```text
//! AUTHENTICATE     string class of the authenticator
//! AUTH_CHALLENGE   bytes token
//! AUTH_SUCCESS     bytes token, may be null
//! ```

use bytes::{Bytes, BytesMut};

#[cfg(any(test, feature = "client"))]
use crate::error::BodyError;
#[cfg(any(test, feature = "client"))]
use crate::primitives::Reader;
use crate::primitives::{put_bytes, put_string};

/// The class that drivers answer with user and password.
pub const PASSWORD_AUTHENTICATOR: &str = "org.apache.cassandra.auth.PasswordAuthenticator";

/// Authentication is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticate {
    /// Drivers choose their side of the exchange by this name.
    pub authenticator: String,
}

impl Authenticate {
    /// Appends the body.
    pub fn encode(&self, out: &mut BytesMut) {
        put_string(out, &self.authenticator);
    }

    /// Reads the body.
    #[cfg(any(test, feature = "client"))]
    pub fn decode(reader: &mut Reader) -> Result<Self, BodyError> {
        Ok(Self { authenticator: reader.string()? })
    }
}

/// The next step of authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthChallenge {
    /// What the authenticator says.
    pub token: Option<Bytes>,
}

impl AuthChallenge {
    /// Appends the body.
    pub fn encode(&self, out: &mut BytesMut) {
        put_bytes(out, self.token.as_deref());
    }

    /// Reads the body.
    #[cfg(any(test, feature = "client"))]
    pub fn decode(reader: &mut Reader) -> Result<Self, BodyError> {
        Ok(Self { token: reader.bytes("an authentication token")? })
    }
}

/// Authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSuccess {
    /// What the authenticator says last.
    pub token: Option<Bytes>,
}

impl AuthSuccess {
    /// Appends the body.
    pub fn encode(&self, out: &mut BytesMut) {
        put_bytes(out, self.token.as_deref());
    }

    /// Reads the body.
    #[cfg(any(test, feature = "client"))]
    pub fn decode(reader: &mut Reader) -> Result<Self, BodyError> {
        Ok(Self { token: reader.bytes("an authentication token")? })
    }
}
