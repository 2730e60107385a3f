//! How fast hints are sent.

use std::time::Duration;

/// So much may be sent ahead: timers have no better grain than a few milliseconds.
const AHEAD: Duration = Duration::from_millis(10);

/// Says how long to wait, so that so many bytes a second are sent.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// When all that was taken may have been sent.
    until_nanos: u64,
}

impl Throttle {
    /// Takes `bytes`, of which there are so many a second (0: without bound). How long to wait before they
    /// are sent.
    pub fn take(&mut self, now_nanos: u64, bytes: u64, bytes_per_second: u64) -> Duration {
        if bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let ahead = Duration::from_nanos(self.until_nanos.saturating_sub(now_nanos));
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second);
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.until_nanos = self.until_nanos.max(now_nanos).saturating_add(nanos);
        if ahead > AHEAD { ahead } else { Duration::ZERO }
    }
}
