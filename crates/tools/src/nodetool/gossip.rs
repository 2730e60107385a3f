//! Verbs about gossip and messages between nodes.

use super::ports::Ports;
use super::{Failure, Show, silently, usage};
use crate::api::{Cluster, Gossip, GossipNode, Info, MessageCounts, Messages, ReadRepairs, SetGossip};
use clap::Subcommand;
use serde_json::json;
use std::fmt::Write;

const NO_SEEDS: &str = "Seed node list does not contain any remote node IPs\n";

/// Verbs about gossip and messages.
#[derive(Debug, Subcommand)]
pub(super) enum GossipVerb {
    /// Print network information on provided host (connecting node by default)
    Netstats {
        /// Display bytes in human readable form, i.e. KiB, MiB, GiB, TiB
        #[arg(short = 'H', long)]
        human_readable: bool,
    },
    /// Status of gossip
    Statusgossip,
    /// Reenable gossip
    Enablegossip,
    /// Disable gossip (effectively marking the node down)
    Disablegossip,
    /// Shows the gossip information for the cluster
    Gossipinfo,
    /// Shows the failure detector information for the cluster
    Failuredetector,
    /// Get the currently in use seed node IP list excluding the node IP
    Getseeds,
    /// Reload the seed node list from the seed node provider
    Reloadseeds,
}

impl GossipVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let gossip = || -> Result<Gossip, Failure> { Ok(show.client.get("/api/v1/gossip", &[])?) };
        let switch = |running: bool| silently(show.client.put("/api/v1/gossip", &SetGossip { running }));
        match self {
            GossipVerb::Netstats { .. } => netstats(show),
            GossipVerb::Statusgossip => {
                let running = gossip()?.running;
                let text = if running { "running\n" } else { "not running\n" };
                show.print(&json!({ "running": running }), |_| text.to_owned())
            }
            GossipVerb::Enablegossip => switch(true),
            GossipVerb::Disablegossip => switch(false),
            GossipVerb::Gossipinfo => {
                let found = gossip()?;
                match found.nodes.is_empty() {
                    true => alone(show),
                    false => {
                        let ports = Ports::of(show)?;
                        show.print(&found, |found| gossip_text(&found.nodes, &ports))
                    }
                }
            }
            GossipVerb::Failuredetector => {
                let suspected = gossip()?.nodes;
                let suspected: Vec<_> = suspected.iter().filter_map(|node| Some((node, node.phi?))).collect();
                let json: Vec<_> = suspected
                    .iter()
                    .map(|(node, phi)| json!({ "endpoint": node.address, "phi": phi }))
                    .collect();
                let ports = Ports::of(show)?;
                show.print(&json, |_| phi_text(&suspected, &ports))
            }
            GossipVerb::Getseeds => {
                let seeds = gossip()?.seeds;
                show.print(&seeds, |seeds| seeds_text(seeds))
            }
            GossipVerb::Reloadseeds => match gossip()?.nodes.is_empty() {
                true => show.still(json!([]), NO_SEEDS),
                false => {
                    usage("seeds are read when the node starts: change its cassandra.yaml and start it again")
                }
            },
        }
    }
}

fn netstats(show: &Show<'_>) -> Result<String, Failure> {
    let gossip: Gossip = show.client.get("/api/v1/gossip", &[])?;
    if gossip.nodes.is_empty() {
        return show.get("/api/v1/info", &[], |info| netstats_text(&messages_alone(info)));
    }
    show.get("/api/v1/messages", &[], netstats_text)
}

/// What there is of messages without other nodes.
pub(super) fn messages_alone(info: &Info) -> Messages {
    Messages {
        mode: if info.drained { "DRAINED" } else { "NORMAL" }.to_owned(),
        large: MessageCounts::default(),
        small: MessageCounts::default(),
        gossip: MessageCounts::default(),
        verbs: Vec::new(),
        read_repairs: ReadRepairs::default(),
    }
}

/// `netstats`: nothing is streamed.
pub(super) fn netstats_text(messages: &Messages) -> String {
    let ReadRepairs { attempted, blocking, background } = messages.read_repairs;
    let mut out = format!(
        "Mode: {}\nNot sending any streams.\nRead Repair Statistics:\nAttempted: {attempted}\n\
         Mismatch (Blocking): {blocking}\nMismatch (Background): {background}\n",
        messages.mode
    );
    let mut line = |cells: [&str; 5]| {
        let [name, active, pending, completed, dropped] = cells;
        let _ = writeln!(out, "{name:<25}{active:>10}{pending:>10}{completed:>15}{dropped:>10}");
    };
    line(["Pool Name", "Active", "Pending", "Completed", "Dropped"]);
    for (name, counts) in [
        ("Large messages", messages.large),
        ("Small messages", messages.small),
        ("Gossip messages", messages.gossip),
    ] {
        let numbers = [counts.pending, counts.completed, counts.dropped].map(|number| number.to_string());
        let [pending, completed, dropped] = &numbers;
        line([name, "n/a", pending, completed, dropped]);
    }
    out
}

/// `getseeds`.
pub(super) fn seeds_text(seeds: &[String]) -> String {
    if seeds.is_empty() {
        return NO_SEEDS.to_owned();
    }
    let seeds: Vec<String> = seeds.iter().map(|seed| format!("/{seed}")).collect();
    format!("Current list of seed node IPs, excluding the current node's IP: {}\n", seeds.join(" "))
}

/// `failuredetector`.
pub(super) fn phi_text(suspected: &[(&GossipNode, f64)], ports: &Ports) -> String {
    let mut out = format!("{:>10},{:>16}\n", "  Endpoint", "Phi");
    for (node, phi) in suspected {
        let _ = writeln!(out, "/{},{phi:>16.8}", ports.name(&node.address));
    }
    out
}

/// `gossipinfo`.
pub(super) fn gossip_text(nodes: &[GossipNode], ports: &Ports) -> String {
    let mut out = String::new();
    for node in nodes {
        let head = (ports.name(&node.address), node.generation, node.heartbeat);
        let _ = writeln!(out, "/{}\n  generation:{}\n  heartbeat:{}", head.0, head.1, head.2);
        let mut tokens = "  TOKENS: not present\n".to_owned();
        for state in &node.states {
            match &state.value {
                Some(value) => {
                    let _ = writeln!(out, "  {}:{}:{value}", state.name, state.version);
                }
                None => tokens = format!("  {}:{}:<hidden>\n", state.name, state.version),
            }
        }
        out.push_str(&tokens);
    }
    out.push('\n');
    out
}

fn alone(show: &Show<'_>) -> Result<String, Failure> {
    let (info, cluster): (Info, Cluster) =
        (show.client.get("/api/v1/info", &[])?, show.client.get("/api/v1/cluster", &[])?);
    let ports = Ports::of(show)?;
    show.print(&info, |info| gossip_text(&[alone_node(info, &cluster)], &ports))
}

/// What a node that is alone would tell others. It tells nobody, so each state has the version 0.
pub(super) fn alone_node(info: &Info, cluster: &Cluster) -> GossipNode {
    use crate::api::GossipState;
    let token = info.tokens.first().map_or("", String::as_str);
    let said = [
        ("STATUS", format!("NORMAL,{token}")),
        ("LOAD", format!("{:?}", info.load_bytes as f64)),
        ("SCHEMA", cluster.schema_version.clone()),
        ("DC", info.data_center.clone()),
        ("RACK", info.rack.clone()),
        ("RELEASE_VERSION", cluster.release_version.clone()),
        ("RPC_ADDRESS", cluster.address.clone()),
        ("HOST_ID", info.host_id.clone()),
        ("RPC_READY", info.native_transport_active.to_string()),
        ("STATUS_WITH_PORT", format!("NORMAL,{token}")),
    ];
    let state = |name: &str, value| GossipState { name: name.to_owned(), version: 0, value };
    let mut states: Vec<GossipState> =
        said.into_iter().map(|(name, value)| state(name, Some(value))).collect();
    states.push(state("TOKENS", None));
    GossipNode {
        address: cluster.address.clone(),
        port: cluster.storage_port,
        is_alive: true,
        generation: info.generation,
        heartbeat: 0,
        phi: None,
        states,
    }
}
