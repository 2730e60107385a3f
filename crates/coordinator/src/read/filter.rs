//! Rows that are filtered, where several replicas answer.
//!
//! 1. Replicas are told the conditions and answer the rows that pass, so what does not is sent nowhere. The
//!    coordinator judges by all conditions again, once it has merged the answers.
//! 2. A merged row may pass although it passes at no replica: `WHERE a = 1 AND b = 1`, where one replica
//!    missed the write of `a`, and another that of `b`. So several replicas are told only what each can
//!    judge alone: all conditions on the key, and one on a regular column. A counter's total is made of
//!    several replicas, and a static column decides about rows that only others may have; neither is told.
//! 3. A row of which a replica says nothing may be newer there, or deleted. Where answers differ, it is asked
//!    for that row ([`partition::silent`]).

use super::asked::{DataOf, Terms};
use super::run::of_readers;
use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::replica::{Answer, DataRequest, ReplicaError};
use model::ColumnKind;
use model::command::{ClusteringFilter, DataLimits, FilterExpression, PartitionSelection, ReadCommand};
use partition::filter::is_about_rows;
use partition::{Deadline, PageLimits, Recording, Silent, silent};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a value of a condition, at the most: longer ones have no place in a message.
const VALUE_BYTES_MAX: usize = u16::MAX as usize;
/// Partitions whose silent rows are asked for at a time.
const ASKED_AT_A_TIME: usize = 32;

/// The conditions of `command` that replicas are told, where so many of them answer.
pub(super) fn told(command: &ReadCommand, answers: u32) -> Vec<FilterExpression> {
    let mut has_value = false;
    let is_told = |condition: &&FilterExpression| {
        let bytes: usize = condition.values.iter().map(|value| value.len() + 4).sum();
        let key_bytes = condition.map_key.as_ref().map_or(0, |key| key.len());
        if bytes + 4 > VALUE_BYTES_MAX || key_bytes > VALUE_BYTES_MAX {
            return false;
        }
        let Some(column) = command.table.column_by_id(condition.column) else { return false };
        answers == 1
            || match column.kind {
                ColumnKind::PartitionKey | ColumnKind::Clustering => true,
                ColumnKind::Regular => !column.ty.is_counter() && !std::mem::replace(&mut has_value, true),
                ColumnKind::Static => false,
            }
    };
    command.row_filter.iter().filter(is_told).cloned().collect()
}

impl Coordinator {
    /// Answers with the rows of which their replicas were silent.
    ///
    /// # Errors
    /// `ReadFailure`, `ReadTimeout`, `Overloaded`.
    pub(super) async fn completed<'a>(
        &self,
        terms: &Terms,
        data: DataOf<'a>,
        deadline: Option<&Deadline>,
    ) -> Result<DataOf<'a>, CoordinatorError> {
        let command = Arc::clone(&terms.request.command);
        // Whole partitions that do not pass do so everywhere: their keys decide.
        if data.len() < 2 || !command.row_filter.iter().any(|condition| is_about_rows(&command, condition)) {
            return Ok(data);
        }
        let (nodes, recordings): (Vec<_>, Vec<_>) = data.into_iter().unzip();
        let compare = {
            let command = Arc::clone(&command);
            move |_| {
                let silent = silent(&recordings, &command);
                (recordings, silent)
            }
        };
        let compared = self.local.readers().run(deadline, compare).await;
        let (recordings, silent) = compared.map_err(|error| of_readers(error, terms.consistency))?;
        let mut besides = vec![Recording::default(); recordings.len()];
        let mut asked = VecDeque::new();
        let failed = |cause| terms.failed(0, 1, cause);
        for (replica, partitions) in silent.into_iter().enumerate() {
            for partition in partitions {
                if asked.len() == ASKED_AT_A_TIME {
                    take_next(&mut asked, &mut besides).await.map_err(failed)?;
                }
                let request = rows_of(partition, terms);
                let answer = nodes.get(replica).map(|node| node.replica.read_data(&request));
                asked.extend(answer.map(|answer| (replica, answer)));
            }
        }
        while !asked.is_empty() {
            take_next(&mut asked, &mut besides).await.map_err(failed)?;
        }
        let completed = nodes.into_iter().zip(recordings.into_iter().zip(besides));
        let completed = completed
            .map(|(node, (recording, besides))| Ok((node, recording.completed_by(besides, &command)?)));
        completed
            .collect::<Result<_, _>>()
            .map_err(|error: partition::ReadError| terms.failed(0, 0, error.into()))
    }
}

/// A read of rows of which a replica was silent, whether they pass or not.
fn rows_of(Silent { key, rows }: Silent, terms: &Terms) -> DataRequest {
    let command = &terms.request.command;
    let clusterings = match command.table.clustering_columns() {
        [] => command.clusterings.clone(),
        _ => ClusteringFilter::Names { names: rows, reversed: command.is_reversed() },
    };
    let command = ReadCommand {
        partitions: PartitionSelection::Keys(vec![key]),
        clusterings,
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        ..ReadCommand::clone(command)
    };
    DataRequest { command: Arc::new(command), page: PageLimits::NONE, ..terms.request.clone() }
}

/// Waits for the answer that was asked for first. The others are on their way meanwhile.
async fn take_next(
    asked: &mut VecDeque<(usize, Answer<Recording>)>,
    besides: &mut [Recording],
) -> Result<(), ReplicaError> {
    let Some((replica, answer)) = asked.pop_front() else { return Ok(()) };
    let found = answer.await?;
    if let Some(before) = besides.get_mut(replica) {
        *before = std::mem::take(before).followed_by(found);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use model::command::{ColumnSelection, Operator};
    use model::key::KeyRange;
    use model::{CqlType, TableSchema};
    use uuid::Uuid;

    #[test]
    fn several_replicas_are_told_what_each_of_them_can_judge() {
        let table = TableSchema::builder("ks", "t", Uuid::from_u128(1))
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, false)
            .static_column("s", CqlType::Int)
            .regular("v", CqlType::Int)
            .regular("w", CqlType::Int)
            .regular("n", CqlType::Counter);
        let table = Arc::new(table.build());
        let told = |names: &[&str], len: usize, answers: u32| {
            let condition = |name: &&str| FilterExpression {
                column: table.column(name).unwrap().id,
                operator: Operator::Eq,
                map_key: None,
                values: vec![Bytes::from(vec![0; len])],
            };
            let command = ReadCommand {
                table: Arc::clone(&table),
                partitions: PartitionSelection::Range(KeyRange::FULL),
                clusterings: ClusteringFilter::all(),
                columns: ColumnSelection::all(&table),
                row_filter: names.iter().map(condition).collect(),
                limits: DataLimits::NONE,
                now_s: 1,
            };
            let name = |told: FilterExpression| table.column_by_id(told.column).unwrap().name.clone();
            super::told(&command, answers).into_iter().map(name).collect::<Vec<_>>()
        };
        let all = ["n", "s", "v", "c", "w", "k"];
        assert_eq!(told(&all, 4, 1), all);
        assert_eq!(told(&all, 4, 2), ["v", "c", "k"]);
        assert_eq!(told(&["v"], 1 << 16, 1), [""; 0], "it has no place in a message");
    }
}
