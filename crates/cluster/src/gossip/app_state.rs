//! The numbers under which nodes publish what they say of themselves.
//!
//! Source: `org.apache.cassandra.gms.ApplicationState` of Cassandra 5.0, whose ordinals are the numbers.
//! Those behind `INDEX_STATUS` are room for later versions. They are kept and passed on without being
//! understood. Numbers behind the room are dropped, because a Cassandra that heard one could not decode the
//! message.

use std::fmt;

/// Which statement of a node it is: its status, its load, its tokens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppState(u8);

/// The names, in the order of the numbers.
const NAMES: [&str; 31] = [
    "STATUS",
    "LOAD",
    "SCHEMA",
    "DC",
    "RACK",
    "RELEASE_VERSION",
    "REMOVAL_COORDINATOR",
    "INTERNAL_IP",
    "RPC_ADDRESS",
    "X_11_PADDING",
    "SEVERITY",
    "NET_VERSION",
    "HOST_ID",
    "TOKENS",
    "RPC_READY",
    "INTERNAL_ADDRESS_AND_PORT",
    "NATIVE_ADDRESS_AND_PORT",
    "STATUS_WITH_PORT",
    "SSTABLE_VERSIONS",
    "DISK_USAGE",
    "INDEX_STATUS",
    "X1",
    "X2",
    "X3",
    "X4",
    "X5",
    "X6",
    "X7",
    "X8",
    "X9",
    "X10",
];

impl AppState {
    /// The status, for nodes that know no ports.
    pub const STATUS: AppState = AppState(0);
    /// Bytes of live data.
    pub const LOAD: AppState = AppState(1);
    /// The version of the schema.
    pub const SCHEMA: AppState = AppState(2);
    /// The data center.
    pub const DC: AppState = AppState(3);
    /// The rack.
    pub const RACK: AppState = AppState(4);
    /// The version of Cassandra.
    pub const RELEASE_VERSION: AppState = AppState(5);
    /// Who removes the node.
    pub const REMOVAL_COORDINATOR: AppState = AppState(6);
    /// The address for nodes of the same data center, without its port.
    pub const INTERNAL_IP: AppState = AppState(7);
    /// The address for clients, without its port.
    pub const RPC_ADDRESS: AppState = AppState(8);
    /// How busy the node is; no longer used.
    pub const SEVERITY: AppState = AppState(10);
    /// The largest version of internode messages that the node speaks.
    pub const NET_VERSION: AppState = AppState(11);
    /// The node's id.
    pub const HOST_ID: AppState = AppState(12);
    /// The node's tokens.
    pub const TOKENS: AppState = AppState(13);
    /// Whether clients can connect.
    pub const RPC_READY: AppState = AppState(14);
    /// The address for nodes of the same data center.
    pub const INTERNAL_ADDRESS_AND_PORT: AppState = AppState(15);
    /// The address for clients.
    pub const NATIVE_ADDRESS_AND_PORT: AppState = AppState(16);
    /// The status.
    pub const STATUS_WITH_PORT: AppState = AppState(17);
    /// The versions of SSTables that the node holds.
    pub const SSTABLE_VERSIONS: AppState = AppState(18);
    /// Whether the disks are nearly full.
    pub const DISK_USAGE: AppState = AppState(19);
    /// How far the node's indexes are built.
    pub const INDEX_STATUS: AppState = AppState(20);

    /// The state under a number, if it is one that Cassandra 5.0 can pass on.
    pub fn from_number(number: i32) -> Option<AppState> {
        u8::try_from(number).ok().filter(|n| usize::from(*n) < NAMES.len()).map(AppState)
    }

    /// The number in messages.
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }

    /// The name as `nodetool gossipinfo` shows it.
    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or_default()
    }

    /// Every state, in the order of the numbers.
    pub fn all() -> impl Iterator<Item = AppState> {
        (0..NAMES.len() as u8).map(AppState)
    }

    /// The state that says the same with a port. A node that publishes it is heard by that one alone.
    pub fn with_port(self) -> Option<AppState> {
        match self {
            AppState::STATUS => Some(AppState::STATUS_WITH_PORT),
            AppState::INTERNAL_IP => Some(AppState::INTERNAL_ADDRESS_AND_PORT),
            AppState::RPC_ADDRESS => Some(AppState::NATIVE_ADDRESS_AND_PORT),
            _ => None,
        }
    }

    /// Whether it is one of the two states that hold the status.
    pub fn is_status(self) -> bool {
        matches!(self, AppState::STATUS | AppState::STATUS_WITH_PORT)
    }
}

impl fmt::Debug for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_cassandra() {
        for (number, name) in [
            (0, "STATUS"),
            (9, "X_11_PADDING"),
            (13, "TOKENS"),
            (17, "STATUS_WITH_PORT"),
            (20, "INDEX_STATUS"),
        ] {
            let state = AppState::from_number(number).unwrap();
            assert_eq!((state.number(), state.name()), (number, name));
        }
        assert_eq!(AppState::all().count(), 31);
    }

    #[test]
    fn numbers_that_no_cassandra_could_pass_on_are_unknown() {
        for number in [-1, 31, 256, i32::MAX] {
            assert_eq!(AppState::from_number(number), None);
        }
        assert_eq!(AppState::from_number(30).unwrap().name(), "X10");
    }
}
