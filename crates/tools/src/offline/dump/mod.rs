//! `ilion sstable dump`: the content of SSTables.

mod internal;
mod json;
mod rows;
pub(super) mod times;
mod writer;

use super::output::Output;
use super::progress::Progress;
use super::source::{self, Source};
use super::{Failure, Outcome};
use clap::Args;
use env::Env;
use json::{JsonDump, Style};
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::KeyRange;
use model::{CqlType, DecoratedKey, PartitionKey, TableSchema};
use partition::{Event, Fragment, PartitionStream, ReadContext};
use rows::RowTable;
use sstable::SsTableStream;
use std::path::PathBuf;

/// Arguments of `dump`. The short ones are sstabledump's.
#[derive(Debug, Args)]
pub(super) struct DumpArgs {
    /// Components of SSTables, or directories
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// The JSON of sstabledump
    #[arg(long, conflicts_with = "internal")]
    json: bool,
    /// The JSON of sstabledump, a line for each partition
    #[arg(short = 'l', long, conflicts_with_all = ["internal", "keys_only"])]
    json_lines: bool,
    /// A line for each row in the internal form
    #[arg(short = 'd', long, conflicts_with = "keys_only")]
    internal: bool,
    /// Partition keys only
    #[arg(short = 'e', long)]
    keys_only: bool,
    /// Only these partitions; columns of a composite key stand between colons
    #[arg(short = 'k', long = "key", value_name = "KEY", num_args = 1..)]
    keys: Vec<String>,
    /// Not these partitions
    #[arg(short = 'x', long = "exclude", value_name = "KEY", num_args = 1..)]
    excluded: Vec<String>,
    /// Timestamps as numbers
    #[arg(short = 't', long)]
    raw_timestamps: bool,
}

/// The key that a text means: values as sstabledump prints them, those of a composite key between colons.
pub(super) fn parse_key(env: &Env, table: &TableSchema, text: &str) -> Result<DecoratedKey, Failure> {
    let columns = table.partition_key();
    let parts = if columns.len() == 1 { vec![text.to_owned()] } else { split_key(text) };
    if parts.len() != columns.len() {
        return Err(Failure::Usage(format!(
            "the partition key has {} columns, '{text}' has {}",
            columns.len(),
            parts.len()
        )));
    }
    let values = columns.iter().zip(&parts).map(|(column, part)| match &column.ty {
        CqlType::List { .. } | CqlType::Set { .. } | CqlType::Map { .. } | CqlType::Vector { .. } => {
            CqlType::Blob.parse_text(part, 0)
        }
        ty => ty.parse_text(part, env.clock.now_millis()),
    });
    let values =
        values.collect::<Result<Vec<_>, _>>().map_err(|e| Failure::Usage(format!("key '{text}': {e}")))?;
    let values: Vec<&[u8]> = values.iter().map(AsRef::as_ref).collect();
    Ok(DecoratedKey::new(PartitionKey::from_components(&values)))
}

/// Splits at colons that no backslash stands before.
fn split_key(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, parts.last_mut()) {
            (':', _) => parts.push(String::new()),
            ('\\', Some(part)) if chars.peek() == Some(&':') => part.extend(chars.next()),
            (c, Some(part)) => part.push(c),
            (_, None) => {}
        }
    }
    parts
}

/// The text of a key: the reverse of [`parse_key`].
pub(super) fn key_text(table: &TableSchema, key: &DecoratedKey) -> String {
    let columns = table.partition_key();
    let texts = columns.iter().enumerate().map(|(i, column)| {
        let text = key.key.component(columns.len(), i).map(|value| column.ty.to_text(value));
        let text = text.unwrap_or_default();
        if columns.len() == 1 { text } else { text.replace(':', "\\:") }
    });
    texts.collect::<Vec<_>>().join(":")
}

/// What takes the fragments of an SSTable.
trait Sink {
    /// A fragment, with its place in the data: of a partition's start and end, of a row or marker the start,
    /// of a static row the end.
    fn take(&mut self, event: Event, fragment: &Fragment, position: u64) -> std::io::Result<()>;
}

impl Sink for JsonDump<'_> {
    fn take(&mut self, event: Event, fragment: &Fragment, position: u64) -> std::io::Result<()> {
        match event {
            Event::PartitionStart => {
                self.start(&fragment.key, fragment.deletion);
                Ok(())
            }
            Event::StaticRow => self.static_row(&fragment.row, position),
            Event::Row => self.plain_row(&fragment.row, position),
            Event::RangeChange => self.change(&fragment.change.position, fragment.change.deletion, position),
            Event::PartitionEnd => self.end(position),
            Event::End => Ok(()),
        }
    }
}

/// What is asked for.
pub(super) struct Wanted {
    /// Only these partitions, in ring order; all when there are none.
    pub(super) keys: Vec<DecoratedKey>,
    pub(super) excluded: Vec<DecoratedKey>,
    pub(super) range: KeyRange,
}

impl Wanted {
    /// Reads what is wanted of `source` and hands it on.
    pub(super) fn read(
        &self,
        source: &Source,
        what: &str,
        mut take: impl FnMut(Event, &Fragment, u64) -> std::io::Result<()>,
    ) -> Result<(), Failure> {
        let Source { sstable, table } = source;
        let (filter, columns) = (ClusteringFilter::all(), ColumnSelection::all(table));
        let context = ReadContext::default();
        if self.keys.is_empty() {
            let stream = sstable.scan(&self.range, &filter, &columns, table, &context);
            let stream = stream.map(|stream| stream.with_every_marker());
            let progress = Progress::new(what, Some(sstable.data_bytes()));
            return self.hand_on(stream.map_err(Failure::new)?, &progress, &mut take);
        }
        let progress = Progress::new(what, None);
        for key in &self.keys {
            let stream = sstable.read(key, &filter, &columns, table, &context).map_err(Failure::new)?;
            let stream = stream.map(|stream| stream.with_every_marker());
            if let Some(stream) = stream {
                self.hand_on(stream, &progress, &mut take)?;
            }
        }
        Ok(())
    }

    fn hand_on(
        &self,
        mut stream: SsTableStream,
        progress: &Progress,
        take: &mut impl FnMut(Event, &Fragment, u64) -> std::io::Result<()>,
    ) -> Result<(), Failure> {
        let mut fragment = Fragment::default();
        loop {
            let event = stream.next(&mut fragment).map_err(Failure::new)?;
            let position = stream.position();
            if event == Event::End {
                return Ok(());
            }
            progress.at(position);
            if event == Event::PartitionStart && self.excluded.contains(&fragment.key) {
                stream.skip_partition().map_err(Failure::new)?;
                continue;
            }
            take(event, &fragment, position)?;
        }
    }
}

pub(super) fn run(env: &Env, args: &DumpArgs, out: &mut Output) -> Result<Outcome, Failure> {
    let descriptors = source::find(env, &args.paths)?;
    let style = Style {
        lines: args.json_lines,
        raw_times: args.raw_timestamps,
        now_s: env.clock.now_millis().div_euclid(1000),
    };
    let as_json = args.json || args.json_lines || args.keys_only;
    for (i, descriptor) in descriptors.iter().enumerate() {
        let source = Source::open(env, descriptor)?;
        let keys = |texts: &[String]| -> Result<Vec<DecoratedKey>, Failure> {
            let mut keys: Vec<_> =
                texts.iter().map(|t| parse_key(env, &source.table, t)).collect::<Result<_, _>>()?;
            keys.sort();
            Ok(keys)
        };
        let excluded = keys(&args.excluded)?;
        let mut wanted = Wanted { keys: keys(&args.keys)?, excluded, range: KeyRange::FULL };
        wanted.keys.dedup();
        if as_json && i > 0 {
            out.text("\n")?;
        }
        let what = format!("dump {}", descriptor.prefix().trim_end_matches('-'));
        let table = source.table.clone();
        if args.keys_only {
            let mut dump = JsonDump::new(out, table, style);
            wanted.read(&source, &what, |event, fragment, _| match event {
                Event::PartitionStart => dump.key(&fragment.key),
                _ => Ok(()),
            })?;
            dump.finish()?;
        } else if as_json {
            let mut dump = JsonDump::new(out, table, style);
            wanted.read(&source, &what, |event, fragment, at| dump.take(event, fragment, at))?;
            dump.finish()?;
        } else if args.internal {
            let mut dump = internal::InternalDump::new(out, table);
            wanted.read(&source, &what, |event, fragment, at| dump.take(event, fragment, at))?;
        } else {
            if descriptors.len() > 1 {
                out.line(&format!("{}{descriptor}", if i > 0 { "\n" } else { "" }))?;
            }
            let mut dump = RowTable::new(out, table, style);
            wanted.read(&source, &what, |event, fragment, at| dump.take(event, fragment, at))?;
            dump.finish()?;
        }
    }
    Ok(Outcome::Sound)
}
