//! REGISTER: the kinds of events that the connection wants.
//!
//! ```text
//! string list    TOPOLOGY_CHANGE, STATUS_CHANGE, SCHEMA_CHANGE
//! ```

#[cfg(any(test, feature = "client"))]
use bytes::BytesMut;

use crate::error::BodyError;
use crate::primitives::Reader;
use crate::response::event::EventKind;

/// Send events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    /// The kinds, as sent.
    pub kinds: Vec<EventKind>,
}

impl Register {
    /// Reads the body. Names are taken in any case; the first that is unknown is the error.
    pub fn decode(reader: &mut Reader) -> Result<Self, BodyError> {
        let count = reader.u16("the length of a string list")?;
        let mut kinds = Vec::new();
        for _ in 0..count {
            let name = reader.string()?;
            kinds.push(EventKind::from_name(&name).ok_or(BodyError::EventType { name })?);
        }
        Ok(Self { kinds })
    }

    /// Appends the body.
    #[cfg(any(test, feature = "client"))]
    pub fn encode(&self, out: &mut BytesMut) {
        let names: Vec<_> = self.kinds.iter().map(|kind| kind.name()).collect();
        crate::primitives::put_string_list(out, &names);
    }
}
