//! Verbs about where data lies, as Cassandra 5.0.5 answered them.

use super::super::gossip::{alone_node, gossip_text, messages_alone, netstats_text};
use super::super::places::{
    describering_text, directories_of_tables, directories_text, ranges_alone, ring_text, sstables_text,
};
use super::super::ring::host_name;
use super::*;
use crate::api::{PartitionPlace, TableDirectories};
use crate::structured::{Format, print};

fn one() -> NodeStatus {
    NodeStatus {
        address: "127.0.0.9".to_owned(),
        load_bytes: 290_806,
        tokens: vec!["-3142690539546280322".to_owned()],
        ..node()
    }
}

#[test]
fn ring_has_nodetools_layout() {
    let head = "
Datacenter: datacenter1
==========
Address         Rack        Status State   Load            Owns                Token                                       
";
    let expected = format!(
        "{head}
127.0.0.9       rack1       Up     Normal  283.99 KiB      100.00%             -3142690539546280322                        


  "
    );
    let of = |nodes, note| ring_text(&Status { nodes, note }, false);
    assert_eq!(of(vec![one()], None), expected);
    let note = "Ownership values for keyspaces with LocalStrategy are meaningless";
    let local = of(vec![one()], Some(note.to_owned()));
    assert!(local.contains("283.99 KiB      ?                   -31426905"), "{local}");
    assert!(
        local.ends_with("\n\n\n  Note: Ownership values for keyspaces with LocalStrategy are meaningless\n")
    );
    let several = NodeStatus { tokens: vec!["7".to_owned(), "-5".to_owned()], ..one() };
    let text = of(vec![several], None);
    let tokens: Vec<&str> =
        text.lines().skip(4).take(3).map(|line| line.split_whitespace().next_back().unwrap()).collect();
    assert_eq!(tokens, ["7", "-5", "7"], "the last token leads to the first one");
    assert!(text.contains("  Warning: \"nodetool ring\" is used to output all the tokens of a node.\n"));
}

fn cluster() -> Cluster {
    Cluster {
        name: "Test Cluster".to_owned(),
        snitch: "SimpleSnitch".to_owned(),
        partitioner: "Murmur3Partitioner".to_owned(),
        schema_version: "c347c0ee-7e61-30eb-9a80-75be519da057".to_owned(),
        address: "127.0.0.9".to_owned(),
        storage_port: 7000,
        native_port: Some(9042),
        data_center: "datacenter1".to_owned(),
        release_version: "5.0.5".to_owned(),
        keyspaces: Vec::new(),
        nodes: Vec::new(),
        note: None,
    }
}

#[test]
fn describering_has_nodetools_layout() {
    let range = |start: &str, end: &str| {
        format!(
            "\tTokenRange(start_token:{start}, end_token:{end}, endpoints:[127.0.0.9], rpc_endpoints:[127.0.0.9], \
             endpoint_details:[EndpointDetails(host:127.0.0.9, datacenter:datacenter1, rack:rack1)])\n"
        )
    };
    let head = "Schema Version:c347c0ee-7e61-30eb-9a80-75be519da057\nTokenRange: \n";
    let token = "-3142690539546280322";
    assert_eq!(
        describering_text(&ranges_alone(&cluster(), &[one()])),
        format!("{head}{}", range(token, token))
    );
    let several = NodeStatus { tokens: vec!["7".to_owned(), "-5".to_owned()], ..one() };
    let expected = format!("{head}{}{}", range("7", "-5"), range("-5", "7"));
    assert_eq!(describering_text(&ranges_alone(&cluster(), &[several])), expected);
}

#[test]
fn netstats_and_gossipinfo_have_nodetools_layout() {
    let expected = "\
Mode: NORMAL
Not sending any streams.
Read Repair Statistics:
Attempted: 0
Mismatch (Blocking): 0
Mismatch (Background): 0
Pool Name                    Active   Pending      Completed   Dropped
Large messages                  n/a         0              0         0
Small messages                  n/a         0              0         0
Gossip messages                 n/a         0              0         0
";
    assert_eq!(netstats_text(&messages_alone(&info())), expected);
    let gossip = gossip_text(&[alone_node(&info(), &cluster())], &Ports::default());
    assert!(
        gossip.starts_with("/127.0.0.9\n  generation:1\n  heartbeat:0\n  STATUS:0:NORMAL,5\n  LOAD:0:0.0\n")
    );
    assert!(gossip.ends_with("  TOKENS:0:<hidden>\n\n"), "{gossip}");
}

#[test]
fn datapaths_has_nodetools_layout() {
    let table = |table: &str| TableDirectories {
        keyspace: "a_r".to_owned(),
        table: table.to_owned(),
        directories: vec![format!("/data/a_r/{table}-ac13").into()],
    };
    let expected = "\
Keyspace: a_r
\tTable: c
\tPaths:
\t\t/data/a_r/c-ac13

\tTable: t
\tPaths:
\t\t/data/a_r/t-ac13

";
    assert_eq!(directories_text(&[table("c"), table("t")]), expected);
    let as_object = directories_of_tables(&[table("c"), table("t")]);
    let json = "\
{
  \"a_r\" : {
    \"c\" : [ \"/data/a_r/c-ac13\" ],
    \"t\" : [ \"/data/a_r/t-ac13\" ]
  }
}
";
    assert_eq!(print(&as_object, Format::Json), json);
    let yaml = "a_r:\n  c:\n  - /data/a_r/c-ac13\n  t:\n  - /data/a_r/t-ac13\n\n";
    assert_eq!(print(&as_object, Format::Yaml), yaml);
    assert_eq!(print(&directories_of_tables(&[]), Format::Json), "{ }\n");
}

#[test]
fn levels_are_shown_where_there_are_any() {
    let mut place = PartitionPlace {
        endpoints: Vec::new(),
        sstables: vec!["/d/nb-2-big-Data.db".into(), "/d/nb-1-big-Data.db".into()],
        levels: vec![0, 2],
    };
    let plain = "/d/nb-2-big-Data.db\n/d/nb-1-big-Data.db\n";
    assert_eq!(sstables_text(&place, true), "0: /d/nb-2-big-Data.db\n2: /d/nb-1-big-Data.db\n");
    assert_eq!(sstables_text(&place, false), plain);
    place.levels.clear();
    assert_eq!(sstables_text(&place, true), plain);
}

#[test]
fn addresses_get_the_first_of_their_names() {
    let hosts =
        "# 10.0.0.1 none\n127.0.0.1\tlocalhost loop\n\n10.0.0.1 db1.example.org db1 # first\n::1 six\n";
    assert_eq!(host_name(hosts, "10.0.0.1").as_deref(), Some("db1.example.org"));
    assert_eq!(host_name(hosts, "::1").as_deref(), Some("six"));
    assert_eq!(host_name(hosts, "10.0.0.2"), None);
}
