//! Connections between nodes, encrypted where `server_encryption_options` ask for it.

use crate::config::{EncryptionPolicy, InternodeEncryption};
use crate::tls::{NodeTls, is_tls};
use cluster::endpoint::Endpoint;
use cluster::messaging::Framing;
use cluster::messaging::tcp::stream::{Link, Links, Wrapping};
use env::Env;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::net::TcpStream;

/// Seconds between two warnings: a node that is refused tries again and again.
const WARNING_INTERVAL_S: i64 = 10;

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

    fn refuse(&self, peer: impl Display, error: io::Error) -> io::Error {
        let now_s = self.env.now_seconds();
        if now_s - self.warned_s.load(Ordering::Relaxed) >= WARNING_INTERVAL_S {
            self.warned_s.store(now_s, Ordering::Relaxed);
            tracing::warn!(%peer, %error, "no TLS with another node");
        }
        error
    }

    async fn open(&self, tcp: TcpStream, to: Endpoint) -> io::Result<Link> {
        match self.tls.as_ref().filter(|tls| self.encrypts(tls.internode(), to)) {
            None => Ok(Link::Plain(tcp)),
            Some(tls) => match tls.connect(tcp, to.ip).await {
                Ok(stream) => Ok(Link::Wrapped(Box::new(stream))),
                Err(error) => Err(self.refuse(to, error)),
            },
        }
    }

    async fn take(&self, tcp: TcpStream) -> io::Result<Link> {
        let mut first = [0];
        let Some(tls) = &self.tls else { return Ok(Link::Plain(tcp)) };
        let peer = tcp.peer_addr()?;
        // Without a first byte the handshake that follows finds the end.
        let speaks_tls = tcp.peek(&mut first).await? == 1 && is_tls(first[0]);
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

impl Links for NodeLinks {
    fn connected(&self, tcp: TcpStream, to: Endpoint) -> Wrapping<'_> {
        Box::pin(self.open(tcp, to))
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
