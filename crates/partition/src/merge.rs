//! The k-way merge: several streams of one table become one.
//!
//! 1. Of all sources that stand at the start of a partition, those with the smallest key take part; their
//!    partition deletions merge into one.
//! 2. Their static rows merge.
//! 3. The next position is the first in stream order of those at which the sources stand. Rows there merge
//!    through `model::reconcile`. Range changes there update what is open in their source.
//! 4. The open deletion is the newest of all sources' open ones, where it beats the partition's own. A row
//!    loses what either shadows, and is left out when nothing remains; a change is yielded when the open
//!    deletion changed.
//!
//! One source passes through: its rows are not copied, and touched only where a deletion of its own is open.

use crate::error::ReadError;
use crate::plain::TakePlain;
use crate::stream::{BoxedStream, Event, Fragment, PartitionStream};
use model::{Deletion, Row, TableSchema, reconcile};
use std::cmp::Ordering;
use std::sync::Arc;

/// Merges `sources`, all of `table` and in the direction that `reversed` says.
pub fn merge(
    table: &Arc<TableSchema>,
    sources: impl IntoIterator<Item = BoxedStream>,
    reversed: bool,
) -> BoxedStream {
    let mut sources = sources.into_iter();
    match (sources.next(), sources.next()) {
        (Some(only), None) => Box::new(Shadow::new(only)),
        (Some(first), Some(second)) => {
            let sources = [first, second].into_iter().chain(sources).collect();
            Box::new(Merge::new(Arc::clone(table), sources, reversed))
        }
        (None, _) => Box::new(Nothing),
    }
}

/// The stream of no partitions.
struct Nothing;

impl PartitionStream for Nothing {
    fn next(&mut self, _: &mut Fragment) -> Result<Event, ReadError> {
        Ok(Event::End)
    }
}

/// Several streams, one after the other. The caller keeps the order of partitions: they are yielded as they
/// come.
pub struct Concat<F> {
    current: Option<BoxedStream>,
    next: F,
}

/// Chains the streams that `next` makes until it yields none; each is made only when the one before is over.
pub fn concat<F>(next: F) -> Concat<F>
where
    F: FnMut() -> Result<Option<BoxedStream>, ReadError> + Send,
{
    Concat { current: None, next }
}

impl<F> PartitionStream for Concat<F>
where
    F: FnMut() -> Result<Option<BoxedStream>, ReadError> + Send,
{
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        loop {
            if let Some(stream) = &mut self.current {
                match stream.next(out)? {
                    Event::End => self.current = None,
                    event => return Ok(event),
                }
            }
            match (self.next)()? {
                Some(stream) => self.current = Some(stream),
                None => return Ok(Event::End),
            }
        }
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        match &mut self.current {
            Some(stream) => stream.skip_partition(),
            None => Ok(()),
        }
    }
}

/// One source, relieved of what its own partition and range deletions shadow.
struct Shadow {
    source: BoxedStream,
    partition: Deletion,
    open: Deletion,
    /// The newer of the two.
    shadow: Deletion,
}

impl Shadow {
    fn new(source: BoxedStream) -> Shadow {
        Shadow { source, partition: Deletion::NONE, open: Deletion::NONE, shadow: Deletion::NONE }
    }
}

impl PartitionStream for Shadow {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        loop {
            let event = self.source.next(out)?;
            match event {
                Event::PartitionStart => {
                    self.partition = out.deletion;
                    self.open = Deletion::NONE;
                    self.shadow = out.deletion;
                }
                Event::StaticRow | Event::Row => {
                    if !self.shadow.is_none() {
                        reconcile::apply_deletion(&mut out.row, &self.shadow);
                    }
                    if out.row.is_empty() {
                        continue;
                    }
                }
                Event::RangeChange => {
                    let open = if out.change.deletion.supersedes(&self.partition) {
                        out.change.deletion
                    } else {
                        Deletion::NONE
                    };
                    if open == self.open {
                        continue;
                    }
                    self.open = open;
                    self.shadow = self.partition.max(open);
                    out.change.deletion = open;
                }
                Event::PartitionEnd | Event::End => {}
            }
            return Ok(event);
        }
    }

    fn plain_rows(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        match self.shadow.is_none() {
            true => self.source.plain_rows(take),
            false => Ok(()),
        }
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.source.skip_partition()
    }
}

/// A source of the merge and where it stands.
struct Source {
    stream: BoxedStream,
    /// What `at` announced.
    head: Fragment,
    at: Event,
    /// Its open range deletion.
    open: Deletion,
    /// Takes part in the current partition.
    taking_part: bool,
    /// The head was used up.
    stale: bool,
}

impl Source {
    fn refresh(&mut self) -> Result<(), ReadError> {
        if self.stale {
            self.at = self.stream.next(&mut self.head)?;
            self.stale = false;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    BetweenPartitions,
    Static,
    Rows,
}

struct Merge {
    table: Arc<TableSchema>,
    sources: Vec<Source>,
    reversed: bool,
    phase: Phase,
    partition: Deletion,
    /// The open deletion as last yielded.
    open: Deletion,
}

impl Merge {
    fn new(table: Arc<TableSchema>, streams: Vec<BoxedStream>, reversed: bool) -> Merge {
        let sources = streams
            .into_iter()
            .map(|stream| Source {
                stream,
                head: Fragment::default(),
                at: Event::PartitionEnd,
                open: Deletion::NONE,
                taking_part: false,
                stale: true,
            })
            .collect();
        Merge {
            table,
            sources,
            reversed,
            phase: Phase::BetweenPartitions,
            partition: Deletion::NONE,
            open: Deletion::NONE,
        }
    }

    fn start_partition(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        for source in &mut self.sources {
            source.refresh()?;
        }
        let waiting = || self.sources.iter().filter(|s| s.at == Event::PartitionStart);
        let Some(first) = waiting().min_by(|a, b| a.head.key.cmp(&b.head.key)) else {
            return Ok(Event::End);
        };
        out.key.clone_from(&first.head.key);
        self.partition = Deletion::NONE;
        self.open = Deletion::NONE;
        for source in &mut self.sources {
            source.taking_part = source.at == Event::PartitionStart && source.head.key == out.key;
            if source.taking_part {
                self.partition = self.partition.max(source.head.deletion);
                source.open = Deletion::NONE;
                source.stale = true;
            }
        }
        out.deletion = self.partition;
        self.phase = Phase::Static;
        Ok(Event::PartitionStart)
    }

    /// Merges the static rows into `out`: whether anything is left.
    fn static_row(&mut self, out: &mut Fragment) -> Result<bool, ReadError> {
        self.phase = Phase::Rows;
        let mut found = false;
        for source in self.sources.iter_mut().filter(|s| s.taking_part) {
            source.refresh()?;
            if source.at == Event::StaticRow {
                take_row(&self.table, &mut out.row, source, found);
                found = true;
            }
        }
        if found {
            reconcile::apply_deletion(&mut out.row, &self.partition);
        }
        Ok(found && !out.row.is_empty())
    }

    /// Index of the source that stands first in stream order; `None` when all are at the end of the
    /// partition.
    fn first(&self) -> Option<usize> {
        let mut first: Option<(usize, &Source)> = None;
        for (i, source) in self.sources.iter().enumerate() {
            if !source.taking_part || !matches!(source.at, Event::Row | Event::RangeChange) {
                continue;
            }
            match first {
                Some((_, best)) if self.order(source, best) != Ordering::Less => {}
                _ => first = Some((i, source)),
            }
        }
        first.map(|(i, _)| i)
    }

    /// Order of two sources' positions in stream order.
    fn order(&self, a: &Source, b: &Source) -> Ordering {
        let (Some(x), Some(y)) = (a.head.position(a.at), b.head.position(b.at)) else {
            return Ordering::Equal;
        };
        let order = self.table.comparator().compare_positions(x, y);
        if self.reversed { order.reverse() } else { order }
    }

    fn next_in_partition(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        loop {
            for source in self.sources.iter_mut().filter(|s| s.taking_part) {
                source.refresh()?;
            }
            let Some(first) = self.first() else {
                self.end_partition();
                return Ok(Event::PartitionEnd);
            };
            // Marked before anything moves: the rows and positions are swapped out of their sources below.
            for i in 0..self.sources.len() {
                let (Some(source), Some(best)) = (self.sources.get(i), self.sources.get(first)) else {
                    continue;
                };
                let together = source.taking_part
                    && source.at == best.at
                    && (i == first || self.order(source, best) == Ordering::Equal);
                if let Some(source) = self.sources.get_mut(i) {
                    source.stale = together;
                }
            }
            let is_row = self.sources.get(first).is_some_and(|s| s.at == Event::Row);
            if is_row {
                if self.row(out) {
                    return Ok(Event::Row);
                }
            } else if self.change(out) {
                return Ok(Event::RangeChange);
            }
        }
    }

    /// Merges the rows of the sources marked stale into `out`: whether anything is left.
    fn row(&mut self, out: &mut Fragment) -> bool {
        self.drop_outlived_deletions();
        let mut found = false;
        for source in self.sources.iter_mut().filter(|s| s.taking_part && s.stale) {
            take_row(&self.table, &mut out.row, source, found);
            found = true;
        }
        let shadow = self.partition.max(self.open);
        reconcile::apply_deletion(&mut out.row, &shadow);
        !out.row.is_empty()
    }

    /// Looks at the rows of the sources marked stale. If the newest liveness takes back the newest deletion
    /// of the row, that deletion is dropped, and the older ones with it, as in Cassandra (`Row.Merger`).
    fn drop_outlived_deletions(&mut self) {
        let mut newest = Row::default();
        let rows = self.sources.iter().filter(|s| s.taking_part && s.stale).map(|s| &s.head.row);
        if !rows.clone().any(|row| row.is_shadowable) {
            return;
        }
        for row in rows {
            if row.liveness.supersedes(&newest.liveness) {
                newest.liveness = row.liveness;
            }
            if row.deletion.supersedes(&newest.deletion) {
                newest.set_deletion(row.deletion, row.is_shadowable);
            }
        }
        if newest.drop_outlived_deletion() {
            for source in self.sources.iter_mut().filter(|s| s.taking_part && s.stale) {
                source.head.row.set_deletion(Deletion::NONE, false);
            }
        }
    }

    /// Applies the changes of the sources marked stale: whether the open deletion changed.
    fn change(&mut self, out: &mut Fragment) -> bool {
        for source in self.sources.iter_mut().filter(|s| s.taking_part && s.stale) {
            source.open = source.head.change.deletion;
            out.change.position.clone_from(&source.head.change.position);
        }
        let newest = self
            .sources
            .iter()
            .filter(|s| s.taking_part)
            .fold(Deletion::NONE, |newest, s| newest.max(s.open));
        let open = if newest.supersedes(&self.partition) { newest } else { Deletion::NONE };
        if open == self.open {
            return false;
        }
        self.open = open;
        out.change.deletion = open;
        true
    }

    /// Leaves the current partition: its sources stand at their `PartitionEnd`.
    fn end_partition(&mut self) {
        for source in self.sources.iter_mut().filter(|s| s.taking_part) {
            source.taking_part = false;
            source.stale = source.at != Event::End;
        }
        self.phase = Phase::BetweenPartitions;
    }
}

/// The first row is swapped into `into`, later ones are merged into it.
fn take_row(table: &TableSchema, into: &mut Row, source: &mut Source, found: bool) {
    if found {
        reconcile::merge_row_into(table, into, &source.head.row);
    } else {
        std::mem::swap(into, &mut source.head.row);
    }
    source.stale = true;
}

impl PartitionStream for Merge {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        match self.phase {
            Phase::BetweenPartitions => self.start_partition(out),
            Phase::Static => {
                if self.static_row(out)? {
                    Ok(Event::StaticRow)
                } else {
                    self.next_in_partition(out)
                }
            }
            Phase::Rows => self.next_in_partition(out),
        }
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        if self.phase == Phase::BetweenPartitions {
            return Ok(());
        }
        for source in self.sources.iter_mut().filter(|s| s.taking_part) {
            source.taking_part = false;
            if source.stale || !matches!(source.at, Event::PartitionEnd | Event::End) {
                source.stream.skip_partition()?;
                source.at = Event::PartitionEnd;
            }
            source.stale = source.at != Event::End;
        }
        self.phase = Phase::BetweenPartitions;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
