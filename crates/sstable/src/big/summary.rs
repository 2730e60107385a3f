//! Summary.db: a sample of the index, kept in memory (docs/formats/sstable-big.md).
//!
//! ```text
//! i32 min index interval | i32 n | i64 bytes of offsets and entries | i32 sampling level | i32 n at full sampling
//! | n * u32 LE offset of entry | entries: key, i64 LE position in Index.db | ibytes first key | ibytes last key
//! ```
//! Offsets count from the start of the table of offsets; an entry ends where the next starts.

use bytes::Bytes;
use model::{DecoratedKey, PartitionKey};
use partition::codec::{DecodeError, Input, SliceInput};

/// Sampling level of a summary that was never thinned out.
const FULL_SAMPLING: i32 = 128;

/// A summary of an Index.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Partitions for each entry, at full sampling.
    pub min_index_interval: u32,
    /// Keys with their positions in Index.db, ascending; the first partition is always among them.
    pub entries: Vec<(DecoratedKey, u64)>,
    pub first: DecoratedKey,
    pub last: DecoratedKey,
}

impl Summary {
    pub fn encode(&self) -> Vec<u8> {
        let mut offsets = Vec::with_capacity(self.entries.len() * 4);
        let mut entries = Vec::new();
        let table_len = self.entries.len() * 4;
        for (key, position) in &self.entries {
            offsets.extend_from_slice(&((table_len + entries.len()) as u32).to_le_bytes());
            entries.extend_from_slice(&key.key.0);
            entries.extend_from_slice(&position.to_le_bytes());
        }
        let count = self.entries.len() as i32;
        let mut out = Vec::with_capacity(64 + table_len + entries.len());
        out.extend_from_slice(&(self.min_index_interval as i32).to_be_bytes());
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&((table_len + entries.len()) as i64).to_be_bytes());
        out.extend_from_slice(&FULL_SAMPLING.to_be_bytes());
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&offsets);
        out.extend_from_slice(&entries);
        for key in [&self.first, &self.last] {
            out.extend_from_slice(&(key.key.0.len() as i32).to_be_bytes());
            out.extend_from_slice(&key.key.0);
        }
        out
    }

    pub fn decode(bytes: Bytes) -> Result<Summary, DecodeError> {
        let mut input = SliceInput::new(bytes);
        let min_index_interval = input.i32()?;
        let count = input.i32()?;
        let size = input.i64()?;
        input.i32()?;
        input.i32()?;
        if min_index_interval <= 0 || count <= 0 || size < count as i64 * 12 {
            return Err(input.malformed(format!(
                "{count} entries in {size} bytes, one for {min_index_interval} partitions"
            )));
        }
        let body = input.bytes(size as u64)?;
        let (table, _) = body.as_chunks::<4>();
        let mut bounds: Vec<usize> =
            table.iter().take(count as usize).map(|o| u32::from_le_bytes(*o) as usize).collect();
        bounds.push(body.len());
        let mut entries: Vec<(DecoratedKey, u64)> = Vec::with_capacity(count as usize);
        for (start, end) in bounds.iter().zip(bounds.iter().skip(1)) {
            let entry = body.get(*start..*end).and_then(|entry| entry.split_last_chunk::<8>());
            let Some((key, position)) = entry.filter(|_| *start >= count as usize * 4) else {
                return Err(input.malformed(format!("an entry from {start} to {end} of {}", body.len())));
            };
            let key = DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(key)));
            let position = u64::from_le_bytes(*position);
            let ascends = entries.last().is_none_or(|(k, p)| *k < key && *p < position);
            if !ascends || (entries.is_empty() && position != 0) {
                return Err(input.malformed("the entries do not ascend".to_owned()));
            }
            entries.push((key, position));
        }
        let mut key = || -> Result<DecoratedKey, DecodeError> {
            let len = input.i32()?;
            let bytes = input.bytes(u64::try_from(len).unwrap_or(u64::MAX))?;
            Ok(DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(&bytes))))
        };
        let (first, last) = (key()?, key()?);
        let fits = entries.first().is_some_and(|(key, _)| *key == first)
            && entries.last().is_some_and(|(key, _)| *key <= last);
        if !fits {
            return Err(input.malformed("first and last key do not fit the entries".to_owned()));
        }
        Ok(Summary { min_index_interval: min_index_interval as u32, entries, first, last })
    }

    /// The entry at or before `key`: its number. `None` when the key lies before all.
    pub fn floor(&self, key: &DecoratedKey) -> Option<usize> {
        self.entries.partition_point(|(k, _)| k <= key).checked_sub(1)
    }

    pub fn memory_bytes(&self) -> usize {
        self.entries.iter().map(|(key, _)| key.key.0.len() + 56).sum()
    }
}

/// Collects a [`Summary`] while an index is written or read.
#[derive(Debug)]
pub(crate) struct SummaryBuilder {
    min_index_interval: u32,
    count: u64,
    entries: Vec<(DecoratedKey, u64)>,
    last: Option<DecoratedKey>,
}

impl SummaryBuilder {
    pub fn new(min_index_interval: u32) -> SummaryBuilder {
        SummaryBuilder {
            min_index_interval: min_index_interval.max(1),
            count: 0,
            entries: Vec::new(),
            last: None,
        }
    }

    /// Takes the next partition, and says whether it has an entry.
    pub fn add(&mut self, key: &DecoratedKey, index_position: u64) -> bool {
        // Copied, so that a sample does not keep the buffer it was read from.
        let own = || DecoratedKey { token: key.token, key: PartitionKey(Bytes::copy_from_slice(&key.key.0)) };
        let is_sample = self.count.is_multiple_of(self.min_index_interval as u64);
        if is_sample {
            self.entries.push((own(), index_position));
        }
        self.count += 1;
        self.last = Some(own());
        is_sample
    }

    pub fn last(&self) -> Option<&DecoratedKey> {
        self.last.as_ref()
    }

    /// As [`SummaryBuilder::finish`], of the partitions so far.
    pub fn so_far(&self) -> Option<Summary> {
        Some(Summary {
            min_index_interval: self.min_index_interval,
            first: self.entries.first()?.0.clone(),
            last: self.last.clone()?,
            entries: self.entries.clone(),
        })
    }

    /// `None` when there were no partitions.
    pub fn finish(self) -> Option<Summary> {
        Some(Summary {
            min_index_interval: self.min_index_interval,
            first: self.entries.first()?.0.clone(),
            last: self.last?,
            entries: self.entries,
        })
    }
}
