//! WHERE: relations between columns and terms.

use std::fmt;

use super::{Identifier, QualifiedName, Term};

/// The comparison operators. CONTAINS, CONTAINS KEY and LIKE only compare single columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ComparisonOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Contains,
    ContainsKey,
    Like,
}

impl ComparisonOperator {
    /// Whether it is `<`, `<=`, `>` or `>=`.
    pub(crate) fn is_slice(self) -> bool {
        use ComparisonOperator::*;
        matches!(self, Less | LessOrEqual | Greater | GreaterOrEqual)
    }
}

impl fmt::Display for ComparisonOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ComparisonOperator::Equal => "=",
            ComparisonOperator::NotEqual => "!=",
            ComparisonOperator::Less => "<",
            ComparisonOperator::LessOrEqual => "<=",
            ComparisonOperator::Greater => ">",
            ComparisonOperator::GreaterOrEqual => ">=",
            ComparisonOperator::Contains => "CONTAINS",
            ComparisonOperator::ContainsKey => "CONTAINS KEY",
            ComparisonOperator::Like => "LIKE",
        })
    }
}

/// The right side of IN.
#[derive(Clone, Debug, PartialEq)]
pub enum InValues {
    /// `IN ?`: one marker for the whole list.
    Marker(usize),
    /// `IN (a, b)`, empty allowed. For several columns each is a [`Term::Tuple`] or a [`Term::Marker`].
    Terms(Vec<Term>),
}

impl fmt::Display for InValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InValues::Marker(_) => f.write_str("?"),
            InValues::Terms(terms) => super::term::write_enclosed(f, "(", terms, ")"),
        }
    }
}

/// One relation.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// `column op term`.
    Column {
        /// The column; empty for the legacy `""`.
        column: Identifier,
        /// The operator.
        operator: ComparisonOperator,
        /// The right side.
        value: Term,
    },
    /// `column IS NOT NULL`.
    IsNotNull {
        /// The column.
        column: Identifier,
    },
    /// `column IN ...`.
    In {
        /// The column.
        column: Identifier,
        /// The right side.
        values: InValues,
    },
    /// `column[key] op term`.
    Element {
        /// The column.
        column: Identifier,
        /// The key in the map.
        key: Term,
        /// The operator: one of the six comparisons.
        operator: ComparisonOperator,
        /// The right side.
        value: Term,
    },
    /// `(a, b) op (1, 2)`.
    MultiColumn {
        /// The columns.
        columns: Vec<Identifier>,
        /// The operator: one of the six comparisons.
        operator: ComparisonOperator,
        /// A [`Term::Tuple`] or a [`Term::Marker`].
        value: Term,
    },
    /// `(a, b) IN ...`.
    MultiColumnIn {
        /// The columns.
        columns: Vec<Identifier>,
        /// The right side.
        values: InValues,
    },
    /// `token(a, b) op term`.
    Token {
        /// The columns.
        columns: Vec<Identifier>,
        /// The operator: one of the six comparisons.
        operator: ComparisonOperator,
        /// The right side.
        value: Term,
    },
}

impl fmt::Display for Relation {
    /// As Cassandra prints it in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use super::term::write_enclosed;
        match self {
            Relation::Column { column, operator, value } => {
                write!(f, "{} {operator} {value}", column.to_cql())
            }
            Relation::IsNotNull { column } => write!(f, "{} IS NOT NULL", column.to_cql()),
            Relation::In { column, values } => write!(f, "{} IN {values}", column.to_cql()),
            Relation::Element { column, key, operator, value } => {
                write!(f, "{}[{key}] {operator} {value}", column.to_cql())
            }
            Relation::MultiColumn { columns, operator, value } => {
                write_enclosed(f, "(", columns, ")")?;
                write!(f, " {operator} {value}")
            }
            Relation::MultiColumnIn { columns, values } => {
                write_enclosed(f, "(", columns, ")")?;
                write!(f, " IN {values}")
            }
            Relation::Token { columns, operator, value } => {
                f.write_str("token")?;
                write_enclosed(f, "(", columns, ")")?;
                write!(f, " {operator} {value}")
            }
        }
    }
}

/// One of the conditions that AND joins in WHERE.
#[derive(Clone, Debug, PartialEq)]
pub enum WherePredicate {
    /// A relation.
    Relation(Relation),
    /// `expr(index, term)`: an expression for a custom index.
    CustomIndexExpression {
        /// The index; never has a keyspace.
        index: QualifiedName,
        /// What the index is given.
        value: Term,
    },
}
