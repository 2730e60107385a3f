//! Messages that wait for one outbound connection, in the order in which they were sent.

use super::super::limits::{Allowance, Room};
use super::super::message::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// A message that waits.
#[derive(Debug)]
pub(super) struct Entry {
    pub message: Message,
    /// Its length as it is sent.
    pub len: usize,
    /// When nobody waits for it any more, on the monotonic clock.
    pub expires_at_nanos: u64,
    /// What it counts until it is written.
    _room: Room,
}

/// A queue, bounded in bytes.
#[derive(Debug)]
pub(super) struct Queue {
    entries: VecDeque<Entry>,
    allowance: Arc<Allowance>,
    /// Not later than the first moment at which one expires.
    next_expiry_nanos: u64,
}

impl Queue {
    pub(super) fn new(allowance: Arc<Allowance>) -> Queue {
        Queue { entries: VecDeque::new(), allowance, next_expiry_nanos: u64::MAX }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of messages, and their bytes.
    pub(super) fn pending(&self) -> (usize, usize) {
        (self.entries.len(), self.entries.iter().map(|entry| entry.len).sum())
    }

    /// Adds a message, if there is room for it. Where there is none, those that expired make room and go to
    /// `expired`.
    pub(super) fn push(
        &mut self,
        message: Message,
        len: usize,
        expires_at_nanos: u64,
        now_nanos: u64,
        expired: &mut Vec<Entry>,
    ) -> bool {
        let room = self.allowance.take(len as u64).or_else(|| {
            self.prune(now_nanos, expired);
            self.allowance.take(len as u64)
        });
        let Some(room) = room else { return false };
        self.next_expiry_nanos = self.next_expiry_nanos.min(expires_at_nanos);
        self.entries.push_back(Entry { message, len, expires_at_nanos, _room: room });
        true
    }

    /// Moves the next messages to `batch`: as many as have `bytes` together, at least one. Those that expired
    /// go to `expired`.
    pub(super) fn pop(
        &mut self,
        bytes: usize,
        now_nanos: u64,
        batch: &mut Vec<Entry>,
        expired: &mut Vec<Entry>,
    ) {
        let mut taken = 0;
        while let Some(entry) = self.entries.pop_front() {
            if entry.expires_at_nanos <= now_nanos {
                expired.push(entry);
                continue;
            }
            if taken > 0 && taken + entry.len > bytes {
                self.entries.push_front(entry);
                break;
            }
            taken += entry.len;
            batch.push(entry);
        }
        if self.entries.is_empty() {
            self.next_expiry_nanos = u64::MAX;
        }
    }

    /// Moves those that expired to `expired`.
    pub(super) fn prune(&mut self, now_nanos: u64, expired: &mut Vec<Entry>) {
        if self.next_expiry_nanos > now_nanos {
            return;
        }
        self.next_expiry_nanos = u64::MAX;
        for entry in std::mem::take(&mut self.entries) {
            if entry.expires_at_nanos <= now_nanos {
                expired.push(entry);
            } else {
                self.next_expiry_nanos = self.next_expiry_nanos.min(entry.expires_at_nanos);
                self.entries.push_back(entry);
            }
        }
    }

    /// All of them, which are not sent.
    pub(super) fn drain(&mut self) -> VecDeque<Entry> {
        self.next_expiry_nanos = u64::MAX;
        std::mem::take(&mut self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::limits::{Freed, Reserve};
    use super::super::super::verb::Verb;
    use super::*;

    /// A queue for 100 bytes.
    fn queue() -> Queue {
        let none = || Reserve::new(0);
        Queue::new(Allowance::new(100, none(), none(), Arc::new(Freed::default())))
    }

    /// Whether a message of that length has room, and who expired meanwhile.
    fn push(queue: &mut Queue, id: u64, len: usize, expires: u64, now: u64) -> (bool, Vec<u64>) {
        let mut expired = Vec::new();
        let message = Message { id, ..Message::new(Verb::EchoReq, "") };
        let has_room = queue.push(message, len, expires, now, &mut expired);
        (has_room, ids(&expired))
    }

    fn ids(entries: &[Entry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.message.id).collect()
    }

    #[test]
    fn a_full_queue_refuses_until_something_is_written() {
        let mut queue = queue();
        assert_eq!(push(&mut queue, 1, 60, 10, 0), (true, vec![]));
        assert_eq!(push(&mut queue, 2, 60, 10, 0), (false, vec![]));
        let (mut batch, mut expired) = (Vec::new(), Vec::new());
        queue.pop(1_000, 0, &mut batch, &mut expired);
        assert_eq!(push(&mut queue, 3, 60, 10, 0), (false, vec![]), "it is written, but not sent");
        batch.clear();
        assert_eq!(push(&mut queue, 4, 60, 10, 0), (true, vec![]));
    }

    #[test]
    fn messages_that_expired_make_room() {
        let mut queue = queue();
        push(&mut queue, 1, 50, 10, 0);
        push(&mut queue, 2, 50, 20, 0);
        assert_eq!(push(&mut queue, 3, 50, 30, 15), (false, vec![1]), "what expired counts until it is told");
        assert_eq!(push(&mut queue, 3, 50, 30, 15), (true, vec![]));
        assert_eq!(queue.pending(), (2, 100));
    }

    #[test]
    fn a_batch_has_the_first_messages_that_did_not_expire() {
        let mut queue = queue();
        for (id, expires) in [(1, 100), (2, 5), (3, 100), (4, 100)] {
            push(&mut queue, id, 25, expires, 0);
        }
        let (mut batch, mut expired) = (Vec::new(), Vec::new());
        queue.pop(60, 10, &mut batch, &mut expired);
        assert_eq!((ids(&batch), ids(&expired)), (vec![1, 3], vec![2]));
        batch.clear();
        queue.pop(1, 10, &mut batch, &mut expired);
        assert_eq!(ids(&batch), [4], "one goes however long it is");
        assert!(queue.is_empty());
    }
}
