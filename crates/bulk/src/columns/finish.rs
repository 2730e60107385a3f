//! From what was appended to an array.

use super::{Column, Values};
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64NanosecondType,
    TimestampMillisecondType,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray,
    ListArray, MapArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use std::sync::Arc;

/// Takes a vector and leaves one with room for as much.
fn take<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = values.len();
    std::mem::replace(values, Vec::with_capacity(room))
}

fn offsets_of(offsets: &mut Vec<i32>) -> Result<OffsetBuffer<i32>, ArrowError> {
    let taken = take(offsets);
    offsets.push(0);
    match taken.first() {
        // They never fall, which is looked at there: each is the length of something that only grew.
        Some(0) => Ok(OffsetBuffer::new(ScalarBuffer::from(taken))),
        _ => Err(ArrowError::InvalidArgumentError("offsets that do not begin with 0".to_owned())),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: &mut Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(ScalarBuffer::from(take(values)), nulls)?))
}

impl Column {
    /// The array of what was appended since the last call.
    ///
    /// # Errors
    /// When text is not UTF-8.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let ty = self.data_type();
        let len = self.nulls.len();
        let nulls = self.nulls.finish();
        Ok(match &mut self.values {
            Values::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::I8(values) => primitive::<Int8Type>(values, nulls)?,
            Values::I16(values) => primitive::<Int16Type>(values, nulls)?,
            Values::I32(values) => primitive::<Int32Type>(values, nulls)?,
            Values::Date(values) => primitive::<Date32Type>(values, nulls)?,
            Values::I64(values) => match ty {
                DataType::Timestamp(TimeUnit::Millisecond, zone) => {
                    let values = ScalarBuffer::from(take(values));
                    let array = PrimitiveArray::<TimestampMillisecondType>::try_new(values, nulls)?;
                    Arc::new(array.with_timezone_opt(zone))
                }
                DataType::Time64(_) => primitive::<Time64NanosecondType>(values, nulls)?,
                _ => primitive::<Int64Type>(values, nulls)?,
            },
            Values::Counter(values) => primitive::<Int64Type>(values, nulls)?,
            Values::F32(values) => primitive::<Float32Type>(values, nulls)?,
            Values::F64(values) => primitive::<Float64Type>(values, nulls)?,
            Values::Uuid(bytes) => {
                Arc::new(FixedSizeBinaryArray::try_new(16, Buffer::from_vec(take(bytes)), nulls)?)
            }
            Values::Bytes { offsets, bytes, is_text: false } => {
                let offsets = offsets_of(offsets)?;
                Arc::new(BinaryArray::try_new(offsets, Buffer::from_vec(take(bytes)), nulls)?)
            }
            Values::Bytes { offsets, bytes, .. } | Values::Shown { offsets, bytes } => {
                let offsets = offsets_of(offsets)?;
                Arc::new(StringArray::try_new(offsets, Buffer::from_vec(take(bytes)), nulls)?)
            }
            Values::Duration { months, days, nanos } => {
                let DataType::Struct(fields) = ty else { return Err(unfit()) };
                let arrays = vec![
                    primitive::<Int32Type>(months, None)?,
                    primitive::<Int32Type>(days, None)?,
                    primitive::<Int64Type>(nanos, None)?,
                ];
                Arc::new(StructArray::try_new(fields, arrays, nulls)?)
            }
            Values::List { offsets, element } => {
                let DataType::List(field) = ty else { return Err(unfit()) };
                Arc::new(ListArray::try_new(field, offsets_of(offsets)?, element.finish()?, nulls)?)
            }
            Values::Map { offsets, key, value } => {
                let DataType::Map(field, is_sorted) = ty else { return Err(unfit()) };
                let DataType::Struct(fields) = field.data_type() else { return Err(unfit()) };
                let entries =
                    StructArray::try_new(fields.clone(), vec![key.finish()?, value.finish()?], None)?;
                Arc::new(MapArray::try_new(field, offsets_of(offsets)?, entries, nulls, is_sorted)?)
            }
            Values::Struct(columns) => {
                let DataType::Struct(fields) = ty else { return Err(unfit()) };
                let arrays = columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>, _>>()?;
                match arrays.is_empty() {
                    true => Arc::new(StructArray::new_empty_fields(len, nulls)),
                    false => Arc::new(StructArray::try_new(fields, arrays, nulls)?),
                }
            }
            Values::Vector { element, .. } => {
                let DataType::FixedSizeList(field, dimension) = ty else { return Err(unfit()) };
                Arc::new(FixedSizeListArray::try_new(field, dimension, element.finish()?, nulls)?)
            }
        })
    }
}

fn unfit() -> ArrowError {
    ArrowError::SchemaError("a column of another type than its builder".to_owned())
}
