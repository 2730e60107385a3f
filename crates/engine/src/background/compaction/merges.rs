//! How many of a compaction's inputs have a partition: counted for the history, on the way through the merge.
//!
//! Inputs run ahead of the merge, by one partition each. So each notes the keys that it comes to, and the
//! merge takes those away that are the key of its own partition.

use env::sync::Mutex;
use model::DecoratedKey;
use partition::{Event, Fragment, PartitionStream, ReadError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Numbers of inputs that had a partition -> how many such partitions there were.
pub(super) type MergedRows = BTreeMap<u32, u64>;

/// Counts for one compaction.
#[derive(Clone, Default)]
pub(super) struct Merges(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The partitions that inputs are at, as far as the merge has not come to them.
    ahead: Vec<DecoratedKey>,
    merged: MergedRows,
}

impl Merges {
    /// What was counted.
    pub(super) fn counted(&self) -> MergedRows {
        self.0.lock().merged.clone()
    }

    /// An input of the merge.
    pub(super) fn input<S>(&self, stream: S) -> Input<S> {
        Input { stream, merges: self.clone() }
    }

    /// The merge of all inputs.
    pub(super) fn merge<S>(&self, stream: S) -> Merge<S> {
        Merge { stream, merges: self.clone() }
    }
}

/// See [`Merges::input`].
pub(super) struct Input<S> {
    stream: S,
    merges: Merges,
}

impl<S: PartitionStream> PartitionStream for Input<S> {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        let event = self.stream.next(out)?;
        if event == Event::PartitionStart {
            self.merges.0.lock().ahead.push(out.key.clone());
        }
        Ok(event)
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.stream.skip_partition()
    }
}

/// See [`Merges::merge`].
pub(super) struct Merge<S> {
    stream: S,
    merges: Merges,
}

impl<S: PartitionStream> PartitionStream for Merge<S> {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        let event = self.stream.next(out)?;
        if event == Event::PartitionStart {
            let mut state = self.merges.0.lock();
            let before = state.ahead.len();
            state.ahead.retain(|key| *key != out.key);
            let inputs = (before - state.ahead.len()) as u32;
            *state.merged.entry(inputs).or_default() += 1;
        }
        Ok(event)
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.stream.skip_partition()
    }
}
