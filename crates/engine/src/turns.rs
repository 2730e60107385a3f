//! Long work in short turns.
//!
//! Compactions and flushes compute for seconds beside threads that have microseconds of work and a client that waits for
//! it. What the kernel does for those is not enough: a thread that has had more than its share of a busy processor is let
//! wait to the next tick of the clock, up to four milliseconds. So long work takes its data by [`InTurns`], which offers the
//! processor to others after each piece of it. When nobody wants it that costs less than a microsecond, and nobody has
//! to be starved, as by a lower priority.
//!
//! The thread has short slices while it works like that ([`in_turns`]): newer kernels let who yields pay for the whole of its
//! slice. Beside a thread that always computes, one that yielded every 0.1 ms had 7 % of a processor with ordinary slices
//! and 34 % with short ones (Linux 6.18).

use partition::{Event, Fragment, PartitionStream, ReadError};

/// Work of one turn: some ten to a hundred microseconds. Counted in bytes of values ...
const TURN_BYTES: usize = 16 << 10;
/// ... and so many more for each fragment.
const FRAGMENT_BYTES: usize = 256;

/// Does work that goes over its data by [`InTurns`].
pub(crate) fn in_turns<T>(work: impl FnOnce() -> T) -> T {
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

/// The end of a turn: the processor is offered to other threads.
pub(crate) fn give_way() {
    std::thread::yield_now();
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
    fn a_turn_is_as_long_as_its_work() {
        assert_eq!(turns(Rows(1_000, 0)), 1_000 * FRAGMENT_BYTES / TURN_BYTES);
        assert_eq!(turns(Rows(1_000, 768)), 1_000 * 1_024 / TURN_BYTES);
        assert_eq!(turns(Rows(10, 1 << 20)), 10);
        assert_eq!(turns(Rows(10, 100)), 0);
    }
}
