//! Compactions, and what else reads or writes whole SSTables: what operators ask for, set and see.

use super::{StorageError, names, parse_key, resolve};
use engine::table::TableStore;
use engine::{CompactionKind, CompactionRequest, Engine, SnapshotOptions, Thresholds, VerifyOptions};
use model::key::{KeyBound, KeyRange, Token};
use model::{DecoratedKey, PartitionKey, TableSchema};
use partition::Garbage;
use std::cmp::Ordering;
use std::path::PathBuf;
use std::sync::Arc;
use tools::api::{
    AutocompactionStatus, COMPACTION, CollectGarbage, Compact, CompactionStats, CompactionTask,
    CompactionThresholds, ConcurrentCompactors, ForceCompact, Granularity, PendingTasks, QualifiedTable,
    ScrubSstables, Selection, SstableFinding, TableAdoption, TokenRange, UpgradeSstables, VERIFY,
    VerifySstables,
};

/// As the configuration bounds it.
const COMPACTORS_MAX: usize = 4_096;

/// Tables with SSTables of Cassandra that have large partitions.
pub fn adoption(engine: &Engine) -> Vec<TableAdoption> {
    let of = |found: engine::TableAdoption| {
        let engine::TableAdoption { keyspace, table, described, waiting, partitions, bytes } = found;
        TableAdoption { keyspace, table, described, waiting, partitions, bytes }
    };
    engine.adoption().into_iter().map(of).collect()
}

/// Compactions.
pub fn compactions(engine: &Engine) -> CompactionStats {
    let (completed, failed) = engine.compaction_counts();
    let pending_by_table: Vec<PendingTasks> = engine
        .pending_compactions()
        .into_iter()
        .map(|(table, tasks)| {
            let (keyspace, table) = names(&table.schema());
            PendingTasks { keyspace, table, tasks: tasks as u64 }
        })
        .collect();
    CompactionStats {
        concurrent_compactors: engine.concurrent_compactors() as u64,
        pending: pending_by_table.iter().map(|p| p.tasks).sum(),
        pending_by_table,
        completed,
        failed,
        throughput_bytes: engine.compaction_throughput(),
        active: engine
            .compactions()
            .into_iter()
            .chain(engine.proving())
            .map(|info| CompactionTask {
                id: info.id.to_string(),
                kind: info.kind.name().to_owned(),
                keyspace: info.keyspace,
                table: info.table,
                completed: info.completed_bytes,
                total: info.total_bytes,
                unit: "bytes".to_owned(),
                sstables: info.inputs as u64,
            })
            .collect(),
    }
}

/// Merges SSTables of tables now.
///
/// # Errors
/// An unknown name, a partition that is none, or what a compaction failed with.
pub fn compact(engine: &Engine, wanted: &Compact) -> Result<(), StorageError> {
    for (table, files) in by_table(engine, &wanted.files)? {
        let schema = table.schema();
        let request = CompactionRequest::Files(files);
        engine.compact_as(&schema.keyspace, Some(&schema.name), &request)?;
    }
    if !wanted.files.is_empty() {
        return Ok(());
    }
    for (keyspace, name) in resolve(engine, &wanted.selection)? {
        let request = match (&wanted.partition, wanted.range) {
            (Some(partition), _) => {
                let schema = engine.table_named(&keyspace, &name)?.schema();
                let key = partition_key(&schema, partition, engine.env().now_micros() / 1_000)?;
                let bound = || KeyBound::Key { key: key.clone(), inclusive: true };
                CompactionRequest::Ranges(vec![KeyRange { start: bound(), end: bound() }])
            }
            (None, Some(range)) => CompactionRequest::Ranges(key_ranges(range)),
            (None, None) => CompactionRequest::Whole { split: wanted.split },
        };
        engine.compact_as(&keyspace, Some(&name), &request)?;
    }
    Ok(())
}

/// A table with those of its files that were named.
type NamedFiles = (Arc<TableStore>, Vec<PathBuf>);

/// Named files, by the table that they are of.
fn by_table(engine: &Engine, files: &[PathBuf]) -> Result<Vec<NamedFiles>, StorageError> {
    let mut out: Vec<NamedFiles> = Vec::new();
    for file in files {
        let table = engine.table_of_file(file).ok_or_else(|| {
            StorageError::Invalid(format!("{} is no Data.db of a table here", file.display()))
        })?;
        match out.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &table)) {
            Some((_, files)) => files.push(file.clone()),
            None => out.push((table, vec![file.clone()])),
        }
    }
    Ok(out)
}

/// A partition key as nodetool has it: components between colons.
fn partition_key(schema: &TableSchema, text: &str, now_ms: i64) -> Result<DecoratedKey, StorageError> {
    let unfit = |why: String| {
        let (keyspace, table) = (&schema.keyspace, &schema.name);
        let refusal = format!("Unable to parse partition key '{text}' for table {keyspace}.{table}; {why}");
        StorageError::Invalid(refusal)
    };
    let columns = schema.partition_key();
    let parts: Vec<&str> = if columns.len() == 1 { vec![text] } else { text.split(':').collect() };
    if parts.len() != columns.len() {
        return Err(unfit(format!("it has {} components, and the key has {}", parts.len(), columns.len())));
    }
    let values = columns.iter().zip(parts).map(|(column, part)| column.ty.parse_text(part, now_ms));
    let values = values.collect::<Result<Vec<_>, _>>().map_err(|error| unfit(error.to_string()))?;
    let components: Vec<&[u8]> = values.iter().map(|value| value.as_ref()).collect();
    Ok(DecoratedKey::new(PartitionKey::from_components(&components)))
}

/// A range of the ring as ranges that do not go over its end. One that ends where it starts is the whole
/// ring.
fn key_ranges(TokenRange { start, end }: TokenRange) -> Vec<KeyRange> {
    let behind = KeyBound::Token { token: Token(start), inclusive: false };
    let until = KeyBound::Token { token: Token(end), inclusive: true };
    match start.cmp(&end) {
        Ordering::Less => vec![KeyRange { start: behind, end: until }],
        Ordering::Equal => vec![KeyRange::FULL],
        Ordering::Greater => vec![
            KeyRange { start: behind, end: KeyBound::Unbounded },
            KeyRange { start: KeyBound::Unbounded, end: until },
        ],
    }
}

/// Compacts the SSTables that have given partitions of a table; of these no tombstone is too young to go.
///
/// # Errors
/// An unknown name, a key that is none, or what the compaction failed with.
pub fn force_compact(engine: &Engine, wanted: &ForceCompact) -> Result<(), StorageError> {
    let ForceCompact { keyspace, table, keys } = wanted;
    let found = engine.table_named(keyspace, table).map_err(|_| {
        // In Cassandra's words and with its status.
        StorageError::Invalid(match engine.schema().keyspace(keyspace) {
            None => format!("Keyspace {keyspace} does not exist"),
            Some(_) => {
                StorageError::UnknownTable { keyspace: keyspace.clone(), table: table.clone() }.to_string()
            }
        })
    })?;
    let schema = found.schema();
    let keys: Result<_, _> = keys.iter().map(|key| parse_key(engine, &schema, key, false)).collect();
    Ok(engine.compact_as(keyspace, Some(table), &CompactionRequest::Keys(keys?))?)
}

/// Writes each SSTable of tables anew without what the others shadow.
///
/// # Errors
/// An unknown name, or what a compaction failed with.
pub fn collect_garbage(engine: &Engine, wanted: &CollectGarbage) -> Result<(), StorageError> {
    let garbage = match wanted.granularity {
        Granularity::Row => Garbage::Rows,
        Granularity::Cell => Garbage::Cells,
    };
    for (keyspace, table) in resolve(engine, &wanted.selection)? {
        engine.compact_as(&keyspace, Some(&table), &CompactionRequest::Garbage(garbage))?;
    }
    Ok(())
}

/// Writes the SSTables of tables anew that are of an older version, or all of them.
///
/// # Errors
/// An unknown name, or what a compaction failed with.
pub fn upgrade(engine: &Engine, wanted: &UpgradeSstables) -> Result<(), StorageError> {
    let request = CompactionRequest::Rewrite {
        all: wanted.all,
        older_than_ms: wanted.older_than_millis,
        kind: CompactionKind::Upgrade,
    };
    for (keyspace, table) in resolve(engine, &wanted.selection)? {
        engine.compact_as(&keyspace, Some(&table), &request)?;
    }
    Ok(())
}

/// Checks every component of the SSTables of tables; what is wrong with them.
///
/// # Errors
/// An unknown name, or files that cannot be read at all.
pub fn verify(engine: &Engine, wanted: &VerifySstables) -> Result<Vec<SstableFinding>, StorageError> {
    let options = VerifyOptions {
        check_version: wanted.check_version,
        tells_disk_failure: wanted.apply_disk_failure_policy,
    };
    let mut out = Vec::new();
    for (keyspace, table) in resolve(engine, &wanted.selection)? {
        let damaged = engine.verify(&keyspace, &table, options)?;
        out.extend(damaged.into_iter().map(|found| SstableFinding {
            keyspace: keyspace.clone(),
            table: table.clone(),
            sstable: found.sstable,
            finding: found.finding,
        }));
    }
    Ok(out)
}

/// Takes a snapshot of tables, unless it is not wanted, checks them, and writes those anew of which every
/// SSTable is sound. The others are left as they are; what is wrong with them.
///
/// # Errors
/// An unknown name, or what failed.
pub fn scrub(engine: &Engine, wanted: &ScrubSstables) -> Result<Vec<SstableFinding>, StorageError> {
    let request = CompactionRequest::Rewrite { all: true, older_than_ms: None, kind: CompactionKind::Scrub };
    let tag = format!("pre-scrub-{}", engine.env().now_micros() / 1_000);
    let options = SnapshotOptions { skip_flush: false, ttl_s: None };
    let mut out = Vec::new();
    for (keyspace, table) in resolve(engine, &wanted.selection)? {
        if !wanted.no_snapshot {
            engine.snapshot(&tag, std::slice::from_ref(&keyspace), Some(&table), options)?;
        }
        let selection = Selection { keyspace: Some(keyspace.clone()), tables: vec![table.clone()] };
        let findings = verify(engine, &VerifySstables { selection, ..VerifySstables::default() })?;
        if findings.is_empty() {
            engine.compact_as(&keyspace, Some(&table), &request)?;
        }
        out.extend(findings);
    }
    Ok(out)
}

/// Stops the tasks of a kind that run, of compactions when none is named: what compactions did is undone, and
/// nothing is verified any more until SSTables are loaded or the node starts again.
///
/// # Errors
/// An unknown kind.
pub fn stop_tasks(engine: &Engine, kind: Option<&str>) -> Result<(), StorageError> {
    match kind.unwrap_or(COMPACTION) {
        kind if kind.eq_ignore_ascii_case(COMPACTION) => {
            engine.stop_compactions(None);
        }
        kind if kind.eq_ignore_ascii_case(VERIFY) => {
            engine.stop_proving();
        }
        other => return Err(StorageError::Invalid(format!("there are no tasks of kind {other}"))),
    }
    Ok(())
}

/// Switches automatic compactions of tables on or off, until the next start.
///
/// # Errors
/// An unknown name.
pub fn set_autocompaction(engine: &Engine, selection: &Selection, enabled: bool) -> Result<(), StorageError> {
    for (keyspace, table) in resolve(engine, selection)? {
        engine.set_auto_compaction(&keyspace, Some(&table), enabled)?;
    }
    Ok(())
}

/// Whether tables compact by themselves.
///
/// # Errors
/// An unknown name.
pub fn autocompaction(
    engine: &Engine,
    selection: &Selection,
) -> Result<Vec<AutocompactionStatus>, StorageError> {
    let status = |(keyspace, table): (String, String)| {
        let running = engine.auto_compaction(&keyspace, &table)?;
        Ok(AutocompactionStatus { keyspace, table, running })
    };
    resolve(engine, selection)?.into_iter().map(status).collect()
}

/// How many SSTables of a table are compacted together.
///
/// # Errors
/// An unknown table.
pub fn thresholds(engine: &Engine, table: &QualifiedTable) -> Result<CompactionThresholds, StorageError> {
    let QualifiedTable { keyspace, table } = table;
    let no_store = |_| StorageError::NoStore { keyspace: keyspace.clone(), table: table.clone() };
    let Thresholds { min, max } = engine.compaction_thresholds(keyspace, table).map_err(no_store)?;
    Ok(CompactionThresholds { keyspace: keyspace.clone(), table: table.clone(), min, max })
}

/// Sets how many, until the next start.
///
/// # Errors
/// An unknown table, or numbers that cannot be.
pub fn set_thresholds(engine: &Engine, wanted: &CompactionThresholds) -> Result<(), StorageError> {
    let CompactionThresholds { keyspace, table, min, max } = wanted;
    let refused = match (*min, *max) {
        (0, _) | (_, 0) => Some(
            "Disabling compaction by setting min_compaction_threshold or max_compaction_threshold to 0 is \
             deprecated, set the compaction strategy option 'enabled' to 'false' instead or use the nodetool \
             command 'disableautocompaction'.",
        ),
        (min, max) if min > max => Some("Min threshold cannot be greater than max."),
        (1, _) => Some("Min threshold must be at least 2"),
        _ => None,
    };
    if let Some(refused) = refused {
        return Err(StorageError::Invalid(refused.to_owned()));
    }
    let no_store = |_| StorageError::NoStore { keyspace: keyspace.clone(), table: table.clone() };
    let thresholds = Thresholds { min: *min, max: *max };
    engine.set_compaction_thresholds(keyspace, table, thresholds).map_err(no_store)
}

/// Sets how many compactions may run at once, until the next start.
///
/// # Errors
/// None or too many, or threads that cannot be had.
pub fn set_compactors(engine: &Engine, wanted: ConcurrentCompactors) -> Result<(), StorageError> {
    match usize::try_from(wanted.compactors) {
        Ok(0) => Err(StorageError::Invalid("concurrent_compactors should be great than 0.".to_owned())),
        Ok(count) if count <= COMPACTORS_MAX => {
            engine.set_concurrent_compactors(count).map_err(|error| StorageError::Engine(error.into()))
        }
        _ => Err(StorageError::Invalid(format!(
            "concurrent_compactors must be at most {COMPACTORS_MAX}, not {}",
            wanted.compactors
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CqlType;
    use uuid::Uuid;

    #[test]
    fn a_range_over_the_end_of_the_ring_is_two() {
        let token = |token, inclusive| KeyBound::Token { token: Token(token), inclusive };
        let range = |start, end| KeyRange { start, end };
        let of = |start, end| key_ranges(TokenRange { start, end });
        assert_eq!(of(5, 9), [range(token(5, false), token(9, true))]);
        assert_eq!(of(5, 5), [KeyRange::FULL]);
        let both = [range(token(9, false), KeyBound::Unbounded), range(KeyBound::Unbounded, token(5, true))];
        assert_eq!(of(9, 5), both);
    }

    #[test]
    fn a_partition_is_named_by_its_key() {
        let table = TableSchema::builder("ks", "t", Uuid::nil()).partition_key("a", CqlType::Int);
        let one = table.clone().build();
        let key = |components: &[&[u8]]| DecoratedKey::new(PartitionKey::from_components(components));
        assert_eq!(partition_key(&one, "5", 0).unwrap(), key(&[&5i32.to_be_bytes()]));
        let error = partition_key(&one, "x", 0).unwrap_err().to_string();
        assert!(error.starts_with("Unable to parse partition key 'x' for table ks.t; "), "{error}");
        let two = table.partition_key("b", CqlType::Text).build();
        assert_eq!(partition_key(&two, "5:b", 0).unwrap(), key(&[&5i32.to_be_bytes(), b"b"]));
        assert!(partition_key(&two, "5", 0).is_err());
    }
}
