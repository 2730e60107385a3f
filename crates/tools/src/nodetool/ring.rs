//! The node among others.

use super::{Failure, Show, alone, cells};
use crate::api::{Cluster, Status};
use crate::client::ClientError;
use crate::format::{columns, file_size};
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
                if *resolve_ip {
                    resolve_names(&mut status);
                }
                show.print(&status, status_text)
            }
            RingVerb::Describecluster => show.get("/api/v1/cluster", &[], cluster_text),
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

/// Names for addresses, of those that this machine's file of hosts has.
pub(super) fn resolve_names(status: &mut Status) {
    let hosts = env::Env::real().fs.read_to_string(Path::new(HOSTS_FILE)).unwrap_or_default();
    for node in &mut status.nodes {
        if let Some(name) = host_name(&hosts, &node.address) {
            node.address = name;
        }
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

/// `status`.
pub(super) fn status_text(status: &Status) -> String {
    let mut by_data_center: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for node in &status.nodes {
        by_data_center.entry(&node.data_center).or_default().push(node);
    }
    let mut out = String::new();
    for (data_center, nodes) in by_data_center {
        let title = format!("Datacenter: {data_center}");
        let _ = writeln!(out, "{title}\n{}", "=".repeat(title.len()));
        out.push_str("Status=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n");
        let single = nodes.iter().all(|node| node.tokens.len() == 1);
        let mut rows = vec![match single {
            true => cells(&["--", "Address", "Load", "Owns (effective)", "Host ID", "Token", "Rack"]),
            false => cells(&["--", "Address", "Load", "Tokens", "Owns (effective)", "Host ID", "Rack"]),
        }];
        for node in nodes {
            let owns = format!("{:.1}%", node.owns * 100.0);
            let load = file_size(node.load_bytes);
            let mut row = vec![node.state.clone(), node.address.clone(), load];
            if single {
                row.extend([owns, node.host_id.clone(), node.tokens.concat(), node.rack.clone()]);
            } else {
                let tokens = node.tokens.len().to_string();
                row.extend([tokens, owns, node.host_id.clone(), node.rack.clone()]);
            }
            rows.push(row);
        }
        out.push_str(&columns(&rows, "  "));
        out.push('\n');
    }
    out
}

/// `describecluster`.
pub(super) fn cluster_text(cluster: &Cluster) -> String {
    let mut out = format!(
        "Cluster Information:\n\tName: {}\n\tSnitch: {}\n\tDynamicEndPointSnitch: disabled\n\tPartitioner: {}\n\
         \tSchema versions:\n\t\t{}: [{}]\n\n",
        cluster.name, cluster.snitch, cluster.partitioner, cluster.schema_version, cluster.address
    );
    out.push_str(
        "Stats for all nodes:\n\tLive: 1\n\tJoining: 0\n\tMoving: 0\n\tLeaving: 0\n\tUnreachable: 0\n\n",
    );
    let _ = write!(
        out,
        "Data Centers: \n\t{} #Nodes: 1 #Down: 0\n\nDatabase versions:\n\t{}: [{}:{}]\n\nKeyspaces:\n",
        cluster.data_center, cluster.release_version, cluster.address, cluster.storage_port
    );
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
    out
}
