//! Statements about roles, permissions and identities: what is wrong with them without a look at the roles
//! that there are, and what a client is answered that has not logged in. With the default configuration that
//! is every client.
//!
//! Refusals of such a client come in Cassandra's order: what is wrong with the statement itself, what only
//! superusers may do, what the default managers of roles do not support, and last the refusal of everything.

use crate::ast::{
    AlterRole, CreateRole, FunctionName, Permission, Permissions, QualifiedName, Resource, RoleName,
    RoleOption, Statement,
};
use crate::error::{CqlError, Result, bail};
use model::Schema;
use std::collections::HashSet;

/// The role that a new Cassandra node makes for itself.
const DEFAULT_SUPERUSER: &str = "cassandra";

/// Whether a statement is about roles, permissions or identities.
pub(super) fn is_about_roles(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateRole(_)
            | Statement::AlterRole(_)
            | Statement::DropRole { .. }
            | Statement::Grant(_)
            | Statement::Revoke(_)
            | Statement::GrantRole(_)
            | Statement::RevokeRole(_)
            | Statement::ListPermissions(_)
            | Statement::ListRoles(_)
            | Statement::ListUsers
            | Statement::AddIdentity { .. }
            | Statement::DropIdentity { .. }
    )
}

/// Why a statement about roles is refused to a client that has not logged in.
pub fn refusal(statement: &Statement, schema: &Schema, keyspace: Option<&str>) -> CqlError {
    let judged = match statement {
        Statement::CreateRole(create) => created(create),
        Statement::AlterRole(alter) => altered(alter),
        Statement::DropRole { role, .. } => dropped(role),
        other => check(other, schema, keyspace),
    };
    judged
        .err()
        .unwrap_or_else(|| unauthorized("You have to be logged in and not anonymous to perform this request"))
}

/// Refuses what is wrong with GRANT, REVOKE and LIST of permissions whoever asks.
///
/// # Errors
/// In Cassandra's words.
pub fn check(statement: &Statement, schema: &Schema, keyspace: Option<&str>) -> Result<()> {
    match statement {
        Statement::Grant(grant) => granted(&grant.permissions, &grant.resource, schema, keyspace),
        Statement::Revoke(revoke) => granted(&revoke.permissions, &revoke.resource, schema, keyspace),
        Statement::ListPermissions(list) => match &list.resource {
            Some(Resource::Function { name, .. }) => function(name, schema),
            Some(Resource::Mbean(name) | Resource::Mbeans(name)) => object_name(name),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn unauthorized(message: &str) -> CqlError {
    CqlError::Unauthorized(message.to_owned())
}

fn created(create: &CreateRole) -> Result<()> {
    if create.options.contains(&RoleOption::Superuser(true)) {
        return Err(unauthorized("Only superusers can create a role with superuser status"));
    }
    unsupported_options(&create.options)?;
    cidr_groups(&create.options)?;
    if create.role.0.is_empty() {
        bail!("Role name can't be an empty string");
    }
    Ok(())
}

fn altered(alter: &AlterRole) -> Result<()> {
    let has = |probe: fn(&RoleOption) -> bool| alter.options.iter().any(probe);
    let only_superusers = if has(|option| matches!(option, RoleOption::Superuser(_))) {
        Some("superuser status")
    } else if has(|option| {
        matches!(option, RoleOption::AccessToAllDatacenters | RoleOption::AccessToDatacenters(_))
    }) {
        Some("access to datacenters.")
    } else if has(|option| matches!(option, RoleOption::AccessFromAllCidrs | RoleOption::AccessFromCidrs(_)))
    {
        Some("access from CIDR groups.")
    } else {
        None
    };
    if let Some(what) = only_superusers {
        return Err(CqlError::Unauthorized(format!("Only superusers are allowed to alter {what}")));
    }
    unsupported_options(&alter.options)?;
    if alter.options.is_empty() {
        bail!("ALTER [ROLE|USER] can't be empty");
    }
    Ok(())
}

fn dropped(role: &RoleName) -> Result<()> {
    match role.0.as_str() {
        "" => bail!("Key may not be empty"),
        DEFAULT_SUPERUSER => Err(unauthorized("Only superusers can drop a role with superuser status")),
        _ => Ok(()),
    }
}

/// Without passwords to check, Cassandra's manager of roles knows of login and superuser only.
fn unsupported_options(options: &[RoleOption]) -> Result<()> {
    let named = |option: &RoleOption| match option {
        RoleOption::Options(_) => Some("OPTIONS"),
        RoleOption::Password(_) => Some("PASSWORD"),
        RoleOption::HashedPassword(_) => Some("HASHED_PASSWORD"),
        _ => None,
    };
    // It names OPTIONS first.
    let unsupported = options.iter().filter_map(named).max_by_key(|name| *name == "OPTIONS");
    match unsupported {
        Some(name) => bail!("org.apache.cassandra.auth.CassandraRoleManager doesn't support {name}"),
        None => Ok(()),
    }
}

/// Groups of addresses are made with nodetool, and there are none.
///
/// # Errors
/// Where the options name any.
pub fn cidr_groups(options: &[RoleOption]) -> Result<()> {
    let mut groups: Vec<&str> = options
        .iter()
        .filter_map(|option| match option {
            RoleOption::AccessFromCidrs(groups) => Some(groups),
            _ => None,
        })
        .flatten()
        .map(String::as_str)
        .collect();
    if groups.is_empty() {
        return Ok(());
    }
    groups.sort_unstable();
    groups.dedup();
    bail!("Invalid CIDR group(s): [{}]. Available CIDR Groups are: []", groups.join(", "))
}

/// What kind of resource it is, and the permissions that there are on it.
pub fn applicable(resource: &Resource) -> (&'static str, &'static [Permission]) {
    use Permission::{
        Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select, SelectMasked, Unmask,
    };
    match resource {
        Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTables(_) => {
            ("DataResource", &[Create, Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked])
        }
        Resource::Table(_) => {
            ("DataResource", &[Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked])
        }
        Resource::AllRoles => ("RoleResource", &[Create, Alter, Drop, Authorize, Describe]),
        Resource::Role(_) => ("RoleResource", &[Alter, Drop, Authorize, Describe]),
        Resource::AllFunctions | Resource::AllFunctionsIn(_) => {
            ("FunctionResource", &[Create, Alter, Drop, Authorize, Execute])
        }
        Resource::Function { .. } => ("FunctionResource", &[Alter, Drop, Authorize, Execute]),
        Resource::AllMbeans | Resource::Mbean(_) | Resource::Mbeans(_) => {
            ("JMXResource", &[Select, Modify, Authorize, Describe, Execute])
        }
    }
}

/// What GRANT and REVOKE say about permissions on a resource.
fn granted(
    permissions: &Permissions,
    resource: &Resource,
    schema: &Schema,
    keyspace: Option<&str>,
) -> Result<()> {
    if let Resource::Function { name, .. } = resource {
        function(name, schema)?;
        if name.keyspace.as_ref().is_some_and(|keyspace| keyspace.as_str() == "system") {
            bail!("Altering permissions on builtin functions is not supported");
        }
    }
    if let Resource::Mbean(name) | Resource::Mbeans(name) = resource {
        object_name(name)?;
    }
    let (kind, applicable) = applicable(resource);
    if let Permissions::Some(asked) = permissions
        && !asked.iter().any(|permission| applicable.contains(permission))
    {
        return Err(CqlError::Syntax(format!(
            "Resource type {kind} does not support any of the requested permissions"
        )));
    }
    if matches!(resource, Resource::Table(QualifiedName { keyspace: None, .. })) && keyspace.is_none() {
        bail!("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename");
    }
    Ok(())
}

fn function(name: &FunctionName, schema: &Schema) -> Result<()> {
    match &name.keyspace {
        None => bail!("In this context function name must be explictly qualified by a keyspace"),
        Some(keyspace) if schema.keyspace(keyspace.as_str()).is_none() => {
            Err(CqlError::Config(format!("Keyspace {keyspace} doesn't exist")))
        }
        Some(_) => Ok(()),
    }
}

/// `domain:key=value,...`, where `*` may be a property.
fn object_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(CqlError::Syntax("Empty JMX object name supplied".to_owned()));
    }
    let mut keys = HashSet::new();
    let is_property = |property: &str| match property.split_once('=') {
        _ if property == "*" => true,
        Some(("", _)) | None => false,
        Some((key, _)) => keys.insert(key.to_owned()),
    };
    if name.split_once(':').is_some_and(|(_, properties)| properties.split(',').all(is_property)) {
        return Ok(());
    }
    Err(CqlError::Syntax(format!("{name} is not a valid JMX object name")))
}
