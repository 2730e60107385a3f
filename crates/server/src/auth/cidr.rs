//! Networks as CIDR writes them, and which groups of them an address belongs to.
//!
//! ```text
//! 10.20.30.40/24       the network 10.20.30.0 with 24 bits
//! ::ffff:10.0.0.0/104  an IPv4 network in the form of IPv6: 10.0.0.0/8
//! ```
//! The groups of an address are those of the narrowest network that it lies in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Cidr {
    /// Its first address.
    first: IpAddr,
    /// Bits that its addresses have in common.
    bits: u8,
}

/// An address whose low bits are 0, but for the first `bits`.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let low = |width: u32| width.saturating_sub(u32::from(bits));
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(low(32)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(low(128)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

impl Cidr {
    /// The network of an address and a number of bits, as a row has them; `None` where they do not fit.
    pub(crate) fn new(address: IpAddr, bits: i16) -> Option<Cidr> {
        let bits = u8::try_from(bits).ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        (bits <= most).then(|| Cidr { first: masked(address, bits), bits })
    }

    /// Reads a network.
    ///
    /// # Errors
    /// In Cassandra's words.
    pub(crate) fn parse(text: &str) -> Result<Cidr, String> {
        let read = || {
            let (address, bits) = text.split_once('/')?;
            let (address, bits): (IpAddr, i16) = (address.parse().ok()?, bits.parse().ok()?);
            match (address, address.to_canonical()) {
                (IpAddr::V6(_), IpAddr::V4(inner)) => Cidr::new(IpAddr::V4(inner), bits.checked_sub(96)?),
                _ => Cidr::new(address, bits),
            }
        };
        read().ok_or_else(|| format!("{text} is not a valid CIDR String"))
    }

    /// Its first address, and its bits.
    pub(crate) fn parts(self) -> (IpAddr, u8) {
        (self.first, self.bits)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", java_text(self.first), self.bits)
    }
}

/// An address as Java writes it: of IPv6 all eight numbers.
pub(crate) fn java_text(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|segment| format!("{segment:x}")).join(":"),
    }
}

/// The names of groups.
pub(crate) type Groups = Arc<BTreeSet<String>>;

/// All networks, the narrowest first.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    v4: BTreeMap<std::cmp::Reverse<u8>, HashMap<IpAddr, Groups>>,
    v6: BTreeMap<std::cmp::Reverse<u8>, HashMap<IpAddr, Groups>>,
}

impl Networks {
    /// Those of groups with their networks.
    pub(crate) fn of(groups: &[(String, Vec<Cidr>)]) -> Networks {
        let mut networks = Networks::default();
        for (name, cidrs) in groups {
            for cidr in cidrs {
                let side = if cidr.first.is_ipv4() { &mut networks.v4 } else { &mut networks.v6 };
                let of_bits = side.entry(std::cmp::Reverse(cidr.bits)).or_default();
                Arc::make_mut(of_bits.entry(cidr.first).or_default()).insert(name.clone());
            }
        }
        networks
    }

    /// The groups of an address.
    pub(crate) fn groups_of(&self, address: IpAddr) -> Groups {
        let side = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        let found = side.iter().find_map(|(bits, of_bits)| of_bits.get(&masked(address, bits.0)));
        found.cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_cassandra_reads_them() {
        let read = |text: &str| Cidr::parse(text).map(|cidr| cidr.to_string());
        assert_eq!(read("10.20.30.40/24"), Ok("10.20.30.0/24".to_owned()));
        assert_eq!(read("1.2.3.4/32"), Ok("1.2.3.4/32".to_owned()));
        assert_eq!(read("1.2.3.4/0"), Ok("0.0.0.0/0".to_owned()));
        assert_eq!(read("::ffff:10.1.0.0/104"), Ok("10.0.0.0/8".to_owned()));
        assert_eq!(read("2001:3002::1/16"), Ok("2001:0:0:0:0:0:0:0/16".to_owned()));
        assert_eq!(read("::/0"), Ok("0:0:0:0:0:0:0:0/0".to_owned()));
        for wrong in ["", "/", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1", "::/129", "a/8", "1.2.3.4/8/9"] {
            assert_eq!(read(wrong), Err(format!("{wrong} is not a valid CIDR String")));
        }
        assert_eq!(Cidr::new("10.0.0.1".parse().unwrap(), 33), None);
    }

    #[test]
    fn the_narrowest_network_counts() {
        let group = |name: &str, cidrs: &[&str]| {
            (name.to_owned(), cidrs.iter().map(|text| Cidr::parse(text).unwrap()).collect())
        };
        let networks = Networks::of(&[
            group("wide", &["10.0.0.0/8", "::/0"]),
            group("narrow", &["10.1.0.0/16"]),
            group("same", &["10.1.2.3/16", "10.9.9.9/32"]),
        ]);
        let of = |address: &str| {
            let groups = networks.groups_of(address.parse().unwrap());
            groups.iter().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of("10.2.0.1"), "wide");
        assert_eq!(of("10.1.255.1"), "narrow same");
        assert_eq!(of("10.9.9.9"), "same");
        assert_eq!(of("11.0.0.1"), "");
        assert_eq!(of("2001::1"), "wide");
    }
}
