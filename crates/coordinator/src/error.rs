//! Why a request failed, in the terms of the native protocol's errors.

use crate::replica::ReplicaError;
use model::command::Consistency;

/// What a write was part of, as timeouts and failures report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteType {
    /// A write of one statement.
    Simple,
    /// A logged batch.
    Batch,
    /// An unlogged batch.
    UnloggedBatch,
    /// A counter update.
    Counter,
    /// The log of a batch.
    BatchLog,
    /// A conditional write.
    Cas,
}

impl WriteType {
    /// The protocol's word.
    pub fn name(self) -> &'static str {
        match self {
            WriteType::Simple => "SIMPLE",
            WriteType::Batch => "BATCH",
            WriteType::UnloggedBatch => "UNLOGGED_BATCH",
            WriteType::Counter => "COUNTER",
            WriteType::BatchLog => "BATCH_LOG",
            WriteType::Cas => "CAS",
        }
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// Too few replicas are alive to even try.
    #[error("Cannot achieve consistency level {}", consistency.name())]
    Unavailable {
        /// What was asked for.
        consistency: Consistency,
        /// Replicas that would have to answer.
        required: u32,
        /// Replicas that are alive.
        alive: u32,
    },
    /// A read failed on replicas that were alive.
    #[error("Operation failed - received {received} responses and {failures} failures: {cause}")]
    ReadFailure {
        /// What was asked for.
        consistency: Consistency,
        /// Replicas that answered.
        received: u32,
        /// Replicas that had to.
        block_for: u32,
        /// Replicas that failed.
        failures: u32,
        /// The first failure.
        cause: ReplicaError,
    },
    /// A write failed on replicas that were alive.
    #[error("Operation failed - received {received} responses and {failures} failures: {cause}")]
    WriteFailure {
        /// What was asked for.
        consistency: Consistency,
        /// Replicas that acknowledged.
        received: u32,
        /// Replicas that had to.
        block_for: u32,
        /// Replicas that failed.
        failures: u32,
        /// What the write was part of.
        write_type: WriteType,
        /// The first failure.
        cause: ReplicaError,
    },
    /// A replica is full; nothing was written there.
    #[error("{0}")]
    Overloaded(String),
    /// The request cannot be, whatever the replicas say.
    #[error("{0}")]
    Invalid(String),
    /// The table could not be emptied.
    #[error("Error during truncate: {0}")]
    Truncate(ReplicaError),
    /// The node has no table that it needs, or data of its own that it cannot read.
    #[error("{0}")]
    Internal(String),
}
