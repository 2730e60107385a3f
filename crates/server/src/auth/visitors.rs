//! Addresses that somebody has logged in from, whose logins do not wait behind those of strangers
//! ([`super::hashing`]). The set is bounded, and forgets whom it has not seen for long. Addresses count as
//! those of [`super::failures`] do.

use std::net::IpAddr;

use quick_cache::sync::Cache;

use super::failures::counted;

/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 4_096;

/// The addresses.
#[derive(Debug)]
pub(crate) struct Visitors(Cache<IpAddr, ()>);

impl Default for Visitors {
    fn default() -> Visitors {
        Visitors(Cache::new(ADDRESSES_MAX))
    }
}

impl Visitors {
    /// Whether nobody has logged in from there.
    pub(crate) fn is_stranger(&self, address: IpAddr) -> bool {
        self.0.get(&counted(address)).is_none()
    }

    /// Somebody has logged in from there.
    pub(crate) fn welcome(&self, address: IpAddr) {
        self.0.insert(counted(address), ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_known_when_somebody_has_logged_in_and_networks_of_ipv6_are_one() {
        let visitors = Visitors::default();
        let [first, same, other]: [IpAddr; 3] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|address| address.parse().unwrap());
        assert!(visitors.is_stranger(first));
        visitors.welcome(first);
        assert!(!visitors.is_stranger(first) && !visitors.is_stranger(same) && visitors.is_stranger(other));
    }

    #[test]
    fn the_set_is_bounded() {
        let visitors = Visitors::default();
        (0..20_000u32).for_each(|address| visitors.welcome(IpAddr::V4(address.into())));
        assert!(visitors.0.len() <= ADDRESSES_MAX);
    }
}
