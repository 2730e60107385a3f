//! Columns of result rows, and what their cells say besides their values.

use super::RowSink;
use crate::analysis::{Expr, Scope};
use crate::ast::WritetimeKind;
use crate::error::Result;
use bytes::Bytes;
use model::cell::{Cell, ColumnId};
use model::elements::PathRange;
use model::row::ResultRow;
use model::types::{CqlType, collection};
use model::{ColumnDef, ColumnKind, TableSchema, counter, multi_cell};

/// A column, with all that is needed to find its value in a row.
#[derive(Clone, Debug)]
pub(crate) struct ColumnRef {
    pub(crate) id: ColumnId,
    pub(crate) kind: ColumnKind,
    pub(crate) position: usize,
    pub(crate) ty: CqlType,
    pub(crate) is_multi_cell: bool,
}

impl ColumnRef {
    pub(crate) fn of(column: &ColumnDef) -> ColumnRef {
        ColumnRef {
            id: column.id,
            kind: column.kind,
            position: column.position,
            ty: column.ty.clone(),
            is_multi_cell: column.is_multi_cell(),
        }
    }

    fn is_static(&self) -> bool {
        self.kind == ColumnKind::Static
    }

    /// All cells of the column, dead ones too.
    fn cells<'r>(&self, row: &'r ResultRow<'_>) -> &'r [Cell] {
        let of = if self.is_static() { row.static_row } else { row.row };
        of.map_or(&[][..], |r| r.cells_of(self.id))
    }

    /// The value as bytes of its own.
    pub(crate) fn value(&self, table: &TableSchema, row: &ResultRow<'_>) -> Option<Bytes> {
        match self.kind {
            ColumnKind::PartitionKey => {
                let key = &row.key.key;
                key.component(table.partition_key().len(), self.position).map(|part| key.0.slice_ref(part))
            }
            ColumnKind::Clustering => row.row?.clustering.value(self.position).map(Bytes::copy_from_slice),
            _ if self.is_multi_cell => multi_cell::assemble(&self.ty, self.cells(row), row.now_s),
            _ => {
                let cell = row.live_cell(self.id, self.is_static())?;
                Some(match self.ty {
                    CqlType::Counter => Bytes::copy_from_slice(&counter::total(&cell.value).to_be_bytes()),
                    _ => cell.value.clone(),
                })
            }
        }
    }

    /// Writes the value without copying it; `buffer` is used for what is made of several cells.
    pub(super) fn write<S: RowSink + ?Sized>(
        &self,
        table: &TableSchema,
        row: &ResultRow<'_>,
        buffer: &mut Vec<u8>,
        sink: &mut S,
    ) {
        match self.kind {
            ColumnKind::PartitionKey => {
                sink.value(row.key.key.component(table.partition_key().len(), self.position));
            }
            ColumnKind::Clustering => sink.value(row.row.and_then(|r| r.clustering.value(self.position))),
            _ if self.is_multi_cell => {
                buffer.clear();
                let is_live = multi_cell::assemble_into(buffer, &self.ty, self.cells(row), row.now_s);
                sink.value(is_live.then_some(buffer.as_slice()));
            }
            _ => match row.live_cell(self.id, self.is_static()) {
                Some(cell) if self.ty.is_counter() => {
                    sink.value(Some(&counter::total(&cell.value).to_be_bytes()));
                }
                cell => sink.value(cell.map(|c| c.value.as_ref())),
            },
        }
    }
}

/// Some elements of a multi-cell column, by the paths of their cells: keys of a map, values of a set, numbers
/// of fields.
#[derive(Clone, Debug)]
pub(crate) struct CellPart {
    /// What messages call the whole.
    pub(crate) shown: Box<str>,
    pub(crate) path_type: CqlType,
    pub(crate) keys: Keys,
}

/// Which keys of a collection.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    One(Box<Expr>),
    /// Both ends included.
    Slice {
        from: Option<Box<Expr>>,
        to: Option<Box<Expr>>,
    },
}

impl CellPart {
    pub(crate) fn of(shown: &str, path_type: CqlType, keys: Keys) -> CellPart {
        CellPart { shown: shown.into(), path_type, keys }
    }

    /// A field of a user type.
    pub(crate) fn field(index: usize) -> CellPart {
        let path = Expr::Constant(Some(multi_cell::field_path(index)));
        CellPart::of("", CqlType::SmallInt, Keys::One(Box::new(path)))
    }

    /// An entry of a map.
    pub(crate) fn entry(key_type: &CqlType, key: &Expr) -> CellPart {
        CellPart::of("", key_type.clone(), Keys::One(Box::new(key.clone())))
    }

    pub(crate) fn is_one(&self) -> bool {
        matches!(self.keys, Keys::One(_))
    }

    /// Whether the paths are known before the first row.
    pub(crate) fn is_fixed(&self) -> bool {
        let is_fixed = |expr: &Expr| matches!(expr, Expr::Constant(_) | Expr::Marker { .. });
        match &self.keys {
            Keys::One(path) => is_fixed(path),
            Keys::Slice { from, to } => from.iter().chain(to).all(|end| is_fixed(end)),
        }
    }

    /// That part of a frozen set or map.
    pub(crate) fn of_value(&self, value: &Bytes, is_map: bool, scope: &Scope<'_>) -> Result<Option<Bytes>> {
        let Some(range) = self.paths(scope)? else { return Ok(None) };
        let key_type = &self.path_type;
        let inside = |k: &[u8]| {
            range.from.as_ref().is_none_or(|from| key_type.compare(from, k).is_le())
                && range.to.as_ref().is_none_or(|to| key_type.compare(k, to).is_le())
        };
        let pairs = || collection::pairs(value).filter(|(k, _)| inside(k));
        let elements = || collection::elements(value).flatten().filter(|k| inside(k));
        Ok(match (self.is_one(), is_map) {
            (true, true) => pairs().next().map(|(_, v)| value.slice_ref(v)),
            (true, false) => elements().next().map(|v| value.slice_ref(v)),
            (false, true) => Some(collection::encode_map(key_type, pairs())),
            (false, false) => Some(collection::encode_list(elements())),
        })
    }

    /// The paths; `None` where the only one is null.
    pub(crate) fn paths(&self, scope: &Scope<'_>) -> Result<Option<PathRange>> {
        Ok(match &self.keys {
            Keys::One(path) => path.eval_or_null(scope)?.map(PathRange::of),
            Keys::Slice { from, to } => {
                let end = |expr: &Option<Box<Expr>>| match expr {
                    // An end whose marker is unset is open.
                    Some(expr) if !expr.is_unset(scope) => expr.eval_or_null(scope),
                    _ => Ok(None),
                };
                Some(PathRange { from: end(from)?, to: end(to)? })
            }
        })
    }
}

/// A field of a value of a user type or a tuple.
pub(crate) fn field_of(value: &Bytes, index: usize) -> Option<Bytes> {
    collection::tuple_fields(value).nth(index).flatten().map(|field| value.slice_ref(field))
}

/// A step into a frozen value.
#[derive(Clone, Debug)]
pub(crate) enum ValueStep {
    Field(usize),
    Elements { is_map: bool, part: CellPart },
}

/// `column[key]`, `column[from..to]` or `column.field` of a multi-cell column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnPart {
    pub(crate) column: ColumnRef,
    pub(crate) part: CellPart,
}

impl ColumnPart {
    /// The value: of an element, or of a collection with several, which is null if it has none.
    pub(crate) fn value(&self, row: &ResultRow<'_>, scope: &Scope<'_>) -> Result<Option<Bytes>> {
        let Some(paths) = self.part.paths(scope)? else { return Ok(None) };
        let cells = paths.of_cells(&self.part.path_type, self.column.cells(row));
        Ok(match (&self.part.keys, &self.column.ty) {
            (Keys::Slice { .. }, ty) => multi_cell::assemble(ty, cells, row.now_s),
            (Keys::One(_), ty) => {
                let cell = cells.iter().find(|cell| cell.is_live(row.now_s));
                let is_set = matches!(ty, CqlType::Set { .. });
                cell.map(|cell| if is_set { cell.path.clone() } else { cell.value.clone() })
            }
        })
    }
}

/// `writetime`, `maxwritetime` or `ttl` of a column or a part of it.
#[derive(Clone, Debug)]
pub(crate) struct CellInfo {
    pub(crate) kind: WritetimeKind,
    pub(crate) column: ColumnRef,
    pub(crate) part: Option<CellPart>,
    /// From there into the values of the cells, which are frozen: what is not in them has no times.
    pub(crate) inside: Vec<ValueStep>,
    /// Whether the result is a list with an item for each cell.
    pub(crate) is_list: bool,
}

impl CellInfo {
    pub(crate) fn value(&self, row: &ResultRow<'_>, scope: &Scope<'_>) -> Result<Option<Bytes>> {
        let mut cells = self.column.cells(row);
        let paths;
        if let Some(part) = &self.part {
            paths = part.paths(scope)?;
            let in_range = |paths: &PathRange| paths.of_cells(&part.path_type, cells);
            cells = paths.as_ref().map_or(&[][..], in_range);
        }
        let mut cells: Vec<&Cell> = cells.iter().filter(|cell| cell.is_live(row.now_s)).collect();
        if !self.inside.is_empty() {
            let kept: Vec<bool> = cells.iter().map(|cell| self.is_in(cell, scope)).collect::<Result<_>>()?;
            let mut kept = kept.into_iter();
            cells.retain(|_| kept.next().unwrap_or(false));
        }
        if cells.is_empty() {
            return Ok(None);
        }
        if self.is_list {
            let mut out = Vec::new();
            let items: Vec<Option<Bytes>> = match &self.column.ty {
                // A user type has an item for each field, whether or not it is set.
                CqlType::Udt { definition, .. } => (0..definition.fields.len())
                    .map(|index| {
                        let cell = cells.iter().find(|c| multi_cell::field_index(c) == Some(index));
                        cell.and_then(|c| self.of(c, row))
                    })
                    .collect(),
                _ => cells.iter().map(|c| self.of(c, row)).collect(),
            };
            out.extend_from_slice(&(items.len() as i32).to_be_bytes());
            for item in &items {
                collection::push_element(&mut out, item.as_deref());
            }
            return Ok(Some(out.into()));
        }
        let latest = cells.into_iter().max_by_key(|c| c.timestamp);
        Ok(latest.and_then(|c| self.of(c, row)))
    }

    /// Whether the value of a cell has what is looked for in it.
    fn is_in(&self, cell: &Cell, scope: &Scope<'_>) -> Result<bool> {
        let is_element = self.part.is_some() && matches!(self.column.ty, CqlType::Set { .. });
        let mut value = if is_element { cell.path.clone() } else { cell.value.clone() };
        for step in &self.inside {
            let (next, is_slice) = match step {
                ValueStep::Field(index) => (field_of(&value, *index), false),
                ValueStep::Elements { is_map, part } => {
                    (part.of_value(&value, *is_map, scope)?, !part.is_one())
                }
            };
            match next {
                Some(next) if !is_slice || collection::elements(&next).next().is_some() => value = next,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    fn of(&self, cell: &Cell, row: &ResultRow<'_>) -> Option<Bytes> {
        match self.kind {
            WritetimeKind::Writetime | WritetimeKind::MaxWritetime => {
                Some(Bytes::copy_from_slice(&cell.timestamp.to_be_bytes()))
            }
            WritetimeKind::Ttl => cell.is_expiring().then(|| {
                let left = i64::from(cell.local_deletion_time) - i64::from(row.now_s);
                Bytes::copy_from_slice(&(left as i32).to_be_bytes())
            }),
        }
    }
}
