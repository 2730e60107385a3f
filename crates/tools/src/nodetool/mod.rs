//! `ilion nodetool`: asks a running node through its admin API, in the words and layouts of Cassandra's
//! nodetool. Each file holds a family of verbs: its arguments, what it asks for, what it prints. Lines about
//! what Ilion does not have are left out.
//!
//! Exit status: 0 done, 1 the command makes no sense or a directory could not be imported, 2 the node refused
//! or cannot be reached.

mod alone;
mod bulk;
mod cidr;
mod compact;
mod compactions;
mod gossip;
mod handoff;
mod help;
mod logs;
mod node;
mod places;
mod ports;
mod profile;
mod rewriting;
mod ring;
mod snapshots;
mod tables;
mod tablestats;
mod tuning;

pub use profile::profile_text;

use crate::api::{ADMIN_PORT_DEFAULT, Percentiles, Selection, Version};
use crate::client::access::AccessArgs;
use crate::client::{Client, ClientError, Place, default_admin};
use crate::console::complain;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::PathBuf;

const MIB: f64 = (1u64 << 20) as f64;

/// Arguments of `ilion nodetool`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct NodetoolArgs {
    /// Where the node's admin API listens
    #[arg(long, value_name = "HOST:PORT", global = true, default_value_t = default_admin())]
    admin: String,
    /// The Unix socket of the node's admin API, instead of its address
    #[arg(long, value_name = "PATH", global = true, conflicts_with = "admin")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Print the admin API's JSON instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Print the ports of nodes behind their addresses (-pp)
    #[arg(long, global = true)]
    print_port: bool,
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs. Names, arguments and their order are nodetool's.
#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Ring(ring::RingVerb),
    #[command(flatten)]
    Node(node::NodeVerb),
    #[command(flatten)]
    Cidr(cidr::CidrVerb),
    #[command(flatten)]
    Logs(logs::LogVerb),
    #[command(flatten)]
    Places(places::PlaceVerb),
    #[command(flatten)]
    Gossip(gossip::GossipVerb),
    #[command(flatten)]
    Handoff(handoff::HandoffVerb),
    #[command(flatten)]
    Tuning(tuning::TuningVerb),
    #[command(flatten)]
    Profile(profile::ProfileVerb),
    #[command(flatten)]
    Tables(tables::TableVerb),
    #[command(flatten)]
    Compactions(compactions::CompactionVerb),
    #[command(flatten)]
    Bulk(bulk::BulkVerb),
    #[command(flatten)]
    Rewriting(rewriting::RewritingVerb),
    #[command(flatten)]
    Snapshots(snapshots::SnapshotVerb),
    /// Display help information
    Help {
        /// The verb
        verb: Option<String>,
    },
    // The parser would suggest a verb that looks alike: `drain` for `brain`.
    #[command(external_subcommand)]
    Unknown(Vec<String>),
}

/// Verbs that are commands of `ilion`, too.
pub const SHORT_COMMANDS: [&str; 4] = ["import", "refresh", "snapshot", "clearsnapshot"];

/// Commands that ask a node.
const CLIENTS: [&str; 4] = ["nodetool", "top", "export", "sql"];

/// The words of the command line as the parser wants them: short commands as verbs of nodetool, and those of
/// nodetool's flags that have one dash and several letters (`-kt`) spelled with two.
pub fn with_long_flags(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = words.into_iter().collect();
    if words.get(1).is_some_and(|word| SHORT_COMMANDS.contains(&word.as_str())) {
        words.insert(1, "nodetool".to_owned());
    }
    let mut of_nodetool = false;
    let of_client = words.get(1).is_some_and(|word| CLIENTS.contains(&word.as_str()));
    let long = |word: String| match word.as_str() {
        "nodetool" => {
            of_nodetool = true;
            word
        }
        "-pw" if of_client => "--password".to_owned(),
        "-pwf" if of_client => "--password-file".to_owned(),
        "-pp" if of_nodetool => "--print-port".to_owned(),
        "-kt" if of_nodetool => "--kt-list".to_owned(),
        "-cf" if of_nodetool => "--column-family".to_owned(),
        "-cd" if of_nodetool => "--copy-data".to_owned(),
        "-sf" if of_nodetool => "--skip-flush".to_owned(),
        "-st" if of_nodetool => "--start-token".to_owned(),
        "-et" if of_nodetool => "--end-token".to_owned(),
        "-ns" if of_nodetool => "--no-snapshot".to_owned(),
        "-hf" if of_nodetool => "--hex-format".to_owned(),
        "-nt" if of_nodetool => "--no-ttl".to_owned(),
        _ => word,
    };
    with_address(words.into_iter().map(long).collect())
}

/// Options before the verb that take no value.
const FLAGS: [&str; 6] = ["--json", "--print-port", "--ssl", "--help", "-V", "--version"];

/// Puts `--admin` in the place of the options by which Cassandra's nodetool names a node, before the verb or
/// behind it. What scripts tell its JVM (`-Dname=value`) is left out.
fn with_address(words: Vec<String>) -> Vec<String> {
    if words.get(1).is_none_or(|word| word != "nodetool") {
        return words;
    }
    let (mut out, mut host, mut port, mut has_verb) = (Vec::new(), None, None, false);
    let mut words = words.into_iter().peekable();
    out.extend(words.by_ref().take(2));
    while let Some(word) = words.next() {
        let is_value = |next: &String| !next.starts_with('-');
        match word.as_str() {
            "-h" | "--host" if words.peek().is_some_and(is_value) => host = words.next(),
            "--port" => port = words.next(),
            "-p" if !has_verb => port = words.next(),
            option if option.starts_with("--host=") => {
                host = option.split_once('=').map(|of| of.1.to_owned())
            }
            option if option.starts_with("--port=") => {
                port = option.split_once('=').map(|of| of.1.to_owned())
            }
            option if option.starts_with("-D") && !has_verb => {}
            option => {
                let takes_value =
                    option.starts_with('-') && !option.contains('=') && !FLAGS.contains(&option);
                has_verb |= !option.starts_with('-');
                out.push(word);
                if takes_value && !has_verb {
                    out.extend(words.next());
                }
            }
        }
    }
    if host.is_some() || port.is_some() {
        let host = host.unwrap_or_else(|| "127.0.0.1".to_owned());
        let port = port.unwrap_or_else(|| ADMIN_PORT_DEFAULT.to_string());
        let bare_v6 = host.contains(':') && !host.starts_with('[');
        let address = if bare_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        out.splice(2..2, ["--admin".to_owned(), address]);
    }
    out
}

/// Why a verb failed.
#[derive(Debug)]
enum Failure {
    /// The command makes no sense.
    Usage(String),
    /// The node refused, or does not answer.
    Node(String),
    /// A part of the work failed: what to say about it.
    Partial(String),
    /// What was asked for is not so: the answer says how it is.
    Answered(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Failure::Usage(message)
        | Failure::Node(message)
        | Failure::Partial(message)
        | Failure::Answered(message)) = self;
        f.write_str(message)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            // As in Cassandra's nodetool, it is the caller's mistake.
            ClientError::Refused(message) => Failure::Usage(message),
            ClientError::Node(message) => Failure::Node(message),
        }
    }
}

/// Runs a verb; the result is the exit status.
pub fn run(args: &NodetoolArgs) -> u8 {
    match execute(args) {
        Ok(text) => print(&text, 0),
        Err(Failure::Answered(text)) => print(&text, 1),
        Err(Failure::Usage(message)) => {
            complain(&format!(
                "nodetool: {message}\nSee 'ilion nodetool help' or 'ilion nodetool help <command>'.\n"
            ));
            1
        }
        Err(Failure::Partial(message)) => {
            complain(&message);
            1
        }
        Err(Failure::Node(message)) => {
            complain(&format!("error: {message}\n"));
            2
        }
    }
}

/// Prints the answer; the exit status is `status`, unless it cannot be printed.
fn print(text: &str, status: u8) -> u8 {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A closed pipe (`| head`) is no failure.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            complain(&format!("error: {error}\n"));
            2
        }
        _ => status,
    }
}

fn execute(args: &NodetoolArgs) -> Result<String, Failure> {
    let place = Place::of(&args.admin, args.socket.as_ref());
    let access = args.access.access(&place).map_err(Failure::Usage)?;
    let client = Client::new(place, access).map_err(Failure::Usage)?;
    let show = Show { client: &client, json: args.json, print_port: args.print_port };
    match &args.verb {
        Verb::Ring(verb) => verb.run(&show),
        Verb::Node(verb) => verb.run(&show),
        Verb::Cidr(verb) => verb.run(&show),
        Verb::Logs(verb) => verb.run(&show),
        Verb::Places(verb) => verb.run(&show),
        Verb::Gossip(verb) => verb.run(&show),
        Verb::Handoff(verb) => verb.run(&show),
        Verb::Tuning(verb) => verb.run(&show),
        Verb::Profile(verb) => verb.run(&show),
        Verb::Tables(verb) => verb.run(&show),
        Verb::Compactions(verb) => verb.run(&show),
        Verb::Bulk(verb) => verb.run(&show),
        Verb::Rewriting(verb) => verb.run(&show),
        Verb::Snapshots(verb) => verb.run(&show),
        Verb::Help { verb } => help::help(verb.as_deref()),
        Verb::Unknown(words) => help::unknown(words),
    }
}

/// Prints what the node answers, as text or as it came.
struct Show<'a> {
    client: &'a Client,
    json: bool,
    print_port: bool,
}

impl Show<'_> {
    fn get<T: DeserializeOwned + Serialize>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        text: impl FnOnce(&T) -> String,
    ) -> Result<String, Failure> {
        let answer: T = self.client.get(path, query)?;
        self.print(&answer, text)
    }

    /// What a node that runs answers whatever it does: `json`, or `text`.
    fn still(&self, json: serde_json::Value, text: &str) -> Result<String, Failure> {
        let _: Version = self.client.get("/api/v1/version", &[])?;
        self.print(&json, |_| text.to_owned())
    }

    fn print<T: Serialize>(&self, answer: &T, text: impl FnOnce(&T) -> String) -> Result<String, Failure> {
        if !self.json {
            return Ok(text(answer));
        }
        let mut json = serde_json::to_string_pretty(answer).map_err(|e| Failure::Node(e.to_string()))?;
        json.push('\n');
        Ok(json)
    }
}

/// As [`silently`], for verbs by which Cassandra's nodetool takes a table that there is not for a failure of
/// the node.
fn silently_of_tables(done: Result<(), ClientError>) -> Result<String, Failure> {
    silently(done).map_err(of_tables)
}

/// A failure of the node for a table that there is not.
fn of_tables(failure: Failure) -> Failure {
    match failure {
        Failure::Usage(words) if words.starts_with("Unknown keyspace/cf pair") => Failure::Node(words),
        other => other,
    }
}

/// An argument that is a number, or nodetool's words for one that is none.
fn number<T: std::str::FromStr>(name: &str, text: &str, of: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| Failure::Usage(format!("{name}: can not convert \"{text}\" to a {of}")))
}

/// What a verb prints that only has to be done.
fn silently(done: Result<(), ClientError>) -> Result<String, Failure> {
    Ok(done.map(|()| String::new())?)
}

/// One of them.
type Percentile = fn(&Percentiles) -> f64;

/// The lines of a table of percentiles: what each is called, and what stands in it.
const PERCENTILES: [(&str, Percentile); 7] = [
    ("50%", |p| p.p50),
    ("75%", |p| p.p75),
    ("95%", |p| p.p95),
    ("98%", |p| p.p98),
    ("99%", |p| p.p99),
    ("Min", |p| p.min),
    ("Max", |p| p.max),
];

/// Words as the cells of a line.
fn cells(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// `ks t1 t2`: a keyspace and its tables.
fn selection(words: &[String]) -> Selection {
    match words {
        [] => Selection::default(),
        [keyspace, tables @ ..] => Selection { keyspace: Some(keyspace.clone()), tables: tables.to_vec() },
    }
}

fn usage(text: &str) -> Result<String, Failure> {
    Err(Failure::Usage(text.to_owned()))
}

#[cfg(test)]
mod tests;
