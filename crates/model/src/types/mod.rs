//! CQL types: what a value is, how values compare, how types are named.
//!
//! Values are kept in the encoding of the native protocol v3 and later (docs/formats/sstable-big.md). One
//! file for each question:
//! - `compare`: the order of values;
//! - `bounds`: how large a type may be;
//! - `names`, `class_parser`, `cql_names`: both spellings of a type, CQL text and Cassandra's class strings;
//! - `collection`: values inside values, read and built;
//! - `composite`: values made of components;
//! - `validate`: the check of bytes from outside;
//! - `normal`: what is stored of a value that was bound;
//! - `text`, `json`, `parse`: values as text and back, with `numbers`, `duration` and `calendar` for the
//!   details.

mod bounds;
pub mod calendar;
mod class_parser;
pub mod collection;
pub(crate) mod compare;
pub(crate) mod composite;
mod cql_names;
mod duration;
pub mod json;
mod names;
pub mod normal;
pub mod numbers;
mod parse;
#[cfg(test)]
pub(crate) mod samples;
mod text;
mod validate;

pub use bounds::{NAME_BYTES_MAX, TypeBounds, TypeSize, TypeTooLarge};
pub use class_parser::{ParsedType, TEXT_AFTER};
pub use composite::{Aliases, Component, OldClass};
pub use duration::Duration;
pub(crate) use names::MARSHAL;
pub use names::{QuotedName, TypeNameError, is_quoted_in_types};
pub use validate::InvalidValue;

use std::sync::Arc;

/// A user-defined type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserType {
    /// The keyspace that the type belongs to.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// Fields in order: name and type (frozen-ness of nested collections included).
    pub fields: Vec<(String, CqlType)>,
}

/// A CQL type.
///
/// `multi_cell` of collections and user types says whether each element is a cell of its own; it is the
/// opposite of `frozen<>`. Nested inside another type it is false, but for the element of a vector, where it
/// means nothing but how the type's name is spelled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum CqlType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    /// Cassandra's EmptyType, whose only value has no bytes; found in old system tables.
    Empty,
    Float,
    Inet,
    Int,
    /// Cassandra's LexicalUUIDType, from tables of Thrift: a uuid whose halves are ordered as numbers with
    /// signs.
    LexicalUuid,
    SmallInt,
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    Varint,
    List {
        element: Arc<CqlType>,
        multi_cell: bool,
    },
    Set {
        element: Arc<CqlType>,
        multi_cell: bool,
    },
    Map {
        key: Arc<CqlType>,
        value: Arc<CqlType>,
        multi_cell: bool,
    },
    Tuple(Arc<[CqlType]>),
    Udt {
        definition: Arc<UserType>,
        multi_cell: bool,
    },
    Vector {
        element: Arc<CqlType>,
        dimension: u32,
    },
    /// Components of these types, in order.
    Composite(Arc<[Component]>),
    /// Components that say their types themselves.
    DynamicComposite(Arc<Aliases>),
    /// A class that is not one of Cassandra's own; compared and shown as a blob.
    Custom(Arc<str>),
}

impl CqlType {
    /// A list; `multi_cell` unless frozen.
    pub fn list(element: CqlType, multi_cell: bool) -> CqlType {
        CqlType::List { element: Arc::new(element), multi_cell }
    }

    /// A set; `multi_cell` unless frozen.
    pub fn set(element: CqlType, multi_cell: bool) -> CqlType {
        CqlType::Set { element: Arc::new(element), multi_cell }
    }

    /// A map; `multi_cell` unless frozen.
    pub fn map(key: CqlType, value: CqlType, multi_cell: bool) -> CqlType {
        CqlType::Map { key: Arc::new(key), value: Arc::new(value), multi_cell }
    }

    /// Whether each element of the value is a cell of its own ("complex" in the SSTable format).
    #[inline]
    pub fn is_multi_cell(&self) -> bool {
        match self {
            CqlType::List { multi_cell, .. }
            | CqlType::Set { multi_cell, .. }
            | CqlType::Map { multi_cell, .. }
            | CqlType::Udt { multi_cell, .. } => *multi_cell,
            _ => false,
        }
    }

    /// The same type with its outermost level frozen (inner levels always are).
    pub fn frozen(&self) -> CqlType {
        let mut out = self.clone();
        match &mut out {
            CqlType::List { multi_cell, .. }
            | CqlType::Set { multi_cell, .. }
            | CqlType::Map { multi_cell, .. }
            | CqlType::Udt { multi_cell, .. } => *multi_cell = false,
            _ => {}
        }
        out
    }

    /// Whether the type is a list, set or map.
    pub fn is_collection(&self) -> bool {
        matches!(self, CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. })
    }

    /// The types directly inside of this one.
    pub fn inner(&self) -> Vec<&CqlType> {
        match self {
            CqlType::List { element, .. }
            | CqlType::Set { element, .. }
            | CqlType::Vector { element, .. } => {
                vec![element]
            }
            CqlType::Map { key, value, .. } => vec![key, value],
            CqlType::Tuple(types) => types.iter().collect(),
            CqlType::Udt { definition, .. } => definition.fields.iter().map(|(_, ty)| ty).collect(),
            CqlType::Composite(components) => components.iter().map(|component| &component.ty).collect(),
            CqlType::DynamicComposite(aliases) => {
                aliases.iter().map(|(_, component)| &component.ty).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The same type with others directly inside of it.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn map_inner<E>(&self, change: &dyn Fn(&CqlType) -> Result<CqlType, E>) -> Result<CqlType, E> {
        let component = |component: &Component| -> Result<Component, E> {
            Ok(Component { ty: change(&component.ty)?, ..component.clone() })
        };
        let inner = |ty: &CqlType| change(ty).map(Arc::new);
        Ok(match self {
            CqlType::List { element, multi_cell } => {
                CqlType::List { element: inner(element)?, multi_cell: *multi_cell }
            }
            CqlType::Set { element, multi_cell } => {
                CqlType::Set { element: inner(element)?, multi_cell: *multi_cell }
            }
            CqlType::Map { key, value, multi_cell } => {
                CqlType::Map { key: inner(key)?, value: inner(value)?, multi_cell: *multi_cell }
            }
            CqlType::Vector { element, dimension } => {
                CqlType::Vector { element: inner(element)?, dimension: *dimension }
            }
            CqlType::Tuple(types) => CqlType::Tuple(types.iter().map(change).collect::<Result<_, E>>()?),
            CqlType::Udt { definition, multi_cell } => {
                let UserType { keyspace, name, fields } = definition.as_ref();
                let fields = fields.iter().map(|(name, ty)| Ok((name.clone(), change(ty)?)));
                let definition = UserType {
                    keyspace: keyspace.clone(),
                    name: name.clone(),
                    fields: fields.collect::<Result<_, E>>()?,
                };
                CqlType::Udt { definition: Arc::new(definition), multi_cell: *multi_cell }
            }
            CqlType::Composite(components) => {
                CqlType::Composite(components.iter().map(component).collect::<Result<_, E>>()?)
            }
            CqlType::DynamicComposite(aliases) => {
                let aliases = aliases.iter().map(|(alias, ty)| Ok((*alias, component(ty)?)));
                let aliases = aliases.collect::<Result<Vec<_>, E>>()?;
                CqlType::DynamicComposite(Arc::new(Aliases::new(aliases)))
            }
            simple => simple.clone(),
        })
    }

    /// Whether this type or one inside of it, at any depth, is such a one.
    pub fn any(&self, is_such: &dyn Fn(&CqlType) -> bool) -> bool {
        is_such(self) || self.inner().into_iter().any(|ty| ty.any(is_such))
    }

    /// Whether the type is `counter`.
    pub fn is_counter(&self) -> bool {
        matches!(self, CqlType::Counter)
    }

    /// Length in bytes of every value as SSTables store it, `None` for types written with a length
    /// (docs/formats/sstable-big.md; `tinyint`, `smallint`, `date` and `time` have none though they look
    /// fixed).
    #[inline]
    pub fn fixed_len(&self) -> Option<usize> {
        match self {
            CqlType::Boolean => Some(1),
            CqlType::Int | CqlType::Float => Some(4),
            CqlType::BigInt | CqlType::Double | CqlType::Timestamp => Some(8),
            CqlType::LexicalUuid | CqlType::TimeUuid | CqlType::Uuid => Some(16),
            CqlType::Empty => Some(0),
            CqlType::Vector { element, dimension } => {
                element.fixed_len().and_then(|len| len.checked_mul(*dimension as usize))
            }
            _ => None,
        }
    }

    /// The type that orders the paths of a multi-cell column's cells. It is `timeuuid` for a list, the
    /// element of a set, the key of a map, `smallint` (the field index) for a user type. `None` for
    /// single-cell types.
    pub fn path_type(&self) -> Option<CqlType> {
        match self {
            CqlType::List { multi_cell: true, .. } => Some(CqlType::TimeUuid),
            CqlType::Set { element, multi_cell: true } => Some(element.as_ref().clone()),
            CqlType::Map { key, multi_cell: true, .. } => Some(key.as_ref().clone()),
            CqlType::Udt { multi_cell: true, .. } => Some(CqlType::SmallInt),
            _ => None,
        }
    }

    /// Compares the paths of two cells of a multi-cell column of this type.
    #[inline]
    pub fn compare_paths(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        match self {
            CqlType::List { .. } => CqlType::TimeUuid.compare(a, b),
            CqlType::Set { element, .. } => element.compare(a, b),
            CqlType::Map { key, .. } => key.compare(a, b),
            _ => a.cmp(b),
        }
    }
}

#[cfg(test)]
mod tests;
