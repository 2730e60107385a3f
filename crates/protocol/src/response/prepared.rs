//! The RESULT of PREPARE.
//!
//! ```text
//! i32 4
//! short bytes prepared id
//! v5: short bytes result metadata id
//! bind markers: u32 flags | i32 n | v4, v5: i32 m | m * u16 partition key index
//!               if n > 0: columns, as in a result of rows
//! result:       metadata, as in a result of rows; flags 04 and no columns for what yields no rows
//! ```
//!
//! The partition key indexes say which bind marker holds each column of the partition key, in key order;
//! there are none unless all of them are bound.

use bytes::{BufMut, Bytes, BytesMut};

use super::rows::{ColumnSpec, EncodedColumns, NO_METADATA};
#[cfg(any(test, feature = "client"))]
use super::rows::{GLOBAL_TABLE, read_columns, read_metadata};
#[cfg(any(test, feature = "client"))]
use crate::error::BodyError;
#[cfg(any(test, feature = "client"))]
use crate::primitives::Reader;
use crate::primitives::put_short_bytes;
use crate::version::ProtocolVersion;

/// The kind of a RESULT of PREPARE.
pub(super) const KIND: i32 = 4;

/// What PREPARE yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The statement's id, see [`crate::ids::prepared_id`].
    pub id: Bytes,
    /// The id of the result's metadata, see [`crate::ids::result_metadata_id`]; sent in v5 only.
    pub result_metadata_id: Bytes,
    /// The bind markers.
    pub bind: Vec<ColumnSpec>,
    /// The bind markers of the partition key's columns; sent from v4 on.
    pub partition_key_indexes: Vec<u16>,
    /// The columns of the result; empty for what yields no rows.
    pub result: Vec<ColumnSpec>,
}

impl Prepared {
    /// Appends the body of the RESULT.
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        out.put_i32(KIND);
        put_short_bytes(out, &self.id);
        if version >= ProtocolVersion::V5 {
            put_short_bytes(out, &self.result_metadata_id);
        }
        let bind = EncodedColumns::new(version, &self.bind);
        out.put_u32(bind.flags());
        out.put_u32(self.bind.len() as u32);
        if version >= ProtocolVersion::V4 {
            out.put_u32(self.partition_key_indexes.len() as u32);
            for &index in &self.partition_key_indexes {
                out.put_u16(index);
            }
        }
        out.put_slice(bind.bytes());
        if self.result.is_empty() {
            out.put_u32(NO_METADATA);
            out.put_u32(0);
            return;
        }
        let result = EncodedColumns::new(version, &self.result);
        out.put_u32(result.flags());
        out.put_u32(self.result.len() as u32);
        out.put_slice(result.bytes());
    }

    /// Reads the body behind its kind.
    #[cfg(any(test, feature = "client"))]
    pub fn decode(version: ProtocolVersion, reader: &mut Reader) -> Result<Self, BodyError> {
        let id = reader.short_bytes()?;
        let result_metadata_id = match version {
            ProtocolVersion::V5 => reader.short_bytes()?,
            _ => Bytes::new(),
        };
        let flags = reader.u32("bind flags")?;
        let count = reader.u32("the number of bind markers")?;
        let mut partition_key_indexes = Vec::new();
        if version >= ProtocolVersion::V4 {
            for _ in 0..reader.u32("the number of partition key indexes")? {
                partition_key_indexes.push(reader.u16("a partition key index")?);
            }
        }
        let bind = read_columns(reader, flags & GLOBAL_TABLE != 0, count)?;
        let result = read_metadata(reader)?.columns.unwrap_or_default();
        Ok(Self { id, result_metadata_id, bind, partition_key_indexes, result })
    }
}
