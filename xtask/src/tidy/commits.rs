//! The subject of a commit fits on one line of every tool that shows it.
//!
//! A subject has at most [`SUBJECT_MAX`] characters. Commits behind [`BASE`] are looked at; earlier ones are
//! history. Merges are not looked at. Where git does not know the base, as in a shallow clone, or where there
//! is no repository, there is nothing to look at.

use std::path::Path;
use std::process::Command;

use super::Finding;

/// The last commit that this rule does not concern.
const BASE: &str = "512603ddf52f59231768b247c73c620a256f320f";

/// Characters of the longest subject.
const SUBJECT_MAX: usize = 72;

pub fn check(root: &Path) -> Vec<Finding> {
    log(root, BASE).map_or_else(Vec::new, |log| long(&log))
}

/// One line a commit behind `base`: its short name, a tab, its subject. None if git cannot tell.
fn log(root: &Path, base: &str) -> Option<String> {
    let range = format!("{base}..HEAD");
    let arguments = ["log", "--no-merges", "--format=%h%x09%s", &range, "--"];
    let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn long(log: &str) -> Vec<Finding> {
    let commits = log.lines().filter_map(|line| line.split_once('\t'));
    let counted = commits.map(|(name, subject)| (name, subject, subject.chars().count()));
    let long = counted.filter(|(_, _, count)| *count > SUBJECT_MAX);
    long.map(|(name, subject, count)| {
        let message = format!(
            "the subject \"{subject}\" has {count} characters, at most {SUBJECT_MAX}: name one topic in it, and \
             say why in the body (`git rebase -i {name}~`, then reword)"
        );
        Finding::new(&format!("commit {name}"), 1, message)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_subject_is_found_with_its_commit_and_the_remedy() {
        let fits = "x".repeat(SUBJECT_MAX);
        let findings = long(&format!("abc1234\t{fits}\ndef5678\t{fits}x\n"));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].file, "commit def5678");
        assert!(findings[0].message.contains("73 characters") && findings[0].message.contains("in the body"));
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        assert_eq!(long(&format!("abc1234\t{}\n", "é".repeat(SUBJECT_MAX))), []);
    }

    #[test]
    fn commits_behind_the_base_are_listed_but_merges() {
        let dir = tempfile::tempdir().unwrap();
        let git = |arguments: &[&str]| {
            let identity =
                ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
            let output =
                Command::new("git").args(identity).args(arguments).current_dir(dir.path()).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        let commit = |subject: &str| {
            git(&["commit", "--quiet", "--allow-empty", "-m", subject, "-m", "A body."]);
            git(&["rev-parse", "HEAD"])
        };
        git(&["init", "--quiet"]);
        let base = commit("before");
        let after = commit("after");
        git(&["checkout", "--quiet", "-b", "side", &base]);
        commit("aside");
        git(&["merge", "--quiet", "--no-ff", "-m", "the merge", &after]);
        let log = log(dir.path(), &base).unwrap();
        let mut subjects: Vec<&str> = log.lines().map(|line| line.split_once('\t').unwrap().1).collect();
        subjects.sort_unstable();
        assert_eq!(subjects, ["after", "aside"]);
    }

    #[test]
    fn without_a_repository_or_its_base_nothing_is_found() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(check(dir.path()), []);
        let git = Command::new("git").args(["init", "--quiet"]).current_dir(dir.path()).status().unwrap();
        assert!(git.success());
        assert_eq!(check(dir.path()), [], "the base is not there");
    }
}
