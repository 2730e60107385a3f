//! `ilion sstable dump --json` beside what sstabledump printed of files that real Cassandras wrote.

#![allow(clippy::disallowed_methods, reason = "the tests run the binary on files of the tree")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const DUMPED: &str = "-dump.json";

/// What sstabledump printed of a file that it gave up in the middle of (a clustering with a null, values
/// without a byte), and of the same file in its internal form (`-d`), which it prints whole.
const BEGUN: &str = "-dump.part";
const INTERNAL: &str = "-dump.txt";

/// Files of the fixtures whose names end so.
fn recorded(ending: &str) -> Vec<PathBuf> {
    let sets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures");
    let below = |folder: &Path| -> Vec<PathBuf> {
        if !folder.is_dir() {
            return Vec::new();
        }
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let tables = below(&sets).into_iter().flat_map(|set| below(&set));
    let mut files: Vec<PathBuf> = tables.flat_map(|table| below(&table)).collect();
    files.retain(|file| file.to_str().unwrap().ends_with(ending));
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

/// What the node's tool prints.
fn dump(form: &str, data: &str) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_ilion")).args(["sstable", "dump", form, data]).output().unwrap();
    assert!(output.status.success(), "{data}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_file_was_dumped() {
    let is_there = |prefix: &str, ending| Path::new(&format!("{prefix}{ending}")).is_file();
    let is_dumped =
        |prefix: &str| is_there(prefix, DUMPED) || is_there(prefix, BEGUN) && is_there(prefix, INTERNAL);
    for file in recorded("-Data.db") {
        let prefix = file.to_str().unwrap().strip_suffix("-Data.db").unwrap();
        assert!(is_dumped(prefix), "nobody has dumped {prefix}");
    }
}

#[test]
fn dumps_are_those_of_sstabledump() {
    let files = recorded(DUMPED);
    assert!(files.len() > 100, "{}", files.len());
    for file in files {
        let data = file.to_str().unwrap().replace(DUMPED, "-Data.db");
        let mut ours: Value = serde_json::from_str(&dump("--json", &data)).unwrap();
        let mut theirs: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        if data.contains("/counters/") {
            without_counters(&mut ours);
            without_counters(&mut theirs);
        }
        assert!(ours == theirs, "{data}: the dumps differ");
    }
}

#[test]
fn of_what_sstabledump_gives_up_the_rest_is_its_internal_form() {
    let files = recorded(BEGUN);
    assert!(files.len() > 10, "{}", files.len());
    for file in files {
        let of = |ending| file.to_str().unwrap().replace(BEGUN, ending);
        let data = of("-Data.db");
        let begun = std::fs::read_to_string(&file).unwrap();
        let ours = dump("--json", &data);
        assert!(ours.starts_with(begun.trim_end()), "{data}: the dumps differ");
        serde_json::from_str::<Value>(&ours).unwrap();
        assert_eq!(dump("--internal", &data), std::fs::read_to_string(of(INTERNAL)).unwrap(), "{data}");
    }
}
