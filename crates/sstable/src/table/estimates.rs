//! How many partitions lie in a part of the ring, about: what `system.size_estimates` and
//! `system.table_estimates` are made of, so the figures are Cassandra's
//! (`SSTableReader.estimatedKeysForRanges`).

use super::SsTable;
use crate::index::Index;
use model::TableSchema;
use model::key::{KeyBound, KeyRange};
use partition::{ReadContext, ReadError};
use std::sync::Arc;

impl SsTable {
    /// Partitions in `range`, about, and at least one. Where the index has a summary each of its keys in the
    /// range stands for `min_index_interval` partitions, or for more where a Cassandra has thinned it out.
    /// Otherwise partitions are taken to be equally long.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn estimated_partitions_in(
        &self,
        range: &KeyRange,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<u64, ReadError> {
        let estimated = match &self.index {
            Index::Big(index) => {
                let (keys, interval) = index.sampled(range);
                let for_each = self.estimated_partitions() / (index.intervals() as u64).max(1);
                keys * for_each.max(interval)
            }
            Index::Bti(_) => {
                let behind = match &range.end {
                    KeyBound::Unbounded => None,
                    KeyBound::Token { token, inclusive } => {
                        Some(KeyBound::Token { token: *token, inclusive: !inclusive })
                    }
                    KeyBound::Key { key, inclusive } => {
                        Some(KeyBound::Key { key: key.clone(), inclusive: !inclusive })
                    }
                };
                let start = self.place_from(range.start.clone(), table, context)?;
                let end = match behind {
                    Some(behind) => self.place_from(behind, table, context)?,
                    None => self.data_bytes(),
                };
                let share = end.saturating_sub(start) as f64 / self.data_bytes().max(1) as f64;
                (self.estimated_partitions() as f64 * share).round() as u64
            }
        };
        Ok(estimated.max(1))
    }

    /// Where the first partition from `start` on lies in the data; its end when there is none.
    fn place_from(
        &self,
        start: KeyBound,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<u64, ReadError> {
        let (layout, mut data) = (self.layout(table)?, self.data_cursor(context));
        let range = KeyRange { start, end: KeyBound::Unbounded };
        Ok(self.index.walk(&range, &layout, &mut data)?.map_or(self.data_bytes(), |(place, _)| place))
    }
}
