//! Where data lies, for `nodetool getsstables`, `getendpoints`, `datapaths` and `rangekeysample`.

use super::StorageError;
use engine::Engine;
use model::key::{KeyBound, KeyRange};
use model::{CqlType, DecoratedKey, PartitionKey, TableSchema};
use partition::ReadContext;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use tools::api::TableDirectories;

/// The key that `text` stands for, as Cassandra's tools write keys: components with colons between them, or
/// the whole in hexadecimal digits where it `is_hex`.
///
/// # Errors
/// What is wrong with the text.
pub fn parse_key(
    engine: &Engine,
    table: &TableSchema,
    text: &str,
    is_hex: bool,
) -> Result<DecoratedKey, StorageError> {
    let now_ms = engine.env().now_micros() / 1_000;
    let of_type = if is_hex { CqlType::Blob } else { table.partition_key_type() };
    let bytes = of_type.parse_text(text, now_ms).map_err(|error| StorageError::Invalid(error.to_string()))?;
    Ok(DecoratedKey::new(PartitionKey(bytes)))
}

/// The text of a key, which [`parse_key`] reads.
pub fn show_key(table: &TableSchema, key: &PartitionKey) -> String {
    table.partition_key_type().to_text(&key.0)
}

/// Whether SSTables of a table have levels.
fn has_levels(table: &TableSchema) -> bool {
    table.options.compaction.short_class() == "LeveledCompactionStrategy"
}

/// The Data.db of each SSTable of a table that has a partition, and their levels if the table has levels.
///
/// # Errors
/// A file that cannot be read.
pub fn sstables_of(
    engine: &Engine,
    table: &Arc<TableSchema>,
    key: &DecoratedKey,
) -> Result<(Vec<PathBuf>, Vec<i32>), StorageError> {
    let Some(store) = engine.table(table.id) else { return Ok(Default::default()) };
    let at = || KeyBound::Key { key: key.clone(), inclusive: true };
    let range = KeyRange { start: at(), end: at() };
    let mut found = Vec::new();
    for sstable in store.view().sstables.iter() {
        let place = sstable.position_of(&range, table, &ReadContext::default());
        if place.map_err(|error| StorageError::Engine(error.into()))?.is_some() {
            found.push((sstable.stats().level, sstable.descriptor().path(sstable::Component::Data)));
        }
    }
    found.sort_by_key(|(level, _)| *level);
    let (levels, paths): (Vec<i32>, _) = found.into_iter().unzip();
    Ok((paths, if has_levels(table) { levels } else { Vec::new() }))
}

/// The directories of every table, by name.
pub fn directories(engine: &Engine) -> Vec<TableDirectories> {
    let of = |table: &Arc<engine::table::TableStore>| {
        let schema = table.schema();
        TableDirectories {
            keyspace: schema.keyspace.clone(),
            table: schema.name.clone(),
            directories: table.dirs().to_vec(),
        }
    };
    let mut all: Vec<TableDirectories> = engine.tables().iter().map(of).collect();
    all.sort_by(|a, b| (&a.keyspace, &a.table).cmp(&(&b.keyspace, &b.table)));
    all
}

/// Tokens of partitions, which the indexes of all SSTables have in memory, in ring order.
pub fn token_sample(engine: &Engine) -> Vec<i64> {
    let views = engine.tables().into_iter().map(|table| table.view());
    let tokens: BTreeSet<i64> = views
        .flat_map(|view| {
            view.sstables.iter().flat_map(|sstable| sstable.sampled_tokens()).collect::<Vec<_>>()
        })
        .map(|token| token.0)
        .collect();
    tokens.into_iter().collect()
}
