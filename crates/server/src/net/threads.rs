//! The threads that serve connections.
//!
//! Each has an event loop of its own and serves the connections that were given to it, with what their
//! requests come to. Nobody is woken to take work from another: that, and memory that goes from one
//! processor's cache to the other's, costs more than most requests do. The price is that a thread can have
//! too much to do beside one that has nothing, so:
//!
//! 1. A new connection goes to the thread that has the fewest.
//! 2. Once a second the threads are compared ([`Threads::balance`]). Where one was busy and another had time,
//!    the connection is to move that makes the two most alike; it does so between two of its turns
//!    ([`super::task`]).
//!
//! The exception: a connection that is most of a thread's work by itself stays where it is.

use cluster::messaging::tcp::shortcut::{gather_here, write_gathered};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use env::tasks::Tasks;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use super::Connection;

/// The part of its time, in hundredths, that a thread is busy before anything leaves it.
const BUSY_PERCENT: u64 = 50;
/// The difference between two threads, in hundredths of their time, below which nothing moves, and by how
/// much a move has to make it smaller.
const GAP_PERCENT: u64 = 20;

/// Threads, each with its event loop.
#[derive(Debug)]
pub struct Threads {
    threads: Vec<Thread>,
    stop: watch::Sender<bool>,
}

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    connections: AtomicUsize,
    /// Busy time up to the last comparison.
    seen_busy: Mutex<Duration>,
}

/// A connection's place on a thread.
#[derive(Debug)]
pub(super) struct Seat {
    threads: Arc<Threads>,
    thread: usize,
}

impl Threads {
    /// Starts so many threads, each of which calls `on_start`, as do those that block for them.
    ///
    /// # Errors
    /// When the system has no more threads or files.
    pub fn start(count: usize, on_start: fn()) -> io::Result<Arc<Threads>> {
        let (stop, stopped) = watch::channel(false);
        let threads = (0..count.max(1)).map(|_| Thread::start(on_start, stopped.clone()));
        Ok(Arc::new(Threads { threads: threads.collect::<io::Result<_>>()?, stop }))
    }

    /// The event loops, for what is no connection of a client.
    pub(crate) fn runtimes(&self) -> Vec<Handle> {
        self.threads.iter().map(|thread| thread.runtime.clone()).collect()
    }

    /// The thread with the fewest connections has one more.
    pub(super) fn take_seat(self: &Arc<Self>) -> Seat {
        let connections = |thread: &usize| self.threads[*thread].connections.load(Ordering::Relaxed);
        let thread = (0..self.threads.len()).min_by_key(connections).unwrap_or(0);
        self.seat_on(thread)
    }

    fn seat_on(self: &Arc<Self>, thread: usize) -> Seat {
        self.threads[thread].connections.fetch_add(1, Ordering::Relaxed);
        Seat { threads: Arc::clone(self), thread }
    }

    /// Has a connection move where one thread had much more to do than another in the `elapsed` time since
    /// the last call.
    pub(super) fn balance(&self, elapsed: Duration, connections: &[Arc<Connection>]) {
        let requests: Vec<u64> = connections.iter().map(|connection| connection.requests_since()).collect();
        let elapsed_nanos = elapsed.as_nanos().max(1);
        let busy = |thread: &Thread| {
            let total = thread.runtime.metrics().worker_total_busy_duration(0);
            let before = std::mem::replace(&mut *thread.seen_busy.lock(), total);
            (total.saturating_sub(before).as_nanos() * 100 / elapsed_nanos) as u64
        };
        let busy: Vec<u64> = self.threads.iter().map(busy).collect();
        let loads: Vec<(usize, u64)> =
            connections.iter().map(|connection| connection.thread()).zip(requests).collect();
        if let Some((moving, to)) = pick(&busy, &loads) {
            tracing::debug!(peer = %connections[moving].peer, to, ?busy, "a connection moves to another thread");
            connections[moving].move_to(to);
        }
    }

    /// Ends the threads when they have finished what they do at this moment; what waits is given up.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Thread {
    fn start(on_start: fn(), mut stopped: watch::Receiver<bool>) -> io::Result<Thread> {
        let runtime = Builder::new_current_thread()
            .thread_name("ilion-net")
            .on_thread_start(on_start)
            // What requests of clients ask of other nodes is written once all that have come were looked at.
            .on_thread_park(write_gathered)
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        Tasks::of_machine().spawn("ilion-net", move || {
            on_start();
            gather_here();
            // An error says that nobody is left who could stop it.
            let _ = runtime.block_on(stopped.wait_for(|is_stopped| *is_stopped));
            runtime.shutdown_background();
        })?;
        Ok(Thread { runtime: handle, connections: AtomicUsize::new(0), seen_busy: Mutex::default() })
    }
}

impl Seat {
    /// The number of the thread.
    pub(super) fn thread(&self) -> usize {
        self.thread
    }

    /// Where the thread runs tasks.
    pub(super) fn runtime(&self) -> &Handle {
        &self.threads.threads[self.thread].runtime
    }

    /// A place on another thread, in place of this one.
    pub(super) fn moved_to(self, thread: usize) -> Seat {
        self.threads.seat_on(thread)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.threads.threads[self.thread].connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Which connection is to move to which thread: of threads that were `busy` for so many hundredths of their
/// time, and connections that are on a thread and sent so many requests meanwhile.
fn pick(busy: &[u64], connections: &[(usize, u64)]) -> Option<(usize, usize)> {
    let (from, most) = busy.iter().copied().enumerate().max_by_key(|(_, busy)| *busy)?;
    let (to, least) = busy.iter().copied().enumerate().min_by_key(|(_, busy)| *busy)?;
    let gap = most - least;
    if most < BUSY_PERCENT || gap < GAP_PERCENT {
        return None;
    }
    let here = || connections.iter().enumerate().filter(|(_, (thread, _))| *thread == from);
    let requests: u64 = here().map(|(_, (_, requests))| requests).sum();
    // What a connection is of its thread's work, and what the gap is without it.
    let share = |requests_of_it: u64| most * requests_of_it / requests.max(1);
    here()
        .map(|(connection, (_, requests))| (connection, share(*requests)))
        .filter(|(_, share)| gap.abs_diff(2 * share) + GAP_PERCENT <= gap)
        .min_by_key(|(_, share)| gap.abs_diff(2 * share))
        .map(|(connection, _)| (connection, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_moves_that_makes_threads_most_alike() {
        let connections = [(0, 10), (1, 5), (0, 40), (0, 45), (0, 5)];
        assert_eq!(pick(&[100, 5], &connections), Some((3, 1)));
        assert_eq!(pick(&[100, 75], &connections), Some((0, 1)));
        assert_eq!(pick(&[5, 100, 0], &[(1, 50), (1, 50)]), Some((0, 2)));
    }

    #[test]
    fn nothing_moves_where_that_makes_nothing_better() {
        // The only one that does anything would be as alone elsewhere.
        assert_eq!(pick(&[100, 0], &[(0, 100), (0, 0)]), None);
        assert_eq!(pick(&[100, 5], &[(0, 95), (0, 5)]), None, "nor would the small one change much");
        assert_eq!(pick(&[45, 0], &[(0, 50), (0, 50)]), None, "it has time");
        assert_eq!(pick(&[100, 90], &[(0, 50), (0, 50)]), None, "all are busy");
        assert_eq!(pick(&[100], &[(0, 50), (0, 50)]), None);
        assert_eq!(pick(&[100, 0], &[]), None);
    }

    #[test]
    fn connections_go_where_the_fewest_are() {
        let threads = Threads::start(3, || ()).unwrap();
        let mut seats: Vec<Seat> = (0..6).map(|_| threads.take_seat()).collect();
        let on = |seats: &[Seat]| seats.iter().map(Seat::thread).collect::<Vec<_>>();
        assert_eq!(on(&seats), [0, 1, 2, 0, 1, 2]);
        drop(seats.remove(4));
        seats.push(threads.take_seat());
        assert_eq!(seats[5].thread(), 1);
        let moved = seats.remove(0).moved_to(2);
        assert_eq!((moved.thread(), threads.take_seat().thread()), (2, 0));
    }
}
