//! Cells: one value of one column, or of one element of a multi-cell column.

use crate::{NO_DELETION_TIME, NO_TTL};
use bytes::Bytes;

/// A column of a table, for as long as the process lives.
///
/// [`crate::schema::TableSchema`] hands out ids when a table is loaded, in column order
/// (docs/formats/sstable-big.md), statics before regulars. A column that is added later gets the next free
/// id. So the id of an existing column never changes, and rows in memory stay valid across ALTER TABLE. They
/// are never written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u32);

/// One cell.
///
/// A tombstone has no TTL but a local deletion time, and an empty value; an expiring cell has both; a plain
/// cell has neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The column.
    pub column: ColumnId,
    /// Microseconds since the epoch.
    pub timestamp: i64,
    /// Seconds, or [`NO_TTL`].
    pub ttl: i32,
    /// Deletion or expiration, in seconds since the epoch; [`NO_DELETION_TIME`] for a plain cell.
    pub local_deletion_time: u32,
    /// The element inside a multi-cell column: time-uuid of a list, element of a set, key of a map,
    /// big-endian `i16` field index of a UDT. Empty and without meaning for a simple column.
    pub path: Bytes,
    /// The value; a counter's is a context ([`crate::counter`]).
    pub value: Bytes,
}

impl Cell {
    /// A plain cell of a simple column.
    pub fn live(column: ColumnId, timestamp: i64, value: Bytes) -> Cell {
        Cell {
            column,
            timestamp,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
            path: Bytes::new(),
            value,
        }
    }

    /// A tombstone of a simple column, made at `local_deletion_time` (seconds).
    pub fn tombstone(column: ColumnId, timestamp: i64, local_deletion_time: u32) -> Cell {
        Cell { column, timestamp, ttl: NO_TTL, local_deletion_time, path: Bytes::new(), value: Bytes::new() }
    }

    /// An expiring cell of a simple column: gone at `local_deletion_time` (seconds).
    pub fn expiring(
        column: ColumnId,
        timestamp: i64,
        ttl: i32,
        local_deletion_time: u32,
        value: Bytes,
    ) -> Cell {
        Cell { column, timestamp, ttl, local_deletion_time, path: Bytes::new(), value }
    }

    /// The same cell for one element of a multi-cell column.
    pub fn with_path(mut self, path: Bytes) -> Cell {
        self.path = path;
        self
    }

    /// Whether the cell has a TTL.
    #[inline]
    pub fn is_expiring(&self) -> bool {
        self.ttl != NO_TTL
    }

    /// Whether the cell is a tombstone (an expired cell is not one: ask [`Cell::is_live`]).
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.ttl == NO_TTL && self.local_deletion_time != NO_DELETION_TIME
    }

    /// Whether the cell has a value at `now_s` (seconds since the epoch).
    #[inline]
    pub fn is_live(&self, now_s: u32) -> bool {
        self.local_deletion_time == NO_DELETION_TIME
            || (self.is_expiring() && now_s < self.local_deletion_time)
    }
}
