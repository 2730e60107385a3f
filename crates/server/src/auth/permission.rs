//! Sets of permissions, and their names in `system_auth.role_permissions`.

use cql::ast::Permission;

/// All permissions, in Cassandra's order.
pub(crate) const ALL: [Permission; 10] = [
    Permission::Create,
    Permission::Alter,
    Permission::Drop,
    Permission::Select,
    Permission::Modify,
    Permission::Authorize,
    Permission::Describe,
    Permission::Execute,
    Permission::Unmask,
    Permission::SelectMasked,
];

/// The name of a permission.
pub(crate) fn name(permission: Permission) -> &'static str {
    match permission {
        Permission::Create => "CREATE",
        Permission::Alter => "ALTER",
        Permission::Drop => "DROP",
        Permission::Select => "SELECT",
        Permission::Modify => "MODIFY",
        Permission::Authorize => "AUTHORIZE",
        Permission::Describe => "DESCRIBE",
        Permission::Execute => "EXECUTE",
        Permission::Unmask => "UNMASK",
        Permission::SelectMasked => "SELECT_MASKED",
    }
}

/// A set of permissions: a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PermissionSet(u16);

impl PermissionSet {
    fn bit(permission: Permission) -> u16 {
        1 << permission as u16
    }

    pub(crate) fn contains(self, permission: Permission) -> bool {
        self.0 & Self::bit(permission) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn union(self, other: PermissionSet) -> PermissionSet {
        PermissionSet(self.0 | other.0)
    }

    pub(crate) fn intersection(self, other: PermissionSet) -> PermissionSet {
        PermissionSet(self.0 & other.0)
    }

    pub(crate) fn difference(self, other: PermissionSet) -> PermissionSet {
        PermissionSet(self.0 & !other.0)
    }

    /// The set of the names that are known; Cassandra's older ones are not.
    pub(crate) fn of_names<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> PermissionSet {
        let known = |text: &[u8]| ALL.into_iter().find(|permission| name(*permission).as_bytes() == text);
        names.into_iter().filter_map(known).collect()
    }

    /// Its members, in Cassandra's order.
    pub(crate) fn iter(self) -> impl Iterator<Item = Permission> {
        ALL.into_iter().filter(move |permission| self.contains(*permission))
    }

    /// Their names, separated by commas.
    pub(crate) fn names(self) -> String {
        self.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

impl FromIterator<Permission> for PermissionSet {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> PermissionSet {
        PermissionSet(permissions.into_iter().fold(0, |bits, permission| bits | Self::bit(permission)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let names = [&b"SELECT_MASKED"[..], b"READ", b"CREATE"];
        let set = PermissionSet::of_names(names);
        assert_eq!(set.names(), "CREATE, SELECT_MASKED");
        let select = PermissionSet::from_iter([Permission::Select]);
        assert!(!set.contains(Permission::Select) && set.union(select).contains(Permission::Select));
        assert!(set.difference(set).is_empty() && set.intersection(select).is_empty());
        assert_eq!(ALL.into_iter().collect::<PermissionSet>().iter().count(), ALL.len());
    }
}
