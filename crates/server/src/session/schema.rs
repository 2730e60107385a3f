//! Statements that change the schema: one at a time, each judged by what the one before left.
//!
//! 1. `cql::ddl` makes the next schema of the present one.
//! 2. The engine makes it durable and puts it in force.
//! 3. Prepared statements that it concerns are dropped, here and on disk, registered clients are told, then
//!    the one that asked.

use std::sync::Arc;
use std::time::Duration;

use cql::ast::Statement;
use cql::ddl::{self, DdlContext, DdlOutcome};
use cql::guardrails::Guard;
use engine::EngineError;
use model::Schema;
use protocol::response::error::ErrorResponse;
use protocol::response::event::EventKind;
use protocol::response::schema_change::{ChangeKind, ChangeTarget, SchemaChange};
use protocol::response::{Event, Response, ResultBody};

use super::{Answer, Exchange, Sessions, error, principal};
use crate::auth::resource::Resource;
use crate::membership::with_transient_replicas;
use crate::node::estimates;
use crate::slices::take_time;

/// How long the answer to a change of the schema stays behind its events. Some drivers forget a keyspace when
/// they read the answer, and then do not tell of its tables.
const HEAD_START: Duration = Duration::from_millis(1);

pub(super) async fn change(
    exchange: &mut Exchange,
    statement: &Statement,
    keyspace: Option<&str>,
) -> Result<Answer, ErrorResponse> {
    exchange.changes_schema = true;
    let sessions = Arc::clone(&exchange.sessions);
    let node = &sessions.node;
    let turn = sessions.schema_turn.lock().await;
    let installed = loop {
        let guard = exchange.any_guard();
        let attempt = try_change(&sessions, statement, keyspace, guard.as_deref()).await;
        let warnings = guard.map(|guard| guard.take_warnings()).unwrap_or_default();
        if !matches!(attempt, Ok(Attempt::Overtaken)) {
            warnings.into_iter().for_each(|warning| exchange.warn(warning));
        }
        match attempt? {
            // Another node was faster: its change may decide otherwise about this one.
            Attempt::Overtaken => {}
            Attempt::Nothing => return Ok(Answer::VOID),
            Attempt::Installed(installed) => break installed,
        }
    };
    let Installed { old, new, change, warnings } = *installed;
    let stale = sessions.statements.invalidate(&old, &new);
    sessions.forget_statements(&stale).await;
    let change = to_protocol(change);
    let (gone, made) = granted_on(&old, &change);
    principal::after_schema_change(exchange, &gone, &made).await;
    for event in all_changes(&old, &new, &change) {
        node.connections.broadcast(&Event::Schema(event));
    }
    drop(turn);
    if node.connections.is_anyone_told(EventKind::SchemaChange) {
        node.env.tasks.sleep(HEAD_START).await;
    }
    warnings.into_iter().for_each(|warning| exchange.warn(warning));
    exchange.note(|| format!("Schema version is now {}", new.version));
    Ok(Answer::Response(Response::Result(ResultBody::SchemaChange(change))))
}

/// What came of an attempt to change the schema.
enum Attempt {
    /// Another node has changed it meanwhile.
    Overtaken,
    /// There was nothing to change.
    Nothing,
    Installed(Box<Installed>),
}

struct Installed {
    old: Arc<Schema>,
    new: Arc<Schema>,
    change: ddl::SchemaChange,
    warnings: Vec<String>,
}

async fn try_change(
    sessions: &Sessions,
    statement: &Statement,
    keyspace: Option<&str>,
    guard: Option<&Guard>,
) -> Result<Attempt, ErrorResponse> {
    let node = &sessions.node;
    let old = node.schema();
    let datacenters = sessions.coordinator.topology().datacenters();
    let context = DdlContext {
        schema: &old,
        keyspace,
        new_table_id: node.env.time_uuid(),
        now_micros: node.env.now_micros(),
        datacenters: &datacenters,
        drops_compact_storage: node.config.settings.drop_compact_storage_enabled,
        masking_enabled: node.config.settings.dynamic_data_masking_enabled,
        default_factor: node.config.settings.default_keyspace_rf,
        tables: &node.config.tables,
        guard,
    };
    let Some(outcome) = ddl::apply(statement, &context).map_err(error::of_cql)? else {
        return Ok(Attempt::Nothing);
    };
    let DdlOutcome { schema, change, warnings } = outcome;
    let (engine, before) = (Arc::clone(&node.engine), Arc::clone(&old));
    let install = move || {
        let new = engine.change_schema(&before, schema)?;
        if let Err(error) = estimates::forget_dropped(&engine, &before, &new) {
            tracing::warn!(%error, "the estimated sizes of a dropped table stay for some minutes");
        }
        Ok(new)
    };
    let installed = take_time(install).await;
    let new = match installed {
        Ok(Ok(new)) => new,
        Ok(Err(EngineError::SchemaMoved)) => return Ok(Attempt::Overtaken),
        Ok(Err(failure @ EngineError::Unstorable(_))) => {
            return Err(ErrorResponse::invalid(failure.to_string()));
        }
        Ok(Err(failure)) => return Err(error::internal(&failure.to_string())),
        Err(failure) => return Err(error::internal(&failure.to_string())),
    };
    Ok(Attempt::Installed(Box::new(Installed { old, new, change, warnings })))
}

/// Another node has changed the schema: prepared statements that it concerns are dropped, and clients told.
pub(super) async fn was_merged(sessions: &Arc<Sessions>, old: &Schema, new: &Schema) {
    let stale = sessions.statements.invalidate(old, new);
    sessions.forget_statements(&stale).await;
    if let Some(keyspace) = with_transient_replicas(new).filter(|_| with_transient_replicas(old).is_none()) {
        tracing::error!(
            keyspace,
            "another node has given a keyspace transient replicas, which are not supported here: its reads and writes are refused"
        );
    }
    for change in differences(old, new) {
        sessions.node.connections.broadcast(&Event::Schema(change));
    }
}

/// From one schema to the next, as clients are told: what comes before what it is made of.
fn differences(old: &Schema, new: &Schema) -> Vec<SchemaChange> {
    let mut told = Vec::new();
    let names: std::collections::BTreeSet<&String> =
        old.keyspaces.keys().chain(new.keyspaces.keys()).collect();
    for name in names {
        let mut tell = |kind, target| told.push(SchemaChange { kind, keyspace: name.clone(), target });
        let (before, after) = match (old.keyspace(name), new.keyspace(name)) {
            (None, Some(after)) => {
                tell(ChangeKind::Created, ChangeTarget::Keyspace);
                (None, Some(after))
            }
            (Some(before), None) => {
                for table in before.tables.keys() {
                    tell(ChangeKind::Dropped, ChangeTarget::Table { name: table.clone() });
                }
                tell(ChangeKind::Dropped, ChangeTarget::Keyspace);
                continue;
            }
            (before, after) => {
                if before.map(|k| (&k.replication, k.durable_writes))
                    != after.map(|k| (&k.replication, k.durable_writes))
                {
                    tell(ChangeKind::Updated, ChangeTarget::Keyspace);
                }
                (before, after)
            }
        };
        let Some(after) = after else { continue };
        for (name, ty) in &after.types {
            match before.and_then(|before| before.types.get(name)) {
                None => tell(ChangeKind::Created, ChangeTarget::Type { name: name.clone() }),
                Some(was) if was != ty => {
                    tell(ChangeKind::Updated, ChangeTarget::Type { name: name.clone() })
                }
                Some(_) => {}
            }
        }
        for (name, table) in &after.tables {
            match before.and_then(|before| before.tables.get(name)) {
                None => tell(ChangeKind::Created, ChangeTarget::Table { name: name.clone() }),
                Some(was) if was != table => {
                    tell(ChangeKind::Updated, ChangeTarget::Table { name: name.clone() });
                }
                Some(_) => {}
            }
        }
        let Some(before) = before else { continue };
        for name in before.tables.keys().filter(|name| !after.tables.contains_key(*name)) {
            tell(ChangeKind::Dropped, ChangeTarget::Table { name: name.clone() });
        }
        for name in before.types.keys().filter(|name| !after.types.contains_key(*name)) {
            tell(ChangeKind::Dropped, ChangeTarget::Type { name: name.clone() });
        }
    }
    told
}

/// What permissions may have been granted on and is gone, and what its maker is granted permissions on.
fn granted_on(old: &Schema, change: &SchemaChange) -> (Vec<Resource>, Vec<Resource>) {
    let name = &change.keyspace;
    match (change.kind, &change.target) {
        (ChangeKind::Created, ChangeTarget::Keyspace) => {
            (Vec::new(), vec![Resource::Keyspace(name.clone()), Resource::FunctionsIn(name.clone())])
        }
        (ChangeKind::Created, ChangeTarget::Table { name: table }) => {
            (Vec::new(), vec![Resource::table(name, table)])
        }
        (ChangeKind::Dropped, ChangeTarget::Keyspace) => {
            let tables = old.keyspace(name).into_iter().flat_map(|keyspace| keyspace.stores());
            let tables = tables.map(|table| Resource::table(name, &table.name));
            let itself = [
                Resource::Keyspace(name.clone()),
                Resource::AllTables(name.clone()),
                Resource::FunctionsIn(name.clone()),
            ];
            (itself.into_iter().chain(tables).collect(), Vec::new())
        }
        (ChangeKind::Dropped, ChangeTarget::Table { name: table }) => {
            (vec![Resource::table(name, table)], Vec::new())
        }
        _ => (Vec::new(), Vec::new()),
    }
}

/// What clients are told of, in order: a keyspace that goes takes its tables and types along, and a type that
/// changes changes what is made of it.
fn all_changes(old: &Schema, new: &Schema, change: &SchemaChange) -> Vec<SchemaChange> {
    let table = |name: &String| ChangeTarget::Table { name: name.clone() };
    let user_type = |name: &String| ChangeTarget::Type { name: name.clone() };
    let (before, after) = (old.keyspace(&change.keyspace), new.keyspace(&change.keyspace));
    let told = match (change.kind, &change.target, before, after) {
        (ChangeKind::Dropped, ChangeTarget::Keyspace, Some(gone), _) => {
            let targets = gone.tables.keys().map(table).chain(gone.types.keys().map(user_type));
            targets.chain([change.target.clone()]).collect()
        }
        (ChangeKind::Updated, ChangeTarget::Type { name: altered }, Some(before), Some(after)) => {
            let types = after.types.iter().filter(|(name, now)| {
                *name != altered && before.types.get(*name).is_some_and(|was| was != *now)
            });
            let tables = after
                .tables
                .iter()
                .filter(|(name, now)| before.tables.get(*name).is_some_and(|was| was != *now));
            let made_of_it =
                types.map(|(name, _)| user_type(name)).chain(tables.map(|(name, _)| table(name)));
            [change.target.clone()].into_iter().chain(made_of_it).collect()
        }
        _ => vec![change.target.clone()],
    };
    let of_target = |target| SchemaChange { kind: change.kind, keyspace: change.keyspace.clone(), target };
    told.into_iter().map(of_target).collect()
}

fn to_protocol(change: ddl::SchemaChange) -> SchemaChange {
    let name = change.name.unwrap_or_default();
    SchemaChange {
        kind: match change.kind {
            ddl::ChangeKind::Created => ChangeKind::Created,
            ddl::ChangeKind::Updated => ChangeKind::Updated,
            ddl::ChangeKind::Dropped => ChangeKind::Dropped,
        },
        target: match change.target {
            ddl::ChangeTarget::Keyspace => ChangeTarget::Keyspace,
            ddl::ChangeTarget::Table => ChangeTarget::Table { name },
            ddl::ChangeTarget::Type => ChangeTarget::Type { name },
        },
        keyspace: change.keyspace,
    }
}
