//! Bytes of requests that have not come whole.
//!
//! Each connection may keep a little; what is more counts against budgets of its address and of the node.
//! While those have no room the connection is not read, but for one at a time that goes on regardless until
//! its request is whole: others may each have a part that is of no use without the rest. The one that goes on
//! has to keep up its pace ([`super::pace`]), like all that are read.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::Connection;

/// Bytes that a connection keeps of its own: about what it reads at once.
const OWN_BYTES: u64 = 32 << 10;

/// What one connection holds of them, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Incoming {
    connection: Arc<Connection>,
    bytes: u64,
    /// With the requests that had come before.
    pass: Option<(OwnedSemaphorePermit, u64)>,
}

impl Incoming {
    pub(super) fn new(connection: &Arc<Connection>) -> Incoming {
        Incoming { connection: Arc::clone(connection), bytes: 0, pass: None }
    }

    /// Has it hold `bytes`, if there is room for them or `is_forced`.
    pub(super) fn hold(&mut self, bytes: u64, is_forced: bool) -> bool {
        let bytes = if bytes <= OWN_BYTES { 0 } else { bytes };
        self.pass = self.pass.take().filter(|(_, requests)| *requests == self.connection.requests());
        if bytes == self.bytes {
            return true;
        }
        let [address, node] = self.connection.shared_budgets().map(|budgets| &budgets.incoming);
        match bytes.checked_sub(self.bytes) {
            None => [address, node].iter().for_each(|budget| budget.give_back(self.bytes - bytes)),
            Some(more) if is_forced || self.pass.is_some() => {
                [address, node].iter().for_each(|budget| budget.take(more));
            }
            Some(more) => {
                if !address.try_take_more(self.bytes, more) {
                    return false;
                }
                if !node.try_take_more(self.bytes, more) {
                    address.undo(more);
                    return false;
                }
            }
        }
        self.bytes = bytes;
        true
    }

    /// Lets it go on without room until the request is whole.
    pub(super) fn let_pass(&mut self, pass: OwnedSemaphorePermit) {
        self.pass = Some((pass, self.connection.requests()));
    }
}

/// Waits until others gave bytes back after this call, or until it is the connection's turn to go on without
/// room.
pub(super) fn room(connection: &Connection) -> impl Future<Output = Option<OwnedSemaphorePermit>> + Send {
    let [address, node] = connection.shared_budgets().map(|budgets| budgets.incoming.freed());
    let pass = Arc::clone(&connection.node().incoming_pass).acquire_owned();
    async move {
        tokio::select! {
            () = address => None,
            () = node => None,
            pass = pass => pass.ok(),
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.hold(0, true);
    }
}
