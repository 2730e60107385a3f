//! Table `wide`: partitions of many rows, names of 10 characters in order and values of 25.
//!
//! A partition's key is its number of rows, so partitions of several sizes stand beside each other. A slice
//! names the row it starts at, all of them equally likely, and takes 100 rows.

use protocol::primitives::Value;
use protocol::response::rows::Rows;

use super::{KEYSPACE, Operation, Random, Scale, Share, Statement, Workload, mix, same, set, text16};
use crate::error::Error;

/// Rows of a slice.
pub(super) const SLICE_ROWS: u64 = 100;

/// The table's CQL.
pub fn schema() -> String {
    format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.wide (pk text, ck text, v text, PRIMARY KEY (pk, ck))")
}

/// The key of the partition with that many rows.
pub(super) fn key_of(rows: u64) -> String {
    rows.to_string()
}

/// The clustering of a row.
pub(super) fn name_of(row: u64) -> String {
    format!("{row:010}")
}

/// The value of a row.
pub(super) fn value_of(row: u64) -> [u8; 25] {
    let mut value = [0; 25];
    value[..16].copy_from_slice(&text16(mix(row)));
    value[16..].copy_from_slice(&text16(mix(!row))[..9]);
    value
}

/// Writes every row once.
#[derive(Debug)]
pub struct Load {
    next: u64,
    step: u64,
    end: u64,
}

impl Load {
    /// A thread's part of the rows.
    pub fn new(scale: Scale, share: Share) -> Self {
        Self { next: share.index, step: share.of, end: scale.wide_rows }
    }
}

impl Workload for Load {
    fn statements(&self) -> Vec<Statement> {
        vec![Statement::Write(format!("INSERT INTO {KEYSPACE}.wide (pk, ck, v) VALUES (?, ?, ?)"))]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let row = self.next;
        if row >= self.end {
            return None;
        }
        self.next += self.step;
        let key = key_of(self.end);
        values.extend([set(key.as_bytes()), set(name_of(row).as_bytes()), set(&value_of(row))]);
        Some(Operation { statement: 0, subject: row })
    }
}

/// Slices of 100 rows.
#[derive(Debug)]
pub struct Slices {
    key: String,
    starts: u64,
    random: Random,
}

impl Slices {
    /// Slices of the partition that [`Load`] wrote.
    pub fn new(scale: Scale, share: Share) -> Result<Self, Error> {
        let starts = (scale.wide_rows + 1).saturating_sub(SLICE_ROWS);
        if starts == 0 {
            return Err(Error::Usage(format!("a slice takes {SLICE_ROWS} rows, the partition has fewer")));
        }
        Ok(Self { key: key_of(scale.wide_rows), starts, random: Random::new(share) })
    }
}

impl Workload for Slices {
    fn statements(&self) -> Vec<Statement> {
        let select = format!("SELECT ck, v FROM {KEYSPACE}.wide WHERE pk = ? AND ck >= ? LIMIT {SLICE_ROWS}");
        vec![Statement::Read(select, SLICE_ROWS as u32)]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let row = self.random.below(self.starts);
        values.extend([set(self.key.as_bytes()), set(name_of(row).as_bytes())]);
        Some(Operation { statement: 0, subject: row })
    }

    fn check(&self, operation: Operation, rows: &Rows) -> Result<(), String> {
        same_rows(operation.subject..operation.subject + SLICE_ROWS, rows)
    }
}

/// Compares an answer with the rows of these numbers.
pub(super) fn same_rows(numbers: impl IntoIterator<Item = u64>, rows: &Rows) -> Result<(), String> {
    numbers
        .into_iter()
        .zip(0..)
        .try_for_each(|(row, at)| same(rows.rows.get(at), &[name_of(row).as_bytes(), &value_of(row)]))
}
