//! `ilion export`: a table as Parquet, Arrow, CSV or JSON files.
//!
//! 1. [`crate::tables`] finds the table, of a node or of a directory.
//! 2. Crate `bulk` scans and writes; a bar shows how far it is.
//!
//! Exit status: 0 when every row that was asked for is in the files, 1 when the export failed and the same
//! command goes on with it, 2 when the command makes no sense, 3 when damaged data was left out.

mod bar;

use crate::client::access::AccessArgs;
use crate::client::default_admin;
use crate::console;
use crate::format::{duration_words, file_size};
use crate::tables::directories::DirectoryTables;
use crate::tables::remote::RemoteTables;
use crate::tables::{Failure, split_name};
use bar::Bar;
use bulk::export::{Compression, ExportOptions, Format, Summary, export};
use bulk::{EmptyValues, Loss, ScanOptions, Select, Tables};
use clap::{Args, ValueEnum};
use env::Env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The exit status when damaged data was left out.
const LOST_STATUS: u8 = 3;

/// Arguments of `ilion export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// A table of a running node; or a directory of SSTables: a table's, one of a snapshot or a backup, or a
    /// data directory, with --table
    #[arg(value_name = "KEYSPACE.TABLE|DIRECTORY")]
    what: PathBuf,
    /// Admin API of the node
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
    /// Where the files go; an export that was stopped goes on there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Format of the files
    #[arg(long, value_enum, default_value_t = FormatArg::Parquet)]
    format: FormatArg,
    /// How they are compressed [default: zstd for parquet, lz4 for arrow, none for others]
    #[arg(long, value_enum)]
    compression: Option<CompressionArg>,
    /// Only rows for which this holds, as in CQL
    #[arg(long = "where", value_name = "CONDITIONS")]
    filter: Option<String>,
    /// Only these columns, in this order
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Only partitions with tokens greater than START and not greater than END
    #[arg(long, value_name = "START:END", allow_hyphen_values = true)]
    token_range: Option<String>,
    /// No more rows than these
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// A column with the token first; the files are sorted by it
    #[arg(long)]
    with_token: bool,
    /// Columns with the write time and the remaining TTL of each cell
    #[arg(long)]
    with_times: bool,
    /// Rows for deletions, too, and the times of cells: for who copies a table with its tombstones
    #[arg(long)]
    with_deletions: bool,
    /// Go on behind damaged data; what is left out is told
    #[arg(long)]
    salvage: bool,
    /// What becomes of empty values that are no text; another column marks them, or they are refused
    #[arg(long, value_enum, default_value_t = EmptyArg::Null)]
    empty: EmptyArg,
    /// Statements that make the table, where no schema is found beside it
    #[arg(long, value_name = "FILE.cql")]
    schema: Option<PathBuf>,
    /// The table, where it is not clear
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    table: Option<String>,
    /// Threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatArg {
    Parquet,
    Arrow,
    Csv,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum CompressionArg {
    Zstd,
    Snappy,
    Lz4,
    None,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EmptyArg {
    Null,
    Marked,
    Refused,
}

/// Runs the export; the result is the exit status.
pub fn run(args: &ExportArgs) -> u8 {
    let env = Env::real();
    match carry_out(&env, args) {
        Ok(summary) => {
            // Whoever started it may not want to hear of it.
            let _ = std::io::stdout().write_all(summary.text.as_bytes());
            for loss in &summary.losses {
                console::complain(&format!("ilion export: {loss}\n"));
            }
            if summary.losses.is_empty() { 0 } else { LOST_STATUS }
        }
        Err(Failure::Work(message)) => {
            console::complain(&format!("ilion export: {message}\n"));
            1
        }
        Err(Failure::Usage(message)) => {
            console::complain(&format!("ilion export: {message}\n"));
            2
        }
    }
}

/// What an export says when it is over.
struct Told {
    text: String,
    losses: Vec<Loss>,
}

fn carry_out(env: &Env, args: &ExportArgs) -> Result<Told, Failure> {
    let format = match args.format {
        FormatArg::Parquet => Format::Parquet,
        FormatArg::Arrow => Format::Arrow,
        FormatArg::Csv => Format::Csv,
        FormatArg::Json => Format::Json,
    };
    let compression = args.compression.map_or(format.default_compression(), |arg| match arg {
        CompressionArg::Zstd => Compression::Zstd,
        CompressionArg::Snappy => Compression::Snappy,
        CompressionArg::Lz4 => Compression::Lz4,
        CompressionArg::None => Compression::None,
    });
    let Place { tables, keyspace, table } = find(env, args)?;
    let options = ScanOptions {
        form: format.form(),
        empty_values: match args.empty {
            EmptyArg::Null => EmptyValues::Null,
            EmptyArg::Marked => EmptyValues::Marked,
            EmptyArg::Refused => EmptyValues::Refused,
        },
        cell_times: args.with_times,
        token: args.with_token,
        deletions: args.with_deletions,
    };
    let select = Select {
        filter: args.filter.clone(),
        columns: args.columns.clone(),
        token_range: args.token_range.as_deref().map(tokens).transpose()?,
        limit: args.limit,
        options,
        salvage: args.salvage,
        ..Select::of(&keyspace, &table)
    };
    let request = select.request(env, &tables.schema())?;
    let source = tables.table(&keyspace, &table)?;
    let options = ExportOptions {
        directory: args.out.clone(),
        format,
        compression,
        threads: args.threads.map_or_else(|| env.tasks.parallelism(), usize::from),
    };
    let started = env.clock.monotonic_nanos();
    let bar = Arc::new(Bar::new(&format!("{keyspace}.{table}")));
    let summary = export(env, &source, &request, &in_words(args), &options, bar)?;
    let seconds = (env.clock.monotonic_nanos() - started) as f64 / 1e9;
    Ok(Told { text: words(&summary, args, seconds), losses: summary.losses })
}

/// Where the table is.
struct Place {
    tables: Arc<dyn Tables>,
    keyspace: String,
    table: String,
}

/// Finds the table that was asked for.
fn find(env: &Env, args: &ExportArgs) -> Result<Place, Failure> {
    let is_directory = env.fs.read_dir(&args.what).is_ok();
    if let Some(name) = name_of_table(&args.what)
        && (args.admin.is_some() || !is_directory)
    {
        let (keyspace, table) = split_name(name)?;
        let admin = args.admin.clone().unwrap_or_else(default_admin);
        let tables = RemoteTables::connect(env, &admin, &args.access)?;
        let (keyspace, table) = (keyspace.to_owned(), table.to_owned());
        return Ok(Place { tables: Arc::new(tables), keyspace, table });
    }
    if args.admin.is_some() {
        return Err(Failure::Usage(format!(
            "{} is not KEYSPACE.TABLE, of which --admin is",
            args.what.display()
        )));
    }
    let note = |text: &str| console::complain(&format!("ilion export: {text}\n"));
    let directories = std::slice::from_ref(&args.what);
    let tables =
        DirectoryTables::open(env, directories, args.schema.as_deref(), args.table.as_deref(), note)?;
    match tables.names().as_slice() {
        [(keyspace, table)] => {
            let (keyspace, table) = (keyspace.clone(), table.clone());
            Ok(Place { tables: Arc::new(tables), keyspace, table })
        }
        _ => Err(Failure::Usage(format!(
            "{} is a data directory: --table KEYSPACE.TABLE says which table",
            args.what.display()
        ))),
    }
}

/// What may be the name of a table.
fn name_of_table(what: &Path) -> Option<&str> {
    let text = what.to_str().filter(|text| !text.contains('/'))?;
    let (keyspace, table) = text.split_once('.')?;
    (!keyspace.is_empty() && !table.is_empty()).then_some(text)
}

/// What was asked for, in words, for the manifest.
fn in_words(args: &ExportArgs) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        out.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("where", args.filter.clone());
    add("token range", args.token_range.clone());
    add("limit", args.limit.map(|limit| limit.to_string()));
    add("deletions", args.with_deletions.then(|| "included".to_owned()));
    out
}

/// The tokens of `START:END`.
fn tokens(text: &str) -> Result<(i64, i64), Failure> {
    let no_range = || Failure::Usage(format!("{text} is not START:END, two tokens"));
    let (start, end) = text.split_once(':').ok_or_else(no_range)?;
    let token = |text: &str| text.trim().parse().map_err(|_| no_range());
    let (start, end): (i64, i64) = (token(start)?, token(end)?);
    match start < end {
        true => Ok((start, end)),
        false => Err(Failure::Usage(format!("token range {text} is empty: END must be greater than START"))),
    }
}

/// The summary, as it is printed.
fn words(summary: &Summary, args: &ExportArgs, seconds: f64) -> String {
    let Summary { rows, deletions, bytes, files, files_before, empty_values, losses } = summary;
    let noun = if *files == 1 { "file" } else { "files" };
    let what = match args.with_deletions {
        true => format!("{} rows and {deletions} deletions", rows - deletions),
        false => format!("{rows} rows"),
    };
    let mut out = format!("{what} in {files} {noun}, {}, in {}", file_size(*bytes), args.out.display());
    if *files_before > 0 {
        out.push_str(&format!("; {files_before} of the files were there"));
    }
    let took = match seconds < 60.0 {
        true => format!("{seconds:.1} s"),
        false => duration_words(seconds as u64),
    };
    out.push_str(&format!("\ntook {took}\n"));
    if !losses.is_empty() {
        let bytes: u64 = losses.iter().filter_map(|loss| loss.bytes).sum();
        let noun = if losses.len() == 1 { "stretch" } else { "stretches" };
        out.push_str(&format!(
            "{} {noun} of damaged data left out, in partitions of up to {} before compression\n",
            losses.len(),
            file_size(bytes)
        ));
    }
    if *empty_values > 0 {
        out.push_str(&format!(
            "{empty_values} empty values that are no text became null; --empty marked tells them apart\n"
        ));
    }
    out
}
