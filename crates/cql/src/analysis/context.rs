//! What the analysis of one statement carries along.

use super::expr::Scope;
use super::raw::Raw;
use crate::ast::Identifier;
use crate::bind::{BindContext, BoundValue, ColumnSpec};
use crate::error::{CqlError, Result, bail};
use model::types::{CqlType, QuotedName};
use model::{ColumnDef, ColumnKind, Schema, TableSchema};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

/// The name of bind variables in SELECT clauses.
pub(crate) const SELECTION: &str = "[selection]";

/// What a value is for: a column or a part of one, with the name that messages and bind variables show.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    pub(crate) name: String,
    pub(crate) ty: CqlType,
    /// The column itself, when it is one.
    pub(crate) column: Option<Arc<ColumnDef>>,
}

impl Receiver {
    pub(crate) fn new(name: impl Into<String>, ty: CqlType) -> Receiver {
        Receiver { name: name.into(), ty, column: None }
    }

    pub(crate) fn of(column: &Arc<ColumnDef>) -> Receiver {
        Receiver { name: column.name.clone(), ty: column.ty.clone(), column: Some(Arc::clone(column)) }
    }

    /// The receiver under another type, as when `m - ?` takes a set.
    pub(crate) fn with_type(&self, ty: CqlType) -> Receiver {
        Receiver { name: self.name.clone(), ty, column: None }
    }

    /// A part of the receiver; the parts of something selected have no names of their own.
    fn part(&self, what: &str, ty: &CqlType) -> Receiver {
        let name = if self.name == SELECTION { self.name.clone() } else { format!("{what}({})", self.name) };
        Receiver::new(name, ty.clone())
    }

    /// The values of a list, set or map.
    pub(crate) fn value(&self, ty: &CqlType) -> Receiver {
        self.part("value", ty)
    }

    /// The keys of a map.
    pub(crate) fn key(&self, ty: &CqlType) -> Receiver {
        self.part("key", ty)
    }

    /// The index into a list.
    pub(crate) fn index(&self) -> Receiver {
        Receiver::new(format!("idx({})", self.name), CqlType::Int)
    }

    /// The list that `IN ?` takes.
    pub(crate) fn in_list(&self) -> Receiver {
        Receiver::new(format!("in({})", self.name), CqlType::list(self.ty.clone(), false))
    }
}

/// One marker as analysis met it.
#[derive(Clone, Debug)]
struct Marker {
    spec: ColumnSpec,
    partition_key: Option<usize>,
}

/// The types of calls in an expression, while it is looked at.
///
/// Every overload of a call asks for the types of the same arguments, and those ask for the types of theirs.
/// Without memory the time would grow as a power of the depth. Calls are told by their addresses, which hold
/// as long as the outermost expression is borrowed; nothing is kept longer.
#[derive(Debug, Default)]
pub(crate) struct CallTypes {
    depth: Cell<usize>,
    known: RefCell<HashMap<*const (), Option<CqlType>>>,
}

impl CallTypes {
    /// Begins to look at an expression, or at one in it, which is borrowed for as long as the answer is kept.
    pub(crate) fn enter(&self) -> Inside<'_> {
        self.depth.set(self.depth.get() + 1);
        Inside(self)
    }

    /// Runs `look` for an expression that is not part of the one that is looked at.
    pub(crate) fn apart<T>(&self, look: impl FnOnce() -> T) -> T {
        let known = self.known.take();
        let out = look();
        self.known.replace(known);
        out
    }

    /// The type of a call, if it was found out before.
    pub(crate) fn get(&self, call: &Raw<'_>) -> Option<Option<CqlType>> {
        self.known.borrow().get(&std::ptr::from_ref(call).cast()).cloned()
    }

    /// Keeps the type of a call.
    pub(crate) fn keep(&self, call: &Raw<'_>, ty: &Option<CqlType>) {
        if self.depth.get() > 0 {
            self.known.borrow_mut().insert(std::ptr::from_ref(call).cast(), ty.clone());
        }
    }
}

/// Something is looked at. With the outermost one all is forgotten.
pub(crate) struct Inside<'a>(&'a CallTypes);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() - 1);
        if self.0.depth.get() == 0 {
            self.0.known.borrow_mut().clear();
        }
    }
}

/// Looks up names for one statement and gathers its bind variables.
#[derive(Debug)]
pub(crate) struct Analyzer<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) table: Arc<TableSchema>,
    pub(crate) call_types: CallTypes,
    names: &'a [Option<Identifier>],
    markers: &'a RefCell<MarkerSpecs>,
    keyspace: Arc<str>,
    table_name: Arc<str>,
}

/// Keyspace and table of what a batch itself is given.
const BATCH: &str = "[batch]";

/// The bind variables of a statement, which in a batch belong to several tables.
#[derive(Debug)]
pub(crate) struct MarkerSpecs {
    markers: Vec<Option<Marker>>,
}

impl MarkerSpecs {
    pub(crate) fn new(count: usize) -> RefCell<MarkerSpecs> {
        RefCell::new(MarkerSpecs { markers: vec![None; count] })
    }

    /// The specs in order. Every marker of a statement is met by its analysis.
    pub(crate) fn finish(&self) -> Result<Vec<ColumnSpec>> {
        self.markers
            .iter()
            .map(|marker| match marker {
                Some(marker) => Ok(marker.spec.clone()),
                None => Err(CqlError::Server("a bind marker was not analysed".to_owned())),
            })
            .collect()
    }

    /// Marks what a batch itself is given, which is of no table.
    pub(crate) fn belongs_to_batch(&mut self, index: usize) {
        if let Some(Some(marker)) = self.markers.get_mut(index) {
            (marker.spec.keyspace, marker.spec.table) = (BATCH.into(), BATCH.into());
        }
    }

    /// The last markers of the partition key columns of `table`; empty unless every column has one. Cassandra
    /// tells them only where all markers are of the table.
    pub(crate) fn partition_key_binds(&self, table: &TableSchema) -> Vec<u16> {
        let is_of_table = |spec: &ColumnSpec| *spec.keyspace == *table.keyspace && *spec.table == *table.name;
        if !self.markers.iter().flatten().all(|marker| is_of_table(&marker.spec)) {
            return Vec::new();
        }
        let mut out = vec![None; table.partition_key().len()];
        for (index, marker) in self.markers.iter().enumerate() {
            let Some(Marker { partition_key: Some(position), .. }) = marker else { continue };
            if let Some(slot) = out.get_mut(*position) {
                *slot = u16::try_from(index).ok();
            }
        }
        out.into_iter().collect::<Option<Vec<u16>>>().unwrap_or_default()
    }
}

impl<'a> Analyzer<'a> {
    pub(crate) fn new(
        schema: &'a Schema,
        table: &Arc<TableSchema>,
        names: &'a [Option<Identifier>],
        markers: &'a RefCell<MarkerSpecs>,
    ) -> Analyzer<'a> {
        Analyzer {
            schema,
            table: Arc::clone(table),
            call_types: CallTypes::default(),
            names,
            markers,
            keyspace: table.keyspace.as_str().into(),
            table_name: table.name.as_str().into(),
        }
    }

    /// The column of a name.
    pub(crate) fn column(&self, name: &Identifier) -> Result<Arc<ColumnDef>> {
        match self.table.visible_column(name.as_str()) {
            Some(column) => Ok(Arc::clone(column)),
            None => bail!(
                "Undefined column name {} in table {}.{}",
                name.to_cql(),
                QuotedName(&self.table.keyspace),
                QuotedName(&self.table.name)
            ),
        }
    }

    /// A column of a result, or a bind variable, of this table.
    pub(crate) fn spec(&self, name: impl Into<String>, ty: CqlType) -> ColumnSpec {
        ColumnSpec {
            keyspace: Arc::clone(&self.keyspace),
            table: Arc::clone(&self.table_name),
            name: name.into(),
            ty,
        }
    }

    /// Notes what a marker is for.
    pub(crate) fn mark(&self, index: usize, receiver: &Receiver) {
        let name = match self.names.get(index) {
            Some(Some(name)) => name.as_str().to_owned(),
            _ => receiver.name.clone(),
        };
        let partition_key =
            receiver.column.as_ref().filter(|c| c.kind == ColumnKind::PartitionKey).map(|c| c.position);
        let marker = Marker { spec: self.spec(name, receiver.ty.clone()), partition_key };
        if let Some(slot) = self.markers.borrow_mut().markers.get_mut(index) {
            *slot = Some(marker);
        }
    }
}

/// Values and circumstances of one execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindInput<'a> {
    pub(crate) values: &'a [BoundValue],
    pub(crate) ctx: &'a BindContext,
}

impl<'a> BindInput<'a> {
    /// The scope of terms: no row.
    pub(crate) fn scope(&self) -> Scope<'a> {
        Scope {
            values: self.values,
            now_micros: self.ctx.now_micros,
            uuids: Some(self.ctx.uuids.as_ref()),
            table: None,
            row: None,
            aggregates: &[],
            unmasks: self.ctx.unmasks,
        }
    }
}
