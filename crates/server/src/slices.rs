//! How threads take their turns at the processor: those that clients wait for in short slices, long work in
//! ordinary ones (`env::thread`).

use tokio::task::JoinError;

/// For threads that clients wait for. Where the kernel refuses, they wait for their turn like any other.
pub(crate) fn ask_for_short_slices() {
    if let Err(error) = env::thread::ask_for_short_slices() {
        tracing::debug!(%error, "a thread keeps the slices that the kernel gives to all");
    }
}

/// Runs `work` where it may block and take its time: for what an operator or a schema change asks for. It
/// goes on when the caller goes away.
pub(crate) async fn take_time<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    // The threads of the pool may be those that clients wait for at other times.
    tokio::task::spawn_blocking(|| env::thread::with_ordinary_slices(work)).await
}
