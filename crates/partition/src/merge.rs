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
//!
//! Plain rows that no other source has are handed on where they lie. Sources that stand at one are asked for
//! it as a fragment only when it has to be merged.

mod plain;

use crate::error::ReadError;
use crate::plain::{PlainHead, TakePlain};
use crate::stream::{BoxedStream, Event, Fragment, PartitionStream};
use model::{BoundKind, Deletion, Row, TableSchema, reconcile};
use plain::Placed;
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

    fn plain_rows(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        match &mut self.current {
            Some(stream) => stream.plain_rows(take),
            None => Ok(()),
        }
    }

    fn peek_plain(&mut self, out: &mut PlainHead) -> Result<bool, ReadError> {
        match &mut self.current {
            Some(stream) => stream.peek_plain(out),
            None => Ok(false),
        }
    }

    fn leave_plain(&mut self) {
        self.current.iter_mut().for_each(|stream| stream.leave_plain());
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

/// What is known of what a source has next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nothing: what it had was used up.
    Nothing,
    /// `at` and the head.
    Head,
    /// A plain row. The stream still stands before it.
    Plain,
}

/// A source of the merge and where it stands.
struct Source {
    stream: BoxedStream,
    known: Known,
    /// What comes next.
    at: Event,
    /// What `at` announced, if that is known as a fragment.
    head: Fragment,
    /// The row that comes next, if it is known as a plain one.
    plain: PlainHead,
    /// Its open range deletion.
    open: Deletion,
    /// Takes part in the current partition.
    taking_part: bool,
    /// Its head is part of what the merge yields next.
    chosen: bool,
}

impl Source {
    fn new(stream: BoxedStream) -> Source {
        Source {
            stream,
            known: Known::Nothing,
            at: Event::PartitionEnd,
            head: Fragment::default(),
            plain: PlainHead::default(),
            open: Deletion::NONE,
            taking_part: false,
            chosen: false,
        }
    }

    /// Finds what comes next, as a fragment, unless something is known.
    fn refresh(&mut self) -> Result<(), ReadError> {
        match self.known {
            Known::Nothing => self.read_head(),
            Known::Head | Known::Plain => Ok(()),
        }
    }

    fn read_head(&mut self) -> Result<(), ReadError> {
        self.at = self.stream.next(&mut self.head)?;
        self.known = Known::Head;
        Ok(())
    }

    /// Finds what comes next, as a plain row if it is one, unless something is known. Says whether it does.
    fn peek(&mut self) -> Result<bool, ReadError> {
        if self.known == Known::Nothing && self.stream.peek_plain(&mut self.plain)? {
            (self.at, self.known) = (Event::Row, Known::Plain);
        }
        Ok(self.known != Known::Nothing)
    }

    /// Leaves the end of a partition; of a stream that is over nothing more is asked.
    fn pass_end(&mut self) {
        self.known = if self.at == Event::End { Known::Head } else { Known::Nothing };
    }

    /// Whether it stands at a row or a change of the partition.
    fn is_inside(&self) -> bool {
        self.taking_part && matches!(self.at, Event::Row | Event::RangeChange)
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
    /// For plain rows: the sources inside the partition, in the order in which they stand.
    line: Vec<Placed>,
}

impl Merge {
    fn new(table: Arc<TableSchema>, streams: Vec<BoxedStream>, reversed: bool) -> Merge {
        let sources = streams.into_iter().map(Source::new).collect();
        Merge {
            table,
            sources,
            reversed,
            phase: Phase::BetweenPartitions,
            partition: Deletion::NONE,
            open: Deletion::NONE,
            line: Vec::new(),
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
                source.known = Known::Nothing;
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
        for (i, source) in self.sources.iter().enumerate().filter(|(_, source)| source.is_inside()) {
            match first {
                Some((_, best)) if self.order(source, best) != Ordering::Less => {}
                _ => first = Some((i, source)),
            }
        }
        first.map(|(i, _)| i)
    }

    /// Order of two sources' positions in stream order.
    fn order(&self, a: &Source, b: &Source) -> Ordering {
        let comparator = self.table.comparator();
        let order = match (a.known, b.known) {
            (Known::Plain, Known::Plain) => {
                comparator.compare_components(a.plain.row().components(), b.plain.row().components())
            }
            (Known::Plain, _) => self.order_of_plain(a, b),
            (_, Known::Plain) => self.order_of_plain(b, a).reverse(),
            _ => match (a.head.position(a.at), b.head.position(b.at)) {
                (Some(a), Some(b)) => comparator.compare_positions(a, b),
                _ => Ordering::Equal,
            },
        };
        if self.reversed { order.reverse() } else { order }
    }

    /// Order of a plain row and a head.
    fn order_of_plain(&self, plain: &Source, other: &Source) -> Ordering {
        let Some(position) = other.head.position(other.at) else { return Ordering::Equal };
        let (row, comparator) = (plain.plain.row(), self.table.comparator());
        comparator.compare_components(row.components(), position.prefix.iter()).then_with(|| {
            let len = row.components().count();
            BoundKind::Row.order_of_equals(len, position.kind, position.prefix.len())
        })
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
            if self.choose(first)? {
                continue;
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

    /// Chooses the sources that stand where `first` does, before anything moves: their rows and positions
    /// are swapped out of them. Says whether plain rows among them became heads, which is to be looked at
    /// first.
    fn choose(&mut self, first: usize) -> Result<bool, ReadError> {
        let mut were_plain = false;
        for i in 0..self.sources.len() {
            let (Some(source), Some(best)) = (self.sources.get(i), self.sources.get(first)) else {
                continue;
            };
            let together = source.taking_part
                && source.at == best.at
                && (i == first || self.order(source, best) == Ordering::Equal);
            if let Some(source) = self.sources.get_mut(i) {
                source.chosen = together;
                were_plain |= together && source.known == Known::Plain;
            }
        }
        if were_plain {
            let plain = |source: &&mut Source| source.chosen && source.known == Known::Plain;
            self.sources.iter_mut().filter(plain).try_for_each(Source::read_head)?;
        }
        Ok(were_plain)
    }

    /// Merges the rows of the chosen sources into `out`: whether anything is left.
    fn row(&mut self, out: &mut Fragment) -> bool {
        self.drop_outlived_deletions();
        let mut found = false;
        for source in self.sources.iter_mut().filter(|s| s.taking_part && s.chosen) {
            take_row(&self.table, &mut out.row, source, found);
            found = true;
        }
        let shadow = self.partition.max(self.open);
        reconcile::apply_deletion(&mut out.row, &shadow);
        !out.row.is_empty()
    }

    /// Looks at the rows of the chosen sources. If the newest liveness takes back the newest deletion
    /// of the row, that deletion is dropped, and the older ones with it, as in Cassandra (`Row.Merger`).
    fn drop_outlived_deletions(&mut self) {
        let mut newest = Row::default();
        let rows = self.sources.iter().filter(|s| s.taking_part && s.chosen).map(|s| &s.head.row);
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
            for source in self.sources.iter_mut().filter(|s| s.taking_part && s.chosen) {
                source.head.row.set_deletion(Deletion::NONE, false);
            }
        }
    }

    /// Applies the changes of the chosen sources: whether the open deletion changed.
    fn change(&mut self, out: &mut Fragment) -> bool {
        for source in self.sources.iter_mut().filter(|s| s.taking_part && s.chosen) {
            source.open = source.head.change.deletion;
            source.known = Known::Nothing;
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
            source.pass_end();
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
    source.known = Known::Nothing;
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

    fn plain_rows(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        let nothing_bears_on_rows = self.partition.is_none() && self.open.is_none() && !self.reversed;
        if self.phase == Phase::BetweenPartitions || !nothing_bears_on_rows || !self.line_up()? {
            return Ok(());
        }
        self.take_plain(take)
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        if self.phase == Phase::BetweenPartitions {
            return Ok(());
        }
        for source in self.sources.iter_mut().filter(|s| s.taking_part) {
            source.taking_part = false;
            if source.known == Known::Nothing || !matches!(source.at, Event::PartitionEnd | Event::End) {
                source.stream.skip_partition()?;
                source.at = Event::PartitionEnd;
            }
            source.pass_end();
        }
        self.phase = Phase::BetweenPartitions;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
