//! The heat map: what the cursor is on, a line for each row of bands, the slowest first, and times below.

use super::super::app::{App, Focus};
use super::super::history::Area;
use super::super::layout::{GUTTER, Panes};
use super::super::text;
use super::{write, write_line};
use ratatui::buffer::Buffer;
use ratatui::style::Style;

/// A cell of which nothing is known.
const UNKNOWN: char = '.';
/// The cell on which the keys act.
const CURSOR: char = 'X';
/// Characters between two times of the axis, at least.
const TIMES_EVERY: usize = 12;

pub(super) fn draw(app: &App, panes: &Panes, buffer: &mut Buffer) {
    let (area, cells) = (panes.heat, panes.heat_cells());
    if area.height < 3 {
        return;
    }
    let has_focus = app.focus == Focus::Heat;
    let grid = app.grid();
    let cursor = app.cursor_cell();
    let selection = app.selection().filter(|_| has_focus).or_else(|| app.heat.listed.clone());
    let step = text::uptime(app.heat.step());
    let about = match &selection {
        Some(area) if app.look.is_some() => app.title_of(area),
        _ => format!("{step} a column, most {}", text::number(grid.max() as f64)),
    };
    write_line(buffer, area, 0, &format!("READ LATENCY  {about}"), app.colors.title(has_focus));
    let max = grid.max();
    for (row, (bands, counts)) in grid.rows.iter().zip(&grid.cells).enumerate() {
        let y = row as u16;
        let label = match bands.start() {
            0 => "0".to_owned(),
            first => app.history.bands().get(*first).map_or_else(String::new, |b| text::bound(b.from_micros)),
        };
        let width = usize::from(GUTTER) - 1;
        write(buffer, area, 0, y + 1, &format!("{label:>width$}"), Style::new());
        for (column, count) in counts.iter().enumerate() {
            let is_selected = || {
                let (area, seconds) = (selection.as_ref()?, grid.columns.get(column)?);
                Some(area.meets(&Area { bands: bands.clone(), seconds: seconds.clone() }))
            };
            let is_selected = is_selected().unwrap_or(false);
            let plain = match count {
                Some(count) => app.colors.heat(*count, max),
                None => (UNKNOWN, app.colors.unknown()),
            };
            let (symbol, style) = if is_selected { app.colors.selected(plain) } else { plain };
            let symbol = if has_focus && cursor == (row, column) { CURSOR } else { symbol };
            let at = (cells.x + column as u16, cells.y + y);
            if let Some(cell) = buffer.cell_mut(at) {
                cell.set_char(symbol).set_style(style);
            }
        }
    }
    axis(app, panes, &grid.columns, buffer);
}

/// Times of columns, as far apart as they are wide.
fn axis(app: &App, panes: &Panes, columns: &[std::ops::RangeInclusive<u64>], buffer: &mut Buffer) {
    let y = panes.heat.height - 1;
    write(buffer, panes.heat, 0, y, &format!("{:>6}", "UTC"), app.colors.faint());
    let every = TIMES_EVERY as u64 * app.heat.step();
    for (column, seconds) in columns.iter().enumerate() {
        let fits = column + "00:00:00".len() <= columns.len();
        if seconds.start() % every == 0 && fits {
            let x = GUTTER + column as u16;
            write(buffer, panes.heat, x, y, &text::time_of_day(*seconds.start()), app.colors.faint());
        }
    }
}
