//! Verbs about where data lies.

use super::ports::Ports;
use super::ring::{name_nodes, of_keyspace};
use super::{Failure, Show, usage};
use crate::api::{
    Cluster, NodeStatus, PartitionPlace, RangeEndpoint, RingRange, RingRanges, Status, TableDirectories,
    TableReport, TokenSample,
};
use crate::structured::{Format, print};
use clap::Subcommand;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Verbs about places.
#[derive(Debug, Subcommand)]
pub(super) enum PlaceVerb {
    /// Print information about the token ring
    Ring {
        /// Show node domain names instead of IPs (those of /etc/hosts)
        #[arg(short = 'r', long)]
        resolve_ip: bool,
        /// Specify a keyspace for accurate ownership information (topology awareness)
        keyspace: Option<String>,
    },
    /// Shows the token ranges info of a given keyspace
    Describering {
        /// The keyspace name
        keyspace: Option<String>,
    },
    /// Print the end points that owns the key
    Getendpoints {
        /// The keyspace, the table, and the partition key for which we need to find the endpoint
        names: Vec<String>,
    },
    /// Print the sstable filenames that own the key
    Getsstables {
        /// Specify the key in hexadecimal string format
        #[arg(long)]
        hex_format: bool,
        /// If the table is using leveled compaction the level of each sstable will be included in the output
        #[arg(short = 'l', long)]
        show_levels: bool,
        /// The keyspace, the table, and the key
        names: Vec<String>,
    },
    /// Print all directories where data of tables are stored
    Datapaths {
        /// Output format (json, yaml)
        #[arg(short = 'F', long, value_name = "format", default_value = "")]
        format: String,
        /// List of table (or keyspace) names
        tables: Vec<String>,
    },
    /// Shows the sampled keys held across all keyspaces
    Rangekeysample,
}

impl PlaceVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        match self {
            PlaceVerb::Ring { keyspace, resolve_ip } => ring(show, keyspace.as_deref(), *resolve_ip),
            PlaceVerb::Describering { keyspace: Some(keyspace) } => describering(show, keyspace),
            PlaceVerb::Describering { keyspace: None } => usage("Required parameters are missing: keyspace"),
            PlaceVerb::Getendpoints { names } => match names.as_slice() {
                [keyspace, table, key] => {
                    let query = [("keyspace", keyspace.as_str()), ("table", table), ("key", key)];
                    let mut place: PartitionPlace = show.client.get("/api/v1/partition", &query)?;
                    let ports = Ports::of(show)?;
                    place.endpoints.iter_mut().for_each(|address| *address = ports.name(address));
                    show.print(&place, |place| lines(&place.endpoints))
                }
                _ => usage("getendpoints requires keyspace, table and partition key arguments"),
            },
            PlaceVerb::Getsstables { hex_format, names, show_levels } => match names.as_slice() {
                [keyspace, table, key] => {
                    getsstables(show, (keyspace, table, key), *hex_format, *show_levels)
                }
                _ => usage("getsstables requires ks, cf and key args"),
            },
            PlaceVerb::Datapaths { tables, format } => {
                let format = match Format::of(format) {
                    Ok(format) => format,
                    Err(_) => return usage("arguments for -F are yaml and json only."),
                };
                let mut found: Vec<TableDirectories> = show.client.get("/api/v1/directories", &[])?;
                found.retain(|table| tables.is_empty() || tables.iter().any(|name| is_of(table, name)));
                show.print(&found, |found| match format {
                    Some(format) => print(&directories_of_tables(found), format),
                    None => directories_text(found),
                })
            }
            PlaceVerb::Rangekeysample => show.get("/api/v1/ring/sample", &[], |sample: &TokenSample| {
                let tokens: String = sample.tokens.iter().map(|token| format!("\t{token}\n")).collect();
                format!("RangeKeySample: \n{tokens}")
            }),
        }
    }
}

fn lines(words: &[String]) -> String {
    words.iter().map(|word| format!("{word}\n")).collect()
}

fn is_of(table: &TableDirectories, name: &str) -> bool {
    match name.split_once('.') {
        Some((keyspace, of)) => table.keyspace == keyspace && table.table == of,
        None => table.keyspace == name,
    }
}

fn ring(show: &Show<'_>, keyspace: Option<&str>, resolve: bool) -> Result<String, Failure> {
    let query: Vec<(&str, &str)> = keyspace.iter().map(|k| ("keyspace", *k)).collect();
    let mut status: Status = show.client.get("/api/v1/status", &query).map_err(of_keyspace)?;
    name_nodes(&mut status, resolve, &Ports::of(show)?);
    show.print(&status, |status| ring_text(status, show.print_port))
}

/// The nodes of each data center.
pub(super) fn by_data_center(nodes: &[NodeStatus]) -> BTreeMap<&str, Vec<&NodeStatus>> {
    let mut found: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for node in nodes {
        found.entry(&node.data_center).or_default().push(node);
    }
    found
}

/// `ring`.
pub(super) fn ring_text(status: &Status, has_ports: bool) -> String {
    let nodes = &status.nodes;
    // As wide as the longest address with a port, whether or not ports are shown.
    let besides = if has_ports { "  ".len() } else { ":7000  ".len() };
    let width = nodes.iter().map(|node| node.address.len()).max().unwrap_or(0) + besides;
    let line = |cells: [&str; 7]| {
        let [address, rack, status, state, load, owns, token] = cells;
        format!("{address:<width$}{rack:<12}{status:<7}{state:<8}{load:<16}{owns:<20}{token:<44}\n")
    };
    let mut out = "\n".to_owned();
    for (data_center, nodes) in by_data_center(nodes) {
        let of = |node| of_token(node).map(move |token| (token, node));
        let mut tokens: Vec<(i64, &NodeStatus)> = nodes.into_iter().flat_map(of).collect();
        tokens.sort_by_key(|(token, _)| *token);
        let _ = write!(out, "Datacenter: {data_center}\n==========\n");
        out.push_str(&line(["Address", "Rack", "Status", "State", "Load", "Owns", "Token"]));
        match tokens.as_slice() {
            [] | [_] => out.push('\n'),
            [.., (last, _)] => out.push_str(&line(["", "", "", "", "", "", &last.to_string()])),
        }
        for (token, node) in tokens {
            let owns = match status.note {
                None => format!("{:.2}%", node.owns * 100.0),
                Some(_) => "?".to_owned(),
            };
            let status = if node.state.starts_with('U') { "Up" } else { "Down" };
            let state = match node.state.get(1..) {
                Some("J") => "Joining",
                Some("L") => "Leaving",
                Some("M") => "Moving",
                _ => "Normal",
            };
            let (load, token) = (load(node), token.to_string());
            out.push_str(&line([&node.address, &node.rack, status, state, &load, &owns, &token]));
        }
        out.push('\n');
    }
    if nodes.iter().any(|node| node.tokens.len() > 1) {
        out.push_str(
            "  Warning: \"nodetool ring\" is used to output all the tokens of a node.\n  To view status \
             related info of a node use \"nodetool status\" instead.\n\n",
        );
    }
    out.push_str("\n  ");
    if let Some(note) = &status.note {
        let _ = writeln!(out, "Note: {note}");
    }
    out
}

fn of_token(node: &NodeStatus) -> impl Iterator<Item = i64> + '_ {
    node.tokens.iter().filter_map(|token| token.parse().ok())
}

/// What a node has on its disks, as far as it is known.
pub(super) fn load(node: &NodeStatus) -> String {
    if node.load_is_unknown { "?".to_owned() } else { crate::format::file_size(node.load_bytes) }
}

fn describering(show: &Show<'_>, keyspace: &str) -> Result<String, Failure> {
    let cluster: Cluster = show.client.get("/api/v1/cluster", &[])?;
    let Some(found) = cluster.keyspaces.iter().find(|found| found.keyspace == keyspace) else {
        return Err(Failure::Node(format!("No such keyspace: {keyspace}")));
    };
    if found.class == "LocalStrategy" {
        return Err(Failure::Node(format!("There is no ring for the keyspace: {keyspace}")));
    }
    let ports = Ports::of(show)?;
    if !cluster.nodes.is_empty() {
        let mut ranges: RingRanges = show.client.get("/api/v1/ring/ranges", &[("keyspace", keyspace)])?;
        ports.name_ranges(&mut ranges);
        return show.print(&ranges, describering_text);
    }
    let status: Status = show.client.get("/api/v1/status", &[])?;
    let mut ranges = ranges_alone(&cluster, &status.nodes);
    ports.name_ranges(&mut ranges);
    show.print(&status, |_| describering_text(&ranges))
}

/// The ranges of a node that is alone: it holds them all.
pub(super) fn ranges_alone(cluster: &Cluster, nodes: &[NodeStatus]) -> RingRanges {
    let mut ranges = Vec::new();
    for node in nodes {
        let mut tokens: Vec<i64> = of_token(node).collect();
        tokens.sort_unstable();
        let before = tokens.iter().cycle().skip(tokens.len().saturating_sub(1));
        ranges.extend(before.zip(&tokens).map(|(start, end)| RingRange {
            start_token: start.to_string(),
            end_token: end.to_string(),
            endpoints: vec![RangeEndpoint {
                address: node.address.clone(),
                rpc_address: node.address.clone(),
                data_center: node.data_center.clone(),
                rack: node.rack.clone(),
            }],
        }));
    }
    RingRanges { schema_version: cluster.schema_version.clone(), ranges }
}

/// `describering`: a line for each range between two tokens.
pub(super) fn describering_text(found: &RingRanges) -> String {
    let mut out = format!("Schema Version:{}\nTokenRange: \n", found.schema_version);
    for range in &found.ranges {
        let joined =
            |of: fn(&RangeEndpoint) -> String| range.endpoints.iter().map(of).collect::<Vec<_>>().join(", ");
        let (addresses, rpc_addresses) =
            (joined(|of| of.address.clone()), joined(|of| of.rpc_address.clone()));
        let details = joined(|of| {
            format!("EndpointDetails(host:{}, datacenter:{}, rack:{})", of.address, of.data_center, of.rack)
        });
        let _ = writeln!(
            out,
            "\tTokenRange(start_token:{}, end_token:{}, endpoints:[{addresses}], \
             rpc_endpoints:[{rpc_addresses}], endpoint_details:[{details}])",
            range.start_token, range.end_token
        );
    }
    out
}

fn getsstables(
    show: &Show<'_>,
    of: (&str, &str, &str),
    is_hex: bool,
    shows_levels: bool,
) -> Result<String, Failure> {
    let (keyspace, table, key) = of;
    let named = [("keyspace", keyspace), ("tables", table)];
    let known: Result<Vec<TableReport>, _> = show.client.get("/api/v1/tables", &named);
    if matches!(known, Err(crate::client::ClientError::Refused(_))) {
        return Err(Failure::Partial(format!("ColumnFamilyStore for {keyspace}/{table} not found.\n")));
    }
    let hex = is_hex.to_string();
    let query = [("keyspace", keyspace), ("table", table), ("key", key), ("hex", hex.as_str())];
    show.get("/api/v1/partition", &query, |place: &PartitionPlace| sstables_text(place, shows_levels))
}

/// `getsstables`. Only tables with levels show them.
pub(super) fn sstables_text(place: &PartitionPlace, shows_levels: bool) -> String {
    let line = |(at, path): (usize, &PathBuf)| match place.levels.get(at).filter(|_| shows_levels) {
        Some(level) => format!("{level}: {}\n", path.display()),
        None => format!("{}\n", path.display()),
    };
    place.sstables.iter().enumerate().map(line).collect()
}

/// `datapaths -F`.
pub(super) fn directories_of_tables(tables: &[TableDirectories]) -> Value {
    let mut out = Map::new();
    for TableDirectories { keyspace, table, directories } in tables {
        let of_keyspace = out.entry(keyspace.as_str()).or_insert_with(|| json!({}));
        if let Some(of_keyspace) = of_keyspace.as_object_mut() {
            of_keyspace.insert(table.clone(), json!(directories));
        }
    }
    Value::Object(out)
}

/// `datapaths`.
pub(super) fn directories_text(tables: &[TableDirectories]) -> String {
    let mut out = String::new();
    let mut last = None;
    for table in tables {
        if last != Some(&table.keyspace) {
            let _ = writeln!(out, "Keyspace: {}", table.keyspace);
        }
        last = Some(&table.keyspace);
        let _ = writeln!(out, "\tTable: {}\n\tPaths:", table.table);
        table.directories.iter().for_each(|path| {
            let _ = writeln!(out, "\t\t{}", path.display());
        });
        out.push('\n');
    }
    out
}
