//! Expressions whose names are resolved and whose types are known, and how they are evaluated.

use crate::bind::{BoundValue, UuidSource};
use crate::error::{CqlError, Result, bail};
use crate::functions::ScalarFunction;
use crate::result::{CellPart, ColumnPart, ColumnRef, field_of};
use bytes::Bytes;
use model::TableSchema;
use model::row::ResultRow;
use model::types::{CqlType, UserType, collection, normal};
use std::sync::Arc;

/// Something that has a value: of a statement (terms), or of each row (selectors).
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Constant(Option<Bytes>),
    /// The moment of the execution, as a timestamp.
    Now,
    Marker {
        index: usize,
        ty: CqlType,
    },
    /// Selectors only.
    Column(ColumnRef),
    /// Selectors only: of a masked column, for roles that see its values and for the others.
    Masked {
        clear: Box<Expr>,
        masked: Box<Expr>,
    },
    /// Selectors only: elements of a multi-cell column.
    Part(Box<ColumnPart>),
    /// Selectors only: timestamps and TTLs of a column's cells.
    CellInfo(Box<crate::result::CellInfo>),
    /// Selectors only: the result of the aggregate with that number.
    Aggregate(usize),
    Call {
        function: Arc<ScalarFunction>,
        arguments: Vec<Expr>,
    },
    List(Vec<Expr>),
    Set {
        element: Arc<CqlType>,
        items: Vec<Expr>,
    },
    Map {
        key: Arc<CqlType>,
        entries: Vec<(Expr, Expr)>,
    },
    Vector {
        element: Arc<CqlType>,
        items: Vec<Expr>,
    },
    Tuple(Vec<Expr>),
    /// Fields in order, null where none is given.
    UserType {
        definition: Arc<UserType>,
        multi_cell: bool,
        fields: Vec<Expr>,
    },
    /// `value.field`: the index of the field.
    Field {
        of: Box<Expr>,
        index: usize,
    },
    /// `value[key]` or `value[from..to]` of a set or a map.
    Elements {
        of: Box<Expr>,
        is_map: bool,
        /// Whether the whole is frozen: a part of it without elements is empty, of another one it is null.
        is_frozen: bool,
        part: CellPart,
    },
}

/// What an expression is evaluated against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) values: &'a [BoundValue],
    pub(crate) now_micros: i64,
    /// `None` where no expression is evaluated.
    pub(crate) uuids: Option<&'a dyn UuidSource>,
    /// For selectors.
    pub(crate) table: Option<&'a TableSchema>,
    /// For selectors.
    pub(crate) row: Option<&'a ResultRow<'a>>,
    /// For selectors over aggregates: their results.
    pub(crate) aggregates: &'a [Option<Bytes>],
    /// For selectors: whether masked columns are shown as they are.
    pub(crate) unmasks: bool,
}

impl Scope<'_> {
    /// Whether what is evaluated stands in a SELECT clause.
    fn is_selection(&self) -> bool {
        self.table.is_some()
    }
}

impl Expr {
    /// A constant null.
    pub(crate) const NULL: Expr = Expr::Constant(None);

    /// Whether the expression is a null that was written out.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Expr::Constant(None))
    }

    /// Whether the value is known without an execution.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Expr::Constant(_) | Expr::Now => true,
            Expr::List(items)
            | Expr::Set { items, .. }
            | Expr::Vector { items, .. }
            | Expr::Tuple(items)
            | Expr::UserType { fields: items, .. } => items.iter().all(Expr::is_terminal),
            Expr::Map { entries, .. } => entries.iter().all(|(k, v)| k.is_terminal() && v.is_terminal()),
            _ => false,
        }
    }

    /// Whether this is a marker for which there is no value.
    pub(crate) fn is_unset(&self, scope: &Scope<'_>) -> bool {
        matches!(self, Expr::Marker { index, .. } if matches!(scope.values.get(*index), Some(BoundValue::Unset)))
    }

    /// The value.
    pub(crate) fn eval(&self, scope: &Scope<'_>) -> Result<BoundValue> {
        Ok(match self {
            Expr::Marker { index, ty } => match scope.values.get(*index) {
                Some(BoundValue::Bytes(bytes)) => BoundValue::Bytes(normal::normalize(ty, bytes)),
                // A value that is selected has no bytes then, as in Cassandra.
                Some(BoundValue::Unset) if scope.is_selection() => BoundValue::Bytes(Bytes::new()),
                Some(other) => other.clone(),
                None => bail!("Invalid amount of bind variables"),
            },
            other => match other.eval_or_null(scope)? {
                Some(bytes) => BoundValue::Bytes(bytes),
                None => BoundValue::Null,
            },
        })
    }

    /// The value where an unset one has no meaning but null.
    pub(crate) fn eval_or_null(&self, scope: &Scope<'_>) -> Result<Option<Bytes>> {
        Ok(match self {
            Expr::Constant(value) => value.clone(),
            Expr::Now => Some(Bytes::copy_from_slice(&scope.now_micros.div_euclid(1000).to_be_bytes())),
            Expr::Marker { .. } => match self.eval(scope)? {
                BoundValue::Bytes(bytes) => Some(bytes),
                BoundValue::Null | BoundValue::Unset => None,
            },
            Expr::Column(column) => match (scope.table, scope.row) {
                (Some(table), Some(row)) => column.value(table, row),
                _ => None,
            },
            Expr::Masked { clear, masked } => {
                let seen = if scope.unmasks { clear } else { masked };
                seen.eval_or_null(scope)?
            }
            Expr::Part(part) => match scope.row {
                Some(row) => part.value(row, scope)?,
                None => None,
            },
            Expr::CellInfo(info) => match scope.row {
                Some(row) => info.value(row, scope)?,
                None => None,
            },
            Expr::Aggregate(index) => scope.aggregates.get(*index).cloned().flatten(),
            Expr::Call { function, arguments } => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    match argument.eval(scope)? {
                        BoundValue::Bytes(bytes) => values.push(Some(bytes)),
                        BoundValue::Null => values.push(None),
                        BoundValue::Unset => bail!("{}", function.unset_argument()),
                    }
                }
                function.call(&values, scope)?
            }
            Expr::List(items) if scope.is_selection() => {
                let items: Vec<_> =
                    items.iter().map(|item| item.eval_or_null(scope)).collect::<Result<_>>()?;
                Some(collection::encode_nullable_list(items))
            }
            Expr::List(items) => Some(collection::encode_list(elements(items, scope)?)),
            Expr::Set { element, items } => Some(collection::encode_set(element, elements(items, scope)?)),
            Expr::Vector { element, items } => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    match item.eval(scope)? {
                        BoundValue::Bytes(bytes) if !bytes.is_empty() || is_empty_a_value(element) => {
                            values.push(bytes);
                        }
                        _ => bail!("null is not supported inside vectors"),
                    }
                }
                Some(collection::encode_vector(element, values))
            }
            Expr::Map { key, entries } => {
                let mut pairs = Vec::with_capacity(entries.len());
                for (k, v) in entries {
                    let value = match scope.is_selection() {
                        true => v.eval_or_null(scope)?,
                        false => Some(element(v, scope)?),
                    };
                    pairs.push((element(k, scope)?, value));
                }
                Some(collection::encode_nullable_map(key, pairs))
            }
            Expr::Tuple(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    match item.eval(scope)? {
                        BoundValue::Bytes(bytes) => values.push(Some(bytes)),
                        BoundValue::Null => values.push(None),
                        BoundValue::Unset => {
                            bail!("Invalid unset value for tuple field number {}", values.len())
                        }
                    }
                }
                Some(collection::encode_tuple(values))
            }
            Expr::UserType { definition, multi_cell, fields } => {
                let mut values = Vec::with_capacity(fields.len());
                for (field, (name, _)) in fields.iter().zip(&definition.fields) {
                    match field.eval(scope)? {
                        BoundValue::Bytes(bytes) => values.push(Some(bytes)),
                        BoundValue::Null => values.push(None),
                        // Cassandra writes a cell without bytes.
                        BoundValue::Unset if *multi_cell => values.push(Some(Bytes::new())),
                        BoundValue::Unset => bail!(
                            "Invalid unset value for field '{name}' of user defined type {}",
                            definition.name
                        ),
                    }
                }
                Some(collection::encode_tuple(values))
            }
            Expr::Field { of, index } => of.eval_or_null(scope)?.and_then(|value| field_of(&value, *index)),
            Expr::Elements { of, is_map, is_frozen, part } => match of.eval_or_null(scope)? {
                Some(value) => {
                    let is_there =
                        |found: &Bytes| *is_frozen || part.is_one() || collection::count(found) > 0;
                    part.of_value(&value, *is_map, scope)?.filter(is_there)
                }
                None => None,
            },
        })
    }
}

/// Whether a value of no bytes is one where Cassandra reads it, and not a null: inside of vectors and
/// of `IN ?`.
pub(crate) fn is_empty_a_value(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::Ascii
            | CqlType::Text
            | CqlType::Blob
            | CqlType::Tuple(_)
            | CqlType::Udt { .. }
            | CqlType::Composite(_)
            | CqlType::Custom(_)
            | CqlType::DynamicComposite(_)
    )
}

fn element(item: &Expr, scope: &Scope<'_>) -> Result<Bytes> {
    match item.eval(scope)? {
        BoundValue::Bytes(bytes) => Ok(bytes),
        BoundValue::Null => Err(CqlError::invalid("null is not supported inside collections")),
        BoundValue::Unset => Err(CqlError::invalid("unset value is not supported inside collections")),
    }
}

fn elements(items: &[Expr], scope: &Scope<'_>) -> Result<Vec<Bytes>> {
    items.iter().map(|item| element(item, scope)).collect()
}
