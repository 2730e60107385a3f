//! What the engine itself keeps in `system.local`: the host id, the schema's version, and until where in the
//! commit log each table was truncated. The other columns are the server's; of these the engine reads
//! `release_version`, which says in whose form the directory is. The table is the same in all releases.

use crate::catalog::Catalog;
use crate::commitlog::LogPosition;
use crate::error::EngineError;
use crate::system::{self, SYSTEM};
use bytes::Bytes;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::schema::Release;
use model::{Cell, Clustering, DecoratedKey, Mutation, PartitionKey, PartitionUpdate, Row, TableSchema};
use partition::{Event, Fragment, ReadContext};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// The engine's part of `system.local`.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalState {
    pub(crate) host_id: Option<Uuid>,
    pub(crate) release_version: Option<String>,
    pub(crate) truncated_at: BTreeMap<Uuid, Truncation>,
    /// The newest timestamp, in microseconds.
    pub(crate) newest_micros: Option<i64>,
}

/// A value of `truncated_at`: segment and offset of the commit log, then the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truncation {
    /// What the log holds of the table before this is gone.
    pub(crate) position: LogPosition,
    /// When, in milliseconds since the epoch.
    pub(crate) millis: i64,
}

impl Truncation {
    pub(crate) fn encode(self) -> Bytes {
        let LogPosition { segment, offset } = self.position;
        let parts = [&segment.to_be_bytes()[..], &offset.to_be_bytes(), &self.millis.to_be_bytes()];
        parts.concat().into()
    }

    fn decode(value: &[u8]) -> Option<Truncation> {
        let segment = i64::from_be_bytes(value.get(..8)?.try_into().ok()?);
        let offset = u32::from_be_bytes(value.get(8..12)?.try_into().ok()?);
        // The position counts all the same.
        let millis =
            value.get(12..20).and_then(|bytes| bytes.try_into().ok()).map_or(i64::MIN, i64::from_be_bytes);
        Some(Truncation { position: LogPosition { segment, offset }, millis })
    }
}

fn local_key() -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[b"local"]))
}

impl Catalog {
    /// Reads everything of a table and hands over keys, static rows and rows.
    pub(crate) fn scan_table(
        &self,
        table: &Arc<TableSchema>,
        mut visit: impl FnMut(&DecoratedKey, Option<&Row>),
    ) -> Result<(), EngineError> {
        let command = ReadCommand {
            table: Arc::clone(table),
            partitions: PartitionSelection::Range(KeyRange::FULL),
            clusterings: ClusteringFilter::all(),
            columns: ColumnSelection::all(table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: self.now_s(),
        };
        let mut stream = self.read(&command, &ReadContext::default())?;
        let mut fragment = Fragment::default();
        loop {
            match stream.next(&mut fragment)? {
                Event::PartitionStart => visit(&fragment.key, None),
                Event::Row => visit(&fragment.key, Some(&fragment.row)),
                Event::StaticRow | Event::RangeChange | Event::PartitionEnd => {}
                Event::End => return Ok(()),
            }
        }
    }

    pub(crate) fn now_s(&self) -> u32 {
        u32::try_from(self.env.now_seconds()).unwrap_or(0)
    }

    pub(crate) fn read_local(&self) -> Result<LocalState, EngineError> {
        let table = system::table(self.release(), SYSTEM, "local");
        let now_s = self.now_s();
        let column = |name: &str| table.column(name).map(|c| c.id);
        let (host_id, truncated_at) = (column("host_id"), column("truncated_at"));
        let release_version = column("release_version");
        let mut out = LocalState::default();
        self.scan_table(&table, |_, row| {
            let Some(row) = row else { return };
            out.newest_micros = out.newest_micros.max(row.cells.iter().map(|c| c.timestamp).max());
            for cell in row.cells.iter().filter(|c| c.is_live(now_s)) {
                if Some(cell.column) == host_id {
                    out.host_id = Uuid::from_slice(&cell.value).ok();
                } else if Some(cell.column) == release_version {
                    out.release_version = Some(String::from_utf8_lossy(&cell.value).into_owned());
                } else if Some(cell.column) == truncated_at
                    && let (Ok(id), Some(at)) =
                        (Uuid::from_slice(&cell.path), Truncation::decode(&cell.value))
                {
                    out.truncated_at.insert(id, at);
                }
            }
        })?;
        Ok(out)
    }
}

/// A write of these cells of the only row; each has a column, a path and a value.
pub(crate) fn local_mutation(release: Release, micros: i64, cells: &[(&str, Bytes, Bytes)]) -> Mutation {
    let table = system::table(release, SYSTEM, "local");
    let mut row = Row::new(Clustering::empty());
    for (name, path, value) in cells {
        if let Some(column) = table.column(name) {
            row.cells.push(Cell::live(column.id, micros, value.clone()).with_path(path.clone()));
        }
    }
    row.cells.sort_by_key(|cell| cell.column);
    let mut update = PartitionUpdate::new(table, local_key());
    update.rows.push(row);
    Mutation::of(update)
}
