//! Columns of result rows, and what their cells say besides their values.

use super::RowSink;
use crate::analysis::{Expr, Scope};
use crate::ast::WritetimeKind;
use crate::error::Result;
use bytes::Bytes;
use model::cell::{Cell, ColumnId};
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
    is_multi_cell: bool,
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

/// Which cells of a multi-cell column `writetime(c...)` is about.
#[derive(Clone, Debug)]
pub(crate) enum CellPart {
    Field(usize),
    Element { key_type: CqlType, key: Expr },
    Slice { key_type: CqlType, from: Option<Box<Expr>>, to: Option<Box<Expr>> },
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
        let live = || row.live_cells(self.column.id, self.column.is_static());
        if let Some(CellPart::Field(index)) = self.part {
            return Ok(live()
                .find(|c| multi_cell::field_index(c) == Some(index))
                .and_then(|c| self.of(c, row)));
        }
        let cells: Vec<&Cell> = match &self.part {
            None | Some(CellPart::Field(_)) => live().collect(),
            Some(CellPart::Element { key_type, key }) => match key.eval_or_null(scope)? {
                Some(key) => live().filter(|c| key_type.compare(&c.path, &key).is_eq()).collect(),
                None => Vec::new(),
            },
            Some(CellPart::Slice { key_type, from, to }) => {
                let from = crate::analysis::expr::bound(from, scope)?;
                let to = crate::analysis::expr::bound(to, scope)?;
                live()
                    .filter(|c| {
                        from.as_ref().is_none_or(|from| key_type.compare(from, &c.path).is_le())
                            && to.as_ref().is_none_or(|to| key_type.compare(&c.path, to).is_le())
                    })
                    .collect()
            }
        };
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
