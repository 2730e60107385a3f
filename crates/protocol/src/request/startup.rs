//! STARTUP: the first request of a session.
//!
//! ```text
//! string map    CQL_VERSION, COMPRESSION, DRIVER_NAME, DRIVER_VERSION, CLIENT_ID, THROW_ON_OVERLOAD, ...
//! ```

#[cfg(any(test, feature = "client"))]
use bytes::BytesMut;

use crate::compression::Compression;
use crate::error::BodyError;
use crate::primitives::Reader;
use crate::response::error::ErrorResponse;
use crate::version::ProtocolVersion;

/// Begin the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Startup {
    /// The client's settings, names in upper case, in the order sent.
    pub settings: Vec<(String, String)>,
}

impl Startup {
    /// Reads the body.
    pub fn decode(reader: &mut Reader) -> Result<Self, BodyError> {
        let mut settings = reader.string_map()?;
        for (name, _) in &mut settings {
            *name = name.to_uppercase();
        }
        Ok(Self { settings })
    }

    /// A setting by its name in upper case; the last one if it was sent twice.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.settings.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Checks that CQL_VERSION is there and at least 3; the error is the answer to send, in Cassandra's
    /// words.
    pub fn check_cql_version(&self) -> Result<(), ErrorResponse> {
        let Some(version) = self.get("CQL_VERSION") else {
            return Err(ErrorResponse::protocol("Missing value CQL_VERSION in STARTUP message"));
        };
        let mut parts = version.splitn(3, '.').map(|part| part.parse::<u32>());
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(_))) if major >= 3 => Ok(()),
            (Some(Ok(_)), Some(Ok(_))) => Err(ErrorResponse::protocol(format!(
                "CQL version {version} is not supported by the binary protocol (supported version are >= 3.0.0)"
            ))),
            _ => Err(ErrorResponse::protocol(format!("Invalid version value: {version}"))),
        }
    }

    /// The compression asked for, judged for `version`; the error is the answer to send, in Cassandra's
    /// words.
    pub fn compression(&self, version: ProtocolVersion) -> Result<Option<Compression>, ErrorResponse> {
        let Some(name) = self.get("COMPRESSION") else { return Ok(None) };
        match Compression::from_name(name) {
            None => {
                let message = format!("Unknown compression algorithm: {}", name.to_lowercase());
                Err(ErrorResponse::protocol(message))
            }
            Some(Compression::Snappy) if version >= ProtocolVersion::V5 => {
                Err(ErrorResponse::protocol("Snappy compression is not supported in protocol V5"))
            }
            algorithm => Ok(algorithm),
        }
    }

    /// The client wants OVERLOADED errors rather than to be read from more slowly.
    pub fn throw_on_overload(&self) -> bool {
        self.get("THROW_ON_OVERLOAD") == Some("1")
    }

    /// Appends the body.
    #[cfg(any(test, feature = "client"))]
    pub fn encode(&self, out: &mut BytesMut) {
        crate::primitives::put_string_map(out, &self.settings);
    }
}
