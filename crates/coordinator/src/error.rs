//! Why a request failed, in the terms of the native protocol's errors.

use crate::replica::ReplicaError;
use model::{Consistency, WriteType};
use partition::ReadError;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// Too few replicas are alive to even try.
    #[error("Cannot achieve consistency level {}{}", consistency.name(), in_datacenter(datacenter.as_deref()))]
    Unavailable {
        /// What was asked for.
        consistency: Consistency,
        /// The data center that lacks some, where each has to have enough.
        datacenter: Option<String>,
        /// Replicas that would have to answer.
        required: u32,
        /// Replicas that are alive. None where a data center is named, whatever is alive there: Cassandra
        /// says so, and what drivers do next hangs on it (`ReplicaPlans.assureSufficientLiveReplicas`).
        alive: u32,
    },
    /// No other node of the data center is alive to keep the log of a batch, though there are some
    /// (`ReplicaPlans.forBatchlogWrite`).
    #[error("Cannot achieve consistency level TWO for batchlog in local DC, required:2, available:0")]
    NoBatchKeeper,
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
    /// Replicas did not answer a read in time.
    #[error("Operation timed out - received only {received} responses.")]
    ReadTimeout {
        /// What was asked for.
        consistency: Consistency,
        /// Replicas that answered.
        received: u32,
        /// Replicas that had to.
        block_for: u32,
    },
    /// Replicas did not acknowledge a write in time. They may keep it all the same.
    #[error("Operation timed out - received only {received} responses.")]
    WriteTimeout {
        /// What was asked for.
        consistency: Consistency,
        /// Replicas that acknowledged.
        received: u32,
        /// Replicas that had to.
        block_for: u32,
        /// What the write was part of.
        write_type: WriteType,
    },
    /// A conditional write was not decided in time: others of its partition were before it, for instance.
    #[error(
        "CAS operation timed out: received 0 of {block_for} required responses after 0 contention retries"
    )]
    CasTimeout {
        /// Consistency of the decision.
        consistency: Consistency,
        /// Replicas that had to agree.
        block_for: u32,
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
    /// The request cannot be, whatever the replicas say.
    #[error("{0}")]
    Invalid(String),
    /// The table could not be emptied.
    #[error("Error during truncate: {0}")]
    Truncate(ReplicaError),
    /// The node has no table that it needs, or data of its own that it cannot read.
    #[error("{0}")]
    Internal(String),
    /// A replica has no memory for more writes at the moment.
    #[error("{0}")]
    Overloaded(String),
}

fn in_datacenter(name: Option<&str>) -> String {
    name.map(|name| format!(" in DC {name}")).unwrap_or_default()
}

impl CoordinatorError {
    /// A read that too few replicas answered, `cause` being why the first one did not.
    pub fn of_read(
        consistency: Consistency,
        received: u32,
        block_for: u32,
        failures: u32,
        cause: ReplicaError,
    ) -> CoordinatorError {
        match cause {
            ReplicaError::TimedOut | ReplicaError::Read(ReadError::TimedOut) => {
                // A serial read is told of in terms of the quorum that it takes.
                let consistency = match consistency {
                    Consistency::Serial => Consistency::Quorum,
                    Consistency::LocalSerial => Consistency::LocalQuorum,
                    other => other,
                };
                CoordinatorError::ReadTimeout { consistency, received, block_for }
            }
            cause => CoordinatorError::ReadFailure { consistency, received, block_for, failures, cause },
        }
    }
}
