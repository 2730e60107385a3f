//! Rows of virtual tables: filled by name, kept in order, and read as a stream like those of any other
//! source.
//!
//! Partitions come in the order of their keys' values, not of their tokens: that is how Cassandra's virtual
//! tables are read. A range of a read whose bounds are keys (the next page) is therefore judged in the same
//! order; bounds that are tokens select by token as everywhere.

use bytes::Bytes;
use model::command::{PartitionSelection, ReadCommand};
use model::key::{KeyBound, KeyRange};
use model::types::collection;
use model::{
    Cell, Clustering, Component, CqlType, DecoratedKey, Deletion, Liveness, PartitionKey, Row, TableSchema,
};
use partition::{BoxedStream, Event, Fragment, PartitionStream, ReadError};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use uuid::Uuid;

/// A value of a column; `None` is null.
pub type Value = Option<Bytes>;

/// What can stand in a column.
pub trait IntoValue {
    /// The value's bytes.
    fn into_value(self) -> Value;
}

macro_rules! fixed {
    ($($type:ty),+) => {$(
        impl IntoValue for $type {
            fn into_value(self) -> Value {
                Some(Bytes::copy_from_slice(&self.to_be_bytes()))
            }
        }
    )+};
}

fixed!(i32, i64, f32, f64);

impl IntoValue for u64 {
    /// As a `bigint`, which has no numbers above its largest.
    fn into_value(self) -> Value {
        i64::try_from(self).unwrap_or(i64::MAX).into_value()
    }
}

impl IntoValue for bool {
    fn into_value(self) -> Value {
        Some(Bytes::from_static(if self { &[1] } else { &[0] }))
    }
}

impl IntoValue for &str {
    fn into_value(self) -> Value {
        Some(Bytes::copy_from_slice(self.as_bytes()))
    }
}

impl IntoValue for String {
    fn into_value(self) -> Value {
        Some(self.into())
    }
}

impl IntoValue for Uuid {
    fn into_value(self) -> Value {
        Some(Bytes::copy_from_slice(self.as_bytes()))
    }
}

impl IntoValue for IpAddr {
    fn into_value(self) -> Value {
        Some(match self {
            IpAddr::V4(v4) => Bytes::copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => Bytes::copy_from_slice(&v6.octets()),
        })
    }
}

impl IntoValue for Bytes {
    fn into_value(self) -> Value {
        Some(self)
    }
}

/// A frozen map of texts.
impl IntoValue for &BTreeMap<String, String> {
    fn into_value(self) -> Value {
        let mut pairs: Vec<(&str, &str)> = self.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        collection::sort_map(&CqlType::Text, &mut pairs);
        Some(collection::encode_map(&CqlType::Text, pairs))
    }
}

/// A frozen map of counts.
impl IntoValue for &BTreeMap<&str, u64> {
    fn into_value(self) -> Value {
        let counts: Vec<Value> = self.values().map(|count| count.into_value()).collect();
        let counts = counts.iter().map(|count| count.as_deref().unwrap_or_default());
        let mut pairs: Vec<(&str, &[u8])> = self.keys().copied().zip(counts).collect();
        collection::sort_map(&CqlType::Text, &mut pairs);
        Some(collection::encode_map(&CqlType::Text, pairs))
    }
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        self.and_then(T::into_value)
    }
}

/// The rows of one virtual table.
#[derive(Debug)]
pub struct VirtualRows {
    table: Arc<TableSchema>,
    micros: i64,
    partitions: Vec<(DecoratedKey, Vec<Row>)>,
}

impl VirtualRows {
    /// No rows. `micros` is the timestamp of all that follow.
    pub fn new(table: Arc<TableSchema>, micros: i64) -> VirtualRows {
        VirtualRows { table, micros, partitions: Vec::new() }
    }

    /// Adds a row: first the columns of the key, then the clustering columns, each in order, then others by
    /// name.
    pub fn add<const N: usize>(&mut self, key: [Value; N], others: &[(&str, Value)]) {
        let key_columns = self.table.partition_key().len();
        let (partition, clustering) = key.split_at(key_columns.min(N));
        let components: Vec<&[u8]> = partition.iter().map(|v| v.as_deref().unwrap_or_default()).collect();
        let key = DecoratedKey::new(PartitionKey::from_components(&components));
        let mut row = Row::new(Clustering::empty());
        for value in clustering {
            row.clustering.push(value.as_deref().map_or(Component::Null, Component::Value));
        }
        row.liveness = Liveness::new(self.micros);
        for (name, value) in others {
            if let (Some(column), Some(value)) = (self.table.column(name), value) {
                row.cells.push(Cell::live(column.id, self.micros, value.clone()));
            } else {
                debug_assert!(self.table.column(name).is_some(), "{}.{name}", self.table.name);
            }
        }
        row.cells.sort_by_key(|cell| cell.column);
        match self.partitions.iter_mut().rev().find(|(k, _)| *k == key) {
            Some((_, rows)) => rows.push(row),
            None => self.partitions.push((key, vec![row])),
        }
    }

    /// The rows that `command` selects.
    pub fn into_stream(mut self, command: &ReadCommand) -> BoxedStream {
        let table = Arc::clone(&self.table);
        self.partitions.sort_by(|(a, _), (b, _)| compare_keys(&table, a, b));
        let mut selected: Vec<(DecoratedKey, Vec<Row>)> = match &command.partitions {
            PartitionSelection::Keys(keys) => {
                let mut found = Vec::new();
                for key in keys {
                    if let Some(at) = self.partitions.iter().position(|(k, _)| k.key == key.key) {
                        found.push(self.partitions.remove(at));
                    }
                }
                found
            }
            PartitionSelection::Range(range) => {
                self.partitions.retain(|(key, _)| contains(&table, range, key));
                self.partitions
            }
        };
        let comparator = table.comparator();
        for (_, rows) in &mut selected {
            rows.retain(|row| command.clusterings.selects(comparator, &row.clustering));
            rows.sort_by(|a, b| command.compare_rows(&a.clustering, &b.clustering));
            rows.dedup_by(|a, b| comparator.compare(&a.clustering, &b.clustering).is_eq());
        }
        selected.retain(|(_, rows)| !rows.is_empty());
        Box::new(VirtualStream { partitions: selected.into_iter(), rows: None })
    }
}

/// The order of keys by their values.
fn compare_keys(table: &TableSchema, a: &DecoratedKey, b: &DecoratedKey) -> Ordering {
    let columns = table.partition_key();
    let (left, right) = (a.key.components(columns.len()), b.key.components(columns.len()));
    let (Some(left), Some(right)) = (left, right) else { return a.key.cmp(&b.key) };
    let mut components = columns.iter().zip(left.iter().zip(&right));
    let order = components.find_map(|(column, (a, b))| {
        let order = column.ty.compare(a, b);
        (order != Ordering::Equal).then_some(order)
    });
    order.unwrap_or(Ordering::Equal)
}

fn contains(table: &TableSchema, range: &KeyRange, key: &DecoratedKey) -> bool {
    let against = |bound: &KeyBound, is_start: bool| match bound {
        KeyBound::Unbounded => true,
        KeyBound::Token { token, inclusive } => {
            let order = key.token.cmp(token);
            (*inclusive && order.is_eq()) || if is_start { order.is_gt() } else { order.is_lt() }
        }
        KeyBound::Key { key: bound, inclusive } => {
            let order = compare_keys(table, key, bound);
            (*inclusive && order.is_eq()) || if is_start { order.is_gt() } else { order.is_lt() }
        }
    };
    against(&range.start, true) && against(&range.end, false)
}

struct VirtualStream {
    partitions: std::vec::IntoIter<(DecoratedKey, Vec<Row>)>,
    /// Rows that are left of the partition that is open.
    rows: Option<std::vec::IntoIter<Row>>,
}

impl PartitionStream for VirtualStream {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        if let Some(rows) = &mut self.rows {
            return Ok(match rows.next() {
                Some(row) => {
                    out.row = row;
                    Event::Row
                }
                None => {
                    self.rows = None;
                    Event::PartitionEnd
                }
            });
        }
        Ok(match self.partitions.next() {
            Some((key, rows)) => {
                (out.key, out.deletion) = (key, Deletion::NONE);
                self.rows = Some(rows.into_iter());
                Event::PartitionStart
            }
            None => Event::End,
        })
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.rows = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::catalog;
    use model::Slice;
    use model::command::{ClusteringFilter, ColumnSelection, DataLimits};

    fn settings() -> VirtualRows {
        let table = Arc::clone(catalog::table("system_views", "settings").unwrap());
        let mut rows = VirtualRows::new(table, 1);
        for name in ["zeta", "alpha", "mid"] {
            rows.add([name.into_value()], &[("value", "x".into_value())]);
        }
        rows
    }

    fn command(table: &Arc<TableSchema>, partitions: PartitionSelection) -> ReadCommand {
        ReadCommand {
            table: Arc::clone(table),
            partitions,
            clusterings: ClusteringFilter::all(),
            columns: ColumnSelection::all(table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: 1,
        }
    }

    fn key(text: &str) -> DecoratedKey {
        DecoratedKey::new(PartitionKey::from_components(&[text.as_bytes()]))
    }

    fn keys_of(mut stream: BoxedStream) -> Vec<String> {
        let (mut out, mut fragment) = (Vec::new(), Fragment::default());
        loop {
            match stream.next(&mut fragment).unwrap() {
                Event::PartitionStart => {
                    out.push(String::from_utf8(fragment.key.key.0.to_vec()).unwrap());
                    stream.skip_partition().unwrap();
                }
                Event::End => return out,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn partitions_come_in_the_order_of_their_keys() {
        let rows = settings();
        let all = command(&rows.table.clone(), PartitionSelection::Range(KeyRange::FULL));
        assert_eq!(keys_of(rows.into_stream(&all)), ["alpha", "mid", "zeta"]);
    }

    #[test]
    fn the_next_page_starts_behind_the_last_key() {
        let rows = settings();
        let behind = KeyRange {
            start: KeyBound::Key { key: key("alpha"), inclusive: false },
            end: KeyBound::Unbounded,
        };
        let rest = command(&rows.table.clone(), PartitionSelection::Range(behind));
        assert_eq!(keys_of(rows.into_stream(&rest)), ["mid", "zeta"]);
    }

    #[test]
    fn keys_that_are_asked_for_come_as_asked() {
        let rows = settings();
        let some = vec![key("zeta"), key("missing"), key("alpha")];
        let some = command(&rows.table.clone(), PartitionSelection::Keys(some));
        assert_eq!(keys_of(rows.into_stream(&some)), ["zeta", "alpha"]);
    }

    #[test]
    fn clusterings_are_filtered_and_reversed() {
        let table = Arc::clone(catalog::table("system_virtual_schema", "tables").unwrap());
        let mut rows = VirtualRows::new(Arc::clone(&table), 1);
        for name in ["b", "c", "a"] {
            rows.add(["ks".into_value(), name.into_value()], &[]);
        }
        let mut wanted = command(&table, PartitionSelection::Range(KeyRange::FULL));
        let from_b = Slice {
            start: model::ClusteringBound::start_at(Clustering::from_values([&b"b"[..]])),
            end: model::ClusteringBound::TOP,
        };
        wanted.clusterings = ClusteringFilter::Slices { slices: vec![from_b], reversed: true };
        let mut stream = rows.into_stream(&wanted);
        let (mut found, mut fragment) = (Vec::new(), Fragment::default());
        while let event = stream.next(&mut fragment).unwrap()
            && event != Event::End
        {
            if event == Event::Row {
                found.push(fragment.row.clustering.value(0).unwrap().to_vec());
            }
        }
        assert_eq!(found, [b"c".to_vec(), b"b".to_vec()]);
    }
}
