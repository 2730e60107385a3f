//! Damaged files and failing disks, told to whoever acts on `disk_failure_policy`.

use crate::error::EngineError;
use partition::ReadError;
use sstable::{OpenError, WriteError};
use std::io;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskFailure {
    /// A file does not hold what it should: which one, where.
    Corrupt(String),
    /// The file system failed: which call, on which file.
    FileSystem(String),
}

/// Told of every failure, on the thread that met it.
pub type DiskFailureHook = Box<dyn Fn(&DiskFailure) + Send + Sync>;

impl DiskFailure {
    /// `None` for a full disk: that heals by itself, and nothing that was kept is in doubt.
    fn of_io(error: &io::Error) -> Option<DiskFailure> {
        (!env::fs::is_out_of_space(error)).then(|| DiskFailure::FileSystem(error.to_string()))
    }

    pub(crate) fn of_read(error: &ReadError) -> Option<DiskFailure> {
        match error {
            ReadError::Corrupt { .. } => Some(DiskFailure::Corrupt(error.to_string())),
            ReadError::Io(cause) => DiskFailure::of_io(cause),
            ReadError::WouldBlock | ReadError::Unproven(_) | ReadError::TimedOut => None,
        }
    }

    pub(crate) fn of(error: &EngineError) -> Option<DiskFailure> {
        match error {
            EngineError::Io(cause) => DiskFailure::of_io(cause),
            EngineError::Read(cause) | EngineError::Open(OpenError::Read(cause)) => {
                DiskFailure::of_read(cause)
            }
            EngineError::Open(OpenError::MissingComponent { .. }) => {
                Some(DiskFailure::Corrupt(error.to_string()))
            }
            EngineError::WriteSsTable(cause) => match cause.as_ref() {
                WriteError::Io(cause) => DiskFailure::of_io(cause),
                _ => None,
            },
            _ => None,
        }
    }
}
