//! Types as written to types of the schema.

use crate::ast::RawType;
pub(crate) use crate::ddl::types::native;
use crate::ddl::types::{custom_in, user_type, vector_dimension};
use crate::error::Result;
use model::Schema;
use model::types::CqlType;
use std::sync::Arc;

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
            let dimension = vector_dimension(*dimensions)?;
            CqlType::Vector { element: Arc::new(inner(element)?), dimension }
        }
        RawType::Frozen(of) => hint(of, schema, keyspace)?.frozen(),
        RawType::User(name) => {
            let definition = user_type(name, keyspace, |name| schema.user_type(keyspace, name))?;
            CqlType::Udt { definition, multi_cell: true }
        }
        RawType::Custom(class) => custom_in(class, schema, keyspace)?,
    })
}

/// The type in the words of Cassandra's messages: frozen collections say so, user types are bare names.
pub(crate) fn display(ty: &CqlType) -> String {
    match ty {
        CqlType::Udt { definition, multi_cell: false } => format!("frozen<{}>", definition.name),
        CqlType::Udt { definition, .. } => definition.name.clone(),
        other => other.to_string(),
    }
}
