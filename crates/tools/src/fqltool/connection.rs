//! A connection to a node, for requests one after the other.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use bytes::Bytes;
use protocol::request::{AuthResponse, Message, Query, QueryParams, Request, Startup};
use protocol::response::{self, Response, ResultBody};
use protocol::{Consistency, Decoder, Encoder, ProtocolVersion};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::target::Target;

/// Bytes of the longest answer.
const RESPONSE_BYTES_MAX: usize = 256 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// What requests go through.
#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects to a target, with TLS where somebody is trusted.
    fn open(target: &Target, tls: Option<&Arc<ClientConfig>>) -> io::Result<Stream> {
        let mut socket = TcpStream::connect((target.host.as_str(), target.port))?;
        socket.set_nodelay(true)?;
        let Some(config) = tls else { return Ok(Stream::Plain(socket)) };
        let name = ServerName::try_from(target.host.clone()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        // Before a password goes out, it is known who is there.
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Stream::Secure(Box::new(StreamOwned::new(session, socket))))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Secure(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(bytes),
            Stream::Secure(stream) => stream.read(bytes),
        }
    }
}

/// A session of a version of the protocol.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    encoder: Encoder,
    decoder: Decoder,
    /// The keyspace in use.
    keyspace: Option<String>,
}

fn refused(what: &str, said: &Response) -> io::Error {
    let said = match said {
        Response::Error(error) => error.message.clone(),
        other => format!("unexpected {}", other.opcode().name()),
    };
    io::Error::other(format!("{what}: {said}"))
}

impl Connection {
    /// Connects, and logs in where the node asks for it.
    pub(super) fn open(
        target: &Target,
        tls: Option<&Arc<ClientConfig>>,
        version: ProtocolVersion,
    ) -> io::Result<Connection> {
        let stream = Stream::open(target, tls)?;
        let mut encoder = Encoder::of_requests();
        encoder.set_version(version);
        let decoder = Decoder::of_responses(RESPONSE_BYTES_MAX);
        let mut connection = Connection { stream, encoder, decoder, keyspace: None };
        let settings = vec![("CQL_VERSION".to_owned(), "3.0.0".to_owned())];
        let said = connection.exchange(Request::Startup(Startup { settings }))?;
        connection.encoder.negotiate(version, None);
        connection.decoder.negotiate(version, None);
        match said {
            Response::Ready => Ok(connection),
            Response::Authenticate(_) => {
                let Some((user, password)) = &target.login else {
                    return Err(io::Error::other(format!("{target} asks for a login: user:password@host")));
                };
                let token = Some(Bytes::from(format!("\0{user}\0{password}")));
                match connection.exchange(Request::AuthResponse(AuthResponse { token }))? {
                    Response::AuthSuccess(_) => Ok(connection),
                    said => Err(refused("the login failed", &said)),
                }
            }
            said => Err(refused("the session cannot begin", &said)),
        }
    }

    /// Uses a keyspace.
    pub(super) fn use_keyspace(&mut self, keyspace: &str) -> io::Result<()> {
        if self.keyspace.as_deref() == Some(keyspace) {
            return Ok(());
        }
        let statement = format!("USE \"{}\"", keyspace.replace('"', "\"\""));
        let query = Query { statement, params: QueryParams::new(Consistency::One) };
        match self.call(Request::Query(query))? {
            Response::Result(ResultBody::SetKeyspace(_)) => Ok(()),
            said => Err(refused("USE failed", &said)),
        }
    }

    /// Sends a request and waits for its answer.
    pub(super) fn call(&mut self, request: Request) -> io::Result<Response> {
        let said = self.exchange(request)?;
        if let Response::Result(ResultBody::SetKeyspace(keyspace)) = &said {
            self.keyspace = Some(keyspace.clone());
        }
        Ok(said)
    }

    fn exchange(&mut self, request: Request) -> io::Result<Response> {
        let message = Message { tracing: false, payload: None, request };
        self.encoder.push_request(0, &message).map_err(io::Error::other)?;
        self.stream.write_all(&self.encoder.take())?;
        let mut bytes = vec![0; READ_BYTES];
        loop {
            let envelope = self.decoder.next_envelope().map_err(io::Error::other)?;
            if let Some(envelope) = envelope {
                let message = response::Message::decode(envelope).map_err(io::Error::other)?;
                return Ok(message.response);
            }
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.decoder.feed(bytes.get(..count).unwrap_or_default()),
            }
        }
    }
}
