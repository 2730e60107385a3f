//! DESCRIBE: the schema as rows of CQL text (FORMATS.md 13.15).

use crate::ast::Describe;
use crate::bind::ColumnSpec;
use crate::error::{Result, bail};
use bytes::Bytes;
use model::Schema;
use std::sync::Arc;

/// What DESCRIBE tells of the node.
#[derive(Clone, Debug)]
pub struct DescribeContext<'a> {
    /// The schema.
    pub schema: &'a Arc<Schema>,
    /// The keyspace that the session uses.
    pub keyspace: Option<&'a str>,
    /// Name of the cluster.
    pub cluster_name: &'a str,
    /// Class name of the partitioner without its package.
    pub partitioner: &'a str,
    /// Class name of the snitch without its package.
    pub snitch: &'a str,
    /// The replicas of each token range by the range's end token, for the keyspace in use.
    pub range_ownership: &'a [(String, Vec<String>)],
}

/// The answer to DESCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeRows {
    /// The columns, of the table `system.describe`.
    pub columns: Vec<ColumnSpec>,
    /// The rows, with a value for each column.
    pub rows: Vec<Vec<Option<Bytes>>>,
}

/// Describes.
pub fn describe(statement: &Describe, ctx: &DescribeContext<'_>) -> Result<DescribeRows> {
    let _ = (statement, ctx);
    bail!("nothing to describe")
}
