//! What operators look at and change while the node runs: timeouts, traces, the log, pools, clients.

use super::Percentiles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A timeout of requests: an item of `GET /timeouts`, and body of `PUT /timeouts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeout {
    /// nodetool's word: `read`, `range`, `write`, `counterwrite`, `cascontention`, `truncate` or `misc`.
    pub kind: String,
    /// Milliseconds.
    pub millis: u64,
}

/// Answer of `GET /trace_probability`, and body of `PUT`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceProbability {
    /// The share of requests that is traced without being asked to, 0 to 1.
    pub probability: f64,
}

/// The level of a part of the program: an item of `GET /logging`, and body of `PUT /logging`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLevel {
    /// A part, as `engine::background`, or `ROOT`.
    pub part: String,
    /// TRACE, DEBUG, INFO, WARN, ERROR or OFF.
    pub level: String,
}

/// A pool of threads: an item of `/pools`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Cassandra's name.
    pub name: String,
    /// Tasks at work.
    pub active: u64,
    /// Tasks that may be at work at once.
    pub active_max: u64,
    /// Tasks that wait.
    pub pending: u64,
    /// Tasks that are done.
    pub completed: u64,
}

/// Answer of `/latencies`: how long whole requests take, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestLatencies {
    /// Reads of partitions by key.
    pub read: Percentiles,
    /// Writes.
    pub write: Percentiles,
    /// Reads of ranges.
    pub range: Percentiles,
}

/// A connection of a client: an item of `/clients`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientConnection {
    /// Address and port.
    pub address: String,
    /// Version of the native protocol; none before a session has begun.
    pub protocol_version: Option<u8>,
    /// Who it is.
    pub user: String,
    /// The keyspace in use.
    pub keyspace: Option<String>,
    /// Requests so far.
    pub requests: u64,
    /// Version of TLS, in Java's words; none without TLS.
    #[serde(default)]
    pub tls_protocol: Option<String>,
    /// Cipher suite of TLS, in Java's words; none without TLS.
    #[serde(default)]
    pub tls_cipher_suite: Option<String>,
    /// What it said of itself in STARTUP.
    pub options: BTreeMap<String, String>,
}
