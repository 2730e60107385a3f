//! Replays every stored input.

use std::fs;
use std::panic;
use std::path::Path;

use fuzz::TARGETS;

#[test]
fn no_stored_input_causes_a_panic() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut failed = Vec::new();
    for target in TARGETS {
        let mut inputs: Vec<_> =
            fs::read_dir(corpora.join(target.name)).unwrap().map(|entry| entry.unwrap().path()).collect();
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
