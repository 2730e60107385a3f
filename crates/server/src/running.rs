//! Requests that are being carried out, as `system_views.queries` shows them.
//!
//! A request that is answered where it came in is over before anybody could look. So only those that wait for
//! something are entered, when they wait first; the others pay nothing for it.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;

/// A request that waits.
#[derive(Clone, Debug)]
pub struct RunningRequest {
    /// What it does: the kind of request, and the statement where there is one.
    pub task: Arc<str>,
    /// When it was decoded, in nanoseconds of the monotonic clock.
    pub started_nanos: u64,
}

/// All of them, by a number that none had before.
#[derive(Debug, Default)]
pub struct RunningRequests(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    by_number: BTreeMap<u64, RunningRequest>,
}

impl RunningRequests {
    /// Those of this moment.
    pub fn list(&self) -> Vec<(u64, RunningRequest)> {
        self.0.lock().by_number.iter().map(|(number, request)| (*number, request.clone())).collect()
    }

    /// Does `work`, listed as what `describe` says from when it waits first.
    pub async fn watch<W: Future>(
        self: &Arc<Self>,
        describe: impl Fn() -> RunningRequest,
        work: W,
    ) -> W::Output {
        let mut work = pin!(work);
        let mut entry = None;
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            if polled.is_pending() {
                entry.get_or_insert_with(|| self.enter(describe()));
            }
            polled
        })
        .await
    }

    fn enter(self: &Arc<Self>, request: RunningRequest) -> Entry {
        let mut entries = self.0.lock();
        let number = entries.next;
        entries.next += 1;
        entries.by_number.insert(number, request);
        Entry { number, requests: Arc::clone(self) }
    }
}

/// Leaves the list when dropped.
#[derive(Debug)]
struct Entry {
    number: u64,
    requests: Arc<RunningRequests>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.requests.0.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn what_waits_is_listed_until_it_is_over() {
        let requests = Arc::new(RunningRequests::default());
        let describe = || RunningRequest { task: "QUERY SELECT".into(), started_nanos: 7 };
        assert_eq!(requests.watch(describe, async { 1 }).await, 1);
        assert_eq!(requests.0.lock().next, 0, "it never waited");

        let (go_on, waits) = oneshot::channel::<i32>();
        let waiting = {
            let requests = Arc::clone(&requests);
            tokio::spawn(async move { requests.watch(describe, waits).await })
        };
        while requests.list().is_empty() {
            tokio::task::yield_now().await;
        }
        let (number, listed) = requests.list().remove(0);
        assert_eq!((number, &*listed.task, listed.started_nanos), (0, "QUERY SELECT", 7));
        go_on.send(2).unwrap();
        assert_eq!(waiting.await.unwrap(), Ok(2));
        assert!(requests.list().is_empty());
    }

    #[tokio::test]
    async fn what_is_given_up_is_listed_no_more() {
        let requests = Arc::new(RunningRequests::default());
        let describe = || RunningRequest { task: "BATCH".into(), started_nanos: 7 };
        {
            let mut waiting = pin!(requests.watch(describe, std::future::pending::<()>()));
            poll_fn(|context| {
                assert!(waiting.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            assert_eq!(requests.list().len(), 1);
        }
        assert!(requests.list().is_empty());
    }
}
