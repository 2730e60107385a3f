//! Types as written to types of the schema.

use crate::ast::RawType;
pub(crate) use crate::ddl::types::native;
use crate::ddl::types::{custom_in, user_type, vector_dimension};
use crate::error::{Result, bail};
use model::Schema;
use model::types::CqlType;
use std::sync::Arc;

/// The type of a type hint, `(list<int>) [1]`: everything in it counts as frozen except the outermost level,
/// which is kept as written.
pub(crate) fn hint(raw: &RawType, schema: &Schema, keyspace: &str) -> Result<CqlType> {
    let inner = |raw: &RawType| hint(raw, schema, keyspace).map(|ty| ty.frozen());
    let item = |of: &RawType| match (of, hint(of, schema, keyspace)?) {
        (RawType::User(_), _) => bail!("Non-frozen UDTs are not allowed inside collections: {raw}"),
        (_, ty) => Ok(ty.frozen()),
    };
    Ok(match raw {
        RawType::Native(ty) => native(*ty),
        RawType::List(element) => CqlType::list(item(element)?, true),
        RawType::Set(element) => CqlType::set(item(element)?, true),
        RawType::Map(key, value) => CqlType::map(item(key)?, item(value)?, true),
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

/// The type of a type hint, as the name of a result's column shows it. User types have their keyspace. Tuples
/// are never shown as frozen; what is inside of them always is.
pub(crate) fn hint_name(raw: &RawType, keyspace: &str) -> String {
    let name = |raw: &RawType| hint_name(raw, keyspace);
    match raw {
        RawType::List(element) => format!("list<{}>", name(element)),
        RawType::Set(element) => format!("set<{}>", name(element)),
        RawType::Map(key, value) => format!("map<{}, {}>", name(key), name(value)),
        RawType::Tuple(types) => {
            let types: Vec<String> = types.iter().map(|ty| frozen_name(ty, keyspace)).collect();
            format!("tuple<{}>", types.join(", "))
        }
        RawType::Vector { element, dimensions } => format!("vector<{}, {dimensions}>", name(element)),
        RawType::Frozen(of) => frozen_name(of, keyspace),
        RawType::User(user) if user.keyspace.is_none() => format!("{keyspace}.{user}"),
        RawType::Native(_) | RawType::User(_) | RawType::Custom(_) => raw.to_string(),
    }
}

fn frozen_name(raw: &RawType, keyspace: &str) -> String {
    let name = hint_name(raw, keyspace);
    match raw {
        RawType::List(_) | RawType::Set(_) | RawType::Map(..) | RawType::User(_) => format!("frozen<{name}>"),
        _ => name,
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
