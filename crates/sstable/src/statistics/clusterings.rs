//! Where the rows and range tombstones of an SSTable lie, gathered while it is written.

use model::clustering::Position;
use model::{BoundKind, Clustering, ClusteringBound, ClusteringComparator, Component, Slice};
use std::cmp::Ordering;

/// What is covered so far.
#[derive(Clone, Debug)]
pub(super) enum CoveredClusterings {
    /// For versions that bound clusterings by two lists of values.
    Values(ValueRange),
    /// For versions that hold a slice.
    Positions(PositionRange),
}

impl CoveredClusterings {
    /// Takes the position of a row or a marker into account.
    pub fn add(&mut self, position: Position<'_>, comparator: &ClusteringComparator) {
        match self {
            CoveredClusterings::Values(range) => range.add(position.prefix, comparator),
            CoveredClusterings::Positions(range) => range.add(position, comparator),
        }
    }

    pub fn finish(self) -> Slice {
        match self {
            CoveredClusterings::Values(range) => range.finish(),
            CoveredClusterings::Positions(range) => range.finish(),
        }
    }
}

/// Smallest and largest value of each clustering column over all positions, cut to the columns that every
/// position has. That is right for readers that compare whole prefixes and for those that compare column by
/// column.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueRange {
    seen: bool,
    min: Vec<Vec<u8>>,
    max: Vec<Vec<u8>>,
}

impl ValueRange {
    fn add(&mut self, prefix: &Clustering, comparator: &ClusteringComparator) {
        let known =
            prefix.iter().take_while(|c| matches!(c, Component::Value(v) if v.len() <= u16::MAX as usize));
        let known = known.count();
        if !self.seen {
            self.seen = true;
            let values = || prefix.iter().take(known).filter_map(value).map(<[u8]>::to_vec);
            (self.min, self.max) = (values().collect(), values().collect());
            return;
        }
        self.min.truncate(known);
        self.max.truncate(known);
        for (i, (min, max)) in self.min.iter_mut().zip(&mut self.max).enumerate() {
            let here = prefix.get(i);
            let Component::Value(bytes) = here else { continue };
            if comparator.compare_component(i, here, Component::Value(min)) == Ordering::Less {
                min.clear();
                min.extend_from_slice(bytes);
            } else if comparator.compare_component(i, here, Component::Value(max)) == Ordering::Greater {
                max.clear();
                max.extend_from_slice(bytes);
            }
        }
    }

    fn finish(self) -> Slice {
        let prefix = |values: &[Vec<u8>]| Clustering::from_values(values.iter().map(Vec::as_slice));
        Slice {
            start: ClusteringBound::start_at(prefix(&self.min)),
            end: ClusteringBound::end_at(prefix(&self.max)),
        }
    }
}

fn value(component: Component<'_>) -> Option<&[u8]> {
    match component {
        Component::Value(value) => Some(value),
        Component::Null => None,
    }
}

/// The first and the last position.
#[derive(Clone, Debug)]
pub(super) struct PositionRange {
    min: ClusteringBound,
    max: ClusteringBound,
}

impl Default for PositionRange {
    /// Nothing: from behind everything to before everything.
    fn default() -> Self {
        let edge = |kind| ClusteringBound { kind, prefix: Clustering::empty() };
        PositionRange { min: edge(BoundKind::ExclStart), max: edge(BoundKind::ExclEnd) }
    }
}

impl PositionRange {
    fn add(&mut self, position: Position<'_>, comparator: &ClusteringComparator) {
        // Where a range ends and another starts there is something before and behind.
        if position.kind.is_boundary() {
            return;
        }
        // A range that starts somewhere ends behind it, so it is never the last position, nor its end the
        // first.
        let (start, end) = match position.kind {
            BoundKind::InclStart | BoundKind::ExclStart => (Some(position.kind), None),
            BoundKind::InclEnd | BoundKind::ExclEnd => (None, Some(position.kind)),
            _ => (Some(BoundKind::InclStart), Some(BoundKind::InclEnd)),
        };
        let compare = |kind, edge: &ClusteringBound| {
            comparator.compare_positions(Position { kind, prefix: position.prefix }, edge.position())
        };
        if let Some(kind) = end
            && compare(kind, &self.max) == Ordering::Greater
        {
            self.max.kind = kind;
            self.max.prefix.assign(position.prefix);
        }
        if let Some(kind) = start
            && compare(kind, &self.min) == Ordering::Less
        {
            self.min.kind = kind;
            self.min.prefix.assign(position.prefix);
        }
    }

    fn finish(self) -> Slice {
        Slice { start: self.min, end: self.max }
    }
}
