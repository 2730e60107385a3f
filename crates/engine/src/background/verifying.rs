//! The check of whole SSTables that an operator asks for: every component, row and checksum, from the files.

use crate::background::Background;
use crate::error::EngineError;
use crate::table::TableStore;
use crate::turns::{give_way, in_turns};
use partition::ReadError;
use sstable::{SsTable, Verified, verify_as};
use std::sync::Arc;

/// What is wrong with an SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSsTable {
    /// Its name.
    pub sstable: String,
    /// Whether it is only of another version than new ones.
    pub is_outdated: bool,
    /// The first of what was found.
    pub finding: String,
}

/// How SSTables are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Whether those of another version than new ones are told of.
    pub check_version: bool,
    /// Whether damage is acted on as `disk_failure_policy` says.
    pub tells_disk_failure: bool,
}

impl Background {
    /// [`crate::Engine::verify`].
    pub(crate) fn verify(
        &self,
        keyspace: &str,
        table: &str,
        options: VerifyOptions,
    ) -> Result<Vec<DamagedSsTable>, EngineError> {
        let table = self.catalog.table_named(keyspace, table)?;
        let mut damaged = Vec::new();
        for sstable in table.view().sstables.iter() {
            let name = || sstable.descriptor().to_string();
            if options.check_version && sstable.descriptor().version != self.catalog.files.version {
                let version = sstable.descriptor().version;
                let finding = format!("it is of version {version}, which is not the newest");
                damaged.push(DamagedSsTable { sstable: name(), is_outdated: true, finding });
            }
            let Some(finding) = self.finding(&table, sstable)? else { continue };
            tracing::error!(sstable = name(), finding, "an SSTable is damaged");
            if options.tells_disk_failure {
                let error = ReadError::corrupt(&name().as_str().into(), 0, finding.clone());
                self.catalog.report_read_failure(&error);
            }
            damaged.push(DamagedSsTable { sstable: name(), is_outdated: false, finding });
        }
        Ok(damaged)
    }

    /// The first thing that is wrong with an SSTable; none if it is no part of the table any more.
    fn finding(&self, table: &TableStore, sstable: &Arc<SsTable>) -> Result<Option<String>, EngineError> {
        let is_here = || table.view().sstables.iter().any(|t| Arc::ptr_eq(t, sstable));
        let fs = self.catalog.env.fs.as_ref();
        let schema = table.schema();
        let check = || in_turns(|| verify_as(fs, sstable.descriptor(), Some(&schema), &|_| give_way()));
        // A component may just be written: what is wrong is so a second time.
        for _ in 0..2 {
            match check() {
                _ if !is_here() => return Ok(None),
                Ok(Verified { findings, .. }) if findings.is_empty() => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let found = check()?.findings;
        Ok(found
            .first()
            .filter(|_| is_here())
            .map(|first| format!("{}: expected {}, found {}", first.component, first.expected, first.found)))
    }
}
