//! The progress of an export on the standard error, on a terminal only.

use bulk::export::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bar over the bytes of the source, with the rows that were written.
pub(super) struct Bar {
    bar: ProgressBar,
    rows: AtomicU64,
}

impl Bar {
    pub(super) fn new(what: &str) -> Bar {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let template =
            "{prefix} [{bar:30}] {msg} rows {bytes}/{total_bytes} {bytes_per_sec} {eta_precise} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(what.to_owned());
        Bar { bar, rows: AtomicU64::new(0) }
    }
}

impl Progress for Bar {
    fn begin(&self, bytes: u64, done: u64) {
        self.bar.set_length(bytes);
        self.bar.set_position(done);
        // What an earlier run did says nothing of the time that is left.
        self.bar.reset_eta();
    }

    fn add(&self, rows: u64, bytes: u64) {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        if !self.bar.is_hidden() {
            self.bar.set_message(rows.to_string());
            self.bar.inc(bytes);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
