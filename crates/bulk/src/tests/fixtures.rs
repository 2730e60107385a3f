//! Files of real Cassandras, scanned, and compared with what those Cassandras answered.

use super::values::show_bytes;
use super::{rows_of, values::Shown};
use crate::{EmptyValues, ScanOptions, ScanRequest, Source, Split};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use env::fs::disk::DiskFileSystem;
use env::fs::{EntryKind, FileSystem};
use model::{CqlType, TableSchema};
use serde_json::Value;
use sstable::{SsTable, Uncached, descriptor};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// A table of a set, and what its Cassandra answered.
struct Fixture {
    name: String,
    source: Source,
    json: Value,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures")
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// All tables of all sets.
fn all() -> Vec<PathBuf> {
    let below = |path: &Path| -> Vec<PathBuf> {
        let entries = DiskFileSystem.read_dir(path).unwrap().into_iter();
        let directories = entries.filter(|entry| entry.kind == EntryKind::Dir);
        let mut paths: Vec<_> = directories.map(|entry| path.join(entry.name)).collect();
        paths.sort();
        paths
    };
    let has_rows = |table: &PathBuf| DiskFileSystem.exists(&table.join("rows.json")).unwrap();
    below(&directory()).iter().flat_map(|set| below(set)).filter(has_rows).collect()
}

/// The table with the columns that the node named; types come from the files.
fn table_of(json: &Value, sstables: &[SsTable]) -> Arc<TableSchema> {
    let columns = json["columns"].as_array().unwrap();
    let names = |kind: &str| -> Vec<String> {
        columns.iter().filter(|c| c["kind"] == kind).map(|c| text(&c["name"]).to_owned()).collect()
    };
    let header = sstables[0].header();
    let mut builder = TableSchema::builder("fixtures", "t", Uuid::from_u128(1));
    let types = CqlType::parse_key_class(&header.key_type).unwrap();
    for (name, ty) in names("partition_key").into_iter().zip(types) {
        builder = builder.partition_key(&name, ty);
    }
    let clusterings = names("clustering");
    for (i, (ty, descending)) in header.clustering.iter().enumerate() {
        let name = clusterings.get(i).cloned().unwrap_or_else(|| format!("hidden {i}"));
        builder = builder.clustering(&name, ty.clone(), *descending);
    }
    let mut seen = Vec::new();
    for header in sstables.iter().map(SsTable::header) {
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
            if let Some(time) = json["dropped"][&column.name].as_i64() {
                builder = builder.drop_column(&column.name, time);
                if columns.iter().any(|c| c["name"] == column.name.as_str()) {
                    builder = add(builder);
                }
            }
        }
    }
    Arc::new(builder.build())
}

impl Fixture {
    fn load(path: &Path) -> Fixture {
        let json: Value =
            serde_json::from_slice(&DiskFileSystem.read(&path.join("rows.json")).unwrap()).unwrap();
        let found = descriptor::live(&DiskFileSystem, path).unwrap();
        let open = |d| SsTable::open(&DiskFileSystem, d, 0, Arc::new(Uncached)).unwrap();
        let table = table_of(&json, &found.iter().map(open).collect::<Vec<_>>());
        let disk: Arc<dyn FileSystem> = Arc::new(DiskFileSystem);
        let source = Source::of_sstables(&disk, &found, &table).unwrap();
        let name = path.strip_prefix(directory()).unwrap().display().to_string();
        Fixture { name, source, json }
    }

    /// The columns that the node answered and the files hold.
    fn columns(&self) -> Vec<String> {
        let columns = self.json["columns"].as_array().unwrap().iter();
        let names = columns.map(|column| text(&column["name"]).to_owned());
        names.filter(|name| self.source.table().column(name).is_some()).collect()
    }

    fn request(&self, columns: &[String], options: ScanOptions) -> ScanRequest {
        let now_s = self.json["now"].as_u64().unwrap() as u32;
        ScanRequest::of_table(self.source.table(), Some(columns), now_s, options).unwrap()
    }

    /// What the node answered for a column, row by row.
    fn answered(&self, column: &str) -> Vec<Option<Vec<u8>>> {
        let columns = self.json["columns"].as_array().unwrap();
        let at = columns.iter().position(|c| c["name"] == column).unwrap();
        let rows = self.json["rows"].as_array().unwrap().iter();
        rows.map(|row| row["values"][at].as_str().map(unhex)).collect()
    }

    fn expected(&self, columns: &[String]) -> Vec<Vec<Shown>> {
        let count = self.json["rows"].as_array().unwrap().len();
        let mut out = vec![Vec::new(); count];
        for column in columns {
            let ty = &self.source.table().column(column).unwrap().ty;
            for (row, value) in out.iter_mut().zip(self.answered(column)) {
                row.push(match ty {
                    // A counter's answer is its total, and that is a bigint.
                    CqlType::Counter => show_bytes(&CqlType::BigInt, value.as_deref()),
                    ty => show_bytes(ty, value.as_deref()),
                });
            }
        }
        out
    }
}

/// Totals of counters are shown like other numbers.
fn as_answered(mut request: ScanRequest) -> ScanRequest {
    for column in &mut request.columns {
        if column.ty.is_counter() {
            Arc::make_mut(column).ty = CqlType::BigInt;
        }
    }
    request
}

#[test]
fn every_fixture_is_scanned_as_its_cassandra_answered() {
    let all = all();
    assert!(all.len() > 100, "{}", all.len());
    let mut known = 0;
    for path in all {
        let fixture = Fixture::load(&path);
        let columns = fixture.columns();
        let request = fixture.request(&columns, ScanOptions::default());
        let shown = as_answered(request.clone());
        let expected = fixture.expected(&columns);
        let mut rows = Vec::new();
        for batch in fixture.source.scan(&request, &Split::FULL) {
            super::rows_of_batch(&shown, &batch.unwrap(), &mut rows);
        }
        assert_eq!(rows, expected, "{}", fixture.name);
        // Each column by itself, and rows only counted.
        for column in &columns {
            let only = std::slice::from_ref(column);
            let request = fixture.request(only, ScanOptions::default());
            let mut rows = Vec::new();
            for batch in fixture.source.scan(&request, &Split::FULL) {
                super::rows_of_batch(&as_answered(request.clone()), &batch.unwrap(), &mut rows);
            }
            assert_eq!(rows, fixture.expected(only), "{} {column}", fixture.name);
        }
        let counted = fixture.source.scan(&fixture.request(&[], ScanOptions::default()), &Split::FULL);
        let count: usize = counted.map(|batch| batch.unwrap().num_rows()).sum();
        assert_eq!(count, expected.len(), "{}", fixture.name);
        if let Some(rows) = fixture.source.known_rows() {
            assert_eq!(rows, expected.len() as u64, "{}", fixture.name);
            known += 1;
        }
    }
    assert!(known >= 8, "{known}");
}

#[test]
fn splits_of_every_size_hold_each_row_once() {
    for path in all() {
        let fixture = Fixture::load(&path);
        let request = fixture.request(&fixture.columns(), ScanOptions::default());
        let whole = rows_of(&fixture.source, &request, &[Split::FULL]);
        for parts in [1, 2, 3, 7, 50] {
            let splits = fixture.source.splits(&request, parts).unwrap();
            assert!(splits.len() as u64 <= parts);
            let rows = rows_of(&fixture.source, &request, &splits);
            assert_eq!(rows, whole, "{} in {parts}", fixture.name);
            // Tokens that nobody chose.
            let cut = |after, through| Split { after, through, ..Split::FULL };
            let at = i64::MAX / 50 * (parts as i64 - 25);
            let halves = [cut(None, Some(at)), cut(Some(at), None)];
            assert_eq!(rows_of(&fixture.source, &request, &halves), whole, "{} at {at}", fixture.name);
        }
    }
}

#[test]
fn deletions_stand_beside_the_rows_that_cassandra_answered() {
    let mut met = std::collections::BTreeMap::<String, u64>::new();
    for path in all() {
        let fixture = Fixture::load(&path);
        let columns = fixture.columns();
        let table = fixture.source.table();
        let mut keys = table.partition_key().iter().chain(table.clustering_columns());
        if keys.any(|key| !columns.contains(&key.name)) {
            continue;
        }
        let options = ScanOptions { deletions: true, ..ScanOptions::default() };
        let request = fixture.request(&columns, options);
        let mut rows = Vec::new();
        for batch in fixture.source.scan(&request, &Split::FULL) {
            let batch = batch.unwrap();
            let deletions = batch.column_by_name(crate::deletion::DELETION).unwrap();
            let kinds = deletions.as_struct().column_by_name("kind").unwrap().as_string::<i32>();
            for at in 0..batch.num_rows() {
                if deletions.is_valid(at) {
                    *met.entry(kinds.value(at).to_owned()).or_default() += 1;
                } else {
                    super::rows_of_batch(&as_answered(request.clone()), &batch.slice(at, 1), &mut rows);
                }
            }
        }
        assert_eq!(rows, fixture.expected(&columns), "{}", fixture.name);
    }
    let kinds: Vec<&str> = met.keys().map(String::as_str).collect();
    let all = ["cell", "collection", "element", "marker", "partition", "range", "row"];
    assert_eq!(kinds, all, "{met:?}");
}

#[test]
fn empty_values_are_counted_marked_or_refused() {
    let mut marked = 0;
    for path in all() {
        let fixture = Fixture::load(&path);
        let table = fixture.source.table();
        let can_be_lost = |name: &String| {
            let column = table.column(name).unwrap();
            column.ty.is_null_when_empty() && !column.is_multi_cell()
        };
        let columns: Vec<String> = fixture.columns().into_iter().filter(can_be_lost).collect();
        let with = |empty_values| {
            let options = ScanOptions { empty_values, ..ScanOptions::default() };
            fixture.source.scan(&fixture.request(&columns, options), &Split::FULL)
        };
        let mut empties = 0;
        let batches: Vec<_> = with(EmptyValues::Marked).map(Result::unwrap).collect();
        for column in &columns {
            let answered = fixture.answered(column);
            let mut at = 0;
            for batch in &batches {
                let marks = batch.column_by_name(&format!("empty({column})")).unwrap().as_boolean().clone();
                for mark in marks.iter() {
                    let is_empty = answered[at].as_ref().is_some_and(Vec::is_empty);
                    assert_eq!(mark, Some(is_empty), "{} {column}", fixture.name);
                    empties += u64::from(is_empty);
                    at += 1;
                }
            }
        }
        let mut scan = with(EmptyValues::Null);
        scan.by_ref().for_each(|batch| drop(batch.unwrap()));
        assert!(scan.counts().empty_values >= empties, "{}", fixture.name);
        let refused = with(EmptyValues::Refused).any(|batch| batch.is_err());
        assert_eq!(refused, scan.counts().empty_values > 0, "{}", fixture.name);
        marked += empties;
    }
    assert!(marked > 20, "{marked}");
}

#[test]
fn write_times_and_ttls_are_those_of_cql() {
    let mut compared = 0;
    for path in all() {
        let fixture = Fixture::load(&path);
        let timed = fixture.json["timed"].as_array().unwrap().iter().map(|name| text(name).to_owned());
        let timed: Vec<String> = timed.filter(|name| fixture.source.table().column(name).is_some()).collect();
        let options = ScanOptions { cell_times: true, ..ScanOptions::default() };
        let request = fixture.request(&timed, options);
        let mut rows = fixture.json["rows"].as_array().unwrap().iter();
        for batch in fixture.source.scan(&request, &Split::FULL) {
            let batch = batch.unwrap();
            for at in 0..batch.num_rows() {
                let row = rows.next().unwrap();
                for name in &timed {
                    let times = batch.column_by_name(&format!("writetime({name})")).unwrap();
                    let time = times.is_valid(at).then(|| times.as_primitive::<Int64Type>().value(at));
                    assert_eq!(time, row["writetime"][name].as_i64(), "{} {name}", fixture.name);
                    let Some(ttls) = batch.column_by_name(&format!("ttl({name})")) else { continue };
                    let ttl =
                        ttls.is_valid(at).then(|| i64::from(ttls.as_primitive::<Int32Type>().value(at)));
                    // Seconds passed while the node was asked.
                    let near = match (ttl, row["ttl"][name].as_i64()) {
                        (Some(a), Some(b)) => (a - b).abs() <= 5,
                        (a, b) => a == b,
                    };
                    assert!(near, "{} {name}: {ttl:?} {}", fixture.name, row["ttl"][name]);
                    compared += 1;
                }
            }
        }
        assert!(timed.is_empty() || rows.next().is_none(), "{}", fixture.name);
    }
    assert!(compared > 1000, "{compared}");
}
