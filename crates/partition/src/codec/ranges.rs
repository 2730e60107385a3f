//! Range tombstones of a mutation to range changes of a stream, and back.

use crate::RangeChange;
use crate::stream::side;
use model::{BoundKind, ClusteringBound, ClusteringComparator, Deletion, RangeTombstone, Slice};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Range tombstones in any order, possibly overlapping, as the changes of the deletion that holds, in storage
/// order: where several overlap the newest holds.
pub fn changes_of_tombstones(
    tombstones: &[RangeTombstone],
    comparator: &ClusteringComparator,
) -> Vec<RangeChange> {
    let mut edges: Vec<(&ClusteringBound, Deletion, bool)> = tombstones
        .iter()
        .filter(|t| !t.deletion.is_none() && !t.slice.is_empty(comparator))
        .flat_map(|t| [(&t.slice.start, t.deletion, true), (&t.slice.end, t.deletion, false)])
        .collect();
    edges.sort_by(|a, b| comparator.compare_positions(a.0.position(), b.0.position()));
    let mut open: BTreeMap<(i64, u32), usize> = BTreeMap::new();
    let mut holds = Deletion::NONE;
    let mut out: Vec<RangeChange> = Vec::new();
    let mut rest = edges.into_iter().peekable();
    while let Some((bound, deletion, starts)) = rest.next() {
        let count = open.entry((deletion.timestamp, deletion.local_deletion_time)).or_insert(0);
        *count = if starts { *count + 1 } else { count.saturating_sub(1) };
        let more_here = rest.peek().is_some_and(|(next, ..)| {
            comparator.compare_positions(next.position(), bound.position()) == Ordering::Equal
        });
        if more_here {
            continue;
        }
        // Only the newest matters: older ones that have ended are dropped when they come to the top.
        while open.last_entry().is_some_and(|newest| *newest.get() == 0) {
            open.pop_last();
        }
        let now = open.last_key_value().map_or(Deletion::NONE, |((t, l), _)| Deletion::new(*t, *l));
        if now != holds {
            out.push(RangeChange::at(bound.clone(), now));
            holds = now;
        }
    }
    out
}

/// Changes in storage order as tombstones that do not overlap. A deletion that is still open at the end is
/// closed at the end of the partition.
pub fn tombstones_of_changes(changes: impl IntoIterator<Item = RangeChange>) -> Vec<RangeTombstone> {
    let mut out = Vec::new();
    let mut open: Option<RangeChange> = None;
    for change in changes {
        if let Some(started) = open.take() {
            out.push(range(started, change.position.clone()));
        }
        if !change.deletion.is_none() {
            open = Some(change);
        }
    }
    out.extend(open.map(|started| range(started, ClusteringBound::TOP)));
    out
}

fn range(started: RangeChange, end: ClusteringBound) -> RangeTombstone {
    let start = started.position;
    let slice = Slice {
        start: ClusteringBound::new(side(start.kind), start.prefix),
        end: match side(end.kind) {
            BoundKind::InclStart => ClusteringBound::new(BoundKind::ExclEnd, end.prefix),
            _ => ClusteringBound::new(BoundKind::InclEnd, end.prefix),
        },
    };
    RangeTombstone { slice, deletion: started.deletion }
}
