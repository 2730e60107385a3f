//! The partitions of a memtable in the order of their keys, found and added by many threads at once.
//!
//! ```text
//! ring of tokens   |  shard 0  |  shard 1  | ... |  shard 63  |
//! shard            RwLock { BTreeMap: DecoratedKey -> Arc<MemPartition> }
//! ```
//!
//! 1. Tokens are spread evenly over the ring, so shards have about the same number of partitions, and their
//!    order is the order of the ring.
//! 2. A shard's lock is held for a search or an insertion, never while a partition is read or changed: that
//!    happens on the handle, under the partition's own lock.
//! 3. Partitions are never removed, but all at once, when nobody reads them any more.
//!
//! A search in a B-tree touches a few wide nodes; in a skip list, at each of its levels, nodes that lie
//! anywhere in memory.

use super::partition::MemPartition;
use env::sync::RwLock;
use model::{DecoratedKey, PartitionKey, Token};
use std::collections::BTreeMap;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many rows, or partitions with none, are freed in one turn.
pub(super) const FREED_ROWS: usize = 64;

/// Shards are told by so many of a token's highest bits.
const SHARD_BITS: u32 = 6;

type Shard = RwLock<BTreeMap<DecoratedKey, Arc<MemPartition>>>;

/// See the top of the module.
#[derive(Debug)]
pub(super) struct Partitions {
    shards: [Shard; 1 << SHARD_BITS],
    len: AtomicUsize,
}

impl Partitions {
    pub(super) fn new() -> Partitions {
        Partitions { shards: std::array::from_fn(|_| Shard::default()), len: AtomicUsize::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The partition of a key.
    pub(super) fn get(&self, key: &DecoratedKey) -> Option<Arc<MemPartition>> {
        self.shard(key.token).read().get(key).cloned()
    }

    /// The partition of a key, which may just have been added, and whether it was. The key is copied then: it
    /// may be a part of a larger buffer.
    pub(super) fn get_or_add(&self, key: &DecoratedKey) -> (Arc<MemPartition>, bool) {
        if let Some(partition) = self.get(key) {
            return (partition, false);
        }
        let own =
            DecoratedKey { token: key.token, key: PartitionKey(bytes::Bytes::copy_from_slice(&key.key.0)) };
        let mut is_new = false;
        let mut shard = self.shard(key.token).write();
        // Another writer may have come first.
        let partition = shard.entry(own).or_insert_with(|| {
            is_new = true;
            Arc::default()
        });
        let partition = Arc::clone(partition);
        drop(shard);
        self.len.fetch_add(usize::from(is_new), Ordering::AcqRel);
        (partition, is_new)
    }

    /// The first partition from a bound on.
    pub(super) fn first_from(
        &self,
        start: Bound<&DecoratedKey>,
    ) -> Option<(DecoratedKey, Arc<MemPartition>)> {
        let first = match start {
            Bound::Included(key) | Bound::Excluded(key) => index(key.token),
            Bound::Unbounded => 0,
        };
        self.shards.iter().skip(first).find_map(|shard| {
            let shard = shard.read();
            let (key, partition) = shard.range::<DecoratedKey, _>((start, Bound::Unbounded)).next()?;
            Some((key.clone(), Arc::clone(partition)))
        })
    }

    /// Frees what they hold, and calls `pause` after each piece of that work.
    pub(super) fn free(&mut self, mut pause: impl FnMut()) {
        *self.len.get_mut() = 0;
        let mut freed = 0;
        for shard in &mut self.shards {
            for (_, partition) in mem::take(shard.get_mut()) {
                // Who reads it still frees it.
                freed += 1 + Arc::into_inner(partition).map_or(0, |partition| partition.free(&mut pause));
                if freed >= FREED_ROWS {
                    freed = 0;
                    pause();
                }
            }
        }
    }

    fn shard(&self, token: Token) -> &Shard {
        &self.shards[index(token)]
    }
}

/// The shard of a token: negative tokens come first.
fn index(token: Token) -> usize {
    let from_the_start = token.0.cast_unsigned() ^ (1 << 63);
    (from_the_start >> (u64::BITS - SHARD_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(token: i64) -> DecoratedKey {
        DecoratedKey { token: Token(token), key: PartitionKey(bytes::Bytes::from_static(b"k")) }
    }

    fn tokens_from(partitions: &Partitions, start: Bound<&DecoratedKey>) -> Vec<i64> {
        let mut found = Vec::new();
        let mut next = partitions.first_from(start);
        while let Some((key, _)) = next {
            found.push(key.token.0);
            next = partitions.first_from(Bound::Excluded(&key));
        }
        found
    }

    #[test]
    fn shards_are_in_the_order_of_the_ring() {
        assert_eq!((index(Token(i64::MIN)), index(Token(i64::MAX))), (0, 63));
        assert_eq!((index(Token(-1)), index(Token(0))), (31, 32));
    }

    #[test]
    fn partitions_are_found_and_follow_each_other() {
        let partitions = Partitions::new();
        let step = i64::MAX / 100;
        let mut tokens: Vec<i64> =
            (-100..=100).map(|i| i * step).chain([i64::MIN, i64::MAX, 1, 2, -1]).collect();
        for token in &tokens {
            assert!(partitions.get(&key(*token)).is_none());
            assert!(partitions.get_or_add(&key(*token)).1);
            assert!(!partitions.get_or_add(&key(*token)).1);
        }
        tokens.sort_unstable();
        assert_eq!(partitions.len(), tokens.len());
        assert_eq!(tokens_from(&partitions, Bound::Unbounded), tokens);
        for (at, token) in tokens.iter().enumerate() {
            let key = key(*token);
            assert!(partitions.get(&key).is_some());
            assert_eq!(tokens_from(&partitions, Bound::Included(&key)), tokens[at..]);
            assert_eq!(tokens_from(&partitions, Bound::Excluded(&key)), tokens[at + 1..]);
        }
    }

    #[test]
    fn writers_that_meet_get_one_partition() {
        let partitions = Partitions::new();
        let added: usize = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| (0..2_000).filter(|t| partitions.get_or_add(&key(t << 52)).1).count())
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        assert_eq!((added, partitions.len()), (2_000, 2_000));
    }
}
