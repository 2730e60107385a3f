//! Long work in short turns.
//!
//! Compactions and flushes compute for seconds beside threads that have microseconds of work and a client
//! that waits for it. What the kernel does for those is not enough: a thread that never sleeps keeps a
//! processor to itself, and those that sleep and wake again and again share what is left, though together
//! they have more work than one processor can do. So long work takes its data by [`InTurns`], which gives way
//! after each piece of it ([`give_way`]):
//!
//! 1. While nobody reads, the processor is offered to others. When nobody wants it that costs less than a
//!    microsecond.
//! 2. While somebody reads ([`note_read`]), the thread sleeps for as long as it computed since the last time.
//!    Threads that wake find its processor free, and the work takes a little more than twice the time that it
//!    would have alone.
//! 3. A flush does not sleep while memtables have little room left ([`in_turns_unless`]): writers would wait
//!    for it.
//!
//! The thread has short slices while it works like that ([`in_turns`]): newer kernels let who yields pay for
//! the whole of its slice. Beside a thread that always computes, one that yielded every 0.1 ms had 7 % of a
//! processor with ordinary slices and 34 % with short ones (Linux 6.18).

use partition::{Event, Fragment, PartitionStream, ReadError};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Work of one turn: some ten to a hundred microseconds. Counted in bytes of values ...
const TURN_BYTES: usize = 16 << 10;
/// ... and so many more for each fragment.
const FRAGMENT_BYTES: usize = 256;

/// For so long after a read the next one is expected.
const READS_NANOS: u64 = 2_000_000;
/// Shorter rests are saved up: the kernel lets a thread sleep some 50 us longer than it wants to.
const REST_NANOS_MIN: i64 = 100_000;
/// Longer ones are not taken, whatever was computed without a turn.
const REST_NANOS_MAX: i64 = 2_000_000;

/// Whether anybody read since long work looked last; of the process, whose threads share the processors.
static IS_READ: AtomicBool = AtomicBool::new(false);
/// When long work saw that last, by the kernel's clock.
static READ_NANOS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// Long work of this thread.
struct Work {
    /// Whether somebody waits for the work itself.
    is_urgent: Box<dyn Fn() -> bool>,
    /// Processor time of the thread at the end of its last turn.
    counted_nanos: u64,
    pace: Pace,
}

/// How long a thread rests for what it computed.
#[derive(Default)]
struct Pace {
    /// Less than nothing after a rest that was longer than wanted.
    owed_nanos: i64,
}

impl Pace {
    /// So much was computed; how long to rest for it now, if at all.
    fn rest_for(&mut self, nanos: u64) -> Option<u64> {
        self.owed_nanos = self.owed_nanos.saturating_add_unsigned(nanos).min(REST_NANOS_MAX);
        (self.owed_nanos >= REST_NANOS_MIN).then_some(self.owed_nanos.unsigned_abs())
    }

    /// The rest took so long.
    fn rested(&mut self, nanos: u64) {
        // What it waited for the processor besides is no reason to rest less.
        self.owed_nanos = self.owed_nanos.saturating_sub_unsigned(nanos).max(-REST_NANOS_MIN);
    }
}

impl Work {
    /// Ends a turn; whether the thread rested.
    fn rest(&mut self) -> bool {
        let now = env::thread::cpu_nanos();
        let computed = now.saturating_sub(self.counted_nanos);
        self.counted_nanos = now;
        if env::tasks::is_simulated() || !is_read() || (self.is_urgent)() {
            self.pace = Pace::default();
            return false;
        }
        let Some(rest) = self.pace.rest_for(computed) else { return false };
        self.pace.rested(env::thread::rest(rest));
        true
    }
}

/// Puts back the work that the thread had before.
struct Before(Option<Work>);

impl Drop for Before {
    fn drop(&mut self) {
        WORK.set(self.0.take());
    }
}

/// Somebody reads: work that goes on beside it gives way.
pub(crate) fn note_read() {
    // Written once for each look at it: the line stays with all processors meanwhile.
    if !IS_READ.load(Ordering::Relaxed) {
        IS_READ.store(true, Ordering::Relaxed);
    }
}

fn is_read() -> bool {
    let now = env::thread::kernel_nanos();
    if IS_READ.swap(false, Ordering::Relaxed) {
        READ_NANOS.store(now, Ordering::Relaxed);
        return true;
    }
    now.saturating_sub(READ_NANOS.load(Ordering::Relaxed)) < READS_NANOS
}

/// Does work that goes over its data by [`InTurns`], or calls [`give_way`] itself.
pub fn in_turns<T>(work: impl FnOnce() -> T) -> T {
    in_turns_unless(|| false, work)
}

/// As [`in_turns`], but takes no rests while `is_urgent` says that somebody waits for the work.
pub(crate) fn in_turns_unless<T>(is_urgent: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    let is_urgent = Box::new(is_urgent);
    let started = Work { is_urgent, counted_nanos: env::thread::cpu_nanos(), pace: Pace::default() };
    let _before = Before(WORK.replace(Some(started)));
    env::thread::with_short_slices(work)
}

/// A stream that offers the processor to other threads now and then.
pub(crate) struct InTurns<S, Y = fn()> {
    stream: S,
    /// Work since the last turn.
    done: usize,
    give_way: Y,
}

impl<S> InTurns<S> {
    pub fn new(stream: S) -> InTurns<S> {
        InTurns { stream, done: 0, give_way }
    }
}

/// The end of a turn: the thread rests, or the processor is offered to others at least. For work that is done
/// [`in_turns`], after each ten to a hundred microseconds of it.
pub fn give_way() {
    if !rest() {
        env::tasks::yield_now();
    }
}

/// As [`give_way`] while somebody reads; does nothing while nobody does. Returns whether the thread rested.
/// For threads of low priority, which would pay for a yield with many times their slice.
pub fn rest() -> bool {
    WORK.with_borrow_mut(|work| work.as_mut().is_some_and(Work::rest))
}

impl<S: PartitionStream, Y: FnMut() + Send> PartitionStream for InTurns<S, Y> {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        let event = self.stream.next(out)?;
        self.done += FRAGMENT_BYTES;
        if event == Event::Row {
            self.done += out.row.data_size();
        }
        if self.done >= TURN_BYTES {
            self.done = 0;
            (self.give_way)();
        }
        Ok(event)
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.stream.skip_partition()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Cell, ColumnId};

    /// So many rows with a value of so many bytes, and the end.
    struct Rows(usize, usize);

    impl PartitionStream for Rows {
        fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
            if self.0 == 0 {
                return Ok(Event::End);
            }
            self.0 -= 1;
            out.row.cells = vec![Cell::live(ColumnId(0), 1, vec![0; self.1].into())];
            Ok(Event::Row)
        }
    }

    fn turns(stream: Rows) -> usize {
        let mut turns = 0;
        let mut stream = InTurns { stream, done: 0, give_way: || turns += 1 };
        let mut fragment = Fragment::default();
        while stream.next(&mut fragment).unwrap() != Event::End {}
        turns
    }

    #[test]
    fn who_computes_rests_as_long() {
        let (mut pace, mut computed, mut rested) = (Pace::default(), 0, 0);
        for _ in 0..1_000 {
            computed += 70_000;
            if let Some(rest) = pace.rest_for(70_000) {
                assert!(rest >= 100_000);
                // The kernel takes its time.
                let rest = rest + 55_000;
                pace.rested(rest);
                rested += rest;
            }
        }
        assert!(rested.abs_diff(computed) <= 225_000, "{rested} of {computed}");
        // What was computed at one go without a turn does not become a long sleep.
        assert_eq!(pace.rest_for(u64::MAX), Some(2_000_000));
    }

    #[test]
    fn work_inside_other_work_leaves_that_as_it_was() {
        let is_urgent = || WORK.with_borrow(|work| work.as_ref().is_some_and(|w| (w.is_urgent)()));
        in_turns_unless(
            || true,
            || {
                assert!(is_urgent());
                in_turns(|| assert!(!is_urgent()));
                assert!(is_urgent());
            },
        );
        assert!(WORK.with_borrow(Option::is_none));
    }

    #[test]
    fn a_turn_is_as_long_as_its_work() {
        assert_eq!(turns(Rows(1_000, 0)), 1_000 * FRAGMENT_BYTES / TURN_BYTES);
        assert_eq!(turns(Rows(1_000, 768)), 1_000 * 1_024 / TURN_BYTES);
        assert_eq!(turns(Rows(10, 1 << 20)), 10);
        assert_eq!(turns(Rows(10, 100)), 0);
    }
}
