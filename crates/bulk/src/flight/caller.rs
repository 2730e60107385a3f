//! What one request may read, and what is told of it.

use super::log::{ReadLog, Words};
use super::{
    DoGetStream, MESSAGE_BYTES, PART_BYTES_MIN, PARTS_MAX, Reply, asked_of, info, parts_of, status, wire,
};
use crate::handle::Prepared;
use crate::sql::{Query, Sql, TableName};
use crate::stream::stream;
use crate::ticket::{Asked, ScanCommand, Ticket};
use crate::{Batches, BulkError, Loss, ScanRequest, Select, Split, Table, Tables, losses};
use arrow_array::RecordBatch;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::{FlightData, FlightDescriptor, FlightInfo};
use arrow_schema::SchemaRef;
use env::Env;
use env::sync::Mutex;
use futures::{Stream, StreamExt, TryStreamExt};
use std::sync::Arc;
use tonic::Status;

/// Whoever sends a request.
pub(super) struct Caller {
    pub(super) env: Env,
    pub(super) sql: Arc<Sql>,
    pub(super) log: Option<Arc<dyn ReadLog>>,
}

impl Caller {
    pub(super) fn tables(&self) -> &Arc<dyn Tables> {
        self.sql.tables()
    }

    /// Tells the log of what failed.
    pub(super) fn told<T>(
        &self,
        words: impl FnOnce() -> Words,
        outcome: Result<T, Status>,
    ) -> Result<T, Status> {
        if let (Some(log), Err(why)) = (&self.log, &outcome) {
            let words = words();
            log.failed(&words.statement, words.table.as_ref(), why);
        }
        outcome
    }

    /// Plans a statement of SQL.
    async fn plan(&self, asked: &Prepared, now_s: u32, split: Option<Split>) -> Result<Query, Status> {
        self.sql.plan_with(&asked.sql, &asked.values, now_s, split).await.map_err(status::of_plan)
    }

    /// What a statement of SQL is, and where its rows are.
    pub(super) async fn info_of_sql(
        &self,
        asked: Prepared,
        descriptor: FlightDescriptor,
    ) -> Reply<FlightInfo> {
        let found = async {
            let query = self.plan(&asked, self.sql.now_s(), None).await?;
            let parts = query.parts(parts_of).await.map_err(status::of_plan)?;
            let splits: Vec<Option<Split>> = parts.into_iter().map(|part| part.split).collect();
            let ticket = |split| Ticket { asked: asked_of(asked.clone()), now_s: query.now_s(), split };
            info(&query.schema(), descriptor, splits, ticket)
        };
        self.told(|| Words::of_sql(&asked.sql), found.await)
    }

    /// What a scan is, and where its rows are.
    pub(super) async fn info_of_scan(
        &self,
        asked: ScanCommand,
        descriptor: FlightDescriptor,
    ) -> Reply<FlightInfo> {
        let ScanCommand { select, parts } = asked;
        let words = || Words::of_scan(&select, &self.tables().schema());
        let found = async {
            let (scan, table) = self.scan(select.clone(), None).await?;
            let (schema, now_s, counts) = (scan.schema(), scan.command.now_s, select.is_count());
            let found = waiting(move || {
                let parts = parts.clamp(1, PARTS_MAX).min(table.data_bytes()? / PART_BYTES_MIN + 1);
                let known_rows = if counts { table.known_rows()? } else { None };
                Ok((table.splits(&scan, parts)?, known_rows))
            });
            let (splits, known_rows) = found.await?;
            let splits = splits.into_iter().map(Some).collect();
            let ticket = |split| Ticket { asked: Asked::Scan(select.clone()), now_s, split };
            let mut answer = info(&schema, descriptor, splits, ticket)?;
            answer.get_mut().app_metadata = wire::TableFacts { known_rows }.to_bytes();
            // Whoever has the answer by now fetches no rows.
            if let (Some(log), Some(_)) = (&self.log, known_rows) {
                let read = TableName { keyspace: select.keyspace.clone(), table: select.table.clone() };
                log.read(&ticket(None), &words().statement, &[read]);
            }
            Ok(answer)
        };
        self.told(words, found.await)
    }

    /// The request that words ask for, and its table.
    async fn scan(
        &self,
        select: Select,
        now_s: Option<u32>,
    ) -> Result<(ScanRequest, Arc<dyn Table>), Status> {
        let (env, tables) = (self.env.clone(), Arc::clone(self.tables()));
        waiting(move || {
            let table = tables.table(&select.keyspace, &select.table)?;
            let mut request = select.request(&env, &tables.schema())?;
            if let Some(now_s) = now_s {
                Arc::make_mut(&mut request.command).now_s = now_s;
            }
            Ok((request, table))
        })
        .await
    }

    /// The batches that a ticket is for.
    pub(super) async fn batches(&self, ticket: Ticket) -> Result<DoGetStream, Status> {
        let Some(log) = &self.log else {
            return self.open(ticket).await.map(|(batches, _)| batches);
        };
        let words = Words::of(&ticket.asked, &self.tables().schema());
        let opened = self.open(ticket.clone()).await;
        let (batches, tables) = self.told(|| words.clone(), opened)?;
        log.read(&ticket, &words.statement, &tables);
        let log = Arc::clone(log);
        let tell = move |why: &Status| log.failed(&words.statement, words.table.as_ref(), why);
        Ok(Box::pin(batches.inspect_err(tell)))
    }

    /// The batches that a ticket is for, and the tables that they are from.
    async fn open(&self, ticket: Ticket) -> Result<(DoGetStream, Vec<TableName>), Status> {
        let Ticket { asked, now_s, split } = ticket;
        match asked {
            Asked::Sql(sql) => self.open_sql(&Prepared { sql, values: Vec::new() }, now_s, split).await,
            Asked::Bound(asked) => self.open_sql(&asked, now_s, split).await,
            Asked::Scan(select) => {
                let read = TableName { keyspace: select.keyspace.clone(), table: select.table.clone() };
                let (request, table) = self.scan(select, Some(now_s)).await?;
                let split = split.unwrap_or(Split::FULL);
                let schema = request.schema();
                let told = Arc::new(Mutex::new(Told::default()));
                let tell = {
                    let told = Arc::clone(&told);
                    move |batches: &dyn Batches| told.lock().hear(batches)
                };
                let batches = stream(self.env.tasks.clone(), table, &request, split, tell);
                let batches = encoded(schema, batches.map_err(status::of_bulk));
                Ok((along(batches, told), vec![read]))
            }
        }
    }

    async fn open_sql(
        &self,
        asked: &Prepared,
        now_s: u32,
        split: Option<Split>,
    ) -> Result<(DoGetStream, Vec<TableName>), Status> {
        let query = self.plan(asked, now_s, split).await?;
        let stream = query.run().await.map_err(status::of_plan)?;
        let (schema, batches) = (stream.schema(), stream.map_err(status::of_plan));
        let tables = query.tables().to_vec();
        // The plan's context lives as long as its stream.
        let batches = batches.inspect(move |_| {
            let _ = &query;
        });
        Ok((encoded(schema, batches), tables))
    }
}

/// What a scan has told so far.
#[derive(Default)]
struct Told {
    progress: wire::Progress,
    /// Losses that were not sent yet, and how many it has told in all.
    losses: Vec<Loss>,
    losses_told: usize,
}

impl Told {
    fn hear(&mut self, batches: &dyn Batches) {
        self.progress = wire::Progress::of(batches);
        let all = batches.losses();
        self.losses.extend_from_slice(all.get(self.losses_told..).unwrap_or_default());
        self.losses_told = all.len();
    }

    /// Messages of the losses that were not sent yet.
    fn take_losses(&mut self) -> Vec<Result<FlightData, Status>> {
        let messages = losses::messages(std::mem::take(&mut self.losses));
        messages.into_iter().map(|message| Ok(FlightData::new().with_app_metadata(message))).collect()
    }
}

/// The messages of a scan, with what it has told: what was counted so far goes along with each, and losses
/// come in front of the batch behind which they were met.
fn along(batches: DoGetStream, told: Arc<Mutex<Told>>) -> DoGetStream {
    let at_end = Arc::clone(&told);
    let batches = batches.map(move |data| {
        let mut told = told.lock();
        let data = data.map(|mut data| {
            data.app_metadata = told.progress.to_bytes();
            data
        });
        let mut messages = told.take_losses();
        messages.push(data);
        futures::stream::iter(messages)
    });
    let rest = futures::stream::once(async move { futures::stream::iter(at_end.lock().take_losses()) });
    Box::pin(batches.chain(rest).flatten())
}

/// Does work that may wait for a disk.
async fn waiting<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BulkError> + Send + 'static,
) -> Result<T, Status> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(status::of_bulk),
        Err(error) => Err(Status::internal(error.to_string())),
    }
}

/// Batches as messages, the schema first.
pub(super) fn encoded(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch, Status>> + Send + 'static,
) -> DoGetStream {
    let batches = batches.map_err(|status| FlightError::Tonic(Box::new(status)));
    let encoder =
        FlightDataEncoderBuilder::new().with_schema(schema).with_max_flight_data_size(MESSAGE_BYTES);
    Box::pin(encoder.build(batches).map_err(Status::from))
}
