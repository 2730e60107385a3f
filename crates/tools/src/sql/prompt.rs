//! Statements that are typed.

use super::{Session, complain};
use crate::console;
use crate::tables::{Failure, statements};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use std::path::PathBuf;

/// The file in the home directory that keeps what was typed.
const HISTORY: &str = ".ilion_sql_history";
const HELP: &str = "\
Statements end with a semicolon. SHOW TABLES; lists the tables, EXPLAIN SELECT ...; says how a statement is run.
\\d lists the tables, \\d TABLE the columns of one, \\q ends.
";

/// Reads and runs statements until the end of input.
pub(super) fn run(session: &Session) -> Result<(), Failure> {
    let config = Config::builder().auto_add_history(false).build();
    let mut editor: Editor<(), FileHistory> = Editor::with_config(config).map_err(Failure::work)?;
    let history = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(HISTORY));
    if let Some(path) = &history {
        // There is none at first.
        let _ = editor.load_history(path);
    }
    console::complain("Statements end with a semicolon; \\? helps, \\q ends.\n");
    let mut typed = String::new();
    loop {
        let line = match editor.readline(if typed.is_empty() { "ilion> " } else { "  ...> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                typed.clear();
                continue;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(Failure::work(error)),
        };
        let word = line.trim();
        if typed.is_empty() {
            match word {
                "" => continue,
                "\\q" | "quit" | "exit" | "quit;" | "exit;" => break,
                "\\?" | "help" | "help;" => {
                    console::complain(HELP);
                    continue;
                }
                _ => {}
            }
        }
        typed.push_str(&line);
        typed.push('\n');
        let is_short = typed.starts_with('\\');
        if !is_short && !ends_a_statement(&typed) {
            continue;
        }
        let _ = editor.add_history_entry(typed.trim());
        let text = if is_short { in_full(typed.trim()) } else { std::mem::take(&mut typed) };
        typed.clear();
        if let Err(failure) = session.run_all(&text) {
            complain(failure);
        }
        if let Some(path) = &history {
            // A home that cannot be written to keeps nothing.
            let _ = editor.save_history(path);
        }
    }
    Ok(())
}

/// The statement that a short command stands for.
fn in_full(command: &str) -> String {
    match command.split_once(char::is_whitespace) {
        None if command == "\\d" => "SELECT table_schema, table_name FROM information_schema.tables \
             WHERE table_schema NOT IN ('information_schema', 'any') ORDER BY 1, 2"
            .to_owned(),
        Some(("\\d", table)) => format!("DESCRIBE {}", table.trim()),
        _ => command.to_owned(),
    }
}

/// Whether the last semicolon of a text ends a statement.
fn ends_a_statement(text: &str) -> bool {
    // Behind one that does there is nothing, which makes no statement more.
    text.trim_end().ends_with(';') && statements(&format!("{text}x")).len() > statements(text).len()
}
