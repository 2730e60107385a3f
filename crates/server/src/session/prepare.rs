//! PREPARE: a statement under an id, and `system.prepared_statements`, where its text outlives the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use cql::plan::{StatementKind, roles};
use engine::WriteOptions;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::{
    Cell, Clustering, Consistency, DecoratedKey, Deletion, Liveness, Mutation, PartitionKey, PartitionUpdate,
    Row, WriteType,
};
use partition::{LiveRows, PageLimits, ReadContext};
use protocol::ids::Id;
use protocol::request::Prepare;
use protocol::response::error::ErrorResponse;
use protocol::response::prepared::Prepared;
use protocol::response::{Response, ResultBody};

use super::options::seconds;
use super::statements::{Statement, to_protocol};
use super::{Answer, Exchange, Progress, Sessions, error};
use crate::redact;

/// What became of the prepared statements of the last run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recalled {
    /// Those that are prepared again.
    pub(super) prepared: u64,
    /// Those that the schema has no place for any more.
    pub(super) gone: u64,
    /// Why the first of the latter is gone.
    pub(super) first_reason: Option<String>,
}

pub(super) fn run(exchange: &mut Exchange, prepare: Prepare) -> Result<Progress, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    let text: Arc<str> = prepare.statement.into();
    exchange.text = Some(Arc::clone(&text));
    exchange.note(|| format!("Parsing {}", redact::passwords(&text)));
    let schema = sessions.node.schema();
    let keyspace = exchange.keyspace_for(prepare.keyspace.as_deref(), &schema)?;
    let guard = exchange.guard();
    let statement = Arc::new(exchange.compile(text, keyspace.as_deref(), &schema, guard.as_deref())?);
    exchange.note_for_logs(&statement);
    exchange.validate(&statement, guard.as_deref())?;
    if let (Some(tree), None) = (statement.plan.about_roles(), exchange.principal()) {
        return Err(error::of_cql(roles::refusal(tree, &schema, keyspace.as_deref())));
    }
    sessions.statements.check_size(&statement)?;
    if !statement.plan.is_qualified && sessions.statements.get(&statement.id).is_none() {
        warn_about_use(exchange, keyspace.as_deref(), &statement);
    }
    sessions.keep_statement(&statement);
    // A change of the schema that came in between did not find the statement in the cache.
    let now = sessions.node.schema();
    if !Arc::ptr_eq(&schema, &now) {
        sessions.statements.invalidate(&schema, &now);
    }
    let plan = &statement.plan;
    let answer = Prepared {
        id: Bytes::copy_from_slice(&statement.id),
        result_metadata_id: Bytes::copy_from_slice(&statement.result_metadata_id),
        bind: to_protocol(&plan.bind_variables),
        partition_key_indexes: plan.partition_key_binds.clone(),
        result: to_protocol(&plan.result_columns),
    };
    Ok(Progress::Over(Answer::Response(Response::Result(ResultBody::Prepared(answer)))))
}

/// Warns of a statement that nobody has prepared yet, as Cassandra does: once for a connection whose keyspace
/// it uses, each time where the request gives another. Changes of the schema need no keyspace for that.
fn warn_about_use(exchange: &mut Exchange, used: Option<&str>, statement: &Statement) {
    let is_of_connection = exchange.connection.keyspace().as_deref() == used;
    if is_of_connection && exchange.connection.warned_about_use.swap(true, Ordering::Relaxed) {
        return;
    }
    let id: String = statement.id.iter().map(|byte| format!("{byte:02x}")).collect();
    let used = used.unwrap_or("null");
    let of_statement = statement.keyspace.as_deref().unwrap_or("null");
    exchange.warn(format!(
        "`USE <keyspace>` with prepared statements is considered to be an anti-pattern due to ambiguity in \
         non-qualified table names. Please consider removing instances of `Session#setKeyspace(<keyspace>)`, \
         `Session#execute(\"USE <keyspace>\")` and `cluster.newSession(<keyspace>)` from your code, and always use \
         fully qualified table names (e.g. <keyspace>.<table>). Keyspace used: {used}, statement keyspace: \
         {of_statement}, statement id: {id}"
    ));
}

impl Sessions {
    /// Puts a statement into the cache and, soon, on disk.
    fn keep_statement(self: &Arc<Self>, statement: &Arc<Statement>) {
        // Taken before anybody can find the statement: whoever forgets it is later, however late this is
        // written.
        let timestamp = self.coordinator.next_timestamp();
        let (is_new, evicted) = self.statements.insert(Arc::clone(statement));
        let is_kept = matches!(
            statement.plan.kind,
            StatementKind::Select
                | StatementKind::Insert
                | StatementKind::Update
                | StatementKind::Delete
                | StatementKind::Batch
        );
        if (!is_new || !is_kept) && evicted.is_empty() {
            return;
        }
        let sessions = Arc::clone(self);
        let kept = (is_new && is_kept).then(|| self.statement_row(statement, timestamp)).flatten();
        let forgotten = evicted.iter().filter_map(|id| self.statement_deletion(id));
        let mutations: Vec<Mutation> = kept.into_iter().chain(forgotten).collect();
        tokio::spawn(async move { sessions.write_statements(mutations).await });
    }

    /// Forgets statements on disk that are no longer in the cache.
    pub(super) async fn forget_statements(&self, ids: &[Id]) {
        self.write_statements(ids.iter().filter_map(|id| self.statement_deletion(id)).collect()).await;
    }

    async fn write_statements(&self, mutations: Vec<Mutation>) {
        if mutations.is_empty() {
            return;
        }
        let written = self.coordinator.write(mutations, Consistency::One, WriteType::Simple, None).await;
        if let Err(error) = written {
            tracing::warn!(%error, "a prepared statement could not be written down");
        }
    }

    /// Writes a statement down as PREPARE does, and waits for it.
    #[cfg(test)]
    pub(super) async fn write_down(&self, statement: &Statement, timestamp: i64) {
        self.write_statements(self.statement_row(statement, timestamp).into_iter().collect()).await;
    }

    fn statement_update(&self, id: &[u8]) -> Option<PartitionUpdate> {
        let table = Arc::clone(self.node.schema().table("system", "prepared_statements")?);
        let key = DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(id)));
        Some(PartitionUpdate::new(table, key))
    }

    fn statement_row(&self, statement: &Statement, timestamp: i64) -> Option<Mutation> {
        let mut update = self.statement_update(&statement.id)?;
        let mut row = Row::new(Clustering::empty());
        row.liveness = Liveness::new(timestamp);
        let values = [
            ("logged_keyspace", statement.keyspace.clone()),
            ("query_string", Some(Arc::clone(&statement.text))),
        ];
        for (name, value) in values {
            if let (Some(column), Some(value)) = (update.table.column(name), value) {
                row.cells.push(Cell::live(column.id, timestamp, Bytes::copy_from_slice(value.as_bytes())));
            }
        }
        row.cells.sort_by_key(|cell| cell.column);
        update.rows.push(row);
        Some(Mutation::of(update))
    }

    fn statement_deletion(&self, id: &[u8]) -> Option<Mutation> {
        let mut update = self.statement_update(id)?;
        let timestamp = self.coordinator.next_timestamp();
        update.deletion = Deletion::new(timestamp, seconds(timestamp));
        Some(Mutation::of(update))
    }

    /// Prepares what `system.prepared_statements` holds, and forgets there what is no statement any more.
    /// One line says how many there were of both, with the first reason.
    pub(super) fn recall_statements(self: &Arc<Self>) -> Recalled {
        let mut recalled = Recalled::default();
        for (id, keyspace, text) in self.stored_statements().unwrap_or_default() {
            match Statement::compile(text.into(), keyspace.as_deref(), &self.node.schema()) {
                Ok(statement) => {
                    recalled.prepared += 1;
                    self.statements.insert(Arc::new(statement));
                }
                Err(error) => {
                    recalled.gone += 1;
                    let reason = || redact::passwords(&error.to_string()).into_owned();
                    recalled.first_reason.get_or_insert_with(reason);
                    self.forget_at_once(&id);
                }
            }
        }
        let Recalled { prepared, gone, first_reason } = &recalled;
        if let Some(first_reason) = first_reason {
            tracing::info!(
                prepared,
                gone,
                first_reason,
                "prepared the statements of the last run, but for those that are none any more"
            );
        } else if *prepared > 0 {
            tracing::info!(prepared, "prepared the statements of the last run");
        }
        recalled
    }

    /// Forgets a statement on disk, where nobody waits yet. What fails is tried again at the next start.
    fn forget_at_once(&self, id: &Bytes) {
        let Some(mutation) = self.statement_deletion(id) else { return };
        if let Err(error) = self.node.engine.apply(&mutation, WriteOptions::default()) {
            tracing::warn!(%error, "a prepared statement could not be forgotten");
        }
    }

    /// Id, keyspace and text of each.
    fn stored_statements(&self) -> Option<Vec<(Bytes, Option<String>, String)>> {
        let table = Arc::clone(self.node.schema().table("system", "prepared_statements")?);
        let (keyspace, text) = (table.column("logged_keyspace")?.id, table.column("query_string")?.id);
        let command = Arc::new(ReadCommand {
            columns: ColumnSelection::all(&table),
            partitions: PartitionSelection::Range(KeyRange::FULL),
            clusterings: ClusteringFilter::all(),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: seconds(self.node.env.now_micros()),
            table,
        });
        let context = ReadContext::default();
        let log = |error| {
            let answer = error::internal(&format!("prepared statements cannot be read: {error}"));
            drop(answer);
        };
        let stream = self.node.engine.read(&command, &context).map_err(log).ok()?;
        let mut rows = LiveRows::new(stream, command, context, PageLimits::NONE);
        let mut found = Vec::new();
        while let Some(row) = rows.next_row().map_err(log).ok()? {
            let value = |column| {
                let cell = row.live_cell(column, false)?;
                String::from_utf8(cell.value.to_vec()).ok()
            };
            if let Some(text) = value(text) {
                found.push((row.key.key.0.clone(), value(keyspace), text));
            }
        }
        Some(found)
    }
}
