//! Options of tables: from the properties after WITH to [`TableOptions`].
//!
//! In Cassandra's order: every value is read (1), unknown properties are refused (2), then the options are
//! judged as on a table with the defaults (3). ALTER judges no other combination, so the bounds of one index
//! interval are compared with the default of the other.

mod caching;
mod compaction;
mod compression;
pub(super) mod property;
mod size;
mod speculative;

use crate::ddl::DdlContext;
use crate::error::{CqlError, Result};
use model::schema::{CompactionOptions, Release, TableOptions};
use property::{Properties, config, show_double};
use uuid::Uuid;

/// The properties of tables.
pub const TABLE_PROPERTIES: [&str; 20] = [
    "additional_write_policy",
    "allow_auto_snapshot",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    "extensions",
    "gc_grace_seconds",
    "id",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "read_repair",
    "speculative_retry",
];
/// Twenty years.
const TTL_MAX_S: i32 = 630_720_000;
/// Smaller chances need more bits for each key than a filter has.
const BLOOM_FILTER_FP_CHANCE_MIN: f64 = 6.71e-5;

/// What the configuration says of new tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDefaults {
    /// `default_compaction`; none is size-tiered. Directories of 4.x have no such default.
    pub compaction: Option<CompactionOptions>,
    /// The names in `memtable.configurations`; `default` is one without it. `None`: any name is taken, as in
    /// a schema that another node has.
    pub memtables: Option<Vec<String>>,
}

impl Default for TableDefaults {
    fn default() -> Self {
        TableDefaults { compaction: None, memtables: Some(Vec::new()) }
    }
}

impl TableDefaults {
    /// The compaction of a map, judged as in a statement.
    ///
    /// # Errors
    /// What a statement with this map would be refused for.
    pub fn parse_compaction(map: &[(String, String)]) -> Result<CompactionOptions> {
        let compaction = compaction::parse(map)?;
        compaction::validate(&compaction)?;
        Ok(compaction)
    }

    /// The options of a table WITH nothing.
    fn options(&self, release: Release) -> TableOptions {
        let mut options = TableOptions::default();
        if let Some(compaction) = self.compaction.as_ref().filter(|_| release >= Release::V5_0) {
            options.compaction = compaction.clone();
        }
        options
    }

    fn has_memtable(&self, name: &str) -> bool {
        self.memtables.as_ref().is_none_or(|names| names.iter().any(|known| known == name))
    }
}

/// Whether the tables of `system_schema` have a column for the option.
fn is_known(option: &str, release: Release) -> bool {
    match option {
        "memtable" => release >= Release::V4_1,
        "allow_auto_snapshot" | "incremental_backups" => release >= Release::V5_0,
        _ => true,
    }
}

/// Checks the properties of CREATE TABLE or ALTER TABLE as Cassandra does before it looks at the table, and
/// returns the options of a new table.
pub(super) fn new_table(properties: Properties<'_>, ctx: &DdlContext<'_>) -> Result<TableOptions> {
    let release = ctx.schema.release;
    let options = read(properties, None, ctx)?;
    let known: Vec<&str> = TABLE_PROPERTIES.into_iter().filter(|name| is_known(name, release)).collect();
    properties.check_known(&known)?;
    validate(&options)?;
    Ok(options)
}

/// The options of a table that is altered.
pub(super) fn altered(
    properties: Properties<'_>,
    before: &TableOptions,
    ctx: &DdlContext<'_>,
) -> Result<TableOptions> {
    new_table(properties, ctx)?;
    if id(properties)?.is_some() {
        config!("Cannot alter table id.");
    }
    read(properties, Some(before), ctx)
}

/// The property `id`.
pub(super) fn id(properties: Properties<'_>) -> Result<Option<Uuid>> {
    match properties.text("id")?.map(str::parse) {
        None => Ok(None),
        Some(Ok(id)) => Ok(Some(id)),
        Some(Err(_)) => config!("Invalid table id"),
    }
}

/// The options before, or the defaults, with the values of the properties, read in Cassandra's order.
pub(super) fn read(
    properties: Properties<'_>,
    before: Option<&TableOptions>,
    ctx: &DdlContext<'_>,
) -> Result<TableOptions> {
    let mut options = before.cloned().unwrap_or_else(|| ctx.tables.options(ctx.schema.release));
    if let Some(value) = properties.boolean("allow_auto_snapshot")? {
        set_flag(&mut options.allow_auto_snapshot, value, true);
    }
    let chance = properties.double("bloom_filter_fp_chance")?;
    if let Some(map) = properties.map("caching")? {
        options.caching = caching::parse(map)?;
    }
    if let Some(text) = properties.text("comment")? {
        options.comment = text.to_owned();
    }
    if let Some(map) = properties.map("compaction")? {
        options.compaction = compaction::parse(map)?;
    }
    if let Some(map) = properties.map("compression")? {
        options.compression = compression::parse(map)?;
    }
    if let Some(name) = properties.text("memtable")? {
        let is_default = name == "default";
        if !is_default && !ctx.tables.has_memtable(name) {
            config!("Memtable configuration \"{name}\" not found.");
        }
        options.memtable = (!is_default).then(|| name.to_owned());
    }
    read_int(properties, "default_time_to_live", &mut options.default_time_to_live)?;
    read_int(properties, "gc_grace_seconds", &mut options.gc_grace_seconds)?;
    if let Some(value) = properties.boolean("incremental_backups")? {
        set_flag(&mut options.incremental_backups, value, true);
    }
    read_int(properties, "max_index_interval", &mut options.max_index_interval)?;
    read_int(properties, "memtable_flush_period_in_ms", &mut options.memtable_flush_period_in_ms)?;
    read_int(properties, "min_index_interval", &mut options.min_index_interval)?;
    if let Some(text) = properties.text("speculative_retry")? {
        options.speculative_retry = speculative::parse(text)?;
    }
    if let Some(text) = properties.text("additional_write_policy")? {
        options.additional_write_policy = speculative::parse(text)?;
    }
    if let Some(value) = properties.double("crc_check_chance")? {
        options.crc_check_chance = value;
    }
    if let Some(value) = properties.boolean("cdc")? {
        set_flag(&mut options.cdc, value, false);
    }
    if let Some(text) = properties.text("read_repair")? {
        options.read_repair = read_repair(text)?;
    }
    options.bloom_filter_fp_chance = match chance {
        // Minus one asks for the default.
        Some(chance) if chance != -1.0 => chance,
        None if before.is_some() => options.bloom_filter_fp_chance,
        _ => compaction::bloom_filter_fp_chance_default(&options.compaction),
    };
    Ok(options)
}

/// A flag that says what the default says stays unset, as in tables that were made without it.
fn set_flag(flag: &mut Option<bool>, value: bool, default: bool) {
    *flag = (value != default).then_some(value);
}

fn read_int(properties: Properties<'_>, name: &str, option: &mut i32) -> Result<()> {
    if let Some(value) = properties.int(name)? {
        *option = value;
    }
    Ok(())
}

fn read_repair(text: &str) -> Result<String> {
    let upper = text.to_ascii_uppercase();
    if upper == "BLOCKING" || upper == "NONE" {
        return Ok(upper);
    }
    Err(CqlError::Server(format!(
        "java.lang.IllegalArgumentException: No enum constant \
         org.apache.cassandra.service.reads.repair.ReadRepairStrategy.{upper}"
    )))
}

fn validate(options: &TableOptions) -> Result<()> {
    compaction::validate(&options.compaction)?;
    compression::validate(&options.compression)?;
    let bloom = options.bloom_filter_fp_chance;
    if !(bloom > BLOOM_FILTER_FP_CHANCE_MIN && bloom <= 1.0) {
        config!(
            "bloom_filter_fp_chance must be larger than {} and less than or equal to 1.0 (got {})",
            show_double(BLOOM_FILTER_FP_CHANCE_MIN),
            show_double(bloom)
        );
    }
    let crc = options.crc_check_chance;
    if !(0.0..=1.0).contains(&crc) {
        config!(
            "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {})",
            show_double(crc)
        );
    }
    at_least("default_time_to_live", options.default_time_to_live, 0)?;
    if options.default_time_to_live > TTL_MAX_S {
        config!(
            "default_time_to_live must be less than or equal to {TTL_MAX_S} (got {})",
            options.default_time_to_live
        );
    }
    at_least("gc_grace_seconds", options.gc_grace_seconds, 0)?;
    at_least("min_index_interval", options.min_index_interval, 1)?;
    let (min, max) = (options.min_index_interval, options.max_index_interval);
    if max < min {
        config!("max_index_interval must be greater than or equal to min_index_interval ({min}) (got {max})");
    }
    at_least("memtable_flush_period_in_ms", options.memtable_flush_period_in_ms, 0)
}

fn at_least(name: &str, value: i32, min: i32) -> Result<()> {
    if value < min {
        config!("{name} must be greater than or equal to {min} (got {value})");
    }
    Ok(())
}
