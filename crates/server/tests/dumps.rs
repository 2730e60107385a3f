//! `ilion sstable dump --json` beside what sstabledump printed of files that real Cassandras wrote.

#![allow(clippy::disallowed_methods, reason = "the tests run the binary on files of the tree")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const DUMPED: &str = "-dump.json";

/// Every file that sstabledump was asked about, by the beginning of its SSTable's names.
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
