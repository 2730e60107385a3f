//! Links in documents lead somewhere.
//!
//! Looks at every `[text](target)` of the Markdown files: a relative target must exist, and its `#anchor`
//! must be a heading of the document it names. In the documents that walk through the code (ARCHITECTURE.md,
//! README.md, CONTRIBUTING.md and docs/) a path in backquotes that begins with one of our folders must exist,
//! too. Fenced blocks are skipped. Addresses on the web are not fetched.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Finding, Source};

/// Beginnings of a path in backquotes that is taken for one of ours.
const FOLDERS: &[&str] = &["crates/", "docs/", "conformance/", "fuzz/", "bench/", "xtask/"];

pub fn check(root: &Path, files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let walks = file.path.starts_with("docs/")
            || ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"].contains(&file.path.as_str());
        for (line, text) in prose(&file.text) {
            for target in targets(text) {
                if let Some(message) = broken(root, file, target, files) {
                    findings.push(Finding::new(&file.path, line, message));
                }
            }
            for path in if walks { code_paths(text) } else { Vec::new() } {
                if !root.join(path).exists() {
                    let message = format!("`{path}` does not exist: name the file that took its place");
                    findings.push(Finding::new(&file.path, line, message));
                }
            }
        }
    }
    findings
}

/// The lines outside fenced blocks, counted from 1.
pub fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// The targets of the links in a line.
fn targets(line: &str) -> Vec<&str> {
    let starts = line.match_indices("](").map(|(at, _)| at + 2);
    starts.filter_map(|start| line[start..].split_once(')').map(|(target, _)| target)).collect()
}

/// Paths in backquotes that claim to be ours; patterns and placeholders are not.
fn code_paths(line: &str) -> Vec<&str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let ours = |path: &&str| FOLDERS.iter().any(|folder| path.starts_with(folder));
    quoted.filter(ours).filter(|path| !path.contains(['*', '<', '{', ' ', '$', '…'])).collect()
}

/// What is wrong with a link, if anything.
fn broken(root: &Path, from: &Source, target: &str, files: &[Source]) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let above = Path::new(&from.path).parent().unwrap_or(Path::new(""));
    let joined = if path.is_empty() { Path::new(&from.path).to_owned() } else { above.join(path) };
    if !root.join(&joined).exists() {
        return Some(format!("the link to {target} leads nowhere: {} does not exist", joined.display()));
    }
    let anchor = anchor?;
    let resolved = resolve(&joined);
    let document = files.iter().find(|file| file.path == resolved)?;
    let missing = !anchors(&document.text).contains(anchor);
    missing.then(|| format!("the link to {target} leads nowhere: {resolved} has no heading for #{anchor}"))
}

/// A path without `.` and `..`.
fn resolve(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part.as_os_str().to_string_lossy().as_ref() {
            "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name.to_owned()),
        }
    }
    parts.join("/")
}

/// The anchors of a document's headings, as GitHub makes them: lower case, spaces to hyphens, other
/// punctuation dropped, repeated ones numbered.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase();
        let numbered = (1..).map(|n| format!("{slug}-{n}"));
        let free = std::iter::once(slug.clone()).chain(numbered).find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings for `docs/a.md` with this text, in a tree that holds `docs/b.md` and `crates/env`.
    fn found(text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let other = "# Other\n\n## Two words: `code`\n\n```\n# no heading\n```\n";
        std::fs::create_dir_all(dir.path().join("docs")).unwrap();
        std::fs::create_dir_all(dir.path().join("crates/env")).unwrap();
        std::fs::write(dir.path().join("docs/a.md"), text).unwrap();
        std::fs::write(dir.path().join("docs/b.md"), other).unwrap();
        let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let files = [source("docs/a.md", text), source("docs/b.md", other)];
        check(dir.path(), &files).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let text = "# Top\n[b](b.md) [up](../docs/b.md#two-words-code) [here](#top)\n\
                    [web](https://example.org/x) [dir](../crates/env)\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn a_link_to_nothing_is_found_with_its_line() {
        let findings = found("ok\n[x](none.md)\n");
        assert_eq!(findings, ["docs/a.md:2: the link to none.md leads nowhere: docs/none.md does not exist"]);
    }

    #[test]
    fn a_link_to_a_missing_heading_is_found() {
        assert_eq!(found("[x](b.md#three)\n").len(), 1);
        assert_eq!(found("[x](#no)\n").len(), 1);
        assert_eq!(found("[x](b.md#no-heading)\n").len(), 1, "a heading in a fenced block is none");
    }

    #[test]
    fn a_path_in_backquotes_must_exist() {
        assert_eq!(
            found("see `crates/env` and `crates/*/src` and `docs/<name>.md`, `engine::read`\n").len(),
            0
        );
        let findings = found("see `crates/none/src/lib.rs`\n");
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("`crates/none/src/lib.rs` does not exist"), "{findings:?}");
    }

    #[test]
    fn fenced_blocks_are_skipped() {
        assert_eq!(found("```\n[x](none.md) `crates/none`\n```\n"), Vec::<String>::new());
    }

    #[test]
    fn repeated_headings_are_numbered() {
        let anchors = anchors("# A\n## A\n#not one\n");
        assert_eq!(anchors, ["a", "a-1"].map(str::to_owned).into());
    }
}
