//! OPTIONS, STARTUP and REGISTER: what concerns the connection itself.
//!
//! ```text
//! connection := OPTIONS* STARTUP login?
//!               (OPTIONS | REGISTER | QUERY | PREPARE | EXECUTE | BATCH | AUTH_RESPONSE)*
//! login      := AUTH_RESPONSE+                                    the last one is answered with AUTH_SUCCESS
//! ```
//!
//! Where everybody is let in (AllowAllAuthenticator) STARTUP is answered with READY, else with AUTHENTICATE,
//! and nothing but AUTH_RESPONSE may follow until one is right. Where the client's certificate is its login,
//! STARTUP is answered with READY once that is judged ([`Arrival`]). A STARTUP that is refused leaves the
//! connection where it was. Anything out of order is a protocol error, up to STARTUP on stream 0.

use std::sync::Arc;

use protocol::request::Startup;
use protocol::response::error::ErrorResponse;
use protocol::response::{Authenticate, Response, Supported};
use protocol::{Decoder, Extras, Opcode, ProtocolVersion};

use super::connection::{ClientInfo, Connection, Reply};
use super::{Arrival, Entrance, NetOptions};

/// The version of CQL that is spoken, as Cassandra 5.0 counts.
pub(crate) const CQL_VERSION: &str = "3.4.7";

/// Bytes of the longest envelope before a client is let in: OPTIONS has none, STARTUP a few settings, and
/// AUTH_RESPONSE a name and a password.
pub(super) const FIRST_FRAME_BYTES_MAX: usize = 64 << 10;

/// The answer to a request that may not come at this point.
pub(super) fn refusal(connection: &Connection, opcode: Opcode) -> Option<ErrorResponse> {
    if connection.info().is_some() && !connection.is_admitted() {
        let message = || format!("Unexpected message {}, expecting SASL_RESPONSE", opcode.name());
        return (opcode != Opcode::AuthResponse).then(|| ErrorResponse::protocol(message()));
    }
    let message = match (connection.info().is_some(), opcode) {
        (_, Opcode::Options) | (false, Opcode::Startup) => return None,
        (false, other) => format!("Unexpected message {}, expecting STARTUP or OPTIONS", other.name()),
        (true, Opcode::Startup) => {
            "Unexpected message STARTUP, the connection is already initialized".to_owned()
        }
        (true, _) => return None,
    };
    Some(ErrorResponse::protocol(message))
}

/// The answer to OPTIONS. The draft version is listed because Cassandra lists it; asking for it is refused.
pub(super) fn supported() -> Response {
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let options = vec![
        ("PROTOCOL_VERSIONS".to_owned(), list(&["3/v3", "4/v4", "5/v5", "6/v6-beta"])),
        ("COMPRESSION".to_owned(), list(&["snappy", "lz4"])),
        ("CQL_VERSION".to_owned(), list(&[CQL_VERSION])),
    ];
    Response::Supported(Supported { options })
}

/// Begins the session: the answer is the last envelope in the old framing. Where a certificate has to be
/// judged before, the obligation to do so comes back.
pub(super) fn startup(
    connection: &Arc<Connection>,
    (decoder, options): (&mut Decoder, &NetOptions),
    entrance: Entrance,
    version: ProtocolVersion,
    startup: Startup,
    reply: Reply,
) -> Option<Arrival> {
    let judged = startup.check_cql_version().and_then(|()| startup.compression(version));
    let compression = match judged {
        Ok(compression) => compression,
        Err(error) => {
            reply.send_error(error, &Extras::default());
            return None;
        }
    };
    let throws_on_overload = startup.throw_on_overload();
    let info = ClientInfo { version, compression, settings: startup.settings, throws_on_overload };
    match entrance {
        Entrance::Open => {
            reply.send(&Response::Ready, &Extras::default());
            options.let_in(decoder);
        }
        Entrance::Asked(class) => {
            let asked = Authenticate { authenticator: class.to_owned() };
            reply.send(&Response::Authenticate(asked), &Extras::default());
        }
        Entrance::Certificate => return Some(Arrival::new(connection, info, reply)),
    }
    decoder.negotiate(version, compression);
    connection.begin_session(info);
    if entrance == Entrance::Open {
        connection.admit_anybody();
    }
    None
}
