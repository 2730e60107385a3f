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

/// Some elements of a multi-cell column, by the paths of their cells: keys of a map, values of a set, numbers of fields.
#[derive(Clone, Debug)]
pub(crate) struct CellPart {
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
    /// A field of a user type.
    pub(crate) fn field(index: usize) -> CellPart {
        let path = Expr::Constant(Some(multi_cell::field_path(index)));
        CellPart { path_type: CqlType::SmallInt, keys: Keys::One(Box::new(path)) }
    }

    /// An entry of a map.
    pub(crate) fn entry(key_type: &CqlType, key: &Expr) -> CellPart {
        CellPart { path_type: key_type.clone(), keys: Keys::One(Box::new(key.clone())) }
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

    /// The paths; `None` where the only one is null.
    pub(crate) fn paths(&self, scope: &Scope<'_>) -> Result<Option<PathRange>> {
        Ok(match &self.keys {
            Keys::One(path) => path.eval_or_null(scope)?.map(PathRange::of),
            Keys::Slice { from, to } => {
                let end = |expr: &Option<Box<Expr>>| expr.as_ref().map(|e| e.eval_or_null(scope)).transpose();
                // An end that is null, or whose marker is unset, is open.
                Some(PathRange { from: end(from)?.flatten(), to: end(to)?.flatten() })
            }
        })
    }
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
        let cells: Vec<&Cell> = cells.iter().filter(|cell| cell.is_live(row.now_s)).collect();
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
