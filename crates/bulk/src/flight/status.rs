//! Errors as Flight tells of them.

use crate::BulkError;
use datafusion::error::DataFusionError;
use partition::ReadError;
use tonic::Status;

/// What a client is told of an error of a table.
pub(super) fn of_bulk(error: BulkError) -> Status {
    let text = error.to_string();
    match error {
        BulkError::UnknownTable(_) | BulkError::Dropped(_) => Status::not_found(text),
        BulkError::Request(_) | BulkError::Value { .. } => Status::invalid_argument(text),
        BulkError::Denied(_) => Status::permission_denied(text),
        BulkError::Read(ReadError::TimedOut) => Status::deadline_exceeded(text),
        BulkError::Read(_) | BulkError::Open(_) => Status::data_loss(text),
        BulkError::ShutDown | BulkError::Node(_) => Status::unavailable(text),
        BulkError::Stopped | BulkError::Cancelled => Status::cancelled(text),
        BulkError::Directory(_) | BulkError::Arrow(_) | BulkError::Io(_) => Status::internal(text),
    }
}

/// What a client is told of an error of a statement.
pub(super) fn of_plan(error: DataFusionError) -> Status {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<BulkError>() {
            Ok(own) => of_bulk(*own),
            Err(other) => Status::internal(other.to_string()),
        },
        DataFusionError::Context(context, inner) => {
            let status = of_plan(*inner);
            Status::new(status.code(), format!("{context}: {}", status.message()))
        }
        DataFusionError::Diagnostic(_, inner) => of_plan(*inner),
        DataFusionError::Shared(inner) => match inner.as_ref() {
            DataFusionError::External(inner) => Status::internal(inner.to_string()),
            other => Status::internal(other.to_string()),
        },
        DataFusionError::NotImplemented(_) => Status::unimplemented(error.to_string()),
        DataFusionError::ResourcesExhausted(_) => Status::resource_exhausted(error.to_string()),
        DataFusionError::SQL(..) | DataFusionError::Plan(_) | DataFusionError::SchemaError(..) => {
            let text = error.to_string();
            match text.contains("not found") && text.contains("table") {
                true => Status::not_found(text),
                false => Status::invalid_argument(text),
            }
        }
        other => Status::internal(other.to_string()),
    }
}
