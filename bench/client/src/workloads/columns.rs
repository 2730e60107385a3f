//! Tables `columns_10`, `columns_50`, `columns_100`: 100 rows of as many blobs of 100 KiB, in one partition.
//!
//! `column:COLUMNS:PLACE` reads one column of all rows, 10 MB, and leaves the others: the `first`, the
//! `middle` or the `last` one. With `:once` behind it the run ends with the first read.

use protocol::primitives::Value;
use protocol::response::rows::Rows;

use super::{KEYSPACE, Operation, Random, Share, Statement, Workload, mix, same, set};
use crate::error::Error;

/// How many columns the tables have.
const COLUMNS: [u64; 3] = [10, 50, 100];
const PARTITION: &[u8] = b"columns";
const ROWS: u64 = 100;
const VALUE_BYTES: usize = 100 << 10;
/// Columns of one INSERT, far below the largest mutation.
const AT_ONCE: u64 = 10;

/// The tables' CQL.
pub fn schemas() -> impl Iterator<Item = String> {
    COLUMNS.into_iter().map(|count| {
        let columns: Vec<String> = (0..count).map(|column| format!("c{column:02} blob")).collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {KEYSPACE}.columns_{count} (pk text, ck int, {}, PRIMARY KEY (pk, ck))",
            columns.join(", ")
        )
    })
}

fn known(columns: u64) -> Result<u64, Error> {
    match COLUMNS.contains(&columns) {
        true => Ok(columns),
        false => Err(Error::Usage(format!("{columns} columns: the tables have {COLUMNS:?}"))),
    }
}

fn value_of(row: u64, column: u64) -> Vec<u8> {
    let mut random = Random(mix(row << 32 | column));
    (0..VALUE_BYTES / 8).flat_map(|_| random.next().to_be_bytes()).collect()
}

fn name_of(row: u64) -> [u8; 4] {
    (row as u32).to_be_bytes()
}

/// Writes every row once, ten columns at a time.
#[derive(Debug)]
pub struct Load {
    columns: u64,
    next: u64,
    step: u64,
}

impl Load {
    /// A thread's part of the rows.
    pub fn new(columns: u64, share: Share) -> Result<Self, Error> {
        Ok(Self { columns: known(columns)?, next: share.index, step: share.of })
    }

    fn groups(&self) -> u64 {
        self.columns / AT_ONCE
    }
}

impl Workload for Load {
    fn statements(&self) -> Vec<Statement> {
        let markers = vec!["?"; AT_ONCE as usize + 2].join(", ");
        let of_group = |group: u64| {
            let columns: Vec<String> =
                (0..AT_ONCE).map(|column| format!("c{:02}", group * AT_ONCE + column)).collect();
            Statement::Write(format!(
                "INSERT INTO {KEYSPACE}.columns_{} (pk, ck, {}) VALUES ({markers})",
                self.columns,
                columns.join(", ")
            ))
        };
        (0..self.groups()).map(of_group).collect()
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let (row, group) = (self.next / self.groups(), self.next % self.groups());
        if row >= ROWS {
            return None;
        }
        self.next += self.step;
        values.extend([set(PARTITION), set(&name_of(row))]);
        values.extend((0..AT_ONCE).map(|column| set(&value_of(row, group * AT_ONCE + column))));
        Some(Operation { statement: group as usize, subject: row })
    }
}

/// Reads of one column of all rows.
#[derive(Debug)]
pub struct Reads {
    columns: u64,
    column: u64,
    /// How many reads are still to come.
    left: u64,
}

impl Reads {
    /// Reads of the table with so many columns, as many as are asked for, or one of the first thread.
    pub fn new(columns: u64, place: &str, is_once: bool, share: Share) -> Result<Self, Error> {
        let columns = known(columns)?;
        let column = match place {
            "first" => 0,
            "middle" => columns / 2,
            "last" => columns - 1,
            other => return Err(Error::Usage(format!("column {other:?}: first, middle or last"))),
        };
        let left = match is_once {
            true => u64::from(share.index == 0),
            false => u64::MAX,
        };
        Ok(Self { columns, column, left })
    }
}

impl Workload for Reads {
    fn statements(&self) -> Vec<Statement> {
        let Self { columns, column, .. } = self;
        let select = format!("SELECT c{column:02} FROM {KEYSPACE}.columns_{columns} WHERE pk = ?");
        vec![Statement::Whole(select, ROWS as u32)]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        self.left = self.left.checked_sub(1)?;
        values.push(set(PARTITION));
        Some(Operation { statement: 0, subject: self.column })
    }

    fn check(&self, operation: Operation, rows: &Rows) -> Result<(), String> {
        (0..ROWS).try_for_each(|row| same(rows.rows.get(row as usize), &[&value_of(row, operation.subject)]))
    }
}
