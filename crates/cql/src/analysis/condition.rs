//! IF: conditions on columns.

use super::context::{Analyzer, BindInput, Receiver};
use super::expr::Expr;
use super::keys::in_items;
use super::raw::Raw;
use super::relation::InSource;
use crate::ast::{ColumnCondition, ComparisonOperator, ConditionTarget, ConditionTest, InValues};
use crate::bind::BoundValue;
use crate::error::{Result, bail};
use crate::result::ColumnRef;
use bytes::Bytes;
use model::row::ResultRow;
use model::types::{CqlType, collection};
use model::{ColumnDef, ColumnId, ColumnKind, TableSchema};
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// A condition of an IF clause.
#[derive(Debug)]
pub(crate) struct ConditionPlan {
    pub(crate) column: Arc<ColumnDef>,
    target: Target,
    operator: ComparisonOperator,
    values: Values,
}

#[derive(Debug)]
enum Target {
    Column,
    Element(Expr),
    Field(usize),
}

#[derive(Debug)]
enum Values {
    One(Expr),
    In(InSource),
}

/// A condition with its values.
#[derive(Clone, Debug)]
pub(crate) struct BoundCondition {
    pub(crate) column: Arc<ColumnDef>,
    target: BoundTarget,
    operator: ComparisonOperator,
    /// The value to compare with; for IN all of them, and one has to be equal.
    values: Vec<Option<Bytes>>,
}

#[derive(Clone, Debug)]
enum BoundTarget {
    Column,
    Index(usize),
    Key(Bytes),
    Field(usize),
}

impl Analyzer<'_> {
    pub(crate) fn condition(&self, condition: &ColumnCondition) -> Result<ConditionPlan> {
        let column = self.column(&condition.column)?;
        let name = &column.name;
        if column.ty.is_counter() {
            bail!("Conditions on counters are not supported");
        }
        let receiver = Receiver::of(&column);
        let (target, receiver) = match &condition.target {
            ConditionTarget::Column => (Target::Column, receiver),
            ConditionTarget::Element(key) => match &column.ty {
                CqlType::List { element, .. } => {
                    (Target::Element(self.term(key, &receiver.index())?), receiver.value(element))
                }
                CqlType::Map { key: key_type, value, .. } => {
                    (Target::Element(self.term(key, &receiver.key(key_type))?), receiver.value(value))
                }
                CqlType::Set { .. } => bail!("Invalid element access syntax for set column {name}"),
                _ => bail!("Invalid element access syntax for non-collection column {name}"),
            },
            ConditionTarget::Field(field) => match &column.ty {
                CqlType::Udt { definition, .. } => {
                    match definition.fields.iter().enumerate().find(|(_, (n, _))| n == field.as_str()) {
                        Some((index, (_, ty))) => {
                            (Target::Field(index), Receiver::new(format!("{name}.{field}"), ty.clone()))
                        }
                        None => bail!("Unknown field {field} for column {name}"),
                    }
                }
                _ => bail!("Cannot use field access on non-UDT column {name}"),
            },
        };
        let (operator, values) = match &condition.test {
            ConditionTest::Compare(operator, value) => {
                let receiver = compared(&column, *operator, receiver)?;
                (*operator, Values::One(self.term(value, &receiver)?))
            }
            ConditionTest::In(InValues::Marker(index)) => {
                let list = self.term(Raw::Marker(*index), &receiver.in_list())?;
                (ComparisonOperator::Equal, Values::In(InSource::List(list)))
            }
            ConditionTest::In(InValues::Terms(terms)) => {
                let terms = terms.iter().map(|t| self.term(t, &receiver)).collect::<Result<_>>()?;
                (ComparisonOperator::Equal, Values::In(InSource::Terms(terms)))
            }
        };
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail!("PRIMARY KEY column '{name}' cannot have IF conditions");
        }
        Ok(ConditionPlan { column, target, operator, values })
    }
}

/// The receiver of what a column is compared with.
fn compared(column: &ColumnDef, operator: ComparisonOperator, receiver: Receiver) -> Result<Receiver> {
    let name = &column.name;
    match operator {
        ComparisonOperator::Contains => match &column.ty {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => Ok(receiver.value(element)),
            CqlType::Map { value, .. } => Ok(receiver.value(value)),
            _ => bail!("Cannot use CONTAINS on non-collection column {name}"),
        },
        ComparisonOperator::ContainsKey => match &column.ty {
            CqlType::Map { key, .. } => Ok(receiver.key(key)),
            _ => bail!("Cannot use CONTAINS KEY on non-map column {name}"),
        },
        _ if operator.is_slice() && receiver.ty == CqlType::Duration => {
            bail!("Slice conditions ( {operator} ) are not supported on durations")
        }
        _ => Ok(receiver),
    }
}

/// The value of a collection without elements.
const NO_ELEMENTS: [u8; 4] = [0; 4];

/// What a collection whose elements are cells of their own is called.
fn multi_cell_kind(ty: &CqlType) -> Option<&'static str> {
    match ty {
        _ if !ty.is_multi_cell() => None,
        CqlType::List { .. } => Some("list"),
        CqlType::Set { .. } => Some("set"),
        CqlType::Map { .. } => Some("map"),
        _ => None,
    }
}

impl ConditionPlan {
    pub(crate) fn bind(&self, input: &BindInput<'_>) -> Result<BoundCondition> {
        let scope = input.scope();
        let value = |expr: &Expr| -> Result<Option<Bytes>> {
            match expr.eval(&scope)? {
                BoundValue::Bytes(bytes) => Ok(Some(bytes)),
                BoundValue::Null => Ok(None),
                BoundValue::Unset => bail!("Invalid 'unset' value in condition"),
            }
        };
        let target = match &self.target {
            Target::Column => BoundTarget::Column,
            Target::Field(index) => BoundTarget::Field(*index),
            Target::Element(key) => {
                let is_list = matches!(self.column.ty, CqlType::List { .. });
                let what = if is_list { "list" } else { "map" };
                let Some(key) = value(key)? else { bail!("Invalid null value for {what} element access") };
                match (is_list, key.as_array::<4>().map(|b| i32::from_be_bytes(*b))) {
                    (true, Some(index)) => match usize::try_from(index) {
                        Ok(index) => BoundTarget::Index(index),
                        Err(_) => bail!("Invalid negative list index {index}"),
                    },
                    (true, None) => bail!("Invalid null value for list element access"),
                    (false, _) => BoundTarget::Key(key),
                }
            }
        };
        let values = match &self.values {
            Values::One(expr) => {
                let value = value(expr)?;
                let takes_null =
                    matches!(self.operator, ComparisonOperator::Equal | ComparisonOperator::NotEqual);
                if value.is_none() && !takes_null {
                    bail!("Invalid comparison with null for operator \"{}\"", self.operator);
                }
                if self.operator.is_slice()
                    && matches!(target, BoundTarget::Column)
                    && value.as_deref().is_some_and(|bytes| *bytes == NO_ELEMENTS)
                    && let Some(kind) = multi_cell_kind(&self.column.ty)
                {
                    bail!("Invalid comparison with an empty {kind} for operator \"{}\"", self.operator);
                }
                vec![value]
            }
            Values::In(InSource::Terms(terms)) => {
                let mut out = Vec::with_capacity(terms.len());
                for term in terms {
                    // Unset values of IN are left out.
                    match term.eval(&scope)? {
                        BoundValue::Bytes(bytes) => out.push(Some(bytes)),
                        BoundValue::Null => out.push(None),
                        BoundValue::Unset => {}
                    }
                }
                out
            }
            Values::In(InSource::List(list)) => match value(list)? {
                Some(bytes) => match list {
                    Expr::Marker { ty: CqlType::List { element, .. }, .. } => {
                        in_items(&bytes, element).collect()
                    }
                    _ => collection::elements(&bytes).map(|v| v.map(|v| bytes.slice_ref(v))).collect(),
                },
                None => bail!("Invalid null list in IN condition"),
            },
        };
        Ok(BoundCondition { column: Arc::clone(&self.column), target, operator: self.operator, values })
    }
}

/// What the conditions on a row have seen of it: a column is put together once, and taken apart once, however
/// many conditions are about it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    columns: HashMap<ColumnId, SeenColumn>,
}

/// A column as one value, and what was made of it so far.
#[derive(Debug)]
struct SeenColumn {
    column: Arc<ColumnDef>,
    whole: Option<Bytes>,
    /// Elements, keys and values in turn, or fields.
    parts: OnceCell<Vec<Option<Bytes>>>,
    /// By [`Sorted`]: values in their order, with their places.
    sorted: [OnceCell<Vec<(Bytes, usize)>>; 2],
}

/// Which parts of a collection.
#[derive(Clone, Copy, Debug)]
enum Sorted {
    /// Keys of a map, elements of a list or a set.
    Keys,
    /// Values of a map.
    Values,
}

impl SeenColumn {
    fn parts(&self) -> &[Option<Bytes>] {
        self.parts.get_or_init(|| {
            let Some(whole) = &self.whole else { return Vec::new() };
            let own = |part: &[u8]| whole.slice_ref(part);
            match &self.column.ty {
                CqlType::Map { .. } => {
                    collection::pairs(whole).flat_map(|(k, v)| [Some(own(k)), Some(own(v))]).collect()
                }
                CqlType::Udt { .. } => collection::tuple_fields(whole).map(|f| f.map(own)).collect(),
                _ => collection::elements(whole).map(|item| item.map(own)).collect(),
            }
        })
    }

    fn part(&self, at: usize) -> Option<Bytes> {
        self.parts().get(at)?.clone()
    }

    fn sorted(&self, which: Sorted) -> &[(Bytes, usize)] {
        let [keys, values] = &self.sorted;
        let (made, ty, first, step) = match (which, &self.column.ty) {
            (Sorted::Keys, CqlType::Map { key, .. }) => (keys, key, 0, 2),
            (Sorted::Values, CqlType::Map { value, .. }) => (values, value, 1, 2),
            (_, CqlType::List { element, .. } | CqlType::Set { element, .. }) => (keys, element, 0, 1),
            _ => return &[],
        };
        made.get_or_init(|| {
            let of = self.parts().iter().skip(first).step_by(step).enumerate();
            let mut sorted: Vec<_> = of.filter_map(|(at, value)| Some((value.clone()?, at))).collect();
            sorted.sort_by(|(a, _), (b, _)| ty.compare(a, b));
            sorted
        })
    }
}

impl BoundCondition {
    pub(crate) fn is_static(&self) -> bool {
        self.column.kind == ColumnKind::Static
    }

    /// Whether the condition holds; `row` is `None` when there is no such row. `seen` is that of all
    /// conditions on the row.
    pub(crate) fn holds(&self, table: &TableSchema, row: Option<&ResultRow<'_>>, seen: &mut Seen) -> bool {
        let seen = seen.columns.entry(self.column.id).or_insert_with(|| {
            let whole = row.and_then(|row| ColumnRef::of(&self.column).value(table, row));
            let column = Arc::clone(&self.column);
            SeenColumn { column, whole, parts: OnceCell::new(), sorted: Default::default() }
        });
        let (ty, value) = self.part(seen);
        if let Some(holds) = self.contains(&ty, seen) {
            return holds;
        }
        self.values.iter().any(|wanted| self.compare(&ty, value.as_ref(), wanted.as_ref()))
    }

    /// The part of the value that the condition is about, and its type.
    fn part(&self, seen: &SeenColumn) -> (CqlType, Option<Bytes>) {
        match (&self.target, &self.column.ty) {
            (BoundTarget::Index(index), CqlType::List { element, .. }) => {
                (element.as_ref().clone(), seen.part(*index))
            }
            (BoundTarget::Key(key), CqlType::Map { key: key_type, value, .. }) => {
                let keys = seen.sorted(Sorted::Keys);
                let found = keys.binary_search_by(|(k, _)| key_type.compare(k, key)).ok();
                let at = found.and_then(|found| keys.get(found)).map(|(_, at)| *at);
                (value.as_ref().clone(), at.and_then(|at| seen.part(2 * at + 1)))
            }
            (BoundTarget::Field(index), CqlType::Udt { definition, .. }) => {
                let ty = definition.fields.get(*index).map_or(CqlType::Blob, |(_, ty)| ty.clone());
                (ty, seen.part(*index))
            }
            (_, ty) => (ty.clone(), seen.whole.clone()),
        }
    }

    /// CONTAINS and CONTAINS KEY of a column; `None` for other operators.
    fn contains(&self, ty: &CqlType, seen: &SeenColumn) -> Option<bool> {
        let ([Some(wanted)], BoundTarget::Column) = (self.values.as_slice(), &self.target) else {
            return None;
        };
        let (which, element) = match (self.operator, ty) {
            (ComparisonOperator::Contains, CqlType::Map { value, .. }) => (Sorted::Values, value),
            (ComparisonOperator::Contains, CqlType::List { element, .. } | CqlType::Set { element, .. }) => {
                (Sorted::Keys, element)
            }
            (ComparisonOperator::ContainsKey, CqlType::Map { key, .. }) => (Sorted::Keys, key),
            _ => return None,
        };
        Some(seen.sorted(which).binary_search_by(|(value, _)| element.compare(value, wanted)).is_ok())
    }

    fn compare(&self, ty: &CqlType, value: Option<&Bytes>, wanted: Option<&Bytes>) -> bool {
        use ComparisonOperator::*;
        // A collection without cells is null and empty at once, and neither less nor greater than another.
        let empty = Bytes::from_static(&NO_ELEMENTS);
        let value = match (value, wanted) {
            (None, Some(_)) if multi_cell_kind(ty).is_some() && !self.operator.is_slice() => Some(&empty),
            (value, _) => value,
        };
        let (Some(value), Some(wanted)) = (value, wanted) else {
            return match self.operator {
                Equal => value.is_none() && wanted.is_none(),
                NotEqual => value.is_some() || wanted.is_some(),
                _ => false,
            };
        };
        let order = || ty.compare(value, wanted);
        match self.operator {
            Equal => order().is_eq(),
            NotEqual => order().is_ne(),
            Less => order() == Ordering::Less,
            LessOrEqual => order() != Ordering::Greater,
            Greater => order() == Ordering::Greater,
            GreaterOrEqual => order() != Ordering::Less,
            // Those of columns were answered before, and nothing else has them.
            Contains | ContainsKey | Like => false,
        }
    }
}
