//! Statements against a fixed schema.

mod clusterings;
mod execution;
mod golden;
mod schema;
