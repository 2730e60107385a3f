//! Where a node listens: addresses, network interfaces, or the name of the host.

use super::{Draft, values};
use env::Env;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

/// Where the kernel tells the host's name.
pub(super) const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

impl Draft {
    /// Takes the addresses of the interfaces that stand in place of `rpc_address` and `listen_address`.
    pub(super) fn ask_interfaces(&mut self) -> Result<(), String> {
        let settings = &mut self.settings;
        let (v6, rpc_v6) = (settings.listen_interface_prefer_ipv6, settings.rpc_interface_prefer_ipv6);
        let pairs = [
            ("listen", &settings.listen_interface, v6, &mut settings.listen_address),
            ("rpc", &settings.rpc_interface, rpc_v6, &mut settings.rpc_address),
        ];
        for (of, interface, prefers_ipv6, address) in pairs {
            let Some(interface) = interface else { continue };
            if address.is_some() {
                return Err(format!("Set {of}_address OR {of}_interface, not both"));
            }
            *address = Some(interface_address(&format!("{of}_interface"), interface, prefers_ipv6)?);
        }
        Ok(())
    }

    /// `rpc_address` and `listen_address`. One that a file leaves out is that of this host's name, as in
    /// Cassandra; without a file nobody asked to be reached from elsewhere.
    pub(super) fn addresses(&mut self, env: &Env, has_file: bool) -> (IpAddr, IpAddr) {
        let (rpc, listen) = (self.settings.rpc_address, self.settings.listen_address);
        if !has_file {
            let bind = rpc.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
            return (bind, listen.unwrap_or_else(|| concrete(bind)));
        }
        let mut own = None;
        for key in [("rpc_address", rpc), ("listen_address", listen)].iter().filter(|k| k.1.is_none()) {
            let Ok(host) = env.fs.read_to_string(Path::new(HOST_NAME_FILE)) else { continue };
            let host = host.trim();
            let (address, note) = match values::resolve(host) {
                Ok(address) => (address, "its address".to_owned()),
                Err(error) => {
                    (IpAddr::V4(Ipv4Addr::LOCALHOST), format!("which cannot be resolved ({error}), so"))
                }
            };
            self.warnings.push(format!("{} is not set: the host is {host}, {note} {address} is used", key.0));
            own = Some(address);
        }
        let own = own.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        (rpc.unwrap_or(own), listen.unwrap_or(own))
    }
}

/// The address of a network interface: the first of the family that is preferred, else the first.
///
/// # Errors
/// In Cassandra's words, of what stands behind `key`.
fn interface_address(key: &str, interface: &str, prefers_ipv6: bool) -> Result<IpAddr, String> {
    let all = nix::ifaddrs::getifaddrs().map_err(|error| format!("{key}: {error}"))?;
    let of_name: Vec<_> = all.filter(|entry| entry.interface_name == interface).collect();
    if of_name.is_empty() {
        return Err(format!("Configured {key} {interface:?} could not be found"));
    }
    let found: Vec<IpAddr> = of_name
        .iter()
        .filter_map(|entry| entry.address.as_ref())
        .filter_map(|address| {
            let ipv4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            ipv4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
        })
        .collect();
    preferred(&found, prefers_ipv6)
        .ok_or_else(|| format!("Configured {key} {interface:?} was found, but had no addresses"))
}

fn preferred(found: &[IpAddr], prefers_ipv6: bool) -> Option<IpAddr> {
    found.iter().find(|address| address.is_ipv6() == prefers_ipv6).or(found.first()).copied()
}

/// An address that can be told to others: that of the interface with the default route for a wildcard.
fn concrete(address: IpAddr) -> IpAddr {
    if !address.is_unspecified() {
        return address;
    }
    // Connecting a datagram socket sends nothing; it only makes the kernel choose an address.
    let chosen = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.connect(("192.0.2.1", 9)).and_then(|()| socket.local_addr()));
    chosen.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |local| local.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_an_address_of_the_preferred_family_if_it_has_one() {
        let [v4, v6, other] = ["10.0.0.1", "fe80::1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        assert_eq!(preferred(&[v6, v4, other], false), Some(v4));
        assert_eq!(preferred(&[v4, v6], true), Some(v6));
        assert_eq!(preferred(&[v6], false), Some(v6));
        assert_eq!(preferred(&[v4, other], true), Some(v4));
        assert_eq!(preferred(&[], true), None);
    }
}
