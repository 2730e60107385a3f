//! Tables `large` and `plain`: one partition of many rows of 1 KiB, to be larger than the caches. `large` is
//! compressed as tables are by default (its values do not shrink), `plain` is not compressed.
//!
//! * `row:TABLE`: one row, all of them equally likely.
//! * `rows:TABLE:COUNT:PLACE`: COUNT rows in a row from the `start`, from the `middle`, or `before-middle`:
//!   backwards from the middle.
//! * `skip:TABLE:READ:SKIP`: a walk through the partition in steps: READ rows are read, SKIP are passed over,
//!   and from the end it goes on at the start. With `:once` behind it the walk ends there, and no row is read
//!   twice.

use protocol::primitives::Value;
use protocol::response::rows::Rows;

use super::{KEYSPACE, Operation, Random, Scale, Share, Statement, Workload, mix, same, set};
use crate::error::Error;

const PARTITION: &[u8] = b"large";
const VALUE_BYTES: usize = 1_024;

/// Which of the two tables.
#[derive(Debug, Clone, Copy)]
pub enum Table {
    /// Compressed.
    Large,
    /// Not compressed.
    Plain,
}

impl Table {
    /// A table by its name.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "large" => Some(Self::Large),
            "plain" => Some(Self::Plain),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Plain => "plain",
        }
    }
}

/// The tables' CQL.
pub fn schemas() -> [String; 2] {
    let table = |table: Table, options: &str| {
        let name = table.name();
        format!(
            "CREATE TABLE IF NOT EXISTS {KEYSPACE}.{name} (pk text, ck bigint, v blob, PRIMARY KEY (pk, ck)){options}"
        )
    };
    [table(Table::Large, ""), table(Table::Plain, " WITH compression = {'enabled': false}")]
}

fn name_of(row: u64) -> [u8; 8] {
    row.to_be_bytes()
}

fn value_of(row: u64) -> [u8; VALUE_BYTES] {
    let mut random = Random(mix(row));
    let mut value = [0; VALUE_BYTES];
    for word in value.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_be_bytes());
    }
    value
}

/// Writes every row once.
#[derive(Debug)]
pub struct Load {
    table: Table,
    next: u64,
    step: u64,
    end: u64,
}

impl Load {
    /// A thread's part of the rows.
    pub fn new(table: Table, scale: Scale, share: Share) -> Self {
        Self { table, next: share.index, step: share.of, end: scale.large_rows }
    }
}

impl Workload for Load {
    fn statements(&self) -> Vec<Statement> {
        let table = self.table.name();
        vec![Statement::Write(format!("INSERT INTO {KEYSPACE}.{table} (pk, ck, v) VALUES (?, ?, ?)"))]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let row = self.next;
        if row >= self.end {
            return None;
        }
        self.next += self.step;
        values.extend([set(PARTITION), set(&name_of(row)), set(&value_of(row))]);
        Some(Operation { statement: 0, subject: row })
    }
}

#[derive(Debug)]
enum Next {
    /// Any row.
    Random { rows: u64, random: Random },
    /// The same again.
    Same(u64),
    /// So many rows on; when fewer than a step are left, from the start again or no further.
    Step { at: u64, step: u64, rows: u64, is_once: bool },
}

/// Reads of one or more rows in a row.
#[derive(Debug)]
pub struct Slices {
    table: Table,
    count: u64,
    next: Next,
    is_reversed: bool,
}

impl Slices {
    /// Reads of any one row.
    pub fn of_a_row(table: Table, scale: Scale, share: Share) -> Result<Self, Error> {
        let next = Next::Random { rows: scale.large_rows, random: Random::new(share) };
        Self::checked(table, 1, next, scale, 1)
    }

    /// Reads of the same `count` rows.
    pub fn new(table: Table, count: u64, place: &str, scale: Scale) -> Result<Self, Error> {
        let middle = scale.large_rows / 2;
        let (from, is_reversed) = match place {
            "start" => (0, false),
            "middle" => (middle, false),
            "before-middle" => (middle, true),
            other => {
                return Err(Error::Usage(format!("rows at {other:?}: start, middle or before-middle")));
            }
        };
        let slices = Self::checked(table, count, Next::Same(from), scale, 2 * count)?;
        Ok(Self { is_reversed, ..slices })
    }

    /// A walk that reads `count` rows and skips `skip`.
    pub fn skipping(table: Table, count: u64, skip: u64, is_once: bool, scale: Scale) -> Result<Self, Error> {
        let next = Next::Step { at: 0, step: count + skip, rows: scale.large_rows, is_once };
        Self::checked(table, count, next, scale, count + skip)
    }

    fn checked(table: Table, count: u64, next: Next, scale: Scale, rows_min: u64) -> Result<Self, Error> {
        if count == 0 || scale.large_rows < rows_min {
            return Err(Error::Usage(format!("{} rows are too few for this", scale.large_rows)));
        }
        Ok(Self { table, count, next, is_reversed: false })
    }
}

impl Workload for Slices {
    fn statements(&self) -> Vec<Statement> {
        let (table, count) = (self.table.name(), self.count);
        let rows = match (&self.next, self.is_reversed) {
            (Next::Random { .. }, _) => "ck = ?".to_owned(),
            (_, false) => format!("ck >= ? LIMIT {count}"),
            (_, true) => format!("ck < ? ORDER BY ck DESC LIMIT {count}"),
        };
        let select = format!("SELECT v FROM {KEYSPACE}.{table} WHERE pk = ? AND {rows}");
        vec![Statement::Whole(select, count as u32)]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let row = match &mut self.next {
            Next::Random { rows, random } => random.below(*rows),
            Next::Same(row) => *row,
            Next::Step { at, step, rows, is_once } => {
                if *at + *step > *rows {
                    if *is_once {
                        return None;
                    }
                    *at = 0;
                }
                let row = *at;
                *at += *step;
                row
            }
        };
        values.extend([set(PARTITION), set(&name_of(row))]);
        Some(Operation { statement: 0, subject: row })
    }

    fn check(&self, operation: Operation, rows: &Rows) -> Result<(), String> {
        let from = operation.subject;
        (0..self.count).try_for_each(|at| {
            let row = if self.is_reversed { from - 1 - at } else { from + at };
            same(rows.rows.get(at as usize), &[&value_of(row)])
        })
    }
}
