//! What `ilion top` knows and shows, and what keys, the mouse and answers of the node do to it. No I/O: an
//! [`Event`] goes in, an [`Action`] comes out, and `view` draws what is there.

mod heat;
mod mouse;
mod reads;
mod tables;

pub(super) use heat::{HeatPane, bands_text};
pub(super) use reads::{ReadColumn, ReadsPane, cost};
pub(super) use tables::{TableColumn, TablesPane};

use super::history::{Area, Grid, History};
use super::layout::{Panes, Upper};
use super::palette::Colors;
use super::poll::{Failed, Look};
use super::rates::{Interval, between};
use super::scans::Scans;
use crate::api::{ReadSample, SampleQuery};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEvent};
use ratatui::layout::Rect;

/// What happened.
#[derive(Debug)]
pub(super) enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// The terminal has another size.
    Resize(u16, u16),
    /// The node was looked at.
    Look(Result<Box<Look>, Failed>),
    /// The reads that somebody asked for, or why there are none.
    Reads(SampleQuery, Result<Vec<ReadSample>, String>),
    /// The process is to end.
    End,
}

/// What is to be done outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing but to draw.
    Draw,
    /// Ask for reads.
    Fetch(SampleQuery),
    /// End.
    Quit,
}

/// Where keys act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Focus {
    /// The table of tables.
    Tables,
    /// The heat map.
    Heat,
    /// The list of reads.
    Reads,
}

/// Everything.
#[derive(Debug)]
pub(super) struct App {
    /// Where the node is.
    pub(super) address: String,
    /// Colours of the terminal.
    pub(super) colors: Colors,
    /// The whole terminal.
    pub(super) size: Rect,
    /// The last look that succeeded.
    pub(super) look: Option<Box<Look>>,
    /// Why the node could not be looked at since.
    pub(super) failed: Option<Failed>,
    /// What the reads between the last two looks came to.
    pub(super) interval: Interval,
    /// The bulk reads under way; `None` where there are none.
    pub(super) scans: Option<Scans>,
    /// The heat map.
    pub(super) history: History,
    /// Where keys act.
    pub(super) focus: Focus,
    /// Whether tables of the system are shown.
    pub(super) shows_system: bool,
    /// The last second that is shown, while the picture stands still.
    pub(super) paused_at: Option<u64>,
    /// Whether the keys are explained.
    pub(super) shows_help: bool,
    /// The table of tables.
    pub(super) tables: TablesPane,
    /// The heat map's cursor and selection.
    pub(super) heat: HeatPane,
    /// The reads that were asked for.
    pub(super) reads: Option<ReadsPane>,
}

impl App {
    /// Before the first look.
    pub(super) fn new(address: String, colors: Colors, shows_system: bool) -> App {
        App {
            address,
            colors,
            size: Rect::new(0, 0, 80, 24),
            look: None,
            failed: None,
            interval: Interval::default(),
            scans: None,
            history: History::default(),
            focus: Focus::Tables,
            shows_system,
            paused_at: None,
            shows_help: false,
            tables: TablesPane::default(),
            heat: HeatPane::default(),
            reads: None,
        }
    }

    /// Takes note of what happened.
    pub(super) fn handle(&mut self, event: Event) -> Action {
        match event {
            Event::Key(key) => return self.key(key),
            Event::Mouse(mouse) => return self.mouse(mouse),
            Event::Resize(width, height) => self.size = Rect::new(0, 0, width, height),
            Event::Look(Ok(look)) => self.looked(look),
            Event::Look(Err(failed)) => self.failed = Some(failed),
            Event::Reads(query, answer) => {
                if let Some(pane) = self.reads.as_mut().filter(|pane| pane.query == query) {
                    pane.take(answer);
                }
            }
            Event::End => return Action::Quit,
        }
        Action::Draw
    }

    fn looked(&mut self, look: Box<Look>) {
        self.failed = None;
        self.history.absorb(&look.heat);
        if let Some(before) = &self.look
            && self.paused_at.is_none()
        {
            self.interval = between(&before.reads, &look.reads);
            let scans = Scans::between(before.bulk.as_ref(), look.bulk.as_ref(), &self.interval);
            self.scans = scans.filter(|scans| !scans.tables.is_empty());
        }
        self.look = Some(look);
    }

    /// Where everything stands; `None` when there is too little room.
    pub(super) fn panes(&self) -> Option<Panes> {
        let upper = match &self.reads {
            Some(pane) if pane.is_open && self.focus == Focus::Reads => Upper::Read,
            Some(_) => Upper::Reads,
            None => Upper::Tables,
        };
        let scans = self.scans.as_ref().map_or(0, |scans| scans.tables.len());
        Panes::of(self.size, upper, self.focus == Focus::Heat, scans)
    }

    /// The last second of the heat map that is shown.
    pub(super) fn end(&self) -> Option<u64> {
        self.paused_at.or_else(|| self.history.last_second())
    }

    /// What the heat map shows.
    pub(super) fn grid(&self) -> Grid {
        let Some((panes, end)) = self.panes().zip(self.end()) else { return Grid::default() };
        let cells = panes.heat_cells();
        self.history.grid(cells.width.into(), cells.height.into(), self.heat.step(), end)
    }

    fn key(&mut self, key: KeyEvent) -> Action {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Action::Quit;
        }
        if self.shows_help {
            // Whatever is pressed puts the explanation away; `q` does not end as well.
            self.shows_help = false;
            return Action::Draw;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.shows_help = true,
            KeyCode::Char('a') => self.shows_system = !self.shows_system,
            KeyCode::Char('p') => self.paused_at = if self.paused_at.is_some() { None } else { self.end() },
            KeyCode::Char('+') => self.heat.zoom(1),
            KeyCode::Char('-') => self.heat.zoom(-1),
            KeyCode::Tab => self.next_focus(),
            _ => {
                return match self.focus {
                    Focus::Tables => self.key_in_tables(key),
                    Focus::Heat => self.key_in_heat(key),
                    Focus::Reads => self.key_in_reads(key),
                };
            }
        }
        Action::Draw
    }

    fn next_focus(&mut self) {
        self.focus = match self.focus {
            Focus::Tables | Focus::Reads => Focus::Heat,
            Focus::Heat if self.reads.is_some() => Focus::Reads,
            Focus::Heat => Focus::Tables,
        };
    }

    /// Opens the list of reads.
    fn list(&mut self, title: String, query: SampleQuery) -> Action {
        self.reads = Some(ReadsPane::new(title, query.clone()));
        self.focus = Focus::Reads;
        Action::Fetch(query)
    }

    /// Opens the list of the reads of an area.
    fn list_area(&mut self, area: &Area) -> Action {
        let title = self.title_of(area);
        self.list(
            title,
            SampleQuery {
                from_band: Some(*area.bands.start()),
                to_band: Some(*area.bands.end()),
                from_second: Some(*area.seconds.start()),
                to_second: Some(*area.seconds.end()),
                ..SampleQuery::default()
            },
        )
    }

    /// The area in words.
    pub(super) fn title_of(&self, area: &Area) -> String {
        heat::title(area, self.history.bands(), self.history.count(area))
    }
}

#[cfg(test)]
mod tests;
