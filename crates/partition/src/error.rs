//! What can go wrong while a partition is read.

use std::io;
use std::sync::Arc;

/// Why a read failed. Cheap to clone, because several waiters may share one failed load.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// A file does not hold what it should.
    #[error("{file} is corrupt at offset {offset}: {detail}")]
    Corrupt {
        /// The file.
        file: Arc<str>,
        /// Offset in the file, or in its uncompressed content where `detail` says so.
        offset: u64,
        /// What was expected and what was found.
        detail: String,
    },
    /// The file system failed.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// A page is not in memory and the read was told not to block ([`crate::ReadContext::may_block`]), or it
    /// is expected to become too long for that.
    #[error("the read needs a page that is not resident")]
    WouldBlock,
    /// Nobody knows yet whether a file is as it was written, and reads wait until that is known.
    #[error("{0} was not compared with its digest yet")]
    Unproven(Arc<str>),
    /// The read has taken longer than it may ([`crate::ReadContext::deadline`]).
    #[error("the read took longer than it may")]
    TimedOut,
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(Arc::new(error))
    }
}

impl ReadError {
    /// A corruption at `offset` of `file`.
    pub fn corrupt(file: &Arc<str>, offset: u64, detail: impl Into<String>) -> ReadError {
        ReadError::Corrupt { file: Arc::clone(file), offset, detail: detail.into() }
    }
}
