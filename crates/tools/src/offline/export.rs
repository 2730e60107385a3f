//! `ilion sstable export`: the rows of a partition or of a range of keys, for other programs.
//!
//! A row is a JSON object on a line, or a line of CSV: the columns of the key, those of the clustering, the
//! static and the regular columns. What is deleted or has expired is left out; a partition that has nothing
//! but a static row is a row without clustering, as for a SELECT.

use super::dump::{Wanted, key_text, parse_key};
use super::output::Output;
use super::source::{self, Source};
use super::{Failure, Outcome};
use clap::{Args, ValueEnum};
use env::Env;
use model::key::{KeyBound, KeyRange};
use model::types::collection::{encode_list, encode_map, encode_set, encode_tuple};
use model::types::json::{write_json_name, write_json_string};
use model::{Cell, ColumnDef, CqlType, DecoratedKey, Deletion, Row, TableSchema, Token, counter};
use partition::{Event, Fragment};
use std::io;
use std::path::PathBuf;

/// Arguments of `export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Components of SSTables, or directories; each SSTable is exported by itself, nothing is merged
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// One partition; columns of a composite key stand between colons
    #[arg(long, value_name = "KEY", group = "which")]
    partition: Vec<String>,
    /// Partitions with tokens above A and up to B; either may be left out
    #[arg(long, value_name = "A:B", group = "which", allow_hyphen_values = true)]
    token_range: Option<String>,
    /// Partitions from one key to another, in the order of tokens, both included
    #[arg(long, value_names = ["FROM", "TO"], num_args = 2, group = "which")]
    key_range: Vec<String>,
    /// How rows are written
    #[arg(long, default_value = "json")]
    format: Format,
    /// JSON lines, the same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A JSON object on a line
    Json,
    /// Comma-separated values with a line of names
    Csv,
}

/// Writes rows as they come.
struct Rows<'o> {
    out: &'o mut Output,
    table: std::sync::Arc<TableSchema>,
    format: Format,
    now_s: u32,
    key: Option<DecoratedKey>,
    partition: Deletion,
    range: Deletion,
    statics: Option<Row>,
    had_rows: bool,
}

impl Rows<'_> {
    fn columns(&self) -> Vec<std::sync::Arc<ColumnDef>> {
        let table = &self.table;
        let key = table.partition_key().iter().chain(table.clustering_columns());
        key.chain(table.static_columns()).chain(table.regular_columns()).cloned().collect()
    }

    fn header(&mut self) -> io::Result<()> {
        let names: Vec<String> = self.columns().iter().map(|c| csv(&c.name)).collect();
        self.out.line(&names.join(","))
    }

    /// The cells of a column that are alive.
    fn value(&self, column: &ColumnDef, row: &Row) -> Option<bytes::Bytes> {
        let over = self.partition.max(self.range).max(row.deletion);
        let complex = row.complex_deletions.iter().find(|(id, _)| *id == column.id).map(|(_, d)| *d);
        let over = over.max(complex.unwrap_or(Deletion::NONE));
        let live = |cell: &&Cell| cell.is_live(self.now_s) && !over.deletes(cell.timestamp);
        let cells: Vec<&Cell> = row.cells_of(column.id).iter().filter(live).collect();
        let first = *cells.first()?;
        Some(match &column.ty {
            CqlType::List { multi_cell: true, .. } => encode_list(cells.iter().map(|c| &c.value)),
            CqlType::Set { element, multi_cell: true } => encode_set(element, cells.iter().map(|c| &c.path)),
            CqlType::Map { key, multi_cell: true, .. } => {
                encode_map(key, cells.iter().map(|c| (&c.path, &c.value)))
            }
            CqlType::Udt { definition, multi_cell: true } => {
                let field = |i: usize| {
                    let here = |c: &&&Cell| {
                        c.path.as_ref().try_into().map(u16::from_be_bytes).ok() == Some(i as u16)
                    };
                    cells.iter().find(here).map(|c| c.value.clone())
                };
                encode_tuple((0..definition.fields.len()).map(field))
            }
            CqlType::Counter => counter::total(&first.value).to_be_bytes().to_vec().into(),
            _ => first.value.clone(),
        })
    }

    fn row(&mut self, row: Option<&Row>) -> io::Result<()> {
        let Some(key) = &self.key else { return Ok(()) };
        let table = &self.table;
        if let Some(row) = row {
            let over = self.partition.max(self.range).max(row.deletion);
            let alive = row.liveness.is_live(self.now_s) && !over.deletes(row.liveness.timestamp);
            if !alive && table.regular_columns().iter().all(|c| self.value(c, row).is_none()) {
                return Ok(());
            }
        }
        let count = table.partition_key().len();
        let keys = (0..count).map(|i| key.key.component(count, i).map(bytes::Bytes::copy_from_slice));
        let clusterings = (0..table.clustering_columns().len())
            .map(|i| row.and_then(|row| row.clustering.value(i)).map(bytes::Bytes::copy_from_slice));
        let statics = table.static_columns().iter().map(|c| self.value(c, self.statics.as_ref()?));
        let regulars = table.regular_columns().iter().map(|c| self.value(c, row?));
        let values: Vec<Option<bytes::Bytes>> =
            keys.chain(clusterings).chain(statics).chain(regulars).collect();
        self.had_rows = true;
        let columns = self.columns();
        let line = match self.format {
            Format::Json => json_line(&columns, &values),
            Format::Csv => {
                let cells = columns.iter().zip(&values).map(|(c, value)| match value {
                    None => String::new(),
                    Some(value) => csv(&csv_text(&c.ty, value)),
                });
                cells.collect::<Vec<_>>().join(",")
            }
        };
        self.out.line(&line)
    }

    fn take(&mut self, event: Event, fragment: &Fragment) -> io::Result<()> {
        match event {
            Event::PartitionStart => {
                self.key = Some(fragment.key.clone());
                self.partition = fragment.deletion;
                self.range = Deletion::NONE;
                self.statics = None;
                self.had_rows = false;
            }
            Event::StaticRow => self.statics = Some(fragment.row.clone()),
            Event::Row => self.row(Some(&fragment.row))?,
            Event::RangeChange => self.range = fragment.change.deletion,
            Event::PartitionEnd => {
                let statics = self.statics.as_ref();
                let has_value =
                    |c: &std::sync::Arc<ColumnDef>| statics.is_some_and(|row| self.value(c, row).is_some());
                if !self.had_rows && self.table.static_columns().iter().any(has_value) {
                    self.row(None)?;
                }
            }
            Event::End => {}
        }
        Ok(())
    }
}

fn json_line(columns: &[std::sync::Arc<ColumnDef>], values: &[Option<bytes::Bytes>]) -> String {
    let mut line = String::from("{");
    for (i, (column, value)) in columns.iter().zip(values).enumerate() {
        if i > 0 {
            line.push_str(", ");
        }
        write_json_name(&column.name, &mut line);
        line.push_str(": ");
        match (&column.ty, value) {
            (CqlType::Custom(_), Some(value)) => {
                write_json_string(&CqlType::Blob.to_literal(Some(value)), &mut line)
            }
            (ty, value) => ty.write_json(value.as_deref(), &mut line),
        }
    }
    line.push('}');
    line
}

/// Text bare, everything else as a CQL constant without its quotes.
fn csv_text(ty: &CqlType, value: &[u8]) -> String {
    match ty {
        CqlType::Ascii | CqlType::Text => String::from_utf8_lossy(value).into_owned(),
        CqlType::Date | CqlType::Time | CqlType::Timestamp | CqlType::Inet => ty.to_text(value),
        _ => ty.to_literal(Some(value)),
    }
}

/// A field, in quotes where it needs them; one without any value is nothing, an empty text a pair of quotes.
fn csv(text: &str) -> String {
    match text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn token_range(text: &str) -> Result<KeyRange, Failure> {
    let wrong =
        || Failure::Usage(format!("'{text}' is not a range of tokens: two numbers with a colon between"));
    let (start, end) = text.split_once(':').ok_or_else(wrong)?;
    let token = |text: &str| match text {
        "" => Ok(None),
        text => text.parse().map(|t| Some(Token(t))).map_err(|_| wrong()),
    };
    let (start, end) = (token(start)?, token(end)?);
    if let (Some(Token(start)), Some(Token(end))) = (start, end)
        && start >= end
    {
        return Err(Failure::Usage(format!("the range of tokens {text} ends before it begins")));
    }
    Ok(KeyRange {
        start: start.map_or(KeyBound::Unbounded, |token| KeyBound::Token { token, inclusive: false }),
        end: end.map_or(KeyBound::Unbounded, |token| KeyBound::Token { token, inclusive: true }),
    })
}

fn wanted(env: &Env, args: &ExportArgs, table: &TableSchema) -> Result<Wanted, Failure> {
    let mut wanted = Wanted { keys: Vec::new(), excluded: Vec::new(), range: KeyRange::FULL };
    for text in &args.partition {
        wanted.keys.push(parse_key(env, table, text)?);
    }
    wanted.keys.sort();
    wanted.keys.dedup();
    if let Some(text) = &args.token_range {
        wanted.range = token_range(text)?;
    }
    if let [from, to] = args.key_range.as_slice() {
        let (from, to) = (parse_key(env, table, from)?, parse_key(env, table, to)?);
        if from > to {
            return Err(Failure::Usage(format!(
                "{} comes after {} in the order of tokens",
                key_text(table, &from),
                key_text(table, &to)
            )));
        }
        wanted.range = KeyRange {
            start: KeyBound::Key { key: from, inclusive: true },
            end: KeyBound::Key { key: to, inclusive: true },
        };
    }
    Ok(wanted)
}

pub(super) fn run(env: &Env, args: &ExportArgs, out: &mut Output) -> Result<Outcome, Failure> {
    let now_s = env.clock.now_millis().div_euclid(1000).clamp(0, i64::from(u32::MAX)) as u32;
    let mut names: Option<Vec<String>> = None;
    for descriptor in source::find(env, &args.paths)? {
        let source = Source::open(env, &descriptor)?;
        let wanted = wanted(env, args, &source.table)?;
        let mut rows = Rows {
            out,
            table: source.table.clone(),
            format: if args.json { Format::Json } else { args.format },
            now_s,
            key: None,
            partition: Deletion::NONE,
            range: Deletion::NONE,
            statics: None,
            had_rows: false,
        };
        let columns: Vec<String> = rows.columns().iter().map(|c| c.name.clone()).collect();
        if rows.format == Format::Csv && names.as_ref() != Some(&columns) {
            if names.is_some() {
                return Err(Failure::Usage(format!("{descriptor} has other columns than those before it")));
            }
            rows.header()?;
        }
        names = Some(columns);
        let what = format!("export {}", descriptor.prefix().trim_end_matches('-'));
        wanted.read(&source, &what, |event, fragment, _| rows.take(event, fragment))?;
    }
    Ok(Outcome::Sound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_fields_are_understood() {
        let range = token_range("-5:").unwrap();
        assert_eq!(range.end, KeyBound::Unbounded);
        assert!(matches!(range.start, KeyBound::Token { token: Token(-5), inclusive: false }));
        assert!(token_range("5").is_err() && token_range("a:b").is_err());
        assert!(token_range("5:1").is_err() && token_range("5:5").is_err() && token_range("-6:-5").is_ok());
        assert_eq!((csv("a"), csv("a,\"b"), csv("")), ("a".into(), "\"a,\"\"b\"".into(), "\"\"".into()));
    }
}
