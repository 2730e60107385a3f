//! Exports: their files, and what becomes of them when they are interrupted.

use super::{rows_of, rows_of_batch, values::Shown};
use crate::export::{Compression, ExportOptions, Format, MANIFEST, Manifest, NoProgress, Progress, export};
use crate::{BulkError, ScanOptions, ScanRequest, Source, Split, Table};
use bytes::Bytes;
use env::Env;
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use model::command::PartitionSelection;
use model::{Cell, Clustering, CqlType, DecoratedKey, Deletion, Liveness, PartitionKey, Row, TableSchema};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use partition::{Event, Fragment};
use sstable::{Descriptor, SsTableId, SsTableWriter, Version, WriterOptions, descriptor};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

const NOW_S: u32 = 1_700_000_000;

/// Rows of the table, in bytes that make several splits.
const PARTITIONS: i32 = 700;

fn table() -> Arc<TableSchema> {
    let builder = TableSchema::builder("ks", "t", Uuid::from_u128(9));
    let builder = builder.partition_key("k", CqlType::Int).clustering("c", CqlType::Uuid, false);
    let builder =
        builder.regular("v", CqlType::Blob).regular("m", CqlType::map(CqlType::Text, CqlType::Int, true));
    Arc::new(builder.build())
}

/// A table of about 70 MB in the memory of a file system.
fn world() -> (Env, Source) {
    let table = table();
    let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
    let directory = Path::new("/data/ks/t");
    fs.create_dir_all(directory).unwrap();
    let mut keys: Vec<DecoratedKey> = (0..PARTITIONS)
        .map(|k| DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()])))
        .collect();
    keys.sort();
    let descriptor = Descriptor::new(directory, SsTableId::Sequence(1), Version::NB);
    let options = WriterOptions { estimated_partitions: 700, ..WriterOptions::default() };
    let mut writer = SsTableWriter::new(Arc::clone(&fs), descriptor, Arc::clone(&table), options).unwrap();
    let mut fragment = Fragment::default();
    for (i, key) in keys.into_iter().enumerate() {
        (fragment.key, fragment.deletion) = (key, Deletion::NONE);
        writer.append(Event::PartitionStart, &fragment).unwrap();
        for c in 0..10u128 {
            let clustering = Uuid::from_u128(c);
            let mut row = Row::new(Clustering::from_values([&clustering.as_bytes()[..]]));
            row.liveness = Liveness::new(5);
            let column = |name: &str| table.column(name).unwrap().id;
            let path = Bytes::from(format!("key {i}"));
            row.cells.push(Cell::live(column("m"), 5, Bytes::copy_from_slice(&[0, 0, 0, 1])).with_path(path));
            if c == 1 {
                row.deletion = Deletion::new(4, NOW_S - 9);
            }
            row.cells.push(Cell::live(column("v"), 5, Bytes::from(vec![i as u8; 10_000])));
            row.cells.sort_by_key(|cell| cell.column);
            fragment.row = row;
            writer.append(Event::Row, &fragment).unwrap();
        }
        writer.append(Event::PartitionEnd, &fragment).unwrap();
    }
    writer.finish().unwrap();
    let found = descriptor::live(fs.as_ref(), directory).unwrap();
    let source = Source::of_sstables(&fs, &found, &table).unwrap();
    (Env::for_test(1).with_fs(fs), source)
}

fn shared(source: &Source) -> Arc<dyn Table> {
    Arc::new(source.clone())
}

fn options(format: Format) -> ExportOptions {
    let directory = PathBuf::from("/out").join(format.extension());
    ExportOptions { directory, format, compression: format.default_compression(), threads: 2 }
}

fn request(source: &Source, format: Format) -> ScanRequest {
    let options = ScanOptions { form: format.form(), ..ScanOptions::default() };
    ScanRequest::of_table(source.table(), None, NOW_S, options).unwrap()
}

/// The rows of all Parquet files of a directory.
fn parquet_rows(env: &Env, request: &ScanRequest, directory: &Path) -> Vec<Vec<Shown>> {
    let mut out = Vec::new();
    for name in names(env, directory).iter().filter(|name| name.ends_with(".parquet")) {
        let bytes = Bytes::from(env.fs.read(&directory.join(name)).unwrap());
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap();
        reader.for_each(|batch| rows_of_batch(request, &batch.unwrap(), &mut out));
    }
    out
}

fn names(env: &Env, directory: &Path) -> Vec<String> {
    let entries = env.fs.read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.into_iter().map(|e| e.name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Stops an export after so many batches.
struct Stopped(AtomicU64);

impl Progress for Stopped {
    fn is_stopped(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 0
    }
}

#[test]
fn an_export_that_is_stopped_goes_on_and_holds_each_row_once() {
    let (env, source) = world();
    let request = request(&source, Format::Parquet);
    let options = options(Format::Parquet);
    let expected = rows_of(&source, &request, &[Split::FULL]);
    let mut was_stopped = 0;
    for batches in [1, 2, 2, 1000] {
        // A run that was killed leaves such a file.
        if was_stopped > 0 {
            env.fs.write(&options.directory.join("_part-00000.parquet.tmp"), b"half").unwrap();
        }
        let stopped = Arc::new(Stopped(AtomicU64::new(batches)));
        match export(&env, &shared(&source), &request, &[], &options, stopped) {
            Err(BulkError::Stopped) => was_stopped += 1,
            Ok(summary) => {
                assert_eq!(summary.rows, expected.len() as u64);
                assert!(summary.files > 2 && summary.files_before > 0, "{summary:?}");
            }
            Err(error) => panic!("{error}"),
        }
        // Whatever has its final name is whole.
        let found = parquet_rows(&env, &request, &options.directory);
        assert!(found.iter().all(|row| expected.contains(row)), "after {batches}");
        assert!(batches == 1000 || !names(&env, &options.directory).iter().any(|n| n.ends_with(".tmp")));
    }
    assert!(was_stopped >= 2, "{was_stopped}");
    assert_eq!(parquet_rows(&env, &request, &options.directory), expected);
    let manifest = Manifest::read(env.fs.as_ref(), &options.directory.join(MANIFEST)).unwrap().unwrap();
    assert!(manifest.is_complete && manifest.files.len() == manifest.splits.len());
}

#[test]
fn another_export_is_refused_in_the_same_directory() {
    let (env, source) = world();
    let options = options(Format::Parquet);
    let all = request(&source, Format::Parquet);
    export(&env, &shared(&source), &all, &[], &options, Arc::new(NoProgress)).unwrap();
    let again = |request: &ScanRequest, asked: &[(String, String)], options: &ExportOptions| {
        let failed = export(&env, &shared(&source), request, asked, options, Arc::new(NoProgress));
        failed.unwrap_err().to_string()
    };
    let asked = [("where".to_owned(), "k = 1".to_owned())];
    let expected = "/out/parquet/_manifest.json is of another export (request: all rows then, where k = 1 now); \
                    export into an empty directory";
    assert_eq!(again(&all, &asked, &options), expected);
    let only = ScanRequest::of_table(source.table(), Some(&["k".to_owned()]), NOW_S, ScanOptions::default());
    assert!(again(&only.unwrap(), &[], &options).contains("the columns are others"));
    let other = ExportOptions { compression: Compression::Snappy, ..options.clone() };
    assert!(again(&all, &[], &other).contains("format: parquet zstd then, parquet snappy now"));
    let csv = ExportOptions { format: Format::Csv, compression: Compression::Zstd, ..options };
    assert_eq!(again(&all, &[], &csv), "files of csv are not compressed with zstd");
    // And the same export is over at once.
    let same = ExportOptions { compression: Compression::Zstd, format: Format::Parquet, ..csv };
    let summary = export(&env, &shared(&source), &all, &[], &same, Arc::new(NoProgress)).unwrap();
    assert_eq!(summary.files, summary.files_before);
}

#[test]
fn every_format_has_every_row() {
    let (env, source) = world();
    let count = i64::from(PARTITIONS) * 10;
    for format in [Format::Csv, Format::Json, Format::Arrow, Format::Parquet] {
        let options = options(format);
        let mut request = request(&source, format);
        request.options.token = true;
        let summary = export(&env, &shared(&source), &request, &[], &options, Arc::new(NoProgress)).unwrap();
        assert_eq!(summary.rows, count as u64, "{format}");
        let files: Vec<_> = names(&env, &options.directory).into_iter().filter(|n| n != MANIFEST).collect();
        assert_eq!(files.len(), summary.files, "{format}");
        let mut rows = 0;
        for name in files {
            let bytes = env.fs.read(&options.directory.join(&name)).unwrap();
            rows += match format {
                Format::Csv => bytes.iter().filter(|b| **b == b'\n').count() - 1,
                Format::Json => bytes.iter().filter(|b| **b == b'\n').count(),
                Format::Arrow => {
                    let reader = arrow_ipc::reader::FileReader::try_new(std::io::Cursor::new(bytes), None);
                    reader.unwrap().map(|batch| batch.unwrap().num_rows()).sum()
                }
                Format::Parquet => {
                    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap();
                    let group = builder.metadata().row_group(0);
                    assert_eq!(group.sorting_columns().unwrap()[0].column_idx, 0);
                    assert!(group.column(0).statistics().is_some());
                    builder.metadata().file_metadata().num_rows() as usize
                }
            };
        }
        assert_eq!(rows as i64, count, "{format}");
    }
}

#[test]
fn files_of_csv_without_rows_have_names() {
    let (env, source) = world();
    let mut request = request(&source, Format::Csv);
    let nobody = DecoratedKey::new(PartitionKey::from_components(&[&(-1i32).to_be_bytes()]));
    Arc::make_mut(&mut request.command).partitions = PartitionSelection::Keys(vec![nobody]);
    let options = options(Format::Csv);
    let summary = export(&env, &shared(&source), &request, &[], &options, Arc::new(NoProgress)).unwrap();
    assert_eq!(summary.rows, 0);
    let files: Vec<_> = names(&env, &options.directory).into_iter().filter(|n| n != MANIFEST).collect();
    assert!(!files.is_empty());
    for name in files {
        assert_eq!(env.fs.read(&options.directory.join(name)).unwrap(), b"k,c,m,v\n");
    }
}

#[test]
fn a_limit_holds_over_all_files() {
    let (env, source) = world();
    let mut request = request(&source, Format::Parquet);
    Arc::make_mut(&mut request.command).limits.rows = 4321;
    let options = options(Format::Parquet);
    let stopped = Arc::new(Stopped(AtomicU64::new(3)));
    export(&env, &shared(&source), &request, &[], &options, stopped).unwrap_err();
    let summary = export(&env, &shared(&source), &request, &[], &options, Arc::new(NoProgress)).unwrap();
    assert_eq!(summary.rows, 4321);
    let mut whole = rows_of(&source, &request, &[Split::FULL]);
    whole.truncate(4321);
    assert_eq!(parquet_rows(&env, &request, &options.directory), whole);
}

#[test]
fn deletions_come_into_files_and_are_counted() {
    let (env, source) = world();
    for format in [Format::Parquet, Format::Arrow, Format::Json] {
        let options = options(format);
        let form = ScanOptions { form: format.form(), deletions: true, ..ScanOptions::default() };
        let request = ScanRequest::of_table(source.table(), None, NOW_S, form).unwrap();
        let summary = export(&env, &shared(&source), &request, &[], &options, Arc::new(NoProgress)).unwrap();
        // One of them for each partition, of its second row.
        let partitions = PARTITIONS as u64;
        assert_eq!((summary.rows, summary.deletions), (partitions * 11, partitions), "{format}");
        let manifest = Manifest::read(env.fs.as_ref(), &options.directory.join(MANIFEST)).unwrap().unwrap();
        assert_eq!(manifest.files.iter().map(|file| file.deletions).sum::<u64>(), partitions);
    }
}
