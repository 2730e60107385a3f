//! The tables of the node for bulk reads (crate `bulk`): by Flight on a port of its own, and on the admin API
//! for `ilion export` and `ilion sql`.
//!
//! 1. A scan holds the table as it is when it begins. Nothing is flushed for it.
//! 2. What it needs of SSTables that were not compared yet, it waits for as reads of clients do.
//! 3. Its threads give way to those of clients, and all scans together keep to `bulk_throughput`.
//! 4. The port speaks TLS where clients of CQL do (`door.rs`), and asks for a login where CQL does
//!    (`access.rs`): a certificate, a password or a token.
//! 5. The audit log is told of each read (`told.rs`).

mod access;
mod door;
mod tables;
mod told;

pub(crate) use access::{TablesOfRole, refusal};
pub(crate) use tables::NodeTables;
pub(crate) use told::{ToldReads, log_of_caller};

use crate::config::Config;
use crate::net::Security;
use crate::node::Node;
use crate::tls::http::{Http, HttpDoor};
use access::Identified;
use bulk::flight::{Callers, FlightSql};
use bulk::sql::SqlLimits;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server;

/// Streams of one connection.
const STREAMS_MAX: u32 = 64;
/// Bytes of the headers of a call.
const HEADERS_BYTES_MAX: u32 = 16 << 10;
/// How long a connection may be silent before it is asked whether it is still there, and how long the answer
/// may take.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A Flight service over the tables of a node, in whose lists scans are said to be asked for by `asked_by`.
///
/// # Errors
/// When the query engine cannot be set up.
pub(crate) fn service(
    node: &Arc<Node>,
    asked_by: &'static str,
    callers: Callers,
) -> io::Result<bulk::flight::Service<FlightSql>> {
    let tables = Arc::new(NodeTables::new(Arc::clone(&node.state), asked_by));
    let limits = SqlLimits { partitions: node.state.env.tasks.parallelism().max(1), ..SqlLimits::default() };
    bulk::flight::service(node.state.env.clone(), tables, limits, callers).map_err(io::Error::other)
}

/// Serves Flight on `listener` until `stopped`, on threads of its own.
///
/// # Errors
/// When the threads or the service cannot be had.
pub(crate) fn serve(
    node: &Arc<Node>,
    listener: TcpListener,
    security: Security,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let authenticates = node.state.auth.authenticates();
    let service = service(node, "flight", if authenticates { Callers::Known } else { Callers::All })?;
    let handshake_timeout = node.state.config.settings.native_transport_tls_handshake_timeout.0;
    let door =
        HttpDoor { security, http: Http::Two, handshake_timeout: Duration::from_millis(handshake_timeout) };
    let listener = listener.into_std()?;
    let node_of_calls = Arc::clone(node);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("ilion-flight")
        .worker_threads(node.state.env.tasks.parallelism().max(1))
        .on_thread_start(env::thread::give_way)
        .enable_all()
        .build()?;
    let work = move || {
        let ended = runtime.block_on(async {
            let registry = Arc::clone(&node_of_calls.state.connections);
            let incoming = door::guests(TcpListener::from_std(listener)?, door, registry);
            let mut stopped = stopped;
            let until = async move {
                let _ = stopped.changed().await;
            };
            let mut server = Server::builder()
                .max_concurrent_streams(STREAMS_MAX)
                .http2_max_header_list_size(HEADERS_BYTES_MAX)
                .http2_keepalive_interval(Some(KEEP_ALIVE))
                .http2_keepalive_timeout(Some(KEEP_ALIVE));
            let server = server.add_service(Identified::new(service, node_of_calls));
            tokio::select! {
                ended = server.serve_with_incoming(incoming) => ended.map_err(io::Error::other),
                // Streams may last for hours: they end with the node.
                () = until => Ok(()),
            }
        });
        if let Err(error) = ended {
            tracing::error!(%error, "Flight is not served any more");
        }
        runtime.shutdown_background();
    };
    node.state.env.tasks.spawn("ilion-flight", work).map(drop)
}

/// Where Flight listens: on the address of clients if they log in, or if it is this machine's alone.
pub(crate) fn address(config: &Config, port: u16) -> SocketAddr {
    let ip = match config.cql_address.ip() {
        ip if ip.is_loopback() || config.auth.authenticator.asks() => ip,
        // It hands out whole tables to everybody.
        _ => std::net::Ipv4Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, port)
}
