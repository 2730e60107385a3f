//! TLS of the ports that speak HTTP: Flight, and the admin API where others can reach it.
//!
//! ```text
//! accepted ─> first byte, where TLS is optional ─> handshake ─> the client is admitted ─> Stream
//!             └──────────────── within the time of a handshake ────────────────┘
//! ```
//!
//! Certificates, their reload, the rules for clients and the counters are those of CQL. ALPN says which HTTP
//! is spoken: a client that names others alone is refused.

use super::{Acceptor, Tls};
use crate::net::{Registry, Security};
use env::tasks::Tasks;
use keystore::Certificate;
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The first byte of a TLS handshake. No request of HTTP begins with it.
const HANDSHAKE: u8 = 22;

/// What is spoken above TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http {
    /// HTTP/2 alone: gRPC.
    #[cfg_attr(
        not(any(feature = "bulk", test)),
        expect(dead_code, reason = "only the door of Arrow speaks gRPC")
    )]
    Two,
    /// HTTP/2 and HTTP/1.1.
    Both,
}

impl Http {
    /// Names of protocols, the preferred one first (RFC 7301).
    fn names(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Http::Two => &[b"h2"],
            Http::Both => &[b"h2", b"http/1.1"],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

/// What clients of a port speak.
#[derive(Clone, Debug)]
pub(crate) struct HttpDoor {
    /// TLS or not.
    pub(crate) security: Security,
    /// What is spoken above it.
    pub(crate) http: Http,
    /// Time for a handshake; 0: any.
    pub(crate) handshake_timeout: Duration,
}

/// A connection, behind its handshake.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With it.
    Secure(Box<Secured>),
}

/// A connection with TLS, and what its client has shown.
#[derive(Debug)]
pub(crate) struct Secured {
    stream: TlsStream<TcpStream>,
    certificate: Option<Arc<Certificate>>,
}

impl Stream {
    /// What the client has shown, where it was asked for a certificate.
    pub(crate) fn certificate(&self) -> Option<&Arc<Certificate>> {
        match self {
            Stream::Plain(_) => None,
            Stream::Secure(secured) => secured.certificate.as_ref(),
        }
    }
}

impl HttpDoor {
    /// Lets a client in that has just connected.
    ///
    /// # Errors
    /// What is wrong with its handshake or its certificate. It is counted.
    pub(crate) async fn open(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        registry: &Registry,
    ) -> io::Result<Stream> {
        let opened = self.handshake(stream, peer, registry);
        if self.handshake_timeout.is_zero() || matches!(self.security, Security::Plain) {
            return opened.await;
        }
        match Tasks::of_machine().timeout(self.handshake_timeout, opened).await {
            Ok(opened) => opened,
            Err(_) => {
                registry.traffic.too_slow.add(1);
                Err(io::ErrorKind::TimedOut.into())
            }
        }
    }

    async fn handshake(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        registry: &Registry,
    ) -> io::Result<Stream> {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let tls = match &self.security {
            Security::Plain => return Ok(Stream::Plain(stream)),
            Security::Encrypted(tls) => tls,
            Security::Optional(tls) => {
                let mut first = [0];
                if stream.peek(&mut first).await? == 0 || first != [HANDSHAKE] {
                    return Ok(Stream::Plain(stream));
                }
                tls
            }
        };
        let secured = secured(tls, self.http, stream, peer).await;
        let traffic = &registry.traffic;
        match secured {
            Ok((secured, is_resumed)) => {
                traffic.tls_handshakes.add(1);
                traffic.tls_resumed.add(u64::from(is_resumed));
                Ok(Stream::Secure(Box::new(secured)))
            }
            Err(error) => {
                registry.note_tls_failure(peer, &error.to_string(), tls.now_s());
                Err(error)
            }
        }
    }
}

async fn secured(tls: &Tls, http: Http, stream: TcpStream, peer: SocketAddr) -> io::Result<(Secured, bool)> {
    let acceptor = tls.acceptor();
    let stream = TlsAcceptor::from(acceptor.config_of(http)).accept(stream).await?;
    let admitted = acceptor.admit(stream.get_ref().1, peer.ip(), tls.now_s());
    let session = admitted.map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
    let certificate = session.peer.map(Arc::new);
    Ok((Secured { stream, certificate }, session.is_resumed))
}

impl Acceptor {
    /// What connections of HTTP are made of.
    fn config_of(&self, http: Http) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(self.config());
        config.alpn_protocols = http.names();
        Arc::new(config)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Secure(secured) => Pin::new(&mut secured.stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Secure(secured) => Pin::new(&mut secured.stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Secure(secured) => Pin::new(&mut secured.stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Secure(secured) => secured.stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Secure(secured) => Pin::new(&mut secured.stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Secure(secured) => Pin::new(&mut secured.stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::tests::{client_config, loaded};
    use rustls::pki_types::ServerName;
    use std::net::Ipv4Addr;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsConnector;

    /// What the node makes of a client that speaks TLS with these protocols above it, or else nothing but
    /// `plain`; and the protocol that the client believes in.
    async fn met(
        security: Security,
        http: Http,
        protocols: Option<&[&[u8]]>,
    ) -> (io::Result<Stream>, Option<Vec<u8>>, Registry) {
        let door = HttpDoor { security, http, handshake_timeout: Duration::from_millis(300) };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let Some(protocols) = protocols else {
                stream.write_all(b"PRI").await.unwrap();
                return (None, None, Some(stream));
            };
            let mut config = rustls::ClientConfig::clone(&client_config());
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            let name = ServerName::try_from("localhost").unwrap();
            match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
                Ok(stream) => (stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec), Some(stream), None),
                Err(_) => (None, None, None),
            }
        };
        let registry = Registry::new();
        let server = async {
            let (stream, peer) = listener.accept().await.unwrap();
            door.open(stream, peer, &registry).await
        };
        let (opened, (protocol, ..)) = tokio::join!(server, client);
        (opened, protocol, registry)
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn http_is_agreed_upon() {
        run(async {
            let tls = loaded();
            let encrypted = || Security::Encrypted(Arc::clone(&tls));
            let both: &[&[u8]] = &[b"http/1.1", b"h2"];
            for (http, asked, agreed) in [
                (Http::Two, both, Some("h2")),
                (Http::Both, both, Some("h2")),
                (Http::Both, &both[..1], Some("http/1.1")),
                (Http::Two, &[][..], None),
            ] {
                let (opened, protocol, registry) = met(encrypted(), http, Some(asked)).await;
                assert!(matches!(opened, Ok(Stream::Secure(_))), "{http:?} {asked:?}");
                assert_eq!(protocol.as_deref(), agreed.map(str::as_bytes));
                assert_eq!(registry.traffic.tls_handshakes.get(), 1);
            }
            let (opened, _, registry) = met(encrypted(), Http::Two, Some(&both[..1])).await;
            assert!(opened.is_err() && registry.traffic.tls_failures.get() == 1);
        });
    }

    #[test]
    fn plain_text_is_for_ports_where_tls_is_optional() {
        run(async {
            let tls = loaded();
            let optional = Security::Optional(Arc::clone(&tls));
            let (opened, ..) = met(optional.clone(), Http::Two, None).await;
            assert!(matches!(opened, Ok(Stream::Plain(_))));
            let (opened, ..) = met(optional, Http::Two, Some(&[b"h2"])).await;
            assert!(matches!(opened, Ok(Stream::Secure(_))));
            let (opened, _, registry) = met(Security::Encrypted(tls), Http::Two, None).await;
            assert!(opened.is_err());
            assert_eq!(registry.traffic.tls_failures.get() + registry.traffic.too_slow.get(), 1);
            let (opened, ..) = met(Security::Plain, Http::Two, None).await;
            assert!(matches!(opened, Ok(Stream::Plain(_))));
        });
    }
}
