//! What clients are told where too few replicas could be asked, or have answered.

use coordinator::CoordinatorError;
use model::{Consistency, WriteType};
use protocol::response::error::{ErrorKind, ErrorResponse, Progress};

/// How many have answered of those that had to.
pub(crate) fn progress(consistency: Consistency, received: u32, block_for: u32) -> Progress {
    Progress { consistency, received: received as i32, block_for: block_for as i32 }
}

/// A request that too few replicas could be asked, or have answered: it may be tried again.
pub(crate) fn of_absence(error: &CoordinatorError) -> Option<ErrorResponse> {
    let kind = match *error {
        CoordinatorError::Overloaded(_) => ErrorKind::Overloaded,
        CoordinatorError::Unavailable { consistency, required, alive, .. } => {
            ErrorKind::Unavailable { consistency, required: required as i32, alive: alive as i32 }
        }
        CoordinatorError::NoBatchKeeper => {
            ErrorKind::Unavailable { consistency: Consistency::Two, required: 2, alive: 0 }
        }
        CoordinatorError::ReadTimeout { consistency, received, block_for } => ErrorKind::ReadTimeout {
            progress: progress(consistency, received, block_for),
            data_present: false,
        },
        CoordinatorError::WriteTimeout { consistency, received, block_for, write_type } => {
            let progress = progress(consistency, received, block_for);
            ErrorKind::WriteTimeout { progress, write_type, contentions: 0 }
        }
        CoordinatorError::CasTimeout { consistency, block_for } => ErrorKind::WriteTimeout {
            progress: progress(consistency, 0, block_for),
            write_type: WriteType::Cas,
            contentions: 0,
        },
        _ => return None,
    };
    Some(ErrorResponse::new(kind, error.to_string()))
}
