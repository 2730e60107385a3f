//! Verbs about the logs of what clients do.

use super::{Failure, Show, silently};
use crate::api::{AuditLog, EnableAuditLog, EnableFullQueryLog, FullQueryLog, LogChanges};
use crate::format::columns;
use clap::{Args, Subcommand};

const AUDIT: &str = "/api/v1/audit";
const QUERIES: &str = "/api/v1/full_query_log";

/// Verbs about the audit log and the full query log.
#[derive(Debug, Subcommand)]
pub(super) enum LogVerb {
    /// Enable the audit log
    Enableauditlog(Box<EnableArgs>),
    /// Disable the audit log
    Disableauditlog,
    /// Print configuration of audit log if enabled, otherwise the configuration reflected in cassandra.yaml
    Getauditlog,
    /// Enable full query logging
    Enablefullquerylog {
        /// Path to store the full query log at. If not set the value from cassandra.yaml will be used
        #[arg(long)]
        path: Option<String>,
        #[command(flatten)]
        log: LogArgs,
    },
    /// Disable the full query log
    Disablefullquerylog,
    /// Stop the full query log and clean files in the configured full query log directory from cassandra.yaml
    /// as well as the one that was used last
    Resetfullquerylog,
    /// Print configuration of fql if enabled, otherwise the configuration reflected in cassandra.yaml
    Getfullquerylog,
}

/// Arguments of `enableauditlog`. What is not given is as cassandra.yaml has it.
#[derive(Debug, Args)]
pub(super) struct EnableArgs {
    /// Logger name to be used for AuditLogging: BinAuditLogger, FileAuditLogger or NoOpAuditLogger
    #[arg(long)]
    logger: Option<String>,
    /// Comma separated list of keyspaces to be included for audit log
    #[arg(long)]
    included_keyspaces: Option<String>,
    /// Comma separated list of keyspaces to be excluded for audit log
    #[arg(long)]
    excluded_keyspaces: Option<String>,
    /// Comma separated list of Audit Log Categories to be included for audit log
    #[arg(long)]
    included_categories: Option<String>,
    /// Comma separated list of Audit Log Categories to be excluded for audit log
    #[arg(long)]
    excluded_categories: Option<String>,
    /// Comma separated list of users to be included for audit log
    #[arg(long)]
    included_users: Option<String>,
    /// Comma separated list of users to be excluded for audit log
    #[arg(long)]
    excluded_users: Option<String>,
    #[command(flatten)]
    log: LogArgs,
}

/// Arguments about a log's queue and files.
#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// How often to roll the log file (MINUTELY, HOURLY, DAILY)
    #[arg(long)]
    roll_cycle: Option<String>,
    /// If the queue is full whether to block producers, for a bounded time, or drop samples [true|false]
    #[arg(long)]
    blocking: Option<String>,
    /// Maximum number of bytes of query data to queue to disk before blocking or dropping samples
    #[arg(long)]
    max_queue_weight: Option<u64>,
    /// How many bytes of log data to store before dropping segments
    #[arg(long)]
    max_log_size: Option<u64>,
    /// Command that will handle archiving rolled log files; refused: Ilion runs none
    #[arg(long)]
    archive_command: Option<String>,
    /// Max number of archive retries; without effect
    #[arg(long, allow_negative_numbers = true)]
    max_archive_retries: Option<i64>,
}

impl LogArgs {
    fn changes(&self) -> Result<LogChanges, Failure> {
        let block = match self.blocking.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => {
                let given = self.blocking.as_deref().unwrap_or_default();
                let words = format!("Invalid [{given}]. Blocking only accepts 'true' or 'false'.");
                return Err(Failure::Usage(words));
            }
        };
        Ok(LogChanges {
            roll_cycle: self.roll_cycle.clone(),
            block,
            max_queue_weight: self.max_queue_weight,
            max_log_size: self.max_log_size,
            archive_command: self.archive_command.clone(),
        })
    }
}

impl LogVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let client = show.client;
        match self {
            LogVerb::Enableauditlog(args) => {
                let wanted = EnableAuditLog {
                    logger: args.logger.clone(),
                    included_keyspaces: args.included_keyspaces.clone(),
                    excluded_keyspaces: args.excluded_keyspaces.clone(),
                    included_categories: args.included_categories.clone(),
                    excluded_categories: args.excluded_categories.clone(),
                    included_users: args.included_users.clone(),
                    excluded_users: args.excluded_users.clone(),
                    log: args.log.changes()?,
                };
                silently(client.put(AUDIT, &wanted))
            }
            LogVerb::Disableauditlog => silently(client.delete(AUDIT, &())),
            LogVerb::Getauditlog => show.get(AUDIT, &[], audit_text),
            LogVerb::Enablefullquerylog { path, log } => {
                let wanted = EnableFullQueryLog { path: path.clone(), log: log.changes()? };
                silently(client.put(QUERIES, &wanted))
            }
            LogVerb::Disablefullquerylog => silently(client.delete(QUERIES, &())),
            LogVerb::Resetfullquerylog => silently(client.post(&format!("{QUERIES}/reset"), &())),
            LogVerb::Getfullquerylog => show.get(QUERIES, &[], queries_text),
        }
    }
}

fn audit_text(audit: &AuditLog) -> String {
    table(&[
        ("enabled", audit.enabled.to_string()),
        ("logger", audit.logger.clone()),
        ("audit_logs_dir", audit.audit_logs_dir.clone()),
        ("archive_command", audit.archive_command.clone()),
        ("roll_cycle", audit.roll_cycle.clone()),
        ("block", audit.block.to_string()),
        ("max_log_size", audit.max_log_size.to_string()),
        ("max_queue_weight", audit.max_queue_weight.to_string()),
        ("max_archive_retries", audit.max_archive_retries.to_string()),
        ("included_keyspaces", audit.included_keyspaces.clone()),
        ("excluded_keyspaces", audit.excluded_keyspaces.clone()),
        ("included_categories", audit.included_categories.clone()),
        ("excluded_categories", audit.excluded_categories.clone()),
        ("included_users", audit.included_users.clone()),
        ("excluded_users", audit.excluded_users.clone()),
    ])
}

fn queries_text(queries: &FullQueryLog) -> String {
    table(&[
        ("enabled", queries.enabled.to_string()),
        ("log_dir", queries.log_dir.clone()),
        ("archive_command", queries.archive_command.clone()),
        ("roll_cycle", queries.roll_cycle.clone()),
        ("block", queries.block.to_string()),
        ("max_log_size", queries.max_log_size.to_string()),
        ("max_queue_weight", queries.max_queue_weight.to_string()),
        ("max_archive_retries", queries.max_archive_retries.to_string()),
    ])
}

/// Names and values as nodetool's tables have them.
fn table(rows: &[(&str, String)]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|(name, value)| vec![(*name).to_owned(), value.clone()]).collect();
    columns(&rows, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_log_is_printed_as_nodetool_prints_it() {
        let audit = AuditLog {
            enabled: true,
            logger: "BinAuditLogger".to_owned(),
            audit_logs_dir: "/audit".to_owned(),
            max_log_size: 17_179_869_184,
            ..AuditLog::default()
        };
        let text = audit_text(&audit);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 15);
        assert_eq!(lines[0], "enabled             true          ");
        assert_eq!(lines[1], "logger              BinAuditLogger");
        assert_eq!(lines[6], "max_log_size        17179869184   ");
    }

    #[test]
    fn blocking_is_true_or_false() {
        let args = |blocking: &str| LogArgs {
            roll_cycle: None,
            blocking: Some(blocking.to_owned()),
            max_queue_weight: None,
            max_log_size: None,
            archive_command: None,
            max_archive_retries: None,
        };
        assert_eq!(args("FALSE").changes().unwrap().block, Some(false));
        let refused = args("maybe").changes().unwrap_err().to_string();
        assert_eq!(refused, "Invalid [maybe]. Blocking only accepts 'true' or 'false'.");
    }
}
