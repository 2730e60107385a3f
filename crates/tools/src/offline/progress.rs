//! A progress bar on the standard error, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sstable::WorkDone;
use std::cell::Cell;
use std::io::IsTerminal;

/// Bytes between two looks at the clock.
const STEP_BYTES: u64 = 64 << 10;

/// How far long work is, in uncompressed bytes of data.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Where work began that is only counted.
    start: Cell<Option<u64>>,
    last: Cell<u64>,
}

impl Progress {
    /// A bar, or without a total a count.
    pub(super) fn new(what: &str, total: Option<u64>) -> Progress {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(total, target);
        let template = match total {
            Some(_) => "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta_precise}",
            None => "{msg} {bytes} {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress { bar, start: Cell::new(total.map(|_| 0)), last: Cell::new(0) }
    }

    /// Says that the work has come to `position`; to be called often.
    pub(super) fn at(&self, position: u64) {
        let start = self.start.get().unwrap_or(position);
        self.start.set(Some(start));
        if position.abs_diff(self.last.get()) >= STEP_BYTES {
            self.last.set(position);
            self.bar.set_position(position.saturating_sub(start));
        }
    }

    /// As [`Progress::at`], by who knows best how much there is to do.
    pub(super) fn tell(&self, work: WorkDone) {
        if self.bar.length() != Some(work.of) {
            self.bar.set_length(work.of);
        }
        self.at(work.done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
