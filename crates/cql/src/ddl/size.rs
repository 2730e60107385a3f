//! How large types and names may be that statements make.
//!
//! Types are measured with their user types spelled out ([`TypeBounds`]), those of a table together, too: its
//! SSTables and results spell out all of them. What a Cassandra made may be larger. It can be used and
//! altered, but it does not grow.

use crate::error::{Result, bail};
use model::TableSchema;
use model::types::{CqlType, NAME_BYTES_MAX, TypeBounds, UserType};
use std::fmt;
use std::sync::Arc;

/// Types in all columns of a table, their user types spelled out.
const TABLE_NODES_MAX: usize = 1 << 16;

/// Refuses a name whose length the native protocol cannot tell.
pub(super) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.len() > NAME_BYTES_MAX {
        let start: String = name.chars().take(20).collect();
        bail!("The name of {what} has at most {NAME_BYTES_MAX} bytes; given {start}... of {}", name.len());
    }
    Ok(())
}

/// Refuses a type that is too large.
pub(super) fn check_type(of: impl fmt::Display, ty: &CqlType) -> Result<()> {
    let within = TypeBounds::CREATED.measure(ty).and_then(|_| ty.check_class_names());
    match within {
        Ok(()) => Ok(()),
        Err(reason) => bail!("The type of {of} is too large: {reason}"),
    }
}

/// The same for a user type.
pub(super) fn check_user_type(definition: &Arc<UserType>) -> Result<()> {
    check_name("a type", &definition.name)?;
    definition.fields.iter().try_for_each(|(name, _)| check_name("a field", name))?;
    let ty = CqlType::Udt { definition: Arc::clone(definition), multi_cell: false };
    let within = TypeBounds::CREATED.measure(&ty).and_then(|_| ty.check_class_names());
    match within {
        Ok(()) => Ok(()),
        Err(reason) => bail!("The type {} is too large: {reason}", definition.name),
    }
}

/// Refuses a table with a column that is too large or, together, too many of them. What was in `before` may
/// stay.
pub(super) fn check_table(table: &TableSchema, before: Option<&TableSchema>) -> Result<()> {
    let mut grows = false;
    for column in table.all_columns() {
        if before.and_then(|before| before.column(&column.name)).is_some_and(|was| was.ty == column.ty) {
            continue;
        }
        grows = true;
        check_name("a column", &column.name)?;
        check_type(format_args!("column {}", column.name), &column.ty)?;
    }
    let nodes =
        |ty: &CqlType| TypeBounds::CREATED.measure(ty).map_or(TypeBounds::CREATED.nodes_max, |s| s.nodes);
    if grows && table.all_columns().iter().map(|column| nodes(&column.ty)).sum::<usize>() > TABLE_NODES_MAX {
        bail!("The columns of table {} are made of more than {TABLE_NODES_MAX} types", table.name);
    }
    Ok(())
}
