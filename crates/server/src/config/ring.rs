//! What a node is told of its ring: `seed_provider` and the keys beside it.
//!
//! A node is a member of a ring where its file names seeds, be it itself alone, unless `--single-node` says
//! otherwise. Without a file, or without seeds in it, it is on its own.

use serde_norway::Value;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The default of `phi_convict_threshold`.
const PHI_DEFAULT: f64 = 8.0;

/// The ring of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct RingConfig {
    /// Storage addresses of the seeds.
    pub seeds: Vec<SocketAddr>,
    /// `phi_convict_threshold`
    pub phi_convict_threshold: f64,
    /// Whether messages are compressed (`internode_compression: all`).
    pub compresses: bool,
    /// For what a new node's tokens are to be even; `None`: they are drawn at random.
    pub allocation: Option<Allocation>,
}

/// For what a new node chooses its tokens. A keyspace goes before a number, as in Cassandra.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// So many replicas in its data center (`allocate_tokens_for_local_replication_factor`).
    Replicas(u32),
    /// As many as this keyspace has there (`allocate_tokens_for_keyspace`).
    Keyspace(String),
}

/// What the file says so far.
#[derive(Debug, Default)]
pub(super) struct RingDraft {
    seeds: Option<Vec<String>>,
    phi_convict_threshold: Option<f64>,
    compresses: bool,
    allocated_replicas: Option<u32>,
    allocated_keyspace: Option<String>,
    /// `paxos_variant`, where it is none that Ilion has.
    pub(super) foreign_paxos: Option<String>,
}

impl RingConfig {
    /// Names and values, as Cassandra shows them.
    pub(super) fn shown(ring: Option<&RingConfig>) -> [(&'static str, Option<String>); 7] {
        let seeds =
            ring.map(|ring| ring.seeds.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(","));
        let compresses = ring.is_some_and(|ring| ring.compresses);
        let phi = ring.map_or(PHI_DEFAULT, |ring| ring.phi_convict_threshold);
        let allocation = ring.and_then(|ring| ring.allocation.as_ref());
        let (keyspace, replicas) = match allocation {
            None => (None, None),
            Some(Allocation::Keyspace(name)) => (Some(name.clone()), None),
            Some(Allocation::Replicas(count)) => (None, Some(count.to_string())),
        };
        [
            ("allocate_tokens_for_keyspace", keyspace),
            ("allocate_tokens_for_local_replication_factor", replicas),
            ("internode_compression", Some(if compresses { "all" } else { "none" }.to_owned())),
            ("paxos_variant", Some("v1".to_owned())),
            ("phi_convict_threshold", Some(format!("{phi:?}"))),
            ("seed_provider.class_name", Some("org.apache.cassandra.locator.SimpleSeedProvider".to_owned())),
            ("seed_provider.parameters", seeds.map(|seeds| format!("{{seeds={seeds}}}"))),
        ]
    }
}

impl RingDraft {
    /// Takes note of a key. Whether it is one of these.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub(super) fn note(&mut self, key: &str, value: &Value) -> Result<bool, String> {
        match key {
            // A key without a value keeps its default.
            "seed_provider"
            | "phi_convict_threshold"
            | "internode_compression"
            | "paxos_variant"
            | "allocate_tokens_for_keyspace"
            | "allocate_tokens_for_local_replication_factor"
                if value.is_null() => {}
            "allocate_tokens_for_local_replication_factor" => {
                let replicas = value.as_u64().and_then(|replicas| u32::try_from(replicas).ok());
                self.allocated_replicas = Some(
                    replicas
                        .ok_or("allocate_tokens_for_local_replication_factor must be a number of replicas")?,
                );
            }
            "allocate_tokens_for_keyspace" => {
                let name =
                    value.as_str().ok_or("allocate_tokens_for_keyspace must be the name of a keyspace")?;
                self.allocated_keyspace = Some(name.to_owned());
            }
            "seed_provider" => self.seeds = Some(seeds(value)?),
            "phi_convict_threshold" => {
                let phi = value.as_f64().filter(|phi| (5.0..=16.0).contains(phi));
                self.phi_convict_threshold =
                    Some(phi.ok_or("phi_convict_threshold must be between 5 and 16")?);
            }
            "internode_compression" => match value.as_str() {
                Some("all") => self.compresses = true,
                // Between data centers messages go uncompressed, too: any framing is understood.
                Some("dc" | "none") => self.compresses = false,
                _ => return Err("it is all, dc or none".to_owned()),
            },
            "paxos_variant" => {
                let variant = value.as_str().filter(|name| name.starts_with('v')).ok_or("it is v1 or v2")?;
                self.foreign_paxos = (!variant.starts_with("v1")).then(|| variant.to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The ring of the node with the address `own`.
    ///
    /// # Errors
    /// When no seed has an address, or nodes other than this one decide conditional writes in another way.
    pub(super) fn finish(
        self,
        storage_port: u16,
        own: IpAddr,
        is_single: bool,
    ) -> Result<Option<RingConfig>, String> {
        let Some(names) = self.seeds.filter(|_| !is_single) else { return Ok(None) };
        let mut found = Vec::new();
        for name in &names {
            match resolve(name, storage_port) {
                Some(seed) => found.push(seed),
                None => tracing::warn!(seed = %name, "a seed has no address, and is left out"),
            }
        }
        if found.is_empty() {
            return Err("The seed provider lists no seeds.".to_owned());
        }
        if let Some(variant) = self.foreign_paxos.filter(|_| found.iter().any(|seed| seed.ip() != own)) {
            return Err(format!(
                "paxos_variant: {variant} is not supported in a ring: Ilion has v1. Set all nodes to v1"
            ));
        }
        let phi_convict_threshold = self.phi_convict_threshold.unwrap_or(PHI_DEFAULT);
        let allocation = self.allocated_keyspace.map(Allocation::Keyspace);
        let allocation = allocation.or(self.allocated_replicas.map(Allocation::Replicas));
        Ok(Some(RingConfig { seeds: found, phi_convict_threshold, compresses: self.compresses, allocation }))
    }
}

/// `[{class_name: ...SimpleSeedProvider, parameters: [{seeds: "a,b:7001"}]}]`
fn seeds(value: &Value) -> Result<Vec<String>, String> {
    let first = |value: &Value| match value {
        Value::Sequence(items) => items.first().cloned().unwrap_or(Value::Null),
        other => other.clone(),
    };
    let provider = first(value);
    let class = provider.get("class_name").and_then(Value::as_str).unwrap_or("SimpleSeedProvider");
    if class.rsplit('.').next() != Some("SimpleSeedProvider") {
        return Err(format!("{class} is not supported: Ilion has SimpleSeedProvider"));
    }
    let parameters = provider.get("parameters").map(first).unwrap_or(Value::Null);
    let seeds = parameters.get("seeds").and_then(Value::as_str).unwrap_or_default();
    let names = seeds.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// The address of `host`, `host:port`, `[v6]:port`.
fn resolve(name: &str, port: u16) -> Option<SocketAddr> {
    if let Ok(address) = name.parse::<std::net::IpAddr>() {
        return Some(SocketAddr::new(address, port));
    }
    let found = match name.parse::<SocketAddr>() {
        Ok(address) => return Some(address),
        Err(_) if name.contains(':') => name.to_socket_addrs().ok()?.collect::<Vec<_>>(),
        Err(_) => (name, port).to_socket_addrs().ok()?.collect(),
    };
    found.iter().find(|address| address.is_ipv4()).or(found.first()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(yaml: &str) -> Result<Option<RingConfig>, String> {
        let value: Value = serde_norway::from_str(yaml).unwrap();
        let mut draft = RingDraft::default();
        for (key, value) in value.as_mapping().unwrap() {
            draft.note(key.as_str().unwrap(), value)?;
        }
        draft.finish(7_000, IpAddr::from([127, 0, 0, 1]), false)
    }

    #[test]
    fn seeds_have_the_storage_port_or_their_own() {
        let yaml = "seed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    parameters:\n      - seeds: \"127.0.0.1, 127.0.0.2:7009\"";
        let ring = of(yaml).unwrap().unwrap();
        let seeds: Vec<String> = ring.seeds.iter().map(SocketAddr::to_string).collect();
        assert_eq!(seeds, ["127.0.0.1:7000", "127.0.0.2:7009"]);
    }

    #[test]
    fn what_is_not_a_ring_is_refused() {
        let none = "seed_provider:\n  - class_name: SimpleSeedProvider\n    parameters:\n      - seeds: \"\"";
        assert_eq!(of(none).unwrap_err(), "The seed provider lists no seeds.");
        assert!(
            of("seed_provider:\n  - class_name: a.KubernetesSeedProvider")
                .unwrap_err()
                .contains("not supported")
        );
        assert!(of("phi_convict_threshold: 3").is_err());
        assert_eq!(of("internode_compression: all"), Ok(None));
    }
}
