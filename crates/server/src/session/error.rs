//! From the errors of the layers below to the errors of the native protocol.

use std::net::IpAddr;

use coordinator::{CoordinatorError, ReaderError, ReplicaError};
use cql::error::CqlError;
use cql::parser::SyntaxError;
use model::Consistency;
use protocol::response::error::{ErrorKind, ErrorResponse, FailureReason, Failures};

use super::options;
use crate::absence::{of_absence, progress};
use crate::state::NodeState;

/// A statement that is refused.
pub(super) fn of_cql(error: CqlError) -> ErrorResponse {
    let message = error.to_string();
    let kind = match error {
        CqlError::Syntax(_) => ErrorKind::Syntax,
        CqlError::Unauthorized(_) => ErrorKind::Unauthorized,
        CqlError::Invalid(_) => ErrorKind::Invalid,
        CqlError::Config(_) => ErrorKind::Config,
        CqlError::AlreadyExists { keyspace, table, .. } => ErrorKind::AlreadyExists { keyspace, table },
        CqlError::FunctionFailure { keyspace, function, argument_types, .. } => {
            ErrorKind::FunctionFailure { keyspace, function, argument_types }
        }
        CqlError::Server(_) => return internal(&message),
    };
    ErrorResponse::new(kind, message)
}

/// Text that is not CQL.
pub(super) fn of_syntax(error: SyntaxError) -> ErrorResponse {
    ErrorResponse::new(ErrorKind::Syntax, error.message)
}

/// A fault of the node: logged, because its client can do nothing about it.
pub(super) fn internal(message: &str) -> ErrorResponse {
    tracing::error!(message, "a request failed inside the node");
    ErrorResponse::server(message)
}

/// Work that the pool of readers did not carry out.
pub(super) fn of_readers(error: ReaderError, consistency: Consistency, state: &NodeState) -> ErrorResponse {
    match error {
        ReaderError::TimedOut => {
            let late = CoordinatorError::of_read(consistency, 0, 1, 0, ReplicaError::TimedOut);
            of_coordinator(late, state)
        }
        ReaderError::Overloaded => ErrorResponse::overloaded(error.to_string()),
        ReaderError::Abandoned => internal(&error.to_string()),
    }
}

/// A request that the replicas did not fulfil; `state` is that of the only one.
pub(super) fn of_coordinator(error: CoordinatorError, state: &NodeState) -> ErrorResponse {
    if let Some(answer) = of_absence(&error) {
        return answer;
    }
    let node = state.config.broadcast_rpc_address;
    let message = error.to_string();
    let kind = match error {
        CoordinatorError::ReadFailure { consistency, received, block_for, failures, cause } => {
            tracing::error!(%cause, "a read failed");
            if let ReplicaError::Read(cause) = &cause {
                state.engine.report_read_failure(cause);
            }
            ErrorKind::ReadFailure {
                progress: progress(consistency, received, block_for),
                failures: failed(node, failures, &cause),
                data_present: false,
            }
        }
        CoordinatorError::WriteFailure { consistency, received, block_for, failures, write_type, cause } => {
            tracing::error!(%cause, "a write failed");
            ErrorKind::WriteFailure {
                progress: progress(consistency, received, block_for),
                failures: failed(node, failures, &cause),
                write_type,
            }
        }
        CoordinatorError::Invalid(_) if message == options::PAGING_STATE_REFUSAL => ErrorKind::Protocol,
        CoordinatorError::Invalid(_) => ErrorKind::Invalid,
        CoordinatorError::Truncate(_) => ErrorKind::Truncate,
        _ => return internal(&message),
    };
    ErrorResponse::new(kind, message)
}

/// Replicas that failed: the first one, and others that do not say why.
fn failed(node: IpAddr, count: u32, cause: &ReplicaError) -> Failures {
    let first = match cause {
        ReplicaError::Elsewhere { address, code, .. } => (*address, FailureReason::from_code(*code)),
        _ => (node, FailureReason::Unknown),
    };
    std::iter::once(first)
        .chain(std::iter::repeat((node, FailureReason::Unknown)))
        .take(count as usize)
        .collect()
}
