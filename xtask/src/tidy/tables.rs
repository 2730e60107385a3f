//! A table in a document holds phrases, not paragraphs.
//!
//! A cell of a Markdown table has at most [`WORDS_MAX`] words, counted between spaces. A longer one cannot be
//! read beside its neighbours. Fenced blocks are skipped, and so is the report that `bench/run` writes.

use super::links::prose;
use super::{Finding, Source};

/// Words of the longest cell.
const WORDS_MAX: usize = 40;

/// Beginnings of the paths of documents that a program writes.
const GENERATED: &[&str] = &["bench/report/"];

pub fn check(files: &[Source]) -> Vec<Finding> {
    let generated = |file: &Source| GENERATED.iter().any(|folder| file.path.starts_with(folder));
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md") && !generated(file)) {
        for (line, text) in prose(&file.text) {
            for cell in cells(text) {
                let words = cell.split_whitespace().count();
                if words > WORDS_MAX {
                    findings.push(Finding::new(&file.path, line, message(cell, words)));
                }
            }
        }
    }
    findings
}

fn message(cell: &str, words: usize) -> String {
    let beginning: Vec<&str> = cell.split_whitespace().take(5).collect();
    format!(
        "the cell \"{} ...\" has {words} words, at most {WORDS_MAX}: leave a phrase in the table, and move the \
         rest to a paragraph or a list below it",
        beginning.join(" ")
    )
}

/// The cells of a row of a table; of any other line none. A pipe behind a backslash belongs to its cell.
fn cells(line: &str) -> Vec<&str> {
    let Some(row) = line.trim().strip_prefix('|') else { return Vec::new() };
    let mut cells = Vec::new();
    let mut start = 0;
    for (at, _) in row.match_indices('|').filter(|(at, _)| !row[..*at].ends_with('\\')) {
        cells.push(&row[start..at]);
        start = at + 1;
    }
    cells.push(&row[start..]);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = Source { path: path.to_owned(), text: text.to_owned() };
        check(&[file]).iter().map(Finding::to_string).collect()
    }

    fn row(words: usize) -> String {
        format!("| name | {} |\n", "word ".repeat(words).trim())
    }

    #[test]
    fn a_long_cell_is_found_with_its_line_and_the_remedy() {
        let text = format!("| a | b |\n|---|---|\n{}{}", row(WORDS_MAX), row(WORDS_MAX + 1));
        let findings = found("docs/a.md", &text);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("docs/a.md:4: "), "{findings:?}");
        assert!(findings[0].contains("41 words") && findings[0].contains("a paragraph or a list below it"));
    }

    #[test]
    fn two_cells_do_not_count_together() {
        let half = "word ".repeat(30);
        assert_eq!(found("docs/a.md", &format!("| {half} | {half} |\n")), [] as [String; 0]);
    }

    #[test]
    fn a_pipe_behind_a_backslash_belongs_to_its_cell() {
        let half = "word ".repeat(21);
        assert_eq!(found("docs/a.md", &format!("| {half} \\| {half} |\n")).len(), 1);
    }

    #[test]
    fn prose_fenced_blocks_and_generated_reports_may_be_long() {
        let long = row(80);
        assert_eq!(found("docs/a.md", &"word ".repeat(80)), [] as [String; 0]);
        assert_eq!(found("docs/a.md", &format!("```\n{long}```\n")), [] as [String; 0]);
        assert_eq!(found("bench/report/report.md", &long), [] as [String; 0]);
        assert_eq!(found("bench/notes/a.md", &long).len(), 1);
    }
}
