//! Names: identifiers, names with an optional keyspace, and ranges of the query text.

use std::fmt;

use crate::lexer::is_reserved_word;

/// A range of bytes of the query text, `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextRange {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl TextRange {
    /// The piece of `text` that this range marks; `None` if it was made for another text.
    pub fn of(self, text: &str) -> Option<&str> {
        text.get(self.start..self.end)
    }
}

/// The name of a column, field, keyspace, table, alias or bind marker, already folded to lower case unless it
/// was quoted.
///
/// `Display` prints the name bare, as Cassandra does in most messages and in result column names;
/// [`Identifier::to_cql`] quotes it where CQL needs that.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identifier(Box<str>);

impl Identifier {
    /// A name that was not quoted: folded to lower case.
    pub fn unquoted(text: &str) -> Self {
        Identifier(text.to_ascii_lowercase().into_boxed_str())
    }

    /// A name taken as it is.
    pub fn quoted(text: impl Into<Box<str>>) -> Self {
        Identifier(text.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as CQL text: quoted if it would not read back as itself otherwise.
    pub fn to_cql(&self) -> String {
        let mut chars = self.0.chars();
        let plain = chars.next().is_some_and(|c| c.is_ascii_lowercase())
            && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && !is_reserved_word(&self.0);
        if plain { self.0.to_string() } else { format!("\"{}\"", self.0.replace('"', "\"\"")) }
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Identifier {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The name of a table, view, index or user type, with its keyspace if the statement gave one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QualifiedName {
    /// The keyspace, where given.
    pub keyspace: Option<Identifier>,
    /// The name.
    pub name: Identifier,
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        write!(f, "{}", self.name)
    }
}

/// The name of a function, with its keyspace if the statement gave one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FunctionName {
    /// The keyspace, where given. Cassandra's own functions live in `system`.
    pub keyspace: Option<Identifier>,
    /// The name.
    pub name: Identifier,
}

impl FunctionName {
    /// A function of Cassandra's own, as it prints after it was looked up: `system.token`.
    pub fn native(name: &str) -> Self {
        FunctionName { keyspace: Some(Identifier::quoted("system")), name: Identifier::quoted(name) }
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(keyspace) = &self.keyspace {
            write!(f, "{keyspace}.")?;
        }
        write!(f, "{}", self.name)
    }
}
