//! CREATE, ALTER and DROP KEYSPACE; replication.

use super::guard::{self, Permission, Resource};
use super::options::property::{Properties, config};
use super::{ChangeKind, ChangeTarget, DdlContext, DdlOutcome, SchemaChange};
use crate::ast::{AlterKeyspace, CreateKeyspace, Identifier};
use crate::error::{CqlError, Result, bail};
use crate::guardrails::Guard;
use model::KeyspaceSchema;
use model::schema::{Replication, is_system_keyspace};
use std::collections::BTreeMap;
use std::sync::Arc;

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";

pub(super) fn create(create: &CreateKeyspace, ctx: &DdlContext<'_>) -> Result<Option<DdlOutcome>> {
    let name = create.keyspace.as_str();
    guard::check_create_keyspace(name)?;
    ctx.guard.map_or(Ok(()), |guard| guard.keyspaces(name, ctx.schema))?;
    let properties = check(Properties(&create.properties))?;
    let Some(map) = properties.map("replication")? else {
        bail!("Missing mandatory option 'replication'");
    };
    guard_strategy(map, ctx)?;
    if ctx.schema.keyspace(name).is_some() {
        if create.if_not_exists {
            return Ok(None);
        }
        return Err(CqlError::AlreadyExists {
            keyspace: name.to_owned(),
            table: String::new(),
            message: format!("Cannot add existing keyspace \"{name}\""),
        });
    }
    let Some(replication) = replication(map, &BTreeMap::new(), ctx)? else {
        config!("Missing replication strategy class");
    };
    let durable_writes = properties.boolean("durable_writes")?.unwrap_or(true);
    let factors = Factors::of(&replication, name, ctx)?;
    factors.guard(name, ctx)?;
    let warnings = factors.warnings(name, ctx);
    let keyspace = KeyspaceSchema { durable_writes, ..KeyspaceSchema::new(name, replication) };
    let outcome = ctx.replaced(keyspace, ChangeKind::Created, ChangeTarget::Keyspace, None);
    Ok(outcome.map(|outcome| DdlOutcome { warnings, ..outcome }))
}

pub(super) fn alter(alter: &AlterKeyspace, ctx: &DdlContext<'_>) -> Result<Option<DdlOutcome>> {
    let name = alter.keyspace.as_str();
    guard::check(name, Permission::Alter, Resource::Keyspace)?;
    let properties = check(Properties(&alter.properties))?;
    if alter.if_exists && ctx.schema.keyspace(name).is_none() {
        return Ok(None);
    }
    let before = ctx.existing_keyspace(name)?;
    let mut after = KeyspaceSchema::clone(before);
    if let Some(map) = properties.map("replication")? {
        guard_strategy(map, ctx)?;
    }
    if let Some(map) = properties.map("replication")?
        && let Some(replication) = replication(map, &before.replication.options, ctx)?
    {
        after.replication = replication;
    }
    if let Some(durable_writes) = properties.boolean("durable_writes")? {
        after.durable_writes = durable_writes;
    }
    let factors = Factors::of(&after.replication, name, ctx)?;
    factors.guard(name, ctx)?;
    let mut warnings = factors.warnings(name, ctx);
    // A replication that this node cannot read (one of another data center, say) counts as none.
    let total_before = Factors::of(&before.replication, name, ctx).map_or(0, |factors| factors.total());
    if factors.total() > total_before {
        warnings.push(
            "When increasing replication factor you need to run a full (-full) repair to distribute the data."
                .to_owned(),
        );
    }
    let outcome = ctx.replaced(after, ChangeKind::Updated, ChangeTarget::Keyspace, None);
    Ok(outcome.map(|outcome| DdlOutcome { warnings, ..outcome }))
}

pub(super) fn drop(
    keyspace: &Identifier,
    if_exists: bool,
    ctx: &DdlContext<'_>,
) -> Result<Option<DdlOutcome>> {
    let name = keyspace.as_str();
    guard::check(name, Permission::Drop, Resource::Keyspace)?;
    ctx.guard.map_or(Ok(()), Guard::drop_keyspace)?;
    if if_exists && ctx.schema.keyspace(name).is_none() {
        return Ok(None);
    }
    ctx.existing_keyspace(name)?;
    let mut schema = ctx.schema.as_ref().clone();
    schema.keyspaces.remove(name);
    let change = SchemaChange {
        kind: ChangeKind::Dropped,
        target: ChangeTarget::Keyspace,
        keyspace: name.to_owned(),
        name: None,
    };
    Ok(Some(DdlOutcome { schema, change, warnings: Vec::new() }))
}

/// What is checked before the keyspace is looked up.
fn check(properties: Properties<'_>) -> Result<Properties<'_>> {
    properties.check_known(&["durable_writes", "replication"])?;
    if let Some(map) = properties.map("replication")?
        && !map.is_empty()
        && !map.iter().any(|(key, _)| key == "class")
    {
        config!("Missing replication strategy class");
    }
    Ok(properties)
}

fn guard_strategy(map: &[(String, String)], ctx: &DdlContext<'_>) -> Result<()> {
    match (ctx.guard, map.iter().find(|(key, _)| key == "class")) {
        (Some(guard), Some((_, class))) => guard.strategy(class),
        _ => Ok(()),
    }
}

/// Replication from its map, completed with what was `before`; `None` when the map is empty.
fn replication(
    map: &[(String, String)],
    before: &BTreeMap<String, String>,
    ctx: &DdlContext<'_>,
) -> Result<Option<Replication>> {
    let mut options: BTreeMap<String, String> = map.iter().cloned().collect();
    let Some(class) = options.remove("class") else { return Ok(None) };
    let factor_default = ctx.default_factor.to_string();
    let class = if class.contains('.') { class } else { format!("{PACKAGE}{class}") };
    match class.strip_prefix(PACKAGE) {
        Some("SimpleStrategy") => {
            let factor = before.get(FACTOR).unwrap_or(&factor_default);
            options.entry(FACTOR.to_owned()).or_insert_with(|| factor.clone());
        }
        Some("NetworkTopologyStrategy") => expand(&mut options, before, &factor_default, ctx.datacenters),
        Some("LocalStrategy") => {
            bail!("Unable to use given strategy class: LocalStrategy is reserved for internal use.")
        }
        Some("OldNetworkTopologyStrategy") => config!(
            "The support for the OldNetworkTopologyStrategy has been removed in C* version 4.0. The keyspace strategy \
             should be switch to NetworkTopologyStrategy"
        ),
        _ => config!("Unable to find replication strategy class '{class}'"),
    }
    Ok(Some(Replication { class, options }))
}

/// `replication_factor` stands for every data center that is not named. Factors of data centers that were
/// there before stay as they were, so that ALTER cannot lower them unnoticed.
fn expand(
    options: &mut BTreeMap<String, String>,
    before: &BTreeMap<String, String>,
    factor_default: &str,
    datacenters: &[(Arc<str>, u32)],
) {
    let given = options.remove(FACTOR);
    if given.is_some() || options.is_empty() {
        for (known, factor) in before {
            if known != FACTOR {
                options.entry(known.clone()).or_insert_with(|| factor.clone());
            }
        }
        let factor =
            given.as_deref().unwrap_or_else(|| before.get(FACTOR).map_or(factor_default, String::as_str));
        if let Ok(factor) = factor.parse::<u32>() {
            for (datacenter, _) in datacenters {
                options.entry(datacenter.to_string()).or_insert_with(|| factor.to_string());
            }
        }
    }
    options.retain(|_, factor| factor != "0");
}

/// The factors of a replication, by data center; of the cluster as a whole for SimpleStrategy.
struct Factors<'a> {
    by_datacenter: Vec<(Option<&'a str>, u32)>,
}

impl<'a> Factors<'a> {
    /// Reads and checks them.
    fn of(replication: &'a Replication, keyspace: &str, ctx: &DdlContext<'_>) -> Result<Factors<'a>> {
        let is_simple = replication.short_class() == "SimpleStrategy";
        let mut by_datacenter = Vec::new();
        for (name, text) in &replication.options {
            if is_simple && name != FACTOR {
                continue;
            }
            by_datacenter.push(((!is_simple).then_some(name.as_str()), factor(text)?));
        }
        if by_datacenter.is_empty() {
            config!("Configuration for at least one datacenter must be present");
        }
        let is_known = |name: &String| match is_simple {
            true => name == FACTOR,
            false => ctx.datacenters.iter().any(|(known, _)| **known == **name),
        };
        if let Some(unknown) = replication.options.keys().find(|name| !is_known(name)) {
            config!(
                "Unrecognized strategy option {{{unknown}}} passed to {} for keyspace {keyspace}",
                replication.short_class()
            );
        }
        Ok(Factors { by_datacenter })
    }

    fn guard(&self, keyspace: &str, ctx: &DdlContext<'_>) -> Result<()> {
        let Some(guard) = ctx.guard.filter(|_| !is_system_keyspace(keyspace)) else { return Ok(()) };
        self.by_datacenter.iter().try_for_each(|(_, factor)| guard.replication_factor(keyspace, *factor))
    }

    fn total(&self) -> u64 {
        self.by_datacenter.iter().map(|(_, factor)| u64::from(*factor)).sum()
    }

    fn warnings(&self, keyspace: &str, ctx: &DdlContext<'_>) -> Vec<String> {
        let nodes_of = |datacenter: Option<&str>| -> u32 {
            let counted =
                ctx.datacenters.iter().filter(|(name, _)| datacenter.is_none_or(|of| **name == *of));
            counted.map(|(_, nodes)| nodes).sum()
        };
        let counted = self.by_datacenter.iter().map(|(name, factor)| (name, factor, nodes_of(*name)));
        let too_high = counted.filter(|(_, factor, nodes)| *factor > nodes);
        too_high
            .map(|(datacenter, factor, nodes)| {
                let place = datacenter.map(|name| format!(" for datacenter {name}")).unwrap_or_default();
                format!(
                    "Your replication factor {factor} for keyspace {keyspace} is higher than the number of nodes \
                     {nodes}{place}"
                )
            })
            .collect()
    }
}

fn factor(text: &str) -> Result<u32> {
    if text.contains('/') {
        config!("Transient replication is not enabled on this node");
    }
    match text.parse::<i32>() {
        Err(_) => config!("For input string: \"{text}\""),
        Ok(factor) => match u32::try_from(factor) {
            Ok(factor) => Ok(factor),
            Err(_) => config!("Replication factor must be non-negative, found {factor}"),
        },
    }
}
