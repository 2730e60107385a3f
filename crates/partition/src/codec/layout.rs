//! The columns of encoded rows, mapped to the columns of a table.

use super::columns::ColumnSet;
use super::encode::EncodeError;
use super::header::{HeaderColumn, SerializationHeader};
use super::input::Input;
use super::stats::{DeletionTimes, Deltas, EncodingStats};
use model::command::ColumnSelection;
use model::elements::ElementSelection;
use model::{ColumnDef, ColumnId, CqlType, Deletion, Liveness, NO_TIMESTAMP, TableSchema, vint};
use std::sync::Arc;

/// How the length of a type's values is known: fixed, or written before each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLen(pub(super) Option<u32>);

impl ValueLen {
    /// For values of `ty`.
    pub fn of(ty: &CqlType) -> ValueLen {
        ValueLen(ty.fixed_len().and_then(|len| u32::try_from(len).ok()))
    }

    /// Reads how long the value is that comes next.
    #[inline]
    pub(super) fn read<I: Input>(self, input: &mut I) -> Result<u64, I::Error> {
        match self.0 {
            Some(len) => Ok(len as u64),
            None => input.uvint(),
        }
    }

    /// Appends a value that is not empty.
    #[inline]
    pub(super) fn write(self, out: &mut Vec<u8>, value: &[u8]) -> Result<(), EncodeError> {
        match self.0 {
            Some(len) if len as usize != value.len() => {
                return Err(EncodeError::ValueLength { expected: len as usize, found: value.len() });
            }
            Some(_) => {}
            None => vint::write_unsigned(out, value.len() as u64),
        }
        out.extend_from_slice(value);
        Ok(())
    }
}

/// Why a header does not fit a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A column is neither in the table nor among those dropped from it.
    #[error("column {name} is not one of table {table} and was not dropped from it")]
    UnknownColumn {
        /// The column.
        name: String,
        /// Keyspace and name of the table.
        table: String,
    },
    /// A column of the table is static, or of several cells, on one side alone.
    #[error("column {name} of table {table} is another one here: static or not, frozen or not")]
    OtherColumn {
        /// The column.
        name: String,
        /// Keyspace and name of the table.
        table: String,
    },
    /// The clustering columns differ.
    #[error("clustering of {found} columns, table {table} has {expected}")]
    Clustering {
        /// Number in the table.
        expected: usize,
        /// Number in the header.
        found: usize,
        /// Keyspace and name of the table.
        table: String,
    },
}

/// One column of the encoded list.
#[derive(Clone, Debug)]
pub(super) struct LayoutColumn {
    /// `None` for a column that the table has no more: its cells are stepped over.
    pub id: Option<ColumnId>,
    pub complex: bool,
    pub len: ValueLen,
    /// Cells up to this timestamp are gone with a column that was dropped; [`NO_TIMESTAMP`] when none was.
    pub dropped_at: i64,
}

impl LayoutColumn {
    /// Whether a cell was not dropped with its column.
    #[inline]
    pub fn has_kept(&self, timestamp: i64) -> bool {
        timestamp > self.dropped_at || self.dropped_at == NO_TIMESTAMP
    }
}

/// The static or the regular columns.
#[derive(Clone, Debug)]
pub(super) struct LayoutColumns {
    pub list: Box<[LayoutColumn]>,
    /// Whether ids ascend along the list, so that decoded cells are in order already.
    pub ids_ascend: bool,
}

/// How rows of one table are laid out in one file or message.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) deltas: Deltas,
    pub(super) clustering: Box<[ValueLen]>,
    pub(super) statics: LayoutColumns,
    pub(super) regulars: LayoutColumns,
    pub(super) sized: bool,
}

/// Which columns of a [`Layout`] a read wants the values of.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub(super) statics: WantedColumns,
    pub(super) regulars: WantedColumns,
    pub(super) others: Others,
    /// The elements that are wanted, of multi-cell columns that are not wanted as a whole.
    elements: Option<Arc<Vec<ElementSelection>>>,
}

/// Which of the static or of the regular columns are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedColumns {
    pub set: ColumnSet,
    /// No column from this one on is.
    pub end: usize,
}

/// What becomes of the cells of columns that are not wanted. Whether a row exists may depend on them: a row
/// that was not inserted is there while any of its cells is. It does not depend on them where everything that
/// may be merged into the row is known to be harmless, in one of these ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// They stay, without their values.
    #[default]
    Stay,
    /// Nothing inserts the row with a TTL. A row that was inserted for good is gone only by a deletion that
    /// also takes every cell as old as the insertion. Such cells are left out.
    NotOfInserted,
    /// Nothing was deleted, and nothing expires. A row that was inserted, or has a wanted cell, loses all
    /// unwanted cells. Another row keeps the first of them.
    One,
}

impl Others {
    /// Up to which timestamp cells that are neither tombstones nor expire are left out of a row without
    /// others.
    #[inline]
    pub(super) fn left_out(self, liveness: &Liveness) -> i64 {
        match self {
            _ if liveness.is_none() => NO_TIMESTAMP,
            Others::One => i64::MAX,
            Others::NotOfInserted if !liveness.is_expiring() => liveness.timestamp,
            Others::NotOfInserted | Others::Stay => NO_TIMESTAMP,
        }
    }
}

impl WantedColumns {
    fn all(len: usize) -> WantedColumns {
        let mut set = ColumnSet::default();
        set.fill(len);
        WantedColumns { set, end: len }
    }
}

impl Wanted {
    /// Says what becomes of others.
    pub fn set_others(&mut self, others: Others) {
        self.others = others;
    }

    #[inline]
    pub(super) fn columns(&self, is_static: bool) -> &WantedColumns {
        if is_static { &self.statics } else { &self.regulars }
    }

    /// Which elements of a column are wanted, where that are not all.
    pub(super) fn elements_of(&self, column: &LayoutColumn) -> Option<&ElementSelection> {
        let elements = self.elements.as_ref()?;
        elements.iter().find(|elements| Some(elements.column) == column.id)
    }
}

impl Layout {
    /// The layout of an SSTable with this header.
    ///
    /// # Errors
    /// When the header names what the table never had.
    pub fn of_sstable(header: &SerializationHeader, table: &TableSchema) -> Result<Layout, LayoutError> {
        let expected = table.clustering_columns().len();
        if header.clustering.len() != expected {
            return Err(LayoutError::Clustering {
                expected,
                found: header.clustering.len(),
                table: full_name(table),
            });
        }
        Ok(Layout {
            deltas: Deltas { stats: header.stats, times: header.times },
            clustering: header.clustering.iter().map(|(ty, _)| ValueLen::of(ty)).collect(),
            statics: LayoutColumns::map(&header.static_columns, table, true)?,
            regulars: LayoutColumns::map(&header.regular_columns, table, false)?,
            sized: true,
        })
    }

    /// The layout of an SSTable with all columns of the table, as [`SerializationHeader::of_table`] lists
    /// them.
    pub fn of_table(table: &TableSchema, stats: EncodingStats, times: DeletionTimes) -> Layout {
        let (stats, statics) = (stats.held_as(times), table.static_columns());
        Layout { sized: true, ..Layout::of_message(stats, times, table, statics, table.regular_columns()) }
    }

    /// The layout of a message with these columns of the table.
    pub fn of_message<'c>(
        stats: EncodingStats,
        times: DeletionTimes,
        table: &TableSchema,
        statics: impl IntoIterator<Item = &'c Arc<ColumnDef>>,
        regulars: impl IntoIterator<Item = &'c Arc<ColumnDef>>,
    ) -> Layout {
        Layout {
            deltas: Deltas { stats, times },
            clustering: clustering_lens(table),
            statics: LayoutColumns::of_defs(statics, table),
            regulars: LayoutColumns::of_defs(regulars, table),
            sized: false,
        }
    }

    /// The layout of a message whose columns are known by name only.
    pub(super) fn of_names(
        stats: EncodingStats,
        times: DeletionTimes,
        table: &TableSchema,
        statics: &[String],
        regulars: &[String],
    ) -> Result<Layout, LayoutError> {
        Ok(Layout {
            deltas: Deltas { stats, times },
            clustering: clustering_lens(table),
            statics: LayoutColumns::of_names(statics, table, true)?,
            regulars: LayoutColumns::of_names(regulars, table, false)?,
            sized: false,
        })
    }

    /// Whether rows and markers carry their sizes: in SSTables only.
    pub fn is_sized(&self) -> bool {
        self.sized
    }

    /// Whether there are static columns, so that an SSTable's partitions each hold a static row.
    pub fn has_statics(&self) -> bool {
        !self.statics.list.is_empty()
    }

    /// How local deletion times are held.
    pub fn deletion_times(&self) -> DeletionTimes {
        self.deltas.times
    }

    /// Appends the deletion of a partition, as differences.
    pub(crate) fn write_deletion(&self, out: &mut Vec<u8>, deletion: &Deletion) {
        self.deltas.write_deletion(out, deletion);
    }

    /// Reads the deletion of a partition.
    pub(crate) fn read_deletion<I: Input>(&self, input: &mut I) -> Result<Deletion, I::Error> {
        self.deltas.read_deletion(input)
    }

    /// The types of clustering values.
    pub fn clustering_types(&self) -> &[ValueLen] {
        &self.clustering
    }

    /// All columns.
    pub fn everything(&self) -> Wanted {
        Wanted {
            statics: WantedColumns::all(self.statics.list.len()),
            regulars: WantedColumns::all(self.regulars.list.len()),
            others: Others::Stay,
            elements: None,
        }
    }

    /// Whether `wanted` are all columns, with all their elements.
    pub fn is_everything(&self, wanted: &Wanted) -> bool {
        let has_all = |wanted: &WantedColumns, all: &LayoutColumns| wanted.set.len() == all.list.len();
        wanted.elements.is_none()
            && has_all(&wanted.statics, &self.statics)
            && has_all(&wanted.regulars, &self.regulars)
    }

    /// The columns of a selection.
    pub fn wanted(&self, selection: &ColumnSelection) -> Wanted {
        let (statics, regulars) = (self.statics.wanted(selection), self.regulars.wanted(selection));
        Wanted { statics, regulars, others: Others::Stay, elements: selection.elements.clone() }
    }

    #[inline]
    pub(super) fn columns(&self, is_static: bool) -> &LayoutColumns {
        if is_static { &self.statics } else { &self.regulars }
    }
}

fn clustering_lens(table: &TableSchema) -> Box<[ValueLen]> {
    table.clustering_columns().iter().map(|c| ValueLen::of(&c.ty)).collect()
}

fn full_name(table: &TableSchema) -> String {
    format!("{}.{}", table.keyspace, table.name)
}

impl LayoutColumns {
    fn new(list: Box<[LayoutColumn]>) -> LayoutColumns {
        let ids_ascend = list.iter().filter_map(|c| c.id).is_sorted();
        LayoutColumns { list, ids_ascend }
    }

    fn of_defs<'c>(defs: impl IntoIterator<Item = &'c Arc<ColumnDef>>, table: &TableSchema) -> LayoutColumns {
        Self::new(defs.into_iter().map(|def| column(def, &def.ty, table)).collect())
    }

    fn of_names(names: &[String], table: &TableSchema, is_static: bool) -> Result<Self, LayoutError> {
        let list = names.iter().map(|name| match current(name, table, is_static) {
            Some(def) => Ok(column(def, &def.ty, table)),
            None => match table.dropped_column(name) {
                Some(dropped) => Ok(gone(&dropped.ty)),
                None => Err(unknown(name, table)),
            },
        });
        Ok(Self::new(list.collect::<Result<_, _>>()?))
    }

    fn map(columns: &[HeaderColumn], table: &TableSchema, is_static: bool) -> Result<Self, LayoutError> {
        let list = columns.iter().map(|HeaderColumn { name, ty }| {
            // As in [`SerializationHeader::freeze_as`], which not everybody asks for.
            let frozen = || if matches!(ty, CqlType::Udt { .. }) { ty.frozen() } else { ty.clone() };
            match current(name, table, is_static) {
                Some(def) if def.is_multi_cell() == ty.is_multi_cell() => Ok(column(def, ty, table)),
                // A dropped column whose name a column of another shape has taken. A user type that is not
                // frozen cannot be dropped.
                _ if table.dropped_column(name).is_some() => Ok(gone(&frozen())),
                Some(def) if def.is_multi_cell() == frozen().is_multi_cell() => {
                    Ok(column(def, &frozen(), table))
                }
                _ => Err(unknown(name, table)),
            }
        });
        Ok(Self::new(list.collect::<Result<_, _>>()?))
    }

    fn wanted(&self, selection: &ColumnSelection) -> WantedColumns {
        if selection.all {
            return WantedColumns::all(self.list.len());
        }
        let mut out = WantedColumns::default();
        out.set.reset(self.list.len());
        for (i, column) in self.list.iter().enumerate() {
            if column.id.is_some_and(|id| selection.contains(id)) {
                out.set.insert(i);
                out.end = i + 1;
            }
        }
        out
    }
}

fn current<'t>(name: &str, table: &'t TableSchema, is_static: bool) -> Option<&'t Arc<ColumnDef>> {
    let kind = if is_static { model::ColumnKind::Static } else { model::ColumnKind::Regular };
    table.column(name).filter(|c| c.kind == kind)
}

fn unknown(name: &str, table: &TableSchema) -> LayoutError {
    let (name, full_name) = (name.to_owned(), full_name(table));
    match table.column(&name) {
        Some(_) => LayoutError::OtherColumn { name, table: full_name },
        None => LayoutError::UnknownColumn { name, table: full_name },
    }
}

fn column(def: &ColumnDef, ty: &CqlType, table: &TableSchema) -> LayoutColumn {
    LayoutColumn {
        id: Some(def.id),
        complex: ty.is_multi_cell(),
        len: cell_len(ty),
        dropped_at: table.dropped_column(&def.name).map_or(NO_TIMESTAMP, |d| d.dropped_time_micros),
    }
}

fn gone(ty: &CqlType) -> LayoutColumn {
    LayoutColumn { id: None, complex: ty.is_multi_cell(), len: cell_len(ty), dropped_at: NO_TIMESTAMP }
}

/// Cells of multi-cell columns carry the length of their value whatever the element's type.
fn cell_len(ty: &CqlType) -> ValueLen {
    if ty.is_multi_cell() { ValueLen(None) } else { ValueLen::of(ty) }
}
