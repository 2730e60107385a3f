//! Rows of which only some replicas tell, where all of them leave out what does not pass a filter.
//!
//! A replica that says nothing of a row may have it newer, or deleted. So it is asked for the row itself,
//! before what all know is merged (Cassandra: `ReplicaFilteringProtection`, CASSANDRA-8272, CASSANDRA-8273).
//!
//! ```text
//! WHERE v = 1   replica A   row 1 (v 1), row 2 (v 1)
//!               replica B   row 1 (v 1)                 silent of row 2, which has v 3 there
//! ```

use super::{Horizon, Recorder, Recording, Step, is_before};
use crate::error::ReadError;
use crate::merge::merge;
use crate::stream::{BoxedStream, Event, Fragment, PartitionStream};
use model::command::ReadCommand;
use model::{Clustering, DecoratedKey};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// Rows of a partition of which a replica says nothing, in storage order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent {
    /// The partition.
    pub key: DecoratedKey,
    /// The rows.
    pub rows: Vec<Clustering>,
}

/// For each recording, all of the same command, the rows of which others tell and it does not: in ring order,
/// as far as all of them go.
pub fn silent(recordings: &[Recording], command: &ReadCommand) -> Vec<Vec<Silent>> {
    let mut horizon = Horizon::default();
    for recording in recordings {
        horizon.meet(recording.horizon(), command);
    }
    let told: Vec<_> = recordings.iter().map(|recording| rows_of(recording, &horizon, command)).collect();
    let compare = |a: &&Clustering, b: &&Clustering| command.table.comparator().compare(a, b);
    let mut all: BTreeMap<&DecoratedKey, Vec<&Clustering>> = BTreeMap::new();
    for (key, rows) in told.iter().flatten() {
        all.entry(key).or_default().extend(rows);
    }
    for rows in all.values_mut() {
        rows.sort_by(compare);
        rows.dedup_by(|a, b| compare(a, b).is_eq());
    }
    let silent_of = |told: &BTreeMap<&DecoratedKey, Vec<&Clustering>>| {
        let of_partition = |(key, rows): (&&DecoratedKey, &Vec<&Clustering>)| {
            let own = told.get(*key).map(Vec::as_slice).unwrap_or_default();
            let is_silent = |row: &&&Clustering| own.binary_search_by(|other| compare(other, row)).is_err();
            let rows: Vec<Clustering> = rows.iter().filter(is_silent).map(|row| (*row).clone()).collect();
            (!rows.is_empty()).then(|| Silent { key: DecoratedKey::clone(key), rows })
        };
        all.iter().filter_map(of_partition).collect()
    };
    told.iter().map(silent_of).collect()
}

/// The rows of each partition as far as the horizon, in storage order.
fn rows_of<'a>(
    recording: &'a Recording,
    horizon: &Horizon,
    command: &ReadCommand,
) -> BTreeMap<&'a DecoratedKey, Vec<&'a Clustering>> {
    let mut found: BTreeMap<&DecoratedKey, Vec<&Clustering>> = BTreeMap::new();
    let (mut partition, mut stop) = (None, None);
    for step in &recording.steps {
        match step {
            Step::PartitionStart(key, _) => {
                partition = Some(key).filter(|key| horizon.end.as_ref().is_none_or(|end| *key <= end));
                stop = horizon.stops.iter().find(|(stopped, _)| stopped == key).map(|(_, row)| row);
            }
            Step::Row(row) => {
                let is_known = stop.is_none_or(|stop| !is_before(command, stop, &row.clustering));
                if let Some(key) = partition.filter(|_| is_known) {
                    found.entry(key).or_default().push(&row.clustering);
                }
            }
            Step::StaticRow(_) | Step::RangeChange(_) | Step::PartitionEnd | Step::Left => {}
        }
    }
    if command.is_reversed() {
        found.values_mut().for_each(|rows| rows.reverse());
    }
    found
}

impl Recording {
    /// This answer with what its replica was asked for besides. How far it goes stays the same.
    ///
    /// # Errors
    /// Those of the merge.
    pub fn completed_by(
        mut self,
        besides: Recording,
        command: &Arc<ReadCommand>,
    ) -> Result<Recording, ReadError> {
        if besides.is_empty() {
            return Ok(self);
        }
        let reversed = command.is_reversed();
        let (steps, stop) = (std::mem::take(&mut self.steps), self.stop.clone());
        let own = Recording { steps, stop, ..Recording::default() };
        let streams = [own, besides].map(|recording| Box::new(recording.play(reversed)) as BoxedStream);
        let taken = Arc::default();
        let stream = merge(&command.table, streams, reversed);
        let mut recorder = Recorder { stream, taken: Arc::clone(&taken), passing: None };
        let mut fragment = Fragment::default();
        while recorder.next(&mut fragment)? != Event::End {}
        self.steps = std::mem::take(&mut taken.lock().unwrap_or_else(PoisonError::into_inner).steps);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{command, is_value};
    use super::super::{Cut, known};
    use super::*;
    use crate::testing::*;
    use crate::{PageLimits, ReadContext};
    use model::Deletion;
    use model::command::DataLimits;

    type Read = crate::testing::Step;

    /// `v = 1`.
    fn filtered(reversed: bool) -> Arc<ReadCommand> {
        let mut command = ReadCommand::clone(&command(DataLimits::NONE, reversed));
        command.row_filter = vec![is_value(1)];
        Arc::new(command)
    }

    fn recorded(steps: Vec<Read>, command: &Arc<ReadCommand>, rows: u64) -> Recording {
        let stream = merge(&table(), [Box::new(Script::new(steps)) as BoxedStream], command.is_reversed());
        let page = PageLimits { rows, ..PageLimits::NONE };
        Recording::of(stream, command, ReadContext::default(), page).unwrap()
    }

    /// Partition 1 with rows of these numbers, times and values.
    fn partition(rows: &[(i32, i64, i32)]) -> Vec<Read> {
        let rows = rows.iter().map(|(c, time, v)| Read::Row(inserted(*c, *time, &[("v", i64::from(*v))])));
        let mut steps = vec![Read::Start(1, Deletion::NONE)];
        steps.extend(rows);
        steps.push(Read::End);
        steps
    }

    fn numbers(silent: &[Silent]) -> Vec<i32> {
        let number = |row: &Clustering| i32::from_be_bytes(row.value(0).unwrap().try_into().unwrap());
        silent.iter().flat_map(|silent| silent.rows.iter().map(number)).collect()
    }

    #[test]
    fn who_leaves_a_row_out_is_silent_of_it_as_far_as_all_go() {
        let command = filtered(false);
        let one = recorded(partition(&[(1, 5, 1), (2, 5, 1), (4, 5, 1), (9, 5, 1)]), &command, u64::MAX);
        let other =
            recorded(partition(&[(1, 5, 1), (2, 6, 3), (3, 5, 1), (5, 5, 1), (7, 5, 1)]), &command, 3);
        let found = silent(&[one, other], &command);
        assert_eq!(numbers(&found[0]), [3, 5]);
        assert_eq!(numbers(&found[1]), [2, 4], "it stopped behind 5");
    }

    #[test]
    fn rows_of_reads_backwards_come_in_storage_order_too() {
        let command = filtered(true);
        let one = recorded(partition(&[(9, 5, 1), (4, 5, 1), (2, 5, 1)]), &command, u64::MAX);
        let nothing = recorded(Vec::new(), &command, u64::MAX);
        let found = silent(&[one, nothing], &command);
        assert_eq!((numbers(&found[0]), numbers(&found[1])), (Vec::new(), vec![2, 4, 9]));
    }

    #[test]
    fn what_was_asked_for_besides_takes_its_place() {
        let command = filtered(false);
        let all = Arc::new(ReadCommand { row_filter: Vec::new(), ..ReadCommand::clone(&command) });
        let one = recorded(partition(&[(1, 5, 1), (2, 5, 1), (4, 5, 1)]), &command, 2);
        let other = recorded(partition(&[(1, 5, 1), (2, 6, 3)]), &command, u64::MAX);
        let besides = recorded(partition(&[(2, 6, 3)]), &all, u64::MAX);
        let other = other.completed_by(besides, &command).unwrap();
        let cut = Cut::default();
        let merged = play(known(&table(), vec![one, other], &command, false, &cut));
        let mut expected = partition(&[(1, 5, 1), (2, 6, 3)]);
        expected.pop();
        assert_eq!(merged, expected, "as far as the first went");
        assert!(cut.get().is_some());
    }
}
