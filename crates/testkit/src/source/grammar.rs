//! Reads a stream to its end and checks the rules that need no model.

use model::clustering::Position;
use model::command::{PartitionSelection, ReadCommand};
use model::{BoundKind, Cell, DecoratedKey, Deletion, Row, TableSchema, reconcile};
use partition::{BoxedStream, Event, Fragment, RangeChange};
use std::cmp::Ordering;

/// A partition as a stream yielded it.
#[derive(Clone, Debug)]
pub struct FoundPartition {
    /// Its key.
    pub key: DecoratedKey,
    /// Its deletion.
    pub deletion: Deletion,
    /// Its static row.
    pub static_row: Option<Row>,
    /// Its rows with the range deletion that was open where they came.
    pub rows: Vec<(Row, Deletion)>,
    /// Its range changes, in stream order.
    pub changes: Vec<RangeChange>,
}

impl FoundPartition {
    /// The range deletion that the stream says holds at `position`.
    pub fn deletion_at(&self, command: &ReadCommand, position: Position<'_>) -> Deletion {
        let comparator = command.table.comparator();
        let passed = |change: &&RangeChange| {
            let order = comparator.compare_positions(change.position.position(), position);
            if command.is_reversed() { order == Ordering::Greater } else { order == Ordering::Less }
        };
        self.changes.iter().take_while(passed).last().map_or(Deletion::NONE, |c| c.deletion)
    }
}

/// The partitions of `stream`, which must keep the grammar.
///
/// # Panics
/// When it does not, or fails.
pub fn collect(command: &ReadCommand, mut stream: BoxedStream, context: &str) -> Vec<FoundPartition> {
    let mut out: Vec<FoundPartition> = Vec::new();
    let mut fragment = Fragment::default();
    let mut inside = false;
    let mut last: Option<LastPosition> = None;
    loop {
        let event = stream.next(&mut fragment).unwrap_or_else(|e| panic!("{context}: {e}"));
        match event {
            Event::End => {
                assert!(!inside, "{context}: the stream ends inside a partition");
                return out;
            }
            Event::PartitionStart => {
                assert!(!inside, "{context}: a partition inside a partition");
                check_key(command, out.last().map(|p| &p.key), &fragment.key, context);
                inside = true;
                last = None;
                out.push(FoundPartition {
                    key: fragment.key.clone(),
                    deletion: fragment.deletion,
                    static_row: None,
                    rows: Vec::new(),
                    changes: Vec::new(),
                });
                continue;
            }
            _ => assert!(inside, "{context}: {event:?} outside of a partition"),
        }
        let Some(partition) = out.last_mut() else { continue };
        let open = partition.changes.last().map_or(Deletion::NONE, |c| c.deletion);
        match event {
            Event::StaticRow => {
                let first = partition.rows.is_empty() && partition.changes.is_empty();
                assert!(first && partition.static_row.is_none(), "{context}: a late static row");
                assert!(fragment.row.clustering.is_empty(), "{context}: a static row with a clustering");
                assert!(!fragment.row.is_empty(), "{context}: an empty static row");
                check_row(&command.table, &fragment.row, context);
                partition.static_row = Some(fragment.row.clone());
            }
            Event::Row => {
                let clustering = &fragment.row.clustering;
                let selected = command.clusterings.selects(command.table.comparator(), clustering);
                assert!(selected, "{context}: row {clustering:?} was not asked for");
                check_row(&command.table, &fragment.row, context);
                step(command, &mut last, Position::row(clustering), context);
                partition.rows.push((fragment.row.clone(), open));
            }
            Event::RangeChange => {
                let kind = fragment.change.position.kind;
                let one_sided = matches!(kind, BoundKind::InclStart | BoundKind::ExclStart);
                assert!(one_sided, "{context}: a change of kind {kind:?}");
                assert!(fragment.change.deletion != open, "{context}: a change that changes nothing");
                step(command, &mut last, fragment.change.position.position(), context);
                partition.changes.push(fragment.change.clone());
            }
            Event::PartitionEnd => {
                assert!(open.is_none(), "{context}: a range deletion is open at the end of a partition");
                inside = false;
            }
            Event::PartitionStart | Event::End => {}
        }
    }
}

/// A position of its own.
struct LastPosition {
    kind: BoundKind,
    prefix: model::Clustering,
}

/// Checks that `position` comes after the one before, and remembers it.
fn step(command: &ReadCommand, last: &mut Option<LastPosition>, position: Position<'_>, context: &str) {
    if let Some(last) = last {
        let before = Position { kind: last.kind, prefix: &last.prefix };
        let order = command.table.comparator().compare_positions(before, position);
        let expected = if command.is_reversed() { Ordering::Greater } else { Ordering::Less };
        assert_eq!(order, expected, "{context}: {position:?} after {before:?}");
    }
    *last = Some(LastPosition { kind: position.kind, prefix: position.prefix.clone() });
}

fn check_key(command: &ReadCommand, before: Option<&DecoratedKey>, key: &DecoratedKey, context: &str) {
    match &command.partitions {
        PartitionSelection::Keys(keys) => {
            let at = |key: &DecoratedKey| keys.iter().position(|k| k == key);
            let place = at(key);
            assert!(place.is_some(), "{context}: {key:?} was not asked for");
            assert!(before.is_none_or(|b| at(b) < place), "{context}: {key:?} in the wrong place");
        }
        PartitionSelection::Range(range) => {
            assert!(range.contains(key), "{context}: {key:?} was not asked for");
            assert!(before.is_none_or(|b| b < key), "{context}: {key:?} in the wrong place");
        }
    }
}

/// Cells in order, none twice, none shadowed by the row's own deletions.
fn check_row(table: &TableSchema, row: &Row, context: &str) {
    let in_order =
        |pair: &[Cell]| matches!(pair, [a, b] if reconcile::compare_cell_positions(table, a, b).is_lt());
    assert!(row.cells.windows(2).all(in_order), "{context}: cells out of order in {row:?}");
    let mut columns = row.complex_deletions.windows(2);
    assert!(
        columns.all(|pair| matches!(pair, [(a, _), (b, _)] if a < b)),
        "{context}: deletions of columns out of order in {row:?}"
    );
    let mut reconciled = Row::new(row.clustering.clone());
    reconcile::merge_row_into(table, &mut reconciled, row);
    assert_eq!(&reconciled, row, "{context}: a row that is not reconciled");
}
