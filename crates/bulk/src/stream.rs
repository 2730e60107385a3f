//! Batches for those who do not wait: a thread computes them, and a channel holds one.

use crate::{Batches, BulkError};
use arrow_array::RecordBatch;
use env::tasks::Tasks;
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::mpsc;

/// Batches of a scan, and its errors.
pub type BatchStream = BoxStream<'static, Result<RecordBatch, BulkError>>;

/// Batches that wait for their reader, besides the one that is being made.
const WAITING: usize = 1;

/// The batches of `open`, which is called on a thread of its own when the first of them is asked for. The
/// thread goes on only as its batches are taken, and ends when the stream is dropped. It gives way to threads
/// that clients of CQL wait for. `tell` is told how far the scan is, behind each batch that was made.
pub fn stream(
    tasks: Tasks,
    open: impl FnOnce() -> Result<Box<dyn Batches>, BulkError> + Send + 'static,
    tell: impl Fn(&dyn Batches) + Send + 'static,
) -> BatchStream {
    let (send, receive) = mpsc::channel(WAITING);
    let start = move || {
        tasks.spawn("ilion-bulk", move || {
            env::thread::give_way();
            let mut batches = match open() {
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
    let steps = futures::stream::unfold((Some(start), receive), |(start, mut receive)| async move {
        if let Some(start) = start
            && let Err(error) = start()
        {
            receive.close();
            return Some((Err(BulkError::Io(error)), (None, receive)));
        }
        receive.recv().await.map(|batch| (batch, (None, receive)))
    });
    steps.boxed()
}
