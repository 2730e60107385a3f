//! Types as written to types of the schema.

use crate::ast::{NativeType, QualifiedName, RawType};
use crate::error::{Result, bail};
use model::Schema;
use model::types::{CqlType, UserType};
use std::sync::Arc;

/// The schema's type for a keyword.
pub fn native(native: NativeType) -> CqlType {
    match native {
        NativeType::Ascii => CqlType::Ascii,
        NativeType::Bigint => CqlType::BigInt,
        NativeType::Blob => CqlType::Blob,
        NativeType::Boolean => CqlType::Boolean,
        NativeType::Counter => CqlType::Counter,
        NativeType::Date => CqlType::Date,
        NativeType::Decimal => CqlType::Decimal,
        NativeType::Double => CqlType::Double,
        NativeType::Duration => CqlType::Duration,
        NativeType::Float => CqlType::Float,
        NativeType::Inet => CqlType::Inet,
        NativeType::Int => CqlType::Int,
        NativeType::Smallint => CqlType::SmallInt,
        NativeType::Text | NativeType::Varchar => CqlType::Text,
        NativeType::Time => CqlType::Time,
        NativeType::Timestamp => CqlType::Timestamp,
        NativeType::Timeuuid => CqlType::TimeUuid,
        NativeType::Tinyint => CqlType::TinyInt,
        NativeType::Uuid => CqlType::Uuid,
        NativeType::Varint => CqlType::Varint,
    }
}

/// The type of a type hint, `(list<int>) [1]`: everything in it counts as frozen except the outermost level, which
/// is kept as written.
pub(crate) fn hint(raw: &RawType, schema: &Schema, keyspace: &str) -> Result<CqlType> {
    let inner = |raw: &RawType| hint(raw, schema, keyspace).map(|ty| ty.frozen());
    Ok(match raw {
        RawType::Native(ty) => native(*ty),
        RawType::List(element) => CqlType::list(inner(element)?, true),
        RawType::Set(element) => CqlType::set(inner(element)?, true),
        RawType::Map(key, value) => CqlType::map(inner(key)?, inner(value)?, true),
        RawType::Tuple(types) => CqlType::Tuple(types.iter().map(inner).collect::<Result<_>>()?),
        RawType::Vector { element, dimensions } => {
            let Some(dimension) = u32::try_from(*dimensions).ok().filter(|n| *n > 0) else {
                bail!("vectors may only have positive dimensions; given {dimensions}");
            };
            CqlType::Vector { element: Arc::new(inner(element)?), dimension }
        }
        RawType::Frozen(of) => hint(of, schema, keyspace)?.frozen(),
        RawType::User(name) => {
            CqlType::Udt { definition: user_type(name, schema, keyspace)?, multi_cell: true }
        }
        RawType::Custom(class) => bail!("Custom type '{class}' is not supported here"),
    })
}

fn user_type(name: &QualifiedName, schema: &Schema, keyspace: &str) -> Result<Arc<UserType>> {
    if let Some(given) = &name.keyspace
        && given.as_str() != keyspace
    {
        bail!(
            "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {given}; user types can only \
             be used in the keyspace they are defined in"
        );
    }
    match schema.user_type(keyspace, name.name.as_str()) {
        Some(definition) => Ok(Arc::clone(definition)),
        None => bail!("Unknown type {keyspace}.{}", name.name),
    }
}

/// The type in the words of Cassandra's messages: frozen collections say so, user types are bare names.
pub(crate) fn display(ty: &CqlType) -> String {
    match ty {
        CqlType::Udt { definition, multi_cell: false } => format!("frozen<{}>", definition.name),
        CqlType::Udt { definition, .. } => definition.name.clone(),
        other => other.to_string(),
    }
}
