//! The mouse: a click takes a line or sorts by a column, a drag in the heat map selects.

use super::super::layout;
use super::{Action, App, Focus};
use ratatui::crossterm::event::{KeyCode, KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent) -> Action {
        let Some(panes) = self.panes().filter(|_| !self.shows_help) else { return Action::Draw };
        let at = Position::new(mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) if panes.heat.contains(at) => {
                self.focus = Focus::Heat;
                self.heat.anchor = None;
                // Another layout may go with the focus.
                self.point_at_position(at);
                self.heat.anchor = self.heat.cursor;
            }
            MouseEventKind::Drag(MouseButton::Left) if self.focus == Focus::Heat => {
                self.point_at_position(at);
            }
            MouseEventKind::Up(MouseButton::Left)
                if self.focus == Focus::Heat && self.heat.anchor.is_some() && panes.heat.contains(at) =>
            {
                return self.list_selection();
            }
            MouseEventKind::Down(MouseButton::Left) if panes.upper.contains(at) => {
                self.click(usize::from(at.y - panes.upper.y), at.x);
            }
            MouseEventKind::ScrollUp => return self.scroll(KeyCode::Up),
            MouseEventKind::ScrollDown => return self.scroll(KeyCode::Down),
            _ => {}
        }
        Action::Draw
    }

    fn scroll(&mut self, code: KeyCode) -> Action {
        match self.focus {
            Focus::Heat => Action::Draw,
            Focus::Tables => self.key_in_tables(KeyEvent::from(code)),
            Focus::Reads => self.key_in_reads(KeyEvent::from(code)),
        }
    }

    fn point_at_position(&mut self, at: Position) {
        let Some(panes) = self.panes() else { return };
        let cells = panes.heat_cells();
        let (row, column) = (at.y.saturating_sub(cells.y), at.x.saturating_sub(cells.x));
        self.point_at(row.into(), column.into());
    }

    /// A click on a line of the upper pane, counted from its top.
    fn click(&mut self, line: usize, x: u16) {
        let Some(panes) = self.panes() else { return };
        let height = usize::from(panes.upper.height);
        match &mut self.reads {
            None => {
                self.focus = Focus::Tables;
                let columns = layout::table_columns(panes.upper.width);
                match line {
                    0 => {
                        if let Some((column, _)) = columns.iter().find(|(_, room)| room.contains(&x)) {
                            self.tables.sort_by(*column);
                        }
                    }
                    1 => {}
                    _ => {
                        let top = layout::first_line(self.tables.selected, height.saturating_sub(2));
                        let wanted = top + line - 2;
                        if wanted < self.sorted_tables().len() {
                            self.tables.selected = wanted;
                        }
                    }
                }
            }
            Some(pane) if pane.is_open => {}
            Some(pane) => {
                self.focus = Focus::Reads;
                match line {
                    0 => {}
                    1 => {
                        let columns = layout::read_columns(panes.upper.width);
                        if let Some((column, _)) = columns.iter().find(|(_, room)| room.contains(&x)) {
                            pane.sort_by(*column);
                        }
                    }
                    _ => {
                        let wanted = layout::first_line(pane.selected, height.saturating_sub(2)) + line - 2;
                        if wanted == pane.selected {
                            pane.is_open = pane.current().is_some();
                        } else if wanted < pane.len() {
                            pane.selected = wanted;
                        }
                    }
                }
            }
        }
    }
}
