//! The node among others.

use super::places::{by_data_center, load};
use super::ports::{Ports, with_port};
use super::{Failure, Show, alone, cells};
use crate::api::{Cluster, ClusterNode, Status};
use crate::client::ClientError;
use crate::format::columns;
use clap::Subcommand;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;

/// Where this machine has names of hosts.
const HOSTS_FILE: &str = "/etc/hosts";

/// Verbs about the node among others.
#[derive(Debug, Subcommand)]
pub(super) enum RingVerb {
    /// Print cluster information (state, load, IDs, ...)
    Status {
        /// Show node domain names instead of IPs (those of /etc/hosts)
        #[arg(short = 'r', long)]
        resolve_ip: bool,
        /// The keyspace name
        keyspace: Option<String>,
    },
    /// Print the name, snitch, partitioner and schema version of a cluster
    Describecluster,
    /// Repair one or more tables (a node that is alone has nothing to repair)
    #[command(disable_help_flag = true)]
    Repair {
        /// The keyspace followed by one or many tables, and Cassandra's flags
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Remove keys that no longer belong to the node (a node that is alone owns them all)
    #[command(disable_help_flag = true)]
    Cleanup {
        /// The keyspace followed by one or many tables, and Cassandra's flags
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

impl RingVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let client = show.client;
        match self {
            RingVerb::Status { keyspace, resolve_ip } => {
                let query: Vec<(&str, &str)> = keyspace.iter().map(|k| ("keyspace", k.as_str())).collect();
                let mut status: Status = client.get("/api/v1/status", &query).map_err(of_keyspace)?;
                name_nodes(&mut status, *resolve_ip, &Ports::of(show)?);
                show.print(&status, status_text)
            }
            RingVerb::Describecluster => {
                let ports = Ports::of(show)?;
                show.get("/api/v1/cluster", &[], |cluster| cluster_text(cluster, &ports))
            }
            RingVerb::Repair { words } => alone::repair(client, words),
            RingVerb::Cleanup { words } => alone::cleanup(client, words),
        }
    }
}

/// What `status` and `ring` say of a keyspace that there is not.
pub(super) fn of_keyspace(error: ClientError) -> Failure {
    match error {
        ClientError::Refused(words) => Failure::Partial(format!("\nError: {words}\n")),
        other => other.into(),
    }
}

/// What nodes are called: by their addresses, or by the names that this machine's file of hosts has.
pub(super) fn name_nodes(status: &mut Status, resolve: bool, ports: &Ports) {
    let hosts = match resolve {
        true => env::Env::real().fs.read_to_string(Path::new(HOSTS_FILE)).unwrap_or_default(),
        false => String::new(),
    };
    for node in &mut status.nodes {
        node.address = match host_name(&hosts, &node.address) {
            Some(host) => ports.name_host(&node.address, &host),
            None => ports.name(&node.address),
        };
    }
}

/// The first name that a file of hosts has for an address.
pub(super) fn host_name(hosts: &str, address: &str) -> Option<String> {
    let address: IpAddr = address.parse().ok()?;
    let mut lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default().split_whitespace());
    lines.find_map(|mut words| {
        let is_it = words.next()?.parse::<IpAddr>().ok()? == address;
        words.next().filter(|_| is_it).map(str::to_owned)
    })
}

/// `status`. The columns of all data centers are as wide as those of the widest.
pub(super) fn status_text(status: &Status) -> String {
    let found = by_data_center(&status.nodes);
    // Cassandra compares the number of tokens with that of data centers, and so no ring of several nodes in
    // one data center has its tokens shown.
    let single = status.nodes.iter().map(|node| node.tokens.len()).sum::<usize>() <= found.len();
    let owns = if status.note.is_none() { "Owns (effective)" } else { "Owns" };
    let head = match single {
        true => cells(&["--", "Address", "Load", owns, "Host ID", "Token", "Rack"]),
        false => cells(&["--", "Address", "Load", "Tokens", owns, "Host ID", "Rack"]),
    };
    let mut rows = Vec::new();
    for nodes in found.values() {
        rows.push(head.clone());
        for node in nodes {
            let owns = match status.note {
                None => format!("{:.1}%", node.owns * 100.0),
                Some(_) => "?".to_owned(),
            };
            let mut row = vec![node.state.clone(), node.address.clone(), load(node)];
            if single {
                row.extend([owns, node.host_id.clone(), node.tokens.concat(), node.rack.clone()]);
            } else {
                let tokens = node.tokens.len().to_string();
                row.extend([tokens, owns, node.host_id.clone(), node.rack.clone()]);
            }
            rows.push(row);
        }
    }
    let table = columns(&rows, "  ");
    let (mut lines, mut out) = (table.lines(), String::new());
    for (data_center, nodes) in found {
        let title = format!("Datacenter: {data_center}");
        let _ = writeln!(out, "{title}\n{}", "=".repeat(title.len()));
        out.push_str("Status=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n");
        for line in lines.by_ref().take(nodes.len() + 1) {
            let _ = writeln!(out, "{line}");
        }
        out.push('\n');
    }
    if let Some(note) = &status.note {
        let _ = writeln!(out, "Note: {note}");
    }
    out
}

/// The nodes that there are: those of the ring, or the one that answers.
fn nodes_of(cluster: &Cluster) -> Vec<ClusterNode> {
    if !cluster.nodes.is_empty() {
        return cluster.nodes.clone();
    }
    vec![ClusterNode {
        state: "UN".to_owned(),
        address: cluster.address.clone(),
        port: cluster.storage_port,
        data_center: cluster.data_center.clone(),
        schema_version: Some(cluster.schema_version.clone()),
        release_version: Some(cluster.release_version.clone()),
    }]
}

/// `describecluster`. The version of the schema that this node has comes first, nodes that do not answer
/// last.
pub(super) fn cluster_text(cluster: &Cluster, ports: &Ports) -> String {
    let nodes = nodes_of(cluster);
    let mut out = format!(
        "Cluster Information:\n\tName: {}\n\tSnitch: {}\n\tDynamicEndPointSnitch: disabled\n\
         \tPartitioner: {}\n\tSchema versions:\n",
        cluster.name, cluster.snitch, cluster.partitioner
    );
    let version_of =
        |node: &ClusterNode| node.schema_version.clone().unwrap_or_else(|| "UNREACHABLE".to_owned());
    let mut schemas: Vec<(String, Vec<String>)> =
        grouped(&nodes, version_of, |node| ports.name(&node.address));
    schemas.sort_by_key(|(version, _)| (*version != cluster.schema_version, version == "UNREACHABLE"));
    for (version, addresses) in schemas {
        let _ = writeln!(out, "\t\t{version}: [{}]\n", addresses.join(", "));
    }
    let count = |letter: char| nodes.iter().filter(|node| node.state.ends_with(letter)).count();
    let down = |node: &&ClusterNode| node.state.starts_with('D');
    let unreachable = nodes.iter().filter(down).count();
    let _ = writeln!(
        out,
        "Stats for all nodes:\n\tLive: {}\n\tJoining: {}\n\tMoving: {}\n\tLeaving: {}\n\
         \tUnreachable: {unreachable}\n\nData Centers: ",
        nodes.len() - unreachable,
        count('J'),
        count('M'),
        count('L'),
    );
    let data_centers = grouped(&nodes, |node| node.data_center.clone(), |node| node.state.clone());
    for (data_center, states) in data_centers {
        let down = states.iter().filter(|state| state.starts_with('D')).count();
        let _ = writeln!(out, "\t{data_center} #Nodes: {} #Down: {down}", states.len());
    }
    out.push_str("\nDatabase versions:\n");
    let release_of = |node: &ClusterNode| node.release_version.clone().unwrap_or_default();
    for (version, endpoints) in grouped(&nodes, release_of, |node| with_port(&node.address, node.port)) {
        let _ = writeln!(out, "\t{version}: [{}]\n", endpoints.join(", "));
    }
    out.push_str("Keyspaces:\n");
    for keyspace in &cluster.keyspaces {
        let options: Vec<String> = keyspace.options.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let _ = writeln!(
            out,
            "\t{} -> Replication class: {} {{{}}}",
            keyspace.keyspace,
            keyspace.class,
            options.join(", ")
        );
    }
    if let Some(note) = &cluster.note {
        let _ = writeln!(out, "\nNote: {note}");
    }
    out
}

/// What nodes that have something in common are called.
fn grouped(
    nodes: &[ClusterNode],
    by: impl Fn(&ClusterNode) -> String,
    called: impl Fn(&ClusterNode) -> String,
) -> Vec<(String, Vec<String>)> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in nodes {
        groups.entry(by(node)).or_default().push(called(node));
    }
    groups.into_iter().collect()
}
