//! What each of several replicas lacks of what all of them know, as updates that bring it up to date.
//!
//! 1. The recordings are merged as far as all of them go ([`known`]); behind that nobody is told anything.
//! 2. Partition by partition the merge is compared with what the replica itself knows. Where it has won over
//!    the replica's own it is part of the update: deletions, liveness, cells.
//! 3. Range deletions are compared stretch by stretch, between each two places at which either changes.
//!
//! Values that nobody asked for may be left out of a recording, so their cells never are part of an update.

use super::{Cut, Recording, known, order};
use crate::error::ReadError;
use crate::merge::merge;
use crate::stream::{BoxedStream, Event, Fragment, RangeChange};
use model::clustering::Slice;
use model::command::ReadCommand;
use model::{
    BoundKind, ClusteringBound, DecoratedKey, Deletion, PartitionUpdate, RangeTombstone, Row, reconcile,
};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// For each recording, all of the same command, what its replica lacks: at most one update a partition.
///
/// # Errors
/// Those of the merge.
pub fn lacking(
    recordings: &[Recording],
    command: &Arc<ReadCommand>,
) -> Result<Vec<Vec<PartitionUpdate>>, ReadError> {
    let cut = Cut::default();
    let mut merged = parts(known(&command.table, recordings.to_vec(), command, false, &cut))?;
    if let (Some(Some(row)), Some(last)) = (cut.get(), merged.last_mut()) {
        let kind = if command.is_reversed() { BoundKind::InclStart } else { BoundKind::ExclStart };
        last.end = Some(ClusteringBound { kind, prefix: row.clone() });
    }
    let nothing = Part::default();
    let mut all = Vec::with_capacity(recordings.len());
    for recording in recordings {
        let own: BoxedStream = Box::new(recording.clone().play(command.is_reversed()));
        let own = parts(merge(&command.table, [own], command.is_reversed()))?;
        let own: BTreeMap<DecoratedKey, Part> =
            own.into_iter().map(|part| (part.key.clone(), part)).collect();
        let updates = merged.iter().map(|part| {
            let own = own.get(&part.key).unwrap_or(&nothing);
            part.without(own, command)
        });
        all.push(updates.filter(|update| !update.is_empty()).collect());
    }
    Ok(all)
}

/// A partition of a stream, in its order.
struct Part {
    key: DecoratedKey,
    deletion: Deletion,
    static_row: Row,
    rows: Vec<Row>,
    changes: Vec<RangeChange>,
    /// Where what is known of it ends, if not with the partition.
    end: Option<ClusteringBound>,
}

impl Default for Part {
    fn default() -> Part {
        Part {
            key: Fragment::default().key,
            deletion: Deletion::NONE,
            static_row: Row::default(),
            rows: Vec::new(),
            changes: Vec::new(),
            end: None,
        }
    }
}

fn parts(mut stream: BoxedStream) -> Result<Vec<Part>, ReadError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut out = Fragment::default();
    loop {
        match (stream.next(&mut out)?, parts.last_mut()) {
            (Event::End, _) => return Ok(parts),
            (Event::PartitionStart, _) => {
                parts.push(Part { key: out.key.clone(), deletion: out.deletion, ..Part::default() });
            }
            (Event::StaticRow, Some(part)) => part.static_row = std::mem::take(&mut out.row),
            (Event::Row, Some(part)) => part.rows.push(std::mem::take(&mut out.row)),
            (Event::RangeChange, Some(part)) => part.changes.push(out.change.clone()),
            (Event::PartitionEnd, _) | (_, None) => {}
        }
    }
}

impl Part {
    /// What is here and not in `own`, a replica's part of this.
    fn without(&self, own: &Part, command: &ReadCommand) -> PartitionUpdate {
        let mut update = PartitionUpdate::new(Arc::clone(&command.table), self.key.clone());
        if self.deletion.supersedes(&own.deletion) {
            update.deletion = self.deletion;
        }
        let static_row = row_without(&self.static_row, &own.static_row, command);
        update.static_row = Some(static_row).filter(|row| !row.is_empty());
        let (mut theirs, no_row) = (own.rows.iter().peekable(), Row::default());
        for row in &self.rows {
            let order = |other: &Row| command.compare_rows(&other.clustering, &row.clustering);
            while theirs.next_if(|other| order(other) == Ordering::Less).is_some() {}
            let other = theirs.next_if(|other| order(other) == Ordering::Equal).unwrap_or(&no_row);
            let lacks = row_without(row, other, command);
            update.rows.extend(Some(lacks).filter(|row| !row.is_empty()));
        }
        update.range_tombstones = self.ranges_without(&own.changes, command);
        if command.is_reversed() {
            update.rows.reverse();
        }
        update
    }

    fn ranges_without(&self, own: &[RangeChange], command: &ReadCommand) -> Vec<RangeTombstone> {
        let compare = |a: &ClusteringBound, b: &ClusteringBound| order(command, a.position(), b.position());
        let range = |from: ClusteringBound, to: &ClusteringBound, deletion| {
            let to = to.clone();
            let (start, end) = if command.is_reversed() { (to, from) } else { (from, to) };
            let end = ClusteringBound { kind: end.kind.complement(), ..end };
            RangeTombstone { slice: Slice { start, end }, deletion }
        };
        let mut tombstones = Vec::new();
        let (mut ours, mut theirs) = (self.changes.iter().peekable(), own.iter().peekable());
        let (mut known, mut has) = (Deletion::NONE, Deletion::NONE);
        let mut lacks: Option<(ClusteringBound, Deletion)> = None;
        loop {
            let at = match (ours.peek(), theirs.peek()) {
                (Some(a), Some(b)) if compare(&b.position, &a.position).is_lt() => &b.position,
                (Some(a), _) => &a.position,
                (None, Some(b)) => &b.position,
                (None, None) => break,
            };
            if self.end.as_ref().is_some_and(|end| compare(at, end).is_ge()) {
                break;
            }
            let is_here = |change: &&RangeChange| compare(&change.position, at).is_eq();
            known = ours.next_if(is_here).map_or(known, |change| change.deletion);
            has = theirs.next_if(is_here).map_or(has, |change| change.deletion);
            let lack = Some(known).filter(|known| known.supersedes(&has));
            if lacks.as_ref().map(|(_, deletion)| *deletion) != lack {
                tombstones.extend(lacks.take().map(|(from, deletion)| range(from, at, deletion)));
                lacks = lack.map(|deletion| (at.clone(), deletion));
            }
        }
        if let (Some((from, deletion)), Some(end)) = (lacks, &self.end) {
            tombstones.push(range(from, end, deletion));
        }
        tombstones
    }
}

/// What is in a merged row and not in a replica's own.
fn row_without(merged: &Row, own: &Row, command: &ReadCommand) -> Row {
    let mut lacks = Row::new(merged.clustering.clone());
    if merged.liveness.supersedes(&own.liveness) {
        lacks.liveness = merged.liveness;
    }
    if merged.deletion.supersedes(&own.deletion) {
        lacks.set_deletion(merged.deletion, merged.is_shadowable);
    }
    let is_lacking = |(column, deletion): &&(_, Deletion)| {
        command.columns.contains(*column) && deletion.supersedes(&own.complex_deletion(*column))
    };
    lacks.complex_deletions.extend(merged.complex_deletions.iter().filter(is_lacking));
    for cell in merged.cells.iter().filter(|cell| command.columns.wants_value_of(cell)) {
        let place = |other: &_| reconcile::compare_cell_positions(&command.table, other, cell);
        let known = own.cells.binary_search_by(place).ok().and_then(|at| own.cells.get(at));
        if known != Some(cell) {
            lacks.cells.push(cell.clone());
        }
    }
    lacks
}

#[cfg(test)]
mod tests;
