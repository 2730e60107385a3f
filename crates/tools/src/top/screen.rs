//! The terminal: its modes while `ilion top` runs, and the loop that draws.
//!
//! Three threads feed one channel: the input thread waits for keys and the mouse, the poller looks at the
//! node once in every interval and answers questions for reads in between, and a third waits for signals. The
//! loop takes one event, and all that wait behind it, then draws. Whatever ends it, a panic included, leaves
//! the terminal as it was.

use super::app::{Action, App, Event};
use super::poll::Poller;
use super::view;
use crate::api::SampleQuery;
use env::clock::Clock;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    DisableMouseCapture, EnableMouseCapture, Event as Input, KeyEventKind, read,
};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use std::io::{self, Stdout, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The terminal in the modes that drawing needs; dropping it restores the others.
struct Modes;

impl Modes {
    fn enter(has_mouse: bool) -> io::Result<Modes> {
        enable_raw_mode()?;
        // From here on whatever fails restores the terminal.
        let modes = Modes;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        if has_mouse {
            execute!(io::stdout(), EnableMouseCapture)?;
        }
        Ok(modes)
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = execute!(io::stdout(), DisableMouseCapture, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}

/// Shows `app` until somebody ends it.
///
/// # Errors
/// The terminal cannot be drawn on any more.
#[allow(clippy::disallowed_methods, reason = "a tool is no part of a node")]
pub(super) fn run(
    mut app: App,
    poller: Poller,
    clock: &Arc<dyn Clock>,
    interval: Duration,
    has_mouse: bool,
) -> io::Result<()> {
    let (events, arrived) = channel();
    let (queries, asked) = channel();
    let signals = events.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _modes = Modes::enter(has_mouse)?;
    let mut terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
    let size = terminal.size()?;
    app.handle(Event::Resize(size.width, size.height));
    let input = events.clone();
    std::thread::spawn(move || wait_for_input(&input));
    std::thread::spawn(move || {
        runtime.block_on(wait_for_signals());
        // Nobody listens any more when the loop has ended.
        let _ = signals.send(Event::End);
    });
    let clock = Arc::clone(clock);
    std::thread::spawn(move || keep_looking(poller, &*clock, interval, &asked, &events));
    show(&mut app, &mut terminal, &arrived, &queries)
}

fn show(
    app: &mut App,
    terminal: &mut Terminal<CrosstermBackend<Stdout>>,
    arrived: &Receiver<Event>,
    queries: &Sender<SampleQuery>,
) -> io::Result<()> {
    loop {
        terminal.draw(|frame| {
            // A resize is seen here before its event arrives.
            app.size = frame.area();
            view::draw(app, frame.buffer_mut());
        })?;
        // Senders live as long as their threads; without input there is nobody to show anything to.
        let Ok(first) = arrived.recv() else { return Ok(()) };
        let mut next = Some(first);
        while let Some(event) = next {
            match app.handle(event) {
                Action::Quit => return Ok(()),
                Action::Fetch(query) => {
                    let _ = queries.send(query);
                }
                Action::Draw => {}
            }
            next = arrived.try_recv().ok();
        }
    }
}

/// Sends keys and the mouse until the terminal or the listener is gone.
fn wait_for_input(events: &Sender<Event>) {
    loop {
        let event = match read() {
            Ok(Input::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
            Ok(Input::Mouse(mouse)) => Event::Mouse(mouse),
            Ok(Input::Resize(width, height)) => Event::Resize(width, height),
            Ok(_) => continue,
            Err(_) => Event::End,
        };
        let is_end = matches!(event, Event::End);
        if events.send(event).is_err() || is_end {
            return;
        }
    }
}

/// Ends with the first signal that asks for it.
async fn wait_for_signals() {
    let (Ok(mut terminated), Ok(mut hung_up)) =
        (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
    }
}

/// Looks at the node once in every interval, and answers questions for reads in between.
fn keep_looking(
    mut poller: Poller,
    clock: &dyn Clock,
    interval: Duration,
    asked: &Receiver<SampleQuery>,
    events: &Sender<Event>,
) {
    loop {
        let started = clock.monotonic_nanos();
        if events.send(Event::Look(poller.look().map(Box::new))).is_err() {
            return;
        }
        loop {
            let taken = Duration::from_nanos(clock.monotonic_nanos().saturating_sub(started));
            match asked.recv_timeout(interval.saturating_sub(taken)) {
                Ok(query) => {
                    let answer = poller.reads(&query);
                    if events.send(Event::Reads(query, answer)).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}
