//! The tables of the node for bulk reads (crate `bulk`): by Flight on a port of its own, and on the admin API
//! for `ilion export` and `ilion sql`.
//!
//! 1. A scan holds the table as it is when it begins. Nothing is flushed for it.
//! 2. What it needs of SSTables that were not compared yet, it waits for as reads of clients do.
//! 3. Its threads give way to those of clients, and all scans together keep to `bulk_throughput`.

mod tables;

pub(crate) use tables::NodeTables;

use crate::node::Node;
use bulk::flight::FlightSql;
use bulk::sql::SqlLimits;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Streams of one connection.
const STREAMS_MAX: u32 = 64;

/// A Flight service over the tables of a node, in whose lists scans are said to be asked for by `asked_by`.
///
/// # Errors
/// When the query engine cannot be set up.
pub(crate) fn service(
    node: &Arc<Node>,
    asked_by: &'static str,
) -> io::Result<bulk::flight::Service<FlightSql>> {
    let tables = Arc::new(NodeTables::new(Arc::clone(&node.state), asked_by));
    let limits = SqlLimits { partitions: node.state.env.tasks.parallelism().max(1), ..SqlLimits::default() };
    bulk::flight::service(node.state.env.clone(), tables, limits).map_err(io::Error::other)
}

/// Serves Flight on `listener` until `stopped`, on threads of its own.
///
/// # Errors
/// When the threads or the service cannot be had.
pub(crate) fn serve(
    node: &Arc<Node>,
    listener: TcpListener,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let service = service(node, "flight")?;
    let listener = listener.into_std()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("ilion-flight")
        .worker_threads(node.state.env.tasks.parallelism().max(1))
        .on_thread_start(env::thread::give_way)
        .enable_all()
        .build()?;
    let work = move || {
        let ended = runtime.block_on(async {
            let incoming = TcpIncoming::from(TcpListener::from_std(listener)?).with_nodelay(Some(true));
            let mut stopped = stopped;
            let until = async move {
                let _ = stopped.changed().await;
            };
            let server = Server::builder().max_concurrent_streams(STREAMS_MAX).add_service(service);
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

/// Where Flight listens: on the address of clients if that is this machine's alone.
pub(crate) fn address(clients: SocketAddr, port: u16) -> SocketAddr {
    let ip = match clients.ip() {
        ip if ip.is_loopback() => ip,
        // It has neither TLS nor passwords.
        _ => std::net::Ipv4Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, port)
}
