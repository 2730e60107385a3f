//! Why a run cannot begin or go on. An ERROR that answers a measured operation is no such reason: it is
//! counted.

use std::io;

use protocol::response::error::ErrorResponse;
use thiserror::Error;

/// The end of a run.
#[derive(Debug, Error)]
pub enum Error {
    /// The server cannot be reached, or went away.
    #[error("the connection to {address}: {source}")]
    Connection {
        /// Where the server should be.
        address: String,
        /// What the socket said.
        source: io::Error,
    },
    /// The server sent bytes that are not the native protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The server refused a statement that had to succeed.
    #[error("{statement}: {error}")]
    Refused {
        /// What was asked.
        statement: String,
        /// The answer.
        error: ErrorResponse,
    },
    /// An answer does not hold the rows that were loaded.
    #[error("a wrong answer: {0}")]
    WrongAnswer(String),
    /// Nothing arrived for a long time though operations were in flight.
    #[error("no answer for {seconds} s with {in_flight} operations in flight")]
    Stalled {
        /// How long nothing arrived.
        seconds: u64,
        /// Operations without an answer.
        in_flight: usize,
    },
    /// /proc does not tell about a process.
    #[error("{path}: {source}")]
    Proc {
        /// The file.
        path: String,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// The workload is not known, or its parameters make no sense.
    #[error("{0}")]
    Usage(String),
}
