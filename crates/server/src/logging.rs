//! Logs: one subscriber for the process, text or JSON, and panics as events.

use crate::cli::LogFormat;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::OnceLock;
use tracing_subscriber::EnvFilter;

/// What is logged when nobody says.
const FILTER_DEFAULT: &str = "info";
/// The name of the level of what has none of its own.
pub const ROOT: &str = "ROOT";
/// Levels, and what turns a part of the log off.
const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "off"];

/// The filter of the process's log. There is one log, as there is one standard error.
static FILTER: OnceLock<Filter> = OnceLock::new();

struct Filter {
    started_with: String,
    /// What was changed since, by part of the program.
    changed: Mutex<BTreeMap<String, &'static str>>,
    put: Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>,
}

/// Levels of the log: that of [`ROOT`], then those of parts of the program.
pub fn levels() -> Vec<(String, String)> {
    let Some(filter) = FILTER.get() else { return Vec::new() };
    let changed = filter.changed.lock();
    let mut levels = BTreeMap::from([(ROOT.to_owned(), "OFF".to_owned())]);
    for directive in filter.started_with.split(',').map(str::trim).filter(|d| !d.is_empty()) {
        match directive.split_once('=') {
            Some((part, level)) => levels.insert(part.to_owned(), level.to_ascii_uppercase()),
            None if LEVELS.contains(&directive.to_ascii_lowercase().as_str()) => {
                levels.insert(ROOT.to_owned(), directive.to_ascii_uppercase())
            }
            None => levels.insert(directive.to_owned(), "TRACE".to_owned()),
        };
    }
    levels.extend(changed.iter().map(|(part, level)| (part.clone(), level.to_ascii_uppercase())));
    // In capitals it stands before all parts.
    levels.into_iter().collect()
}

/// Has a part of the program, or [`ROOT`], log from `level` on. Without a part everything is as at the start.
///
/// # Errors
/// What is wrong with the level or the part.
pub fn set_level(part: Option<(&str, &str)>) -> Result<(), String> {
    let Some(filter) = FILTER.get() else { return Err("this process has no log".to_owned()) };
    let mut changed = filter.changed.lock();
    let mut wanted = changed.clone();
    match part {
        None => wanted.clear(),
        Some((part, _)) if part.is_empty() || !part.chars().all(is_of_path) => {
            return Err(format!(
                "{part} is no part of Ilion; parts are named as engine::background or {ROOT}"
            ));
        }
        Some((part, level)) => {
            let level = match level.to_ascii_lowercase().as_str() {
                "all" => "trace",
                word => *LEVELS.iter().find(|known| **known == word).ok_or_else(|| {
                    format!("{level} is no level: ALL, TRACE, DEBUG, INFO, WARN, ERROR, OFF")
                })?,
            };
            wanted.insert(part.to_owned(), level);
        }
    }
    let mut directives = filter.started_with.clone();
    for (part, level) in &wanted {
        directives.push(',');
        if part != ROOT {
            directives.push_str(part);
            directives.push('=');
        }
        directives.push_str(level);
    }
    let parsed = EnvFilter::try_new(&directives).map_err(|e| e.to_string())?;
    (filter.put)(parsed)?;
    *changed = wanted;
    Ok(())
}

/// Starts logging to standard error. Filters: the flag, else RUST_LOG, else `info`.
///
/// # Errors
/// When the directives make no sense.
pub fn start(format: LogFormat, level: Option<&str>) -> Result<(), String> {
    let directives = match level {
        Some(level) => level.to_owned(),
        None => std::env::var("RUST_LOG").unwrap_or_else(|_| FILTER_DEFAULT.to_owned()),
    };
    let filter = EnvFilter::try_new(&directives).map_err(|e| format!("--log-level {directives:?}: {e}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written, on a full disk, say, is no reason to panic.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    let put: Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;
    let started = match format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            put = Box::new(move |filter| handle.reload(filter).map_err(|e| e.to_string()));
            builder.try_init()
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            put = Box::new(move |filter| handle.reload(filter).map_err(|e| e.to_string()));
            builder.try_init()
        }
    };
    started.map_err(|e| format!("logging cannot start: {e}"))?;
    // A second start was refused just now.
    let _ = FILTER.set(Filter { started_with: directives, changed: Mutex::default(), put });
    Ok(())
}

/// Whether a name of a part of the program may have it.
fn is_of_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Logs panics and counts them, instead of printing them. A panic ends its task, not the process.
pub fn log_panics(metrics: std::sync::Arc<crate::metrics::Metrics>) {
    std::panic::set_hook(Box::new(move |info| {
        metrics.exceptions.add(1);
        let message = info
            .payload()
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| info.payload().downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without text".to_owned());
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
        let trace = std::backtrace::Backtrace::capture();
        tracing::error!(%place, thread, %trace, "a task panicked: {message}");
    }));
}
