//! What people run while developing: `cargo xtask <task>`.
//!
//! * `tidy`: the rules of the house that no compiler knows, see [`tidy`].
//! * `fixtures`: SSTables of real Cassandras for the tests, see [`fixtures`].
//! * `ci`: everything that must hold before a change lands and needs nothing but Rust, see [`ci`].
#![allow(clippy::disallowed_methods, clippy::print_stderr, clippy::print_stdout)]

mod ci;
mod fixtures;
mod tidy;
mod times;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks of Ilion")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the rules of the house: crate table, licences, file sizes, module docs, links
    Tidy,
    /// Format check, clippy, tidy, and the tests that need nothing but Rust
    Ci {
        /// Leave the stored corpora to `fuzz/run`, which begins with them
        #[arg(long)]
        without_corpora: bool,
    },
    /// Make the fixtures anew: SSTables that real Cassandras write, in every format
    Fixtures {
        /// Sets, as 5.0.5-oa; all of them when none is named
        sets: Vec<String>,
    },
    /// Run a test binary and tell what it took: what cargo runs tests with in `ci`
    #[command(hide = true)]
    Timed {
        /// The binary and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let root = root();
    let outcome = match Arguments::parse().task {
        Task::Tidy => tidy::run(&root),
        Task::Ci { without_corpora } => ci::run(&root, !without_corpora),
        Task::Fixtures { sets } => fixtures::run(&root, &sets),
        Task::Timed { command } => return times::binary(&command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's root, from wherever the task is started.
fn root() -> PathBuf {
    // At run time: a binary in a shared target directory may have been built from another checkout.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("xtask"), PathBuf::from);
    here.parent().unwrap_or(&here).to_owned()
}
