//! The listeners of the admin API: a TCP port, with TLS where others can reach it, and a Unix socket where
//! the configuration names one. Both speak HTTP/1.1, and HTTP/2 for Flight.
//!
//! A caller cannot hold the API up: head and body of a request have a time, bodies a size, and each
//! listener so many connections at once. What a request does may take as long as it needs.

use super::ApiError;
use super::guard::Endpoint;
use crate::auth::certificate::CertificateLogin;
use crate::net::Registry;
use crate::tls::http::HttpDoor;
use axum::Extension;
use axum::Router;
use axum::extract::{ConnectInfo, Request};
use env::tasks::Tasks;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use keystore::Certificate;
use std::future::Future;
use std::io::{self, Cursor};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Time for the body of a request.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a body.
pub(super) const BODY_BYTES_MAX: usize = 1 << 20;
/// Bytes of a head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How a connection of HTTP/2 begins (RFC 9113, section 3.4); no request of HTTP/1 does.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Streams of a connection of HTTP/2.
const STREAMS_MAX: u32 = 64;
/// How long a connection of HTTP/2 may be silent before it is asked whether it is still there, and how long
/// the answer may take.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// What callers are told for whom there is no room.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: application/json\r\n\
content-length: 78\r\n\r\n{\"error\":\"failed\",\"message\":\"the admin API has no room for more connections\"}\n";

/// What callers may take up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Time for the head of a request. A connection without a request is closed after it, too.
    head_timeout: Duration,
    /// Connections of each listener: those of one cannot shut out those of the other.
    connections_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { head_timeout: Duration::from_secs(30), connections_max: 64 }
    }
}

/// What the client of a connection has shown in its handshake, beside each of its requests.
#[derive(Clone, Debug)]
pub(super) struct PeerLogin(pub(super) Arc<CertificateLogin>);

/// The client's end of a connection, beside each of its requests. That of a Unix socket has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// What comes before HTTP on a connection.
type Opening<S> = Pin<Box<dyn Future<Output = io::Result<S>> + Send>>;

/// Where connections come from.
pub(super) trait Listener {
    /// A connection that was accepted.
    type Accepted: Send + 'static;
    /// One on which HTTP is spoken.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection.
    fn next(&self) -> impl Future<Output = io::Result<Self::Accepted>> + Send;

    /// The client's end.
    fn peer(_: &Self::Accepted) -> Option<SocketAddr> {
        None
    }

    /// What comes before HTTP.
    fn open(&self, accepted: Self::Accepted) -> Opening<Self::Stream>;

    /// The certificate that a client has shown.
    fn certificate(_: &Self::Stream) -> Option<Arc<Certificate>> {
        None
    }

    /// Tells a caller that there is no room, as far as that goes without waiting.
    fn turn_away(accepted: Self::Accepted);
}

/// A port that speaks TLS.
#[derive(Debug)]
pub(super) struct Secured {
    pub(super) listener: TcpListener,
    pub(super) door: HttpDoor,
    pub(super) registry: Arc<Registry>,
}

impl Listener for Secured {
    type Accepted = (TcpStream, SocketAddr);
    type Stream = crate::tls::http::Stream;

    async fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.listener.accept().await
    }

    fn peer((_, peer): &(TcpStream, SocketAddr)) -> Option<SocketAddr> {
        Some(*peer)
    }

    fn open(&self, (stream, peer): (TcpStream, SocketAddr)) -> Opening<Self::Stream> {
        let (door, registry) = (self.door.clone(), Arc::clone(&self.registry));
        Box::pin(async move { door.open(stream, peer, &registry).await })
    }

    fn certificate(stream: &Self::Stream) -> Option<Arc<Certificate>> {
        stream.certificate().map(Arc::clone)
    }

    fn turn_away(_: (TcpStream, SocketAddr)) {
        // It would have to shake hands first.
    }
}

impl Listener for TcpListener {
    type Accepted = TcpStream;
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }

    fn peer(stream: &TcpStream) -> Option<SocketAddr> {
        stream.peer_addr().ok()
    }

    fn open(&self, stream: TcpStream) -> Opening<TcpStream> {
        Box::pin(std::future::ready(Ok(stream)))
    }

    fn turn_away(stream: TcpStream) {
        let _ = stream.try_write(FULL);
    }
}

impl Listener for UnixListener {
    type Accepted = UnixStream;
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }

    fn open(&self, stream: UnixStream) -> Opening<UnixStream> {
        Box::pin(std::future::ready(Ok(stream)))
    }

    fn turn_away(stream: UnixStream) {
        let _ = stream.try_write(FULL);
    }
}

/// Serves what connects to one listener until `stopped`, then waits for the requests under way.
pub(super) async fn serve<L: Listener>(
    listener: L,
    endpoint: Endpoint,
    limits: Limits,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(limits.connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.next() => accepted,
            _ = stopped.changed() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: waiting lets some be closed.
                tracing::warn!(%error, "the admin API cannot accept a connection");
                Tasks::of_machine().sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            L::turn_away(stream);
            continue;
        };
        let peer = L::peer(&stream);
        let (router, stopped, opened) = (router.clone(), stopped.clone(), listener.open(stream));
        connections.spawn(async move {
            if let Ok(stream) = opened.await {
                let router = match L::certificate(&stream) {
                    Some(certificate) => {
                        let login = Arc::new(CertificateLogin::new(certificate));
                        router.layer(Extension(PeerLogin(login)))
                    }
                    None => router,
                };
                let router = match peer {
                    Some(peer) => router.layer(Extension(Peer(peer))),
                    None => router,
                };
                talk(stream, endpoint, limits, router, stopped).await;
            }
            drop(permit);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// One connection, to its end.
async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    endpoint: Endpoint,
    limits: Limits,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let router =
        router.layer(axum::middleware::from_fn(move |mut request: Request, next: axum::middleware::Next| {
            request.extensions_mut().insert(ConnectInfo(endpoint));
            next.run(request)
        }));
    let (mut read, write) = tokio::io::split(stream);
    let start = match Tasks::of_machine().timeout(limits.head_timeout, opening(&mut read)).await {
        Ok(Ok(start)) => start,
        Ok(Err(error)) => return tracing::debug!(%error, "a connection of the admin API ended"),
        // It says nothing.
        Err(_) => return,
    };
    let is_http2 = start == HTTP2_PREFACE;
    let stream = TokioIo::new(tokio::io::join(Cursor::new(start).chain(read), write));
    let service = TowerToHyperService::new(router);
    let ended = if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX as u32)
            .keep_alive_interval(Some(KEEP_ALIVE))
            .keep_alive_timeout(KEEP_ALIVE);
        let mut connection = pin!(builder.serve_connection(stream, service));
        tokio::select! {
            ended = connection.as_mut() => ended,
            // Streams may last for hours: they end with the node.
            _ = stopped.changed() => return,
        }
    } else {
        let mut builder = http1::Builder::new();
        let timer = TokioTimer::new();
        builder.timer(timer).header_read_timeout(limits.head_timeout).max_header_size(HEAD_BYTES_MAX);
        let mut connection = pin!(builder.serve_connection(stream, service));
        tokio::select! {
            ended = connection.as_mut() => ended,
            _ = stopped.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of the admin API ended");
    }
}

/// The first bytes of a connection, as many as say which HTTP it speaks.
async fn opening(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(HTTP2_PREFACE.len());
    while start.len() < HTTP2_PREFACE.len() && HTTP2_PREFACE.starts_with(&start) {
        let missing = (HTTP2_PREFACE.len() - start.len()) as u64;
        if (&mut *stream).take(missing).read_buf(&mut start).await? == 0 {
            break;
        }
    }
    Ok(start)
}

/// What `reading` a body comes to, unless it takes too long.
pub(super) async fn in_time<T>(timeout: Duration, reading: impl Future<Output = T>) -> Result<T, ApiError> {
    Tasks::of_machine().timeout(timeout, reading).await.map_err(|_| {
        let seconds = timeout.as_secs();
        ApiError::new(
            axum::http::StatusCode::REQUEST_TIMEOUT,
            "invalid",
            format!("the body of the request did not come within {seconds} seconds"),
        )
    })
}

#[cfg(test)]
mod tests;
