//! Ports behind addresses, which `-pp` asks for.

use super::{Failure, Show};
use crate::api::{Cluster, Gossip, RingRanges};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What nodes are called with their ports, by their addresses. Empty where nobody asked.
#[derive(Debug, Default)]
pub(super) struct Ports {
    nodes: BTreeMap<String, Names>,
}

/// A node's name to other nodes and to clients.
#[derive(Debug)]
struct Names {
    to_nodes: String,
    to_clients: Option<String>,
}

impl Ports {
    /// Those of the nodes that the node knows, if `-pp` was given.
    pub(super) fn of(show: &Show<'_>) -> Result<Ports, Failure> {
        if !show.print_port {
            return Ok(Ports::default());
        }
        let gossip: Gossip = show.client.get("/api/v1/gossip", &[])?;
        if gossip.nodes.is_empty() {
            return Ok(Ports::alone(&show.client.get("/api/v1/cluster", &[])?));
        }
        Ok(Ports::of_gossip(&gossip))
    }

    /// Those of the nodes of a ring.
    pub(super) fn of_gossip(gossip: &Gossip) -> Ports {
        let nodes = gossip.nodes.iter().map(|node| {
            let native = node.states.iter().find(|state| state.name == "NATIVE_ADDRESS_AND_PORT");
            let to_clients = native.and_then(|state| state.value.clone());
            let to_nodes = with_port(&node.address, node.port);
            (node.address.clone(), Names { to_nodes, to_clients })
        });
        Ports { nodes: nodes.collect() }
    }

    /// Those of a node without a ring.
    pub(super) fn alone(cluster: &Cluster) -> Ports {
        let of = |port| with_port(&cluster.address, port);
        let names = Names { to_nodes: of(cluster.storage_port), to_clients: cluster.native_port.map(of) };
        Ports { nodes: BTreeMap::from([(cluster.address.clone(), names)]) }
    }

    /// An address, with its port if it is that of a node.
    pub(super) fn name(&self, address: &str) -> String {
        self.nodes.get(address).map_or_else(|| address.to_owned(), |names| names.to_nodes.clone())
    }

    /// A host's name in place of an address, with the port of that.
    pub(super) fn name_host(&self, address: &str, host: &str) -> String {
        match self.name(address).rsplit_once(':') {
            Some((_, port)) if self.nodes.contains_key(address) => format!("{host}:{port}"),
            _ => host.to_owned(),
        }
    }

    /// Names the nodes that hold ranges.
    pub(super) fn name_ranges(&self, found: &mut RingRanges) {
        for endpoint in found.ranges.iter_mut().flat_map(|range| &mut range.endpoints) {
            if let Some(names) = self.nodes.get(&endpoint.address) {
                endpoint.address = names.to_nodes.clone();
                endpoint.rpc_address = names.to_clients.clone().unwrap_or(endpoint.rpc_address.clone());
            }
        }
    }
}

/// An address with its port, as Cassandra writes it.
pub(super) fn with_port(address: &str, port: u16) -> String {
    match address.parse() {
        Ok(ip @ IpAddr::V6(_)) => format!("[{ip}]:{port}"),
        _ => format!("{address}:{port}"),
    }
}
