//! Requests that are long: parsing, planning and binding them takes milliseconds, in which a network thread
//! would serve nobody else.
//!
//! They begin on the pool of readers, where a bounded number of them runs at once, and go on like all others.
//! Short ones pay nothing for it but a comparison.

use std::sync::Arc;

use coordinator::trace;
use parking_lot::Mutex;
use protocol::request::Request;
use protocol::response::error::ErrorResponse;
use tokio::runtime::Handle;

use super::statements::Statement;
use super::{Exchange, Progress, begin, end, error};
use crate::metrics::RequestKind;
use crate::timeouts::TimeoutKind;

/// Bytes of the longest request with a text, or with statements of a batch, that begins on a network thread.
const TEXT_BYTES_MAX: u64 = 64 << 10;
/// Bytes of the longest request with values alone that does: most of them are only copied.
const VALUE_BYTES_MAX: u64 = 256 << 10;

/// Bytes of a long statement that the list of running requests is told.
const SAID_BYTES_MAX: usize = 4 << 10;

/// Whether a request is too long for a network thread. To prepare a statement always is: a short text may
/// name thousands of columns, which all are described and hashed, and a change of threads counts for little.
pub(super) fn is_long(request: &Request, bytes: u64) -> bool {
    match request {
        Request::Prepare(_) => true,
        Request::Query(_) | Request::Batch(_) => bytes > TEXT_BYTES_MAX,
        _ => bytes > VALUE_BYTES_MAX,
    }
}

/// Whether binding a statement is too long for a network thread, whatever its values are.
pub(super) fn is_long_to_bind(statement: &Statement) -> bool {
    statement.text.len() as u64 > TEXT_BYTES_MAX
}

/// Begins a request on the pool of readers, and goes on with it here.
pub(super) async fn carry_out(mut exchange: Exchange, request: Request) {
    let sessions = Arc::clone(&exchange.sessions);
    let deadline = exchange.deadline(sessions.node.timeouts.get(TimeoutKind::Misc));
    exchange.note(|| "Moved to a reader thread".to_owned());
    let asked = sessions.node.env.clock.monotonic_nanos();
    let (kind, text) = said(&request);
    let describe = exchange.describe(kind, text);
    // Where it is not begun in time somebody has to answer it.
    let waiting = Arc::new(Mutex::new(Some((exchange, request))));
    let (taken, runtime) = (Arc::clone(&waiting), Handle::current());
    let job = move |now: u64| {
        let (mut exchange, request) = taken.lock().take()?;
        let _inside = runtime.enter();
        exchange.is_on_reader = true;
        exchange.waits.reader_nanos += now.saturating_sub(asked);
        // Who is waited for by others has the processor first.
        let trace = exchange.trace_session();
        let begun = trace::during(trace.as_ref(), || {
            env::thread::with_ordinary_slices(|| begin(&mut exchange, request))
        });
        Some((exchange, begun))
    };
    let running = Arc::clone(&sessions.node.running);
    let done =
        running.watch(&describe, sessions.coordinator.local().readers().run(Some(&deadline), job)).await;
    let Ok(Some((mut exchange, (kind, progress)))) = done else {
        let left = waiting.lock().take();
        if let Some((mut exchange, _)) = left {
            let refusal = ErrorResponse::overloaded(
                "Too many requests are waiting for a thread. Server is currently in an overloaded state and cannot \
                 accept more requests.",
            );
            end(&mut exchange, kind, Err(refusal));
        }
        return;
    };
    let outcome = match progress {
        Ok(Progress::Waits(work)) => work.watched(&mut exchange, &describe).await,
        Ok(Progress::Over(answer)) => Ok(answer),
        Ok(Progress::IsLong(_)) => Err(error::internal("a long statement was moved twice")),
        Err(error) => Err(error),
    };
    end(&mut exchange, kind, outcome);
}

/// The kind of a request, and how its statement begins where it has one.
fn said(request: &Request) -> (RequestKind, Option<Arc<str>>) {
    let beginning = |text: &str| Some(text[..text.floor_char_boundary(SAID_BYTES_MAX)].into());
    match request {
        Request::Query(query) => (RequestKind::Query, beginning(&query.statement)),
        Request::Prepare(prepare) => (RequestKind::Prepare, beginning(&prepare.statement)),
        Request::Batch(_) => (RequestKind::Batch, None),
        _ => (RequestKind::Execute, None),
    }
}
