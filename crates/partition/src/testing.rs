//! Streams made of vectors, for tests of the stages.

use crate::error::ReadError;
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
pub struct Script(std::vec::IntoIter<Step>);

impl Script {
    pub fn new(steps: Vec<Step>) -> Script {
        Script(steps.into_iter())
    }
}

impl PartitionStream for Script {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        Ok(match self.0.next() {
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
    Cell::live(id, timestamp, bytes::Bytes::copy_from_slice(&timestamp.to_be_bytes()))
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
