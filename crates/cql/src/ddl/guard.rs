//! Which keyspaces users may change.
//!
//! The node's own keyspaces and the virtual ones are refused; of the system's replicated keyspaces only the
//! replication may change. Cassandra refuses with two classes of error: as unauthorized wherever a statement
//! needs a permission on the keyspace, as invalid for CREATE KEYSPACE, which needs none.

use crate::error::{CqlError, Result, bail};
use model::schema::{LOCAL_SYSTEM_KEYSPACES, REPLICATED_SYSTEM_KEYSPACES, VIRTUAL_KEYSPACES};
use std::fmt;

/// Keyspaces' names end in directories' names.
const KEYSPACE_NAME_MAX: usize = 48;

/// What a statement wants to change, as Cassandra's messages name it.
#[derive(Clone, Copy)]
pub(super) enum Resource<'a> {
    Keyspace,
    AllTables,
    Table(&'a str),
}

/// The permission that a statement needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    Create,
    Alter,
    Drop,
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Permission::Create => "CREATE",
            Permission::Alter => "ALTER",
            Permission::Drop => "DROP",
        })
    }
}

fn is_own(keyspace: &str) -> bool {
    let lower = keyspace.to_ascii_lowercase();
    LOCAL_SYSTEM_KEYSPACES.contains(&lower.as_str()) || VIRTUAL_KEYSPACES.contains(&lower.as_str())
}

/// Refuses a change that users may not make, and names that no keyspace can have.
pub(super) fn check(keyspace: &str, permission: Permission, resource: Resource<'_>) -> Result<()> {
    if is_own(keyspace) {
        return Err(CqlError::Unauthorized(format!("{keyspace} keyspace is not user-modifiable.")));
    }
    let replication_only = permission == Permission::Alter && matches!(resource, Resource::Keyspace);
    if REPLICATED_SYSTEM_KEYSPACES.contains(&keyspace) && !replication_only {
        let resource = match resource {
            Resource::Keyspace => format!("<keyspace {keyspace}>"),
            Resource::AllTables => format!("<all tables in {keyspace}>"),
            Resource::Table(table) => format!("<table {keyspace}.{table}>"),
        };
        return Err(CqlError::Unauthorized(format!("Cannot {permission} {resource}")));
    }
    check_keyspace_name(keyspace)
}

/// The same for CREATE KEYSPACE.
pub(super) fn check_create_keyspace(keyspace: &str) -> Result<()> {
    if is_own(keyspace) {
        bail!("System keyspace '{keyspace}' is not user-modifiable");
    }
    check_keyspace_name(keyspace)
}

fn check_keyspace_name(keyspace: &str) -> Result<()> {
    if !is_plain_name(keyspace, KEYSPACE_NAME_MAX) {
        bail!(
            "Keyspace name must not be empty, more than {KEYSPACE_NAME_MAX} characters long, or contain \
             non-alphanumeric-underscore characters (got '{keyspace}')"
        );
    }
    Ok(())
}

/// Whether a name has only letters, digits and underscores, and at most so many of them.
pub(super) fn is_plain_name(name: &str, len_max: usize) -> bool {
    !name.is_empty() && name.len() <= len_max && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
