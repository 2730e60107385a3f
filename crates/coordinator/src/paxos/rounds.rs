//! The rounds of a coordinator: see the top of [`super`].

use super::{Ballot, Promise, Proposal};
use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::placement::{Placement, WritePlan};
use crate::replica::{Answer, Replica};
use crate::strategy::Required;
use crate::topology::Node;
use model::Consistency;
use model::WriteType;
use model::{DecoratedKey, TableSchema};
use partition::Deadline;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

/// The longest wait of who was overtaken, in milliseconds.
const PAUSE_MILLIS_MAX: u64 = 100;

/// What rounds are about, and until when.
pub(crate) struct Round<'a> {
    pub(crate) coordinator: &'a Coordinator,
    pub(crate) placement: &'a Placement,
    pub(crate) table: &'a Arc<TableSchema>,
    pub(crate) key: &'a DecoratedKey,
    /// `Serial`, or `LocalSerial` where the data center of this node decides alone.
    pub(crate) serial: Consistency,
    /// Until when it may be overtaken.
    pub(crate) contention: Option<&'a Deadline>,
    /// Until when somebody waits for what was decided.
    pub(crate) write: Option<&'a Deadline>,
    /// How often it was overtaken.
    pub(crate) contentions: &'a AtomicU32,
}

/// What the participants have answered.
struct Votes<'a, T> {
    answers: Vec<(&'a Arc<Node>, T)>,
    /// Whether as many were in favour as must be.
    is_enough: bool,
    failures: u32,
}

impl<'a> Round<'a> {
    /// The level at which what is decided has to be read, and finished for others.
    pub(crate) fn quorum(serial: Consistency) -> Consistency {
        if serial == Consistency::LocalSerial { Consistency::LocalQuorum } else { Consistency::Quorum }
    }

    /// A ballot that a quorum has promised, with all before it finished.
    ///
    /// # Errors
    /// `Unavailable`, `CasTimeout`.
    pub(crate) async fn begin(&self) -> Result<Ballot, CoordinatorError> {
        let mut later_than = i64::MIN;
        loop {
            let ballot = self.coordinator.next_ballot(later_than);
            let request = Proposal::empty(ballot, self.table, self.key);
            let prepare = |replica: &dyn Replica| replica.prepare(request.clone(), self.contention);
            let promises = self.ask(prepare, |promise| promise.is_promised, |_| true).await?;
            if !promises.is_enough {
                let refusals = promises.answers.iter().filter(|(_, promise)| !promise.is_promised);
                let overtaken = refusals.map(|(_, promise)| promise.in_progress.ballot.micros()).max();
                later_than = overtaken.ok_or_else(|| self.timed_out())?;
                self.pause().await?;
                continue;
            }
            if self.finished(ballot, &promises.answers).await? {
                return Ok(ballot);
            }
            self.pause().await?;
        }
    }

    /// Finishes what those who promised `ballot` tell of. False when a new ballot is needed after that.
    async fn finished(
        &self,
        ballot: Ballot,
        promises: &[(&Arc<Node>, Promise)],
    ) -> Result<bool, CoordinatorError> {
        let promises = || promises.iter().filter(|(_, promise)| promise.is_promised);
        let latest = |of: fn(&Promise) -> &Proposal| {
            promises().map(|(_, promise)| of(promise)).max_by_key(|proposal| proposal.ballot.micros())
        };
        let committed = latest(|promise| &promise.committed);
        let decided = committed.map_or(Ballot::NONE, |proposal| proposal.ballot);
        let open = latest(|promise| &promise.in_progress);
        if let Some(open) = open.filter(|open| open.ballot.is_after(decided) && !open.update.is_empty()) {
            let open = open.at(ballot);
            if let Ok(true) = self.propose(&open).await {
                let level = Round::quorum(self.serial);
                // Who has not kept it is told once more by the next ballot.
                drop(self.coordinator.commit(self.placement, &open, level, self.write).await);
            }
            return Ok(false);
        }
        let Some(committed) = committed else { return Ok(true) };
        let is_behind = |promise: &Promise| decided.is_after(promise.committed.ballot);
        let behind = promises().filter(|(_, promise)| is_behind(promise));
        let told: Vec<Answer<()>> =
            behind.map(|(node, _)| node.replica.commit(committed.clone(), self.contention)).collect();
        for answer in told {
            if answer.await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a proposal is decided; if not, nobody has accepted it.
    ///
    /// # Errors
    /// `Unavailable`; `WriteTimeout` when it may be decided or not.
    pub(crate) async fn propose(&self, proposal: &Proposal) -> Result<bool, CoordinatorError> {
        let propose = |replica: &dyn Replica| replica.propose(proposal.clone(), self.write);
        let accepted = |votes: &Votes<'_, bool>| {
            votes.answers.iter().filter(|(_, is_accepted)| *is_accepted).count() as u32
        };
        // Unless all have refused, it may be decided by those who have not answered.
        let is_in_doubt = |votes: &Votes<'_, bool>| votes.failures > 0 || accepted(votes) > 0;
        let votes = self.ask(propose, |is_accepted| *is_accepted, is_in_doubt).await?;
        let accepted = accepted(&votes);
        match (votes.is_enough, accepted, votes.failures) {
            (true, ..) => Ok(true),
            (false, 0, 0) => Ok(false),
            _ => Err(CoordinatorError::WriteTimeout {
                consistency: self.serial,
                received: accepted,
                block_for: self.block_for(),
                write_type: WriteType::Cas,
            }),
        }
    }

    /// Takes part in the order of conditional writes without writing: what was decided before is known to a
    /// quorum then.
    ///
    /// # Errors
    /// `Unavailable`, `CasTimeout`, `WriteTimeout`.
    pub(crate) async fn settle(&self) -> Result<(), CoordinatorError> {
        loop {
            let ballot = self.begin().await?;
            if self.propose(&Proposal::empty(ballot, self.table, self.key)).await? {
                return Ok(());
            }
            self.pause().await?;
        }
    }

    /// Waits for a random time.
    ///
    /// # Errors
    /// `CasTimeout` when there is no more.
    pub(crate) async fn pause(&self) -> Result<(), CoordinatorError> {
        let env = &self.coordinator.env;
        self.contentions.fetch_add(1, Ordering::Relaxed);
        let millis = env.random.below(PAUSE_MILLIS_MAX);
        env.tasks.sleep(Duration::from_millis(millis)).await;
        match self.contention.is_some_and(Deadline::is_over) {
            true => Err(self.timed_out()),
            false => Ok(()),
        }
    }

    fn block_for(&self) -> u32 {
        self.placement.for_write(self.serial).map_or(0, |plan| plan.required.count())
    }

    fn timed_out(&self) -> CoordinatorError {
        CoordinatorError::CasTimeout { consistency: self.serial, block_for: self.block_for() }
    }

    /// Asks all participants, and waits until enough are in favour, or all have answered. When enough can be
    /// in favour no more, the wait is over as soon as `is_clear` what follows from that.
    async fn ask<T>(
        &self,
        ask: impl Fn(&dyn Replica) -> Answer<T>,
        is_in_favour: impl Fn(&T) -> bool,
        is_clear: impl Fn(&Votes<'a, T>) -> bool,
    ) -> Result<Votes<'a, T>, CoordinatorError> {
        let WritePlan { targets, required, .. } = self.placement.for_write(self.serial)?;
        let takes_part = |node: &&Arc<Node>| node.is_alive() && required.counts(&node.datacenter);
        let waiting = targets.into_iter().filter(takes_part).map(|node| (node, ask(&*node.replica)));
        let mut waiting: Vec<(&'a Arc<Node>, Answer<T>)> = waiting.collect();
        let mut missing: Required = required.clone();
        let mut votes = Votes { answers: Vec::new(), is_enough: false, failures: 0 };
        poll_fn(|cx| {
            waiting.retain_mut(|(node, answer)| {
                match Pin::new(answer).poll(cx) {
                    Poll::Pending => return true,
                    Poll::Ready(Err(_)) => votes.failures += 1,
                    Poll::Ready(Ok(vote)) => {
                        if is_in_favour(&vote) {
                            missing.take_one(&node.datacenter);
                        }
                        votes.answers.push((node, vote));
                    }
                }
                false
            });
            votes.is_enough = missing.count() == 0;
            let mut possible = missing.clone();
            for (node, _) in &waiting {
                possible.take_one(&node.datacenter);
            }
            let is_lost = waiting.is_empty() || possible.count() > 0 && is_clear(&votes);
            if votes.is_enough || is_lost { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok(votes)
    }
}

impl Coordinator {
    /// A ballot for now, and for after `later_than`, in microseconds, and after everything that was written
    /// here.
    fn next_ballot(&self, later_than: i64) -> Ballot {
        let at_least = self.next_timestamp().max(later_than.saturating_add(1));
        let ballot = Ballot(self.env.time_uuid_from(at_least));
        self.last_timestamp.fetch_max(ballot.micros(), Ordering::SeqCst);
        ballot
    }
}
