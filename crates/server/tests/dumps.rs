//! `ilion sstable dump --json` beside what sstabledump printed of files that real Cassandras wrote.

#![allow(clippy::disallowed_methods, reason = "the tests run the binary on files of the tree")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const DUMPED: &str = "-dump.json";

/// Tables whose files sstabledump gives up in the middle of: a clustering with a null, values without a byte.
const NOT_DUMPED: [&str; 2] = ["compact_dense", "kinds_empty"];

/// What sstabledump printed of every file.
fn recorded() -> Vec<PathBuf> {
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures");
    let below = |folder: &Path| -> Vec<PathBuf> {
        if !folder.is_dir() {
            return Vec::new();
        }
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let tables = below(&sets).into_iter().flat_map(|set| below(&set));
    let mut files: Vec<PathBuf> = tables.flat_map(|table| below(&table)).collect();
    let lacks_dump = |file: &&PathBuf| {
        let is_dumped = !NOT_DUMPED.iter().any(|table| file.parent().unwrap().ends_with(table));
        let dump = file.to_str().unwrap().strip_suffix("-Data.db").map(|prefix| format!("{prefix}{DUMPED}"));
        is_dumped && dump.is_some_and(|dump| !Path::new(&dump).is_file())
    };
    let without: Vec<_> = files.iter().filter(lacks_dump).collect();
    assert!(without.is_empty(), "nobody has dumped {without:?}");
    files.retain(|file| file.to_str().unwrap().ends_with(DUMPED));
    files.sort();
    files
}

/// Of a counter sstabledump prints the first bytes of its shards as a number, the dump its value.
fn without_counters(dump: &mut Value) {
    let partitions = dump.as_array_mut().unwrap().iter_mut();
    for row in partitions.flat_map(|partition| partition["rows"].as_array_mut().unwrap()) {
        for cell in row.get_mut("cells").and_then(Value::as_array_mut).into_iter().flatten() {
            cell.as_object_mut().unwrap().remove("value");
        }
    }
}

#[test]
fn dumps_are_those_of_sstabledump() {
    let files = recorded();
    assert!(files.len() > 100, "{}", files.len());
    for file in files {
        let data = file.to_str().unwrap().replace(DUMPED, "-Data.db");
        let output = Command::new(env!("CARGO_BIN_EXE_ilion"))
            .args(["sstable", "dump", "--json", &data])
            .output()
            .unwrap();
        assert!(output.status.success(), "{data}: {}", String::from_utf8_lossy(&output.stderr));
        let mut ours: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut theirs: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        if data.contains("/counters/") {
            without_counters(&mut ours);
            without_counters(&mut theirs);
        }
        assert!(ours == theirs, "{data}: the dumps differ");
    }
}
