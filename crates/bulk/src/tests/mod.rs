//! Scans compared cell by cell with what CQL answers, and exports that are interrupted.

mod cuts;
mod damage;
mod deletions;
mod exports;
mod fixtures;
#[cfg(feature = "query")]
mod gone;
#[cfg(feature = "query")]
mod hostile;
mod losses;
mod pace;
#[cfg(feature = "query")]
mod parameters;
mod running;
mod salvage;
mod sources;
#[cfg(feature = "query")]
mod sql;
#[cfg(feature = "query")]
mod told;
mod values;

use crate::{ScanRequest, Source, Split};
use arrow_array::RecordBatch;
use values::Shown;

/// All rows of the splits, as CQL shows their values.
pub(super) fn rows_of(source: &Source, request: &ScanRequest, splits: &[Split]) -> Vec<Vec<Shown>> {
    let mut out = Vec::new();
    for split in splits {
        for batch in source.scan(request, split) {
            rows_of_batch(request, &batch.unwrap(), &mut out);
        }
    }
    out
}

/// The rows of a batch, as CQL shows their values.
pub(super) fn rows_of_batch(request: &ScanRequest, batch: &RecordBatch, out: &mut Vec<Vec<Shown>>) {
    let types: Vec<_> = request.columns.iter().map(|column| (column.name.as_str(), &column.ty)).collect();
    for row in 0..batch.num_rows() {
        let show =
            |(name, ty): &(&str, &model::CqlType)| values::show(ty, batch.column_by_name(name).unwrap(), row);
        out.push(types.iter().map(show).collect());
    }
}
