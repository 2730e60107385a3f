//! Schema statements: keyspaces, tables, types, indexes, views, functions, triggers.

use super::{FunctionName, Identifier, QualifiedName, RawType, Selection, Term, WherePredicate};

/// `name = value` after WITH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The name, folded.
    pub name: String,
    /// The value.
    pub value: PropertyValue,
}

/// The value of a property. Cassandra keeps only the text of constants: `0.1` and `'0.1'` are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// A constant or an unreserved keyword; strings without their quotes.
    Text(String),
    /// `{'key': 'value', ...}` in the order of the text; no key stands twice.
    Map(Vec<(String, String)>),
}

/// `CREATE KEYSPACE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateKeyspace {
    /// The keyspace.
    pub keyspace: Identifier,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// WITH; never empty, no name stands twice.
    pub properties: Vec<Property>,
}

/// `ALTER KEYSPACE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterKeyspace {
    /// The keyspace.
    pub keyspace: Identifier,
    /// IF EXISTS.
    pub if_exists: bool,
    /// WITH; never empty, no name stands twice.
    pub properties: Vec<Property>,
}

/// `CREATE TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// The table.
    pub table: QualifiedName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The columns in the order of the text. Duplicates are for analysis to refuse.
    pub columns: Vec<ColumnDefinition>,
    /// Each PRIMARY KEY that was given, inline ones included, in the order of the text: analysis refuses none
    /// and more than one.
    pub primary_keys: Vec<PrimaryKey>,
    /// CLUSTERING ORDER BY: column and whether it is DESC, in the order of the text.
    pub clustering_order: Vec<(Identifier, bool)>,
    /// COMPACT STORAGE.
    pub compact_storage: bool,
    /// The other properties (`ID` among them); no name stands twice.
    pub properties: Vec<Property>,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDefinition {
    /// The name.
    pub name: Identifier,
    /// The type.
    pub column_type: RawType,
    /// STATIC.
    pub is_static: bool,
    /// MASKED WITH.
    pub mask: Option<ColumnMask>,
}

/// `MASKED WITH f(a, b)`.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnMask {
    /// The function; `system.mask_default` for MASKED WITH DEFAULT.
    pub function: FunctionName,
    /// Its arguments after the column's value.
    pub arguments: Vec<Term>,
}

/// A primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// The partition key; never empty.
    pub partition_key: Vec<Identifier>,
    /// The clustering columns.
    pub clustering: Vec<Identifier>,
}

/// `ALTER TABLE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// The table.
    pub table: QualifiedName,
    /// IF EXISTS after ALTER TABLE.
    pub if_exists: bool,
    /// What is changed.
    pub action: AlterTableAction,
}

/// What ALTER TABLE changes.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTableAction {
    /// `ALTER column TYPE type`: no longer supported by Cassandra, which says so.
    AlterType {
        /// The column.
        column: Identifier,
        /// The new type.
        column_type: RawType,
    },
    /// `ALTER column MASKED WITH ...` or `DROP MASKED`.
    Mask {
        /// The column.
        column: Identifier,
        /// ALTER IF EXISTS.
        if_exists: bool,
        /// `None` for DROP MASKED.
        mask: Option<ColumnMask>,
    },
    /// `ADD`.
    Add {
        /// ADD IF NOT EXISTS.
        if_not_exists: bool,
        /// The new columns.
        columns: Vec<ColumnDefinition>,
    },
    /// `DROP`.
    Drop {
        /// DROP IF EXISTS.
        if_exists: bool,
        /// The columns.
        columns: Vec<Identifier>,
        /// USING TIMESTAMP, in microseconds.
        timestamp: Option<i64>,
    },
    /// `RENAME a TO b`.
    Rename {
        /// RENAME IF EXISTS.
        if_exists: bool,
        /// From and to.
        renames: Vec<(Identifier, Identifier)>,
    },
    /// `DROP COMPACT STORAGE`.
    DropCompactStorage,
    /// `WITH`; never empty, no name stands twice.
    With(Vec<Property>),
}

/// `CREATE TYPE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateType {
    /// The type.
    pub name: QualifiedName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The fields in the order of the text. Duplicates are for analysis to refuse.
    pub fields: Vec<(Identifier, RawType)>,
}

/// `ALTER TYPE`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterType {
    /// The type.
    pub name: QualifiedName,
    /// IF EXISTS.
    pub if_exists: bool,
    /// What is changed.
    pub action: AlterTypeAction,
}

/// What ALTER TYPE changes.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterTypeAction {
    /// `ALTER field TYPE type`: no longer supported by Cassandra, which says so.
    AlterField {
        /// The field.
        field: Identifier,
        /// The new type.
        field_type: RawType,
    },
    /// `ADD field type`.
    Add {
        /// ADD IF NOT EXISTS.
        if_not_exists: bool,
        /// The field.
        field: Identifier,
        /// Its type.
        field_type: RawType,
    },
    /// `RENAME a TO b AND ...`.
    Rename {
        /// RENAME IF EXISTS.
        if_exists: bool,
        /// From and to.
        renames: Vec<(Identifier, Identifier)>,
    },
}

/// `CREATE [CUSTOM] INDEX`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// CUSTOM.
    pub custom: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The index's name, if given.
    pub name: Option<Identifier>,
    /// The table.
    pub table: QualifiedName,
    /// What is indexed; may be empty.
    pub targets: Vec<IndexTarget>,
    /// USING: the class or the short name.
    pub using: Option<String>,
    /// WITH; no name stands twice.
    pub properties: Vec<Property>,
}

/// One target of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTarget {
    /// The column.
    pub column: Identifier,
    /// Which part of it.
    pub kind: IndexTargetKind,
}

/// Which part of a column is indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexTargetKind {
    /// `column`.
    Simple,
    /// `VALUES(column)`.
    Values,
    /// `KEYS(column)`.
    Keys,
    /// `ENTRIES(column)`.
    Entries,
    /// `FULL(column)`.
    Full,
}

/// `CREATE MATERIALIZED VIEW`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateMaterializedView {
    /// The view.
    pub view: QualifiedName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// SELECT.
    pub selection: Selection,
    /// FROM.
    pub base: QualifiedName,
    /// WHERE; empty if absent.
    pub filter: Vec<WherePredicate>,
    /// PRIMARY KEY.
    pub primary_key: PrimaryKey,
    /// CLUSTERING ORDER BY: column and whether it is DESC.
    pub clustering_order: Vec<(Identifier, bool)>,
    /// The other properties; no name stands twice.
    pub properties: Vec<Property>,
}

/// `ALTER MATERIALIZED VIEW`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterMaterializedView {
    /// The view.
    pub view: QualifiedName,
    /// IF EXISTS.
    pub if_exists: bool,
    /// WITH; never empty, no name stands twice.
    pub properties: Vec<Property>,
}

/// `CREATE [OR REPLACE] FUNCTION`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateFunction {
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The function.
    pub name: FunctionName,
    /// The arguments.
    pub arguments: Vec<(Identifier, RawType)>,
    /// CALLED ON NULL INPUT rather than RETURNS NULL ON NULL INPUT.
    pub called_on_null_input: bool,
    /// RETURNS.
    pub return_type: RawType,
    /// LANGUAGE, in lower case.
    pub language: String,
    /// AS: the source.
    pub body: String,
}

/// `CREATE [OR REPLACE] AGGREGATE`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateAggregate {
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The aggregate.
    pub name: FunctionName,
    /// The types of its arguments.
    pub argument_types: Vec<RawType>,
    /// SFUNC.
    pub state_function: Identifier,
    /// STYPE.
    pub state_type: RawType,
    /// FINALFUNC.
    pub final_function: Option<Identifier>,
    /// INITCOND.
    pub initial_condition: Option<Term>,
}

/// The function or aggregate that a DROP names.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSignature {
    /// IF EXISTS.
    pub if_exists: bool,
    /// The name.
    pub name: FunctionName,
    /// The types of the arguments, if a list was given (an empty one is a list).
    pub argument_types: Option<Vec<RawType>>,
}

/// `CREATE TRIGGER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTrigger {
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The trigger.
    pub name: Identifier,
    /// ON.
    pub table: QualifiedName,
    /// USING.
    pub class: String,
}
