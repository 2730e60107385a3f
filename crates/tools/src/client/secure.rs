//! HTTP over TLS: what carries the bytes of the client behind a TCP connection.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// Speaks TLS on what another connector connected.
#[derive(Debug)]
pub(super) struct SecureConnector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl SecureConnector {
    /// With the node of this name.
    pub(super) fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> SecureConnector {
        SecureConnector { config, name }
    }
}

impl<In: Transport> Connector<In> for SecureConnector {
    type Out = SecureTransport;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<SecureTransport>, Error> {
        let Some(transport) = chained else { return Ok(None) };
        let mut session = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(std::io::Error::other)?;
        let mut socket = TransportAdapter::new(transport.boxed(), Arc::clone(&details.current_time));
        socket.set_timeout(details.timeout);
        session.complete_io(&mut socket)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(SecureTransport { stream: StreamOwned::new(session, socket), buffers }))
    }
}

/// A connection.
pub(super) struct SecureTransport {
    stream: StreamOwned<ClientConnection, TransportAdapter>,
    buffers: LazyBuffers,
}

impl fmt::Debug for SecureTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecureTransport").finish_non_exhaustive()
    }
}

impl Transport for SecureTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        Ok(self.stream.write_all(output)?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let read = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
