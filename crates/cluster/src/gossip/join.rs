//! Whether a node may join under its address and its id, by what a shadow round told.
//!
//! - A node that bootstraps needs an address of which nothing is known, or whose node has left for good.
//! - A node that comes back needs the id that is known of its address.
//! - No other node that is alive may have its id. Who is alive a shadow round does not tell, so that is
//!   checked when the node gossips ([`check_host_id`]).
//!
//! The words are Cassandra's. Source: `StorageService.checkForEndpointCollision`,
//! `Gossiper.isSafeForStartup`, `TokenMetadata.updateHostId` of Cassandra 4.0.

use super::gossiper::Gossiper;
use super::state::EndpointState;
use super::status::StatusKind;
use crate::endpoint::Endpoint;
use std::collections::BTreeMap;
use uuid::Uuid;

/// A node that wants to join.
#[derive(Clone, Copy, Debug)]
pub struct Joiner {
    /// Its address.
    pub endpoint: Endpoint,
    /// Its id, stored or just made.
    pub host_id: Uuid,
    /// Whether it will stream data before it owns tokens.
    pub bootstraps: bool,
    /// Whether it has once owned tokens.
    pub has_bootstrapped: bool,
    /// Whether nobody else may be joining, leaving or moving meanwhile: `cassandra.consistent.rangemovement`.
    pub needs_quiet_ring: bool,
}

/// Why a node may not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Its address is another's.
    #[error(
        "A node with address /{0} already exists, cancelling join. \
         Use cassandra.replace_address if you want to replace this node."
    )]
    AddressTaken(Endpoint),
    /// A node under its address began to replace another, and did not end.
    #[error(
        "A node with the same IP in hibernate status was detected. Was a replacement already attempted? \
         A node with address /{0} already exists, cancelling join. \
         Use cassandra.replace_address if you want to replace this node."
    )]
    Hibernates(Endpoint),
    /// Somebody else changes the ring.
    #[error(
        "Other bootstrapping/leaving/moving nodes detected, cannot bootstrap while \
         cassandra.consistent.rangemovement is true"
    )]
    RingIsChanging,
    /// Its id is another's, who is alive.
    #[error("Host ID collision between active endpoint /{other} and /{endpoint} (id={host_id})")]
    HostIdTaken {
        /// The other.
        other: Endpoint,
        /// The node.
        endpoint: Endpoint,
        /// The id of both.
        host_id: Uuid,
    },
}

/// Checks what a shadow round told.
///
/// # Errors
/// When the node may not join.
pub fn check_join(joiner: &Joiner, states: &BTreeMap<Endpoint, EndpointState>) -> Result<(), JoinError> {
    if let Some(known) = states.get(&joiner.endpoint) {
        let status = known.status_kind();
        if status == StatusKind::Hibernate && !joiner.has_bootstrapped {
            return Err(JoinError::Hibernates(joiner.endpoint));
        }
        let is_taken = if status.is_dead() {
            false
        } else if joiner.bootstraps {
            matches!(status, StatusKind::Absent | StatusKind::Normal | StatusKind::Shutdown)
        } else {
            known.host_id() != Some(joiner.host_id)
        };
        if is_taken {
            return Err(JoinError::AddressTaken(joiner.endpoint));
        }
    }
    let changes = |status| matches!(status, StatusKind::Boot | StatusKind::Leaving | StatusKind::Moving);
    let others = states.iter().filter(|(endpoint, _)| **endpoint != joiner.endpoint);
    let is_changing = others.map(|(_, state)| state.status_kind()).any(changes);
    if joiner.bootstraps && joiner.needs_quiet_ring && is_changing {
        return Err(JoinError::RingIsChanging);
    }
    Ok(())
}

/// Checks that no other node that is alive has the id of this one.
///
/// # Errors
/// When one has.
pub fn check_host_id(gossiper: &Gossiper, host_id: Uuid) -> Result<(), JoinError> {
    let endpoint = gossiper.settings().endpoint;
    let is_other = |other: &Endpoint| *other != endpoint && gossiper.is_alive(other);
    let taken = gossiper.states().find(|(other, state)| is_other(other) && state.host_id() == Some(host_id));
    taken.map_or(Ok(()), |(other, _)| Err(JoinError::HostIdTaken { other, endpoint, host_id }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gossip::app_state::AppState;
    use crate::gossip::text::Text;
    use crate::gossip::values;

    fn endpoint(last: u8) -> Endpoint {
        Endpoint::new([127, 0, 0, last].into(), 7_000)
    }

    fn joiner(bootstraps: bool) -> Joiner {
        Joiner {
            endpoint: endpoint(1),
            host_id: Uuid::from_u128(1),
            bootstraps,
            has_bootstrapped: !bootstraps,
            needs_quiet_ring: true,
        }
    }

    fn known(node: u8, status: &str, host_id: u128) -> BTreeMap<Endpoint, EndpointState> {
        let mut state = EndpointState::new(1, 1);
        state.put(AppState::HOST_ID, values::uuid(Uuid::from_u128(host_id)), 1);
        state.put(AppState::STATUS_WITH_PORT, Text::new(status).unwrap(), 2);
        BTreeMap::from([(endpoint(node), state)])
    }

    #[test]
    fn nobody_minds_an_address_that_is_not_known() {
        assert_eq!(check_join(&joiner(true), &BTreeMap::new()), Ok(()));
        assert_eq!(check_join(&joiner(false), &known(2, "NORMAL,1", 2)), Ok(()));
    }

    #[test]
    fn a_node_that_bootstraps_needs_a_free_address() {
        for status in ["", "NORMAL,1", "shutdown,true"] {
            let refused = check_join(&joiner(true), &known(1, status, 1));
            assert_eq!(refused, Err(JoinError::AddressTaken(endpoint(1))), "{status}");
        }
        for status in ["LEFT,1,2", "removed,x,2", "BOOT,1"] {
            assert_eq!(check_join(&joiner(true), &known(1, status, 1)), Ok(()), "{status}");
        }
    }

    #[test]
    fn a_node_that_comes_back_needs_its_own_id() {
        assert_eq!(check_join(&joiner(false), &known(1, "NORMAL,1", 1)), Ok(()));
        let refused = check_join(&joiner(false), &known(1, "shutdown,true", 2)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "A node with address /127.0.0.1:7000 already exists, cancelling join. \
             Use cassandra.replace_address if you want to replace this node."
        );
    }

    #[test]
    fn a_replacement_that_did_not_end_is_not_begun_again() {
        let refused = check_join(&joiner(true), &known(1, "hibernate,true", 1));
        assert_eq!(refused, Err(JoinError::Hibernates(endpoint(1))));
    }

    #[test]
    fn a_node_bootstraps_into_a_quiet_ring() {
        for status in ["BOOT,1", "LEAVING,1", "MOVING,1"] {
            let refused = check_join(&joiner(true), &known(2, status, 2));
            assert_eq!(refused, Err(JoinError::RingIsChanging), "{status}");
            assert_eq!(check_join(&joiner(false), &known(2, status, 2)), Ok(()), "{status}");
            let patient = Joiner { needs_quiet_ring: false, ..joiner(true) };
            assert_eq!(check_join(&patient, &known(2, status, 2)), Ok(()), "{status}");
        }
    }
}
