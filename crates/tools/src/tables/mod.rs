//! The tables that `ilion export` and `ilion sql` read: those of a node ([`remote`]), or of directories that
//! no node need have open ([`directories`]).

pub(crate) mod directories;
mod directory;
pub(crate) mod remote;
mod schema_file;
mod secure;

pub(crate) use schema_file::statements;

use bulk::BulkError;
use std::fmt;

/// Why a command did not come to its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command makes no sense: status 2.
    Usage(String),
    /// Something failed: status 1.
    Work(String),
}

impl Failure {
    pub(crate) fn usage(error: impl fmt::Display) -> Failure {
        Failure::Usage(error.to_string())
    }

    pub(crate) fn work(error: impl fmt::Display) -> Failure {
        Failure::Work(error.to_string())
    }
}

impl From<BulkError> for Failure {
    fn from(error: BulkError) -> Self {
        match error {
            BulkError::Request(_) | BulkError::Directory(_) | BulkError::UnknownTable(_) => {
                Failure::usage(error)
            }
            _ => Failure::work(error),
        }
    }
}

/// `keyspace.table`, in two.
pub(crate) fn split_name(name: &str) -> Result<(&str, &str), Failure> {
    name.split_once('.').ok_or_else(|| Failure::Usage(format!("{name} is not KEYSPACE.TABLE")))
}
