//! What one role may do, with all that it inherits: made once, looked at by each of its requests.

use std::collections::{BTreeSet, HashMap};

use cql::ast::Permission;
use model::schema::is_system_keyspace;

use super::permission::PermissionSet;
use super::places::Places;
use super::resource::Resource;

/// What a role may do.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Counts the changes of roles and permissions that had happened when it was made.
    pub(crate) generation: u64,
    /// When it was made, in nanoseconds of the monotonic clock.
    pub(crate) made_nanos: u64,
    /// Whether the role is a superuser, or inherits from one.
    pub(crate) is_super: bool,
    /// Whether the role may log in. That is not inherited.
    pub(crate) can_login: bool,
    /// The role and those that it inherits from; empty for one that is gone.
    pub(crate) roles: BTreeSet<String>,
    /// Where the role may come in.
    pub(crate) places: Places,
    all_keyspaces: PermissionSet,
    keyspaces: HashMap<String, OfKeyspace>,
    others: HashMap<Resource, PermissionSet>,
}

/// Permissions in one keyspace.
#[derive(Debug, Default)]
struct OfKeyspace {
    itself: PermissionSet,
    all_tables: PermissionSet,
    tables: HashMap<String, PermissionSet>,
}

impl Grants {
    /// Adds permissions on a resource.
    pub(crate) fn add(&mut self, resource: Resource, permissions: PermissionSet) {
        let place = match resource {
            Resource::AllKeyspaces => &mut self.all_keyspaces,
            Resource::Keyspace(keyspace) => &mut self.keyspaces.entry(keyspace).or_default().itself,
            Resource::AllTables(keyspace) => &mut self.keyspaces.entry(keyspace).or_default().all_tables,
            Resource::Table(keyspace, table) => {
                self.keyspaces.entry(keyspace).or_default().tables.entry(table).or_default()
            }
            other => self.others.entry(other).or_default(),
        };
        *place = place.union(permissions);
    }

    /// The resources on which the role has permissions.
    pub(crate) fn resources(&self) -> BTreeSet<Resource> {
        let mut resources: BTreeSet<Resource> = self.others.keys().cloned().collect();
        if !self.all_keyspaces.is_empty() {
            resources.insert(Resource::AllKeyspaces);
        }
        for (keyspace, of) in &self.keyspaces {
            if !of.itself.is_empty() {
                resources.insert(Resource::Keyspace(keyspace.clone()));
            }
            if !of.all_tables.is_empty() {
                resources.insert(Resource::AllTables(keyspace.clone()));
            }
            resources.extend(of.tables.keys().map(|table| Resource::table(keyspace, table)));
        }
        resources
    }

    /// Whether the role has a permission on a resource or on any that it is a part of. For a table that is
    /// two look-ups and no allocation.
    pub(crate) fn allow(&self, permission: Permission, resource: &Resource) -> bool {
        if self.is_super {
            return true;
        }
        let has = |set: PermissionSet| set.contains(permission);
        let in_keyspace = |keyspace: &str, test: &dyn Fn(&OfKeyspace) -> bool| {
            (has(self.all_keyspaces) && !is_system_keyspace(keyspace))
                || self.keyspaces.get(keyspace).is_some_and(|of| has(of.itself) || test(of))
        };
        match resource {
            Resource::AllKeyspaces => has(self.all_keyspaces),
            Resource::Keyspace(keyspace) => in_keyspace(keyspace, &|_| false),
            Resource::AllTables(keyspace) => in_keyspace(keyspace, &|of| has(of.all_tables)),
            Resource::Table(keyspace, table) => in_keyspace(keyspace, &|of| {
                has(of.all_tables) || of.tables.get(table).is_some_and(|set| has(*set))
            }),
            other => other.chain().iter().any(|link| self.others.get(link).is_some_and(|set| has(*set))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_holds_for_what_is_below() {
        let only = |permission| PermissionSet::from_iter([permission]);
        let mut grants = Grants::default();
        grants.add(Resource::AllKeyspaces, only(Permission::Create));
        grants.add(Resource::Keyspace("a".to_owned()), only(Permission::Select));
        grants.add(Resource::AllTables("b".to_owned()), only(Permission::Select));
        grants.add(Resource::table("c", "t"), only(Permission::Select));
        grants.add(Resource::AllRoles, only(Permission::Drop));
        let selects = |keyspace, table| grants.allow(Permission::Select, &Resource::table(keyspace, table));
        assert!(selects("a", "t") && selects("b", "t") && selects("c", "t"));
        assert!(!selects("c", "u") && !selects("d", "t"));
        assert!(!grants.allow(Permission::Select, &Resource::AllTables("c".to_owned())));
        assert!(!grants.allow(Permission::Select, &Resource::Keyspace("b".to_owned())));
        assert!(!grants.allow(Permission::Modify, &Resource::table("a", "t")));
        assert!(grants.allow(Permission::Create, &Resource::AllTables("x".to_owned())));
        assert!(grants.allow(Permission::Drop, &Resource::Role("r".to_owned())));
        assert!(!grants.allow(Permission::Create, &Resource::AllTables("system_auth".to_owned())));
    }

    #[test]
    fn superusers_have_everything() {
        let grants = Grants { is_super: true, ..Grants::default() };
        assert!(grants.allow(Permission::Modify, &Resource::table("system_auth", "roles")));
        assert!(grants.allow(Permission::Create, &Resource::Role("r".to_owned())));
    }
}
