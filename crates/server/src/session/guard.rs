//! Guardrails: whom they hold, and when a statement is judged by them.
//!
//! In Cassandra's order: what a statement is made of when it is prepared (GROUP BY), what it is when it is
//! prepared or executed (ALLOW FILTERING, USING TIMESTAMP), its consistency levels, then its values, which
//! `cql` looks at while it binds them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use coordinator::{DiskUsage, Strategy};
use cql::guardrails::Guard;
use cql::plan::{BoundSelect, StatementKind};
use model::{Consistency, DecoratedKey, Schema};
use protocol::response::error::{ErrorKind, ErrorResponse};

use super::options::Options;
use super::statements::Statement;
use super::{Exchange, Sessions, error};

/// How often a client is warned of disks with little room, in nanoseconds.
const DISK_WARNING_NANOS: u64 = 1_800_000_000_000;

impl Sessions {
    /// Whether it is time to warn somebody of disks with little room: once in half an hour, as Cassandra.
    fn is_due_to_warn_of_disks(&self) -> bool {
        let now = (self.clock)();
        let next =
            |last: u64| (last == u64::MAX || now.saturating_sub(last) >= DISK_WARNING_NANOS).then_some(now);
        self.warned_of_disks_nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

impl Exchange {
    /// The guardrails for the statements of this request, if there are any for reads and writes.
    pub(super) fn guard(&self) -> Option<Arc<Guard>> {
        if self.sessions.guards_requests { self.any_guard() } else { None }
    }

    /// The guardrails for this request; none for superusers, and where nobody has to log in.
    pub(super) fn any_guard(&self) -> Option<Arc<Guard>> {
        let node = &self.sessions.node;
        if !node.auth.authenticates() {
            return None;
        }
        let principal = self.connection.principal_now();
        let is_held = principal.as_ref().is_none_or(|principal| !principal.grants().is_super);
        is_held.then(|| Arc::new(Guard::new(Arc::clone(&node.config.guardrails))))
    }

    /// Takes over what guardrails warned of, and answers with what they refused.
    pub(super) fn guarded<T>(
        &mut self,
        guard: Option<&Guard>,
        outcome: cql::error::Result<T>,
    ) -> Result<T, ErrorResponse> {
        if let Some(guard) = guard {
            guard.take_warnings().into_iter().for_each(|warning| self.warn(warning));
        }
        outcome.map_err(error::of_cql)
    }

    /// The keyspace of names that have none: what the request gives, or else what is in use.
    pub(super) fn keyspace_for(
        &self,
        given: Option<&str>,
        schema: &Schema,
    ) -> Result<Option<Arc<str>>, ErrorResponse> {
        let in_use = self.connection.keyspace();
        match given {
            Some(given) if in_use.as_deref() != Some(given) => match schema.keyspace(given) {
                Some(_) => Ok(Some(given.into())),
                None => Err(ErrorResponse::invalid(format!("Keyspace '{given}' does not exist"))),
            },
            _ => Ok(in_use),
        }
    }

    /// Parses and prepares a text as its sender may.
    pub(super) fn compile(
        &mut self,
        text: Arc<str>,
        keyspace: Option<&str>,
        schema: &Arc<Schema>,
        guard: Option<&Guard>,
    ) -> Result<Statement, ErrorResponse> {
        let compiled = Statement::compile(text, keyspace, schema);
        let Some(guard) = guard else { return compiled };
        let statement = compiled.map_err(|error| match error.kind {
            ErrorKind::Invalid => ErrorResponse::new(ErrorKind::Invalid, guard.reworded(error.message)),
            _ => error,
        })?;
        self.guarded(Some(guard), statement.plan.guard_preparation(guard))?;
        Ok(statement)
    }

    /// Judges a statement that is prepared or about to be executed.
    pub(super) fn validate(
        &mut self,
        statement: &Statement,
        guard: Option<&Guard>,
    ) -> Result<(), ErrorResponse> {
        let settings = &self.sessions.node.config.settings;
        if statement.plan.kind == StatementKind::Use && !settings.use_statements_enabled {
            let words = "USE statements prohibited. (see use_statements_enabled in cassandra.yaml)";
            return Err(ErrorResponse::invalid(words));
        }
        match guard {
            Some(guard) => self.guarded(Some(guard), statement.plan.guard_execution(guard)),
            None => Ok(()),
        }
    }

    /// Judges the consistency levels of a statement.
    pub(super) fn guard_levels(
        &mut self,
        kind: StatementKind,
        options: &Options,
    ) -> Result<(), ErrorResponse> {
        let Some(guard) = options.bind.guard.as_deref() else { return Ok(()) };
        let judged = match kind {
            StatementKind::Select | StatementKind::Explain => guard.read_level(options.consistency),
            StatementKind::Insert | StatementKind::Update | StatementKind::Delete | StatementKind::Batch => {
                guard.write_levels(options.consistency, options.serial_consistency)
            }
            _ => Ok(()),
        };
        self.guarded(Some(guard), judged)
    }

    /// Judges where writes go to: replicas whose disks are full take no more of those who are held.
    pub(super) fn guard_disks<'a>(
        &mut self,
        partitions: impl Iterator<Item = (&'a str, &'a DecoratedKey)>,
    ) -> Result<(), ErrorResponse> {
        let usage = self.sessions.coordinator.disk_usage(partitions);
        if usage <= DiskUsage::Spacious {
            return Ok(());
        }
        let Some(guard) = self.any_guard() else { return Ok(()) };
        let is_full = usage == DiskUsage::Full;
        if !is_full && !self.sessions.is_due_to_warn_of_disks() {
            return Ok(());
        }
        self.guarded(Some(&guard), guard.replica_disk_usage(is_full))
    }

    /// Judges a read that filters by what replicas may hold apart.
    pub(super) fn guard_filters(
        &mut self,
        select: &BoundSelect,
        level: Consistency,
    ) -> Result<(), ErrorResponse> {
        let is_of_one = matches!(level, Consistency::One | Consistency::LocalOne | Consistency::NodeLocal);
        if is_of_one || !select.filters_mutable_columns() {
            return Ok(());
        }
        let schema = self.sessions.node.schema();
        let keyspace = schema.keyspace(&select.command.table.keyspace);
        let replicas = keyspace.filter(|k| !k.is_virtual).map_or(1, |k| Strategy::of(&k.replication).total());
        match self.any_guard() {
            Some(guard) if replicas > 1 => self.guarded(Some(&guard), guard.intersect_filtering()),
            _ => Ok(()),
        }
    }
}
