//! An open SSTable.
//!
//! Opening reads the small components whole (Statistics.db, CompressionInfo.db or CRC.db, Filter.db,
//! Summary.db) and nothing of Data.db. It reads the entries of Index.db after the last sample, or all of them
//! when Summary.db or Filter.db is missing. It reads the root of Outline.db.
//!
//! The index and Filter.db carry no checksums. What they say is compared with the data where a read depends
//! on it. The key in the data must be the one asked for. Before a key that passed the filter is called
//! absent, its neighbours are compared with the data. The filter itself is believed only as far as it is
//! proven ([`KeyFilter`]). Before version `na` Statistics.db has no checksums either. Nothing is left out of
//! a read or of a compaction for what it says, and the minima in its header are proven ([`Minima`]).

mod estimates;
mod facts;
mod heads;
mod marks;
mod open;
mod prove;

pub(crate) use facts::OnDisk;
pub use heads::{Head, Heads};
pub use marks::Mark;
pub(crate) use prove::Standing;
pub use prove::{NewProof, Proved};

use crate::adopted::Adopted;
use crate::descriptor::{Component, Descriptor};
use crate::error::file_name;
use crate::header_check::check_header;
use crate::header_table::table_of_header;
use crate::index::{Entry, Hints, Index, RowIndex, Walk};
use crate::key_filter::{FilterCheck, KeyFilter};
use crate::minima::Minima;
use crate::outline::Outline;
use crate::pages::{Course, Cursor, PageSource, PagedFile, Wish};
use crate::statistics::Statistics;
use crate::stream::{Partitions, SsTableStream};
use arc_swap::{ArcSwap, ArcSwapOption};
use env::random::Random;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::KeyRange;
use model::{ClusteringBound, DecoratedKey, Slice, TableSchema};
use partition::codec::Layout;
use partition::{Event, Fragment, PartitionStream, ReadContext, ReadError};
use std::sync::{Arc, OnceLock};

/// The layout of an SSTable's rows for one version of a table's schema.
#[derive(Debug)]
pub(crate) struct MappedLayout {
    table: Arc<TableSchema>,
    layout: Arc<Layout>,
}

/// An SSTable that can be read. Shared by readers; its files stay readable after they were removed.
#[derive(Debug)]
pub struct SsTable {
    pub(crate) descriptor: Descriptor,
    pub(crate) statistics: Statistics,
    pub(crate) index: Index,
    pub(crate) filter: Option<KeyFilter>,
    pub(crate) minima: Minima,
    pub(crate) data: Arc<PagedFile>,
    pub(crate) outline: OnceLock<Arc<Outline>>,
    /// The finer index of the rows of large partitions, of a file that another program wrote.
    pub(crate) adopted: OnceLock<Adopted>,
    /// Whether every page of the index is compared with a checksum, the summary was, and no chunk passes for
    /// another.
    pub(crate) is_proven: bool,
    pub(crate) pages: Arc<dyn PageSource>,
    pub(crate) layout: ArcSwapOption<MappedLayout>,
    pub(crate) on_disk: ArcSwap<OnDisk>,
    pub(crate) standing: Standing,
    /// Bytes of a row and of a partition, on the average.
    pub(crate) row_bytes: u64,
    pub(crate) partition_bytes: u64,
}

impl SsTable {
    /// Lets the table's `crc_check_chance` decide by these numbers which checksums of Data.db are checked
    /// when a page of it is loaded. Otherwise all are.
    pub fn check_by_chance(&self, random: Arc<Random>) {
        self.data.crc_checks.draw_from(random);
    }

    /// Whether a read may take for granted what the index says of a partition. With a `crc_check_chance`
    /// below 1 a damaged chunk may not be found out. Then what the index says is compared with the data all
    /// the same.
    pub(crate) fn believes(&self, partitions: &Partitions) -> bool {
        let is_adopted = || matches!(partitions, Partitions::One { entry, .. } if entry.is_adopted());
        (self.is_proven || is_adopted()) && self.data.crc_checks.are_all_due()
    }

    /// Whether `key` may be there; `false` is certain. Compares with the first and last key, then asks the
    /// filter.
    pub fn may_contain(&self, key: &DecoratedKey) -> bool {
        self.covers(key)
            && !self.filter.as_ref().is_some_and(|filter| filter.excludes(key, || self.index.interval(key)))
    }

    /// Finds out whether the bloom filter has every key of the index, which is read from end to end.
    /// Afterwards [`SsTable::may_contain`] knows better: a filter that is found sound is believed, another
    /// one not asked.
    ///
    /// # Errors
    /// When Filter.db lacks a key, and when the index cannot be read.
    pub fn check_filter(&self, context: &ReadContext) -> Result<(), ReadError> {
        self.check_filter_at_pace(context, &mut |_| true).map(drop)
    }

    /// As [`SsTable::check_filter`]; `pace` is told now and then of the bytes gone over since the last time,
    /// and ends it by `false`. Whether the filter was checked to the end.
    ///
    /// # Errors
    /// As [`SsTable::check_filter`].
    pub fn check_filter_at_pace(
        &self,
        context: &ReadContext,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, ReadError> {
        let Some(filter) = &self.filter else { return Ok(true) };
        match self.index.check_filter(filter, &mut self.data_cursor(context), pace)? {
            FilterCheck::Sound => Ok(true),
            FilterCheck::Stopped => Ok(false),
            FilterCheck::Lacks(detail) => {
                Err(ReadError::corrupt(&file_name(&self.descriptor.path(Component::Filter)), 0, detail))
            }
        }
    }

    /// Whether the bloom filter is neither known to have every key nor to lack one.
    pub fn has_unproven_filter(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| !filter.is_proven() && filter.is_asked())
    }

    #[cfg(test)]
    pub(crate) fn minima_are_proven(&self) -> bool {
        self.minima.are_proven()
    }

    /// Makes sure that the minima in the header are those of the rows.
    ///
    /// # Errors
    /// When they are not, and when that takes reading that the context does not allow or that fails.
    pub(crate) fn prove_minima(&self, context: &ReadContext) -> Result<(), ReadError> {
        if self.minima.are_proven() {
            return Ok(());
        }
        let unfit =
            |e: String| ReadError::corrupt(&file_name(&self.descriptor.path(Component::Statistics)), 0, e);
        let table = table_of_header(self.header()).map_err(|e| unfit(e.to_string()))?;
        let layout = Layout::of_sstable(self.header(), &table).map_err(|e| unfit(e.to_string()))?;
        self.minima.prove(&self.descriptor, &self.statistics, &self.data, Arc::new(layout), context)
    }

    /// Whether rows of a table can be read from here.
    ///
    /// # Errors
    /// When columns are here that the table never had, or other clustering columns.
    pub fn check_schema(&self, table: &Arc<TableSchema>) -> Result<(), ReadError> {
        self.layout(table).map(drop)
    }

    /// The layout for a version of the schema, remembered for the next read.
    fn layout(&self, table: &Arc<TableSchema>) -> Result<Arc<Layout>, ReadError> {
        if let Some(mapped) = self.layout.load().as_deref()
            && Arc::ptr_eq(&mapped.table, table)
        {
            return Ok(Arc::clone(&mapped.layout));
        }
        let unfit =
            |detail| ReadError::corrupt(&file_name(&self.descriptor.path(Component::Statistics)), 0, detail);
        if self.believed().is_none() {
            check_header(&self.statistics.header, table).map_err(unfit)?;
        }
        let layout = Layout::of_sstable(&self.statistics.header, table).map_err(|e| unfit(e.to_string()))?;
        let layout = Arc::new(layout);
        let mapped = MappedLayout { table: Arc::clone(table), layout: Arc::clone(&layout) };
        self.layout.store(Some(Arc::new(mapped)));
        self.data.crc_checks.set_chance(table.options.crc_check_chance);
        Ok(layout)
    }

    /// The index from its first partition on, for those who compare it with the data.
    pub(crate) fn index_walk(
        &self,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<Option<Walk>, ReadError> {
        let mut data = self.data_cursor(context);
        let layout = self.layout(table)?;
        Ok(self.index.walk(&KeyRange::FULL, &layout, &mut data)?.map(|(_, walk)| walk))
    }

    /// Where in the data a partition starts, as a lookup finds it.
    pub(crate) fn place_of(
        &self,
        key: &DecoratedKey,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<Option<u64>, ReadError> {
        if !self.covers(key) {
            return Ok(None);
        }
        let mut data = self.data_cursor(context);
        let layout = self.layout(table)?;
        Ok(self.index.find(key, None, &layout, &mut data)?.map(|entry| entry.position()))
    }

    fn data_cursor(&self, context: &ReadContext) -> Cursor {
        Cursor::new(Arc::clone(&self.data), Arc::clone(&self.pages), context.clone())
    }

    /// A cursor for a read of some columns: by the outline, where one is there and values are stepped over.
    fn cursor_for(&self, columns: &ColumnSelection, layout: &Layout, context: &ReadContext) -> Cursor {
        let outline = self.outline.get().filter(|_| !layout.is_everything(&layout.wanted(columns)));
        self.data_cursor(context).with_outline(outline)
    }

    /// Says what a stream will want of the data, for its pages to be read together.
    fn look_ahead(&self, filter: &ClusteringFilter, partitions: &Partitions, data: &mut Cursor) {
        let (rows, is_open) = match filter {
            ClusteringFilter::Names { .. } => (1, true),
            ClusteringFilter::Slices { .. } => (data.context().rows_wanted, filter.has_open_end()),
        };
        let is_walk = filter.is_all() && !filter.is_reversed();
        let wanted = if is_walk { rows.saturating_mul(self.row_bytes) } else { u64::MAX };
        let (start, certain) = match partitions {
            Partitions::None => return,
            Partitions::Range { next, .. } => (*next, 0),
            Partitions::One { entry, .. } if is_walk || !entry.has_rows() => {
                (entry.position(), wanted.min(self.partition_bytes))
            }
            Partitions::One { entry, .. } => (entry.position(), 0),
        };
        data.look_ahead(|ahead| {
            ahead.wish = Wish { rows, is_open, row_bytes: self.row_bytes };
            ahead.set_rows(start..start.saturating_add(certain));
            ahead.course = match filter.is_reversed() {
                true => Course::Backward(0),
                false => Course::Forward(start.saturating_add(wanted)),
            };
        });
    }

    /// Whether more is expected of a partition than a read that may not block is begun for. Of slices that
    /// end somewhere nobody knows how much lies in them, nor how much of a row some of its columns are.
    fn outgrows(
        &self,
        filter: &ClusteringFilter,
        columns: &ColumnSelection,
        layout: &Layout,
        entry: &Entry,
        ctx: &ReadContext,
    ) -> bool {
        if ctx.may_block || !entry.has_rows() {
            return false;
        }
        let rows = match filter {
            ClusteringFilter::Names { names, .. } => names.len() as u64,
            ClusteringFilter::Slices { .. } if filter.has_open_end() => ctx.rows_wanted,
            ClusteringFilter::Slices { .. } => 0,
        };
        let rows = rows.min(self.partition_bytes / self.row_bytes.max(1));
        let is_long = rows.saturating_mul(self.row_bytes) > ctx.bytes_max;
        rows > ctx.rows_max || (is_long && layout.is_everything(&layout.wanted(columns)))
    }

    fn stream(
        self: &Arc<Self>,
        filter: &ClusteringFilter,
        columns: &ColumnSelection,
        table: &Arc<TableSchema>,
        data: Cursor,
        partitions: Partitions,
        layout: Arc<Layout>,
    ) -> Result<Box<SsTableStream>, ReadError> {
        self.prove_minima(data.context())?;
        let reversed = filter.is_reversed();
        let whole = filter.is_all();
        let mut slices = if whole { vec![Slice::ALL] } else { filter.to_slices() };
        if reversed {
            slices.reverse();
        }
        let wanted = layout.wanted(columns);
        let mut stream = SsTableStream::new(
            Arc::clone(self),
            Arc::clone(table),
            layout,
            wanted,
            slices.into(),
            whole,
            reversed,
            data,
            partitions,
        );
        let (partitions, data) = stream.parts();
        self.look_ahead(filter, partitions, data);
        Ok(stream)
    }

    /// Reads one partition; `None` when it is not there. The caller has asked [`SsTable::may_contain`]
    /// before.
    ///
    /// # Errors
    /// When a file cannot be read or is damaged.
    pub fn read(
        self: &Arc<Self>,
        key: &DecoratedKey,
        filter: &ClusteringFilter,
        columns: &ColumnSelection,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<Option<Box<SsTableStream>>, ReadError> {
        self.check_standing(table, context)?;
        let layout = self.layout(table)?;
        let mut data = self.cursor_for(columns, &layout, context);
        let Some(entry) = self.find(key, &layout, &mut data)? else {
            let passed = self.filter.as_ref().is_some_and(|filter| filter.passes(key));
            context.cost.bloom_false_positives.add(passed as u64);
            return Ok(None);
        };
        if self.outgrows(filter, columns, &layout, &entry, context) {
            return Err(ReadError::WouldBlock);
        }
        let partitions = Partitions::One { key: key.clone(), entry };
        self.stream(filter, columns, table, data, partitions, layout).map(Some)
    }

    /// Where a search among the blocks of a partition may begin.
    pub(crate) fn hints(&self) -> Hints<'_> {
        let fences = self.index.fences().or_else(|| self.adopted.get().map(Adopted::fences));
        Hints { covered: &self.stats().covered_clusterings, fences }
    }

    /// Finds a partition, here or in the index.
    fn find(
        &self,
        key: &DecoratedKey,
        layout: &Layout,
        data: &mut Cursor,
    ) -> Result<Option<Entry>, ReadError> {
        if !self.covers(key) {
            return Ok(None);
        }
        if let Some(adopted) = self.adopted.get()
            && let Some(entry) = adopted.find(key, &self.pages, data.context())?
        {
            return Ok(Some(entry));
        }
        self.index.find(key, self.filter.as_ref(), layout, data)
    }

    /// The index of a partition's rows in Blocks.db, for who has the partition's place from the index; `None`
    /// where the partition is not there, or its place is another.
    pub(crate) fn adopted_rows(
        &self,
        key: &DecoratedKey,
        position: u64,
        layout: &Layout,
        context: &ReadContext,
    ) -> Result<Option<RowIndex>, ReadError> {
        let Some(adopted) = self.adopted.get() else { return Ok(None) };
        let entry = adopted.find(key, &self.pages, context)?;
        match entry.filter(|entry| entry.position() == position) {
            Some(mut entry) => entry.take_rows(layout),
            None => Ok(None),
        }
    }

    /// Touches the pages of the index that a read of the position `bound` in a partition touches. For a row,
    /// and `with_outline`, it also touches the row's part of the outline. It reads only the data that proves
    /// that the partition is there, and what an outline leaves out.
    ///
    /// # Errors
    /// When a file cannot be read or is damaged.
    pub fn look_up(
        self: &Arc<Self>,
        key: &DecoratedKey,
        bound: &ClusteringBound,
        with_outline: bool,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<(), ReadError> {
        self.check_standing(table, context)?;
        let layout = self.layout(table)?;
        let mut data = self.data_cursor(context);
        let Some(entry) = self.find(key, &layout, &mut data)? else { return Ok(()) };
        let mut one = Partitions::One { key: key.clone(), entry };
        let is_believed = self.believes(&one);
        let Partitions::One { entry, .. } = &mut one else { return Ok(()) };
        if let Some(mut rows) = entry.take_rows(&layout)? {
            if is_believed {
                rows.believe(self.may_have_tombstones());
            }
            rows.header_len()?;
            // A read goes forwards or in reverse.
            rows.starting_by(&layout, table.comparator(), bound, self.hints())?;
            rows.reaching(&layout, table.comparator(), bound, self.hints())?;
        }
        if !with_outline
            || self.outline.get().is_none()
            || bound.prefix.len() != table.clustering_columns().len()
        {
            return Ok(());
        }
        let filter = ClusteringFilter::Names { names: vec![bound.prefix.clone()], reversed: false };
        let Some(mut row) = self.read(key, &filter, &ColumnSelection::of(Vec::new()), table, context)? else {
            return Ok(());
        };
        let mut fragment = Fragment::default();
        while row.next(&mut fragment)? != Event::End {}
        Ok(())
    }

    /// Reads the partitions of a range, in ring order.
    ///
    /// # Errors
    /// When a file cannot be read or is damaged.
    pub fn scan(
        self: &Arc<Self>,
        range: &KeyRange,
        filter: &ClusteringFilter,
        columns: &ColumnSelection,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<Box<SsTableStream>, ReadError> {
        self.check_standing(table, context)?;
        let layout = self.layout(table)?;
        let mut data = self.cursor_for(columns, &layout, context);
        let start = if self.overlaps(range) { self.index.walk(range, &layout, &mut data)? } else { None };
        let partitions = match start {
            Some((next, walk)) => Partitions::Range { range: range.clone(), next, walk },
            None => Partitions::None,
        };
        self.stream(filter, columns, table, data, partitions, layout)
    }

    /// Tokens of the partitions that the index keeps in memory, the first and the last among them.
    pub fn sampled_tokens(&self) -> Vec<model::key::Token> {
        self.index.known_keys().map(|key| key.token).collect()
    }

    /// Where in Data.db, before compression, the first partition of a range begins: `None` when the SSTable
    /// has none. The difference of two such places is what lies between them.
    ///
    /// # Errors
    /// When a file cannot be read or is damaged.
    pub fn position_of(
        &self,
        range: &KeyRange,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<Option<u64>, ReadError> {
        self.check_standing(table, context)?;
        if !self.overlaps(range) {
            return Ok(None);
        }
        let layout = self.layout(table)?;
        let start = self.index.walk(range, &layout, &mut self.data_cursor(context))?;
        Ok(start.map(|(position, _)| position))
    }
}
