//! `tablestats` as Cassandra 5.0.5 printed it of the same numbers.

use super::super::tablestats::{Shown, Style, choose, sorted_text, tables_text};
use super::*;
use crate::api::TableReport;

fn flushed() -> Shown {
    let report = TableReport {
        keyspace: "b_ks".to_owned(),
        table: "t".to_owned(),
        writes: 200_000,
        write_millis: Some(0.016568545),
        sstables: 1,
        sstable_bytes_max: 2_665_423,
        live_bytes: 2_665_423,
        compression_ratio: Some(0.480513261273363),
        partitions: 9_948,
        memtable_switches: 1,
        unrepaired_bytes: 5_270_610,
        bloom_bytes: 12_504,
        index_summary_bytes: 1_264,
        chunk_offsets_bytes: 2_576,
        partition_min_bytes: 447,
        partition_max_bytes: 535,
        partition_mean_bytes: 535,
        ..TableReport::default()
    };
    Shown { report, snapshot_bytes: 0 }
}

const LINES: &str = "
		SSTable count: 1
		Old SSTable count: 0
		Max SSTable size: 2.542MiB
		Space used (live): 2665423
		Space used (total): 2665423
		Space used by snapshots (total): 0
		Off heap memory used (total): 16344
		SSTable Compression Ratio: 0.48051
		Number of partitions (estimate): 9948
		Memtable cell count: 0
		Memtable data size: 0
		Memtable off heap memory used: 0
		Memtable switch count: 1
		Speculative retries: 0
		Local read count: 0
		Local read latency: NaN ms
		Local write count: 200000
		Local write latency: 0.017 ms
		Local read/write ratio: 0.00000
		Pending flushes: 0
		Percent repaired: 0.0
		Bytes repaired: 0B
		Bytes unrepaired: 5.026MiB
		Bytes pending repair: 0B
		Bloom filter false positives: 0
		Bloom filter false ratio: 0.00000
		Bloom filter space used: 12504
		Bloom filter off heap memory used: 12504
		Index summary off heap memory used: 1264
		Compression metadata off heap memory used: 2576
		Compacted partition minimum bytes: 447
		Compacted partition maximum bytes: 535
		Compacted partition mean bytes: 535
		Average live cells per slice (last five minutes): NaN
		Maximum live cells per slice (last five minutes): 0
		Average tombstones per slice (last five minutes): NaN
		Maximum tombstones per slice (last five minutes): 0
		Droppable tombstone ratio: 0.00000

----------------
";

#[test]
fn lines_are_cassandras_in_its_order() {
    let head = "\
Total number of tables: 1
----------------
Keyspace: b_ks
	Read Count: 0
	Read Latency: NaN ms
	Write Count: 200000
	Write Latency: 0.016568545 ms
	Pending Flushes: 0
		Table: t";
    assert_eq!(tables_text(&[flushed()], Style::default()), format!("{head}{LINES}"));
    let located = tables_text(&[flushed()], Style { tells_location: true, human: true });
    assert!(located.contains("ratio: 0.00000\n\t\tSSTables in correct location: true\n\n"), "{located}");
    assert!(located.contains("\t\tSpace used (live): 2.54 MiB\n"), "{located}");
}

#[test]
fn a_sorted_list_has_whole_names_and_one_tab() {
    let text = sorted_text(&[flushed()], 4, Some((1, "reads")), Style::default());
    let head = "Total number of tables: 4 (showing top 1 by reads)\n----------------\n\tTable: b_ks.t";
    assert_eq!(text, format!("{head}{}", LINES.replace("\t\t", "\t")));
    let all = sorted_text(&[flushed()], 1, None, Style::default());
    assert!(all.starts_with("Total number of tables: 1\n"), "{all}");
}

#[test]
fn levels_and_time_windows_have_lines_of_their_own() {
    let mut table = flushed();
    (table.report.sstables, table.report.sstable_bytes_max) = (1, 5_481);
    table.report.levels = vec![5, 0, 101, 0, 0, 0, 0, 0, 0];
    table.report.level_bytes = vec![203, 0, 0, 0, 0, 0, 0, 0, 0];
    table.report.time_window = Some("2 HOURS".to_owned());
    table.report.sstable_duration_millis_max = 61_000;
    let text = tables_text(&[table], Style::default());
    let expected = "		Max SSTable size: 5.353KiB
		SSTables Time Window: 2 HOURS, max duration: 1 minute 1 second
		SSTables in each level: [5/4, 0, 101/100, 0, 0, 0, 0, 0, 0]
		SSTable bytes in each level: [203, 0, 0, 0, 0, 0, 0, 0, 0]
		Space used (live): ";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn names_choose_tables_and_unknown_ones_are_refused_in_cassandras_words() {
    let table = |keyspace: &str, table: &str| TableReport {
        keyspace: keyspace.to_owned(),
        table: table.to_owned(),
        ..TableReport::default()
    };
    let all = || vec![table("a", "t"), table("a", "u"), table("b", "t")];
    let chosen = |names: &[&str], ignore| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let found = choose(all(), &names, ignore).map_err(|error| error.to_string())?;
        let name = |t: &TableReport| format!("{}.{}", t.keyspace, t.table);
        Ok::<_, String>(found.iter().map(name).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(chosen(&[], false).unwrap(), "a.t a.u b.t");
    assert_eq!(chosen(&[], true).unwrap(), "a.t a.u b.t");
    assert_eq!(chosen(&["a.u", "b"], false).unwrap(), "a.u b.t");
    assert_eq!(chosen(&["a.u", "b"], true).unwrap(), "a.t");
    assert_eq!(chosen(&["nope"], true).unwrap_err(), "Unknown keyspace: nope");
    assert_eq!(chosen(&["a.nope"], false).unwrap_err(), "Unknown tables: [nope] in keyspace: a");
    assert_eq!(chosen(&["a.t.x"], false).unwrap_err(), "Unknown tables: [t.x] in keyspace: a");
}

#[test]
fn flags_are_nodetools() {
    for words in [
        &["tablestats", "-F", "json", "-H", "-i", "ks.t"][..],
        &["cfstats", "-s", "reads", "-t", "3", "-l", "ks"],
        &["tablestats", "--sort", "reads", "--top", "-1"],
    ] {
        assert!(verb(words).is_ok(), "{words:?}");
    }
}
