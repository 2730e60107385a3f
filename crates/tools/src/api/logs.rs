//! The logs of what clients do.

use serde::{Deserialize, Serialize};

/// Answer of `GET /audit`: how the audit log is, or how a start would have it where it is off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the keys of cassandra.yaml")]
pub struct AuditLog {
    pub enabled: bool,
    pub logger: String,
    pub audit_logs_dir: String,
    pub archive_command: String,
    pub roll_cycle: String,
    pub block: bool,
    pub max_log_size: u64,
    pub max_queue_weight: u64,
    pub max_archive_retries: u32,
    pub included_keyspaces: String,
    pub excluded_keyspaces: String,
    pub included_categories: String,
    pub excluded_categories: String,
    pub included_users: String,
    pub excluded_users: String,
    /// Entries in files since the start.
    #[serde(default)]
    pub written: u64,
    /// Entries that were dropped since the start.
    #[serde(default)]
    pub dropped: u64,
}

/// Body of `PUT /audit`: what is not given stays as cassandra.yaml has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the keys of cassandra.yaml")]
pub struct EnableAuditLog {
    pub logger: Option<String>,
    pub included_keyspaces: Option<String>,
    pub excluded_keyspaces: Option<String>,
    pub included_categories: Option<String>,
    pub excluded_categories: Option<String>,
    pub included_users: Option<String>,
    pub excluded_users: Option<String>,
    #[serde(flatten)]
    pub log: LogChanges,
}

/// What is given of a log's queue and files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "the keys of cassandra.yaml")]
pub struct LogChanges {
    pub roll_cycle: Option<String>,
    pub block: Option<bool>,
    pub max_queue_weight: Option<u64>,
    pub max_log_size: Option<u64>,
    pub archive_command: Option<String>,
}

/// Answer of `GET /full_query_log`: how the full query log is, or how cassandra.yaml has it where it is off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the keys of cassandra.yaml")]
pub struct FullQueryLog {
    pub enabled: bool,
    pub log_dir: String,
    pub archive_command: String,
    pub roll_cycle: String,
    pub block: bool,
    pub max_log_size: u64,
    pub max_queue_weight: u64,
    pub max_archive_retries: u32,
    /// Records in files since the start.
    #[serde(default)]
    pub written: u64,
    /// Records that were dropped since the start.
    #[serde(default)]
    pub dropped: u64,
}

/// Body of `PUT /full_query_log`: what is not given stays as cassandra.yaml has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnableFullQueryLog {
    /// The directory.
    pub path: Option<String>,
    /// Queue and files.
    #[serde(flatten)]
    pub log: LogChanges,
}
