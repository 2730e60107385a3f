//! Conditional writes (`IF`): read, decide, write, one at a time for each partition.
//!
//! While all replicas of a partition are this node, holding the partition's lock from the read to the
//! acknowledgement makes conditional writes linearizable. They take their timestamps from the same source as
//! other writes, which never goes back: what a later condition wrote wins over whatever was written before.

use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::local::ReadObserver;
use crate::read::{Page, PullError, ReadRequest};
use model::command::ReadCommand;
use model::{Consistency, DecoratedKey, Mutation, WriteType};
use partition::{Deadline, ReadContext};
use std::sync::Arc;

/// A conditional write.
pub struct CasRequest {
    /// The partition that the conditions and the writes are about.
    pub key: DecoratedKey,
    /// Read what the conditions are about.
    pub reads: Vec<ReadCommand>,
    /// Consistency of the write, once decided.
    pub consistency: Consistency,
    /// Consistency of the decision: `Serial` or `LocalSerial`.
    pub serial_consistency: Consistency,
    /// Cost and deadline of the read.
    pub context: ReadContext,
    /// Until when somebody waits for the read.
    pub read_deadline: Option<Deadline>,
    /// Until when it waits for others of the partition.
    pub contention_deadline: Option<Deadline>,
    /// Until when what was decided has to be kept.
    pub write_deadline: Option<Deadline>,
}

impl Coordinator {
    /// Runs a conditional write. `take` makes something of the rows of each read; `decide` gets that and the
    /// write's timestamp in microseconds and says what to write, `None` when the conditions do not hold.
    ///
    /// # Errors
    /// Those of reads and writes, `CasTimeout`; the decision's own.
    pub async fn cas<T: Send + 'static, E: From<CoordinatorError>>(
        self: &Arc<Self>,
        request: CasRequest,
        take: impl Fn(&mut Page) -> Result<T, PullError> + Clone + Send + 'static,
        decide: impl FnOnce(Vec<T>, i64) -> Result<Option<Vec<Mutation>>, E> + Send,
        observer: &mut dyn ReadObserver,
    ) -> Result<(), E> {
        validate(&request)?;
        let (consistency, read_deadline) = (request.serial_consistency, request.read_deadline.as_ref());
        let of = |read| ReadRequest::all(Arc::new(read), consistency, request.context.clone());
        let reads: Vec<ReadRequest> = request.reads.into_iter().map(of).collect();
        loop {
            let contention = request.contention_deadline.as_ref();
            let waited = self.cas_locks.lock_until(&self.env.tasks, contention, [&request.key]).await;
            let Some(held) = waited else {
                return Err(CoordinatorError::CasTimeout { consistency, block_for: 1 }.into());
            };
            let ballot = self.next_timestamp();
            let mut found = Ok(Vec::with_capacity(reads.len()));
            for read in &reads {
                let Ok(all) = &mut found else { break };
                match self.collect_once(read, take.clone(), read_deadline, observer).await {
                    Ok(rows) => all.push(rows),
                    Err(error) => found = Err(error),
                }
            }
            let interruption = match found {
                Err(PullError::Failed(error)) => return Err(error.into()),
                Err(PullError::Interrupted(interruption)) => interruption,
                Ok(rows) => {
                    let Some(mutations) = decide(rows, ballot)? else { return Ok(()) };
                    let deadline = request.write_deadline.as_ref();
                    let written = self.write(mutations, request.consistency, WriteType::Cas, deadline).await;
                    return written.map_err(|error| E::from(committed(error)));
                }
            };
            // Nothing was decided yet, and others do not wait for it, too.
            drop(held);
            self.resumed(interruption, read_deadline, observer).await?;
        }
    }
}

/// What was decided stands, also when it was not kept in time: clients know that from the type.
fn committed(error: CoordinatorError) -> CoordinatorError {
    match error {
        CoordinatorError::WriteTimeout { consistency, received, block_for, .. } => {
            CoordinatorError::WriteTimeout { consistency, received, block_for, write_type: WriteType::Simple }
        }
        other => other,
    }
}

fn validate(request: &CasRequest) -> Result<(), CoordinatorError> {
    let is_serial = |c| matches!(c, Consistency::Serial | Consistency::LocalSerial);
    if !is_serial(request.serial_consistency) {
        return Err(CoordinatorError::Invalid(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL".to_owned(),
        ));
    }
    if is_serial(request.consistency) {
        return Err(CoordinatorError::Invalid(format!(
            "{} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is \
             accepted but I don't care how many replicas commit it for non-SERIAL reads\"",
            request.consistency.name()
        )));
    }
    Ok(())
}
