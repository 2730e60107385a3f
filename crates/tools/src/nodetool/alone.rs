//! Verbs that bring several nodes in line. A node that is alone has nothing to do, and says so. In a ring
//! they are refused: data are not compared and not moved between nodes yet.

use super::Failure;
use crate::api::{Gossip, TableReport};
use crate::client::Client;

/// Keyspaces that each node has for itself.
const OF_ONE_NODE: [&str; 2] = ["system", "system_schema"];

/// Flags of Cassandra's `repair` and `cleanup` that a value follows.
const FLAGS_WITH_VALUES: [&str; 11] = [
    "-dc",
    "--in-dc",
    "-hosts",
    "--in-hosts",
    "-st",
    "--start-token",
    "-et",
    "--end-token",
    "-j",
    "--jobs",
    "--job-threads",
];

/// `repair`: nobody has anything that this node lacks.
pub(super) fn repair(client: &Client, words: &[String]) -> Result<String, Failure> {
    check_alone(client, "repair")?;
    for_each_keyspace(client, words, |keyspace| {
        format!("This node is the only one. No repair is needed for keyspace '{keyspace}'\n")
    })
}

/// `cleanup`: all that this node has is its own.
pub(super) fn cleanup(client: &Client, words: &[String]) -> Result<String, Failure> {
    check_alone(client, "cleanup")?;
    for_each_keyspace(client, words, |keyspace| {
        format!("This node is the only one. Nothing is to be cleaned up in keyspace '{keyspace}'\n")
    })
}

/// Refuses a verb where there are other nodes.
fn check_alone(client: &Client, verb: &str) -> Result<(), Failure> {
    let gossip: Gossip = client.get("/api/v1/gossip", &[])?;
    match gossip.nodes.len() {
        0 | 1 => Ok(()),
        _ => Err(Failure::Node(format!(
            "{verb} is not there yet for rings. Reads at ALL repair what they read"
        ))),
    }
}

/// A line for the keyspace that is named, or for each that nodes share. Flags say how the work is to be done,
/// and there is none.
fn for_each_keyspace(
    client: &Client,
    words: &[String],
    line: impl Fn(&str) -> String,
) -> Result<String, Failure> {
    let named = names(words).next();
    let query: Vec<(&str, &str)> = named.iter().map(|name| ("keyspace", name.as_str())).collect();
    let tables: Vec<TableReport> = client.get("/api/v1/tables", &query)?;
    let mut keyspaces: Vec<&str> = tables.iter().map(|table| table.keyspace.as_str()).collect();
    keyspaces.sort_unstable();
    keyspaces.dedup();
    keyspaces.retain(|keyspace| named.is_some() || !OF_ONE_NODE.contains(keyspace));
    Ok(keyspaces.into_iter().map(line).collect())
}

/// The words that are neither flags nor values of theirs.
pub(super) fn names(words: &[String]) -> impl Iterator<Item = &String> {
    let mut is_value = false;
    words.iter().filter(move |word| {
        let is_name = !is_value && !word.starts_with('-');
        is_value = FLAGS_WITH_VALUES.contains(&word.as_str());
        is_name
    })
}
