//! The routes about the logs of what clients do: how they are, and turning them on and off.

use super::handlers::Api;
use super::{ApiError, Json};
use crate::audit::{AuditLogger, AuditOptions, LogOptions, QueryLogError, QueryLogOptions, RollCycle};
use crate::node::Node;
use crate::slices::take_time;
use axum::extract::State;
use axum::http::StatusCode;
use std::sync::Arc;
use tools::api::{AuditLog, EnableAuditLog, EnableFullQueryLog, FullQueryLog, LogChanges};

/// Largest queue that Cassandra's type takes.
const QUEUE_WEIGHT_MAX: u64 = (1 << 31) - 1;

pub(super) async fn audit(State(node): State<Arc<Node>>) -> Api<AuditLog> {
    let logs = &node.state.logs;
    let (enabled, options) = logs.audit_options();
    let AuditOptions { logger, filter, audit_logs_dir, log, .. } = options;
    Ok(axum::Json(AuditLog {
        enabled,
        logger: logger.name().to_owned(),
        audit_logs_dir: audit_logs_dir.map(|path| path.display().to_string()).unwrap_or_default(),
        archive_command: String::new(),
        roll_cycle: log.roll_cycle.word().to_owned(),
        block: log.block,
        max_log_size: log.max_log_size,
        max_queue_weight: log.max_queue_weight,
        max_archive_retries: 10,
        included_keyspaces: filter.included_keyspaces,
        excluded_keyspaces: filter.excluded_keyspaces,
        included_categories: filter.included_categories,
        excluded_categories: filter.excluded_categories,
        included_users: filter.included_users,
        excluded_users: filter.excluded_users,
        written: logs.audit_counts.written.get(),
        dropped: logs.audit_counts.dropped.get(),
    }))
}

pub(super) async fn enable_audit(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<EnableAuditLog>,
) -> Result<StatusCode, ApiError> {
    let options = audit_options(node.state.logs.configured_audit(), wanted).map_err(ApiError::failed)?;
    let state = Arc::clone(&node.state);
    tracing::info!(?options, "the audit log is turned on, as the operator asked");
    let done = take_time(move || state.logs.enable_audit(&options)).await;
    let done = done.map_err(|error| ApiError::failed(format!("the operation did not end: {error}")))?;
    done.map_err(|error| ApiError::failed(error.to_string()))?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn disable_audit(State(node): State<Arc<Node>>) -> Result<StatusCode, ApiError> {
    let state = Arc::clone(&node.state);
    let done = take_time(move || state.logs.disable_audit()).await;
    done.map_err(|error| ApiError::failed(format!("the operation did not end: {error}")))?;
    tracing::info!("the audit log is turned off, as the operator asked");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn queries(State(node): State<Arc<Node>>) -> axum::Json<FullQueryLog> {
    let logs = &node.state.logs;
    let (enabled, QueryLogOptions { log_dir, log }) = logs.query_options();
    axum::Json(FullQueryLog {
        enabled,
        log_dir: log_dir.map(|path| path.display().to_string()).unwrap_or_default(),
        archive_command: String::new(),
        roll_cycle: log.roll_cycle.word().to_owned(),
        block: log.block,
        max_log_size: log.max_log_size,
        max_queue_weight: log.max_queue_weight,
        max_archive_retries: 10,
        written: logs.query_counts.written.get(),
        dropped: logs.query_counts.dropped.get(),
    })
}

pub(super) async fn enable_queries(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<EnableFullQueryLog>,
) -> Result<StatusCode, ApiError> {
    let mut options = node.state.logs.configured_queries().clone();
    change(&mut options.log, wanted.log).map_err(ApiError::failed)?;
    if let Some(path) = given(wanted.path) {
        options.log_dir = Some(path.into());
    }
    let state = Arc::clone(&node.state);
    tracing::info!(?options, "the full query log is turned on, as the operator asked");
    let done = take_time(move || state.logs.enable_queries(&options)).await;
    let done = done.map_err(|error| ApiError::failed(format!("the operation did not end: {error}")))?;
    done.map_err(|error| match error {
        QueryLogError::IsOn | QueryLogError::NoDirectory => {
            ApiError::new(StatusCode::CONFLICT, "refused", error.to_string())
        }
        QueryLogError::Io(_) => ApiError::failed(error.to_string()),
    })?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn disable_queries(State(node): State<Arc<Node>>) -> Result<StatusCode, ApiError> {
    let state = Arc::clone(&node.state);
    let done = take_time(move || state.logs.disable_queries()).await;
    done.map_err(|error| ApiError::failed(format!("the operation did not end: {error}")))?;
    tracing::info!("the full query log is turned off, as the operator asked");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn reset_queries(State(node): State<Arc<Node>>) -> Result<StatusCode, ApiError> {
    let state = Arc::clone(&node.state);
    let done = take_time(move || state.logs.reset_queries()).await;
    let done = done.map_err(|error| ApiError::failed(format!("the operation did not end: {error}")))?;
    let files = done.map_err(|error| ApiError::failed(error.to_string()))?;
    tracing::info!(files, "the full query log is off and its files are gone, as the operator asked");
    Ok(StatusCode::NO_CONTENT)
}

/// What cassandra.yaml says with what the operator says.
fn audit_options(configured: &AuditOptions, wanted: EnableAuditLog) -> Result<AuditOptions, String> {
    let mut options = configured.clone();
    change(&mut options.log, wanted.log)?;
    if let Some(class) = given(wanted.logger) {
        options.logger = AuditLogger::parse(&class)?;
    }
    let filter = &mut options.filter;
    for (list, wanted) in [
        (&mut filter.included_keyspaces, wanted.included_keyspaces),
        (&mut filter.excluded_keyspaces, wanted.excluded_keyspaces),
        (&mut filter.included_categories, wanted.included_categories.map(|list| list.to_uppercase())),
        (&mut filter.excluded_categories, wanted.excluded_categories.map(|list| list.to_uppercase())),
        (&mut filter.included_users, wanted.included_users),
        (&mut filter.excluded_users, wanted.excluded_users),
    ] {
        if let Some(wanted) = given(wanted) {
            *list = wanted;
        }
    }
    options.filter.check()?;
    Ok(options)
}

/// What says something: a blank text is none, as in Cassandra.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

/// Changes a log's queue and files.
fn change(options: &mut LogOptions, wanted: LogChanges) -> Result<(), String> {
    if given(wanted.archive_command).is_some() {
        // In Cassandra's words where its configuration does not allow it, which Ilion's never does.
        return Err("Can't enable audit log archiving via nodetool unless \
                    audit_logging_options.allow_nodetool_archive_command is set to true, and Ilion runs no commands"
            .to_owned());
    }
    if let Some(word) = given(wanted.roll_cycle) {
        options.roll_cycle = RollCycle::parse(&word)?;
    }
    options.block = wanted.block.unwrap_or(options.block);
    if let Some(weight) = wanted.max_queue_weight {
        if !(1..=QUEUE_WEIGHT_MAX).contains(&weight) {
            return Err(format!("max_queue_weight must lie between 1 and {QUEUE_WEIGHT_MAX}, not {weight}"));
        }
        options.max_queue_weight = weight;
    }
    if let Some(size) = wanted.max_log_size {
        if size == 0 {
            return Err("max_log_size must be positive".to_owned());
        }
        options.max_log_size = size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_stays_as_it_is_configured() {
        let configured = AuditOptions { audit_logs_dir: Some("/audit".into()), ..AuditOptions::default() };
        let wanted = EnableAuditLog {
            logger: Some("org.apache.cassandra.audit.FileAuditLogger".to_owned()),
            included_categories: Some("query".to_owned()),
            excluded_keyspaces: Some(String::new()),
            log: LogChanges { block: Some(false), ..LogChanges::default() },
            ..EnableAuditLog::default()
        };
        let options = audit_options(&configured, wanted).unwrap();
        assert_eq!((options.logger, options.log.block), (AuditLogger::File, false));
        assert_eq!(options.filter.included_categories, "QUERY");
        assert_eq!(options.filter.excluded_keyspaces, configured.filter.excluded_keyspaces);
        assert_eq!(options.audit_logs_dir, configured.audit_logs_dir);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refusal = |wanted| audit_options(&AuditOptions::default(), wanted).unwrap_err();
        let logger = EnableAuditLog { logger: Some("Nosuch".to_owned()), ..EnableAuditLog::default() };
        assert!(refusal(logger).contains("'org.apache.cassandra.audit.Nosuch'"));
        let archive = LogChanges { archive_command: Some("mv %path".to_owned()), ..LogChanges::default() };
        let archive = EnableAuditLog { log: archive, ..EnableAuditLog::default() };
        assert!(refusal(archive).contains("allow_nodetool_archive_command"));
    }
}
