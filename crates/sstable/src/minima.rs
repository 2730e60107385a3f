//! Whether the minima in an SSTable's header are those that its rows were written relative to.
//!
//! Every timestamp, deletion time and TTL of a row is a difference to a minimum in the header of
//! Statistics.db, which has no checksum before version `na`. A flipped bit in a minimum would shift all of
//! them, unseen. But the stats in the same file hold the smallest and the largest values once more:
//!
//! 1. Where a minimum equals its copy, or nothing is written relative to it, the two vouch for each other.
//! 2. Otherwise (TTLs of several lengths; something older was overwritten or forgotten since) the rows are
//!    read once, before the first of them is yielded. Shifted rows would not end where the stats say. When a
//!    read is late and gives up, what was read stays known, and the next read goes on from there.
//! 3. Deletions of partitions are not relative to anything. Where both ends are theirs, rows may lie anywhere
//!    between, and a minimum is refused only when it is one bit off its copy.

use crate::data_walk::{DataWalk, Unfiltered};
use crate::descriptor::{Component, Descriptor};
use crate::error::file_name;
use crate::pages::PagedFile;
use crate::statistics::Statistics;
use model::{Deletion, NO_DELETION_TIME, NO_TTL, Row};
use partition::codec::{DELETION_EPOCH_S, Layout, TIMESTAMP_EPOCH_MICROS};
use partition::{Fragment, ReadContext, ReadError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Stands for times that cannot be, as releases wrote them in which expirations overflowed (CASSANDRA-14092).
const OVERFLOWN: i64 = NO_DELETION_TIME as i64 - 1;

/// The smallest and the largest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    min: i64,
    max: i64,
}

impl Span {
    fn around(span: Option<Span>, value: i64) -> Option<Span> {
        let Span { min, max } = span.unwrap_or(Span { min: value, max: value });
        Some(Span { min: min.min(value), max: max.max(value) })
    }
}

/// Values of one kind, as far as they were read.
#[derive(Debug, Default)]
struct Values {
    /// Relative to the minimum.
    relative: Option<Span>,
    /// All of them.
    all: Option<Span>,
}

impl Values {
    fn add(&mut self, value: i64, is_relative: bool) {
        self.all = Span::around(self.all, value);
        if is_relative {
            self.relative = Span::around(self.relative, value);
        }
    }

    /// Whether these are not what the stats say of them, `said`. The header's minimum is `minimum`; both
    /// minima are written as differences to `epoch`.
    fn contradict(&self, said: Span, minimum: i64, epoch: i64) -> bool {
        let (Some(relative), Some(all)) = (self.relative, self.all) else { return false };
        let is_settled = relative.min == said.min || relative.max == said.max;
        let off = minimum.wrapping_sub(epoch) ^ said.min.wrapping_sub(epoch);
        all != said || !is_settled && off.count_ones() == 1
    }
}

/// What rows hold, as far as they were read.
#[derive(Debug, Default)]
struct Seen {
    timestamps: Values,
    local_deletion_times: Values,
    ttls: Values,
}

impl Seen {
    fn moment(&mut self, timestamp: i64, ttl: i32, local_deletion_time: u32, is_relative: bool) {
        self.timestamps.add(timestamp, is_relative);
        // What neither is deleted nor expires is written without a time.
        let is_written = is_relative && local_deletion_time != NO_DELETION_TIME;
        self.local_deletion_times.add(local_deletion_time.into(), is_written);
        self.ttls.add(ttl.into(), is_relative && ttl != NO_TTL);
    }

    fn deletion(&mut self, deletion: &Deletion, is_relative: bool) {
        if !deletion.is_none() {
            self.moment(deletion.timestamp, NO_TTL, deletion.local_deletion_time, is_relative);
        }
    }

    fn row(&mut self, row: &Row) {
        let liveness = &row.liveness;
        if !liveness.is_none() {
            self.moment(liveness.timestamp, liveness.ttl, liveness.local_expiration_time, true);
        }
        self.deletion(&row.deletion, true);
        row.complex_deletions.iter().for_each(|(_, deletion)| self.deletion(deletion, true));
        for cell in &row.cells {
            self.moment(cell.timestamp, cell.ttl, cell.local_deletion_time, true);
        }
    }

    /// What of this is not as the stats say.
    fn differs(&self, Statistics { header, stats, .. }: &Statistics) -> Option<String> {
        let times =
            Span { min: stats.min_local_deletion_time.into(), max: stats.max_local_deletion_time.into() };
        let minima = &header.stats;
        let kinds = [
            (
                "timestamps",
                &self.timestamps,
                Span { min: stats.min_timestamp, max: stats.max_timestamp },
                (minima.min_timestamp, TIMESTAMP_EPOCH_MICROS),
            ),
            (
                "deletion times",
                &self.local_deletion_times,
                times,
                (header.min_local_deletion_time().into(), DELETION_EPOCH_S.into()),
            ),
            (
                "TTLs",
                &self.ttls,
                // The smallest says whether something has none.
                Span { min: self.ttls.all.map_or(0, |all| all.min), max: stats.max_ttl.into() },
                (minima.min_ttl.into(), 0),
            ),
        ];
        let wrong = kinds.iter().find(|(_, values, said, (minimum, epoch))| {
            // Negative times: what one is depends on what was written, not on the minimum.
            said.min != OVERFLOWN && values.contradict(*said, *minimum, *epoch)
        });
        wrong.map(|(what, values, said, (minimum, _))| {
            format!(
                "relative to {minimum}, {what} of rows go from {:?} where {said:?} is expected",
                values.all
            )
        })
    }
}

/// How far the rows were read.
#[derive(Debug)]
struct Progress {
    seen: Seen,
    /// Where the partition starts that is being read.
    partition: Option<u64>,
    /// Where the next row, marker or partition starts.
    next: u64,
    /// What was found out.
    verdict: Option<Result<(), ReadError>>,
}

/// The proof, or the doubt.
#[derive(Debug)]
pub(crate) struct Minima {
    is_proven: AtomicBool,
    progress: Mutex<Progress>,
}

impl Minima {
    /// What Statistics.db alone tells.
    pub fn of(descriptor: &Descriptor, statistics: &Statistics) -> Minima {
        let minima = Minima::unproven();
        let is_proven = descriptor.version.has_metadata_checksums() || are_twice(statistics);
        minima.is_proven.store(is_proven, Ordering::Release);
        minima
    }

    fn unproven() -> Minima {
        let progress = Progress { seen: Seen::default(), partition: None, next: 0, verdict: None };
        Minima { is_proven: AtomicBool::new(false), progress: Mutex::new(progress) }
    }

    /// Whether nothing is left to be read for the proof.
    #[inline]
    pub fn are_proven(&self) -> bool {
        self.is_proven.load(Ordering::Acquire)
    }

    /// Reads what has to be read to prove the minima.
    ///
    /// # Errors
    /// When a minimum is wrong, the data cannot be read, or the context allows no such reading.
    #[cold]
    pub fn prove(
        &self,
        descriptor: &Descriptor,
        statistics: &Statistics,
        data: &Arc<PagedFile>,
        layout: Arc<Layout>,
        context: &ReadContext,
    ) -> Result<(), ReadError> {
        if !context.may_block {
            return Err(ReadError::WouldBlock);
        }
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = &progress.verdict {
            return verdict.clone();
        }
        progress.read(data, layout, context)?;
        let verdict = match progress.seen.differs(statistics) {
            None => Ok(()),
            Some(detail) => {
                let name = file_name(&descriptor.path(Component::Statistics));
                Err(ReadError::corrupt(&name, 0, format!("a minimum of the header is wrong: {detail}")))
            }
        };
        self.is_proven.store(verdict.is_ok(), Ordering::Release);
        progress.verdict = Some(verdict.clone());
        verdict
    }
}

impl Progress {
    fn read(
        &mut self,
        data: &Arc<PagedFile>,
        layout: Arc<Layout>,
        context: &ReadContext,
    ) -> Result<(), ReadError> {
        let mut walk = DataWalk::new(data, layout, context.clone());
        let mut fragment = Fragment::default();
        if let Some(partition) = self.partition {
            // What was open before was seen where it began.
            walk.resume(partition, self.next, Deletion::NONE);
        }
        while self.next < data.len {
            if self.partition.is_none() {
                walk.start_partition(self.next, &mut fragment)?;
                self.seen.deletion(&fragment.deletion, false);
                if walk.static_row(&mut fragment.row)? {
                    self.seen.row(&fragment.row);
                }
                self.partition = Some(self.next);
                self.next = walk.position();
            }
            loop {
                context.check_deadline()?;
                match walk.next(&mut fragment)? {
                    Unfiltered::Row => self.seen.row(&fragment.row),
                    Unfiltered::Change => self.seen.deletion(&fragment.change.deletion, true),
                    Unfiltered::End => break,
                }
                self.next = walk.position();
            }
            self.partition = None;
            self.next = walk.position();
        }
        Ok(())
    }
}

/// Whether each minimum of the header is there a second time, or not needed.
fn are_twice(statistics: &Statistics) -> bool {
    let (header, stats) = (&statistics.header, &statistics.stats);
    let minima = &header.stats;
    minima.min_timestamp == stats.min_timestamp
        && (header.min_local_deletion_time() == stats.min_local_deletion_time || !stats.may_have_tombstones())
        && (minima.min_ttl == stats.max_ttl || stats.max_ttl == NO_TTL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::recorded::{Fixture, sets, tables_of};
    use crate::{SsTable, table_of_header};

    /// What the rows hold is what the stats say, in files of every release: a sound file is never refused.
    #[test]
    fn files_of_cassandra_are_proven_by_their_rows() {
        let mut count = 0;
        for set in sets().iter().filter(|set| !set.starts_with('5')) {
            for name in tables_of(set) {
                for sstable in Fixture::load(set, &name).open().unwrap() {
                    let SsTable { statistics, data, .. } = &*sstable;
                    let table = table_of_header(&statistics.header).unwrap();
                    let layout = Arc::new(Layout::of_sstable(&statistics.header, &table).unwrap());
                    let context = ReadContext::default();
                    Minima::unproven()
                        .prove(sstable.descriptor(), statistics, data, layout, &context)
                        .unwrap_or_else(|e| panic!("{set}/{name}: {e}"));
                    count += 1;
                }
            }
        }
        assert!(count > 30, "{count}");
    }

    /// A read that may not wait leaves the proof to one that may.
    #[test]
    fn the_proof_is_left_to_those_who_may_wait() {
        let fixture = Fixture::load("3.11.19-me", "mix_lz4");
        let sstable = fixture.open().unwrap().remove(0);
        assert!(!sstable.minima_are_proven());
        let context = ReadContext { may_block: false, ..ReadContext::default() };
        assert!(matches!(sstable.prove_minima(&context), Err(ReadError::WouldBlock)));
        sstable.prove_minima(&ReadContext::default()).unwrap();
        assert!(sstable.minima_are_proven());
        sstable.prove_minima(&context).unwrap();
    }
}
