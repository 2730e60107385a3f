//! Where a role may come in: the data centers of CassandraNetworkAuthorizer, and the networks of
//! CassandraCIDRAuthorizer.
//!
//! Both are looked up with a role's grants, and judged with each statement, as in Cassandra: a login says
//! nothing of them. Networks have names, the CIDR groups, which are read as a whole: at the start, when
//! nodetool asks for it, and every `cidr_groups_cache_refresh_interval` minutes.
//!
//! In `MONITOR` nobody is refused. Who would be is told in the log.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use protocol::response::error::ErrorResponse;
use tools::api::{CidrLatency, CidrStats};

use super::check::unauthorized;
use super::cidr::{Groups, Networks, java_text};
use super::store::{Store, StoreError};
use super::{Auth, Principal};
use crate::config::CidrSettings;
use crate::metrics::{Counter, Histogram};

const MINUTE_NANOS: u64 = 60_000_000_000;

/// The name under which accesses from no known network count.
const UNDEFINED: &str = "Undefined";

/// Names that a role is held to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Everything.
    #[default]
    All,
    /// Nothing: the role may not log in.
    None,
    /// These.
    Some(BTreeSet<String>),
}

impl Allowed {
    /// What the names in a row mean.
    pub(crate) fn of(names: BTreeSet<String>) -> Allowed {
        if names.is_empty() { Allowed::All } else { Allowed::Some(names) }
    }

    fn allows(&self, name: &str) -> bool {
        match self {
            Allowed::All => true,
            Allowed::None => false,
            Allowed::Some(names) => names.contains(name),
        }
    }

    fn allows_any(&self, names: &BTreeSet<String>) -> bool {
        match self {
            Allowed::All => true,
            Allowed::None => false,
            Allowed::Some(allowed) => !allowed.is_disjoint(names),
        }
    }
}

/// As LIST ROLES shows it.
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::All => f.write_str("ALL"),
            Allowed::None => f.write_str("n/a"),
            Allowed::Some(names) => {
                f.write_str(&names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// The places of a role.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) datacenters: Allowed,
    pub(crate) cidr_groups: Allowed,
}

/// The CIDR groups, and what came of looks at them.
#[derive(Debug)]
pub(crate) struct CidrGroups {
    settings: CidrSettings,
    networks: ArcSwap<Networks>,
    /// Groups of addresses that were asked for.
    known: Mutex<HashMap<IpAddr, Groups>>,
    /// When they were read last.
    read_nanos: AtomicU64,
    is_reading: AtomicBool,
    /// When somebody was told of last.
    told_nanos: AtomicU64,
    accepted: Mutex<BTreeMap<String, u64>>,
    rejected: Mutex<BTreeMap<String, u64>>,
    /// How often they were read.
    reloads: Counter,
    /// Nanoseconds of a check.
    check_nanos: Histogram,
    /// Nanoseconds of reading them.
    reload_nanos: Histogram,
    /// Nanoseconds of finding the groups of an address.
    lookup_nanos: Histogram,
}

fn count(counts: &Mutex<BTreeMap<String, u64>>, groups: &BTreeSet<String>) {
    let mut counts = counts.lock();
    let mut add = |name: &str| match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => {
            counts.insert(name.to_owned(), 1);
        }
    };
    groups.iter().for_each(|name| add(name));
    if groups.is_empty() {
        add(UNDEFINED);
    }
}

impl CidrGroups {
    pub(crate) fn new(settings: CidrSettings) -> CidrGroups {
        CidrGroups {
            settings,
            networks: ArcSwap::default(),
            known: Mutex::default(),
            read_nanos: AtomicU64::new(0),
            is_reading: AtomicBool::new(false),
            told_nanos: AtomicU64::new(0),
            accepted: Mutex::default(),
            rejected: Mutex::default(),
            reloads: Counter::default(),
            check_nanos: Histogram::default(),
            reload_nanos: Histogram::default(),
            lookup_nanos: Histogram::default(),
        }
    }

    /// Reads them anew.
    pub(crate) async fn reload(&self, store: &Store) -> Result<(), StoreError> {
        let began = store.now_nanos();
        let groups = store.cidr_groups().await?;
        self.networks.store(Arc::new(Networks::of(&groups)));
        self.known.lock().clear();
        let now = store.now_nanos();
        self.read_nanos.store(now, Ordering::Release);
        self.reloads.add(1);
        self.reload_nanos.record(now.saturating_sub(began));
        Ok(())
    }

    /// Whether the caller is the one to read them anew, because that was long ago.
    pub(crate) fn claim_reload(&self, now_nanos: u64) -> bool {
        let age_nanos = now_nanos.saturating_sub(self.read_nanos.load(Ordering::Acquire));
        age_nanos >= u64::from(self.settings.refresh_minutes).saturating_mul(MINUTE_NANOS)
            && !self.is_reading.swap(true, Ordering::AcqRel)
    }

    /// Reads them anew, for whom [`CidrGroups::claim_reload`] chose.
    pub(crate) async fn reload_early(&self, store: &Store) {
        if let Err(error) = self.reload(store).await {
            tracing::warn!(%error, "CIDR groups cannot be read");
        }
        self.is_reading.store(false, Ordering::Release);
    }

    /// The groups of an address.
    pub(crate) fn groups_of(&self, address: IpAddr, clock: impl Fn() -> u64) -> Groups {
        let address = address.to_canonical();
        if let Some(groups) = self.known.lock().get(&address) {
            return Arc::clone(groups);
        }
        let began = clock();
        let groups = self.networks.load().groups_of(address);
        self.lookup_nanos.record(clock().saturating_sub(began));
        let mut known = self.known.lock();
        if known.len() >= self.settings.ip_cache_max as usize
            && let Some(other) = known.keys().next().copied()
        {
            known.remove(&other);
        }
        if self.settings.ip_cache_max > 0 {
            known.insert(address, Arc::clone(&groups));
        }
        groups
    }

    fn allows(&self, role: &str, allowed: &Allowed, from: IpAddr, clock: impl Fn() -> u64) -> bool {
        if self.settings.enforces && *allowed == Allowed::All {
            return true;
        }
        let began = clock();
        let groups = self.groups_of(from, &clock);
        let is_allowed = allowed.allows_any(&groups);
        let may_come = is_allowed || !self.settings.enforces;
        if !is_allowed && !self.settings.enforces && self.claim_word(began) {
            let groups = groups.iter().cloned().collect::<Vec<_>>().join(", ");
            tracing::warn!("Role {role} accessed from unauthorized IP {from}, CIDR group [{groups}]");
        }
        count(if may_come { &self.accepted } else { &self.rejected }, &groups);
        self.check_nanos.record(clock().saturating_sub(began));
        may_come
    }

    /// Whether the log is told: at most once a minute.
    fn claim_word(&self, now_nanos: u64) -> bool {
        let told = self.told_nanos.load(Ordering::Relaxed);
        let is_due = told == 0 || now_nanos.saturating_sub(told) >= MINUTE_NANOS;
        let swap =
            || self.told_nanos.compare_exchange(told, now_nanos.max(1), Ordering::Relaxed, Ordering::Relaxed);
        is_due && swap().is_ok()
    }

    /// What came of looks at them, under Cassandra's names.
    fn stats(&self) -> CidrStats {
        let mut stats = CidrStats::default();
        for (verb, counts) in [("accepted", &self.accepted), ("rejected", &self.rejected)] {
            for (group, count) in counts.lock().iter() {
                let name = format!("Number of CIDR accesses {verb} from CIDR group - {group}");
                stats.counts.insert(name, *count);
            }
        }
        stats.counts.insert("CIDR groups cache reload count".to_owned(), self.reloads.get());
        for (name, nanos) in [
            ("CIDR checks latency (ns)", &self.check_nanos),
            ("CIDR groups cache reload latency (ns)", &self.reload_nanos),
            ("Lookup IP in CIDR groups cache latency (ns)", &self.lookup_nanos),
        ] {
            let quantile = |q: f64| nanos.quantile(q) as f64;
            let latency = CidrLatency {
                p50: quantile(0.5),
                p95: quantile(0.95),
                p99: quantile(0.99),
                p999: quantile(0.999),
                max: nanos.max() as f64,
            };
            stats.latencies.insert(name.to_owned(), latency);
        }
        stats
    }
}

impl Auth {
    /// Whether roles are held to places.
    pub(crate) fn restricts_places(&self) -> bool {
        self.settings.datacenters || self.cidr.is_some()
    }

    /// Whether roles are held to data centers.
    pub(crate) fn holds_to_datacenters(&self) -> bool {
        self.settings.datacenters
    }

    /// The CIDR groups, where roles are held to them.
    pub(crate) fn cidr(&self) -> Option<&CidrGroups> {
        self.cidr.as_ref()
    }

    /// What CIDR filtering came to; zeros where there is none.
    pub(crate) fn cidr_stats(&self) -> CidrStats {
        match &self.cidr {
            Some(cidr) => cidr.stats(),
            None => CidrGroups::new(CidrSettings::default()).stats(),
        }
    }

    /// The data centers in which a role may log in.
    pub(crate) async fn datacenters_of(
        &self,
        store: &Store,
        role: &str,
        (can_login, is_super): (bool, bool),
    ) -> Result<Allowed, StoreError> {
        match (self.settings.datacenters, can_login, is_super) {
            (false, ..) | (true, true, true) => Ok(Allowed::All),
            (true, false, _) => Ok(Allowed::None),
            (true, true, false) => Ok(Allowed::of(store.datacenters_of(role).await?)),
        }
    }

    /// The places of a role that may log in, or be a superuser.
    pub(super) async fn places_of(
        &self,
        store: &Store,
        role: &str,
        (can_login, is_super): (bool, bool),
    ) -> Result<Places, StoreError> {
        let datacenters = self.datacenters_of(store, role, (can_login, is_super)).await?;
        let cidr_groups = match &self.cidr {
            None => Allowed::All,
            Some(_) if !can_login => Allowed::None,
            Some(cidr) if is_super && !cidr.settings.checks_superusers => Allowed::All,
            Some(_) => Allowed::of(store.cidr_groups_of(role).await?),
        };
        Ok(Places { datacenters, cidr_groups })
    }

    /// Refuses a statement that comes from where its role may not be.
    ///
    /// # Errors
    /// In Cassandra's words.
    pub(crate) fn admit(
        &self,
        principal: &Principal,
        from: IpAddr,
        clock: impl Fn() -> u64,
    ) -> Result<(), ErrorResponse> {
        let grants = principal.grants();
        if !grants.places.datacenters.allows(&self.datacenter) {
            let datacenter = &self.datacenter;
            return Err(unauthorized(format!("You do not have access to this datacenter ({datacenter})")));
        }
        match &self.cidr {
            Some(cidr) if !cidr.allows(principal.name(), &grants.places.cidr_groups, from, clock) => {
                let from = java_text(from.to_canonical());
                Err(unauthorized(format!("You do not have access from this IP {from}")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::cidr::Cidr;

    fn groups(enforces: bool, ip_cache_max: u32) -> CidrGroups {
        let settings = CidrSettings { enforces, ip_cache_max, ..CidrSettings::default() };
        let groups = CidrGroups::new(settings);
        let home = ("home".to_owned(), vec![Cidr::parse("10.0.0.0/8").unwrap()]);
        groups.networks.store(Arc::new(Networks::of(&[home])));
        groups
    }

    fn only(name: &str) -> Allowed {
        Allowed::of([name.to_owned()].into())
    }

    #[test]
    fn who_is_held_to_a_group_comes_from_there_only() {
        let (inside, outside): (IpAddr, IpAddr) = ("10.1.1.1".parse().unwrap(), "11.1.1.1".parse().unwrap());
        let strict = groups(true, 100);
        let allows = |of: &CidrGroups, allowed: &Allowed, from| of.allows("bob", allowed, from, || 7);
        assert!(allows(&strict, &Allowed::All, outside) && allows(&strict, &only("home"), inside));
        assert!(allows(&strict, &only("home"), "::ffff:10.1.1.1".parse().unwrap()));
        assert!(!allows(&strict, &only("home"), outside) && !allows(&strict, &only("other"), inside));
        assert!(!allows(&strict, &Allowed::None, inside));
        let counts = |counts: &[(&str, u64)]| -> BTreeMap<String, u64> {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        assert_eq!(*strict.accepted.lock(), counts(&[("home", 2)]));
        assert_eq!(*strict.rejected.lock(), counts(&[("Undefined", 1), ("home", 2)]));
        let refused = "Number of CIDR accesses rejected from CIDR group - home";
        assert_eq!(strict.stats().counts.get(refused), Some(&2));
        let lax = groups(false, 100);
        assert!(allows(&lax, &only("home"), outside) && allows(&lax, &Allowed::All, inside));
        assert_eq!(*lax.accepted.lock(), counts(&[("Undefined", 1), ("home", 1)]));
    }

    #[test]
    fn addresses_that_were_asked_for_are_bounded() {
        let few = groups(true, 3);
        for last in 0..50u32 {
            few.groups_of(IpAddr::V4((0x0a00_0000 + last).into()), || 0);
        }
        assert_eq!(few.known.lock().len(), 3);
        groups(true, 0).groups_of("10.0.0.1".parse().unwrap(), || 0);
    }

    #[test]
    fn names_are_shown_as_cassandra_shows_them() {
        let both = Allowed::of(["b".to_owned(), "a".to_owned()].into());
        assert_eq!([Allowed::All, Allowed::None, both].map(|a| a.to_string()), ["ALL", "n/a", "a, b"]);
    }
}
