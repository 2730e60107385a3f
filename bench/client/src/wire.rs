//! The bytes of a connection, plain or through TLS.
//!
//! The socket may be blocking or not. [`Wire::write`] and [`Wire::read`] do what the socket allows, and say
//! `WouldBlock` when that is nothing.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustls::ClientConnection;

/// A socket, and the TLS session on it.
#[derive(Debug)]
pub struct Wire {
    socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Wire {
    /// A connected socket; a TLS session does its handshake here, for which the socket has to block.
    pub fn new(mut socket: TcpStream, tls: Option<ClientConnection>) -> io::Result<Self> {
        let mut tls = tls.map(Box::new);
        if let Some(session) = &mut tls {
            while session.is_handshaking() {
                session.complete_io(&mut socket)?;
            }
        }
        Ok(Self { socket, tls })
    }

    /// The socket, to wait for.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Takes some of `bytes`. A TLS session takes all of them, and [`Wire::flush`] sends what it keeps.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write(bytes),
            Some(session) => session.writer().write(bytes),
        }
    }

    /// Sends what a TLS session has taken.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(session) = &mut self.tls else { return Ok(()) };
        while session.wants_write() {
            session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Reads from the socket once, and gives all that is readable then to `feed`, through `scratch`. Returns
    /// how much that was: none is no end where TLS has only part of a record.
    pub fn read(&mut self, scratch: &mut [u8], mut feed: impl FnMut(&[u8])) -> io::Result<usize> {
        let Some(session) = &mut self.tls else {
            let length = self.socket.read(scratch)?;
            feed(scratch.get(..length).unwrap_or_default());
            return if length == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(length) };
        };
        if session.read_tls(&mut self.socket)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        session.process_new_packets().map_err(io::Error::other)?;
        let mut total = 0;
        loop {
            match session.reader().read(scratch) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    feed(scratch.get(..length).unwrap_or_default());
                    total += length;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(total),
                Err(error) => return Err(error),
            }
        }
    }
}
