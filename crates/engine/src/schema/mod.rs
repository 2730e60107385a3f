//! The schema on disk: tables of `system_schema` to [`model::Schema`] and back.
//!
//! A keyspace is one partition in each of those tables. [`rows`] turns a keyspace into the rows it has there,
//! [`diff`] two keyspaces into the mutation that leads from one to the other, [`load`] rows into a schema,
//! and [`version`] rows into the version that nodes compare. [`verify`] loads a change before it is stored,
//! [`of_directory`] what is stored in a directory that no node runs on.

pub mod diff;
pub mod load;
pub mod of_directory;
pub mod rows;
#[cfg(test)]
mod tests;
mod values;
pub mod verify;
pub mod version;
