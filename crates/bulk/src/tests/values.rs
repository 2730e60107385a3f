//! From Arrow back to the bytes of CQL, written without a look at the builders.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use bytes::Bytes;
use model::CqlType;
use model::types::Duration;
use model::types::collection::{encode_nullable_list, encode_nullable_map, encode_tuple, encode_vector};
use model::types::numbers::encode_decimal;
use num_bigint::BigInt;
use std::net::IpAddr;
use std::sync::Arc;

/// A value as CQL shows it; `None` for null.
pub type Shown = Option<String>;

/// What is shown of bytes that CQL answered. An empty value that Arrow has not is null.
pub fn show_bytes(ty: &CqlType, bytes: Option<&[u8]>) -> Shown {
    let bytes = bytes.filter(|bytes| !bytes.is_empty() || !ty.is_null_when_empty())?;
    Some(ty.to_literal(Some(bytes)))
}

/// What is shown of a value of an array.
pub fn show(ty: &CqlType, array: &ArrayRef, at: usize) -> Shown {
    to_bytes(ty, array, at).map(|bytes| ty.to_literal(Some(&bytes)))
}

fn decimal(text: &str) -> Vec<u8> {
    let (digits, exponent) = text.split_once(['E', 'e']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().unwrap();
    let fraction = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i64);
    let unscaled: BigInt = digits.replace('.', "").parse().unwrap();
    encode_decimal(&unscaled, i32::try_from(fraction - exponent).unwrap())
}

/// The bytes of a value of an array; `None` for null.
pub fn to_bytes(ty: &CqlType, array: &ArrayRef, at: usize) -> Option<Bytes> {
    if array.is_null(at) {
        return None;
    }
    let own = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    macro_rules! number {
        ($ty:ty) => {
            own(&array.as_primitive::<$ty>().value(at).to_be_bytes())
        };
    }
    let text = || array.as_string::<i32>().value(at);
    Some(match ty {
        CqlType::Ascii | CqlType::Text => own(text().as_bytes()),
        CqlType::BigInt | CqlType::Counter => number!(Int64Type),
        CqlType::Boolean => own(&[u8::from(array.as_boolean().value(at))]),
        CqlType::Date => {
            let days = array.as_primitive::<Date32Type>().value(at);
            own(&u32::try_from(i64::from(days) + (1 << 31)).unwrap().to_be_bytes())
        }
        CqlType::Decimal => decimal(text()).into(),
        CqlType::Double => number!(Float64Type),
        CqlType::Duration => {
            let fields = array.as_struct();
            let months = fields.column(0).as_primitive::<Int32Type>().value(at);
            let days = fields.column(1).as_primitive::<Int32Type>().value(at);
            let nanoseconds = fields.column(2).as_primitive::<Int64Type>().value(at);
            Duration { months, days, nanoseconds }.encode().into()
        }
        CqlType::Float => number!(Float32Type),
        CqlType::Inet => match text().parse().unwrap() {
            IpAddr::V4(address) => own(&address.octets()),
            IpAddr::V6(address) => own(&address.octets()),
        },
        CqlType::Int => number!(Int32Type),
        CqlType::SmallInt => number!(Int16Type),
        CqlType::Time => number!(Time64NanosecondType),
        CqlType::Timestamp => number!(TimestampMillisecondType),
        CqlType::LexicalUuid | CqlType::TimeUuid | CqlType::Uuid => {
            own(array.as_fixed_size_binary().value(at))
        }
        CqlType::TinyInt => number!(Int8Type),
        CqlType::Varint => text().parse::<BigInt>().unwrap().to_signed_bytes_be().into(),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            let items = array.as_list::<i32>().value(at);
            encode_nullable_list((0..items.len()).map(|i| to_bytes(element, &items, i)))
        }
        CqlType::Map { key, value, .. } => {
            let entries = array.as_map().value(at);
            let (keys, values) = (entries.column(0), entries.column(1));
            let pair = |i| (to_bytes(key, keys, i).unwrap(), to_bytes(value, values, i));
            encode_nullable_map(key, (0..entries.len()).map(pair))
        }
        CqlType::Tuple(types) => {
            let fields = array.as_struct();
            encode_tuple(types.iter().enumerate().map(|(i, ty)| to_bytes(ty, fields.column(i), at)))
        }
        CqlType::Udt { definition, .. } => {
            let fields = array.as_struct();
            let of = |(name, ty): &(String, CqlType)| to_bytes(ty, fields.column_by_name(name).unwrap(), at);
            encode_tuple(definition.fields.iter().map(of))
        }
        CqlType::Vector { element, .. } => {
            let items: Arc<dyn Array> = array.as_fixed_size_list().value(at);
            encode_vector(element, (0..items.len()).map(|i| to_bytes(element, &items, i).unwrap()))
        }
        _ => own(array.as_binary::<i32>().value(at)),
    })
}
