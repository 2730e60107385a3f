//! What can go wrong while a table is scanned or exported.

use arrow_schema::ArrowError;
use partition::ReadError;
use sstable::OpenError;
use std::io;

/// Why a scan or an export ended early.
#[derive(Debug, thiserror::Error)]
pub enum BulkError {
    /// A source could not be read. Corruption names file and offset.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// A file could not be opened, or lacks a component.
    #[error(transparent)]
    Open(OpenError),
    /// A stored value is not one of its type, or not one that was asked for.
    #[error("column {column}: {detail}")]
    Value {
        /// The column.
        column: String,
        /// What is wrong with the value.
        detail: String,
    },
    /// The table was dropped while it was scanned.
    #[error("table {0} was dropped while it was read")]
    Dropped(String),
    /// The request makes no sense for the table.
    #[error("{0}")]
    Request(String),
    /// The directory of an export holds something else.
    #[error("{0}")]
    Directory(String),
    /// A batch could not be made or written.
    #[error("{0}")]
    Arrow(String),
    /// The file system failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// There is no such table.
    #[error("there is no table {0}")]
    UnknownTable(String),
    /// Whoever asks may not read the table.
    #[error("{0}")]
    Denied(String),
    /// A node could not be asked, or did not answer.
    #[error("{0}")]
    Node(String),
    /// The node ends.
    #[error("the node is shutting down")]
    ShutDown,
    /// Whoever asked for the rows does not want them any more.
    #[error("nobody waits for the rows any more")]
    Cancelled,
    /// Who asked for the export ended it.
    #[error("the export was stopped; the same command goes on with it")]
    Stopped,
}

impl From<OpenError> for BulkError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Read(error) => BulkError::Read(error),
            error => BulkError::Open(error),
        }
    }
}

impl From<ArrowError> for BulkError {
    fn from(error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, error) => BulkError::Io(error),
            error => BulkError::Arrow(error.to_string()),
        }
    }
}

impl From<parquet::errors::ParquetError> for BulkError {
    fn from(error: parquet::errors::ParquetError) -> Self {
        BulkError::Arrow(error.to_string())
    }
}
