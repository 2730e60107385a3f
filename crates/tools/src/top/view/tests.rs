//! Screens as text, compared with `testdata`. `REWRITE=1` writes them anew.

use super::super::app::Event;
use super::super::palette::Colors;
use super::super::poll::Failed;
use super::super::testing::{MINUTE, app, look, press, sample, table};
use super::*;
use crate::api::{BulkScan, BulkStats};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode as K;
use ratatui::style::{Color, Modifier};
use std::path::Path;

fn screen(app: &App) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(app.size.width, app.size.height)).unwrap();
    terminal.draw(|frame| draw(app, frame.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

/// The characters, without spaces at the ends of lines.
fn text(buffer: &Buffer) -> String {
    let line = |y| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..buffer.area.height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

#[track_caller]
#[allow(clippy::disallowed_methods, reason = "the expected screens lie beside the tests, on a real disk")]
fn check(name: &str, app: &App) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/top/view/testdata").join(name);
    let found = text(&screen(app));
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, expected, "{name} is not as it was:\n{found}");
}

#[test]
fn tables_and_heat_map() {
    check("tables-80x24.txt", &app(80, 24));
    check("tables-140x40.txt", &app(140, 40));
    check("tables-40x8.txt", &app(40, 8));
}

#[test]
fn bulk_reads_under_way() {
    let mut app = app(80, 24);
    let mut looked = look(41, vec![table("shop.orders", 9_500, 90)]);
    let scan = |table: &str| BulkScan {
        keyspace: "shop".into(),
        table: table.into(),
        asked_by: "flight".into(),
        seconds: 2.5,
        rows: 1_234_567,
        bytes: 150 << 20,
        bytes_estimate: 1200 << 20,
        ..BulkScan::default()
    };
    let running = ["orders", "orders", "carts", "a\u{1b}[2J", "z"].map(scan).to_vec();
    let stats = BulkStats { rows: 1_000_000, bytes: 125 << 20, running, ..BulkStats::default() };
    looked.bulk = Some(stats);
    app.handle(Event::Look(Ok(Box::new(looked))));
    check("scans-80x24.txt", &app);
    app.handle(Event::Look(Ok(Box::new(look(42, Vec::new())))));
    assert_eq!(app.scans, None);
}

#[test]
fn a_selection_and_its_reads() {
    let mut app = app(80, 24);
    press(&mut app, &[K::Tab]);
    press(&mut app, &[K::Left; 15]);
    press(&mut app, &[K::Up, K::Up, K::Up, K::Up, K::Up, K::Up, K::Char(' '), K::Down, K::Left, K::Left]);
    check("selection-80x24.txt", &app);
    press(&mut app, &[K::Enter]);
    check("asking-80x24.txt", &app);
    let query = app.reads.as_ref().unwrap().query.clone();
    let mut hostile = sample(MINUTE + 23, 24_000, 0);
    hostile.failure = Some("Operation timed out - received only 0 responses.".to_owned());
    hostile.statement = "SELECT\u{1b}[2J\n* FROM t".to_owned();
    let reads = vec![sample(MINUTE + 24, 11_500, 65_536), hostile, sample(MINUTE + 25, 19_999, 1 << 20)];
    app.handle(Event::Reads(query, Ok(reads)));
    check("reads-80x24.txt", &app);
    app.handle(Event::Resize(120, 12));
    check("reads-120x12.txt", &app);
    app.handle(Event::Resize(80, 24));
    press(&mut app, &[K::Enter]);
    check("failed-80x24.txt", &app);
    press(&mut app, &[K::Down]);
    check("read-80x24.txt", &app);
}

#[test]
fn what_is_wrong_is_said() {
    let mut nowhere = App::new("127.0.0.1:9180".to_owned(), Colors::Never, false);
    nowhere.size = Rect::new(0, 0, 80, 10);
    check("connecting-80x10.txt", &nowhere);
    let failed = |seconds| Failed { why: "Failed to connect to '127.0.0.1:9180'".to_owned(), seconds };
    nowhere.handle(Event::Look(Err(failed(0))));
    check("nobody-80x10.txt", &nowhere);
    let mut lost = app(80, 10);
    lost.handle(Event::Look(Err(failed(62))));
    check("lost-80x10.txt", &lost);
    lost.handle(Event::Resize(20, 5));
    assert_eq!(text(&screen(&lost)), "window too small:\nilion top needs 40\nby 8\n\n\n");
    lost.handle(Event::Resize(9, 2));
    assert_eq!(text(&screen(&lost)), "window\ntoo\n");
    lost.handle(Event::Resize(80, 7));
    assert!(text(&screen(&lost)).starts_with("window too small: ilion top needs 40 by 8\n\n"));
}

#[test]
fn help_fits_on_80_by_24() {
    let mut app = app(80, 24);
    press(&mut app, &[K::Char('?')]);
    check("help-80x24.txt", &app);
    assert!(HELP.lines().all(|line| line.len() <= 80) && HELP.lines().count() <= 21);
}

#[test]
fn colours_are_those_of_the_terminal() {
    let mut app = app(80, 24);
    let colors_of = |app: &App| -> Vec<Color> {
        let buffer = screen(app);
        let mut found: Vec<Color> = buffer.content.iter().flat_map(|cell| [cell.bg, cell.fg]).collect();
        found.sort_by_key(|color| format!("{color:?}"));
        found.dedup();
        found
    };
    assert_eq!(colors_of(&app), [Color::Reset]);
    app.colors = Colors::Ansi16;
    assert_eq!(colors_of(&app), [Color::DarkGray, Color::LightRed, Color::Red, Color::Reset]);
    app.colors = Colors::Xterm256;
    let found = colors_of(&app);
    assert!(found.contains(&Color::Indexed(196)) && found.contains(&Color::Indexed(16)), "{found:?}");
    assert!(!found.iter().any(|c| matches!(c, Color::Rgb(..))), "{found:?}");
    app.colors = Colors::Truecolor;
    assert!(colors_of(&app).contains(&Color::Rgb(255, 0, 0)));
}

#[test]
fn what_has_the_focus_is_seen_without_colours() {
    let mut app = app(80, 24);
    let is_reversed = |app: &App, y: u16| screen(app)[(0, y)].modifier.contains(Modifier::REVERSED);
    let heat = app.panes().unwrap().heat.y;
    assert!(is_reversed(&app, 2) && !is_reversed(&app, heat));
    press(&mut app, &[K::Tab]);
    assert!(!is_reversed(&app, 2) && is_reversed(&app, heat));
}

#[test]
fn every_size_can_be_drawn() {
    for width in [0, 1, 2, 5, 19, 39, 40, 79, 80, 200] {
        for height in [0, 1, 4, 7, 8, 9, 12, 24, 70] {
            let mut app = app(width, height);
            for keys in [&[K::Tab][..], &[K::Enter], &[K::Enter], &[K::Char('?')]] {
                press(&mut app, keys);
                if let Some(query) = app.reads.as_ref().map(|pane| pane.query.clone()) {
                    app.handle(Event::Reads(query, Ok(vec![sample(MINUTE, 9, 9)])));
                }
                let mut buffer = Buffer::empty(app.size);
                draw(&app, &mut buffer);
            }
        }
    }
}
