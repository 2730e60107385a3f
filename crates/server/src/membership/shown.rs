//! The ring as operators see it.

use super::Membership;
use cluster::gossip::AppState;
use cluster::ring::{Phase, ownership};
use coordinator::Strategy;
use tools::api::NodeStatus;

impl Membership {
    /// The nodes as `nodetool status` shows them; what they own of `keyspace`, or of the first that users
    /// made. `own_bytes` are those of this node.
    pub(crate) fn status(&self, keyspace: Option<&str>, own_bytes: u64) -> Vec<NodeStatus> {
        let schema = self.state.engine.schema();
        let of_users = || schema.keyspaces.values().find(|k| !k.is_virtual && !k.name.starts_with("system"));
        let found = keyspace.and_then(|name| schema.keyspace(name)).or_else(of_users);
        let strategy = match found.map(|keyspace| Strategy::of(&keyspace.replication)) {
            None | Some(Strategy::Local) => Strategy::Simple(1),
            Some(strategy) => strategy,
        };
        let members = self.member.topology().members();
        let owned = ownership(&members, &strategy);
        let this = self.member.node().id;
        let nodes = members.iter().zip(owned).map(|(member, owns)| {
            let load = self.member.with_gossip(|gossiper| {
                let text = gossiper.state(&member.endpoint)?.text(AppState::LOAD)?.to_owned();
                text.parse::<f64>().ok()
            });
            let up = if member.node.is_alive() { 'U' } else { 'D' };
            let phase = match member.phase {
                Phase::Normal => 'N',
                Phase::Joining | Phase::Replacing(_) => 'J',
                Phase::Leaving => 'L',
                Phase::Moving(_) => 'M',
            };
            NodeStatus {
                state: format!("{up}{phase}"),
                address: member.endpoint.ip.to_string(),
                data_center: member.node.datacenter.to_string(),
                rack: member.node.rack.to_string(),
                load_bytes: if member.node.id == this { own_bytes } else { load.unwrap_or(0.0) as u64 },
                owns,
                host_id: member.node.id.to_string(),
                tokens: member.tokens.iter().map(|token| token.0.to_string()).collect(),
            }
        });
        nodes.collect()
    }
}
