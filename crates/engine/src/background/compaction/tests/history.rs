//! What is written down of compactions.

use super::*;
use crate::system::SYSTEM;

/// The columns of a row with their values, elements of maps as `column[path]`.
type History = Vec<BTreeMap<String, Vec<u8>>>;

fn history(engine: &Engine) -> History {
    let table = engine.system_table("compaction_history");
    let mut found = Vec::new();
    let mut visit = |_: &_, row: Option<&Row>| {
        let Some(row) = row else { return };
        let name = |cell: &Cell| {
            let column = &table.column_by_id(cell.column).unwrap().name;
            match <[u8; 4]>::try_from(cell.path.as_ref()) {
                Ok(path) => format!("{column}[{}]", i32::from_be_bytes(path)),
                Err(_) => column.clone(),
            }
        };
        assert!(row.cells.iter().all(|cell| cell.ttl == 604_800));
        found.push(row.cells.iter().map(|cell| (name(cell), cell.value.to_vec())).collect());
    };
    engine.catalog.scan_table(&table, &mut visit).unwrap();
    found
}

fn number(row: &BTreeMap<String, Vec<u8>>, column: &str) -> Option<i64> {
    row.get(column).map(|bytes| i64::from_be_bytes(bytes.as_slice().try_into().unwrap()))
}

#[test]
fn a_compaction_is_written_down_with_what_it_merged() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", 864_000));
    let engine = open(&fs, &table);
    // In the order of the ring: one SSTable has them all, and no partition is in both others.
    let mut keys: Vec<i32> = (0..30).collect();
    keys.sort_by_key(|k| key(*k).token);
    for (part, micros) in [(0..30, 1), (5..12, 2), (15..25, 3)] {
        for k in keys[part].iter().copied() {
            write(&engine, &insert(&table, k, 0, "value", micros)).unwrap();
        }
        engine.flush("ks", None).unwrap();
    }
    let bytes = |engine: &Engine| -> u64 {
        store(engine, &table).view().sstables.iter().map(|t| t.data_file_bytes()).sum()
    };
    let before = bytes(&engine);
    engine.compact("ks", Some("t")).unwrap();
    let rows = history(&engine);
    let row = rows.iter().find(|row| row["columnfamily_name"] == b"t").expect("it is written down");
    assert_eq!(row["keyspace_name"], b"ks");
    assert_eq!(number(row, "bytes_in"), Some(before as i64));
    assert_eq!(number(row, "bytes_out"), Some(bytes(&engine) as i64));
    let merged = (0..5).map(|n| number(row, &format!("rows_merged[{n}]"))).collect::<Vec<_>>();
    assert_eq!(merged, [None, Some(13), Some(17), None, None]);
    let properties = b"\0\0\0\x01\0\0\0\x0fcompaction_type\0\0\0\x10Major compaction";
    assert_eq!(row["compaction_properties"], properties);
    engine.close();
    let engine = open(&fs, &table);
    assert_eq!(history(&engine).len(), rows.len());
}

#[test]
fn compactions_of_the_history_are_not_written_down() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", 864_000));
    let engine = open(&fs, &table);
    for k in 0..2 {
        write(&engine, &insert(&table, k, 0, "value", 1)).unwrap();
        engine.flush("ks", None).unwrap();
        engine.compact("ks", Some("t")).unwrap();
        engine.flush(SYSTEM, Some("compaction_history")).unwrap();
    }
    let before = history(&engine).len();
    engine.compact(SYSTEM, Some("compaction_history")).unwrap();
    assert_eq!(history(&engine).len(), before);
    assert!(before >= 2);
}
