//! The version of the schema: a digest of its rows that all nodes compute alike
//! (docs/formats/schema-tables.md).
//!
//! ```text
//! version   := uuid v3 of MD5( MD5( partition* ) )      tables in a fixed order, partitions in token order,
//!                                                       without `system` and `system_schema`
//! partition := key | names of the regular columns | 01 | empty static row | row*
//! empty static row := 00 03 | i64::MIN | 01 | i64::MIN
//! row  := 00 | clustering values | 04 | i64::MIN | 01 | i64 liveness | cell*
//! cell := value | i64 timestamp | i32 ttl (0) | 01
//! ```
//! Deleted rows and cells do not count; no column of the schema's tables is multi-cell, none has a TTL.

use md5::{Digest, Md5};
use model::{Component, Row, TableSchema};
use uuid::Uuid;

/// Takes the rows in their order and yields the version.
#[derive(Default)]
pub struct VersionDigest {
    hash: Md5,
    /// Whether the current partition counts, and whether its head was digested.
    partition: Option<(Vec<u8>, bool)>,
}

impl VersionDigest {
    /// The rows that follow are of this partition.
    pub fn start_partition(&mut self, key: &[u8]) {
        let counts = key != b"system" && key != b"system_schema";
        self.partition = counts.then(|| (key.to_vec(), false));
    }

    /// Adds a row from which everything dead has been removed by the merge; a row without live content is
    /// left out.
    pub fn add_row(&mut self, table: &TableSchema, row: &Row, now_s: u32) {
        let Some((key, begun)) = &mut self.partition else { return };
        if !row.is_live(now_s) {
            return;
        }
        if !*begun {
            *begun = true;
            self.hash.update(key);
            for column in table.regular_columns() {
                self.hash.update(column.name.as_bytes());
            }
            self.hash.update([1]);
            self.hash.update([0, 3]);
            self.hash.update(i64::MIN.to_be_bytes());
            self.hash.update([1]);
            self.hash.update(i64::MIN.to_be_bytes());
        }
        self.hash.update([0]);
        for component in row.clustering.iter() {
            if let Component::Value(value) = component {
                self.hash.update(value);
            }
        }
        self.hash.update([4]);
        self.hash.update(i64::MIN.to_be_bytes());
        self.hash.update([1]);
        self.hash.update(row.liveness.timestamp.to_be_bytes());
        for column in table.regular_columns() {
            for cell in row.cells_of(column.id).iter().filter(|c| c.is_live(now_s)) {
                self.hash.update(&cell.value);
                self.hash.update(cell.timestamp.to_be_bytes());
                self.hash.update(cell.ttl.to_be_bytes());
                self.hash.update([1]);
            }
        }
    }

    /// The version.
    pub fn finish(self) -> Uuid {
        let inner: [u8; 16] = self.hash.finalize().into();
        let outer: [u8; 16] = Md5::digest(inner).into();
        uuid::Builder::from_md5_bytes(outer).into_uuid()
    }
}
