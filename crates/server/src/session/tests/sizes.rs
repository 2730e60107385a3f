//! How long the futures of requests are: each is copied to where it waits, at each request.

use super::super::Exchange;
use super::super::run::Work;
use std::future::Future;

fn future_bytes<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
    size_of::<F>()
}

#[test]
fn what_a_write_waits_as_is_short() {
    let write = |work: Work, exchange: &'static mut Exchange| work.watched(exchange, || unreachable!());
    assert!(future_bytes(write) <= 2_200, "{}", future_bytes(write));
}
