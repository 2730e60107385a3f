//! What the process says to whoever started it, besides logs.

use std::io::Write;

/// Writes text to standard error. One that takes nothing, a closed pipe or a file on a full disk, is no
/// reason to fail, let alone to panic as `eprintln!` does.
pub fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
