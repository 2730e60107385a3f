//! Which elements of a multi-cell column a read wants.

use crate::cell::{Cell, ColumnId};
use crate::types::CqlType;
use bytes::Bytes;

/// A stretch of paths, both ends included; open where an end is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRange {
    /// The first path.
    pub from: Option<Bytes>,
    /// The last path.
    pub to: Option<Bytes>,
}

impl PathRange {
    /// Just one path.
    pub fn of(path: Bytes) -> PathRange {
        PathRange { from: Some(path.clone()), to: Some(path) }
    }

    fn starts_by(&self, path_type: &CqlType, path: &[u8]) -> bool {
        self.from.as_ref().is_none_or(|from| path_type.compare(from, path).is_le())
    }

    fn ends_before(&self, path_type: &CqlType, path: &[u8]) -> bool {
        self.to.as_ref().is_some_and(|to| path_type.compare(to, path).is_lt())
    }

    /// The cells of a column whose paths lie in the range. The cells are in path order.
    pub fn of_cells<'c>(&self, path_type: &CqlType, cells: &'c [Cell]) -> &'c [Cell] {
        let end = cells.partition_point(|cell| !self.ends_before(path_type, &cell.path));
        let before_end = cells.get(..end).unwrap_or_default();
        let start = before_end.partition_point(|cell| !self.starts_by(path_type, &cell.path));
        before_end.get(start..).unwrap_or_default()
    }
}

/// The elements of a multi-cell column whose values are wanted. A source still reports the cells of the
/// others, as it does those of other columns, but steps over their values and leaves them empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementSelection {
    /// The column.
    pub column: ColumnId,
    path_type: CqlType,
    /// In order, none touching the one before.
    ranges: Box<[PathRange]>,
}

impl ElementSelection {
    /// The elements of a column whose paths, of type `path_type`, lie in any of the ranges.
    pub fn new(column: ColumnId, path_type: CqlType, mut ranges: Vec<PathRange>) -> ElementSelection {
        // Whether a range that ends at `to` reaches as far as `from`, where another one starts.
        let reaches = |to: &Option<Bytes>, from: &Option<Bytes>| match (to, from) {
            (Some(to), Some(from)) => path_type.compare(from, to).is_le(),
            _ => true,
        };
        ranges.retain(|range| reaches(&range.to, &range.from));
        ranges.sort_by(|a, b| match (&a.from, &b.from) {
            (Some(a), Some(b)) => path_type.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
        ranges.dedup_by(|next, range| {
            let touches = reaches(&range.to, &next.from);
            if touches && !(range.to.is_none() || next.to.is_some() && reaches(&range.to, &next.to)) {
                range.to = next.to.take();
            }
            touches
        });
        ElementSelection { column, path_type, ranges: ranges.into() }
    }

    /// The type of the paths.
    pub fn path_type(&self) -> &CqlType {
        &self.path_type
    }

    /// Which paths, in order.
    pub fn ranges(&self) -> &[PathRange] {
        &self.ranges
    }

    /// Whether the value of the cell with this path is wanted.
    pub fn contains(&self, path: &[u8]) -> bool {
        let started = self.ranges.partition_point(|range| range.starts_by(&self.path_type, path));
        let last = started.checked_sub(1).and_then(|last| self.ranges.get(last));
        last.is_some_and(|range| !range.ends_before(&self.path_type, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn int(value: i32) -> Bytes {
        Bytes::copy_from_slice(&value.to_be_bytes())
    }

    fn range((from, to): (Option<i32>, Option<i32>)) -> PathRange {
        PathRange { from: from.map(int), to: to.map(int) }
    }

    fn of(ranges: &[(Option<i32>, Option<i32>)]) -> ElementSelection {
        ElementSelection::new(ColumnId(0), CqlType::Int, ranges.iter().copied().map(range).collect())
    }

    #[test]
    fn ranges_that_touch_become_one() {
        assert_eq!(of(&[(Some(5), Some(5)), (Some(1), Some(3)), (Some(2), Some(4))]).ranges.len(), 2);
        assert_eq!(of(&[(Some(1), None), (None, Some(0)), (Some(3), Some(4))]).ranges.len(), 2);
        assert_eq!(of(&[(Some(1), None), (None, Some(1))]).ranges.as_ref(), &[range((None, None))]);
        assert!(of(&[(Some(4), Some(3))]).ranges.is_empty());
        assert!(!of(&[]).contains(&int(0)));
    }

    #[test]
    fn paths_are_equal_as_their_type_has_it() {
        let decimal =
            |unscaled: u8, scale: i32| Bytes::from([&scale.to_be_bytes()[..], &[unscaled]].concat());
        let one = ElementSelection::new(ColumnId(0), CqlType::Decimal, vec![PathRange::of(decimal(1, 0))]);
        assert!(one.contains(&decimal(10, 1)));
        assert!(!one.contains(&decimal(10, 0)));
    }

    proptest! {
        #[test]
        fn cells_of_a_range_are_those_in_it(
            ends in (prop::option::of(-9i32..9), prop::option::of(-9i32..9)),
            paths in prop::collection::btree_set(-10i32..10, 0..9),
        ) {
            let cell = |path: &i32| Cell::live(ColumnId(0), 1, Bytes::new()).with_path(int(*path));
            let cells: Vec<Cell> = paths.iter().map(cell).collect();
            let range = range(ends);
            let inside = |cell: &&Cell| {
                range.starts_by(&CqlType::Int, &cell.path) && !range.ends_before(&CqlType::Int, &cell.path)
            };
            let expected: Vec<&Cell> = cells.iter().filter(inside).collect();
            prop_assert_eq!(range.of_cells(&CqlType::Int, &cells).iter().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn a_path_is_wanted_where_any_range_has_it(
            ranges in prop::collection::vec((prop::option::of(-9i32..9), prop::option::of(-9i32..9)), 0..6),
            path in -10i32..10,
        ) {
            let inside = |(from, to): &(Option<i32>, Option<i32>)| {
                from.is_none_or(|from| from <= path) && to.is_none_or(|to| path <= to)
            };
            prop_assert_eq!(of(&ranges).contains(&int(path)), ranges.iter().any(inside));
        }
    }
}
