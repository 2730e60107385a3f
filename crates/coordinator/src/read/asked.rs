//! The replicas of a leg that were asked, and what they have answered.
//!
//! 1. As many are asked at once as must answer. Of single partitions the closest is asked for the data, the
//!    others for the digest of them. Of a range all are asked for the data: the digests of so much hardly
//!    ever agree.
//! 2. A replica that fails is replaced by one that was not asked yet, as long as there is one.
//! 3. When the answers take longer than is usual for the table, one more is asked ([`super::speculation`]).
//!
//! Who is asked besides is asked for the data, so some are there as soon as enough have answered.

use super::legs::Leg;
use super::speculation::patience;
use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::replica::{Answer, DataRequest, ReplicaError};
use crate::strategy::Required;
use crate::topology::Node;
use model::Consistency;
use model::command::PartitionSelection;
use partition::{Digest, Recording};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// What a replica is asked for.
enum Asking {
    Data(Answer<Recording>),
    Digest(Answer<Digest>),
}

/// What it has answered.
enum Said {
    Data(Recording),
    Digest(Digest),
}

impl Asking {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Said, ReplicaError>> {
        match self {
            Asking::Data(answer) => Pin::new(answer).poll(cx).map_ok(Said::Data),
            Asking::Digest(answer) => Pin::new(answer).poll(cx).map_ok(Said::Digest),
        }
    }
}

/// What a leg is asked for, and of whom.
pub(super) struct Terms {
    pub(super) request: DataRequest,
    pub(super) consistency: Consistency,
    /// How many must answer.
    pub(super) required: Required,
}

impl Terms {
    /// Too few answers, or too few repairs, as the error of the request.
    pub(super) fn failed(&self, received: u32, failures: u32, cause: ReplicaError) -> CoordinatorError {
        let block_for = self.required.count();
        match cause {
            ReplicaError::Overloaded(message) => CoordinatorError::Overloaded(message),
            cause => CoordinatorError::of_read(self.consistency, received, block_for, failures, cause),
        }
    }
}

/// A leg whose replicas were asked.
pub(super) struct Asked<'a> {
    terms: Terms,
    /// Answers that are missing.
    missing: Required,
    waiting: Vec<(&'a Arc<Node>, Asking)>,
    answers: Vec<(&'a Arc<Node>, Said)>,
    /// Replicas that can be asked besides.
    spare: Vec<&'a Arc<Node>>,
    failures: u32,
    /// The first failure.
    cause: Option<ReplicaError>,
    asked_at_nanos: u64,
}

/// Replicas and the data that they have answered with.
pub(super) type DataOf<'a> = Vec<(&'a Arc<Node>, Recording)>;

impl<'a> Asked<'a> {
    /// Asks the replicas of a leg.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(super) fn ask(
        leg: &'a Leg,
        request: DataRequest,
        consistency: Consistency,
        now_nanos: u64,
    ) -> Result<Asked<'a>, CoordinatorError> {
        let (candidates, required) = leg.placement.for_read(consistency)?;
        let command = &request.command;
        let has_digest = matches!(command.partitions, PartitionSelection::Keys(_));
        let mut missing = required.clone();
        let (chosen, spare): (Vec<_>, Vec<_>) =
            candidates.into_iter().partition(|node| missing.take_one(&node.datacenter));
        let first: Option<&Arc<Node>> = chosen.first().copied();
        let ask = |node: &'a Arc<Node>| {
            let asking = match has_digest && !first.is_some_and(|first| Arc::ptr_eq(first, node)) {
                true => Asking::Digest(node.replica.read_digest(&request)),
                false => Asking::Data(node.replica.read_data(&request)),
            };
            (node, asking)
        };
        // This node may answer at once, which takes its time: meanwhile the others are at work.
        let is_other = |node: &&Arc<Node>| node.replica.as_local().is_none();
        let others = chosen.iter().copied().filter(is_other);
        let own = chosen.iter().copied().filter(|node| !is_other(node));
        let waiting = others.chain(own).map(ask).collect();
        let (missing, answers) = (required.clone(), Vec::new());
        let (failures, cause, asked_at_nanos) = (0, None, now_nanos);
        let terms = Terms { request, consistency, required };
        Ok(Asked { terms, missing, waiting, answers, spare, failures, cause, asked_at_nanos })
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Waits until as many have answered as must.
    ///
    /// # Errors
    /// `ReadFailure`, `ReadTimeout`, `Overloaded`.
    pub(super) async fn answered(&mut self, coordinator: &Coordinator) -> Result<(), CoordinatorError> {
        let mut alarm = None;
        poll_fn(|cx| {
            let polled = self.poll(cx);
            if polled.is_ready() || self.spare.is_empty() {
                return polled;
            }
            let alarm = alarm.get_or_insert_with(|| self.alarm(coordinator));
            match alarm.as_mut().map(|alarm| alarm.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => {
                    *alarm = None;
                    self.ask_one_more(&self.missing.clone());
                    self.poll(cx)
                }
                Some(Poll::Pending) | None => polled,
            }
        })
        .await?;
        let nanos = coordinator.env.clock.monotonic_nanos().saturating_sub(self.asked_at_nanos);
        coordinator.latencies.add(self.terms.request.command.table.id, nanos);
        Ok(())
    }

    /// Rings when it is time to ask one more; `None` if it never is.
    fn alarm(&self, coordinator: &Coordinator) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let table = &self.terms.request.command.table;
        let half = self.terms.request.deadline.as_ref().map(|deadline| deadline.left() / 2);
        let percentile = |percent| coordinator.latencies.percentile(table.id, percent).or(half);
        let patience = patience(&table.options.speculative_retry, percentile)?;
        let waited = coordinator.env.clock.monotonic_nanos().saturating_sub(self.asked_at_nanos);
        let left = patience.saturating_sub(Duration::from_nanos(waited));
        let tasks = coordinator.env.tasks.clone();
        Some(Box::pin(async move {
            if !left.is_zero() {
                tasks.sleep(left).await;
            }
        }))
    }

    /// Asks a replica besides that counts for what is `missing`, if there is one.
    fn ask_one_more(&mut self, missing: &Required) {
        let counts = |node: &&Arc<Node>| missing.clone().take_one(&node.datacenter);
        if let Some(at) = self.spare.iter().position(counts) {
            let node = self.spare.remove(at);
            self.waiting.push((node, Asking::Data(node.replica.read_data(&self.terms.request))));
        }
    }

    /// What is missing when all have answered that were asked.
    fn missing_besides_waiting(&self) -> Required {
        let mut missing = self.missing.clone();
        for (node, _) in &self.waiting {
            missing.take_one(&node.datacenter);
        }
        missing
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CoordinatorError>> {
        let mut at = 0;
        while let Some((node, asking)) = self.waiting.get_mut(at) {
            let Poll::Ready(outcome) = asking.poll(cx) else {
                at += 1;
                continue;
            };
            let node = *node;
            self.waiting.swap_remove(at);
            match outcome {
                Ok(said) => {
                    self.missing.take_one(&node.datacenter);
                    self.answers.push((node, said));
                }
                Err(error) => {
                    self.failures += 1;
                    self.cause.get_or_insert(error);
                    self.ask_one_more(&self.missing_besides_waiting());
                }
            }
        }
        if self.missing.count() == 0 {
            return Poll::Ready(Ok(()));
        }
        match self.cause.take_if(|_| self.waiting.is_empty()) {
            Some(cause) => {
                let received = self.answers.len() as u32;
                Poll::Ready(Err(self.terms.failed(received, self.failures, cause)))
            }
            None => Poll::Pending,
        }
    }

    /// The answer of all, where they agree. One that was to answer alone has its own filter and limits, and
    /// is compared with no other.
    pub(super) fn agreed(&mut self) -> Option<Recording> {
        let command = &self.terms.request.command;
        let is_data = |(_, said): &(_, Said)| matches!(said, Said::Data(_));
        let is_alone = !command.row_filter.is_empty() && self.terms.required.count() == 1;
        if let [first, others @ ..] = self.answers.as_slice()
            && !others.is_empty()
            && !is_alone
        {
            let digest = |(_, said): &(_, Said)| match said {
                Said::Data(recording) => recording.digest(command),
                Said::Digest(digest) => *digest,
            };
            let agreed = digest(first);
            if others.iter().any(|other| digest(other) != agreed) {
                return None;
            }
        }
        let at = self.answers.iter().position(is_data)?;
        match self.answers.swap_remove(at) {
            (_, Said::Data(recording)) => Some(recording),
            (_, Said::Digest(_)) => None,
        }
    }

    /// Asks those for the data that have answered with a digest.
    pub(super) fn ask_for_data(&mut self) {
        self.missing = self.terms.required.clone();
        // Who is late with a digest can be asked for the data where another fails.
        let late = self.waiting.extract_if(.., |(_, asking)| matches!(asking, Asking::Digest(_)));
        self.spare.extend(late.map(|(node, _)| node));
        for (node, said) in std::mem::take(&mut self.answers) {
            match said {
                Said::Data(_) => {
                    self.missing.take_one(&node.datacenter);
                    self.answers.push((node, said));
                }
                Said::Digest(_) => {
                    self.waiting.push((node, Asking::Data(node.replica.read_data(&self.terms.request))));
                }
            }
        }
    }

    /// The data that have come.
    pub(super) fn into_data(self) -> (Terms, DataOf<'a>) {
        let data = self.answers.into_iter().filter_map(|(node, said)| match said {
            Said::Data(recording) => Some((node, recording)),
            Said::Digest(_) => None,
        });
        (self.terms, data.collect())
    }
}
