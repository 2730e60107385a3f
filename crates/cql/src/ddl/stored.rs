//! Types that the schema could not give back.
//!
//! Its tables hold the types of columns and fields as text. A Cassandra parses it when it starts
//! (`CQLTypeParser.parse`, `Types.RawBuilder`), and some types that are written as classes have a text that
//! it refuses: a counter in a tuple, a duration in a set, `empty` in anything. Then it does not start.

use super::types;
use crate::error::{Result, bail};
use crate::parser;
use model::KeyspaceSchema;
use model::types::CqlType;
use std::fmt;

/// Refuses a type of a column that could not be loaded again. `keyspace` has the user types.
pub(super) fn check_column(name: impl fmt::Display, ty: &CqlType, keyspace: &KeyspaceSchema) -> Result<()> {
    // What has a name of its own is looked up, and not parsed.
    if ty.inner().is_empty() && !matches!(ty, CqlType::Udt { .. }) {
        return Ok(());
    }
    check_field(name, ty, keyspace)
}

/// The same of a field of a user type.
pub(super) fn check_field(name: impl fmt::Display, ty: &CqlType, keyspace: &KeyspaceSchema) -> Result<()> {
    let text = ty.to_string();
    let told = match parser::parse_type(&text) {
        Ok(raw) => match types::resolve(&raw, keyspace) {
            Ok(again) if again.to_string() == text => return Ok(()),
            Ok(again) => format!("it is read as {again}"),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    bail!("The type {text} of {name} could not be loaded again: {told}")
}
