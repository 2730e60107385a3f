//! Purging: what compaction may forget for ever.
//!
//! A tombstone is purged when it is older than `gc_grace_seconds` *and* nothing outside the compaction could
//! hold older data that it still has to shadow. An expired cell or row is treated as the tombstone that it
//! has become: purged, or turned into one (Cassandra's `Cell.purge`). An empty partition is left out.
//!
//! A replica that answers along with others leaves out whatever is older than `gc_grace_seconds`
//! ([`without_purgeable`]). Some replicas have forgotten it, and nothing else would tell the answers apart.

use crate::error::ReadError;
use crate::stream::{BoxedStream, Event, Fragment, PartitionStream};
use model::command::{ColumnSelection, ReadCommand};
use model::{Cell, DecoratedKey, Deletion, Liveness, NO_DELETION_TIME, Row};

/// What a compaction knows about the data that it does not see.
pub trait PurgeGuard: Send {
    /// Timestamp in microseconds below which a deletion of `key` shadows nothing outside the compaction: the
    /// smallest timestamp of overlapping SSTables and memtables that may hold the key, `i64::MAX` when none
    /// does.
    fn max_purgeable_timestamp(&mut self, key: &DecoratedKey) -> i64;

    /// Whether tombstones of `key` are old enough whenever they were made.
    fn ignores_grace(&self, _key: &DecoratedKey) -> bool {
        false
    }
}

/// The merged answer to `command` without what is older than `gc_grace_seconds` at the time of the command
/// (Cassandra's `ReadCommand.withoutPurgeableTombstones`).
pub fn without_purgeable(source: BoxedStream, command: &ReadCommand) -> BoxedStream {
    let grace_s = u32::try_from(command.table.options.gc_grace_seconds).unwrap_or(0);
    let gc_before_s = command.now_s.saturating_sub(grace_s);
    Box::new(Purge::new(source, WhateverElse, command.now_s, gc_before_s))
}

/// The answer to `command` without cells that were not asked for and are older than the insertion of their
/// row, which shows as well as they do that the row is there (CASSANDRA-10657).
pub fn without_outlived(source: BoxedStream, command: &ReadCommand) -> BoxedStream {
    match command.columns.all {
        true => source,
        false => Box::new(WithoutOutlived { source, columns: command.columns.clone() }),
    }
}

struct WithoutOutlived {
    source: BoxedStream,
    columns: ColumnSelection,
}

impl PartitionStream for WithoutOutlived {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        let event = self.source.next(out)?;
        if let Event::Row | Event::StaticRow = event {
            let (inserted, columns) = (out.row.liveness.timestamp, &self.columns);
            out.row.cells.retain(|cell| cell.timestamp >= inserted || columns.wants_value_of(cell));
        }
        Ok(event)
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.source.skip_partition()
    }
}

/// Nothing else matters.
struct WhateverElse;

impl PurgeGuard for WhateverElse {
    fn max_purgeable_timestamp(&mut self, _: &DecoratedKey) -> i64 {
        i64::MAX
    }
}

/// A stream without what may be forgotten.
pub struct Purge<G> {
    source: BoxedStream,
    guard: G,
    now_s: u32,
    gc_before_s: u32,
    /// Deletions of the current partition below this timestamp may go.
    purgeable_below: i64,
    /// Those that were made before this second may go.
    old_before_s: u32,
    /// The open deletion as last yielded.
    open: Deletion,
    /// A fragment that was read ahead, behind a partition start that had to wait for content.
    ahead: Option<Event>,
    held: Fragment,
}

impl<G: PurgeGuard> Purge<G> {
    /// Purges `source`, a merged stream in storage order, as of `now_s`; tombstones made before `gc_before_s`
    /// are old enough (both in seconds since the epoch).
    pub fn new(source: BoxedStream, guard: G, now_s: u32, gc_before_s: u32) -> Purge<G> {
        Purge {
            source,
            guard,
            now_s,
            gc_before_s,
            purgeable_below: i64::MIN,
            old_before_s: gc_before_s,
            open: Deletion::NONE,
            ahead: None,
            held: Fragment::default(),
        }
    }

    fn may_go(&self, timestamp: i64, local_deletion_time: u32) -> bool {
        local_deletion_time < self.old_before_s && timestamp < self.purgeable_below
    }

    fn purged(&self, deletion: Deletion) -> Deletion {
        let goes = !deletion.is_none() && self.may_go(deletion.timestamp, deletion.local_deletion_time);
        if goes { Deletion::NONE } else { deletion }
    }

    /// Whether the cell stays, perhaps as a tombstone.
    fn keeps(&self, cell: &mut Cell) -> bool {
        if cell.is_live(self.now_s) {
            return true;
        }
        if self.may_go(cell.timestamp, cell.local_deletion_time) {
            return false;
        }
        if cell.is_expiring() {
            let deleted_at = cell.local_deletion_time.saturating_sub(cell.ttl.unsigned_abs());
            let path = std::mem::take(&mut cell.path);
            *cell = Cell::tombstone(cell.column, cell.timestamp, deleted_at).with_path(path);
            return !self.may_go(cell.timestamp, cell.local_deletion_time);
        }
        true
    }

    fn purge_row(&self, row: &mut Row) {
        if !row.deletion.is_none() && self.purged(row.deletion).is_none() {
            row.set_deletion(Deletion::NONE, false);
        }
        let expired = !row.liveness.is_none() && !row.liveness.is_live(self.now_s);
        if expired && self.may_go(row.liveness.timestamp, row.liveness.local_expiration_time) {
            row.liveness = Liveness::NONE;
        }
        row.complex_deletions.retain(|(_, d)| !self.purged(*d).is_none());
        let nothing_ends = row.cells.iter().all(|c| c.local_deletion_time == NO_DELETION_TIME);
        if !nothing_ends {
            row.cells.retain_mut(|cell| self.keeps(cell));
        }
    }

    /// The next event that is not a partition start, purged. `None` where nothing remains of it.
    fn content(&mut self, out: &mut Fragment) -> Result<Option<Event>, ReadError> {
        let event = self.source.next(out)?;
        Ok(match event {
            Event::StaticRow | Event::Row => {
                self.purge_row(&mut out.row);
                (!out.row.is_empty()).then_some(event)
            }
            Event::RangeChange => {
                let open = self.purged(out.change.deletion);
                let changed = open != self.open;
                self.open = open;
                out.change.deletion = open;
                changed.then_some(event)
            }
            _ => Some(event),
        })
    }
}

impl<G: PurgeGuard> PartitionStream for Purge<G> {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        if let Some(event) = self.ahead.take() {
            std::mem::swap(&mut out.row, &mut self.held.row);
            std::mem::swap(&mut out.change, &mut self.held.change);
            return Ok(event);
        }
        loop {
            let Some(event) = self.content(out)? else { continue };
            if event != Event::PartitionStart {
                return Ok(event);
            }
            self.purgeable_below = self.guard.max_purgeable_timestamp(&out.key);
            self.old_before_s =
                if self.guard.ignores_grace(&out.key) { NO_DELETION_TIME } else { self.gc_before_s };
            self.open = Deletion::NONE;
            out.deletion = self.purged(out.deletion);
            if !out.deletion.is_none() {
                return Ok(event);
            }
            let mut held = std::mem::take(&mut self.held);
            let first = loop {
                if let Some(first) = self.content(&mut held)? {
                    break first;
                }
            };
            self.held = held;
            if first != Event::PartitionEnd {
                self.ahead = Some(first);
                return Ok(event);
            }
        }
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.ahead = None;
        self.source.skip_partition()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use model::TableSchema;
    use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection};
    use model::key::KeyRange;
    use std::sync::Arc;

    /// Nothing outside the compaction is older than this.
    struct Below(i64);

    impl PurgeGuard for Below {
        fn max_purgeable_timestamp(&mut self, _: &DecoratedKey) -> i64 {
            self.0
        }
    }

    const NONE: Deletion = Deletion::NONE;
    const NOW: u32 = 1000;
    const GC_BEFORE: u32 = 500;

    fn purged(steps: Vec<Step>, below: i64) -> Vec<Step> {
        play(Purge::new(Box::new(Script::new(steps)), Below(below), NOW, GC_BEFORE))
    }

    fn partition(row: Row) -> Vec<Step> {
        vec![Step::Start(1, NONE), Step::Row(row), Step::End]
    }

    fn with(cell: Cell) -> Row {
        let mut row = row(1, &[]);
        row.cells.push(cell);
        row
    }

    fn tombstone(timestamp: i64, at: u32) -> Row {
        with(Cell::tombstone(cell("v", 0).column, timestamp, at))
    }

    fn expiring(expires: u32) -> Row {
        with(Cell::expiring(cell("v", 0).column, 5, 100, expires, bytes::Bytes::from_static(b"x")))
    }

    #[test]
    fn a_tombstone_goes_when_it_is_old_and_shadows_nothing_outside() {
        assert_eq!(purged(partition(tombstone(5, 499)), 6), []);
        for (row, below) in [(tombstone(5, 500), 6), (tombstone(5, 499), 5)] {
            assert_eq!(purged(partition(row.clone()), below), partition(row));
        }
    }

    #[test]
    fn an_expired_cell_goes_or_becomes_a_tombstone() {
        assert_eq!(purged(partition(expiring(1001)), 9), partition(expiring(1001)));
        assert_eq!(purged(partition(expiring(700)), 9), partition(tombstone(5, 600)));
        // The tombstone that it becomes is old enough, though the expiration is not.
        assert_eq!(purged(partition(expiring(550)), 9), []);
        assert_eq!(purged(partition(expiring(550)), 5), partition(tombstone(5, 450)));
    }

    #[test]
    fn expired_liveness_goes_and_live_cells_stay() {
        let mut row = row(1, &[("v", 7)]);
        row.liveness = Liveness::expiring(5, 10, 400);
        let mut bare = row.clone();
        bare.liveness = Liveness::NONE;
        assert_eq!(purged(partition(row.clone()), 9), partition(bare));
        assert_eq!(purged(partition(row.clone()), 5), partition(row));
    }

    #[test]
    fn range_and_partition_deletions_go_and_leave_no_trace() {
        let steps = |partition: Deletion| {
            vec![
                Step::Start(1, partition),
                before(1, deletion(3)),
                after(2, deletion(8)),
                after(4, NONE),
                Step::End,
            ]
        };
        assert_eq!(purged(steps(deletion(4)), 9), []);
        assert_eq!(
            purged(steps(NONE), 8),
            [Step::Start(1, NONE), after(2, deletion(8)), after(4, NONE), Step::End]
        );
        let mut late = steps(deletion(9));
        late.truncate(1);
        late.push(Step::End);
        assert_eq!(purged(late.clone(), 9), late);
    }

    #[test]
    fn partitions_around_an_empty_one_stay_whole() {
        let order = ring_order(3);
        let live = |k: i32| vec![Step::Start(k, NONE), Step::Row(inserted(1, 3, &[("v", 3)])), Step::End];
        let dead = vec![Step::Start(order[1], NONE), Step::Row(tombstone(5, 1)), Step::End];
        let steps = [live(order[0]), dead, live(order[2])].concat();
        assert_eq!(purged(steps, 9), [live(order[0]), live(order[2])].concat());
    }

    #[test]
    fn an_answer_is_without_what_is_older_than_its_grace_and_can_be_skipped() {
        let mut table = TableSchema::clone(&table());
        table.options.gc_grace_seconds = (NOW - GC_BEFORE) as i32;
        let command = ReadCommand {
            columns: ColumnSelection::all(&table),
            table: Arc::new(table),
            partitions: PartitionSelection::Range(KeyRange::FULL),
            clusterings: ClusteringFilter::all(),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: NOW,
        };
        let answer = |steps| without_purgeable(Box::new(Script::new(steps)), &command);
        assert_eq!(play(answer(partition(tombstone(i64::MAX - 1, 499)))), []);
        assert_eq!(play(answer(partition(tombstone(5, 500)))), partition(tombstone(5, 500)));
        let order = ring_order(2);
        let of = |k: i32| vec![Step::Start(k, NONE), Step::Row(inserted(1, 3, &[])), Step::End];
        let mut stream = answer([of(order[0]), of(order[1])].concat());
        assert_eq!(stream.next(&mut Fragment::default()).unwrap(), Event::PartitionStart);
        stream.skip_partition().unwrap();
        assert_eq!(play(stream), of(order[1]));
    }
}
