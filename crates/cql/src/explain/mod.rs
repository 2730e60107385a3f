//! EXPLAIN: the plan of a SELECT as rows of a result.
//!
//! Each row is a [`Step`]. The first ones say what is read and what is done with it. They are made here, from
//! the bound statement alone ([`plan`]). Whoever has the memtables and SSTables adds the steps about them.
//! Names of operations and figures are stable, for programs; details are for people.
//!
//! | operation | its target | tells |
//! |---|---|---|
//! | `read` | the table | how partitions are found |
//! | `partition` | the key's columns | which ones |
//! | `rows` | the clustering columns | which rows of each |
//! | `columns` | the columns read, and of which of them which elements | and what becomes of the others |
//! | `filter` | a column | a condition that is checked on rows after they were read |
//! | `order`, `group`, `limit`, `page` | | what is done with the rows |

mod plan;
mod restriction;
#[cfg(test)]
mod tests;
mod text;

pub use plan::plan;
pub use restriction::restriction;

use crate::bind::ColumnSpec;
use bytes::Bytes;
use model::types::{CqlType, collection};
use std::sync::Arc;

/// One row of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// What is done: one of a few fixed words.
    pub operation: &'static str,
    /// To what.
    pub target: String,
    /// How, in words.
    pub detail: String,
    /// Microseconds that it took, where that is known.
    pub micros: Option<u64>,
    /// What was counted; names are those of the read's cost.
    pub figures: Vec<(&'static str, u64)>,
}

impl Step {
    /// A step that costs nothing by itself.
    pub fn new(operation: &'static str, target: impl Into<String>, detail: impl Into<String>) -> Step {
        Step { operation, target: target.into(), detail: detail.into(), ..Step::default() }
    }
}

/// The columns of the answer: those of the costs only for EXPLAIN ANALYZE.
pub fn columns(keyspace: &str, table: &str, analyze: bool) -> Vec<ColumnSpec> {
    let figures = CqlType::map(CqlType::Text, CqlType::BigInt, false);
    let columns = [
        ("step", CqlType::Int),
        ("operation", CqlType::Text),
        ("target", CqlType::Text),
        ("detail", CqlType::Text),
        ("micros", CqlType::BigInt),
        ("figures", figures),
    ];
    let (keyspace, table): (Arc<str>, Arc<str>) = (keyspace.into(), table.into());
    let shown = if analyze { columns.len() } else { 4 };
    let spec = |(name, ty): (&str, CqlType)| ColumnSpec {
        keyspace: Arc::clone(&keyspace),
        table: Arc::clone(&table),
        name: name.to_owned(),
        ty,
    };
    columns.into_iter().take(shown).map(spec).collect()
}

/// The steps as rows of [`columns`].
pub fn rows(steps: &[Step], analyze: bool) -> Vec<Vec<Option<Bytes>>> {
    let mut out = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        let number = i32::try_from(at).unwrap_or(i32::MAX).saturating_add(1);
        let text = |text: &str| Some(Bytes::copy_from_slice(text.as_bytes()));
        let mut row = vec![
            Some(Bytes::copy_from_slice(&number.to_be_bytes())),
            text(step.operation),
            text(&step.target),
            text(&step.detail),
        ];
        if analyze {
            row.push(step.micros.map(bigint));
            row.push((!step.figures.is_empty()).then(|| figures(&step.figures)));
        }
        out.push(row);
    }
    out
}

fn bigint(number: u64) -> Bytes {
    Bytes::copy_from_slice(&i64::try_from(number).unwrap_or(i64::MAX).to_be_bytes())
}

fn figures(figures: &[(&'static str, u64)]) -> Bytes {
    let values: Vec<Bytes> = figures.iter().map(|(_, value)| bigint(*value)).collect();
    let mut pairs: Vec<(&str, &[u8])> =
        figures.iter().zip(&values).map(|((name, _), value)| (*name, value.as_ref())).collect();
    collection::sort_map(&CqlType::Text, &mut pairs);
    collection::encode_map(&CqlType::Text, pairs)
}
