//! Type options: how column types are named in metadata.
//!
//! ```text
//! u16 id | what the id adds:
//!   00 custom    string class
//!   20 list      option                 22 set   option
//!   21 map       option | option
//!   30 udt       string keyspace | string name | u16 n | n * (string field | option)
//!   31 tuple     u16 n | n * option
//! ```
//!
//! A type that a version has no id for is sent as custom, by its class: `date`, `time`, `smallint`, `tinyint`
//! before v4, `duration` before v5, vectors always. Whether a type is frozen is not sent.

use bytes::{BufMut, BytesMut};
use model::types::CqlType;
#[cfg(any(test, feature = "client"))]
use model::types::UserType;

#[cfg(any(test, feature = "client"))]
use crate::error::BodyError;
#[cfg(any(test, feature = "client"))]
use crate::primitives::Reader;
use crate::primitives::{count_u16, put_string};
use crate::version::ProtocolVersion;

/// The id of a type that needs nothing more, in the version that introduced it.
fn simple_id(kind: &CqlType) -> Option<(u16, ProtocolVersion)> {
    use ProtocolVersion::{V3, V4, V5};
    Some(match kind {
        CqlType::Ascii => (0x01, V3),
        CqlType::BigInt => (0x02, V3),
        CqlType::Blob => (0x03, V3),
        CqlType::Boolean => (0x04, V3),
        CqlType::Counter => (0x05, V3),
        CqlType::Decimal => (0x06, V3),
        CqlType::Double => (0x07, V3),
        CqlType::Float => (0x08, V3),
        CqlType::Int => (0x09, V3),
        CqlType::Timestamp => (0x0B, V3),
        CqlType::Uuid => (0x0C, V3),
        CqlType::Text => (0x0D, V3),
        CqlType::Varint => (0x0E, V3),
        CqlType::TimeUuid => (0x0F, V3),
        CqlType::Inet => (0x10, V3),
        CqlType::Date => (0x11, V4),
        CqlType::Time => (0x12, V4),
        CqlType::SmallInt => (0x13, V4),
        CqlType::TinyInt => (0x14, V4),
        CqlType::Duration => (0x15, V5),
        _ => return None,
    })
}

/// Writes the option of a type.
pub fn put_type(out: &mut BytesMut, version: ProtocolVersion, kind: &CqlType) {
    if let Some((id, _)) = simple_id(kind).filter(|(_, since)| version >= *since) {
        out.put_u16(id);
        return;
    }
    match kind {
        CqlType::List { element, .. } => {
            out.put_u16(0x20);
            put_type(out, version, element);
        }
        CqlType::Map { key, value, .. } => {
            out.put_u16(0x21);
            put_type(out, version, key);
            put_type(out, version, value);
        }
        CqlType::Set { element, .. } => {
            out.put_u16(0x22);
            put_type(out, version, element);
        }
        CqlType::Udt { definition, .. } => {
            out.put_u16(0x30);
            put_string(out, &definition.keyspace);
            put_string(out, &definition.name);
            let count = count_u16(definition.fields.len());
            out.put_u16(count);
            for (name, field) in definition.fields.iter().take(usize::from(count)) {
                put_string(out, name);
                put_type(out, version, field);
            }
        }
        CqlType::Tuple(elements) => {
            out.put_u16(0x31);
            let count = count_u16(elements.len());
            out.put_u16(count);
            for element in elements.iter().take(usize::from(count)) {
                put_type(out, version, element);
            }
        }
        other => {
            out.put_u16(0x00);
            put_string(out, &other.class_name());
        }
    }
}

/// How deep types may nest in what a server sends.
#[cfg(any(test, feature = "client"))]
const DEPTH_MAX: u8 = 64;

/// Reads the option of a type. Custom types keep their class; collections and user types come out frozen.
#[cfg(any(test, feature = "client"))]
pub fn read_type(reader: &mut Reader) -> Result<CqlType, BodyError> {
    read_nested(reader, DEPTH_MAX)
}

#[cfg(any(test, feature = "client"))]
fn read_nested(reader: &mut Reader, depth: u8) -> Result<CqlType, BodyError> {
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| BodyError::Tag { what: "type", tag: "nested too deep".to_owned() })?;
    let id = reader.u16("a type's id")?;
    Ok(match id {
        0x00 => CqlType::Custom(reader.string()?.into()),
        0x01 => CqlType::Ascii,
        0x02 => CqlType::BigInt,
        0x03 => CqlType::Blob,
        0x04 => CqlType::Boolean,
        0x05 => CqlType::Counter,
        0x06 => CqlType::Decimal,
        0x07 => CqlType::Double,
        0x08 => CqlType::Float,
        0x09 => CqlType::Int,
        0x0A | 0x0D => CqlType::Text,
        0x0B => CqlType::Timestamp,
        0x0C => CqlType::Uuid,
        0x0E => CqlType::Varint,
        0x0F => CqlType::TimeUuid,
        0x10 => CqlType::Inet,
        0x11 => CqlType::Date,
        0x12 => CqlType::Time,
        0x13 => CqlType::SmallInt,
        0x14 => CqlType::TinyInt,
        0x15 => CqlType::Duration,
        0x20 => CqlType::list(read_nested(reader, depth)?, false),
        0x21 => CqlType::map(read_nested(reader, depth)?, read_nested(reader, depth)?, false),
        0x22 => CqlType::set(read_nested(reader, depth)?, false),
        0x30 => {
            let (keyspace, name) = (reader.string()?, reader.string()?);
            let count = reader.u16("the number of fields")?;
            let fields: Result<_, BodyError> =
                (0..count).map(|_| Ok((reader.string()?, read_nested(reader, depth)?))).collect();
            let definition = UserType { keyspace, name, fields: fields? };
            CqlType::Udt { definition: definition.into(), multi_cell: false }
        }
        0x31 => {
            let count = reader.u16("the number of a tuple's elements")?;
            let elements: Result<Vec<_>, _> = (0..count).map(|_| read_nested(reader, depth)).collect();
            CqlType::Tuple(elements?.into())
        }
        other => return Err(BodyError::Tag { what: "type id", tag: other.to_string() }),
    })
}

#[cfg(test)]
mod tests;
