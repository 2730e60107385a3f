//! A progress bar on the standard error, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// How far long work is.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// A bar over `total` bytes.
    pub(super) fn bytes(what: &str, total: u64) -> Progress {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        if let Ok(style) = ProgressStyle::with_template(
            "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta_precise}",
        ) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Progress(bar)
    }

    /// Says that the work has come to `position`.
    pub(super) fn at(&self, position: u64) {
        self.0.set_position(position);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
