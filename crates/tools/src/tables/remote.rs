//! Tables of a node, by the Flight service of its admin API.

use super::secure::SecureNode;
use super::{Failure, schema_file};
use crate::api::HEADER;
use crate::client::Place;
use crate::client::access::AccessArgs;
use arrow_array::RecordBatch;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{Any, ProstMessageExt, TicketStatementQuery};
use arrow_flight::{Action, FlightDescriptor, FlightInfo, Ticket as WireTicket};
use arrow_schema::SchemaRef;
use bulk::flight::wire::{Progress, SCHEMA_ACTION, TableFacts};
use bulk::losses::Losses;
use bulk::ticket::{Asked, ScanCommand, Ticket};
use bulk::{Batches, BulkError, Loss, ScanCounts, ScanRequest, Select, Split, Table, Tables};
use env::Env;
use env::sync::Mutex;
use futures::{StreamExt, TryStreamExt};
use model::{Schema, TableSchema};
use prost::Message;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// How long a node may take to let this in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What says whose request it is.
const AUTHORIZATION: &str = "authorization";
/// Bytes of a message: a row may be as long as one of CQL, and a few.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// The value of the `authorization` header: a password, then the token that the node gave for it.
type Shown = Arc<Mutex<Option<MetadataValue<Ascii>>>>;

/// Says that a request is one of a tool, and whose: the admin API takes no other.
#[derive(Clone)]
struct OfTool(Shown);

impl Interceptor for OfTool {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let name = HEADER.to_ascii_lowercase();
        if let Ok(name) = name.parse::<tonic::metadata::MetadataKey<Ascii>>() {
            request.metadata_mut().insert(name, MetadataValue::from_static("1"));
        }
        if let Some(shown) = &*self.0.lock() {
            request.metadata_mut().insert(AUTHORIZATION, shown.clone());
        }
        Ok(request)
    }
}

type Client = FlightServiceClient<InterceptedService<Channel, OfTool>>;

/// Losses of a scan, which come between its batches.
type SharedLosses = Arc<Mutex<Losses>>;

/// A connection to a node.
struct Node {
    runtime: Runtime,
    client: Client,
    shown: Shown,
    address: String,
}

/// The tables of a node.
pub(crate) struct RemoteTables {
    node: Arc<Node>,
    schema: Arc<Schema>,
}

/// A table of a node.
struct RemoteTable {
    node: Arc<Node>,
    definition: Arc<TableSchema>,
}

impl fmt::Debug for RemoteTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTables").field("node", &self.node.address).finish_non_exhaustive()
    }
}

impl fmt::Debug for RemoteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} of {}", self.definition.keyspace, self.definition.name, self.node.address)
    }
}

impl RemoteTables {
    /// Connects to the admin API of a node and asks for its schema.
    pub fn connect(env: &Env, address: &str, access: &AccessArgs) -> Result<RemoteTables, Failure> {
        let access = access.access(&Place::Tcp(address.to_owned())).map_err(Failure::Usage)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(env.tasks.parallelism().max(1))
            .thread_name("ilion-node-client")
            .enable_all()
            .build()
            .map_err(Failure::work)?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|_| Failure::Usage(format!("{address} is not HOST:PORT")))?;
        let endpoint = endpoint.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true);
        let channel = match &access.tls {
            None => runtime.block_on(endpoint.connect()),
            Some(tls) => {
                let node = SecureNode::new(address, tls).map_err(Failure::Usage)?;
                runtime.block_on(endpoint.connect_with_connector(node))
            }
        };
        let channel = channel.map_err(|error| {
            Failure::Work(format!(
                "no node answers at {address} ({}); --admin HOST:PORT says where its admin API is",
                innermost(&error)
            ))
        })?;
        let shown =
            access.authorization.map(|shown| shown.reveal().parse::<MetadataValue<Ascii>>()).transpose();
        let shown: Shown = Arc::new(Mutex::new(shown.map_err(Failure::usage)?));
        let client = FlightServiceClient::with_interceptor(channel, OfTool(Arc::clone(&shown)))
            .max_decoding_message_size(MESSAGE_BYTES_MAX);
        let node = Arc::new(Node { runtime, client, shown, address: address.to_owned() });
        let texts = node.definitions()?;
        let read = schema_file::parse(env, &texts.join("\n"));
        Ok(RemoteTables { node, schema: Arc::new(read.schema) })
    }
}

/// What an error began with.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

impl Node {
    /// What a status of the node is here.
    fn failed(&self, status: &Status) -> BulkError {
        let text = status.message().to_owned();
        match status.code() {
            Code::NotFound | Code::InvalidArgument | Code::Unimplemented => BulkError::Request(text),
            _ => BulkError::Node(format!("{}: {text}", self.address)),
        }
    }

    fn definitions(&self) -> Result<Vec<String>, BulkError> {
        let mut client = self.client.clone();
        let asked = async {
            let answer = client.do_action(Action::new(SCHEMA_ACTION, Vec::new())).await?;
            if let Some(token) = answer.metadata().get(AUTHORIZATION) {
                *self.shown.lock() = Some(token.clone());
            }
            answer
                .into_inner()
                .map_ok(|part| String::from_utf8_lossy(&part.body).into_owned())
                .try_collect()
                .await
        };
        self.runtime.block_on(asked).map_err(|status: Status| self.failed(&status))
    }

    /// The splits of a scan.
    fn plan(&self, select: &Select, parts: u64) -> Result<FlightInfo, BulkError> {
        let command = ScanCommand { select: select.clone(), parts };
        let descriptor = FlightDescriptor::new_cmd(command.to_any().encode_to_vec());
        let mut client = self.client.clone();
        let answer = self.runtime.block_on(client.get_flight_info(descriptor));
        answer.map(tonic::Response::into_inner).map_err(|status| self.failed(&status))
    }
}

impl Tables for RemoteTables {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }

    fn table(&self, keyspace: &str, name: &str) -> Result<Arc<dyn Table>, BulkError> {
        let found = self.schema.keyspace(keyspace).and_then(|keyspace| keyspace.store(name));
        let definition = found.ok_or_else(|| BulkError::UnknownTable(format!("{keyspace}.{name}")))?;
        Ok(Arc::new(RemoteTable { node: Arc::clone(&self.node), definition: Arc::clone(definition) }))
    }

    fn names(&self) -> Vec<(String, String)> {
        let tables = self.schema.keyspaces.values().flat_map(|keyspace| keyspace.stores());
        let mut out: Vec<_> = tables.map(|table| (table.keyspace.clone(), table.name.clone())).collect();
        out.sort();
        out
    }
}

impl RemoteTable {
    /// The words of a request, with the limit that it has by now.
    fn words(&self, request: &ScanRequest) -> Result<Select, BulkError> {
        let words = request.words.as_deref();
        let words = words.ok_or_else(|| BulkError::Request("the scan has no words for a node".to_owned()))?;
        Ok(Select { limit: request.limit(), ..words.clone() })
    }
}

impl Table for RemoteTable {
    fn definition(&self) -> &Arc<TableSchema> {
        &self.definition
    }

    fn files(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    fn data_bytes(&self) -> Result<u64, BulkError> {
        let all = self.node.plan(&Select::of(&self.definition.keyspace, &self.definition.name), 1)?;
        Ok(u64::try_from(all.total_bytes).unwrap_or(0))
    }

    fn known_rows(&self) -> Result<Option<u64>, BulkError> {
        let all = self.node.plan(&Select::count(&self.definition.keyspace, &self.definition.name), 1)?;
        Ok(TableFacts::of_bytes(&all.app_metadata).known_rows)
    }

    fn splits(&self, request: &ScanRequest, parts: u64) -> Result<Vec<Split>, BulkError> {
        let info = self.node.plan(&self.words(request)?, parts)?;
        let split_of = |endpoint: arrow_flight::FlightEndpoint| {
            let bytes = endpoint.ticket.map(|ticket| ticket.ticket).unwrap_or_default();
            let any = Any::decode(&*bytes).map_err(|error| error.to_string())?;
            let handle = any.unpack::<TicketStatementQuery>().map_err(|error| error.to_string())?;
            let handle = handle.map(|ticket| ticket.statement_handle).unwrap_or_default();
            let ticket = Ticket::of_bytes(&handle).map_err(|error| error.to_string())?;
            Ok(ticket.split.unwrap_or(Split::FULL))
        };
        let splits: Result<Vec<Split>, String> = info.endpoint.into_iter().map(split_of).collect();
        splits.map_err(|error| BulkError::Node(format!("{}: {error}", self.node.address)))
    }

    fn scan(&self, request: &ScanRequest, split: &Split) -> Result<Box<dyn Batches>, BulkError> {
        let asked = Asked::Scan(self.words(request)?);
        let ticket = Ticket { asked, now_s: request.command.now_s, split: Some(split.clone()) };
        let handle = TicketStatementQuery { statement_handle: ticket.to_bytes().into() };
        let wire = WireTicket::new(handle.as_any().encode_to_vec());
        let mut client = self.node.client.clone();
        let answer = self.node.runtime.block_on(client.do_get(wire));
        let stream = answer.map_err(|status| self.node.failed(&status))?.into_inner();
        let losses: SharedLosses = Arc::default();
        let heard = Arc::clone(&losses);
        // Messages without a header are no Arrow, and not for its decoder.
        let stream = stream.map_err(|status| FlightError::Tonic(Box::new(status)));
        let stream = stream.try_filter_map(move |data| {
            let batch = match data.data_header.is_empty() {
                false => Ok(Some(data)),
                true => heard.lock().read(&data.app_metadata).map(|()| None),
            };
            std::future::ready(batch.map_err(|error| FlightError::ExternalError(Box::new(error))))
        });
        Ok(Box::new(RemoteBatches {
            node: Arc::clone(&self.node),
            stream: FlightDataDecoder::new(stream),
            schema: request.schema(),
            progress: Progress::default(),
            unheard: losses,
            losses: Vec::new(),
            rows: 0,
            is_over: false,
        }))
    }
}

/// The batches of a scan on a node.
struct RemoteBatches {
    node: Arc<Node>,
    stream: FlightDataDecoder,
    schema: SchemaRef,
    progress: Progress,
    /// What the stream has heard of losses.
    unheard: SharedLosses,
    /// The same, as it was behind the last batch.
    losses: Vec<Loss>,
    rows: u64,
    is_over: bool,
}

impl RemoteBatches {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, BulkError> {
        loop {
            let next = self.node.runtime.block_on(self.stream.next());
            let message = match next.transpose() {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(None),
                Err(FlightError::Tonic(status)) => return Err(self.node.failed(&status)),
                Err(error) => return Err(BulkError::Node(format!("{}: {error}", self.node.address))),
            };
            if let Some(progress) = Progress::of_bytes(&message.inner.app_metadata) {
                self.progress = progress;
            }
            match message.payload {
                DecodedPayload::None => {}
                DecodedPayload::Schema(schema) if schema == self.schema => {}
                DecodedPayload::Schema(_) => {
                    return Err(BulkError::Node("the table was altered meanwhile".to_owned()));
                }
                DecodedPayload::RecordBatch(batch) => {
                    self.rows += batch.num_rows() as u64;
                    return Ok(Some(batch));
                }
            }
        }
    }
}

impl Iterator for RemoteBatches {
    type Item = Result<RecordBatch, BulkError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.next_batch().transpose();
        let heard = self.unheard.lock();
        self.losses.extend_from_slice(heard.all().get(self.losses.len()..).unwrap_or_default());
        drop(heard);
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Batches for RemoteBatches {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn counts(&self) -> ScanCounts {
        let Progress { deletions, empty_values, .. } = self.progress;
        ScanCounts { rows: self.rows, deletions, empty_values }
    }

    fn bytes_done(&self) -> u64 {
        self.progress.bytes_done
    }

    fn losses(&self) -> &[Loss] {
        &self.losses
    }
}
