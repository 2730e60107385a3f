//! Tables by Arrow Flight SQL (<https://arrow.apache.org/docs/format/FlightSql.html>).
//!
//! | call | what it does |
//! |---|---|
//! | GetFlightInfo, statement | plans it, and hands out a ticket for each range of tokens |
//! | DoGet, ticket | scans, and sends the batches as the client takes them |
//! | catalogs, schemas, tables, keys, SqlInfo | `info.rs` |
//! | prepared statements | the handle is the statement and its values ([`crate::handle`]): nothing is kept |
//! | command and action of [`wire`] | for `ilion export` and `ilion sql`, which plan on their side |
//!
//! Nothing is kept between calls. A client that goes away ends its stream, and with it the scan.
//!
//! Where callers differ in what they may read, the server puts [`TablesOfCaller`] into each request. Planning
//! and DoGet both open tables through it, so a ticket is worth what its bearer may read. What is read is told
//! to the [`LogOfCaller`], where the server puts one into the request.

mod caller;
mod info;
mod log;
mod status;
mod values;
pub mod wire;

pub use log::{LogOfCaller, ReadLog};

use crate::handle::Prepared;
use crate::sql::{Sql, SqlLimits};
use crate::ticket::{Asked, ScanCommand, Ticket};
use crate::{BulkError, Split, Tables};
use arrow_array::RecordBatch;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
pub use arrow_flight::flight_service_server::FlightServiceServer as Service;
use arrow_flight::sql::metadata::SqlInfoData;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionCreatePreparedStatementResult, Any, Command, CommandGetCatalogs, CommandGetDbSchemas,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementQuery,
    CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage,
    SchemaAsIpc, Ticket as WireTicket,
};
use arrow_ipc::writer::IpcWriteOptions;
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use caller::{Caller, encoded};
use datafusion::error::DataFusionError;
use env::Env;
use futures::Stream;
use log::Words;
use prost::Message;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};

/// Bytes of a message, about: of one batch there are several where it is larger. Clients take 4 MiB at least.
const MESSAGE_BYTES: usize = 2 << 20;
/// Bytes of a message that a client may send.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Endpoints of a statement on a small and on a large table, at most, where the client does not say.
const PARTS: RangeInclusive<u64> = 8..=64;
/// Bytes of such an endpoint, before compression: enough that the plan and the first batch of each, some ten
/// milliseconds, are little beside the rest.
const PART_BYTES: u64 = 32 << 20;
/// Endpoints at most, whatever the client says: each is looked for in the indexes.
const PARTS_MAX: u64 = 1 << 14;
/// Bytes of an endpoint, before compression, below which there are fewer.
const PART_BYTES_MIN: u64 = 64 << 10;

/// How many endpoints a statement on a table of so many bytes has, at most.
fn parts_of(bytes: u64) -> u64 {
    (bytes / PART_BYTES).clamp(*PARTS.start(), *PARTS.end())
}

type Reply<T> = Result<Response<T>, Status>;
type DoGetStream = <FlightSql as FlightService>::DoGetStream;

/// The tables as whoever sends a request may read them: an extension of the request.
#[derive(Clone, Debug)]
pub struct TablesOfCaller(pub Arc<dyn Tables>);

/// Whose requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Everybody's. What has no [`TablesOfCaller`] may read everything.
    All,
    /// Those that have [`TablesOfCaller`]. Others are refused.
    Known,
}

/// The service.
#[derive(Clone)]
pub struct FlightSql {
    env: Env,
    sql: Arc<Sql>,
    info: Arc<SqlInfoData>,
    callers: Callers,
}

/// The service over these tables, as a server has it.
///
/// # Errors
/// When DataFusion cannot be set up.
pub fn service(
    env: Env,
    tables: Arc<dyn Tables>,
    limits: SqlLimits,
    callers: Callers,
) -> Result<Service<FlightSql>, BulkError> {
    let failed = |error: &dyn std::fmt::Display| BulkError::Arrow(error.to_string());
    let sql = Sql::new(env.clone(), tables, limits).map_err(|e| failed(&e))?;
    let info = Arc::new(info::server().map_err(|e| failed(&e))?);
    let service = FlightSql { env, sql: Arc::new(sql), info, callers };
    Ok(Service::new(service).max_decoding_message_size(REQUEST_BYTES_MAX))
}

impl FlightSql {
    /// Who sends a request.
    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let sql = match (request.extensions().get::<TablesOfCaller>(), self.callers) {
            (Some(TablesOfCaller(tables)), _) => Arc::new(self.sql.with_tables(Arc::clone(tables))),
            (None, Callers::All) => Arc::clone(&self.sql),
            (None, Callers::Known) => return Err(Status::unauthenticated("You have not logged in")),
        };
        let log = request.extensions().get::<LogOfCaller>().map(|log| Arc::clone(&log.0));
        Ok(Caller { env: self.env.clone(), sql, log })
    }
}

/// One batch as an answer.
fn one(batch: Result<RecordBatch, FlightError>) -> Reply<DoGetStream> {
    let batch = batch.map_err(Status::from)?;
    Ok(Response::new(encoded(batch.schema(), futures::stream::iter([Ok(batch)]))))
}

/// What can be fetched: an endpoint for each split.
fn info(
    schema: &Schema,
    descriptor: FlightDescriptor,
    splits: Vec<Option<Split>>,
    ticket: impl Fn(Option<Split>) -> Ticket,
) -> Reply<FlightInfo> {
    let estimates = splits.iter().flatten().map(|split| (split.rows_estimate, split.bytes_estimate));
    let (rows, bytes) = estimates.fold((0u64, 0u64), |(r, b), (rows, bytes)| (r + rows, b + bytes));
    let count = |estimate: u64| match splits.iter().all(Option::is_some) {
        true => i64::try_from(estimate).unwrap_or(i64::MAX),
        // Of a statement that computes nobody knows before.
        false => -1,
    };
    let (rows, bytes) = (count(rows), count(bytes));
    let mut out =
        FlightInfo::new().with_descriptor(descriptor).with_total_records(rows).with_total_bytes(bytes);
    out.ordered = splits.len() > 1;
    for split in splits {
        let estimate = split.as_ref().map(|split| {
            format!(
                "{{\"rows_estimate\":{},\"bytes_estimate\":{}}}",
                split.rows_estimate, split.bytes_estimate
            )
        });
        let handle = TicketStatementQuery { statement_handle: ticket(split).to_bytes().into() };
        let endpoint = FlightEndpoint::new()
            .with_ticket(WireTicket::new(handle.as_any().encode_to_vec()))
            .with_app_metadata(estimate.unwrap_or_default());
        out = out.with_endpoint(endpoint);
    }
    let out = out.try_with_schema(schema).map_err(|error| Status::internal(error.to_string()))?;
    Ok(Response::new(out))
}

/// What can be fetched by the command itself.
fn info_of_command(schema: &Schema, request: &Request<FlightDescriptor>) -> Reply<FlightInfo> {
    let descriptor = request.get_ref().clone();
    let endpoint = FlightEndpoint::new().with_ticket(WireTicket::new(descriptor.cmd.clone()));
    let out = FlightInfo::new().with_descriptor(descriptor).with_endpoint(endpoint);
    let out = out.try_with_schema(schema).map_err(|error| Status::internal(error.to_string()))?;
    Ok(Response::new(out))
}

/// The schema as prepared statements have it.
fn schema_bytes(schema: &Schema) -> Result<Bytes, Status> {
    let message: Result<IpcMessage, _> = SchemaAsIpc::new(schema, &IpcWriteOptions::default()).try_into();
    message
        .map(|IpcMessage(bytes)| bytes)
        .map_err(|error: arrow_schema::ArrowError| Status::internal(error.to_string()))
}

/// What a ticket says of a statement.
fn asked_of(asked: Prepared) -> Asked {
    if asked.values.is_empty() { Asked::Sql(asked.sql) } else { Asked::Bound(asked) }
}

/// The statement that the handle of a prepared one is.
fn statement_of(handle: &Bytes) -> Result<Prepared, Status> {
    Prepared::of_handle(handle).map_err(Status::invalid_argument)
}

/// What is said of statements that would change something.
fn read_only<T>() -> Result<T, Status> {
    Err(Status::unimplemented("tables are only read here; CQL changes them"))
}

#[tonic::async_trait]
impl FlightSqlService for FlightSql {
    type FlightService = FlightSql;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Reply<Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>> {
        self.caller(&request)?;
        let answer = HandshakeResponse { protocol_version: 0, payload: Bytes::new() };
        let answers: Pin<Box<dyn Stream<Item = _> + Send>> = Box::pin(futures::stream::iter([Ok(answer)]));
        let mut answer = Response::new(answers);
        if request.extensions().get::<TablesOfCaller>().is_none() {
            // Everybody may come in; a client that wants a token gets one that nobody looks at.
            let anybody = tonic::metadata::MetadataValue::from_static("Bearer anonymous");
            answer.metadata_mut().insert("authorization", anybody);
        }
        Ok(answer)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Reply<FlightInfo> {
        let asked = Prepared { sql: query.query, values: Vec::new() };
        self.caller(&request)?.info_of_sql(asked, request.into_inner()).await
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Reply<FlightInfo> {
        let caller = self.caller(&request)?;
        let asked = caller.told(Words::default, statement_of(&query.prepared_statement_handle))?;
        caller.info_of_sql(asked, request.into_inner()).await
    }

    async fn get_flight_info_fallback(
        &self,
        command: Command,
        request: Request<FlightDescriptor>,
    ) -> Reply<FlightInfo> {
        let any = command.into_any();
        let Some(asked) = ScanCommand::of_any(&any) else {
            return Err(Status::unimplemented(format!("{} is not supported", any.type_url)));
        };
        let asked = asked.map_err(|error| Status::invalid_argument(error.to_string()));
        let caller = self.caller(&request)?;
        let asked = caller.told(Words::default, asked)?;
        caller.info_of_scan(asked, request.into_inner()).await
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<WireTicket>,
    ) -> Reply<DoGetStream> {
        let caller = self.caller(&request)?;
        let ticket = Ticket::of_bytes(&ticket.statement_handle);
        let ticket = ticket.map_err(|error| Status::invalid_argument(error.to_string()));
        let ticket = caller.told(Words::default, ticket)?;
        caller.batches(ticket).await.map(Response::new)
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<WireTicket>,
    ) -> Reply<DoGetStream> {
        let caller = self.caller(&request)?;
        let asked = caller.told(Words::default, statement_of(&query.prepared_statement_handle))?;
        let asked = asked_of(asked);
        let ticket = Ticket { asked, now_s: self.sql.now_s(), split: None };
        caller.batches(ticket).await.map(Response::new)
    }

    async fn do_get_fallback(&self, _: Request<WireTicket>, message: Any) -> Reply<DoGetStream> {
        Err(Status::invalid_argument(format!("{} is no ticket of Ilion", message.type_url)))
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let caller = self.caller(&request)?;
        let described = caller.sql.describe(&query.query).await.map_err(status::of_plan);
        let described = caller.told(|| Words::of_sql(&query.query), described)?;
        if let Some(log) = &caller.log {
            log.prepared(&query.query, &described.tables);
        }
        let field = |(i, ty): (usize, DataType)| Field::new(format!("${}", i + 1), ty, true);
        let parameters: Vec<Field> = described.parameters.into_iter().enumerate().map(field).collect();
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: query.query.into(),
            dataset_schema: schema_bytes(&described.schema)?,
            parameter_schema: schema_bytes(&Schema::new(parameters))?,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        _: ActionClosePreparedStatementRequest,
        _: Request<Action>,
    ) -> Result<(), Status> {
        Ok(())
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Reply<<Self as FlightService>::DoActionStream> {
        let kind = &request.get_ref().r#type;
        if kind != wire::SCHEMA_ACTION {
            return Err(Status::unimplemented(format!("there is no action {kind}")));
        }
        let texts = info::definitions(self.caller(&request)?.tables().as_ref());
        let answers = texts.into_iter().map(|text| Ok(arrow_flight::Result::new(text)));
        Ok(Response::new(Box::pin(futures::stream::iter(answers))))
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let caller = self.caller(&request)?;
        let prepared = caller.told(Words::default, statement_of(&query.prepared_statement_handle))?;
        let bound = values::bound(&prepared, request.into_inner()).await;
        let handle = caller.told(|| Words::of_sql(&prepared.sql), bound)?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(handle.into()) })
    }

    async fn do_put_statement_update(
        &self,
        _: CommandStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        read_only()
    }

    async fn do_put_prepared_statement_update(
        &self,
        _: CommandPreparedStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        read_only()
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Reply<FlightInfo> {
        info_of_command(&query.into_builder().schema(), &request)
    }

    async fn do_get_catalogs(&self, query: CommandGetCatalogs, _: Request<WireTicket>) -> Reply<DoGetStream> {
        one(info::catalogs(query))
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Reply<FlightInfo> {
        info_of_command(&query.into_builder().schema(), &request)
    }

    async fn do_get_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<WireTicket>,
    ) -> Reply<DoGetStream> {
        one(info::schemas(query, self.caller(&request)?.tables().as_ref()))
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Reply<FlightInfo> {
        info_of_command(&query.into_builder().schema(), &request)
    }

    async fn do_get_tables(
        &self,
        query: CommandGetTables,
        request: Request<WireTicket>,
    ) -> Reply<DoGetStream> {
        one(info::tables(query, self.caller(&request)?.tables().as_ref()))
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Reply<FlightInfo> {
        info_of_command(&query.into_builder().schema(), &request)
    }

    async fn do_get_table_types(
        &self,
        query: CommandGetTableTypes,
        _: Request<WireTicket>,
    ) -> Reply<DoGetStream> {
        one(info::table_types(query))
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Reply<FlightInfo> {
        info_of_command(&query.into_builder(&self.info).schema(), &request)
    }

    async fn do_get_sql_info(&self, query: CommandGetSqlInfo, _: Request<WireTicket>) -> Reply<DoGetStream> {
        one(query.into_builder(&self.info).build())
    }

    async fn get_flight_info_primary_keys(
        &self,
        _: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Reply<FlightInfo> {
        info_of_command(&info::primary_key_schema(), &request)
    }

    async fn do_get_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<WireTicket>,
    ) -> Reply<DoGetStream> {
        one(info::primary_keys(&query, self.caller(&request)?.tables().as_ref()))
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Reply<FlightInfo> {
        let types = info::types().map_err(Status::from)?;
        info_of_command(&query.into_builder(&types).schema(), &request)
    }

    async fn do_get_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        _: Request<WireTicket>,
    ) -> Reply<DoGetStream> {
        let types = info::types().map_err(Status::from)?;
        one(query.into_builder(&types).build())
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

impl From<DataFusionError> for BulkError {
    fn from(error: DataFusionError) -> Self {
        match error {
            DataFusionError::External(inner) => match inner.downcast::<BulkError>() {
                Ok(own) => *own,
                Err(other) => BulkError::Arrow(other.to_string()),
            },
            other => BulkError::Arrow(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_a_bounded_number_of_endpoints() {
        let parts = [0, 16 << 20, 1 << 30, 1 << 40].map(parts_of);
        assert_eq!(parts, [8, 8, 32, 64]);
    }
}
