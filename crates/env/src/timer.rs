//! Waits of asynchronous code: on tokio's timers, or on the time of a simulation.
//!
//! The one place that may call `tokio::time`.
#![allow(clippy::disallowed_methods)]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::sim::Scheduler;
use crate::tasks::Tasks;

/// Comes by again and again: see [`Tasks::ticks`].
#[derive(Debug)]
pub struct Ticks(Ticking);

#[derive(Debug)]
enum Ticking {
    Real(tokio::time::Interval),
    Simulated { scheduler: Arc<Scheduler>, period_nanos: u64, next_nanos: u64 },
}

impl Ticks {
    /// Waits for the next tick. Who stops to wait loses none; those that came while nobody waited are one.
    pub async fn next(&mut self) {
        match &mut self.0 {
            Ticking::Real(interval) => {
                interval.tick().await;
            }
            Ticking::Simulated { scheduler, period_nanos, next_nanos } => {
                let left = next_nanos.saturating_sub(scheduler.now_nanos());
                Tasks { scheduler: Some(Arc::clone(scheduler)) }.sleep(Duration::from_nanos(left)).await;
                *next_nanos = scheduler.now_nanos().saturating_add(*period_nanos);
            }
        }
    }
}

/// The time was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedOut;

impl Tasks {
    /// Waits for so long. Outside of a simulation it has to be polled by a runtime of tokio.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        let scheduler = self.scheduler.clone();
        async move {
            let Some(scheduler) = scheduler else { return tokio::time::sleep(duration).await };
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

    /// A tick each `period`, the first after one. Outside of a simulation a runtime of tokio has to be there.
    pub fn ticks(&self, period: Duration) -> Ticks {
        Ticks(match &self.scheduler {
            None => {
                let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
                interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
                Ticking::Real(interval)
            }
            Some(scheduler) => {
                let period_nanos = period.as_nanos() as u64;
                let next_nanos = scheduler.now_nanos().saturating_add(period_nanos);
                Ticking::Simulated { scheduler: Arc::clone(scheduler), period_nanos, next_nanos }
            }
        })
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
