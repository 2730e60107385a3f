//! `ilion top`: what a node reads, live, in a terminal.
//!
//! ```text
//! keys, mouse, signals --+
//!                        +--> Event --> App::handle --> Action (ask for reads, end)
//! poll: the admin API ---+                 |
//!                                          +--> view::draw (layout, palette, text) --> terminal
//! ```
//!
//! 1. `poll` asks the node for sums of reads by table and for its heat map, once in every interval.
//! 2. `rates` and `scans` make of two sums what happened in between; `history` remembers the heat map and
//!    lays it out.
//! 3. `app` holds what is shown and selected; `view` draws it. Neither does I/O.
//! 4. `screen` is the terminal and the loop; `print` is for scripts (`--once`, `--json`).
//!
//! Exit status: 0 asked to end, 1 the terminal cannot be drawn on, 2 the node cannot be reached (`--once`)
//! or the flags make no sense.

mod app;
mod history;
mod layout;
mod palette;
mod poll;
mod print;
mod rates;
mod scans;
mod screen;
#[cfg(test)]
mod testing;
mod text;
mod view;

use crate::client::access::AccessArgs;
use crate::client::{Place, default_admin};
use crate::console::complain;
use app::App;
use clap::Args;
use env::clock::{Clock, SystemClock};
use palette::Colors;
use poll::{Failed, Look, Poller};
use scans::Scans;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Arguments of `ilion top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Where the node's admin API listens
    #[arg(long, value_name = "HOST:PORT", default_value_t = default_admin())]
    admin: String,
    /// The Unix socket of the node's admin API, instead of its address
    #[arg(long, value_name = "PATH", conflicts_with = "admin")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Print one interval as text (or JSON) and end
    #[arg(long)]
    once: bool,
    /// Print a line of JSON for each interval
    #[arg(long)]
    json: bool,
    /// Show tables of the system too
    #[arg(long)]
    all: bool,
    /// How many colours the terminal has [default: what TERM, COLORTERM and NO_COLOR say]
    #[arg(long, value_name = "COLORS")]
    colors: Option<Colors>,
    /// Leave the mouse to the terminal
    #[arg(long)]
    no_mouse: bool,
}

/// Runs it; the result is the exit status.
pub fn run(args: &TopArgs) -> u8 {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let place = Place::of(&args.admin, args.socket.as_ref());
    let access = args.access.access(&place);
    let poller = match access.and_then(|access| Poller::new(place.clone(), access, Arc::clone(&clock))) {
        Ok(poller) => poller,
        Err(why) => {
            complain(&format!("ilion top: {why}\n"));
            return 2;
        }
    };
    if args.once || args.json {
        return print_intervals(args, &place, poller);
    }
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        complain("ilion top: this is no terminal; --once prints one interval, --json a line for each\n");
        return 1;
    }
    if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        complain("ilion top: a terminal of type dumb cannot be drawn on; --once prints one interval\n");
        return 1;
    }
    let colors = args.colors.unwrap_or_else(|| Colors::of_environment(|name| std::env::var(name).ok()));
    let app = App::new(place.to_string(), colors, args.all);
    match screen::run(app, poller, &clock, Duration::from_secs(args.interval), !args.no_mouse) {
        Ok(()) => 0,
        Err(error) => {
            complain(&format!("ilion top: the terminal: {error}\n"));
            1
        }
    }
}

/// Prints one interval, or each one until the output is closed.
fn print_intervals(args: &TopArgs, place: &Place, mut poller: Poller) -> u8 {
    // Nobody sends: it is waited on for as long as an interval is.
    let (_sender, pause) = channel::<()>();
    let mut before: Option<Look> = None;
    loop {
        match (poller.look(), &before) {
            (Err(Failed { why, .. }), _) => {
                complain(&format!("ilion top: {why}\n"));
                if args.once {
                    return 2;
                }
            }
            (Ok(look), None) => before = Some(look),
            (Ok(look), Some(last)) => {
                let interval = rates::between(&last.reads, &look.reads);
                let scans = Scans::between(last.bulk.as_ref(), look.bulk.as_ref(), &interval);
                let text = match args.json {
                    true => print::json(&place.to_string(), &look.cluster, &interval, &look.heat, &scans),
                    false => print::text(&interval, &look.heat, &scans),
                };
                let written = std::io::stdout().lock().write_all(text.as_bytes());
                // A closed pipe (`| head`) is no failure.
                if args.once || written.is_err() {
                    return 0;
                }
                before = Some(look);
            }
        }
        // Times out, which is what it is for.
        let _ = pause.recv_timeout(Duration::from_secs(args.interval));
    }
}
