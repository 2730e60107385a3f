//! Draws what an [`App`] holds. Pure: the same state gives the same screen.

mod heat;
mod reads;
mod tables;

use super::app::{App, Focus};
use super::text;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws everything on the buffer of a terminal.
pub(super) fn draw(app: &App, buffer: &mut Buffer) {
    let size = app.size.intersection(buffer.area);
    let Some(panes) = app.panes() else {
        let small = "window too small: ilion top needs 40 by 8";
        for (y, line) in (0..).zip(reads::wrapped(small, usize::from(size.width))) {
            write(buffer, size, 0, y, &line, Style::new());
        }
        return;
    };
    head(app, panes.head, buffer);
    foot(app, panes.foot, buffer);
    if app.shows_help {
        help(panes.upper.union(panes.scans).union(panes.heat), buffer);
        return;
    }
    match &app.reads {
        Some(pane) if pane.is_open && panes.heat.height == 0 => {
            reads::draw_one(app, pane, panes.upper, buffer)
        }
        Some(pane) => reads::draw_list(app, pane, panes.upper, buffer),
        None => tables::draw(app, panes.upper, buffer),
    }
    scans(app, panes.scans, buffer);
    heat::draw(app, &panes, buffer);
}

/// Writes a text at a place in `area`; what does not fit is left out.
fn write(buffer: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) {
    if y < area.height && x < area.width {
        buffer.set_stringn(area.x + x, area.y + y, text, usize::from(area.width - x), style);
    }
}

/// Writes a text over the whole width.
fn write_line(buffer: &mut Buffer, area: Rect, y: u16, text: &str, style: Style) {
    let width = usize::from(area.width);
    write(buffer, area, 0, y, &format!("{text:<width$}"), style);
}

/// Which node, and how it is: what it does, or for how long it has not answered, and why.
fn head(app: &App, area: Rect, buffer: &mut Buffer) {
    let mut first = format!("ilion top - {}", app.address);
    if let Some(look) = &app.look {
        first.push_str(" - ");
        first.push_str(&text::one_line(&look.cluster));
    }
    if let Some(failed) = &app.failed {
        first.push_str(&format!(" - no answer for {}, still trying", text::uptime(failed.seconds)));
        write(buffer, area, 0, 0, &first, app.colors.alarm());
        write(buffer, area, 0, 1, &text::one_line(&failed.why), app.colors.alarm());
        return;
    }
    let Some(look) = &app.look else {
        write(buffer, area, 0, 0, &first, Style::new());
        write(buffer, area, 0, 1, "connecting", Style::new());
        return;
    };
    first.push_str(&format!(" - up {}", text::uptime(look.reads.uptime_millis / 1_000)));
    if let Some(second) = app.paused_at {
        first.push_str(&format!(" - standing still at {}", text::time_of_day(second)));
    }
    write(buffer, area, 0, 0, &first, Style::new());
    let (info, all) = (&look.info, &app.interval.all);
    let cache = &info.page_cache;
    let second = format!(
        "{} reads/s  answered {}/s  disk {}/s  cache {} of {}  memory {}",
        text::number(all.reads_per_second.round()),
        text::bytes(all.returned_bytes_per_second),
        text::bytes(all.disk_bytes_per_second),
        text::bytes(cache.used_bytes as f64),
        text::bytes(cache.capacity_bytes as f64),
        text::bytes(info.resident_bytes as f64),
    );
    write(buffer, area, 0, 1, &second, Style::new());
}

/// The bulk reads under way.
fn scans(app: &App, area: Rect, buffer: &mut Buffer) {
    let Some(scans) = &app.scans else { return };
    write_line(buffer, area, 0, &scans.title(), app.colors.title(false));
    let room = usize::from(area.height.saturating_sub(1));
    let hidden = scans.tables.len().saturating_sub(room);
    for (y, table) in (1..).zip(scans.tables.iter().take(room)) {
        let mut line = text::one_line(&table.line());
        if hidden > 0 && usize::from(y) == room {
            line.push_str(&format!("  and {hidden} more"));
        }
        write(buffer, area, 0, y, &line, Style::new());
    }
}

/// The keys.
fn foot(app: &App, area: Rect, buffer: &mut Buffer) {
    let keys = match app.focus {
        _ if app.shows_help => "any key: back",
        Focus::Tables => "q quit  Tab heat map  s sort  r reverse  Enter reads  a system  p pause  ? help",
        Focus::Heat if app.reads.is_some() => {
            "q quit  Tab reads  arrows move  Space corner  Enter list  Esc close  ? help"
        }
        Focus::Heat => "q quit  Tab tables  arrows move  Space corner  b band  Enter list  ? help",
        Focus::Reads if app.reads.as_ref().is_some_and(|pane| pane.is_open) => {
            "q quit  up, down other reads  Enter, Esc back to the list"
        }
        Focus::Reads => "q quit  Tab heat map  s sort  Enter whole  u ask again  Esc close  ? help",
    };
    write_line(buffer, area, 0, keys, app.colors.current());
}

const HELP: &str = "\
Tab        tables, heat map, reads            q, Ctrl-C  quit
p          stand still, go on                 a          the system's tables too
+ -        fewer, more seconds a column

Tables     s S or left right: sort by the next, the previous column
           r: reverse   Enter: recent reads of the table
Heat map   arrows: move   Space: one corner of a selection, or Shift-arrows
           b: the whole band   Enter: list the reads   Esc: undo
Reads      s S: sort   Enter: the whole read   u: ask again   Esc: close
Mouse      a title sorts, a line is taken, a drag over the heat map selects

HIT%  pages found in memory                   AMP   bytes read / bytes answered
SST   SSTables opened by a read               TOMB  tombstones met by a read
IO    calls to the disk of a read             ROWS  live rows of a read

Colours count reads: black none, red most, on a logarithmic scale. Up to four
reads of each second and band are kept to be listed. Times are UTC.";

fn help(area: Rect, buffer: &mut Buffer) {
    for (y, line) in (0..).zip(HELP.lines()) {
        write(buffer, area, 0, y, line, Style::new());
    }
}

#[cfg(test)]
mod tests;
