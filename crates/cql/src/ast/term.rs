//! Terms: what stands for a value in WHERE, VALUES, SET, USING and LIMIT.

use std::fmt;

use super::{FunctionName, Identifier, NativeType, RawType};

/// The lexical class of a constant. Which types accept it is analysis' business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// `'text'` or `$$text$$`; [`Literal::text`] is without the quotes, with `''` undone.
    String,
    /// `42`, `-7`: an optional minus and digits, of any length.
    Integer,
    /// `1.5`, `-1e10`, `NaN`, `Infinity`, `-Infinity`.
    Float,
    /// `true`, `false` in any case.
    Boolean,
    /// `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
    Uuid,
    /// `0x` and hexadecimal digits, kept with the prefix; the digits may be odd in number.
    Hex,
    /// `1y2mo3d`, `P1Y2M`, `P0001-02-03T04:05:06`.
    Duration,
}

/// A constant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Literal {
    /// Its lexical class.
    pub kind: LiteralKind,
    /// Its raw text.
    pub text: String,
}

impl fmt::Display for Literal {
    /// As Cassandra prints it: strings in single quotes (quotes inside are not doubled), others as written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            LiteralKind::String => write!(f, "'{}'", self.text),
            _ => f.write_str(&self.text),
        }
    }
}

/// `+`, `-`, `*`, `/`, `%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl fmt::Display for ArithmeticOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArithmeticOperator::Add => "+",
            ArithmeticOperator::Subtract => "-",
            ArithmeticOperator::Multiply => "*",
            ArithmeticOperator::Divide => "/",
            ArithmeticOperator::Modulo => "%",
        })
    }
}

/// A term.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// A constant.
    Literal(Literal),
    /// `null`.
    Null,
    /// `?` or `:name`: the index into [`ParsedStatement::markers`](super::ParsedStatement::markers).
    Marker(usize),
    /// `[a, b]`: a list or a vector.
    List(Vec<Term>),
    /// `{a, b}`. Empty braces are a set here, although they may mean an empty map.
    Set(Vec<Term>),
    /// `{k: v, ...}`.
    Map(Vec<(Term, Term)>),
    /// `{field: v, ...}`: keys are identifiers. Of a field that stands twice the last one counts.
    UserType(Vec<(Identifier, Term)>),
    /// `(a, b)`; `(a)` is a tuple of one.
    Tuple(Vec<Term>),
    /// `f(a, b)`.
    Function {
        /// The function.
        name: FunctionName,
        /// Its arguments.
        arguments: Vec<Term>,
    },
    /// `a + b` and the like.
    Operation {
        /// The operator.
        operator: ArithmeticOperator,
        /// The left operand.
        left: Box<Term>,
        /// The right operand.
        right: Box<Term>,
    },
    /// `-a` where `a` is not an integer or float constant.
    Negation(Box<Term>),
    /// `(type) a`.
    TypeHint {
        /// The type.
        target: RawType,
        /// What it is put on.
        term: Box<Term>,
    },
    /// `CAST(a AS type)`.
    Cast {
        /// What is cast.
        term: Box<Term>,
        /// To which type.
        target: NativeType,
    },
}

impl Term {
    /// Calls `visit` on the index of each bind marker in this term, in the order of the text.
    pub fn for_each_marker(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Term::Literal(_) | Term::Null => {}
            Term::Marker(index) => visit(*index),
            Term::List(terms) | Term::Set(terms) | Term::Tuple(terms) => {
                terms.iter().for_each(|term| term.for_each_marker(visit));
            }
            Term::Function { arguments, .. } => arguments.iter().for_each(|term| term.for_each_marker(visit)),
            Term::Map(entries) => entries.iter().for_each(|(key, value)| {
                key.for_each_marker(visit);
                value.for_each_marker(visit);
            }),
            Term::UserType(fields) => fields.iter().for_each(|(_, value)| value.for_each_marker(visit)),
            Term::Operation { left, right, .. } => {
                left.for_each_marker(visit);
                right.for_each_marker(visit);
            }
            Term::Negation(term) | Term::TypeHint { term, .. } | Term::Cast { term, .. } => {
                term.for_each_marker(visit);
            }
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Literal(literal) => write!(f, "{literal}"),
            Term::Null => f.write_str("NULL"),
            Term::Marker(_) => f.write_str("?"),
            Term::List(terms) => write_enclosed(f, "[", terms, "]"),
            Term::Set(terms) => write_enclosed(f, "{", terms, "}"),
            Term::Tuple(terms) => write_enclosed(f, "(", terms, ")"),
            Term::Map(entries) => write_entries(f, entries),
            Term::UserType(fields) => write_entries(f, fields),
            Term::Function { name, arguments } => {
                write!(f, "{name}")?;
                write_enclosed(f, "(", arguments, ")")
            }
            Term::Operation { operator, left, right } => write!(f, "{left} {operator} {right}"),
            Term::Negation(term) => write!(f, "-{term}"),
            Term::TypeHint { target, term } => write!(f, "({target}){term}"),
            Term::Cast { term, target } => write!(f, "cast({term} as {target})"),
        }
    }
}

/// Writes items with a separator between them.
pub(super) fn write_joined<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    separator: &str,
) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Writes items between brackets.
pub(super) fn write_enclosed<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    open: &str,
    items: &[T],
    close: &str,
) -> fmt::Result {
    f.write_str(open)?;
    write_joined(f, items, ", ")?;
    f.write_str(close)
}

/// Writes the entries of a map or of a user type.
pub(super) fn write_entries<K: fmt::Display, V: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    entries: &[(K, V)],
) -> fmt::Result {
    f.write_str("{")?;
    for (i, (key, value)) in entries.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{key}: {value}")?;
    }
    f.write_str("}")
}
