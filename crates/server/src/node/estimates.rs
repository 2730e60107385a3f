//! `system.size_estimates` and `system.table_estimates`: what tables hold of each part of the ring, for
//! clients that divide a table among workers. The Spark connector decides by them how many partitions it
//! makes.
//!
//! 1. [`FIRST`] after the start, then every [`INTERVAL`], each table of a replicated keyspace is estimated
//!    anew, as by Cassandra's `SizeEstimatesRecorder`. An operator may ask for it, too.
//! 2. The ranges are those that end at the node's tokens. One that goes over the end of the ring is two.
//! 3. The rows of a table replace those of before, in one mutation.
//! 4. Nobody waits until a crash could not take rows away: the next round brings them back.
//! 5. A table that is dropped loses its rows at once. What a crash left goes with the next round.

use super::Node;
use crate::slices::take_time;
use crate::state::NodeState;
use crate::system::local::whole_table;
use crate::system::rows::IntoValue;
use coordinator::Strategy;
use engine::table::RangeEstimate;
use engine::{Engine, EngineError, WriteOptions};
use model::key::{KeyBound, KeyRange, Token};
use model::{
    Cell, Clustering, DecoratedKey, Deletion, KeyspaceSchema, Liveness, Mutation, PartitionKey,
    PartitionUpdate, RangeTombstone, Row, Schema, Slice, TableSchema,
};
use partition::{Event, Fragment, PartitionStream, ReadContext};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Time from the start to the first round.
const FIRST: Duration = Duration::from_secs(30);
/// Time between two rounds.
const INTERVAL: Duration = Duration::from_secs(300);

const SIZE_ESTIMATES: &str = "size_estimates";
const TABLE_ESTIMATES: &str = "table_estimates";

/// Keeps the estimates up as long as the node runs.
pub(crate) async fn keep_recording(node: Arc<Node>) {
    let tasks = &node.state.env.tasks;
    tasks.sleep(FIRST).await;
    let mut ticks = tasks.ticks(INTERVAL);
    loop {
        if !node.state.is_drained() {
            let state = Arc::clone(&node.state);
            match take_time(move || record(&state)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the sizes of tables could not be estimated"),
                Err(error) => tracing::error!(%error, "the estimate of sizes did not end"),
            }
        }
        ticks.next().await;
    }
}

/// Estimates every table now.
///
/// # Errors
/// An index that cannot be read, or a write that fails. Tables before it have their rows.
pub(crate) fn record(state: &NodeState) -> Result<(), EngineError> {
    let engine = &state.engine;
    let schema = engine.schema();
    for keyspace in recorded(&schema) {
        let local = ranges(state.tokens());
        let replicas = Strategy::of(&keyspace.replication).in_datacenter(&state.config.data_center);
        let primary = if replicas > 0 { local.as_slice() } else { &[] };
        for table in keyspace.stores() {
            let Some(store) = engine.table(table.id).filter(|store| !store.is_dropped()) else { continue };
            let estimated = local
                .iter()
                .map(|range| Ok((range, store.estimate(&range.keys())?)))
                .collect::<Result<Vec<_>, EngineError>>()?;
            let of_primary = estimated.get(..primary.len()).unwrap_or_default();
            let types = [("local_primary", estimated.as_slice()), ("primary", of_primary)];
            let mut sizes = Replacing::new(engine, SIZE_ESTIMATES, keyspace, table);
            of_primary.iter().for_each(|(range, estimate)| sizes.add(&[], range, *estimate));
            let mut typed = Replacing::new(engine, TABLE_ESTIMATES, keyspace, table);
            for (kind, rows) in types {
                rows.iter().for_each(|(range, estimate)| typed.add(&[kind], range, *estimate));
            }
            for mutation in [sizes.mutation(), typed.mutation()] {
                drop(engine.apply(&mutation, WriteOptions::default())?);
            }
        }
    }
    forget_strangers(engine)
}

/// Removes the rows of tables that `new` has no more.
///
/// # Errors
/// A write that fails.
pub(crate) fn forget_dropped(engine: &Engine, old: &Schema, new: &Schema) -> Result<(), EngineError> {
    let gone = recorded(old).flat_map(|keyspace| keyspace.stores()).filter(|table| !is_known(new, table));
    gone.flat_map(|table| [SIZE_ESTIMATES, TABLE_ESTIMATES].map(|of| (of, &table.keyspace, &table.name)))
        .try_for_each(|(of, keyspace, table)| forget(engine, of, keyspace, table))
}

fn is_known(schema: &Schema, table: &TableSchema) -> bool {
    schema.keyspace(&table.keyspace).is_some_and(|keyspace| keyspace.store(&table.name).is_some())
}

/// The keyspaces whose tables are estimated.
fn recorded(schema: &Schema) -> impl Iterator<Item = &Arc<KeyspaceSchema>> {
    schema.keyspaces.values().filter(|k| !k.is_virtual && Strategy::of(&k.replication) != Strategy::Local)
}

/// Removes the rows of tables that the schema does not have.
fn forget_strangers(engine: &Engine) -> Result<(), EngineError> {
    let schema = engine.schema();
    let now_s = u32::try_from(engine.env().now_seconds()).unwrap_or(u32::MAX);
    for of in [SIZE_ESTIMATES, TABLE_ESTIMATES] {
        let mut strangers: BTreeSet<(String, String)> = BTreeSet::new();
        let command = whole_table(&engine.system_table(of), now_s);
        let mut stream = engine.read(&command, &ReadContext::default())?;
        let mut fragment = Fragment::default();
        loop {
            match stream.next(&mut fragment)? {
                Event::End => break,
                Event::Row => {}
                Event::PartitionStart | Event::StaticRow | Event::RangeChange | Event::PartitionEnd => {
                    continue;
                }
            }
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let keyspace = text(&fragment.key.key.0);
            let table = fragment.row.clustering.value(0).map(text).unwrap_or_default();
            let is_known = schema.keyspace(&keyspace).is_some_and(|k| k.store(&table).is_some());
            let is_live = fragment.row.cells.iter().any(|cell| cell.is_live(now_s));
            if is_live && !is_known {
                strangers.insert((keyspace, table));
            }
        }
        strangers.iter().try_for_each(|(keyspace, table)| forget(engine, of, keyspace, table))?;
    }
    Ok(())
}

fn forget(engine: &Engine, of: &str, keyspace: &str, table: &str) -> Result<(), EngineError> {
    let emptied = Replacing::of_names(engine, of, keyspace, table).mutation();
    drop(engine.apply(&emptied, WriteOptions::default())?);
    Ok(())
}

/// A part of the ring, from behind the first token to the second. [`i64::MIN`] is the end of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RingRange(i64, i64);

impl RingRange {
    fn keys(self) -> KeyRange {
        let bound = |token, inclusive| match token {
            i64::MIN => KeyBound::Unbounded,
            token => KeyBound::Token { token: Token(token), inclusive },
        };
        KeyRange { start: bound(self.0, false), end: bound(self.1, true) }
    }
}

/// The ranges that end at `tokens`, which are in the order of the ring.
fn ranges(tokens: &[i64]) -> Vec<RingRange> {
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return Vec::new() };
    let inner = tokens.iter().zip(tokens.iter().skip(1)).map(|(start, end)| RingRange(*start, *end));
    let over_the_end = [RingRange(*last, i64::MIN), RingRange(i64::MIN, *first)];
    let is_empty = |range: &RingRange| range.0 == range.1 && tokens.len() > 1;
    let mut over_the_end: Vec<RingRange> =
        over_the_end.into_iter().filter(|range| !is_empty(range)).collect();
    // Both are the whole ring where its only token is the smallest one.
    over_the_end.dedup();
    over_the_end.into_iter().chain(inner).collect()
}

/// The rows of one table, in the place of those of before.
struct Replacing {
    update: PartitionUpdate,
    table: String,
    micros: i64,
}

impl Replacing {
    fn new(engine: &Engine, of: &str, keyspace: &KeyspaceSchema, table: &TableSchema) -> Replacing {
        Replacing::of_names(engine, of, &keyspace.name, &table.name)
    }

    fn of_names(engine: &Engine, of: &str, keyspace: &str, table: &str) -> Replacing {
        let micros = engine.env().now_micros();
        let schema = engine.system_table(of);
        let key = DecoratedKey::new(PartitionKey::from_components(&[keyspace.as_bytes()]));
        let update = PartitionUpdate::new(schema, key);
        Replacing { update, table: table.to_owned(), micros }
    }

    /// Adds a row; `kind` stands between the table and the range in its clustering.
    fn add(&mut self, kind: &[&str], range: &RingRange, estimate: RangeEstimate) {
        let (start, end) = (range.0.to_string(), range.1.to_string());
        let names = [self.table.as_str()].into_iter().chain(kind.iter().copied());
        let words = names.chain([start.as_str(), end.as_str()]);
        let mut row = Row::new(Clustering::from_values(words.map(str::as_bytes)));
        row.liveness = Liveness::new(self.micros);
        let values = [
            ("mean_partition_size", estimate.partition_bytes_mean),
            ("partitions_count", estimate.partitions),
        ];
        for (name, value) in values {
            if let (Some(column), Some(value)) = (self.update.table.column(name), value.into_value()) {
                row.cells.push(Cell::live(column.id, self.micros, value));
            }
        }
        row.cells.sort_by_key(|cell| cell.column);
        self.update.add_row(row);
    }

    fn mutation(mut self) -> Mutation {
        // What is written here is newer than what goes.
        let before = self.micros - i64::from(!self.update.rows.is_empty());
        self.update.range_tombstones.push(RangeTombstone {
            slice: Slice::of_prefix(Clustering::from_values([self.table.as_bytes()])),
            deletion: Deletion::new(before, u32::try_from(before / 1_000_000).unwrap_or(u32::MAX)),
        });
        Mutation::of(self.update)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_the_ring_once_also_where_they_begin_at_the_smallest_token() {
        assert!(ranges(&[]).is_empty());
        assert_eq!(ranges(&[7]), [RingRange(7, i64::MIN), RingRange(i64::MIN, 7)]);
        assert_eq!(ranges(&[i64::MIN]), [RingRange(i64::MIN, i64::MIN)]);
        assert_eq!(ranges(&[i64::MIN, 7]), [RingRange(7, i64::MIN), RingRange(i64::MIN, 7)]);
        assert_eq!(ranges(&[3, 7]), [RingRange(7, i64::MIN), RingRange(i64::MIN, 3), RingRange(3, 7)]);
    }
}
