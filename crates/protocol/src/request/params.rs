//! The parameters of QUERY, EXECUTE and BATCH.
//!
//! ```text
//! consistency
//! u8 (v3, v4) or u32 (v5) flags
//! [01] u16 n | n * ([40] string name | value)
//! [02] skip metadata
//! [04] i32 page size in rows
//! [08] bytes paging state
//! [10] consistency serial
//! [20] i64 default timestamp in microseconds
//! [80] string keyspace             v5
//! [100] u32 now in seconds         v5
//! ```

#[cfg(any(test, feature = "client"))]
use bytes::BufMut;
use bytes::Bytes;
#[cfg(any(test, feature = "client"))]
use bytes::BytesMut;

use crate::error::BodyError;
use crate::primitives::{Reader, Value};
#[cfg(any(test, feature = "client"))]
use crate::primitives::{put_bytes, put_consistency, put_string, put_value};
use crate::version::ProtocolVersion;
use model::Consistency;

const VALUES: u32 = 0x01;
const SKIP_METADATA: u32 = 0x02;
const PAGE_SIZE: u32 = 0x04;
const PAGING_STATE: u32 = 0x08;
const SERIAL_CONSISTENCY: u32 = 0x10;
const TIMESTAMP: u32 = 0x20;
const NAMES: u32 = 0x40;
const KEYSPACE: u32 = 0x80;
const NOW_IN_SECONDS: u32 = 0x100;

/// How a statement is to be run, and with which values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryParams {
    /// The consistency level.
    pub consistency: Consistency,
    /// The bound values, in the order of the markers, or of `names`.
    pub values: Vec<Value>,
    /// The names of the markers that `values` are for, if the client sent names.
    pub names: Option<Vec<String>>,
    /// The client knows the result's metadata.
    pub skip_metadata: bool,
    /// The most rows in a page; not positive: no pages.
    pub page_size: Option<i32>,
    /// Where the previous page ended.
    pub paging_state: Option<Bytes>,
    /// The level of the Paxos phase.
    pub serial_consistency: Option<Consistency>,
    /// The timestamp of writes that name none, in microseconds; never `i64::MIN`.
    pub timestamp_us: Option<i64>,
    /// The keyspace of unqualified names; v5.
    pub keyspace: Option<String>,
    /// The instant for TTLs, in seconds of the epoch; v5. Cassandra 5 counts it unsigned.
    pub now_in_seconds: Option<u32>,
}

impl QueryParams {
    /// Parameters with nothing but a consistency level.
    pub const fn new(consistency: Consistency) -> Self {
        Self {
            consistency,
            values: Vec::new(),
            names: None,
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp_us: None,
            keyspace: None,
            now_in_seconds: None,
        }
    }

    /// Reads the parameters.
    pub fn decode(version: ProtocolVersion, reader: &mut Reader) -> Result<Self, BodyError> {
        let mut params = Self::new(reader.consistency()?);
        let v5 = version >= ProtocolVersion::V5;
        let flags = match v5 {
            true => reader.u32("query flags")?,
            false => u32::from(reader.u8("query flags")?),
        };
        let has = |flag| flags & flag != 0;
        if has(VALUES) {
            if has(NAMES) {
                let (names, values) = named_values(version, reader)?;
                params.names = Some(names);
                params.values = values;
            } else {
                params.values = reader.values(version)?;
            }
        }
        params.skip_metadata = has(SKIP_METADATA);
        if has(PAGE_SIZE) {
            params.page_size = Some(reader.i32("a page size")?);
        }
        if has(PAGING_STATE) {
            params.paging_state = reader.bytes("a paging state")?;
        }
        if has(SERIAL_CONSISTENCY) {
            params.serial_consistency = Some(reader.consistency()?);
        }
        if has(TIMESTAMP) {
            match reader.i64("a default timestamp")? {
                i64::MIN => return Err(BodyError::Timestamp),
                timestamp => params.timestamp_us = Some(timestamp),
            }
        }
        // Cassandra looks at this bit in older versions too.
        if has(KEYSPACE) {
            params.keyspace = Some(reader.string()?);
        }
        if has(NOW_IN_SECONDS) {
            params.now_in_seconds = Some(reader.u32("now in seconds")?);
        }
        Ok(params)
    }

    /// Refuses a page of no rows, which Cassandra does for QUERY and EXECUTE.
    pub(super) fn check_page_size(self) -> Result<Self, BodyError> {
        match self.page_size {
            Some(0) => Err(BodyError::PageSizeZero),
            _ => Ok(self),
        }
    }

    /// Appends the parameters.
    #[cfg(any(test, feature = "client"))]
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        let bit = |set: bool, flag: u32| if set { flag } else { 0 };
        let flags = bit(!self.values.is_empty() || self.names.is_some(), VALUES)
            | bit(self.names.is_some(), NAMES)
            | bit(self.skip_metadata, SKIP_METADATA)
            | bit(self.page_size.is_some(), PAGE_SIZE)
            | bit(self.paging_state.is_some(), PAGING_STATE)
            | bit(self.serial_consistency.is_some(), SERIAL_CONSISTENCY)
            | bit(self.timestamp_us.is_some(), TIMESTAMP)
            | bit(self.keyspace.is_some(), KEYSPACE)
            | bit(self.now_in_seconds.is_some(), NOW_IN_SECONDS);
        put_consistency(out, self.consistency);
        match version {
            ProtocolVersion::V5 => out.put_u32(flags),
            _ => out.put_u8(flags as u8),
        }
        if flags & VALUES != 0 {
            out.put_u16(self.values.len() as u16);
            let mut names = self.names.iter().flatten();
            for value in &self.values {
                if let Some(name) = names.next() {
                    put_string(out, name);
                }
                put_value(out, value);
            }
        }
        if let Some(rows) = self.page_size {
            out.put_i32(rows);
        }
        if let Some(state) = &self.paging_state {
            put_bytes(out, Some(state));
        }
        if let Some(level) = self.serial_consistency {
            put_consistency(out, level);
        }
        if let Some(timestamp) = self.timestamp_us {
            out.put_i64(timestamp);
        }
        if let Some(keyspace) = &self.keyspace {
            put_string(out, keyspace);
        }
        if let Some(now) = self.now_in_seconds {
            out.put_u32(now);
        }
    }
}

fn named_values(
    version: ProtocolVersion,
    reader: &mut Reader,
) -> Result<(Vec<String>, Vec<Value>), BodyError> {
    let count = reader.u16("the number of values")?;
    (0..count).map(|_| Ok((reader.string()?, reader.value(version)?))).collect()
}
