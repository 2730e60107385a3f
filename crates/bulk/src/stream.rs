//! Batches for those who do not wait: a thread computes them, and a channel holds one.

use crate::{Batches, BulkError, Cancel, ScanRequest, Split, Table};
use arrow_array::RecordBatch;
use engine::turns::in_turns;
use env::tasks::Tasks;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Batches of a scan, and its errors.
pub type BatchStream = BoxStream<'static, Result<RecordBatch, BulkError>>;

/// Batches that wait for their reader, besides the one that is being made.
const WAITING: usize = 1;

/// The batches of a scan, which begins on a thread of its own when the first of them is asked for. The thread
/// goes on only as its batches are taken. It ends when the stream is dropped, also while it waits for the
/// limit of bytes a second. It gives way to threads that clients of CQL wait for: the kernel lets others go
/// first, and a scan of a node rests while somebody reads ([`engine::turns::rest`]). `tell` is told how far
/// the scan is, behind each batch that was made, before it can be taken, and once more at the end.
pub fn stream(
    tasks: Tasks,
    table: Arc<dyn Table>,
    request: &ScanRequest,
    split: Split,
    tell: impl Fn(&dyn Batches) + Send + 'static,
) -> BatchStream {
    let (send, receive) = mpsc::channel(WAITING);
    let cancel = Cancel::default();
    let unwanted = cancel.when_dropped();
    let request = ScanRequest { cancel, ..request.clone() };
    let work = move || {
        let mut batches = match table.scan(&request, &split) {
            Ok(batches) => batches,
            Err(error) => return drop(send.blocking_send(Some(Err(error)))),
        };
        // Who does not listen any more needs no more.
        while let Some(batch) = batches.next() {
            tell(batches.as_ref());
            if send.blocking_send(Some(batch)).is_err() {
                return;
            }
        }
        tell(batches.as_ref());
        // Who has heard that it is over does not find it among those that run.
        drop(batches);
        let _ = send.blocking_send(None);
    };
    let start = move || {
        tasks.spawn("ilion-bulk", move || {
            env::thread::give_way();
            in_turns(work);
        })
    };
    let state = Some((Some(start), receive, unwanted));
    let steps = futures::stream::unfold(state, |state| async move {
        let (start, mut receive, unwanted) = state?;
        let next = match start.map(|start| start()).transpose() {
            Err(error) => Err(BulkError::Io(error)),
            Ok(_) => match receive.recv().await {
                Some(next) => next?,
                // A thread that panics does not say that it is over: what it has made is not the whole.
                None => {
                    Err(BulkError::Io(io::Error::other("a thread of the scan ended before its rows did")))
                }
            },
        };
        let state = next.is_ok().then_some((None, receive, unwanted));
        Some((next, state))
    });
    steps.boxed()
}
