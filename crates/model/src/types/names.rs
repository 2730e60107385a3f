//! Both spellings of a type: CQL text (`frozen<list<text>>`) and Cassandra's class strings
//! (docs/formats/sstable-big.md).

use super::{Component, CqlType};
use std::fmt;

/// The package of Cassandra's own classes.
pub(crate) const MARSHAL: &str = "org.apache.cassandra.db.marshal.";

/// A class string or a CQL type name that names no type.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid type name '{text}': {reason}")]
pub struct TypeNameError {
    /// The whole string.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// CQL text, as system_schema and DESCRIBE spell it; names of user types are quoted where they have to be.
impl fmt::Display for CqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqlType::List { element, multi_cell } => frozen(f, *multi_cell, format_args!("list<{element}>")),
            CqlType::Set { element, multi_cell } => frozen(f, *multi_cell, format_args!("set<{element}>")),
            CqlType::Map { key, value, multi_cell } => {
                frozen(f, *multi_cell, format_args!("map<{key}, {value}>"))
            }
            CqlType::Udt { definition, multi_cell } => {
                frozen(f, *multi_cell, format_args!("{}", NameInTypes(&definition.name)))
            }
            CqlType::Tuple(types) => {
                f.write_str("frozen<tuple<")?;
                for (i, ty) in types.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{ty}")?;
                }
                f.write_str(">>")
            }
            CqlType::Vector { element, dimension } => write!(f, "vector<{element}, {dimension}>"),
            CqlType::Composite(_) | CqlType::DynamicComposite(_) => write!(f, "'{}'", self.class_name()),
            CqlType::Custom(class) => write!(f, "'{class}'"),
            simple => f.write_str(simple.simple_names().0),
        }
    }
}

fn frozen(f: &mut fmt::Formatter<'_>, multi_cell: bool, inner: fmt::Arguments<'_>) -> fmt::Result {
    if multi_cell { write!(f, "{inner}") } else { write!(f, "frozen<{inner}>") }
}

/// An identifier as CQL text: quoted unless it is lower-case and plain. (Reserved words need quotes too; the
/// `cql` crate, which knows them, adds those.)
pub struct QuotedName<'a>(pub &'a str);

impl fmt::Display for QuotedName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.0.starts_with(|c: char| c.is_ascii_lowercase())
            && self.0.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if plain { f.write_str(self.0) } else { write!(f, "\"{}\"", self.0.replace('"', "\"\"")) }
    }
}

/// Words that CQL does not take for the name of a type, sorted. The lexer of the `cql` crate has them among
/// all its words, and a test there holds the two together.
const RESERVED: [&str; 66] = [
    "add",
    "allow",
    "alter",
    "and",
    "apply",
    "asc",
    "authorize",
    "batch",
    "begin",
    "by",
    "cast",
    "columnfamily",
    "count",
    "create",
    "delete",
    "desc",
    "describe",
    "distinct",
    "drop",
    "entries",
    "execute",
    "false",
    "from",
    "full",
    "grant",
    "if",
    "in",
    "index",
    "infinity",
    "insert",
    "into",
    "is",
    "json",
    "keyspace",
    "limit",
    "materialized",
    "maxwritetime",
    "modify",
    "nan",
    "norecursive",
    "not",
    "null",
    "of",
    "on",
    "or",
    "order",
    "primary",
    "rename",
    "revoke",
    "schema",
    "select",
    "set",
    "table",
    "to",
    "token",
    "true",
    "truncate",
    "ttl",
    "unlogged",
    "update",
    "use",
    "using",
    "view",
    "where",
    "with",
    "writetime",
];

/// Words that no user type can have for a name without quotes, because CQL may use them for a type one day.
const RESERVED_TYPES: [&str; 7] = ["bitstring", "byte", "complex", "enum", "interval", "macaddr", "date"];

/// Whether a name in lower case would be read as something else when it stands unquoted in the name of a
/// type: as a type of CQL's own, or as no name at all. Cassandra writes `int` for a user type of that name,
/// and does not find it again.
pub fn is_quoted_in_types(name: &str) -> bool {
    CqlType::from_native_name(name).is_some()
        || RESERVED_TYPES.contains(&name)
        || RESERVED.binary_search(&name).is_ok()
}

/// The name of a user type inside the name of a type: quoted, too, where it is a word of the language.
struct NameInTypes<'a>(&'a str);

impl fmt::Display for NameInTypes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_quoted_in_types(self.0) { write!(f, "\"{}\"", self.0) } else { QuotedName(self.0).fmt(f) }
    }
}

/// Every type without parameters.
const NATIVE: [CqlType; 21] = [
    CqlType::Ascii,
    CqlType::BigInt,
    CqlType::Blob,
    CqlType::Boolean,
    CqlType::Counter,
    CqlType::Date,
    CqlType::Decimal,
    CqlType::Double,
    CqlType::Duration,
    CqlType::Empty,
    CqlType::Float,
    CqlType::Inet,
    CqlType::Int,
    CqlType::SmallInt,
    CqlType::Text,
    CqlType::Time,
    CqlType::Timestamp,
    CqlType::TimeUuid,
    CqlType::TinyInt,
    CqlType::Uuid,
    CqlType::Varint,
];

impl CqlType {
    /// CQL name and class name of a type without parameters.
    fn simple_names(&self) -> (&'static str, &'static str) {
        match self {
            CqlType::Ascii => ("ascii", "AsciiType"),
            CqlType::BigInt => ("bigint", "LongType"),
            CqlType::Boolean => ("boolean", "BooleanType"),
            CqlType::Counter => ("counter", "CounterColumnType"),
            CqlType::Date => ("date", "SimpleDateType"),
            CqlType::Decimal => ("decimal", "DecimalType"),
            CqlType::Double => ("double", "DoubleType"),
            CqlType::Duration => ("duration", "DurationType"),
            CqlType::Empty => ("empty", "EmptyType"),
            CqlType::Float => ("float", "FloatType"),
            CqlType::Inet => ("inet", "InetAddressType"),
            CqlType::Int => ("int", "Int32Type"),
            CqlType::LexicalUuid => ("'org.apache.cassandra.db.marshal.LexicalUUIDType'", "LexicalUUIDType"),
            CqlType::SmallInt => ("smallint", "ShortType"),
            CqlType::Text => ("text", "UTF8Type"),
            CqlType::Time => ("time", "TimeType"),
            CqlType::Timestamp => ("timestamp", "TimestampType"),
            CqlType::TimeUuid => ("timeuuid", "TimeUUIDType"),
            CqlType::TinyInt => ("tinyint", "ByteType"),
            CqlType::Uuid => ("uuid", "UUIDType"),
            CqlType::Varint => ("varint", "IntegerType"),
            _ => ("blob", "BytesType"),
        }
    }

    /// The type of a native class name without its package, old names included.
    pub(super) fn from_native_class(name: &str) -> Option<CqlType> {
        Some(match name {
            "BytesType" => CqlType::Blob,
            "DateType" => CqlType::Timestamp,
            "LexicalUUIDType" => CqlType::LexicalUuid,
            "LegacyTimeUUIDType" => CqlType::TimeUuid,
            _ => return NATIVE.iter().find(|t| t.simple_names().1 == name).cloned(),
        })
    }

    /// The type of a native CQL name (`varchar` included), `None` for other words.
    pub fn from_native_name(name: &str) -> Option<CqlType> {
        if name == "varchar" {
            return Some(CqlType::Text);
        }
        NATIVE.iter().find(|t| t.simple_names().0 == name).cloned()
    }

    /// The name of the type's class without its package.
    pub(crate) fn simple_class(&self) -> &str {
        match self {
            CqlType::List { .. } => "ListType",
            CqlType::Set { .. } => "SetType",
            CqlType::Map { .. } => "MapType",
            CqlType::Tuple(_) => "TupleType",
            CqlType::Udt { .. } => "UserType",
            CqlType::Vector { .. } => "VectorType",
            CqlType::Composite(_) => "CompositeType",
            CqlType::DynamicComposite(_) => "DynamicCompositeType",
            CqlType::Custom(class) => class,
            simple => simple.simple_names().1,
        }
    }

    /// The class string of a clustering column of the type: in `ReversedType` when it is in descending order.
    pub fn clustering_class_name(&self, descending: bool) -> String {
        match descending {
            true => format!("{MARSHAL}ReversedType({})", self.class_name()),
            false => self.class_name(),
        }
    }

    /// The class string of the type as SSTable headers and the native protocol's custom types spell it.
    pub fn class_name(&self) -> String {
        let mut out = String::new();
        self.write_class(&mut out, true);
        out
    }

    /// `show_frozen` is off inside a frozen type, whose nested types are printed bare.
    fn write_class(&self, out: &mut String, show_frozen: bool) {
        let wrap = show_frozen
            && matches!(
                self,
                CqlType::List { multi_cell: false, .. }
                    | CqlType::Set { multi_cell: false, .. }
                    | CqlType::Map { multi_cell: false, .. }
                    | CqlType::Udt { multi_cell: false, .. }
            );
        if wrap {
            out.push_str(MARSHAL);
            out.push_str("FrozenType(");
        }
        // Inside a frozen type nothing is marked again; a vector is transparent, a multi-cell type marks its
        // parts.
        let nested = show_frozen && !wrap;
        match self {
            CqlType::List { element, .. } => class_args(out, "ListType", [element.as_ref()], nested),
            CqlType::Set { element, .. } => class_args(out, "SetType", [element.as_ref()], nested),
            CqlType::Map { key, value, .. } => {
                class_args(out, "MapType", [key.as_ref(), value.as_ref()], nested);
            }
            // A tuple is frozen by nature: it carries no marker, and neither do its parts.
            CqlType::Tuple(types) => class_args(out, "TupleType", types.iter(), false),
            CqlType::Vector { element, dimension } => {
                out.push_str(MARSHAL);
                out.push_str("VectorType(");
                element.write_class(out, nested);
                out.push_str(&format!(" , {dimension})"));
            }
            CqlType::Udt { definition, .. } => {
                out.push_str(MARSHAL);
                out.push_str("UserType(");
                out.push_str(&definition.keyspace);
                out.push(',');
                push_hex(out, definition.name.as_bytes());
                for (name, ty) in &definition.fields {
                    out.push(',');
                    push_hex(out, name.as_bytes());
                    out.push(':');
                    ty.write_class(out, nested);
                }
                out.push(')');
            }
            CqlType::Composite(components) => {
                let components = components.iter().map(|component| (None, component));
                component_args(out, "CompositeType", components);
            }
            CqlType::DynamicComposite(aliases) => {
                let components = aliases.iter().map(|(alias, component)| (Some(*alias), component));
                component_args(out, "DynamicCompositeType", components);
            }
            CqlType::Custom(class) => out.push_str(class),
            simple => {
                out.push_str(MARSHAL);
                out.push_str(simple.simple_names().1);
            }
        }
        if wrap {
            out.push(')');
        }
    }
}

fn class_args<'t>(
    out: &mut String,
    class: &str,
    args: impl IntoIterator<Item = &'t CqlType>,
    show_frozen: bool,
) {
    out.push_str(MARSHAL);
    out.push_str(class);
    out.push('(');
    for (i, arg) in args.into_iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        arg.write_class(out, show_frozen);
    }
    out.push(')');
}

/// What is inside of a composite is marked as frozen or not whatever the composite is in.
fn component_args<'t>(
    out: &mut String,
    class: &str,
    components: impl Iterator<Item = (Option<u8>, &'t Component)>,
) {
    out.push_str(MARSHAL);
    out.push_str(class);
    out.push('(');
    for (i, (alias, component)) in components.enumerate() {
        if i > 0 {
            out.push(',');
        }
        if let Some(alias) = alias {
            out.push(char::from(alias));
            out.push_str("=>");
        }
        out.push_str(&component.class_name());
    }
    out.push(')');
}

fn push_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        out.push_str(&format!("{byte:02x}"));
    }
}
