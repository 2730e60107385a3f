//! A server that does nothing as fast as it can: it finds out what the client itself costs.
//!
//! OPTIONS is answered by SUPPORTED, PREPARE by an id, QUERY and EXECUTE by VOID. Each connection has a
//! thread.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use bytes::Bytes;
use protocol::decoder::DEFAULT_ENVELOPE_BYTES_MAX;
use protocol::response::prepared::Prepared;
use protocol::response::{ResultBody, Supported};
use protocol::{Decoder, Encoder, Extras, Opcode, Response};

use crate::error::Error;

const ID: Bytes = Bytes::from_static(b"0123456789abcdef");

/// Serves until the process ends.
pub fn serve(address: SocketAddr) -> Result<(), Error> {
    let failed = |source| Error::Connection { address: address.to_string(), source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    println!("listening for CQL on {address}");
    for socket in listener.incoming() {
        let socket = socket.map_err(failed)?;
        std::thread::spawn(move || {
            // As the client's threads and a node's do.
            let _ = env::thread::ask_for_short_slices();
            if let Err(error) = answer_all(socket) {
                eprintln!("null server: {error}");
            }
        });
    }
    Ok(())
}

fn answer_all(mut socket: TcpStream) -> Result<(), Error> {
    let failed = |source| Error::Connection { address: "a client".to_owned(), source };
    let broken = |error: &dyn std::error::Error| Error::Protocol(error.to_string());
    socket.set_nodelay(true).map_err(failed)?;
    let mut decoder = Decoder::new(DEFAULT_ENVELOPE_BYTES_MAX);
    let mut encoder = Encoder::new();
    let mut scratch = vec![0; 64 << 10];
    loop {
        let length = socket.read(&mut scratch).map_err(failed)?;
        if length == 0 {
            return Ok(());
        }
        decoder.feed(scratch.get(..length).unwrap_or_default());
        while let Some(envelope) = decoder.next_envelope().map_err(|error| broken(&error))? {
            let response = match envelope.opcode {
                Opcode::Startup => Response::Ready,
                Opcode::Options => Response::Supported(Supported { options: Vec::new() }),
                Opcode::Prepare => Response::Result(ResultBody::Prepared(Prepared {
                    id: ID,
                    result_metadata_id: ID,
                    bind: Vec::new(),
                    partition_key_indexes: Vec::new(),
                    result: Vec::new(),
                })),
                _ => Response::Result(ResultBody::Void),
            };
            encoder.set_version(envelope.version);
            let pushed = encoder.push(envelope.stream, &response, &Extras::default());
            pushed.map_err(|error| broken(&error))?;
            if envelope.opcode == Opcode::Startup {
                decoder.negotiate(envelope.version, None);
                encoder.negotiate(envelope.version, None);
            }
        }
        socket.write_all(&encoder.take()).map_err(failed)?;
    }
}
