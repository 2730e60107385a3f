//! One suite for everything that yields partitions: memtables, SSTables, caches, merges, whole engines.
//!
//! [`check_source`] makes random histories, lets the caller build a source from each, asks it in every way a
//! command can (single keys and ranges; all rows, slices, names, static rows only; forward and reversed), and
//! checks that
//!
//! 1. the stream keeps the grammar and rules 1 to 7 of the `partition` crate ([`grammar`]);
//! 2. what it says, deletions applied, is what the model says ([`model`]).

pub mod grammar;
pub mod history;
pub mod model;

use ::model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use ::model::key::{KeyBound, KeyRange};
use ::model::{PartitionUpdate, TableSchema};
use history::History;
use model::Model;
use partition::BoxedStream;
use std::sync::Arc;

/// Seconds at which the suite's commands judge expirations.
pub const NOW_S: u32 = 1_600_000_000;

/// A source, ready to be asked.
pub type SourceReader = Box<dyn Fn(&ReadCommand) -> BoxedStream>;

/// Runs the suite. `make` builds a source of a table from updates, which it must take in the given order.
///
/// # Panics
/// At the first difference; the message says which history and command to repeat.
pub fn check_source(make: impl Fn(&Arc<TableSchema>, &[PartitionUpdate]) -> SourceReader) {
    for seed in 0..60 {
        check_seed(seed, &make);
    }
}

/// Runs the suite for one seed.
///
/// # Panics
/// As [`check_source`].
pub fn check_seed(seed: u64, make: &impl Fn(&Arc<TableSchema>, &[PartitionUpdate]) -> SourceReader) {
    let mut history = History::new(seed);
    let table = history.table();
    let updates = history.updates();
    let model = Model::new(&table, &updates);
    let source = make(&table, &updates);
    for (selection, filter) in history.commands() {
        let command = ReadCommand {
            table: Arc::clone(&table),
            partitions: selection,
            clusterings: filter,
            columns: ColumnSelection::all(&table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: NOW_S,
        };
        let context = format!("seed {seed}, table {}, {}", table.name, describe(&command));
        let found = grammar::collect(&command, source(&command), &context);
        model.check(&command, &found, &context);
    }
}

fn describe(command: &ReadCommand) -> String {
    let partitions = match &command.partitions {
        PartitionSelection::Keys(keys) => format!("keys {keys:?}"),
        PartitionSelection::Range(KeyRange { start: KeyBound::Unbounded, end: KeyBound::Unbounded }) => {
            "all keys".to_owned()
        }
        PartitionSelection::Range(range) => format!("{range:?}"),
    };
    match &command.clusterings {
        ClusteringFilter::Slices { slices, reversed } => {
            format!("{partitions}, slices {slices:?}, reversed {reversed}")
        }
        ClusteringFilter::Names { names, reversed } => {
            format!("{partitions}, names {names:?}, reversed {reversed}")
        }
    }
}
