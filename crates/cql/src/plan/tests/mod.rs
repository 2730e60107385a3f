//! Statements against a fixed schema.

mod bounds;
mod clusterings;
mod execution;
mod functions;
mod golden;
mod masks;
pub(crate) mod schema;
