//! Writes: every replica gets the mutation, as many as the consistency level wants must acknowledge it.
//!
//! Replicas that are dead, fail, or are late are told to [`Hints`], who keeps the mutation for them. So are
//! those that were not waited for, because another write has failed or the client is gone.
//!
//! With ANY a hint that is kept counts as an acknowledgement (`StorageProxy.mutate` of Cassandra): at once
//! for a replica that is dead, and for one that has failed where no other can come any more.
//!
//! Another data center gets a mutation once, however many of its nodes hold it: one of them, drawn anew for
//! each write, passes it on. All of them answer to this node (`StorageProxy.sendMessagesToNonlocalDC` of
//! Cassandra 4.0).

use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::paxos::Proposal;
use crate::placement::{Placement, WritePlan};
use crate::replica::{Answer, Replica, ReplicaError};
use crate::strategy::Required;
use crate::topology::{Node, Parts, unplaced};
use env::random::Random;
use model::command::PartitionSelection;
use model::{Consistency, Mutation, TableSchema, WriteType};
use partition::Deadline;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use uuid::Uuid;

impl Coordinator {
    /// Writes mutations that need not be kept together. A serial level asks for as many replicas as a quorum:
    /// who may use it is for callers to say.
    ///
    /// # Errors
    /// `Unavailable`, `WriteFailure`, `WriteTimeout`. After an error each
    /// mutation may have been kept or not.
    pub async fn write(
        &self,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        write_type: WriteType,
        deadline: Option<&Deadline>,
    ) -> Result<(), CoordinatorError> {
        let refused = |block_for, failed| failed_write(failed, consistency, block_for, write_type);
        let mut placed = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            placed.push((self.placement_of(&mutation)?, Arc::new(mutation)));
        }
        if let [(placement, mutation)] = placed.as_slice()
            && let Some(only) = placement.only_one(consistency)
            && only.replica.as_local().is_some()
        {
            let kept = only.replica.mutate(Arc::clone(mutation), deadline).await;
            return kept.map_err(|cause| refused(1, Failed { received: 0, failures: 1, cause }));
        }
        // Nothing is sent before all of it is known to be possible.
        let mut sent = Vec::with_capacity(placed.len());
        for (placement, mutation) in &placed {
            sent.push(Sent::new(mutation, self.hints.as_ref(), placement.for_write(consistency)?));
        }
        for (write, (placement, _)) in sent.iter_mut().zip(&placed) {
            write.send_mutation(placement.local_datacenter(), &self.env.random, deadline);
        }
        sent.iter().try_for_each(Sent::check_reachable)?;
        for mut write in sent {
            let block_for = write.missing.count();
            poll_fn(|cx| write.poll(cx)).await.map_err(|failed| refused(block_for, failed))?;
        }
        Ok(())
    }

    /// Writes totals of counters that this node leads. It keeps them itself before anybody else hears of
    /// them: its next total is one more than what it finds here, with a later clock. Had others acknowledged
    /// a total that a loss of power takes from this node, that next one would take it from them too.
    ///
    /// # Errors
    /// Those of [`Coordinator::write`].
    pub(crate) async fn write_totals(
        &self,
        mutations: Vec<Mutation>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
    ) -> Result<(), CoordinatorError> {
        let refused = |block_for, failed| failed_write(failed, consistency, block_for, WriteType::Counter);
        let mut placed = Vec::with_capacity(mutations.len());
        for mutation in mutations {
            let placement = self.placement_of(&mutation)?;
            let block_for = placement.for_write(consistency)?.required.count();
            placed.push((placement, Arc::new(mutation), block_for));
        }
        for (_, mutation, block_for) in &placed {
            let kept = self.local.mutate(Arc::clone(mutation), deadline).await;
            kept.map_err(|cause| refused(*block_for, Failed { received: 0, failures: 1, cause }))?;
        }
        let mut sent = Vec::with_capacity(placed.len());
        for (placement, mutation, _) in &placed {
            sent.push(Sent::new(mutation, self.hints.as_ref(), placement.for_write(consistency)?));
        }
        for write in &mut sent {
            write.send(|replica, mutation| match replica.as_local() {
                Some(_) => Answer::ready(Ok(())),
                None => replica.mutate(Arc::clone(mutation), deadline),
            });
        }
        for mut write in sent {
            let block_for = write.missing.count();
            poll_fn(|cx| write.poll(cx)).await.map_err(|failed| refused(block_for, failed))?;
        }
        Ok(())
    }

    /// Writes what was decided.
    ///
    /// # Errors
    /// `Unavailable`, `WriteFailure`, `WriteTimeout`. It stands all the same.
    pub(crate) async fn commit(
        &self,
        placement: &Placement,
        decided: &Proposal,
        consistency: Consistency,
        deadline: Option<&Deadline>,
    ) -> Result<(), CoordinatorError> {
        let mutation = Arc::new(decided.mutation());
        let mut write = Sent::new(&mutation, self.hints.as_ref(), placement.for_write(consistency)?);
        let block_for = write.missing.count();
        write.send(|replica, _| replica.commit(decided.clone(), deadline));
        write.check_reachable()?;
        let outcome = poll_fn(|cx| write.poll(cx)).await;
        outcome.map_err(|failed| failed_write(failed, consistency, block_for, WriteType::Simple))
    }

    /// Empties a table everywhere.
    ///
    /// # Errors
    /// `Truncate` unless all replicas are alive and none fails.
    pub async fn truncate(&self, table: Arc<TableSchema>) -> Result<(), CoordinatorError> {
        let everything = PartitionSelection::Range(model::key::KeyRange::FULL);
        let parts = self
            .topology
            .split(&table.keyspace, &everything)
            .ok_or_else(|| unplaced(&*self.topology, &table.keyspace))?;
        let placements = match parts {
            Parts::Whole(placement) => vec![placement],
            Parts::Several(parts) => parts.into_iter().map(|part| part.placement).collect(),
        };
        for placement in &placements {
            let required = placement.replicas().len() as u32;
            let alive = placement.replicas().iter().filter(|node| node.is_alive()).count() as u32;
            // Who is dead would bring its rows back.
            if alive < required {
                let consistency = Consistency::All;
                let lack = CoordinatorError::Unavailable { consistency, datacenter: None, required, alive };
                return Err(CoordinatorError::Truncate(ReplicaError::Write(lack.to_string())));
            }
        }
        // A node holds several parts of the ring, and is emptied once. All of them are asked at once.
        let nodes = placements.iter().flat_map(|placement| placement.replicas());
        let nodes: BTreeMap<Uuid, &Arc<Node>> = nodes.map(|node| (node.id, node)).collect();
        let ask = |node: &Arc<Node>| node.replica.truncate(Arc::clone(&table));
        let answers: Vec<Answer<()>> = nodes.into_values().map(ask).collect();
        for answer in answers {
            answer.await.map_err(CoordinatorError::Truncate)?;
        }
        Ok(())
    }

    pub(crate) fn placement_of(&self, mutation: &Mutation) -> Result<Arc<Placement>, CoordinatorError> {
        let update = mutation
            .updates
            .first()
            .ok_or_else(|| CoordinatorError::Internal("a mutation without updates".to_owned()))?;
        let keyspace = &update.table.keyspace;
        self.topology.placement(keyspace, &update.key).ok_or_else(|| unplaced(&*self.topology, keyspace))
    }
}

/// Who keeps writes for replicas that do not have them. Each replica of a write is told of once, unless it
/// has acknowledged.
pub trait Hints: Send + Sync {
    /// A replica was not alive. Whether the mutation is kept for it.
    fn missed(&self, node: &Arc<Node>, mutation: &Arc<Mutation>) -> bool;

    /// A replica has not answered yet, and is not waited for any more. When `answer` comes and is good,
    /// nothing has to be kept.
    fn late(&self, node: &Arc<Node>, mutation: &Arc<Mutation>, answer: Answer<()>);

    /// A replica has failed, or said at the deadline that it has not kept the write. Whether the mutation is
    /// kept for it.
    fn failed(&self, node: &Arc<Node>, mutation: &Arc<Mutation>, error: &ReplicaError) -> bool;
}

/// Nobody: what a replica missed is repaired when it is read.
#[derive(Clone, Copy, Debug)]
pub struct NoHints;

impl Hints for NoHints {
    fn missed(&self, _: &Arc<Node>, _: &Arc<Mutation>) -> bool {
        false
    }

    fn late(&self, _: &Arc<Node>, _: &Arc<Mutation>, _: Answer<()>) {}

    fn failed(&self, _: &Arc<Node>, _: &Arc<Mutation>, _: &ReplicaError) -> bool {
        false
    }
}

/// Replicas, and the answers that have not come yet.
type Waiting<'a> = SmallVec<[(&'a Arc<Node>, Option<Answer<()>>); 3]>;

/// A mutation on its way.
struct Sent<'a> {
    mutation: &'a Arc<Mutation>,
    hints: &'a dyn Hints,
    waiting: Waiting<'a>,
    /// Acknowledgements that are missing.
    missing: Required,
    received: u32,
    failures: u32,
    /// The first failure.
    cause: Option<ReplicaError>,
    /// Whether hints count.
    counts_hints: bool,
    /// Whether one was kept for a replica that has failed.
    is_hinted: bool,
}

/// Too few acknowledgements.
pub(crate) struct Failed {
    pub(crate) received: u32,
    pub(crate) failures: u32,
    pub(crate) cause: ReplicaError,
}

/// Too few acknowledgements, as the error of the request.
pub(crate) fn failed_write(
    failed: Failed,
    consistency: Consistency,
    block_for: u32,
    write_type: WriteType,
) -> CoordinatorError {
    let Failed { received, failures, cause } = failed;
    match cause {
        ReplicaError::TimedOut => {
            CoordinatorError::WriteTimeout { consistency, received, block_for, write_type }
        }
        ReplicaError::Overloaded(message) => CoordinatorError::Overloaded(message),
        ReplicaError::TooLarge(message) => CoordinatorError::Invalid(message),
        cause => {
            CoordinatorError::WriteFailure { consistency, received, block_for, failures, write_type, cause }
        }
    }
}

impl<'a> Sent<'a> {
    fn new(mutation: &'a Arc<Mutation>, hints: &'a dyn Hints, plan: WritePlan<'a>) -> Sent<'a> {
        let waiting = plan.targets.into_iter().map(|node| (node, None)).collect();
        let (missing, received, failures, cause) = (plan.required, 0, 0, None);
        let counts_hints = plan.counts_hints;
        Sent { mutation, hints, waiting, missing, received, failures, cause, counts_hints, is_hinted: false }
    }

    /// A replica is dead.
    fn missed(&mut self, node: &Arc<Node>) {
        let is_kept = self.hints.missed(node, self.mutation);
        if is_kept && self.counts_hints {
            self.received += u32::from(self.missing.take_one(&node.datacenter));
        }
    }

    /// Where nobody was asked, and nothing is kept for anybody, no acknowledgement can come.
    fn check_reachable(&self) -> Result<(), CoordinatorError> {
        let required = self.missing.count();
        if !self.counts_hints || required == 0 || self.waiting.iter().any(|(_, answer)| answer.is_some()) {
            return Ok(());
        }
        let (consistency, datacenter, alive) = (Consistency::Any, None, self.received);
        Err(CoordinatorError::Unavailable { consistency, datacenter, required: required + alive, alive })
    }

    fn send(&mut self, send: impl Fn(&dyn Replica, &Arc<Mutation>) -> Answer<()>) {
        for at in 0..self.waiting.len() {
            let Some(&(node, _)) = self.waiting.get(at) else { continue };
            match node.is_alive() {
                true => self.answered(at, send(&*node.replica, self.mutation)),
                false => self.missed(node),
            }
        }
    }

    /// Sends the mutation itself: to nodes of the local data center and to one node of each other.
    fn send_mutation(&mut self, local: &str, random: &Random, deadline: Option<&Deadline>) {
        let mutation = self.mutation;
        for at in 0..self.waiting.len() {
            let Some(&(node, None)) = self.waiting.get(at) else { continue };
            if !node.is_alive() {
                self.missed(node);
                continue;
            }
            if &*node.datacenter == local {
                let answer = node.replica.mutate(Arc::clone(mutation), deadline);
                self.answered(at, answer);
                continue;
            }
            let datacenter = &node.datacenter;
            let is_among = |(node, answer): &(&Arc<Node>, Option<_>)| {
                answer.is_none() && node.datacenter == *datacenter && node.is_alive()
            };
            // This one was alive a moment ago, whatever is known by now.
            let rest = self.waiting.iter().enumerate().skip(at);
            let mut group: SmallVec<[(usize, &Arc<Node>); 3]> = rest
                .filter(|(other, waiting)| *other == at || is_among(waiting))
                .map(|(at, (node, _))| (at, *node))
                .collect();
            // It has at least this one, so what is drawn lies below its length.
            let drawn = random.below(group.len() as u64) as usize;
            group.rotate_left(drawn);
            let Some(((_, first), others)) = group.split_first() else { continue };
            let others: SmallVec<[&dyn Replica; 3]> = others.iter().map(|(_, node)| &*node.replica).collect();
            let answers = first.replica.mutate_and_pass_on(&others, mutation, deadline);
            for ((at, _), answer) in group.into_iter().zip(answers) {
                self.answered(at, answer);
            }
        }
    }

    fn answered(&mut self, at: usize, answer: Answer<()>) {
        if let Some((_, slot)) = self.waiting.get_mut(at) {
            *slot = Some(answer);
        }
    }

    /// Waits until as many replicas acknowledged as must, or so many failed that they cannot any more.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        for (node, slot) in &mut self.waiting {
            let Some(answer) = slot else { continue };
            match Pin::new(answer).poll(cx) {
                Poll::Pending => continue,
                Poll::Ready(Ok(())) => self.received += u32::from(self.missing.take_one(&node.datacenter)),
                Poll::Ready(Err(error)) => {
                    self.failures += u32::from(self.missing.counts(&node.datacenter));
                    self.is_hinted |= self.hints.failed(node, self.mutation, &error);
                    self.cause.get_or_insert(error);
                }
            }
            *slot = None;
        }
        if self.missing.count() == 0 {
            return Poll::Ready(Ok(()));
        }
        let mut possible = self.missing.clone();
        for (node, answer) in &self.waiting {
            if answer.is_some() {
                possible.take_one(&node.datacenter);
            }
        }
        match &self.cause {
            Some(_) if possible.count() > 0 && self.counts_hints && self.is_hinted => Poll::Ready(Ok(())),
            Some(cause) if possible.count() > 0 => Poll::Ready(Err(Failed {
                received: self.received,
                failures: self.failures,
                cause: cause.clone(),
            })),
            _ => Poll::Pending,
        }
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        for (node, answer) in self.waiting.drain(..) {
            match answer {
                // What is there was not looked at, because another write has failed before.
                None | Some(Answer::Ready(None | Some(Ok(())))) => {}
                Some(Answer::Ready(Some(Err(error)))) => {
                    self.hints.failed(node, self.mutation, &error);
                }
                Some(later) => self.hints.late(node, self.mutation, later),
            }
        }
    }
}
