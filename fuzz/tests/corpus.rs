//! Replays every stored input, and checks that targets, files and corpora belong together.

use std::collections::BTreeSet;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};

use fuzz::TARGETS;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn names(dir: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(here(dir)).unwrap();
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn no_stored_input_causes_a_panic() {
    let mut failed = Vec::new();
    for target in TARGETS {
        let mut inputs: Vec<_> = fs::read_dir(here("corpus").join(target.name))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        inputs.sort();
        for input in inputs {
            let bytes = fs::read(&input).unwrap();
            if panic::catch_unwind(|| (target.run)(&bytes)).is_err() {
                failed.push(input);
            }
        }
    }
    assert!(failed.is_empty(), "these inputs cause a panic: {failed:#?}");
}

#[test]
fn every_target_has_its_file_and_its_corpus() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names("fuzz_targets"), listed, "fuzz_targets/ and TARGETS");
    assert_eq!(names("corpus"), listed, "corpus/ and TARGETS");
    let manifest = fs::read_to_string(here("Cargo.toml")).unwrap();
    for name in listed {
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "no [[bin]] for {name}");
        assert!(fs::read_dir(here("corpus").join(&name)).unwrap().count() > 0, "corpus/{name} is empty");
    }
}
