//! `ilion sstable`: looks into SSTables and mends them, without a node.
//!
//! ```text
//! dump      what is in them: rows as a table, or sstabledump's JSON
//! export    the rows of a partition or a range of keys, as JSON lines or CSV
//! metadata  what Statistics.db and its neighbours say
//! verify    whether every component is sound, and what is not
//! scrub     new SSTables with every row that can be saved
//! adopt     a finer index for large partitions that another program wrote
//! ```
//! A path is a component of an SSTable, the beginning of its components' names, a table's directory, or a
//! directory above such directories; snapshots and backups are looked into only when they are named. What an
//! SSTable's header tells is enough: no schema is asked for.
//!
//! Exit status: 0 done and nothing found, 1 something was found or lost, 2 the command makes no sense or a
//! file cannot be read.

mod adopt;
mod dump;
mod export;
mod lock;
mod metadata;
mod output;
mod progress;
mod scrub;
mod source;
mod verify;

use clap::{Args, Subcommand};
use env::Env;
use output::Output;
use std::fmt;

/// Arguments of `ilion sstable`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct SsTableArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the content of SSTables: rows as a table, or the JSON of Cassandra's sstabledump
    Dump(dump::DumpArgs),
    /// Print the rows of a partition or a range of keys as JSON lines or CSV
    Export(export::ExportArgs),
    /// Print what SSTables say about themselves, as Cassandra's sstablemetadata does
    Metadata(metadata::MetadataArgs),
    /// Check every component of SSTables; status 1 if anything is wrong
    Verify(verify::VerifyArgs),
    /// Write SSTables anew with every row that can be saved; status 1 if anything is lost
    Scrub(scrub::ScrubArgs),
    /// Describe large partitions that Cassandra wrote, so that reads of them cost what they cost in Ilion's
    /// own files; status 1 if that is not possible
    Adopt(adopt::AdoptArgs),
}

/// Why a verb failed.
#[derive(Debug)]
enum Failure {
    /// The command makes no sense, or a file cannot be read: status 2.
    Usage(String),
    /// Whoever reads the output has gone: no failure at all.
    PipeClosed,
}

impl Failure {
    fn new(error: impl fmt::Display) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::PipeClosed,
            _ => Failure::new(error),
        }
    }
}

/// What a verb found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Sound,
    Findings,
}

/// Runs a verb; the result is the exit status.
pub fn run(args: &SsTableArgs) -> u8 {
    let env = Env::real();
    let mut out = Output::stdout();
    let result = match &args.verb {
        Verb::Dump(args) => dump::run(&env, args, &mut out),
        Verb::Export(args) => export::run(&env, args, &mut out),
        Verb::Metadata(args) => metadata::run(&env, args, &mut out),
        Verb::Verify(args) => verify::run(&env, args, &mut out),
        Verb::Scrub(args) => scrub::run(&env, args, &mut out),
        Verb::Adopt(args) => adopt::run(&env, args, &mut out),
    };
    match result.and_then(|outcome| Ok(out.flush().map(|()| outcome)?)) {
        Ok(Outcome::Sound) | Err(Failure::PipeClosed) => 0,
        Ok(Outcome::Findings) => 1,
        Err(Failure::Usage(message)) => {
            crate::console::complain(&format!("ilion sstable: {message}\n"));
            2
        }
    }
}
