//! A table held as it is at one moment, for who reads it in parts.
//!
//! 1. Memtables and SSTables of a held table stay, whatever is flushed, compacted, truncated or dropped
//!    meanwhile: all parts are read of the same sources, each row once. Its files go when it does.
//! 2. The memtable that took writes at that moment may take more until it is switched: a part that is read
//!    later may hold a write that an earlier one does not.
//! 3. Parts are ranges of tokens with about as many bytes each, by the indexes of the SSTables
//!    ([`HeldTable::splits`]).
//!
//! A partition that has more bytes than that can be cut, too ([`HeldTable::marks_in`]).
//!
//! SSTables of which no node runs are held in the same way ([`HeldTable::of_sstables`]).

mod large;

pub use large::LargePartition;

use super::{TableStore, TableView};
use crate::cache::RowCache;
use crate::commitlog::LogPosition;
use crate::memtable::Memtable;
use model::command::ReadCommand;
use model::key::{KeyBound, KeyRange};
use model::{TableSchema, Token};
use partition::{BoxedStream, ReadContext, ReadError};
use sstable::SsTable;
use std::sync::Arc;

/// A split may be wrong by this part of what it should hold.
const SLACK: u64 = 16;

/// A table as it was when it was held.
#[derive(Clone)]
pub struct HeldTable {
    table: Arc<TableStore>,
    view: Arc<TableView>,
}

impl TableStore {
    /// Holds the table as it is now.
    pub fn hold(self: &Arc<Self>) -> HeldTable {
        HeldTable { table: Arc::clone(self), view: self.view() }
    }
}

impl HeldTable {
    /// SSTables of a table that no node has open, as if one had nothing else of it.
    ///
    /// # Errors
    /// When an SSTable has columns that the table never had, or other clustering columns.
    pub fn of_sstables(table: Arc<TableSchema>, sstables: Vec<Arc<SsTable>>) -> Result<HeldTable, ReadError> {
        sstables.iter().try_for_each(|sstable| sstable.check_schema(&table))?;
        let memtable = Memtable::new(LogPosition::NONE, 0);
        let row_cache = Arc::new(RowCache::new(0));
        // No read leaves anything in a page cache that nobody has.
        let scan_bytes_max = 0;
        let store =
            TableStore::new(table, false, Vec::new(), memtable, (sstables, 0), scan_bytes_max, row_cache);
        Ok(Arc::new(store).hold())
    }

    /// The same without one of its SSTables: the others, and all that is in memory.
    #[must_use]
    pub fn without(&self, sstable: &Arc<SsTable>) -> HeldTable {
        let mut view = TableView::clone(&self.view);
        let others = view.sstables.iter().filter(|other| !Arc::ptr_eq(other, sstable));
        view.sstables = Arc::new(others.cloned().collect());
        // Both may stand for what the SSTable says.
        view.early.clear();
        view.cached_rows = None;
        HeldTable { table: Arc::clone(&self.table), view: Arc::new(view) }
    }

    /// The definition of the table as it is now.
    pub fn schema(&self) -> Arc<TableSchema> {
        self.table.schema()
    }

    /// The SSTables that are held, newest first.
    pub fn sstables(&self) -> &[Arc<SsTable>] {
        &self.view.sstables
    }

    /// Whether the table was dropped meanwhile.
    pub fn is_dropped(&self) -> bool {
        self.table.is_dropped()
    }

    /// About how many bytes the SSTables have in a range, before compression.
    ///
    /// # Errors
    /// When an index cannot be read.
    pub fn bytes_in(&self, range: &KeyRange, ctx: &ReadContext) -> Result<u64, ReadError> {
        let end_of = |bound: &KeyBound| match token_of(bound) {
            Some(token) => self.bytes_before(Token(token), ctx).map(Some),
            None => Ok(None),
        };
        let start = end_of(&range.start)?.unwrap_or(0);
        Ok(end_of(&range.end)?.unwrap_or_else(|| self.data_bytes()).saturating_sub(start))
    }

    /// [`TableStore::read`], of what is held. Long work does not rest for it: it is long work itself.
    ///
    /// # Errors
    /// When a source cannot be opened.
    pub fn read(&self, command: &ReadCommand, ctx: &ReadContext) -> Result<BoxedStream, ReadError> {
        self.table.read_view(&self.view, command, ctx)
    }

    /// Bytes of the SSTables of it, before compression.
    pub fn data_bytes(&self) -> u64 {
        self.view.sstables.iter().map(|sstable| sstable.data_bytes()).sum()
    }

    /// Rows of the SSTables of it: a row counts in each that has it.
    pub fn stored_rows(&self) -> u64 {
        let of = |sstable: &Arc<SsTable>| u64::try_from(sstable.stats().total_rows).unwrap_or(0);
        self.view.sstables.iter().map(of).sum()
    }

    /// How many rows a read of everything would find, where that is known without one: nothing is in memory,
    /// no two SSTables share a partition, nothing in them is deleted, expires or was dropped, and none was
    /// cut off. The end of each is read.
    pub fn known_rows(&self) -> Option<u64> {
        let (view, schema) = (&self.view, self.table.schema());
        let in_memory = !view.memtable.is_empty() || !view.flushing.is_empty() || view.settling.is_some();
        let may_lose_rows = !schema.dropped.is_empty() || schema.has_strict_liveness;
        if in_memory || view.damage.is_some() || may_lose_rows {
            return None;
        }
        let mut sstables: Vec<&Arc<SsTable>> = view.sstables.iter().collect();
        sstables.sort_by(|a, b| a.first_key().cmp(b.first_key()));
        let do_overlap = sstables.windows(2).any(|pair| match pair {
            [one, next] => one.last_key() >= next.first_key(),
            _ => false,
        });
        // Static rows count as rows there.
        let is_plain = |sstable: &Arc<SsTable>| {
            let is_plain =
                !sstable.stats().may_have_tombstones() && sstable.header().static_columns.is_empty();
            is_plain && sstable.ends_soundly()
        };
        if do_overlap || !sstables.iter().all(|sstable| is_plain(sstable)) {
            return None;
        }
        sstables.iter().map(|sstable| u64::try_from(sstable.stats().total_rows).ok()).sum()
    }

    /// At most `parts` ranges that together are `range`, in ring order, with about as many bytes of SSTables
    /// each. There are fewer where few partitions hold most of the bytes.
    ///
    /// # Errors
    /// When an index cannot be read.
    pub fn splits(
        &self,
        range: &KeyRange,
        parts: u64,
        ctx: &ReadContext,
    ) -> Result<Vec<KeyRange>, ReadError> {
        let inside = self.view.sstables.iter().filter(|sstable| sstable.overlaps(range));
        let (mut low, mut high, mut bytes_max) = (i64::MAX, i64::MIN, 0);
        for sstable in inside {
            low = low.min(sstable.first_key().token.0);
            high = high.max(sstable.last_key().token.0);
            bytes_max += sstable.data_bytes();
        }
        let bytes_before = |token: i64| self.bytes_before(Token(token), ctx);
        let (mut low, high) = match (&range.start, &range.end) {
            _ if low > high => return Ok(vec![range.clone()]),
            (start, end) => {
                (token_of(start).map_or(low, |t| t.max(low)), token_of(end).map_or(high, |t| t.min(high)))
            }
        };
        let first = match range.start {
            KeyBound::Unbounded => 0,
            _ => bytes_before(low)?,
        };
        let last = match range.end {
            KeyBound::Unbounded => bytes_max.max(first),
            _ => bytes_before(high)?.max(first),
        };
        let (mut out, mut start) = (Vec::new(), range.start.clone());
        for part in 1..parts.max(1) {
            let share = (last - first) / parts;
            let wanted = first + share * part;
            // The token before which there are as many bytes as wanted.
            let (mut below, mut above) = (low, high);
            let split = loop {
                let middle = below.wrapping_add_unsigned(above.abs_diff(below) / 2);
                let bytes = bytes_before(middle)?;
                if middle == below || bytes.abs_diff(wanted) <= share / SLACK {
                    break middle;
                }
                if bytes < wanted { below = middle } else { above = middle }
            };
            if split > low && split < high {
                let token = Token(split);
                out.push(KeyRange { start, end: KeyBound::Token { token, inclusive: true } });
                start = KeyBound::Token { token, inclusive: false };
                low = split;
            }
        }
        out.push(KeyRange { start, end: range.end.clone() });
        Ok(out)
    }

    /// Bytes of partitions with tokens up to this one.
    fn bytes_before(&self, token: Token, ctx: &ReadContext) -> Result<u64, ReadError> {
        let behind =
            KeyRange { start: KeyBound::Token { token, inclusive: false }, end: KeyBound::Unbounded };
        let schema = self.table.schema();
        let mut bytes = 0;
        for sstable in self.view.sstables.iter() {
            let position = sstable.position_of(&behind, &schema, ctx)?;
            bytes += position.unwrap_or_else(|| sstable.data_bytes());
        }
        Ok(bytes)
    }
}

fn token_of(bound: &KeyBound) -> Option<i64> {
    match bound {
        KeyBound::Unbounded => None,
        KeyBound::Token { token, .. } => Some(token.0),
        KeyBound::Key { key, .. } => Some(key.token.0),
    }
}
