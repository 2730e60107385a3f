//! What of a run is measured: one window that is known before, or parts that somebody names while it goes on.
//!
//! Parts come on standard input, a line for each moment at which something changes: the name of the part that
//! begins, or an empty line when nothing is measured until the next. A name that comes again adds to its
//! part, so that a short event can be measured many times. The end of the input ends the run. An operation
//! belongs to the part in which it was meant to begin, whatever has begun when its answer arrives.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::measure::Window;

/// What is measured of a run.
#[derive(Debug)]
pub enum Measured {
    /// One window.
    Window(Window),
    /// Parts as they are named.
    Parts(Mutex<Timeline>),
}

/// The parts so far.
#[derive(Debug, Default)]
pub struct Timeline {
    names: Vec<String>,
    /// From when on which part is measured, in order.
    changes: Vec<(u64, Option<usize>)>,
    end_ns: Option<u64>,
}

impl Measured {
    /// The part to which an instant belongs, by its index; `None` if it is not measured.
    pub fn part(&self, at_ns: u64) -> Option<usize> {
        match self {
            Self::Window(window) => window.holds(at_ns).then_some(0),
            Self::Parts(timeline) => lock(timeline).part(at_ns),
        }
    }

    /// The instant at which nothing begins any more, as far as it is known.
    pub fn end_ns(&self) -> u64 {
        match self {
            Self::Window(window) => window.end_ns,
            Self::Parts(timeline) => lock(timeline).end_ns.unwrap_or(u64::MAX),
        }
    }

    /// A line of the input that was read now: a part begins, or none. Returns the index of the one that does.
    pub fn begin(&self, now_ns: u64, line: &str) -> Option<usize> {
        match self {
            Self::Window(_) => None,
            Self::Parts(timeline) => lock(timeline).begin(now_ns, line),
        }
    }

    /// The input has ended.
    pub fn end(&self, now_ns: u64) {
        if let Self::Parts(timeline) = self {
            let mut timeline = lock(timeline);
            timeline.begin(now_ns, "");
            timeline.end_ns = Some(now_ns);
        }
    }

    /// The names of the parts, by index; none of a window.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Window(_) => Vec::new(),
            Self::Parts(timeline) => lock(timeline).names.clone(),
        }
    }
}

impl Timeline {
    fn part(&self, at_ns: u64) -> Option<usize> {
        // What is asked for is nearly always in the last one.
        let change = self.changes.iter().rev().find(|(from_ns, _)| *from_ns <= at_ns);
        change.and_then(|(_, part)| *part)
    }

    fn begin(&mut self, now_ns: u64, line: &str) -> Option<usize> {
        let part = match line.trim() {
            "" => None,
            name => Some(self.names.iter().position(|known| known == name).unwrap_or_else(|| {
                self.names.push(name.to_owned());
                self.names.len() - 1
            })),
        };
        self.changes.push((now_ns, part));
        part
    }
}

fn lock(timeline: &Mutex<Timeline>) -> MutexGuard<'_, Timeline> {
    timeline.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_belongs_to_the_part_that_was_on_then_and_a_part_may_come_again() {
        let measured = Measured::Parts(Mutex::default());
        let begun = [(10, "idle"), (20, ""), (30, "busy"), (40, "idle\n")];
        assert_eq!(begun.map(|(at, line)| measured.begin(at, line)), [Some(0), None, Some(1), Some(0)]);
        assert_eq!(measured.end_ns(), u64::MAX);
        measured.end(50);
        assert_eq!(measured.end_ns(), 50);
        let parts = [9, 10, 19, 20, 30, 39, 40, 49, 50].map(|at| measured.part(at));
        let (idle, busy) = (Some(0), Some(1));
        assert_eq!(parts, [None, idle, idle, None, busy, busy, idle, idle, None]);
        assert_eq!(measured.names(), ["idle", "busy"]);
    }

    #[test]
    fn a_window_is_one_part_without_a_name() {
        let measured = Measured::Window(Window { begin_ns: 10, end_ns: 20 });
        assert_eq!([9, 10, 19, 20].map(|at| measured.part(at)), [None, Some(0), Some(0), None]);
        assert!(measured.names().is_empty());
    }
}
