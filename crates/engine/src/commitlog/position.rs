//! Positions in the commit log, and sets of intervals of them.

/// A place in the commit log: just behind a byte of a segment. Ordered as the log was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    /// Id of the segment.
    pub segment: i64,
    /// Offset in its file.
    pub offset: u32,
}

impl LogPosition {
    /// Before every segment; what SSTables without a commit log record.
    pub const NONE: LogPosition = LogPosition { segment: -1, offset: 0 };
}

/// Which entries of a table the log need not replay: those that end inside one of the intervals (start
/// excluded, end included).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalSet {
    /// Sorted, not overlapping.
    intervals: Vec<(LogPosition, LogPosition)>,
}

impl IntervalSet {
    /// Adds an interval; empty ones change nothing.
    pub fn add(&mut self, start: LogPosition, end: LogPosition) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        self.intervals.retain(|(s, e)| {
            let apart = *e < start || end < *s;
            if !apart {
                start = start.min(*s);
                end = end.max(*e);
            }
            apart
        });
        let at = self.intervals.partition_point(|(s, _)| *s < start);
        self.intervals.insert(at, (start, end));
    }

    /// Whether an entry that ends at `position` lies in one of the intervals.
    pub fn contains(&self, position: LogPosition) -> bool {
        let at = self.intervals.partition_point(|(start, _)| *start < position);
        at.checked_sub(1).and_then(|i| self.intervals.get(i)).is_some_and(|(_, end)| position <= *end)
    }

    /// The intervals, in order.
    pub fn iter(&self) -> impl Iterator<Item = (LogPosition, LogPosition)> {
        self.intervals.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(segment: i64, offset: u32) -> LogPosition {
        LogPosition { segment, offset }
    }

    #[test]
    fn intervals_join_and_exclude_their_start() {
        let mut set = IntervalSet::default();
        set.add(at(2, 10), at(2, 20));
        set.add(at(4, 0), at(5, 5));
        set.add(at(3, 0), at(3, 0));
        assert!(!set.contains(at(2, 10)) && set.contains(at(2, 11)) && set.contains(at(2, 20)));
        assert!(!set.contains(at(2, 21)) && set.contains(at(4, 99)) && !set.contains(at(5, 6)));
        set.add(at(2, 20), at(4, 0));
        assert_eq!(set.iter().collect::<Vec<_>>(), [(at(2, 10), at(5, 5))]);
    }
}
