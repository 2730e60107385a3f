//! Files of real Cassandras for the tests: `conformance/fixtures/generate.py`, from where it runs and with
//! the Python that has what it needs.
//!
//! The files are committed, so this runs only when a table is added to `conformance/fixtures/tables.py` or a
//! release to the generator's sets. It needs what `make setup` fetches, a JDK 17 and Maven; each set takes a
//! minute.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the named sets anew, or all of them when none is named.
pub fn run(root: &Path, sets: &[String]) -> Result<(), String> {
    let script = root.join("conformance/fixtures/generate.py");
    let status =
        Command::new(python(root)).arg(&script).args(sets).current_dir(root).status().map_err(|error| {
            format!("Python did not start: {error}; `make setup` makes one for the tests")
        })?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{} ended with {status}; it needs what `make setup` fetches", script.display())),
    }
}

/// The interpreter of the tests' virtual environment, or else the one on the path.
fn python(root: &Path) -> PathBuf {
    let ours = root.join(".build/venv/bin/python");
    if ours.exists() { ours } else { PathBuf::from("python3") }
}
