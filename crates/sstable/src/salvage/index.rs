//! What the index of a damaged SSTable still tells.

use crate::descriptor::Descriptor;
use crate::index::{RowIndex, Walk};
use crate::pages::Uncached;
use crate::table::SsTable;
use env::fs::FileSystem;
use model::{PartitionKey, TableSchema};
use partition::ReadContext;
use partition::codec::Layout;
use std::sync::Arc;

/// What the index still tells. Opened when it is first asked; the first error ends it.
pub(super) struct DamagedIndex<'a> {
    fs: &'a Arc<dyn FileSystem>,
    descriptor: &'a Descriptor,
    table: Arc<TableSchema>,
    walk: Option<Walk>,
    is_open: bool,
}

impl<'a> DamagedIndex<'a> {
    pub(super) fn new(
        fs: &'a Arc<dyn FileSystem>,
        descriptor: &'a Descriptor,
        table: &Arc<TableSchema>,
    ) -> DamagedIndex<'a> {
        DamagedIndex { fs, descriptor, table: Arc::clone(table), walk: None, is_open: false }
    }

    fn walk(&mut self) -> Option<&mut Walk> {
        if !std::mem::replace(&mut self.is_open, true) {
            self.walk = self.open();
        }
        self.walk.as_mut()
    }

    fn open(&self) -> Option<Walk> {
        let context = ReadContext::default();
        match SsTable::open(self.fs.as_ref(), self.descriptor, 0, Arc::new(Uncached)) {
            Ok(sstable) => sstable.index_walk(&self.table, &context).ok().flatten(),
            // Without its companions the index may still be walked from its start.
            Err(_) => Walk::of_file(self.fs.as_ref(), self.descriptor),
        }
    }

    /// Where the first partition behind `position` starts.
    pub(super) fn next_after(&mut self, position: u64) -> Option<u64> {
        let next = self.walk()?.next_behind(position);
        next.unwrap_or_else(|_| {
            self.walk = None;
            None
        })
    }

    /// What the index knows of the partition at `position`: its key, and its rows if they are indexed.
    pub(super) fn partition(
        &mut self,
        layout: &Layout,
        position: u64,
    ) -> Option<(Option<PartitionKey>, Option<RowIndex>)> {
        let walk = self.walk()?;
        loop {
            match walk.next_position() {
                Ok(Some(next)) if next == position => return walk.partition(layout, position).ok(),
                Ok(Some(next)) if next < position && walk.pass(next).is_ok() => {}
                _ => return None,
            }
        }
    }
}
