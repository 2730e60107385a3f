//! Reads of table `wide` whose cost, in Cassandra before it was mended, grew with the partition: where a read
//! starts and how near to each other its rows lie.
//!
//! `names:PLACE` asks for 100 rows by name (all rows of a smaller partition):
//!
//! | PLACE | rows |
//! |---|---|
//! | `start`, `end` | the first, the last |
//! | `blocks-50` | two neighbours in each of 50 random blocks of the partition |
//! | `blocks-100` | one in each of 100 random blocks |
//!
//! `slice:PLACE` asks for 100 rows in a row: `none` names no start, `first` the first row, `second-block` the
//! first one of the second block, `half` the one half way, `last-block` one in the last block, `reversed`
//! reads from the end.
//!
//! A block is what Cassandra's row index tells apart by default, 64 KiB: about 1,400 of these rows. A
//! partition with fewer blocks than asked for is cut into that many parts instead.

use bytes::{BufMut, Bytes, BytesMut};
use protocol::primitives::Value;
use protocol::response::rows::Rows;

use super::wide::{SLICE_ROWS, key_of, name_of, same_rows};
use super::{KEYSPACE, Operation, Random, Scale, Share, Statement, Workload, set};
use crate::error::Error;

/// Rows that fill 64 KiB of Data.db.
const BLOCK_ROWS: u64 = 1_400;
/// Rows that are asked for by name.
const NAMES: u64 = 100;

#[derive(Debug, Clone, Copy)]
enum Near {
    Start,
    End,
    /// As many blocks, the names spread evenly over them.
    Blocks(u64),
}

/// Reads by names.
#[derive(Debug)]
pub struct Names {
    rows: u64,
    near: Near,
    random: Random,
}

impl Names {
    /// Names of the partition of `scale.wide_rows` rows.
    pub fn new(place: &str, scale: Scale, share: Share) -> Result<Self, Error> {
        let near = match place {
            "start" => Near::Start,
            "end" => Near::End,
            "blocks-50" => Near::Blocks(50),
            "blocks-100" => Near::Blocks(100),
            other => {
                return Err(Error::Usage(format!("names at {other:?}: start, end, blocks-50 or blocks-100")));
            }
        };
        if scale.wide_rows < NAMES {
            return Err(Error::Usage(format!("{NAMES} names, the partition has fewer rows")));
        }
        Ok(Self { rows: scale.wide_rows, near, random: Random::new(share) })
    }

    /// The rows that an operation names, in order; `seed` decides what is random about it.
    fn numbers(&self, seed: u64) -> Vec<u64> {
        match self.near {
            Near::Start => (0..NAMES).collect(),
            Near::End => (self.rows - NAMES..self.rows).collect(),
            Near::Blocks(wanted) => {
                let mut random = Random(seed);
                // Parts of the partition, of which each has at least one whole block, if there are so many.
                let blocks = (self.rows / BLOCK_ROWS).max(wanted);
                let each = NAMES / wanted;
                let mut numbers = Vec::with_capacity(NAMES as usize);
                for part in 0..wanted {
                    let of_part = |part: u64| blocks * part / wanted;
                    let block = of_part(part) + random.below(of_part(part + 1) - of_part(part));
                    let first = self.rows * block / blocks;
                    let len = self.rows * (block + 1) / blocks - first;
                    let at = first + random.below(len - each + 1);
                    numbers.extend(at..at + each);
                }
                numbers
            }
        }
    }
}

impl Workload for Names {
    fn statements(&self) -> Vec<Statement> {
        let select = format!("SELECT ck, v FROM {KEYSPACE}.wide WHERE pk = ? AND ck IN ?");
        vec![Statement::Read(select, NAMES as u32)]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        let seed = self.random.next();
        values.push(set(key_of(self.rows).as_bytes()));
        values.push(Value::Set(list(self.numbers(seed).into_iter().map(name_of))));
        Some(Operation { statement: 0, subject: seed })
    }

    fn check(&self, operation: Operation, rows: &Rows) -> Result<(), String> {
        same_rows(self.numbers(operation.subject), rows)
    }
}

/// A list of texts as the native protocol has it.
fn list(items: impl ExactSizeIterator<Item = String>) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u32(items.len() as u32);
    for item in items {
        out.put_u32(item.len() as u32);
        out.put_slice(item.as_bytes());
    }
    out.freeze()
}

/// One slice, again and again.
#[derive(Debug)]
pub struct Slice {
    rows: u64,
    /// Number of the row it starts at; `None` where no start is named.
    start: Option<u64>,
    is_reversed: bool,
}

impl Slice {
    /// A slice of the partition of `scale.wide_rows` rows.
    pub fn new(place: &str, scale: Scale) -> Result<Self, Error> {
        let rows = scale.wide_rows;
        let Some(last) = rows.checked_sub(SLICE_ROWS) else {
            return Err(Error::Usage(format!("a slice takes {SLICE_ROWS} rows, the partition has fewer")));
        };
        let start = match place {
            "none" | "reversed" => None,
            "first" => Some(0),
            "second-block" => Some(BLOCK_ROWS.min(last)),
            "half" => Some((rows / 2).min(last)),
            "last-block" => Some((rows - BLOCK_ROWS.min(rows)).max(rows / BLOCK_ROWS * BLOCK_ROWS).min(last)),
            other => {
                return Err(Error::Usage(format!(
                    "a slice at {other:?}: none, first, second-block, half, last-block or reversed"
                )));
            }
        };
        Ok(Self { rows, start, is_reversed: place == "reversed" })
    }
}

impl Workload for Slice {
    fn statements(&self) -> Vec<Statement> {
        let from = if self.start.is_some() { " AND ck >= ?" } else { "" };
        let order = if self.is_reversed { " ORDER BY ck DESC" } else { "" };
        let select =
            format!("SELECT ck, v FROM {KEYSPACE}.wide WHERE pk = ?{from}{order} LIMIT {SLICE_ROWS}");
        vec![Statement::Read(select, SLICE_ROWS as u32)]
    }

    fn next(&mut self, values: &mut Vec<Value>) -> Option<Operation> {
        values.push(set(key_of(self.rows).as_bytes()));
        values.extend(self.start.map(|row| set(name_of(row).as_bytes())));
        Some(Operation { statement: 0, subject: self.start.unwrap_or(0) })
    }

    fn check(&self, operation: Operation, rows: &Rows) -> Result<(), String> {
        if self.is_reversed {
            return same_rows((self.rows - SLICE_ROWS..self.rows).rev(), rows);
        }
        same_rows(operation.subject..operation.subject + SLICE_ROWS, rows)
    }
}
