//! How fast a client sends and takes what it has begun to: whoever is too slow does not keep a connection for
//! ever.
//!
//! 1. A TLS handshake has to be done within a time. A session has to have begun, and a login to have
//!    succeeded, within another, whatever was sent meanwhile.
//! 2. A request that has begun to come has to be there within a time, or to have gone on meanwhile by as much
//!    as that time is worth: it may not go on for ever at a byte a second. Bytes that the node does not read,
//!    because something has no room, are not waited for.
//! 3. A client for which answers wait has to take a little each second, while others wait for the memory that
//!    they take.
//!
//! Nothing of that concerns connections that are idle.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Connection, NetOptions};

/// Bytes each second by which a long request has to go on.
const RECEIVED_BYTES_PER_S: u64 = 16 << 10;
/// Bytes that a client takes each second of answers that are in the way.
const TAKEN_BYTES_PER_S: u64 = 64 << 10;
/// Seconds for which it may take fewer.
const TAKEN_SLOWLY_S_MAX: u32 = 2;

/// What is seen of a connection's pace, looked at once a second.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Bytes here of a request of which more is waited for; 0 when there is none.
    partial_bytes: AtomicU64,
    taken_bytes: AtomicU64,
    /// Seconds since the connection was accepted, and for which answers were taken slowly.
    age_s: AtomicU32,
    slow_s: AtomicU32,
    /// Seconds for which a TLS handshake has gone on.
    handshake_s: AtomicU32,
    /// Seconds since the request began or was looked at, and its bytes at that time.
    partial_s: AtomicU32,
    partial_bytes_before: AtomicU64,
    /// Requests that had come before the one that has begun.
    requests: AtomicU64,
}

impl Pace {
    /// Notes that `bytes` of a request are here and more is waited for, or that nothing is (0).
    pub(super) fn note_partial(&self, bytes: u64) {
        if self.partial_bytes.load(Ordering::Relaxed) != bytes {
            self.partial_bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Notes that the client took bytes.
    pub(super) fn note_taken(&self, bytes: u64) {
        self.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Called once a second: what the client is too slow with.
pub(super) fn too_slow(connection: &Connection, options: &NetOptions) -> Option<&'static str> {
    let pace = &connection.pace;
    let age_s = pace.age_s.fetch_add(1, Ordering::Relaxed);
    if !connection.is_admitted() && options.startup_timeout_s > 0 && age_s >= options.startup_timeout_s {
        return Some("it began no session");
    }
    if connection.is_shaking_hands.load(Ordering::Relaxed)
        && options.tls_handshake_timeout_s > 0
        && pace.handshake_s.fetch_add(1, Ordering::Relaxed) >= options.tls_handshake_timeout_s
    {
        return Some("it did not complete its TLS handshake");
    }
    let partial = pace.partial_bytes.load(Ordering::Relaxed);
    let requests = connection.requests();
    if partial == 0 || pace.requests.swap(requests, Ordering::Relaxed) != requests {
        pace.partial_s.store(0, Ordering::Relaxed);
        pace.partial_bytes_before.store(0, Ordering::Relaxed);
    } else if options.receive_timeout_s > 0
        && pace.partial_s.fetch_add(1, Ordering::Relaxed) >= options.receive_timeout_s
    {
        let before = pace.partial_bytes_before.swap(partial, Ordering::Relaxed);
        if partial.saturating_sub(before) < RECEIVED_BYTES_PER_S * u64::from(options.receive_timeout_s) {
            return Some("it did not send the rest of a request");
        }
        pace.partial_s.store(0, Ordering::Relaxed);
    }
    let taken = pace.taken_bytes.swap(0, Ordering::Relaxed);
    if taken >= TAKEN_BYTES_PER_S || !connection.is_in_the_way() {
        pace.slow_s.store(0, Ordering::Relaxed);
    } else if pace.slow_s.fetch_add(1, Ordering::Relaxed) >= TAKEN_SLOWLY_S_MAX {
        return Some("it does not read its answers, and others wait for the memory that they take");
    }
    None
}
