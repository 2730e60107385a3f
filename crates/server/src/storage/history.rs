//! `system.compaction_history`, for `nodetool compactionhistory`.

use super::StorageError;
use crate::system::local::whole_table;
use engine::{Engine, EngineError};
use model::{Row, TableSchema};
use partition::{Event, Fragment, PartitionStream, ReadContext, ReadError};
use std::collections::BTreeMap;
use tools::api::CompactionRecord;
use uuid::Uuid;

/// The compactions of the last week, the newest first.
///
/// # Errors
/// When the table cannot be read.
pub fn compaction_history(engine: &Engine) -> Result<Vec<CompactionRecord>, StorageError> {
    let of = |error: ReadError| StorageError::Engine(EngineError::Read(error));
    let now_s = u32::try_from(engine.env().now_seconds()).unwrap_or(u32::MAX);
    let table = engine.system_table("compaction_history");
    let mut stream = engine.read(&whole_table(&table, now_s), &ReadContext::default()).map_err(of)?;
    let (mut fragment, mut found) = (Fragment::default(), Vec::new());
    loop {
        match stream.next(&mut fragment).map_err(of)? {
            Event::End => break,
            Event::Row => {
                let record = record(&table, &fragment.key.key.0, &fragment.row, now_s);
                found.extend(record.filter(|record| !record.keyspace.is_empty()));
            }
            Event::PartitionStart | Event::StaticRow | Event::RangeChange | Event::PartitionEnd => {}
        }
    }
    found.sort_by(|a, b| (b.compacted_at_millis, &b.id).cmp(&(a.compacted_at_millis, &a.id)));
    Ok(found)
}

fn record(table: &TableSchema, key: &[u8], row: &Row, now_s: u32) -> Option<CompactionRecord> {
    let mut out = CompactionRecord { id: Uuid::from_slice(key).ok()?.to_string(), ..Default::default() };
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, i64::from_be_bytes);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for cell in row.cells.iter().filter(|cell| cell.is_live(now_s)) {
        let value = cell.value.as_ref();
        match table.column_by_id(cell.column)?.name.as_str() {
            "bytes_in" => out.bytes_in = number(value),
            "bytes_out" => out.bytes_out = number(value),
            "columnfamily_name" => out.table = text(value),
            "compacted_at" => out.compacted_at_millis = number(value),
            "keyspace_name" => out.keyspace = text(value),
            "compaction_properties" => out.properties = texts(value).unwrap_or_default(),
            "rows_merged" => {
                let inputs = cell.path.as_ref().try_into().map_or(0, i32::from_be_bytes);
                out.rows_merged.insert(inputs, number(value));
            }
            _ => {}
        }
    }
    Some(out)
}

/// A frozen map of texts.
fn texts(mut bytes: &[u8]) -> Option<BTreeMap<String, String>> {
    let int = |bytes: &mut &[u8]| {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        *bytes = rest;
        usize::try_from(i32::from_be_bytes(*head)).ok()
    };
    let count = int(&mut bytes)?;
    let mut text = || {
        let (head, rest) = int(&mut bytes).and_then(|len| bytes.split_at_checked(len))?;
        bytes = rest;
        Some(String::from_utf8_lossy(head).into_owned())
    };
    (0..count).map(|_| Some((text()?, text()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_as_far_as_it_is_one() {
        let map = b"\0\0\0\x01\0\0\0\x01k\0\0\0\x02vv";
        assert_eq!(texts(map), Some([("k".to_owned(), "vv".to_owned())].into()));
        (0..map.len()).for_each(|len| assert_eq!(texts(&map[..len]), None, "{len}"));
    }
}
