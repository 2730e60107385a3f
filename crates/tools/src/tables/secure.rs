//! TLS of gRPC: what connects to a node and shakes hands with it.

use crate::client::access;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

/// Connects to one address, whatever it is asked for.
pub(super) struct SecureNode {
    address: String,
    name: ServerName<'static>,
    connector: TlsConnector,
}

impl SecureNode {
    /// To the node at `HOST:PORT`.
    ///
    /// # Errors
    /// When the host has no name that a certificate may be for.
    pub(super) fn new(address: &str, config: &ClientConfig) -> Result<SecureNode, String> {
        let name = ServerName::try_from(access::host(address).to_owned());
        let name = name.map_err(|error| format!("{address}: {error}"))?;
        let mut config = config.clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(SecureNode { address: address.to_owned(), name, connector: Arc::new(config).into() })
    }
}

impl Service<Uri> for SecureNode {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (address, name, connector) = (self.address.clone(), self.name.clone(), self.connector.clone());
        Box::pin(async move {
            let stream = TcpStream::connect(&address).await?;
            stream.set_nodelay(true)?;
            connector.connect(name, stream).await.map(TokioIo::new)
        })
    }
}
