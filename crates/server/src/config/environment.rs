//! The environment variables of Cassandra's official container image.

use super::{ConfigError, Draft};
use serde_norway::Value;

/// Variables that set a key of cassandra.yaml.
const KEYS: &[(&str, &str)] = &[
    ("CASSANDRA_LISTEN_ADDRESS", "listen_address"),
    ("CASSANDRA_BROADCAST_ADDRESS", "broadcast_address"),
    ("CASSANDRA_RPC_ADDRESS", "rpc_address"),
    ("CASSANDRA_BROADCAST_RPC_ADDRESS", "broadcast_rpc_address"),
    ("CASSANDRA_CLUSTER_NAME", "cluster_name"),
    ("CASSANDRA_NUM_TOKENS", "num_tokens"),
    ("CASSANDRA_ENDPOINT_SNITCH", "endpoint_snitch"),
];
/// Variables of the image, or of Cassandra's own scripts, that set nothing here.
const OTHERS: &[&str] = &["CASSANDRA_SEEDS", "CASSANDRA_START_RPC"];
/// Variables that belong to the image's own scripts and mean nothing to a node.
const SILENT: &[&str] = &["CASSANDRA_HOME", "CASSANDRA_CONF", "CASSANDRA_VERSION", "CASSANDRA_SHA512"];

impl Draft {
    pub(super) fn apply_environment(
        &mut self,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), ConfigError> {
        let mut variables: Vec<(String, String)> =
            environment.into_iter().filter(|(name, _)| name.starts_with("CASSANDRA_")).collect();
        variables.sort();
        let (mut dc, mut rack) = (None, None);
        for (name, value) in variables {
            // The image's own default: the address of the container.
            let is_automatic = name.ends_with("_ADDRESS") && value == "auto";
            if value.is_empty() || is_automatic || SILENT.contains(&name.as_str()) {
                continue;
            }
            match name.as_str() {
                "CASSANDRA_DC" => dc = Some(value),
                "CASSANDRA_RACK" => rack = Some(value),
                other => match KEYS.iter().find(|(variable, _)| *variable == other) {
                    Some((_, key)) => {
                        self.apply_key(&name, key, &Value::String(value))?;
                    }
                    None if OTHERS.contains(&other) => {
                        self.warnings.push(format!("{name} does not apply to Ilion and is ignored"));
                    }
                    None => self.warnings.push(format!("{name} is not a known variable and is ignored")),
                },
            }
        }
        // The image writes these two to the file that only one of the snitches reads.
        let is_read = self.snitch.as_deref() == Some("GossipingPropertyFileSnitch");
        for (name, given, target) in [
            ("CASSANDRA_DC", dc, &mut self.places.data_center),
            ("CASSANDRA_RACK", rack, &mut self.places.rack),
        ] {
            match given {
                Some(value) if is_read => *target = Some(value),
                Some(_) => self.warnings.push(format!(
                    "{name} is ignored: it needs CASSANDRA_ENDPOINT_SNITCH=GossipingPropertyFileSnitch"
                )),
                None => {}
            }
        }
        Ok(())
    }
}
