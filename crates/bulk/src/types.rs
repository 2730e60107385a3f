//! CQL types as Arrow types (docs/formats/arrow.md).
//!
//! | CQL | Arrow |
//! |---|---|
//! | ascii, text | Utf8 |
//! | bigint, counter | Int64 |
//! | blob, custom classes, composites | Binary |
//! | boolean | Boolean |
//! | date | Date32 |
//! | decimal, varint, inet | Utf8, the text that CQL shows |
//! | double, float | Float64, Float32 |
//! | duration | Struct of months, days: Int32 and nanoseconds: Int64 |
//! | int, smallint, tinyint | Int32, Int16, Int8 |
//! | time | Time64, nanoseconds |
//! | timestamp | Timestamp, milliseconds, UTC |
//! | uuid, timeuuid | FixedSizeBinary(16) with extension `arrow.uuid` |
//! | list, set | List |
//! | map | Map |
//! | tuple | Struct of `f0`, `f1`, ... |
//! | user type | Struct |
//! | vector | FixedSizeList |

use crate::request::Form;
use arrow_schema::extension::Uuid;
use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use model::CqlType;
use std::collections::HashMap;
use std::sync::Arc;

/// Key of a field's metadata that holds the CQL type.
pub const CQL_TYPE: &str = "ilion.cql_type";

/// Names of the fields of a duration.
pub(crate) const DURATION_FIELDS: [&str; 3] = ["months", "days", "nanoseconds"];

/// Whether values of a type are text in a form: what its files have no type for.
pub(crate) fn is_shown_as_text(ty: &CqlType, form: Form) -> bool {
    match ty {
        CqlType::Decimal | CqlType::Varint | CqlType::Inet => true,
        CqlType::LexicalUuid | CqlType::TimeUuid | CqlType::Uuid => form != Form::Arrow,
        CqlType::Blob | CqlType::Custom(_) | CqlType::Duration => form != Form::Arrow,
        CqlType::Composite(_) | CqlType::DynamicComposite(_) | CqlType::Empty => form != Form::Arrow,
        CqlType::List { .. }
        | CqlType::Set { .. }
        | CqlType::Map { .. }
        | CqlType::Tuple(_)
        | CqlType::Udt { .. }
        | CqlType::Vector { .. } => form == Form::Flat,
        _ => false,
    }
}

/// The Arrow type of a CQL type, in a form.
pub fn type_of(ty: &CqlType, form: Form) -> DataType {
    if is_shown_as_text(ty, form) {
        return DataType::Utf8;
    }
    match ty {
        CqlType::Ascii | CqlType::Text | CqlType::Decimal | CqlType::Varint | CqlType::Inet => DataType::Utf8,
        CqlType::BigInt | CqlType::Counter => DataType::Int64,
        CqlType::Blob
        | CqlType::Custom(_)
        | CqlType::Composite(_)
        | CqlType::DynamicComposite(_)
        | CqlType::Empty => DataType::Binary,
        CqlType::Boolean => DataType::Boolean,
        CqlType::Date => DataType::Date32,
        CqlType::Double => DataType::Float64,
        CqlType::Float => DataType::Float32,
        CqlType::Int => DataType::Int32,
        CqlType::SmallInt => DataType::Int16,
        CqlType::TinyInt => DataType::Int8,
        CqlType::Time => DataType::Time64(TimeUnit::Nanosecond),
        CqlType::Timestamp => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        CqlType::LexicalUuid | CqlType::TimeUuid | CqlType::Uuid => DataType::FixedSizeBinary(16),
        CqlType::Duration => {
            let [months, days, nanoseconds] = DURATION_FIELDS;
            let field = |name, ty| Field::new(name, ty, true);
            DataType::Struct(Fields::from(vec![
                field(months, DataType::Int32),
                field(days, DataType::Int32),
                field(nanoseconds, DataType::Int64),
            ]))
        }
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            DataType::List(field_of("item", element, form))
        }
        CqlType::Map { key, value, .. } => {
            let key = field_of("key", key, form).as_ref().clone().with_nullable(false);
            let entries = DataType::Struct(vec![Arc::new(key), field_of("value", value, form)].into());
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
        CqlType::Tuple(types) => {
            let fields = types.iter().enumerate();
            DataType::Struct(fields.map(|(i, ty)| field_of(&format!("f{i}"), ty, form)).collect())
        }
        CqlType::Udt { definition, .. } => {
            let fields = definition.fields.iter();
            DataType::Struct(fields.map(|(name, ty)| field_of(name, ty, form)).collect())
        }
        CqlType::Vector { element, dimension } => {
            let dimension = i32::try_from(*dimension).unwrap_or(i32::MAX);
            DataType::FixedSizeList(field_of("item", element, form), dimension)
        }
    }
}

/// A field for values of a CQL type. It may always be null: of an empty value, too.
pub fn field_of(name: &str, ty: &CqlType, form: Form) -> FieldRef {
    let field = Field::new(name, type_of(ty, form), true);
    if let CqlType::Udt { definition, .. } = ty
        && definition.keyspace.is_empty()
    {
        // A struct of ours, which no table has.
        return Arc::new(field);
    }
    let metadata = HashMap::from([(CQL_TYPE.to_owned(), ty.to_string())]);
    let field = field.with_metadata(metadata);
    match (ty, form) {
        (CqlType::LexicalUuid | CqlType::TimeUuid | CqlType::Uuid, Form::Arrow) => {
            Arc::new(field.with_extension_type(Uuid))
        }
        _ => Arc::new(field),
    }
}
