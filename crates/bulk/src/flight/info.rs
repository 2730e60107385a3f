//! What there is: catalogs, keyspaces, tables, keys, types, and what the server can do.

use crate::sql::CATALOG;
use crate::{ScanOptions, ScanRequest, Tables};
use arrow_array::{Int32Array, RecordBatch, StringArray};
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTableTypes, CommandGetTables,
    Nullable, Searchable, SqlInfo, SqlSupportedCaseSensitivity, SqlSupportedTransaction, XdbcDataType,
};
use arrow_schema::{DataType, Field, Schema};
use cql::ast::Statement;
use cql::describe::{self, DescribeContext};
use std::sync::Arc;

type Outcome = Result<RecordBatch, FlightError>;

/// The kind of all tables.
const TABLE: &str = "TABLE";

/// What the server is and can do.
pub(super) fn server() -> Result<SqlInfoData, FlightError> {
    let mut out = SqlInfoDataBuilder::new();
    out.append(SqlInfo::FlightSqlServerName, "Ilion");
    out.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    out.append(SqlInfo::FlightSqlServerArrowVersion, "59.3.0");
    out.append(SqlInfo::FlightSqlServerReadOnly, true);
    out.append(SqlInfo::FlightSqlServerSql, true);
    out.append(SqlInfo::FlightSqlServerSubstrait, false);
    out.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    out.append(SqlInfo::FlightSqlServerCancel, false);
    out.append(SqlInfo::FlightSqlServerStatementTimeout, 0i32);
    out.append(SqlInfo::FlightSqlServerTransactionTimeout, 0i32);
    out.append(SqlInfo::SqlDdlCatalog, false);
    out.append(SqlInfo::SqlDdlSchema, false);
    out.append(SqlInfo::SqlDdlTable, false);
    out.append(SqlInfo::SqlIdentifierCase, SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32);
    out.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    out.append(
        SqlInfo::SqlQuotedIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32,
    );
    out.append(SqlInfo::SqlAllTablesAreSelectable, true);
    out.build()
}

pub(super) fn catalogs(query: CommandGetCatalogs) -> Outcome {
    let mut out = query.into_builder();
    out.append(CATALOG);
    out.build()
}

pub(super) fn schemas(query: CommandGetDbSchemas, tables: &dyn Tables) -> Outcome {
    let mut out = query.into_builder();
    let mut names: Vec<String> = tables.names().into_iter().map(|(keyspace, _)| keyspace).collect();
    names.dedup();
    names.iter().for_each(|name| out.append(CATALOG, name));
    out.build()
}

pub(super) fn tables(query: CommandGetTables, tables: &dyn Tables) -> Outcome {
    let mut out = query.into_builder();
    let all = tables.schema();
    for (keyspace, name) in tables.names() {
        let Some(table) = all.keyspace(&keyspace).and_then(|keyspace| keyspace.store(&name)) else {
            continue;
        };
        let request = ScanRequest::of_table(table, None, 0, ScanOptions::default());
        let request = request.map_err(|error| FlightError::ExternalError(Box::new(error)))?;
        out.append(CATALOG, keyspace, name, TABLE, &request.schema())?;
    }
    out.build()
}

pub(super) fn table_types(query: CommandGetTableTypes) -> Outcome {
    let mut out = query.into_builder();
    out.append(TABLE);
    out.build()
}

/// Of the answer to a question for primary keys.
pub(super) fn primary_key_schema() -> Schema {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("key_name", true),
    ])
}

pub(super) fn primary_keys(query: &CommandGetPrimaryKeys, tables: &dyn Tables) -> Outcome {
    let mut keys = Vec::new();
    let all = tables.schema();
    for (keyspace, name) in tables.names() {
        if name != query.table || query.db_schema.as_ref().is_some_and(|schema| *schema != keyspace) {
            continue;
        }
        let Some(table) = all.keyspace(&keyspace).and_then(|keyspace| keyspace.store(&name)) else {
            continue;
        };
        let columns = table.partition_key().iter().chain(table.visible_clustering());
        keys.extend(columns.zip(1..).map(|(column, at)| (keyspace.clone(), column.name.clone(), at)));
    }
    let count = keys.len();
    let same = |text: Option<&str>| -> StringArray { (0..count).map(|_| text).collect() };
    let batch = RecordBatch::try_new(
        Arc::new(primary_key_schema()),
        vec![
            Arc::new(same(Some(CATALOG))),
            Arc::new(keys.iter().map(|key| Some(key.0.as_str())).collect::<StringArray>()),
            Arc::new(same(Some(&query.table))),
            Arc::new(keys.iter().map(|key| Some(key.1.as_str())).collect::<StringArray>()),
            Arc::new(keys.iter().map(|key| key.2).collect::<Int32Array>()),
            Arc::new(same(None)),
        ],
    );
    Ok(batch?)
}

/// The types of columns, for drivers of ODBC and JDBC.
pub(super) fn types() -> Result<XdbcTypeInfoData, FlightError> {
    let mut out = XdbcTypeInfoDataBuilder::new();
    let all = [
        ("VARCHAR", XdbcDataType::XdbcVarchar, None),
        ("VARBINARY", XdbcDataType::XdbcVarbinary, None),
        ("BOOLEAN", XdbcDataType::XdbcBit, Some(1)),
        ("TINYINT", XdbcDataType::XdbcTinyint, Some(8)),
        ("SMALLINT", XdbcDataType::XdbcSmallint, Some(16)),
        ("INTEGER", XdbcDataType::XdbcInteger, Some(32)),
        ("BIGINT", XdbcDataType::XdbcBigint, Some(64)),
        ("FLOAT", XdbcDataType::XdbcReal, Some(24)),
        ("DOUBLE", XdbcDataType::XdbcDouble, Some(53)),
        ("DATE", XdbcDataType::XdbcDate, None),
        ("TIME", XdbcDataType::XdbcTime, None),
        ("TIMESTAMP", XdbcDataType::XdbcTimestamp, None),
    ];
    for (name, data_type, column_size) in all {
        out.append(XdbcTypeInfo {
            type_name: name.to_owned(),
            data_type,
            column_size,
            literal_prefix: None,
            literal_suffix: None,
            create_params: None,
            nullable: Nullable::NullabilityNullable,
            case_sensitive: name == "VARCHAR",
            searchable: Searchable::Full,
            unsigned_attribute: None,
            fixed_prec_scale: false,
            auto_increment: None,
            local_type_name: None,
            minimum_scale: None,
            maximum_scale: None,
            sql_data_type: data_type,
            datetime_subcode: None,
            num_prec_radix: None,
            interval_precision: None,
        });
    }
    out.build()
}

/// The definitions of all tables that can be scanned and of their types, as CQL: a text for each.
pub(super) fn definitions(tables: &dyn Tables) -> Vec<String> {
    let schema = tables.schema();
    let context = DescribeContext {
        schema: &schema,
        keyspace: None,
        cluster_name: "",
        partitioner: "",
        snitch: "",
        range_ownership: &[],
    };
    let mut keyspaces: Vec<String> = tables.names().into_iter().map(|(keyspace, _)| keyspace).collect();
    keyspaces.dedup();
    let mut out = Vec::new();
    for keyspace in keyspaces {
        let text = format!("DESCRIBE KEYSPACE \"{}\" WITH INTERNALS", keyspace.replace('"', "\"\""));
        let Ok(parsed) = cql::parser::parse_statement(&text) else { continue };
        let Statement::Describe(statement) = &parsed.statement else { continue };
        let Ok(described) = describe::describe(statement, &context) else { continue };
        for row in described.rows {
            let text = row.into_iter().next_back().flatten();
            out.extend(text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    out
}
