//! Verbs about compactions, as Cassandra 5.0.5 answered them.

use super::super::compactions::history_text;
use super::*;
use crate::api::CompactionRecord;
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
