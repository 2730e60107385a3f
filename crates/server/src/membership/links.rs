//! Connections between nodes, encrypted where `server_encryption_options` ask for it.
//!
//! 1. A node that connects speaks TLS where `internode_encryption` says so of the other one.
//! 2. Where `optional` is true, and the other node closes in place of ending the handshake, the next attempt
//!    is without TLS ([`Links::falls_back`]). Whatever else fails is tried again with TLS: a certificate that
//!    is refused, by either side, never leads to plain text.
//! 3. A node that speaks no TLS reads what a node that does begins with, and closes. With bytes unread the
//!    system would send a reset, which tells a Cassandra nothing of TLS, and it would not fall back.

use crate::config::{EncryptionPolicy, InternodeEncryption};
use crate::tls::{NodeTls, is_tls};
use cluster::endpoint::Endpoint;
use cluster::messaging::Framing;
use cluster::messaging::tcp::stream::{Attempt, Link, Links, Wrapping};
use env::Env;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Seconds between two warnings: a node that is refused tries again and again.
const WARNING_INTERVAL_S: i64 = 10;
/// Kind, version, length.
const RECORD_HEAD_BYTES: usize = 5;
/// The longest record of plain text (RFC 8446, 5.1).
const RECORD_BYTES_MAX: u16 = 1 << 14;

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) datacenter: Arc<str>,
    pub(super) rack: Arc<str>,
}

/// TLS where it is asked for, by the place of the other node.
pub(super) struct NodeLinks {
    pub(super) env: Env,
    pub(super) framing: Framing,
    /// `None` where no node can speak TLS.
    pub(super) tls: Option<Arc<NodeTls>>,
    /// Data center and rack of this node.
    pub(super) place: Place,
    /// Those of another one, where they are known.
    pub(super) place_of: Box<dyn Fn(Endpoint) -> Option<Place> + Send + Sync>,
    pub(super) warned_s: AtomicI64,
}

impl NodeLinks {
    /// Whether this node speaks TLS with another one that it connects to. One whose place is not known yet
    /// counts as one of another data center.
    fn encrypts(&self, internode: InternodeEncryption, to: Endpoint) -> bool {
        let place = || (self.place_of)(to);
        match internode {
            InternodeEncryption::None => false,
            InternodeEncryption::All => true,
            InternodeEncryption::Dc => place().is_none_or(|place| place.datacenter != self.place.datacenter),
            InternodeEncryption::Rack => place().is_none_or(|place| place != self.place),
        }
    }

    /// Whether a warning is due.
    fn warns(&self) -> bool {
        let now_s = self.env.now_seconds();
        let is_due = now_s - self.warned_s.load(Ordering::Relaxed) >= WARNING_INTERVAL_S;
        if is_due {
            self.warned_s.store(now_s, Ordering::Relaxed);
        }
        is_due
    }

    fn refuse(&self, peer: impl Display, error: io::Error) -> io::Error {
        if self.warns() {
            tracing::warn!(%peer, %error, "no TLS with another node");
        }
        error
    }

    /// What encrypts connections to that node; `None` where they are plain.
    fn tls_to(&self, to: Endpoint) -> Option<&NodeTls> {
        self.tls.as_deref().filter(|tls| self.encrypts(tls.internode(), to))
    }

    async fn open(&self, tcp: TcpStream, to: Endpoint, attempt: Attempt) -> io::Result<Link> {
        let Some(tls) = self.tls_to(to) else { return Ok(Link::Plain(tcp)) };
        if attempt == Attempt::Unencrypted && tls.falls_back() {
            if self.warns() {
                tracing::warn!(peer = %to, "another node closed where TLS begins, and optional allows plain text");
            }
            return Ok(Link::Plain(tcp));
        }
        match tls.connect(tcp, to.ip).await {
            Ok(stream) => Ok(Link::Wrapped(Box::new(stream))),
            // The next attempt tells of it.
            Err(error) if self.falls_back(to, &error) => Err(error),
            Err(error) => Err(self.refuse(to, error)),
        }
    }

    async fn take(&self, mut tcp: TcpStream) -> io::Result<Link> {
        let mut first = [0];
        let peer = tcp.peer_addr()?;
        // Without a first byte the handshake that follows finds the end.
        let speaks_tls = tcp.peek(&mut first).await? == 1 && is_tls(first[0]);
        let Some(tls) = &self.tls else {
            if !speaks_tls {
                return Ok(Link::Plain(tcp));
            }
            read_record(&mut tcp).await?;
            let error = io::Error::other("it speaks TLS, and server_encryption_options know of none");
            return Err(self.refuse(peer, error));
        };
        match (tls.policy(), speaks_tls) {
            (_, true) => match tls.accept(tcp).await {
                Ok(stream) => Ok(Link::Wrapped(Box::new(stream))),
                Err(error) => Err(self.refuse(peer, error)),
            },
            (EncryptionPolicy::Encrypted, false) => {
                let error = io::Error::other("it speaks no TLS, and internode_encryption is all");
                Err(self.refuse(peer, error))
            }
            (EncryptionPolicy::Optional | EncryptionPolicy::Unencrypted, false) => Ok(Link::Plain(tcp)),
        }
    }
}

/// Reads the record of TLS that a connection begins with, and ends the own direction.
async fn read_record(tcp: &mut TcpStream) -> io::Result<()> {
    let mut head = [0; RECORD_HEAD_BYTES];
    tcp.read_exact(&mut head).await?;
    let [.., high, low] = head;
    let len = u16::from_be_bytes([high, low]).min(RECORD_BYTES_MAX);
    tokio::io::copy(&mut (&mut *tcp).take(u64::from(len)), &mut tokio::io::sink()).await?;
    tcp.shutdown().await
}

impl Links for NodeLinks {
    fn connected(&self, tcp: TcpStream, to: Endpoint, attempt: Attempt) -> Wrapping<'_> {
        Box::pin(self.open(tcp, to, attempt))
    }

    fn falls_back(&self, to: Endpoint, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::UnexpectedEof && self.tls_to(to).is_some_and(NodeTls::falls_back)
    }

    fn accepted(&self, tcp: TcpStream) -> Wrapping<'_> {
        Box::pin(self.take(tcp))
    }

    fn framing(&self, _: Endpoint) -> Framing {
        self.framing
    }
}

#[cfg(test)]
mod tests;
