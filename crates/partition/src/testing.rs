//! Streams made of vectors, for tests of the stages.

use crate::error::ReadError;
use crate::plain::{Place, PlainCell, PlainHead};
use crate::stream::{Event, Fragment, PartitionStream, RangeChange};
use model::{
    BoundKind, Cell, Clustering, ClusteringBound, Component, CqlType, DecoratedKey, Deletion, Liveness,
    PartitionKey, Row, TableSchema,
};
use std::sync::Arc;

/// One step of a scripted stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Start(i32, Deletion),
    Static(Row),
    Row(Row),
    Change(RangeChange),
    End,
}

/// A stream that plays steps.
pub struct Script {
    steps: std::vec::IntoIter<Step>,
    /// Which of its plain rows lie at hand: bits that are used one after the other; none at all by default.
    at_hand: u64,
    /// The range deletion that is open.
    open: Deletion,
}

impl Script {
    pub fn new(steps: Vec<Step>) -> Script {
        Script { steps: steps.into_iter(), at_hand: 0, open: Deletion::NONE }
    }

    /// Some of its rows can be had as plain ones.
    pub fn with_plain_rows(self, at_hand: u64) -> Script {
        Script { at_hand, ..self }
    }
}

impl PartitionStream for Script {
    fn peek_plain(&mut self, out: &mut PlainHead) -> Result<bool, ReadError> {
        self.at_hand = self.at_hand.rotate_left(1);
        let Some(Step::Row(row)) = self.steps.as_slice().first() else { return Ok(false) };
        let is_plain = !row.liveness.is_none() && row.deletion.is_none() && self.open.is_none();
        if !is_plain || self.at_hand & 1 == 0 {
            return Ok(false);
        }
        let mut page = Vec::new();
        let mut place = |value: &[u8]| {
            let start = page.len() as u32;
            page.extend_from_slice(value);
            Place { start, len: value.len() as u32 }
        };
        out.parts.clustering = vec![row.clustering.value(0).map(&mut place)];
        let cells = row.cells.iter();
        out.parts.cells = cells
            .map(|cell| PlainCell {
                column: cell.column,
                timestamp: cell.timestamp,
                value: place(&cell.value),
            })
            .collect();
        out.set_page(&page.into());
        Ok(true)
    }

    fn leave_plain(&mut self) {
        self.steps.next();
    }

    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        Ok(match self.steps.next() {
            None => Event::End,
            Some(Step::Start(k, deletion)) => {
                out.key = key(k);
                out.deletion = deletion;
                Event::PartitionStart
            }
            Some(Step::Static(row)) => {
                out.row.assign(&row);
                Event::StaticRow
            }
            Some(Step::Row(row)) => {
                out.row.assign(&row);
                Event::Row
            }
            Some(Step::Change(change)) => {
                self.open = change.deletion;
                out.change = change;
                Event::RangeChange
            }
            Some(Step::End) => Event::PartitionEnd,
        })
    }
}

/// `k int, c int, s int static, v int, w int, PRIMARY KEY (k, c)`.
pub fn table() -> Arc<TableSchema> {
    Arc::new(
        TableSchema::builder("ks", "t", uuid::Uuid::nil())
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, false)
            .static_column("s", CqlType::Int)
            .regular("v", CqlType::Int)
            .regular("w", CqlType::Int)
            .build(),
    )
}

pub fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

pub fn clustering(c: i32) -> Clustering {
    let mut out = Clustering::empty();
    out.push(Component::Value(&c.to_be_bytes()));
    out
}

/// A cell of the named column whose value is its timestamp.
pub fn cell(column: &str, timestamp: i64) -> Cell {
    let id = table().column(column).unwrap().id;
    Cell::live(id, timestamp, bytes::Bytes::copy_from_slice(&(timestamp as i32).to_be_bytes()))
}

pub fn row(c: i32, cells: &[(&str, i64)]) -> Row {
    let mut row = Row::new(clustering(c));
    row.cells = cells.iter().map(|(column, timestamp)| cell(column, *timestamp)).collect();
    row
}

/// A row with primary key liveness.
pub fn inserted(c: i32, timestamp: i64, cells: &[(&str, i64)]) -> Row {
    Row { liveness: Liveness::new(timestamp), ..row(c, cells) }
}

pub fn deletion(timestamp: i64) -> Deletion {
    Deletion::new(timestamp, 1)
}

pub fn before(c: i32, open: Deletion) -> Step {
    Step::Change(RangeChange::at(ClusteringBound::new(BoundKind::InclStart, clustering(c)), open))
}

pub fn after(c: i32, open: Deletion) -> Step {
    Step::Change(RangeChange::at(ClusteringBound::new(BoundKind::ExclStart, clustering(c)), open))
}

/// Plays a stream into steps.
pub fn play(mut stream: impl PartitionStream) -> Vec<Step> {
    let mut out = Vec::new();
    let mut fragment = Fragment::default();
    loop {
        out.push(match stream.next(&mut fragment).unwrap() {
            Event::PartitionStart => {
                let bytes: [u8; 4] = fragment.key.key.0.as_ref().try_into().unwrap();
                Step::Start(i32::from_be_bytes(bytes), fragment.deletion)
            }
            Event::StaticRow => Step::Static(fragment.row.clone()),
            Event::Row => Step::Row(fragment.row.clone()),
            Event::RangeChange => Step::Change(fragment.change.clone()),
            Event::PartitionEnd => Step::End,
            Event::End => return out,
        });
    }
}

/// Keys 0..n in ring order.
pub fn ring_order(n: i32) -> Vec<i32> {
    let mut keys: Vec<i32> = (0..n).collect();
    keys.sort_by_key(|k| key(*k));
    keys
}
