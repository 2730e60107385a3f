//! Partitions as sstabledump's JSON.

use super::super::output::Output;
use super::times;
use super::writer::JsonWriter;
use model::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnDef, CqlType, DecoratedKey, Deletion, Liveness, Row,
    TableSchema, counter,
};
use std::io;
use std::sync::Arc;

/// How it is to look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// A line for each partition instead of one document.
    pub(super) lines: bool,
    /// Timestamps and times as numbers.
    pub(super) raw_times: bool,
    /// The present, for what has expired; seconds.
    pub(super) now_s: i64,
}

/// Writes partitions as they come.
pub(super) struct JsonDump<'o> {
    json: JsonWriter<'o>,
    table: Arc<TableSchema>,
    style: Style,
    partitions: usize,
    /// Where the next row starts.
    row_at: u64,
    /// The partition whose rows have not begun yet.
    head: Option<(DecoratedKey, Deletion)>,
    open: Deletion,
}

fn column_name(name: &str) -> String {
    cql::ast::Identifier::quoted(name).to_cql()
}

impl<'o> JsonDump<'o> {
    pub(super) fn new(out: &'o mut Output, table: Arc<TableSchema>, style: Style) -> JsonDump<'o> {
        let mut json = JsonWriter::new(out, style.lines);
        if !style.lines {
            json.start_array();
        }
        JsonDump { json, table, style, partitions: 0, row_at: 0, head: None, open: Deletion::NONE }
    }

    /// Ends the document.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if !self.style.lines {
            self.json.end_array();
        }
        self.json.flush()
    }

    fn time(&self, micros: i64) -> String {
        if self.style.raw_times { micros.to_string() } else { times::of_micros(micros) }
    }

    fn seconds(&self, seconds: u32) -> String {
        let seconds = i64::from(seconds);
        if self.style.raw_times { seconds.to_string() } else { times::of_seconds(seconds) }
    }

    /// The key alone, for a list of keys.
    pub(super) fn key(&mut self, key: &DecoratedKey) -> io::Result<()> {
        let types: Vec<CqlType> = self.table.partition_key().iter().map(|c| c.ty.clone()).collect();
        self.json.compact_objects = true;
        self.json.compact_arrays = true;
        self.json.start_array();
        for (i, ty) in types.iter().enumerate() {
            let Some(value) = key.key.component(types.len(), i) else { break };
            self.json.string(&ty.to_text(value));
        }
        self.json.end_array();
        self.json.compact_objects = false;
        self.json.compact_arrays = false;
        self.json.flush_if_large()
    }

    /// A partition starts.
    pub(super) fn start(&mut self, key: &DecoratedKey, deletion: Deletion) {
        self.head = Some((key.clone(), deletion));
        self.open = Deletion::NONE;
    }

    /// Writes the head of the partition, once it is known where its rows start.
    fn begin_rows(&mut self, rows_at: u64) -> io::Result<()> {
        let Some((key, deletion)) = self.head.take() else { return Ok(()) };
        if self.style.lines && self.partitions > 0 {
            self.json.between("\n");
        }
        self.partitions += 1;
        self.json.start_object();
        self.json.name("table kind");
        self.json.string("REGULAR");
        self.json.name("partition");
        self.json.start_object();
        self.json.name("key");
        self.key(&key)?;
        self.json.field("position", rows_at);
        if !deletion.is_none() {
            self.deletion(&deletion);
        }
        self.json.end_object();
        self.json.name("rows");
        self.json.start_array();
        self.row_at = rows_at;
        Ok(())
    }

    /// The static row, behind which the rows start at `rows_at`.
    pub(super) fn static_row(&mut self, row: &Row, rows_at: u64) -> io::Result<()> {
        self.begin_rows(rows_at)?;
        self.row(row, true)
    }

    /// A row at `position` of the data.
    pub(super) fn plain_row(&mut self, row: &Row, position: u64) -> io::Result<()> {
        self.begin_rows(position)?;
        self.row_at = position;
        self.row(row, false)
    }

    /// The partition is over, at `position` of the data.
    pub(super) fn end(&mut self, position: u64) -> io::Result<()> {
        self.begin_rows(position)?;
        self.json.end_array();
        self.json.end_object();
        self.json.flush_if_large()
    }

    fn row(&mut self, row: &Row, is_static: bool) -> io::Result<()> {
        self.json.start_object();
        self.json.name("type");
        self.json.string(if is_static { "static_block" } else { "row" });
        self.json.field("position", self.row_at);
        if !is_static {
            self.clustering(&row.clustering);
        }
        let liveness = row.liveness;
        if !liveness.is_none() {
            self.json.compact_objects = false;
            self.json.name("liveness_info");
            self.json.compact_objects = true;
            self.json.start_object();
            self.json.name("tstamp");
            self.json.string(&self.time(liveness.timestamp));
            if liveness.is_expiring() {
                self.expiration(liveness.ttl, liveness.local_expiration_time);
            }
            self.json.end_object();
            self.json.compact_objects = false;
        }
        if !row.deletion.is_none() {
            self.deletion(&row.deletion);
        }
        self.json.name("cells");
        self.json.start_array();
        let table = Arc::clone(&self.table);
        let columns = if is_static { table.static_columns() } else { table.regular_columns() };
        for column in columns {
            self.column(column, row, &liveness);
        }
        self.json.end_array();
        self.json.end_object();
        self.json.flush_if_large()
    }

    fn expiration(&mut self, ttl: i32, at: u32) {
        self.json.field("ttl", ttl);
        self.json.name("expires_at");
        self.json.string(&self.seconds(at));
        self.json.field("expired", i64::from(at) < self.style.now_s);
    }

    fn clustering(&mut self, clustering: &Clustering) {
        if clustering.is_empty() {
            return;
        }
        self.json.name("clustering");
        self.json.compact_objects = true;
        self.json.start_array();
        self.json.compact_arrays = true;
        for (i, column) in self.table.clustering_columns().iter().enumerate() {
            match i < clustering.len() {
                true => self.json.raw(&column.ty.to_json(clustering.value(i))),
                false => self.json.string("*"),
            }
        }
        self.json.end_array();
        self.json.compact_objects = false;
        self.json.compact_arrays = false;
    }

    fn deletion(&mut self, deletion: &Deletion) {
        self.json.name("deletion_info");
        self.json.compact_objects = true;
        self.json.start_object();
        self.json.name("marked_deleted");
        self.json.string(&self.time(deletion.timestamp));
        self.json.name("local_delete_time");
        self.json.string(&self.seconds(deletion.local_deletion_time));
        self.json.end_object();
        self.json.compact_objects = false;
    }

    fn column(&mut self, column: &ColumnDef, row: &Row, liveness: &Liveness) {
        if let Some((_, deletion)) = row.complex_deletions.iter().find(|(id, _)| *id == column.id) {
            self.json.compact_objects = true;
            self.json.start_object();
            self.json.name("name");
            self.json.string(&column_name(&column.name));
            self.deletion(deletion);
            self.json.compact_objects = true;
            self.json.end_object();
            self.json.compact_objects = false;
        }
        for cell in row.cells_of(column.id) {
            self.cell(column, cell, liveness);
        }
    }

    fn cell(&mut self, column: &ColumnDef, cell: &Cell, liveness: &Liveness) {
        self.json.start_object();
        self.json.compact_objects = true;
        self.json.name("name");
        self.json.string(&column_name(&column.name));
        if column.is_multi_cell() {
            self.json.name("path");
            self.json.compact_arrays = true;
            self.json.start_array();
            self.json.string(&path_text(&column.ty, &cell.path));
            self.json.end_array();
            self.json.compact_arrays = false;
        }
        if cell.is_tombstone() {
            self.json.name("deletion_info");
            self.json.compact_objects = true;
            self.json.start_object();
            self.json.name("local_delete_time");
            self.json.string(&self.seconds(cell.local_deletion_time));
            self.json.end_object();
            self.json.compact_objects = false;
        } else {
            self.json.name("value");
            self.json.raw(&value_json(&column.ty, cell));
        }
        if liveness.is_none() || cell.timestamp != liveness.timestamp {
            self.json.name("tstamp");
            self.json.string(&self.time(cell.timestamp));
        }
        if cell.is_expiring() && (liveness.is_none() || cell.ttl != liveness.ttl) {
            self.json.field("ttl", cell.ttl);
            self.json.name("expires_at");
            self.json.string(&self.seconds(cell.local_deletion_time));
            self.json.field("expired", i64::from(cell.local_deletion_time) <= self.style.now_s);
        }
        self.json.end_object();
        self.json.compact_objects = false;
    }

    /// The open range deletion changes at `bound` of the row position that the data is at, `position`.
    pub(super) fn change(
        &mut self,
        bound: &ClusteringBound,
        deletion: Deletion,
        position: u64,
    ) -> io::Result<()> {
        self.begin_rows(position)?;
        let before = std::mem::replace(&mut self.open, deletion);
        let (starts, ends) = (!deletion.is_none(), !before.is_none());
        self.json.start_object();
        self.json.name("type");
        let is_boundary = starts && ends;
        self.json.string(if is_boundary { "range_tombstone_boundary" } else { "range_tombstone_bound" });
        // Of a change only its side is known: before or after what the prefix is a prefix of.
        let is_before = bound.kind == BoundKind::InclStart;
        if starts {
            self.bound("start", is_before, &bound.prefix, &deletion);
        }
        if ends {
            self.bound("end", !is_before, &bound.prefix, &before);
        }
        self.json.end_object();
        self.json.compact_objects = false;
        self.json.flush_if_large()
    }

    fn bound(&mut self, side: &str, is_inclusive: bool, prefix: &Clustering, deletion: &Deletion) {
        self.json.name(side);
        self.json.start_object();
        self.json.name("type");
        self.json.string(if is_inclusive { "inclusive" } else { "exclusive" });
        self.clustering(prefix);
        self.deletion(deletion);
        self.json.end_object();
    }
}

/// What tells the cells of a multi-cell column apart.
pub(super) fn path_text(ty: &CqlType, path: &[u8]) -> String {
    if let CqlType::Udt { definition, .. } = ty {
        let field = path.try_into().map(u16::from_be_bytes).ok();
        let name = field.and_then(|i| definition.fields.get(usize::from(i)));
        return name.map(|(name, _)| name.clone()).unwrap_or_default();
    }
    ty.path_type().map(|path_type| path_type.to_text(path)).unwrap_or_default()
}

/// The type of a cell's value.
pub(super) fn value_type<'t>(ty: &'t CqlType, path: &[u8]) -> &'t CqlType {
    match ty {
        CqlType::List { element, multi_cell: true } => element,
        CqlType::Set { multi_cell: true, .. } => &CqlType::Empty,
        CqlType::Map { value, multi_cell: true, .. } => value,
        CqlType::Udt { definition, multi_cell: true } => {
            let field = path.try_into().map(u16::from_be_bytes).ok();
            field.and_then(|i| definition.fields.get(usize::from(i))).map_or(&CqlType::Blob, |(_, ty)| ty)
        }
        other => other,
    }
}

/// The value of a cell. Of a counter it is the total, where sstabledump has the first eight bytes of the
/// shards.
pub(super) fn value_json(ty: &CqlType, cell: &Cell) -> String {
    match ty {
        CqlType::Counter => counter::total(&cell.value).to_string(),
        _ => value_type(ty, &cell.path).to_json(Some(&cell.value)),
    }
}
