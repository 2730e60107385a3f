//! Clusterings, bounds and slices: positions inside a partition and their order.
//!
//! Rows of a partition are ordered by their clustering columns, each ascending or descending. A bound is a
//! prefix of a clustering that sorts just before or just after everything it is a prefix of. For descending
//! columns the kinds of bounds are those of the *storage order*: `c > 3` on a DESC column ends, not starts,
//! at 3.

use crate::types::CqlType;
use bytes::Bytes;
use smallvec::{Array, SmallVec};
use std::cmp::Ordering;
use std::sync::Arc;

/// One component of a clustering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component<'a> {
    /// Absent (compact tables and dense prefixes only); sorts before every value.
    Null,
    /// A value, possibly of no bytes.
    Value(&'a [u8]),
}

/// The values of the clustering columns of a row, or of the first of them.
///
/// All components lie in one buffer, so a `Clustering` can be refilled row after row without allocating;
/// short ones, a uuid or a timestamp and a name, never allocate.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Clustering {
    bytes: SmallVec<[u8; INLINE_BYTES]>,
    /// End of each component in `bytes`; the top bit marks a null.
    ends: SmallVec<[u32; 4]>,
}

const NULL_FLAG: u32 = 1 << 31;

impl Clone for Clustering {
    /// Copies the bytes as they are, which the derived one does one by one.
    fn clone(&self) -> Clustering {
        Clustering { bytes: SmallVec::from_slice(&self.bytes), ends: SmallVec::from_slice(&self.ends) }
    }

    fn clone_from(&mut self, other: &Clustering) {
        self.assign(other);
    }
}

/// Gives `into` another content. A short one is moved there as a whole, which costs less than to append it.
#[inline]
fn refill<A: Array>(into: &mut SmallVec<A>, content: &[A::Item])
where
    A::Item: Copy,
{
    if content.len() <= into.inline_size() && !into.spilled() {
        *into = SmallVec::from_slice(content);
    } else {
        into.clear();
        into.extend_from_slice(content);
    }
}

/// Bytes of values that take no memory of their own.
const INLINE_BYTES: usize = 24;

impl Clustering {
    /// No components: the clustering of a static row, or of the only row of a partition without clustering
    /// columns.
    pub const fn empty() -> Clustering {
        Clustering { bytes: SmallVec::new_const(), ends: SmallVec::new_const() }
    }

    /// A clustering of the given values.
    pub fn from_values<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Clustering {
        let mut out = Clustering::empty();
        for value in values {
            out.push(Component::Value(value));
        }
        out
    }

    /// Removes all components and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends a component.
    pub fn push(&mut self, component: Component<'_>) {
        match component {
            Component::Null => self.ends.push(self.bytes.len() as u32 | NULL_FLAG),
            Component::Value(value) => {
                match self.bytes.is_empty() {
                    true => refill(&mut self.bytes, value),
                    false => self.bytes.extend_from_slice(value),
                }
                self.ends.push(self.bytes.len() as u32);
            }
        }
    }

    /// Copies `other` into this one, reusing the memory.
    pub fn assign(&mut self, other: &Clustering) {
        refill(&mut self.bytes, &other.bytes);
        refill(&mut self.ends, &other.ends);
    }

    /// Number of components.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no components.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The component at `index`; `Null` past the end.
    #[inline]
    pub fn get(&self, index: usize) -> Component<'_> {
        let Some(end) = self.ends.get(index) else { return Component::Null };
        if end & NULL_FLAG != 0 {
            return Component::Null;
        }
        let start = match index {
            0 => 0,
            _ => self.ends.get(index - 1).map_or(0, |e| e & !NULL_FLAG),
        };
        Component::Value(self.bytes.get(start as usize..*end as usize).unwrap_or_default())
    }

    /// The value at `index` as bytes: `None` for a null.
    #[inline]
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        match self.get(index) {
            Component::Null => None,
            Component::Value(value) => Some(value),
        }
    }

    /// The components in order.
    #[inline]
    pub fn iter(&self) -> Components<'_> {
        Components { bytes: &self.bytes, ends: self.ends.iter(), start: 0 }
    }

    /// The first `count` components.
    pub fn prefix(&self, count: usize) -> Clustering {
        let mut out = Clustering::empty();
        for component in self.iter().take(count) {
            out.push(component);
        }
        out
    }

    /// Bytes of memory held by the values.
    pub fn data_size(&self) -> usize {
        self.bytes.len()
    }
}

/// The components of a clustering, in order.
#[derive(Clone, Debug)]
pub struct Components<'a> {
    bytes: &'a [u8],
    ends: std::slice::Iter<'a, u32>,
    start: u32,
}

impl<'a> Iterator for Components<'a> {
    type Item = Component<'a>;

    #[inline]
    fn next(&mut self) -> Option<Component<'a>> {
        let end = *self.ends.next()?;
        let start = std::mem::replace(&mut self.start, end & !NULL_FLAG);
        Some(match end & NULL_FLAG {
            0 => Component::Value(self.bytes.get(start as usize..end as usize).unwrap_or_default()),
            _ => Component::Null,
        })
    }
}

/// What a position inside a partition is; the numbers are those of the SSTable format
/// (docs/formats/sstable-big.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BoundKind {
    /// End of a range, its last position excluded.
    ExclEnd = 0,
    /// Start of a range, its first position included.
    InclStart = 1,
    /// One range ends, excluded, where another starts, included.
    ExclEndInclStart = 2,
    /// The static row.
    Static = 3,
    /// A row.
    Row = 4,
    /// One range ends, included, where another starts, excluded.
    InclEndExclStart = 5,
    /// End of a range, its last position included.
    InclEnd = 6,
    /// Start of a range, its first position excluded.
    ExclStart = 7,
}

impl BoundKind {
    /// The kind of an on-disk ordinal; `None` for one that is never written.
    pub fn from_ordinal(ordinal: u8) -> Option<BoundKind> {
        Some(match ordinal {
            0 => BoundKind::ExclEnd,
            1 => BoundKind::InclStart,
            2 => BoundKind::ExclEndInclStart,
            3 => BoundKind::Static,
            4 => BoundKind::Row,
            5 => BoundKind::InclEndExclStart,
            6 => BoundKind::InclEnd,
            7 => BoundKind::ExclStart,
            _ => return None,
        })
    }

    /// Order of positions whose components are equal.
    fn weight(self) -> u8 {
        match self {
            BoundKind::ExclEnd | BoundKind::InclStart | BoundKind::ExclEndInclStart => 0,
            BoundKind::Static => 1,
            BoundKind::Row => 2,
            BoundKind::InclEndExclStart | BoundKind::InclEnd | BoundKind::ExclStart => 3,
        }
    }

    /// How a prefix of this kind sorts against longer positions that it is a prefix of.
    fn against_longer(self) -> Ordering {
        match self.weight() {
            0 => Ordering::Less,
            3 => Ordering::Greater,
            // A row prefix that is shorter than another (dense compact tables) sorts first.
            _ => Ordering::Less,
        }
    }

    /// Order of two positions that are equal as far as both have components: this one has `len`, the other
    /// `other_len`.
    pub fn order_of_equals(self, len: usize, other: BoundKind, other_len: usize) -> Ordering {
        match len.cmp(&other_len) {
            Ordering::Less => self.against_longer(),
            Ordering::Greater => other.against_longer().reverse(),
            Ordering::Equal => self.weight().cmp(&other.weight()),
        }
    }

    /// Whether a range starts here (boundaries included), in clustering order.
    pub fn is_start(self) -> bool {
        matches!(self, BoundKind::InclStart | BoundKind::ExclStart) || self.is_boundary()
    }

    /// Whether a range ends here (boundaries included), in clustering order.
    pub fn is_end(self) -> bool {
        matches!(self, BoundKind::InclEnd | BoundKind::ExclEnd) || self.is_boundary()
    }

    /// Whether one range ends and another starts here.
    pub fn is_boundary(self) -> bool {
        matches!(self, BoundKind::ExclEndInclStart | BoundKind::InclEndExclStart)
    }

    /// Whether the kind belongs to a range tombstone bound or boundary.
    pub fn is_bound(self) -> bool {
        !matches!(self, BoundKind::Row | BoundKind::Static)
    }

    /// The kind that opens a range where this one closes it, and the reverse: the two share the position.
    pub fn complement(self) -> BoundKind {
        match self {
            BoundKind::ExclEnd => BoundKind::InclStart,
            BoundKind::InclStart => BoundKind::ExclEnd,
            BoundKind::InclEnd => BoundKind::ExclStart,
            BoundKind::ExclStart => BoundKind::InclEnd,
            other => other,
        }
    }

    /// The boundary that stands for this end and the start of the next range at one position (and the
    /// reverse).
    pub fn as_boundary(self) -> BoundKind {
        match self {
            BoundKind::ExclEnd | BoundKind::InclStart => BoundKind::ExclEndInclStart,
            BoundKind::InclEnd | BoundKind::ExclStart => BoundKind::InclEndExclStart,
            other => other,
        }
    }

    /// The closing half of a boundary; other kinds are returned as they are.
    pub fn close_half(self) -> BoundKind {
        match self {
            BoundKind::ExclEndInclStart => BoundKind::ExclEnd,
            BoundKind::InclEndExclStart => BoundKind::InclEnd,
            other => other,
        }
    }

    /// The opening half of a boundary; other kinds are returned as they are.
    pub fn open_half(self) -> BoundKind {
        match self {
            BoundKind::ExclEndInclStart => BoundKind::InclStart,
            BoundKind::InclEndExclStart => BoundKind::ExclStart,
            other => other,
        }
    }
}

/// A bound: a prefix of a clustering and on which side of it the position lies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusteringBound {
    /// Never `Row` or `Static`.
    pub kind: BoundKind,
    /// The prefix; empty for the start or the end of the partition.
    pub prefix: Clustering,
}

impl ClusteringBound {
    /// Before every row.
    pub const BOTTOM: ClusteringBound =
        ClusteringBound { kind: BoundKind::InclStart, prefix: Clustering::empty() };
    /// After every row.
    pub const TOP: ClusteringBound =
        ClusteringBound { kind: BoundKind::InclEnd, prefix: Clustering::empty() };

    /// A bound of `kind` at `prefix`.
    pub fn new(kind: BoundKind, prefix: Clustering) -> ClusteringBound {
        ClusteringBound { kind, prefix }
    }

    /// The bound that includes `clustering` as the first of a range.
    pub fn start_at(clustering: Clustering) -> ClusteringBound {
        ClusteringBound::new(BoundKind::InclStart, clustering)
    }

    /// The bound that includes `clustering` as the last of a range.
    pub fn end_at(clustering: Clustering) -> ClusteringBound {
        ClusteringBound::new(BoundKind::InclEnd, clustering)
    }

    /// The position.
    #[inline]
    pub fn position(&self) -> Position<'_> {
        Position { kind: self.kind, prefix: &self.prefix }
    }
}

/// A borrowed position inside a partition: a row's or a bound's.
#[derive(Clone, Copy, Debug)]
pub struct Position<'a> {
    /// What lies there.
    pub kind: BoundKind,
    /// Its components.
    pub prefix: &'a Clustering,
}

impl<'a> Position<'a> {
    /// The position of a row.
    #[inline]
    pub fn row(clustering: &'a Clustering) -> Position<'a> {
        Position { kind: BoundKind::Row, prefix: clustering }
    }
}

/// The order of a table's clusterings.
#[derive(Clone, Debug, Default)]
pub struct ClusteringComparator {
    columns: Arc<[(CqlType, bool)]>,
}

impl ClusteringComparator {
    /// Columns in order, each with its type and whether it is descending.
    pub fn new(columns: impl IntoIterator<Item = (CqlType, bool)>) -> ClusteringComparator {
        ClusteringComparator { columns: columns.into_iter().collect() }
    }

    /// Number of clustering columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether the table has no clustering columns.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The type of each column and whether it is descending.
    pub fn columns(&self) -> impl Iterator<Item = (&CqlType, bool)> {
        self.columns.iter().map(|(ty, descending)| (ty, *descending))
    }

    /// The type of the column at `index` and whether it is descending.
    pub fn column(&self, index: usize) -> Option<(&CqlType, bool)> {
        self.columns.get(index).map(|(ty, desc)| (ty, *desc))
    }

    /// Compares one component in storage order. Nulls sort first, whatever the direction.
    #[inline]
    pub fn compare_component(&self, index: usize, a: Component<'_>, b: Component<'_>) -> Ordering {
        match (a, b) {
            (Component::Null, Component::Null) => Ordering::Equal,
            (Component::Null, _) => Ordering::Less,
            (_, Component::Null) => Ordering::Greater,
            (Component::Value(a), Component::Value(b)) => match self.columns.get(index) {
                Some((ty, false)) => ty.compare(a, b),
                Some((ty, true)) => ty.compare(b, a),
                None => a.cmp(b),
            },
        }
    }

    /// Compares two rows' clusterings in storage order.
    #[inline]
    pub fn compare(&self, a: &Clustering, b: &Clustering) -> Ordering {
        self.compare_positions(Position::row(a), Position::row(b))
    }

    /// Compares two positions in storage order (docs/formats/sstable-big.md, "Ordering of two prefixes").
    pub fn compare_positions(&self, a: Position<'_>, b: Position<'_>) -> Ordering {
        self.compare_components(a.prefix.iter(), b.prefix.iter())
            .then_with(|| a.kind.order_of_equals(a.prefix.len(), b.kind, b.prefix.len()))
    }

    /// Compares components, as far as both sides have them.
    #[inline]
    pub fn compare_components<'a, 'b>(
        &self,
        a: impl Iterator<Item = Component<'a>>,
        b: impl Iterator<Item = Component<'b>>,
    ) -> Ordering {
        for (i, (one, other)) in a.zip(b).enumerate() {
            let order = self.compare_component(i, one, other);
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// A contiguous range of positions in storage order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// `InclStart` or `ExclStart`.
    pub start: ClusteringBound,
    /// `InclEnd` or `ExclEnd`.
    pub end: ClusteringBound,
}

impl Slice {
    /// Every row.
    pub const ALL: Slice = Slice { start: ClusteringBound::BOTTOM, end: ClusteringBound::TOP };

    /// Just the rows that `prefix` is a prefix of.
    pub fn of_prefix(prefix: Clustering) -> Slice {
        Slice { start: ClusteringBound::start_at(prefix.clone()), end: ClusteringBound::end_at(prefix) }
    }

    /// Whether the slice selects every row.
    pub fn is_all(&self) -> bool {
        self.start.prefix.is_empty() && self.end.prefix.is_empty()
    }

    /// Whether the slice cannot contain any row.
    pub fn is_empty(&self, comparator: &ClusteringComparator) -> bool {
        comparator.compare_positions(self.start.position(), self.end.position()) != Ordering::Less
    }

    /// Whether the position lies between start and end.
    pub fn contains(&self, comparator: &ClusteringComparator, position: Position<'_>) -> bool {
        comparator.compare_positions(self.start.position(), position) != Ordering::Greater
            && comparator.compare_positions(position, self.end.position()) != Ordering::Greater
    }
}

/// The value of a component as `Bytes`, for callers that keep it.
pub fn component_bytes(component: Component<'_>) -> Option<Bytes> {
    match component {
        Component::Null => None,
        Component::Value(value) => Some(Bytes::copy_from_slice(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(values: &[i32]) -> Clustering {
        let mut out = Clustering::empty();
        for v in values {
            out.push(Component::Value(&v.to_be_bytes()));
        }
        out
    }

    fn comparator(desc: bool) -> ClusteringComparator {
        ClusteringComparator::new([(CqlType::Int, desc), (CqlType::Int, false)])
    }

    #[test]
    fn bounds_surround_what_they_are_prefixes_of() {
        let cmp = comparator(false);
        let row = ints(&[1, 5]);
        for (kind, expected) in [
            (BoundKind::InclStart, Ordering::Less),
            (BoundKind::ExclEnd, Ordering::Less),
            (BoundKind::InclEnd, Ordering::Greater),
            (BoundKind::ExclStart, Ordering::Greater),
        ] {
            for prefix in [ints(&[]), ints(&[1]), ints(&[1, 5])] {
                let bound = ClusteringBound::new(kind, prefix);
                assert_eq!(cmp.compare_positions(bound.position(), Position::row(&row)), expected);
                assert_eq!(cmp.compare_positions(Position::row(&row), bound.position()), expected.reverse());
            }
        }
    }

    #[test]
    fn descending_columns_turn_values_but_not_nulls() {
        let cmp = comparator(true);
        assert_eq!(cmp.compare(&ints(&[2, 0]), &ints(&[1, 0])), Ordering::Less);
        let mut null = Clustering::empty();
        null.push(Component::Null);
        null.push(Component::Value(&[0, 0, 0, 0]));
        assert_eq!(cmp.compare(&null, &ints(&[9, 0])), Ordering::Less);
    }

    #[test]
    fn components_of_every_length_are_what_was_pushed() {
        let bytes: Vec<u8> = (1..=60).collect();
        let mut c = Clustering::empty();
        for len in (0..=40).chain((0..=40).rev()) {
            let values =
                [Component::Value(&bytes[..len]), Component::Null, Component::Value(&bytes[len..len + 20])];
            c.clear();
            values.into_iter().for_each(|value| c.push(value));
            assert!(c.iter().eq(values), "{len}: {c:?}");
            assert!((0..3).map(|i| c.get(i)).eq(values), "{len}: {c:?}");
        }
    }

    #[test]
    fn components_survive_a_refill() {
        let mut c = ints(&[1, 2]);
        let other = ints(&[7]);
        c.assign(&other);
        assert_eq!(c, other);
        c.clear();
        c.push(Component::Value(b""));
        c.push(Component::Null);
        c.push(Component::Value(b"x"));
        assert_eq!(c.get(0), Component::Value(b""));
        assert_eq!(c.get(1), Component::Null);
        assert_eq!(c.get(2), Component::Value(b"x"));
    }
}
