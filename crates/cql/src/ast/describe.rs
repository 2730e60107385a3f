//! DESCRIBE, which the server answers.

use super::{FunctionName, Identifier, QualifiedName};

/// `DESCRIBE target [WITH INTERNALS]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Describe {
    /// What is described.
    pub target: DescribeTarget,
    /// WITH INTERNALS.
    pub with_internals: bool,
}

/// What is described.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the CQL of each is given")]
pub enum DescribeTarget {
    /// `CLUSTER`.
    Cluster,
    /// `[FULL] SCHEMA`.
    Schema { full: bool },
    /// `KEYSPACES`.
    Keyspaces,
    /// `[ONLY] KEYSPACE [ks]`; without a name, the session's keyspace. `DESCRIBE SCHEMA` is
    /// [`DescribeTarget::Schema`], although SCHEMA is another word for KEYSPACE elsewhere.
    Keyspace { name: Option<Identifier>, only: bool },
    /// `TABLES`.
    Tables,
    /// `TABLE name`.
    Table(QualifiedName),
    /// `INDEX name`.
    Index(QualifiedName),
    /// `MATERIALIZED VIEW name`.
    View(QualifiedName),
    /// `TYPES`.
    Types,
    /// `TYPE name`.
    Type(QualifiedName),
    /// `FUNCTIONS`.
    Functions,
    /// `FUNCTION name`.
    Function(FunctionName),
    /// `AGGREGATES`.
    Aggregates,
    /// `AGGREGATE name`.
    Aggregate(FunctionName),
    /// Any name: a keyspace, or else a table, view or index.
    Generic(QualifiedName),
}
