//! How the audit log is: what `audit_logging_options` of cassandra.yaml and `nodetool enableauditlog` say.

use std::path::PathBuf;

use super::{FilterOptions, LogOptions};

/// The package of Cassandra's loggers.
const PACKAGE: &str = "org.apache.cassandra.audit.";

/// How entries are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditLogger {
    /// BinAuditLogger: as lines of JSON.
    #[default]
    Bin,
    /// FileAuditLogger: as Cassandra's text.
    File,
    /// NoOpAuditLogger: not at all.
    NoOp,
}

impl AuditLogger {
    const ALL: [AuditLogger; 3] = [AuditLogger::Bin, AuditLogger::File, AuditLogger::NoOp];

    /// Cassandra's class, without its package.
    pub fn name(self) -> &'static str {
        match self {
            AuditLogger::Bin => "BinAuditLogger",
            AuditLogger::File => "FileAuditLogger",
            AuditLogger::NoOp => "NoOpAuditLogger",
        }
    }

    /// The logger of a class, with its package or without.
    ///
    /// # Errors
    /// In Cassandra's words, and which there are.
    pub fn parse(class: &str) -> Result<AuditLogger, String> {
        let class = class.trim();
        let short = class.strip_prefix(PACKAGE).unwrap_or(class);
        AuditLogger::ALL.into_iter().find(|logger| logger.name() == short).ok_or_else(|| {
            let full = if class.contains('.') { class.to_owned() } else { format!("{PACKAGE}{class}") };
            format!(
                "Unable to find Audit logger class '{full}'; Ilion has BinAuditLogger, FileAuditLogger and \
                 NoOpAuditLogger"
            )
        })
    }
}

/// How the audit log is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuditOptions {
    /// Whether it is on.
    pub enabled: bool,
    /// How entries are written.
    pub logger: AuditLogger,
    /// Which entries are.
    pub filter: FilterOptions,
    /// Where its files are; `audit` beside the data when not set.
    pub audit_logs_dir: Option<PathBuf>,
    /// Queue and files.
    pub log: LogOptions,
}

impl AuditOptions {
    /// Whether the same files are written in the same way.
    pub(super) fn is_written_as(&self, other: &AuditOptions) -> bool {
        (self.logger, &self.audit_logs_dir, &self.log) == (other.logger, &other.audit_logs_dir, &other.log)
    }
}
