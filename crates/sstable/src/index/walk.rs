//! A walk over the partitions of an index, whatever its layout.

use super::{RowIndex, rows_of};
use crate::big::index::IndexWalk;
use crate::bti::partitions::PartitionWalk;
use crate::descriptor::{Component, Descriptor};
use crate::error::file_name;
use crate::pages::{Cursor, FileId, FilePart, PageLayout, PagedFile, Uncached};
use bytes::Bytes;
use env::fs::FileSystem;
use model::PartitionKey;
use partition::codec::Layout;
use partition::{ReadContext, ReadError};
use std::sync::Arc;

/// Partitions in order, for scans.
#[derive(Debug)]
pub(crate) enum Walk {
    Big(Box<IndexWalk>),
    Bti(Box<PartitionWalk>),
}

impl Walk {
    /// Goes behind the partition that starts at `position` in the data, which must not lie before the next
    /// one.
    pub fn pass(&mut self, position: u64) -> Result<(), ReadError> {
        match self {
            Walk::Big(walk) => walk.advance_to(position).map(drop),
            Walk::Bti(walk) => walk.advance_to(position).map(drop),
        }
    }

    /// As [`Walk::pass`]; yields the index of the partition's rows, if it has one.
    pub fn rows(&mut self, layout: &Layout, position: u64) -> Result<Option<RowIndex>, ReadError> {
        match self {
            Walk::Bti(walk) => Ok(rows_of(&walk.advance_to(position)?, walk.rows.clone(), layout)),
            Walk::Big(walk) => {
                let entry = walk.advance_to(position)?;
                Ok(entry.promoted(Box::new(walk.cursor.clone()), layout.deletion_times())?.map(RowIndex::Big))
            }
        }
    }

    /// As [`Walk::rows`]; also the key, if the index has it whole.
    pub fn partition(
        &mut self,
        layout: &Layout,
        position: u64,
    ) -> Result<(Option<PartitionKey>, Option<RowIndex>), ReadError> {
        match self {
            Walk::Big(walk) => {
                let entry = walk.advance_to(position)?;
                let rows = entry
                    .promoted(Box::new(walk.cursor.clone()), layout.deletion_times())?
                    .map(RowIndex::Big);
                Ok((Some(PartitionKey(entry.key)), rows))
            }
            Walk::Bti(walk) => {
                let located = walk.advance_to(position)?;
                let rows = rows_of(&located, walk.rows.clone(), layout);
                Ok((located.rows.map(|entry| PartitionKey(entry.key)), rows))
            }
        }
    }

    /// A walk over an index without the components that belong to it; `None` when the layout has no such
    /// thing, or the file cannot be opened.
    pub fn of_file(fs: &dyn FileSystem, descriptor: &Descriptor) -> Option<Walk> {
        if descriptor.version.format() != "big" {
            return None;
        }
        let path = descriptor.path(Component::Index);
        let id = FileId { sstable: 0, part: FilePart::Index };
        let file = PagedFile::new(id, file_name(&path), fs.open_read(&path).ok()?, PageLayout::Plain);
        let cursor = Cursor::new(Arc::new(file), Arc::new(Uncached), ReadContext::default());
        Some(Walk::Big(Box::new(IndexWalk::new(cursor, 0))))
    }

    /// Where the next partition starts; `None` at the end. It stays the next.
    pub fn next_position(&mut self) -> Result<Option<u64>, ReadError> {
        match self {
            Walk::Big(walk) => Ok(walk.peek()?.map(|(position, _)| position)),
            Walk::Bti(walk) => walk.peek_position(),
        }
    }

    /// Where the first partition behind `position` starts; `None` at the end. It is the next then.
    pub fn next_behind(&mut self, position: u64) -> Result<Option<u64>, ReadError> {
        loop {
            match self.next_position()? {
                Some(next) if next <= position => self.pass(next)?,
                next => return Ok(next),
            }
        }
    }

    /// Where the next partition starts according to the index, and its key, if that is to be relied on;
    /// `None` at the end. It stays the next.
    pub fn peek(&mut self) -> Option<Result<Option<(u64, Bytes)>, ReadError>> {
        match self {
            Walk::Big(walk) => Some(walk.peek()),
            Walk::Bti(_) => None,
        }
    }
}
