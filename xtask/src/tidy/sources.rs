//! What every source file owes its reader.
//!
//! 1. A Rust file opens with its contract: a `//!` comment on the first line. A `tests.rs` beside its subject
//!    has the subject's.
//! 2. A Rust file has at most [`LINES_MAX`] lines; past [`LINES_ROOM`] it is named in a warning.
//! 3. No source carries a note to self. What is not done is an issue, or a line in docs/COMPAT.md.
//! 4. The crates that decode bytes from outside deny what panics, in the first lines of their `lib.rs`.
//! 5. Comments are as wide as the code, [`WIDTH_MAX`] characters; drawings, tables and addresses may be
//!    wider.
//! 6. No file is larger than [`BYTES_MAX`], but fixtures and the profile of release builds.

use std::path::Path;
use std::process::Command;

use super::{Finding, Source};

/// A full room.
const LINES_ROOM: usize = 600;

/// Too much for one room.
const LINES_MAX: usize = 1000;

/// Characters of the longest line, as in rustfmt.toml.
const WIDTH_MAX: usize = 110;

/// Bytes of the largest file.
const BYTES_MAX: u64 = 200_000;

/// Beginnings of the paths of files that may be larger.
const LARGE: &[&str] = &["crates/testkit/fixtures/", "bench/reads.profdata"];

/// Crates that decode bytes from outside.
const DECODERS: &[&str] = &[
    "crates/protocol/src/lib.rs",
    "crates/cql/src/lib.rs",
    "crates/keystore/src/lib.rs",
    "crates/sstable/src/lib.rs",
];

/// What their non-test code must deny.
const DENIED: &[&str] =
    &["clippy::unwrap_used", "clippy::expect_used", "clippy::indexing_slicing", "clippy::panic"];

/// Notes to self, spelled so that this file does not contain them.
const MARKERS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("to", "do!")];

/// Endings of the files in which they are looked for.
const MARKED: &[&str] =
    &["rs", "py", "sh", "toml", "md", "java", "go", "js", "yml", "yaml", "cqltest", "Makefile"];

/// The paths of the working tree that git does not ignore.
fn paths(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("git did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let paths = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect())
}

/// The text files of the working tree that git does not ignore.
pub fn files(root: &Path) -> Result<Vec<Source>, String> {
    let mut files = Vec::new();
    for path in paths(root)? {
        // A file that is deleted but not yet committed is still listed; binary files are nobody's text.
        if let Ok(text) = std::fs::read_to_string(root.join(&path)) {
            files.push(Source { path, text });
        }
    }
    Ok(files)
}

/// Files that are too large.
pub fn weights(root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    for path in paths(root)? {
        let bytes = std::fs::metadata(root.join(&path)).map_or(0, |file| file.len());
        if bytes > BYTES_MAX && !LARGE.iter().any(|large| path.starts_with(large)) {
            let message =
                format!("{bytes} bytes, at most {BYTES_MAX}: what a command makes is made again, not kept");
            findings.push(Finding::new(&path, 1, message));
        }
    }
    Ok(findings)
}

/// Everything that must change.
pub fn check(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if file.path.ends_with(".rs") {
            findings.extend(module_doc(file));
            findings.extend(size(file));
            findings.extend(wide_comments(file));
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

fn wide_comments(file: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_drawing = false;
    for (index, line) in file.text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_drawing = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        is_drawing ^= comment.starts_with("```");
        let may_be_wide = is_drawing || comment.starts_with('|') || comment.contains("http");
        if !may_be_wide && line.chars().count() > WIDTH_MAX {
            let message =
                format!("a comment wider than {WIDTH_MAX}: break it where the code would be broken");
            findings.push(Finding::new(&file.path, index + 1, message));
        }
    }
    findings
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
    fn wide_comments_are_found_but_in_drawings_tables_and_addresses() {
        let long = "word ".repeat(25);
        let text = |comment: &str| format!("//! a\n{comment}\nfn f() {{}}\n");
        for comment in [format!("/// {long}"), format!("    // {long}"), format!("//! {long}")] {
            let findings = found("a.rs", text(&comment));
            assert_eq!((findings.len(), findings[0].0), (1, 2), "{comment}");
        }
        let drawing = format!("//! ```text\n//! {long}\n//! ```");
        for comment in [drawing, format!("//! | {long} |"), format!("// https://example.org {long}")] {
            assert_eq!(found("a.rs", text(&comment)), [], "{comment}");
        }
        assert_eq!(found("a.rs", text(&format!("//! ```text\n//! ```\n//! {long}"))).len(), 1);
    }

    #[test]
    fn large_files_are_found_but_fixtures() {
        let root = tempfile::tempdir().unwrap();
        let git = Command::new("git").arg("init").arg("-q").current_dir(&root).status().unwrap();
        assert!(git.success());
        let write = |path: &str, bytes: u64| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, vec![b'x'; bytes as usize]).unwrap();
        };
        write("a/report.json", BYTES_MAX + 1);
        write("a/short.json", BYTES_MAX);
        write("crates/testkit/fixtures/x/Data.db", BYTES_MAX + 1);
        let found = weights(root.path()).unwrap();
        assert_eq!(found.iter().map(|f| f.file.as_str()).collect::<Vec<_>>(), ["a/report.json"]);
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
