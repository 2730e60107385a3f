//! The texts of what a node publishes, but for its status and its tokens.
//!
//! Names from the configuration (data center, rack) and texts of other rooms (`INDEX_STATUS`, `DISK_USAGE`)
//! are given as they are, by [`Text::new`]. Source: `VersionedValue.VersionedValueFactory` of Cassandra 4.0.

use super::text::{Text, TextTooLong};
use crate::endpoint::Endpoint;
use std::net::IpAddr;
use uuid::Uuid;

/// `LOAD`: bytes of live data.
pub fn load(bytes: u64) -> Text {
    Text::made(format_args!("{:?}", bytes as f64))
}

/// `SCHEMA`, `HOST_ID`.
pub fn uuid(id: Uuid) -> Text {
    Text::made(id)
}

/// `INTERNAL_IP`, `RPC_ADDRESS`.
pub fn ip(ip: IpAddr) -> Text {
    Text::made(ip)
}

/// `INTERNAL_ADDRESS_AND_PORT`, `NATIVE_ADDRESS_AND_PORT`.
pub fn address_and_port(endpoint: Endpoint) -> Text {
    Text::made(endpoint)
}

/// `NET_VERSION`: the largest version of internode messages.
pub fn net_version(version: u32) -> Text {
    Text::made(version)
}

/// `RPC_READY`.
pub fn rpc_ready(ready: bool) -> Text {
    Text::made(ready)
}

/// `REMOVAL_COORDINATOR`: the id of the node that removes another.
pub fn removal_coordinator(host_id: Uuid) -> Text {
    Text::made(format_args!("REMOVER,{host_id}"))
}

/// `SSTABLE_VERSIONS`: formats and versions, such as `big-nb`.
///
/// # Errors
/// When the names are too long.
pub fn sstable_versions(versions: &[&str]) -> Result<Text, TextTooLong> {
    Text::new(versions.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_cassandra() {
        assert_eq!(load(12_345).as_str(), "12345.0");
        assert_eq!(rpc_ready(true).as_str(), "true");
        assert_eq!(net_version(12).as_str(), "12");
        assert_eq!(sstable_versions(&["big-nb", "big-oa"]).unwrap().as_str(), "big-nb,big-oa");
        let local = Endpoint::new("::1".parse().unwrap(), 9_042);
        assert_eq!((ip(local.ip).as_str(), address_and_port(local).as_str()), ("::1", "[::1]:9042"));
    }
}
