//! `default_compaction` and `memtable`.

use super::*;

#[test]
fn new_tables_are_what_the_file_says() {
    let config = load(
        "default_compaction:\n  class_name: LeveledCompactionStrategy\n  parameters:\n    sstable_size_in_mb: 100\n    \
         enabled: true\nmemtable:\n  configurations:\n    trie: {class_name: TrieMemtable}\n    default: {inherits: trie}\n",
    )
    .unwrap();
    assert_eq!(config.warnings, [""; 0]);
    let compaction = config.tables.compaction.as_ref().unwrap();
    assert_eq!(compaction.class, "org.apache.cassandra.db.compaction.LeveledCompactionStrategy");
    assert_eq!(compaction.options["sstable_size_in_mb"], "100");
    assert_eq!(compaction.options["max_threshold"], "32");
    assert_eq!(config.tables.memtables, Some(vec!["trie".to_owned(), "default".to_owned()]));

    for yaml in ["", "default_compaction:\nmemtable:\n", "memtable:\n  configurations:\n"] {
        assert_eq!(load(yaml).unwrap().tables, cql::ddl::TableDefaults::default(), "{yaml}");
    }
    let named = load("default_compaction: TimeWindowCompactionStrategy").unwrap();
    assert!(named.tables.compaction.unwrap().class.ends_with(".TimeWindowCompactionStrategy"));
}

#[test]
fn tables_that_no_statement_could_make_end_the_start() {
    for (yaml, words) in [
        (
            "default_compaction: {class_name: Nope}",
            "default_compaction: Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.Nope'",
        ),
        ("default_compaction: {parameters: {enabled: true}}", "it has no class_name"),
        (
            "default_compaction: {class_name: LeveledCompactionStrategy, parameters: {nonsense: 1}}",
            "default_compaction: Properties specified [nonsense] are not understood by LeveledCompactionStrategy",
        ),
        (
            "default_compaction: {class_name: LeveledCompactionStrategy, parameters: 7}",
            "parameters must be a map",
        ),
        ("memtable: {configurations: [trie]}", "configurations must be a map"),
        (
            "memtable: {configurations: {a: {inherits: b}}}",
            "Configuration entry a inherits non-existing entry b",
        ),
        ("memtable: {configurations: {a: {class_name: [b]}}}", "it must be a single value"),
    ] {
        let error = load(yaml).expect_err(yaml).to_string();
        assert!(error.contains(words), "{error}");
    }
}
