//! Failed logins of each address: an address that has failed too often waits, and its passwords are not
//! looked at.
//!
//! Each failure fills the address's bucket by one. It drains evenly, `per_minute` of them in a minute, and
//! holds as many. While it is full, logins of the address are refused before bcrypt. Connections that are in
//! are not looked at. Addresses of IPv6 count by their network of 64 bits, which is what one host may have.
//!
//! The table is bounded: the address that is nearest to empty makes room.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use parking_lot::Mutex;

/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 1_024;
const MINUTE_NANOS: u64 = 60_000_000_000;

/// When the bucket of an address is empty, on the monotonic clock in nanoseconds.
type EmptyAt = u64;

/// The addresses that have failed lately.
#[derive(Debug)]
pub(crate) struct Failures {
    /// How long one failure counts; 0: none does.
    nanos_each: u64,
    addresses: Mutex<HashMap<IpAddr, EmptyAt>>,
}

impl Failures {
    /// A limit of so many failures in a minute; 0 is none.
    pub(crate) fn new(per_minute: u32) -> Failures {
        let nanos_each = MINUTE_NANOS.checked_div(u64::from(per_minute)).unwrap_or(0);
        Failures { nanos_each, addresses: Mutex::default() }
    }

    /// Whether an address has to wait.
    pub(crate) fn is_full(&self, address: IpAddr, now_nanos: u64) -> bool {
        if self.nanos_each == 0 {
            return false;
        }
        let addresses = self.addresses.lock();
        let empty_at = addresses.get(&counted(address)).copied().unwrap_or(0);
        // One more has to fit.
        empty_at.saturating_sub(now_nanos) > MINUTE_NANOS.saturating_sub(self.nanos_each)
    }

    /// Counts a failure.
    pub(crate) fn note(&self, address: IpAddr, now_nanos: u64) {
        if self.nanos_each == 0 {
            return;
        }
        let address = counted(address);
        let mut addresses = self.addresses.lock();
        if addresses.len() >= ADDRESSES_MAX && !addresses.contains_key(&address) {
            addresses.retain(|_, empty_at| *empty_at > now_nanos);
            let emptiest = addresses.iter().min_by_key(|(_, empty_at)| **empty_at).map(|(known, _)| *known);
            if let Some(emptiest) = emptiest.filter(|_| addresses.len() >= ADDRESSES_MAX) {
                addresses.remove(&emptiest);
            }
        }
        let empty_at = addresses.entry(address).or_insert(now_nanos);
        let full_at = now_nanos.saturating_add(MINUTE_NANOS);
        *empty_at = (*empty_at).max(now_nanos).saturating_add(self.nanos_each).min(full_at);
    }
}

/// The address under which another is counted.
pub(super) fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u32) -> IpAddr {
        IpAddr::V4(last.into())
    }

    #[test]
    fn an_address_waits_after_its_failures_and_others_do_not() {
        let failures = Failures::new(3);
        for _ in 0..3 {
            assert!(!failures.is_full(v4(1), 7));
            failures.note(v4(1), 7);
        }
        assert!(failures.is_full(v4(1), 7) && !failures.is_full(v4(2), 7));
        // A third of a minute later there is room for one.
        let later = 7 + MINUTE_NANOS / 3;
        assert!(failures.is_full(v4(1), later - 1) && !failures.is_full(v4(1), later));
        failures.note(v4(1), later);
        assert!(failures.is_full(v4(1), later) && !failures.is_full(v4(1), later + MINUTE_NANOS));
    }

    #[test]
    fn the_networks_of_ipv6_count_as_one_and_0_is_no_limit() {
        let failures = Failures::new(1);
        failures.note("2001:db8::1".parse().unwrap(), 0);
        assert!(failures.is_full("2001:db8::2".parse().unwrap(), 0));
        assert!(!failures.is_full("2001:db8:0:1::1".parse().unwrap(), 0));
        failures.note("::ffff:127.0.0.1".parse().unwrap(), 0);
        assert!(failures.is_full("127.0.0.1".parse().unwrap(), 0));
        let none = Failures::new(0);
        none.note(v4(1), 0);
        assert!(!none.is_full(v4(1), 0));
    }

    #[test]
    fn the_table_is_bounded_and_keeps_the_worst() {
        let failures = Failures::new(4);
        (0..4).for_each(|_| failures.note(v4(0), 0));
        (1..5_000).for_each(|last| failures.note(v4(last), 0));
        assert!(failures.addresses.lock().len() <= ADDRESSES_MAX);
        assert!(failures.is_full(v4(0), 0));
    }
}
