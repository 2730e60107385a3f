//! A page that several replicas answer together.
//!
//! 1. A few legs at a time are asked, all of their replicas at once. A replica that fails is replaced by one
//!    that was not asked yet, as long as there is one.
//! 2. When as many have answered as must, their answers are merged, as far as all of them go
//!    ([`partition::known`]).
//! 3. Legs are asked until there are enough rows for the page.
//!
//! What is in memory is bounded: each answer by the page, or by [`WHOLE_BYTES`] where no page was asked for.
//! Where a result that has to be whole turns out to be cut, the read is begun anew, and the replicas are
//! asked without the limits of the statement ([`Limits::Lifted`]).

use super::ReadRequest;
use super::legs::{Leg, Legs};
use super::page::Page;
use crate::Coordinator;
use crate::error::CoordinatorError;
use crate::replica::{Answer, DataRequest, ReplicaError};
use crate::strategy::Required;
use crate::topology::Node;
use model::Consistency;
use model::command::{DataLimits, ReadCommand};
use partition::{BoxedStream, Cut, Deadline, LiveRows, PageLimits, Recording, concat, known};
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// Legs that are asked at a time.
const LEGS_AT_A_TIME: usize = 8;
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
        let (gathered, required) = gather_legs(&request, legs, page, limits, deadline).await?;
        Ok(page_of(request, legs, gathered, required))
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
    Page::gathered(rows, consistency, required, cut)
}

/// The answers of the legs that were asked, in their order.
struct Gathered {
    answers: Vec<(Arc<ReadCommand>, Vec<Recording>)>,
    /// Whether there are legs that were not asked.
    has_more: bool,
}

async fn gather_legs(
    request: &ReadRequest,
    legs: &Legs,
    page: PageLimits,
    limits: DataLimits,
    deadline: Option<&Deadline>,
) -> Result<(Gathered, u32), CoordinatorError> {
    let mut gathered = Gathered { answers: Vec::new(), has_more: false };
    let (mut rows, mut bytes, mut required) = (0u64, 0u64, 0);
    let wanted = request.page.rows.min(limits.rows);
    let mut left = legs.legs.as_slice();
    while !left.is_empty() {
        let (now, later) = left.split_at(left.len().min(LEGS_AT_A_TIME));
        left = later;
        let mut asked = Vec::with_capacity(now.len());
        for leg in now {
            let command = ReadCommand { limits, ..ReadCommand::clone(&leg.command) };
            let data = DataRequest { command: Arc::new(command), page, deadline: deadline.cloned() };
            asked.push(Asked::ask(leg, data, request.consistency)?);
        }
        for leg in asked {
            let command = Arc::clone(&leg.request.command);
            required = leg.required.count();
            let answers = leg.answered(request.consistency).await?;
            // What one has the others mostly have, too.
            rows = rows.saturating_add(answers.iter().map(Recording::live_rows).max().unwrap_or(0));
            bytes = bytes.saturating_add(answers.iter().map(Recording::bytes).max().unwrap_or(0));
            gathered.answers.push((command, answers));
        }
        if !left.is_empty() && (rows > wanted || bytes > page.bytes) {
            gathered.has_more = true;
            break;
        }
    }
    Ok((gathered, required))
}

/// A leg whose replicas were asked.
struct Asked<'a> {
    request: DataRequest,
    required: Required,
    waiting: Vec<(&'a Arc<Node>, Answer<Recording>)>,
    /// Replicas that can be asked where one fails.
    spare: Vec<&'a Arc<Node>>,
}

impl<'a> Asked<'a> {
    fn ask(
        leg: &'a Leg,
        request: DataRequest,
        consistency: Consistency,
    ) -> Result<Asked<'a>, CoordinatorError> {
        let (candidates, required) = leg.placement.for_read(consistency)?;
        let mut missing = required.clone();
        let (mut waiting, mut spare) = (Vec::new(), Vec::new());
        for node in candidates {
            match missing.take_one(&node.datacenter) {
                true => waiting.push((node, node.replica.read_data(&request))),
                false => spare.push(node),
            }
        }
        Ok(Asked { request, required, waiting, spare })
    }

    /// Waits until as many have answered as must.
    async fn answered(self, consistency: Consistency) -> Result<Vec<Recording>, CoordinatorError> {
        let Asked { request, required, mut waiting, mut spare } = self;
        let block_for = required.count();
        let (mut answers, mut failures, mut first) = (Vec::new(), 0, None);
        poll_fn(move |cx| {
            let mut at = 0;
            while let Some((node, answer)) = waiting.get_mut(at) {
                let outcome = match Pin::new(answer).poll(cx) {
                    Poll::Pending => {
                        at += 1;
                        continue;
                    }
                    Poll::Ready(outcome) => outcome,
                };
                let datacenter = Arc::clone(&node.datacenter);
                waiting.swap_remove(at);
                match outcome {
                    Ok(recording) => answers.push(recording),
                    Err(error) => {
                        failures += 1;
                        first.get_or_insert(error);
                        let fits = |node: &&&Arc<Node>| match &required {
                            Required::Each(_) => node.datacenter == datacenter,
                            Required::Anywhere(_) | Required::In(..) => true,
                        };
                        if let Some(other) = spare.iter().position(|node| fits(&node)) {
                            let node = spare.remove(other);
                            waiting.push((node, node.replica.read_data(&request)));
                        }
                    }
                }
            }
            if answers.len() as u32 >= block_for {
                return Poll::Ready(Ok(std::mem::take(&mut answers)));
            }
            match first.take_if(|_| waiting.is_empty()) {
                Some(ReplicaError::Overloaded(message)) => {
                    Poll::Ready(Err(CoordinatorError::Overloaded(message)))
                }
                Some(cause) => {
                    let received = answers.len() as u32;
                    Poll::Ready(Err(CoordinatorError::of_read(
                        consistency,
                        received,
                        block_for,
                        failures,
                        cause,
                    )))
                }
                None => Poll::Pending,
            }
        })
        .await
    }
}
