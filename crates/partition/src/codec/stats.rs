//! What timestamps, deletion times and TTLs are written relative to (docs/formats/sstable-nb.md).
//!
//! ```text
//! timestamp       uvint( timestamp - min_timestamp )                      wrapping, 64 bits
//! deletion time   uvint( sign_extend_32( local - min_local_deletion ) )   wrapping, 32 bits
//! ttl             uvint( sign_extend_32( ttl - min_ttl ) )
//! Deletion        timestamp, deletion time
//! ```
//! The minima only make numbers short: anything can be written relative to anything.

use super::input::Input;
use model::{Deletion, Liveness, NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL, Row, vint};

/// Microseconds from which minima are counted, and the minimum where nothing was seen (2015-09-22).
pub const TIMESTAMP_EPOCH_MICROS: i64 = 1_442_880_000_000_000;
/// Seconds from which minima are counted, and the minimum where nothing was seen.
pub const DELETION_EPOCH_S: u32 = 1_442_880_000;

/// Smallest values of what is encoded, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingStats {
    /// Microseconds.
    pub min_timestamp: i64,
    /// Seconds.
    pub min_local_deletion_time: u32,
    /// Seconds.
    pub min_ttl: i32,
}

impl Default for EncodingStats {
    fn default() -> Self {
        EncodingStats {
            min_timestamp: TIMESTAMP_EPOCH_MICROS,
            min_local_deletion_time: DELETION_EPOCH_S,
            min_ttl: NO_TTL,
        }
    }
}

/// The signed seconds of format `nb`: `i32::MAX` for none, later times are held at the last one that fits.
pub(super) fn deletion_time_to_disk(seconds: u32) -> i32 {
    if seconds == NO_DELETION_TIME { i32::MAX } else { seconds.min(i32::MAX as u32 - 1) as i32 }
}

/// `None` for a negative number of seconds.
pub(super) fn deletion_time_from_disk(seconds: i32) -> Option<u32> {
    match seconds {
        i32::MAX => Some(NO_DELETION_TIME),
        0.. => Some(seconds as u32),
        _ => None,
    }
}

impl EncodingStats {
    /// Stats that serve what either of two serves; a side where nothing was seen does not count.
    pub fn merge(self, other: EncodingStats) -> EncodingStats {
        let none = EncodingStats::default();
        fn pick<T: Ord + Copy>(a: T, b: T, unset: T) -> T {
            if a == unset {
                b
            } else if b == unset {
                a
            } else {
                a.min(b)
            }
        }
        EncodingStats {
            min_timestamp: pick(self.min_timestamp, other.min_timestamp, none.min_timestamp),
            min_local_deletion_time: pick(
                self.min_local_deletion_time,
                other.min_local_deletion_time,
                none.min_local_deletion_time,
            ),
            min_ttl: pick(self.min_ttl, other.min_ttl, none.min_ttl),
        }
    }

    /// Appends the stats themselves, relative to the epochs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        vint::write_unsigned(out, self.min_timestamp.wrapping_sub(TIMESTAMP_EPOCH_MICROS) as u64);
        let deletion = deletion_time_to_disk(self.min_local_deletion_time);
        vint::write_unsigned(out, deletion.wrapping_sub(DELETION_EPOCH_S as i32) as i64 as u64);
        vint::write_unsigned(out, self.min_ttl as i64 as u64);
    }

    /// Reads what [`EncodingStats::encode`] wrote.
    pub fn decode<I: Input>(input: &mut I) -> Result<EncodingStats, I::Error> {
        let timestamp = (input.uvint()? as i64).wrapping_add(TIMESTAMP_EPOCH_MICROS);
        let deletion = (input.uvint()? as i32).wrapping_add(DELETION_EPOCH_S as i32);
        let min_ttl = input.uvint()? as i32;
        let Some(min_local_deletion_time) = deletion_time_from_disk(deletion) else {
            return Err(input.malformed(format!("the minimal deletion time {deletion} is negative")));
        };
        Ok(EncodingStats { min_timestamp: timestamp, min_local_deletion_time, min_ttl })
    }

    #[inline]
    pub(super) fn write_timestamp(&self, out: &mut Vec<u8>, timestamp: i64) {
        vint::write_unsigned(out, timestamp.wrapping_sub(self.min_timestamp) as u64);
    }

    #[inline]
    pub(super) fn read_timestamp<I: Input>(&self, input: &mut I) -> Result<i64, I::Error> {
        Ok((input.uvint()? as i64).wrapping_add(self.min_timestamp))
    }

    #[inline]
    pub(super) fn write_local_deletion(&self, out: &mut Vec<u8>, seconds: u32) {
        let min = deletion_time_to_disk(self.min_local_deletion_time);
        let delta = deletion_time_to_disk(seconds).wrapping_sub(min);
        vint::write_unsigned(out, delta as i64 as u64);
    }

    #[inline]
    pub(super) fn read_local_deletion<I: Input>(&self, input: &mut I) -> Result<u32, I::Error> {
        let min = deletion_time_to_disk(self.min_local_deletion_time);
        let seconds = (input.uvint()? as i32).wrapping_add(min);
        deletion_time_from_disk(seconds)
            .ok_or_else(|| input.malformed(format!("the local deletion time {seconds} is negative")))
    }

    #[inline]
    pub(super) fn write_ttl(&self, out: &mut Vec<u8>, ttl: i32) {
        vint::write_unsigned(out, ttl.wrapping_sub(self.min_ttl) as i64 as u64);
    }

    #[inline]
    pub(super) fn read_ttl<I: Input>(&self, input: &mut I) -> Result<i32, I::Error> {
        let ttl = (input.uvint()? as i32).wrapping_add(self.min_ttl);
        if ttl <= 0 { Err(input.malformed(format!("the TTL {ttl} is not positive"))) } else { Ok(ttl) }
    }

    #[inline]
    pub(super) fn write_deletion(&self, out: &mut Vec<u8>, deletion: &Deletion) {
        self.write_timestamp(out, deletion.timestamp);
        self.write_local_deletion(out, deletion.local_deletion_time);
    }

    /// A deletion time whose timestamp is "none" is none whatever its other half says: versions differ there.
    #[inline]
    pub(super) fn read_deletion<I: Input>(&self, input: &mut I) -> Result<Deletion, I::Error> {
        let timestamp = self.read_timestamp(input)?;
        if timestamp == NO_TIMESTAMP {
            input.uvint()?;
            return Ok(Deletion::NONE);
        }
        Ok(Deletion::new(timestamp, self.read_local_deletion(input)?))
    }
}

/// Appends a deletion at full width, as partitions and index entries carry it: `i32` seconds, `i64` microseconds
/// (docs/formats/sstable-nb.md).
pub fn write_deletion_time(out: &mut Vec<u8>, deletion: &Deletion) {
    out.extend_from_slice(&deletion_time_to_disk(deletion.local_deletion_time).to_be_bytes());
    out.extend_from_slice(&deletion.timestamp.to_be_bytes());
}

/// Reads a deletion at full width.
pub fn read_deletion_time<I: Input>(input: &mut I) -> Result<Deletion, I::Error> {
    let seconds = input.i32()?;
    let timestamp = input.i64()?;
    if timestamp == NO_TIMESTAMP {
        return Ok(Deletion::NONE);
    }
    match deletion_time_from_disk(seconds) {
        Some(local) => Ok(Deletion::new(timestamp, local)),
        None => Err(input.malformed(format!("the local deletion time {seconds} is negative"))),
    }
}

/// Gathers [`EncodingStats`] from what will be encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatsCollector {
    timestamp: Option<i64>,
    local_deletion_time: Option<u32>,
    ttl: Option<i32>,
}

impl StatsCollector {
    fn timestamp(&mut self, timestamp: i64) {
        self.timestamp = Some(self.timestamp.map_or(timestamp, |t| t.min(timestamp)));
    }

    fn expiration(&mut self, ttl: i32, local: u32) {
        if local != NO_DELETION_TIME {
            self.local_deletion_time = Some(self.local_deletion_time.map_or(local, |l| l.min(local)));
        }
        if ttl != NO_TTL {
            self.ttl = Some(self.ttl.map_or(ttl, |t| t.min(ttl)));
        }
    }

    /// Takes a deletion of a partition, a range, a row or a column into account.
    pub fn add_deletion(&mut self, deletion: &Deletion) {
        if !deletion.is_none() {
            self.timestamp(deletion.timestamp);
            self.expiration(NO_TTL, deletion.local_deletion_time);
        }
    }

    fn add_liveness(&mut self, liveness: &Liveness) {
        if !liveness.is_none() {
            self.timestamp(liveness.timestamp);
            self.expiration(liveness.ttl, liveness.local_expiration_time);
        }
    }

    /// Takes a row into account.
    pub fn add_row(&mut self, row: &Row) {
        self.add_liveness(&row.liveness);
        self.add_deletion(&row.deletion);
        for (_, deletion) in &row.complex_deletions {
            self.add_deletion(deletion);
        }
        for cell in &row.cells {
            self.timestamp(cell.timestamp);
            self.expiration(cell.ttl, cell.local_deletion_time);
        }
    }

    /// The minima so far.
    pub fn stats(&self) -> EncodingStats {
        let none = EncodingStats::default();
        EncodingStats {
            min_timestamp: self.timestamp.unwrap_or(none.min_timestamp),
            min_local_deletion_time: self.local_deletion_time.unwrap_or(none.min_local_deletion_time),
            min_ttl: self.ttl.unwrap_or(none.min_ttl),
        }
    }
}
