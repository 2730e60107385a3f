//! The largest of many values.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The largest values with what they are of.
#[derive(Debug)]
pub(super) struct Largest<T> {
    count: usize,
    heap: BinaryHeap<Reverse<(u64, T)>>,
}

impl<T: Ord> Largest<T> {
    /// Keeps `count` of them.
    pub(super) fn new(count: usize) -> Largest<T> {
        Largest { count, heap: BinaryHeap::new() }
    }

    /// Keeps a value that is large enough, and not 0; only then `of` is asked for.
    pub(super) fn offer(&mut self, value: u64, of: impl FnOnce() -> T) {
        let is_full = self.heap.len() >= self.count;
        if value == 0 || (is_full && self.heap.peek().is_none_or(|Reverse((least, _))| value <= *least)) {
            return;
        }
        if is_full {
            self.heap.pop();
        }
        self.heap.push(Reverse((value, of())));
    }

    /// The values, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &T)> {
        self.heap.iter().map(|Reverse((value, of))| (*value, of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_stay_and_the_others_are_not_written_down() {
        let mut found = Largest::new(2);
        for value in [5, 0, 9, 7] {
            found.offer(value, || value.to_string());
        }
        found.offer(7, || panic!("it is not larger"));
        let mut all: Vec<_> = found.all().map(|(value, of)| (value, of.as_str())).collect();
        all.sort_unstable();
        assert_eq!(all, [(7, "7"), (9, "9")]);
        let mut none = Largest::<String>::new(0);
        none.offer(5, || panic!("there is no room"));
        assert_eq!(none.all().count(), 0);
    }
}
