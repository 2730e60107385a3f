//! What every source file owes its reader.
//!
//! 1. A Rust file opens with its contract: a `//!` comment on the first line. A `tests.rs` beside its subject
//!    has the subject's.
//! 2. A Rust file has at most [`LINES_MAX`] lines; past [`LINES_ROOM`] it is named in a warning.
//! 3. No source carries a note to self. What is not done is an issue, or a line in docs/COMPAT.md.
//! 4. The crates that decode bytes from outside deny what panics, in the first lines of their `lib.rs`.

use std::path::Path;
use std::process::Command;

use super::{Finding, Source};

/// A full room.
const LINES_ROOM: usize = 600;

/// Too much for one room.
const LINES_MAX: usize = 1000;

/// Crates that decode bytes from outside.
const DECODERS: &[&str] =
    &["crates/protocol/src/lib.rs", "crates/cql/src/lib.rs", "crates/sstable/src/lib.rs"];

/// What their non-test code must deny.
const DENIED: &[&str] =
    &["clippy::unwrap_used", "clippy::expect_used", "clippy::indexing_slicing", "clippy::panic"];

/// Notes to self, spelled so that this file does not contain them.
const MARKERS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("to", "do!")];

/// Endings of the files in which they are looked for.
const MARKED: &[&str] =
    &["rs", "py", "sh", "toml", "md", "java", "go", "js", "yml", "yaml", "cqltest", "Makefile"];

/// The text files of the working tree that git does not ignore.
pub fn files(root: &Path) -> Result<Vec<Source>, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let mut files = Vec::new();
    for path in output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = String::from_utf8_lossy(path).into_owned();
        // A file that is deleted but not yet committed is still listed; binary files are nobody's text.
        if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
            files.push(Source { path, text });
        }
    }
    Ok(files)
}

/// Everything that must change.
pub fn check(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if file.path.ends_with(".rs") {
            findings.extend(module_doc(file));
            findings.extend(size(file));
        }
        if MARKED.iter().any(|ending| file.path.ends_with(ending)) {
            findings.extend(markers(file));
        }
        if DECODERS.contains(&file.path.as_str()) {
            findings.extend(denials(file));
        }
    }
    findings
}

/// Rust files that are full.
pub fn warnings(files: &[Source]) -> Vec<String> {
    let full = |file: &&Source| {
        file.path.ends_with(".rs") && (LINES_ROOM + 1..=LINES_MAX).contains(&file.text.lines().count())
    };
    let warning = |file: &Source| {
        format!("{}: {} lines, {LINES_ROOM} make a full room", file.path, file.text.lines().count())
    };
    files.iter().filter(full).map(warning).collect()
}

fn module_doc(file: &Source) -> Option<Finding> {
    let beside_its_subject = file.path.ends_with("/tests.rs") || file.path.ends_with("_tests.rs");
    (!beside_its_subject && !file.text.starts_with("//!")).then(|| {
        let message =
            "the file does not open with its contract: begin with a `//!` comment on what it is for";
        Finding::new(&file.path, 1, message)
    })
}

fn size(file: &Source) -> Option<Finding> {
    let lines = file.text.lines().count();
    (lines > LINES_MAX).then(|| {
        let message = format!(
            "{lines} lines, at most {LINES_MAX}: split it by noun, and move long tests to a `tests.rs` beside it"
        );
        Finding::new(&file.path, LINES_MAX + 1, message)
    })
}

fn markers(file: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if let Some(marker) = MARKERS.iter().find(|marker| holds_word(line, marker)) {
            let message = format!(
                "`{marker}`: do it, or say in docs/COMPAT.md what a user will not find, and remove the note"
            );
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    findings
}

/// Whether `word` stands in `line` with no letter, digit or underscore at either end.
fn holds_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

fn denials(file: &Source) -> Option<Finding> {
    let missing: Vec<&str> = DENIED.iter().copied().filter(|lint| !file.text.contains(lint)).collect();
    (!missing.is_empty()).then(|| {
        let message = format!(
            "bytes from outside must not panic: add `#![cfg_attr(not(test), deny({}))]` below the crate's comment",
            missing.join(", ")
        );
        Finding::new(&file.path, 1, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: impl Into<String>) -> Source {
        Source { path: path.to_owned(), text: text.into() }
    }

    fn found(path: &str, text: impl Into<String>) -> Vec<(usize, String)> {
        let findings = check(&[source(path, text)]);
        findings.into_iter().map(|finding| (finding.line, finding.message)).collect()
    }

    #[test]
    fn a_file_without_its_contract_is_found() {
        assert_eq!(found("a.rs", "//! What it is for.\n"), []);
        for text in ["", "use std::io;\n", "// a comment\n", "\n//! late\n"] {
            let findings = found("a.rs", text);
            assert_eq!(findings.len(), 1, "{text:?}");
            assert!(findings[0].1.contains("contract"));
        }
        assert_eq!(found("a.py", "import os\n"), []);
        assert_eq!(found("a/tests.rs", "use super::*;\n"), []);
    }

    #[test]
    fn a_long_file_is_found_and_a_full_one_warned_of() {
        let lines = |count: usize| format!("//! a\n{}", "\n".repeat(count - 1));
        let of = |count| source("a.rs", lines(count));
        assert_eq!((found("a.rs", lines(600)).len(), warnings(&[of(600)]).len()), (0, 0));
        assert_eq!((found("a.rs", lines(601)).len(), warnings(&[of(601)]).len()), (0, 1));
        assert_eq!((found("a.rs", lines(1000)).len(), warnings(&[of(1000)]).len()), (0, 1));
        let findings = found("a.rs", lines(1001));
        assert_eq!((findings.len(), findings[0].0, warnings(&[of(1001)]).len()), (1, 1001, 0));
    }

    #[test]
    fn notes_to_self_are_found_as_words() {
        for marker in MARKERS {
            let findings = found("a.py", format!("ok\n# {marker} later\n"));
            assert_eq!(findings.len(), 1, "{marker}");
            assert_eq!(findings[0].0, 2);
        }
        assert_eq!(found("a.md", "mastodon, XXXL and xxx\n"), []);
        assert_eq!(found("data.bin", format!("{}\n", MARKERS[0])), []);
    }

    #[test]
    fn a_decoder_that_may_panic_is_found() {
        let all = DENIED.join(", ");
        assert_eq!(
            found("crates/cql/src/lib.rs", format!("//! a\n#![cfg_attr(not(test), deny({all}))]\n")),
            []
        );
        let findings = found("crates/cql/src/lib.rs", "//! a\n#![deny(clippy::panic)]\n");
        assert_eq!(findings.len(), 1);
        assert!(findings[0].1.contains("indexing_slicing") && !findings[0].1.contains("clippy::panic"));
        assert_eq!(found("crates/server/src/lib.rs", "//! a\n"), []);
    }

    #[test]
    fn the_working_tree_is_listed_without_what_git_ignores() {
        let dir = tempfile::tempdir().unwrap();
        let git = Command::new("git").args(["init", "--quiet"]).current_dir(dir.path()).status().unwrap();
        assert!(git.success());
        std::fs::write(dir.path().join(".gitignore"), "ignored\n").unwrap();
        std::fs::write(dir.path().join("new.rs"), "//! a\n").unwrap();
        std::fs::write(dir.path().join("ignored"), "").unwrap();
        std::fs::write(dir.path().join("binary"), [0xff, 0xfe]).unwrap();
        let paths: Vec<String> = files(dir.path()).unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(paths, [".gitignore", "new.rs"]);
    }
}
