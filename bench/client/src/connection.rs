//! One connection to a server: blocking while it is set up, nonblocking while it is measured.
//!
//! 1. [`Connection::open`] connects and starts the session, through TLS and with a login if the [`Door`] says
//!    so.
//! 2. [`Connection::call`] asks one thing and waits for the answer: schema, PREPARE.
//! 3. [`Connection::begin_load`] switches to nonblocking. From here on [`Connection::queue`] collects
//!    requests, [`Connection::flush`] writes what the socket takes, [`Connection::receive`] reads once, and
//!    [`Connection::next_answer`] takes out what has arrived whole.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Buf, Bytes};
use protocol::request::{self, AuthResponse, Prepare, QueryParams, Request, Startup};
use protocol::response::prepared::Prepared;
use protocol::response::{Message, Response, ResultBody};
use protocol::{Consistency, Decoder, Encoder, Envelope, ProtocolVersion};
use rustix::net::{AddressFamily, SocketType};

use crate::door::Door;
use crate::error::Error;
use crate::wire::Wire;

/// Answers over this are refused.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Patience with schema changes and other calls.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A session with a server.
#[derive(Debug)]
pub struct Connection {
    wire: Wire,
    address: SocketAddr,
    encoder: Encoder,
    decoder: Decoder,
    unsent: Bytes,
}

/// A request without tracing or payload.
pub fn message(request: Request) -> request::Message {
    request::Message { tracing: false, payload: None, request }
}

impl Connection {
    /// Connects and begins a session, uncompressed.
    pub fn open(address: SocketAddr, version: ProtocolVersion, door: &Door) -> Result<Self, Error> {
        let socket = TcpStream::connect(address);
        Self::begin(address, socket, version, door)
    }

    /// The same, from an address of this machine.
    pub fn open_from(
        source: SocketAddr,
        address: SocketAddr,
        version: ProtocolVersion,
        door: &Door,
    ) -> Result<Self, Error> {
        let socket = || {
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
            rustix::net::bind(&socket, &source)?;
            rustix::net::connect(&socket, &address)?;
            Ok(TcpStream::from(socket))
        };
        Self::begin(address, socket(), version, door)
    }

    fn begin(
        address: SocketAddr,
        socket: io::Result<TcpStream>,
        version: ProtocolVersion,
        door: &Door,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Connection { address: address.to_string(), source };
        let socket = socket.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(CALL_TIMEOUT)).map_err(failed)?;
        let wire = Wire::new(socket, door.tls(address.ip())?).map_err(failed)?;
        let mut encoder = Encoder::of_requests();
        encoder.set_version(version);
        let decoder = Decoder::of_responses(ANSWER_BYTES_MAX);
        let mut connection = Self { wire, address, encoder, decoder, unsent: Bytes::new() };
        let settings = [("CQL_VERSION", "3.0.0"), ("DRIVER_NAME", "ilion-bench")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let wants_login = match connection.call(Request::Startup(Startup { settings }))? {
            Response::Ready => false,
            Response::Authenticate(_) => true,
            Response::Error(error) => return Err(Error::Refused { statement: "STARTUP".to_owned(), error }),
            other => return Err(Error::Protocol(format!("{:?} answers STARTUP", other.opcode()))),
        };
        connection.decoder.negotiate(version, None);
        connection.encoder.negotiate(version, None);
        if wants_login {
            connection.log_in(door)?;
        }
        Ok(connection)
    }

    fn log_in(&mut self, door: &Door) -> Result<(), Error> {
        let Some(token) = door.token() else {
            return Err(Error::Usage("the server wants a login: --user and --password".to_owned()));
        };
        match self.call(Request::AuthResponse(AuthResponse { token: Some(token.into()) }))? {
            Response::AuthSuccess(_) => Ok(()),
            Response::Error(error) => Err(Error::Refused { statement: "AUTH_RESPONSE".to_owned(), error }),
            other => Err(Error::Protocol(format!("{:?} answers AUTH_RESPONSE", other.opcode()))),
        }
    }

    /// The socket, to wait for.
    pub fn socket(&self) -> &TcpStream {
        self.wire.socket()
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Connection { address: self.address.to_string(), source }
    }

    /// Sends one request and waits for its answer.
    pub fn call(&mut self, request: Request) -> Result<Response, Error> {
        self.queue(0, &message(request))?;
        while !self.flush()? {}
        let mut scratch = [0; 4096];
        loop {
            if let Some(envelope) = self.next_answer()? {
                let message =
                    Message::decode(envelope).map_err(|error| Error::Protocol(error.to_string()))?;
                return Ok(message.response);
            }
            self.receive(&mut scratch)?;
        }
    }

    /// Runs a statement that has to succeed.
    pub fn query(&mut self, statement: &str) -> Result<ResultBody, Error> {
        let params = QueryParams::new(Consistency::One);
        let request = Request::Query(request::Query { statement: statement.to_owned(), params });
        self.result_of(statement, request)
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, statement: &str) -> Result<Prepared, Error> {
        let request = Request::Prepare(Prepare { statement: statement.to_owned(), keyspace: None });
        match self.result_of(statement, request)? {
            ResultBody::Prepared(prepared) => Ok(prepared),
            other => Err(Error::Protocol(format!("{other:?} answers PREPARE"))),
        }
    }

    fn result_of(&mut self, statement: &str, request: Request) -> Result<ResultBody, Error> {
        match self.call(request)? {
            Response::Result(body) => Ok(body),
            Response::Error(error) => Err(Error::Refused { statement: statement.to_owned(), error }),
            other => Err(Error::Protocol(format!("{:?} answers a statement", other.opcode()))),
        }
    }

    /// From here on nothing waits.
    pub fn begin_load(&mut self) -> Result<(), Error> {
        self.wire.socket().set_nonblocking(true).map_err(|source| self.failed(source))
    }

    /// Adds a request to what [`Connection::flush`] will send.
    pub fn queue(&mut self, stream: i16, message: &request::Message) -> Result<(), Error> {
        self.encoder.push_request(stream, message).map_err(|error| Error::Protocol(error.to_string()))
    }

    /// Writes what the socket takes; false if something is left.
    pub fn flush(&mut self) -> Result<bool, Error> {
        match self.write_all() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn write_all(&mut self) -> io::Result<()> {
        loop {
            if self.unsent.is_empty() && self.encoder.pending_bytes() > 0 {
                self.unsent = self.encoder.take();
            }
            let written = match self.unsent.is_empty() {
                true => self.wire.flush().map(|()| 0),
                false => self.wire.write(&self.unsent),
            };
            match written {
                Ok(0) => return Ok(()),
                Ok(written) => self.unsent.advance(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads once, through `scratch`; false if nothing was there.
    pub fn receive(&mut self, scratch: &mut [u8]) -> Result<bool, Error> {
        let Self { wire, decoder, .. } = self;
        match wire.read(scratch, |bytes| decoder.feed(bytes)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The next answer that has arrived whole.
    pub fn next_answer(&mut self) -> Result<Option<Envelope>, Error> {
        self.decoder.next_envelope().map_err(|error| Error::Protocol(error.to_string()))
    }
}
