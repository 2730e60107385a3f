//! Types as statements write them to types of the schema, with every restriction on what may stand in what.
//!
//! `frozen<>` reaches down: what stands inside a frozen type or a tuple is frozen whether or not it says so.
//! A vector stops it: its element stays as it is written (Cassandra's vectors keep that in their name, though
//! the values are the same). Inside a collection that is not frozen, collections and user types must say
//! `frozen<>`.

use crate::ast::{Identifier, NativeType, QualifiedName, RawType};
use crate::class;
use crate::error::{CqlError, Result, bail};
use model::types::{Component, CqlType, UserType};
use model::{KeyspaceSchema, Schema};
use std::convert::Infallible;
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

/// The number of elements of a vector type.
pub(crate) fn vector_dimension(dimensions: i32) -> Result<u32> {
    match u32::try_from(dimensions) {
        Ok(n) if n > 0 => Ok(n),
        _ => bail!("vectors may only have positive dimensions; given {dimensions}"),
    }
}

/// The user type of that name, as a statement on `keyspace` may use it; `find` looks in that keyspace.
pub(crate) fn user_type<'s>(
    name: &QualifiedName,
    keyspace: &str,
    find: impl FnOnce(&str) -> Option<&'s Arc<UserType>>,
) -> Result<Arc<UserType>> {
    if let Some(given) = &name.keyspace
        && given.as_str() != keyspace
    {
        bail!(
            "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {given}; user types can only \
             be used in the keyspace they are defined in"
        );
    }
    match find(name.name.as_str()) {
        Some(definition) => Ok(Arc::clone(definition)),
        None => bail!("Unknown type {keyspace}.{}", name.name),
    }
}

/// Whether the type is written `counter`.
pub(super) fn is_counter(raw: &RawType) -> bool {
    matches!(raw, RawType::Native(NativeType::Counter))
}

/// The type of a column or field of `keyspace`.
pub(super) fn resolve(raw: &RawType, keyspace: &KeyspaceSchema) -> Result<CqlType> {
    Resolver { keyspace }.resolve(raw, false)
}

struct Resolver<'a> {
    keyspace: &'a KeyspaceSchema,
}

impl Resolver<'_> {
    fn resolve(&self, raw: &RawType, frozen: bool) -> Result<CqlType> {
        Ok(match raw {
            RawType::Native(ty) => native(*ty),
            RawType::Frozen(inner) => self.resolve(inner, true)?,
            RawType::List(element) => CqlType::list(self.element(raw, element, frozen)?, !frozen),
            RawType::Set(element) => {
                if matches!(**element, RawType::Native(NativeType::Duration)) {
                    bail!("Durations are not allowed inside sets: {}", shown(raw, frozen));
                }
                CqlType::set(self.element(raw, element, frozen)?, !frozen)
            }
            RawType::Map(key, value) => {
                check_element(raw, value, frozen)?;
                if matches!(**key, RawType::Native(NativeType::Duration)) {
                    bail!("Durations are not allowed as map keys: {}", shown(raw, frozen));
                }
                check_element(raw, key, frozen)?;
                let value = self.inner(raw, value, frozen)?;
                CqlType::map(self.inner(raw, key, frozen)?, value, !frozen)
            }
            RawType::Tuple(types) => {
                if types.iter().any(is_counter) {
                    bail!("Counters are not allowed inside tuples");
                }
                CqlType::Tuple(types.iter().map(|ty| self.resolve(ty, true)).collect::<Result<_>>()?)
            }
            RawType::Vector { element, dimensions } => {
                let element = Arc::new(self.resolve(element, false)?);
                CqlType::Vector { element, dimension: vector_dimension(*dimensions)? }
            }
            RawType::User(name) => {
                let definition = user_type(name, &self.keyspace.name, |name| self.keyspace.types.get(name))?;
                CqlType::Udt { definition, multi_cell: !frozen }
            }
            RawType::Custom(class) => {
                let ty = own_types(&class_type(class)?, self.keyspace)?;
                if frozen { ty.frozen() } else { ty }
            }
        })
    }

    fn element(&self, collection: &RawType, element: &RawType, frozen: bool) -> Result<CqlType> {
        check_element(collection, element, frozen)?;
        self.inner(collection, element, frozen)
    }

    /// An element that may be one. A class inside a collection is frozen, as it is when it is read back.
    fn inner(&self, collection: &RawType, element: &RawType, frozen: bool) -> Result<CqlType> {
        match self.resolve(element, frozen)? {
            CqlType::Counter => {
                bail!("Counters are not allowed inside collections: {}", shown(collection, frozen))
            }
            ty if matches!(element, RawType::Custom(_)) => Ok(ty.frozen()),
            ty => Ok(ty),
        }
    }
}

/// What may not be an element of a collection.
fn check_element(collection: &RawType, element: &RawType, frozen: bool) -> Result<()> {
    match element {
        RawType::Native(NativeType::Counter) => {
            bail!("Counters are not allowed inside collections: {}", shown(collection, frozen))
        }
        RawType::List(_) | RawType::Set(_) | RawType::Map(..) if !frozen => {
            bail!("Non-frozen collections are not allowed inside collections: {collection}")
        }
        RawType::User(_) if !frozen => {
            bail!("Non-frozen UDTs are not allowed inside collections: {collection}")
        }
        _ => Ok(()),
    }
}

fn shown(raw: &RawType, frozen: bool) -> String {
    if frozen { format!("frozen<{raw}>") } else { raw.to_string() }
}

/// A type written as a class, in a statement that is none on a keyspace.
pub(crate) fn custom_in(class: &str, schema: &Schema, keyspace: &str) -> Result<CqlType> {
    let ty = class_type(class)?;
    match schema.keyspace(keyspace) {
        Some(keyspace) => own_types(&ty, keyspace),
        None => Ok(ty),
    }
}

/// The parser has refused what is none.
fn class_type(class: &str) -> Result<CqlType> {
    class::parse(class).map_err(CqlError::Syntax)
}

/// Whether a type is written as the class of a descending order. A clustering column of it has that order,
/// whatever the statement says.
pub(super) fn is_reversed(raw: &RawType) -> bool {
    let RawType::Custom(class) = raw else { return false };
    CqlType::parse_class(class).is_ok_and(|parsed| parsed.reversed)
}

/// The type of a class with the keyspace's user types in the place of those that the class spells out. They
/// have to be the keyspace's own, as it has them: only their names are stored. (A Cassandra takes all of
/// them, and does not start again.)
fn own_types(ty: &CqlType, keyspace: &KeyspaceSchema) -> Result<CqlType> {
    Ok(match ty {
        CqlType::Udt { definition: spelled, multi_cell } => {
            let quoted = |name: &str| Identifier::quoted(name);
            let name =
                QualifiedName { keyspace: Some(quoted(&spelled.keyspace)), name: quoted(&spelled.name) };
            let definition = user_type(&name, &keyspace.name, |name| keyspace.types.get(name))?;
            if !is_spelled(&definition, spelled) {
                bail!("User type {}.{} is not what the class says it is", keyspace.name, spelled.name);
            }
            CqlType::Udt { definition, multi_cell: *multi_cell }
        }
        other => return other.map_inner(&|ty| own_types(ty, keyspace)),
    })
}

/// Whether a class spells out the fields of the user type. What is frozen in it is not told by its fields.
fn is_spelled(definition: &UserType, spelled: &UserType) -> bool {
    let fields = || definition.fields.iter().zip(&spelled.fields);
    definition.keyspace == spelled.keyspace
        && definition.name == spelled.name
        && definition.fields.len() == spelled.fields.len()
        && fields().all(|((a, _), (b, _))| a == b)
        && fields().all(|((_, a), (_, b))| is_same(a, b))
}

fn is_same(a: &CqlType, b: &CqlType) -> bool {
    match (a, b) {
        (CqlType::List { element: a, .. }, CqlType::List { element: b, .. })
        | (CqlType::Set { element: a, .. }, CqlType::Set { element: b, .. }) => is_same(a, b),
        (CqlType::Map { key: a, value: x, .. }, CqlType::Map { key: b, value: y, .. }) => {
            is_same(a, b) && is_same(x, y)
        }
        (
            CqlType::Vector { element: a, dimension: of_a },
            CqlType::Vector { element: b, dimension: of_b },
        ) => of_a == of_b && is_same(a, b),
        (CqlType::Tuple(a), CqlType::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_same(a, b))
        }
        (CqlType::Composite(a), CqlType::Composite(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_same_component(a, b))
        }
        (CqlType::DynamicComposite(a), CqlType::DynamicComposite(b)) => {
            a.iter().len() == b.iter().len()
                && a.iter().all(|(alias, a)| b.get(*alias).is_some_and(|b| is_same_component(a, b)))
        }
        (CqlType::Udt { definition: a, .. }, CqlType::Udt { definition: b, .. }) => is_spelled(a, b),
        (a, b) => a == b,
    }
}

fn is_same_component(a: &Component, b: &Component) -> bool {
    (a.reversed, a.old_class) == (b.reversed, b.old_class) && is_same(&a.ty, &b.ty)
}

/// The type in messages about user types: names of user types with their keyspace, unquoted.
pub(super) fn qualified(ty: &CqlType) -> String {
    let frozen = |multi_cell: bool, inner: String| {
        if multi_cell { inner } else { format!("frozen<{inner}>") }
    };
    match ty {
        CqlType::List { element, multi_cell } => frozen(*multi_cell, format!("list<{}>", qualified(element))),
        CqlType::Set { element, multi_cell } => frozen(*multi_cell, format!("set<{}>", qualified(element))),
        CqlType::Map { key, value, multi_cell } => {
            frozen(*multi_cell, format!("map<{}, {}>", qualified(key), qualified(value)))
        }
        CqlType::Tuple(types) => {
            let types: Vec<String> = types.iter().map(qualified).collect();
            format!("frozen<tuple<{}>>", types.join(", "))
        }
        CqlType::Udt { definition, multi_cell } => {
            frozen(*multi_cell, format!("{}.{}", definition.keyspace, definition.name))
        }
        CqlType::Vector { element, dimension } => format!("vector<{}, {dimension}>", qualified(element)),
        other => other.to_string(),
    }
}

/// Whether the type is, or has inside it, the user type of that name. All types of a table belong to its
/// keyspace.
pub(super) fn uses(ty: &CqlType, name: &str) -> bool {
    ty.any(&|ty| matches!(ty, CqlType::Udt { definition, .. } if definition.name == name))
}

/// The type with user types inside it changed by `change`, which sees innermost types first.
pub(super) fn map_user_types(ty: &CqlType, change: &dyn Fn(Arc<UserType>, bool) -> CqlType) -> CqlType {
    let Ok(ty) = ty.map_inner(&|ty| Ok::<_, Infallible>(map_user_types(ty, change)));
    match ty {
        CqlType::Udt { definition, multi_cell } => change(definition, multi_cell),
        other => other,
    }
}

/// The type with tuples in the place of user types, as the type of a dropped column is kept: the user type
/// may be dropped after the column.
pub(super) fn without_user_types(ty: &CqlType) -> CqlType {
    map_user_types(ty, &|definition, _| {
        CqlType::Tuple(definition.fields.iter().map(|(_, ty)| frozen_all(ty)).collect())
    })
}

/// The type with every level frozen, down to the elements of vectors.
fn frozen_all(ty: &CqlType) -> CqlType {
    match ty {
        CqlType::List { element, .. } => CqlType::list(frozen_all(element), false),
        CqlType::Set { element, .. } => CqlType::set(frozen_all(element), false),
        CqlType::Map { key, value, .. } => CqlType::map(frozen_all(key), frozen_all(value), false),
        other => other.frozen(),
    }
}
