//! Batches for those who do not wait: a thread computes them, and a channel holds one.

use crate::{Batches, BulkError, Cancel, ScanRequest, Split, Table};
use arrow_array::RecordBatch;
use env::tasks::Tasks;
use futures::StreamExt;
use futures::stream::BoxStream;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Batches of a scan, and its errors.
pub type BatchStream = BoxStream<'static, Result<RecordBatch, BulkError>>;

/// Batches that wait for their reader, besides the one that is being made.
const WAITING: usize = 1;

/// The batches of a scan, which begins on a thread of its own when the first of them is asked for. The thread
/// goes on only as its batches are taken. It ends when the stream is dropped, also while it waits for the
/// limit of bytes a second. It gives way to threads that clients of CQL wait for. `tell` is told how far the
/// scan is, behind each batch that was made.
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
    let start = move || {
        tasks.spawn("ilion-bulk", move || {
            env::thread::give_way();
            let mut batches = match table.scan(&request, &split) {
                Ok(batches) => batches,
                Err(error) => return drop(send.blocking_send(Err(error))),
            };
            // Who does not listen any more needs no more.
            while let Some(batch) = batches.next() {
                tell(batches.as_ref());
                if send.blocking_send(batch).is_err() {
                    return;
                }
            }
        })
    };
    let steps = futures::stream::unfold(
        (Some(start), receive, unwanted),
        |(start, mut receive, unwanted)| async move {
            if let Some(start) = start
                && let Err(error) = start()
            {
                receive.close();
                return Some((Err(BulkError::Io(error)), (None, receive, unwanted)));
            }
            receive.recv().await.map(|batch| (batch, (None, receive, unwanted)))
        },
    );
    steps.boxed()
}
