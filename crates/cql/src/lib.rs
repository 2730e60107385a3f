//! CQL: from the text of a statement to a command for the engine, and from rows back to a result set.
//!
//! The path of a statement:
//!
//! 1. [`parser::parse_statement`] turns text into the tree of [`ast`].
//! 2. [`prepare`] resolves the tree against the schema (`analysis`) and gives a plan, a [`Prepared`].
//! 3. Binding values to a plan gives [`Bound`]: read commands or mutations. Changes of the schema go to
//!    [`ddl`].
//! 4. [`result`] shapes rows into a result set.
//!
//! Nothing below this crate ever sees CQL.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod analysis;
pub mod ast;
pub mod bind;
pub mod ddl;
pub mod describe;
pub mod error;
pub mod explain;
mod functions;
pub mod lexer;
pub mod parser;
pub mod plan;
pub mod result;

pub use bind::{BindContext, BoundValue, BoundValues, ColumnSpec, UuidSource};
pub use error::CqlError;
pub use plan::{Bound, Prepared, prepare};
