//! What each source did for one read: for EXPLAIN ANALYZE and traces, where somebody wants to know it.
//!
//! A recorded read counts the work of each memtable and SSTable in a cost of the source's own
//! ([`ReadContext::at_source`]), so the sources know nothing of it. [`ReadContext::total_cost`] is the sum. A
//! read that is not recorded pays one look at an `Option` for each source that it opens.
//!
//! A source has one record, however many keys and pages the read consists of.

use crate::cost::CostSnapshot;
use crate::cost::{Counter, ReadContext, ReadCost};
use crate::error::ReadError;
use crate::stream::{BoxedStream, Event, Fragment, PartitionStream};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Sources that are recorded one by one; what comes after them shares a record.
const SOURCES_MAX: usize = 512;

/// Nanoseconds of a clock that never goes back.
pub type NanoClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Where a read found rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// A memtable.
    Memtable,
    /// An SSTable.
    SsTable,
    /// The row cache.
    RowCache,
}

/// What became of a source for one key, or for the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It may have rows, and is opened.
    Candidate,
    /// Its keys do not meet the read's.
    Range,
    /// Its clusterings cannot match.
    Clustering,
    /// Its bloom filter says that the key is not there.
    Bloom,
    /// What is newer had answered everything.
    Timestamp,
    /// It was looked up, and the key is not there.
    Absent,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 6] = [
        Verdict::Candidate,
        Verdict::Range,
        Verdict::Clustering,
        Verdict::Bloom,
        Verdict::Timestamp,
        Verdict::Absent,
    ];

    /// Counts the verdict in the read's cost.
    fn count(self, cost: &ReadCost) {
        let counter = match self {
            Verdict::Range => &cost.skipped_by_range,
            Verdict::Clustering => &cost.skipped_by_clustering,
            Verdict::Bloom => &cost.skipped_by_bloom,
            Verdict::Timestamp => &cost.skipped_by_timestamp,
            Verdict::Candidate | Verdict::Absent => return,
        };
        counter.add(1);
    }
}

/// One source of a recorded read.
#[derive(Debug)]
struct Source {
    kind: SourceKind,
    name: String,
    cost: Arc<ReadCost>,
    verdicts: [Counter; Verdict::ALL.len()],
    lookup_nanos: Counter,
    rows_nanos: Counter,
}

/// What a source did, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRecord {
    /// What it is.
    pub kind: SourceKind,
    /// Its name: an SSTable's without the directory.
    pub name: String,
    /// What it cost.
    pub cost: CostSnapshot,
    verdicts: [u64; Verdict::ALL.len()],
    /// Time until it was open: the search in its index.
    pub lookup_nanos: u64,
    /// Time in which it yielded its rows.
    pub rows_nanos: u64,
}

impl SourceRecord {
    /// How often it met this verdict: once for each key, or once for a range.
    pub fn verdicts(&self, verdict: Verdict) -> u64 {
        self.verdicts.get(verdict as usize).copied().unwrap_or_default()
    }
}

/// Records the sources of one read.
pub struct Recorder {
    clock: NanoClock,
    sources: Mutex<Vec<Arc<Source>>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// Records with the times of `clock`.
    pub fn new(clock: NanoClock) -> Arc<Recorder> {
        Arc::new(Recorder { clock, sources: Mutex::default() })
    }

    fn source(&self, kind: SourceKind, name: String) -> Arc<Source> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let name = if sources.len() < SOURCES_MAX { name } else { "others".to_owned() };
        if let Some(known) = sources.iter().find(|s| s.kind == kind && s.name == name) {
            return Arc::clone(known);
        }
        let source = Arc::new(Source {
            kind,
            name,
            cost: Arc::default(),
            verdicts: Default::default(),
            lookup_nanos: Counter::default(),
            rows_nanos: Counter::default(),
        });
        sources.push(Arc::clone(&source));
        source
    }

    /// The sources so far, in the order in which the read came to them.
    pub fn sources(&self) -> Vec<SourceRecord> {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = |source: &Arc<Source>| SourceRecord {
            kind: source.kind,
            name: source.name.clone(),
            cost: source.cost.snapshot(),
            verdicts: Verdict::ALL.map(|v| source.verdicts.get(v as usize).map_or(0, Counter::get)),
            lookup_nanos: source.lookup_nanos.get(),
            rows_nanos: source.rows_nanos.get(),
        };
        sources.iter().map(snapshot).collect()
    }
}

/// A source that a read has come to: where its work is counted.
pub struct AtSource<'c> {
    context: &'c ReadContext,
    record: Option<(ReadContext, Arc<Source>, NanoClock)>,
}

impl<'c> AtSource<'c> {
    /// The context that the source works with.
    pub fn context(&self) -> &ReadContext {
        self.record.as_ref().map_or(self.context, |(context, ..)| context)
    }

    /// Notes what became of the source.
    pub fn judge(&self, verdict: Verdict) {
        verdict.count(&self.context.cost);
        if let Some(counter) = self.record.as_ref().and_then(|(_, s, _)| s.verdicts.get(verdict as usize)) {
            counter.add(1);
        }
    }

    /// Opens the source's stream, if it has one, and takes the time that it works.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn open<S: PartitionStream + 'static>(
        &self,
        open: impl FnOnce(&ReadContext) -> Result<Option<Box<S>>, ReadError>,
    ) -> Result<Option<BoxedStream>, ReadError> {
        let Some((context, source, clock)) = &self.record else {
            return Ok(open(self.context)?.map(|stream| stream as BoxedStream));
        };
        let started = clock();
        let stream = open(context)?;
        source.lookup_nanos.add(clock().saturating_sub(started));
        Ok(stream.map(|stream| {
            let (source, clock) = (Arc::clone(source), Arc::clone(clock));
            Box::new(Timed { stream, source, clock, nanos: 0 }) as BoxedStream
        }))
    }
}

impl ReadContext {
    /// Turns to a source, whose name is only made when the read is recorded.
    pub fn at_source(&self, kind: SourceKind, name: impl FnOnce() -> String) -> AtSource<'_> {
        let record = self.recorder.as_ref().map(|recorder| {
            let source = recorder.source(kind, name());
            let context = ReadContext { cost: Arc::clone(&source.cost), recorder: None, ..self.clone() };
            (context, source, Arc::clone(&recorder.clock))
        });
        AtSource { context: self, record }
    }

    /// The cost of the whole read: with that of each source, when they were recorded apart.
    pub fn total_cost(&self) -> CostSnapshot {
        let mut total = self.cost.snapshot();
        if let Some(recorder) = &self.recorder {
            let sources = recorder.sources.lock().unwrap_or_else(PoisonError::into_inner);
            sources.iter().for_each(|source| total.add(&source.cost.snapshot()));
        }
        total
    }
}

/// A stream whose time is taken.
struct Timed<S> {
    stream: Box<S>,
    source: Arc<Source>,
    clock: NanoClock,
    nanos: u64,
}

impl<S> Timed<S> {
    fn timed<T>(&mut self, work: impl FnOnce(&mut S) -> T) -> T {
        let started = (self.clock)();
        let out = work(&mut self.stream);
        self.nanos += (self.clock)().saturating_sub(started);
        out
    }
}

impl<S: PartitionStream> PartitionStream for Timed<S> {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        self.timed(|stream| stream.next(out))
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.timed(S::skip_partition)
    }
}

impl<S> Drop for Timed<S> {
    fn drop(&mut self) {
        self.source.rows_nanos.add(self.nanos);
    }
}
