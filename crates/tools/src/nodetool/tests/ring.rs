//! Verbs about a ring of three nodes, one of which was killed, as Cassandra 5.0.5 answered them (`ring/`).
//! Where Java has lines in the order of a hash table, lines are compared without regard to their order.

use super::super::gossip::{gossip_text, netstats_text, phi_text, seeds_text};
use super::super::handoff::{handoff_text, pending_text};
use super::super::help::unknown;
use super::super::places::{describering_text, ring_text};
use super::super::ring::{cluster_text, status_text};
use super::*;
use crate::api::{
    ClusterNode, Gossip, GossipNode, GossipState, Handoff, MessageCounts, Messages, PendingHints,
    RangeEndpoint, ReadRepairs, RingRange, RingRanges,
};

/// Address, token, state, bytes of data, part that it owns, id.
const NODES: [(&str, &str, &str, u64, f64, &str); 3] = [
    ("127.0.7.33", "-302004501879459470", "DN", 112_101, 0.426_09, "5aad1f13-2a4a-4981-9e42-7555fe375c72"),
    ("127.0.7.32", "-8161951167248131440", "UN", 117_607, 0.879_33, "11a8ea9e-86bb-4fb3-82b5-ddb4c8dc1ac9"),
    ("127.0.7.31", "-5935815564723948246", "UN", 115_291, 0.694_58, "2187efb7-a10a-4177-b8bc-09d37d36c1c7"),
];

fn nodes() -> Vec<NodeStatus> {
    let node =
        |(address, token, state, load_bytes, owns, host_id): (&str, &str, &str, u64, f64, &str)| NodeStatus {
            state: state.to_owned(),
            address: address.to_owned(),
            data_center: "datacenter1".to_owned(),
            rack: "rack1".to_owned(),
            load_bytes,
            load_is_unknown: false,
            owns,
            host_id: host_id.to_owned(),
            tokens: vec![token.to_owned()],
        };
    NODES.map(node).into()
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn status_and_ring_show_all_nodes() {
    let status = Status { nodes: nodes(), note: None };
    assert_eq!(status_text(&status), include_str!("ring/status.txt"));
    assert_eq!(ring_text(&status, false), include_str!("ring/ring.txt"));
}

#[test]
fn a_load_that_nobody_knows_is_no_number() {
    let unknown = nodes().into_iter().map(|node| NodeStatus { load_is_unknown: true, ..node });
    let status = Status { nodes: unknown.collect(), note: None };
    assert!(ring_text(&status, false).contains("  rack1       Down   Normal  ?               42.61% "));
    assert!(status_text(&status).contains("DN  127.0.7.33  ?     1       42.6% "));
}

#[test]
fn data_centers_are_apart_and_as_wide_as_the_widest() {
    let mut nodes = nodes();
    nodes[0].data_center = "b".to_owned();
    nodes[0].rack = "a long rack".to_owned();
    nodes[1].state = "UJ".to_owned();
    let status = Status { nodes, note: None };
    let text = ring_text(&status, false);
    let centers: Vec<&str> = text.lines().filter(|line| line.starts_with("Datacenter")).collect();
    assert_eq!(centers, ["Datacenter: b", "Datacenter: datacenter1"]);
    assert!(text.contains("Up     Joining "), "{text}");
    let status = status_text(&status);
    let widths: Vec<usize> =
        status.lines().filter(|line| line.contains("127.0.7")).map(|line| line.trim_end().len()).collect();
    assert_eq!(widths.len(), 3);
    let heads: Vec<&str> = status.lines().filter(|line| line.starts_with("--")).collect();
    assert_eq!(heads[0], heads[1]);
}

fn cluster() -> Cluster {
    let schema = "ed8d1050-17a1-34b4-8459-8cfc3ca4a1ee";
    let node = |address: &str, state: &str| ClusterNode {
        state: state.to_owned(),
        address: address.to_owned(),
        port: 7000,
        data_center: "datacenter1".to_owned(),
        schema_version: state.starts_with('U').then(|| schema.to_owned()),
        release_version: Some("5.0.5".to_owned()),
    };
    let keyspace = |keyspace: &str, factor: &str| KeyspaceReplication {
        keyspace: keyspace.to_owned(),
        class: if factor.is_empty() { "LocalStrategy" } else { "SimpleStrategy" }.to_owned(),
        options: (!factor.is_empty())
            .then(|| ("replication_factor".to_owned(), factor.to_owned()))
            .into_iter()
            .collect(),
    };
    Cluster {
        name: "seeing".to_owned(),
        snitch: "org.apache.cassandra.locator.SimpleSnitch".to_owned(),
        partitioner: "org.apache.cassandra.dht.Murmur3Partitioner".to_owned(),
        schema_version: schema.to_owned(),
        address: "127.0.7.31".to_owned(),
        storage_port: 7000,
        native_port: Some(9042),
        data_center: "datacenter1".to_owned(),
        release_version: "5.0.5".to_owned(),
        keyspaces: vec![
            keyspace("system_traces", "2"),
            keyspace("system_distributed", "3"),
            keyspace("system_auth", "1"),
            keyspace("app", "2"),
            keyspace("system_schema", ""),
            keyspace("system", ""),
        ],
        note: None,
        nodes: vec![node("127.0.7.31", "UN"), node("127.0.7.32", "UN"), node("127.0.7.33", "DN")],
    }
}

#[test]
fn describecluster_shows_who_has_which_version() {
    // Cassandra's snitch learns who is fast, and a wrapper says so. Ilion asks the closest.
    let recorded = include_str!("ring/describecluster.txt");
    assert_eq!(
        cluster_text(&cluster(), &Ports::default()),
        recorded.replace("Snitch: enabled", "Snitch: disabled")
    );
    let mut cluster = cluster();
    cluster.nodes[0].schema_version = Some("00000000-17a1-34b4-8459-8cfc3ca4a1ee".to_owned());
    cluster.nodes[1].release_version = Some("4.1.10".to_owned());
    cluster.nodes[2].state = "UL".to_owned();
    let text = cluster_text(&cluster, &Ports::default());
    let versions: Vec<&str> =
        text.lines().filter(|line| line.contains("[127.0.7.3")).map(str::trim).collect();
    assert_eq!(
        versions,
        [
            "ed8d1050-17a1-34b4-8459-8cfc3ca4a1ee: [127.0.7.32]",
            "00000000-17a1-34b4-8459-8cfc3ca4a1ee: [127.0.7.31]",
            "UNREACHABLE: [127.0.7.33]",
            "4.1.10: [127.0.7.32:7000]",
            "5.0.5: [127.0.7.31:7000, 127.0.7.33:7000]",
        ]
    );
    assert!(text.contains("\tLeaving: 1\n"), "{text}");
}

#[test]
fn describering_names_the_replicas_of_each_range() {
    let endpoint = |address: &str| RangeEndpoint {
        address: address.to_owned(),
        rpc_address: address.to_owned(),
        data_center: "datacenter1".to_owned(),
        rack: "rack1".to_owned(),
    };
    let [(third, c, ..), (second, b, ..), (first, a, ..)] = NODES;
    let range = |start: &str, end: &str, holders: [&str; 2]| RingRange {
        start_token: start.to_owned(),
        end_token: end.to_owned(),
        endpoints: holders.map(endpoint).into(),
    };
    let found = RingRanges {
        schema_version: "ed8d1050-17a1-34b4-8459-8cfc3ca4a1ee".to_owned(),
        ranges: vec![range(c, b, [second, first]), range(b, a, [first, third]), range(a, c, [third, second])],
    };
    assert_eq!(sorted(&describering_text(&found)), sorted(include_str!("ring/describering.txt")));
}

/// What a recorded answer says of the nodes.
fn heard(recorded: &str) -> Vec<GossipNode> {
    let mut nodes: Vec<GossipNode> = Vec::new();
    for line in recorded.lines().filter(|line| !line.is_empty()) {
        if let Some(address) = line.strip_prefix('/') {
            nodes.push(GossipNode {
                address: address.to_owned(),
                port: 7000,
                is_alive: true,
                generation: 0,
                heartbeat: 0,
                phi: None,
                states: Vec::new(),
            });
            continue;
        }
        let (node, said) = (nodes.last_mut().unwrap(), line.trim());
        let words: Vec<&str> = said.splitn(3, ':').collect();
        match words.as_slice() {
            ["generation", number] => node.generation = number.parse().unwrap(),
            ["heartbeat", number] => node.heartbeat = number.parse().unwrap(),
            [name, version, value] => node.states.push(GossipState {
                name: (*name).to_owned(),
                version: version.parse().unwrap(),
                value: (*name != "TOKENS").then(|| (*value).to_owned()),
            }),
            _ => panic!("{line}"),
        }
    }
    nodes
}

#[test]
fn gossipinfo_shows_what_each_node_says() {
    let recorded = include_str!("ring/gossipinfo.txt");
    let mut nodes = heard(recorded);
    assert_eq!((nodes.len(), nodes[0].states.len(), nodes[1].states.len()), (3, 14, 12));
    assert_eq!(gossip_text(&nodes, &Ports::default()), recorded);
    // Cassandra has the tokens last, wherever their number is.
    let tokens = nodes[1].states.pop().unwrap();
    nodes[1].states.insert(0, tokens);
    assert_eq!(gossip_text(&nodes, &Ports::default()), recorded);
    nodes[1].states.remove(0);
    assert!(
        gossip_text(&nodes, &Ports::default())
            .contains("  SSTABLE_VERSIONS:6:big-nb\n  TOKENS: not present\n/127.0.7.33\n")
    );
}

#[test]
fn ports_stand_behind_addresses_where_they_are_asked_for() {
    let mut nodes = heard("/10.0.0.1\n  NATIVE_ADDRESS_AND_PORT:3:10.1.0.1:9142\n/fd00::2\n");
    nodes[1].port = 7001;
    let ports = Ports::of_gossip(&Gossip { running: true, nodes, seeds: Vec::new() });
    let named = ["10.0.0.1", "fd00::2", "10.0.0.3"].map(|address| ports.name(address));
    assert_eq!(named, ["10.0.0.1:7000", "[fd00::2]:7001", "10.0.0.3"]);
    assert_eq!([ports.name_host("fd00::2", "six"), ports.name_host("10.0.0.3", "db3")], ["six:7001", "db3"]);
    let endpoint = |address: &str| RangeEndpoint {
        address: address.to_owned(),
        rpc_address: address.to_owned(),
        data_center: "dc1".to_owned(),
        rack: "r1".to_owned(),
    };
    let range = RingRange {
        start_token: "1".to_owned(),
        end_token: "2".to_owned(),
        endpoints: vec![endpoint("10.0.0.1"), endpoint("fd00::2")],
    };
    let mut found = RingRanges { schema_version: "v".to_owned(), ranges: vec![range] };
    ports.name_ranges(&mut found);
    let text = describering_text(&found);
    let line = "endpoints:[10.0.0.1:7000, [fd00::2]:7001], rpc_endpoints:[10.1.0.1:9142, fd00::2], \
                endpoint_details:[EndpointDetails(host:10.0.0.1:7000,";
    assert!(text.contains(line), "{text}");
}

#[test]
fn failuredetector_shows_phis() {
    let nodes = heard("/127.0.7.32\n/127.0.7.33\n");
    let suspected: Vec<(&GossipNode, f64)> = nodes.iter().zip([0.427_446_98, 0.137_653_32]).collect();
    assert_eq!(phi_text(&suspected, &Ports::default()), include_str!("ring/failuredetector.txt"));
    assert_eq!(phi_text(&[], &Ports::default()), "  Endpoint,             Phi\n");
}

#[test]
fn netstats_counts_messages() {
    let counts = |pending, completed, dropped| MessageCounts { pending, completed, dropped };
    let messages = Messages {
        mode: "NORMAL".to_owned(),
        large: counts(0, 2, 0),
        small: counts(0, 120, 27),
        gossip: counts(22, 451, 0),
        verbs: Vec::new(),
        read_repairs: ReadRepairs::default(),
    };
    assert_eq!(netstats_text(&messages), include_str!("ring/netstats.txt"));
}

#[test]
fn listpendinghints_names_who_waits() {
    let hints = PendingHints {
        host_id: NODES[0].5.to_owned(),
        address: Some(NODES[0].0.to_owned()),
        port: Some(7000),
        rack: "rack1".to_owned(),
        data_center: "datacenter1".to_owned(),
        status: "DOWN".to_owned(),
        files: 1,
        bytes: 500,
        buffered_bytes: 0,
        newest_millis: 1_795_680_237_650,
        oldest_millis: 1_795_680_237_650,
    };
    assert_eq!(pending_text(&[hints]), include_str!("ring/listpendinghints.txt"));
    assert_eq!(pending_text(&[]), "This node does not have any pending hints\n");
}

#[test]
fn handoff_and_seeds_are_told_in_cassandras_words() {
    let mut found = Handoff {
        running: true,
        paused: false,
        disabled_data_centers: Vec::new(),
        window_millis: 1,
        throttle_bytes: 1,
    };
    assert_eq!(handoff_text(&found), "Hinted handoff is running\n");
    found.disabled_data_centers.push("datacenter1".to_owned());
    assert_eq!(handoff_text(&found), "Hinted handoff is running\nData center datacenter1 is disabled\n");
    found = Handoff { running: false, disabled_data_centers: Vec::new(), ..found };
    assert_eq!(handoff_text(&found), "Hinted handoff is not running\n");
    assert_eq!(seeds_text(&[]), "Seed node list does not contain any remote node IPs\n");
    let seeds = ["127.0.0.1:7000".to_owned(), "127.0.0.2:7000".to_owned()];
    assert!(seeds_text(&seeds).ends_with(" IP: /127.0.0.1:7000 /127.0.0.2:7000\n"));
}

#[test]
fn verbs_that_change_the_ring_are_refused_by_name() {
    for name in ["assassinate", "removenode", "decommission", "move", "rebuild"] {
        let Err(Failure::Usage(words)) = unknown(&[name.to_owned(), "x".to_owned()]) else {
            panic!("{name}")
        };
        assert!(words.starts_with(&format!("{name} changes who is in the ring")), "{words}");
        assert!(matches!(verb(&[name, "x"]).unwrap().verb, Verb::Unknown(_)), "{name}");
    }
    assert!(verb(&["truncatehints"]).is_ok() && verb(&["setmaxhintwindow", "5000"]).is_ok());
}
