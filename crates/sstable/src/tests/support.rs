//! Random tables and partitions, and what a read of them should yield.

use crate::compression::CompressionParams;
use crate::{
    Component, Descriptor, FileId, FilePart, PageSource, SsTable, SsTableId, SsTableMeta, SsTableWriter,
    Uncached, Version, WriterOptions,
};
use bytes::Bytes;
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use model::clustering::Position;
use model::command::{ClusteringFilter, ColumnSelection};
use model::{
    Cell, Clustering, ClusteringBound, ColumnDef, CqlType, DecoratedKey, Deletion, Liveness,
    NO_DELETION_TIME, PartitionKey, RangeTombstone, Row, Slice, TableSchema,
};
use partition::codec::{StatsCollector, changes_of_tombstones};
use partition::{Event, Fragment, PartitionStream, RangeChange, ReadContext, ReadError};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use uuid::Uuid;

/// A generator that a seed repeats.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A row or a range change.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Row(Row),
    Change(RangeChange),
}

impl Item {
    pub fn position(&self) -> Position<'_> {
        match self {
            Item::Row(row) => Position::row(&row.clustering),
            Item::Change(change) => change.position.position(),
        }
    }
}

/// A partition in memory, in storage order.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    pub key: DecoratedKey,
    pub deletion: Deletion,
    pub static_row: Option<Row>,
    pub items: Vec<Item>,
}

pub fn key(i: u32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(&i.to_be_bytes())))
}

pub fn random_table(rng: &mut Rng) -> Arc<TableSchema> {
    let mut builder = TableSchema::builder("ks", "t", Uuid::from_u128(1)).partition_key("k", CqlType::Int);
    for i in 0..rng.below(4) {
        let ty = if rng.chance(60) { CqlType::Int } else { CqlType::Text };
        builder = builder.clustering(&format!("c{i}"), ty, rng.chance(40));
    }
    if rng.chance(50) {
        builder = builder.static_column("s", CqlType::Text);
        builder = builder.static_column("ss", CqlType::set(CqlType::Int, true));
    }
    if rng.chance(15) {
        return Arc::new(builder.regular("n", CqlType::Counter).build());
    }
    let many = if rng.chance(10) { 70 } else { rng.below(5) };
    for i in 0..many {
        let ty = match rng.below(6) {
            0 => CqlType::Text,
            1 => CqlType::map(CqlType::Int, CqlType::Text, true),
            2 => CqlType::list(CqlType::BigInt, true),
            3 => CqlType::Blob,
            4 => CqlType::Vector { element: Arc::new(CqlType::Float), dimension: 2 },
            _ => CqlType::Int,
        };
        builder = builder.regular(&format!("r{i}"), ty);
    }
    Arc::new(builder.build())
}

fn random_value(rng: &mut Rng, ty: &CqlType, tie: i64) -> Bytes {
    match ty {
        CqlType::Counter => model::counter::global([rng.below(3) as u8; 16], 1 + tie, rng.below(100) as i64),
        CqlType::Int => Bytes::copy_from_slice(&(rng.below(9) as i32).to_be_bytes()),
        CqlType::BigInt | CqlType::Vector { .. } => Bytes::copy_from_slice(&rng.next().to_be_bytes()),
        CqlType::Blob if rng.chance(10) => Bytes::from(vec![rng.next() as u8; 3000]),
        _ => {
            let len = rng.below(12) as usize;
            Bytes::from((0..len).map(|_| b'a' + rng.below(26) as u8).collect::<Vec<_>>())
        }
    }
}

fn random_cell(rng: &mut Rng, def: &ColumnDef, path: Bytes) -> Cell {
    let timestamp = 1_700_000_000_000_000 + rng.below(5) as i64;
    let ty = match &def.ty {
        CqlType::Map { value, .. } => value.as_ref(),
        CqlType::List { element, .. } => element.as_ref(),
        other => other,
    };
    let value = if matches!(def.ty, CqlType::Set { .. }) { Bytes::new() } else { random_value(rng, ty, 0) };
    let value = if rng.chance(10) && !def.ty.is_counter() { Bytes::new() } else { value };
    let local = 1_700_000_000 + rng.below(3) as u32;
    let cell = match rng.below(10) {
        0 | 1 => Cell::tombstone(def.id, timestamp, local),
        2 | 3 if !def.ty.is_counter() => {
            Cell::expiring(def.id, timestamp, 100 + rng.below(2) as i32, local, value)
        }
        _ => Cell::live(def.id, timestamp, value),
    };
    cell.with_path(path)
}

fn random_row(rng: &mut Rng, clustering: Clustering, columns: &[Arc<ColumnDef>], is_static: bool) -> Row {
    let mut row = Row::new(clustering);
    if !is_static && rng.chance(60) {
        let timestamp = 1_700_000_000_000_000 + rng.below(5) as i64;
        row.liveness = match rng.chance(30) {
            true => Liveness::expiring(timestamp, 100, 1_700_000_000 + rng.below(3) as u32),
            false => Liveness::new(timestamp),
        };
    }
    if !is_static && rng.chance(10) {
        row.deletion = Deletion::new(1_600_000_000_000_000, 1_600_000_000);
    }
    for def in columns.iter() {
        if rng.chance(40) {
            continue;
        }
        let Some(path_type) = def.ty.path_type() else {
            row.cells.push(random_cell(rng, def, Bytes::new()));
            continue;
        };
        if rng.chance(30) {
            row.complex_deletions.push((def.id, Deletion::new(1_650_000_000_000_000, 1_650_000_000)));
        }
        let mut paths: Vec<Bytes> = (0..rng.below(4))
            .map(|_| match path_type {
                CqlType::TimeUuid => {
                    let mut id = [0u8; 16];
                    id[6] = 0x10;
                    id[3] = rng.below(200) as u8;
                    Bytes::copy_from_slice(&id)
                }
                _ => Bytes::copy_from_slice(&(rng.below(50) as i32).to_be_bytes()),
            })
            .collect();
        paths.sort_by(|a, b| def.ty.compare_paths(a, b));
        paths.dedup();
        for path in paths {
            let cell = random_cell(rng, def, path);
            row.cells.push(cell);
        }
    }
    row.cells.sort_by_key(|cell| cell.column);
    row.complex_deletions.sort_by_key(|(column, _)| *column);
    row
}

pub fn random_clustering(rng: &mut Rng, table: &TableSchema, len: usize) -> Clustering {
    let mut out = Clustering::empty();
    for def in table.clustering_columns().iter().take(len) {
        let value = match def.ty {
            CqlType::Int => (rng.below(8) as i32).to_be_bytes().to_vec(),
            _ => vec![b'a' + rng.below(3) as u8; rng.below(3) as usize],
        };
        out.push(model::Component::Value(&value));
    }
    out
}

pub fn random_slice(rng: &mut Rng, table: &TableSchema) -> Slice {
    let count = table.clustering_columns().len() as u64;
    loop {
        let (a, b) = (rng.below(count + 1) as usize, rng.below(count + 1) as usize);
        let start = random_clustering(rng, table, a);
        let end = if rng.chance(30) { start.clone() } else { random_clustering(rng, table, b) };
        let kinds = [
            if rng.chance(50) { model::BoundKind::InclStart } else { model::BoundKind::ExclStart },
            if rng.chance(50) { model::BoundKind::InclEnd } else { model::BoundKind::ExclEnd },
        ];
        let bound = |kind, prefix: Clustering| match (prefix.is_empty(), kind) {
            (true, model::BoundKind::ExclStart) => ClusteringBound::BOTTOM,
            (true, model::BoundKind::ExclEnd) => ClusteringBound::TOP,
            _ => ClusteringBound::new(kind, prefix),
        };
        let slice = Slice { start: bound(kinds[0], start), end: bound(kinds[1], end) };
        if !slice.is_empty(table.comparator()) {
            return slice;
        }
    }
}

pub fn random_partition(rng: &mut Rng, table: &TableSchema, key: DecoratedKey, rows: u64) -> Partition {
    let comparator = table.comparator();
    let mut clusterings: Vec<Clustering> = (0..rng.below(rows + 1))
        .map(|_| random_clustering(rng, table, table.clustering_columns().len()))
        .collect();
    clusterings.sort_by(|a, b| comparator.compare(a, b));
    clusterings.dedup();
    let mut items: Vec<Item> = clusterings
        .into_iter()
        .map(|c| random_row(rng, c, table.regular_columns(), false))
        .filter(|row| !row.is_empty())
        .map(Item::Row)
        .collect();
    let tombstones: Vec<RangeTombstone> = (0..if rng.chance(60) { rng.below(6) } else { 0 })
        .map(|_| RangeTombstone {
            slice: random_slice(rng, table),
            deletion: Deletion::new(1_500_000_000_000_000 + rng.below(3) as i64, 1_500_000_000),
        })
        .collect();
    if !table.clustering_columns().is_empty() {
        items.extend(changes_of_tombstones(&tombstones, comparator).into_iter().map(Item::Change));
    }
    items.sort_by(|a, b| comparator.compare_positions(a.position(), b.position()));
    let static_row = (table.has_statics() && rng.chance(60))
        .then(|| random_row(rng, Clustering::empty(), table.static_columns(), true))
        .filter(|row| !row.is_empty());
    let deletion = match rng.chance(15) {
        true => Deletion::new(1_400_000_000_000_000, 1_400_000_000),
        false => Deletion::NONE,
    };
    Partition { key, deletion, static_row, items }
}

pub fn random_partitions(rng: &mut Rng, table: &TableSchema, count: u64, rows: u64) -> Vec<Partition> {
    let keys: BTreeMap<DecoratedKey, ()> = (0..count).map(|i| (key(i as u32 * 3), ())).collect();
    keys.into_keys().map(|key| random_partition(rng, table, key, rows)).collect()
}

impl Partition {
    pub fn is_empty(&self) -> bool {
        self.deletion.is_none() && self.static_row.is_none() && self.items.is_empty()
    }

    /// The range deletion that holds at a row's position.
    pub fn deletion_at(&self, table: &TableSchema, position: Position<'_>) -> Deletion {
        let comparator = table.comparator();
        let mut holds = Deletion::NONE;
        for item in &self.items {
            if let Item::Change(change) = item
                && comparator.compare_positions(change.position.position(), position) == Ordering::Less
            {
                holds = change.deletion;
            }
        }
        holds
    }

    pub fn append_to(&self, writer: &mut SsTableWriter) {
        let mut fragment = Fragment { key: self.key.clone(), deletion: self.deletion, ..Fragment::default() };
        writer.append(Event::PartitionStart, &fragment).unwrap();
        if let Some(row) = &self.static_row {
            fragment.row = row.clone();
            writer.append(Event::StaticRow, &fragment).unwrap();
        }
        for item in &self.items {
            match item {
                Item::Row(row) => {
                    fragment.row = row.clone();
                    writer.append(Event::Row, &fragment).unwrap();
                }
                Item::Change(change) => {
                    fragment.change = change.clone();
                    writer.append(Event::RangeChange, &fragment).unwrap();
                }
            }
        }
        writer.append(Event::PartitionEnd, &fragment).unwrap();
    }
}

pub const DIRECTORY: &str = "/data/ks/t-1";

pub fn options(
    partitions: &[Partition],
    compression: Option<CompressionParams>,
    block: u64,
) -> WriterOptions {
    let mut stats = StatsCollector::default();
    for partition in partitions {
        stats.add_deletion(&partition.deletion);
        partition.static_row.iter().for_each(|row| stats.add_row(row));
        for item in &partition.items {
            match item {
                Item::Row(row) => stats.add_row(row),
                Item::Change(change) => stats.add_deletion(&change.deletion),
            }
        }
    }
    WriterOptions {
        compression,
        column_index_bytes: block,
        row_index_bytes: block,
        estimated_partitions: partitions.len() as u64,
        encoding_stats: stats.stats(),
        min_index_interval: 4,
        ..WriterOptions::default()
    }
}

pub fn descriptor(id: u64) -> Descriptor {
    Descriptor::new(DIRECTORY, SsTableId::Sequence(id), Version::NB)
}

/// One of the versions that are written.
pub fn random_version(rng: &mut Rng) -> Version {
    [Version::NB, Version::OA, Version::DA][rng.below(3) as usize]
}

/// Writes partitions into an empty file system; `None` when there was nothing to write.
pub fn write(
    fs: &Arc<dyn FileSystem>,
    table: &Arc<TableSchema>,
    partitions: &[Partition],
    options: WriterOptions,
) -> Option<SsTableMeta> {
    write_version(fs, table, partitions, options, Version::NB)
}

/// As [`write`], in another version.
pub fn write_version(
    fs: &Arc<dyn FileSystem>,
    table: &Arc<TableSchema>,
    partitions: &[Partition],
    options: WriterOptions,
    version: Version,
) -> Option<SsTableMeta> {
    fs.create_dir_all(Path::new(DIRECTORY)).unwrap();
    let descriptor = Descriptor { version, ..descriptor(1) };
    let mut writer = SsTableWriter::new(fs.clone(), descriptor, table.clone(), options).unwrap();
    partitions.iter().for_each(|partition| partition.append_to(&mut writer));
    if partitions.iter().all(Partition::is_empty) {
        writer.abort().unwrap();
        assert_eq!(fs.read_dir(Path::new(DIRECTORY)).unwrap(), []);
        return None;
    }
    Some(writer.finish().unwrap())
}

/// Removes the proof of what was written, which is read from then on as if Cassandra had written it.
pub fn forget_proof(fs: &dyn FileSystem, version: Version) {
    fs.remove_file(&Descriptor { version, ..descriptor(1) }.path(Component::Proof)).unwrap();
}

/// The same file system, shared.
pub fn shared(fs: &MemoryFileSystem) -> Arc<dyn FileSystem> {
    Arc::new(fs.clone())
}

pub fn memory() -> Arc<dyn FileSystem> {
    Arc::new(MemoryFileSystem::new())
}

pub fn open(fs: &Arc<dyn FileSystem>) -> Result<Arc<SsTable>, crate::OpenError> {
    open_version(fs, Version::NB)
}

/// Opens what [`write_version`] wrote.
pub fn open_version(fs: &Arc<dyn FileSystem>, version: Version) -> Result<Arc<SsTable>, crate::OpenError> {
    let descriptor = Descriptor { version, ..descriptor(1) };
    SsTable::open(fs.as_ref(), &descriptor, 1, Arc::new(Uncached)).map(Arc::new)
}

/// Reads a stream to its end and checks the grammar on the way.
pub fn collect(
    stream: &mut dyn PartitionStream,
    table: &TableSchema,
    reversed: bool,
) -> Result<Vec<Partition>, ReadError> {
    let mut out: Vec<Partition> = Vec::new();
    let mut fragment = Fragment::default();
    let (mut inside, mut open) = (false, Deletion::NONE);
    loop {
        match stream.next(&mut fragment)? {
            Event::End => {
                assert!(!inside);
                return Ok(out);
            }
            Event::PartitionStart => {
                assert!(!inside && out.last().is_none_or(|p| p.key < fragment.key));
                inside = true;
                open = Deletion::NONE;
                let (key, deletion) = (fragment.key.clone(), fragment.deletion);
                out.push(Partition { key, deletion, static_row: None, items: Vec::new() });
            }
            Event::PartitionEnd => {
                assert!(inside && open.is_none());
                inside = false;
            }
            Event::StaticRow => {
                let partition = out.last_mut().unwrap();
                assert!(inside && partition.static_row.is_none() && partition.items.is_empty());
                assert!(fragment.row.clustering.is_empty() && !fragment.row.is_empty());
                partition.static_row = Some(fragment.row.clone());
            }
            event => {
                let item = match event {
                    Event::Row => Item::Row(fragment.row.clone()),
                    _ => {
                        assert_ne!(fragment.change.deletion, open, "consecutive changes differ");
                        open = fragment.change.deletion;
                        Item::Change(fragment.change.clone())
                    }
                };
                let items = &mut out.last_mut().unwrap().items;
                if let Some(last) = items.last() {
                    let order = table.comparator().compare_positions(last.position(), item.position());
                    assert_eq!(
                        order,
                        if reversed { Ordering::Greater } else { Ordering::Less },
                        "{last:?} {item:?}"
                    );
                }
                items.push(item);
            }
        }
    }
}

/// Checks that `found` is what a read of `expected` with `filter` yields.
pub fn check(
    table: &TableSchema,
    expected: &Partition,
    filter: &ClusteringFilter,
    found: &Partition,
    rng: &mut Rng,
) {
    let comparator = table.comparator();
    let reversed = filter.is_reversed();
    assert_eq!((&found.key, found.deletion), (&expected.key, expected.deletion));
    assert_eq!(found.static_row, expected.static_row);
    let mut rows: Vec<&Row> = expected
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Row(row) if filter.selects(comparator, &row.clustering) => Some(row),
            _ => None,
        })
        .collect();
    if reversed {
        rows.reverse();
    }
    let found_rows = || {
        found.items.iter().filter_map(|item| match item {
            Item::Row(row) => Some(row),
            Item::Change(_) => None,
        })
    };
    assert_eq!(found_rows().collect::<Vec<_>>(), rows);
    let probes: Vec<Clustering> = (0..40)
        .map(|_| random_clustering(rng, table, table.clustering_columns().len()))
        .chain(rows.iter().map(|row| row.clustering.clone()))
        .filter(|c| filter.selects(comparator, c))
        .collect();
    for probe in &probes {
        let here = Position::row(probe);
        let mut holds = Deletion::NONE;
        for item in &found.items {
            let Item::Change(change) = item else { continue };
            let order = comparator.compare_positions(change.position.position(), here);
            if (order == Ordering::Less) != reversed {
                holds = change.deletion;
            }
        }
        assert_eq!(holds, expected.deletion_at(table, here), "at {probe:?}");
    }
}

pub fn all(table: &TableSchema) -> ColumnSelection {
    ColumnSelection::all(table)
}

/// A cache that keeps everything until it is told to forget.
#[derive(Debug, Default)]
pub struct Kept(pub Mutex<HashMap<(FileId, u64), Bytes>>);

impl PageSource for Kept {
    fn has(&self, file: FileId, page: u64) -> bool {
        self.0.lock().unwrap().contains_key(&(file, page))
    }

    fn page(
        &self,
        file: FileId,
        page: u64,
        context: &ReadContext,
        load: &mut dyn FnMut() -> Result<Bytes, ReadError>,
    ) -> Result<Bytes, ReadError> {
        let known = self.0.lock().unwrap().get(&(file, page)).cloned();
        crate::count_page(context, file.part, known.is_some());
        if let Some(known) = known {
            return Ok(known);
        }
        let loaded = load()?;
        self.0.lock().unwrap().insert((file, page), loaded.clone());
        Ok(loaded)
    }
}

impl Kept {
    /// Drops pages of these parts and numbers.
    pub fn forget(&self, forgets: impl Fn(FilePart, u64) -> bool) {
        self.0.lock().unwrap().retain(|(file, page), _| !forgets(file.part, *page));
    }

    /// The pages that are kept.
    pub fn pages(&self) -> impl Iterator<Item = (FileId, u64)> {
        self.0.lock().unwrap().keys().copied().collect::<Vec<_>>().into_iter()
    }
}

pub fn context() -> ReadContext {
    ReadContext::default()
}

/// What a read that does not want `cell`'s value yields of it.
pub fn without_value(cell: &Cell) -> Cell {
    let mut out = cell.clone();
    if out.local_deletion_time == NO_DELETION_TIME || out.is_expiring() {
        out.value = Bytes::new();
    }
    out
}

/// Bytes that no compressor makes shorter.
pub fn noise(rng: &mut Rng, len: usize) -> Bytes {
    (0..len.div_ceil(4)).flat_map(|_| (rng.next() as u32).to_be_bytes()).take(len).collect::<Vec<_>>().into()
}

pub fn wide_table(columns: usize) -> Arc<TableSchema> {
    let mut builder = TableSchema::builder("ks", "t", Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false);
    for i in 0..columns {
        builder = builder.regular(&format!("v{i:02}"), CqlType::Blob);
    }
    Arc::new(builder.build())
}

pub fn at(c: i32) -> Clustering {
    Clustering::from_values([&c.to_be_bytes()[..]])
}

/// Partitions of so many rows, each of as many blobs as the table has columns, written ten columns at a time.
pub fn wide_partitions(
    table: &TableSchema,
    partitions: u32,
    rows: i32,
    value_bytes: usize,
) -> Vec<Partition> {
    let mut rng = Rng::new(7);
    let mut row = |c: i32| {
        let mut row = Row::new(at(c));
        let groups = table.regular_columns().len() as i64 / 10;
        row.liveness = Liveness::new(1_700_000_000_000_000 + groups - 1);
        for (i, column) in table.regular_columns().iter().enumerate() {
            let timestamp = 1_700_000_000_000_000 + i as i64 / 10;
            row.cells.push(Cell::live(column.id, timestamp, noise(&mut rng, value_bytes)));
        }
        Item::Row(row)
    };
    let mut out: Vec<Partition> = (0..partitions)
        .map(|k| Partition {
            key: key(k),
            deletion: Deletion::NONE,
            static_row: None,
            items: (0..rows).map(&mut row).collect(),
        })
        .collect();
    out.sort_by(|a, b| a.key.cmp(&b.key));
    out
}
