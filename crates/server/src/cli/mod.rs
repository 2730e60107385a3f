//! The command line: the flags of the node, and the names of the tools. Each tool parses its own arguments
//! (crate `tools`).
//!
//! ```text
//! ilion [serve] [FLAGS]                       the node
//! ilion nodetool [--admin HOST:PORT | --socket PATH] VERB   asks a node that runs
//! ilion top [--admin HOST:PORT | --socket PATH]             shows what a node reads, live
//! ilion sstable VERB FILE|DIR...              looks into SSTables, without a node
//! ilion fqltool dump FILE|DIR...              prints what a full query log holds
//! ilion export KEYSPACE.TABLE|DIRECTORY --out DIR   writes a table to files of other formats
//! ilion sql [--admin HOST:PORT | --dir DIR] "SELECT ..."   asks tables in SQL
//! ilion tls DIR                               makes certificates for trying TLS out
//! ilion import|refresh|snapshot|clearsnapshot  short for the verbs of nodetool
//! ```

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::net::IpAddr;
use std::path::PathBuf;
use tools::api::ADMIN_PORT_DEFAULT;

/// What was typed.
#[derive(Debug, Parser)]
#[command(name = "ilion", version, about = "A wide-column database node, compatible with Apache Cassandra")]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "import, refresh, snapshot and clearsnapshot are short for the verbs of nodetool.")]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the node; the same as no command at all
    Serve(ServeArgs),
    /// Ask a running node, or tell it what to do
    Nodetool(tools::nodetool::NodetoolArgs),
    /// Watch the reads of a running node
    Top(tools::top::TopArgs),
    /// Look into SSTables or mend them; no node is needed
    Sstable(tools::offline::SsTableArgs),
    /// Look into full query logs
    Fqltool(tools::fqltool::FqltoolArgs),
    /// Make a certificate authority and certificates for trying TLS out
    Tls(tools::tls::TlsArgs),
    /// Write a table to Parquet, Arrow, CSV or JSON files, of a node or of a directory
    #[cfg(feature = "bulk")]
    Export(tools::export::ExportArgs),
    /// Ask tables in SQL, of a node or of a directory
    #[cfg(feature = "bulk")]
    Sql(tools::sql::SqlArgs),
}

impl Cli {
    /// The command: `serve` when none was named.
    pub fn into_command(self) -> Command {
        self.command.unwrap_or(Command::Serve(self.serve))
    }
}

/// Flags of the node. They override the environment, which overrides the file.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Configuration in the format of cassandra.yaml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory for data and commit log [default: ./ilion-data, or what the configuration says]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Address for clients (rpc_address) [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<IpAddr>,
    /// Port for clients (native_transport_port), 0 for any that is free [default: 9042]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Address of the admin API (admin_address); others than the loopback need TLS and logins
    /// [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub admin_address: Option<IpAddr>,
    /// Port of the admin API, 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = ADMIN_PORT_DEFAULT)]
    pub admin_port: u16,
    /// Unix socket of the admin API, beside its port (admin_socket)
    #[arg(long, value_name = "PATH")]
    pub admin_socket: Option<PathBuf>,
    /// Port that answers /metrics and /health alone, without a login (metrics_port), 0 for any that is free
    /// [default: none]
    #[arg(long, value_name = "PORT")]
    pub metrics_port: Option<u16>,
    /// Address of that port (metrics_address) [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_address: Option<IpAddr>,
    /// Port of Arrow Flight SQL (flight_port), 0 for any that is free [default: none]
    #[arg(long, value_name = "PORT")]
    pub flight_port: Option<u16>,
    /// Name of the cluster (cluster_name) [default: "Test Cluster"]
    #[arg(long, value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// Fill an empty node with a table of sample data, and print reads to try
    #[arg(long)]
    pub sample: bool,
    /// Skip what is damaged in the commit log instead of refusing to start: what it held is lost
    #[arg(long)]
    pub ignore_replay_errors: bool,
    /// Serve the directory of a member of a larger ring as if it were everything
    #[arg(long)]
    pub single_node: bool,
    /// Start in another data center than before: what its replicas should have may not be here
    #[arg(long)]
    pub ignore_dc: bool,
    /// Start in another rack than before: what its replicas should have may not be here
    #[arg(long)]
    pub ignore_rack: bool,
    /// First line: the password of the role cassandra, where that is made because there are no roles
    #[arg(long, value_name = "FILE")]
    pub initial_superuser_password_file: Option<PathBuf>,
    /// What is logged: a level, or directives as in RUST_LOG, which this overrides
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// How it is logged
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

impl Default for ServeArgs {
    fn default() -> Self {
        ServeArgs {
            config: None,
            data_dir: None,
            listen: None,
            port: None,
            admin_address: None,
            admin_port: ADMIN_PORT_DEFAULT,
            admin_socket: None,
            metrics_port: None,
            metrics_address: None,
            flight_port: None,
            cluster_name: None,
            sample: false,
            ignore_replay_errors: false,
            single_node: false,
            ignore_dc: false,
            ignore_rack: false,
            initial_superuser_password_file: None,
            log_level: None,
            log_format: LogFormat::Text,
        }
    }
}

/// The shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// A line of text for each event
    Text,
    /// A JSON object for each event
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tools::nodetool::{SHORT_COMMANDS, with_long_flags};

    fn parse(words: &[&str]) -> Command {
        Cli::try_parse_from(std::iter::once(&"ilion").chain(words)).unwrap().into_command()
    }

    #[test]
    fn no_command_is_serve() {
        for words in [&["--port", "9999"][..], &["serve", "--port", "9999"]] {
            let Command::Serve(args) = parse(words) else { panic!("{words:?} is not serve") };
            assert_eq!((args.port, args.admin_port), (Some(9999), ADMIN_PORT_DEFAULT));
        }
    }

    #[test]
    fn some_verbs_of_nodetool_are_commands() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for verb in SHORT_COMMANDS {
            let rest = if verb == "import" || verb == "refresh" { "ks t" } else { "ks" };
            let rest = if verb == "import" { format!("-cd {rest} /d") } else { rest.to_owned() };
            let short = with_long_flags(words(&format!("ilion {verb} --admin 127.0.0.1:1 {rest}")));
            let long = with_long_flags(words(&format!("ilion nodetool {verb} --admin 127.0.0.1:1 {rest}")));
            assert_eq!(short, long);
            assert!(
                matches!(Cli::try_parse_from(short).unwrap().into_command(), Command::Nodetool(_)),
                "{verb}"
            );
        }
        assert_eq!(
            with_long_flags(words("ilion nodetool snapshot import")),
            words("ilion nodetool snapshot import")
        );
    }

    #[test]
    fn nodetool_is_a_command() {
        assert!(matches!(parse(&["nodetool", "status"]), Command::Nodetool(_)));
        assert!(Cli::try_parse_from(["ilion", "--listen", "nowhere"]).is_err());
    }
}
