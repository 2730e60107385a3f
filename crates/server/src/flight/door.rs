//! The port of Flight: who is let in, below gRPC.
//!
//! A connection takes its place before its handshake, and gives it back when it ends. A client that does not
//! come to the end of its handshake holds up no other one.

use crate::auth::certificate::CertificateLogin;
use crate::net::Registry;
use crate::tls::http::{HttpDoor, Stream};
use env::tasks::Tasks;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tonic::codegen::tokio_stream;
use tonic::transport::server::Connected;

/// Connections that are open at once, those that still shake hands among them.
const CONNECTIONS_MAX: usize = 1_024;

/// The client of a connection, beside each of its calls.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    /// Its end of the connection.
    pub(super) peer: SocketAddr,
    /// The certificate that it has shown, where it was asked for one.
    pub(super) certificate: Option<Arc<CertificateLogin>>,
}

/// A connection that was let in.
#[derive(Debug)]
pub(super) struct Guest {
    stream: Stream,
    visitor: Visitor,
    _place: OwnedSemaphorePermit,
}

/// Connections as they are let in.
#[derive(Debug)]
pub(super) struct Guests(mpsc::Receiver<Guest>);

impl tokio_stream::Stream for Guests {
    type Item = io::Result<Guest>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|guest| guest.map(Ok))
    }
}

/// Lets clients in for as long as the result is kept.
pub(super) fn guests(listener: TcpListener, door: HttpDoor, registry: Arc<Registry>) -> Guests {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, door, registry, sender));
    Guests(receiver)
}

async fn accept(listener: TcpListener, door: HttpDoor, registry: Arc<Registry>, sender: mpsc::Sender<Guest>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = sender.closed() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: waiting lets some be closed.
                tracing::warn!(%error, "Flight cannot accept a connection");
                Tasks::of_machine().sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%peer, "Flight has no room for more than {CONNECTIONS_MAX} connections");
            registry.traffic.refused.add(1);
            continue;
        };
        let (door, registry, sender) = (door.clone(), Arc::clone(&registry), sender.clone());
        tokio::spawn(async move {
            if let Ok(stream) = door.open(stream, peer, &registry).await {
                let shown = stream.certificate().map(Arc::clone);
                let certificate = shown.map(|shown| Arc::new(CertificateLogin::new(shown)));
                let visitor = Visitor { peer, certificate };
                // Nobody takes it when the node ends.
                let _ = sender.send(Guest { stream, visitor, _place: place }).await;
            }
        });
    }
}

impl Connected for Guest {
    type ConnectInfo = Visitor;

    fn connect_info(&self) -> Visitor {
        self.visitor.clone()
    }
}

impl AsyncRead for Guest {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
