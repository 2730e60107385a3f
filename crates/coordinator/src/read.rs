//! Reads: from a command to a page of rows.
//!
//! 1. A paging state narrows the command to what lies behind it.
//! 2. Each part of the selection is asked of as many replicas as the consistency level wants.
//! 3. Their streams merge (one passes through), parts follow each other.
//! 4. [`LiveRows`] makes rows of the stream, as they are pulled.

use crate::error::CoordinatorError;
use crate::paging::{self, PagingState};
use crate::replica::ReplicaError;
use crate::{Coordinator, Part, Parts, Placement};
use model::command::{Consistency, PartitionSelection, ReadCommand};
use partition::{BoxedStream, LiveRows, PageLimits, ReadContext, concat, merge};
use smallvec::SmallVec;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// One page of a query.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// The query.
    pub command: Arc<ReadCommand>,
    /// Replicas that must answer.
    pub consistency: Consistency,
    /// When the page is full.
    pub page: PageLimits,
    /// Where the page before ended; `None` for the first.
    pub after: Option<PagingState>,
    /// Cost, permission to block, and the deadline.
    pub context: ReadContext,
}

impl Coordinator {
    /// As [`Coordinator::read`], where all replicas that are asked answer at once, as the node itself does; `None` where
    /// one has to be waited for.
    ///
    /// # Errors
    /// Those of [`Coordinator::read`].
    pub fn read_at_once(&self, request: ReadRequest) -> Option<Result<Box<LiveRows>, CoordinatorError>> {
        match pin!(self.read(request)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(rows) => Some(rows),
            Poll::Pending => None,
        }
    }

    /// Starts a page. The rows are read as the result is pulled; [`LiveRows::mark`] then says where the next page
    /// starts.
    ///
    /// # Errors
    /// `Invalid` for a consistency level that reads do not have or a paging state of another query, `Unavailable`,
    /// `ReadFailure`, `ReadTimeout`.
    pub async fn read(&self, request: ReadRequest) -> Result<Box<LiveRows>, CoordinatorError> {
        if request.consistency == Consistency::Any {
            return Err(CoordinatorError::Invalid(
                "ANY ConsistencyLevel is only supported for writes".to_owned(),
            ));
        }
        let command = request.command;
        let mark =
            match &request.after {
                None => None,
                Some(state) => Some(state.mark(&command).ok_or_else(|| {
                    CoordinatorError::Invalid("Invalid value for the paging state".to_owned())
                })?),
            };
        let context = ReadContext { rows_wanted: rows_wanted(&command, &request.page), ..request.context };
        let mut streams = Streams::new();
        match &mark {
            None => self.read_leg(&command, request.consistency, &context, &mut streams).await?,
            Some(mark) => {
                for leg in paging::behind(&command, mark) {
                    let scan = paging::scan_of(&command, mark, &leg).map(Arc::new);
                    let context = ReadContext { scan, ..context.clone() };
                    self.read_leg(&Arc::new(leg), request.consistency, &context, &mut streams).await?;
                }
            }
        }
        let stream: BoxedStream = match (streams.pop(), streams.is_empty()) {
            (Some(only), true) => only,
            (last, _) => {
                let mut streams = streams.into_iter().chain(last);
                Box::new(concat(move || Ok(streams.next())))
            }
        };
        let rows = LiveRows::new(stream, command, context, request.page);
        Ok(match &mark {
            None => rows,
            Some(mark) => rows.resume(mark),
        })
    }

    async fn read_leg(
        &self,
        command: &Arc<ReadCommand>,
        consistency: Consistency,
        context: &ReadContext,
        streams: &mut Streams,
    ) -> Result<(), CoordinatorError> {
        let parts = self
            .topology
            .split(&command.table.keyspace, &command.partitions)
            .ok_or_else(|| unknown_keyspace(&command.table.keyspace))?;
        match parts {
            Parts::Whole(placement) => {
                streams.push(read_part(&placement, command, consistency, context).await?);
            }
            Parts::Several(parts) => {
                for Part { selection, placement } in parts {
                    let command =
                        Arc::new(ReadCommand { partitions: selection, ..ReadCommand::clone(command) });
                    streams.push(read_part(&placement, &command, consistency, context).await?);
                }
            }
        }
        Ok(())
    }
}

/// About how many rows of the selection a page takes.
fn rows_wanted(command: &ReadCommand, page: &PageLimits) -> u64 {
    let limits = &command.limits;
    let of_partition = match &command.partitions {
        PartitionSelection::Keys(keys) if keys.len() == 1 => limits.rows_per_partition,
        _ => u64::MAX,
    };
    match command.row_filter.is_empty() {
        // One more shows whether there is another page.
        true => limits.rows.min(of_partition).min(page.rows.saturating_add(1)),
        false => u64::MAX,
    }
}

/// Mostly one.
type Streams = SmallVec<[BoxedStream; 1]>;

pub(crate) fn unknown_keyspace(name: &str) -> CoordinatorError {
    CoordinatorError::Invalid(format!("Keyspace '{name}' does not exist"))
}

async fn read_part(
    placement: &Placement,
    command: &Arc<ReadCommand>,
    consistency: Consistency,
    context: &ReadContext,
) -> Result<BoxedStream, CoordinatorError> {
    let (replicas, block_for) = placement.candidates(consistency)?;
    let mut streams = Streams::new();
    let (mut failures, mut cause) = (0, None);
    for replica in replicas {
        if streams.len() as u32 == block_for {
            break;
        }
        match replica.read(command, context).await {
            Ok(stream) => streams.push(stream),
            Err(error) => {
                failures += 1;
                cause.get_or_insert(error);
            }
        }
    }
    match cause {
        Some(cause) if (streams.len() as u32) < block_for => {
            let received = streams.len() as u32;
            Err(CoordinatorError::of_read(consistency, received, block_for, failures, cause))
        }
        _ if streams.len() == 1 => Ok(streams.remove(0)),
        _ => Ok(merge(&command.table, streams, command.is_reversed())),
    }
}

/// A failure while the rows of a result were pulled, as the error of the request.
pub(crate) fn pull_failed(consistency: Consistency, cause: impl Into<ReplicaError>) -> CoordinatorError {
    CoordinatorError::of_read(consistency, 0, 1, 1, cause.into())
}
