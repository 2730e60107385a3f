//! What somebody is told who keeps a log of what callers read.

use crate::sql::TableName;
use crate::ticket::{Asked, Ticket};
use model::Schema;
use std::fmt;
use std::sync::Arc;
use tonic::Status;

/// A log of reads. It must not wait.
pub trait ReadLog: fmt::Debug + Send + Sync {
    /// Rows are about to be sent for a ticket: those of a statement, from these tables. Or their number, with
    /// the plan of a scan that counts them.
    fn read(&self, ticket: &Ticket, statement: &str, tables: &[TableName]);

    /// A statement was prepared.
    fn prepared(&self, statement: &str, tables: &[TableName]);

    /// What was asked for was refused, or failed, perhaps behind some rows. The statement is empty where the
    /// bytes for it are none. The table is told where a scan of one was asked for.
    fn failed(&self, statement: &str, table: Option<&TableName>, why: &Status);
}

/// The log of whoever sends a request: an extension of the request. Without it nothing is told.
#[derive(Clone, Debug)]
pub struct LogOfCaller(pub Arc<dyn ReadLog>);

/// What is asked for, in words.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    pub(super) statement: String,
    pub(super) table: Option<TableName>,
}

impl Words {
    /// Those of a statement of SQL.
    pub(super) fn of_sql(sql: &str) -> Words {
        Words { statement: sql.to_owned(), table: None }
    }

    /// Those of a scan, as the SELECT that would answer its rows.
    pub(super) fn of_scan(select: &crate::Select, schema: &Schema) -> Words {
        let table = TableName { keyspace: select.keyspace.clone(), table: select.table.clone() };
        Words { statement: select.to_cql(schema), table: Some(table) }
    }

    pub(super) fn of(asked: &Asked, schema: &Schema) -> Words {
        match asked {
            Asked::Scan(select) => Words::of_scan(select, schema),
            Asked::Sql(sql) => Words::of_sql(sql),
            Asked::Bound(prepared) => Words::of_sql(&prepared.sql),
        }
    }
}
