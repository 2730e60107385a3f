//! An answer without the rows that do not pass the filter of its command, as a replica of Cassandra's gives
//! it (`RowFilter.CQLFilter` of 4.0). They are left out while the answer is recorded: few of many may pass.
//!
//! 1. A row stays, tombstones of its cells included, where it is live and passes all conditions.
//! 2. Of a partition whose static columns or key do not pass nothing stays.
//! 3. A partition of which neither a row nor a deletion of rows stays goes, where a condition is about rows.

use crate::filter::{is_about_rows, passes};
use crate::stream::{Event, Fragment};
use model::command::ReadCommand;
use model::row::ResultRow;
use model::{DecoratedKey, Row};
use std::sync::Arc;

/// What stays of a partition that is recorded.
pub(super) struct Passing {
    command: Arc<ReadCommand>,
    /// Whether a condition is about rows.
    is_of_rows: bool,
    key: DecoratedKey,
    static_row: Option<Row>,
    /// Where the steps of the partition begin; `None` before the first.
    start: Option<usize>,
    /// Whether something of the partition stays.
    stays: bool,
    /// Whether the partition passes, where no condition is about rows; `None` before its first row.
    passes: Option<bool>,
}

impl Passing {
    /// `None` where nothing is filtered.
    pub fn of(command: &Arc<ReadCommand>) -> Option<Passing> {
        (!command.row_filter.is_empty()).then(|| Passing {
            is_of_rows: command.row_filter.iter().any(|condition| is_about_rows(command, condition)),
            command: Arc::clone(command),
            key: Fragment::default().key,
            static_row: None,
            start: None,
            stays: false,
            passes: None,
        })
    }

    /// Whether what was read is recorded; `recorded` are the steps before it.
    pub fn keeps(&mut self, event: Event, read: &Fragment, recorded: usize) -> bool {
        match event {
            Event::PartitionStart => {
                self.key.clone_from(&read.key);
                (self.start, self.stays, self.static_row, self.passes) = (Some(recorded), false, None, None);
            }
            Event::StaticRow => self.static_row = Some(read.row.clone()),
            Event::Row if self.is_of_rows => {
                let stays = read.row.is_live(self.command.now_s) && self.row_passes(Some(&read.row));
                self.stays |= stays;
                return stays;
            }
            Event::RangeChange if self.is_of_rows => self.stays = true,
            Event::Row | Event::RangeChange => return self.partition_passes(),
            Event::PartitionEnd | Event::End => {}
        }
        true
    }

    /// Where the steps of the partition begin, if nothing of it stays.
    pub fn left_out(&mut self) -> Option<usize> {
        let start = self.start?;
        let stays = if self.is_of_rows { self.stays } else { self.partition_passes() };
        (!stays).then_some(start)
    }

    fn partition_passes(&mut self) -> bool {
        let passes = self.passes.unwrap_or_else(|| self.row_passes(None));
        self.passes = Some(passes);
        passes
    }

    fn row_passes(&self, row: Option<&Row>) -> bool {
        let (key, static_row, now_s) = (&self.key, self.static_row.as_ref(), self.command.now_s);
        passes(&self.command, &ResultRow { key, static_row, row, now_s })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Recording;
    use super::super::tests::command;
    use super::*;
    use crate::testing::*;
    use crate::{BoxedStream, PageLimits, ReadContext, merge};
    use bytes::Bytes;
    use model::Deletion;
    use model::command::{DataLimits, FilterExpression, Operator};
    use std::sync::Arc;

    fn filtered(steps: Vec<Step2>, column: &str, value: i32) -> Vec<Step2> {
        let mut command = ReadCommand::clone(&command(DataLimits::NONE, false));
        command.row_filter = vec![FilterExpression {
            column: table().column(column).unwrap().id,
            operator: Operator::Eq,
            map_key: None,
            values: vec![Bytes::copy_from_slice(&value.to_be_bytes())],
        }];
        let command = Arc::new(command);
        let stream = merge(&table(), [Box::new(Script::new(steps)) as BoxedStream], false);
        let recording = Recording::of(stream, &command, ReadContext::default(), PageLimits::NONE).unwrap();
        play(recording.play(false))
    }

    type Step2 = crate::testing::Step;

    #[test]
    fn rows_that_do_not_pass_go_and_deletions_stay() {
        let none = Deletion::NONE;
        let gone = Row { deletion: deletion(9), ..row(3, &[]) };
        let steps = vec![
            Step2::Start(1, deletion(2)),
            Step2::Row(inserted(1, 5, &[("v", 5)])),
            Step2::Row(inserted(2, 6, &[("v", 6)])),
            Step2::Row(gone),
            before(4, deletion(3)),
            after(5, none),
            Step2::End,
        ];
        let mut expected = steps.clone();
        expected.remove(3);
        expected.remove(1);
        assert_eq!(filtered(steps, "v", 6), expected);
    }

    #[test]
    fn partitions_of_which_nothing_passes_go() {
        let none = Deletion::NONE;
        let statics = Row { clustering: model::Clustering::empty(), ..row(0, &[("s", 7)]) };
        let steps = vec![
            Step2::Start(1, none),
            Step2::Static(statics),
            Step2::Row(inserted(1, 5, &[("v", 5)])),
            Step2::End,
        ];
        assert_eq!(filtered(steps.clone(), "v", 6), Vec::new());
        assert_eq!(filtered(steps.clone(), "s", 8), Vec::new());
        assert_eq!(filtered(steps.clone(), "s", 7), steps);
    }
}
