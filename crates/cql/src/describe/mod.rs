//! DESCRIBE: the schema as rows of CQL text (docs/formats/native-protocol.md).
//!
//! Lists have a row for each name, descriptions a row for each element. A keyspace comes first, then its
//! types (each after the types that it needs), its functions and aggregates, then its tables, each with its
//! indexes and views. Names are in alphabetical order whatever their case, and quoted where CQL needs that.

mod kept;
mod page;
mod text;

use crate::ast::{Describe, DescribeTarget, QualifiedName};
use crate::bind::ColumnSpec;
use crate::error::{Result, bail};
use bytes::Bytes;
use model::schema::Release;
use model::schema::{LOCAL_SYSTEM_KEYSPACES, REPLICATED_SYSTEM_KEYSPACES};
use model::types::{CqlType, UserType, collection};
use model::{KeyspaceSchema, Schema, TableSchema};
use std::collections::BTreeMap;
use std::sync::Arc;
use text::{Form, quoted};

/// What DESCRIBE tells of the node.
#[derive(Clone, Debug)]
pub struct DescribeContext<'a> {
    /// The schema.
    pub schema: &'a Arc<Schema>,
    /// The keyspace that the session uses.
    pub keyspace: Option<&'a str>,
    /// Name of the cluster.
    pub cluster_name: &'a str,
    /// Class name of the partitioner without its package.
    pub partitioner: &'a str,
    /// Class name of the snitch without its package.
    pub snitch: &'a str,
    /// The replicas of each token range by the range's end token, for the keyspace in use.
    pub range_ownership: &'a [(String, Vec<String>)],
}

/// The answer to DESCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeRows {
    /// The columns, of the table `system.describe`.
    pub columns: Vec<ColumnSpec>,
    /// The rows, with a value for each column.
    pub rows: Vec<Vec<Option<Bytes>>>,
}

/// What a snapshot keeps: the table with everything that is needed to read its files again, behind the types
/// that it needs.
pub fn schema_cql(table: &TableSchema, release: Release) -> String {
    let mut types = Vec::new();
    let columns = text::write_order(table).map(|column| &column.ty);
    columns.chain(table.dropped.iter().map(|gone| &gone.ty)).for_each(|ty| add_types(ty, &mut types));
    let form = Form { release, internals: true, is_virtual: false, is_view: false, if_not_exists: true };
    let mut out = String::new();
    for ty in types {
        out.push_str(&text::user_type(ty, true));
        out.push_str("\n\n");
    }
    out.push_str(&text::table(table, &form));
    out
}

/// Adds the user types that a type needs, each behind those that it needs itself.
fn add_types<'t>(ty: &'t CqlType, out: &mut Vec<&'t Arc<UserType>>) {
    match ty {
        CqlType::Udt { definition, .. } => add_type(definition, out),
        other => other.inner().into_iter().for_each(|inner| add_types(inner, out)),
    }
}

fn add_type<'t>(ty: &'t Arc<UserType>, out: &mut Vec<&'t Arc<UserType>>) {
    if out.iter().all(|added| added.name != ty.name) {
        ty.fields.iter().for_each(|(_, field)| add_types(field, out));
        out.push(ty);
    }
}

/// Describes.
pub fn describe(statement: &Describe, ctx: &DescribeContext<'_>) -> Result<DescribeRows> {
    let described = Described { schema: ctx.schema, internals: statement.with_internals };
    let elements = match &statement.target {
        DescribeTarget::Cluster => return Ok(cluster(ctx)),
        DescribeTarget::Keyspaces => {
            return Ok(names(
                by_name(&ctx.schema.keyspaces)
                    .map(|(name, _)| [quoted(name), "keyspace".to_owned(), quoted(name)]),
            ));
        }
        DescribeTarget::Tables => return list(ctx, "table", |keyspace| keys(&keyspace.tables)),
        DescribeTarget::Types => return list(ctx, "type", |keyspace| keys(&keyspace.types)),
        DescribeTarget::Functions => return list_elements(ctx, |keyspace| described.functions(keyspace)),
        DescribeTarget::Aggregates => return list_elements(ctx, |keyspace| described.aggregates(keyspace)),
        DescribeTarget::Schema { full } => by_name(&ctx.schema.keyspaces)
            .filter(|(_, keyspace)| *full || is_users(keyspace))
            .flat_map(|(_, keyspace)| described.keyspace(keyspace, false))
            .collect(),
        DescribeTarget::Keyspace { name, only } => {
            let name = name.as_ref().map(|name| name.as_str());
            described.keyspace(existing_keyspace(name, ctx)?, *only)
        }
        DescribeTarget::Table(name) => described.existing_table(name, ctx)?,
        DescribeTarget::Type(name) => {
            let keyspace = keyspace_of(name, ctx)?;
            match keyspace.types.get(name.name.as_str()) {
                Some(ty) => vec![user_type(ty)],
                None => bail!("User defined type '{}' not found in '{}'", name.name, keyspace.name),
            }
        }
        DescribeTarget::Index(name) => {
            let keyspace = keyspace_of(name, ctx)?;
            let found = described.index(keyspace, name.name.as_str());
            if !found.is_empty() {
                return Ok(described_rows(found));
            }
            bail!("Table for existing index '{}' not found in '{}'", name.name, keyspace.name)
        }
        DescribeTarget::View(name) => {
            let keyspace = keyspace_of(name, ctx)?;
            if let Some(view) = keyspace.views.get(name.name.as_str()) {
                return Ok(described_rows(vec![described.view(keyspace, view)]));
            }
            bail!("Materialized view '{}' not found in '{}'", name.name, keyspace.name)
        }
        DescribeTarget::Function(name) | DescribeTarget::Aggregate(name) => {
            let qualified = QualifiedName { keyspace: name.keyspace.clone(), name: name.name.clone() };
            let keyspace = keyspace_of(&qualified, ctx)?;
            let (kind, mut found) = if matches!(statement.target, DescribeTarget::Function(_)) {
                ("function", described.functions(keyspace))
            } else {
                ("aggregate", described.aggregates(keyspace))
            };
            let wanted = format!("{}(", quoted(name.name.as_str()));
            found.retain(|element| element.name.starts_with(&wanted));
            if !found.is_empty() {
                return Ok(described_rows(found));
            }
            bail!("User defined {kind} '{}' not found in '{}'", name.name, keyspace.name)
        }
        DescribeTarget::Generic(name) => described.anything(name, ctx)?,
    };
    Ok(described_rows(elements))
}

fn described_rows(elements: Vec<Element>) -> DescribeRows {
    let columns = varchars(&["keyspace_name", "type", "name", "create_statement"]);
    DescribeRows { columns, rows: elements.into_iter().map(Element::row).collect() }
}

/// One element of the schema.
struct Element {
    keyspace: String,
    kind: &'static str,
    /// Quoted where CQL needs that.
    name: String,
    text: String,
}

impl Element {
    fn row(self) -> Vec<Option<Bytes>> {
        vec![
            Some(quoted(&self.keyspace).into()),
            Some(Bytes::from_static(self.kind.as_bytes())),
            Some(self.name.into()),
            Some(self.text.into()),
        ]
    }
}

struct Described<'a> {
    schema: &'a Schema,
    internals: bool,
}

impl Described<'_> {
    fn keyspace(&self, keyspace: &KeyspaceSchema, only: bool) -> Vec<Element> {
        let name = &keyspace.name;
        let text = text::keyspace(keyspace);
        let mut out = vec![Element { keyspace: name.clone(), kind: "keyspace", name: quoted(name), text }];
        if !only {
            out.extend(types_in_order(keyspace).into_iter().map(user_type));
            out.extend(self.functions(keyspace));
            out.extend(self.aggregates(keyspace));
            out.extend(by_name(&keyspace.tables).flat_map(|(_, table)| self.table(keyspace, table)));
        }
        out
    }

    fn form(&self, is_virtual: bool, is_view: bool) -> Form {
        let (release, internals) = (self.schema.release, self.internals);
        Form { release, internals, is_virtual, is_view, if_not_exists: false }
    }

    /// A table, its indexes and its views.
    fn table(&self, keyspace: &KeyspaceSchema, table: &TableSchema) -> Vec<Element> {
        let text = text::table(table, &self.form(keyspace.is_virtual, false));
        let (keyspace_name, name) = (keyspace.name.clone(), quoted(&table.name));
        let mut out = vec![Element { keyspace: keyspace_name, kind: "table", name, text }];
        out.extend(self.derived(keyspace, table));
        out
    }

    /// The index of that name, as a list.
    fn index(&self, keyspace: &KeyspaceSchema, name: &str) -> Vec<Element> {
        let quoted = quoted(name);
        let derived = keyspace.tables.values().flat_map(|table| self.derived(keyspace, table));
        derived.filter(|element| element.kind == "index" && element.name == quoted).collect()
    }

    fn existing_table(&self, name: &QualifiedName, ctx: &DescribeContext<'_>) -> Result<Vec<Element>> {
        let keyspace = keyspace_of(name, ctx)?;
        match keyspace.tables.get(name.name.as_str()) {
            Some(table) => Ok(self.table(keyspace, table)),
            None => bail!("Table '{}' not found in keyspace '{}'", name.name, keyspace.name),
        }
    }

    /// A keyspace, or else a table of the keyspace in use.
    fn anything(&self, name: &QualifiedName, ctx: &DescribeContext<'_>) -> Result<Vec<Element>> {
        let text = name.name.as_str();
        if name.keyspace.is_none() {
            if let Some(keyspace) = self.schema.keyspace(text) {
                return Ok(self.keyspace(keyspace, false));
            }
            if ctx.keyspace.is_none() {
                bail!("'{text}' not found in keyspaces");
            }
        }
        let keyspace = keyspace_of(name, ctx)?;
        match keyspace.tables.get(text) {
            Some(table) => Ok(self.table(keyspace, table)),
            None if keyspace.views.contains_key(text) => {
                Ok(keyspace.views.get(text).map(|view| self.view(keyspace, view)).into_iter().collect())
            }
            None if !self.index(keyspace, text).is_empty() => Ok(self.index(keyspace, text)),
            None => bail!("'{text}' not found in keyspace '{}'", keyspace.name),
        }
    }
}

fn user_type(ty: &Arc<UserType>) -> Element {
    let text = text::user_type(ty, false);
    Element { keyspace: ty.keyspace.clone(), kind: "type", name: quoted(&ty.name), text }
}

fn is_users(keyspace: &KeyspaceSchema) -> bool {
    let name = keyspace.name.as_str();
    !keyspace.is_virtual
        && !LOCAL_SYSTEM_KEYSPACES.contains(&name)
        && !REPLICATED_SYSTEM_KEYSPACES.contains(&name)
}

/// Entries in alphabetical order, whatever the case of their names.
fn by_name<T>(map: &BTreeMap<String, T>) -> impl Iterator<Item = (&String, &T)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_by_key(|(name, _)| name.to_lowercase());
    entries.into_iter()
}

fn keys<T>(map: &BTreeMap<String, T>) -> Vec<String> {
    by_name(map).map(|(name, _)| name.clone()).collect()
}

/// The types of a keyspace, each after those that it needs.
fn types_in_order(keyspace: &KeyspaceSchema) -> Vec<&Arc<UserType>> {
    let mut out = Vec::with_capacity(keyspace.types.len());
    keyspace.types.values().for_each(|ty| add_type(ty, &mut out));
    out
}

fn existing_keyspace<'a>(name: Option<&str>, ctx: &DescribeContext<'a>) -> Result<&'a KeyspaceSchema> {
    let Some(name) = name.or(ctx.keyspace) else {
        bail!("No keyspace specified and no current keyspace");
    };
    match ctx.schema.keyspace(name) {
        Some(keyspace) => Ok(keyspace),
        None => bail!("'{name}' not found in keyspaces"),
    }
}

fn keyspace_of<'a>(name: &QualifiedName, ctx: &DescribeContext<'a>) -> Result<&'a KeyspaceSchema> {
    existing_keyspace(name.keyspace.as_ref().map(|keyspace| keyspace.as_str()), ctx)
}

/// The names of functions or aggregates, of the keyspace in use or of all.
fn list_elements(
    ctx: &DescribeContext<'_>,
    of: impl Fn(&KeyspaceSchema) -> Vec<Element>,
) -> Result<DescribeRows> {
    let keyspaces = match ctx.keyspace {
        Some(_) => vec![existing_keyspace(None, ctx)?],
        None => by_name(&ctx.schema.keyspaces).map(|(_, keyspace)| keyspace.as_ref()).collect(),
    };
    let elements = keyspaces.into_iter().flat_map(of);
    Ok(names(elements.map(|e| [quoted(&e.keyspace), e.kind.to_owned(), e.name])))
}

/// The names of one kind, of the keyspace in use or of all.
fn list(
    ctx: &DescribeContext<'_>,
    kind: &str,
    of: impl Fn(&KeyspaceSchema) -> Vec<String>,
) -> Result<DescribeRows> {
    let row = |keyspace: &str, name: &str| [quoted(keyspace), kind.to_owned(), quoted(name)];
    if ctx.keyspace.is_some() {
        let keyspace = existing_keyspace(None, ctx)?;
        return Ok(names(of(keyspace).iter().map(|name| row(&keyspace.name, name))));
    }
    let rows = by_name(&ctx.schema.keyspaces)
        .flat_map(|(_, keyspace)| of(keyspace).into_iter().map(|name| row(&keyspace.name, &name)));
    Ok(names(rows.collect::<Vec<_>>()))
}

fn names(rows: impl IntoIterator<Item = [String; 3]>) -> DescribeRows {
    let rows = rows.into_iter().map(|row| row.into_iter().map(|text| Some(text.into())).collect()).collect();
    DescribeRows { columns: varchars(&["keyspace_name", "type", "name"]), rows }
}

fn varchars(names: &[&str]) -> Vec<ColumnSpec> {
    names.iter().map(|name| column(name, CqlType::Text)).collect()
}

fn column(name: &str, ty: CqlType) -> ColumnSpec {
    ColumnSpec { keyspace: "system".into(), table: "describe".into(), name: name.to_owned(), ty }
}

fn cluster(ctx: &DescribeContext<'_>) -> DescribeRows {
    let mut columns = varchars(&["cluster", "partitioner", "snitch"]);
    let text = |text: &str| Some(Bytes::copy_from_slice(text.as_bytes()));
    let mut row = vec![text(ctx.cluster_name), text(ctx.partitioner), text(ctx.snitch)];
    let keyspace = ctx.keyspace.and_then(|name| ctx.schema.keyspace(name));
    if keyspace.is_some_and(|keyspace| is_users(keyspace)) {
        let replicas = CqlType::list(CqlType::Text, false);
        columns.push(column("range_ownership", CqlType::map(CqlType::Text, replicas, false)));
        let ranges =
            ctx.range_ownership.iter().map(|(token, replicas)| (token, collection::encode_list(replicas)));
        row.push(Some(collection::encode_map(&CqlType::Text, ranges)));
    }
    DescribeRows { columns, rows: vec![row] }
}
