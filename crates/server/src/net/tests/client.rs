//! A client for tests: writes requests, reads responses, one stream of bytes at a time.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

use std::net::SocketAddr;
use std::time::Duration;

use protocol::request::{Message, Request, Startup};
use protocol::response::{self, Authenticate, Response};
use protocol::{Compression, Decoder, Encoder, ProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The most that a response may have.
const RESPONSE_BYTES_MAX: usize = 512 << 20;

pub(crate) struct Client {
    stream: TcpStream,
    encoder: Encoder,
    decoder: Decoder,
    version: ProtocolVersion,
    next_stream: i16,
}

impl Client {
    /// Connects without beginning a session.
    pub(crate) async fn connect(address: SocketAddr, version: ProtocolVersion) -> Client {
        let mut encoder = Encoder::of_requests();
        encoder.set_version(version);
        Client {
            stream: TcpStream::connect(address).await.expect("the server accepts"),
            encoder,
            decoder: Decoder::of_responses(RESPONSE_BYTES_MAX),
            version,
            next_stream: 100,
        }
    }

    /// Connects and begins a session.
    pub(crate) async fn start(
        address: SocketAddr,
        version: ProtocolVersion,
        compression: Option<Compression>,
    ) -> Client {
        let mut client = Client::connect(address, version).await;
        client.startup(compression, &[]).await;
        client
    }

    pub(crate) fn startup_request(compression: Option<Compression>, more: &[(&str, &str)]) -> Request {
        let mut settings = vec![("CQL_VERSION".to_owned(), "3.0.0".to_owned())];
        settings.extend(compression.map(|c| ("COMPRESSION".to_owned(), c.name().to_owned())));
        settings.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Request::Startup(Startup { settings })
    }

    /// Begins a session in which the server asks who the client is.
    pub(crate) async fn startup_asked(&mut self, compression: Option<Compression>, authenticator: &str) {
        let asked = Authenticate { authenticator: authenticator.to_owned() };
        assert_eq!(self.call(Self::startup_request(compression, &[])).await, Response::Authenticate(asked));
        self.encoder.negotiate(self.version, compression);
        self.decoder.negotiate(self.version, compression);
    }

    pub(crate) async fn startup(&mut self, compression: Option<Compression>, more: &[(&str, &str)]) {
        assert_eq!(self.call(Self::startup_request(compression, more)).await, Response::Ready);
        self.encoder.negotiate(self.version, compression);
        self.decoder.negotiate(self.version, compression);
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the server reads");
    }

    /// Sends requests in one piece.
    pub(crate) async fn send(&mut self, requests: &[(i16, Request)]) {
        let bytes = self.encode(requests);
        self.write(&bytes).await;
    }

    /// The bytes of requests.
    pub(crate) fn encode(&mut self, requests: &[(i16, Request)]) -> Vec<u8> {
        for (stream, request) in requests {
            let message = Message { tracing: false, payload: None, request: request.clone() };
            self.encoder.push_request(*stream, &message).expect("it fits");
        }
        self.encoder.take().to_vec()
    }

    /// The next response with all that leads it; `None` when the server closed the connection.
    pub(crate) async fn next(&mut self) -> Option<(i16, response::Message)> {
        loop {
            if let Some(envelope) = self.decoder.next_envelope().expect("well-formed responses") {
                let stream = envelope.stream;
                return Some((stream, response::Message::decode(envelope).expect("a well-formed body")));
            }
            self.decoder.buffer_mut().reserve(1 << 16);
            match self.stream.read_buf(self.decoder.buffer_mut()).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub(crate) async fn receive(&mut self) -> (i16, Response) {
        let (stream, message) = self.next().await.expect("an answer before the end");
        (stream, message.response)
    }

    /// Sends a message and waits for its answer with all that leads it.
    pub(crate) async fn exchange(&mut self, message: Message) -> response::Message {
        self.next_stream += 1;
        let stream = self.next_stream;
        self.encoder.push_request(stream, &message).expect("it fits");
        let bytes = self.encoder.take();
        self.write(&bytes).await;
        let (answered, answer) = self.next().await.expect("an answer");
        assert_eq!(answered, stream);
        answer
    }

    pub(crate) async fn call(&mut self, request: Request) -> Response {
        self.exchange(Message { tracing: false, payload: None, request }).await.response
    }

    /// Whether the server closes the connection without another word.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.next().await.is_none()
    }

    /// Whether nothing comes for a moment.
    pub(crate) async fn hears_nothing(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(100), self.next()).await.is_err()
    }
}
