//! What a table holds of a part of the ring, estimated from its SSTables: memtables do not count, as in
//! Cassandra (`SizeEstimatesRecorder`).

use super::TableStore;
use model::key::KeyRange;
use partition::{ReadContext, ReadError};

/// What lies in a part of the ring, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeEstimate {
    /// Partitions; one that is in several SSTables counts several times.
    pub partitions: u64,
    /// Bytes of a partition before compression, on average over the SSTables that reach into the range.
    pub partition_bytes_mean: u64,
}

impl TableStore {
    /// What the SSTables hold of `range`.
    ///
    /// # Errors
    /// When an index cannot be read.
    pub fn estimate(&self, range: &KeyRange) -> Result<RangeEstimate, ReadError> {
        let (schema, view) = (self.schema(), self.view());
        let context = ReadContext { fill_cache: false, ..ReadContext::default() };
        let (mut out, mut bytes, mut counted) = (RangeEstimate::default(), 0, 0);
        for sstable in view.sstables.iter().filter(|sstable| sstable.overlaps(range)) {
            out.partitions += sstable.estimated_partitions_in(range, &schema, &context)?;
            let sizes = &sstable.stats().partition_sizes;
            let count = sizes.count().max(0) as u64;
            bytes += sizes.mean().ceil() as u64 * count;
            counted += count;
        }
        out.partition_bytes_mean = bytes.checked_div(counted).unwrap_or(0);
        Ok(out)
    }
}
