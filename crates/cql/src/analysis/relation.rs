//! One relation of WHERE: from the tree to a restriction of columns.

use super::context::{Analyzer, BindInput, Receiver};
use super::expr::Expr;
use super::raw::Raw;
use super::types::display;
use crate::ast::{ComparisonOperator, Identifier, InValues, Relation, Term, WherePredicate};
use crate::bind::BoundValue;
use crate::error::{Result, bail};
use bytes::Bytes;
use model::types::{CqlType, collection};
use model::{ColumnDef, ColumnKind};
use std::sync::Arc;

/// The values of IN.
#[derive(Clone, Debug)]
pub(crate) enum InSource {
    /// Each on its own.
    Terms(Vec<Expr>),
    /// One list for all.
    List(Expr),
}

impl InSource {
    /// Makes something of each value: `of_term` of a term, `of_item` of an item of the one list, where a null
    /// is `None`. `no_list` words what is wrong with a list that is null or unset.
    pub(crate) fn bind<T>(
        &self,
        input: &BindInput<'_>,
        of_term: impl FnMut(&Expr) -> Result<T>,
        mut of_item: impl FnMut(Option<Bytes>) -> Result<T>,
        no_list: impl FnOnce(&BoundValue) -> String,
    ) -> Result<Vec<T>> {
        match self {
            InSource::Terms(terms) => terms.iter().map(of_term).collect(),
            InSource::List(list) => match list.eval(&input.scope())? {
                BoundValue::Bytes(bytes) => {
                    let items = collection::elements(&bytes);
                    items.map(|item| of_item(item.map(|value| bytes.slice_ref(value)))).collect()
                }
                nothing => bail!("{}", no_list(&nothing)),
            },
        }
    }
}

/// One side of a slice.
#[derive(Clone, Debug)]
pub(crate) struct SliceEnd {
    pub(crate) value: Expr,
    pub(crate) inclusive: bool,
    /// How many columns the value has components for.
    pub(crate) columns: usize,
    /// Whether the value is a tuple of components.
    pub(crate) is_tuple: bool,
}

/// What columns must be.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Eq(Expr),
    In(InSource),
    Slice {
        start: Option<SliceEnd>,
        end: Option<SliceEnd>,
    },
    /// Values and keys that a collection has to contain, and entries that it has to have.
    Contains {
        values: Vec<Expr>,
        keys: Vec<Expr>,
        entries: Vec<(Expr, Expr)>,
    },
}

/// A restriction of one column or of several together.
#[derive(Clone, Debug)]
pub(crate) struct Restriction {
    pub(crate) columns: Vec<Arc<ColumnDef>>,
    /// Whether values are tuples, as in `(a, b) = (1, 2)`.
    pub(crate) is_multi: bool,
    pub(crate) test: Test,
}

impl Restriction {
    pub(crate) fn is_slice(&self) -> bool {
        matches!(self.test, Test::Slice { .. })
    }

    pub(crate) fn first_position(&self) -> usize {
        self.columns.first().map_or(0, |c| c.position)
    }
}

/// A relation, sorted by what it restricts.
#[derive(Clone, Debug)]
pub(crate) enum Sorted {
    Columns(Restriction),
    /// `token(...)`; the columns are those of the partition key in order.
    Token(Test),
}

fn slice(operator: ComparisonOperator, value: Expr, columns: usize, is_tuple: bool) -> Option<Test> {
    let end = |inclusive| Some(SliceEnd { value, inclusive, columns, is_tuple });
    Some(match operator {
        ComparisonOperator::Greater => Test::Slice { start: end(false), end: None },
        ComparisonOperator::GreaterOrEqual => Test::Slice { start: end(true), end: None },
        ComparisonOperator::Less => Test::Slice { start: None, end: end(false) },
        ComparisonOperator::LessOrEqual => Test::Slice { start: None, end: end(true) },
        _ => return None,
    })
}

impl Analyzer<'_> {
    /// A relation of WHERE.
    pub(crate) fn relation(&self, predicate: &WherePredicate) -> Result<Sorted> {
        let relation = match predicate {
            WherePredicate::Relation(relation) => relation,
            WherePredicate::CustomIndexExpression { index, .. } => bail!(
                "Invalid index expression, index {} not found for {}.{}",
                index.name,
                self.table.keyspace,
                self.table.name
            ),
        };
        match relation {
            Relation::Column { column, operator, value } => {
                self.column_relation(relation, column, *operator, value)
            }
            Relation::IsNotNull { column } => {
                self.column(column)?;
                bail!("Unsupported restriction: {relation}")
            }
            Relation::In { column, values } => {
                let column = self.column(column)?;
                refuse_multi_cell(&column, "IN")?;
                refuse_duration_slice(&column, None)?;
                let source = self.in_source(values, &Receiver::of(&column))?;
                Ok(single(&column, in_or_eq(source)))
            }
            Relation::Element { column, key, operator, value } => {
                self.element_relation(relation, column, key, *operator, value)
            }
            Relation::MultiColumn { columns, operator, value } => {
                self.multi_relation(relation, columns, *operator, value)
            }
            Relation::MultiColumnIn { columns, values } => self.multi_in(relation, columns, values),
            Relation::Token { columns, operator, value } => {
                self.token_relation(relation, columns, *operator, value)
            }
        }
    }

    fn column_relation(
        &self,
        relation: &Relation,
        name: &Identifier,
        operator: ComparisonOperator,
        value: &Term,
    ) -> Result<Sorted> {
        let column = self.column(name)?;
        let receiver = Receiver::of(&column);
        match operator {
            ComparisonOperator::NotEqual => bail!("Unsupported \"!=\" relation: {relation}"),
            ComparisonOperator::Like => {
                refuse_multi_cell(&column, &operator.to_string())?;
                self.term(value, &receiver)?;
                bail!(
                    "LIKE restriction is only supported on properly indexed columns. {relation} is not valid."
                )
            }
            ComparisonOperator::Contains => {
                let element = match &column.ty {
                    CqlType::List { element, .. } | CqlType::Set { element, .. } => element,
                    CqlType::Map { value, .. } => value,
                    _ => bail!("Cannot use CONTAINS on non-collection column {}", column.name),
                };
                let value = self.term(value, &receiver.value(element))?;
                Ok(single(&column, contains(vec![value], vec![], vec![])))
            }
            ComparisonOperator::ContainsKey => {
                let CqlType::Map { key, .. } = &column.ty else {
                    bail!("Cannot use CONTAINS KEY on non-map column {}", column.name)
                };
                let key = self.term(value, &receiver.key(key))?;
                Ok(single(&column, contains(vec![], vec![key], vec![])))
            }
            _ => {
                refuse_duration_slice(&column, Some(operator))?;
                refuse_multi_cell(&column, &operator.to_string())?;
                let value = self.term(value, &receiver)?;
                let test = match operator {
                    ComparisonOperator::Equal => Test::Eq(value),
                    _ => match slice(operator, value, 1, false) {
                        Some(test) => test,
                        None => bail!("Unsupported restriction: {relation}"),
                    },
                };
                Ok(single(&column, test))
            }
        }
    }

    fn element_relation(
        &self,
        relation: &Relation,
        name: &Identifier,
        key: &Term,
        operator: ComparisonOperator,
        value: &Term,
    ) -> Result<Sorted> {
        let column = self.column(name)?;
        if operator == ComparisonOperator::NotEqual {
            bail!("Unsupported \"!=\" relation: {relation}");
        }
        refuse_duration_slice(&column, Some(operator))?;
        let (key_type, value_type) = match &column.ty {
            CqlType::List { .. } => {
                bail!("Indexes on list entries ({}[index] = value) are not currently supported.", column.name)
            }
            CqlType::Map { key, value, multi_cell: true } => (key, value),
            CqlType::Map { .. } => {
                bail!("Map-entry equality predicates on frozen map column {} are not supported", column.name)
            }
            _ => bail!("Column {} cannot be used as a map", column.name),
        };
        if operator != ComparisonOperator::Equal {
            bail!("Only EQ relations are supported on map entries");
        }
        let receiver = Receiver::of(&column);
        let key = self.term(key, &receiver.key(key_type))?;
        let value = self.term(value, &receiver.value(value_type))?;
        Ok(single(&column, contains(vec![], vec![], vec![(key, value)])))
    }

    fn in_source(&self, values: &InValues, receiver: &Receiver) -> Result<InSource> {
        Ok(match values {
            InValues::Marker(index) => InSource::List(self.term(Raw::Marker(*index), &receiver.in_list())?),
            InValues::Terms(terms) => {
                InSource::Terms(terms.iter().map(|t| self.term(t, receiver)).collect::<Result<_>>()?)
            }
        })
    }

    /// The columns of a multi-column relation, which have to be clustering columns in order.
    fn multi_columns(&self, relation: &Relation, names: &[Identifier]) -> Result<Vec<Arc<ColumnDef>>> {
        let mut columns: Vec<Arc<ColumnDef>> = Vec::with_capacity(names.len());
        for name in names {
            let column = self.column(name)?;
            if column.kind != ColumnKind::Clustering {
                bail!(
                    "Multi-column relations can only be applied to clustering columns but was applied to: {}",
                    column.name
                );
            }
            if columns.contains(&column) {
                bail!("Column \"{}\" appeared twice in a relation: {relation}", column.name);
            }
            if columns.last().is_some_and(|last| column.position != last.position + 1) {
                bail!(
                    "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {relation}"
                );
            }
            columns.push(column);
        }
        Ok(columns)
    }

    fn multi_receiver(columns: &[Arc<ColumnDef>]) -> Receiver {
        let names: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        let types: Arc<[CqlType]> = columns.iter().map(|c| c.ty.frozen()).collect();
        Receiver::new(format!("({})", names.join(",")), CqlType::Tuple(types))
    }

    fn multi_value(&self, columns: &[Arc<ColumnDef>], value: &Term) -> Result<Expr> {
        match value {
            Term::Tuple(items) => {
                if items.len() != columns.len() {
                    bail!(
                        "Expected {} elements in value tuple, but got {}: {value}",
                        columns.len(),
                        items.len()
                    );
                }
                let parts: Result<Vec<Expr>> =
                    items.iter().zip(columns).map(|(item, c)| self.term(item, &Receiver::of(c))).collect();
                Ok(Expr::Tuple(parts?))
            }
            other => self.term(other, &Self::multi_receiver(columns)),
        }
    }

    fn multi_relation(
        &self,
        relation: &Relation,
        names: &[Identifier],
        operator: ComparisonOperator,
        value: &Term,
    ) -> Result<Sorted> {
        let columns = self.multi_columns(relation, names)?;
        let value = self.multi_value(&columns, value)?;
        let test = match operator {
            ComparisonOperator::Equal => Test::Eq(value),
            _ => match slice(operator, value, columns.len(), true) {
                Some(test) => test,
                None => bail!("Unsupported \"{operator}\" relation: {relation}"),
            },
        };
        Ok(Sorted::Columns(Restriction { columns, is_multi: true, test }))
    }

    fn multi_in(&self, relation: &Relation, names: &[Identifier], values: &InValues) -> Result<Sorted> {
        let columns = self.multi_columns(relation, names)?;
        let source = match values {
            InValues::Marker(index) => {
                let receiver = Self::multi_receiver(&columns);
                let list = Receiver::new(format!("in{}", receiver.name), CqlType::list(receiver.ty, false));
                InSource::List(self.term(Raw::Marker(*index), &list)?)
            }
            InValues::Terms(terms) => {
                InSource::Terms(terms.iter().map(|t| self.multi_value(&columns, t)).collect::<Result<_>>()?)
            }
        };
        Ok(Sorted::Columns(Restriction { columns, is_multi: true, test: in_or_eq(source) }))
    }

    fn token_relation(
        &self,
        relation: &Relation,
        names: &[Identifier],
        operator: ComparisonOperator,
        value: &Term,
    ) -> Result<Sorted> {
        let columns: Vec<Arc<ColumnDef>> = names.iter().map(|n| self.column(n)).collect::<Result<_>>()?;
        let key = self.table.partition_key();
        if columns.iter().enumerate().any(|(i, c)| columns.iter().take(i).any(|earlier| earlier == c)) {
            bail!("The token() function contains duplicate partition key components");
        }
        if columns.len() != key.len() || columns.iter().any(|c| c.kind != ColumnKind::PartitionKey) {
            bail!("The token() function must be applied to all partition key components or none of them");
        }
        if columns != key {
            let order: Vec<&str> = key.iter().map(|c| c.name.as_str()).collect();
            bail!("The token function arguments must be in the partition key order: {}", order.join(", "));
        }
        let value = self.term(value, &Receiver::new("partition key token", CqlType::BigInt))?;
        let test = match operator {
            ComparisonOperator::Equal => Test::Eq(value),
            _ => match slice(operator, value, 1, false) {
                Some(test) => test,
                None => bail!("Unsupported \"{operator}\" relation: {relation}"),
            },
        };
        Ok(Sorted::Token(test))
    }
}

fn single(column: &Arc<ColumnDef>, test: Test) -> Sorted {
    Sorted::Columns(Restriction { columns: vec![Arc::clone(column)], is_multi: false, test })
}

fn contains(values: Vec<Expr>, keys: Vec<Expr>, entries: Vec<(Expr, Expr)>) -> Test {
    Test::Contains { values, keys, entries }
}

/// IN of one value is an equality.
fn in_or_eq(source: InSource) -> Test {
    match source {
        InSource::Terms(mut terms) if terms.len() == 1 => match terms.pop() {
            Some(only) => Test::Eq(only),
            None => Test::In(InSource::Terms(terms)),
        },
        other => Test::In(other),
    }
}

fn refuse_multi_cell(column: &ColumnDef, operator: &str) -> Result<()> {
    if column.is_multi_cell() {
        if matches!(column.ty, CqlType::Udt { .. }) {
            bail!(
                "Non-frozen UDT column '{}' ({}) cannot be restricted by any relation",
                column.name,
                display(&column.ty)
            );
        }
        bail!(
            "Collection column '{}' ({}) cannot be restricted by a '{operator}' relation",
            column.name,
            display(&column.ty)
        );
    }
    Ok(())
}

fn refuse_duration_slice(column: &ColumnDef, operator: Option<ComparisonOperator>) -> Result<()> {
    let is_slice = matches!(
        operator,
        Some(
            ComparisonOperator::Less
                | ComparisonOperator::LessOrEqual
                | ComparisonOperator::Greater
                | ComparisonOperator::GreaterOrEqual
        )
    );
    if is_slice && references_duration(&column.ty) {
        let what = match &column.ty {
            CqlType::Duration => "duration columns",
            CqlType::Tuple(_) => "tuples containing durations",
            CqlType::Udt { .. } => "UDTs containing durations",
            _ => "collections containing durations",
        };
        bail!("Slice restrictions are not supported on {what}");
    }
    Ok(())
}

fn references_duration(ty: &CqlType) -> bool {
    match ty {
        CqlType::Duration => true,
        // Cassandra does not look into vectors.
        CqlType::List { element, .. } | CqlType::Set { element, .. } => references_duration(element),
        CqlType::Map { key, value, .. } => references_duration(key) || references_duration(value),
        CqlType::Tuple(types) => types.iter().any(references_duration),
        CqlType::Udt { definition, .. } => definition.fields.iter().any(|(_, ty)| references_duration(ty)),
        _ => false,
    }
}
