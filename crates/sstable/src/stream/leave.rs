//! How a partition is left, and where the next one starts.

use super::{Partitions, SsTableStream, State, Walk, Walker, skip, skip_partition};
use partition::codec::{Input, UnfilteredHead};
use partition::{Event, ReadError};

impl SsTableStream {
    /// Where the partition after this one starts, for a stream of a range.
    fn find_next(&mut self) -> Result<u64, ReadError> {
        let Partitions::Range { walk, .. } = &mut self.partitions else { return Ok(0) };
        if let Some(found) = walk.peek() {
            let Some((position, key)) = found? else { return Ok(self.sstable.data.len) };
            self.aside.get_or_insert_default().next_key = Some(key);
            return Ok(position);
        }
        // The index may lack a partition. Where one ends is asked of its rows or their index, and the entry
        // of the next has to lead there.
        let knows_rows =
            self.state == State::Rows && (!self.whole || matches!(self.walker, Walker::Reverse(_)));
        if !knows_rows {
            let rows = walk.rows(&self.layout, self.partition_start)?;
            self.aside.get_or_insert_default().partition_end =
                rows.map(|mut rows| rows.end()).transpose()?.flatten();
        }
        let Some(end) = self.aside.as_ref().and_then(|aside| aside.partition_end) else {
            self.data.seek(if knows_rows { self.rows_start } else { self.partition_start });
            return match knows_rows {
                true => skip::skip_rows(&mut self.data, &self.layout),
                false => skip_partition(&mut self.data, &self.layout),
            };
        };
        self.data.seek(self.partition_start.saturating_add(end));
        match self.layout.read_head(&mut self.data)? {
            UnfilteredHead::End => Ok(self.data.position()),
            _ => Err(self.data.malformed("the partition does not end where the index has it".to_owned())),
        }
    }

    /// Finds where the next partition starts: at the cursor, when the partition was read to its end.
    pub(super) fn leave_partition(&mut self, at_end: bool) -> Result<(), ReadError> {
        let after = if at_end { 0 } else { self.find_next()? };
        match &mut self.partitions {
            Partitions::None | Partitions::One { .. } => self.state = State::Done,
            Partitions::Range { next, .. } => {
                self.state = State::Start;
                *next = if at_end { self.data.position() } else { after };
                if *next <= self.partition_start {
                    let detail = format!("the index has the next partition at {next}");
                    return Err(self.data.malformed(detail));
                }
            }
        }
        Ok(())
    }

    /// Lets the index pass the partition, whose rows were read without it.
    pub(super) fn sync_index(&mut self) -> Result<(), ReadError> {
        if let Partitions::Range { walk: walk @ Walk::Big(_), .. } = &mut self.partitions {
            walk.pass(self.partition_start)?;
        }
        Ok(())
    }

    /// Nothing is deleted any more where a partition ends.
    pub(super) fn check_closed(&self) -> Result<(), ReadError> {
        match self.walker.open().is_none() {
            true => Ok(()),
            false => {
                Err(self.data.malformed("a range deletion is open at the end of its partition".to_owned()))
            }
        }
    }

    /// Ends the partition that was read to its end.
    pub(super) fn end_partition(&mut self) -> Result<Event, ReadError> {
        self.report_cost();
        self.leave_partition(self.whole && !self.is_reversed())?;
        Ok(Event::PartitionEnd)
    }
}
