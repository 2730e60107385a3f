//! The life of the process: start, serve, shut down, in the order that `node` tells. The one place that opens
//! ports and waits for signals.

use crate::auth::setup;
use crate::auth::store::Store;
use crate::config::{Config, DiskFailurePolicy, EncryptionPolicy, Millis, Settings};
use crate::metrics::Metrics;
use crate::net::{self, NetOptions, Security, Service};
use crate::node::{Node, StartError, StartTransport, batches, disks, estimates};
use crate::slices::{ask_for_short_slices, take_time};
use crate::tls::Tls;
use crate::{admin, logging, sample};
use engine::{DiskFailure, FailurePolicy};
use env::Env;
use env::memory;
use env::socket::PrivateSocket;
use env::tasks::Tasks;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Exit status after a signal that did not wait for the shutdown: 128 and the number of SIGTERM.
const STATUS_TERMINATED: i32 = 143;
/// How often snapshots are looked for whose time is over.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(5);
/// Memory of its own from which on a node has huge pages: [`env::memory`].
const HUGE_PAGES_BYTES_MIN: u64 = 256 << 20;
/// How often a small node looks whether it has become large.
const MEMORY_INTERVAL: Duration = Duration::from_millis(500);
/// How often the files of TLS are looked at, as in Cassandra.
const TLS_INTERVAL: Duration = Duration::from_secs(600);
/// How long after its start a node of a ring looks for roles again, as in Cassandra
/// (`superuser_setup_delay_ms`).
const ROLES_DELAY: Duration = Duration::from_secs(10);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 1_024;

/// Runs a node until a signal ends it. `service` makes what carries out the requests of clients.
///
/// # Errors
/// When the node cannot start, or ends because of a failure.
pub fn run(
    env: Env,
    config: Config,
    service: impl FnOnce(&Arc<Node>) -> Arc<dyn Service>,
) -> Result<(), StartError> {
    // An operator who wants none at all has said so before.
    let has_huge_pages = memory::has_huge_pages().unwrap_or(false);
    if has_huge_pages {
        // Without that it is larger.
        let _ = memory::set_huge_pages(false);
    }
    // For everything but connections, which have threads of their own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("ilion-node")
        .on_thread_start(ask_for_short_slices)
        .enable_all()
        .build()?;
    if has_huge_pages {
        runtime.spawn(watch_memory(env.tasks.clone()));
    }
    let processors = env.tasks.parallelism();
    let threads = net::Threads::start(processors, ask_for_short_slices)?;
    let metrics = Arc::new(Metrics::default());
    logging::log_panics(Arc::clone(&metrics));
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    match env::fs::disk::raise_open_files_limit() {
        Ok(files) => tracing::info!(files, "files that may be open"),
        Err(error) => tracing::warn!(%error, "the number of files that may be open stays as it is"),
    }
    // system.local says which port it became when any would do. That a second node on the same directory
    // finds the port taken as well is no news to its operator: the lock comes first.
    let ports = Ports::bind(&config);
    let mut config = config;
    if let Ok(ports) = &ports {
        config.cql_address = ports.cql.address;
    }
    let entered = runtime.enter();
    let node = Node::open(env, config, metrics)?;
    drop(entered);
    let ended = runtime.block_on(serve(&node, ports?, service, &threads));
    // Whatever still runs has no say any more: the engine is closed, or the error is what matters.
    threads.stop();
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn serve(
    node: &Arc<Node>,
    ports: Ports,
    service: impl FnOnce(&Arc<Node>) -> Arc<dyn Service>,
    threads: &Arc<net::Threads>,
) -> Result<(), StartError> {
    let mut signals = Signals::new()?;
    let (die, mut failures) = mpsc::channel(1);
    watch_commit_log(node, die.clone());
    watch_disks(node, die);
    let config = &node.state.config;
    if let Some(membership) = &node.membership {
        membership.read_on(threads.runtimes());
        // Others may be waited for, for a minute.
        let joined = tokio::select! {
            joined = membership.join() => joined,
            name = signals.next() => {
                tracing::info!("{name}: shutting down before the ring was joined");
                return Ok(node.drain().await?);
            }
        };
        if let Err(error) = joined {
            node.drain().await?;
            return Err(error);
        }
    }
    batches::finish(node).await?;
    let sampled = config.sample && sample::fill(node).await?;

    let (cql_address, admin_address) = (ports.cql.address, ports.admin.address);
    if let Some(port) = &ports.cql_tls {
        tracing::info!(address = %port.address, "clients with TLS connect to a port of their own");
    }
    let admin_listener = ports.admin.listen()?;
    if let Some(socket) = &ports.admin_socket {
        tracing::info!(path = %socket.path().display(), "the admin API listens on a Unix socket, too");
    }
    let (stop_admin, admin_stopped) = tokio::sync::watch::channel(false);
    let admin_serving =
        admin::serve(Arc::clone(node), admin_listener, ports.admin_socket, admin_stopped.clone());
    let admin_task = tokio::spawn(admin_serving);
    if let Some(port) = ports.metrics {
        let address = port.address;
        let listener = port.listen()?;
        tokio::spawn(admin::serve_metrics(Arc::clone(node), listener, admin_stopped.clone()));
        tracing::info!(%address, "/metrics and /health are answered to everybody who can reach them");
    }
    #[cfg(feature = "bulk")]
    if let Some(port) = ports.flight {
        let address = port.address;
        let security = node.state.tls.as_ref().map(security).unwrap_or_default();
        if matches!(security, net::Security::Plain) && !address.ip().is_loopback() {
            tracing::warn!(%address, "passwords of Arrow Flight SQL cross the network as they are: it has no TLS");
        }
        crate::flight::serve(node, port.listen()?, security, admin_stopped.clone())?;
        tracing::info!(%address, "Arrow Flight SQL listens");
    }
    let mut chores = JoinSet::new();
    chores.spawn(tick(Arc::clone(node)));
    chores.spawn(remove_expired_snapshots(Arc::clone(node)));
    chores.spawn(batches::keep_finishing(Arc::clone(node)));
    chores.spawn(estimates::keep_recording(Arc::clone(node)));
    chores.spawn(disks::keep_watching(Arc::clone(node)));
    chores.spawn(keep_tls_current(Arc::clone(node)));
    chores.spawn(keep_credentials_current(Arc::clone(node)));
    if node.membership.is_some() {
        chores.spawn(look_for_roles(Arc::clone(node)));
    }
    let serving = async {
        prove(node).await?;
        // Not before: the tables of roles may have to be proven, too.
        prepare_roles(node).await?;
        let start = start_transport(node, (ports.cql, ports.cql_tls), service(node), Arc::clone(threads));
        node.set_transport(start, config.settings.start_native_transport).await?;
        if let Some(membership) = &node.membership {
            membership.set_ready(node.lets_clients_in().await);
        }
        announce(node, cql_address, admin_address, sampled);
        std::future::pending().await
    };
    let ended = tokio::select! {
        name = signals.next() => {
            tracing::info!("{name}: shutting down");
            Ok(())
        }
        failure = failures.recv() => match failure {
            Some(cause) => Err(cause),
            None => std::future::pending().await,
        },
        failed = serving => failed,
    };
    chores.abort_all();
    stop_admin.send_replace(true);
    #[cfg(feature = "bulk")]
    node.state.bulk.stop();
    let down = async {
        let drained = node.drain().await;
        let state = Arc::clone(&node.state);
        if take_time(move || state.logs.stop()).await.is_err() {
            tracing::error!("the end of the logs of requests did not end");
        }
        // An operator who waits for an answer of the admin API does not keep the process alive.
        let _ = Tasks::of_machine().timeout(Duration::from_secs(1), admin_task).await;
        drained
    };
    let drained = tokio::select! {
        drained = down => drained,
        name = signals.next() => {
            tracing::warn!("{name} again: ending at once");
            std::process::exit(STATUS_TERMINATED);
        }
    };
    ended?;
    drained?;
    tracing::info!("shut down");
    Ok(())
}

/// What lets clients in, as often as it is called: first by the port that is this node's since its start,
/// which is given back when clients are shut out.
fn start_transport(
    node: &Arc<Node>,
    (port, tls_port): (Port, Option<Port>),
    service: Arc<dyn Service>,
    threads: Arc<net::Threads>,
) -> StartTransport {
    let state = Arc::clone(&node.state);
    // As in Cassandra, a port for TLS of its own leaves the other one to those who speak none.
    let secured = state.tls.as_ref().map(security).unwrap_or_default();
    let securities = match tls_port {
        Some(_) => vec![Security::Plain, secured],
        None => vec![secured],
    };
    let ports: Vec<Port> = [Some(port), tls_port].into_iter().flatten().collect();
    let addresses: Vec<_> = ports.iter().map(|port| (port.address, port.purpose)).collect();
    let first = parking_lot::Mutex::new(Some(ports));
    Box::new(move || {
        let again = || addresses.iter().map(|(address, purpose)| Port::bind(*address, purpose)).collect();
        let ports = first.lock().take().map_or_else(again, Ok).map_err(io::Error::other)?;
        let doors = ports.into_iter().zip(&securities).map(|(port, security)| {
            port.listen().map(|listener| net::Door { listener, security: security.clone() })
        });
        let doors = doors.collect::<Result<_, _>>().map_err(io::Error::other)?;
        let (options, connections) = (net_options(&state.config), Arc::clone(&state.connections));
        net::Server::start_at(doors, options, Arc::clone(&service), connections, Arc::clone(&threads))
    })
}

/// What clients of the node's port speak.
fn security(tls: &Arc<Tls>) -> Security {
    match tls.policy() {
        EncryptionPolicy::Unencrypted => Security::Plain,
        EncryptionPolicy::Optional => Security::Optional(Arc::clone(tls)),
        EncryptionPolicy::Encrypted => Security::Encrypted(Arc::clone(tls)),
    }
}

/// Has new certificates come into force.
async fn keep_tls_current(node: Arc<Node>) {
    let (clients, nodes) = (node.state.tls.clone(), node.state.node_tls.clone());
    if clients.is_none() && nodes.is_none() {
        return;
    }
    let mut ticks = node.state.env.tasks.ticks(TLS_INTERVAL);
    loop {
        ticks.next().await;
        let (clients, nodes) = (clients.clone(), nodes.clone());
        match take_time(move || crate::tls::reload(clients.as_deref(), nodes.as_deref())).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "the certificates of TLS have changed, but the new ones cannot be used");
            }
            Err(error) => tracing::error!(%error, "the look at the certificates of TLS did not end"),
        }
    }
}

/// Reads the credentials that are kept anew, where `credentials_cache_active_update` asks for it.
async fn keep_credentials_current(node: Arc<Node>) {
    let state = &node.state;
    let Some(interval) = state.auth.credentials.active_interval() else { return };
    let store = Store::new(state, &node.coordinator);
    let mut ticks = state.env.tasks.ticks(interval);
    loop {
        ticks.next().await;
        state.auth.credentials.refresh_all(&store).await;
    }
}

/// Has SSTables compared with their digests, and waits for that as long as the configuration says.
async fn prove(node: &Node) -> Result<(), StartError> {
    let engine = Arc::clone(&node.state.engine);
    engine.start_proving()?;
    let timeout = Duration::from_millis(node.state.config.settings.sstable_proving_before_serving.0);
    if !take_time(move || engine.wait_for_proofs(timeout)).await.map_err(io::Error::other)? {
        tracing::info!("clients are let in before all SSTables were compared with their digests");
    }
    Ok(())
}

/// Sees to it that somebody can log in. Where that depends on other nodes it does not hold up the start.
async fn prepare_roles(node: &Node) -> Result<(), StartError> {
    let state = &node.state;
    let password = state.config.initial_superuser_password_file.as_deref();
    match setup::prepare(&state.auth, &Store::new(state, &node.coordinator), password).await {
        Err(cause) if node.membership.is_some() => {
            tracing::warn!(%cause, "roles cannot be made ready yet");
            Ok(())
        }
        prepared => {
            prepared.map_err(|cause| StartError::Prepare { what: "roles cannot be made ready", cause })
        }
    }
}

/// Looks in a ring again whether somebody can log in, until the answer is known.
async fn look_for_roles(node: Arc<Node>) {
    let state = &node.state;
    let store = Store::new(state, &node.coordinator);
    let password = state.config.initial_superuser_password_file.as_deref();
    let mut ticks = state.env.tasks.ticks(ROLES_DELAY);
    loop {
        ticks.next().await;
        match setup::make_superuser(&state.auth, &store, password).await {
            Ok(_) => return,
            Err(cause) => tracing::warn!(%cause, "whether there are roles is not known yet"),
        }
    }
}

/// The signals that end the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Acts on failures of the commit log as `commit_failure_policy` says: `stop` shuts clients out,
/// `die` ends the process by a message on the channel.
fn watch_commit_log(node: &Arc<Node>, die: mpsc::Sender<StartError>) {
    let stop = shut_clients_out(node);
    node.state.engine.on_commit_failure(Box::new(move |policy, cause| {
        tracing::error!(%cause, ?policy, "the commit log failed");
        match policy {
            FailurePolicy::Die => {
                let _ = die.try_send(StartError::CommitFailure(cause.to_string()));
            }
            FailurePolicy::Stop => stop(),
            FailurePolicy::StopCommit | FailurePolicy::Ignore => {}
        }
    }));
}

/// Acts on damaged files and failing disks as `disk_failure_policy` says. Whatever it says, the request or
/// the task that met them has failed.
fn watch_disks(node: &Arc<Node>, die: mpsc::Sender<StartError>) {
    use DiskFailurePolicy as Policy;
    let stop = shut_clients_out(node);
    let policy = node.state.config.settings.disk_failure_policy;
    node.state.engine.on_disk_failure(Box::new(move |failure| match (policy, failure) {
        (Policy::Die, DiskFailure::Corrupt(cause) | DiskFailure::FileSystem(cause)) => {
            let _ = die.try_send(StartError::DiskFailure(cause.clone()));
        }
        (Policy::StopParanoid, DiskFailure::Corrupt(cause) | DiskFailure::FileSystem(cause))
        | (Policy::Stop, DiskFailure::FileSystem(cause)) => {
            tracing::error!(cause, ?policy, "clients are shut out, as disk_failure_policy says");
            stop();
        }
        (Policy::Stop, DiskFailure::Corrupt(_)) | (Policy::BestEffort | Policy::Ignore, _) => {}
    }));
}

/// What shuts clients out, from any thread.
fn shut_clients_out(node: &Arc<Node>) -> impl Fn() + Send + Sync + use<> {
    let runtime = tokio::runtime::Handle::current();
    let weak = Arc::downgrade(node);
    move || {
        let weak = weak.clone();
        runtime.spawn(async move {
            if let Some(node) = weak.upgrade() {
                node.stop_clients(Duration::ZERO).await;
            }
        });
    }
}

/// A port that is this node's, though nobody can connect yet.
struct Port {
    socket: socket2::Socket,
    address: SocketAddr,
    purpose: &'static str,
}

struct Ports {
    cql: Port,
    cql_tls: Option<Port>,
    admin: Port,
    metrics: Option<Port>,
    #[cfg(feature = "bulk")]
    flight: Option<Port>,
    admin_socket: Option<PrivateSocket>,
}

impl Ports {
    fn bind(config: &Config) -> Result<Ports, StartError> {
        Ok(Ports {
            cql: Port::bind(config.cql_address, "CQL")?,
            cql_tls: cql_tls_address(config)
                .map(|address| Port::bind(address, "CQL with TLS"))
                .transpose()?,
            admin: Port::bind(config.admin_address, "the admin API")?,
            metrics: config.metrics_address.map(|address| Port::bind(address, "/metrics")).transpose()?,
            #[cfg(feature = "bulk")]
            flight: match config.settings.flight_port {
                Some(port) => {
                    let address = crate::flight::address(config, port);
                    Some(Port::bind(address, "Arrow Flight SQL")?)
                }
                None => None,
            },
            admin_socket: config.settings.admin_socket.as_deref().map(bind_socket).transpose()?,
        })
    }
}

/// Where clients connect to who speak TLS, if that is another port.
fn cql_tls_address(config: &Config) -> Option<SocketAddr> {
    let port = config.settings.native_transport_port_ssl?;
    let differs = port != config.settings.native_transport_port;
    differs.then(|| SocketAddr::new(config.cql_address.ip(), port))
}

fn bind_socket(path: &Path) -> Result<PrivateSocket, StartError> {
    PrivateSocket::listen(path).map_err(|cause| StartError::Socket { path: path.to_owned(), cause })
}

impl Port {
    fn bind(address: SocketAddr, purpose: &'static str) -> Result<Port, StartError> {
        let bind = || -> io::Result<Port> {
            let domain = socket2::Domain::for_address(address);
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
            // A node that starts again does not wait for the connections of its last life.
            socket.set_reuse_address(true)?;
            socket.set_nonblocking(true)?;
            socket.bind(&address.into())?;
            let address = socket.local_addr()?.as_socket().unwrap_or(address);
            Ok(Port { socket, address, purpose })
        };
        bind().map_err(|cause| StartError::Listen { address, purpose, cause })
    }

    fn listen(self) -> Result<TcpListener, StartError> {
        let Port { socket, address, purpose } = self;
        let listen = || socket.listen(BACKLOG).and_then(|()| TcpListener::from_std(socket.into()));
        listen().map_err(|cause| StartError::Listen { address, purpose, cause })
    }
}

/// Has memory come in huge pages once the node is large.
async fn watch_memory(tasks: Tasks) {
    let mut ticks = tasks.ticks(MEMORY_INTERVAL);
    loop {
        ticks.next().await;
        if memory::own_bytes().is_ok_and(|bytes| bytes >= HUGE_PAGES_BYTES_MIN) {
            if let Err(error) = memory::set_huge_pages(true) {
                tracing::warn!(%error, "memory stays in small pages");
            }
            return;
        }
    }
}

/// Takes note of rates, writes the log of slow requests, and forgets what was counted for tables that are
/// gone.
async fn tick(node: Arc<Node>) {
    let mut ticks = node.state.env.tasks.ticks(Duration::from_secs_f64(crate::histogram::TICK_SECONDS));
    loop {
        ticks.next().await;
        let state = &node.state;
        state.metrics.tick();
        state.metrics.reads.slow.report(state.config.settings.slow_query_log_timeout.0);
        state.metrics.retain_tables(|id| state.engine.table(id).is_some());
    }
}

/// Removes snapshots whose time is over.
async fn remove_expired_snapshots(node: Arc<Node>) {
    let mut ticks = node.state.env.tasks.ticks(EXPIRY_INTERVAL);
    loop {
        ticks.next().await;
        let engine = Arc::clone(&node.state.engine);
        match take_time(move || engine.remove_expired_snapshots()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "expired snapshots could not be removed"),
            Err(error) => tracing::error!(%error, "the removal of expired snapshots did not end"),
        }
    }
}

fn net_options(config: &Config) -> NetOptions {
    let settings: &Settings = &config.settings;
    let (in_flight_bytes_max, in_flight_per_ip_bytes_max) = config.memory.requests_in_flight(settings);
    let limit = |n: i64| usize::try_from(n).unwrap_or(0);
    let seconds = |time: Millis| u32::try_from(time.0.div_ceil(1_000)).unwrap_or(u32::MAX);
    NetOptions {
        frame_bytes_max: settings.native_transport_max_frame_size.0 as usize,
        message_bytes_max: usize::try_from(config.message_bytes_max()).unwrap_or(usize::MAX),
        connections_max: limit(settings.native_transport_max_concurrent_connections),
        connections_per_ip_max: limit(settings.native_transport_max_concurrent_connections_per_ip),
        requests_per_second_max: match settings.native_transport_rate_limiting_enabled {
            true => settings.native_transport_max_requests_per_second,
            false => 0,
        },
        in_flight_bytes_max,
        in_flight_per_ip_bytes_max,
        answers_bytes_max: settings
            .native_transport_max_response_data_in_flight
            .map_or(config.memory.answers, |size| size.0),
        answers_per_ip_bytes_max: settings
            .native_transport_max_response_data_in_flight_per_ip
            .map_or(config.memory.answers_per_ip, |size| size.0),
        idle_timeout_s: seconds(settings.native_transport_idle_timeout),
        startup_timeout_s: seconds(settings.native_transport_startup_timeout),
        receive_timeout_s: seconds(settings.native_transport_receive_timeout),
        tls_handshake_timeout_s: seconds(settings.native_transport_tls_handshake_timeout),
        ..NetOptions::default()
    }
}

/// Prints where to connect. Standard output is for people and scripts that wait for this line; logs go
/// elsewhere.
fn announce(node: &Node, cql: SocketAddr, admin: SocketAddr, sampled: bool) {
    let mut out = io::stdout().lock();
    let told = node.state.config.broadcast_rpc_address;
    let millis = node.state.uptime_millis();
    let scheme = if admin.ip().is_loopback() { "http" } else { "https" };
    let mut text = format!(
        "ilion {}: listening for CQL on {cql}, admin API on {scheme}://{admin}, started in {millis} ms\n",
        env!("CARGO_PKG_VERSION")
    );
    let must_encrypt = node.state.config.settings.native_transport_port_ssl.is_none()
        && node.state.tls.as_ref().is_some_and(|tls| tls.policy() == EncryptionPolicy::Encrypted);
    let flag = if must_encrypt { "--ssl " } else { "" };
    text.push_str(&format!("connect with: cqlsh {flag}{told} {}\n", cql.port()));
    if sampled {
        text.push_str(&sample::reads_to_try(told, cql.port()));
    }
    // A closed standard output is no reason not to serve.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
