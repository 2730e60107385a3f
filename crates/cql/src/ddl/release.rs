//! What a directory of an older Cassandra cannot hold, because that Cassandra would not start on it again.

use crate::error::{CqlError, Result};
use model::TableSchema;
use model::schema::Release;
use model::types::{CqlType, UserType};

const UNIFIED: &str = "org.apache.cassandra.db.compaction.UnifiedCompactionStrategy";

/// Refuses types and options that the release does not know.
pub(super) fn check_table(table: &TableSchema, release: Release) -> Result<()> {
    if release >= Release::V5_0 {
        return Ok(());
    }
    for column in table.select_star() {
        check_type(&column.ty, release)?;
    }
    if let Some(mask) = table.masks.first() {
        return Err(CqlError::Syntax(format!(
            "Cannot mask column {}: the data directory is that of a Cassandra {release}, which has no masks",
            mask.column
        )));
    }
    if table.options.compaction.class == UNIFIED {
        return Err(CqlError::Config(format!("Unable to find compaction strategy class '{UNIFIED}'")));
    }
    Ok(())
}

/// The same for a user type.
pub(super) fn check_user_type(ty: &UserType, release: Release) -> Result<()> {
    ty.fields.iter().try_for_each(|(_, field)| check_type(field, release))
}

fn check_type(ty: &CqlType, release: Release) -> Result<()> {
    match ty {
        CqlType::Vector { .. } if release < Release::V5_0 => Err(CqlError::Syntax(format!(
            "Unknown type {ty}: the data directory is that of a Cassandra {release}, which has no vectors"
        ))),
        // Its fields were checked when it was made.
        CqlType::Udt { .. } => Ok(()),
        other => other.inner().into_iter().try_for_each(|ty| check_type(ty, release)),
    }
}
