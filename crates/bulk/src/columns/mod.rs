//! Column builders: stored values appended to the buffers of Arrow arrays.
//!
//! ```text
//! bytes of a value --append--> Values (plain vectors, reused in their size) --finish--> array
//! ```
//! 1. A column is built for its type once for a scan. Appending a value allocates only when a vector grows.
//! 2. Lengths of values are checked when they are appended. Text is checked as a whole when the array is
//!    made.
//! 3. A value of no bytes of a type that has none in Arrow is null, and counted.

mod finish;
mod nested;

use crate::request::Form;
use crate::types::{is_shown_as_text, type_of};
use arrow_buffer::{BooleanBufferBuilder, NullBufferBuilder};
use model::types::Duration;
use model::{CqlType, counter};
use std::sync::Arc;

/// Values and offsets of one column, as Arrow stores them.
#[derive(Debug)]
enum Values {
    Boolean(BooleanBufferBuilder),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    /// Days since 1970, stored as days since -5877641-06-23.
    Date(Vec<i32>),
    I64(Vec<i64>),
    /// The total of a context.
    Counter(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Uuid(Vec<u8>),
    Bytes {
        offsets: Vec<i32>,
        bytes: Vec<u8>,
        is_text: bool,
    },
    /// Shown as the text of CQL.
    Shown {
        offsets: Vec<i32>,
        bytes: Vec<u8>,
    },
    Duration {
        months: Vec<i32>,
        days: Vec<i32>,
        nanos: Vec<i64>,
    },
    List {
        offsets: Vec<i32>,
        element: Box<Column>,
    },
    Map {
        offsets: Vec<i32>,
        key: Box<Column>,
        value: Box<Column>,
    },
    Struct(Vec<Column>),
    Vector {
        dimension: u32,
        element: Box<Column>,
    },
}

/// A column that is being built.
#[derive(Debug)]
pub(crate) struct Column {
    ty: Arc<CqlType>,
    form: Form,
    values: Values,
    nulls: NullBufferBuilder,
    /// Empty values that became null.
    empties: u64,
}

/// Values that are not longer are copied without a look at their length.
pub(crate) const SHORT_BYTES: usize = 32;

/// What is wrong with a value.
pub(crate) type Detail = String;

impl Column {
    /// A column of values of a type, in a form.
    pub fn new(ty: &CqlType, form: Form) -> Column {
        let new = |ty: &CqlType| Box::new(Column::new(ty, form));
        let values = match ty {
            _ if is_shown_as_text(ty, form) => Values::Shown { offsets: vec![0], bytes: Vec::new() },
            CqlType::Ascii | CqlType::Text => {
                Values::Bytes { offsets: vec![0], bytes: Vec::new(), is_text: true }
            }
            CqlType::BigInt | CqlType::Time | CqlType::Timestamp => Values::I64(Vec::new()),
            CqlType::Boolean => Values::Boolean(BooleanBufferBuilder::new(0)),
            CqlType::Counter => Values::Counter(Vec::new()),
            CqlType::Date => Values::Date(Vec::new()),
            CqlType::Double => Values::F64(Vec::new()),
            CqlType::Duration => Values::Duration { months: Vec::new(), days: Vec::new(), nanos: Vec::new() },
            CqlType::Float => Values::F32(Vec::new()),
            CqlType::Int => Values::I32(Vec::new()),
            CqlType::SmallInt => Values::I16(Vec::new()),
            CqlType::TinyInt => Values::I8(Vec::new()),
            CqlType::LexicalUuid | CqlType::TimeUuid | CqlType::Uuid => Values::Uuid(Vec::new()),
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                Values::List { offsets: vec![0], element: new(element) }
            }
            CqlType::Map { key, value, .. } => {
                Values::Map { offsets: vec![0], key: new(key), value: new(value) }
            }
            CqlType::Tuple(types) => Values::Struct(types.iter().map(|ty| Column::new(ty, form)).collect()),
            CqlType::Udt { definition, .. } => {
                Values::Struct(definition.fields.iter().map(|(_, ty)| Column::new(ty, form)).collect())
            }
            CqlType::Vector { element, dimension } => {
                Values::Vector { dimension: *dimension, element: new(element) }
            }
            CqlType::Blob
            | CqlType::Empty
            | CqlType::Custom(_)
            | CqlType::Composite(_)
            | CqlType::DynamicComposite(_)
            | CqlType::Decimal
            | CqlType::Varint
            | CqlType::Inet => Values::Bytes { offsets: vec![0], bytes: Vec::new(), is_text: false },
        };
        Column { ty: Arc::new(ty.clone()), form, values, nulls: NullBufferBuilder::new(0), empties: 0 }
    }

    /// Values appended so far.
    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// How many empty values became null since the last call.
    pub fn take_empties(&mut self) -> u64 {
        let nested = match &mut self.values {
            Values::List { element, .. } | Values::Vector { element, .. } => element.take_empties(),
            Values::Map { key, value, .. } => key.take_empties() + value.take_empties(),
            Values::Struct(fields) => fields.iter_mut().map(Column::take_empties).sum(),
            _ => 0,
        };
        nested + std::mem::take(&mut self.empties)
    }

    /// Appends a null.
    pub fn append_null(&mut self) {
        self.nulls.append_null();
        match &mut self.values {
            Values::Boolean(out) => out.append(false),
            Values::I8(out) => out.push(0),
            Values::I16(out) => out.push(0),
            Values::I32(out) | Values::Date(out) => out.push(0),
            Values::I64(out) | Values::Counter(out) => out.push(0),
            Values::F32(out) => out.push(0.0),
            Values::F64(out) => out.push(0.0),
            Values::Uuid(out) => out.extend_from_slice(&[0; 16]),
            Values::Bytes { offsets, .. }
            | Values::Shown { offsets, .. }
            | Values::List { offsets, .. }
            | Values::Map { offsets, .. } => offsets.push(offsets.last().copied().unwrap_or(0)),
            Values::Duration { months, days, nanos } => {
                months.push(0);
                days.push(0);
                nanos.push(0);
            }
            Values::Struct(fields) => fields.iter_mut().for_each(Column::append_null),
            Values::Vector { dimension, element } => (0..*dimension).for_each(|_| element.append_null()),
        }
    }

    /// Appends a value in the encoding of the native protocol.
    ///
    /// # Errors
    /// When it is no value of the type. The column is of no use afterwards.
    #[inline]
    pub fn append(&mut self, value: &[u8]) -> Result<(), Detail> {
        if let Values::Bytes { offsets, bytes, .. } = &mut self.values
            && (!value.is_empty() || !self.ty.is_null_when_empty())
        {
            bytes.extend_from_slice(value);
            offsets.push(end_of(bytes)?);
            self.nulls.append_non_null();
            return Ok(());
        }
        self.append_other(value)
    }

    /// Appends the first `len` of some bytes, if that can be done with one copy of all of them, whose length
    /// the compiler knows. Says whether it did.
    #[inline]
    pub fn append_short(&mut self, len: usize, padded: &[u8; SHORT_BYTES]) -> bool {
        let Values::Bytes { offsets, bytes, .. } = &mut self.values else { return false };
        let end = bytes.len() + len;
        let (Ok(offset), false) = (i32::try_from(end), len == 0) else { return false };
        bytes.extend_from_slice(padded);
        bytes.truncate(end);
        offsets.push(offset);
        self.nulls.append_non_null();
        true
    }

    fn append_other(&mut self, value: &[u8]) -> Result<(), Detail> {
        if value.is_empty() && self.ty.is_null_when_empty() {
            self.empties += 1;
            self.append_null();
            return Ok(());
        }
        match &mut self.values {
            Values::Boolean(out) => out.append(fixed::<1>(value)? != [0]),
            Values::I8(out) => out.push(i8::from_be_bytes(fixed(value)?)),
            Values::I16(out) => out.push(i16::from_be_bytes(fixed(value)?)),
            Values::I32(out) => out.push(i32::from_be_bytes(fixed(value)?)),
            Values::Date(out) => out.push((u32::from_be_bytes(fixed(value)?) ^ (1 << 31)).cast_signed()),
            Values::I64(out) => out.push(i64::from_be_bytes(fixed(value)?)),
            // A context may be of any length; what is damaged in it counts nothing.
            Values::Counter(out) => out.push(counter::total(value)),
            Values::F32(out) => out.push(f32::from_be_bytes(fixed(value)?)),
            Values::F64(out) => out.push(f64::from_be_bytes(fixed(value)?)),
            Values::Uuid(out) => out.extend_from_slice(&fixed::<16>(value)?),
            Values::Bytes { offsets, bytes, .. } => {
                bytes.extend_from_slice(value);
                offsets.push(end_of(bytes)?);
            }
            Values::Shown { offsets, bytes } => {
                self.ty.validate(value).map_err(|e| e.to_string())?;
                let text = match nested::is_bare(&self.ty) {
                    true => self.ty.to_text(value),
                    false => self.ty.to_literal(Some(value)),
                };
                bytes.extend_from_slice(text.as_bytes());
                offsets.push(end_of(bytes)?);
            }
            Values::Duration { months, days, nanos } => {
                let duration = Duration::decode(value).ok_or_else(|| not_one(value, "duration"))?;
                months.push(duration.months);
                days.push(duration.days);
                nanos.push(duration.nanoseconds);
            }
            Values::List { offsets, element } => nested::append_list(offsets, element, value)?,
            Values::Map { offsets, key, value: of_value } => {
                nested::append_map(offsets, key, of_value, value)?;
            }
            Values::Struct(fields) => nested::append_struct(fields, value)?,
            Values::Vector { dimension, element } => nested::append_vector(*dimension, element, value)?,
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// The Arrow type of what is built.
    fn data_type(&self) -> arrow_schema::DataType {
        type_of(&self.ty, self.form)
    }
}

/// Where the bytes end, as an offset of Arrow.
fn end_of(bytes: &[u8]) -> Result<i32, Detail> {
    i32::try_from(bytes.len()).map_err(|_| "the values of a batch are longer than 2 GiB".to_owned())
}

/// A value of a fixed length.
#[inline]
fn fixed<const N: usize>(value: &[u8]) -> Result<[u8; N], Detail> {
    value.as_array().copied().ok_or_else(|| format!("a value of {} bytes, expected are {N}", value.len()))
}

#[cold]
fn not_one(value: &[u8], what: &str) -> Detail {
    format!("{} bytes that are no {what}", value.len())
}
