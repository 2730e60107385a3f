//! The fixtures of `crates/testkit/fixtures`: SSTables that real Cassandras wrote, and the rows that they
//! answered.

use crate::descriptor::list;
use crate::{Descriptor, PageSource, SsTable, Uncached};
use bytes::Bytes;
use env::fs::FileSystem;
use env::fs::disk::DiskFileSystem;
use env::fs::memory::MemoryFileSystem;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::multi_cell::assemble;
use model::row::ResultRow;
use model::{Clustering, ColumnDef, Component, CqlType, DecoratedKey, PartitionKey, TableSchema};
use partition::{BoxedStream, ReadContext, ReadError};
use partition::{LiveRows, PageLimits, merge};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// A value, and when it was written and for how long, where Cassandra says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub value: Option<Bytes>,
    pub writetime: Option<i64>,
    pub ttl: Option<i64>,
}

/// A row of a result: one [`Found`] for each column.
pub type FoundRow = Vec<Found>;

/// What a node said about a table.
pub struct Recorded {
    /// Name and kind.
    pub columns: Vec<(String, String)>,
    timed: Vec<String>,
    dropped: HashMap<String, i64>,
    pub now_s: u32,
    /// The answer of SELECT, in its order.
    pub rows: Vec<FoundRow>,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures")
}

fn unhex(text: &str) -> Bytes {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

impl Recorded {
    fn read(path: &Path) -> Recorded {
        let text = DiskFileSystem.read_to_string(path).unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        let string = |v: &Value| v.as_str().unwrap().to_owned();
        let list = |v: &Value| v.as_array().unwrap().clone();
        let columns: Vec<(String, String)> =
            list(&json["columns"]).iter().map(|c| (string(&c["name"]), string(&c["kind"]))).collect();
        let row = |row: &Value| -> FoundRow {
            let values = list(&row["values"]);
            let found = columns.iter().zip(values).map(|((name, _), value)| Found {
                value: value.as_str().map(unhex),
                writetime: row["writetime"][name].as_i64(),
                ttl: row["ttl"][name].as_i64(),
            });
            found.collect()
        };
        let dropped = json["dropped"].as_object().unwrap();
        Recorded {
            timed: list(&json["timed"]).iter().map(string).collect(),
            dropped: dropped.iter().map(|(name, time)| (name.clone(), time.as_i64().unwrap())).collect(),
            now_s: json["now"].as_u64().unwrap() as u32,
            rows: list(&json["rows"]).iter().map(row).collect(),
            columns,
        }
    }

    fn names_of(&self, kind: &str) -> Vec<&str> {
        self.columns.iter().filter(|(_, k)| k == kind).map(|(name, _)| name.as_str()).collect()
    }
}

/// A table of a set: its files in memory, its schema and its rows.
pub struct Fixture {
    pub name: String,
    pub fs: MemoryFileSystem,
    pub descriptors: Vec<Descriptor>,
    pub recorded: Recorded,
}

/// The names in `parent` that are directories with a file `mark`.
fn marked(parent: &Path, mark: &str) -> Vec<String> {
    let entries = DiskFileSystem.read_dir(parent).unwrap();
    let directories = entries.into_iter().filter(|entry| entry.kind == env::fs::EntryKind::Dir);
    let names = directories.map(|entry| entry.name.into_string().unwrap());
    let mut names: Vec<String> =
        names.filter(|name| DiskFileSystem.exists(&parent.join(name).join(mark)).unwrap()).collect();
    names.sort();
    names
}

/// The sets of fixtures.
pub fn sets() -> Vec<String> {
    marked(&directory(), "set.json")
}

/// The tables of a set.
pub fn tables_of(set: &str) -> Vec<String> {
    marked(&directory().join(set), "rows.json")
}

impl Fixture {
    pub fn load(set: &str, table: &str) -> Fixture {
        let source = directory().join(set).join(table);
        let fs = MemoryFileSystem::new();
        let target = PathBuf::from("/data/fixtures").join(table);
        fs.create_dir_all(&target).unwrap();
        for entry in DiskFileSystem.read_dir(&source).unwrap() {
            let bytes = DiskFileSystem.read(&source.join(&entry.name)).unwrap();
            fs.write(&target.join(&entry.name), &bytes).unwrap();
        }
        let descriptors = list(&fs, &target).unwrap().tables.keys().cloned().collect();
        let recorded = Recorded::read(&source.join("rows.json"));
        Fixture { name: format!("{set}/{table}"), fs, descriptors, recorded }
    }

    pub fn open(&self) -> Result<Vec<Arc<SsTable>>, crate::OpenError> {
        let open = |(i, d): (usize, &Descriptor)| {
            SsTable::open(&self.fs, d, i as u64, Arc::new(Uncached)).map(Arc::new)
        };
        self.descriptors.iter().enumerate().map(open).collect()
    }

    /// As [`Fixture::open`], from the disk.
    pub fn open_on_disk(&self, pages: &Arc<dyn PageSource>) -> Vec<Arc<SsTable>> {
        let open = |(i, d): (usize, &Descriptor)| {
            Arc::new(SsTable::open(&DiskFileSystem, d, i as u64, Arc::clone(pages)).unwrap())
        };
        let listing = list(&DiskFileSystem, &directory().join(&self.name)).unwrap();
        listing.tables.keys().enumerate().map(open).collect()
    }

    /// The table with the columns that the node named. Types come from the files, so a column that no file
    /// holds is left out; hidden columns of compact tables keep the names of the files.
    pub fn table(&self, sstables: &[Arc<SsTable>]) -> Arc<TableSchema> {
        let recorded = &self.recorded;
        let header = sstables[0].header();
        let mut builder = TableSchema::builder("fixtures", "t", Uuid::from_u128(1));
        let key_types = CqlType::parse_key_class(&header.key_type).unwrap();
        for (name, ty) in recorded.names_of("partition_key").into_iter().zip(key_types) {
            builder = builder.partition_key(name, ty);
        }
        let clusterings = recorded.names_of("clustering");
        for (i, (ty, descending)) in header.clustering.iter().enumerate() {
            let name = clusterings.get(i).map_or_else(|| format!("hidden {i}"), |name| (*name).to_owned());
            builder = builder.clustering(&name, ty.clone(), *descending);
        }
        let mut seen = Vec::new();
        for header in sstables.iter().map(|sstable| sstable.header()) {
            let statics = header.static_columns.iter().map(|c| (c, true));
            for (column, is_static) in statics.chain(header.regular_columns.iter().map(|c| (c, false))) {
                if seen.contains(&column.name) {
                    continue;
                }
                let add = |builder: model::schema::TableBuilder| match is_static {
                    true => builder.static_column(&column.name, column.ty.clone()),
                    false => builder.regular(&column.name, column.ty.clone()),
                };
                seen.push(column.name.clone());
                builder = add(builder);
                if let Some(time) = recorded.dropped.get(&column.name) {
                    builder = builder.drop_column(&column.name, *time);
                    if recorded.columns.iter().any(|(name, _)| *name == column.name) {
                        builder = add(builder);
                    }
                }
            }
        }
        Arc::new(builder.build())
    }

    /// The keys of the rows that the node answered, each with the range of its rows.
    pub fn partitions(&self) -> Vec<(DecoratedKey, std::ops::Range<usize>)> {
        let count = self.recorded.names_of("partition_key").len();
        let mut out: Vec<(DecoratedKey, std::ops::Range<usize>)> = Vec::new();
        for (i, row) in self.recorded.rows.iter().enumerate() {
            let components: Vec<&[u8]> = row[..count].iter().map(|f| f.value.as_deref().unwrap()).collect();
            let key = DecoratedKey::new(PartitionKey::from_components(&components));
            match out.last_mut() {
                Some((last, range)) if *last == key => range.end = i + 1,
                _ => out.push((key, i..i + 1)),
            }
        }
        out
    }

    /// The clustering of a recorded row; `None` when it has static content only.
    pub fn clustering(&self, row: &FoundRow, table: &TableSchema) -> Option<Clustering> {
        let mut out = Clustering::empty();
        let first = self.recorded.names_of("partition_key").len();
        let count = self.recorded.names_of("clustering").len();
        if count < table.clustering_columns().len()
            || row.get(first).is_some_and(|f| count > 0 && f.value.is_none())
        {
            return None;
        }
        for found in &row[first..first + count] {
            out.push(found.value.as_deref().map_or(Component::Null, Component::Value));
        }
        Some(out)
    }

    pub fn command(&self, table: &Arc<TableSchema>) -> ReadCommand {
        ReadCommand {
            table: Arc::clone(table),
            partitions: PartitionSelection::Range(KeyRange::FULL),
            clusterings: ClusteringFilter::all(),
            columns: ColumnSelection::all(table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: self.recorded.now_s,
        }
    }

    /// The answer of these SSTables to a command.
    pub fn select(
        &self,
        sstables: &[Arc<SsTable>],
        command: &ReadCommand,
    ) -> Result<Vec<FoundRow>, ReadError> {
        let context = ReadContext::default();
        let (filter, columns, table) = (&command.clusterings, &command.columns, &command.table);
        let mut out = Vec::new();
        let mut answer = |sources: Vec<BoxedStream>| -> Result<(), ReadError> {
            let stream = merge(table, sources, command.is_reversed());
            let mut rows =
                LiveRows::new(stream, Arc::new(command.clone()), context.clone(), PageLimits::NONE);
            while let Some(row) = rows.next_row()? {
                out.push(self.found(&row, table));
            }
            Ok(())
        };
        match &command.partitions {
            PartitionSelection::Range(range) => {
                let mut sources: Vec<BoxedStream> = Vec::new();
                for sstable in sstables {
                    sources.push(Box::new(sstable.scan(range, filter, columns, table, &context)?));
                }
                answer(sources)?;
            }
            PartitionSelection::Keys(keys) => {
                for key in keys {
                    let mut sources: Vec<BoxedStream> = Vec::new();
                    for sstable in sstables {
                        sstable.check_filter(&context)?;
                        if !sstable.may_contain(key) {
                            continue;
                        }
                        if let Some(stream) = sstable.read(key, filter, columns, table, &context)? {
                            sources.push(Box::new(stream));
                        }
                    }
                    answer(sources)?;
                }
            }
        }
        Ok(out)
    }

    fn found(&self, row: &ResultRow<'_>, table: &TableSchema) -> FoundRow {
        let key = row.key.key.components(table.partition_key().len()).unwrap();
        let plain = |value: Option<Bytes>| Found { value, writetime: None, ttl: None };
        let found = self.recorded.columns.iter().map(|(name, kind)| {
            let Some(column) = table.column(name) else { return plain(None) };
            match kind.as_str() {
                "partition_key" => plain(Some(key[column.position].clone())),
                "clustering" => {
                    let value = row.row.and_then(|r| r.clustering.value(column.position));
                    plain(value.map(Bytes::copy_from_slice))
                }
                _ => self.cell(row, column),
            }
        });
        found.collect()
    }

    fn cell(&self, row: &ResultRow<'_>, column: &ColumnDef) -> Found {
        let is_static = column.kind == model::ColumnKind::Static;
        let mut out = Found { value: None, writetime: None, ttl: None };
        if column.is_multi_cell() {
            let source = if is_static { row.static_row } else { row.row };
            out.value = source.and_then(|r| assemble(&column.ty, r.cells_of(column.id), row.now_s));
        } else if let Some(cell) = row.live_cell(column.id, is_static) {
            out.value = Some(match column.ty.is_counter() {
                true => Bytes::copy_from_slice(&model::counter::total(&cell.value).to_be_bytes()),
                false => cell.value.clone(),
            });
            if self.recorded.timed.contains(&column.name) {
                out.writetime = Some(cell.timestamp);
                out.ttl =
                    cell.is_expiring().then(|| i64::from(cell.local_deletion_time) - i64::from(row.now_s));
            }
        }
        out
    }
}

/// Whether two answers are the same; seconds passed while a node was asked for what remains of a TTL.
pub fn same(found: &[FoundRow], expected: &[FoundRow]) -> bool {
    let same_ttl = |a: Option<i64>, b: Option<i64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 5,
        (a, b) => a == b,
    };
    let same_cell =
        |a: &Found, b: &Found| a.value == b.value && a.writetime == b.writetime && same_ttl(a.ttl, b.ttl);
    let same_row =
        |a: &FoundRow, b: &FoundRow| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_cell(a, b));
    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| same_row(a, b))
}
