//! Logs: one subscriber for the process, text or JSON, and panics as events.

use crate::cli::LogFormat;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// What is logged when nobody says.
const FILTER_DEFAULT: &str = "info";

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
    let started = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|e| format!("logging cannot start: {e}"))
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
