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
    /// Of the messages, as they are sent.
    bytes: usize,
    allowance: Arc<Allowance>,
    /// Not later than the first moment at which one expires.
    next_expiry_nanos: u64,
}

impl Queue {
    pub(super) fn new(allowance: Arc<Allowance>) -> Queue {
        Queue { entries: VecDeque::new(), bytes: 0, allowance, next_expiry_nanos: u64::MAX }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of messages, and their bytes.
    pub(super) fn pending(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
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
        let room = self.allowance.take_message(len).or_else(|| {
            self.prune(now_nanos, expired);
            self.allowance.take_message(len)
        });
        let Some(room) = room else { return false };
        self.next_expiry_nanos = self.next_expiry_nanos.min(expires_at_nanos);
        self.bytes += len;
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
        while let Some(entry) = self.entries.front() {
            let is_expired = entry.expires_at_nanos <= now_nanos;
            if !is_expired && taken > 0 && taken + entry.len > bytes {
                break;
            }
            let Some(entry) = self.entries.pop_front() else { break };
            self.bytes -= entry.len;
            if is_expired {
                expired.push(entry);
            } else {
                taken += entry.len;
                batch.push(entry);
            }
        }
        if self.entries.is_empty() {
            self.next_expiry_nanos = u64::MAX;
        }
    }

    /// Takes the next message, if it is one that `fits`.
    pub(super) fn pop_if(&mut self, fits: impl FnOnce(&Entry) -> bool) -> Option<Entry> {
        let entry = self.entries.pop_front_if(|entry| fits(entry))?;
        self.bytes -= entry.len;
        if self.entries.is_empty() {
            self.next_expiry_nanos = u64::MAX;
        }
        Some(entry)
    }

    /// Moves those that expired to `expired`.
    pub(super) fn prune(&mut self, now_nanos: u64, expired: &mut Vec<Entry>) {
        if self.next_expiry_nanos > now_nanos {
            return;
        }
        self.next_expiry_nanos = u64::MAX;
        for entry in std::mem::take(&mut self.entries) {
            if entry.expires_at_nanos <= now_nanos {
                self.bytes -= entry.len;
                expired.push(entry);
            } else {
                self.next_expiry_nanos = self.next_expiry_nanos.min(entry.expires_at_nanos);
                self.entries.push_back(entry);
            }
        }
    }

    /// All of them, which are not sent.
    pub(super) fn drain(&mut self) -> VecDeque<Entry> {
        (self.bytes, self.next_expiry_nanos) = (0, u64::MAX);
        std::mem::take(&mut self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::limits::{Freed, MESSAGE_OVERHEAD_BYTES, Reserve};
    use super::super::super::verb::Verb;
    use super::*;

    /// A queue for so many messages with 100 bytes together.
    fn queue(messages: u64) -> Queue {
        let none = || Reserve::new(0);
        let own_max = 100 + messages * MESSAGE_OVERHEAD_BYTES;
        Queue::new(Allowance::new(own_max, none(), none(), Arc::new(Freed::default())))
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
        let mut queue = queue(2);
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
        let mut queue = queue(2);
        push(&mut queue, 1, 50, 10, 0);
        push(&mut queue, 2, 50, 20, 0);
        assert_eq!(push(&mut queue, 3, 50, 30, 15), (false, vec![1]), "what expired counts until it is told");
        assert_eq!(push(&mut queue, 3, 50, 30, 15), (true, vec![]));
        assert_eq!(queue.pending(), (2, 100));
    }

    #[test]
    fn a_batch_has_the_first_messages_that_did_not_expire() {
        let mut queue = queue(4);
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
        assert_eq!(queue.pending(), (0, 0));
    }

    #[test]
    fn short_messages_count_what_they_take_in_memory() {
        let mut queue = queue(3);
        for id in 1..=3 {
            assert!(push(&mut queue, id, 1, 10, 0).0);
        }
        assert!(!push(&mut queue, 4, 1, 10, 0).0, "though they have three bytes of 100");
    }
}
