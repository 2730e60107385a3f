//! Rows of a result appended to columns.
//!
//! Columns are kept by what they are for, those of cells in the order in which a row has its cells. So a row
//! is walked once, and nothing is searched for.

use crate::BulkError;
use crate::columns::{Column, Detail};
use crate::deletion::{DELETION, deletion_type};
use crate::request::{EmptyValues, Form, Part, ScanRequest, time_type};
use arrow_array::{ArrayRef, BooleanArray, Int64Array};
use arrow_buffer::BooleanBufferBuilder;
use model::multi_cell::assemble_into;
use model::row::ResultRow;
use model::types::collection::push_element;
use model::{
    Cell, Clustering, ColumnDef, ColumnId, ColumnKind, CqlType, DecoratedKey, Liveness, Row, TableSchema,
};
use partition::{PlainCell, PlainRow, PlainValue};
use std::sync::Arc;

/// A column of the table and what is handed out of it.
struct Target {
    def: Arc<ColumnDef>,
    /// Its place among the requested columns.
    place: usize,
    value: Column,
    /// Whether each value was empty.
    empty: Option<BooleanBufferBuilder>,
    write_time: Option<Column>,
    ttl: Option<Column>,
}

/// What stands beside the columns of the table where deletions are handed out.
struct Beside {
    write_time: Column,
    /// None for counters.
    ttl: Option<Column>,
    deletion: Column,
}

impl Beside {
    fn new(request: &ScanRequest) -> Beside {
        let (table, form) = (&request.command.table, request.options.form);
        Beside {
            write_time: Column::new(&CqlType::BigInt, form),
            ttl: (!table.is_counter).then(|| Column::new(&CqlType::Int, form)),
            deletion: Column::new(&deletion_type(table), form),
        }
    }

    /// What a live row was inserted with.
    fn append_inserted(&mut self, row: &ResultRow<'_>) -> Result<(), Detail> {
        self.deletion.append_null();
        let liveness = row.row.map(|row| row.liveness).filter(|liveness| liveness.is_live(row.now_s));
        match liveness {
            Some(liveness) => self.write_time.append(&liveness.timestamp.to_be_bytes())?,
            None => self.write_time.append_null(),
        }
        let Some(ttl) = &mut self.ttl else { return Ok(()) };
        match liveness.filter(Liveness::is_expiring) {
            Some(liveness) => ttl.append(&seconds_left(liveness.local_expiration_time, row.now_s)),
            None => {
                ttl.append_null();
                Ok(())
            }
        }
    }

    fn append_deletion(&mut self, deletion: &[u8]) -> Result<(), Detail> {
        self.write_time.append_null();
        self.ttl.iter_mut().for_each(Column::append_null);
        self.deletion.append(deletion)
    }

    fn finish(&mut self, arrays: &mut Vec<ArrayRef>) -> Result<u64, BulkError> {
        arrays.push(self.write_time.finish()?);
        if let Some(ttl) = &mut self.ttl {
            arrays.push(ttl.finish()?);
        }
        let empties = self.deletion.take_empties();
        arrays.push(self.deletion.finish()?);
        Ok(empties)
    }
}

/// All columns of a batch.
pub(super) struct RowColumns {
    table: Arc<TableSchema>,
    /// Tokens of the rows, where they are asked for.
    tokens: Option<Vec<i64>>,
    keys: Vec<Target>,
    clusterings: Vec<Target>,
    /// By id.
    statics: Vec<Target>,
    regulars: Vec<Target>,
    /// The columns that come last, where deletions are asked for.
    beside: Option<Beside>,
    refuses_empty: bool,
    /// A multi-cell value while it is put together.
    scratch: Vec<u8>,
}

impl RowColumns {
    pub fn new(request: &ScanRequest) -> RowColumns {
        let form = request.options.form;
        let outputs = request.outputs();
        let has = |def: &ColumnDef, part| outputs.iter().any(|(c, p)| c.id == def.id && *p == part);
        let target = |(place, def): (usize, &Arc<ColumnDef>)| Target {
            def: Arc::clone(def),
            place,
            value: Column::new(&def.ty, form),
            empty: has(def, Part::IsEmpty).then(|| BooleanBufferBuilder::new(0)),
            write_time: has(def, Part::WriteTime).then(|| times(def, CqlType::BigInt, form)),
            ttl: has(def, Part::Ttl).then(|| times(def, CqlType::Int, form)),
        };
        let of_kind = |kind| -> Vec<Target> {
            let columns = request.columns.iter().enumerate();
            let mut targets: Vec<Target> = columns.filter(|(_, def)| def.kind == kind).map(target).collect();
            targets.sort_by_key(|target| (target.def.position, target.def.id));
            targets
        };
        let mut columns = RowColumns {
            table: Arc::clone(&request.command.table),
            tokens: request.options.token.then(Vec::new),
            keys: of_kind(ColumnKind::PartitionKey),
            clusterings: of_kind(ColumnKind::Clustering),
            statics: of_kind(ColumnKind::Static),
            regulars: of_kind(ColumnKind::Regular),
            beside: request.options.deletions.then(|| Beside::new(request)),
            refuses_empty: request.options.empty_values == EmptyValues::Refused,
            scratch: Vec::new(),
        };
        columns.statics.sort_by_key(|target| target.def.id);
        columns.regulars.sort_by_key(|target| target.def.id);
        columns
    }

    /// Appends a row; returns the bytes of its values.
    #[inline]
    pub fn append(&mut self, row: &ResultRow<'_>) -> Result<u64, BulkError> {
        let mut bytes = self.append_partition(row)?;
        for target in &mut self.clusterings {
            let value = row.row.and_then(|row| row.clustering.value(target.def.position));
            bytes += target.append_value(value)?;
        }
        bytes += append_cells(&mut self.regulars, row.row, row.now_s, &mut self.scratch)?;
        if let Some(beside) = &mut self.beside {
            beside.append_inserted(row).map_err(wrong_beside)?;
        }
        Ok(bytes)
    }

    /// Appends a deletion of a partition, or of something at a clustering of it; returns the bytes of its
    /// values.
    pub fn append_deletion(
        &mut self,
        key: &DecoratedKey,
        clustering: Option<&Clustering>,
        deletion: &[u8],
    ) -> Result<u64, BulkError> {
        let of = ResultRow { key, static_row: None, row: None, now_s: 0 };
        let mut bytes = self.append_partition(&of)? + deletion.len() as u64;
        for target in &mut self.clusterings {
            bytes += target.append_value(clustering.and_then(|c| c.value(target.def.position)))?;
        }
        append_cells(&mut self.regulars, None, 0, &mut self.scratch)?;
        if let Some(beside) = &mut self.beside {
            beside.append_deletion(deletion).map_err(wrong_beside)?;
        }
        Ok(bytes)
    }

    /// Appends what all rows of a partition have: its key and its static columns.
    #[inline]
    fn append_partition(&mut self, row: &ResultRow<'_>) -> Result<u64, BulkError> {
        let mut bytes = 0;
        let key = &row.key.key;
        if let Some(tokens) = &mut self.tokens {
            tokens.push(row.key.token.0);
        }
        let components = self.table.partition_key().len();
        for target in &mut self.keys {
            let value = key.component(components, target.def.position);
            bytes += target.append_value(value)?;
        }
        bytes += append_cells(&mut self.statics, row.static_row, row.now_s, &mut self.scratch)?;
        Ok(bytes)
    }

    /// As [`RowColumns::append`], of a plain row and the rest of what belongs to it.
    #[inline]
    pub fn append_plain(&mut self, base: &ResultRow<'_>, row: PlainRow<'_>) -> Result<u64, BulkError> {
        let mut bytes = self.append_partition(base)?;
        for target in &mut self.clusterings {
            bytes += target.append_plain(row.clustering(target.def.position))?;
        }
        let mut cells = row.cells().iter();
        let mut next = cells.next();
        for target in &mut self.regulars {
            while next.is_some_and(|cell| cell.column < target.def.id) {
                next = cells.next();
            }
            let cell = next.filter(|cell| cell.column == target.def.id);
            bytes += target.append_plain(cell.map(|cell| row.value(cell.value)))?;
            if let Some(write_time) = &mut target.write_time {
                append_plain_time(write_time, cell).map_err(|detail| wrong(&target.def, detail))?;
            }
            if let Some(ttl) = &mut target.ttl {
                ttl.append_null();
            }
        }
        Ok(bytes)
    }

    /// The arrays of the rows appended since the last call, in the order of the schema, and how many empty
    /// values became null.
    pub fn finish(&mut self) -> Result<(Vec<ArrayRef>, u64), BulkError> {
        let groups = [&mut self.keys, &mut self.clusterings, &mut self.statics, &mut self.regulars];
        let mut targets: Vec<&mut Target> = groups.into_iter().flatten().collect();
        targets.sort_by_key(|target| target.place);
        let (mut arrays, mut empties) = (Vec::<ArrayRef>::new(), 0);
        if let Some(tokens) = &mut self.tokens {
            arrays.push(Arc::new(Int64Array::from(std::mem::take(tokens))));
        }
        for target in targets {
            let found = target.value.take_empties();
            if found > 0 && self.refuses_empty {
                let detail = format!("{found} empty values of type {}, which Arrow has not", target.def.ty);
                return Err(target.wrong(detail));
            }
            empties += found;
            let array = target.value.finish();
            arrays.push(array.map_err(|e| target.wrong(e.to_string()))?);
            if let Some(empty) = &mut target.empty {
                arrays.push(Arc::new(BooleanArray::new(empty.finish(), None)));
            }
            for times in [&mut target.write_time, &mut target.ttl].into_iter().flatten() {
                arrays.push(times.finish()?);
            }
        }
        if let Some(beside) = &mut self.beside {
            empties += beside.finish(&mut arrays)?;
        }
        Ok((arrays, empties))
    }
}

#[cold]
fn wrong_beside(detail: Detail) -> BulkError {
    BulkError::Value { column: DELETION.to_owned(), detail }
}

/// Seconds until a moment.
fn seconds_left(until_s: u32, now_s: u32) -> [u8; 4] {
    i32::try_from(until_s.saturating_sub(now_s)).unwrap_or(i32::MAX).to_be_bytes()
}

#[cold]
fn wrong(def: &ColumnDef, detail: Detail) -> BulkError {
    BulkError::Value { column: def.name.clone(), detail }
}

/// The write time of a cell of a plain row. A multi-cell column has none there.
fn append_plain_time(column: &mut Column, cell: Option<&PlainCell>) -> Result<(), Detail> {
    match cell {
        Some(cell) => column.append(&cell.timestamp.to_be_bytes()),
        None => {
            column.append_null();
            Ok(())
        }
    }
}

fn times(def: &ColumnDef, ty: CqlType, form: Form) -> Column {
    Column::new(&time_type(def, ty), form)
}

impl Target {
    fn wrong(&self, detail: Detail) -> BulkError {
        wrong(&self.def, detail)
    }

    /// Appends a value without what accompanies it but for whether it is empty; returns its length.
    #[inline]
    fn append_value(&mut self, value: Option<&[u8]>) -> Result<u64, BulkError> {
        if let Some(empty) = &mut self.empty {
            empty.append(value.is_some_and(<[u8]>::is_empty));
        }
        let Some(value) = value else {
            self.value.append_null();
            return Ok(0);
        };
        match self.value.append(value) {
            Ok(()) => Ok(value.len() as u64),
            Err(detail) => Err(self.wrong(detail)),
        }
    }

    /// As [`Target::append_value`], of a value that lies in a page.
    #[inline]
    fn append_plain(&mut self, value: Option<PlainValue<'_>>) -> Result<u64, BulkError> {
        if self.empty.is_none()
            && let Some(value) = value
            && let Some((len, padded)) = value.padded()
            && self.value.append_short(len, padded)
        {
            return Ok(len as u64);
        }
        self.append_value(value.map(|value| value.bytes()))
    }

    /// Appends the cells of the column, which may be none.
    #[inline]
    fn append(&mut self, cells: &[Cell], now_s: u32, scratch: &mut Vec<u8>) -> Result<u64, BulkError> {
        let bytes = match cells {
            [] => self.append_value(None)?,
            [cell] if !self.def.is_multi_cell() => {
                self.append_value(cell.is_live(now_s).then_some(cell.value.as_ref()))?
            }
            _ => {
                scratch.clear();
                let is_there = assemble_into(scratch, &self.def.ty, cells, now_s);
                self.append_value(is_there.then_some(scratch))?
            }
        };
        if self.write_time.is_some() {
            self.append_times(cells, now_s, scratch)?;
        }
        Ok(bytes)
    }

    fn append_times(&mut self, cells: &[Cell], now_s: u32, scratch: &mut Vec<u8>) -> Result<(), BulkError> {
        let live = || cells.iter().filter(|cell| cell.is_live(now_s));
        let ttl_of = |cell: &Cell| cell.is_expiring().then(|| seconds_left(cell.local_deletion_time, now_s));
        let written = |cell: &Cell| Some(cell.timestamp.to_be_bytes());
        let is_multi_cell = self.def.is_multi_cell();
        let [write_time, ttl] = [&mut self.write_time, &mut self.ttl];
        let mut result = Ok(());
        if let Some(column) = write_time {
            result = append_time(column, live(), written, is_multi_cell, scratch);
        }
        if let Some(column) = ttl {
            result = result.and(append_time(column, live(), ttl_of, is_multi_cell, scratch));
        }
        result.map_err(|detail| self.wrong(detail))
    }
}

fn append_time<'c, const N: usize>(
    column: &mut Column,
    mut live: impl Iterator<Item = &'c Cell> + Clone,
    time: impl Fn(&Cell) -> Option<[u8; N]>,
    is_multi_cell: bool,
    scratch: &mut Vec<u8>,
) -> Result<(), Detail> {
    let count = live.clone().count();
    if count == 0 {
        column.append_null();
        return Ok(());
    }
    if !is_multi_cell {
        match live.next().and_then(time) {
            Some(time) => column.append(&time)?,
            None => column.append_null(),
        }
        return Ok(());
    }
    scratch.clear();
    scratch.extend_from_slice(&(count as i32).to_be_bytes());
    live.for_each(|cell| push_element(scratch, time(cell).as_ref().map(<[u8; N]>::as_slice)));
    column.append(scratch)
}

/// Appends the cells of a row to the columns, both in the order of the columns' ids.
#[inline]
fn append_cells(
    targets: &mut [Target],
    row: Option<&Row>,
    now_s: u32,
    scratch: &mut Vec<u8>,
) -> Result<u64, BulkError> {
    let mut bytes = 0;
    let mut rest = row.map_or(&[][..], |row| row.cells.as_slice());
    for target in targets {
        let cells = cells_of(&mut rest, target.def.id);
        bytes += target.append(cells, now_s, scratch)?;
    }
    Ok(bytes)
}

/// Splits the cells of a column off the front of `rest`, and leaves those of columns before it.
#[inline]
fn cells_of<'r>(rest: &mut &'r [Cell], column: ColumnId) -> &'r [Cell] {
    while let Some((first, behind)) = rest.split_first() {
        if first.column > column {
            break;
        }
        if first.column == column {
            let len = rest.iter().position(|cell| cell.column != column).unwrap_or(rest.len());
            let (found, behind) = rest.split_at_checked(len).unwrap_or_default();
            *rest = behind;
            return found;
        }
        *rest = behind;
    }
    &[]
}
