//! Rows as JSON can hold them: an object has text for its keys, a map anything.

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StringArray,
    StructArray,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};
use std::sync::Arc;
use uuid::Uuid;

/// The batch with all keys of maps as text: uuids as CQL writes them, others as JSON has such values.
///
/// # Errors
/// When an array is none of its own type.
pub fn with_text_keys(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    if batch.schema_ref().fields().iter().all(|field| has_text_keys(field.data_type())) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(keyed).collect::<Result<Vec<_>, _>>()?;
    let fields = batch.schema_ref().fields().iter().zip(&columns).map(|(field, array)| of(field, array));
    let schema = Schema::new(fields.collect::<Fields>());
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)
}

/// Whether no map inside has other keys.
fn has_text_keys(ty: &DataType) -> bool {
    match ty {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => match fields.as_ref() {
                [key, value] => *key.data_type() == DataType::Utf8 && has_text_keys(value.data_type()),
                _ => true,
            },
            _ => true,
        },
        DataType::List(item) | DataType::FixedSizeList(item, _) => has_text_keys(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| has_text_keys(field.data_type())),
        _ => true,
    }
}

/// The field with the type that its array has now.
fn of(field: &FieldRef, array: &ArrayRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(array.data_type().clone()))
}

fn keyed(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if has_text_keys(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    let nulls = array.nulls().cloned();
    Ok(match array.data_type() {
        DataType::Map(field, is_sorted) => {
            let map = array.as_map();
            let (key, value) = (text(map.keys())?, keyed(map.values())?);
            let DataType::Struct(fields) = field.data_type() else { return Ok(Arc::clone(array)) };
            let fields = fields.iter().zip([&key, &value]).map(|(field, array)| of(field, array));
            let entries = StructArray::try_new(fields.collect(), vec![key, value], None)?;
            let field = Field::new(field.name(), entries.data_type().clone(), false);
            Arc::new(MapArray::try_new(Arc::new(field), map.offsets().clone(), entries, nulls, *is_sorted)?)
        }
        DataType::List(field) => {
            let list = array.as_list::<i32>();
            let values = keyed(list.values())?;
            Arc::new(ListArray::try_new(of(field, &values), list.offsets().clone(), values, nulls)?)
        }
        DataType::FixedSizeList(field, len) => {
            let values = keyed(array.as_fixed_size_list().values())?;
            Arc::new(FixedSizeListArray::try_new(of(field, &values), *len, values, nulls)?)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(keyed).collect::<Result<Vec<_>, _>>()?;
            let fields = fields.iter().zip(&columns).map(|(field, array)| of(field, array));
            Arc::new(StructArray::try_new(fields.collect(), columns, nulls)?)
        }
        _ => Arc::clone(array),
    })
}

/// Keys as text. None of them is null.
fn text(keys: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if let Some(binary) = keys.as_fixed_size_binary_opt()
        && binary.value_length() == 16
    {
        let uuids = binary.iter().map(|key| Uuid::from_slice(key.unwrap_or_default()).unwrap_or_default());
        return Ok(Arc::new(StringArray::from_iter_values(uuids.map(|uuid| uuid.to_string()))));
    }
    let options = FormatOptions::default();
    let format = ArrayFormatter::try_new(keys.as_ref(), &options)?;
    let texts = (0..keys.len()).map(|at| format.value(at).try_to_string());
    Ok(Arc::new(StringArray::from_iter_values(texts.collect::<Result<Vec<String>, _>>()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::FixedSizeBinaryArray;
    use arrow_array::builder::{Int32Builder, MapBuilder, StringBuilder, TimestampMillisecondBuilder};
    use arrow_buffer::{NullBuffer, OffsetBuffer};

    fn lines(column: ArrayRef) -> String {
        let field = Field::new("m", column.data_type().clone(), true);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]).unwrap();
        let mut out = Vec::new();
        let builder = arrow_json::WriterBuilder::new().with_explicit_nulls(true);
        let mut writer = builder.build::<_, arrow_json::writer::LineDelimited>(&mut out);
        writer.write(&with_text_keys(&batch).unwrap()).unwrap();
        writer.finish().unwrap();
        drop(writer);
        String::from_utf8(out).unwrap()
    }

    fn numbers() -> MapArray {
        let mut maps = MapBuilder::new(None, Int32Builder::new(), StringBuilder::new());
        for entries in [&[(-1, Some("a")), (2, None)][..], &[], &[(3, Some("c"))]] {
            for (key, value) in entries {
                maps.keys().append_value(*key);
                maps.values().append_option(*value);
            }
            maps.append(true).unwrap();
        }
        maps.append(false).unwrap();
        maps.finish()
    }

    #[test]
    fn keys_of_any_type_are_text() {
        let expected = ["{\"-1\":\"a\",\"2\":null}", "{}", "{\"3\":\"c\"}", "null"];
        let of = |maps: &[&str]| maps.iter().map(|map| format!("{{\"m\":{map}}}\n")).collect::<String>();
        assert_eq!(lines(Arc::new(numbers())), of(&expected));
        assert_eq!(lines(Arc::new(numbers().slice(1, 2))), of(&expected[1..3]));

        let mut times = MapBuilder::new(
            None,
            TimestampMillisecondBuilder::new().with_timezone("UTC"),
            StringBuilder::new(),
        );
        times.keys().append_value(1_500);
        times.values().append_value("x");
        times.append(true).unwrap();
        assert_eq!(lines(Arc::new(times.finish())), of(&["{\"1970-01-01T00:00:01.500Z\":\"x\"}"]));
    }

    #[test]
    fn maps_inside_of_others_are_found() {
        let item = Arc::new(Field::new("item", numbers().data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([2, 0, 2]);
        let nulls = NullBuffer::from(vec![true, false, true]);
        let list: ArrayRef =
            Arc::new(ListArray::new(Arc::clone(&item), offsets, Arc::new(numbers()), Some(nulls)));
        let expected = "{\"m\":[{\"-1\":\"a\",\"2\":null},{}]}\n{\"m\":null}\n{\"m\":[{\"3\":\"c\"},null]}\n";
        assert_eq!(lines(list), expected);
        let vector: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, Arc::new(numbers()), None));
        let held = Fields::from(vec![Field::new("v", vector.data_type().clone(), true)]);
        let expected =
            "{\"m\":{\"v\":[{\"-1\":\"a\",\"2\":null},{}]}}\n{\"m\":{\"v\":[{\"3\":\"c\"},null]}}\n";
        assert_eq!(lines(Arc::new(StructArray::new(held, vec![vector], None))), expected);
    }

    #[test]
    fn keys_that_are_uuids_have_the_form_of_cql() {
        let bytes = Uuid::from_u128(0x1234).into_bytes();
        let keys: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter([bytes].into_iter()).unwrap());
        let values: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let fields = Fields::from(vec![
            Field::new("key", keys.data_type().clone(), false),
            Field::new("value", DataType::Utf8, true),
        ]);
        let entries = StructArray::new(fields, vec![keys, values], None);
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        let maps = MapArray::new(field, OffsetBuffer::from_lengths([1]), entries, None, false);
        assert_eq!(lines(Arc::new(maps)), "{\"m\":{\"00000000-0000-0000-0000-000000001234\":\"x\"}}\n");
    }
}
