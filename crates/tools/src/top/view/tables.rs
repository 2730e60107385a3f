//! The table of tables: titles, the line for all, one line for each table.

use super::super::app::{App, Focus, TableColumn};
use super::super::layout;
use super::super::rates::Rates;
use super::{write, write_line};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    let has_focus = app.focus == Focus::Tables;
    let columns = layout::table_columns(area.width);
    let title = |column: TableColumn| match column == app.tables.sort {
        // A mark for the direction: the gap before every column has room for it.
        true if app.tables.is_ascending() => format!("^{}", column.title()),
        true => format!("v{}", column.title()),
        false => column.title().to_owned(),
    };
    write_line(buffer, area, 0, &line(&columns, title), app.colors.title(has_focus));
    write(buffer, area, 0, 1, &line(&columns, |c| c.text(&app.interval.all)), Style::new());
    let tables = app.sorted_tables();
    let height = usize::from(area.height.saturating_sub(2));
    let top = layout::first_line(app.tables.selected, height);
    for (y, table) in (2..).zip(tables.iter().skip(top).take(height)) {
        let at = top + usize::from(y) - 2;
        let style = match table {
            _ if has_focus && at == app.tables.selected => app.colors.current(),
            Rates { reads: 0, .. } => app.colors.faint(),
            _ => Style::new(),
        };
        write_line(buffer, area, y, &line(&columns, |c| c.text(table)), style);
    }
    if tables.is_empty() && app.look.is_some() {
        write(
            buffer,
            area,
            0,
            2,
            "no table was read yet (a shows tables of the system too)",
            app.colors.faint(),
        );
    }
}

fn line(columns: &[(TableColumn, std::ops::Range<u16>)], of: impl Fn(TableColumn) -> String) -> String {
    let cell = |(column, room): &(TableColumn, std::ops::Range<u16>)| {
        let (text, width) = (of(*column), room.len());
        match column {
            TableColumn::Table => {
                let short: String = text.chars().take(width).collect();
                format!("{short:<width$}")
            }
            _ => format!("{text:>width$}"),
        }
    };
    columns.iter().map(cell).collect()
}
