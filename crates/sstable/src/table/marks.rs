//! Places between the rows of a large partition, by the index of its rows: where it can be cut into parts.

use super::SsTable;
use model::{Clustering, ClusteringBound, DecoratedKey, TableSchema};
use partition::codec::UnfilteredHead;
use partition::{ReadContext, ReadError};
use std::sync::Arc;

/// A place in a partition, in front of a row or of the change of a range deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The clustering of the row, or the prefix of the change.
    pub clustering: Clustering,
    /// Bytes of the partition that lie before it, before compression.
    pub bytes: u64,
}

impl SsTable {
    /// Places in a partition in front of which a block of its index begins, in order, with at least
    /// `stride_bytes` between two of them. None where the partition is not there, or has no index of its
    /// rows.
    ///
    /// # Errors
    /// When a file cannot be read or is damaged.
    pub fn marks_in(
        self: &Arc<Self>,
        key: &DecoratedKey,
        stride_bytes: u64,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<Vec<Mark>, ReadError> {
        self.check_standing(table, context)?;
        let mut marks = Vec::new();
        if !self.may_contain(key) {
            return Ok(marks);
        }
        let layout = self.layout(table)?;
        let mut data = self.data_cursor(context);
        let Some(mut entry) = self.find(key, &layout, &mut data)? else { return Ok(marks) };
        let start = entry.position();
        let Some(mut rows) = entry.take_rows(&layout)? else { return Ok(marks) };
        rows.header_len()?;
        let mut block = rows.first(&layout)?;
        let mut wanted = stride_bytes.max(1);
        let mut bound = ClusteringBound::BOTTOM;
        while let Some(behind) = rows.behind(&layout, &block)? {
            block = behind;
            if block.start < wanted {
                continue;
            }
            data.seek(start.saturating_add(block.start));
            match layout.read_head(&mut data)? {
                UnfilteredHead::Row(flags) if !flags.is_static => {
                    layout.read_clustering(&mut data, &mut bound.prefix)?;
                }
                UnfilteredHead::Marker => layout.read_bound(&mut data, &mut bound)?,
                // The end of the partition may be a block of its own.
                UnfilteredHead::Row(_) | UnfilteredHead::End => continue,
            }
            marks.push(Mark { clustering: bound.prefix.clone(), bytes: block.start });
            wanted = block.start.saturating_add(stride_bytes.max(1));
        }
        Ok(marks)
    }
}
