//! Replicas that do not agree: their data are merged, and those that are behind are brought up to date
//! before the read is answered (blocking read repair).
//!
//! 1. Who has answered with a digest is asked for the data. Where rows are filtered, replicas are asked for
//!    those of which only others tell ([`super::filter`]).
//! 2. Each replica gets what it lacks of what all of them know ([`partition::lacking`]).
//! 3. The read is answered when as many replicas have it as must answer. So who reads at the same level later
//!    never reads something older. A table without read repair (`read_repair = 'NONE'`) leaves 2 and 3 out.

use super::asked::{Asked, DataOf, Terms};
use super::run::of_readers;
use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::replica::{Answer, ReplicaError};
use crate::strategy::Required;
use crate::topology::Node;
use model::{Mutation, PartitionUpdate};
use partition::{Deadline, Recording, lacking};
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Counts reads whose replicas did not agree.
#[derive(Debug, Default)]
pub struct ReadRepairs {
    attempted: AtomicU64,
    blocking: AtomicU64,
}

impl ReadRepairs {
    /// Reads that asked replicas for data because what they had answered differed.
    pub fn attempted(&self) -> u64 {
        self.attempted.load(Ordering::Relaxed)
    }

    /// Those that were answered when replicas had what they lacked: of tables that have read repair.
    pub fn blocking(&self) -> u64 {
        self.blocking.load(Ordering::Relaxed)
    }
}

impl Coordinator {
    /// What as many replicas of a leg as must answer know together; one recording where they agree.
    ///
    /// # Errors
    /// `ReadFailure`, `ReadTimeout`, `Overloaded`.
    pub(super) async fn resolved(
        &self,
        mut asked: Asked<'_>,
        deadline: Option<&Deadline>,
    ) -> Result<Vec<Recording>, CoordinatorError> {
        asked.answered(self).await?;
        if let Some(agreed) = asked.agreed() {
            return Ok(vec![agreed]);
        }
        self.read_repairs.attempted.fetch_add(1, Ordering::Relaxed);
        asked.ask_for_data();
        asked.answered(self).await?;
        let (terms, data) = asked.into_data();
        let data = self.completed(&terms, data, deadline).await?;
        match terms.request.command.table.options.read_repair.as_str() {
            "NONE" => Ok(data.into_iter().map(|(_, recording)| recording).collect()),
            _ => self.repaired(terms, data, deadline).await,
        }
    }

    /// Brings those up to date that are behind.
    async fn repaired(
        &self,
        terms: Terms,
        data: DataOf<'_>,
        deadline: Option<&Deadline>,
    ) -> Result<Vec<Recording>, CoordinatorError> {
        self.read_repairs.blocking.fetch_add(1, Ordering::Relaxed);
        let (nodes, recordings): (Vec<_>, Vec<_>) = data.into_iter().unzip();
        let command = Arc::clone(&terms.request.command);
        // That may be much work for who has other requests to serve.
        let compare = move |_| {
            let lacking = lacking(&recordings, &command);
            (recordings, lacking)
        };
        let compared = self.local.readers().run(deadline, compare).await;
        let (recordings, lacking) = compared.map_err(|error| of_readers(error, terms.consistency))?;
        let lacking = lacking.map_err(|error| terms.failed(0, 0, error.into()))?;
        let mut repair = Repair::new(terms.required.clone());
        for (node, updates) in nodes.into_iter().zip(lacking) {
            repair.send(node, updates, deadline);
        }
        let outcome = poll_fn(|cx| repair.poll(cx)).await;
        let received = terms.required.count() - repair.missing.count();
        outcome.map(|()| recordings).map_err(|cause| terms.failed(received, repair.failures, cause))
    }
}

/// A repair on its way.
struct Repair<'a> {
    /// Replicas that are to have what all know.
    missing: Required,
    waiting: Vec<(&'a Arc<Node>, Vec<Answer<()>>)>,
    failures: u32,
    /// The first failure.
    cause: Option<ReplicaError>,
}

impl<'a> Repair<'a> {
    fn new(missing: Required) -> Repair<'a> {
        Repair { missing, waiting: Vec::new(), failures: 0, cause: None }
    }

    fn send(&mut self, node: &'a Arc<Node>, updates: Vec<PartitionUpdate>, deadline: Option<&Deadline>) {
        let send = |update| node.replica.repair(Arc::new(Mutation::of(update)), deadline);
        self.waiting.push((node, updates.into_iter().map(send).collect()));
    }

    /// Waits until enough have what they lacked, or can have it no more.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ReplicaError>> {
        let Repair { missing, waiting, failures, cause } = self;
        waiting.retain_mut(|(node, answers)| {
            let mut failure = None;
            answers.retain_mut(|answer| match Pin::new(answer).poll(cx) {
                Poll::Pending => true,
                Poll::Ready(outcome) => {
                    failure = failure.take().or(outcome.err());
                    false
                }
            });
            if let Some(failure) = failure {
                *failures += 1;
                cause.get_or_insert(failure);
                return false;
            }
            if answers.is_empty() {
                missing.take_one(&node.datacenter);
            }
            !answers.is_empty()
        });
        if missing.count() == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut possible = missing.clone();
        for (node, _) in waiting.iter() {
            possible.take_one(&node.datacenter);
        }
        match cause.take_if(|_| possible.count() > 0) {
            Some(cause) => Poll::Ready(Err(cause)),
            None => Poll::Pending,
        }
    }
}
