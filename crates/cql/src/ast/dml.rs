//! Writes: INSERT, UPDATE, DELETE, BATCH.

use super::{ComparisonOperator, Identifier, InValues, QualifiedName, Term, WherePredicate};

/// `USING TIMESTAMP t AND TTL s`: integer constants or markers. Given twice, the last one counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Using {
    /// Microseconds since the epoch.
    pub timestamp: Option<Term>,
    /// Seconds.
    pub ttl: Option<Term>,
}

/// `INSERT INTO table (columns) VALUES (values)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The table.
    pub table: QualifiedName,
    /// The columns.
    pub columns: Vec<Identifier>,
    /// The values; their number may differ from the columns', which analysis refuses.
    pub values: Vec<Term>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// USING.
    pub using: Using,
}

/// `INSERT INTO table JSON value`.
#[derive(Clone, Debug, PartialEq)]
pub struct InsertJson {
    /// The table.
    pub table: QualifiedName,
    /// The document.
    pub value: JsonValue,
    /// DEFAULT UNSET: columns that are absent are left alone. Otherwise (DEFAULT NULL) they are deleted.
    pub default_unset: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// USING.
    pub using: Using,
}

/// The document of `INSERT JSON`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonValue {
    /// A string constant, without its quotes.
    Literal(String),
    /// A marker.
    Marker(usize),
}

/// `UPDATE table SET ... WHERE ...`.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The table.
    pub table: QualifiedName,
    /// USING.
    pub using: Using,
    /// SET, in the order of the text. Combinations that contradict each other are refused by the parser.
    pub assignments: Vec<Assignment>,
    /// WHERE; never empty.
    pub filter: Vec<WherePredicate>,
    /// IF.
    pub condition: ModificationCondition,
}

/// One item of SET.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The column.
    pub column: Identifier,
    /// What is done to it.
    pub operation: UpdateOperation,
}

/// What an UPDATE does to a column.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateOperation {
    /// `c = term`.
    Set(Term),
    /// `c = c + term`, `c += term`: appends, adds, or increments. `c = c -3` (no blank between) is an
    /// addition of `-3`.
    Add(Term),
    /// `c = c - term`, `c -= term`.
    Subtract(Term),
    /// `c = term + c`.
    Prepend(Term),
    /// `c[key] = term`.
    SetElement {
        /// The key or the list index.
        key: Term,
        /// The value.
        value: Term,
    },
    /// `c.field = term`.
    SetField {
        /// The field.
        field: Identifier,
        /// The value.
        value: Term,
    },
}

/// `DELETE ... FROM table WHERE ...`.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// What is deleted; empty for whole rows.
    pub deletions: Vec<Deletion>,
    /// The table.
    pub table: QualifiedName,
    /// USING TIMESTAMP.
    pub timestamp: Option<Term>,
    /// WHERE; never empty.
    pub filter: Vec<WherePredicate>,
    /// IF.
    pub condition: ModificationCondition,
}

/// One item that a DELETE names.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// The column.
    pub column: Identifier,
    /// Which part of it.
    pub target: DeletionTarget,
}

/// Which part of a column is deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum DeletionTarget {
    /// The whole column.
    Column,
    /// `c[key]`.
    Element(Term),
    /// `c.field`.
    Field(Identifier),
}

/// The IF clause of UPDATE and DELETE.
#[derive(Clone, Debug, PartialEq)]
pub enum ModificationCondition {
    /// None.
    None,
    /// IF EXISTS.
    Exists,
    /// IF a AND b; never empty.
    Columns(Vec<ColumnCondition>),
}

/// One condition of an IF clause.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnCondition {
    /// The column.
    pub column: Identifier,
    /// Which part of it.
    pub target: ConditionTarget,
    /// What must hold.
    pub test: ConditionTest,
}

/// Which part of a column a condition looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionTarget {
    /// The whole column.
    Column,
    /// `c[key]`.
    Element(Term),
    /// `c.field`.
    Field(Identifier),
}

/// What a condition asks.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionTest {
    /// A comparison; CONTAINS and CONTAINS KEY only of whole columns, never LIKE.
    Compare(ComparisonOperator, Term),
    /// IN.
    In(InValues),
}

/// A statement that may stand in a batch.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant is named after its statement")]
pub enum Modification {
    Insert(Box<Insert>),
    InsertJson(Box<InsertJson>),
    Update(Box<Update>),
    Delete(Box<Delete>),
}

/// Which kind of batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}

/// `BEGIN BATCH ... APPLY BATCH`.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Which kind.
    pub kind: BatchKind,
    /// USING; a TTL parses and is refused by analysis.
    pub using: Using,
    /// The statements, in order; may be empty.
    pub statements: Vec<Modification>,
}
