//! What a SELECT clause (and GROUP BY) may name: columns, functions, arithmetic, parts of values, literals.

use std::fmt;

use super::term::{write_enclosed, write_entries};
use super::{ArithmeticOperator, FunctionName, Identifier, NativeType, RawType, Term, TextRange};

/// One item of a SELECT clause.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// What is selected.
    pub selectable: Selectable,
    /// `AS alias`.
    pub alias: Option<Identifier>,
    /// Where the item stands in the query, without its alias.
    pub text: TextRange,
}

/// Which of the three cell functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum WritetimeKind {
    Writetime,
    MaxWritetime,
    Ttl,
}

impl fmt::Display for WritetimeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WritetimeKind::Writetime => "writetime",
            WritetimeKind::MaxWritetime => "maxwritetime",
            WritetimeKind::Ttl => "ttl",
        })
    }
}

/// A part of a value: of a user type, a map, a set or a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Subselection {
    /// `.field`.
    Field(Identifier),
    /// `[key]`.
    Element(Term),
    /// `[from..to]`, either end open. Both ends are inclusive.
    Slice {
        /// The first key.
        from: Option<Term>,
        /// The last key.
        to: Option<Term>,
    },
}

impl fmt::Display for Subselection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subselection::Field(field) => write!(f, ".{field}"),
            Subselection::Element(key) => write!(f, "[{key}]"),
            Subselection::Slice { from, to } => {
                f.write_str("[")?;
                if let Some(from) = from {
                    write!(f, "{from}")?;
                }
                f.write_str("..")?;
                if let Some(to) = to {
                    write!(f, "{to}")?;
                }
                f.write_str("]")
            }
        }
    }
}

/// Something that can be selected. `Display` is its result column's name, except that functions and user
/// types print as written while Cassandra prints them with their keyspace: for functions analysis gives the
/// resolved names through [`Selectable::column_name`].
#[derive(Clone, Debug, PartialEq)]
pub enum Selectable {
    /// A column (or, inside a `{field: value}` literal, a field's name).
    Column(Identifier),
    /// A constant, `null` or a bind marker; no other kind of term appears here.
    Term(Term),
    /// `count(*)`. `count` of a constant is a function call here; see [`Selectable::is_count_rows`].
    CountRows,
    /// `writetime(column...)`, `maxwritetime(...)`, `ttl(...)`.
    Writetime {
        /// Which of them.
        kind: WritetimeKind,
        /// The column.
        column: Identifier,
        /// The part of the column's value, outermost first; empty for the whole column.
        path: Vec<Subselection>,
    },
    /// `CAST(selectable AS type)`.
    Cast {
        /// What is cast.
        selectable: Box<Selectable>,
        /// To which type.
        target: NativeType,
    },
    /// `f(a, b)`, `token(a)` and `count(a)` among them.
    Function {
        /// The function.
        name: FunctionName,
        /// Its arguments.
        arguments: Vec<Selectable>,
    },
    /// `a + b` and the like.
    Operation {
        /// The operator.
        operator: ArithmeticOperator,
        /// The left operand.
        left: Box<Selectable>,
        /// The right operand.
        right: Box<Selectable>,
    },
    /// `-a` where `a` is not an integer or float constant.
    Negation(Box<Selectable>),
    /// `a.field`, `a[key]`, `a[from..to]`.
    Part {
        /// The whole.
        of: Box<Selectable>,
        /// Which part.
        part: Subselection,
    },
    /// `(type) a`.
    TypeHint {
        /// The type.
        target: RawType,
        /// What it is put on.
        selectable: Box<Selectable>,
    },
    /// `(a, b)`. With one element: either a tuple of one or plain parentheses, which is for analysis to tell.
    Tuple(Vec<Selectable>),
    /// `[a, b]`: a list or a vector.
    List(Vec<Selectable>),
    /// `{a, b}`; empty braces may also mean an empty map.
    Set(Vec<Selectable>),
    /// `{a: b}`: a map, or a user type if the keys are [`Selectable::Column`] and the expected type says so.
    MapOrUserType(Vec<(Selectable, Selectable)>),
}

impl Selectable {
    /// The name of the result column, with each function's name replaced by what `resolve` gives for it (for
    /// Cassandra's own functions that is [`FunctionName::native`]). `resolve` gets the arguments as well, so
    /// that overloads can be told apart; returning `None` keeps the name as written.
    pub fn column_name(
        &self,
        resolve: &dyn Fn(&FunctionName, &[Selectable]) -> Option<FunctionName>,
    ) -> String {
        self.resolved(resolve).to_string()
    }

    /// Whether this counts rows: `count(*)`, or `count` of a constant, which Cassandra takes for the same.
    pub fn is_count_rows(&self) -> bool {
        match self {
            Selectable::CountRows => true,
            Selectable::Function { name, arguments } => {
                name.name.as_str() == "count"
                    && name.keyspace.as_ref().is_none_or(|keyspace| keyspace.as_str() == "system")
                    && matches!(arguments.as_slice(), [Selectable::Term(Term::Literal(_))])
            }
            _ => false,
        }
    }

    /// This tree with the functions' names resolved.
    fn resolved(&self, resolve: &dyn Fn(&FunctionName, &[Selectable]) -> Option<FunctionName>) -> Selectable {
        let boxed = |selectable: &Selectable| Box::new(selectable.resolved(resolve));
        let each = |items: &[Selectable]| items.iter().map(|item| item.resolved(resolve)).collect();
        match self {
            Selectable::Column(_)
            | Selectable::Term(_)
            | Selectable::CountRows
            | Selectable::Writetime { .. } => self.clone(),
            _ if self.is_count_rows() => Selectable::CountRows,
            Selectable::Cast { selectable, target } => {
                Selectable::Cast { selectable: boxed(selectable), target: *target }
            }
            Selectable::Function { name, arguments } => Selectable::Function {
                name: resolve(name, arguments).unwrap_or_else(|| name.clone()),
                arguments: each(arguments),
            },
            Selectable::Operation { operator, left, right } => {
                Selectable::Operation { operator: *operator, left: boxed(left), right: boxed(right) }
            }
            Selectable::Negation(inner) => Selectable::Negation(boxed(inner)),
            Selectable::Part { of, part } => Selectable::Part { of: boxed(of), part: part.clone() },
            Selectable::TypeHint { target, selectable } => {
                Selectable::TypeHint { target: target.clone(), selectable: boxed(selectable) }
            }
            Selectable::Tuple(items) => Selectable::Tuple(each(items)),
            Selectable::List(items) => Selectable::List(each(items)),
            Selectable::Set(items) => Selectable::Set(each(items)),
            Selectable::MapOrUserType(entries) => Selectable::MapOrUserType(
                entries.iter().map(|(key, value)| (key.resolved(resolve), value.resolved(resolve))).collect(),
            ),
        }
    }
}

impl fmt::Display for Selectable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selectable::Column(column) => write!(f, "{column}"),
            Selectable::Term(term) => write!(f, "{term}"),
            Selectable::CountRows => f.write_str("count"),
            Selectable::Writetime { kind, column, path } => {
                write!(f, "{kind}({column}")?;
                for part in path {
                    write!(f, "{part}")?;
                }
                f.write_str(")")
            }
            Selectable::Cast { selectable, target } => write!(f, "cast({selectable} as {target})"),
            Selectable::Function { name, arguments } => {
                write!(f, "{name}")?;
                write_enclosed(f, "(", arguments, ")")
            }
            Selectable::Operation { operator, left, right } => write!(f, "{left} {operator} {right}"),
            Selectable::Negation(inner) => write!(f, "-{inner}"),
            Selectable::Part { of, part } => write!(f, "{of}{part}"),
            Selectable::TypeHint { target, selectable } => write!(f, "({target}){selectable}"),
            Selectable::Tuple(items) => write_enclosed(f, "(", items, ")"),
            Selectable::List(items) => write_enclosed(f, "[", items, "]"),
            Selectable::Set(items) => write_enclosed(f, "{", items, "}"),
            Selectable::MapOrUserType(entries) => write_entries(f, entries),
        }
    }
}
