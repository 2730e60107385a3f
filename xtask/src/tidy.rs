//! The rules of the house that no compiler knows.
//!
//! | check | holds |
//! |---|---|
//! | [`crates`] | a crate uses only what stands in its row of ARCHITECTURE.md; Arrow stays in the crates that hand out bulk data; every crate says what it is for; dependencies carry licences that go with Apache-2.0 |
//! | [`sources`] | Rust files open with their contract, keep to sizes and widths, and carry no notes to self; decoders deny what panics |
//! | [`fuzz_targets`] | a fuzz target has its corpus, and a corpus its target |
//! | [`links`] | links and paths in documents lead somewhere |
//! | [`tables`] | cells of tables in documents hold a phrase |
//! | [`commits`] | subjects of commits are short |
//!
//! A finding names the file, the line and what to do instead. Files are taken from the working tree as it is,
//! whether committed or not, ignored ones excepted.

mod commits;
mod crates;
mod fuzz_targets;
mod licences;
mod links;
mod sources;
mod tables;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something that must change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Path from the root.
    file: String,
    /// Counted from 1.
    line: usize,
    /// What is wrong, and what to do instead.
    message: String,
}

impl Finding {
    fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// A text file of the project.
struct Source {
    /// Path from the root.
    path: String,
    text: String,
}

/// Runs every check and prints what each found; warnings do not fail.
pub fn run(root: &Path) -> Result<(), String> {
    let files = sources::files(root)?;
    let metadata = metadata(root)?;
    let mut findings = Vec::new();
    findings.extend(crates::check(root, &metadata, &files)?);
    findings.extend(sources::check(&files));
    findings.extend(sources::weights(root)?);
    findings.extend(fuzz_targets::check(root)?);
    findings.extend(links::check(root, &files));
    findings.extend(tables::check(&files));
    findings.extend(commits::check(root));
    findings.sort();

    for warning in sources::warnings(&files) {
        eprintln!("warning: {warning}");
    }
    for finding in &findings {
        eprintln!("error: {finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("tidy: {count} to mend")),
    }
}

/// What cargo knows about the workspace and everything it depends on.
fn metadata(root: &Path) -> Result<serde_json::Value, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata is no JSON: {error}"))
}

/// The line of the first occurrence of `needle`, 1 if there is none.
fn line_of(text: &str, needle: &str) -> usize {
    text.lines().position(|line| line.contains(needle)).map_or(1, |index| index + 1)
}

/// A path below the root as text.
fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).map_or_else(|_| path.to_owned(), PathBuf::from).to_string_lossy().into_owned()
}
