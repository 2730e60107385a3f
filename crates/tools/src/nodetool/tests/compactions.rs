//! Verbs about compactions, as Cassandra 5.0.5 answered them.

use super::super::compactions::{CompactionVerb, adoption_text, auto_text, history_text};
use super::super::rewriting::findings_text;
use super::*;
use crate::api::{
    AutocompactionStatus, Compact, CompactionRecord, Selection, SstableFinding, TableAdoption, TokenRange,
};
use crate::structured::Format;

fn record(id: &str, table: &str, millis: i64, merged: &[(i32, i64)]) -> CompactionRecord {
    CompactionRecord {
        id: id.to_owned(),
        keyspace: "system_schema".to_owned(),
        table: table.to_owned(),
        compacted_at_millis: millis,
        bytes_in: 3_440,
        bytes_out: 351,
        rows_merged: merged.iter().copied().collect(),
        properties: [("compaction_type".to_owned(), "Compaction".to_owned())].into(),
    }
}

#[test]
fn compactionhistory_has_nodetools_layout() {
    let history = [
        record("cf96b2c0-e89f-11f1-863e-97aab3e79cfb", "column_masks", 1_795_590_850_568, &[(1, 3), (2, 1)]),
        record("cf877080-e89f-11f1-863e-97aab3e79cfb", "keyspaces", 1_795_590_850_481, &[(1, 6)]),
    ];
    let expected = "\
Compaction History:\x20
id                                   keyspace_name columnfamily_name compacted_at            bytes_in bytes_out rows_merged compaction_properties\x20\x20\x20\x20\x20\x20\x20
cf96b2c0-e89f-11f1-863e-97aab3e79cfb system_schema column_masks      2026-11-25T07:14:10.568 3440     351       {1:3, 2:1}  {compaction_type:Compaction}
cf877080-e89f-11f1-863e-97aab3e79cfb system_schema keyspaces         2026-11-25T07:14:10.481 3440     351       {1:6}       {compaction_type:Compaction}
";
    assert_eq!(history_text(&history, None), expected);
    let yaml = history_text(&history, Some(Format::Yaml));
    assert!(yaml.starts_with("CompactionHistory:\n- "), "{yaml}");
    assert!(yaml.contains("  rows_merged: '{1:3, 2:1}'\n"), "{yaml}");
    assert!(yaml.contains("compaction_properties: '{compaction_type:Compaction}'\n"), "{yaml}");
    assert_eq!(history_text(&[], None), "There is no compaction history\n");
    assert!(verb(&["compactionhistory", "-H"]).is_err());
    assert!(verb(&["compactionhistory", "x"]).is_err());
}

#[test]
fn statusautocompaction_is_of_all_or_of_each() {
    let status = |table: &str, running| AutocompactionStatus {
        keyspace: "b_ks".to_owned(),
        table: table.to_owned(),
        running,
    };
    assert_eq!(auto_text(&[status("t", true), status("e", true)], false), "running\n");
    assert_eq!(auto_text(&[status("t", false), status("e", true)], false), "partially running\n");
    assert_eq!(auto_text(&[status("t", false)], false), "not running\n");
    let expected = "\
Keyspace Table Status\x20\x20\x20\x20\x20
b_ks     t     not running
b_ks     e     running\x20\x20\x20\x20
";
    assert_eq!(auto_text(&[status("t", false), status("e", true)], true), expected);
}

fn asked(words: &[&str]) -> Result<Compact, String> {
    let args = verb(words).map_err(|error| error.to_string())?;
    let Verb::Compactions(CompactionVerb::Compact(args)) = &args.verb else { panic!() };
    args.question().map_err(|error| error.to_string())
}

#[test]
fn compact_asks_for_what_its_flags_mean() {
    let selection = Selection { keyspace: Some("ks".to_owned()), tables: vec!["t".to_owned()] };
    let plain = Compact { selection, ..Compact::default() };
    assert_eq!(asked(&["compact", "ks", "t"]).unwrap(), plain);
    assert_eq!(asked(&["compact", "-s", "ks", "t"]).unwrap(), Compact { split: true, ..plain.clone() });
    let range = Some(TokenRange { start: -5, end: 9 });
    assert_eq!(
        asked(&["compact", "-st", "-5", "-et", "9", "ks", "t"]).unwrap(),
        Compact { range, ..plain.clone() }
    );
    let partition = Some("5".to_owned());
    let words = ["compact", "--partition", "5", "-st", "4", "-et", "6", "ks", "t"];
    assert_eq!(asked(&words).unwrap(), Compact { partition, ..plain });
    let file = "/data/ks/t-1/nb-1-big-Data.db";
    assert_eq!(asked(&["compact", "--user-defined", file]).unwrap().files, [PathBuf::from(file)]);
}

#[test]
fn compact_refuses_in_cassandras_words() {
    let split = "Invalid option combination: Can not use split-output here";
    for words in [
        &["compact", "--partition", "5", "-s", "ks", "t"][..],
        &["compact", "-s", "-st", "1", "-et", "4", "ks", "t"],
        &["compact", "--user-defined", "-s", "nope-1-big-Data.db"],
    ] {
        assert_eq!(asked(words).unwrap_err(), split);
    }
    let token =
        "Invalid token for Murmur3Partitioner. Got x but expected a long value (unsigned 8 bytes integer).";
    assert_eq!(asked(&["compact", "-st", "x", "-et", "100", "ks", "t"]).unwrap_err(), token);
    assert_eq!(asked(&["compact", "-st", "5", "ks", "t"]).unwrap_err(), token.replace("Got x", "Got "));
    let file = "Invalid sstable file main: the name doesn't look like a supported sstable file name";
    assert_eq!(asked(&["compact", "--user-defined", "main"]).unwrap_err(), file);
}

#[test]
fn senseless_settings_are_refused_before_a_node_is_asked() {
    let silent = |words: &[&str]| {
        let words = ["--admin", "127.0.0.1:1"].iter().chain(words).copied().collect::<Vec<_>>();
        execute(&verb(&words).unwrap()).unwrap_err().to_string()
    };
    for (words, refusal) in [
        (&["getcompactionthreshold", "ks"][..], "getcompactionthreshold requires ks and cf args"),
        (&["getcompactionthreshold", "ks", "t", "e"], "getcompactionthreshold requires ks and cf args"),
        (
            &["setcompactionthreshold"],
            "Required parameters are missing: <keyspace> <table> <minthreshold> <maxthreshold>",
        ),
        (
            &["setcompactionthreshold", "ks", "t"],
            "setcompactionthreshold requires ks, cf, min, and max threshold args.",
        ),
        (&["setcompactionthreshold", "ks", "t", "x", "5"], "For input string: \"x\""),
        (&["setcompactionthreshold", "ks", "t", "50", "40"], "Min threshold cannot be greater than max."),
        (&["setcompactionthreshold", "ks", "t", "1", "40"], "Min threshold must be at least 2"),
        (&["setconcurrentcompactors", "0"], "concurrent_compactors should be great than 0."),
        (&["setconcurrentcompactors"], "Required parameters are missing: concurrent_compactors"),
        (&["setconcurrentcompactors", "x"], "concurrent_compactors: can not convert \"x\" to a Integer"),
        (&["setconcurrentcompactors", "-1"], "concurrent_compactors should be great than 0."),
        (
            &["verify", "ks", "t"],
            "verify is disabled unless a [-f|--force] override flag is provided. See CASSANDRA-9947 and CASSANDRA-17017 \
             for details.\n",
        ),
        (&["garbagecollect", "-g", "row", "ks"], "row is no granularity: ROW or CELL"),
        (&["forcecompact", "ks", "t"], "forcecompact requires keyspace, table and keys args"),
        (&["verify", "-t", "-f", "ks", "t"], "Token verification requires --extended-verify\n"),
    ] {
        assert_eq!(silent(words), refusal);
    }
    for words in [
        &["scrub", "-ns", "-s", "-n", "-r", "ks", "t"][..],
        &["garbagecollect", "-g", "CELL", "-j", "2", "ks", "t"],
        &["forcecompact", "ks", "t", "-5", "a:b"],
        &["upgradesstables", "-a", "-j", "1", "-t", "1", "ks"],
    ] {
        assert!(verb(words).is_ok(), "{words:?}");
    }
}

#[test]
fn what_is_damaged_is_told_line_by_line() {
    let finding = SstableFinding {
        keyspace: "ks".to_owned(),
        table: "t".to_owned(),
        sstable: "nb-1-big".to_owned(),
        finding: "Data.db: expected a, found b".to_owned(),
    };
    let expected = "SSTables are damaged\nks.t nb-1-big: Data.db: expected a, found b";
    assert_eq!(findings_text(std::slice::from_ref(&finding), ""), expected);
    assert_eq!(findings_text(&[finding], "rest\n"), format!("{expected}\nrest"));
}

#[test]
fn adoption_is_printed_by_table() {
    assert_eq!(adoption_text(&[], false), "No SSTable of Cassandra has large partitions\n");
    let table = TableAdoption {
        keyspace: "ks".to_owned(),
        table: "events".to_owned(),
        described: 2,
        waiting: 1,
        partitions: 12,
        bytes: 4096,
    };
    assert_eq!(
        adoption_text(&[table], true),
        "keyspace_name table_name described waiting partitions bytes\nks            events     2         1       12         4 KiB\n"
    );
}
