//! The rows of a read, and what can go wrong while they are pulled.

use crate::error::CoordinatorError;
use crate::local::IN_PLACE_BYTES_MAX;
use model::Consistency;
use model::row::ResultRow;
use partition::{Cut, LiveRows, PageMark, ReadError};
use std::sync::Arc;

/// What a read on this node has to wait for. Whoever pulled hands it back as it is, and begins anew when told
/// to.
#[derive(Clone, Debug)]
pub struct Interruption {
    pub(crate) cause: Cause,
    /// What was asked for.
    pub(crate) consistency: Consistency,
}

#[derive(Clone, Debug)]
pub(crate) enum Cause {
    /// A page that has to be loaded, or a thread on which the read may become long.
    WouldBlock,
    /// The comparison of an SSTable with its digest.
    Unproven(Arc<str>),
}

/// Why a row did not come.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The read has to wait, and to begin anew.
    #[error("the read has to wait")]
    Interrupted(Interruption),
    /// It failed.
    #[error("{0}")]
    Failed(#[from] CoordinatorError),
}

impl PullError {
    /// A failure of the only replica that was asked.
    pub(crate) fn of_one(consistency: Consistency, error: ReadError) -> PullError {
        let cause = match error {
            ReadError::WouldBlock => Cause::WouldBlock,
            ReadError::Unproven(name) => Cause::Unproven(name),
            other => {
                return PullError::Failed(CoordinatorError::of_read(consistency, 0, 1, 1, other.into()));
            }
        };
        PullError::Interrupted(Interruption { cause, consistency })
    }
}

/// One page of a read: its rows, as they are pulled.
pub struct Page {
    rows: Box<LiveRows>,
    consistency: Consistency,
    received: u32,
    block_for: u32,
    cut: Option<Cut>,
    /// Bytes of the answers that it is made of; 0 where it is read as it is pulled.
    bytes: u64,
}

impl Page {
    /// Rows that this node reads as they are pulled.
    pub(crate) fn local(rows: Box<LiveRows>, consistency: Consistency) -> Page {
        Page { rows, consistency, received: 0, block_for: 1, cut: None, bytes: 0 }
    }

    /// Rows that so many replicas, as many as have to, have answered with, in so many bytes.
    /// `cut` says where what they know together ends.
    pub(crate) fn gathered(
        rows: Box<LiveRows>,
        consistency: Consistency,
        received: u32,
        cut: Cut,
        bytes: u64,
    ) -> Page {
        Page { rows, consistency, received, block_for: received, cut: Some(cut), bytes }
    }

    /// Whether its rows are made in no time, where nothing has to be read for them.
    pub(super) fn is_short(&self) -> bool {
        self.bytes <= IN_PLACE_BYTES_MAX
    }

    /// Where what the replicas know together ends; `None` for rows that this node reads as they are pulled.
    pub(super) fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// The next row, `None` when the page or the result is over.
    ///
    /// # Errors
    /// When the replicas do not deliver, the deadline is over, or the read has to wait.
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<ResultRow<'_>>, PullError> {
        let Page { rows, consistency, received, block_for, .. } = self;
        rows.next_row().map_err(|error| pull_error(error, *consistency, *received, *block_for))
    }

    /// Where the page ended; `None` when the result is over. To be asked when [`Page::next_row`] yielded no
    /// more.
    pub fn mark(&self) -> Option<PageMark> {
        self.rows.mark()
    }

    /// Tombstones met so far.
    pub fn tombstones(&self) -> u64 {
        self.rows.tombstones()
    }

    /// Hands on the static content of a partition also when rows were asked for by name and none is there.
    pub fn with_lone_statics(&mut self) {
        self.rows.with_lone_statics();
    }
}

/// Why a row did not come, of a page that so many replicas have answered.
#[cold]
fn pull_error(error: ReadError, consistency: Consistency, received: u32, block_for: u32) -> PullError {
    match received {
        0 => PullError::of_one(consistency, error),
        _ => CoordinatorError::of_read(consistency, received, block_for, 0, error.into()).into(),
    }
}
