//! What INSERT, UPDATE and DELETE do to columns.

use super::context::{Analyzer, BindInput, Receiver};
use super::expr::Expr;
use super::raw::Raw;
use crate::ast::{Assignment, Deletion, DeletionTarget, Identifier, Term, UpdateOperation};
use crate::bind::BoundValue;
use crate::error::{Result, bail};
use crate::plan::Change;
use bytes::Bytes;
use model::types::{CqlType, collection};
use model::{ColumnDef, ColumnKind, multi_cell};
use std::sync::Arc;

/// One operation on one column.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) column: Arc<ColumnDef>,
    pub(crate) kind: OperationKind,
}

/// What is done. Which of list, set, map, user type or single value it is done to, the column's type says.
#[derive(Debug)]
pub(crate) enum OperationKind {
    Set(Expr),
    Append(Expr),
    Prepend(Expr),
    Discard(Expr),
    Increment { by: Expr, negate: bool },
    SetElement { key: Expr, value: Expr },
    SetField { index: usize, value: Expr },
    Delete,
    DeleteElement(Expr),
    DeleteField(usize),
}

impl Operation {
    /// Whether the row has to be read first.
    pub(crate) fn needs_read(&self) -> bool {
        matches!(self.column.ty, CqlType::List { multi_cell: true, .. })
            && matches!(
                self.kind,
                OperationKind::SetElement { .. }
                    | OperationKind::DeleteElement(_)
                    | OperationKind::Discard(_)
            )
    }
}

impl Analyzer<'_> {
    /// One item of SET.
    pub(crate) fn assignment(&self, assignment: &Assignment) -> Result<Operation> {
        let column = self.column(&assignment.column)?;
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail!("PRIMARY KEY part {} found in SET part", column.name);
        }
        let name = &column.name;
        let receiver = Receiver::of(&column);
        let kind = match &assignment.operation {
            UpdateOperation::Set(value) => return self.set_column(&column, value),
            UpdateOperation::Add(value) => {
                let shown = || format!("{name} = {name} + {}", Raw::from(value));
                match &column.ty {
                    CqlType::Counter => {
                        OperationKind::Increment { by: self.term(value, &receiver)?, negate: false }
                    }
                    CqlType::Tuple(_) | CqlType::Udt { .. } => {
                        bail!("Invalid operation ({}) for tuple column {name}", shown())
                    }
                    ty if !ty.is_collection() => {
                        bail!("Invalid operation ({}) for non counter column {name}", shown())
                    }
                    ty if !ty.is_multi_cell() => {
                        bail!("Invalid operation ({}) for frozen collection column {name}", shown())
                    }
                    CqlType::Map { .. } => match self.term(value, &receiver) {
                        Ok(entries) => OperationKind::Append(entries),
                        Err(_) => {
                            bail!("Value for a map addition has to be a map, but was: '{}'", Raw::from(value))
                        }
                    },
                    _ => OperationKind::Append(self.term(value, &receiver)?),
                }
            }
            UpdateOperation::Subtract(value) => {
                let shown = || format!("{name} = {name} - {}", Raw::from(value));
                match &column.ty {
                    CqlType::Counter => {
                        OperationKind::Increment { by: self.term(value, &receiver)?, negate: true }
                    }
                    ty if !ty.is_collection() => {
                        bail!("Invalid operation ({}) for non counter column {name}", shown())
                    }
                    ty if !ty.is_multi_cell() => {
                        bail!("Invalid operation ({}) for frozen collection column {name}", shown())
                    }
                    CqlType::Map { key, .. } => {
                        let keys = receiver.with_type(CqlType::set(key.as_ref().clone(), false));
                        match self.term(value, &keys) {
                            Ok(keys) => OperationKind::Discard(keys),
                            Err(_) => bail!(
                                "Value for a map substraction has to be a set, but was: '{}'",
                                Raw::from(value)
                            ),
                        }
                    }
                    _ => OperationKind::Discard(self.term(value, &receiver)?),
                }
            }
            UpdateOperation::Prepend(value) => {
                // Cassandra prints a minus here.
                let shown = || format!("{name} = {} - {name}", Raw::from(value));
                match &column.ty {
                    CqlType::List { multi_cell: true, .. } => {
                        OperationKind::Prepend(self.term(value, &receiver)?)
                    }
                    CqlType::List { .. } => {
                        bail!("Invalid operation ({}) for frozen list column {name}", shown())
                    }
                    _ => bail!("Invalid operation ({}) for non list column {name}", shown()),
                }
            }
            UpdateOperation::SetElement { key, value } => {
                let shown = || format!("{name}[{}] = {}", Raw::from(key), Raw::from(value));
                match &column.ty {
                    ty if !ty.is_collection() => {
                        bail!("Invalid operation ({}) for non collection column {name}", shown())
                    }
                    ty if !ty.is_multi_cell() => {
                        bail!("Invalid operation ({}) for frozen collection column {name}", shown())
                    }
                    CqlType::List { element, .. } => OperationKind::SetElement {
                        key: self.term(key, &receiver.index())?,
                        value: self.term(value, &receiver.value(element))?,
                    },
                    CqlType::Map { key: key_type, value: value_type, .. } => OperationKind::SetElement {
                        key: self.term(key, &receiver.key(key_type))?,
                        value: self.term(value, &receiver.value(value_type))?,
                    },
                    _ => bail!("Invalid operation ({}) for set column {name}", shown()),
                }
            }
            UpdateOperation::SetField { field, value } => {
                let shown = || format!("{name}.{field} = {}", Raw::from(value));
                match &column.ty {
                    CqlType::Udt { multi_cell: true, .. } => {
                        let (index, ty) = udt_field(&column, field)?;
                        let receiver = Receiver::new(format!("{name}.{field}"), ty);
                        OperationKind::SetField { index, value: self.term(value, &receiver)? }
                    }
                    CqlType::Udt { .. } => {
                        bail!("Invalid operation ({}) for frozen UDT column {name}", shown())
                    }
                    _ => bail!("Invalid operation ({}) for non-UDT column {name}", shown()),
                }
            }
        };
        Ok(Operation { column, kind })
    }

    /// `column = value`, of UPDATE and of INSERT.
    pub(crate) fn set_column<'r>(&self, column: &Arc<ColumnDef>, value: &'r Term) -> Result<Operation> {
        let value = self.term(Raw::<'r>::from(value), &Receiver::of(column))?;
        if column.ty.is_counter() {
            bail!(
                "Cannot set the value of counter column {} (counters can only be incremented/decremented, not set)",
                column.name
            );
        }
        Ok(Operation { column: Arc::clone(column), kind: OperationKind::Set(value) })
    }

    /// One item that a DELETE names.
    pub(crate) fn deletion(&self, deletion: &Deletion) -> Result<Operation> {
        let column = self.column(&deletion.column)?;
        let name = &column.name;
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail!("Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)");
        }
        let receiver = Receiver::of(&column);
        let kind = match &deletion.target {
            DeletionTarget::Column => OperationKind::Delete,
            DeletionTarget::Element(key) => match &column.ty {
                ty if !ty.is_collection() => {
                    bail!("Invalid deletion operation for non collection column {name}")
                }
                ty if !ty.is_multi_cell() => {
                    bail!("Invalid deletion operation for frozen collection column {name}")
                }
                CqlType::List { .. } => OperationKind::DeleteElement(self.term(key, &receiver.index())?),
                CqlType::Map { key: key_type, .. } => {
                    OperationKind::DeleteElement(self.term(key, &receiver.key(key_type))?)
                }
                CqlType::Set { element, .. } => {
                    OperationKind::DeleteElement(self.term(key, &receiver.value(element))?)
                }
                _ => OperationKind::Delete,
            },
            DeletionTarget::Field(field) => match &column.ty {
                CqlType::Udt { multi_cell: true, .. } => {
                    OperationKind::DeleteField(udt_field(&column, field)?.0)
                }
                CqlType::Udt { .. } => bail!("Frozen UDT column {name} does not support field deletions"),
                _ => bail!("Invalid field deletion operation for non-UDT column {name}"),
            },
        };
        Ok(Operation { column, kind })
    }
}

fn udt_field(column: &ColumnDef, name: &Identifier) -> Result<(usize, CqlType)> {
    if let CqlType::Udt { definition, .. } = &column.ty
        && let Some((index, (_, ty))) =
            definition.fields.iter().enumerate().find(|(_, (field, _))| field == name.as_str())
    {
        return Ok((index, ty.clone()));
    }
    bail!("UDT column {} does not have a field named {name}", column.name)
}

impl Operation {
    /// Puts values in; adds what is to be changed. An unset value leaves the column alone.
    pub(crate) fn bind(&self, input: &BindInput<'_>, out: &mut Vec<Change>) -> Result<()> {
        let column = self.column.id;
        let ty = &self.column.ty;
        let eval = |expr: &Expr| expr.eval(&input.scope());
        match &self.kind {
            OperationKind::Set(expr) => {
                let value = match eval(expr)? {
                    BoundValue::Bytes(bytes) => Some(bytes),
                    BoundValue::Null => None,
                    BoundValue::Unset => return Ok(()),
                };
                if !ty.is_multi_cell() {
                    out.push(Change::Cell { column, path: Bytes::new(), value });
                    return Ok(());
                }
                out.push(Change::Overwrite { column });
                if let Some(value) = value {
                    add_elements(&self.column, &value, out);
                }
            }
            OperationKind::Append(expr) => {
                if let BoundValue::Bytes(value) = eval(expr)? {
                    add_elements(&self.column, &value, out);
                }
            }
            OperationKind::Prepend(expr) => {
                if let BoundValue::Bytes(value) = eval(expr)? {
                    out.push(Change::ListPrepend { column, values: items(&value) });
                }
            }
            OperationKind::Discard(expr) => {
                let BoundValue::Bytes(value) = eval(expr)? else { return Ok(()) };
                if matches!(ty, CqlType::List { .. }) {
                    out.push(Change::ListDiscard { column, values: items(&value) });
                } else {
                    out.extend(items(&value).into_iter().map(|path| Change::Cell {
                        column,
                        path,
                        value: None,
                    }));
                }
            }
            OperationKind::Increment { by, negate } => {
                let bytes = match eval(by)? {
                    BoundValue::Bytes(bytes) => bytes,
                    BoundValue::Null => bail!("Invalid null value for counter increment"),
                    BoundValue::Unset => return Ok(()),
                };
                let Some(by) = bytes.as_array::<8>().map(|b| i64::from_be_bytes(*b)) else {
                    bail!("Invalid null value for counter increment")
                };
                let delta = match (negate, by.checked_neg()) {
                    (false, _) => by,
                    (true, Some(negated)) => negated,
                    (true, None) => bail!(
                        "The negation of {by} overflows supported counter precision (signed 8 bytes integer)"
                    ),
                };
                out.push(Change::Increment { column, delta });
            }
            OperationKind::SetElement { key, value } => {
                let value = match eval(value)? {
                    BoundValue::Bytes(bytes) => Some(bytes),
                    BoundValue::Null => None,
                    BoundValue::Unset if matches!(ty, CqlType::List { .. }) => {
                        out.push(Change::ListLook { column, index: self.index(key, input)? });
                        return Ok(());
                    }
                    BoundValue::Unset => {
                        self.key(key, input)?;
                        return Ok(());
                    }
                };
                match ty {
                    CqlType::List { .. } => {
                        out.push(Change::ListSet { column, index: self.index(key, input)?, value });
                    }
                    _ => out.push(Change::Cell { column, path: self.key(key, input)?, value }),
                }
            }
            OperationKind::SetField { index, value } => {
                let value = match eval(value)? {
                    BoundValue::Bytes(bytes) => Some(bytes),
                    BoundValue::Null => None,
                    BoundValue::Unset => return Ok(()),
                };
                out.push(Change::Cell { column, path: multi_cell::field_path(*index), value });
            }
            OperationKind::Delete if ty.is_multi_cell() => out.push(Change::DeleteColumn { column }),
            OperationKind::Delete => out.push(Change::Cell { column, path: Bytes::new(), value: None }),
            OperationKind::DeleteElement(key) => match ty {
                CqlType::List { .. } | CqlType::Set { .. } if eval(key)? == BoundValue::Unset => {}
                CqlType::List { .. } => {
                    out.push(Change::ListDelete { column, index: self.index(key, input)? });
                }
                _ => out.push(Change::Cell { column, path: self.key(key, input)?, value: None }),
            },
            OperationKind::DeleteField(index) => {
                out.push(Change::Cell { column, path: multi_cell::field_path(*index), value: None });
            }
        }
        Ok(())
    }

    /// The key of a map or the element of a set.
    fn key(&self, key: &Expr, input: &BindInput<'_>) -> Result<Bytes> {
        let what = match self.column.ty {
            CqlType::Set { .. } => "set element",
            CqlType::List { .. } => "value for list index",
            _ => "map key",
        };
        match key.eval(&input.scope())? {
            BoundValue::Bytes(bytes) => Ok(bytes),
            BoundValue::Null => bail!("Invalid null {what}"),
            BoundValue::Unset => bail!("Invalid unset {what}"),
        }
    }

    fn index(&self, key: &Expr, input: &BindInput<'_>) -> Result<i32> {
        let bytes = self.key(key, input)?;
        match bytes.as_array::<4>() {
            Some(bytes) => Ok(i32::from_be_bytes(*bytes)),
            None => bail!("Invalid null value for list index"),
        }
    }
}

fn items(value: &Bytes) -> Vec<Bytes> {
    collection::elements(value).flatten().map(|item| value.slice_ref(item)).collect()
}

/// Adds a cell for each element of a whole collection or user type.
fn add_elements(column: &ColumnDef, value: &Bytes, out: &mut Vec<Change>) {
    let id = column.id;
    match &column.ty {
        CqlType::List { .. } => out.push(Change::ListAppend { column: id, values: items(value) }),
        CqlType::Set { .. } => {
            out.extend(items(value).into_iter().map(|path| Change::Cell {
                column: id,
                path,
                value: Some(Bytes::new()),
            }));
        }
        CqlType::Map { .. } => {
            out.extend(collection::pairs(value).map(|(k, v)| Change::Cell {
                column: id,
                path: value.slice_ref(k),
                value: Some(value.slice_ref(v)),
            }));
        }
        _ => {
            for (index, field) in collection::tuple_fields(value).enumerate() {
                if let Some(field) = field {
                    out.push(Change::Cell {
                        column: id,
                        path: multi_cell::field_path(index),
                        value: Some(value.slice_ref(field)),
                    });
                }
            }
        }
    }
}
