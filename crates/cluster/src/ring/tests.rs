//! Who holds what: by the rules of Cassandra's strategies, and for any ring.

use super::members::Owners;
use super::*;
use crate::endpoint::Endpoint;
use crate::testing::Nobody;
use coordinator::{Keepers, Node, Parts, Strategy, Topology};
use model::command::PartitionSelection;
use model::key::{KeyBound, KeyRange, Token};
use model::schema::{KeyspaceSchema, Replication, Schema};
use model::{DecoratedKey, PartitionKey};
use proptest::prelude::{Just, ProptestConfig, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;
use std::sync::Arc;
use uuid::Uuid;

/// A node with tokens, in `datacenter:rack`.
fn member(id: u8, place: &str, tokens: &[i64]) -> Member {
    let (datacenter, rack) = place.split_once(':').unwrap();
    let node = Arc::new(Node::new(Uuid::from_u128(id.into()), datacenter, rack, Arc::new(Nobody)));
    Member {
        endpoint: Endpoint::new([127, 0, 0, id].into(), 7000),
        node,
        tokens: tokens.iter().map(|token| Token(*token)).collect(),
        phase: Phase::Normal,
        generation: 1,
    }
}

fn replicas(members: &Members, strategy: &Strategy, token: i64) -> Vec<u128> {
    let owners: Owners = members.owners();
    let found = natural_replicas(members, &owners, strategy, Token(token));
    found.into_iter().map(|at| members.get(at).unwrap().node.id.as_u128()).collect()
}

fn network(factors: &[(&str, u32)]) -> Strategy {
    Strategy::NetworkTopology(factors.iter().map(|(name, factor)| ((*name).into(), *factor)).collect())
}

#[test]
fn the_simple_strategy_takes_the_next_nodes_of_the_ring() {
    let members =
        Members::new(vec![member(1, "a:r", &[0, 30]), member(2, "a:r", &[10]), member(3, "a:r", &[20])]);
    let of = |factor, token| replicas(&members, &Strategy::Simple(factor), token);
    assert_eq!(of(1, 0), [1]);
    assert_eq!(of(1, 1), [2]);
    assert_eq!(of(2, 20), [3, 1]);
    assert_eq!(of(2, 21), [1, 2]);
    assert_eq!(of(2, 31), [1, 2], "behind the last token the ring begins anew");
    assert_eq!(of(9, 11), [3, 1, 2]);
}

#[test]
fn of_two_nodes_with_a_token_or_an_id_the_later_one_has_it() {
    let started = |generation, member| Member { generation, ..member };
    let under =
        |last: u8, member| Member { endpoint: Endpoint::new([127, 0, 0, last].into(), 7000), ..member };
    let own = Endpoint::new([127, 0, 0, 1].into(), 7000);
    let superseded = |members: &Members| -> Vec<(u8, u8)> {
        let last = |member: &Member| match member.endpoint.ip {
            std::net::IpAddr::V4(ip) => ip.octets()[3],
            std::net::IpAddr::V6(_) => 0,
        };
        members.superseded(&own).into_iter().map(|(old, new)| (last(old), last(new))).collect()
    };
    let this = || started(5, member(1, "a:r", &[0]));
    for (first, second, owner) in [(2, 3, 3), (3, 2, 2), (2, 2, 3)] {
        let (second_node, third) = (member(2, "a:r", &[10, 20]), member(3, "a:r", &[20, 10]));
        let members = Members::new(vec![this(), started(first, second_node), started(second, third)]);
        assert_eq!(replicas(&members, &Strategy::Simple(1), 10), [owner]);
        let expected = if first == second { Vec::new() } else { vec![(5 - owner as u8, owner as u8)] };
        assert_eq!(superseded(&members), expected, "nobody who started at the same time is out");
    }
    let partly = [started(2, member(2, "a:r", &[10, 20])), started(3, member(3, "a:r", &[20, 30]))];
    let members = Members::new([this()].into_iter().chain(partly).collect());
    assert_eq!((superseded(&members), replicas(&members, &Strategy::Simple(1), 20)), (Vec::new(), vec![3]));

    let moved = |generation| under(9, started(generation, member(2, "a:r", &[30])));
    let of = |generation| Members::new(vec![this(), started(2, member(2, "a:r", &[10])), moved(generation)]);
    assert_eq!(
        (superseded(&of(3)), superseded(&of(1)), superseded(&of(2))),
        (vec![(2, 9)], vec![(9, 2)], vec![])
    );
    let again = under(9, started(7, member(1, "a:r", &[0])));
    assert_eq!(superseded(&Members::new(vec![this(), again])), [(9, 1)], "the id of this node is its own");
    let later = started(7, member(2, "a:r", &[0]));
    let members = Members::new(vec![this(), later.clone()]);
    assert_eq!(replicas(&members, &Strategy::Simple(1), 0), [2], "its token is not");
    assert!(superseded(&members).is_empty());
    let joining = Member { phase: Phase::Joining, ..later };
    let members = Members::new(vec![this(), joining]);
    assert_eq!((replicas(&members, &Strategy::Simple(1), 0), superseded(&members)), (vec![1], vec![]));
}

#[test]
fn members_own_what_they_are_replicas_of() {
    let quarter = 1i64 << 62;
    let members = Members::new(vec![member(1, "a:r", &[0]), member(2, "a:r", &[quarter])]);
    assert_eq!(ownership(&members, &Strategy::Simple(1)), [0.75, 0.25]);
    assert_eq!(ownership(&members, &Strategy::Simple(2)), [1.0, 1.0]);
    let alone = Members::new(vec![member(1, "a:r", &[7])]);
    assert_eq!(ownership(&alone, &Strategy::Simple(3)), [1.0]);
    assert_eq!(ownership(&Members::default(), &Strategy::Simple(3)), [0.0; 0]);
}

#[test]
fn ranges_lie_between_tokens_and_the_first_goes_around() {
    let members =
        Members::new(vec![member(1, "a:r", &[0, 30]), member(2, "a:r", &[10]), member(3, "a:r", &[20])]);
    let found = members.ranges(&Strategy::Simple(2));
    let found: Vec<(i64, i64, Vec<u128>)> = found
        .into_iter()
        .map(|(start, end, of)| (start.0, end.0, of.iter().map(|member| member.node.id.as_u128()).collect()))
        .collect();
    let expected = [(30, 0, vec![1, 2]), (0, 10, vec![2, 3]), (10, 20, vec![3, 1]), (20, 30, vec![1, 2])];
    assert_eq!(found, expected);
    for (_, end, holders) in expected {
        let named = members.replicas(&Strategy::Simple(2), Token(end));
        assert_eq!(named.iter().map(|member| member.node.id.as_u128()).collect::<Vec<_>>(), holders);
    }
    assert!(Members::default().ranges(&Strategy::Simple(2)).is_empty());
    let alone = Members::new(vec![member(1, "a:r", &[7])]);
    let found = alone.ranges(&Strategy::Simple(2));
    assert_eq!((found.len(), found[0].0, found[0].1, found[0].2.len()), (1, Token(7), Token(7), 1));
}

#[test]
fn racks_come_before_nodes_of_racks_that_have_a_replica() {
    let members = Members::new(vec![
        member(1, "a:r1", &[0]),
        member(2, "a:r1", &[10]),
        member(3, "a:r2", &[20]),
        member(4, "b:r1", &[5]),
        member(5, "a:r1", &[30]),
    ]);
    assert_eq!(replicas(&members, &network(&[("a", 2)]), 0), [1, 3]);
    assert_eq!(replicas(&members, &network(&[("a", 3)]), 0), [1, 2, 3], "one more than there are racks");
    assert_eq!(replicas(&members, &network(&[("a", 2), ("b", 1)]), 0), [1, 4, 3]);
    assert_eq!(replicas(&members, &network(&[("b", 3)]), 0), [4]);
    assert_eq!(replicas(&members, &network(&[("c", 1)]), 0), [0u128; 0]);
}

#[test]
fn a_node_that_joins_leaves_or_replaces_is_pending_where_it_will_be_a_replica() {
    let base = vec![member(1, "a:r", &[0]), member(2, "a:r", &[20])];
    let pending = |members: Vec<Member>, token: i64| {
        let members = Members::new(members);
        let (owners, futures) = (members.owners(), super::pending::Futures::of(&members));
        let strategy = Strategy::Simple(1);
        let natural = natural_replicas(&members, &owners, &strategy, Token(token));
        let found = futures.pending(&members, &strategy, Token(token), &natural);
        found.into_iter().map(|at| members.get(at).unwrap().node.id.as_u128()).collect::<Vec<_>>()
    };
    let with = |phase: Phase, tokens: &[i64]| {
        let mut members = base.clone();
        members.push(Member { phase, ..member(3, "a:r", tokens) });
        members
    };
    let joining = with(Phase::Joining, &[10]);
    assert_eq!(pending(joining.clone(), 5), [3]);
    assert_eq!(pending(joining, 15), [0u128; 0]);
    let replacing = with(Phase::Replacing(Uuid::from_u128(2)), &[20]);
    assert_eq!(pending(replacing.clone(), 5), [3]);
    assert_eq!(pending(replacing, 25), [0u128; 0]);
    let leaving = with(Phase::Leaving, &[10]);
    assert_eq!(pending(leaving.clone(), 5), [2]);
    assert_eq!(pending(leaving, 15), [0u128; 0]);
    let moving = with(Phase::Moving(vec![Token(30)]), &[10]);
    assert_eq!(pending(moving.clone(), 25), [3]);
    assert_eq!(pending(moving, 5), [2]);
}

fn any_members() -> impl Generator<Value = Vec<Member>> {
    // The first of tokens that are spread evenly is the smallest one.
    let token = prop_oneof![20 => -40i64..40, 1 => Just(i64::MIN)];
    let node = (0u8..3, 0u8..3, proptest::collection::btree_set(token, 1..4), 0u8..5);
    proptest::collection::vec(node, 1..6).prop_map(|nodes| {
        let mut taken = std::collections::BTreeSet::new();
        let mut members = Vec::new();
        for (at, (datacenter, rack, tokens, phase)) in nodes.into_iter().enumerate() {
            let tokens: Vec<i64> = tokens.into_iter().filter(|token| taken.insert(*token)).collect();
            let place = format!("dc{datacenter}:r{rack}");
            let phase = match phase {
                1 if at > 0 => Phase::Joining,
                2 if at > 0 => Phase::Leaving,
                _ => Phase::Normal,
            };
            members.push(Member { phase, ..member(at as u8 + 1, &place, &tokens) });
        }
        members
    })
}

fn schema(options: &[(&str, &str)]) -> Arc<Schema> {
    let class = if options.len() == 1 && options[0].0 == "replication_factor" {
        "org.apache.cassandra.locator.SimpleStrategy"
    } else {
        "org.apache.cassandra.locator.NetworkTopologyStrategy"
    };
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let replication = Replication { class: class.to_owned(), options };
    let mut schema = Schema::default();
    schema.keyspaces.insert("ks".to_owned(), Arc::new(KeyspaceSchema::new("ks", replication)));
    Arc::new(schema)
}

#[test]
fn a_keyspace_with_transient_replicas_is_on_no_node() {
    for (factor, is_served) in [("3", true), ("3/0", true), ("3/1", false)] {
        let schema = schema(&[("dc", "1"), ("far", factor)]);
        let members = vec![member(1, "dc:r", &[0]), member(2, "far:r", &[10])];
        let ring = RingTopology::new(Arc::clone(&members[0].node), move || Arc::clone(&schema));
        ring.set_members(Members::new(members));
        assert_eq!(ring.placement("ks", &key(1)).is_some(), is_served, "{factor}");
        let everything = PartitionSelection::Range(KeyRange::FULL);
        assert_eq!(ring.split("ks", &everything).is_some(), is_served, "{factor}");
    }
}

fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

/// A key at a token of its own, so that small rings are met.
fn at_token(token: i64) -> DecoratedKey {
    DecoratedKey { token: Token(token), ..key(1) }
}

fn any_bound() -> impl Generator<Value = KeyBound> {
    prop_oneof![
        Just(KeyBound::Unbounded),
        (-50i64..50, any::<bool>())
            .prop_map(|(token, inclusive)| KeyBound::Token { token: Token(token), inclusive }),
        (-50i64..50, any::<bool>())
            .prop_map(|(token, inclusive)| KeyBound::Key { key: at_token(token), inclusive }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn each_key_of_a_range_is_in_one_part_with_its_own_replicas(
        members in any_members(),
        start in any_bound(),
        end in any_bound(),
        is_network in any::<bool>(),
    ) {
        let schema = match is_network {
            true => schema(&[("dc0", "2"), ("dc1", "1")]),
            false => schema(&[("replication_factor", "2")]),
        };
        let this = Arc::clone(&members[0].node);
        let ring = RingTopology::new(this, move || Arc::clone(&schema));
        ring.set_members(Members::new(members));
        let range = KeyRange { start, end };
        let parts = match ring.split("ks", &PartitionSelection::Range(range.clone())).unwrap() {
            Parts::Whole(placement) => vec![(range.clone(), placement)],
            Parts::Several(parts) => parts
                .into_iter()
                .map(|part| match part.selection {
                    PartitionSelection::Range(range) => (range, part.placement),
                    PartitionSelection::Keys(_) => unreachable!(),
                })
                .collect(),
        };
        for token in -60..60 {
            let key = at_token(token);
            let placement = ring.placement("ks", &key).unwrap();
            let of: Vec<_> = parts.iter().filter(|(part, _)| part.contains(&key)).collect();
            prop_assert_eq!(of.len(), usize::from(range.contains(&key)), "{} in {:?}", token, parts);
            if let [(_, found)] = of.as_slice() {
                prop_assert!(found.has_nodes_of(&placement), "{} in {:?}", token, parts);
            }
        }
        for (part, _) in &parts {
            let end = matches!(&part.end, KeyBound::Token { token, .. } if *token == Token::MIN);
            prop_assert!(!end, "to other nodes that is the end of the ring: {:?}", parts);
        }
        for neighbours in parts.windows(2) {
            prop_assert!(!neighbours[0].1.has_nodes_of(&neighbours[1].1), "{:?}", parts);
        }
    }

    #[test]
    fn the_keys_of_each_part_ascend_whatever_the_order_of_the_selection(
        members in any_members(),
        tokens in proptest::collection::vec(-60i64..60, 1..12),
    ) {
        let schema = schema(&[("replication_factor", "2")]);
        let ring = RingTopology::new(Arc::clone(&members[0].node), move || Arc::clone(&schema));
        ring.set_members(Members::new(members));
        let keys: Vec<DecoratedKey> = tokens.into_iter().map(at_token).collect();
        let selection = PartitionSelection::Keys(keys.clone());
        let parts = match ring.split("ks", &selection).unwrap() {
            Parts::Whole(_) => vec![selection],
            Parts::Several(parts) => parts.into_iter().map(|part| part.selection).collect(),
        };
        let of_each: Vec<Vec<DecoratedKey>> = parts
            .into_iter()
            .map(|part| match part {
                PartitionSelection::Keys(keys) => keys,
                PartitionSelection::Range(_) => unreachable!(),
            })
            .collect();
        for part in &of_each {
            prop_assert!(part.is_sorted_by(|a, b| a < b), "{part:?}");
        }
        prop_assert_eq!(of_each.concat(), keys);
    }

    #[test]
    fn who_comes_to_hold_a_token_is_written_to_before(members in any_members(), token in -50i64..50) {
        let before = Members::new(members.clone());
        let strategy = Strategy::Simple(2);
        let (owners, futures) = (before.owners(), super::pending::Futures::of(&before));
        let natural = natural_replicas(&before, &owners, &strategy, Token(token));
        let mut written = futures.pending(&before, &strategy, Token(token), &natural);
        written.extend(&natural);
        // Whoever is the next that has joined, all that leave are gone by then.
        for joiner in members.iter().filter(|member| member.phase == Phase::Joining) {
            let after = members.iter().filter(|member| member.phase == Phase::Normal).chain([joiner]);
            let after: Vec<Member> =
                after.map(|member| Member { phase: Phase::Normal, ..member.clone() }).collect();
            let after = Members::new(after);
            for at in natural_replicas(&after, &after.owners(), &strategy, Token(token)) {
                let id = after.get(at).unwrap().node.id;
                prop_assert!(written.iter().any(|at| before.get(*at).unwrap().node.id == id));
            }
        }
    }
}

/// The keepers of many batches of node 1, all of whose ring is alive but for `dead`.
fn keepers(places: &[&str], dead: &[u128]) -> std::collections::BTreeSet<Vec<u128>> {
    let members: Vec<Member> =
        (1u8..).zip(places).map(|(id, place)| member(id, place, &[i64::from(id)])).collect();
    members.iter().for_each(|member| member.node.set_alive(!dead.contains(&member.node.id.as_u128())));
    let topology = RingTopology::new(Arc::clone(&members[0].node), || Arc::new(Schema::default()));
    topology.set_members(Members::new(members));
    let random = env::random::Random::from_seed(7);
    let draw = || {
        let mut ids: Vec<u128> = match topology.batch_keepers(&random) {
            Keepers::ThisNode => vec![1],
            Keepers::Others(nodes) => nodes.iter().map(|node| node.id.as_u128()).collect(),
        };
        ids.sort_unstable();
        ids
    };
    (0..300).map(|_| draw()).collect()
}

#[test]
fn batches_are_kept_by_two_others_of_two_other_racks_drawn_anew() {
    fn all(sets: &[&[u128]]) -> std::collections::BTreeSet<Vec<u128>> {
        sets.iter().map(|set| set.to_vec()).collect()
    }
    assert_eq!(keepers(&["a:r1", "b:r2"], &[]), all(&[&[1]]), "alone in its data center");
    assert_eq!(keepers(&["a:r1", "a:r1", "b:r2"], &[2]), all(&[&[]]), "nobody is alive");
    assert_eq!(keepers(&["a:r1", "a:r1", "b:r2"], &[]), all(&[&[2]]));
    assert_eq!(keepers(&["a:r1", "a:r1", "a:r2"], &[]), all(&[&[2, 3]]), "there are no others");
    let one_rack = ["a:r1", "a:r1", "a:r1", "a:r1"];
    assert_eq!(keepers(&one_rack, &[]), all(&[&[2, 3], &[2, 4], &[3, 4]]));
    assert_eq!(keepers(&one_rack, &[3]), all(&[&[2, 4]]), "not the dead");
    let other_rack = ["a:r1", "a:r1", "a:r2", "a:r2"];
    assert_eq!(keepers(&other_rack, &[]), all(&[&[3, 4]]), "two elsewhere are enough");
    let one_elsewhere = ["a:r1", "a:r1", "a:r1", "a:r2"];
    assert_eq!(keepers(&one_elsewhere, &[]), all(&[&[2, 4], &[3, 4]]), "of two racks");
    let three_racks = ["a:r1", "a:r2", "a:r2", "a:r3", "b:r4"];
    assert_eq!(keepers(&three_racks, &[]), all(&[&[2, 4], &[3, 4]]), "of this data center");
}
