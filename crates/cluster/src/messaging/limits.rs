//! Bytes of messages that may wait, on their way out or in.
//!
//! Each queue has bytes of its own. What it holds beyond them counts against two reserves: one that it shares
//! with the other queues of its peer, and one that all queues of the node share. A message that has no room
//! in both is refused, or waits, before memory is set aside for it.
//!
//! ```text
//!                       own        peer's reserve   node's reserve     of cassandra.yaml
//! send     4 MiB        128 MiB          512 MiB     internode_application_send_queue_*
//! receive  4 MiB        128 MiB          512 MiB     internode_application_receive_queue_*
//! ```
//! Source: `ResourceLimits` and `OutboundConnection` of Cassandra 4.0.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// What a message in memory counts besides its bytes. Without it a queue would hold any number of short
/// ones.
pub(super) const MESSAGE_OVERHEAD_BYTES: u64 = 256;

/// Bounds of what waits in one direction, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBytes {
    /// Of each queue (`_capacity`).
    pub own_max: u64,
    /// Of all queues of a peer beyond their own (`_reserve_endpoint_capacity`).
    pub peer_reserve_max: u64,
    /// Of all queues of the node beyond their own (`_reserve_global_capacity`).
    pub node_reserve_max: u64,
}

impl Default for QueueBytes {
    /// Cassandra's.
    fn default() -> QueueBytes {
        QueueBytes { own_max: 4 << 20, peer_reserve_max: 128 << 20, node_reserve_max: 512 << 20 }
    }
}

impl QueueBytes {
    /// The longest message that has room in an empty queue.
    pub fn message_bytes_max(&self) -> u64 {
        let all = self.own_max.saturating_add(self.peer_reserve_max.min(self.node_reserve_max));
        all.saturating_sub(MESSAGE_OVERHEAD_BYTES)
    }
}

/// Bytes that several queues share.
#[derive(Debug)]
pub(super) struct Reserve {
    used: AtomicU64,
    max: u64,
}

impl Reserve {
    pub(super) fn new(max: u64) -> Arc<Reserve> {
        Arc::new(Reserve { used: AtomicU64::new(0), max })
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::SeqCst)
    }

    fn take(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.max);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
    }
}

/// Tells those who wait for room that there may be some.
#[derive(Debug, Default)]
pub(super) struct Freed {
    waiting: AtomicUsize,
    notify: Notify,
}

/// What one queue may hold.
#[derive(Debug)]
pub(super) struct Allowance {
    used: AtomicU64,
    own_max: u64,
    peer: Arc<Reserve>,
    node: Arc<Reserve>,
    freed: Arc<Freed>,
}

/// Bytes of a queue that are in use until this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    allowance: Arc<Allowance>,
    bytes: u64,
}

impl Allowance {
    pub(super) fn new(
        own_max: u64,
        peer: Arc<Reserve>,
        node: Arc<Reserve>,
        freed: Arc<Freed>,
    ) -> Arc<Allowance> {
        Arc::new(Allowance { used: AtomicU64::new(0), own_max, peer, node, freed })
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::SeqCst)
    }

    /// What of `used` bytes counts against the reserves.
    fn beyond(&self, used: u64) -> u64 {
        used.saturating_sub(self.own_max)
    }

    /// Room for a message of that length, if there is any.
    pub(super) fn take_message(self: &Arc<Self>, len: usize) -> Option<Room> {
        self.take(MESSAGE_OVERHEAD_BYTES.saturating_add(len as u64))
    }

    /// Waits for room for a message of that length.
    pub(super) async fn wait_for_message(self: &Arc<Self>, len: usize) -> Room {
        self.wait(MESSAGE_OVERHEAD_BYTES.saturating_add(len as u64)).await
    }

    fn take(self: &Arc<Self>, bytes: u64) -> Option<Room> {
        let mut used = self.used();
        loop {
            let more = self.beyond(used.saturating_add(bytes)) - self.beyond(used);
            if more > 0 {
                if !self.peer.take(more) {
                    return None;
                }
                if !self.node.take(more) {
                    self.peer.give_back(more);
                    return None;
                }
            }
            let next = used.saturating_add(bytes);
            match self.used.compare_exchange(used, next, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(Room { allowance: Arc::clone(self), bytes }),
                Err(found) => {
                    self.give_back_reserved(more);
                    used = found;
                }
            }
        }
    }

    async fn wait(self: &Arc<Self>, bytes: u64) -> Room {
        let waiting = Waiting::new(&self.freed);
        loop {
            let mut freed = std::pin::pin!(waiting.0.notify.notified());
            // Whoever gives back from here on is heard.
            freed.as_mut().enable();
            match self.take(bytes) {
                Some(room) => return room,
                None => freed.await,
            }
        }
    }

    fn give_back_reserved(&self, bytes: u64) {
        if bytes > 0 {
            self.peer.give_back(bytes);
            self.node.give_back(bytes);
        }
    }
}

/// Counts one who waits.
struct Waiting<'a>(&'a Freed);

impl Waiting<'_> {
    fn new(freed: &Freed) -> Waiting<'_> {
        freed.waiting.fetch_add(1, Ordering::SeqCst);
        Waiting(freed)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let allowance = &self.allowance;
        let before = allowance.used.fetch_sub(self.bytes, Ordering::SeqCst);
        let after = before.saturating_sub(self.bytes);
        allowance.give_back_reserved(allowance.beyond(before) - allowance.beyond(after));
        if allowance.freed.waiting.load(Ordering::SeqCst) > 0 {
            allowance.freed.notify.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::tasks::block_on;
    use proptest::prelude::*;

    fn queues(peer: u64, node: u64) -> (Arc<Allowance>, Arc<Allowance>, Arc<Reserve>) {
        let (peer, node, freed) = (Reserve::new(peer), Reserve::new(node), Arc::new(Freed::default()));
        let queue = || Allowance::new(10, Arc::clone(&peer), Arc::clone(&node), Arc::clone(&freed));
        (queue(), queue(), node)
    }

    #[test]
    fn a_queue_uses_its_own_bytes_before_those_of_the_reserves() {
        let (queue, _, node) = queues(5, 5);
        let own = queue.take(10).unwrap();
        assert_eq!(node.used(), 0);
        let beyond = queue.take(5).unwrap();
        assert_eq!(node.used(), 5);
        assert!(queue.take(1).is_none());
        drop(own);
        assert_eq!((queue.used(), node.used()), (5, 0), "what is left fits into its own");
        drop(beyond);
        assert_eq!(queue.used(), 0);
    }

    #[test]
    fn what_the_node_refuses_does_not_stay_with_the_peer() {
        let (queue, other, _) = queues(100, 5);
        assert!(queue.take(16).is_none());
        assert!(other.take(15).is_some());
        assert!(queue.take(15).is_some());
    }

    #[test]
    fn who_waits_gets_what_another_queue_gives_back() {
        let (queue, other, _) = queues(5, 5);
        let held = other.take(15).unwrap();
        let waiter = Arc::clone(&queue);
        let task =
            env::tasks::Tasks::of_machine().spawn("waits", move || drop(block_on(waiter.wait(15)))).unwrap();
        drop(held);
        task.join();
        assert_eq!(queue.used(), 0);
    }

    proptest! {
        #[test]
        fn everything_is_given_back(steps: Vec<(bool, u8, usize)>) {
            let (queue, other, node) = queues(200, 150);
            let mut rooms = Vec::new();
            for (first, bytes, dropped) in steps {
                rooms.extend(if first { queue.take(bytes.into()) } else { other.take(bytes.into()) });
                if !rooms.is_empty() && dropped % 2 == 0 {
                    rooms.swap_remove(dropped % rooms.len());
                }
                let beyond = queue.beyond(queue.used()) + other.beyond(other.used());
                prop_assert_eq!(node.used(), beyond);
                prop_assert!(beyond <= 150);
            }
            rooms.clear();
            prop_assert_eq!((queue.used(), other.used(), node.used()), (0, 0, 0));
        }
    }
}
