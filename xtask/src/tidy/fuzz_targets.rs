//! Fuzz targets and their corpora belong together: a name in `TARGETS` of fuzz/src/lib.rs has a corpus with
//! something in it, and the other way round.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{Finding, line_of};

const LIST: &str = "fuzz/src/lib.rs";
const CORPORA: &str = "fuzz/corpus";

pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let list = fs::read_to_string(root.join(LIST)).map_err(|error| format!("{LIST}: {error}"))?;
    let listed = targets(&list);
    let mut findings = Vec::new();
    for name in names(root, CORPORA)?.difference(&listed) {
        findings.push(Finding::new(LIST, 1, format!("{CORPORA} has {name}, and TARGETS does not")));
    }
    for name in &listed {
        let line = line_of(&list, &format!("name: \"{name}\""));
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

    /// What is found where one target is listed, and these inputs are there.
    fn found(inputs: &[&str]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(LIST, "pub const TARGETS: &[Target] = &[\n    Target { name: \"a\", run: a },\n];\n");
        fs::create_dir_all(root.path().join(CORPORA)).unwrap();
        inputs.iter().for_each(|input| write(&format!("{CORPORA}/{input}"), ""));
        check(root.path()).unwrap().into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn a_target_has_inputs() {
        assert_eq!(found(&["a/1"]), Vec::<String>::new());
        assert_eq!(found(&[]), ["fuzz/src/lib.rs:2: a has no input in fuzz/corpus/a"]);
    }

    #[test]
    fn a_corpus_that_nobody_lists_is_named() {
        assert_eq!(found(&["a/1", "b/1"]), ["fuzz/src/lib.rs:1: fuzz/corpus has b, and TARGETS does not"]);
    }
}
