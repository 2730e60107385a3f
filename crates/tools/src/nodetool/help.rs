//! What verbs there are, and the refusal of others.

use super::{Failure, NodetoolArgs, usage};
use clap::Args;

/// Cassandra's verbs that change what nodes are in the ring, or have data streamed between them.
const OF_MEMBERS: [&str; 11] = [
    "abortbootstrap",
    "assassinate",
    "bootstrap",
    "decommission",
    "forceremovenode",
    "join",
    "move",
    "rebuild",
    "removenode",
    "repair_admin",
    "setseeds",
];

/// The help of a verb, or of all.
pub(super) fn help(verb: Option<&str>) -> Result<String, Failure> {
    let mut command = NodetoolArgs::augment_args(clap::Command::new("nodetool"));
    match verb {
        None => Ok(command.render_long_help().to_string()),
        Some(verb) => match command.find_subcommand_mut(verb) {
            Some(found) => Ok(found.render_long_help().to_string()),
            None => Err(Failure::Usage(format!("Unknown command {verb}"))),
        },
    }
}

/// A verb that there is not. None is suggested: one that looks alike may stop the node or delete.
pub(super) fn unknown(words: &[String]) -> Result<String, Failure> {
    match words.first().map(String::as_str) {
        Some(verb) if OF_MEMBERS.contains(&verb) => usage(&format!(
            "{verb} changes who is in the ring, and what the nodes hold. Data are not streamed between nodes \
             yet"
        )),
        Some("sjk") => usage("sjk examines a Java process, and this node is none"),
        _ => usage(&format!("Found unexpected parameters: [{}]", words.join(", "))),
    }
}
