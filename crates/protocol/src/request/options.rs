//! OPTIONS: an empty body. Allowed at any time, and the heartbeat of drivers.

/// What does the server support?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options;
