//! Fuzz targets, their files and their corpora belong together: a name in `TARGETS` of fuzz/src/lib.rs has
//! its file in `fuzz_targets`, its `[[bin]]` in the manifest, and a corpus with something in it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{Finding, line_of};

const LIST: &str = "fuzz/src/lib.rs";
const MANIFEST: &str = "fuzz/Cargo.toml";
const FILES: &str = "fuzz/fuzz_targets";
const CORPORA: &str = "fuzz/corpus";

pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let read = |path: &str| fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));
    let (list, manifest) = (read(LIST)?, read(MANIFEST)?);
    let listed = targets(&list);
    let mut findings = Vec::new();
    for folder in [FILES, CORPORA] {
        for name in names(root, folder)?.difference(&listed) {
            findings.push(Finding::new(LIST, 1, format!("{folder} has {name}, and TARGETS does not")));
        }
    }
    for name in &listed {
        let line = line_of(&list, &format!("name: \"{name}\""));
        if !root.join(FILES).join(format!("{name}.rs")).exists() {
            findings.push(Finding::new(LIST, line, format!("{name} has no file in {FILES}")));
        }
        if !manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")) {
            findings.push(Finding::new(LIST, line, format!("{name} has no [[bin]] in {MANIFEST}")));
        }
        let inputs = fs::read_dir(root.join(CORPORA).join(name)).map_or(0, Iterator::count);
        if inputs == 0 {
            findings.push(Finding::new(LIST, line, format!("{name} has no input in {CORPORA}/{name}")));
        }
    }
    Ok(findings)
}

/// The names in the list.
fn targets(list: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let rest = line.trim().strip_prefix("Target { name: \"")?;
        rest.split_once('"').map(|(name, _)| name.to_owned())
    };
    list.lines().filter_map(name).collect()
}

/// The entries of a folder, without what follows a dot.
fn names(root: &Path, folder: &str) -> Result<BTreeSet<String>, String> {
    let entries = fs::read_dir(root.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
    let stem = |entry: fs::DirEntry| entry.path().file_stem().map(|name| name.to_string_lossy().into_owned());
    Ok(entries.flatten().filter_map(stem).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with one target, whose file, `[[bin]]` and input are there as far as they are named.
    fn root(parts: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(LIST, "pub const TARGETS: &[Target] = &[\n    Target { name: \"a\", run: a },\n];\n");
        write(MANIFEST, if parts.contains(&"bin") { "path = \"fuzz_targets/a.rs\"" } else { "" });
        fs::create_dir_all(root.path().join(FILES)).unwrap();
        fs::create_dir_all(root.path().join(CORPORA)).unwrap();
        for (part, path) in [
            ("file", "fuzz/fuzz_targets/a.rs"),
            ("input", "fuzz/corpus/a/1"),
            ("more", "fuzz/fuzz_targets/b.rs"),
        ] {
            if parts.contains(&part) {
                write(path, "");
            }
        }
        root
    }

    fn found(parts: &[&str]) -> Vec<String> {
        let root = root(parts);
        check(root.path()).unwrap().into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_target_has_all_its_parts() {
        assert_eq!(found(&["file", "bin", "input"]), Vec::<String>::new());
        let missing = [
            "fuzz/src/lib.rs:2: a has no file in fuzz/fuzz_targets",
            "fuzz/src/lib.rs:2: a has no [[bin]] in fuzz/Cargo.toml",
            "fuzz/src/lib.rs:2: a has no input in fuzz/corpus/a",
        ];
        assert_eq!(found(&[]), missing);
    }

    #[test]
    fn a_file_that_nobody_lists_is_named() {
        let more = ["fuzz/src/lib.rs:1: fuzz/fuzz_targets has b, and TARGETS does not"];
        assert_eq!(found(&["file", "bin", "input", "more"]), more);
    }
}
