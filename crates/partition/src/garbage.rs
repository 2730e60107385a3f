//! Garbage: what a stream need not hold because another one shadows it.
//!
//! [`Unshadowed`] yields its data without what the *shadow* of each partition deletes, and without the cells
//! that the shadow overwrites where that is asked for. Merged with the shadow, the result is what the data
//! merged with the shadow were (Cassandra's `GarbageSkippingUnfilteredRowIterator`, CASSANDRA-7019).
//!
//! 1. The partition deletion stays if it is newer than the shadow's.
//! 2. Rows lose what the shadow's partition, range and row deletions delete.
//! 3. A range deletion stays where it is newer than what the shadow has there. So it may begin and end where
//!    the shadow's deletions do.
//! 4. Cells that lose against the shadow's go only at [`Garbage::Cells`]. Counters add up and stay, and so
//!    does primary key liveness.
//!
//! Nothing of the shadow itself is yielded. A partition of which nothing remains is yielded empty; the purge
//! behind this stage leaves it out.

use crate::error::ReadError;
use crate::stream::{BoxedStream, Event, Fragment, PartitionStream};
use model::{Cell, DecoratedKey, Deletion, Row, TableSchema, reconcile};
use std::cmp::Ordering;
use std::sync::Arc;

/// What counts as garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Garbage {
    /// What is deleted with its partition, range or row.
    Rows,
    /// Also cells that are deleted or overwritten one by one.
    Cells,
}

/// Where shadows come from.
pub trait ShadowSource: Send {
    /// The merged stream of the one partition `key`; `None` when nothing shadows it.
    ///
    /// # Errors
    /// When it cannot be read.
    fn shadow(&mut self, key: &DecoratedKey) -> Result<Option<BoxedStream>, ReadError>;
}

/// The shadow of the current partition and where it stands.
struct Shadow {
    stream: BoxedStream,
    /// What `at` announced.
    head: Fragment,
    at: Event,
    partition: Deletion,
    /// Its open range deletion.
    open: Deletion,
}

impl Shadow {
    /// A shadow at its static row or its first row; `None` if its stream is empty.
    fn begin(mut stream: BoxedStream) -> Result<Option<Shadow>, ReadError> {
        let mut head = Fragment::default();
        if stream.next(&mut head)? != Event::PartitionStart {
            return Ok(None);
        }
        let (partition, open) = (head.deletion, Deletion::NONE);
        let mut shadow = Shadow { stream, head, at: Event::PartitionStart, partition, open };
        shadow.advance()?;
        Ok(Some(shadow))
    }

    fn advance(&mut self) -> Result<(), ReadError> {
        if self.at == Event::RangeChange {
            self.open = self.head.change.deletion;
        }
        self.at = self.stream.next(&mut self.head)?;
        Ok(())
    }

    /// What it deletes at the position where both stand.
    fn deletion(&self) -> Deletion {
        self.partition.max(self.open)
    }

    /// What is left of a deletion of the data.
    fn left_of(&self, deletion: Deletion) -> Deletion {
        if deletion.supersedes(&self.deletion()) { deletion } else { Deletion::NONE }
    }

    /// Takes from `row` what the shadow's row at the same place shadows, and what its open deletions do.
    fn filter_with_row(&self, row: &mut Row, garbage: Garbage, table: &TableSchema) {
        let theirs = &self.head.row;
        // A shadowable deletion may be taken back.
        let of_row = if theirs.is_shadowable { Deletion::NONE } else { theirs.deletion };
        reconcile::apply_deletion(row, &self.deletion().max(of_row));
        if garbage == Garbage::Rows {
            return;
        }
        row.complex_deletions
            .retain(|(column, deletion)| deletion.supersedes(&theirs.complex_deletion(*column)));
        let mut other = theirs.cells.iter().peekable();
        row.cells.retain(|cell| {
            let is_before = |c: &&Cell| reconcile::compare_cell_positions(table, c, cell) == Ordering::Less;
            while other.next_if(is_before).is_some() {}
            let rival =
                other.peek().filter(|c| reconcile::compare_cell_positions(table, c, cell) == Ordering::Equal);
            !theirs.complex_deletion(cell.column).deletes(cell.timestamp)
                && !rival.is_some_and(|rival| {
                    !table.is_counter_column(cell.column)
                        && reconcile::compare_cells(cell, rival) == Ordering::Less
                })
        });
    }
}

/// A stream without garbage.
pub struct Unshadowed<S> {
    table: Arc<TableSchema>,
    data: BoxedStream,
    source: S,
    garbage: Garbage,
    /// Of the current partition; without one the data pass through.
    shadow: Option<Shadow>,
    /// What `at` announced, if it was not used yet.
    head: Fragment,
    at: Option<Event>,
    /// The open range deletion of the data.
    data_open: Deletion,
    /// The open range deletion as last yielded.
    open: Deletion,
}

impl<S: ShadowSource> Unshadowed<S> {
    /// `data`, a merged stream of `table` in storage order, without what is garbage beside `source`.
    pub fn new(table: Arc<TableSchema>, data: BoxedStream, source: S, garbage: Garbage) -> Unshadowed<S> {
        Unshadowed {
            table,
            data,
            source,
            garbage,
            shadow: None,
            head: Fragment::default(),
            at: None,
            data_open: Deletion::NONE,
            open: Deletion::NONE,
        }
    }

    fn start_partition(&mut self, out: &mut Fragment) -> Result<(), ReadError> {
        (self.data_open, self.open) = (Deletion::NONE, Deletion::NONE);
        self.shadow = match self.source.shadow(&out.key)? {
            Some(stream) => Shadow::begin(stream)?,
            None => None,
        };
        if let Some(shadow) = &self.shadow {
            out.deletion = shadow.left_of(out.deletion);
        }
        Ok(())
    }

    /// Order of the head of the data and that of the shadow, in storage order.
    fn order(&self, at: Event, shadow: &Shadow) -> Ordering {
        match (self.head.position(at), shadow.head.position(shadow.at)) {
            (Some(a), Some(b)) => self.table.comparator().compare_positions(a, b),
            _ => Ordering::Less,
        }
    }

    /// The next event of a partition that has a shadow; `None` where nothing remains.
    fn step(&mut self, mut shadow: Shadow, out: &mut Fragment) -> Result<Option<Event>, ReadError> {
        let at = match self.at {
            Some(at) => at,
            None => *self.at.insert(self.data.next(&mut self.head)?),
        };
        if at != Event::StaticRow && shadow.at == Event::StaticRow {
            shadow.advance()?;
        }
        let order = match at {
            Event::StaticRow if shadow.at == Event::StaticRow => Ordering::Equal,
            Event::StaticRow => Ordering::Less,
            at => self.order(at, &shadow),
        };
        let found = match at {
            Event::StaticRow | Event::Row if order != Ordering::Greater => {
                if order == Ordering::Equal && shadow.at == at {
                    shadow.filter_with_row(&mut self.head.row, self.garbage, &self.table);
                    shadow.advance()?;
                } else {
                    reconcile::apply_deletion(&mut self.head.row, &shadow.deletion());
                }
                self.at = None;
                std::mem::swap(&mut out.row, &mut self.head.row);
                (!out.row.is_empty()).then_some(at)
            }
            Event::PartitionStart | Event::PartitionEnd | Event::End => {
                // All ranges of the data are closed, so nothing of theirs is open.
                self.at = None;
                return Ok(Some(at));
            }
            _ => {
                // A change of the data, or whatever the shadow has before what comes next of the data. A row
                // and a change never share a position.
                let (data_moves, shadow_moves) = (order != Ordering::Greater, order != Ordering::Less);
                let position =
                    if data_moves { &self.head.change.position } else { &shadow.head.change.position };
                out.change.position.clone_from(position);
                if data_moves {
                    self.data_open = self.head.change.deletion;
                    self.at = None;
                }
                if shadow_moves {
                    shadow.advance()?;
                }
                let open = shadow.left_of(self.data_open);
                let changed = open != self.open;
                self.open = open;
                out.change.deletion = open;
                changed.then_some(Event::RangeChange)
            }
        };
        self.shadow = Some(shadow);
        Ok(found)
    }
}

impl<S: ShadowSource> PartitionStream for Unshadowed<S> {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        loop {
            let Some(shadow) = self.shadow.take() else {
                let event = self.data.next(out)?;
                if event == Event::PartitionStart {
                    self.start_partition(out)?;
                }
                return Ok(event);
            };
            if let Some(event) = self.step(shadow, out)? {
                return Ok(event);
            }
        }
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.shadow = None;
        match self.at.take() {
            Some(Event::PartitionEnd | Event::End) => Ok(()),
            _ => self.data.skip_partition(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge;
    use crate::testing::*;
    use std::collections::BTreeMap;

    const NONE: Deletion = Deletion::NONE;

    /// Shadows by key.
    struct Shadows(BTreeMap<i32, Vec<Step>>);

    impl ShadowSource for Shadows {
        fn shadow(&mut self, of: &DecoratedKey) -> Result<Option<BoxedStream>, ReadError> {
            let found = self.0.iter().find(|(k, _)| key(**k) == *of);
            Ok(found.map(|(_, steps)| Box::new(Script::new(steps.clone())) as BoxedStream))
        }
    }

    fn left(data: Vec<Step>, shadow: Vec<Step>, garbage: Garbage) -> Vec<Step> {
        let shadows = Shadows(BTreeMap::from([(1, shadow.clone())]));
        let stream = |steps: &[Step]| Box::new(Script::new(steps.to_vec())) as BoxedStream;
        let found = play(Unshadowed::new(table(), stream(&data), shadows, garbage));
        let merged = |steps: &[Step]| play(merge(&table(), [stream(steps), stream(&shadow)], false));
        assert_eq!(merged(&found), merged(&data), "the merge is another");
        found
    }

    fn one(steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
        [Step::Start(1, NONE)].into_iter().chain(steps).chain([Step::End]).collect()
    }

    #[test]
    fn deleted_rows_and_partitions_go() {
        let written = || Step::Row(inserted(3, 5, &[("v", 5), ("w", 9)]));
        let rest = || one([Step::Row(row(3, &[("w", 9)]))]);
        let mut gone = Row::new(clustering(3));
        gone.deletion = deletion(7);
        for garbage in [Garbage::Rows, Garbage::Cells] {
            assert_eq!(left(one([written()]), one([Step::Row(gone.clone())]), garbage), rest());
            let whole = vec![Step::Start(1, deletion(7)), Step::End];
            assert_eq!(left(one([written()]), whole.clone(), garbage), rest());
            let range = one([before(2, deletion(7)), after(4, NONE)]);
            assert_eq!(left(one([written()]), range, garbage), rest());
            let beside = one([before(4, deletion(7)), after(5, NONE)]);
            assert_eq!(left(one([written()]), beside, garbage), one([written()]));
            let mut deleted = one([Step::Static(row(0, &[("s", 6)]))]);
            deleted[0] = Step::Start(1, deletion(6));
            assert_eq!(left(deleted, whole, garbage), one([]));
        }
    }

    #[test]
    fn overwritten_cells_go_when_it_is_asked_for() {
        let data = one([
            Step::Static(row(0, &[("s", 2)])),
            Step::Row(inserted(1, 2, &[("v", 2), ("w", 2)])),
            Step::Row(row(2, &[("v", 2)])),
            Step::Row(row(3, &[("v", 2)])),
        ]);
        let shadow = one([
            Step::Static(row(0, &[("s", 3)])),
            Step::Row(row(1, &[("v", 3), ("w", 1)])),
            Step::Row(row(2, &[("v", 3)])),
            Step::Row(row(3, &[("v", 2)])),
        ]);
        assert_eq!(left(data.clone(), shadow.clone(), Garbage::Rows), data);
        assert_eq!(
            left(data, shadow, Garbage::Cells),
            one([Step::Row(inserted(1, 2, &[("w", 2)])), Step::Row(row(3, &[("v", 2)]))])
        );
    }

    #[test]
    fn range_deletions_stay_where_they_are_newer() {
        let data = || one([before(1, deletion(5)), before(4, deletion(8)), after(9, NONE)]);
        let range = |from, to, at| one([before(from, deletion(at)), after(to, NONE)]);
        let of = |shadow| left(data(), shadow, Garbage::Rows);
        assert_eq!(of(range(0, 10, 9)), one([]));
        assert_eq!(of(range(0, 10, 5)), one([before(4, deletion(8)), after(9, NONE)]));
        assert_eq!(
            of(range(2, 6, 6)),
            one([before(1, deletion(5)), before(2, NONE), before(4, deletion(8)), after(9, NONE)])
        );
        assert_eq!(
            of(range(5, 6, 9)),
            one([
                before(1, deletion(5)),
                before(4, deletion(8)),
                before(5, NONE),
                after(6, deletion(8)),
                after(9, NONE)
            ])
        );
        assert_eq!(of(range(10, 11, 99)), data());
    }

    #[test]
    fn partitions_without_a_shadow_pass_through_and_any_can_be_skipped() {
        let order = ring_order(4);
        let of = |k: i32| vec![Step::Start(k, NONE), Step::Row(inserted(1, 3, &[("v", 3)])), Step::End];
        let data: Vec<Step> = order.iter().flat_map(|k| of(*k)).collect();
        let dead = vec![Step::Start(1, deletion(9)), Step::End];
        let stream = |data: &[Step]| {
            let shadows = Shadows(BTreeMap::from([(1, dead.clone())]));
            Unshadowed::new(table(), Box::new(Script::new(data.to_vec())), shadows, Garbage::Rows)
        };
        let expected: Vec<Step> = order.iter().flat_map(|k| if *k == 1 { one([]) } else { of(*k) }).collect();
        assert_eq!(play(stream(&data)), expected);
        let mut skipping = stream(&data);
        let mut fragment = Fragment::default();
        for k in &order {
            assert_eq!(skipping.next(&mut fragment).unwrap(), Event::PartitionStart);
            assert_eq!(fragment.key, key(*k));
            skipping.skip_partition().unwrap();
        }
        assert_eq!(skipping.next(&mut fragment).unwrap(), Event::End);
    }
}
