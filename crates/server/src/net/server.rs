//! The listener and the life of all connections.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use env::clock::{Clock, SystemClock};
use env::tasks::Tasks;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::budget::{Addresses, NodeBudgets};
use super::rate::RequestRate;
use super::task::ConnectionTask;
use super::threads::Threads;
use super::wire::RestingWire;
use super::{Connection, NetOptions, Registry, Security, Service};

/// A port, and what clients speak there.
#[derive(Debug)]
pub struct Door {
    /// The port.
    pub listener: TcpListener,
    /// What clients speak.
    pub security: Security,
}

/// What all connections share.
pub(super) struct Shared {
    pub(super) options: NetOptions,
    pub(super) service: Arc<dyn Service>,
    pub(super) registry: Arc<Registry>,
    /// No more requests are read.
    pub(super) is_draining: AtomicBool,
    addresses: Addresses,
    node: Arc<NodeBudgets>,
    pub(super) rate: RequestRate,
    threads: Arc<Threads>,
}

/// The tasks of connections, each on its thread.
#[derive(Debug, Default)]
struct Connections(JoinSet<Option<ConnectionTask>>);

impl Connections {
    fn spawn(&mut self, task: ConnectionTask) {
        let runtime = task.runtime().clone();
        self.0.spawn_on(task.run(), &runtime);
    }

    /// Waits until one has ended, and lets those go on that are to run on another thread; `None` when there
    /// is none.
    async fn next(&mut self) -> Option<()> {
        match self.0.join_next().await? {
            Ok(Some(task)) => self.spawn(task),
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "a connection's task failed"),
        }
        Some(())
    }
}

/// The native transport: accepts connections until it is shut down.
#[derive(Debug)]
pub struct Server {
    local: SocketAddr,
    draining: watch::Sender<bool>,
    accepting: JoinHandle<Connections>,
}

impl Server {
    /// Starts to accept connections on `listener`, to be served on `threads`. Open ones appear in `registry`.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn start(
        listener: TcpListener,
        options: NetOptions,
        service: Arc<dyn Service>,
        registry: Arc<Registry>,
        threads: Arc<Threads>,
    ) -> io::Result<Server> {
        let door = Door { listener, security: Security::Plain };
        Server::start_at(vec![door], options, service, registry, threads)
    }

    /// As [`Server::start`], on several ports. What is bounded is bounded for all of them together.
    ///
    /// # Errors
    /// When there is none, or the first listener has no address.
    pub fn start_at(
        doors: Vec<Door>,
        options: NetOptions,
        service: Arc<dyn Service>,
        registry: Arc<Registry>,
        threads: Arc<Threads>,
    ) -> io::Result<Server> {
        let first = doors.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let local = first.listener.local_addr()?;
        let (draining, is_draining) = watch::channel(false);
        let shared = Arc::new(Shared {
            addresses: Addresses::new(&options),
            node: Arc::new(NodeBudgets::new(&options)),
            rate: RequestRate::new(options.requests_per_second_max),
            options,
            service,
            registry,
            is_draining: AtomicBool::new(false),
            threads,
        });
        let accepting = tokio::spawn(accept(doors, shared, is_draining));
        Ok(Server { local, draining, accepting })
    }

    /// Where clients connect.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Stops to accept and to read, waits at most `grace` for what is in flight, and closes everything.
    pub async fn shutdown(self, grace: Duration) {
        self.draining.send_replace(true);
        let Ok(mut connections) = self.accepting.await else { return };
        let all_done = async { while connections.next().await.is_some() {} };
        if Tasks::of_machine().timeout(grace, all_done).await.is_err() {
            tracing::warn!(
                left = connections.0.len(),
                "closing connections that still had requests in flight"
            );
            connections.0.shutdown().await;
        }
    }
}

/// Waits for a client at any of the doors.
async fn come(doors: &[Door]) -> (io::Result<(TcpStream, SocketAddr)>, &Security) {
    poll_fn(|context| {
        for door in doors {
            if let Poll::Ready(accepted) = door.listener.poll_accept(context) {
                return Poll::Ready((accepted, &door.security));
            }
        }
        Poll::Pending
    })
    .await
}

async fn accept(
    doors: Vec<Door>,
    shared: Arc<Shared>,
    mut is_draining: watch::Receiver<bool>,
) -> Connections {
    let mut connections = Connections::default();
    let clock = SystemClock::new();
    let mut compared = clock.monotonic_nanos();
    let mut seconds = Tasks::of_machine().ticks(Duration::from_secs(1));
    loop {
        tokio::select! {
            (accepted, security) = come(&doors) => match accepted {
                Ok((stream, peer)) => {
                    if let Some(task) = open(&shared, stream, peer, security) {
                        connections.spawn(task);
                    }
                }
                Err(error) => {
                    // Out of file descriptors, most likely: waiting lets some be closed.
                    tracing::warn!(%error, "cannot accept a connection");
                    Tasks::of_machine().sleep(Duration::from_millis(50)).await;
                }
            },
            _ = is_draining.changed() => {
                shared.is_draining.store(true, Ordering::SeqCst);
                shared.registry.connections().iter().for_each(|connection| connection.wake());
                return connections;
            }
            () = seconds.next() => {
                shared.registry.sweep(&shared.options);
                let now = clock.monotonic_nanos();
                let elapsed = Duration::from_nanos(now - compared);
                compared = now;
                shared.threads.balance(elapsed, &shared.registry.connections());
            }
            Some(()) = connections.next(), if !connections.0.is_empty() => {}
        }
    }
}

/// Takes a connection in, or drops it when there are too many.
fn open(
    shared: &Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    security: &Security,
) -> Option<ConnectionTask> {
    let options = &shared.options;
    let open = shared.registry.len();
    if options.connections_max > 0 && open >= options.connections_max {
        tracing::warn!(
            "Exceeded maximum native connection limit of {} by using {} connections (see \
             native_transport_max_concurrent_connections in cassandra.yaml)",
            options.connections_max,
            open + 1
        );
        shared.registry.traffic.refused.add(1);
        return None;
    }
    // Another thread will wait for it.
    let wire = match RestingWire::accepted(stream) {
        Ok(wire) => wire,
        Err(error) => {
            tracing::warn!(%error, %peer, "cannot hand a connection over to its thread");
            return None;
        }
    };
    let Some(address) = shared.addresses.enter(peer.ip(), options.connections_per_ip_max) else {
        tracing::warn!(
            "Exceeded maximum native connection limit per ip of {} (see \
             native_transport_max_concurrent_connections_per_ip)",
            options.connections_per_ip_max
        );
        shared.registry.traffic.refused.add(1);
        return None;
    };
    shared.registry.traffic.accepted.add(1);
    let id = shared.registry.next_id();
    let connection = Arc::new(Connection::new(id, peer, options, address, Arc::clone(&shared.node)));
    shared.registry.insert(&connection);
    let presence = Presence { shared: Arc::clone(shared), connection };
    let wire = match wire.secured(security, &presence.connection, &shared.registry) {
        Ok(wire) => wire,
        Err(error) => {
            tracing::warn!(%error, %peer, "cannot begin TLS with a client");
            return None;
        }
    };
    Some(ConnectionTask::new(wire, shared.threads.take_seat(), presence))
}

/// A connection's place among the open ones, given up when it is dropped.
pub(super) struct Presence {
    pub(super) shared: Arc<Shared>,
    pub(super) connection: Arc<Connection>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.connection.close();
        self.shared.registry.remove(&self.connection);
        self.shared.addresses.leave(self.connection.peer.ip());
        let left = self.connection.in_flight.load(Ordering::Acquire);
        if left > 0 {
            tracing::debug!(peer = %self.connection.peer, left, "a connection ended with requests in flight");
        }
    }
}
