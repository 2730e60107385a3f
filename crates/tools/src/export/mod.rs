//! `ilion export`: a table as Parquet, Arrow, CSV or JSON files.
//!
//! 1. [`place`] finds the SSTables and the schema.
//! 2. [`request`] makes a read command of the options.
//! 3. Crate `bulk` scans and writes; a bar shows how far it is.
//!
//! Exit status: 0 when every row that was asked for is in the files, 1 when the export failed and the same
//! command goes on with it, 2 when the command makes no sense.

mod bar;
mod place;
mod request;
mod schema_file;

use crate::console;
use crate::format::{duration_words, file_size};
use bar::Bar;
use bulk::export::{Compression, ExportOptions, Format, Summary, export};
use bulk::{BulkError, EmptyValues, ScanOptions, Source};
use clap::{Args, ValueEnum};
use env::Env;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `ilion export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// A directory of SSTables: a table's, one of a snapshot or a backup; or a data directory, with --table
    #[arg(value_name = "DIRECTORY")]
    what: PathBuf,
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

/// Why an export did not come to its end.
#[derive(Debug)]
enum Failure {
    /// The command makes no sense: status 2.
    Usage(String),
    /// Something failed: status 1.
    Work(String),
}

impl Failure {
    fn usage(error: impl fmt::Display) -> Failure {
        Failure::Usage(error.to_string())
    }

    fn work(error: impl fmt::Display) -> Failure {
        Failure::Work(error.to_string())
    }
}

impl From<BulkError> for Failure {
    fn from(error: BulkError) -> Self {
        match error {
            BulkError::Request(_) | BulkError::Directory(_) => Failure::usage(error),
            _ => Failure::work(error),
        }
    }
}

/// Runs the export; the result is the exit status.
pub fn run(args: &ExportArgs) -> u8 {
    let env = Env::real();
    match carry_out(&env, args) {
        Ok(text) => {
            // Whoever started it may not want to hear of it.
            let _ = std::io::stdout().write_all(text.as_bytes());
            0
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

fn carry_out(env: &Env, args: &ExportArgs) -> Result<String, Failure> {
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
    let place = place::find(env, &args.what, args.schema.as_deref(), args.table.as_deref())?;
    if let Some(note) = &place.note {
        console::complain(&format!("ilion export: {note}\n"));
    }
    let options = ScanOptions {
        form: format.form(),
        empty_values: match args.empty {
            EmptyArg::Null => EmptyValues::Null,
            EmptyArg::Marked => EmptyValues::Marked,
            EmptyArg::Refused => EmptyValues::Refused,
        },
        cell_times: args.with_times,
        token: args.with_token,
    };
    let asked = request::Asked {
        filter: args.filter.as_deref(),
        columns: args.columns.as_deref(),
        token_range: args.token_range.as_deref(),
        limit: args.limit,
    };
    let request = request::make(env, &place, &asked, options)?;
    let source =
        Source::of_sstables(env.fs.as_ref(), &place.sstables, &place.table).map_err(Failure::work)?;
    let options = ExportOptions {
        directory: args.out.clone(),
        format,
        compression,
        threads: args.threads.map_or_else(|| env.tasks.parallelism(), usize::from),
    };
    let started = env.clock.monotonic_nanos();
    let bar = Arc::new(Bar::new(&format!("{}.{}", place.table.keyspace, place.table.name)));
    let summary = export(env, &source, &request, &asked.words(), &options, bar)?;
    let seconds = (env.clock.monotonic_nanos() - started) as f64 / 1e9;
    Ok(words(&summary, args, seconds))
}

/// The summary, as it is printed.
fn words(summary: &Summary, args: &ExportArgs, seconds: f64) -> String {
    let Summary { rows, bytes, files, files_before, empty_values } = summary;
    let mut out = format!("{rows} rows in {files} files, {}, in {}", file_size(*bytes), args.out.display());
    if *files_before > 0 {
        out.push_str(&format!("; {files_before} of the files were there"));
    }
    let took = match seconds < 60.0 {
        true => format!("{seconds:.1} s"),
        false => duration_words(seconds as u64),
    };
    out.push_str(&format!("\ntook {took}\n"));
    if *empty_values > 0 {
        out.push_str(&format!(
            "{empty_values} empty values that are no text became null; --empty marked tells them apart\n"
        ));
    }
    out
}
