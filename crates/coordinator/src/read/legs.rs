//! What a page is read of: parts of the selection, and who holds each.

use super::{ReadRequest, Scope};
use crate::error::CoordinatorError;
use crate::paging;
use crate::placement::Placement;
use crate::topology::{Part, Parts, unplaced};
use crate::{Coordinator, LocalReplica};
use model::Consistency;
use model::command::{PartitionSelection, ReadCommand};
use model::key::KeyRange;
use partition::{LiveRows, PageLimits, PageMark};
use smallvec::SmallVec;
use std::sync::Arc;

/// A part of the selection that has the same replicas throughout.
pub(super) struct Leg {
    pub(super) command: Arc<ReadCommand>,
    /// The range of partitions of which it is a part ([`partition::ReadContext::scan`]).
    pub(super) scan: Option<Arc<KeyRange>>,
    pub(super) placement: Arc<Placement>,
}

/// All of them, in the order of the selection.
pub(super) struct Legs {
    /// Mostly one.
    pub(super) legs: SmallVec<[Leg; 1]>,
    /// Where the page before ended.
    pub(super) mark: Option<PageMark>,
    scope: Scope,
}

impl Legs {
    /// This node, where it alone answers all of them.
    pub(super) fn local(&self, consistency: Consistency) -> Option<&LocalReplica> {
        let mut local = None;
        for leg in &self.legs {
            let node = match self.scope {
                Scope::Ring => leg.placement.one_that_answers(consistency)?,
                Scope::ThisNode => leg.placement.replicas().first()?,
            };
            local = Some(node.replica.as_local()?);
        }
        local
    }

    /// Rows that go on where the page before ended.
    pub(super) fn resume(&self, rows: Box<LiveRows>) -> Box<LiveRows> {
        match &self.mark {
            None => rows,
            Some(mark) => rows.resume(mark),
        }
    }
}

impl Coordinator {
    /// The legs of a page.
    ///
    /// # Errors
    /// `Invalid` for a consistency level that reads do not have, a paging state of another query, or a
    /// keyspace that is not there.
    pub(super) fn legs(&self, request: &ReadRequest) -> Result<Legs, CoordinatorError> {
        if request.consistency == Consistency::Any && request.scope == Scope::Ring {
            let refusal = "ANY ConsistencyLevel is only supported for writes";
            return Err(CoordinatorError::Invalid(refusal.to_owned()));
        }
        let (command, scope) = (&request.command, request.scope);
        let mut legs = SmallVec::new();
        let Some(state) = &request.after else {
            self.add_legs(command, scope, None, &mut legs)?;
            return Ok(Legs { legs, mark: None, scope });
        };
        let refused = || CoordinatorError::Invalid("Invalid value for the paging state".to_owned());
        let mark = state.mark(command).ok_or_else(refused)?;
        for behind in paging::behind(command, &mark) {
            let scan = paging::scan_of(command, &mark, &behind).map(Arc::new);
            self.add_legs(&Arc::new(behind), scope, scan, &mut legs)?;
        }
        Ok(Legs { legs, mark: Some(mark), scope })
    }

    fn add_legs(
        &self,
        command: &Arc<ReadCommand>,
        scope: Scope,
        scan: Option<Arc<KeyRange>>,
        legs: &mut SmallVec<[Leg; 1]>,
    ) -> Result<(), CoordinatorError> {
        if scope == Scope::ThisNode {
            legs.push(Leg { command: Arc::clone(command), scan, placement: Arc::clone(&self.own) });
            return Ok(());
        }
        let keyspace = &command.table.keyspace;
        let parts = self.topology.split(keyspace, &command.partitions);
        match parts.ok_or_else(|| unplaced(&*self.topology, keyspace))? {
            Parts::Whole(placement) => legs.push(Leg { command: Arc::clone(command), scan, placement }),
            Parts::Several(parts) => {
                legs.extend(parts.into_iter().map(|Part { selection, placement }| {
                    let command = ReadCommand { partitions: selection, ..ReadCommand::clone(command) };
                    Leg { command: Arc::new(command), scan: scan.clone(), placement }
                }));
            }
        }
        Ok(())
    }
}

/// About how many rows of the selection a page takes.
pub(super) fn rows_wanted(command: &ReadCommand, page: &PageLimits) -> u64 {
    let limits = &command.limits;
    let of_partition = match &command.partitions {
        PartitionSelection::Keys(keys) if keys.len() == 1 => limits.rows_per_partition,
        _ => u64::MAX,
    };
    match command.row_filter.is_empty() {
        // One more shows whether there is another page.
        true => limits.rows.min(of_partition).min(page.rows.saturating_add(1)),
        false => u64::MAX,
    }
}
