//! An answer without the rows that do not pass the filter of its command, as a replica of Cassandra's gives
//! it (`RowFilter.CQLFilter` of 4.0).
//!
//! 1. A row stays, tombstones of its cells included, where it is live and passes all conditions.
//! 2. Of a partition whose static columns or key do not pass nothing stays.
//! 3. A partition of which neither a row nor a deletion of rows stays goes, where a condition is about rows.

use super::{Recording, Step};
use crate::filter::{is_about_rows, passes};
use model::command::ReadCommand;
use model::row::ResultRow;
use model::{DecoratedKey, Row};

impl Recording {
    /// This answer to `command` without what does not pass its filter.
    pub fn passing(mut self, command: &ReadCommand) -> Recording {
        if command.row_filter.is_empty() {
            return self;
        }
        let is_of_rows = command.row_filter.iter().any(|condition| is_about_rows(command, condition));
        let mut kept = Vec::with_capacity(self.steps.len());
        let is_start = |step: &Step| matches!(step, Step::PartitionStart(..));
        for partition in self.steps.chunk_by(|_, next| !is_start(next)) {
            let Some(Step::PartitionStart(key, _)) = partition.first() else { continue };
            let static_row = partition.iter().find_map(|step| match step {
                Step::StaticRow(row) => Some(row),
                _ => None,
            });
            let row_passes = |row: Option<&Row>| of_row(command, key, static_row, row);
            if !is_of_rows {
                if row_passes(None) {
                    kept.extend(partition.iter().cloned());
                }
                continue;
            }
            let stays = |step: &&Step| match step {
                Step::Row(row) => row.is_live(command.now_s) && row_passes(Some(row)),
                _ => true,
            };
            let left: Vec<&Step> = partition.iter().filter(stays).collect();
            if left.iter().any(|step| matches!(step, Step::Row(_) | Step::RangeChange(_))) {
                kept.extend(left.into_iter().cloned());
            }
        }
        self.steps = kept;
        self
    }
}

fn of_row(command: &ReadCommand, key: &DecoratedKey, static_row: Option<&Row>, row: Option<&Row>) -> bool {
    passes(command, &ResultRow { key, static_row, row, now_s: command.now_s })
}

#[cfg(test)]
mod tests {
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
        let all = Recording::of(stream, &command, ReadContext::default(), PageLimits::NONE).unwrap();
        play(all.passing(&command).play(false))
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
