//! Who gets a thread for bcrypt, and when.
//!
//! bcrypt takes tens of milliseconds of a processor by intention, and two to three times as long beside
//! reads, which it lets go first (`password.rs`). Two lines wait for it, each with as many threads at most as
//! [`Hashing::new`] is told:
//!
//! | line | who |
//! |---|---|
//! | known | who comes from an address that somebody has logged in from ([`Visitors`]), or is in |
//! | strangers | everybody else |
//!
//! So a flood of wrong passwords from many addresses holds up nobody who comes back after a break, as all
//! clients of a node do at once. Each line is bounded: who finds it full is refused.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use protocol::response::error::ErrorResponse;
use tokio::sync::Semaphore;

use super::visitors::Visitors;
use crate::slices::take_time;

/// Logins of a line that wait.
const WAITING_MAX: usize = 256;

/// The lines, and what tells them apart.
#[derive(Debug)]
pub(crate) struct Hashing {
    visitors: Visitors,
    known: Line,
    strangers: Line,
}

impl Hashing {
    pub(super) fn new(threads: usize) -> Hashing {
        let [known, strangers] = [(); 2].map(|()| Line::new(threads));
        Hashing { visitors: Visitors::default(), known, strangers }
    }

    /// Somebody has logged in from there.
    pub(super) fn welcome(&self, from: IpAddr) {
        self.visitors.welcome(from);
    }

    /// Runs `work` for a login from an address.
    ///
    /// # Errors
    /// An overload where the line is full.
    pub(super) async fn run_for<T: Send + 'static>(
        &self,
        from: IpAddr,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ErrorResponse> {
        let line = if self.visitors.is_stranger(from) { &self.strangers } else { &self.known };
        line.run(work).await
    }

    /// Runs `work` for somebody who is in.
    ///
    /// # Errors
    /// An overload where the line is full.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ErrorResponse> {
        self.known.run(work).await
    }
}

/// Work that waits for a thread, and that has one.
#[derive(Debug)]
struct Line {
    threads: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Counts one in a line.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Line {
    fn new(threads: usize) -> Line {
        Line { threads: Arc::new(Semaphore::new(threads)), waiting: AtomicUsize::new(0) }
    }

    /// Waits for a thread, and runs `work` there to its end, also when its client goes away.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ErrorResponse> {
        let overloaded = || {
            ErrorResponse::overloaded(
                "Too many logins are waiting. Server is currently in an overloaded state and cannot accept \
                 more requests.",
            )
        };
        let _waiting = Waiting(&self.waiting);
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= WAITING_MAX {
            return Err(overloaded());
        }
        let thread = Arc::clone(&self.threads).acquire_owned().await.map_err(|_| overloaded())?;
        let done = take_time(move || {
            let _thread = thread;
            work()
        });
        done.await.map_err(|error| ErrorResponse::server(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    /// Strangers whose work does not end hold up strangers, and nobody else.
    #[tokio::test(flavor = "multi_thread")]
    async fn strangers_hold_up_nobody_who_is_known() {
        let hashing = Arc::new(Hashing::new(1));
        hashing.welcome(address(1));
        let (end, ended) = mpsc::channel::<()>();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let first = tokio::spawn({
            let hashing = Arc::clone(&hashing);
            async move {
                let work = move || {
                    let _ = begin.send(());
                    ended.recv()
                };
                hashing.run_for(address(2), work).await
            }
        });
        begun.await.unwrap();
        let second = tokio::spawn({
            let hashing = Arc::clone(&hashing);
            async move { hashing.run_for(address(3), || 3).await }
        });
        assert_eq!(hashing.run_for(address(1), || 1).await.unwrap(), 1);
        assert_eq!(hashing.run(|| 2).await.unwrap(), 2);
        assert!(!second.is_finished(), "there is one thread for strangers");
        end.send(()).unwrap();
        assert!(first.await.unwrap().is_ok());
        assert_eq!(second.await.unwrap().unwrap(), 3);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_full_line_refuses_and_who_goes_away_leaves_it() {
        let hashing = Hashing::new(1);
        let (end, ended) = mpsc::channel::<()>();
        let mut line: Vec<_> = Vec::new();
        line.push(Box::pin(hashing.run_for(address(2), Box::new(move || ended.recv().is_ok()) as Work)));
        line.extend(
            (1..WAITING_MAX).map(|_| Box::pin(hashing.run_for(address(2), Box::new(|| true) as Work))),
        );
        for one in &mut line {
            let mut context = Context::from_waker(Waker::noop());
            assert!(one.as_mut().poll(&mut context).is_pending());
        }
        let refused = hashing.run_for(address(3), || ()).await.unwrap_err();
        assert!(refused.message.contains("Too many logins"), "{}", refused.message);
        assert_eq!(hashing.run(|| 7).await.unwrap(), 7, "the other line is not full");
        end.send(()).unwrap();
        drop(line);
        assert_eq!(hashing.run_for(address(3), || 8).await.unwrap(), 8);
    }

    type Work = Box<dyn FnOnce() -> bool + Send>;
}
