//! What tests of several crates share: generated histories, a naive model of what they mean, and the suites
//! that hold an implementation to it.

#[cfg(feature = "sim")]
pub mod sim;
pub mod source;

pub use source::{SourceReader, check_source};
