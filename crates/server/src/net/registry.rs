//! The connections that are open: for events, for `system_views.clients`, and for timeouts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use protocol::response::Event;
use protocol::response::event::EventKind;

use super::{Connection, NetOptions, pace};
use crate::metrics::Counter;

/// Seconds between two warnings of handshakes that failed.
const TLS_WARNING_INTERVAL_S: i64 = 60;

/// What came and went over all connections since the start.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections that a limit turned away.
    pub refused: Counter,
    /// Requests beyond those that the node takes in a second: refused, or those behind them held up.
    pub rate_limited: Counter,
    /// Connections that were closed because the client sent or took something too slowly.
    pub too_slow: Counter,
    /// TLS handshakes that were completed.
    pub tls_handshakes: Counter,
    /// Those of them that went on with an earlier session.
    pub tls_resumed: Counter,
    /// TLS handshakes that failed.
    pub tls_failures: Counter,
    /// Bytes read from clients.
    pub received_bytes: Counter,
    /// Bytes written to clients.
    pub sent_bytes: Counter,
}

/// Every open connection.
#[derive(Debug, Default)]
pub struct Registry {
    /// Totals of all connections, closed ones included.
    pub traffic: Traffic,
    /// When the log was told of a TLS handshake that failed, in seconds since 1970.
    tls_warned_s: AtomicI64,
    last_id: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
}

impl Registry {
    /// No connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a TLS handshake that failed. At most once a minute the log says why.
    pub(crate) fn note_tls_failure(&self, peer: SocketAddr, reason: &str, now_s: i64) {
        self.traffic.tls_failures.add(1);
        let warned_s = self.tls_warned_s.load(Ordering::Relaxed);
        if now_s - warned_s < TLS_WARNING_INTERVAL_S
            || self
                .tls_warned_s
                .compare_exchange(warned_s, now_s, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return tracing::debug!(%peer, reason, "a TLS handshake failed");
        }
        let failures = self.traffic.tls_failures.get();
        tracing::warn!(%peer, reason, failures, "a TLS handshake failed; the next warning comes after a minute");
    }

    /// The open connections, oldest first.
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        self.open.lock().values().cloned().collect()
    }

    /// The number of open connections.
    pub fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests that wait for their answer.
    pub fn requests_in_flight(&self) -> usize {
        self.open.lock().values().map(|connection| connection.in_flight.load(Ordering::Relaxed)).sum()
    }

    /// Tells every client that registered for it.
    pub fn broadcast(&self, event: &Event) {
        for connection in self.connections() {
            connection.notify(event);
        }
    }

    /// Whether a client registered for events of a kind.
    pub fn is_anyone_told(&self, kind: EventKind) -> bool {
        self.open.lock().values().any(|connection| connection.is_told(kind))
    }

    pub(super) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn insert(&self, connection: &Arc<Connection>) {
        self.open.lock().insert(connection.id, Arc::clone(connection));
    }

    pub(super) fn remove(&self, connection: &Connection) {
        self.open.lock().remove(&connection.id);
    }

    /// Called once a second: closes what has been silent, stalled or slow for too long.
    pub(super) fn sweep(&self, options: &NetOptions) {
        let over = |seconds: u32, max: u32| max > 0 && seconds >= max;
        for connection in self.connections() {
            let quiet_s = connection.quiet_s.fetch_add(1, Ordering::Relaxed);
            let is_idle = connection.in_flight.load(Ordering::Acquire) == 0
                && connection.outgoing_bytes() == 0
                && over(quiet_s, options.idle_timeout_s);
            let is_stalled = connection.outgoing_bytes() > 0
                && over(
                    connection.stalled_s.fetch_add(1, Ordering::Relaxed),
                    options.stalled_write_timeout_s,
                );
            let too_slow = pace::too_slow(&connection, options);
            if let Some(reason) = too_slow {
                tracing::info!(peer = %connection.peer, reason, "closing the connection of a client that is too slow");
                self.traffic.too_slow.add(1);
            }
            if is_idle || is_stalled || too_slow.is_some() {
                tracing::debug!(peer = %connection.peer, quiet_s, is_stalled, "closing a connection");
                connection.kill();
            }
        }
    }
}
