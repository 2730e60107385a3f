//! Verbs against answers that stand still: layouts, words and exit status.

mod compactions;
mod places;
mod profile;
mod ring;
mod tablestats;
mod tuning;

use super::ports::Ports;
use super::snapshots::{SnapshotVerb, snapshot_of};
use super::*;
use crate::api::{
    CacheReport, Cluster, CompactionStats, CompactionTask, Info, KeyspaceReplication, NodeStatus,
    Percentiles, QualifiedTable, SnapshotEntry, Status, TableHistograms,
};
use clap::Parser;

/// The binary's command line, as far as it is nodetool's.
#[derive(Debug, Parser)]
enum Ilion {
    Nodetool(NodetoolArgs),
}

fn verb(words: &[&str]) -> Result<NodetoolArgs, clap::Error> {
    let words = ["ilion", "nodetool"].iter().chain(words).map(|word| (*word).to_owned());
    let Ilion::Nodetool(args) = Ilion::try_parse_from(with_long_flags(words))?;
    Ok(args)
}

#[test]
fn a_node_is_named_as_cassandras_nodetool_names_it() {
    let address = |text: &str| {
        let words: Vec<&str> = text.split(' ').collect();
        verb(&words).map(|args| args.admin).map_err(|error| error.to_string())
    };
    assert_eq!(address("status"), Ok("127.0.0.1:9180".to_owned()));
    for words in
        ["-h ::1 -p 7199 status", "--port 7199 status -h ::1", "-Dsome.name=x --host=::1 --port=7199 status"]
    {
        assert_eq!(address(words), Ok("[::1]:7199".to_owned()), "{words}");
    }
    assert_eq!(address("-u me -pw secret -h node1 status ks"), Ok("node1:9180".to_owned()));
    assert_eq!(address("--json -p 1 status"), Ok("127.0.0.1:1".to_owned()));
    assert!(verb(&["-h", "node1", "-pp", "status", "ks"]).unwrap().print_port);
    // A verb's own options stay its own.
    let import = verb(&["-h", "node1", "import", "-p", "ks", "t", "/dir"]).unwrap();
    assert_eq!(import.admin, "node1:9180");
    assert!(matches!(import.verb, Verb::Snapshots(SnapshotVerb::Import { .. })));
    assert!(address("-h status").is_err());
}

fn node() -> NodeStatus {
    NodeStatus {
        state: "UN".to_owned(),
        address: "127.0.0.50".to_owned(),
        data_center: "datacenter1".to_owned(),
        rack: "rack1".to_owned(),
        load_bytes: 567_357,
        load_is_unknown: false,
        owns: 1.0,
        host_id: "9961d418-a120-4a8d-99aa-cf9248b09264".to_owned(),
        tokens: vec!["-6889711027515331401".to_owned()],
    }
}

#[test]
fn status_has_nodetools_layout() {
    let expected = "\
Datacenter: datacenter1
=======================
Status=Up/Down
|/ State=Normal/Leaving/Joining/Moving
--  Address     Load        Owns (effective)  Host ID                               Token                 Rack\x20
UN  127.0.0.50  554.06 KiB  100.0%            9961d418-a120-4a8d-99aa-cf9248b09264  -6889711027515331401  rack1

";
    let of = |node, note| super::ring::status_text(&Status { nodes: vec![node], note });
    assert_eq!(of(node(), None), expected);
    let note = "Non-system keyspaces don't have the same replication settings, effective ownership information is meaningless";
    let text = of(node(), Some(note.to_owned()));
    assert!(text.contains("Load        Owns  Host ID") && text.contains("  ?     "), "{text}");
    assert!(text.ends_with(&format!("\n\nNote: {note}\n")), "{text}");
}

#[test]
fn status_counts_several_tokens() {
    let several = NodeStatus { tokens: vec!["1".to_owned(), "2".to_owned()], ..node() };
    let text = super::ring::status_text(&Status { nodes: vec![several], note: None });
    assert!(text.contains("Load        Tokens  Owns (effective)  Host ID"), "{text}");
    assert!(text.contains("554.06 KiB  2       100.0%"), "{text}");
}

fn info() -> Info {
    Info {
        host_id: "id".to_owned(),
        gossip_active: false,
        native_transport_active: true,
        load_bytes: 0,
        generation: 1,
        uptime_seconds: 735,
        resident_bytes: 3 << 20,
        memtable_bytes: 0,
        memtable_bytes_max: 1 << 20,
        data_center: "datacenter1".to_owned(),
        rack: "rack1".to_owned(),
        exceptions: 0,
        page_cache: CacheReport { hits: 3, misses: 1, ..CacheReport::default() },
        row_cache: CacheReport::default(),
        tokens: vec!["5".to_owned()],
        drained: false,
        given_up_directories: vec!["/data/one".into()],
    }
}

#[test]
fn info_hides_many_tokens_until_asked() {
    let mut info = info();
    let text = node::info_text(&info, false);
    assert!(text.ends_with("Takes no new SSTables  : /data/one\n"), "{text}");
    assert!(text.starts_with("ID                     : id\n"), "{text}");
    assert!(text.contains("Uptime (seconds)       : 735\n"), "{text}");
    assert!(text.contains("Token                  : 5\n"), "{text}");
    assert!(text.contains("3 hits, 4 requests, 0.750 hit rate"), "{text}");
    // As Cassandra 5.0.5 prints it.
    let line = "Row Cache              : entries 0, size 0 bytes, capacity 0 bytes, 0 hits, 0 requests, NaN recent hit rate, 0 save period in seconds\n";
    assert!(text.contains(line), "{text}");
    info.tokens.push("6".to_owned());
    assert!(node::info_text(&info, false).contains("(invoke with -T/--tokens to see all 2 tokens)"));
    assert_eq!(node::info_text(&info, true).matches("Token   ").count(), 2);
}

#[test]
fn describecluster_lists_keyspaces() {
    let cluster = Cluster {
        name: "peer".to_owned(),
        snitch: "org.apache.cassandra.locator.SimpleSnitch".to_owned(),
        partitioner: "org.apache.cassandra.dht.Murmur3Partitioner".to_owned(),
        schema_version: "v".to_owned(),
        address: "127.0.0.1".to_owned(),
        storage_port: 7000,
        native_port: Some(9042),
        data_center: "datacenter1".to_owned(),
        release_version: "5.0.5".to_owned(),
        keyspaces: vec![KeyspaceReplication {
            keyspace: "ks".to_owned(),
            class: "SimpleStrategy".to_owned(),
            options: [("replication_factor".to_owned(), "1".to_owned())].into(),
        }],
        nodes: Vec::new(),
        note: None,
    };
    let text = super::ring::cluster_text(&cluster, &Ports::default());
    assert!(text.starts_with("Cluster Information:\n\tName: peer\n\tSnitch: org.apache"), "{text}");
    assert!(text.contains("\tks -> Replication class: SimpleStrategy {replication_factor=1}\n"), "{text}");
    assert!(text.contains("\t5.0.5: [127.0.0.1:7000]\n"), "{text}");
}

#[test]
fn compactionstats_shows_what_runs() {
    let mut stats = CompactionStats {
        concurrent_compactors: 2,
        completed: 843,
        throughput_bytes: 64 << 20,
        ..CompactionStats::default()
    };
    let idle = super::compactions::compactions_text(&stats, false);
    assert!(idle.contains("compactions completed         843 "), "{idle}");
    assert!(idle.contains("compaction throughput (MiB/s) 64.0"), "{idle}");
    assert!(!idle.contains("Active"), "{idle}");
    stats.active.push(CompactionTask {
        id: uuid::Uuid::nil().to_string(),
        kind: "Compaction".to_owned(),
        keyspace: "ks".to_owned(),
        table: "t".to_owned(),
        completed: 25,
        total: 100 << 20,
        unit: "bytes".to_owned(),
        sstables: 4,
    });
    let busy = super::compactions::compactions_text(&stats, true);
    assert!(busy.contains("25 bytes  100 MiB bytes 0.00%"), "{busy}");
    assert!(busy.contains("Active compaction remaining time :   0h00m01s"), "{busy}");
}

#[test]
fn listsnapshots_has_nodetools_layout() {
    assert_eq!(snapshots::snapshots_text(&[], false), "Snapshot Details: \nThere are no snapshots\n");
    let entry = SnapshotEntry {
        name: "opsnap".to_owned(),
        keyspace: "system".to_owned(),
        table: "local".to_owned(),
        true_bytes: 131,
        disk_bytes: 6_640,
        created_at: "2026-11-21T09:45:40.168Z".to_owned(),
        expires_at: None,
    };
    let expected = "\
Snapshot Details:\x20
Snapshot name Keyspace name Column family name True size Size on disk Creation time            Expiration time
opsnap        system        local              131 bytes 6.48 KiB     2026-11-21T09:45:40.168Z                \n
Total TrueDiskSpaceUsed: 131 bytes

";
    assert_eq!(snapshots::snapshots_text(std::slice::from_ref(&entry), false), expected);
    let odd = SnapshotEntry {
        name: "a\n\u{202e}\u{1b}[2J".to_owned(),
        expires_at: Some("2026-11-21T10:45:40.168Z".to_owned()),
        ..entry
    };
    let told = snapshots::snapshots_text(&[odd], true);
    assert!(told.contains("a\\u{a}\\u{202e}\\u{1b}[2J "), "{told}");
    assert!(told.contains("2026-11-21T09:45:40.168Z 2026-11-21T10:45:40.168Z false    \n"), "{told}");
}

#[test]
fn snapshots_are_asked_for_in_nodetools_ways() {
    let args = verb(&["snapshot", "-t", "s", "-kt", "ks.a,ks.b", "-sf"]).unwrap();
    let Verb::Snapshots(SnapshotVerb::Snapshot { tag, table, kt_list, skip_flush, keyspaces, .. }) =
        &args.verb
    else {
        panic!()
    };
    let body = snapshot_of(tag, table, kt_list, *skip_flush, keyspaces).unwrap();
    assert!(body.skip_flush && body.keyspaces.is_empty());
    assert_eq!(body.tables.iter().map(|t| t.table.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(snapshots::snapshot_text(&body).starts_with(
        "Requested creating snapshot(s) for [ks.a,ks.b] with snapshot name [s] and options {skipFlush=true}\n"
    ));

    let args = verb(&["snapshot", "-t", "s", "-cf", "a", "ks"]).unwrap();
    let Verb::Snapshots(SnapshotVerb::Snapshot { tag, table, kt_list, skip_flush, keyspaces, .. }) =
        &args.verb
    else {
        panic!()
    };
    let body = snapshot_of(tag, table, kt_list, *skip_flush, keyspaces).unwrap();
    assert_eq!(body.tables, [QualifiedTable { keyspace: "ks".to_owned(), table: "a".to_owned() }]);
    assert!(snapshot_of(tag, table, kt_list, false, &[]).is_err());
    assert!(snapshot_of(tag, &None, &["nodot".to_owned()], false, &[]).is_err());
}

#[test]
fn senseless_commands_end_with_1_and_silent_nodes_with_2() {
    let nobody = ["--admin", "127.0.0.1:1"];
    let with = |words: &[&str]| run(&verb(&[&nobody[..], words].concat()).unwrap());
    assert_eq!(with(&["clearsnapshot"]), 1);
    assert_eq!(with(&["clearsnapshot", "--all", "-t", "x"]), 1);
    assert_eq!(with(&["stop", "NOSUCH"]), 1);
    assert_eq!(with(&["stop", "verify"]), 2);
    assert_eq!(with(&["help", "nosuch"]), 1);
    assert_eq!(with(&["status"]), 2);
    assert_eq!(with(&["flush"]), 2);
    assert_eq!(with(&["invalidatekeycache"]), 2);
    assert_eq!(with(&["invalidatepagecache"]), 2);
    assert_eq!(with(&["invalidaterowcache"]), 2);
    assert_eq!(with(&["invalidatepermissionscache", "bob", "--all-roles"]), 2);
    assert_eq!(with(&["invalidaterolescache", "bob"]), 2);
    assert_eq!(with(&["invalidatenetworkpermissionscache"]), 2);
    assert_eq!(with(&["invalidatecidrpermissionscache", "bob"]), 2);
    assert_eq!(with(&["invalidatecredentialscache", "bob"]), 2);
    assert_eq!(with(&["invalidatejmxpermissionscache"]), 0);
    assert_eq!(with(&["updatecidrgroup", "home"]), 1);
    assert_eq!(with(&["updatecidrgroup", "home", "10.0.0.0/8"]), 2);
    assert_eq!(with(&["dropcidrgroup"]), 1);
    assert_eq!(with(&["listcidrgroups"]), 2);
    assert_eq!(with(&["setcachecapacity", "1", "2", "3"]), 2);
    assert_eq!(with(&["setcachecapacity", "1"]), 1);
    assert_eq!(with(&["setcachecapacity", "1", "x", "3"]), 1);
    assert_eq!(with(&["import", "ks", "t"]), 1);
    assert_eq!(with(&["refresh", "ks"]), 1);
    assert_eq!(with(&["repair", "-pr", "ks"]), 2);
    assert_eq!(with(&["cleanup"]), 2);
    assert_eq!(with(&["setcompactionthroughput"]), 1);
    assert_eq!(with(&["setcompactionthroughput", "x"]), 1);
    assert_eq!(with(&["setcompactionthroughput", "16"]), 2);
}

#[test]
fn an_unknown_verb_is_refused_and_none_is_suggested() {
    for words in [&["brain"][..], &["repairs", "ks"], &["clearsnapshots", "--all"], &["stp"]] {
        let args = verb(words).unwrap();
        let failure = execute(&args).unwrap_err();
        assert_eq!(failure.to_string(), format!("Found unexpected parameters: [{}]", words.join(", ")));
        assert_eq!(run(&args), 1);
    }
    let sjk = execute(&verb(&["sjk", "ttop", "-n", "3"]).unwrap()).unwrap_err();
    assert_eq!(sjk.to_string(), "sjk examines a Java process, and this node is none");
}

#[test]
fn names_are_found_between_flags_and_their_values() {
    let found = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        alone::names(&words).cloned().collect::<Vec<_>>()
    };
    assert_eq!(found(&["-pr", "--full", "ks", "t"]), ["ks", "t"]);
    assert_eq!(found(&["-st", "1", "-et", "2", "ks"]), ["ks"]);
    assert_eq!(found(&["-dc", "datacenter1", "-j", "4"]), Vec::<String>::new());
}

#[test]
fn help_lists_every_verb() {
    let text = help::help(None).unwrap();
    for verb in [
        "statusbinary",
        "enablebinary",
        "disablebinary",
        "status",
        "info",
        "flush",
        "compact",
        "snapshot",
        "tablestats",
        "compactionstats",
        "drain",
        "repair",
        "cleanup",
    ] {
        assert!(text.contains(verb), "{verb}");
    }
    assert!(help::help(Some("flush")).unwrap().contains("Flush one or more tables"));
}

#[test]
fn tablehistograms_has_nodetools_layout_and_what_reads_cost_behind_it() {
    let sizes = Percentiles {
        count: 9,
        p50: 42.0,
        p75: 50.0,
        p99: 1_131_752.0,
        max: 1_131_752.0,
        ..Percentiles::default()
    };
    let table = TableHistograms {
        keyspace: "ks".to_owned(),
        table: "t".to_owned(),
        read_micros: Percentiles { p50: 51.012, max: 263.21, ..Percentiles::default() },
        sstables_per_read: Percentiles { p50: 1.0, max: 2.0, ..Percentiles::default() },
        partition_bytes: Some(sizes),
        partition_cells: Some(Percentiles { p50: 3.0, ..Percentiles::default() }),
        ios_per_read: Percentiles { p50: 4.0, max: 73.0, ..Percentiles::default() },
        read_amplification: Percentiles { p50: 1.11, max: 207.56, ..Percentiles::default() },
        tombstones_per_read: Percentiles { p75: 2.0, max: 20.0, ..Percentiles::default() },
        ..TableHistograms::default()
    };
    let cassandras = [
        "Percentile      Read Latency     Write Latency          SSTables    Partition Size        Cell Count",
        "                    (micros)          (micros)                             (bytes)                  ",
        "50%                    51.01              0.00              1.00                42                 3",
        "75%                     0.00              0.00              0.00                50                 0",
        "95%                     0.00              0.00              0.00                 0                 0",
        "98%                     0.00              0.00              0.00                 0                 0",
        "99%                     0.00              0.00              0.00           1131752                 0",
        "Min                     0.00              0.00              0.00                 0                 0",
        "Max                   263.21              0.00              2.00           1131752                 0",
    ];
    let ours = [
        "         Disk I/Os     Amplification        Tombstones",
        "                     (read/answered)                  ",
        "              4.00              1.11              0.00",
        "              0.00              0.00              2.00",
        "              0.00              0.00              0.00",
        "              0.00              0.00              0.00",
        "              0.00              0.00              0.00",
        "              0.00              0.00              0.00",
        "             73.00            207.56             20.00",
    ];
    let lines: Vec<String> =
        cassandras.iter().zip(ours).map(|(first, rest)| format!("{first}{rest}\n")).collect();
    let expected = format!("ks/t histograms\n{}\n", lines.concat());
    assert_eq!(tables::histograms_text(std::slice::from_ref(&table)), expected);
    let without = tables::histograms_text(&[TableHistograms { partition_bytes: None, ..table }]);
    assert!(without.starts_with("No SSTables exists, unable to calculate 'Partition Size'"), "{without}");
    assert!(
        without
            .contains("50%                    51.01              0.00              1.00               NaN"),
        "{without}"
    );
}

#[test]
fn tablehistograms_takes_a_table_in_two_spellings() {
    let one = "tablehistograms requires keyspace and table name arguments";
    let more = "tablehistograms requires <keyspace> <table> or <keyspace.table> format argument.";
    for (words, said) in [
        (&["tablehistograms", "a"][..], one),
        (&["tablehistograms", "a.b.c"], one),
        (&["tablehistograms", "a", "b", "c"], more),
        (&["tablehistograms", "a", ""], "Unknown table a."),
    ] {
        let refused = execute(&verb(words).unwrap()).unwrap_err();
        assert!(matches!(&refused, Failure::Usage(text) if text == said), "{words:?}: {refused:?}");
    }
}
