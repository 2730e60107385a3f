//! Steps 4 and 5: the partitions and rows of Data.db, and what the index says of them.

use super::{Check, PASSES};
use crate::data_walk::{DataFile, DataWalk, Unfiltered};
use crate::descriptor::Component;
use crate::index::{Block, Walk};
use crate::table::SsTable;
use model::{Cell, ClusteringBound, CqlType, DecoratedKey, Deletion, Row};
use partition::{Fragment, ReadError};
use std::cmp::Ordering;

impl Check<'_> {
    /// Checks all of Data.db against itself, its statistics and the index.
    pub(super) fn rows(&mut self, data: &DataFile, sstable: Option<&SsTable>) {
        let mut walk = data.walk();
        let mut index = match sstable.map(|s| s.index_walk(&data.table, &self.context)) {
            Some(Ok(walk)) => walk,
            Some(Err(error)) => {
                self.failed(Component::Index, &error);
                None
            }
            None => None,
        };
        let mut fragment = Fragment::default();
        let mut last: Option<DecoratedKey> = None;
        let mut position = 0;
        while position < data.file.len {
            let next = match self.partition(data, &mut walk, sstable, &mut index, position, &mut fragment) {
                Ok(next) => {
                    let key = &fragment.key;
                    if last.as_ref().is_some_and(|last| last >= key) {
                        let found = format!(
                            "{} after {}",
                            data.show_key(key),
                            last.map_or_else(String::new, |l| data.show_key(&l))
                        );
                        self.found(
                            Component::Data,
                            Some(position),
                            "partitions in the order of their tokens",
                            found,
                        );
                    }
                    last = Some(key.clone());
                    next
                }
                Err(error) => {
                    self.failed(Component::Data, &error);
                    self.next_indexed(&mut index, position).unwrap_or(data.file.len)
                }
            };
            position = next.max(position + 1);
        }
        if let Some(walk) = &mut index {
            match walk.next_position() {
                Ok(None) => {}
                Ok(Some(more)) => {
                    let found = format!("a partition at {more} of the data");
                    self.found(Component::Index, None, "nothing behind the last partition", found);
                }
                Err(error) => self.failed(Component::Index, &error),
            }
        }
        let stored = data.statistics.stats.total_rows;
        if self.out.findings.is_empty() && stored > self.out.rows as i64 {
            let expected = format!("{stored} rows, as Statistics.db says");
            self.found(Component::Data, None, expected, format!("{} rows", self.out.rows));
        }
    }

    /// Where the index has the next partition; its first error ends it.
    fn next_indexed(&mut self, index: &mut Option<Walk>, position: u64) -> Option<u64> {
        let next = index.as_mut()?.next_behind(position);
        next.unwrap_or_else(|_| {
            *index = None;
            None
        })
    }

    /// Checks the partition at `position`; where the next one starts.
    fn partition(
        &mut self,
        data: &DataFile,
        walk: &mut DataWalk,
        sstable: Option<&SsTable>,
        index: &mut Option<Walk>,
        position: u64,
        fragment: &mut Fragment,
    ) -> Result<u64, ReadError> {
        walk.start_partition(position, fragment)?;
        self.key(data, &fragment.key, position);
        let deletion = fragment.deletion;
        self.timestamp(data, deletion.timestamp, deletion.is_none(), position);
        let mut blocks = self.indexed(data, sstable, index, position, fragment);
        if walk.static_row(&mut fragment.row)? {
            self.out.rows += 1;
            self.row(data, &fragment.row, true, position);
        }
        if let Some((header_len, _)) = &blocks
            && position + header_len != walk.position()
        {
            let found = format!("{} where it is at {}", position + header_len, walk.position());
            self.found(
                Component::Index,
                None,
                format!("the first row of the partition at {position}"),
                found,
            );
        }
        let mut expected = blocks.take().map(|(_, blocks)| blocks).unwrap_or_default().into_iter().peekable();
        let mut last: Option<ClusteringBound> = None;
        loop {
            let before = walk.open();
            let met = walk.next(fragment)?;
            let start = walk.unfiltered_start();
            self.tell(PASSES - 1, data, start);
            while let Some(block) = expected.next_if(|block| position + block.start <= start) {
                if position + block.start != start || block.open != before {
                    let found = format!("{} with {:?} open", position + block.start, block.open);
                    let expected = format!(
                        "a block that starts with a row or marker, as at {start} with {before:?} open"
                    );
                    self.found(Component::Index, None, expected, found);
                }
            }
            let here = match met {
                Unfiltered::End => break,
                Unfiltered::Row => {
                    self.out.rows += u64::from(!fragment.row.is_empty());
                    self.row(data, &fragment.row, false, start);
                    ClusteringBound::new(model::BoundKind::Row, fragment.row.clustering.clone())
                }
                Unfiltered::Change => {
                    let deletion = fragment.change.deletion;
                    self.timestamp(data, deletion.timestamp, deletion.is_none(), start);
                    fragment.change.position.clone()
                }
            };
            let comparator = data.table.comparator();
            let ascends = last.as_ref().is_none_or(|last| {
                comparator.compare_positions(last.position(), here.position()) == Ordering::Less
            });
            if !ascends {
                let expected = "rows and markers in the order of their clusterings";
                let found = format!(
                    "({}) after ({})",
                    data.show_position(here.position()),
                    last.as_ref().map_or_else(String::new, |l| data.show_position(l.position()))
                );
                self.found(Component::Data, Some(start), expected, found);
            }
            last = Some(here);
        }
        if walk.open() != Deletion::NONE {
            self.found(
                Component::Data,
                Some(walk.unfiltered_start()),
                "the end of the range deletion that is open",
                "the end of the partition",
            );
        }
        if let Some(block) = expected.next() {
            let found = format!("one at {}", position + block.start);
            self.found(
                Component::Index,
                None,
                format!("no block behind the end of the partition at {position}"),
                found,
            );
        }
        self.out.partitions += 1;
        Ok(walk.position())
    }

    /// Compares what the index says of the partition; yields its blocks of rows with the length of its head.
    fn indexed(
        &mut self,
        data: &DataFile,
        sstable: Option<&SsTable>,
        index: &mut Option<Walk>,
        position: u64,
        fragment: &Fragment,
    ) -> Option<(u64, Vec<Block>)> {
        let sstable = sstable?;
        match sstable.place_of(&fragment.key, &data.table, &self.context) {
            Ok(Some(place)) if place == position => {}
            Ok(other) => {
                let expected =
                    format!("partition {} at {position} of the data", data.show_key(&fragment.key));
                let found = other.map_or("nothing".to_owned(), |place| format!("{place}"));
                self.found(Component::Index, None, expected, found);
            }
            Err(error) => self.failed(Component::Index, &error),
        }
        let walk = index.as_mut()?;
        let rows = match walk.rows(&data.layout, position) {
            Ok(rows) => rows,
            Err(error) => {
                self.failed(Component::Index, &error);
                *index = None;
                return None;
            }
        };
        let mut rows = rows?;
        let mut blocks = Vec::new();
        let mut block = rows.last(&data.layout);
        loop {
            match block {
                Ok(here) => {
                    blocks.push(here);
                    block = match rows.before(&data.layout, &here) {
                        Ok(None) => break,
                        Ok(Some(before)) => Ok(before),
                        Err(error) => Err(error),
                    };
                }
                Err(error) => {
                    self.failed(Component::Index, &error);
                    break;
                }
            }
        }
        blocks.reverse();
        let header_len = rows.header_len().map_err(|error| self.failed(Component::Index, &error)).ok()?;
        Some((header_len, blocks))
    }

    /// The columns of a key are not told from the components of one column, which may be fewer and end as a
    /// bound does.
    fn key(&mut self, data: &DataFile, key: &DecoratedKey, position: u64) {
        let columns = data.table.partition_key();
        let class = || CqlType::parse_class(&data.statistics.header.key_type);
        let shown = || format!("{:?}", key.key);
        for (i, column) in columns.iter().enumerate() {
            match key.key.component(columns.len(), i) {
                Some(value) => self.value(&column.ty, value, &column.name, position),
                None if class().is_ok_and(|class| class.ty.validate(&key.key.0).is_ok()) => return,
                None => self.found(Component::Data, Some(position), "a partition key of its type", shown()),
            }
        }
    }

    fn value(&mut self, ty: &CqlType, value: &[u8], column: &str, position: u64) {
        if let Err(error) = ty.validate(value) {
            self.found(
                Component::Data,
                Some(position),
                format!("a {ty} in column {column}"),
                error.to_string(),
            );
        }
    }

    /// A timestamp has to lie in the range that the statistics give.
    fn timestamp(&mut self, data: &DataFile, timestamp: i64, is_none: bool, position: u64) {
        let stats = &data.statistics.stats;
        if !is_none && !(stats.min_timestamp..=stats.max_timestamp).contains(&timestamp) {
            let expected = format!("timestamps up to {timestamp}, which is at {position} of the data");
            let found = format!("from {} to {}", stats.min_timestamp, stats.max_timestamp);
            self.found(Component::Statistics, None, expected, found);
        }
    }

    fn row(&mut self, data: &DataFile, row: &Row, is_static: bool, position: u64) {
        if !is_static {
            for (i, column) in data.table.clustering_columns().iter().enumerate() {
                if let Some(value) = row.clustering.value(i) {
                    self.value(&column.ty, value, &column.name, position);
                }
            }
        }
        self.timestamp(data, row.liveness.timestamp, row.liveness.is_none(), position);
        self.timestamp(data, row.deletion.timestamp, row.deletion.is_none(), position);
        let mut before: Option<&Cell> = None;
        for cell in &row.cells {
            self.timestamp(data, cell.timestamp, false, position);
            let Some(column) = data.table.cell_column(cell.column) else { continue };
            if let Some(path_type) = column.ty.path_type() {
                self.value(&path_type, &cell.path, &column.name, position);
                let ascends = before
                    .filter(|b| b.column == cell.column)
                    .is_none_or(|b| column.ty.compare_paths(&b.path, &cell.path) == Ordering::Less);
                if !ascends {
                    let expected = format!("the cells of column {} in order", column.name);
                    self.found(Component::Data, Some(position), expected, "two that are not");
                }
            }
            before = Some(cell);
            if cell.is_tombstone() {
                continue;
            }
            match &column.ty {
                CqlType::Counter => {
                    if model::counter::shards(&cell.value).is_none() {
                        let expected = format!("shards of counter {}", column.name);
                        self.found(Component::Data, Some(position), expected, "other bytes");
                    }
                }
                CqlType::List { element, multi_cell: true } => {
                    self.value(element, &cell.value, &column.name, position)
                }
                CqlType::Map { value, multi_cell: true, .. } => {
                    self.value(value, &cell.value, &column.name, position)
                }
                CqlType::Set { multi_cell: true, .. } => {
                    self.value(&CqlType::Empty, &cell.value, &column.name, position)
                }
                CqlType::Udt { definition, multi_cell: true } => {
                    let field = cell.path.as_ref().try_into().map(u16::from_be_bytes).ok();
                    match field.and_then(|i| definition.fields.get(usize::from(i))) {
                        Some((_, ty)) => self.value(ty, &cell.value, &column.name, position),
                        None => self.found(
                            Component::Data,
                            Some(position),
                            format!("a field of {}", column.ty),
                            format!("{field:?}"),
                        ),
                    }
                }
                ty => self.value(ty, &cell.value, &column.name, position),
            }
        }
    }
}
