//! LIST ROLES, LIST USERS and LIST PERMISSIONS: Cassandra's columns, and what somebody may see.

use std::collections::BTreeMap;

use bytes::Bytes;
use cql::ast::{ListPermissions, Permission};
use model::CqlType;
use protocol::response::error::ErrorResponse;
use protocol::response::rows::{ColumnSpec, Rows};

use super::check::unauthorized;
use super::permission;
use super::places::Allowed;
use super::resource::Resource;
use super::statements::{Performer, failed, of_tree};
use super::store::Role;

type Result<T> = std::result::Result<T, ErrorResponse>;

const KEYSPACE: &str = "system_auth";

fn rows(table: &str, columns: &[(&str, CqlType)], rows: Vec<Vec<Option<Bytes>>>) -> Rows {
    let spec = |(name, kind): &(&str, CqlType)| ColumnSpec {
        keyspace: KEYSPACE.to_owned(),
        table: table.to_owned(),
        name: (*name).to_owned(),
        kind: kind.clone(),
    };
    Rows {
        column_count: columns.len(),
        columns: Some(columns.iter().map(spec).collect()),
        new_metadata_id: None,
        paging_state: None,
        rows,
    }
}

fn text(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}

fn flag(value: bool) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(&[u8::from(value)]))
}

/// The roles that the performer may list.
async fn listed(of: &Performer<'_>, role: Option<&str>, recursive: bool) -> Result<BTreeMap<String, Role>> {
    if let Some(name) = role
        && of.role(name).await?.is_none()
    {
        return Err(ErrorResponse::invalid(format!("<role {name}> doesn't exist")));
    }
    let sees_all = of.has(Permission::Describe, &Resource::AllRoles);
    let own = of.principal.name();
    let from = match role {
        None if sees_all => {
            let all = of.store.roles().await.map_err(failed)?;
            return Ok(all.into_iter().map(|role| (role.name.clone(), role)).collect());
        }
        None => own,
        Some(name) if sees_all || of.grants().roles.contains(name) => name,
        Some(name) => {
            return Err(unauthorized(format!("You are not authorized to view roles granted to {name} ")));
        }
    };
    of.store.granted_roles(from, recursive).await.map_err(failed)
}

/// The data centers in which a role may come in.
async fn datacenters(of: &Performer<'_>, role: &Role) -> Result<String> {
    if !of.auth.holds_to_datacenters() {
        return Ok(Allowed::All.to_string());
    }
    let standing = (role.can_login, of.is_super(&role.name).await?);
    let allowed = of.auth.datacenters_of(&of.store, &role.name, standing).await;
    allowed.map(|allowed| allowed.to_string()).map_err(failed)
}

/// LIST ROLES.
pub(super) async fn roles(of: &Performer<'_>, role: Option<&str>, recursive: bool) -> Result<Option<Rows>> {
    let roles = listed(of, role, recursive).await?;
    if roles.is_empty() {
        return Ok(None);
    }
    let options = CqlType::map(CqlType::Text, CqlType::Text, false);
    let columns = [
        ("role", CqlType::Text),
        ("super", CqlType::Boolean),
        ("login", CqlType::Boolean),
        ("options", options),
        ("datacenters", CqlType::Text),
    ];
    let empty_map = || Some(Bytes::from_static(&[0; 4]));
    let mut shown = Vec::new();
    for role in roles.values() {
        let datacenters = datacenters(of, role).await?;
        let (is_super, can_login) = (flag(role.is_super), flag(role.can_login));
        shown.push(vec![text(&role.name), is_super, can_login, empty_map(), text(&datacenters)]);
    }
    Ok(Some(rows("roles", &columns, shown)))
}

/// LIST USERS: the roles that may log in.
pub(super) async fn users(of: &Performer<'_>) -> Result<Option<Rows>> {
    let roles = listed(of, None, false).await?;
    if roles.is_empty() {
        return Ok(None);
    }
    let columns = [("name", CqlType::Text), ("super", CqlType::Boolean), ("datacenters", CqlType::Text)];
    let mut users = Vec::new();
    for role in roles.values().filter(|role| role.can_login) {
        let is_super = of.is_super(&role.name).await?;
        users.push(vec![text(&role.name), flag(is_super), text(&datacenters(of, role).await?)]);
    }
    Ok(Some(rows("users", &columns, users)))
}

/// LIST PERMISSIONS.
pub(super) async fn permissions(of: &Performer<'_>, list: &ListPermissions) -> Result<Option<Rows>> {
    let on = list.resource.as_ref().map(|resource| Resource::of(resource, of.keyspace));
    let role = list.role.as_ref().map(|role| role.0.as_str());
    if let Some(on) = &on
        && !of.exists(on).await?
    {
        return Err(ErrorResponse::invalid(format!("{on} doesn't exist")));
    }
    if let Some(name) = role
        && of.role(name).await?.is_none()
    {
        return Err(ErrorResponse::invalid(format!("<role {name}> doesn't exist")));
    }
    if !of.auth.authorizes() {
        return Err(ErrorResponse::invalid(
            "LIST PERMISSIONS operation is not supported by AllowAllAuthorizer",
        ));
    }
    let seen_on = role.map_or(Resource::AllRoles, |role| Resource::Role(role.to_owned()));
    let is_own = role.is_some_and(|role| of.grants().roles.contains(role));
    if !is_own && !of.has(Permission::Describe, &seen_on) {
        let whose = role.unwrap_or("everyone");
        return Err(unauthorized(format!("You are not authorized to view {whose}'s permissions")));
    }
    let mut found = match role {
        None => of.store.all_permissions().await.map_err(failed)?,
        Some(role) => {
            let mut found = Vec::new();
            for name in of.store.granted_roles(role, true).await.map_err(failed)?.into_keys() {
                let of_role = of.store.permissions_of(&name).await.map_err(failed)?;
                found.extend(of_role.into_iter().map(|(resource, set)| (name.clone(), resource, set)));
            }
            found
        }
    };
    if let Some(on) = on {
        let shown = if list.recursive { on.chain() } else { vec![on] };
        found.retain(|(_, resource, _)| shown.contains(resource));
    }
    found.sort_by_cached_key(|(role, resource, _)| (role.clone(), resource.name()));
    let wanted = of_tree(&list.permissions);
    let mut shown = Vec::new();
    for (role, resource, set) in &found {
        for permission in set.intersection(wanted).iter() {
            let (resource, permission) = (resource.to_string(), permission::name(permission));
            shown.push(vec![text(role), text(role), text(&resource), text(permission)]);
        }
    }
    if shown.is_empty() {
        return Ok(None);
    }
    let columns = ["role", "username", "resource", "permission"].map(|name| (name, CqlType::Text));
    Ok(Some(rows("permissions", &columns, shown)))
}
