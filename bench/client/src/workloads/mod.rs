//! What is asked of the servers: one file for each table, its data and the operations on it.
//!
//! 1. [`tables`] names every table; `schema` is its CQL.
//! 2. A [`Workload`] lists its [`Statement`]s, which are prepared once, and then fills in one operation after
//!    the other. Loading a table is a workload that ends.
//! 3. Data are functions of row numbers, so nothing has to be remembered to check an answer.
//!
//! A new test is a new file here and a line in [`open`].

mod base;
mod columns;
mod counters;
mod inserts;
mod large;
mod locality;
mod options;
mod wide;

use protocol::primitives::Value;
use protocol::response::rows::Rows;

use crate::error::Error;

/// The keyspace of every table.
pub const KEYSPACE: &str = "bench";

/// How much data there is.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Partitions of table `base`, ten rows each.
    pub partitions: u64,
    /// Rows of the partition of table `wide` that is loaded or read; there may be others of other sizes
    /// beside it.
    pub wide_rows: u64,
    /// Rows of the one partition of the tables `large` and `plain`, 1 KiB each.
    pub large_rows: u64,
}

/// Which part of the operations a thread is to make.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// The thread's number.
    pub index: u64,
    /// The number of threads.
    pub of: u64,
    /// Where random choices start from.
    pub seed: u64,
}

/// One request that a workload can make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// OPTIONS: the least that a server can be asked.
    Options,
    /// An EXECUTE answered by VOID.
    Write(String),
    /// An EXECUTE answered by that many rows.
    Read(String, u32),
    /// The same, asked for without pages: answers may be of many megabytes.
    Whole(String, u32),
}

/// The next thing to ask; its values are beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Index of the statement.
    pub statement: usize,
    /// What [`Workload::check`] needs to know of it.
    pub subject: u64,
}

/// A stream of operations.
pub trait Workload: Send {
    /// What the operations are made of.
    fn statements(&self) -> Vec<Statement>;

    /// Appends the next operation's values to `values`, which is empty; `None` after the last one.
    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation>;

    /// Compares an answer's rows with the data.
    fn check(&self, operation: Operation, rows: &Rows) -> Result<(), String> {
        Err(format!("{operation:?} has no rows to compare with {rows:?}"))
    }
}

/// The CQL that makes the keyspace, with so many replicas of each row, and the tables.
pub fn tables(replicas: u32) -> Vec<String> {
    let keyspace = format!(
        "CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
    );
    let mut tables = vec![keyspace, base::schema(), wide::schema(), inserts::schema(), counters::schema()];
    tables.extend(large::schemas());
    tables.extend(columns::schemas());
    tables
}

/// What [`open`] knows. Words in capitals stand for a choice, which the workload's file explains.
pub const NAMES: &[&str] = &[
    "load-base",
    "load-wide",
    "load-large",
    "load-plain",
    "load-columns:COLUMNS",
    "options",
    "point-read",
    "wide-slice",
    "names:PLACE",
    "slice:PLACE",
    "row:TABLE",
    "rows:TABLE:COUNT:PLACE",
    "skip:TABLE:READ:SKIP",
    "skip:TABLE:READ:SKIP:once",
    "column:COLUMNS:PLACE",
    "column:COLUMNS:PLACE:once",
    "insert",
    "count",
    "mixed",
];

/// A thread's part of a workload.
pub fn open(name: &str, scale: Scale, share: Share) -> Result<Box<dyn Workload>, Error> {
    let unknown = || Error::Usage(format!("no workload {name:?}; there are {}", NAMES.join(", ")));
    let words: Vec<&str> = name.split(':').collect();
    Ok(match words.as_slice() {
        ["load-base"] => Box::new(base::Load::new(scale, share)),
        ["load-wide"] => Box::new(wide::Load::new(scale, share)),
        ["load-large"] => Box::new(large::Load::new(large::Table::Large, scale, share)),
        ["load-plain"] => Box::new(large::Load::new(large::Table::Plain, scale, share)),
        ["load-columns", columns] => {
            Box::new(columns::Load::new(columns.parse().map_err(|_| unknown())?, share)?)
        }
        ["options"] => Box::new(options::Options),
        ["point-read"] => Box::new(base::PointReads::new(scale, share)),
        ["wide-slice"] => Box::new(wide::Slices::new(scale, share)?),
        ["names", place] => Box::new(locality::Names::new(place, scale, share)?),
        ["slice", place] => Box::new(locality::Slice::new(place, scale)?),
        ["row", table] => {
            let table = large::Table::of(table).ok_or_else(unknown)?;
            Box::new(large::Slices::of_a_row(table, scale, share)?)
        }
        ["rows", table, count, place] => {
            let table = large::Table::of(table).ok_or_else(unknown)?;
            let count = count.parse().map_err(|_| unknown())?;
            Box::new(large::Slices::new(table, count, place, scale)?)
        }
        ["skip", table, read, skip, rest @ ..] if matches!(rest, [] | ["once"]) => {
            let table = large::Table::of(table).ok_or_else(unknown)?;
            let (read, skip) = (read.parse().map_err(|_| unknown())?, skip.parse().map_err(|_| unknown())?);
            Box::new(large::Slices::skipping(table, read, skip, !rest.is_empty(), scale)?)
        }
        ["column", columns, place, rest @ ..] if matches!(rest, [] | ["once"]) => {
            let columns = columns.parse().map_err(|_| unknown())?;
            Box::new(columns::Reads::new(columns, place, !rest.is_empty(), share)?)
        }
        ["insert"] => Box::new(inserts::Inserts::new(share)),
        ["count"] => Box::new(counters::Counts::new(scale, share)),
        ["mixed"] => Box::new(base::Mixed::new(scale, share)),
        _ => return Err(unknown()),
    })
}

/// SplitMix64: the sequence is fixed by its seed, and all that is asked of it is to spread.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn new(share: Share) -> Self {
        Self(mix(share.seed).wrapping_add(mix(share.index)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Uniform in `0..end`; the bias of the multiplication is below `end` in 2^64.
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// A bijection of 64-bit numbers that looks random.
fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// 16 characters that tell one number from every other.
fn text16(number: u64) -> [u8; 16] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|index| DIGITS[(number >> (60 - 4 * index) & 15) as usize])
}

/// A bound value.
fn set(bytes: &[u8]) -> Value {
    Value::Set(bytes::Bytes::copy_from_slice(bytes))
}

/// Compares a row's values with what they should be.
fn same(row: Option<&Vec<Option<bytes::Bytes>>>, expected: &[&[u8]]) -> Result<(), String> {
    let found: Vec<Option<&[u8]>> = row.into_iter().flatten().map(Option::as_deref).collect();
    let wanted: Vec<Option<&[u8]>> = expected.iter().copied().map(Some).collect();
    if found == wanted { Ok(()) } else { Err(format!("{found:?} in the place of {wanted:?}")) }
}

#[cfg(test)]
mod tests;
