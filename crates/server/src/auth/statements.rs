//! Statements about roles, permissions and identities, for somebody who has logged in.
//!
//! Each is judged in Cassandra's order: who asks, then what the statement says, then what is there. One at a
//! time looks at the roles and changes them. After the change, and before the answer, everybody's grants are
//! old.

use std::collections::BTreeSet;
use std::sync::Arc;

use cql::ast::{AlterRole, CreateRole, Permission, Permissions, RoleOption, Statement};
use cql::plan::roles;
use model::{Mutation, Schema};
use protocol::response::error::ErrorResponse;
use protocol::response::rows::Rows;

use super::check::{of_cql, refusal, unauthorized};
use super::grants::Grants;
use super::permission::PermissionSet;
use super::resource::Resource;
use super::store::{Role, Store, StoreError};
use super::{Auth, Principal, list, password};
use crate::absence::of_absence;

const MANAGER: &str = "org.apache.cassandra.auth.CassandraRoleManager";

/// Options that only an authenticator with passwords has, and that a role may change of itself.
const PASSWORDS: [&str; 2] = ["PASSWORD", "HASHED_PASSWORD"];

type Result<T> = std::result::Result<T, ErrorResponse>;

/// A statement's circumstances.
pub(crate) struct Performer<'a> {
    pub(crate) auth: &'a Auth,
    pub(crate) store: Store,
    pub(crate) principal: &'a Principal,
    pub(crate) schema: Arc<Schema>,
    /// The data centers of the ring, with how many nodes each has.
    pub(crate) datacenters: Vec<(Arc<str>, u32)>,
    /// The keyspace in use.
    pub(crate) keyspace: Option<&'a str>,
    /// What the client is told besides.
    pub(crate) warnings: Vec<String>,
}

pub(super) fn failed(error: StoreError) -> ErrorResponse {
    if let StoreError::Coordinator(error) = &error
        && let Some(answer) = of_absence(error)
    {
        return answer;
    }
    tracing::error!(%error, "roles cannot be read or written");
    ErrorResponse::server(format!("roles cannot be read or written: {error}"))
}

/// The hash of a password, made where it may take its time.
pub(crate) async fn hashed(auth: &Auth, store: &Store, password: String) -> Result<String> {
    let mut salt = [0; 16];
    store.env().random.fill(&mut salt);
    let rounds = auth.rounds;
    let made = auth.hashing.run(move || password::hash(&password, rounds, salt)).await?;
    made.map_err(|reason| ErrorResponse::invalid(format!("the password cannot be hashed: {reason}")))
}

/// The options of CREATE and ALTER, looked through.
#[derive(Default)]
struct Options<'a> {
    is_super: Option<bool>,
    can_login: Option<bool>,
    password: Option<&'a str>,
    hash: Option<&'a str>,
    /// Those that the role is held to; empty for all.
    datacenters: Option<BTreeSet<String>>,
    cidr_groups: Option<BTreeSet<String>>,
    /// Names of those that are a role's own, as Cassandra orders them.
    names: Vec<&'static str>,
}

impl<'a> Options<'a> {
    fn of(options: &'a [RoleOption], is_user: bool) -> Options<'a> {
        let mut found = Options::default();
        for option in options {
            match option {
                RoleOption::Password(password) => found.password = Some(password),
                RoleOption::HashedPassword(hash) => found.hash = Some(hash),
                RoleOption::Superuser(is_super) => found.is_super = Some(*is_super),
                RoleOption::Login(can_login) => found.can_login = Some(*can_login),
                RoleOption::AccessToDatacenters(names) => {
                    found.datacenters = Some(names.iter().cloned().collect());
                }
                RoleOption::AccessToAllDatacenters => found.datacenters = Some(BTreeSet::new()),
                RoleOption::AccessFromCidrs(names) => {
                    found.cidr_groups = Some(names.iter().cloned().collect());
                }
                RoleOption::AccessFromAllCidrs => found.cidr_groups = Some(BTreeSet::new()),
                RoleOption::Options(_) => found.names.push("OPTIONS"),
            }
        }
        if is_user {
            found.can_login.get_or_insert(true);
        }
        let own = [
            ("SUPERUSER", found.is_super.is_some()),
            ("PASSWORD", found.password.is_some()),
            ("LOGIN", found.can_login.is_some()),
            ("HASHED_PASSWORD", found.hash.is_some()),
        ];
        found.names.extend(own.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name));
        found
    }

    async fn check(&self, of: &Performer<'_>) -> Result<()> {
        if self.names.contains(&"OPTIONS") {
            return Err(ErrorResponse::invalid(format!("{MANAGER} doesn't support OPTIONS")));
        }
        if !of.auth.authenticator().takes_passwords()
            && let Some(option) = self.names.iter().find(|name| PASSWORDS.contains(name))
        {
            return Err(ErrorResponse::invalid(format!("{MANAGER} doesn't support {option}")));
        }
        if self.hash.is_some_and(|hash| !password::is_hash(hash)) {
            return Err(ErrorResponse::invalid("Invalid hashed password value. Please use jBcrypt."));
        }
        let is_known = |name: &String| of.datacenters.iter().any(|(known, _)| **known == **name);
        if let Some(names) = &self.datacenters
            && !names.iter().all(is_known)
        {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            return Err(ErrorResponse::invalid(format!(
                "Invalid value(s) for DATACENTERS '[{}]',All values must be valid datacenters",
                names.join(", ")
            )));
        }
        match &self.cidr_groups {
            Some(names) if !names.is_empty() => of.check_cidr_groups(names).await,
            _ => Ok(()),
        }
    }
}

/// There is nobody who would hold a role to its data centers.
fn no_datacenters() -> ErrorResponse {
    ErrorResponse::invalid("ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer")
}

impl Performer<'_> {
    /// Carries a statement out; rows where it lists something.
    ///
    /// # Errors
    /// In Cassandra's words.
    pub(crate) async fn run(&mut self, statement: &Statement) -> Result<Option<Rows>> {
        let auth = self.auth;
        let _turn = auth.turn.lock().await;
        // Whoever had the turn before may have taken something away.
        if !auth.is_fresh(self.principal, self.store.now_nanos()) {
            auth.refresh(&self.store, self.principal).await.map_err(|error| failed(error.into()))?;
        }
        roles::check(statement, &self.schema, self.keyspace).map_err(of_cql)?;
        let mutations = match statement {
            Statement::CreateRole(create) => self.create(create).await?,
            Statement::AlterRole(alter) => self.alter(alter).await?,
            Statement::DropRole { role, if_exists } => self.drop(&role.0, *if_exists).await?,
            Statement::GrantRole(grant) => {
                self.change_membership(&grant.role.0, &grant.grantee.0, true).await?
            }
            Statement::RevokeRole(revoke) => {
                self.change_membership(&revoke.role.0, &revoke.revokee.0, false).await?
            }
            Statement::Grant(grant) => {
                let on = Resource::of(&grant.resource, self.keyspace);
                self.change_permissions(&grant.permissions, &on, &grant.grantee.0, true).await?
            }
            Statement::Revoke(revoke) => {
                let on = Resource::of(&revoke.resource, self.keyspace);
                self.change_permissions(&revoke.permissions, &on, &revoke.revokee.0, false).await?
            }
            Statement::AddIdentity { identity, role, if_not_exists } => {
                self.add_identity(identity, role, *if_not_exists).await?
            }
            Statement::DropIdentity { identity, if_exists } => {
                self.drop_identity(identity, *if_exists).await?
            }
            Statement::ListRoles(list) => {
                return list::roles(self, list.role.as_ref().map(|role| role.0.as_str()), list.recursive)
                    .await;
            }
            Statement::ListUsers => return list::users(self).await,
            Statement::ListPermissions(list) => return list::permissions(self, list).await,
            other => {
                return Err(ErrorResponse::server(format!("{} is not about roles", other.kind())));
            }
        };
        if !mutations.is_empty() {
            let written = self.store.write(mutations).await;
            // What failed may have been written all the same.
            auth.invalidate();
            if let Some(role) = with_password(statement) {
                auth.credentials.forget(role);
            }
            written.map_err(failed)?;
        }
        Ok(None)
    }

    pub(super) fn grants(&self) -> arc_swap::Guard<Arc<Grants>> {
        self.principal.grants()
    }

    fn is_superuser(&self) -> bool {
        self.grants().is_super
    }

    /// Whether the performer has a permission; everybody has where nothing is asked.
    pub(super) fn has(&self, permission: Permission, resource: &Resource) -> bool {
        !self.auth.authorizes() || self.grants().allow(permission, resource)
    }

    /// Refuses a change of roles without a permission.
    fn ensure(&self, permission: Permission, resource: &Resource) -> Result<()> {
        if self.has(permission, resource) {
            return Ok(());
        }
        Err(unauthorized(format!(
            "User {} does not have sufficient privileges to perform the requested operation",
            self.principal.name()
        )))
    }

    /// Refuses CIDR groups that there are not.
    async fn check_cidr_groups(&self, names: &BTreeSet<String>) -> Result<()> {
        let groups = self.store.cidr_groups().await.map_err(failed)?;
        if names.iter().all(|name| groups.iter().any(|(known, _)| known == name)) {
            return Ok(());
        }
        let asked: Vec<&str> = names.iter().map(String::as_str).collect();
        let known: Vec<&str> = groups.iter().map(|(name, _)| name.as_str()).collect();
        let (asked, known) = (asked.join(", "), known.join(", "));
        Err(ErrorResponse::invalid(format!(
            "Invalid CIDR group(s): [{asked}]. Available CIDR Groups are: [{known}]"
        )))
    }

    pub(super) async fn role(&self, name: &str) -> Result<Option<Role>> {
        self.store.role(name).await.map_err(failed)
    }

    /// Whether a role is a superuser or inherits from one.
    pub(super) async fn is_super(&self, role: &str) -> Result<bool> {
        let roles = self.store.granted_roles(role, true).await.map_err(failed)?;
        Ok(roles.values().any(|role| role.is_super))
    }

    async fn hash_of(&self, options: &Options<'_>) -> Result<Option<String>> {
        match (options.password, options.hash) {
            (Some(password), _) => hashed(self.auth, &self.store, password.to_owned()).await.map(Some),
            (None, hash) => Ok(hash.map(str::to_owned)),
        }
    }

    async fn create(&self, create: &CreateRole) -> Result<Vec<Mutation>> {
        let options = Options::of(&create.options, create.is_user);
        let name = create.role.0.as_str();
        self.ensure(Permission::Create, &Resource::AllRoles)?;
        if options.is_super == Some(true) && !self.is_superuser() {
            return Err(unauthorized("Only superusers can create a role with superuser status"));
        }
        options.check(self).await?;
        if name.is_empty() {
            return Err(ErrorResponse::invalid("Role name can't be an empty string"));
        }
        if self.role(name).await?.is_some() {
            if create.if_not_exists {
                return Ok(Vec::new());
            }
            return Err(ErrorResponse::invalid(format!("{name} already exists")));
        }
        // Cassandra forgets them without a word.
        let holds_to_datacenters = self.auth.holds_to_datacenters();
        if !holds_to_datacenters && options.datacenters.as_ref().is_some_and(|names| !names.is_empty()) {
            return Err(no_datacenters());
        }
        let role = Role {
            name: name.to_owned(),
            is_super: options.is_super.unwrap_or(false),
            can_login: options.can_login.unwrap_or(false),
            member_of: BTreeSet::new(),
            salted_hash: self.hash_of(&options).await?,
        };
        let mut mutations = vec![self.store.create_role(&role).map_err(failed)?];
        if holds_to_datacenters {
            let names = options.datacenters.as_ref().cloned().unwrap_or_default();
            mutations.push(self.store.set_datacenters(name, &names).map_err(failed)?);
        }
        if self.store.has_cidr_permissions() {
            let names = options.cidr_groups.as_ref().cloned().unwrap_or_default();
            mutations.push(self.store.set_cidr_groups_of(name, &names).map_err(failed)?);
        }
        if self.auth.authorizes() {
            let resource = Resource::Role(role.name);
            let granted = self.store.grant(self.principal.name(), &resource, resource.applicable());
            mutations.extend(granted.map_err(failed)?);
        }
        Ok(mutations)
    }

    async fn alter(&self, alter: &AlterRole) -> Result<Vec<Mutation>> {
        let options = Options::of(&alter.options, false);
        let name = alter.role.0.as_str();
        let is_super = self.is_superuser();
        if options.is_super.is_some() && self.grants().roles.contains(name) {
            return Err(unauthorized(
                "You aren't allowed to alter your own superuser status or that of a role granted to you",
            ));
        }
        let touches = |probe: fn(&RoleOption) -> bool| alter.options.iter().any(probe);
        let of_datacenters = |option: &RoleOption| {
            matches!(option, RoleOption::AccessToAllDatacenters | RoleOption::AccessToDatacenters(_))
        };
        let of_cidrs = |option: &RoleOption| {
            matches!(option, RoleOption::AccessFromAllCidrs | RoleOption::AccessFromCidrs(_))
        };
        let reserved = [
            (options.is_super.is_some(), "superuser status"),
            (touches(of_datacenters), "access to datacenters."),
            (touches(of_cidrs), "access from CIDR groups."),
        ];
        if let Some((_, what)) = reserved.iter().find(|(touched, _)| *touched && !is_super) {
            return Err(unauthorized(format!("Only superusers are allowed to alter {what}")));
        }
        if !is_super {
            if **self.principal.name() == *name {
                let has_passwords = self.auth.authenticator().takes_passwords();
                let may_change = |option: &str| has_passwords && PASSWORDS.contains(&option);
                if let Some(option) = options.names.iter().find(|option| !may_change(option)) {
                    return Err(unauthorized(format!("You aren't allowed to alter {option}")));
                }
            } else {
                self.ensure(Permission::Alter, &Resource::Role(name.to_owned()))?;
                // Who sets the password of a superuser is one.
                if self.is_super(name).await? {
                    return Err(unauthorized(
                        "Only superusers are allowed to alter a role with superuser status",
                    ));
                }
            }
        }
        options.check(self).await?;
        if alter.options.is_empty() {
            return Err(ErrorResponse::invalid("ALTER [ROLE|USER] can't be empty"));
        }
        if self.role(name).await?.is_none() {
            if alter.if_exists {
                return Ok(Vec::new());
            }
            return Err(ErrorResponse::invalid(format!("Role {name} doesn't exist")));
        }
        let mut mutations = Vec::new();
        if let Some(names) = &options.datacenters {
            if !self.auth.holds_to_datacenters() {
                return Err(no_datacenters());
            }
            mutations.push(self.store.set_datacenters(name, names).map_err(failed)?);
        }
        if let Some(names) = options.cidr_groups.as_ref().filter(|_| self.store.has_cidr_permissions()) {
            mutations.push(self.store.set_cidr_groups_of(name, names).map_err(failed)?);
        }
        if !options.names.is_empty() {
            let hash = self.hash_of(&options).await?;
            let altered = self.store.alter_role(name, options.is_super, options.can_login, hash.as_deref());
            mutations.push(altered.map_err(failed)?);
        }
        Ok(mutations)
    }

    async fn drop(&self, name: &str, if_exists: bool) -> Result<Vec<Mutation>> {
        self.ensure(Permission::Drop, &Resource::Role(name.to_owned()))?;
        let exists = self.role(name).await?.is_some();
        if exists && !self.is_superuser() && self.is_super(name).await? {
            return Err(unauthorized("Only superusers can drop a role with superuser status"));
        }
        if !exists && !if_exists {
            return Err(ErrorResponse::invalid(format!("{name} doesn't exist")));
        }
        if **self.principal.name() == *name {
            return Err(ErrorResponse::invalid("Cannot DROP primary role for current login"));
        }
        if !exists {
            return Ok(Vec::new());
        }
        self.store.drop_role(name).await.map_err(failed)
    }

    async fn change_membership(&self, role: &str, member: &str, grants: bool) -> Result<Vec<Mutation>> {
        self.ensure(Permission::Authorize, &Resource::Role(role.to_owned()))?;
        // Whoever gives a superuser's status away has to have it.
        if grants && !self.is_superuser() && self.is_super(role).await? {
            return Err(unauthorized("Only superusers can grant a role with superuser status"));
        }
        for name in [role, member] {
            if self.role(name).await?.is_none() {
                return Err(ErrorResponse::invalid(format!("{name} doesn't exist")));
            }
        }
        let roles = self.store.granted_roles(member, grants).await.map_err(failed)?;
        if !grants {
            if !roles.contains_key(role) {
                return Err(ErrorResponse::invalid(format!("{member} is not a member of {role}")));
            }
            return self.store.revoke_role(role, member).map_err(failed);
        }
        if roles.contains_key(role) {
            return Err(ErrorResponse::invalid(format!("{member} is a member of {role}")));
        }
        if self.store.granted_roles(role, true).await.map_err(failed)?.contains_key(member) {
            return Err(ErrorResponse::invalid(format!("{role} is a member of {member}")));
        }
        self.store.grant_role(role, member).map_err(failed)
    }

    async fn change_permissions(
        &mut self,
        permissions: &Permissions,
        on: &Resource,
        role: &str,
        grants: bool,
    ) -> Result<Vec<Mutation>> {
        let asked = of_tree(permissions).intersection(on.applicable());
        for permission in std::iter::once(Permission::Authorize).chain(asked.iter()) {
            if !self.has(permission, on) {
                return Err(refusal(self.principal, permission, on));
            }
        }
        if self.role(role).await?.is_none() {
            return Err(ErrorResponse::invalid(format!("Role {role} doesn't exist")));
        }
        if !self.exists(on).await? {
            return Err(ErrorResponse::invalid(format!("Resource {on} doesn't exist")));
        }
        if grants && on.is_of_system() && !asked.difference(grantable_on_system()).is_empty() {
            return Err(unauthorized(
                "Granting permissions on system keyspaces is strictly limited, this operation is not permitted",
            ));
        }
        if !self.auth.authorizes() {
            let verb = if grants { "GRANT" } else { "REVOKE" };
            return Err(ErrorResponse::server(format!(
                "java.lang.UnsupportedOperationException: {verb} operation is not supported by AllowAllAuthorizer"
            )));
        }
        let granted = self.store.permissions_of(role).await.map_err(failed)?;
        let there =
            granted.iter().find(|(resource, _)| resource == on).map(|(_, set)| *set).unwrap_or_default();
        let (changed, idle) = match grants {
            true => (asked.difference(there), asked.intersection(there)),
            false => (asked.intersection(there), asked.difference(there)),
        };
        if !idle.is_empty() {
            let was = if grants { "already" } else { "not" };
            self.warnings.push(format!("Role '{role}' was {was} granted {} on {on}", idle.names()));
        }
        if changed.is_empty() {
            return Ok(Vec::new());
        }
        let mutations = match grants {
            true => self.store.grant(role, on, changed),
            false => self.store.revoke(role, on, changed, !there.difference(changed).is_empty()),
        };
        mutations.map_err(failed)
    }

    /// Whether a resource is there.
    pub(super) async fn exists(&self, resource: &Resource) -> Result<bool> {
        match resource {
            Resource::Role(role) => Ok(self.role(role).await?.is_some()),
            other => Ok(other.is_in(&self.schema)),
        }
    }

    fn own_role(&self) -> Resource {
        Resource::Role(self.principal.name().to_string())
    }

    async fn add_identity(&self, identity: &str, role: &str, if_not_exists: bool) -> Result<Vec<Mutation>> {
        self.ensure(Permission::Create, &self.own_role())?;
        if !self.is_superuser() && self.is_super(role).await? {
            return Err(unauthorized("Only superusers can add an identity to a role with superuser status"));
        }
        if self.role(role).await?.is_none() {
            return Err(ErrorResponse::invalid(format!(
                "Can not add identity for non-existent role '{role}'"
            )));
        }
        if self.has_identity(identity).await? {
            if if_not_exists {
                return Ok(Vec::new());
            }
            return Err(ErrorResponse::invalid(format!("{identity} already exists")));
        }
        Ok(vec![self.store.add_identity(identity, role).map_err(failed)?])
    }

    async fn drop_identity(&self, identity: &str, if_exists: bool) -> Result<Vec<Mutation>> {
        self.ensure(Permission::Drop, &self.own_role())?;
        if !self.has_identity(identity).await? {
            if if_exists {
                return Ok(Vec::new());
            }
            return Err(ErrorResponse::invalid(format!("identity '{identity}' doesn't exist")));
        }
        Ok(vec![self.store.drop_identity(identity).map_err(failed)?])
    }

    async fn has_identity(&self, identity: &str) -> Result<bool> {
        Ok(self.store.role_of_identity(identity).await.map_err(failed)?.is_some())
    }
}

/// The role whose password a statement may change.
fn with_password(statement: &Statement) -> Option<&str> {
    match statement {
        Statement::CreateRole(create) => Some(&create.role.0),
        Statement::AlterRole(alter) => Some(&alter.role.0),
        Statement::DropRole { role, .. } => Some(&role.0),
        _ => None,
    }
}

/// What may be granted on the system's keyspaces. Who could write there would be a superuser
/// (CVE-2025-23015).
fn grantable_on_system() -> PermissionSet {
    [Permission::Select, Permission::Describe, Permission::Alter].into_iter().collect()
}

/// The permissions that a statement names.
pub(super) fn of_tree(permissions: &Permissions) -> PermissionSet {
    match permissions {
        Permissions::All => super::permission::ALL.into_iter().collect(),
        Permissions::Some(some) => some.iter().copied().collect(),
    }
}
