//! Verbs about what is looked at and changed while the node runs: pools, latencies, clients, timeouts,
//! traces, the log.

use super::{Failure, PERCENTILES, Show, cells, silently, usage};
use crate::api::{
    ClientConnection, Cluster, Info, LogLevel, Messages, Pool, RequestLatencies, TableReport, Timeout,
    TraceProbability, VerbMessages,
};
use crate::client::Client;
use crate::format::columns;
use clap::{Args, Subcommand};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;

/// nodetool's words for timeouts.
const KINDS: &str = "read, range, write, counterwrite, cascontention, truncate, internodeconnect, internodeuser, \
                     internodestreaminguser, misc (general rpc_timeout_in_ms)";
/// Those that a node of its own has.
const OF_REQUESTS: [&str; 7] =
    ["read", "range", "write", "counterwrite", "cascontention", "truncate", "misc"];
/// Those that are about other nodes.
const BETWEEN_NODES: [&str; 3] = ["internodeconnect", "internodeuser", "internodestreaminguser"];
/// Levels of the log.
const LEVELS: [&str; 7] = ["ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF"];
/// Messages between nodes whose losses scripts watch.
const MESSAGES: [&str; 9] = [
    "BATCH_STORE_REQ",
    "COUNTER_MUTATION_REQ",
    "HINT_REQ",
    "MUTATION_REQ",
    "PAXOS_COMMIT_REQ",
    "RANGE_REQ",
    "READ_REPAIR_REQ",
    "READ_REQ",
    "TRUNCATE_REQ",
];

/// Verbs about what is changed while the node runs.
#[derive(Debug, Subcommand)]
pub(super) enum TuningVerb {
    /// Print usage statistics of thread pools
    Tpstats,
    /// Print statistic histograms for network operations
    Proxyhistograms,
    /// Print information about connected clients
    Clientstats(ClientstatsArgs),
    /// Print the timeout of the given type in ms
    Gettimeout {
        /// read, range, write, counterwrite, cascontention, truncate, misc
        timeout_type: Vec<String>,
    },
    /// Set the specified timeout in ms, or 0 to disable timeout
    Settimeout {
        /// The type, and a value in ms
        #[arg(allow_negative_numbers = true)]
        timeout: Vec<String>,
    },
    /// Get the runtime logging levels
    Getlogginglevels,
    /// Set the log level threshold for a given part of the program. Will reset to the initial configuration
    /// if called with no parameters.
    Setlogginglevel {
        /// The part (engine::background, server::net, ROOT) and the level: ALL, TRACE, DEBUG, INFO, WARN,
        /// ERROR, OFF
        part_and_level: Vec<String>,
    },
    /// Print the current trace probability value
    Gettraceprobability,
    /// Sets the probability for tracing any given request to value. 0 disables, 1 enables for all requests, 0
    /// is the default
    Settraceprobability {
        /// Trace probability between 0 and 1 (ex: 0.2)
        #[arg(allow_negative_numbers = true)]
        trace_probability: Option<String>,
    },
    /// Signals to reload SSL certificates
    Reloadssl,
    /// Reload local node schema from system tables (it is in force as it stands there)
    Reloadlocalschema,
    /// Show progress of a materialized view build (none is built)
    Viewbuildstatus {
        /// KEYSPACE VIEW, or KEYSPACE.VIEW
        names: Vec<String>,
    },
    /// A full rebuild of native secondary indexes for a given table (there are none)
    #[command(name = "rebuild_index")]
    RebuildIndex {
        /// The keyspace and table name followed by a list of index names
        names: Vec<String>,
    },
    /// Print GC Statistics (nothing collects garbage here)
    Gcstats,
}

/// Arguments of `clientstats`.
#[derive(Debug, Args)]
pub(super) struct ClientstatsArgs {
    /// Lists all connections
    #[arg(long)]
    all: bool,
    /// Lists client connections by protocol version
    #[arg(long)]
    by_protocol: bool,
    /// Clear the history of connected clients (none is kept)
    #[arg(long)]
    clear_history: bool,
    /// Lists all connections and the client options
    #[arg(long)]
    client_options: bool,
}

impl TuningVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let client = show.client;
        match self {
            TuningVerb::Tpstats => {
                let messages: Messages = client.get("/api/v1/messages", &[])?;
                show.get("/api/v1/pools", &[], |pools: &Vec<_>| pools_text(pools, &messages.verbs))
            }
            TuningVerb::Proxyhistograms => show.get("/api/v1/latencies", &[], latencies_text),
            TuningVerb::Clientstats(args) => clientstats(show, args),
            TuningVerb::Gettimeout { timeout_type } => get_timeout(show, timeout_type),
            TuningVerb::Settimeout { timeout } => set_timeout(client, timeout),
            TuningVerb::Getlogginglevels => {
                show.get("/api/v1/logging", &[], |levels: &Vec<_>| levels_text(levels))
            }
            TuningVerb::Setlogginglevel { part_and_level } => match part_and_level.as_slice() {
                [] => silently(client.delete("/api/v1/logging", &())),
                [_, level] if !LEVELS.contains(&level.to_ascii_uppercase().as_str()) => {
                    usage(&format!("{level} is no level: {}", LEVELS.join(", ")))
                }
                [part, level] => {
                    let body = LogLevel { part: part.clone(), level: level.clone() };
                    silently(client.put("/api/v1/logging", &body))
                }
                _ => usage("setlogginglevel requires a part of the program and a level, or nothing"),
            },
            TuningVerb::Reloadssl => silently(client.post("/api/v1/tls/reload", &())),
            TuningVerb::Gettraceprobability => {
                show.get("/api/v1/trace_probability", &[], |share: &TraceProbability| {
                    format!("Current trace probability: {:?}\n", share.probability)
                })
            }
            TuningVerb::Settraceprobability { trace_probability } => {
                let Some(word) = trace_probability else {
                    return usage("Required parameters are missing: trace_probability");
                };
                let Ok(probability) = word.parse() else {
                    return usage(&format!("trace_probability: can not convert \"{word}\" to a Double"));
                };
                if !(0.0..=1.0).contains(&probability) {
                    return usage("Trace probability must be between 0 and 1");
                }
                silently(client.put("/api/v1/trace_probability", &TraceProbability { probability }))
            }
            TuningVerb::Reloadlocalschema => show.still(json!(null), ""),
            TuningVerb::Viewbuildstatus { names } => match names.as_slice() {
                [both] if both.contains('.') => no_view(client, both),
                [keyspace, view] => no_view(client, &format!("{keyspace}.{view}")),
                _ => usage("viewbuildstatus requires keyspace and view name arguments"),
            },
            TuningVerb::RebuildIndex { names } => match names.as_slice() {
                [keyspace, table, _, ..] => no_index(client, keyspace, table),
                _ => usage("rebuild_index requires ks, cf and idx args"),
            },
            TuningVerb::Gcstats => show.get("/api/v1/info", &[], garbage_text),
        }
    }
}

/// `viewbuildstatus`: what Cassandra says of a view that there is not.
fn no_view(client: &Client, name: &str) -> Result<String, Failure> {
    let cluster: Cluster = client.get("/api/v1/cluster", &[])?;
    let host = format!("/{}", cluster.address);
    let status = columns(&[cells(&["Host", "Info"]), cells(&[&host, "UNKNOWN"])], " ");
    let words = format!("{name} has not finished building; node status is below.\n\n{status}");
    Err(Failure::Answered(words))
}

/// `rebuild_index`: no table has an index, and Cassandra passes over those that there are not.
fn no_index(client: &Client, keyspace: &str, table: &str) -> Result<String, Failure> {
    let cluster: Cluster = client.get("/api/v1/cluster", &[])?;
    if !cluster.keyspaces.iter().any(|found| found.keyspace == keyspace) {
        return Err(Failure::Node(format!("Keyspace {keyspace} does not exist")));
    }
    let _: Vec<TableReport> = client.get("/api/v1/tables", &[("keyspace", keyspace), ("tables", table)])?;
    Ok(String::new())
}

fn get_timeout(show: &Show<'_>, words: &[String]) -> Result<String, Failure> {
    let [kind] = words else {
        return usage(&format!("gettimeout requires a timeout type, one of ({KINDS})"));
    };
    known_timeout(kind)?;
    let all: Vec<Timeout> = show.client.get("/api/v1/timeouts", &[])?;
    let found = all.into_iter().find(|timeout| timeout.kind == *kind);
    let Some(found) = found else {
        return Err(Failure::Node(format!("the node has no timeout of type {kind}")));
    };
    show.print(&found, |timeout| {
        format!("Current timeout for type {}: {} ms\n", timeout.kind, timeout.millis)
    })
}

fn set_timeout(client: &Client, words: &[String]) -> Result<String, Failure> {
    let [kind, millis] = words else {
        return usage(&format!(
            "Timeout type followed by value in ms (0 disables socket streaming timeout). Type should be one of \
             ({KINDS})"
        ));
    };
    let Ok(number) = millis.parse::<i64>() else {
        return usage(&format!("For input string: \"{millis}\""));
    };
    let Ok(millis) = u64::try_from(number) else { return usage("timeout must be non-negative") };
    known_timeout(kind)?;
    silently(client.put("/api/v1/timeouts", &Timeout { kind: kind.clone(), millis }))
}

/// Refuses what is no timeout, and those between nodes by name.
fn known_timeout(kind: &str) -> Result<(), Failure> {
    if OF_REQUESTS.contains(&kind) {
        return Ok(());
    }
    Err(Failure::Usage(match BETWEEN_NODES.contains(&kind) {
        true => format!("{kind} is a timeout between nodes, and this node is the only one"),
        false => format!("Timeout type requires one of ({KINDS})"),
    }))
}

/// `tpstats`.
pub(super) fn pools_text(pools: &[Pool], verbs: &[VerbMessages]) -> String {
    let mut rows =
        vec![cells(&["Pool Name", "Active", "Pending", "Completed", "Blocked", "All time blocked"])];
    for pool in pools {
        let numbers = [pool.active, pool.pending, pool.completed, 0, 0];
        let mut row = vec![pool.name.clone()];
        row.extend(numbers.iter().map(u64::to_string));
        rows.push(row);
    }
    let mut out = columns(&rows, " ");
    out.push_str("\nLatencies waiting in queue (micros) per dropped message types\n");
    let mut line = |cells: [&str; 6]| {
        let [name, dropped, p50, p95, p99, max] = cells;
        let _ = writeln!(out, "{name:<33} {dropped:<7} {p50:>7} {p95:>8} {p99:>8} {max:>8}");
    };
    line(["Message type", "Dropped", "50%", "95%", "99%", "Max"]);
    for name in MESSAGES {
        let dropped = verbs.iter().find(|found| found.verb == name).map_or(0, |found| found.dropped);
        line([name, &dropped.to_string(), "0.0", "0.0", "0.0", "0.0"]);
    }
    out
}

/// `proxyhistograms`. Conditional requests are not counted apart, so nothing is known of them.
pub(super) fn latencies_text(found: &RequestLatencies) -> String {
    let mut out = "proxy histograms\n".to_owned();
    let mut line = |name: &str, cells: [String; 6]| {
        let _ = write!(out, "{name:<10}");
        for cell in cells {
            let _ = write!(out, "{cell:>19}");
        }
        out.push('\n');
    };
    let names = [
        "Read Latency",
        "Write Latency",
        "Range Latency",
        "CAS Read Latency",
        "CAS Write Latency",
        "View Write Latency",
    ];
    line("Percentile", names.map(str::to_owned));
    line("", names.map(|_| "(micros)".to_owned()));
    for (name, of) in PERCENTILES {
        let [read, write, range] = [&found.read, &found.write, &found.range].map(of);
        line(name, [read, write, range, f64::NAN, f64::NAN, 0.0].map(|value| format!("{value:.2}")));
    }
    out.push('\n');
    out
}

/// `gcstats`: since the start nothing was collected.
pub(super) fn garbage_text(info: &Info) -> String {
    let mut out = String::new();
    let mut line = |cells: [&str; 7]| {
        let [first @ .., last] = cells;
        first.iter().for_each(|cell| {
            let _ = write!(out, "{cell:>20}");
        });
        let _ = writeln!(out, "{last:>25}");
    };
    line([
        "Interval (ms)",
        "Max GC Elapsed (ms)",
        "Total GC Elapsed (ms)",
        "Stdev GC Elapsed (ms)",
        "GC Reclaimed (MB)",
        "Collections",
        "Direct Memory Bytes",
    ]);
    line([&(info.uptime_seconds * 1_000).to_string(), "0", "0", "0", "0", "0", "-1"]);
    out
}

/// `getlogginglevels`.
pub(super) fn levels_text(levels: &[LogLevel]) -> String {
    let mut out = format!("\n{:<50}{:>10}\n", "Logger Name", "Log Level");
    for level in levels {
        let _ = writeln!(out, "{:<50}{:>10}", level.part, level.level);
    }
    out
}

fn clientstats(show: &Show<'_>, args: &ClientstatsArgs) -> Result<String, Failure> {
    if args.clear_history {
        return show.still(json!(null), "Clearing connection history\n");
    }
    let mut clients: Vec<ClientConnection> = show.client.get("/api/v1/clients", &[])?;
    // Who has not begun a session is no client yet.
    clients.retain(|client| client.protocol_version.is_some());
    show.print(&clients, |clients| match args.by_protocol {
        true => by_protocol_text(clients),
        false => clients_text(clients, args.all || args.client_options, args.client_options),
    })
}

/// `clientstats`, with all connections where they are `listed`.
pub(super) fn clients_text(clients: &[ClientConnection], listed: bool, with_options: bool) -> String {
    let mut out = String::new();
    if listed && !clients.is_empty() {
        let mut head = cells(&[
            "Address",
            "SSL",
            "Cipher",
            "Protocol",
            "Version",
            "User",
            "Keyspace",
            "Requests",
            "Driver-Name",
            "Driver-Version",
        ]);
        head.extend(with_options.then(|| "Client-Options".to_owned()));
        let mut rows = vec![head];
        for client in clients {
            let option =
                |name: &str| client.options.get(name).cloned().unwrap_or_else(|| "undefined".to_owned());
            let mut row = vec![
                format!("/{}", client.address),
                client.tls_protocol.is_some().to_string(),
                client.tls_cipher_suite.clone().unwrap_or_else(|| "undefined".to_owned()),
                client.tls_protocol.clone().unwrap_or_else(|| "undefined".to_owned()),
                client.protocol_version.map_or_else(String::new, |version| version.to_string()),
                client.user.clone(),
                client.keyspace.clone().unwrap_or_default(),
                client.requests.to_string(),
                option("DRIVER_NAME"),
                option("DRIVER_VERSION"),
            ];
            if with_options {
                let options: Vec<String> = client.options.iter().map(|(k, v)| format!("{k}={v}")).collect();
                row.push(options.join(", "));
            }
            rows.push(row);
        }
        out.push_str(&columns(&rows, " "));
        out.push('\n');
    }
    let _ = writeln!(out, "Total connected clients: {}\n", clients.len());
    let mut by_user: BTreeMap<&str, usize> = BTreeMap::new();
    clients.iter().for_each(|client| *by_user.entry(&client.user).or_default() += 1);
    let mut rows = vec![cells(&["User", "Connections"])];
    rows.extend(by_user.into_iter().map(|(user, count)| vec![user.to_owned(), count.to_string()]));
    out.push_str(&columns(&rows, " "));
    out
}

/// `clientstats --by-protocol`: of those that are connected now.
pub(super) fn by_protocol_text(clients: &[ClientConnection]) -> String {
    let mut addresses: BTreeMap<(u8, String), u64> = BTreeMap::new();
    for client in clients {
        let Some(version) = client.protocol_version else { continue };
        let host = client.address.rsplit_once(':').map_or(client.address.as_str(), |(host, _)| host);
        *addresses.entry((version, format!("/{host}"))).or_default() += 1;
    }
    let mut rows = vec![cells(&["Protocol-Version", "IP-Address", "Last-Seen"])];
    rows.extend(
        addresses
            .into_keys()
            .map(|(version, host)| vec![format!("{version}/v{version}"), host, "now".to_owned()]),
    );
    format!("Clients by protocol version\n\n{}\n", columns(&rows, " "))
}
