//! Writes: every replica gets the mutation, as many as the consistency level wants must acknowledge it.

use crate::error::{CoordinatorError, WriteType};
use crate::read::unknown_keyspace;
use crate::replica::{Answer, ReplicaError};
use crate::{Coordinator, Parts, Placement};
use model::command::{Consistency, PartitionSelection};
use model::{Mutation, TableSchema};
use partition::Deadline;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

impl Coordinator {
    /// Writes mutations that need not be kept together.
    ///
    /// # Errors
    /// `Invalid` for a serial consistency, `Unavailable`, `WriteFailure`, `WriteTimeout`. After an error each
    /// mutation may have been kept or not.
    pub async fn write(
        &self,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        write_type: WriteType,
        deadline: Option<&Deadline>,
    ) -> Result<(), CoordinatorError> {
        validate_for_write(consistency)?;
        let mut placed = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            placed.push((self.placement_of(&mutation)?, Arc::new(mutation)));
        }
        // Nothing is sent before all of it is known to be possible.
        let mut possible = Vec::with_capacity(placed.len());
        for (placement, mutation) in &placed {
            possible.push((placement.candidates(consistency)?, mutation));
        }
        let waiting: Vec<(Vec<Answer<()>>, u32)> = possible
            .into_iter()
            .map(|((replicas, block_for), mutation)| {
                (replicas.iter().map(|r| r.write(Arc::clone(mutation), deadline)).collect(), block_for)
            })
            .collect();
        for (answers, block_for) in waiting {
            acknowledged(answers, block_for).await.map_err(|failed| match failed.cause {
                ReplicaError::TimedOut => CoordinatorError::WriteTimeout {
                    consistency,
                    received: failed.received,
                    block_for,
                    write_type,
                },
                ReplicaError::Overloaded(message) => CoordinatorError::Overloaded(message),
                ReplicaError::TooLarge(message) => CoordinatorError::Invalid(message),
                cause => CoordinatorError::WriteFailure {
                    consistency,
                    received: failed.received,
                    block_for,
                    failures: failed.failures,
                    write_type,
                    cause,
                },
            })?;
        }
        Ok(())
    }

    /// Empties a table everywhere.
    ///
    /// # Errors
    /// `Unavailable` unless all replicas are alive, `Truncate` when one fails.
    pub async fn truncate(&self, table: Arc<TableSchema>) -> Result<(), CoordinatorError> {
        let everything = PartitionSelection::Range(model::key::KeyRange::FULL);
        let parts = self
            .topology
            .split(&table.keyspace, &everything)
            .ok_or_else(|| unknown_keyspace(&table.keyspace))?;
        let placements = match parts {
            Parts::Whole(placement) => vec![placement],
            Parts::Several(parts) => parts.into_iter().map(|part| part.placement).collect(),
        };
        for replica in placements.iter().flat_map(|placement| placement.replicas()) {
            replica.truncate(Arc::clone(&table)).await.map_err(CoordinatorError::Truncate)?;
        }
        Ok(())
    }

    pub(crate) fn placement_of(&self, mutation: &Mutation) -> Result<Arc<Placement>, CoordinatorError> {
        let update = mutation
            .updates
            .first()
            .ok_or_else(|| CoordinatorError::Internal("a mutation without updates".to_owned()))?;
        let keyspace = &update.table.keyspace;
        self.topology.placement(keyspace, &update.key).ok_or_else(|| unknown_keyspace(keyspace))
    }
}

/// Consistency levels that writes without conditions do not have.
pub(crate) fn validate_for_write(consistency: Consistency) -> Result<(), CoordinatorError> {
    if matches!(consistency, Consistency::Serial | Consistency::LocalSerial) {
        return Err(CoordinatorError::Invalid(
            "You must use conditional updates for serializable writes".to_owned(),
        ));
    }
    Ok(())
}

struct Failed {
    received: u32,
    failures: u32,
    cause: ReplicaError,
}

/// Waits until `block_for` replicas acknowledged, or so many failed that they cannot any more.
async fn acknowledged(answers: Vec<Answer<()>>, block_for: u32) -> Result<(), Failed> {
    let mut waiting: Vec<Option<Answer<()>>> = answers.into_iter().map(Some).collect();
    let (mut received, mut failures, mut first_cause) = (0u32, 0u32, None);
    poll_fn(move |cx| {
        for slot in &mut waiting {
            let Some(answer) = slot else { continue };
            match Pin::new(answer).poll(cx) {
                Poll::Pending => continue,
                Poll::Ready(Ok(())) => received += 1,
                Poll::Ready(Err(error)) => {
                    failures += 1;
                    first_cause.get_or_insert(error);
                }
            }
            *slot = None;
        }
        let possible = received + waiting.iter().flatten().count() as u32;
        match &first_cause {
            _ if received >= block_for => Poll::Ready(Ok(())),
            Some(cause) if possible < block_for => {
                Poll::Ready(Err(Failed { received, failures, cause: cause.clone() }))
            }
            _ => Poll::Pending,
        }
    })
    .await
}
