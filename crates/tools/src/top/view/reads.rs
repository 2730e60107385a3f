//! The list of reads, and one of them with all that is known of it.

use super::super::app::{App, Focus, ReadColumn, ReadsPane, cost};
use super::super::{layout, text};
use super::{write, write_line};
use crate::api::ReadSample;
use partition::CostSnapshot;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::ops::Range;

pub(super) fn draw_list(app: &App, pane: &ReadsPane, area: Rect, buffer: &mut Buffer) {
    let has_focus = app.focus == Focus::Reads;
    let shown = match &pane.found {
        None => "asking".to_owned(),
        Some(Err(why)) => format!("no answer: {}", text::one_line(why)),
        Some(Ok(reads)) => format!("{} kept", reads.len()),
    };
    write(buffer, area, 0, 0, &format!("READS  {}, {shown}", pane.title), Style::new());
    let columns = layout::read_columns(area.width);
    let title = |column: ReadColumn| match column == pane.sort {
        true => format!("v{}", column.title()),
        false => column.title().to_owned(),
    };
    write_line(buffer, area, 1, &line(&columns, title), app.colors.title(has_focus));
    let Some(Ok(reads)) = &pane.found else { return };
    if reads.is_empty() {
        write(buffer, area, 0, 2, "none was kept", app.colors.faint());
    }
    let height = usize::from(area.height.saturating_sub(2));
    let top = layout::first_line(pane.selected, height);
    for (y, (at, read)) in (2..).zip(reads.iter().enumerate().skip(top).take(height)) {
        let is_current = has_focus && at == pane.selected;
        let style = if is_current { app.colors.current() } else { Style::new() };
        write_line(buffer, area, y, &line(&columns, |c| c.text(read)), style);
    }
}

fn line(columns: &[(ReadColumn, Range<u16>)], of: impl Fn(ReadColumn) -> String) -> String {
    let cell = |(at, (column, room)): (usize, &(ReadColumn, Range<u16>))| {
        let (text, width) = (of(*column), room.len());
        // A gap stands before every column but the first.
        let gap = usize::from(at > 0);
        match column.is_text() {
            true => {
                let width = width - gap.min(width);
                let short: String = text.chars().take(width).collect();
                format!("{:gap$}{short:<width$}", "")
            }
            false => format!("{text:>width$}"),
        }
    };
    columns.iter().enumerate().map(cell).collect()
}

/// One read: where, who, how long, the statement, and every figure that is not 0.
pub(super) fn draw_one(app: &App, pane: &ReadsPane, area: Rect, buffer: &mut Buffer) {
    let Some(read) = pane.current() else { return };
    let title = format!("READ {} of {}  {}", pane.selected + 1, pane.len(), pane.title);
    write_line(buffer, area, 0, &title, app.colors.title(true));
    let mut lines = vec![
        format!("took       {}", text::duration(read.micros)),
        format!(
            "waited     {} for a reader thread, {} for SSTables to be proven",
            text::duration(read.reader_wait_micros),
            text::duration(read.proof_wait_micros)
        ),
        format!("answered   {} UTC", text::time_of_day(read.second)),
        format!("client     {}", text::one_line(&read.client)),
        format!("table      {}", text::one_line(&format!("{}.{}", read.keyspace, read.table))),
        format!("amp        {}", amplification(read)),
    ];
    if let Some(failure) = &read.failure {
        lines.push(format!("failed     {}", text::one_line(failure)));
    }
    lines.push(String::new());
    let width = usize::from(area.width);
    // Before the texts, which may be longer than the screen.
    let figures: Vec<String> = CostSnapshot::default()
        .entries()
        .filter(|(name, _)| cost(read, name) > 0)
        .map(|(name, _)| format!("{name}={}", cost(read, name)))
        .collect();
    lines.extend(wrapped(&figures.join(" "), width));
    lines.push(String::new());
    lines.extend(wrapped(&text::one_line(&read.statement), width));
    if !read.restriction.is_empty() {
        let restriction = text::one_line(&read.restriction);
        let has_only_limits = ["LIMIT ", "PER PARTITION LIMIT "].iter().any(|l| restriction.starts_with(l));
        let word = if has_only_limits { "" } else { "WHERE " };
        lines.push(String::new());
        lines.extend(wrapped(&format!("{word}{restriction}"), width));
    }
    for (y, line) in (1..).zip(&lines) {
        write(buffer, area, 0, y, line, Style::new());
    }
}

fn amplification(read: &ReadSample) -> String {
    let (disk, returned) = (cost(read, "disk_bytes"), cost(read, "returned_bytes"));
    match returned {
        0 => format!("{} read, nothing answered", text::bytes(disk as f64)),
        _ => format!(
            "{} ({} read for {} answered)",
            text::number(disk as f64 / returned as f64),
            text::bytes(disk as f64),
            text::bytes(returned as f64)
        ),
    }
}

/// Lines of at most `width` characters, broken between words where there are any.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.len() <= width => {
                line.push(' ');
                line.extend(&word);
                continue;
            }
            _ => {}
        }
        while word.len() > width {
            lines.push(word.drain(..width).collect());
        }
        lines.push(word.into_iter().collect());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_between_words_if_they_can() {
        assert_eq!(wrapped("SELECT a FROM t WHERE", 10), ["SELECT a", "FROM t", "WHERE"]);
        assert_eq!(wrapped("a 0123456789abc", 10), ["a", "0123456789", "abc"]);
        assert_eq!(wrapped("", 10), [""]);
    }
}
