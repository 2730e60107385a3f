//! Statements against a fixed schema.

mod clusterings;
mod execution;
mod functions;
mod golden;
mod schema;
