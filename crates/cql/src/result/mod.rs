//! From the rows of a read to the rows of a result set.
//!
//! A [`ResultShaper`] is fed with [`model::row::ResultRow`]s and writes to a [`RowSink`]. Plain columns go
//! from cell to sink without a copy; collections of several cells are serialised into a buffer that is used
//! again. Sorting, grouping and aggregation keep what they need until the group is complete or
//! [`ResultShaper::finish`] is called.

mod column;
mod json_row;
mod shape;
mod shaper;
mod sink;

pub(crate) use column::{CellInfo, CellPart, ColumnPart, ColumnRef, Keys, ValueStep, field_of};
pub(crate) use shape::{GroupBy, JsonShape, Output, Shape};
pub use shaper::ResultShaper;
pub(crate) use shaper::{Circumstances, Inputs};
pub use sink::{RowSink, RowVec};
