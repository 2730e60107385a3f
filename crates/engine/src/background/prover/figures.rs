//! What the prover has done, and what is left, in numbers.

use crate::background::Background;
use std::sync::atomic::Ordering;

/// Numbers of the prover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProvingStats {
    /// SSTables found to be as they were written.
    pub proven: u64,
    /// SSTables that are not known to be so.
    pub unproven: u64,
    /// SSTables that are known not to be so, or were before the node started: reads of them fail.
    pub condemned: u64,
    /// SSTables whose large partitions were described by this process.
    pub adopted: u64,
    /// SSTables with large partitions that are still to be described.
    pub unadopted: u64,
    /// Large partitions that are described, and bytes on disk that this takes.
    pub adopted_partitions: u64,
    /// See [`ProvingStats::adopted_partitions`].
    pub adopted_bytes: u64,
    /// Bytes of Data.db read for it.
    pub bytes: u64,
}

/// SSTables of a table that other programs wrote, as far as they have large partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableAdoption {
    /// Keyspace of the table.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// SSTables whose large partitions are described.
    pub described: u64,
    /// SSTables that are still to be described.
    pub waiting: u64,
    /// Large partitions that are described.
    pub partitions: u64,
    /// Bytes on disk that this takes.
    pub bytes: u64,
}

impl Background {
    /// [`crate::Engine::proving_stats`].
    pub(crate) fn proving_stats(&self) -> ProvingStats {
        let mut stats = ProvingStats {
            proven: self.prover.proven.load(Ordering::Relaxed),
            adopted: self.prover.adopted.load(Ordering::Relaxed),
            bytes: self.prover.bytes.load(Ordering::Relaxed),
            ..ProvingStats::default()
        };
        for table in self.catalog.tables() {
            for sstable in table.view().sstables.iter() {
                stats.unproven += u64::from(sstable.is_unproven());
                stats.condemned += u64::from(sstable.refusal().is_some());
                stats.unadopted += u64::from(sstable.wants_adoption());
                let (partitions, bytes) = sstable.adopted().unwrap_or_default();
                stats.adopted_partitions += partitions;
                stats.adopted_bytes += bytes;
            }
        }
        stats
    }

    /// [`crate::Engine::adoption`].
    pub(crate) fn adoption(&self) -> Vec<TableAdoption> {
        let mut out = Vec::new();
        for table in self.catalog.tables() {
            let schema = table.schema();
            let (keyspace, table_name) = (schema.keyspace.clone(), schema.name.clone());
            let mut found = TableAdoption { keyspace, table: table_name, ..TableAdoption::default() };
            for sstable in table.view().sstables.iter() {
                found.waiting += u64::from(sstable.wants_adoption());
                if let Some((partitions, bytes)) = sstable.adopted() {
                    found.described += 1;
                    found.partitions += partitions;
                    found.bytes += bytes;
                }
            }
            if found.waiting + found.described > 0 {
                out.push(found);
            }
        }
        out.sort_by(|a, b| (&a.keyspace, &a.table).cmp(&(&b.keyspace, &b.table)));
        out
    }
}
