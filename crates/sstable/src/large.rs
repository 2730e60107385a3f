//! Partitions that are large: whoever writes an SSTable is told of them.

use model::DecoratedKey;

/// From which size on a partition is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeFrom {
    /// Bytes before compression.
    pub bytes: u64,
    /// Tombstones: deletions of the partition, its ranges and rows, and cells without a value.
    pub tombstones: u64,
}

impl LargeFrom {
    /// No partition is.
    pub const NEVER: LargeFrom = LargeFrom { bytes: u64::MAX, tombstones: u64::MAX };
}

/// A partition that was written and is large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargePartition {
    /// Its key.
    pub key: DecoratedKey,
    /// Bytes before compression.
    pub bytes: u64,
    /// Its tombstones.
    pub tombstones: u64,
}

/// The first large partitions of an SSTable; of the others only their number is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LargePartitions {
    /// The first ones, in the order of the ring.
    pub first: Vec<LargePartition>,
    /// How many there are besides.
    pub others: u64,
}

impl LargePartitions {
    const FIRST_MAX: usize = 100;

    /// Keeps a partition if it is large.
    pub(crate) fn see(&mut self, from: LargeFrom, key: &DecoratedKey, bytes: u64, tombstones: u64) {
        if bytes < from.bytes && tombstones < from.tombstones {
            return;
        }
        if self.first.len() < Self::FIRST_MAX {
            self.first.push(LargePartition { key: key.clone(), bytes, tombstones });
        } else {
            self.others += 1;
        }
    }
}
