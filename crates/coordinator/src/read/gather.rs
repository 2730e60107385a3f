//! A page that several replicas answer together.
//!
//! 1. Some legs at a time are asked, all of their replicas at once ([`super::asked`]): first a few, then as
//!    many as are likely to fill the page, by what those before had.
//! 2. When as many have answered as must, and do not agree, who is behind is brought up to date
//!    ([`super::repair`]), and their answers are merged, as far as all of them go ([`partition::known`]).
//! 3. Legs are asked until there are enough rows for the page.
//!
//! Where rows are filtered, replicas do it ([`super::filter`]). If they are not told all conditions, they are
//! asked for [`FILTERED_ROWS_MIN`] rows at least, because some do not pass here.
//!
//! What is in memory is bounded: each answer by the page, or by [`WHOLE_BYTES`] where no page was asked for.
//! Where a result that has to be whole turns out to be cut, the read is begun anew, and the replicas are
//! asked without the limits of the statement ([`Limits::Lifted`]).

use super::asked::Asked;
use super::legs::Legs;
use super::page::Page;
use super::{ReadRequest, filter};
use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::paxos::Round;
use crate::replica::{DataRequest, ReplicaError};
use model::Consistency;
use model::command::{DataLimits, PartitionSelection, ReadCommand};
use partition::{BoxedStream, Cut, Deadline, LiveRows, PageLimits, Recording, concat, known};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Legs that are asked first.
const LEGS_AT_FIRST: usize = 8;
/// Legs of a paged read that are asked at a time, at the most. Without pages the answers are as large as
/// there is data, and no more are asked than at first.
const LEGS_MAX: usize = 32;
/// Rows that a replica is asked for where some are filtered here: most may not pass.
const FILTERED_ROWS_MIN: u64 = 512;
/// Bytes of the largest answer of a replica where no page was asked for.
const WHOLE_BYTES: u64 = 256 << 20;

impl Coordinator {
    /// Asks for a page and waits for it.
    ///
    /// # Errors
    /// `Unavailable`, `ReadFailure`, `ReadTimeout`, `Overloaded`.
    pub(super) async fn gather(
        &self,
        request: ReadRequest,
        legs: &Legs,
        limits: Limits,
        deadline: Option<&Deadline>,
    ) -> Result<Page, CoordinatorError> {
        let limits = match limits {
            Limits::Kept => request.command.limits,
            Limits::Lifted => DataLimits::NONE,
        };
        let page = PageLimits { bytes: request.page.bytes.min(WHOLE_BYTES), ..request.page };
        let (gathered, required) = self.gather_legs(&request, legs, page, limits, deadline).await?;
        Ok(page_of(request, legs, gathered, required))
    }

    /// Finishes the conditional writes of what is read at a serial level.
    ///
    /// # Errors
    /// `Unavailable`, `ReadTimeout`.
    pub(super) async fn settled(
        &self,
        request: &ReadRequest,
        legs: &Legs,
        deadline: Option<&Deadline>,
    ) -> Result<(), CoordinatorError> {
        let serial = request.consistency;
        if !matches!(serial, Consistency::Serial | Consistency::LocalSerial) {
            return Ok(());
        }
        for leg in &legs.legs {
            let PartitionSelection::Keys(keys) = &leg.command.partitions else { continue };
            for key in keys {
                let (placement, table) = (&*leg.placement, &leg.command.table);
                let (contention, write) = (deadline, deadline);
                let contentions = AtomicU32::new(0);
                let round = Round {
                    coordinator: self,
                    placement,
                    table,
                    key,
                    serial,
                    contention,
                    write,
                    contentions: &contentions,
                };
                Box::pin(round.settle()).await.map_err(|error| match error {
                    CoordinatorError::CasTimeout { block_for, .. }
                    | CoordinatorError::WriteTimeout { block_for, .. } => {
                        CoordinatorError::of_read(serial, 0, block_for, 0, ReplicaError::TimedOut)
                    }
                    other => other,
                })?;
            }
        }
        Ok(())
    }

    async fn gather_legs(
        &self,
        request: &ReadRequest,
        legs: &Legs,
        page: PageLimits,
        limits: DataLimits,
        deadline: Option<&Deadline>,
    ) -> Result<(Gathered, u32), CoordinatorError> {
        let mut gathered = Gathered { answers: Vec::new(), has_more: false };
        let (mut rows, mut bytes, mut required) = (0u64, 0u64, 0);
        let mut wanted = request.page.rows.min(limits.rows);
        let (mut limits, mut page) = (limits, page);
        let first = legs.legs.first().filter(|_| !request.command.row_filter.is_empty());
        let answers = first.map_or(1, |leg| leg.placement.required(request.consistency).count());
        let row_filter = filter::told(&request.command, answers);
        if row_filter.len() < request.command.row_filter.len() {
            // Limits are about rows that pass.
            wanted = wanted.max(FILTERED_ROWS_MIN);
            limits = DataLimits { distinct: limits.distinct, ..DataLimits::NONE };
            page.rows = wanted;
        } else if !row_filter.is_empty() && answers > 1 {
            // Of a partition fewer may pass together than at one of them.
            limits.rows_per_partition = u64::MAX;
        }
        let mut left = legs.legs.as_slice();
        let mut at_a_time = LEGS_AT_FIRST;
        while !left.is_empty() {
            let (now, later) = left.split_at(left.len().min(at_a_time));
            left = later;
            let mut asked = Vec::with_capacity(now.len());
            for leg in now {
                let mut command = ReadCommand { limits, ..ReadCommand::clone(&leg.command) };
                // Digests are of whole columns: nodes differ in which cells they leave out.
                command.columns.elements = None;
                command.row_filter = row_filter.clone();
                let (command, deadline) = (Arc::new(command), deadline.cloned());
                let data = DataRequest { command, page, groups: None, deadline };
                let now_nanos = self.env.clock.monotonic_nanos();
                asked.push(Asked::ask(leg, data, request.consistency, now_nanos)?);
            }
            for leg in asked {
                let command = Arc::clone(&leg.terms().request.command);
                required = leg.terms().required.count();
                let answers = self.resolved(leg, deadline).await?;
                // What one has the others mostly have, too.
                rows = rows.saturating_add(answers.iter().map(Recording::live_rows).max().unwrap_or(0));
                bytes = bytes.saturating_add(answers.iter().map(Recording::bytes).max().unwrap_or(0));
                gathered.answers.push((command, answers));
            }
            if !left.is_empty() && (rows > wanted || bytes > page.bytes) {
                gathered.has_more = true;
                break;
            }
            let asked = gathered.answers.len();
            let most = if request.page.bytes < WHOLE_BYTES { LEGS_MAX } else { LEGS_AT_FIRST };
            at_a_time = legs_for(wanted, rows, asked).min(legs_for(page.bytes, bytes, asked)).min(most);
        }
        Ok((gathered, required))
    }
}

/// How many legs are likely to have what is left of `wanted`, where `asked` ones have had `found`.
fn legs_for(wanted: u64, found: u64, asked: usize) -> usize {
    let left = u128::from(wanted.saturating_sub(found)) + 1;
    match found {
        0 => LEGS_MAX,
        _ => (left * asked as u128).div_ceil(u128::from(found)).clamp(1, LEGS_MAX as u128) as usize,
    }
}

/// Whether replicas keep to the limits of the statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Limits {
    /// They do: each stops where it has found enough.
    #[default]
    Kept,
    /// They do not, because what they found together was not enough.
    Lifted,
}

/// The page that the answers make.
fn page_of(request: ReadRequest, legs: &Legs, gathered: Gathered, required: u32) -> Page {
    let ReadRequest { command, consistency, page, context, .. } = request;
    let cut = Cut::default();
    let last = gathered.answers.len().saturating_sub(1);
    let bytes = gathered.answers.iter().flat_map(|(_, recordings)| recordings).map(Recording::bytes).sum();
    let answers = gathered.answers.into_iter().enumerate();
    let streams = answers.map(|(at, (asked, recordings))| {
        known(&command.table, recordings, &asked, gathered.has_more && at == last, &cut)
    });
    let mut streams = streams.collect::<Vec<BoxedStream>>().into_iter();
    let of_streams = Arc::clone(&cut);
    // Behind a cut nothing is known.
    let stream = concat(move || Ok(if of_streams.get().is_none() { streams.next() } else { None }));
    let rows = LiveRows::new(Box::new(stream), command, context, page);
    let rows = legs.resume(rows).until_cut(Arc::clone(&cut));
    Page::gathered(rows, consistency, required, cut, bytes)
}

/// The answers of the legs that were asked, in their order.
struct Gathered {
    answers: Vec<(Arc<ReadCommand>, Vec<Recording>)>,
    /// Whether there are legs that were not asked.
    has_more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_legs_are_asked_as_are_likely_to_have_enough() {
        assert_eq!(legs_for(100, 0, 8), LEGS_MAX, "nothing was found");
        assert_eq!(legs_for(100, 40, 8), 13, "five each, sixty and one are wanted");
        assert_eq!(legs_for(100, 99, 8), 1);
        assert_eq!(legs_for(100, 100, 8), 1, "one more row shows that there is more");
        assert_eq!(legs_for(u64::MAX, 1, 8), LEGS_MAX);
        assert_eq!(legs_for(u64::MAX, u64::MAX, usize::MAX), 1);
    }
}
