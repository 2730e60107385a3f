//! New SSTables with everything that can be read of a damaged one.
//!
//! 1. Data.db is read from its start without the index. What decodes, in chunks that are sound, is copied.
//! 2. Where that fails, the index says where the next block of rows or partition starts. Without an index
//!    what follows is lost. The key of a partition whose head is lost comes from the index, if that repeats
//!    it.
//! 3. Partitions and rows that do not come after the one before are left for later. They go into SSTables of
//!    their own, in order; as many as it takes.
//!
//! A range deletion that is open where a gap begins is closed there. One that the index knows to be open
//! behind the gap is opened at the next row. So nothing is deleted that was not deleted before.

mod index;

use crate::checksum::digest_fits;
use crate::compression::CompressionParams;
use crate::data_walk::{DataFile, DataPages, DataWalk, Tell, Unfiltered, WorkDone};
use crate::descriptor::{Component, Descriptor, remove_files};
use crate::error::{OpenError, WriteError};
use crate::frozen::table_with_frozen_types;
use crate::index::{Block, RowIndex};
use crate::minima::Minima;
use crate::pages::PageLayout;
use crate::statistics::{self, Statistics};
use crate::writer::{SsTableMeta, SsTableWriter, WriterOptions};
use env::fs::FileSystem;
use index::DamagedIndex;
use model::clustering::Position;
use model::{BoundKind, Clustering, ClusteringBound, ClusteringComparator, DecoratedKey, Deletion, Row};
use partition::codec::Layout;
use partition::{Event, Fragment, RangeChange, ReadContext, ReadError};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Bytes of rows out of order that are kept in memory; more are lost.
const STRAY_BYTES_MAX: usize = 64 << 20;
/// Losses that are described; more are counted only.
const LOSSES_MAX: usize = 10_000;

/// A stretch of Data.db that could not be read, or a row that could not be kept.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The partition, where it is known.
    pub key: Option<DecoratedKey>,
    /// Where the stretch starts in the uncompressed data.
    pub from: u64,
    /// Where it ends.
    pub to: u64,
    /// What was met.
    pub detail: String,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Salvaged {
    /// The new SSTables; none when nothing could be saved.
    pub written: Vec<SsTableMeta>,
    /// What is lost, at most the first ten thousand.
    pub losses: Vec<Loss>,
    /// Number of losses.
    pub loss_count: u64,
    /// Partitions that were written.
    pub partitions: u64,
    /// Rows that were written, static ones included.
    pub rows: u64,
    /// Partitions that were out of order.
    pub stray_partitions: u64,
    /// Rows that were out of order.
    pub stray_rows: u64,
}

/// Why nothing can be salvaged.
#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    /// A component is missing without which no row can be understood.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The new SSTables cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<io::Error> for SalvageError {
    fn from(error: io::Error) -> Self {
        SalvageError::Write(error.into())
    }
}

/// Writes new SSTables with what can be read of the one named. `next` gives each of them its name, which is
/// recorded before the first file is made; `progress` hears how far it is.
///
/// # Errors
/// When the header in Statistics.db, Data.db or CompressionInfo.db cannot be used at all, and when the new
/// files cannot be written; those that exist then are the caller's to remove.
pub fn salvage(
    fs: &Arc<dyn FileSystem>,
    descriptor: &Descriptor,
    next: &mut dyn FnMut() -> io::Result<Descriptor>,
    progress: Tell<'_>,
) -> Result<Salvaged, SalvageError> {
    let pages = match DataPages::of(fs.as_ref(), descriptor) {
        // A damaged CRC.db says nothing, but the digest may vouch for the data.
        Err(OpenError::Read(_))
            if !fs.exists(&descriptor.path(Component::CompressionInfo))?
                && digest_fits(fs.as_ref(), descriptor)? =>
        {
            DataPages::plain()
        }
        other => other?,
    };
    let compression = match &pages.layout {
        PageLayout::Compressed(info) => Some(info.params.clone()),
        _ => None,
    };
    let mut statistics = match Statistics::read(fs.as_ref(), descriptor) {
        // Its parts have checksums of their own: the header is enough to understand rows.
        Err(OpenError::Read(ReadError::Corrupt { .. })) => Statistics::of_header(fs.as_ref(), descriptor)?,
        other => other?,
    };
    if let Some(table) = table_with_frozen_types(fs.as_ref(), descriptor) {
        statistics.header.freeze_as(&table);
    }
    let data = DataFile::with(fs.as_ref(), descriptor, pages, statistics)?;
    check_minima(&data, descriptor)?;
    let mut run = Run {
        fs,
        descriptor,
        options: options(&data, compression),
        walk: data.walk(),
        damaged_index: DamagedIndex::new(fs, descriptor, &data.table),
        data: &data,
        next,
        out: Salvaged::default(),
        strays: BTreeMap::new(),
        stray_bytes: 0,
        late: Vec::new(),
        progress,
    };
    run.in_order()?;
    run.out_of_order()?;
    if run.out.loss_count > 0 {
        for meta in &run.out.written {
            statistics::rewrite(fs.as_ref(), &meta.descriptor, |stats| {
                stats.repaired_at_ms = 0;
                stats.pending_repair = None;
            })?;
        }
    }
    Ok(run.out)
}

/// Fails when Statistics.db is what is damaged. Damage to the data that comes in between is what a salvage is
/// for.
fn check_minima(data: &DataFile, descriptor: &Descriptor) -> Result<(), OpenError> {
    let minima = Minima::of(descriptor, &data.statistics);
    if minima.are_proven() {
        return Ok(());
    }
    let layout = Arc::clone(&data.layout);
    match minima.prove(descriptor, &data.statistics, &data.file, layout, &ReadContext::default()) {
        Err(ReadError::Corrupt { file, .. }) if file == data.file.name => Ok(()),
        other => Ok(other?),
    }
}

fn options(data: &DataFile, compression: Option<CompressionParams>) -> WriterOptions {
    let stats = &data.statistics.stats;
    WriterOptions {
        compression,
        bloom_fp_chance: data.statistics.bloom_fp_chance,
        estimated_partitions: stats.partition_sizes.count().max(1) as u64,
        encoding_stats: data.statistics.header.stats,
        commit_log_intervals: stats.commit_log_intervals.clone(),
        host_id: stats.host_id,
        repaired_at_ms: stats.repaired_at_ms,
        pending_repair: stats.pending_repair,
        level: stats.level,
        ..WriterOptions::default()
    }
}

/// Where rows go: one SSTable.
struct Layer {
    writer: Option<SsTableWriter>,
    last: Option<DecoratedKey>,
}

struct Run<'a> {
    fs: &'a Arc<dyn FileSystem>,
    descriptor: &'a Descriptor,
    data: &'a DataFile,
    options: WriterOptions,
    walk: DataWalk,
    damaged_index: DamagedIndex<'a>,
    next: &'a mut dyn FnMut() -> io::Result<Descriptor>,
    out: Salvaged,
    /// Rows out of order.
    strays: BTreeMap<DecoratedKey, Vec<Row>>,
    stray_bytes: usize,
    /// Partitions out of order, with their places.
    late: Vec<(DecoratedKey, u64)>,
    progress: Tell<'a>,
}

impl Run<'_> {
    fn lost(&mut self, key: Option<&DecoratedKey>, from: u64, to: u64, detail: impl ToString) {
        self.out.loss_count += 1;
        if self.out.losses.len() < LOSSES_MAX {
            self.out.losses.push(Loss { key: key.cloned(), from, to, detail: detail.to_string() });
        }
    }

    fn layer(&mut self) -> Result<Layer, SalvageError> {
        let descriptor = (self.next)()?;
        let table = Arc::clone(&self.data.table);
        let writer = SsTableWriter::new(Arc::clone(self.fs), descriptor, table, self.options.clone())?;
        Ok(Layer { writer: Some(writer), last: None })
    }

    fn finish(&mut self, layer: Layer) -> Result<(), SalvageError> {
        let Some(writer) = layer.writer else { return Ok(()) };
        let descriptor = writer.descriptor().clone();
        match writer.finish() {
            Ok(meta) => {
                self.out.partitions += meta.partitions;
                self.out.written.push(meta);
            }
            Err(WriteError::Empty) => remove_files(self.fs.as_ref(), &descriptor)?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn in_order(&mut self) -> Result<(), SalvageError> {
        let mut layer = self.layer()?;
        let mut position = 0;
        while position < self.data.file.len {
            let next = self.copy_partition(position, &mut layer, true)?;
            position = next.max(position + 1);
        }
        self.finish(layer)
    }

    /// Steps through the partitions and rows that were left for later.
    fn out_of_order(&mut self) -> Result<(), SalvageError> {
        self.out.stray_partitions = self.late.len() as u64;
        let mut late = std::mem::take(&mut self.late);
        late.sort();
        // The level of the other SSTable was for keys that do not overlap.
        self.options.level = 0;
        while !late.is_empty() {
            let mut layer = self.layer()?;
            let mut again = Vec::new();
            for (key, position) in late {
                if layer.last.as_ref() == Some(&key) {
                    again.push((key, position));
                    continue;
                }
                self.damaged_index = DamagedIndex::new(self.fs, self.descriptor, &self.data.table);
                self.copy_partition(position, &mut layer, false)?;
            }
            self.finish(layer)?;
            late = again;
        }
        self.write_strays()
    }

    fn write_strays(&mut self) -> Result<(), SalvageError> {
        let mut strays = std::mem::take(&mut self.strays);
        let comparator = self.data.table.comparator().clone();
        for rows in strays.values_mut() {
            rows.sort_by(|a, b| comparator.compare(&a.clustering, &b.clustering));
        }
        while !strays.is_empty() {
            let mut layer = self.layer()?;
            let mut again: BTreeMap<DecoratedKey, Vec<Row>> = BTreeMap::new();
            for (key, rows) in strays {
                let Some(writer) = &mut layer.writer else { break };
                let mut fragment = Fragment { key: key.clone(), ..Fragment::default() };
                writer.append(Event::PartitionStart, &fragment)?;
                let mut last: Option<Clustering> = None;
                for row in rows {
                    if last
                        .as_ref()
                        .is_some_and(|l| comparator.compare(l, &row.clustering) == Ordering::Equal)
                    {
                        again.entry(key.clone()).or_default().push(row);
                        continue;
                    }
                    last = Some(row.clustering.clone());
                    fragment.row = row;
                    writer.append(Event::Row, &fragment)?;
                    self.out.rows += 1;
                }
                writer.append(Event::PartitionEnd, &fragment)?;
            }
            self.finish(layer)?;
            strays = again;
        }
        Ok(())
    }

    /// Copies the partition at `position`; returns where the next one starts.
    fn copy_partition(
        &mut self,
        position: u64,
        layer: &mut Layer,
        may_defer: bool,
    ) -> Result<u64, SalvageError> {
        let mut fragment = Fragment::default();
        let mut rows = None;
        let mut gap: Option<(u64, ReadError)> = None;
        if let Err(error) = self.walk.start_partition(position, &mut fragment) {
            let (key, index) = self.damaged_index.partition(&self.data.layout, position).unwrap_or_default();
            let key = key.map(DecoratedKey::new);
            let (Some(key), Some(index)) = (&key, index) else {
                let to = self.damaged_index.next_after(position).unwrap_or(self.data.file.len);
                self.lost(key.as_ref(), position, to, error);
                return Ok(to);
            };
            fragment.key = key.clone();
            fragment.deletion = index.deletion();
            rows = Some(index);
            gap = Some((position, error));
        }
        let key = fragment.key.clone();
        if layer.last.as_ref().is_some_and(|last| *last >= key) && may_defer {
            self.late.push((key, position));
            return Ok(self.skip_partition(position, gap.is_some()));
        }
        let Some(writer) = &mut layer.writer else { return Ok(self.data.file.len) };
        writer.append(Event::PartitionStart, &fragment)?;
        layer.last = Some(key.clone());
        let comparator = self.data.table.comparator().clone();
        let mut copy = Copy::new(writer, &comparator);
        if gap.is_none() {
            match self.walk.static_row(&mut fragment.row) {
                Ok(true) => {
                    copy.writer.append(Event::StaticRow, &fragment)?;
                    self.out.rows += 1;
                }
                Ok(false) => {}
                Err(error) => gap = Some((self.walk.position(), error)),
            }
        }
        let end = loop {
            if let Some((from, error)) = gap.take() {
                copy.gap()?;
                if rows.is_none() {
                    rows =
                        self.damaged_index.partition(&self.data.layout, position).and_then(|(_, rows)| rows);
                }
                let resumed = self.resume(position, from, rows.as_mut());
                let to = match resumed {
                    Some(block) => position + block.start,
                    None => self.damaged_index.next_after(position).unwrap_or(self.data.file.len),
                };
                self.lost(Some(&key), from, to, error);
                match resumed {
                    Some(block) => copy.resume(block.open),
                    None => break to,
                }
            }
            (self.progress)(WorkDone { done: self.walk.position(), of: self.data.file.len });
            match self.walk.next(&mut fragment) {
                Ok(Unfiltered::End) => break self.walk.position(),
                Ok(Unfiltered::Change) => {
                    if !copy.change(&fragment.change)? {
                        let (from, to) = (self.walk.unfiltered_start(), self.walk.position());
                        self.lost(Some(&key), from, to, "a range tombstone marker out of order");
                    }
                }
                Ok(Unfiltered::Row) if fragment.row.is_empty() => {}
                Ok(Unfiltered::Row) => match copy.row(&mut fragment)? {
                    true => self.out.rows += 1,
                    false => self.stray(&key, &fragment.row),
                },
                Err(error) => gap = Some((self.walk.unfiltered_start(), error)),
            }
        };
        copy.gap()?;
        copy.writer.append(Event::PartitionEnd, &fragment)?;
        Ok(end)
    }

    fn stray(&mut self, key: &DecoratedKey, row: &Row) {
        let cells = row.cells.iter().map(|c| 64 + c.value.len()).sum::<usize>();
        let bytes = 64 + row.clustering.data_size() + cells;
        if self.stray_bytes + bytes > STRAY_BYTES_MAX {
            let (from, to) = (self.walk.unfiltered_start(), self.walk.position());
            self.lost(Some(key), from, to, "a row out of order, and too many of them to put in order");
            return;
        }
        self.stray_bytes += bytes;
        self.out.stray_rows += 1;
        self.strays.entry(key.clone()).or_default().push(row.clone());
    }

    /// Goes behind a partition without looking at it, as far as that is possible.
    fn skip_partition(&mut self, position: u64, is_damaged: bool) -> u64 {
        let mut fragment = Fragment::default();
        if !is_damaged && self.walk.static_row(&mut fragment.row).is_ok() {
            while let Ok(met) = self.walk.next(&mut fragment) {
                if met == Unfiltered::End {
                    return self.walk.position();
                }
            }
        }
        self.damaged_index.next_after(position).unwrap_or(self.data.file.len)
    }

    /// Goes to the first block of rows behind a gap that can be read.
    fn resume(&mut self, partition: u64, from: u64, rows: Option<&mut RowIndex>) -> Option<Block> {
        let blocks = blocks_behind(rows?, &self.data.layout, from - partition);
        let mut scratch = Fragment::default();
        for block in blocks {
            self.walk.resume(partition, partition + block.start, block.open);
            if self.walk.next(&mut scratch).is_ok() {
                self.walk.resume(partition, partition + block.start, block.open);
                return Some(block);
            }
        }
        None
    }
}

/// The blocks that start behind `offset` in the partition, in order; those after an error in the index are
/// left out.
fn blocks_behind(rows: &mut RowIndex, layout: &Layout, offset: u64) -> Vec<Block> {
    let mut out = Vec::new();
    let mut block = rows.last(layout).ok();
    while let Some(here) = block.filter(|block| block.start > offset) {
        block = rows.before(layout, &here).ok().flatten();
        out.push(here);
    }
    out.reverse();
    out
}

/// A partition on its way into an SSTable, in order and with its range deletions balanced.
struct Copy<'a> {
    writer: &'a mut SsTableWriter,
    comparator: &'a ClusteringComparator,
    /// The last row or change that was taken.
    last: Option<ClusteringBound>,
    /// The deletion that is open in what was written.
    open: Deletion,
    /// A change that is written once something follows it.
    pending: Option<RangeChange>,
    /// The deletion that is to be opened at the next row.
    resumed: Deletion,
    scratch: Fragment,
}

impl<'a> Copy<'a> {
    fn new(writer: &'a mut SsTableWriter, comparator: &'a ClusteringComparator) -> Copy<'a> {
        Copy {
            writer,
            comparator,
            last: None,
            open: Deletion::NONE,
            pending: None,
            resumed: Deletion::NONE,
            scratch: Fragment::default(),
        }
    }

    fn comes_after(&self, position: Position<'_>) -> bool {
        let last = self.last.as_ref().map(ClusteringBound::position);
        last.is_none_or(|last| self.comparator.compare_positions(last, position) == Ordering::Less)
    }

    fn write_change(&mut self, change: RangeChange) -> Result<(), WriteError> {
        self.open = change.deletion;
        self.scratch.change = change;
        self.writer.append(Event::RangeChange, &self.scratch)
    }

    fn write_pending(&mut self) -> Result<(), WriteError> {
        match self.pending.take() {
            Some(change) => self.write_change(change),
            None => Ok(()),
        }
    }

    /// Takes a row; `false` when it does not come after what came before.
    fn row(&mut self, fragment: &mut Fragment) -> Result<bool, WriteError> {
        if !self.comes_after(Position::row(&fragment.row.clustering)) {
            return Ok(false);
        }
        self.write_pending()?;
        let resumed = std::mem::replace(&mut self.resumed, Deletion::NONE);
        if !resumed.is_none() {
            let bound = ClusteringBound::start_at(fragment.row.clustering.clone());
            self.write_change(RangeChange::at(bound, resumed))?;
        }
        self.last = Some(ClusteringBound::new(BoundKind::Row, fragment.row.clustering.clone()));
        self.writer.append(Event::Row, fragment)?;
        Ok(true)
    }

    /// Takes a change; `false` when it does not come after what came before.
    fn change(&mut self, change: &RangeChange) -> Result<bool, WriteError> {
        if !self.comes_after(change.position.position()) {
            return Ok(false);
        }
        self.write_pending()?;
        self.resumed = Deletion::NONE;
        self.last = Some(change.position.clone());
        if self.open != change.deletion {
            self.pending = Some(change.clone());
        }
        Ok(true)
    }

    /// Nothing is known of what follows here, or nothing follows: closes what is open.
    fn gap(&mut self) -> Result<(), WriteError> {
        self.resumed = Deletion::NONE;
        if let Some(change) = self.pending.take() {
            return match self.open.is_none() {
                true => Ok(()),
                false => self.write_change(RangeChange { deletion: Deletion::NONE, ..change }),
            };
        }
        match &self.last {
            Some(last) if !self.open.is_none() => {
                let bound = ClusteringBound::end_at(last.prefix.clone());
                self.last = Some(RangeChange::at(bound.clone(), Deletion::NONE).position);
                self.write_change(RangeChange::at(bound, Deletion::NONE))
            }
            _ => Ok(()),
        }
    }

    /// What follows is known again, and `open` holds there.
    fn resume(&mut self, open: Deletion) {
        self.resumed = open;
    }
}
