//! `ilion sql`: statements on the tables of a node or of directories, by DataFusion.
//!
//! 1. [`crate::tables`] finds the tables. DataFusion runs here: a node only scans.
//! 2. Crate `bulk` plans and runs each statement; [`output`] writes its rows.
//! 3. Without a statement there is a prompt ([`prompt`]), or statements come from the standard input.
//!
//! Exit status: 0 when every statement was carried out, 1 when one failed, 2 when the command makes no sense.

mod output;
mod prompt;

use crate::client::access::AccessArgs;
use crate::client::default_admin;
use crate::console;
use crate::tables::directories::DirectoryTables;
use crate::tables::remote::RemoteTables;
use crate::tables::{Failure, statements};
use bulk::sql::{Sql, SqlLimits};
use bulk::{BulkError, Tables};
use clap::{Args, ValueEnum};
use env::Env;
use futures::StreamExt;
use output::Output;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Bytes that joins, sorts and aggregates may hold.
const MEMORY_BYTES: usize = 2 << 30;

/// Arguments of `ilion sql`.
#[derive(Debug, Args)]
pub struct SqlArgs {
    /// Statements, separated by semicolons; without any there is a prompt
    #[arg(value_name = "STATEMENT")]
    text: Option<String>,
    /// Admin API of the node whose tables are asked
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["directories", "schema", "table"])]
    admin: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
    /// Directories whose tables are asked, instead of a node: data directories with all their tables, or
    /// those of single tables
    #[arg(long = "dir", value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Statements that make the table of the directory, where no schema is found beside it
    #[arg(long, value_name = "FILE.cql", requires = "directories")]
    schema: Option<PathBuf>,
    /// The table of the directory, where it is not clear
    #[arg(long, value_name = "KEYSPACE.TABLE", requires = "directories")]
    table: Option<String>,
    /// How rows are written
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    format: FormatArg,
    /// Where rows are written [default: the standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    Table,
    Csv,
    Json,
    Parquet,
}

/// What runs statements.
struct Session {
    env: Env,
    runtime: Runtime,
    sql: Sql,
    format: FormatArg,
    out: Option<PathBuf>,
}

/// Runs the statements; the result is the exit status.
pub fn run(args: &SqlArgs) -> u8 {
    let env = Env::real();
    match carry_out(&env, args) {
        Ok(()) => 0,
        Err(failure) => complain(failure),
    }
}

fn complain(failure: Failure) -> u8 {
    let (message, status) = match failure {
        Failure::Work(message) => (message, 1),
        Failure::Usage(message) => (message, 2),
    };
    console::complain(&format!("ilion sql: {message}\n"));
    status
}

fn carry_out(env: &Env, args: &SqlArgs) -> Result<(), Failure> {
    let tables: Arc<dyn Tables> = match args.directories.as_slice() {
        [] => {
            let admin = args.admin.clone().unwrap_or_else(default_admin);
            Arc::new(RemoteTables::connect(env, &admin, &args.access)?)
        }
        directories => {
            let note = |text: &str| console::complain(&format!("ilion sql: {text}\n"));
            let (schema, table) = (args.schema.as_deref(), args.table.as_deref());
            Arc::new(DirectoryTables::open(env, directories, schema, table, note)?)
        }
    };
    let partitions = env.tasks.parallelism().max(1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(partitions)
        .thread_name("ilion-sql")
        .enable_all()
        .build()
        .map_err(Failure::work)?;
    let limits = SqlLimits { memory_bytes: MEMORY_BYTES, partitions };
    let sql = Sql::new(env.clone(), tables, limits).map_err(Failure::work)?;
    let session = Session { env: env.clone(), runtime, sql, format: args.format, out: args.out.clone() };
    match &args.text {
        Some(text) => session.run_all(text),
        None if std::io::stdin().is_terminal() => prompt::run(&session),
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(Failure::usage)?;
            session.run_all(&text)
        }
    }
}

impl Session {
    /// Runs statements one after the other, until one fails.
    fn run_all(&self, text: &str) -> Result<(), Failure> {
        let statements = statements(text);
        if statements.is_empty() {
            return Err(Failure::Usage("there is no statement".to_owned()));
        }
        if self.out.is_some() && statements.len() > 1 {
            return Err(Failure::Usage("--out takes the rows of one statement".to_owned()));
        }
        statements.into_iter().try_for_each(|statement| self.run(statement))
    }

    /// Runs a statement and writes its rows.
    fn run(&self, statement: &str) -> Result<(), Failure> {
        let failed = |error| Failure::Work(BulkError::from(error).to_string());
        self.runtime.block_on(async {
            let query = self.sql.plan(statement, self.sql.now_s(), None).await.map_err(failed)?;
            let mut batches = query.run().await.map_err(failed)?;
            let mut output = Output::open(&self.env, self.format, self.out.as_deref(), &query.schema())?;
            while let Some(batch) = batches.next().await {
                output.write(&batch.map_err(failed)?)?;
            }
            output.finish()
        })
    }
}
