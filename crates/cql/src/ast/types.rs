//! Types as a statement names them, before user types are looked up.

use model::types::CqlType;
use std::fmt;

use super::QualifiedName;

/// The types that have a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is CQL's type of that name")]
pub enum NativeType {
    Ascii,
    Bigint,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    Smallint,
    Text,
    Time,
    Timestamp,
    Timeuuid,
    Tinyint,
    Uuid,
    /// The same type as `text` under its other name.
    Varchar,
    Varint,
}

impl NativeType {
    /// The type's keyword in lower case.
    pub fn name(self) -> &'static str {
        match self {
            NativeType::Ascii => "ascii",
            NativeType::Bigint => "bigint",
            NativeType::Blob => "blob",
            NativeType::Boolean => "boolean",
            NativeType::Counter => "counter",
            NativeType::Date => "date",
            NativeType::Decimal => "decimal",
            NativeType::Double => "double",
            NativeType::Duration => "duration",
            NativeType::Float => "float",
            NativeType::Inet => "inet",
            NativeType::Int => "int",
            NativeType::Smallint => "smallint",
            NativeType::Text => "text",
            NativeType::Time => "time",
            NativeType::Timestamp => "timestamp",
            NativeType::Timeuuid => "timeuuid",
            NativeType::Tinyint => "tinyint",
            NativeType::Uuid => "uuid",
            NativeType::Varchar => "varchar",
            NativeType::Varint => "varint",
        }
    }
}

impl fmt::Display for NativeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A type as written.
#[derive(Clone, Debug, PartialEq)]
pub enum RawType {
    /// `int`, `text`, ...
    Native(NativeType),
    /// `list<T>`.
    List(Box<RawType>),
    /// `set<T>`.
    Set(Box<RawType>),
    /// `map<K, V>`.
    Map(Box<RawType>, Box<RawType>),
    /// `tuple<A, B, ...>`.
    Tuple(Vec<RawType>),
    /// `vector<T, n>`; `n` is whatever integer was written, checked by analysis.
    Vector {
        /// The type of the elements.
        element: Box<RawType>,
        /// The number of elements.
        dimensions: i32,
    },
    /// `frozen<T>`. `frozen<int>` and the like parse; analysis refuses them.
    Frozen(Box<RawType>),
    /// A user type, `[keyspace.]name`.
    User(QualifiedName),
    /// `'org.apache.cassandra.db.marshal.SomeType'`: the text between the quotes.
    Custom(String),
}

impl fmt::Display for RawType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RawType::Native(native) => write!(f, "{native}"),
            RawType::List(element) => write!(f, "list<{element}>"),
            RawType::Set(element) => write!(f, "set<{element}>"),
            RawType::Map(key, value) => write!(f, "map<{key}, {value}>"),
            RawType::Tuple(fields) => {
                f.write_str("tuple<")?;
                super::term::write_joined(f, fields, ", ")?;
                f.write_str(">")
            }
            RawType::Vector { element, dimensions } => write!(f, "vector<{element}, {dimensions}>"),
            RawType::Frozen(inner) => write!(f, "frozen<{inner}>"),
            RawType::User(name) => write!(f, "{name}"),
            RawType::Custom(class) => match CqlType::parse_class(class) {
                Ok(parsed) => write!(f, "'{}'", parsed.ty.clustering_class_name(parsed.reversed)),
                Err(_) => write!(f, "'{class}'"),
            },
        }
    }
}
