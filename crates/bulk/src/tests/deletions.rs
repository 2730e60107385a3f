//! Scans with deletions: what they hand out is put together again, and compared with what CQL reads from.

use super::running::engine_on;
use super::values::to_bytes;
use super::{rows_of_batch, values::Shown};
use crate::deletion::DELETION;
use crate::{Form, ScanOptions, ScanRequest, Source, Split};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch, StructArray};
use bytes::Bytes;
use engine::{Engine, WriteOptions};
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::command::ClusteringFilter;
use model::schema::CompactStorage;
use model::types::collection::{elements, tuple_fields};
use model::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnDef, ColumnKind, CqlType, DecoratedKey, Deletion,
    Mutation, PartitionKey, PartitionUpdate, Row, TableSchema,
};
use partition::{Event, Fragment, PartitionStream, ReadContext};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::source::NOW_S;
use testkit::source::history::History;

/// Timestamp and local deletion time.
type Time = (i64, u32);

/// A live cell: its time, when it ends, and its value.
type LiveCell = (i64, Option<u32>, Vec<u8>);

/// What is known of one row, or of the static one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    deletion: Option<Time>,
    marker: Option<Time>,
    inserted: Option<(i64, Option<u32>)>,
    collections: BTreeMap<String, Time>,
    /// By column, and element as CQL shows it.
    dead: BTreeMap<(String, Option<String>), Time>,
    live: BTreeMap<(String, Option<String>), LiveCell>,
}

/// A range: its ends, each the prefix and whether the change lies behind its rows, and its deletion.
pub(super) type Range = ((Vec<Vec<u8>>, bool), (Vec<Vec<u8>>, bool), Time);

/// What is known of a partition. Rows by the values of their clustering; the static one has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    deletion: Option<Time>,
    rows: BTreeMap<Option<Vec<Vec<u8>>>, Known>,
    pub ranges: Vec<Range>,
}

pub(super) type World = BTreeMap<DecoratedKey, Part>;

fn values(clustering: &Clustering) -> Vec<Vec<u8>> {
    (0..clustering.len()).map(|i| clustering.value(i).unwrap_or_default().to_vec()).collect()
}

fn element(column: &ColumnDef, path: &[u8]) -> Option<String> {
    column.is_multi_cell().then(|| column.ty.path_type().unwrap().to_literal(Some(path)))
}

/// What a row of a stream is, as of `NOW_S`.
fn known(table: &TableSchema, row: &Row) -> Known {
    let mut out = Known::default();
    let time = |d: &Deletion| (!d.is_none()).then_some((d.timestamp, d.local_deletion_time));
    out.deletion = time(&row.deletion);
    let liveness = &row.liveness;
    if liveness.is_live(NOW_S) {
        let ends = liveness.is_expiring().then_some(liveness.local_expiration_time);
        out.inserted = Some((liveness.timestamp, ends));
    } else if !liveness.is_none() {
        out.marker = Some((liveness.timestamp, liveness.local_expiration_time - liveness.ttl as u32));
    }
    for (id, deletion) in &row.complex_deletions {
        let name = table.column_by_id(*id).unwrap().name.clone();
        out.collections.insert(name, time(deletion).unwrap());
    }
    for cell in &row.cells {
        let column = table.column_by_id(cell.column).unwrap();
        let at = (column.name.clone(), element(column, &cell.path));
        if cell.is_live(NOW_S) {
            let ends = cell.is_expiring().then_some(cell.local_deletion_time);
            out.live.insert(at, (cell.timestamp, ends, cell.value.to_vec()));
        } else {
            let made = cell.local_deletion_time - if cell.is_expiring() { cell.ttl as u32 } else { 0 };
            out.dead.insert(at, (cell.timestamp, made));
        }
    }
    out
}

/// What an engine reads of a table.
fn read(engine: &Engine, request: &ScanRequest) -> World {
    let mut stream = engine.read(&request.command, &ReadContext::default()).unwrap();
    let table = &request.command.table;
    let (mut out, mut fragment) = (World::new(), Fragment::default());
    let mut open: Option<(ClusteringBound, Deletion)> = None;
    let mut key = fragment.key.clone();
    let side = |bound: &ClusteringBound| (values(&bound.prefix), bound.kind == BoundKind::ExclStart);
    loop {
        match stream.next(&mut fragment).unwrap() {
            Event::PartitionStart => {
                key = fragment.key.clone();
                let d = fragment.deletion;
                let part = out.entry(key.clone()).or_default();
                part.deletion = (!d.is_none()).then_some((d.timestamp, d.local_deletion_time));
            }
            event @ (Event::StaticRow | Event::Row) => {
                let at = (event == Event::Row).then(|| values(&fragment.row.clustering));
                let known = known(table, &fragment.row);
                if known != Known::default() {
                    out.get_mut(&key).unwrap().rows.insert(at, known);
                }
            }
            Event::RangeChange => {
                let change = &fragment.change;
                if let Some((from, d)) = open.take() {
                    let range = (side(&from), side(&change.position), (d.timestamp, d.local_deletion_time));
                    out.get_mut(&key).unwrap().ranges.push(range);
                }
                open = (!change.deletion.is_none()).then(|| (change.position.clone(), change.deletion));
            }
            Event::PartitionEnd => {}
            Event::End => break,
        }
    }
    out.retain(|_, part| *part != Part::default());
    out
}

/// The live cells of a column in a row of a batch.
fn live_cells(batch: &RecordBatch, at: usize, column: &ColumnDef) -> BTreeMap<Option<String>, LiveCell> {
    let name = &column.name;
    let Some(value) = to_bytes(&column.ty, batch.column_by_name(name).unwrap(), at) else {
        return BTreeMap::new();
    };
    let times = batch.column_by_name(&format!("writetime({name})")).unwrap();
    let ttls = batch.column_by_name(&format!("ttl({name})")).unwrap();
    let ends = |ttl: Option<i32>| ttl.map(|left| NOW_S + left as u32);
    if !column.is_multi_cell() {
        let time = times.as_primitive::<Int64Type>().value(at);
        let ttl = ttls.is_valid(at).then(|| ttls.as_primitive::<Int32Type>().value(at));
        return BTreeMap::from([(None, (time, ends(ttl), value.to_vec()))]);
    }
    let (times, ttls) = (times.as_list::<i32>().value(at), ttls.as_list::<i32>().value(at));
    let (times, ttls) = (times.as_primitive::<Int64Type>(), ttls.as_primitive::<Int32Type>());
    let cells: Vec<(Vec<u8>, Vec<u8>)> = match &column.ty {
        CqlType::Map { .. } => {
            let all: Vec<_> = tuple_fields(&value[4..]).map(|v| v.unwrap().to_vec()).collect();
            all.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        }
        _ => elements(&value).map(|v| (v.unwrap().to_vec(), Vec::new())).collect(),
    };
    let cell = |(i, (path, value)): (usize, (Vec<u8>, Vec<u8>))| {
        let ttl = ttls.is_valid(i).then(|| ttls.value(i));
        (element(column, &path), (times.value(i), ends(ttl), value))
    };
    cells.into_iter().enumerate().map(cell).collect()
}

fn text(of: &StructArray, name: &str, at: usize) -> Option<String> {
    let array = of.column_by_name(name).unwrap();
    array.is_valid(at).then(|| array.as_string::<i32>().value(at).to_owned())
}

fn bound(of: &StructArray, name: &str, at: usize, table: &TableSchema) -> (Vec<Vec<u8>>, bool) {
    let bound = of.column_by_name(name).unwrap();
    let is_end = name == "end";
    if bound.is_null(at) {
        return (Vec::new(), is_end);
    }
    let bound = bound.as_struct();
    let length = bound.column_by_name("length").unwrap().as_primitive::<Int32Type>().value(at);
    let inclusive = bound.column_by_name("inclusive").unwrap().as_boolean().value(at);
    let found = bound.column_by_name("values").unwrap().as_struct();
    let columns = table.visible_clustering().iter().take(length as usize);
    let values =
        columns.map(|c| to_bytes(&c.ty, found.column_by_name(&c.name).unwrap(), at).unwrap().to_vec());
    (values.collect(), inclusive == is_end)
}

/// What scans of splits handed out, put together.
pub(super) fn together(source: &Source, request: &ScanRequest, splits: &[Split]) -> (World, u64) {
    let table = &request.command.table;
    let (mut out, mut deletions) = (World::new(), 0);
    for split in splits {
        let mut scan = source.scan(request, split);
        for batch in scan.by_ref() {
            let batch = batch.unwrap();
            (0..batch.num_rows()).for_each(|at| take(&batch, at, table, &mut out));
        }
        deletions += scan.counts().deletions;
    }
    (out, deletions)
}

fn take(batch: &RecordBatch, at: usize, table: &TableSchema, out: &mut World) {
    let value = |c: &Arc<ColumnDef>| to_bytes(&c.ty, batch.column_by_name(&c.name).unwrap(), at);
    let key: Vec<Bytes> = table.partition_key().iter().map(|c| value(c).unwrap()).collect();
    let key: Vec<&[u8]> = key.iter().map(|v| v.as_ref()).collect();
    let part = out.entry(DecoratedKey::new(PartitionKey::from_components(&key))).or_default();
    let clustering: Option<Vec<Vec<u8>>> =
        table.visible_clustering().iter().map(|c| value(c).map(|v| v.to_vec())).collect();
    let deletions = batch.column_by_name(DELETION).unwrap().as_struct();
    if deletions.is_valid(at) {
        let number =
            |name: &str| deletions.column_by_name(name).unwrap().as_primitive::<Int64Type>().value(at);
        let time = (number("timestamp"), number("local_deletion_time") as u32);
        let (column, element) = (text(deletions, "column", at), text(deletions, "element", at));
        let is_static = column.as_ref().is_some_and(|c| table.column(c).unwrap().kind == ColumnKind::Static);
        let row_at = if is_static { None } else { clustering };
        let kind = text(deletions, "kind", at).unwrap();
        if kind == "partition" {
            assert_eq!(part.deletion.replace(time), None);
            return;
        }
        if kind == "range" {
            let bounds = ["start", "end"].map(|name| bound(deletions, name, at, table));
            let [start, end] = bounds;
            part.ranges.push((start, end, time));
            return;
        }
        let row = part.rows.entry(row_at).or_default();
        match kind.as_str() {
            "row" => assert_eq!(row.deletion.replace(time), None),
            "marker" => assert_eq!(row.marker.replace(time), None),
            "collection" => assert_eq!(row.collections.insert(column.unwrap(), time), None),
            "cell" | "element" => {
                assert_eq!(element.is_some(), kind == "element");
                assert_eq!(row.dead.insert((column.unwrap(), element), time), None);
            }
            other => panic!("{other}"),
        }
        return;
    }
    let cells_of = |columns: &[Arc<ColumnDef>]| {
        let of = |c: &Arc<ColumnDef>| {
            let cells = live_cells(batch, at, c);
            cells.into_iter().map(|(element, cell)| ((c.name.clone(), element), cell)).collect::<Vec<_>>()
        };
        columns.iter().flat_map(of).collect::<BTreeMap<_, _>>()
    };
    let statics = cells_of(table.static_columns());
    if !statics.is_empty() {
        part.rows.entry(None).or_default().live = statics;
    }
    if clustering.is_some() && !table.is_static_compact() {
        let row = part.rows.entry(clustering).or_default();
        row.live = cells_of(table.regular_columns());
        let times = batch.column_by_name("writetime()").unwrap();
        let ttls = batch.column_by_name("ttl()").unwrap().as_primitive::<Int32Type>();
        row.inserted = times.is_valid(at).then(|| {
            let ends = ttls.is_valid(at).then(|| NOW_S + ttls.value(at) as u32);
            (times.as_primitive::<Int64Type>().value(at), ends)
        });
    }
}

fn request_of(table: &Arc<TableSchema>, deletions: bool) -> ScanRequest {
    let options = ScanOptions { deletions, ..ScanOptions::default() };
    ScanRequest::of_table(table, None, NOW_S, options).unwrap()
}

#[test]
fn rows_and_deletions_together_are_the_whole_table() {
    let mut met = 0;
    for seed in 0..90 {
        let mut history = History::new(seed);
        let table = history.table();
        let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
        let random = Random::from_seed(seed);
        for update in history.updates() {
            let _ = engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap();
            if random.below(8) == 0 {
                engine.flush(&table.keyspace, None).unwrap();
            }
        }
        let source = Source::of_node(engine.table(table.id).unwrap().hold());
        let request = request_of(source.table(), true);
        let expected = read(&engine, &request);
        for parts in [1, 3] {
            let splits = source.splits(&request, parts).unwrap();
            let (found, deletions) = together(&source, &request, &splits);
            assert_eq!(found, expected, "seed {seed}");
            met += deletions;
        }
        // What is live is what a scan without deletions has.
        let plain = request_of(source.table(), false);
        let live: Vec<Vec<Shown>> = super::rows_of(&source, &plain, &[Split::FULL]);
        let mut among = Vec::new();
        for batch in source.scan(&request, &Split::FULL) {
            let batch = batch.unwrap();
            let deletions = batch.column_by_name(DELETION).unwrap();
            for at in (0..batch.num_rows()).filter(|at| deletions.is_null(*at)) {
                rows_of_batch(&plain, &batch.slice(at, 1), &mut among);
            }
        }
        assert_eq!(among, live, "seed {seed}");
    }
    assert!(met > 2000, "{met}");
}

#[test]
fn what_makes_no_sense_with_deletions_is_refused() {
    let table = History::new(0).table();
    let options = ScanOptions { deletions: true, ..ScanOptions::default() };
    let all = request_of(&table, true).command;
    let refused = |change: &dyn Fn(&mut model::command::ReadCommand), columns: Option<&[String]>, options| {
        let mut command = all.as_ref().clone();
        change(&mut command);
        ScanRequest::of_command(command, columns, options).unwrap_err().to_string()
    };
    assert!(refused(&|command| command.limits.rows = 5, None, options).contains("limit"));
    let none = ClusteringFilter::Names { names: Vec::new(), reversed: false };
    assert!(refused(&|command| command.clusterings = none.clone(), None, options).contains("conditions"));
    let flat = ScanOptions { form: Form::Flat, ..options };
    assert!(refused(&|_| {}, None, flat).contains("CSV"));
    let names = ["k".to_owned(), "a".to_owned()];
    assert!(refused(&|_| {}, Some(&names), options).contains("column c"));
}

/// A table of Thrift whose rows are static ones for the engine.
#[test]
fn rows_of_static_compact_tables_have_deletions() {
    let mut builder = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .clustering("column1", CqlType::Text, false)
        .static_column("a", CqlType::Int)
        .static_column("b", CqlType::Int)
        .regular("value", CqlType::Blob);
    builder.compact = Some(CompactStorage::Static);
    let table = Arc::new(builder.build());
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    let [a, b] = ["a", "b"].map(|name| table.column(name).unwrap().id);
    let row = |cells: Vec<Cell>| {
        let mut row = Row::new(Clustering::empty());
        row.cells.extend(cells);
        row
    };
    let live = |column| Cell::live(column, 5, vec![0, 0, 0, 7].into());
    let updates = [
        (1, Deletion::NONE, Some(row(vec![live(a), Cell::tombstone(b, 6, NOW_S)]))),
        (2, Deletion::NONE, Some(row(vec![Cell::tombstone(a, 6, NOW_S)]))),
        (3, Deletion::new(9, NOW_S), None),
    ];
    for (key, deletion, static_row) in updates {
        let key = DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(&i32::to_be_bytes(key))));
        let update =
            PartitionUpdate { deletion, static_row, ..PartitionUpdate::new(Arc::clone(&table), key) };
        let _ = engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap();
    }
    let source = Source::of_node(engine.table(table.id).unwrap().hold());
    let mut command = request_of(source.table(), false).command.as_ref().clone();
    command.clusterings = ClusteringFilter::Names { names: Vec::new(), reversed: false };
    let options = ScanOptions { deletions: true, ..ScanOptions::default() };
    let request = ScanRequest::of_command(command, None, options).unwrap();
    let (found, deletions) = together(&source, &request, &[Split::FULL]);
    assert_eq!(found, read(&engine, &request));
    assert_eq!((found.len(), deletions), (3, 3));
    let batch = source.scan(&request, &Split::FULL).next().unwrap().unwrap();
    let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert!(names.iter().all(|name| !name.contains("column1") && !name.contains("value")), "{names:?}");
}
