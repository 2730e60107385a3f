//! CQL: from the text of a statement to a command for the engine, and from rows back to a result set.
//!
//! The path of a statement:
//!
//! ```text
//! text --> lexer --> parser --> ast --> analysis --> plan ------> read commands, mutations
//!                                |                    |
//!                                +--> ddl, describe   +--> result <-- rows of a read
//! ```
//!
//! 1. [`parser::parse_statement`] turns text into a tree of [`ast`], by way of the tokens of [`lexer`].
//!    Neither looks at a schema.
//! 2. [`prepare()`] resolves the names and types of the tree (`analysis`, `functions`). It gives a
//!    [`Prepared`] of [`plan`], once for a statement.
//! 3. [`Prepared::bind`] takes the values of an execution ([`mod@bind`]) and gives a [`Bound`]: commands and
//!    mutations of `model`, which the caller carries out.
//! 4. [`result`] shapes the rows of a read into those of a result set.
//!
//! Statements about the schema take a shorter way: [`ddl`] makes the next schema of the present one,
//! [`describe`] makes rows of it. [`explain`] makes rows of the plan of a SELECT. All of them ask the
//! [`guardrails`] of the request, where it has any.
//!
//! There is no I/O here, no clock and no replica, and nothing below this crate ever sees CQL.

#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod analysis;
pub mod ast;
pub mod bind;
mod class;
pub mod ddl;
pub mod describe;
pub mod error;
pub mod explain;
mod functions;
pub mod guardrails;
pub mod lexer;
pub mod parser;
pub mod plan;
pub mod result;

pub use bind::{BindContext, BoundValue, BoundValues, ColumnSpec, UuidSource};
pub use error::CqlError;
pub use plan::{Bound, Prepared, prepare};
