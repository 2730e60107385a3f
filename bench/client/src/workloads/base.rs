//! Table `base`: ten rows in each of many partitions; keys and values of 16 characters.
//!
//! Partition p has the key text16(mix(p)); its row r, which is row number n = 10 p + r of the table, has the
//! clustering text16(mix(!n)) and the value text16(mix(n)). Reads name a whole primary key, all of them
//! equally likely.

use protocol::primitives::Value;
use protocol::response::rows::Rows;

use super::{KEYSPACE, Operation, Random, Scale, Share, Statement, Workload, mix, same, set, text16};

const ROWS_IN_PARTITION: u64 = 10;

/// The table's CQL.
pub fn schema() -> String {
    format!("CREATE TABLE IF NOT EXISTS {KEYSPACE}.base (pk text, ck text, v text, PRIMARY KEY (pk, ck))")
}

fn insert() -> Statement {
    Statement::Write(format!("INSERT INTO {KEYSPACE}.base (pk, ck, v) VALUES (?, ?, ?)"))
}

fn select() -> Statement {
    Statement::Read(format!("SELECT v FROM {KEYSPACE}.base WHERE pk = ? AND ck = ?"), 1)
}

fn push_key(row: u64, values: &mut Vec<Value>) {
    values.push(set(&text16(mix(row / ROWS_IN_PARTITION))));
    values.push(set(&text16(mix(!row))));
}

fn value_of(row: u64) -> [u8; 16] {
    text16(mix(row))
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
        Self { next: share.index, step: share.of, end: scale.partitions * ROWS_IN_PARTITION }
    }
}

impl Workload for Load {
    fn statements(&self) -> Vec<Statement> {
        vec![insert()]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let row = self.next;
        if row >= self.end {
            return None;
        }
        self.next += self.step;
        push_key(row, values);
        values.push(set(&value_of(row)));
        Some(Operation { statement: 0, subject: row })
    }
}

/// Reads of one row by its whole primary key.
#[derive(Debug)]
pub struct PointReads {
    rows: u64,
    random: Random,
}

impl PointReads {
    /// Reads of any row.
    pub fn new(scale: Scale, share: Share) -> Self {
        Self { rows: scale.partitions * ROWS_IN_PARTITION, random: Random::new(share) }
    }
}

impl Workload for PointReads {
    fn statements(&self) -> Vec<Statement> {
        vec![select()]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let row = self.random.below(self.rows);
        push_key(row, values);
        Some(Operation { statement: 0, subject: row })
    }

    fn check(&self, operation: Operation, rows: &Rows) -> Result<(), String> {
        same(rows.rows.first(), &[&value_of(operation.subject)])
    }
}

/// One half point reads, one half inserts over existing rows, with the values they have.
#[derive(Debug)]
pub struct Mixed {
    reads: PointReads,
}

impl Mixed {
    /// Reads and writes of any row.
    pub fn new(scale: Scale, share: Share) -> Self {
        Self { reads: PointReads::new(scale, share) }
    }
}

impl Workload for Mixed {
    fn statements(&self) -> Vec<Statement> {
        vec![select(), insert()]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let mut operation = self.reads.next(values)?;
        if self.reads.random.below(2) == 1 {
            operation.statement = 1;
            values.push(set(&value_of(operation.subject)));
        }
        Some(operation)
    }

    fn check(&self, operation: Operation, rows: &Rows) -> Result<(), String> {
        self.reads.check(operation, rows)
    }
}
