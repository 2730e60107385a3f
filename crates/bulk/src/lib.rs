//! Whole tables as Arrow record batches, without CQL rows on the way.
//!
//! This page is the contract. Its words:
//!
//! ```text
//! Source ──splits──▶ Split, Split, ...        what there is, cut into parts
//!    │                  │
//!    │   ScanRequest    │                     what is asked for
//!    ▼        ▼         ▼
//!  Scan: Iterator<Item = Result<RecordBatch, BulkError>>      one split of one request
//! ```
//!
//! **A source** ([`Source`]) is one table as it is at one moment: its SSTables, and the memtables of a
//! running node. Nothing is flushed for it, and what it holds stays while it is held, whatever is compacted
//! or dropped. It is a held table of a node, or a set of SSTables that no node has open.
//!
//! **A request** ([`ScanRequest`]) is a read command of `model` and the form of its columns:
//! 1. *Projection*: the columns that are asked for. Values of other columns are stepped over. Without any
//!    column a batch has a number of rows and nothing else, and no value is decoded.
//! 2. *Filter*: partition keys, token ranges and clusterings are looked up in the indexes. Other conditions
//!    are judged for each row, before anything of it is copied.
//! 3. *Limits*: of rows and of rows in a partition. Each split keeps to them. Who scans several splits
//!    stops at the limit of the whole ([`ScanRequest::limit`]).
//! 4. *Order*: rows of a split come in ring order, and in clustering order inside a partition. Splits in the
//!    order of [`Source::splits`] are in ring order, too. No other order is to be had.
//! 5. *Moment*: TTLs are judged at [`model::command::ReadCommand::now_s`], the same in every split.
//!
//! **A split** ([`Split`]) is a range of tokens, nothing else: it can be serialised, handed to another
//! process, and scanned there when it is time. All splits of a source together are each of its rows once.
//! Nothing is read before a scan is asked for its first batch. A partition that has much more bytes than a
//! split should is cut at its rows ([`RowCut`]), by the SSTables' indexes of them.
//!
//! **Estimates** carry it in their names ([`Split::bytes_estimate`]). They come from the indexes, and they
//! are of bytes before compression, deleted and overwritten data among them.
//!
//! **A scan** ([`Scan`]) yields batches of at most [`BATCH_ROWS_MAX`] rows and about [`BATCH_BYTES_MAX`]
//! bytes, in the schema of [`ScanRequest::schema`]. It reads forwards with large calls, and leaves nothing
//! in a page cache. It holds one batch. Rows are those that CQL would answer: they pass the same merge, the
//! same `model::reconcile` and the same `partition::LiveRows`.
//!
//! **Deletions** are handed out on request ([`ScanOptions::deletions`]): each is a row of its own, beside the
//! rows that are live. Nothing is left out of them by its age.
//!
//! **Errors** may come late, and travel in the iterator: what was yielded before stays good, the split is
//! not whole, and the iterator is over. A damaged SSTable is named with file and offset. A scan that is
//! asked to ([`ScanRequest::salvages`]) goes on behind damage, and tells what it left out
//! ([`Batches::losses`]).
//!
//! **A scan that nobody wants** any more ([`ScanRequest::cancel`]) ends between two rows, or where it waits.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod cancel;
mod columns;
pub mod deletion;
mod error;
pub mod export;
#[cfg(feature = "query")]
pub mod flight;
pub mod fuzz;
pub mod handle;
pub mod json;
pub mod losses;
mod request;
mod scan;
mod select;
mod source;
mod split;
#[cfg(feature = "query")]
pub mod sql;
#[cfg(feature = "query")]
mod stream;
mod table;
#[cfg(test)]
mod tests;
pub mod ticket;
mod types;
pub mod work;

pub use cancel::{Cancel, Pace};
pub use error::BulkError;
pub use request::{EmptyValues, Form, ScanOptions, ScanRequest};
pub use scan::{BATCH_BYTES_MAX, BATCH_ROWS_MAX, Loss, Scan, ScanCounts};
pub use select::Select;
pub use source::Source;
pub use split::{RowCut, Split};
pub use table::{Batches, Table, Tables};
pub use types::{CQL_TYPE, field_of, type_of};
