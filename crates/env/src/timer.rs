//! Waits of asynchronous code: on tokio's timers, or on the time of a simulation.
//!
//! The one place that may call `tokio::time`.
#![allow(clippy::disallowed_methods)]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::tasks::Tasks;

/// The time was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

impl Tasks {
    /// Waits for so long. Outside of a simulation it has to be polled by a runtime of tokio.
    pub async fn sleep(&self, duration: Duration) {
        match &self.scheduler {
            None => tokio::time::sleep(duration).await,
            Some(scheduler) => {
                let until = scheduler.now_nanos().saturating_add(duration.as_nanos() as u64);
                poll_fn(|cx| {
                    if scheduler.now_nanos() >= until {
                        return Poll::Ready(());
                    }
                    scheduler.wake_at(until, cx.waker().clone());
                    Poll::Pending
                })
                .await;
            }
        }
    }

    /// Waits for a future, for at most so long.
    ///
    /// # Errors
    /// [`TimedOut`]; the future is dropped then.
    pub async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Result<F::Output, TimedOut> {
        if self.scheduler.is_none() {
            return tokio::time::timeout(duration, future).await.map_err(|_| TimedOut);
        }
        let (mut future, mut over) = (pin!(future), pin!(self.sleep(duration)));
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => over.as_mut().poll(cx).map(|()| Err(TimedOut)),
        })
        .await
    }
}
