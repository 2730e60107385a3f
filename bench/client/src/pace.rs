//! When the next operation is to begin.
//!
//! * **Closed**: as soon as one of the places in flight is free. Shows what a server sustains, and its
//!   latency to clients that wait for it.
//! * **Open**: at fixed intervals, whatever the server does. Operation i of a thread is due at a time that
//!   was fixed before the run, so nothing the server does can move it.

/// Who decides.
#[derive(Debug, Clone)]
pub enum Pace {
    /// The server: an answer makes room for the next operation.
    Closed,
    /// The schedule.
    Open(Schedule),
}

/// Instants at fixed intervals, interleaved with those of the other threads.
#[derive(Debug, Clone)]
pub struct Schedule {
    interval_ns: f64,
    index: u64,
    step: u64,
}

impl Schedule {
    /// A thread's part of `rate` operations a second.
    pub fn new(rate: f64, thread: u64, threads: u64) -> Self {
        Self { interval_ns: 1e9 / rate, index: thread, step: threads }
    }

    fn due_ns(&self) -> u64 {
        (self.index as f64 * self.interval_ns) as u64
    }
}

impl Pace {
    /// The instant at which the next operation was meant to begin, if that has come.
    pub fn due(&self, now_ns: u64) -> Option<u64> {
        match self {
            Self::Closed => Some(now_ns),
            Self::Open(schedule) => Some(schedule.due_ns()).filter(|&due| due <= now_ns),
        }
    }

    /// The operation that was due has been sent.
    pub fn sent(&mut self) {
        if let Self::Open(schedule) = self {
            schedule.index += schedule.step;
        }
    }

    /// How long there is nothing to send, if time alone decides that.
    pub fn idle_ns(&self, now_ns: u64) -> Option<u64> {
        match self {
            Self::Closed => None,
            Self::Open(schedule) => Some(schedule.due_ns().saturating_sub(now_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_does_not_move_when_sending_is_late() {
        let mut pace = Pace::Open(Schedule::new(1_000.0, 0, 1));
        let late_ns = 5_500_000;
        let mut meant = Vec::new();
        while let Some(due) = pace.due(late_ns) {
            meant.push(due);
            pace.sent();
        }
        assert_eq!(meant, [0, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000]);
        assert_eq!(pace.idle_ns(late_ns), Some(500_000));
    }

    #[test]
    fn threads_share_a_rate_evenly() {
        let dues = |thread| {
            let mut pace = Pace::Open(Schedule::new(1e9, thread, 3));
            let mut dues = Vec::new();
            while let Some(due) = pace.due(8) {
                dues.push(due);
                pace.sent();
            }
            dues
        };
        assert_eq!([dues(0), dues(1), dues(2)], [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5, 8]]);
    }

    #[test]
    fn a_closed_loop_begins_at_once() {
        let pace = Pace::Closed;
        assert_eq!((pace.due(17), pace.idle_ns(17)), (Some(17), None));
    }
}
