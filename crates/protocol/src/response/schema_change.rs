//! Schema changes: a kind of result and a kind of event, with one body.
//!
//! ```text
//! string CREATED, UPDATED, DROPPED
//! string KEYSPACE                     | string keyspace
//! string TABLE, TYPE                  | string keyspace | string name
//! string FUNCTION, AGGREGATE (v4, v5) | string keyspace | string name | string list of argument types
//! ```
//!
//! v3 knows no functions: a change of one is an update of its keyspace. Indexes are updates of their table,
//! views are tables.

use bytes::BytesMut;

#[cfg(any(test, feature = "client"))]
use crate::error::BodyError;
#[cfg(any(test, feature = "client"))]
use crate::primitives::Reader;
use crate::primitives::{put_string, put_string_list};
use crate::version::ProtocolVersion;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It is different.
    Updated,
    /// It is gone.
    Dropped,
}

impl ChangeKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Updated => "UPDATED",
            Self::Dropped => "DROPPED",
        }
    }
}

/// What it happened to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ChangeTarget {
    /// The keyspace itself.
    Keyspace,
    /// A table or a view.
    Table { name: String },
    /// A user-defined type.
    Type { name: String },
    /// A function.
    Function { name: String, argument_types: Vec<String> },
    /// An aggregate.
    Aggregate { name: String, argument_types: Vec<String> },
}

/// A change of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange {
    /// What happened.
    pub kind: ChangeKind,
    /// The keyspace in which it happened.
    pub keyspace: String,
    /// What it happened to.
    pub target: ChangeTarget,
}

impl SchemaChange {
    /// Appends the body.
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        let (word, name, argument_types) = match &self.target {
            ChangeTarget::Keyspace => ("KEYSPACE", None, None),
            ChangeTarget::Table { name } => ("TABLE", Some(name), None),
            ChangeTarget::Type { name } => ("TYPE", Some(name), None),
            ChangeTarget::Function { .. } | ChangeTarget::Aggregate { .. }
                if version < ProtocolVersion::V4 =>
            {
                put_string(out, ChangeKind::Updated.name());
                put_string(out, "KEYSPACE");
                put_string(out, &self.keyspace);
                return;
            }
            ChangeTarget::Function { name, argument_types } => ("FUNCTION", Some(name), Some(argument_types)),
            ChangeTarget::Aggregate { name, argument_types } => {
                ("AGGREGATE", Some(name), Some(argument_types))
            }
        };
        put_string(out, self.kind.name());
        put_string(out, word);
        put_string(out, &self.keyspace);
        if let Some(name) = name {
            put_string(out, name);
        }
        if let Some(types) = argument_types {
            put_string_list(out, types);
        }
    }

    /// Reads the body.
    #[cfg(any(test, feature = "client"))]
    pub fn decode(reader: &mut Reader) -> Result<Self, BodyError> {
        let word = reader.string()?;
        let kind = match word.as_str() {
            "CREATED" => ChangeKind::Created,
            "UPDATED" => ChangeKind::Updated,
            "DROPPED" => ChangeKind::Dropped,
            _ => return Err(BodyError::Tag { what: "schema change", tag: word }),
        };
        let word = reader.string()?;
        let keyspace = reader.string()?;
        let target = match word.as_str() {
            "KEYSPACE" => ChangeTarget::Keyspace,
            "TABLE" => ChangeTarget::Table { name: reader.string()? },
            "TYPE" => ChangeTarget::Type { name: reader.string()? },
            "FUNCTION" => {
                ChangeTarget::Function { name: reader.string()?, argument_types: reader.string_list()? }
            }
            "AGGREGATE" => {
                ChangeTarget::Aggregate { name: reader.string()?, argument_types: reader.string_list()? }
            }
            _ => return Err(BodyError::Tag { what: "schema change target", tag: word }),
        };
        Ok(Self { kind, keyspace, target })
    }
}
