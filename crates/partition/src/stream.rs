//! The stream trait and its fragments. The grammar is at the top of the crate.

use crate::error::ReadError;
use crate::plain::{PlainHead, TakePlain};
use model::clustering::Position;
use model::{BoundKind, ClusteringBound, DecoratedKey, Deletion, Row};

/// From this position on, in stream order, another range deletion holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeChange {
    /// Where. Only the side matters, so the kind is always [`BoundKind::InclStart`] (before all rows that the
    /// prefix is a prefix of) or [`BoundKind::ExclStart`] (after them).
    pub position: ClusteringBound,
    /// The deletion that holds from here on, [`Deletion::NONE`] for none.
    pub deletion: Deletion,
}

impl RangeChange {
    /// A change at the position of `bound`, whatever its kind.
    pub fn at(mut bound: ClusteringBound, deletion: Deletion) -> RangeChange {
        bound.kind = side(bound.kind);
        RangeChange { position: bound, deletion }
    }
}

/// The kind that stands for all kinds of one side.
pub(crate) fn side(kind: BoundKind) -> BoundKind {
    match kind {
        BoundKind::ExclEnd | BoundKind::InclStart | BoundKind::ExclEndInclStart => BoundKind::InclStart,
        _ => BoundKind::ExclStart,
    }
}

/// What a call of [`PartitionStream::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `key` and `deletion` of the fragment are those of the partition that starts.
    PartitionStart,
    /// `row` is the static row.
    StaticRow,
    /// `row` is a row.
    Row,
    /// `change` is where the open range deletion changes.
    RangeChange,
    /// The partition is over.
    PartitionEnd,
    /// The stream is over.
    End,
}

/// Where a stream puts what it found. A consumer keeps one and passes it to each call, so that its memory is
/// used again. The [`Event`] says which part is meant.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// Key of the partition that starts.
    pub key: DecoratedKey,
    /// Deletion of the partition that starts.
    pub deletion: Deletion,
    /// A row or the static row.
    pub row: Row,
    /// A range change.
    pub change: RangeChange,
}

impl Default for Fragment {
    fn default() -> Self {
        Fragment {
            key: DecoratedKey { token: model::Token::MIN, key: model::PartitionKey(bytes::Bytes::new()) },
            deletion: Deletion::NONE,
            row: Row::default(),
            change: RangeChange { position: ClusteringBound::BOTTOM, deletion: Deletion::NONE },
        }
    }
}

impl Fragment {
    /// The position of the row or the change that `event` announced; `None` for other events.
    pub fn position(&self, event: Event) -> Option<Position<'_>> {
        match event {
            Event::Row => Some(Position::row(&self.row.clustering)),
            Event::RangeChange => Some(self.change.position.position()),
            _ => None,
        }
    }
}

/// A stream of partitions; see the grammar at the top of the crate.
pub trait PartitionStream: Send {
    /// Finds the next fragment and puts it into `out`.
    ///
    /// # Errors
    /// When the source cannot be read; the stream is of no use afterwards.
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError>;

    /// Hands rows that come next to `take`, as long as they are plain, lie at hand, and it wants more. Other
    /// rows, and whatever else comes, are the next fragments. Not every source does that, nor for every row.
    /// It is asked only inside a partition.
    ///
    /// # Errors
    /// As for [`PartitionStream::next`].
    fn plain_rows(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        let _ = take;
        Ok(())
    }

    /// Puts the row that comes next into `out`, if it is plain and lies at hand; says whether it did. The row
    /// still comes next. As for [`PartitionStream::plain_rows`], not every source does that.
    ///
    /// # Errors
    /// As for [`PartitionStream::next`].
    fn peek_plain(&mut self, out: &mut PlainHead) -> Result<bool, ReadError> {
        let _ = out;
        Ok(false)
    }

    /// Leaves the row that [`PartitionStream::peek_plain`] found just before.
    fn leave_plain(&mut self) {}

    /// Leaves the rest of the current partition: the next event is the start of the next partition, or the
    /// end. Sources that can jump do so.
    ///
    /// # Errors
    /// As for [`PartitionStream::next`].
    fn skip_partition(&mut self) -> Result<(), ReadError> {
        let mut scratch = Fragment::default();
        loop {
            if matches!(self.next(&mut scratch)?, Event::PartitionEnd | Event::End) {
                return Ok(());
            }
        }
    }
}

/// Any stream.
pub type BoxedStream = Box<dyn PartitionStream>;

impl<S: PartitionStream + ?Sized> PartitionStream for Box<S> {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        (**self).next(out)
    }

    fn plain_rows(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        (**self).plain_rows(take)
    }

    fn peek_plain(&mut self, out: &mut PlainHead) -> Result<bool, ReadError> {
        (**self).peek_plain(out)
    }

    fn leave_plain(&mut self) {
        (**self).leave_plain();
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        (**self).skip_partition()
    }
}
