//! The partition key's part of WHERE: which partitions a statement is about.

use super::context::BindInput;
use super::expr::{Expr, is_empty_a_value};
use super::product;
use super::relation::{Restriction, SliceEnd, Test};
use crate::bind::BoundValue;
use crate::error::{Result, bail};
use bytes::Bytes;
use model::command::PartitionSelection;
use model::key::{DecoratedKey, KeyBound, KeyRange, PartitionKey, Token};
use model::types::{CqlType, collection};
use model::{ColumnDef, TableSchema};
use smallvec::SmallVec;
use std::sync::Arc;

/// The longest partition key, and clustering, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 65_535;

/// Restrictions of the partition key.
#[derive(Debug)]
pub(crate) struct PartitionPlan {
    table: Arc<TableSchema>,
    /// In key order.
    restrictions: Vec<Restriction>,
    token: Option<Test>,
    /// Whether every column has a value, or values.
    is_by_key: bool,
}

impl PartitionPlan {
    pub(crate) fn new(table: &Arc<TableSchema>, restrictions: Vec<Restriction>, token: Option<Test>) -> Self {
        let mut plan = PartitionPlan { table: Arc::clone(table), restrictions, token, is_by_key: false };
        plan.is_by_key = !plan.restrictions.is_empty() && !plan.has_slice() && plan.missing().is_empty();
        plan
    }

    pub(crate) fn is_on_token(&self) -> bool {
        self.token.is_some()
    }

    /// Names of the columns that are not restricted.
    pub(crate) fn missing(&self) -> Vec<String> {
        let restricted = |position| self.restrictions.iter().any(|r| r.first_position() == position);
        self.table
            .partition_key()
            .iter()
            .filter(|c| !restricted(c.position))
            .map(|c| c.name.clone())
            .collect()
    }

    /// Whether any column is restricted by anything but an equality or IN.
    pub(crate) fn has_slice(&self) -> bool {
        self.restrictions.iter().any(|r| !matches!(r.test, Test::Eq(_) | Test::In(_)))
    }

    /// Whether any column is restricted by IN.
    pub(crate) fn has_in(&self) -> bool {
        self.restrictions.iter().any(|r| matches!(r.test, Test::In(_)))
    }

    /// Whether nothing is said about the key, its token included.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.restrictions.is_empty() && self.token.is_none()
    }

    /// Whether the key has to be filtered: parts of it are restricted, or not by values.
    pub(crate) fn needs_filtering(&self) -> bool {
        !self.restrictions.is_empty() && !self.is_by_key
    }

    /// Whether partitions are read by range rather than by key.
    pub(crate) fn is_range(&self) -> bool {
        !self.is_by_key
    }

    /// The restrictions that have to be filtered by.
    pub(crate) fn filtered(&self) -> Vec<Restriction> {
        if self.needs_filtering() { self.restrictions.clone() } else { Vec::new() }
    }

    /// The partitions; no keys at all when nothing can match.
    pub(crate) fn bind(&self, input: &BindInput<'_>) -> Result<PartitionSelection> {
        if self.is_range() {
            let Some(test) = &self.token else { return Ok(PartitionSelection::Range(KeyRange::FULL)) };
            return Ok(match token_range(test, input)? {
                Some(range) => PartitionSelection::Range(range),
                None => PartitionSelection::Keys(Vec::new()),
            });
        }
        let mut keys = self.keys(input)?;
        // For keys the smallest token is a bound as every other.
        if let Some(test) = &self.token {
            let (start, end) = token_bounds(test, input)?;
            keys.retain(|key| {
                start.is_none_or(|(from, inclusive)| key.token > from || (inclusive && key.token == from))
                    && end.is_none_or(|(to, inclusive)| key.token < to || (inclusive && key.token == to))
            });
        }
        Ok(PartitionSelection::Keys(keys))
    }

    /// The keys of a statement that names them all, in the order of their values, without duplicates.
    pub(crate) fn keys(&self, input: &BindInput<'_>) -> Result<Vec<DecoratedKey>> {
        if let Some(key) = self.single_key(input)? {
            return Ok(vec![key]);
        }
        let mut values: Vec<Vec<Bytes>> = Vec::with_capacity(self.restrictions.len());
        for restriction in &self.restrictions {
            let (Some(column), test) = (restriction.columns.first(), &restriction.test) else { continue };
            values.push(values_of(test, column, input)?);
        }
        product::check("partition key", values.iter().map(Vec::len), input)?;
        for (restriction, of_column) in self.restrictions.iter().zip(&mut values) {
            let Some(column) = restriction.columns.first() else { continue };
            of_column.sort_by(|a, b| column.ty.compare(a, b));
            of_column.dedup();
        }
        // The common case: nothing is multiplied.
        if let [of_column] = values.as_mut_slice() {
            return std::mem::take(of_column).into_iter().map(|value| key_of(&mut [value])).collect();
        }
        let mut keys = vec![Vec::<Bytes>::new()];
        for of_column in &values {
            keys = keys
                .iter()
                .flat_map(|prefix| {
                    of_column.iter().map(move |value| {
                        let mut key = prefix.clone();
                        key.push(value.clone());
                        key
                    })
                })
                .collect();
        }
        keys.iter_mut().map(|key| key_of(key)).collect()
    }
}

impl PartitionPlan {
    /// The key of a statement that gives each column one value: the common case.
    fn single_key(&self, input: &BindInput<'_>) -> Result<Option<DecoratedKey>> {
        let mut components: SmallVec<[Bytes; 2]> = SmallVec::new();
        for restriction in &self.restrictions {
            let (Some(column), Test::Eq(expr)) = (restriction.columns.first(), &restriction.test) else {
                return Ok(None);
            };
            components.push(value_of(expr, &column.name, input)?);
        }
        key_of(&mut components).map(Some)
    }
}

/// The key of these components; a single one is taken as it is.
fn key_of(components: &mut [Bytes]) -> Result<DecoratedKey> {
    let length: usize = match &*components {
        [single] => single.len(),
        several => several.iter().map(|c| c.len() + 3).sum(),
    };
    if length == 0 {
        bail!("Key may not be empty");
    }
    // A component that is too long cannot be written into its key. So the length of the key is not the length
    // to show.
    if length > KEY_BYTES_MAX {
        let shown = match components.iter().find(|c| c.len() > KEY_BYTES_MAX) {
            Some(_) if components.len() > 1 => components.iter().map(|c| c.len()).sum(),
            _ => length,
        };
        bail!("Key length of {shown} is longer than maximum of {KEY_BYTES_MAX}");
    }
    Ok(DecoratedKey::new(match components {
        [single] => PartitionKey(std::mem::take(single)),
        several => PartitionKey::from_components(several),
    }))
}

/// The value that `column` must have.
pub(crate) fn value_of(expr: &Expr, column: &str, input: &BindInput<'_>) -> Result<Bytes> {
    match expr.eval(&input.scope())? {
        BoundValue::Bytes(bytes) => Ok(bytes),
        BoundValue::Null => bail!("Invalid null value in condition for column {column}"),
        BoundValue::Unset => bail!("Invalid unset value for column {column}"),
    }
}

/// The values of an equality or of IN.
pub(crate) fn values_of(test: &Test, column: &ColumnDef, input: &BindInput<'_>) -> Result<Vec<Bytes>> {
    let (ty, column) = (&column.ty, column.name.as_str());
    let one = |expr: &Expr| value_of(expr, column, input);
    match test {
        Test::Eq(expr) => Ok(vec![one(expr)?]),
        Test::In(source) => {
            let of_item = |item: Option<Bytes>| match item.filter(|value| is_a_value(value, ty)) {
                Some(value) => Ok(value),
                None => bail!("Invalid null value in condition for column {column}"),
            };
            let no_list = |nothing: &BoundValue| match nothing {
                BoundValue::Unset => format!("Invalid unset value for column {column}"),
                _ => format!("Invalid null value for column {column}"),
            };
            source.bind(input, one, of_item, no_list)
        }
        Test::Slice { .. } | Test::Contains { .. } => Ok(Vec::new()),
    }
}

/// The items of the list that `IN ?` takes. A number without bytes is a null here.
pub(crate) fn in_items<'b>(list: &'b Bytes, ty: &'b CqlType) -> impl Iterator<Item = Option<Bytes>> + 'b {
    collection::elements(list).map(|item| Some(list.slice_ref(item.filter(|value| is_a_value(value, ty))?)))
}

fn is_a_value(item: &[u8], ty: &CqlType) -> bool {
    !item.is_empty() || is_empty_a_value(ty)
}

fn token_of(expr: &Expr, input: &BindInput<'_>) -> Result<Token> {
    match expr.eval(&input.scope())? {
        BoundValue::Bytes(bytes) => match bytes.as_array::<8>() {
            Some(bytes) => Ok(Token(i64::from_be_bytes(*bytes))),
            None => bail!("Invalid null token value"),
        },
        BoundValue::Null => bail!("Invalid null token value"),
        BoundValue::Unset => bail!("Invalid unset token value"),
    }
}

/// A bound of a range of tokens, and whether it is part of it.
type TokenBound = Option<(Token, bool)>;

/// Both bounds as they were given.
fn token_bounds(test: &Test, input: &BindInput<'_>) -> Result<(TokenBound, TokenBound)> {
    let side = |end: &Option<SliceEnd>| -> Result<TokenBound> {
        match end {
            Some(end) => Ok(Some((token_of(&end.value, input)?, end.inclusive))),
            None => Ok(None),
        }
    };
    Ok(match test {
        Test::Eq(expr) => {
            let token = token_of(expr, input)?;
            (Some((token, true)), Some((token, true)))
        }
        Test::Slice { start, end } => (side(start)?, side(end)?),
        Test::In(_) | Test::Contains { .. } => (None, None),
    })
}

/// The range of tokens; `None` when it is empty. The smallest token stands for "no limit" at either end.
fn token_range(test: &Test, input: &BindInput<'_>) -> Result<Option<KeyRange>> {
    let (start, end) = token_bounds(test, input)?;
    let bounded = |side: TokenBound| side.filter(|(token, _)| *token != Token::MIN);
    if let (Some((from, from_inclusive)), Some((to, to_inclusive))) = (bounded(start), bounded(end))
        && (from > to || (from == to && !(from_inclusive && to_inclusive)))
    {
        return Ok(None);
    }
    let bound = |side: TokenBound| match bounded(side) {
        Some((token, inclusive)) => KeyBound::Token { token, inclusive },
        None => KeyBound::Unbounded,
    };
    Ok(Some(KeyRange { start: bound(start), end: bound(end) }))
}
