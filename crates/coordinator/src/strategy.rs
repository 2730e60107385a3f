//! Replication strategies as data: parsed once for a version of the schema, and asked for each request.

use model::Consistency;
use model::schema::Replication;
use smallvec::SmallVec;
use std::sync::Arc;

/// How many replicas a keyspace has, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Each node keeps its own.
    Local,
    /// So many, wherever they are.
    Simple(u32),
    /// So many in each data center, in the order of their names.
    NetworkTopology(Vec<(Arc<str>, u32)>),
}

/// How many replicas have to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Required {
    /// Of all.
    Anywhere(u32),
    /// Of those in one data center.
    In(Arc<str>, u32),
    /// Of those in each data center.
    Each(SmallVec<[(Arc<str>, u32); 2]>),
}

impl Required {
    /// How many in all.
    pub fn count(&self) -> u32 {
        match self {
            Required::Anywhere(count) | Required::In(_, count) => *count,
            Required::Each(counts) => counts.iter().map(|(_, count)| count).sum(),
        }
    }

    /// Takes an answer from `datacenter` off what is missing. False if none of there is.
    pub fn take_one(&mut self, datacenter: &str) -> bool {
        let missing = match self {
            Required::Anywhere(count) => Some(count),
            Required::In(local, count) => (&**local == datacenter).then_some(count),
            Required::Each(counts) => {
                counts.iter_mut().find(|(name, _)| &**name == datacenter).map(|(_, count)| count)
            }
        };
        match missing {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }

    /// Whether a replica of `datacenter` counts.
    pub fn counts(&self, datacenter: &str) -> bool {
        match self {
            Required::Anywhere(_) => true,
            Required::In(local, _) => &**local == datacenter,
            Required::Each(counts) => counts.iter().any(|(name, _)| &**name == datacenter),
        }
    }
}

impl Strategy {
    /// The strategy that a keyspace names. A class that is not known is taken for one without data centers.
    pub fn of(replication: &Replication) -> Strategy {
        match replication.short_class() {
            "LocalStrategy" => Strategy::Local,
            "NetworkTopologyStrategy" => Strategy::NetworkTopology(
                replication.options.iter().map(|(name, text)| (name.as_str().into(), factor(text))).collect(),
            ),
            _ => {
                Strategy::Simple(replication.options.get("replication_factor").map_or(0, |text| factor(text)))
            }
        }
    }

    /// Whether some replicas of a keyspace are transient: they keep data only until it was repaired. A
    /// [`Strategy`] takes all replicas for full ones, so a ring does not serve such a keyspace.
    pub fn has_transient(replication: &Replication) -> bool {
        let is_factor = |name: &str| match replication.short_class() {
            "NetworkTopologyStrategy" => true,
            _ => name == "replication_factor",
        };
        replication.options.iter().any(|(name, text)| {
            let transient = text.split_once('/').map(|(_, transient)| transient.trim());
            is_factor(name) && transient.is_some_and(|transient| transient != "0")
        })
    }

    /// Replicas in all.
    pub fn total(&self) -> u32 {
        match self {
            Strategy::Local => 1,
            Strategy::Simple(factor) => *factor,
            Strategy::NetworkTopology(factors) => factors.iter().map(|(_, factor)| factor).sum(),
        }
    }

    /// Replicas in a data center.
    pub fn in_datacenter(&self, datacenter: &str) -> u32 {
        match self {
            Strategy::Local => 1,
            Strategy::Simple(factor) => *factor,
            Strategy::NetworkTopology(factors) => {
                factors.iter().find(|(name, _)| &**name == datacenter).map_or(0, |(_, factor)| *factor)
            }
        }
    }

    /// Replicas that must answer for `consistency` to a coordinator in the data center `local`.
    pub fn required(&self, consistency: Consistency, local: &Arc<str>) -> Required {
        // Also where the strategy knows nothing of data centers.
        let in_local = |count| Required::In(Arc::clone(local), count);
        match consistency {
            // Sessions refuse NODE_LOCAL; here it is one replica, which is this node if it holds the key.
            Consistency::Any | Consistency::One | Consistency::NodeLocal => Required::Anywhere(1),
            Consistency::Two => Required::Anywhere(2),
            Consistency::Three => Required::Anywhere(3),
            Consistency::Quorum | Consistency::Serial => Required::Anywhere(quorum(self.total())),
            Consistency::All => Required::Anywhere(self.total()),
            Consistency::LocalOne => in_local(1),
            Consistency::LocalQuorum | Consistency::LocalSerial => {
                in_local(quorum(self.in_datacenter(local)))
            }
            Consistency::EachQuorum => match self {
                Strategy::NetworkTopology(factors) => {
                    let each = factors.iter().filter(|(_, factor)| *factor > 0);
                    Required::Each(each.map(|(name, factor)| (name.clone(), quorum(*factor))).collect())
                }
                Strategy::Local | Strategy::Simple(_) => Required::Anywhere(quorum(self.total())),
            },
        }
    }
}

/// `3`, or `3/1` where one of the three is transient ([`Strategy::has_transient`]).
fn factor(text: &str) -> u32 {
    text.split('/').next().and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

fn quorum(factor: u32) -> u32 {
    factor / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_replicas_are_seen() {
        let of = |class: &str, name: &str, factor: &str| Replication {
            class: class.to_owned(),
            options: [(name.to_owned(), factor.to_owned())].into(),
        };
        let network = "org.apache.cassandra.locator.NetworkTopologyStrategy";
        assert!(Strategy::has_transient(&of(network, "dc1", "3/1")));
        assert!(Strategy::has_transient(&of("SimpleStrategy", "replication_factor", "3/1")));
        assert!(!Strategy::has_transient(&of(network, "dc1", "3/0")));
        assert!(!Strategy::has_transient(&of(network, "dc/1", "3")));
        assert!(!Strategy::has_transient(&of("SimpleStrategy", "of another", "3/1")));
        assert_eq!(Strategy::of(&of(network, "dc1", "3/1")).total(), 3);
    }
}
