//! Sources: what is scanned.

use crate::scan::gone_over;
use crate::split::{Cut, RowCut, can_be_cut};
use crate::{Batches, BulkError, Scan, ScanRequest, Split, Table};
use engine::table::HeldTable;
use env::fs::FileSystem;
use model::TableSchema;
use model::command::PartitionSelection;
use model::key::{KeyBound, KeyRange};
use partition::{Deadline, NanoClock, ReadContext, ReadCost, ReadError};
use sstable::{Descriptor, OpenError, SsTable, Uncached};
use std::fmt;
use std::sync::Arc;

/// Places that are looked at for each part that a partition is cut into.
const MARKS_PER_PIECE: u64 = 4;

/// One table as it is at one moment, from its own files and memtables. Clones are the same.
#[derive(Clone)]
pub struct Source {
    held: HeldTable,
    table: Arc<TableSchema>,
}

impl Source {
    /// A table of a running node.
    pub fn of_node(held: HeldTable) -> Source {
        Source { table: held.schema(), held }
    }

    /// SSTables that no node has open, of a table of this definition. One that a node found damaged before is
    /// compared with its digest first: it may have been mended, and whoever salvages has to know where it is
    /// damaged.
    ///
    /// # Errors
    /// When one cannot be opened, or is of another table.
    pub fn of_sstables(
        fs: &Arc<dyn FileSystem>,
        descriptors: &[Descriptor],
        table: &Arc<TableSchema>,
    ) -> Result<Source, OpenError> {
        let open = |(i, descriptor): (usize, &Descriptor)| -> Result<Arc<SsTable>, OpenError> {
            let sstable = SsTable::open(fs.as_ref(), descriptor, i as u64, Arc::new(Uncached))?;
            if sstable.refusal().is_some() {
                match sstable.prove(fs, None, &mut |_| true) {
                    // Reads of it say so.
                    Ok(_) | Err(ReadError::Corrupt { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(Arc::new(sstable))
        };
        let sstables = descriptors.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
        let held = HeldTable::of_sstables(Arc::clone(table), sstables)?;
        Ok(Source { held, table: Arc::clone(table) })
    }

    /// The definition of the table.
    pub fn table(&self) -> &Arc<TableSchema> {
        &self.table
    }

    /// Names and sizes of the data files, for who wants to know whether a source is still the same.
    pub fn files(&self) -> Vec<(String, u64)> {
        let of = |sstable: &Arc<SsTable>| (sstable.descriptor().to_string(), sstable.data_file_bytes());
        let mut files: Vec<_> = self.held.sstables().iter().map(of).collect();
        files.sort();
        files
    }

    /// Bytes of the SSTables, before compression.
    pub fn data_bytes(&self) -> u64 {
        self.held.data_bytes()
    }

    /// How many rows there are, where that is known without a scan.
    pub fn known_rows(&self) -> Option<u64> {
        self.held.known_rows()
    }

    /// At most `parts` splits, which together are what the request asks for, with about as many bytes each. A
    /// request by partition keys is one split. So is one that salvages, where damage hides places to split
    /// at.
    ///
    /// # Errors
    /// When an index cannot be read.
    pub fn splits(&self, request: &ScanRequest, parts: u64) -> Result<Vec<Split>, BulkError> {
        match self.even_splits(request, parts) {
            Err(BulkError::Read(ReadError::Corrupt { .. })) if request.salvages => Ok(vec![Split::FULL]),
            splits => splits,
        }
    }

    fn even_splits(&self, request: &ScanRequest, parts: u64) -> Result<Vec<Split>, BulkError> {
        let ctx = ReadContext { salvages: request.salvages, ..context() };
        let range = match &request.command.partitions {
            PartitionSelection::Keys(_) => return Ok(vec![Split::FULL]),
            PartitionSelection::Range(range) => range,
        };
        let ranges = self.held.splits(range, parts, &ctx)?;
        let inner = ranges.len().saturating_sub(1);
        let rows_of = |bytes: u64| {
            let rows = u128::from(self.held.stored_rows()) * u128::from(bytes);
            u64::try_from(rows / u128::from(self.data_bytes().max(1))).unwrap_or(u64::MAX)
        };
        let share = self.held.bytes_in(range, &ctx)? / parts.max(1);
        let mut spare = match can_be_cut(&request.command) {
            true => parts.saturating_sub(ranges.len() as u64),
            false => 0,
        };
        let mut out = Vec::with_capacity(ranges.len());
        for (i, range) in ranges.iter().enumerate() {
            // What lies before the first and behind the last is kept out by the request.
            let after = if i == 0 { None } else { token_of(&range.start) };
            let through = if i == inner { None } else { token_of(&range.end) };
            let bytes_estimate = self.held.bytes_in(range, &ctx)?;
            let whole = Split { after, through, bytes_estimate, ..Split::FULL };
            let cuts = match spare {
                0 => Vec::new(),
                _ => self.cuts(range, share.max(1), spare, &ctx)?,
            };
            spare -= cuts.len() as u64;
            out.extend(whole.cut_at(cuts));
        }
        for split in &mut out {
            split.rows_estimate = rows_of(split.bytes_estimate);
        }
        Ok(out)
    }

    /// Where partitions of a range that have much more than `share` bytes are cut, in at most `spare` places.
    fn cuts(
        &self,
        range: &KeyRange,
        share: u64,
        spare: u64,
        ctx: &ReadContext,
    ) -> Result<Vec<Cut>, BulkError> {
        let mut cuts: Vec<Cut> = Vec::new();
        for partition in self.held.large_partitions(range, share.saturating_mul(2), ctx)? {
            let pieces = (partition.bytes / share).min(spare - cuts.len() as u64 + 1);
            if pieces < 2 {
                continue;
            }
            let token = partition.key.token;
            let end = KeyBound::Token { token, inclusive: true };
            let until = KeyRange { start: range.start.clone(), end };
            let base = self.held.bytes_in(&until, ctx)?.saturating_sub(partition.bytes);
            let size = partition.bytes / pieces;
            let (mut wanted, mut left) = (size, pieces - 1);
            for (prefix, before) in self.held.marks_in(&partition.key, size / MARKS_PER_PIECE, ctx)? {
                if left == 0 || before < wanted {
                    continue;
                }
                let Some(row) = RowCut::of(&partition.key, &prefix, &self.table) else { continue };
                cuts.push(Cut { token: token.0, row, bytes_before: base.saturating_add(before) });
                left -= 1;
                // Where blocks are long, there are fewer pieces.
                wanted = (before / size.max(1) + 1).saturating_mul(size);
            }
        }
        Ok(cuts)
    }

    /// The partitions that scans make rows of, as they read them; `salvages` as in the request.
    #[cfg(test)]
    pub(crate) fn partitions(
        &self,
        command: &model::command::ReadCommand,
        salvages: bool,
    ) -> partition::BoxedStream {
        let stream = self.held.read(command, &context()).unwrap();
        if salvages { crate::scan::noted(stream) } else { stream }
    }

    /// Scans what a request asks for of a split. Nothing is read before the first batch is asked for.
    pub fn scan(&self, request: &ScanRequest, split: &Split) -> Scan {
        self.scan_with(request, split, context())
    }

    /// As [`Source::scan`], with a context: for its cost, or a deadline. Nothing fills a cache all the same.
    pub fn scan_with(&self, request: &ScanRequest, split: &Split, ctx: ReadContext) -> Scan {
        let deadline = ctx.deadline.or_else(|| Some(self.while_wanted(request, &ctx.cost)));
        let salvages = request.salvages;
        let ctx = ReadContext { fill_cache: false, fill_index_cache: false, deadline, salvages, ..ctx };
        Scan::new(self.held.clone(), request, split.steps(&request.command), ctx)
    }
}

impl Source {
    /// A deadline that is over when nobody wants the rows any more. Readers look at it on their way, so it is
    /// here, too, that a scan keeps to its pace.
    fn while_wanted(&self, request: &ScanRequest, cost: &Arc<ReadCost>) -> Deadline {
        let (cancel, pace) = (request.cancel.clone(), request.pace.clone());
        let (cost, held) = (Arc::clone(cost), self.held.clone());
        let goes_on = move || pace.as_ref().is_none_or(|pace| pace.goes_on(gone_over(&cost, &held)));
        let clock: NanoClock = Arc::new(move || u64::from(cancel.is_cancelled() || !goes_on()));
        Deadline::new(&clock, 1)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.table.keyspace, self.table.name)
    }
}

impl Table for Source {
    fn definition(&self) -> &Arc<TableSchema> {
        self.table()
    }

    fn files(&self) -> Vec<(String, u64)> {
        Source::files(self)
    }

    fn data_bytes(&self) -> Result<u64, BulkError> {
        Ok(Source::data_bytes(self))
    }

    fn known_rows(&self) -> Result<Option<u64>, BulkError> {
        Ok(Source::known_rows(self))
    }

    fn splits(&self, request: &ScanRequest, parts: u64) -> Result<Vec<Split>, BulkError> {
        Source::splits(self, request, parts)
    }

    fn scan(&self, request: &ScanRequest, split: &Split) -> Result<Box<dyn Batches>, BulkError> {
        Ok(Box::new(Source::scan(self, request, split)))
    }
}

/// How a scan reads: it may wait, and leaves nothing in a cache.
fn context() -> ReadContext {
    ReadContext { fill_cache: false, fill_index_cache: false, ..ReadContext::default() }
}

fn token_of(bound: &KeyBound) -> Option<i64> {
    match bound {
        KeyBound::Unbounded => None,
        KeyBound::Token { token, .. } => Some(token.0),
        KeyBound::Key { key, .. } => Some(key.token.0),
    }
}
