//! What comes in with the execution of a statement: values for its markers, the clock, uuids.

use crate::error::{CqlError, Result, bail};
use crate::guardrails::Guard;
use bytes::Bytes;
use model::types::{CqlType, collection};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// A column of a result, or the receiver of a bind marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Keyspace of the table.
    pub keyspace: Arc<str>,
    /// The table.
    pub table: Arc<str>,
    /// Name: a column's, or one of Cassandra's made up ones (`in(v)`, `[limit]`, `system.count(v)`).
    pub name: String,
    /// Type of the value.
    pub ty: CqlType,
}

/// The value of one marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundValue {
    /// A value in the encoding of the native protocol.
    Bytes(Bytes),
    /// Null.
    Null,
    /// Not set: the operation that it stands in is left out (protocol v4 and later).
    Unset,
}

/// The values of a statement's markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundValues {
    /// In the order of the markers.
    Positional(Vec<BoundValue>),
    /// By name. A statement's unnamed markers have the names of their columns.
    Named(Vec<(String, BoundValue)>),
}

impl BoundValues {
    /// No values.
    pub const NONE: BoundValues = BoundValues::Positional(Vec::new());

    /// The values in the order of the markers whose specs are given, checked against their types.
    pub(crate) fn in_order(&self, specs: &[ColumnSpec]) -> Result<Cow<'_, [BoundValue]>> {
        let values: Cow<'_, [BoundValue]> = match self {
            BoundValues::Positional(values) => {
                check_count(specs.len(), values.len())?;
                values.as_slice().into()
            }
            BoundValues::Named(values) => {
                let mut by_name: HashMap<&str, &BoundValue> = HashMap::with_capacity(values.len());
                for (name, value) in values {
                    by_name.entry(name).or_insert(value);
                }
                let found = specs.iter().filter_map(|spec| by_name.get(spec.name.as_str()).copied().cloned());
                let found: Vec<_> = found.collect();
                check_count(specs.len(), found.len())?;
                found.into()
            }
        };
        for (value, spec) in values.iter().zip(specs) {
            if let BoundValue::Bytes(bytes) = value {
                validate(spec, bytes)?;
            }
        }
        Ok(values)
    }
}

fn check_count(markers: usize, values: usize) -> Result<()> {
    if markers != values {
        bail!("there were {markers} markers(?) in CQL but {values} bound variables");
    }
    Ok(())
}

/// Checks a value against its type. Values for IN may be null one by one: the condition judges them.
fn validate(spec: &ColumnSpec, value: &Bytes) -> Result<()> {
    let invalid = |e: model::types::InvalidValue| CqlError::invalid(e.to_string());
    let CqlType::List { element, .. } = &spec.ty else {
        return spec.ty.validate(value).map_err(invalid);
    };
    if collection::elements(value).all(|item| item.is_some()) {
        return spec.ty.validate(value).map_err(invalid);
    }
    if !spec.name.starts_with("in(") {
        bail!("null is not supported inside collections");
    }
    collection::elements(value).flatten().try_for_each(|item| element.validate(item).map_err(invalid))
}

/// Where `now()`, `uuid()` and the positions of list elements come from.
pub trait UuidSource: Send + Sync + std::fmt::Debug {
    /// A version 1 uuid of the present moment, later than every one before.
    fn time_uuid(&self) -> Uuid;
    /// A version 4 uuid.
    fn random_uuid(&self) -> Uuid;
}

/// The circumstances of one execution.
#[derive(Clone, Debug)]
pub struct BindContext {
    /// Seconds since the epoch at which TTLs and deletions are judged and from which TTLs run.
    pub now_s: u32,
    /// Microseconds since the epoch: what the functions of the present time say.
    pub now_micros: i64,
    /// Timestamp of writes without USING TIMESTAMP, in microseconds: the client's default timestamp, or the
    /// node's.
    pub timestamp_micros: i64,
    /// Rows of a page; `None` when the client asked for no paging.
    pub page_size: Option<u32>,
    /// The last second at which something may expire.
    pub expiration_max_s: u32,
    /// Whether masked columns are shown as they are.
    pub unmasks: bool,
    /// The guardrails; `None` for those whom none holds.
    pub guard: Option<Arc<Guard>>,
    /// Uuids.
    pub uuids: Arc<dyn UuidSource>,
}
