//! How often each partition came, in bounded memory: space-saving of Metwally, Agrawal and El Abbadi
//! ("Efficient Computation of Frequent and Top-k Elements in Data Streams", 2005), as Cassandra's
//! `FrequencySampler` has it.
//!
//! A partition for which there is no room takes the place and the count of the rarest one. So a count is too
//! large by at most its error.

use model::PartitionKey;
use std::collections::{BTreeSet, HashMap};

/// Counts of the most frequent partitions.
#[derive(Debug)]
pub(super) struct Frequencies {
    capacity: usize,
    /// Count and error of each.
    counts: HashMap<PartitionKey, (u64, u64)>,
    /// The same by count.
    order: BTreeSet<(u64, PartitionKey)>,
}

impl Frequencies {
    /// Keeps `capacity` partitions, one at least.
    pub(super) fn new(capacity: usize) -> Frequencies {
        Frequencies { capacity: capacity.max(1), counts: HashMap::new(), order: BTreeSet::new() }
    }

    /// Counts a partition.
    pub(super) fn count(&mut self, key: &PartitionKey) {
        if let Some((count, _)) = self.counts.get_mut(key) {
            let before = (*count, key.clone());
            *count += 1;
            let after = *count;
            if let Some((_, key)) = self.order.take(&before) {
                self.order.insert((after, key));
            }
            return;
        }
        let rarest = if self.counts.len() < self.capacity { None } else { self.order.pop_first() };
        let error = rarest.map_or(0, |(count, key)| {
            self.counts.remove(&key);
            count
        });
        let key = super::owned(key);
        self.counts.insert(key.clone(), (error + 1, error));
        self.order.insert((error + 1, key));
    }

    /// Partitions with their counts and errors, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (&PartitionKey, u64, u64)> {
        self.counts.iter().map(|(key, (count, error))| (key, *count, *error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(k: u32) -> PartitionKey {
        PartitionKey(k.to_be_bytes().to_vec().into())
    }

    #[test]
    fn frequent_partitions_stay_and_counts_are_right_within_their_errors() {
        let mut found = Frequencies::new(20);
        let mut truth: HashMap<PartitionKey, u64> = HashMap::new();
        for round in 0..2_000u32 {
            for k in [round % 3, 100 + round % 400] {
                found.count(&key(k));
                *truth.entry(key(k)).or_default() += 1;
            }
        }
        assert_eq!((found.counts.len(), found.order.len()), (20, 20));
        for (key, count, error) in found.all() {
            assert!((count - error..=count).contains(&truth[key]), "{key:?}: {count} {error}");
        }
        assert!((0..3).all(|k| found.counts.contains_key(&key(k))));
    }
}
