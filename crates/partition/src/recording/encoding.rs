//! An answer as nodes send it to each other (messages of versions 12 and 13, `UnfilteredPartitionIterators`
//! and `UnfilteredRowIteratorSerializer` of Cassandra 4.0 to 5.0).
//!
//! ```text
//! answer    := 0x00 (0x01 partition)* 0x00
//! partition := vbytes key | u8 flags | stats | [static columns] | regular columns | [deletion]
//!              | [static row] | unfiltered* | 0x01
//! columns   := which of those that the command fetches ([`crate::codec::ColumnSet`])
//! ```
//! Nothing follows the flags of an empty partition, which others may send. Rows come in the order of the
//! read, and the bounds of markers are those of the storage order. A partition that was cut where a range
//! deletion is open ends it behind the last row, as Cassandra does.

use super::told::{Told, tells_of_row};
use super::{Recording, Step};
use crate::codec::mutation::flag;
use crate::codec::{
    ColumnSet, DecodeError, DeletionTimes, EncodeError, EncodingStats, Input, Layout, RowSizes, SliceInput,
    StatsCollector, UnfilteredHead, Wanted, write_end,
};
use crate::error::ReadError;
use crate::stream::{BoxedStream, Event, Fragment, PartitionStream, RangeChange};
use bytes::Bytes;
use model::command::ReadCommand;
use model::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnDef, DecoratedKey, Deletion, PartitionKey, Row, vint,
};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

const PARTITION: u8 = 1;
const END: u8 = 0;

impl Recording {
    /// Appends this answer to `command`.
    ///
    /// # Errors
    /// When a value does not have the length of its type; `out` is of no use then.
    pub fn encode(
        &self,
        command: &ReadCommand,
        times: DeletionTimes,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        out.push(0);
        for told in self.told(command) {
            Encoding { recording: self, command, times, told }.write(out)?;
        }
        out.push(END);
        Ok(())
    }
}

/// The columns that an answer to `command` tells of.
fn fetched(command: &ReadCommand) -> (Vec<&Arc<ColumnDef>>, Vec<&Arc<ColumnDef>>) {
    let statics = command.table.static_columns().iter().filter(|c| command.fetches_static(c.id));
    let regulars = command.table.regular_columns().iter().filter(|c| command.fetches_regular(c.id));
    (statics.collect(), regulars.collect())
}

/// The row as it is told. Who asks takes the digest of all values that it gets, so none comes that it does
/// not want: only some sources leave these out.
fn without_unwanted_values<'a>(command: &ReadCommand, row: &'a Row) -> Cow<'a, Row> {
    let columns = &command.columns;
    let is_too_much = |cell: &Cell| !cell.value.is_empty() && !columns.wants_value_of(cell);
    if columns.all && columns.elements.is_none() || !row.cells.iter().any(is_too_much) {
        return Cow::Borrowed(row);
    }
    let mut told = row.clone();
    told.cells.iter_mut().filter(|cell| is_too_much(cell)).for_each(|cell| cell.value = Bytes::new());
    Cow::Owned(told)
}

/// A partition that is encoded.
struct Encoding<'a> {
    recording: &'a Recording,
    command: &'a ReadCommand,
    times: DeletionTimes,
    told: Told<'a>,
}

impl Encoding<'_> {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let (statics, regulars) = fetched(self.command);
        let Told { key, deletion, static_row, .. } = self.told;
        let stats = self.survey();
        out.push(PARTITION);
        vint::write_unsigned(out, key.key.0.len() as u64);
        out.extend_from_slice(&key.key.0);
        let mut bits = if self.command.is_reversed() { flag::REVERSED } else { 0 };
        bits |= if deletion.is_none() { 0 } else { flag::DELETION };
        bits |= if static_row.is_some() { flag::STATIC_ROW } else { 0 };
        out.push(bits);
        stats.encode(out);
        let mut set = ColumnSet::default();
        if static_row.is_some() {
            set.fill(statics.len());
            set.encode(out, statics.len());
        }
        set.fill(regulars.len());
        set.encode(out, regulars.len());
        let layout = Layout::of_message(stats, self.times, &self.command.table, statics, regulars);
        if !deletion.is_none() {
            layout.write_deletion(out, deletion);
        }
        let mut sizes = RowSizes::default();
        if let Some(row) = static_row {
            layout.write_row(out, &without_unwanted_values(self.command, row), true, &mut sizes)?;
        }
        self.write_unfiltereds(&layout, &mut sizes, out)?;
        write_end(out);
        Ok(())
    }

    /// What the numbers of the partition are relative to.
    fn survey(&self) -> EncodingStats {
        let mut stats = StatsCollector::default();
        stats.add_deletion(self.told.deletion);
        self.told.static_row.into_iter().for_each(|row| stats.add_row(row));
        for step in self.told.steps {
            match step {
                Step::Row(row) => stats.add_row(row),
                Step::RangeChange(change) => stats.add_deletion(&change.deletion),
                _ => {}
            }
        }
        stats.stats().held_as(self.times)
    }

    fn write_unfiltereds(
        &self,
        layout: &Layout,
        sizes: &mut RowSizes,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let mut open = Deletion::NONE;
        let mut last = None;
        let mut is_over = false;
        for step in self.told.steps {
            match step {
                Step::Row(row) if !tells_of_row(self.command, row) => {}
                Step::Row(row) => {
                    last = Some(&row.clustering);
                    layout.write_row(out, &without_unwanted_values(self.command, row), false, sizes)?;
                }
                Step::RangeChange(change) => {
                    self.write_change(layout, &change.position, &mut open, change.deletion, sizes, out)?;
                }
                Step::Left => self.close(layout, last, &mut open, sizes, out)?,
                Step::PartitionEnd => is_over = true,
                Step::PartitionStart(..) | Step::StaticRow(_) => {}
            }
        }
        let behind = if is_over { last } else { self.recording.stop.as_ref().or(last) };
        self.close(layout, behind, &mut open, sizes, out)
    }

    fn write_change(
        &self,
        layout: &Layout,
        position: &ClusteringBound,
        open: &mut Deletion,
        next: Deletion,
        sizes: &mut RowSizes,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let before = std::mem::replace(open, next);
        // Markers are in storage order, whatever the order of the read.
        let (ends, starts) = if self.command.is_reversed() { (next, before) } else { (before, next) };
        layout.write_marker(out, position, &ends, &starts, sizes)?;
        Ok(())
    }

    /// Ends an open range deletion behind a row.
    fn close(
        &self,
        layout: &Layout,
        behind: Option<&Clustering>,
        open: &mut Deletion,
        sizes: &mut RowSizes,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        if open.is_none() {
            return Ok(());
        }
        let kind = if self.command.is_reversed() { BoundKind::InclStart } else { BoundKind::ExclStart };
        let position = ClusteringBound { kind, prefix: behind.cloned().unwrap_or_default() };
        self.write_change(layout, &position, open, Deletion::NONE, sizes, out)
    }
}

/// The fragments of an encoded answer to `command`. Where `source` is who sent it, corruption names it.
pub fn decode_answer(
    answer: Bytes,
    command: &Arc<ReadCommand>,
    times: DeletionTimes,
    source: &Arc<str>,
) -> BoxedStream {
    let command = Arc::clone(command);
    Box::new(Decoding {
        input: SliceInput::new(answer),
        command,
        times,
        source: Arc::clone(source),
        at: At::Start,
        layout: None,
        present: ColumnSet::default(),
        key: None,
        last: None,
    })
}

/// How far an answer was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    BetweenPartitions,
    StaticRow,
    Unfiltereds,
    /// Of a partition without content.
    PartitionEnd,
    End,
}

struct Decoding {
    input: SliceInput,
    command: Arc<ReadCommand>,
    times: DeletionTimes,
    source: Arc<str>,
    at: At,
    layout: Option<(Layout, Wanted)>,
    present: ColumnSet,
    key: Option<DecoratedKey>,
    /// The last row or marker of the partition.
    last: Option<ClusteringBound>,
}

impl Decoding {
    fn step(&mut self, out: &mut Fragment) -> Result<Event, DecodeError> {
        loop {
            match self.at {
                At::Start => {
                    if self.input.u8()? != 0 {
                        return Err(self.input.malformed("an answer for Thrift".to_owned()));
                    }
                    self.at = At::BetweenPartitions;
                }
                At::BetweenPartitions => match self.input.u8()? {
                    END if self.input.remaining() == 0 => self.at = At::End,
                    END => {
                        let rest = self.input.remaining();
                        return Err(self.input.malformed(format!("{rest} bytes after the answer")));
                    }
                    PARTITION => return self.partition(out),
                    byte => return Err(self.input.malformed(format!("{byte:#04x} between partitions"))),
                },
                At::StaticRow => {
                    self.at = At::Unfiltereds;
                    return self.static_row(out);
                }
                At::Unfiltereds => {
                    if let Some(event) = self.unfiltered(out)? {
                        return Ok(event);
                    }
                }
                At::PartitionEnd => {
                    self.at = At::BetweenPartitions;
                    return Ok(Event::PartitionEnd);
                }
                At::End => return Ok(Event::End),
            }
        }
    }

    fn partition(&mut self, out: &mut Fragment) -> Result<Event, DecodeError> {
        out.key = DecoratedKey::new(PartitionKey(self.input.vbytes()?));
        if self.key.as_ref().is_some_and(|before| *before >= out.key) {
            return Err(self.input.malformed("partitions are out of order".to_owned()));
        }
        self.key = Some(out.key.clone());
        (self.last, out.deletion) = (None, Deletion::NONE);
        let bits = self.input.u8()?;
        let is_reversed = bits & flag::REVERSED != 0;
        if bits & !flag::ALL != 0 || is_reversed != self.command.is_reversed() {
            return Err(self.input.malformed(format!("flags {bits:#04x} of a partition")));
        }
        if bits & flag::EMPTY != 0 {
            self.at = At::PartitionEnd;
            return Ok(Event::PartitionStart);
        }
        let stats = EncodingStats::decode(&mut self.input)?;
        let (statics, regulars) = fetched(&self.command);
        let subset = |input: &mut SliceInput, columns: Vec<&Arc<ColumnDef>>| {
            let mut set = ColumnSet::default();
            set.decode(input, columns.len())?;
            let listed = columns.into_iter().enumerate().filter(|(at, _)| set.contains(*at));
            Ok(listed.map(|(_, column)| Arc::clone(column)).collect::<Vec<_>>())
        };
        let has_statics = bits & flag::STATIC_ROW != 0;
        let statics = if has_statics { subset(&mut self.input, statics)? } else { Vec::new() };
        let regulars = subset(&mut self.input, regulars)?;
        let layout = Layout::of_message(stats, self.times, &self.command.table, &statics, &regulars);
        if bits & flag::DELETION != 0 {
            out.deletion = layout.read_deletion(&mut self.input)?;
        }
        self.at = if has_statics { At::StaticRow } else { At::Unfiltereds };
        if bits & flag::ROW_ESTIMATE != 0 && !has_statics {
            self.input.uvint()?;
        }
        let wanted = layout.everything();
        self.layout = Some((layout, wanted));
        Ok(Event::PartitionStart)
    }

    fn static_row(&mut self, out: &mut Fragment) -> Result<Event, DecodeError> {
        let Some((layout, wanted)) = &self.layout else { return Ok(Event::End) };
        match layout.read_head(&mut self.input)? {
            UnfilteredHead::Row(flags) if flags.is_static => {
                out.row.clustering = Clustering::empty();
                let row = &mut out.row;
                layout.read_row_body(&mut self.input, flags, None, wanted, &mut self.present, row)?;
                Ok(Event::StaticRow)
            }
            _ => Err(self.input.malformed("a static row expected".to_owned())),
        }
    }

    /// The next row or change; `None` for what says nothing.
    fn unfiltered(&mut self, out: &mut Fragment) -> Result<Option<Event>, DecodeError> {
        let Some((layout, wanted)) = &self.layout else { return Ok(Some(Event::End)) };
        match layout.read_head(&mut self.input)? {
            UnfilteredHead::End => {
                self.at = At::BetweenPartitions;
                Ok(Some(Event::PartitionEnd))
            }
            UnfilteredHead::Marker => {
                let mut bound = ClusteringBound::BOTTOM;
                layout.read_bound(&mut self.input, &mut bound)?;
                let marker = layout.read_marker(&mut self.input, &bound)?;
                let next = if self.command.is_reversed() { marker.close } else { marker.open };
                out.change = RangeChange::at(bound, next);
                self.check_order(out.change.position.clone())?;
                Ok(Some(Event::RangeChange))
            }
            UnfilteredHead::Row(flags) if flags.is_static => {
                Err(self.input.malformed("a static row among rows".to_owned()))
            }
            UnfilteredHead::Row(flags) => {
                layout.read_clustering(&mut self.input, &mut out.row.clustering)?;
                let row = &mut out.row;
                layout.read_row_body(&mut self.input, flags, None, wanted, &mut self.present, row)?;
                let here = ClusteringBound { kind: BoundKind::Row, prefix: out.row.clustering.clone() };
                self.check_order(here)?;
                Ok((!out.row.is_empty()).then_some(Event::Row))
            }
        }
    }

    fn check_order(&mut self, here: ClusteringBound) -> Result<(), DecodeError> {
        if let Some(last) = &self.last {
            let order = self.command.table.comparator().compare_positions(last.position(), here.position());
            let order = if self.command.is_reversed() { order.reverse() } else { order };
            if order != Ordering::Less {
                return Err(self.input.malformed("rows are out of order".to_owned()));
            }
        }
        self.last = Some(here);
        Ok(())
    }
}

impl PartitionStream for Decoding {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        self.step(out).map_err(|error| {
            self.at = At::End;
            ReadError::corrupt(&self.source, error.offset, error.detail)
        })
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        let mut passed = Fragment::default();
        while !matches!(self.at, At::BetweenPartitions | At::Start | At::End) {
            self.next(&mut passed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
