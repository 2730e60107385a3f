//! The `ilion` binary: parses the command line, then runs the node or asks one.
//!
//! Exit status of the node: 0 after a shutdown that was asked for, 1 when it could not start or failed.

use clap::Parser;
use server::allocator::Allocator;
use server::cli::{Cli, Command, ServeArgs};
use server::config::Config;
use server::session::Sessions;
use server::{logging, run};
use std::process::ExitCode;
use tools::{console, nodetool, offline, top};

/// A read makes a dozen small allocations on one thread and frees most of them there.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    match Cli::parse_from(nodetool::with_long_flags(std::env::args())).into_command() {
        Command::Nodetool(args) => ExitCode::from(nodetool::run(&args)),
        Command::Top(args) => ExitCode::from(top::run(&args)),
        Command::Sstable(args) => ExitCode::from(offline::run(&args)),
        Command::Fqltool(args) => ExitCode::from(tools::fqltool::run(&args)),
        Command::Tls(args) => ExitCode::from(tools::tls::run(&args)),
        #[cfg(feature = "bulk")]
        Command::Export(args) => ExitCode::from(tools::export::run(&args)),
        #[cfg(feature = "bulk")]
        Command::Sql(args) => ExitCode::from(tools::sql::run(&args)),
        Command::Serve(args) => match serve(&args) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                console::complain(&format!("ilion: {message}\n"));
                ExitCode::FAILURE
            }
        },
    }
}

fn serve(args: &ServeArgs) -> Result<(), String> {
    logging::start(args.log_format, args.log_level.as_deref())?;
    let env = env::Env::real();
    let config = Config::load(&env, args, std::env::vars()).map_err(|e| e.to_string())?;
    run::run(env, config, |node| Sessions::new(node)).map_err(|e| e.to_string())
}
