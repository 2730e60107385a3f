//! The schema of a data directory that no node runs on.
//!
//! Only the SSTables of `system_schema` are read. A change that a crash left in the commit log alone is not
//! there; a node that was stopped leaves none. Nothing is locked or changed.

use super::load::{self, SchemaRow, SchemaRows};
use crate::error::EngineError;
use crate::system::{self, SYSTEM_SCHEMA};
use crate::table::HeldTable;
use env::fs::FileSystem;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::schema::Release;
use model::{DecoratedKey, Row, Schema, TableSchema};
use partition::{Event, Fragment, ReadContext};
use sstable::{SsTable, Uncached, descriptor};
use std::path::Path;
use std::sync::Arc;

/// A row of the schema's tables, if it is live at `now_s`.
pub(crate) fn schema_row(
    table: &TableSchema,
    key: &DecoratedKey,
    row: &Row,
    now_s: u32,
) -> Option<SchemaRow> {
    if !row.is_live(now_s) {
        return None;
    }
    let live = row.cells.iter().filter(|c| c.is_live(now_s));
    let named = live.filter_map(|c| Some((table.column_by_id(c.column)?.name.clone(), c.value.clone())));
    Some(SchemaRow {
        keyspace: String::from_utf8_lossy(&key.key.0).into_owned(),
        clustering: row.clustering.iter().filter_map(model::clustering::component_bytes).collect(),
        cells: named.collect(),
    })
}

/// The schema that the SSTables below `data_dir` hold; `None` when there are none of `system_schema`.
///
/// # Errors
/// When they cannot be read, or what they say cannot be.
pub fn schema_of_directory(
    fs: &dyn FileSystem,
    data_dir: &Path,
    now_s: u32,
) -> Result<Option<Schema>, EngineError> {
    let release = Release::V5_0;
    let (mut rows, mut is_there) = (SchemaRows::new(), false);
    for name in system::schema_tables(release) {
        let table = system::table(release, SYSTEM_SCHEMA, name);
        let directory = data_dir.join(SYSTEM_SCHEMA).join(table.directory_name());
        let out = rows.entry(name).or_default();
        if !fs.exists(&directory)? {
            continue;
        }
        let listed = descriptor::live(fs, &directory).map_err(|e| EngineError::Recover(Arc::new(e)))?;
        let open = |d| Ok(Arc::new(SsTable::open(fs, d, 0, Arc::new(Uncached))?));
        let sstables = listed.iter().map(open).collect::<Result<Vec<_>, EngineError>>()?;
        is_there |= !sstables.is_empty();
        let command = ReadCommand {
            table: Arc::clone(&table),
            partitions: PartitionSelection::Range(KeyRange::FULL),
            clusterings: ClusteringFilter::all(),
            columns: ColumnSelection::all(&table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s,
        };
        let mut stream =
            HeldTable::of_sstables(Arc::clone(&table), sstables)?.read(&command, &ReadContext::default())?;
        let mut fragment = Fragment::default();
        loop {
            match stream.next(&mut fragment)? {
                Event::Row => out.extend(schema_row(&table, &fragment.key, &fragment.row, now_s)),
                Event::End => break,
                _ => {}
            }
        }
    }
    is_there.then(|| load::load(&rows)).transpose()
}
