//! Roles, users and permissions.

use std::fmt;

use super::{FunctionName, Identifier, QualifiedName, RawType};

/// The name of a role: folded if it was an unquoted identifier, as it stands if it was a string or quoted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoleName(pub String);

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One option after WITH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleOption {
    /// `PASSWORD = '...'`.
    Password(String),
    /// `HASHED PASSWORD = '...'`.
    HashedPassword(String),
    /// `OPTIONS = {...}`.
    Options(Vec<(String, String)>),
    /// `SUPERUSER = true`; also `SUPERUSER` and `NOSUPERUSER` of CREATE and ALTER USER.
    Superuser(bool),
    /// `LOGIN = true`. CREATE USER implies it.
    Login(bool),
    /// `ACCESS TO ALL DATACENTERS`.
    AccessToAllDatacenters,
    /// `ACCESS TO DATACENTERS {'a', 'b'}`.
    AccessToDatacenters(Vec<String>),
    /// `ACCESS FROM ALL CIDRS`.
    AccessFromAllCidrs,
    /// `ACCESS FROM CIDRS {'a', 'b'}`.
    AccessFromCidrs(Vec<String>),
}

/// `CREATE ROLE` or `CREATE USER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRole {
    /// The role.
    pub role: RoleName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Written as CREATE USER.
    pub is_user: bool,
    /// The options.
    pub options: Vec<RoleOption>,
}

/// `ALTER ROLE` or `ALTER USER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterRole {
    /// The role.
    pub role: RoleName,
    /// IF EXISTS.
    pub if_exists: bool,
    /// Written as ALTER USER.
    pub is_user: bool,
    /// The options.
    pub options: Vec<RoleOption>,
}

/// A permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Permission {
    Create,
    Alter,
    Drop,
    Select,
    Modify,
    Authorize,
    Describe,
    Execute,
    Unmask,
    SelectMasked,
}

/// Which permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// `ALL [PERMISSIONS]`.
    All,
    /// A list; never empty.
    Some(Vec<Permission>),
}

/// What permissions are about.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the CQL of each is given")]
pub enum Resource {
    /// `ALL KEYSPACES`.
    AllKeyspaces,
    /// `KEYSPACE ks`.
    Keyspace(Identifier),
    /// `ALL TABLES IN KEYSPACE ks`.
    AllTables(Identifier),
    /// `[TABLE] ks.table`.
    Table(QualifiedName),
    /// `ALL ROLES`.
    AllRoles,
    /// `ROLE r`.
    Role(RoleName),
    /// `ALL FUNCTIONS`.
    AllFunctions,
    /// `ALL FUNCTIONS IN KEYSPACE ks`.
    AllFunctionsIn(Identifier),
    /// `FUNCTION f(types)`.
    Function { name: FunctionName, argument_types: Vec<RawType> },
    /// `ALL MBEANS`.
    AllMbeans,
    /// `MBEAN 'name'`.
    Mbean(String),
    /// `MBEANS 'pattern'`.
    Mbeans(String),
}

/// `GRANT permissions ON resource TO role`.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The permissions.
    pub permissions: Permissions,
    /// ON.
    pub resource: Resource,
    /// TO.
    pub grantee: RoleName,
}

/// `REVOKE permissions ON resource FROM role`.
#[derive(Clone, Debug, PartialEq)]
pub struct Revoke {
    /// The permissions.
    pub permissions: Permissions,
    /// ON.
    pub resource: Resource,
    /// FROM.
    pub revokee: RoleName,
}

/// `GRANT role TO role`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRole {
    /// The role that is granted.
    pub role: RoleName,
    /// TO.
    pub grantee: RoleName,
}

/// `REVOKE role FROM role`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevokeRole {
    /// The role that is revoked.
    pub role: RoleName,
    /// FROM.
    pub revokee: RoleName,
}

/// `LIST permissions [ON resource] [OF role] [NORECURSIVE]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ListPermissions {
    /// The permissions.
    pub permissions: Permissions,
    /// ON.
    pub resource: Option<Resource>,
    /// OF.
    pub role: Option<RoleName>,
    /// NORECURSIVE was absent.
    pub recursive: bool,
}

/// `LIST ROLES [OF role] [NORECURSIVE]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRoles {
    /// OF.
    pub role: Option<RoleName>,
    /// NORECURSIVE was absent.
    pub recursive: bool,
}
