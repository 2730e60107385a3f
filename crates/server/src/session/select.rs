//! SELECT: from a bound statement to rows in the answer.
//!
//! 1. A read of few partitions by key is tried on the network thread ([`in_place`]): it may not wait for the
//!    disk, and it may not grow long. If it does neither its rows were written straight into the connection's
//!    buffer.
//! 2. Otherwise nothing of it is sent, and the coordinator carries the whole read out where it may wait
//!    ([`blocking`]). Before that it waits until the client has read most of its earlier answers; there it
//!    takes room for its answer, and more as that grows ([`crate::net::AnswerRoom`]). One that finds none
//!    waits on no thread and begins anew, so that answers do not pile up in memory.
//! 3. Rows are pulled, shaped and written ([`page`]). A page ends at the rows the client asked for, at
//!    [`super::PAGE_BYTES_MAX`], or after `tombstone_failure_threshold` tombstones: deleted data makes pages
//!    short, never an error.
//! 4. Grouped, aggregated and sorted results are made of as many internal pages as it takes; in a ring so are
//!    those whose LIMIT fits into a page. A page of groups ends before the row that would begin one group too
//!    many; sorted results are one page.
//! 5. What the read came to is counted ([`account`]).

mod account;
mod blocking;
mod in_place;
mod page;

use std::sync::Arc;

use coordinator::{CoordinatorError, Interruption, PagingState, PullError, ReadRequest, Scope};
use cql::plan::BoundSelect;
use model::Consistency;
use model::command::{PartitionSelection, ReadCommand};
use partition::{Deadline, PageLimits, ReadContext, Recorder};
use protocol::ProtocolVersion;
use protocol::response::error::ErrorResponse;
use protocol::response::rows::{EncodedColumns, MetadataMode};

use super::options::Options;
use super::run::{Metadata, Work};
use super::statements::Statement;
use super::{Answer, Exchange, PAGE_BYTES_MAX, Progress, error};
use crate::net::NoRoom;
use crate::timeouts::TimeoutKind;

pub(super) use blocking::{Analysis, analyze, on_reader};
pub(super) use page::Sink;

/// One SELECT, ready to run anywhere.
pub(super) struct Read {
    statement: Arc<Statement>,
    select: Box<BoundSelect>,
    consistency: Consistency,
    page: PageLimits,
    /// Whether all rows are in one answer, which is made of as many pages as it takes.
    is_whole: bool,
    /// Groups of a page, where rows are grouped.
    page_groups: u64,
    after: Option<PagingState>,
    metadata: Metadata,
    version: ProtocolVersion,
    /// The columns of its rows, where they are not those that the statement answers with.
    columns: Option<EncodedColumns>,
}

/// Why a read ended without its rows.
pub(super) enum Stop {
    /// It grew too long for the network thread.
    TooLong,
    /// The replica has to wait. It begins anew by itself.
    Interrupted(Interruption),
    /// It has to wait until there is room for its answer.
    NoRoom(NoRoom),
    /// The replicas did not deliver.
    Failed(CoordinatorError),
    /// The statement cannot be executed.
    Refused(ErrorResponse),
}

impl Stop {
    /// The answer to the client.
    pub(super) fn into_refusal(self, exchange: &Exchange) -> ErrorResponse {
        match self {
            // Who may wait never gets here.
            Stop::TooLong | Stop::Interrupted(_) => error::internal("a read that may wait was moved"),
            Stop::NoRoom(_) => error::internal("an answer found no room and did not wait"),
            Stop::Refused(error) => error,
            Stop::Failed(failure) => error::of_coordinator(failure, &exchange.sessions.node),
        }
    }
}

impl From<CoordinatorError> for Stop {
    fn from(failure: CoordinatorError) -> Stop {
        Stop::Failed(failure)
    }
}

impl From<PullError> for Stop {
    fn from(error: PullError) -> Stop {
        match error {
            PullError::Interrupted(interruption) => Stop::Interrupted(interruption),
            PullError::Failed(failure) => Stop::Failed(failure),
        }
    }
}

/// The read of a bound statement.
fn read_of(
    exchange: &Exchange,
    statement: Arc<Statement>,
    select: Box<BoundSelect>,
    options: &Options,
    metadata: Metadata,
) -> Result<Read, ErrorResponse> {
    let sessions = &exchange.sessions;
    let after = options.after(exchange.version)?;
    // A Cassandra ends no page before a LIMIT that fits into it, and there a state is not looked at
    // (`SelectStatement.execute`). The next page may be asked of one.
    let has_all = options.page_rows.is_some_and(|rows| select.command.limits.rows <= u64::from(rows));
    let is_whole = sessions.node.config.ring.is_some() && has_all;
    let is_one_page = select.is_grouped || select.is_sorted || is_whole;
    let has_pages_of_groups = select.has_groups() && !select.is_sorted;
    let page = match options.page_rows {
        None => PageLimits::NONE,
        Some(_) if is_one_page => PageLimits::NONE,
        Some(rows) => PageLimits {
            rows: u64::from(rows),
            bytes: PAGE_BYTES_MAX,
            tombstones: u64::from(sessions.node.config.settings.tombstone_failure_threshold).max(1),
        },
    };
    let page_groups = options.page_rows.filter(|_| has_pages_of_groups).map_or(u64::MAX, u64::from);
    Ok(Read {
        statement,
        select,
        consistency: options.consistency,
        page,
        is_whole: is_one_page,
        page_groups,
        after,
        metadata,
        version: exchange.version,
        columns: None,
    })
}

/// Reads in place, if that may do.
pub(super) fn start(
    exchange: &mut Exchange,
    statement: Arc<Statement>,
    select: Box<BoundSelect>,
    options: Options,
    metadata: Metadata,
) -> Result<Progress, ErrorResponse> {
    let read = read_of(exchange, statement, select, &options, metadata)?;
    if let Some(warning) = read.select.warning {
        exchange.warn(warning.to_owned());
    }
    exchange.note(|| read.describe());
    if read.fits_in_place() {
        match in_place::run(exchange, &read) {
            Ok(true) => return Ok(Progress::Over(Answer::Sent)),
            Ok(false) => exchange.sessions.node.metrics.reads_moved.add(1),
            Err(stop) => return Err(stop.into_refusal(exchange)),
        }
        exchange.note(|| "Moved to a reader thread".to_owned());
    }
    Ok(Progress::Waits(Work::Read(Box::new(read))))
}

impl Read {
    fn command(&self) -> &Arc<ReadCommand> {
        &self.select.command
    }

    /// What accompanies the read, wherever it runs.
    fn context(&self, recorder: Option<Arc<Recorder>>) -> ReadContext {
        ReadContext { fill_cache: !self.select.bypasses_cache, recorder, ..ReadContext::default() }
    }

    fn request(&self, page: PageLimits, after: Option<PagingState>, context: ReadContext) -> ReadRequest {
        ReadRequest {
            command: Arc::clone(self.command()),
            consistency: self.consistency,
            page,
            after,
            context,
            scope: Scope::Ring,
        }
    }

    fn columns(&self) -> &EncodedColumns {
        self.columns.as_ref().unwrap_or_else(|| self.statement.encoded_columns(self.version))
    }

    /// What the result says about its columns.
    fn metadata_mode(&self) -> MetadataMode<'_> {
        match self.metadata {
            Metadata::Full => MetadataMode::Full,
            Metadata::Skip => MetadataMode::Skip,
            Metadata::Changed => MetadataMode::Changed(&self.statement.result_metadata_id),
        }
    }

    /// When the client has waited for long enough.
    fn deadline(&self, exchange: &Exchange) -> Deadline {
        let kind = if self.is_scan() { TimeoutKind::Range } else { TimeoutKind::Read };
        exchange.deadline(exchange.sessions.node.timeouts.get(kind))
    }

    fn is_scan(&self) -> bool {
        matches!(self.command().partitions, PartitionSelection::Range(_))
    }

    fn describe(&self) -> String {
        let table = &self.command().table;
        match &self.command().partitions {
            PartitionSelection::Keys(keys) if keys.len() == 1 => {
                format!("Executing single-partition query on {}", table.name)
            }
            PartitionSelection::Keys(keys) => {
                format!("Executing {} single-partition queries on {}", keys.len(), table.name)
            }
            PartitionSelection::Range(_) => format!("Executing range query on {}", table.name),
        }
    }
}
