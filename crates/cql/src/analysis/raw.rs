//! Terms and selectables in one shape, so that their types and their values are defined once.

use crate::ast::{
    ArithmeticOperator, FunctionName, Identifier, Literal, NativeType, RawType, Selectable, Subselection,
    Term, WritetimeKind,
};
use std::fmt;

/// An expression as written. Borrowed from the statement's tree.
#[derive(Clone, Debug)]
pub(crate) enum Raw<'a> {
    Literal(&'a Literal),
    Null,
    Marker(usize),
    Column(&'a Identifier),
    CountRows,
    CellInfo { kind: WritetimeKind, column: &'a Identifier, path: &'a [Subselection] },
    Function { name: &'a FunctionName, arguments: Vec<Raw<'a>> },
    Operation { operator: ArithmeticOperator, left: Box<Raw<'a>>, right: Box<Raw<'a>> },
    Negation(Box<Raw<'a>>),
    Part { of: Box<Raw<'a>>, part: &'a Subselection },
    Hint { target: &'a RawType, of: Box<Raw<'a>> },
    Cast { of: Box<Raw<'a>>, target: NativeType },
    Tuple(Vec<Raw<'a>>),
    List(Vec<Raw<'a>>),
    Set(Vec<Raw<'a>>),
    Map(Vec<(Raw<'a>, Raw<'a>)>),
    UserType(Vec<(&'a Identifier, Raw<'a>)>),
}

impl<'a> From<&'a Term> for Raw<'a> {
    fn from(term: &'a Term) -> Raw<'a> {
        let all = |terms: &'a [Term]| terms.iter().map(Raw::from).collect();
        let boxed = |term: &'a Term| Box::new(Raw::from(term));
        match term {
            Term::Literal(literal) => Raw::Literal(literal),
            Term::Null => Raw::Null,
            Term::Marker(index) => Raw::Marker(*index),
            Term::List(terms) => Raw::List(all(terms)),
            Term::Set(terms) => Raw::Set(all(terms)),
            Term::Map(entries) => Raw::Map(entries.iter().map(|(k, v)| (k.into(), v.into())).collect()),
            Term::UserType(fields) => Raw::UserType(fields.iter().map(|(n, v)| (n, v.into())).collect()),
            Term::Tuple(terms) => Raw::Tuple(all(terms)),
            Term::Function { name, arguments } => Raw::Function { name, arguments: all(arguments) },
            Term::Operation { operator, left, right } => {
                Raw::Operation { operator: *operator, left: boxed(left), right: boxed(right) }
            }
            Term::Negation(term) => Raw::Negation(boxed(term)),
            Term::TypeHint { target, term } => Raw::Hint { target, of: boxed(term) },
            Term::Cast { term, target } => Raw::Cast { of: boxed(term), target: *target },
        }
    }
}

impl<'a> From<&'a Selectable> for Raw<'a> {
    fn from(selectable: &'a Selectable) -> Raw<'a> {
        let all = |items: &'a [Selectable]| items.iter().map(Raw::from).collect();
        let boxed = |item: &'a Selectable| Box::new(Raw::from(item));
        match selectable {
            Selectable::Column(name) => Raw::Column(name),
            Selectable::Term(term) => term.into(),
            Selectable::CountRows => Raw::CountRows,
            Selectable::Writetime { kind, column, path } => Raw::CellInfo { kind: *kind, column, path },
            Selectable::Cast { selectable, target } => Raw::Cast { of: boxed(selectable), target: *target },
            Selectable::Function { .. } if selectable.is_count_rows() => Raw::CountRows,
            Selectable::Function { name, arguments } => Raw::Function { name, arguments: all(arguments) },
            Selectable::Operation { operator, left, right } => {
                Raw::Operation { operator: *operator, left: boxed(left), right: boxed(right) }
            }
            Selectable::Negation(item) => Raw::Negation(boxed(item)),
            Selectable::Part { of, part } => Raw::Part { of: boxed(of), part },
            Selectable::TypeHint { target, selectable } => Raw::Hint { target, of: boxed(selectable) },
            Selectable::Tuple(items) => Raw::Tuple(all(items)),
            Selectable::List(items) => Raw::List(all(items)),
            Selectable::Set(items) => Raw::Set(all(items)),
            Selectable::MapOrUserType(entries) => {
                Raw::Map(entries.iter().map(|(k, v)| (k.into(), v.into())).collect())
            }
        }
    }
}

impl<'a> Raw<'a> {
    /// Whether a bind marker stands anywhere in the expression.
    pub(crate) fn has_marker(&self) -> bool {
        match self {
            Raw::Marker(_) => true,
            Raw::Literal(_) | Raw::Null | Raw::Column(_) | Raw::CountRows | Raw::CellInfo { .. } => false,
            Raw::Function { arguments: items, .. }
            | Raw::Tuple(items)
            | Raw::List(items)
            | Raw::Set(items) => items.iter().any(Raw::has_marker),
            Raw::Operation { left, right, .. } => left.has_marker() || right.has_marker(),
            Raw::Negation(of) | Raw::Part { of, .. } | Raw::Hint { of, .. } | Raw::Cast { of, .. } => {
                of.has_marker()
            }
            Raw::Map(entries) => entries.iter().any(|(k, v)| k.has_marker() || v.has_marker()),
            Raw::UserType(fields) => fields.iter().any(|(_, v)| v.has_marker()),
        }
    }

    /// Whether a map or a user type, with anything in it, is spelled out anywhere in the expression.
    pub(crate) fn has_entries(&self) -> bool {
        match self {
            Raw::Map(entries) => !entries.is_empty(),
            Raw::UserType(fields) => !fields.is_empty(),
            Raw::Literal(_) | Raw::Null | Raw::Marker(_) | Raw::Column(_) => false,
            Raw::CountRows | Raw::CellInfo { .. } => false,
            Raw::Function { arguments: items, .. }
            | Raw::Tuple(items)
            | Raw::List(items)
            | Raw::Set(items) => items.iter().any(Raw::has_entries),
            Raw::Operation { left, right, .. } => left.has_entries() || right.has_entries(),
            Raw::Negation(of) | Raw::Part { of, .. } | Raw::Hint { of, .. } | Raw::Cast { of, .. } => {
                of.has_entries()
            }
        }
    }

    /// The type hints in the expression.
    pub(crate) fn for_each_hint(&self, visit: &mut dyn FnMut(&'a RawType)) {
        match self {
            Raw::Literal(_) | Raw::Null | Raw::Marker(_) | Raw::Column(_) => {}
            Raw::CountRows | Raw::CellInfo { .. } => {}
            Raw::Function { arguments: items, .. }
            | Raw::Tuple(items)
            | Raw::List(items)
            | Raw::Set(items) => items.iter().for_each(|item| item.for_each_hint(visit)),
            Raw::Operation { left, right, .. } => {
                left.for_each_hint(visit);
                right.for_each_hint(visit);
            }
            Raw::Hint { target, of } => {
                visit(target);
                of.for_each_hint(visit);
            }
            Raw::Negation(of) | Raw::Part { of, .. } | Raw::Cast { of, .. } => of.for_each_hint(visit),
            Raw::Map(entries) => entries.iter().for_each(|(key, value)| {
                key.for_each_hint(visit);
                value.for_each_hint(visit);
            }),
            Raw::UserType(fields) => fields.iter().for_each(|(_, value)| value.for_each_hint(visit)),
        }
    }

    /// The columns that the expression names. Keys of a `{name: value}` literal may be fields of a user type
    /// as well, and are left out.
    pub(crate) fn for_each_column(&self, visit: &mut dyn FnMut(&'a Identifier)) {
        match self {
            Raw::Column(name) | Raw::CellInfo { column: name, .. } => visit(name),
            Raw::Literal(_) | Raw::Null | Raw::Marker(_) | Raw::CountRows => {}
            Raw::Function { arguments: items, .. }
            | Raw::Tuple(items)
            | Raw::List(items)
            | Raw::Set(items) => items.iter().for_each(|item| item.for_each_column(visit)),
            Raw::Operation { left, right, .. } => {
                left.for_each_column(visit);
                right.for_each_column(visit);
            }
            Raw::Negation(of) | Raw::Part { of, .. } | Raw::Hint { of, .. } | Raw::Cast { of, .. } => {
                of.for_each_column(visit);
            }
            Raw::Map(entries) => entries.iter().for_each(|(key, value)| {
                if !matches!(key, Raw::Column(_)) {
                    key.for_each_column(visit);
                }
                value.for_each_column(visit);
            }),
            Raw::UserType(fields) => fields.iter().for_each(|(_, value)| value.for_each_column(visit)),
        }
    }

    /// The entries of a map literal as fields of a user type, if every key is a name.
    pub(crate) fn as_fields(&self) -> Option<Vec<(&'a Identifier, &Raw<'a>)>> {
        match self {
            Raw::UserType(fields) => Some(fields.iter().map(|(name, value)| (*name, value)).collect()),
            Raw::Map(entries) => entries
                .iter()
                .map(|(key, value)| match key {
                    Raw::Column(name) => Some((*name, value)),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }
}

fn write_all<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    open: &str,
    items: &[T],
    close: &str,
) -> fmt::Result {
    f.write_str(open)?;
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    f.write_str(close)
}

/// As the trees themselves print; names of Cassandra's own functions are printed with their keyspace, as
/// after a lookup.
impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Literal(literal) => write!(f, "{literal}"),
            Raw::Null => f.write_str("NULL"),
            Raw::Marker(_) => f.write_str("?"),
            Raw::Column(name) => write!(f, "{name}"),
            Raw::CountRows => f.write_str("count"),
            Raw::CellInfo { kind, column, path } => {
                write!(f, "{kind}({column}")?;
                for part in *path {
                    write!(f, "{part}")?;
                }
                f.write_str(")")
            }
            Raw::Function { name, arguments } => {
                write!(f, "{}", crate::functions::resolved_name(name))?;
                write_all(f, "(", arguments, ")")
            }
            Raw::Operation { operator, left, right } => write!(f, "{left} {operator} {right}"),
            Raw::Negation(of) => write!(f, "-{of}"),
            Raw::Part { of, part } => write!(f, "{of}{part}"),
            Raw::Hint { target, of } => write!(f, "({target}){of}"),
            Raw::Cast { of, target } => write!(f, "cast({of} as {target})"),
            Raw::Tuple(items) => write_all(f, "(", items, ")"),
            Raw::List(items) => write_all(f, "[", items, "]"),
            Raw::Set(items) => write_all(f, "{", items, "}"),
            Raw::Map(entries) => {
                let shown: Vec<String> = entries.iter().map(|(k, v)| format!("{k}: {v}")).collect();
                write_all(f, "{", &shown, "}")
            }
            Raw::UserType(fields) => {
                let shown: Vec<String> = fields.iter().map(|(k, v)| format!("{k}: {v}")).collect();
                write_all(f, "{", &shown, "}")
            }
        }
    }
}
