//! The tables of `system_auth`: rows as they are read, and the mutations of each change. They are ordinary
//! tables, read and written through the coordinator; the tables and columns are Cassandra's.
//!
//! A change that concerns several rows is one logged batch, so a crash leaves all of it or nothing.
//!
//! In a ring `auth_read_consistency_level` and `auth_write_consistency_level` say how many replicas take
//! part. Of the role that Cassandra makes first it is always a majority (`CassandraRoleManager`). A node that
//! is in no ring is asked alone, however many replicas the keyspace was given elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Coordinator, CoordinatorError, Page, PullError, ReadRequest};
use engine::Engine;
use env::Env;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::schema::Release;
use model::{
    Cell, Clustering, Component, Consistency, DecoratedKey, Deletion, Liveness, Mutation, PartitionKey,
    PartitionUpdate, Row, TableSchema,
};
use partition::ReadContext;

use super::permission::{self, PermissionSet};
use super::resource::Resource;
use crate::config::Config;
use crate::state::NodeState;

const KEYSPACE: &str = "system_auth";
/// The role that is made where there is none.
pub(super) const FIRST_ROLE: &str = "cassandra";

/// Why a table of roles could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The coordinator refused or failed.
    #[error("{0}")]
    Coordinator(#[from] CoordinatorError),
    /// A directory of an older release has no such table.
    #[error("there is no table {KEYSPACE}.{0}")]
    NoTable(&'static str),
}

/// Why what a role may do is not known, in Cassandra's words. Whether it is a superuser is asked first.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnknownGrants {
    /// Its own row or one of a role that it was granted.
    #[error("Unable to perform authorization of super-user permission: {0}")]
    OfRole(#[source] StoreError),
    /// What these were granted.
    #[error("Unable to perform authorization of permissions: {0}")]
    OfPermissions(#[source] StoreError),
}

impl From<UnknownGrants> for StoreError {
    fn from(error: UnknownGrants) -> Self {
        let (UnknownGrants::OfRole(cause) | UnknownGrants::OfPermissions(cause)) = error;
        cause
    }
}

pub(super) type Result<T> = std::result::Result<T, StoreError>;

/// A role as its row says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) name: String,
    pub(crate) is_super: bool,
    pub(crate) can_login: bool,
    pub(crate) member_of: BTreeSet<String>,
    pub(crate) salted_hash: Option<String>,
}

/// A row: key, clustering, and the values of each column; elements of a set are several.
#[derive(Debug, Default)]
pub(super) struct StoredRow {
    key: String,
    clustering: String,
    values: BTreeMap<String, Vec<Bytes>>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl StoredRow {
    /// Its partition's key.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn value(&self, column: &str) -> Option<&Bytes> {
        self.values.get(column)?.first()
    }

    fn flag(&self, column: &str) -> bool {
        self.value(column).is_some_and(|value| value.as_ref() == [1])
    }

    fn texts(&self, column: &str) -> BTreeSet<String> {
        self.values.get(column).into_iter().flatten().map(|value| text(value)).collect()
    }

    fn permissions(&self) -> PermissionSet {
        let names = self.values.get("permissions").into_iter().flatten();
        PermissionSet::of_names(names.map(|name| name.as_ref()))
    }

    fn role(&self) -> Role {
        Role {
            name: self.key.clone(),
            is_super: self.flag("is_superuser"),
            can_login: self.flag("can_login"),
            member_of: self.texts("member_of"),
            salted_hash: self.value("salted_hash").map(|value| text(value)),
        }
    }
}

/// One row to be written.
pub(crate) struct RowChange {
    update: PartitionUpdate,
    row: Row,
    timestamp: i64,
    now_s: u32,
}

impl RowChange {
    pub(super) fn set(mut self, column: &str, value: impl AsRef<[u8]>) -> RowChange {
        if let Some(column) = self.update.table.column(column) {
            let value = Bytes::copy_from_slice(value.as_ref());
            self.row.cells.push(Cell::live(column.id, self.timestamp, value));
        }
        self
    }

    fn flag(self, column: &str, value: bool) -> RowChange {
        self.set(column, [u8::from(value)])
    }

    /// Adds elements to a set.
    fn add<'a>(mut self, column: &str, elements: impl IntoIterator<Item = &'a str>) -> RowChange {
        if let Some(column) = self.update.table.column(column) {
            for element in elements {
                let path = Bytes::copy_from_slice(element.as_bytes());
                self.row.cells.push(Cell::live(column.id, self.timestamp, Bytes::new()).with_path(path));
            }
        }
        self
    }

    /// Takes elements out of a set.
    fn remove<'a>(mut self, column: &str, elements: impl IntoIterator<Item = &'a str>) -> RowChange {
        if let Some(column) = self.update.table.column(column) {
            for element in elements {
                let path = Bytes::copy_from_slice(element.as_bytes());
                let cell = Cell::tombstone(column.id, self.timestamp, self.now_s);
                self.row.cells.push(cell.with_path(path));
            }
        }
        self
    }

    fn inserted(mut self) -> RowChange {
        self.row.liveness = Liveness::new(self.timestamp);
        self
    }

    fn deleted(mut self) -> RowChange {
        self.row.set_deletion(Deletion::new(self.timestamp, self.now_s), false);
        self
    }

    pub(super) fn done(self) -> Mutation {
        let RowChange { mut update, mut row, .. } = self;
        row.cells.sort_by(|a, b| a.column.cmp(&b.column).then_with(|| a.path.cmp(&b.path)));
        update.rows.push(row);
        Mutation::of(update)
    }

    pub(super) fn partition_deleted(self) -> Mutation {
        let RowChange { mut update, timestamp, now_s, .. } = self;
        update.deletion = Deletion::new(timestamp, now_s);
        Mutation::of(update)
    }
}

/// The tables of a node.
#[derive(Clone)]
pub(crate) struct Store {
    env: Env,
    engine: Arc<Engine>,
    coordinator: Arc<Coordinator>,
    levels: Levels,
}

/// How many replicas take part.
#[derive(Clone, Copy, Debug)]
struct Levels {
    reads: Consistency,
    writes: Consistency,
    /// Of both, where it is about [`FIRST_ROLE`].
    of_first: Consistency,
}

impl Levels {
    fn of(config: &Config, release: Release) -> Levels {
        if config.ring.is_none() {
            let one = Consistency::One;
            return Levels { reads: one, writes: one, of_first: one };
        }
        let (reads, writes) = config.auth_levels(release);
        Levels { reads, writes, of_first: Consistency::Quorum }
    }
}

impl Store {
    /// What a node has and was told, and who reads and writes for it.
    pub(crate) fn new(state: &NodeState, coordinator: &Arc<Coordinator>) -> Store {
        Store {
            env: state.env.clone(),
            engine: Arc::clone(&state.engine),
            coordinator: Arc::clone(coordinator),
            levels: Levels::of(&state.config, state.engine.release()),
        }
    }

    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    /// The monotonic clock.
    pub(super) fn now_nanos(&self) -> u64 {
        self.env.clock.monotonic_nanos()
    }

    pub(super) fn table(&self, name: &'static str) -> Result<Arc<TableSchema>> {
        self.engine.schema().table(KEYSPACE, name).cloned().ok_or(StoreError::NoTable(name))
    }

    fn now_s(&self) -> u32 {
        u32::try_from(self.env.now_seconds()).unwrap_or(u32::MAX)
    }

    /// The rows of a partition, or of all.
    pub(super) async fn rows(&self, table: &'static str, key: Option<&str>) -> Result<Vec<StoredRow>> {
        let is_first = table == "roles" && key == Some(FIRST_ROLE);
        self.rows_at(table, key, if is_first { self.levels.of_first } else { self.levels.reads }).await
    }

    async fn rows_at(
        &self,
        table: &'static str,
        key: Option<&str>,
        level: Consistency,
    ) -> Result<Vec<StoredRow>> {
        let table = self.table(table)?;
        let partitions = match key {
            Some("") => return Ok(Vec::new()),
            Some(key) => PartitionSelection::Keys(vec![key_of(key)]),
            None => PartitionSelection::Range(KeyRange::FULL),
        };
        let command = Arc::new(ReadCommand {
            partitions,
            clusterings: ClusteringFilter::all(),
            columns: ColumnSelection::all(&table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: self.now_s(),
            table: Arc::clone(&table),
        });
        let request = ReadRequest::all(command, level, ReadContext::default());
        let take = move |page: &mut Page| -> std::result::Result<Vec<StoredRow>, PullError> {
            let mut rows = Vec::new();
            while let Some(row) = page.next_row()? {
                let mut stored = StoredRow { key: text(&row.key.key.0), ..StoredRow::default() };
                if let Some(clustering) = row.row.and_then(|row| row.clustering.value(0)) {
                    stored.clustering = text(clustering);
                }
                for column in table.select_star() {
                    let value = |cell: &Cell| match cell.path.is_empty() {
                        true => cell.value.clone(),
                        false => cell.path.clone(),
                    };
                    let values: Vec<Bytes> = row.live_cells(column.id, false).map(value).collect();
                    if !values.is_empty() {
                        stored.values.insert(column.name.to_string(), values);
                    }
                }
                rows.push(stored);
            }
            Ok(rows)
        };
        Ok(self.coordinator.collect(&request, take, None, &mut ()).await?)
    }

    /// A role; `None` when there is none of that name.
    pub(crate) async fn role(&self, name: &str) -> Result<Option<Role>> {
        Ok(self.rows("roles", Some(name)).await?.first().map(StoredRow::role))
    }

    /// Whether anybody has a role. Where one answer is enough, no others are waited for
    /// (`CassandraRoleManager.hasExistingRoles`).
    pub(super) async fn has_roles(&self) -> Result<bool> {
        let looks = [
            (Some(FIRST_ROLE), Consistency::One),
            (Some(FIRST_ROLE), self.levels.of_first),
            (None, self.levels.of_first),
        ];
        for (key, level) in looks {
            if !self.rows_at("roles", key, level).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All roles, by name.
    pub(crate) async fn roles(&self) -> Result<Vec<Role>> {
        let mut roles: Vec<Role> = self.rows("roles", None).await?.iter().map(StoredRow::role).collect();
        roles.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(roles)
    }

    /// A role and those that it inherits from, by name; only those next to it when not `recursive`.
    pub(crate) async fn granted_roles(&self, name: &str, recursive: bool) -> Result<BTreeMap<String, Role>> {
        let mut found = BTreeMap::new();
        let mut wanted = vec![(name.to_owned(), true)];
        while let Some((name, goes_on)) = wanted.pop() {
            if found.contains_key(&name) {
                continue;
            }
            let Some(role) = self.role(&name).await? else { continue };
            if goes_on {
                wanted.extend(role.member_of.iter().map(|parent| (parent.clone(), recursive)));
            }
            found.insert(name, role);
        }
        Ok(found)
    }

    /// Resources and permissions of a role, those of its parents not included.
    pub(crate) async fn permissions_of(&self, role: &str) -> Result<Vec<(Resource, PermissionSet)>> {
        let rows = self.rows("role_permissions", Some(role)).await?;
        let known = |row: &StoredRow| Some((Resource::of_name(&row.clustering)?, row.permissions()));
        Ok(rows.iter().filter_map(known).collect())
    }

    /// Roles with resources and permissions of all.
    pub(crate) async fn all_permissions(&self) -> Result<Vec<(String, Resource, PermissionSet)>> {
        let rows = self.rows("role_permissions", None).await?;
        let known =
            |row: &StoredRow| Some((row.key.clone(), Resource::of_name(&row.clustering)?, row.permissions()));
        Ok(rows.iter().filter_map(known).collect())
    }

    /// The identity that clients with certificates have, and its role.
    pub(crate) async fn identities(&self) -> Result<Vec<(String, String)>> {
        let rows = self.rows("identity_to_role", None).await?;
        Ok(rows
            .iter()
            .map(|row| (row.key.clone(), row.value("role").map(|v| text(v)).unwrap_or_default()))
            .collect())
    }

    /// The role of an identity; `None` where nobody has added it.
    pub(crate) async fn role_of_identity(&self, identity: &str) -> Result<Option<String>> {
        let rows = self.rows("identity_to_role", Some(identity)).await?;
        Ok(rows.first().and_then(|row| row.value("role")).map(|role| text(role)))
    }

    pub(super) fn change(
        &self,
        table: &'static str,
        key: &str,
        clustering: Option<&str>,
    ) -> Result<RowChange> {
        let update = PartitionUpdate::new(self.table(table)?, key_of(key));
        let mut place = Clustering::empty();
        if let Some(value) = clustering {
            place.push(Component::Value(value.as_bytes()));
        }
        let timestamp = self.coordinator.next_timestamp();
        Ok(RowChange { update, row: Row::new(place), timestamp, now_s: self.now_s() })
    }

    /// Writes mutations: all of them or none.
    pub(crate) async fn write(&self, mutations: Vec<Mutation>) -> Result<()> {
        if mutations.is_empty() {
            return Ok(());
        }
        let first = key_of(FIRST_ROLE);
        let is_first = |update: &PartitionUpdate| update.table.name == "roles" && update.key == first;
        let has_first = mutations.iter().flat_map(|mutation| &mutation.updates).any(is_first);
        let level = if has_first { self.levels.of_first } else { self.levels.writes };
        Ok(self.coordinator.write_logged_batch(mutations, level, None).await?)
    }

    /// The role that is made where there is none. It is older than anything: where it is made anew, because
    /// the role that there is was not found, that one stays as it is (CASSANDRA-12525).
    pub(crate) fn create_first_role(&self, salted_hash: &str) -> Result<Mutation> {
        let change = RowChange { timestamp: 0, ..self.change("roles", FIRST_ROLE, None)? };
        let change = change.inserted().flag("is_superuser", true).flag("can_login", true);
        Ok(change.set("salted_hash", salted_hash).done())
    }

    /// A new role.
    pub(crate) fn create_role(&self, role: &Role) -> Result<Mutation> {
        let mut change = self.change("roles", &role.name, None)?.inserted();
        change = change.flag("is_superuser", role.is_super).flag("can_login", role.can_login);
        if let Some(hash) = &role.salted_hash {
            change = change.set("salted_hash", hash);
        }
        Ok(change.done())
    }

    /// What changes of a role; `None` stays as it is.
    pub(crate) fn alter_role(
        &self,
        role: &str,
        is_super: Option<bool>,
        can_login: Option<bool>,
        salted_hash: Option<&str>,
    ) -> Result<Mutation> {
        let mut change = self.change("roles", role, None)?;
        if let Some(is_super) = is_super {
            change = change.flag("is_superuser", is_super);
        }
        if let Some(can_login) = can_login {
            change = change.flag("can_login", can_login);
        }
        if let Some(hash) = salted_hash {
            change = change.set("salted_hash", hash);
        }
        Ok(change.done())
    }

    /// Makes `member` inherit from `role`.
    pub(crate) fn grant_role(&self, role: &str, member: &str) -> Result<Vec<Mutation>> {
        Ok(vec![
            self.change("roles", member, None)?.add("member_of", [role]).done(),
            self.change("role_members", role, Some(member))?.inserted().done(),
        ])
    }

    /// Ends that.
    pub(crate) fn revoke_role(&self, role: &str, member: &str) -> Result<Vec<Mutation>> {
        Ok(vec![
            self.change("roles", member, None)?.remove("member_of", [role]).done(),
            self.change("role_members", role, Some(member))?.deleted().done(),
        ])
    }

    /// Gives a role permissions on a resource.
    pub(crate) fn grant(
        &self,
        role: &str,
        on: &Resource,
        permissions: PermissionSet,
    ) -> Result<Vec<Mutation>> {
        let names = permissions.iter().map(permission::name);
        Ok(vec![
            self.change("role_permissions", role, Some(&on.name()))?.add("permissions", names).done(),
            self.change("resource_role_permissons_index", &on.name(), Some(role))?.inserted().done(),
        ])
    }

    /// Takes permissions on a resource from a role, which has others on it or not.
    pub(crate) fn revoke(
        &self,
        role: &str,
        on: &Resource,
        permissions: PermissionSet,
        has_others: bool,
    ) -> Result<Vec<Mutation>> {
        let names = permissions.iter().map(permission::name);
        let mut mutations = vec![
            self.change("role_permissions", role, Some(&on.name()))?.remove("permissions", names).done(),
        ];
        if !has_others {
            let index = self.change("resource_role_permissons_index", &on.name(), Some(role))?;
            mutations.push(index.deleted().done());
        }
        Ok(mutations)
    }

    /// A role goes, and with it all that was granted to it, on it, and through it.
    pub(crate) async fn drop_role(&self, role: &str) -> Result<Vec<Mutation>> {
        let mut mutations = vec![
            self.change("roles", role, None)?.partition_deleted(),
            self.change("role_members", role, None)?.partition_deleted(),
            self.change("role_permissions", role, None)?.partition_deleted(),
            self.drop_datacenters(role)?,
        ];
        for member in self.rows("role_members", Some(role)).await? {
            mutations
                .push(self.change("roles", &member.clustering, None)?.remove("member_of", [role]).done());
        }
        let parents = self.role(role).await?.map(|role| role.member_of).unwrap_or_default();
        for parent in parents {
            mutations.push(self.change("role_members", &parent, Some(role))?.deleted().done());
        }
        for row in self.rows("role_permissions", Some(role)).await? {
            let index = self.change("resource_role_permissons_index", &row.clustering, Some(role))?;
            mutations.push(index.deleted().done());
        }
        // Directories of older releases do not have these.
        if self.table("cidr_permissions").is_ok() {
            mutations.push(self.change("cidr_permissions", role, None)?.partition_deleted());
        }
        if self.table("identity_to_role").is_ok() {
            for (identity, _) in self.identities().await?.iter().filter(|(_, of)| of == role) {
                mutations.push(self.change("identity_to_role", identity, None)?.partition_deleted());
            }
        }
        mutations.extend(self.drop_resource(&Resource::Role(role.to_owned())).await?);
        Ok(mutations)
    }

    /// What was granted on a resource goes with it.
    pub(crate) async fn drop_resource(&self, resource: &Resource) -> Result<Vec<Mutation>> {
        let name = resource.name();
        let roles = self.rows("resource_role_permissons_index", Some(&name)).await?;
        if roles.is_empty() {
            return Ok(Vec::new());
        }
        let mut mutations =
            vec![self.change("resource_role_permissons_index", &name, None)?.partition_deleted()];
        for row in &roles {
            let change = self.change("role_permissions", &row.clustering, Some(&name))?;
            mutations.push(change.deleted().done());
        }
        Ok(mutations)
    }

    /// Says whose an identity is.
    pub(crate) fn add_identity(&self, identity: &str, role: &str) -> Result<Mutation> {
        Ok(self.change("identity_to_role", identity, None)?.inserted().set("role", role).done())
    }

    /// Forgets an identity.
    pub(crate) fn drop_identity(&self, identity: &str) -> Result<Mutation> {
        Ok(self.change("identity_to_role", identity, None)?.partition_deleted())
    }
}

fn key_of(key: &str) -> DecoratedKey {
    DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(key.as_bytes())))
}
