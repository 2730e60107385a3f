//! Writes that a node has not acknowledged when nobody waits for it any more.
//!
//! At a quorum of three nodes that is every write. So none of them has a task or a timer of its own, and none
//! wakes a thread: they lie in one queue, which is looked through now and then.

use coordinator::{Answer, Node, ReplicaError};
use env::sync::Mutex;
use model::Mutation;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A write, and the answer of one node that is still to come.
pub(super) struct Late {
    pub(super) node: Arc<Node>,
    pub(super) mutation: Arc<Mutation>,
    /// When it became late, in milliseconds since the epoch.
    pub(super) written_millis: i64,
    pub(super) answer: Answer<()>,
    /// Until when an answer is waited for, on the monotonic clock.
    pub(super) deadline_nanos: u64,
}

impl Late {
    /// The answer, if it is there, or will not be waited for any longer. Nobody is woken when it comes.
    pub(super) fn outcome(&mut self, now_nanos: u64) -> Option<Result<(), ReplicaError>> {
        match Pin::new(&mut self.answer).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => (now_nanos >= self.deadline_nanos).then_some(Err(ReplicaError::TimedOut)),
        }
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct LateWrites {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Late>,
    /// Those that are looked at in this moment.
    taken: usize,
    /// Whether somebody looks after them.
    is_swept: bool,
    /// Nobody looks after any, and none is added.
    is_closed: bool,
}

impl LateWrites {
    /// Adds one. Whether nobody looks after them yet, as the caller then does.
    ///
    /// # Errors
    /// The write, when so many wait that it must not, and after the end.
    pub(super) fn push(&self, late: Late, max: usize) -> Result<bool, Box<Late>> {
        let mut queue = self.queue.lock();
        if queue.is_closed || queue.waiting.len() + queue.taken >= max {
            return Err(Box::new(late));
        }
        queue.waiting.push(late);
        Ok(!std::mem::replace(&mut queue.is_swept, true))
    }

    /// Hands on those that have come to an end. It breaks when there are no others: who adds the next one is
    /// told that nobody looks after it.
    pub(super) fn sweep(
        &self,
        now_nanos: u64,
        mut ended: impl FnMut(&Late, Result<(), ReplicaError>),
    ) -> ControlFlow<()> {
        let mut waiting = {
            let mut queue = self.queue.lock();
            queue.taken = queue.waiting.len();
            std::mem::take(&mut queue.waiting)
        };
        waiting.retain_mut(|late| match late.outcome(now_nanos) {
            Some(outcome) => {
                ended(late, outcome);
                false
            }
            None => true,
        });
        let mut queue = self.queue.lock();
        queue.taken = 0;
        if queue.is_closed {
            drop(queue);
            waiting.iter().for_each(|late| ended(late, Err(ReplicaError::TimedOut)));
            return ControlFlow::Break(());
        }
        queue.waiting.append(&mut waiting);
        queue.is_swept = !queue.waiting.is_empty();
        if queue.is_swept { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Ends it. Those that are left are the caller's. Those that are looked at in this moment come to an end
    /// there.
    pub(super) fn close(&self) -> Vec<Late> {
        let mut queue = self.queue.lock();
        queue.is_closed = true;
        std::mem::take(&mut queue.waiting)
    }
}
