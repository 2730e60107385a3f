//! BATCH: several statements run as one.
//!
//! ```text
//! u8 type                                     0 logged, 1 unlogged, 2 counter
//! u16 n | n * statement
//! query parameters
//!
//! statement   u8 0 | long string | u16 m | m * value
//!             u8 1 | short bytes id | u16 m | m * value
//! ```
//!
//! The parameters are read by the same rules as a query's, so that values or a page size among them are
//! understood and have no effect, as in Cassandra. Values have no names here.

#[cfg(any(test, feature = "client"))]
use bytes::{BufMut, BytesMut};

use super::QueryParams;
use crate::error::BodyError;
use crate::primitives::{Reader, ShortId, Value};
use crate::version::ProtocolVersion;

/// What a batch promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// All of it happens, sooner or later, or nothing.
    Logged,
    /// No promise across partitions.
    Unlogged,
    /// Counter updates.
    Counter,
}

/// A statement, or the id of a prepared one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatementText {
    /// The text.
    Query(String),
    /// The id that PREPARE gave.
    Prepared(ShortId),
}

/// One statement of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchStatement {
    /// The statement.
    pub text: StatementText,
    /// Its values, in the order of the markers.
    pub values: Vec<Value>,
}

/// Run several statements as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// What the batch promises.
    pub kind: BatchKind,
    /// The statements.
    pub statements: Vec<BatchStatement>,
    /// How to run it.
    pub params: QueryParams,
}

impl Batch {
    /// Reads the body.
    pub fn decode(version: ProtocolVersion, reader: &mut Reader) -> Result<Self, BodyError> {
        let kind = match reader.u8("a batch type")? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            code => return Err(BodyError::BatchType { code: code as i8 }),
        };
        let count = usize::from(reader.u16("the number of statements")?);
        // A statement takes at least five bytes, which bounds what a lying count can reserve.
        let mut statements = Vec::with_capacity(count.min(reader.remaining() / 5));
        for _ in 0..count {
            let text = match reader.u8("a statement's kind")? {
                0 => StatementText::Query(reader.long_string()?),
                1 => StatementText::Prepared(reader.short_id()?),
                code => return Err(BodyError::BatchKind { code: code as i8 }),
            };
            statements.push(BatchStatement { text, values: reader.values(version)? });
        }
        let params = QueryParams::decode(version, reader)?;
        Ok(Self { kind, statements, params })
    }

    /// Appends the body.
    #[cfg(any(test, feature = "client"))]
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        out.put_u8(match self.kind {
            BatchKind::Logged => 0,
            BatchKind::Unlogged => 1,
            BatchKind::Counter => 2,
        });
        out.put_u16(self.statements.len() as u16);
        for statement in &self.statements {
            match &statement.text {
                StatementText::Query(text) => {
                    out.put_u8(0);
                    crate::primitives::put_long_string(out, text);
                }
                StatementText::Prepared(id) => {
                    out.put_u8(1);
                    crate::primitives::put_short_bytes(out, id);
                }
            }
            out.put_u16(statement.values.len() as u16);
            for value in &statement.values {
                crate::primitives::put_value(out, value);
            }
        }
        self.params.encode(version, out);
    }
}
