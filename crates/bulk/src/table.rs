//! What an export, a query or a Flight service sees of tables, wherever their rows come from.

use crate::{BulkError, Loss, ScanCounts, ScanRequest, Split};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use model::{Schema, TableSchema};
use std::fmt;
use std::sync::Arc;

/// The batches of one split, one after the other. After an error there are no more.
///
/// Each call may wait for the disk or for a node.
pub trait Batches: Iterator<Item = Result<RecordBatch, BulkError>> + Send {
    /// The schema of the batches.
    fn schema(&self) -> &SchemaRef;

    /// What was yielded so far.
    fn counts(&self) -> ScanCounts;

    /// About how many bytes of the SSTables the scan has gone over, before compression.
    fn bytes_done(&self) -> u64;

    /// What was left out so far because a file is damaged. None where damage ends the scan.
    fn losses(&self) -> &[Loss] {
        &[]
    }
}

/// A table that can be scanned.
pub trait Table: fmt::Debug + Send + Sync {
    /// Its definition.
    fn definition(&self) -> &Arc<TableSchema>;

    /// Names and sizes of the data files, for who wants to know whether it is still the same. None where a
    /// running node has them, which writes new ones at any time.
    fn files(&self) -> Vec<(String, u64)>;

    /// Bytes of its SSTables, before compression.
    ///
    /// # Errors
    /// When a node cannot be asked.
    fn data_bytes(&self) -> Result<u64, BulkError>;

    /// How many rows a scan of everything would find, where that is known without one.
    ///
    /// # Errors
    /// When a node cannot be asked.
    fn known_rows(&self) -> Result<Option<u64>, BulkError>;

    /// At most `parts` splits, which together are the partitions that the request asks for, with about as
    /// many bytes each. May wait.
    ///
    /// # Errors
    /// When an index cannot be read, or a node cannot be asked.
    fn splits(&self, request: &ScanRequest, parts: u64) -> Result<Vec<Split>, BulkError>;

    /// Scans what a request asks for of a split.
    ///
    /// # Errors
    /// When a node cannot be asked. Nothing else is read before the first batch is asked for.
    fn scan(&self, request: &ScanRequest, split: &Split) -> Result<Box<dyn Batches>, BulkError>;
}

/// The tables that there are.
pub trait Tables: fmt::Debug + Send + Sync {
    /// Keyspaces, types and tables. Not all of these tables need be there to be scanned.
    fn schema(&self) -> Arc<Schema>;

    /// A table as it is now.
    ///
    /// # Errors
    /// When there is no such table, or whoever asks may not read it.
    fn table(&self, keyspace: &str, name: &str) -> Result<Arc<dyn Table>, BulkError>;

    /// Names of keyspace and table of all that can be scanned, sorted.
    fn names(&self) -> Vec<(String, String)>;

    /// Whether whoever asks may read a table.
    fn may_read(&self, _keyspace: &str, _name: &str) -> bool {
        true
    }
}
