//! The `ilion` binary.
fn main() {}
