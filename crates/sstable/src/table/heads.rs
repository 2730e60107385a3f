//! Partitions by the index alone, for who goes on behind damaged data.
//!
//! A scan compares what the index says with the data on both sides of where it begins. Where that is damaged
//! the index is all there is: it says where partitions start, and in the `big` layout what their keys are.

use super::SsTable;
use crate::index::Walk;
use crate::pages::Cursor;
use model::key::{KeyBound, KeyRange};
use model::{DecoratedKey, PartitionKey, TableSchema};
use partition::codec::Input;
use partition::{ReadContext, ReadError};
use std::sync::Arc;

/// A partition as the index has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Where it starts in Data.db, before compression.
    pub position: u64,
    /// Its key; `None` where only the data has it and cannot be read.
    pub key: Option<DecoratedKey>,
    /// Whether the key stands in the data where the index has the partition.
    pub is_sound: bool,
}

/// Partitions in order, some of them before the place where the walk begins.
#[derive(Debug)]
pub struct Heads {
    walk: Walk,
    data: Cursor,
    last: Option<u64>,
}

impl SsTable {
    /// Partitions from a bound on. There may be one that lies before it.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn heads_from(
        self: &Arc<Self>,
        start: &KeyBound,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<Heads, ReadError> {
        self.check_standing(table, context)?;
        self.layout(table)?;
        let range = KeyRange { start: start.clone(), end: KeyBound::Unbounded };
        let walk = self.index.walk_unproven(&range, context)?;
        let mut heads = Heads { walk, data: self.data_cursor(context), last: None };
        // Entries of a stretch of the index that lie before the bound.
        while let Some(Ok(Some((position, key)))) = heads.walk.peek()
            && range.is_before_start(&DecoratedKey::new(PartitionKey(key)))
        {
            heads.walk.pass(position)?;
        }
        Ok(heads)
    }
}

impl Heads {
    /// The next one; `None` behind the last.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn next_head(&mut self) -> Result<Option<Head>, ReadError> {
        let Some(position) = self.walk.next_position()? else { return Ok(None) };
        if self.last.is_some_and(|last| last >= position) {
            return Err(self.data.malformed(format!("the index goes back to {position}")));
        }
        self.last = Some(position);
        let by_index = match self.walk.peek() {
            Some(entry) => entry?.map(|(_, key)| key),
            None => None,
        };
        self.walk.pass(position)?;
        let by_data = self.key_at(position).ok();
        let is_sound = by_data.is_some() && (by_index.is_none() || by_index == by_data);
        let key = by_index.or(by_data).map(|key| DecoratedKey::new(PartitionKey(key)));
        Ok(Some(Head { position, key, is_sound }))
    }

    fn key_at(&self, position: u64) -> Result<bytes::Bytes, ReadError> {
        let mut data = self.data.clone();
        data.seek(position);
        let len = u64::from(data.u16()?);
        data.with_slice(len, bytes::Bytes::copy_from_slice)
    }
}
