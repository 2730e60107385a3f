//! Reads of `system_schema`, answered from a schema, as far as the scripts need them: what was kept is
//! compared too.

use super::KEYSPACE;
use crate::ast::{Selectable, Selection, Statement};
use crate::parser::parse_statement;
use model::Schema;
use model::schema::TableOptions;
use std::collections::BTreeMap;

/// The answer to `SELECT options FROM system_schema.tables WHERE ... table_name = '...'`; `None` for other
/// SELECTs.
pub(super) fn answer(schema: &Schema, text: &str) -> Option<Vec<String>> {
    let Statement::Select(select) = parse_statement(text).ok()?.statement else { return None };
    if select.table.to_string() != "system_schema.tables" {
        return None;
    }
    let (_, rest) = text.split_once("table_name = '")?;
    let table = schema.table(KEYSPACE, rest.split_once('\'')?.0)?;
    let Selection::Selectors(selectors) = &select.selection else { return None };
    let mut names = Vec::new();
    for selector in selectors {
        let Selectable::Column(column) = &selector.selectable else { return None };
        names.push(column.as_str());
    }
    let cells: Option<Vec<(&str, String)>> = names.iter().map(|name| cell(&table.options, name)).collect();
    let cells = cells?;
    let columns: Vec<String> =
        names.iter().zip(&cells).map(|(name, (ty, _))| format!("{name} {ty}")).collect();
    let values: Vec<String> = cells.into_iter().map(|(_, value)| value).collect();
    Some(vec![format!("columns {}", columns.join(" | ")), values.join(" | "), "(1 row)".to_owned()])
}

fn cell(options: &TableOptions, name: &str) -> Option<(&'static str, String)> {
    let flag = |value: Option<bool>| ("boolean", value.map_or("null".to_owned(), |value| value.to_string()));
    Some(match name {
        "additional_write_policy" => ("text", text(&options.additional_write_policy)),
        "allow_auto_snapshot" => flag(options.allow_auto_snapshot),
        "bloom_filter_fp_chance" => ("double", double(options.bloom_filter_fp_chance)),
        "caching" => ("map<text, text>", map(&options.caching.to_map())),
        "comment" => ("text", text(&options.comment)),
        "compaction" => ("map<text, text>", map(&options.compaction.to_map())),
        "compression" => ("map<text, text>", map(&options.compression.to_map())),
        "crc_check_chance" => ("double", double(options.crc_check_chance)),
        "default_time_to_live" => ("int", options.default_time_to_live.to_string()),
        "extensions" => ("map<text, blob>", "{}".to_owned()),
        "gc_grace_seconds" => ("int", options.gc_grace_seconds.to_string()),
        "incremental_backups" => flag(options.incremental_backups),
        "max_index_interval" => ("int", options.max_index_interval.to_string()),
        "memtable" => ("text", options.memtable.as_deref().map_or("null".to_owned(), text)),
        "memtable_flush_period_in_ms" => ("int", options.memtable_flush_period_in_ms.to_string()),
        "min_index_interval" => ("int", options.min_index_interval.to_string()),
        "read_repair" => ("text", text(&options.read_repair)),
        "speculative_retry" => ("text", text(&options.speculative_retry)),
        _ => return None,
    })
}

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''").replace('\n', "\\n"))
}

fn map(map: &BTreeMap<String, String>) -> String {
    let entries: Vec<String> =
        map.iter().map(|(key, value)| format!("{}: {}", text(key), text(value))).collect();
    format!("{{{}}}", entries.join(", "))
}

/// A double as the scripts show it.
fn double(value: f64) -> String {
    let plain = format!("{value:?}");
    match plain.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => plain,
    }
}
