//! Damaged SSTables.

use crate::{ScanOptions, ScanRequest, Source, Split};
use env::fs::FileSystem;
use env::fs::disk::DiskFileSystem;
use env::fs::memory::MemoryFileSystem;
use model::TableSchema;
use sstable::{Component, SsTable, Uncached, descriptor, table_of_header};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table of a fixture in memory.
pub(super) fn copied(table: &str) -> (Arc<dyn FileSystem>, PathBuf) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures").join(table);
    let (fs, to): (Arc<dyn FileSystem>, _) = (Arc::new(MemoryFileSystem::new()), PathBuf::from("/data/ks/t"));
    fs.create_dir_all(&to).unwrap();
    for entry in DiskFileSystem.read_dir(&from).unwrap() {
        let bytes = DiskFileSystem.read(&from.join(&entry.name)).unwrap();
        fs.write(&to.join(&entry.name), &bytes).unwrap();
    }
    (fs, to)
}

#[test]
fn rows_of_files_that_were_cut_off_are_not_known() {
    let mut known = 0;
    for table in
        ["5.0.5-da/many", "5.0.5-nb/indexed", "5.0.5-oa/keys_only", "5.0.5-oa/many", "5.0.5-da/vectors"]
    {
        let (fs, directory) = copied(table);
        let found = descriptor::live(fs.as_ref(), &directory).unwrap();
        let header = SsTable::open(fs.as_ref(), &found[0], 0, Arc::new(Uncached)).unwrap();
        let schema: Arc<TableSchema> = Arc::new(table_of_header(header.header()).unwrap());
        let rows = || Source::of_sstables(&fs, &found, &schema).ok().and_then(|source| source.known_rows());
        known += u64::from(rows().is_some());
        let data = found[0].path(Component::Data);
        let sound = fs.read(&data).unwrap();
        for len in [0, 1, sound.len() / 2, sound.len() - 1] {
            fs.write(&data, &sound[..len]).unwrap();
            assert_eq!(rows(), None, "{table} cut off at {len}");
        }
    }
    assert!(known >= 2, "{known}");
}

#[test]
fn damaged_data_ends_the_scan_with_file_and_offset() {
    for table in ["5.0.5-da/mix_lz4", "5.0.5-nb/mix_plain", "3.11.19-me/collections", "5.0.5-oa/kinds"] {
        let (fs, directory) = copied(table);
        let found = descriptor::live(fs.as_ref(), &directory).unwrap();
        let header = SsTable::open(fs.as_ref(), &found[0], 0, Arc::new(Uncached)).unwrap();
        let schema: Arc<TableSchema> = Arc::new(table_of_header(header.header()).unwrap());
        let data = found[0].path(Component::Data);
        let sound = fs.read(&data).unwrap();
        let mut named = 0;
        for at in (0..sound.len()).step_by(sound.len() / 40 + 1) {
            let mut bytes = sound.clone();
            bytes[at] ^= 0x40;
            fs.write(&data, &bytes).unwrap();
            let Ok(source) = Source::of_sstables(&fs, &found, &schema) else { continue };
            let request =
                ScanRequest::of_table(&schema, None, 1_700_000_000, ScanOptions::default()).unwrap();
            let mut scan = source.scan(&request, &Split::FULL);
            if let Some(error) = scan.by_ref().find_map(Result::err) {
                let text = error.to_string();
                assert!(text.contains("-Data.db is corrupt at offset "), "{table} at {at}: {text}");
                assert!(scan.next().is_none());
                named += 1;
            }
        }
        assert!(named > 20, "{table}: {named}");
    }
}
