//! Large partitions of a held table, and where they can be cut.

use super::HeldTable;
use model::key::{KeyBound, KeyRange};
use model::{Clustering, ClusteringBound, DecoratedKey, Token};
use partition::{ReadContext, ReadError};

/// A partition and about how many bytes the SSTables have of it, before compression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargePartition {
    /// The partition.
    pub key: DecoratedKey,
    /// Its bytes.
    pub bytes: u64,
}

/// A stretch of tokens, and the bytes of SSTables before and behind it.
struct Stretch {
    /// Its tokens are greater.
    after: i64,
    /// They are not greater.
    through: i64,
    bytes: (u64, u64),
}

impl HeldTable {
    /// Partitions of a range that have at least `bytes_min` bytes of SSTables, in ring order. Partitions that
    /// share a token are not among them.
    ///
    /// # Errors
    /// When an index cannot be read.
    pub fn large_partitions(
        &self,
        range: &KeyRange,
        bytes_min: u64,
        ctx: &ReadContext,
    ) -> Result<Vec<LargePartition>, ReadError> {
        let inside = self.view.sstables.iter().filter(|sstable| sstable.overlaps(range));
        let (mut after, mut through) = (i64::MAX, i64::MIN);
        for sstable in inside {
            after = after.min(sstable.first_key().token.0.saturating_sub(1));
            through = through.max(sstable.last_key().token.0);
        }
        let mut out = Vec::new();
        if after < through {
            let bytes = (self.bytes_before(Token(after), ctx)?, self.bytes_before(Token(through), ctx)?);
            self.descend(&Stretch { after, through, bytes }, bytes_min.max(1), &mut out, ctx)?;
        }
        out.retain(|partition| range.contains(&partition.key));
        Ok(out)
    }

    /// Halves a stretch until its halves are too small, or one token.
    fn descend(
        &self,
        stretch: &Stretch,
        bytes_min: u64,
        out: &mut Vec<LargePartition>,
        ctx: &ReadContext,
    ) -> Result<(), ReadError> {
        let Stretch { after, through, bytes: (before, behind) } = *stretch;
        let bytes = behind.saturating_sub(before);
        if bytes < bytes_min {
            return Ok(());
        }
        if after.abs_diff(through) <= 1 {
            let key = self.only_key_of(Token(through), ctx)?;
            out.extend(key.map(|key| LargePartition { key, bytes }));
            return Ok(());
        }
        let middle = after.wrapping_add_unsigned(after.abs_diff(through) / 2);
        let until_middle = self.bytes_before(Token(middle), ctx)?;
        let halves = [(after, middle, before, until_middle), (middle, through, until_middle, behind)];
        for (after, through, before, behind) in halves {
            self.descend(&Stretch { after, through, bytes: (before, behind) }, bytes_min, out, ctx)?;
        }
        Ok(())
    }

    /// The one key of the SSTables that has a token.
    fn only_key_of(&self, token: Token, ctx: &ReadContext) -> Result<Option<DecoratedKey>, ReadError> {
        let bound = || KeyBound::Token { token, inclusive: true };
        let range = KeyRange { start: bound(), end: bound() };
        let schema = self.table.schema();
        let mut found: Option<DecoratedKey> = None;
        for sstable in self.view.sstables.iter().filter(|sstable| sstable.overlaps(&range)) {
            let mut heads = sstable.heads_from(&range.start, &schema, ctx)?;
            while let Some(head) = heads.next_head()? {
                match head.key {
                    Some(key) if range.is_before_start(&key) => {}
                    Some(key) if range.contains(&key) => {
                        if found.as_ref().is_some_and(|found| *found != key) {
                            return Ok(None);
                        }
                        found = Some(key);
                    }
                    _ => break,
                }
            }
        }
        Ok(found)
    }

    /// Places in a partition at which it can be cut, in clustering order, each with the bytes of SSTables
    /// that lie before it. A place lies in front of all rows that begin with its prefix. Each SSTable has
    /// some, about `stride_bytes` apart.
    ///
    /// # Errors
    /// When an index or the data cannot be read.
    pub fn marks_in(
        &self,
        key: &DecoratedKey,
        stride_bytes: u64,
        ctx: &ReadContext,
    ) -> Result<Vec<(Clustering, u64)>, ReadError> {
        let schema = self.table.schema();
        let mut places: Vec<(ClusteringBound, u64)> = Vec::new();
        for sstable in self.view.sstables_for(key) {
            let mut before = 0;
            for mark in sstable.marks_in(key, stride_bytes, &schema, ctx)? {
                places.push((ClusteringBound::start_at(mark.clustering), mark.bytes.saturating_sub(before)));
                before = mark.bytes;
            }
        }
        let comparator = schema.comparator();
        places.sort_by(|(a, _), (b, _)| comparator.compare_positions(a.position(), b.position()));
        let mut out: Vec<(Clustering, u64)> = Vec::new();
        let mut bytes = 0;
        for (bound, more) in places {
            bytes += more;
            match out.last_mut().filter(|(last, _)| *last == bound.prefix) {
                Some((_, before)) => *before = bytes,
                None => out.push((bound.prefix, bytes)),
            }
        }
        Ok(out)
    }
}
