//! RESULT: what a statement yields.
//!
//! ```text
//! i32 kind      1 void
//!               2 rows             see `rows`
//!               3 set keyspace     string keyspace
//!               4 prepared         see `prepared`
//!               5 schema change    see `schema_change`
//! ```

use bytes::{BufMut, BytesMut};

use super::prepared::Prepared;
use super::rows::Rows;
use super::schema_change::SchemaChange;
#[cfg(any(test, feature = "client"))]
use crate::error::BodyError;
#[cfg(any(test, feature = "client"))]
use crate::primitives::Reader;
use crate::primitives::put_string;
use crate::version::ProtocolVersion;

const VOID: i32 = 1;
const SET_KEYSPACE: i32 = 3;
const SCHEMA_CHANGE: i32 = 5;

/// The body of a RESULT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultBody {
    /// Done; nothing to say.
    Void,
    /// Rows; large results are written with [`super::rows::RowsWriter`] instead.
    Rows(Rows),
    /// The session's keyspace is now this one.
    SetKeyspace(String),
    /// A statement was prepared.
    Prepared(Prepared),
    /// The schema has changed.
    SchemaChange(SchemaChange),
}

impl ResultBody {
    /// Appends the body.
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        match self {
            Self::Void => out.put_i32(VOID),
            Self::Rows(rows) => rows.encode(version, out),
            Self::SetKeyspace(keyspace) => {
                out.put_i32(SET_KEYSPACE);
                put_string(out, keyspace);
            }
            Self::Prepared(prepared) => prepared.encode(version, out),
            Self::SchemaChange(change) => {
                out.put_i32(SCHEMA_CHANGE);
                change.encode(version, out);
            }
        }
    }

    /// Reads the body.
    #[cfg(any(test, feature = "client"))]
    pub fn decode(version: ProtocolVersion, reader: &mut Reader) -> Result<Self, BodyError> {
        Ok(match reader.i32("the kind of a result")? {
            VOID => Self::Void,
            super::rows::KIND => Self::Rows(Rows::decode(reader)?),
            SET_KEYSPACE => Self::SetKeyspace(reader.string()?),
            super::prepared::KIND => Self::Prepared(Prepared::decode(version, reader)?),
            SCHEMA_CHANGE => Self::SchemaChange(SchemaChange::decode(reader)?),
            kind => return Err(BodyError::Tag { what: "result kind", tag: kind.to_string() }),
        })
    }
}
