//! A client that has sent STARTUP, while its certificate is judged.
//!
//! Nothing of its connection is read meanwhile: whether the next bytes are in the new framing is not known
//! before. The connection's task goes on when the arrival is over, however that came.

use std::sync::Arc;

use protocol::Extras;
use protocol::response::Response;
use protocol::response::error::ErrorResponse;

use super::connection::{ClientInfo, Connection, Reply};
use crate::auth::Principal;

/// The obligation to let a client in, or to say why not.
#[derive(Debug)]
pub struct Arrival {
    connection: Arc<Connection>,
    /// Both until it is decided.
    pending: Option<(ClientInfo, Reply)>,
}

impl Arrival {
    pub(super) fn new(connection: &Arc<Connection>, info: ClientInfo, reply: Reply) -> Arrival {
        connection.hold_up(true);
        Arrival { connection: Arc::clone(connection), pending: Some((info, reply)) }
    }

    /// The client's connection.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Begins the session of this role.
    pub(crate) fn admit(mut self, principal: Arc<Principal>) {
        if let Some((info, reply)) = self.pending.take() {
            // The last envelope in the old framing.
            reply.send(&Response::Ready, &Extras::default());
            self.connection.begin_session(info);
            self.connection.admit_as(principal);
        }
    }

    /// Leaves the connection where it was before STARTUP.
    pub fn refuse(mut self, error: ErrorResponse) {
        if let Some((_, reply)) = self.pending.take() {
            reply.send_error(error, &Extras::default());
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        // A reply without an answer answers by itself.
        self.pending = None;
        self.connection.hold_up(false);
        self.connection.wake();
    }
}
