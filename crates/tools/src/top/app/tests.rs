use super::super::testing::{MINUTE, app, look, press, sample, table};
use super::*;
use ratatui::crossterm::event::{KeyCode as K, MouseButton, MouseEventKind};

fn shift(app: &mut App, code: K) {
    app.handle(Event::Key(KeyEvent::new(code, KeyModifiers::SHIFT)));
}

fn mouse(app: &mut App, kind: MouseEventKind, column: u16, row: u16) -> Action {
    app.handle(Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }))
}

fn names(app: &App) -> Vec<&str> {
    app.sorted_tables().iter().map(|t| t.table.as_str()).collect()
}

#[test]
fn tables_are_sorted_by_the_column_that_was_chosen() {
    let mut app = app(80, 24);
    assert_eq!(names(&app), ["orders", "carts"]);
    press(&mut app, &[K::Char('r')]);
    assert_eq!(names(&app), ["carts", "orders"]);
    press(&mut app, &[K::Char('S')]);
    assert_eq!((app.tables.sort, app.tables.is_ascending()), (TableColumn::Table, true));
    press(&mut app, &[K::Char('S'), K::Char('s'), K::Char('a')]);
    assert_eq!((app.tables.sort, names(&app)), (TableColumn::Table, vec!["carts", "orders", "local"]));
}

#[test]
fn keys_end_it_and_help_is_put_away_first() {
    let mut app = app(80, 24);
    press(&mut app, &[K::Char('?')]);
    assert_eq!(app.handle(Event::Key(KeyEvent::from(K::Char('q')))), Action::Draw);
    assert_eq!(app.handle(Event::Key(KeyEvent::from(K::Char('q')))), Action::Quit);
    let interrupt = KeyEvent::new(K::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.handle(Event::Key(interrupt)), Action::Quit);
    assert_eq!(app.handle(Event::End), Action::Quit);
}

#[test]
fn a_node_that_goes_away_is_remembered_until_it_comes_back() {
    let mut app = app(80, 24);
    let failed = Failed { why: "refused".to_owned(), seconds: 3 };
    app.handle(Event::Look(Err(failed.clone())));
    assert_eq!((app.failed.as_ref(), app.interval.all.reads), (Some(&failed), 4_030));
    // Started anew: it counts from its start, and its seconds go on from ours.
    app.handle(Event::Look(Ok(Box::new(look(2, vec![table("shop.orders", 50, 90)])))));
    assert_eq!((app.failed.as_ref(), app.interval.all.reads, app.interval.seconds), (None, 50, 2.0));
    assert_eq!(app.history.last_second(), Some(MINUTE + 40));
}

#[test]
fn a_cursor_selects_a_rectangle() {
    let mut app = app(80, 24);
    press(&mut app, &[K::Tab]);
    assert_eq!((app.focus, app.selection().unwrap().bands), (Focus::Heat, 4..=4), "the slowest read of now");
    // 12 bands fit of 13: the slowest but one of the list is the row of 20 ms.
    for _ in 0..15 {
        press(&mut app, &[K::Left]);
    }
    press(&mut app, &[K::Up; 6]);
    assert_eq!(app.selection().unwrap(), Area { bands: 10..=10, seconds: MINUTE + 25..=MINUTE + 25 });
    press(&mut app, &[K::Char(' '), K::Down, K::Left, K::Left]);
    let area = Area { bands: 9..=10, seconds: MINUTE + 23..=MINUTE + 25 };
    assert_eq!((app.selection().unwrap(), app.history.count(&area)), (area.clone(), 129));
    // Time goes on; the selection stays where it is.
    app.handle(Event::Look(Ok(Box::new(look(45, vec![])))));
    assert_eq!(app.selection(), Some(area.clone()));
    let action = app.handle(Event::Key(KeyEvent::from(K::Enter)));
    let Action::Fetch(query) = action else { panic!("{action:?}") };
    assert_eq!((query.from_band, query.to_band), (Some(9), Some(10)));
    assert_eq!((query.from_second, query.to_second), (Some(MINUTE + 23), Some(MINUTE + 25)));
    assert_eq!((app.focus, app.heat.listed.clone()), (Focus::Reads, Some(area)));
    assert!(app.reads.as_ref().unwrap().title.ends_with("at 09:27:23 to 09:27:25: 129 reads"));
}

#[test]
fn a_second_that_has_just_begun_is_not_pointed_at() {
    let mut app = app(80, 24);
    let mut begun = look(41, vec![]);
    begun.heat.counts.last_mut().unwrap().fill(0);
    app.handle(Event::Look(Ok(Box::new(begun))));
    press(&mut app, &[K::Tab]);
    assert_eq!(app.selection(), Some(Area { bands: 4..=4, seconds: MINUTE + 40..=MINUTE + 40 }));
}

#[test]
fn escape_goes_back_step_by_step() {
    let mut app = app(80, 24);
    press(&mut app, &[K::Tab, K::Left, K::Char('v'), K::Up, K::Enter]);
    let query = app.reads.as_ref().unwrap().query.clone();
    app.handle(Event::Reads(query, Ok(vec![sample(MINUTE, 9, 9)])));
    press(&mut app, &[K::Enter]);
    assert!(app.reads.as_ref().unwrap().is_open);
    press(&mut app, &[K::Esc]);
    assert!(!app.reads.as_ref().unwrap().is_open);
    press(&mut app, &[K::Esc]);
    assert!(app.reads.is_none() && app.focus == Focus::Tables && app.heat.listed.is_none());
    press(&mut app, &[K::Tab, K::Char('v'), K::Left, K::Esc]);
    assert!(app.heat.anchor.is_none() && app.heat.cursor.is_some());
    press(&mut app, &[K::Esc]);
    assert!(app.heat.cursor.is_none(), "at the newest column again");
}

#[test]
fn bands_and_arrows_with_shift_select_too() {
    let mut app = app(80, 24);
    press(&mut app, &[K::Tab, K::Char('b')]);
    let all = app.selection().unwrap();
    assert_eq!((all.bands, *all.seconds.end()), (4..=4, MINUTE + 40));
    assert_eq!(*all.seconds.start(), MINUTE + 40 - 72, "every column that is shown");
    press(&mut app, &[K::Esc]);
    shift(&mut app, K::Left);
    shift(&mut app, K::Left);
    assert_eq!(app.selection().unwrap().seconds, MINUTE + 38..=MINUTE + 40);
}

#[test]
fn columns_hold_more_seconds_when_it_is_asked_for() {
    let mut app = app(80, 24);
    press(&mut app, &[K::Tab, K::Left, K::Char('-'), K::Char('-')]);
    assert_eq!((app.heat.step(), app.selection().unwrap().seconds), (5, MINUTE + 35..=MINUTE + 39));
    for _ in 0..9 {
        press(&mut app, &[K::Char('-')]);
    }
    assert_eq!(app.heat.step(), 60);
    for _ in 0..9 {
        press(&mut app, &[K::Char('+')]);
    }
    assert_eq!(app.heat.step(), 1);
}

#[test]
fn a_picture_that_stands_still_does_so_while_time_goes_on() {
    let mut app = app(80, 24);
    press(&mut app, &[K::Char('p')]);
    let (before, interval) = (app.grid().columns, app.interval.clone());
    app.handle(Event::Look(Ok(Box::new(look(50, vec![])))));
    assert_eq!((app.grid().columns, &app.interval), (before, &interval));
    press(&mut app, &[K::Char('p')]);
    assert_eq!(app.grid().columns.last(), Some(&(MINUTE + 50..=MINUTE + 50)));
}

#[test]
fn the_mouse_selects_in_the_heat_map() {
    let mut app = app(80, 24);
    let cells = app.panes().unwrap().heat_cells();
    // The last column is :40, so :25 is 15 to the left; the rows begin with band 12.
    let (x, y) = (cells.right() - 1 - 15, cells.y + 2);
    mouse(&mut app, MouseEventKind::Down(MouseButton::Left), x, y);
    mouse(&mut app, MouseEventKind::Drag(MouseButton::Left), x + 2, y + 1);
    assert_eq!(app.selection(), Some(Area { bands: 9..=10, seconds: MINUTE + 25..=MINUTE + 27 }));
    let action = mouse(&mut app, MouseEventKind::Up(MouseButton::Left), x + 2, y + 1);
    let Action::Fetch(query) = action else { panic!("{action:?}") };
    assert_eq!((query.from_second, query.to_band), (Some(MINUTE + 25), Some(10)));
    assert_eq!(app.heat.anchor, None);
}

#[test]
fn the_mouse_sorts_and_takes_lines() {
    let mut app = app(80, 24);
    let upper = app.panes().unwrap().upper;
    mouse(&mut app, MouseEventKind::Down(MouseButton::Left), 35, upper.y);
    assert_eq!(app.tables.sort, TableColumn::P50);
    mouse(&mut app, MouseEventKind::Down(MouseButton::Left), 35, upper.y);
    assert!(app.tables.is_ascending(), "the same title turns the order");
    mouse(&mut app, MouseEventKind::Down(MouseButton::Left), 3, upper.y + 3);
    assert_eq!(app.tables.selected, 1);
    mouse(&mut app, MouseEventKind::Down(MouseButton::Left), 3, upper.y + 6);
    assert_eq!(app.tables.selected, 1, "there is no table");
    mouse(&mut app, MouseEventKind::ScrollUp, 3, upper.y + 3);
    assert_eq!(app.tables.selected, 0);
}

#[test]
fn the_reads_of_a_table_are_listed_and_sorted() {
    let mut app = app(80, 24);
    let action = app.handle(Event::Key(KeyEvent::from(K::Enter)));
    let Action::Fetch(query) = action else { panic!("{action:?}") };
    assert_eq!((query.keyspace.as_deref(), query.table.as_deref()), (Some("shop"), Some("orders")));
    let other = SampleQuery::default();
    app.handle(Event::Reads(other, Ok(vec![sample(MINUTE, 1, 1)])));
    assert!(app.reads.as_ref().unwrap().found.is_none(), "an answer to an earlier question");
    let reads = vec![sample(MINUTE, 10, 500), sample(MINUTE + 1, 30, 100), sample(MINUTE + 2, 20, 900)];
    app.handle(Event::Reads(query.clone(), Ok(reads)));
    let micros = |app: &App| -> Vec<u64> {
        app.reads
            .as_ref()
            .unwrap()
            .found
            .as_ref()
            .unwrap()
            .as_ref()
            .unwrap()
            .iter()
            .map(|r| r.micros)
            .collect()
    };
    assert_eq!(micros(&app), [30, 20, 10]);
    press(&mut app, &[K::Char('S')]);
    assert_eq!(micros(&app), [20, 30, 10], "the newest first");
    let upper = app.panes().unwrap().upper;
    mouse(&mut app, MouseEventKind::Down(MouseButton::Left), 28, upper.y + 1);
    assert_eq!((app.reads.as_ref().unwrap().sort, micros(&app)), (ReadColumn::DiskBytes, vec![20, 10, 30]));
    mouse(&mut app, MouseEventKind::Down(MouseButton::Left), 28, upper.y + 3);
    mouse(&mut app, MouseEventKind::Down(MouseButton::Left), 28, upper.y + 3);
    assert_eq!(app.reads.as_ref().unwrap().current().map(|r| r.micros), Some(10));
    assert!(app.reads.as_ref().unwrap().is_open, "the current line again opens it");
    assert_eq!(app.handle(Event::Key(KeyEvent::from(K::Char('u')))), Action::Fetch(query.clone()));
    app.handle(Event::Reads(query, Err("gone".to_owned())));
    assert_eq!(app.reads.as_ref().unwrap().current(), None);
}

#[test]
fn reads_are_sorted_by_columns_that_are_there() {
    for (width, next) in [(80, ReadColumn::Sstables), (100, ReadColumn::Waited)] {
        let mut app = app(width, 24);
        app.handle(Event::Key(KeyEvent::from(K::Enter)));
        let sort = |app: &App| app.reads.as_ref().unwrap().sort;
        press(&mut app, &[K::Char('s')]);
        assert_eq!(sort(&app), next);
        press(&mut app, &[K::Char('S')]);
        assert_eq!(sort(&app), ReadColumn::Took);
        press(&mut app, &[K::Char('S'), K::Char('S')]);
        assert_eq!(sort(&app), ReadColumn::Tombstones, "round and round");
    }
}

#[test]
fn nothing_is_assumed_before_the_first_look() {
    for (width, height) in [(80, 24), (40, 8), (1, 1), (0, 0)] {
        let mut app = App::new("nowhere:1".to_owned(), Colors::Never, false);
        app.handle(Event::Resize(width, height));
        for code in
            [K::Enter, K::Tab, K::Up, K::Left, K::Char('b'), K::Enter, K::Char('p'), K::Tab, K::Enter, K::Esc]
        {
            assert_eq!(app.handle(Event::Key(KeyEvent::from(code))), Action::Draw);
        }
        mouse(&mut app, MouseEventKind::Down(MouseButton::Left), 20, 10);
        mouse(&mut app, MouseEventKind::Up(MouseButton::Left), 20, 10);
    }
}
