//! The stream of partitions that every source yields and every consumer reads.
//!
//! Memtables, SSTables, caches, merges and replicas all yield a [`PartitionStream`]: a flat sequence of
//! fragments.
//!
//! ```text
//! stream    := partition* End
//! partition := PartitionStart StaticRow? (Row | RangeChange)* PartitionEnd
//! ```
//!
//! Whoever yields a stream keeps these rules, and `testkit::check_source` checks them.
//!
//! 1. Partitions come in ring order (token, then key bytes), each at most once.
//! 2. `StaticRow` comes only when the partition has static content; its clustering is empty.
//! 3. Rows and range changes come in storage order; a reversed read has the reverse order. A position holds
//!    at most one row and at most one change. A row and a change never share a position: a change lies before
//!    or after all rows that begin with its prefix.
//! 4. A [`RangeChange`] says which range deletion holds for what follows it *in stream order*;
//!    [`Deletion::NONE`] when none does. Consecutive changes differ. None is open at `PartitionStart` and at
//!    `PartitionEnd`.
//! 5. Row contents are reconciled within the source. There are no two cells of one column and path, and
//!    nothing that the row's own deletions shadow. What a range or partition deletion *of the same source*
//!    shadows may still be there in a memtable or an SSTable; a merge removes it.
//! 6. Outside the asked-for slices a source yields no rows. It yields the changes that make the open deletion
//!    right at the first position inside each slice, and closes that deletion after the slice.
//! 7. Rows hold all cells; values of columns that were not asked for may be empty.
//! 8. After `End` or an error a stream is not asked again.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod codec;
mod cost;
mod deadline;
mod error;
pub mod filter;
mod garbage;
mod live;
mod merge;
mod plain;
mod purge;
mod recorder;
mod recording;
mod stream;
#[cfg(test)]
mod testing;

pub use cost::{CostSnapshot, ReadContext, ReadCost};
pub use deadline::Deadline;
pub use error::ReadError;
pub use garbage::{Garbage, ShadowSource, Unshadowed};
pub use live::{LiveRows, PageLimits, PageMark};
pub use merge::{Concat, concat, merge};
pub use plain::{Place, PlainCell, PlainHead, PlainParts, PlainRow, PlainValue, TakeLive, TakePlain};
pub use purge::{Purge, PurgeGuard, without_outlived, without_purgeable};
pub use recorder::{AtSource, NanoClock, Recorder, SourceKind, SourceRecord, Verdict};
pub use recording::{Cut, Digest, GroupLimits, Recording, Silent, decode_answer, known, lacking, silent};
pub use stream::{BoxedStream, Event, Fragment, PartitionStream, RangeChange};
