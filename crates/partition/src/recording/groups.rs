//! Limits of groups: where an answer ends that is asked for by another node, which makes groups of its rows
//! (GROUP BY, aggregates; `DataLimits.CQLGroupByLimits` of Cassandra 4.0 to 5.0).
//!
//! 1. A group is complete where the next one begins, whose rows are not part of the answer any more.
//! 2. A deleted row begins a group, too, but a group counts only if a live row is in it.
//! 3. A partition with static content alone is a group.
//! 4. Where a group too many begins with a partition, or with the first row that is left of one, the answer
//!    tells of that partition, but of no row in it.

use crate::error::ReadError;
use crate::filter;
use crate::live::statics_stand_alone;
use crate::stream::{BoxedStream, Event, Fragment, PartitionStream, RangeChange};
use bytes::Bytes;
use model::command::ReadCommand;
use model::row::ResultRow;
use model::{BoundKind, Clustering, ClusteringBound, DecoratedKey, Deletion, Row};
use std::sync::{Arc, Mutex, PoisonError};

/// How many groups of rows an answer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Groups in all.
    pub groups: u64,
    /// Groups of each partition.
    pub per_partition: u64,
    /// The rows of a group have so many clustering values in common, besides the partition; `None` where all
    /// rows are one group.
    pub prefix: Option<usize>,
    /// The key of the partition in which the page before ended.
    pub last_key: Option<Bytes>,
    /// The last row of that page.
    pub last_row: Option<Clustering>,
    /// Whether its group may go on.
    pub is_open: bool,
    /// A partition that was begun, and how many groups of it are left.
    pub begun: Option<(Bytes, u64)>,
}

/// What was counted, for who reads on and for who tells.
#[derive(Debug)]
pub(super) struct Counted {
    limits: GroupLimits,
    groups: u64,
    in_partition: u64,
    /// Partitions that are told of, though no row of them may be.
    pub(super) told: Vec<Bytes>,
}

impl Counted {
    pub(super) fn new(limits: GroupLimits) -> Counted {
        Counted { limits, groups: 0, in_partition: 0, told: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.groups >= self.limits.groups
    }

    fn has_left_partition(&self) -> bool {
        self.is_full() || self.in_partition >= self.limits.per_partition
    }

    /// What may come behind it; `None` where it has all groups.
    pub(super) fn left(&self) -> Option<GroupLimits> {
        let groups = self.limits.groups.saturating_sub(self.groups);
        (groups > 0).then(|| GroupLimits { groups, begun: None, ..self.limits.clone() })
    }

    fn count(&mut self) {
        self.groups += 1;
        self.in_partition += 1;
    }

    /// Whether a group begins with a row, or with a partition.
    fn begins(&mut self, command: &ReadCommand, key: &Bytes, row: Option<&Clustering>) -> bool {
        let Some(prefix) = self.limits.prefix else { return false };
        let limits = &mut self.limits;
        let is_other_partition = limits.last_key.as_ref() != Some(key);
        let is_new = is_other_partition
            || match (&limits.last_row, row) {
                (Some(last), Some(row)) => {
                    let comparator = command.table.comparator();
                    comparator.compare_components(last.iter().take(prefix), row.iter().take(prefix)).is_ne()
                }
                _ => false,
            };
        if is_other_partition {
            limits.last_key = Some(key.clone());
        }
        match row {
            Some(row) => limits.last_row.get_or_insert_default().assign(row),
            None => limits.last_row = None,
        }
        is_new
    }

    fn enter(&mut self, command: &ReadCommand, key: &Bytes) -> Entered {
        self.in_partition = 0;
        if let Some((begun, left)) = &self.limits.begun
            && begun == key
        {
            self.in_partition = self.limits.per_partition.saturating_sub(*left);
            return Entered::GoesOn;
        }
        if self.limits.last_key.as_ref() == Some(key) {
            self.limits.is_open = true;
            return Entered::GoesOn;
        }
        if self.limits.is_open && self.begins(command, key, None) {
            self.groups += 1;
            self.limits.is_open = false;
        }
        Entered::New
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entered {
    New,
    /// Rows of it were returned before.
    GoesOn,
}

/// A stream as far as there are groups.
pub(super) struct InGroups {
    stream: BoxedStream,
    command: Arc<ReadCommand>,
    counted: Arc<Mutex<Counted>>,
    key: DecoratedKey,
    static_row: Row,
    has_live_statics: bool,
    has_rows: bool,
    statics_stand_alone: bool,
    /// The range deletion that is open.
    open: Deletion,
    /// The last row of the partition.
    last: Option<Clustering>,
    /// The partition was left, which nobody was told yet.
    is_left: bool,
}

impl InGroups {
    pub(super) fn new(
        stream: BoxedStream,
        command: &Arc<ReadCommand>,
        counted: &Arc<Mutex<Counted>>,
    ) -> InGroups {
        InGroups {
            stream,
            counted: Arc::clone(counted),
            key: Fragment::default().key,
            static_row: Row::default(),
            has_live_statics: false,
            has_rows: false,
            statics_stand_alone: statics_stand_alone(command),
            command: Arc::clone(command),
            open: Deletion::NONE,
            last: None,
            is_left: false,
        }
    }

    fn counted<T>(&self, with: impl FnOnce(&mut Counted) -> T) -> T {
        with(&mut self.counted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn enter(&mut self, key: &DecoratedKey) -> Result<(), ReadError> {
        (self.open, self.last, self.has_live_statics) = (Deletion::NONE, None, false);
        self.key.clone_from(key);
        self.static_row.clear();
        let entered = self.counted(|counted| counted.enter(&self.command, &key.key.0));
        self.has_rows = entered == Entered::GoesOn;
        if self.counted(|counted| counted.is_full()) {
            self.leave_untold()?;
        }
        Ok(())
    }

    /// Leaves the partition before its first row.
    fn leave_untold(&mut self) -> Result<(), ReadError> {
        let key = self.key.key.0.clone();
        self.counted(|counted| counted.told.push(key));
        self.leave()
    }

    fn leave(&mut self) -> Result<(), ReadError> {
        self.is_left = true;
        self.stream.skip_partition()
    }

    fn passes(&self, row: Option<&Row>) -> bool {
        let static_row = (!self.static_row.cells.is_empty()).then_some(&self.static_row);
        let now_s = self.command.now_s;
        filter::passes(&self.command, &ResultRow { key: &self.key, static_row, row, now_s })
    }

    /// Whether a row is part of the answer.
    fn row(&mut self, row: &Row) -> bool {
        let now_s = self.command.now_s;
        let is_live = match self.command.table.has_strict_liveness {
            true => row.liveness.is_live(now_s),
            false => row.is_live(now_s),
        };
        let counts = is_live && self.passes(Some(row));
        let is_told = self.counted(|counted| {
            if counted.begins(&self.command, &self.key.key.0, Some(&row.clustering)) {
                if counted.limits.is_open {
                    counted.count();
                }
                counted.limits.is_open = false;
            }
            if counted.has_left_partition() {
                counted.limits.is_open = false;
                return false;
            }
            counted.limits.is_open |= counts;
            true
        });
        if is_told {
            self.has_rows |= counts;
            self.last.get_or_insert_default().assign(&row.clustering);
        }
        is_told
    }

    /// Ends the partition before the row in `out`: an open range deletion first, behind the last row.
    fn end_before_row(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        match self.last {
            Some(_) => self.leave()?,
            None => self.leave_untold()?,
        }
        if self.open.is_none() {
            self.is_left = false;
            return Ok(Event::PartitionEnd);
        }
        let (behind, before) = match self.command.is_reversed() {
            false => (BoundKind::ExclStart, BoundKind::InclStart),
            true => (BoundKind::InclStart, BoundKind::ExclStart),
        };
        let position = match self.last.take() {
            Some(last) => ClusteringBound { kind: behind, prefix: last },
            None => ClusteringBound { kind: before, prefix: out.row.clustering.clone() },
        };
        out.change = RangeChange { position, deletion: Deletion::NONE };
        Ok(Event::RangeChange)
    }
}

impl PartitionStream for InGroups {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        if std::mem::take(&mut self.is_left) {
            return Ok(Event::PartitionEnd);
        }
        if self.counted(|counted| counted.is_full()) {
            return Ok(Event::End);
        }
        let event = self.stream.next(out)?;
        match event {
            Event::PartitionStart => {
                let key = out.key.clone();
                self.enter(&key)?;
            }
            Event::StaticRow => {
                self.static_row.clone_from(&out.row);
                self.has_live_statics = out.row.is_live(self.command.now_s);
            }
            Event::Row => {
                if !self.row(&out.row) {
                    return self.end_before_row(out);
                }
            }
            Event::RangeChange => self.open = out.change.deletion,
            Event::PartitionEnd => {
                let stands_alone = self.statics_stand_alone && self.has_live_statics && !self.has_rows;
                if stands_alone && self.passes(None) {
                    self.counted(|counted| {
                        counted.count();
                        counted.limits.is_open = false;
                    });
                }
            }
            Event::End => {}
        }
        Ok(event)
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        if std::mem::take(&mut self.is_left) {
            return Ok(());
        }
        self.stream.skip_partition()
    }
}

#[cfg(test)]
mod tests;
