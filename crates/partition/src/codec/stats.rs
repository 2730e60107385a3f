//! What timestamps, deletion times and TTLs are written relative to (docs/formats/sstable-big.md).
//!
//! ```text
//! timestamp       uvint( timestamp - min_timestamp )                      wrapping, 64 bits
//! deletion time   uvint( sign_extend_32( local - min_local_deletion ) )   wrapping, 32 bits
//! ttl             uvint( sign_extend_32( ttl - min_ttl ) )
//! Deletion        timestamp, deletion time
//! ```
//! The minima only make numbers short: anything can be written relative to anything.

use super::encode::EncodeError;
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
    /// Seconds, as they are held: where [`DeletionTimes`] are signed, what is past `i32::MAX` is negative.
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

/// How the seconds of local deletion times are held in 32 bits. Numbers up to 2038 are the same in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionTimes {
    /// Signed, `i32::MAX` for none: SSTables before `oa`, messages up to version 12. Later times are held at
    /// the last one that fits.
    #[default]
    Signed,
    /// Unsigned, `u32::MAX` for none: SSTables from `oa` on, messages of version 13.
    Unsigned,
}

/// Stands in memory for a time that cannot be: negative, or an expiration before its TTL began.
const INVALID_TIME: u32 = NO_DELETION_TIME - 1;
/// A full width deletion that is none, in the unsigned layout. No other one begins with this bit.
const NONE_MARK: u8 = 0x80;
/// The TTL of what had expired when it was written; it may be longer than the time since the epoch.
const TTL_EXPIRED: i32 = i32::MAX;

impl DeletionTimes {
    /// The 32 bits of a time.
    #[inline]
    pub fn to_bits(self, seconds: u32) -> u32 {
        match self {
            DeletionTimes::Unsigned => seconds,
            DeletionTimes::Signed if seconds == NO_DELETION_TIME => i32::MAX as u32,
            DeletionTimes::Signed => seconds.min(i32::MAX as u32 - 1),
        }
    }

    /// The time of 32 bits. Negative ones come from releases that let expirations overflow (CASSANDRA-14092);
    /// they become a time behind every other one, as in Cassandra 5.0.
    #[inline]
    pub fn of_bits(self, bits: u32) -> u32 {
        match self {
            DeletionTimes::Unsigned => bits,
            DeletionTimes::Signed if bits == i32::MAX as u32 => NO_DELETION_TIME,
            DeletionTimes::Signed if bits > i32::MAX as u32 => INVALID_TIME,
            DeletionTimes::Signed => bits,
        }
    }

    /// Whether [`DeletionTimes::write`] can write a deletion: the unsigned layout has no room for the sign of
    /// a timestamp before 1970.
    pub fn can_write(self, deletion: &Deletion) -> bool {
        self == DeletionTimes::Signed || deletion.is_none() || deletion.timestamp >= 0
    }

    /// Appends a deletion at full width, as partitions and index entries carry it
    /// (docs/formats/sstable-big.md).
    ///
    /// ```text
    /// signed:    i32 seconds, i64 microseconds
    /// unsigned:  0x80 for none, else i64 microseconds (not negative), u32 seconds
    /// ```
    ///
    /// # Errors
    /// When [`DeletionTimes::can_write`] says no.
    pub fn write(self, out: &mut Vec<u8>, deletion: &Deletion) -> Result<(), EncodeError> {
        if !self.can_write(deletion) {
            return Err(EncodeError::DeletionBefore1970(deletion.timestamp));
        }
        let seconds = self.to_bits(deletion.local_deletion_time).to_be_bytes();
        match self {
            DeletionTimes::Signed => {
                out.extend_from_slice(&seconds);
                out.extend_from_slice(&deletion.timestamp.to_be_bytes());
            }
            DeletionTimes::Unsigned if deletion.is_none() => out.push(NONE_MARK),
            DeletionTimes::Unsigned => {
                out.extend_from_slice(&deletion.timestamp.to_be_bytes());
                out.extend_from_slice(&seconds);
            }
        }
        Ok(())
    }

    /// Reads a deletion at full width.
    pub fn read<I: Input>(self, input: &mut I) -> Result<Deletion, I::Error> {
        let (timestamp, bits) = match self {
            DeletionTimes::Signed => {
                let bits = u32::from_be_bytes(input.array()?);
                (input.i64()?, bits)
            }
            DeletionTimes::Unsigned => {
                let first = input.u8()?;
                if first == NONE_MARK {
                    return Ok(Deletion::NONE);
                }
                if first & NONE_MARK != 0 {
                    return Err(input.malformed(format!("{first:#04x} at the start of a deletion")));
                }
                let [a, b, c, d, e, f, g] = input.array::<7>()?;
                let timestamp = i64::from_be_bytes([first, a, b, c, d, e, f, g]);
                (timestamp, u32::from_be_bytes(input.array()?))
            }
        };
        if timestamp == NO_TIMESTAMP {
            return Ok(Deletion::NONE);
        }
        Ok(Deletion::new(timestamp, self.of_bits(bits)))
    }

    /// Fewest bytes of a deletion at full width.
    pub fn bytes_min(self) -> u64 {
        match self {
            DeletionTimes::Signed => 12,
            DeletionTimes::Unsigned => 1,
        }
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

    /// The same for whoever writes with such times.
    pub fn held_as(self, times: DeletionTimes) -> EncodingStats {
        EncodingStats { min_local_deletion_time: times.to_bits(self.min_local_deletion_time), ..self }
    }

    /// Appends the stats themselves, relative to the epochs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        vint::write_unsigned(out, self.min_timestamp.wrapping_sub(TIMESTAMP_EPOCH_MICROS) as u64);
        let deletion = self.min_local_deletion_time;
        vint::write_unsigned(out, deletion.wrapping_sub(DELETION_EPOCH_S) as i32 as i64 as u64);
        vint::write_unsigned(out, self.min_ttl as i64 as u64);
    }

    /// Reads what [`EncodingStats::encode`] wrote.
    pub fn decode<I: Input>(input: &mut I) -> Result<EncodingStats, I::Error> {
        let min_timestamp = (input.uvint()? as i64).wrapping_add(TIMESTAMP_EPOCH_MICROS);
        let min_local_deletion_time = (input.uvint()? as u32).wrapping_add(DELETION_EPOCH_S);
        let min_ttl = input.uvint()? as i32;
        Ok(EncodingStats { min_timestamp, min_local_deletion_time, min_ttl })
    }
}

/// How numbers in rows are written: relative to what, and deletion times how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deltas {
    pub stats: EncodingStats,
    pub times: DeletionTimes,
}

impl Deltas {
    #[inline]
    pub fn write_timestamp(&self, out: &mut Vec<u8>, timestamp: i64) {
        vint::write_unsigned(out, timestamp.wrapping_sub(self.stats.min_timestamp) as u64);
    }

    #[inline]
    pub fn read_timestamp<I: Input>(&self, input: &mut I) -> Result<i64, I::Error> {
        Ok((input.uvint()? as i64).wrapping_add(self.stats.min_timestamp))
    }

    #[inline]
    pub fn write_local_deletion(&self, out: &mut Vec<u8>, seconds: u32) {
        let delta = self.times.to_bits(seconds).wrapping_sub(self.stats.min_local_deletion_time);
        vint::write_unsigned(out, delta as i32 as i64 as u64);
    }

    #[inline]
    pub fn read_local_deletion<I: Input>(&self, input: &mut I) -> Result<u32, I::Error> {
        let bits = (input.uvint()? as u32).wrapping_add(self.stats.min_local_deletion_time);
        Ok(self.times.of_bits(bits))
    }

    #[inline]
    pub fn write_ttl(&self, out: &mut Vec<u8>, ttl: i32) {
        vint::write_unsigned(out, ttl.wrapping_sub(self.stats.min_ttl) as i64 as u64);
    }

    #[inline]
    pub fn read_ttl<I: Input>(&self, input: &mut I) -> Result<i32, I::Error> {
        let ttl = (input.uvint()? as i32).wrapping_add(self.stats.min_ttl);
        if ttl <= 0 { Err(input.malformed(format!("the TTL {ttl} is not positive"))) } else { Ok(ttl) }
    }

    #[inline]
    pub fn write_deletion(&self, out: &mut Vec<u8>, deletion: &Deletion) {
        self.write_timestamp(out, deletion.timestamp);
        self.write_local_deletion(out, deletion.local_deletion_time);
    }

    /// A deletion time whose timestamp is "none" is none whatever its other half says: versions differ there.
    #[inline]
    pub fn read_deletion<I: Input>(&self, input: &mut I) -> Result<Deletion, I::Error> {
        let timestamp = self.read_timestamp(input)?;
        if timestamp == NO_TIMESTAMP {
            input.uvint()?;
            return Ok(Deletion::NONE);
        }
        Ok(Deletion::new(timestamp, self.read_local_deletion(input)?))
    }
}

/// The moment at which a cell or a row was deleted or expires: never "none", and never before its TTL began.
#[inline]
pub(super) fn moment(local_deletion_time: u32, ttl: i32) -> u32 {
    if ttl != TTL_EXPIRED && local_deletion_time < ttl as u32 {
        return INVALID_TIME;
    }
    local_deletion_time.min(INVALID_TIME)
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

    /// The minima so far, of no kind of times yet ([`EncodingStats::held_as`]).
    pub fn stats(&self) -> EncodingStats {
        let none = EncodingStats::default();
        EncodingStats {
            min_timestamp: self.timestamp.unwrap_or(none.min_timestamp),
            min_local_deletion_time: self.local_deletion_time.unwrap_or(none.min_local_deletion_time),
            min_ttl: self.ttl.unwrap_or(none.min_ttl),
        }
    }
}
