//! Segments that Cassandra wrote (docs/formats/commit-log.md).
//!
//! Cassandra gathers many entries in a section and writes the section's marker when it syncs, or ten times a
//! second.
//!
//! 1. Behind the last marker of an uncompressed segment stand entries of writes that were acknowledged before
//!    a sync: they are handed out as far as their checksums match.
//! 2. Positions in a compressed segment count its bytes as if they were not compressed.
//! 3. A segment is allocated as zeroes, so what a loss of power took reads as whole sectors of zeroes, or is
//!    behind the end of the file. In the last segment that was used such a place is a torn tail: reading goes
//!    on behind it. All other damage is an error, which names file and offset.

use super::format::{self, Entry, Header, MARKER_BYTES, Marker};
use super::position::LogPosition;
use super::replay::{Logged, ReplayReport, SegmentFile, is_zero};
use crate::error::EngineError;
use sstable::compression::Compressor;
use std::ops::Range;

/// A device writes no less than this at once.
const SECTOR_BYTES: usize = 512;
/// A segment of Cassandra's.
pub(super) struct ForeignSegment<'a> {
    pub file: &'a SegmentFile,
    pub header: &'a Header,
    pub compressor: Option<Compressor>,
    pub bytes: &'a [u8],
    /// Whether nothing was written to any later segment.
    pub is_last: bool,
    pub ignore_errors: bool,
    /// What a compressed section may hold.
    pub section_bytes_max: u64,
}

/// Entries one behind the other.
struct Run<'a> {
    bytes: &'a [u8],
    start: usize,
    /// What is to be added to an offset in `bytes` to get a position.
    shift: usize,
    kind: Kind,
}

/// What is known of a [`Run`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A section of a segment.
    Section,
    /// A section that goes on behind the end of the file.
    CutOff,
    /// A decompressed section.
    Decompressed,
    /// What follows the last section.
    Unmarked,
}

impl ForeignSegment<'_> {
    /// Hands each mutation to `visit`.
    pub(super) fn read(
        &self,
        report: &mut ReplayReport,
        visit: &mut dyn FnMut(Logged<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut at = self.header.len;
        // Where the section starts in a segment that is not compressed.
        let mut position = at;
        loop {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let content = at + MARKER_BYTES;
            let (next, is_cut) = match format::read_marker(self.bytes, self.file.id, at as u32) {
                Marker::Section(end) => (end as usize, false),
                Marker::End => {
                    if self.compressor.is_none() && !is_zero(rest) {
                        let run = Run { bytes: self.bytes, start: content, shift: 0, kind: Kind::Unmarked };
                        self.entries(&run, report, visit)?;
                    } else if !is_zero(rest) {
                        let all = at..self.bytes.len();
                        self.damage(all, rest.len() < MARKER_BYTES, "bytes follow the last section", report)?;
                    }
                    return Ok(());
                }
                Marker::CutOff => {
                    // No checksum covers the end that a marker names: with a section behind it, it is wrong.
                    let is_end = self.resync(content).is_none();
                    let marker = at..content;
                    self.damage(marker, is_end, "a section reaches beyond the end of the file", report)?;
                    (self.bytes.len(), true)
                }
                Marker::Damaged => {
                    let marker = at..content;
                    self.damage(marker, false, "neither a section nor the end of the segment", report)?;
                    match self.resync(at + 1) {
                        // Positions of a compressed segment cannot be told behind a gap.
                        Some(next) if self.compressor.is_none() => {
                            at = next;
                            position = next;
                            continue;
                        }
                        _ => return Ok(()),
                    }
                }
            };
            position += MARKER_BYTES;
            match self.compressor {
                None => {
                    let bytes = self.bytes.get(..next).unwrap_or_default();
                    let run = Run {
                        bytes,
                        start: content,
                        shift: 0,
                        kind: if is_cut { Kind::CutOff } else { Kind::Section },
                    };
                    self.entries(&run, report, visit)?;
                    position = next;
                }
                Some(compressor) => {
                    let section = self.bytes.get(content..next).unwrap_or_default();
                    match decompress(compressor, section, self.section_bytes_max) {
                        Ok(bytes) => {
                            let run =
                                Run { bytes: &bytes, start: 0, shift: position, kind: Kind::Decompressed };
                            self.entries(&run, report, visit)?;
                            position += bytes.len();
                        }
                        Err(_) if is_cut => {}
                        Err(why) => {
                            self.damage(content..next, false, &why, report)?;
                            return Ok(());
                        }
                    }
                }
            }
            at = next;
        }
    }

    /// Hands out the entries of a run.
    fn entries(
        &self,
        run: &Run<'_>,
        report: &mut ReplayReport,
        visit: &mut dyn FnMut(Logged<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let mut at = run.start;
        loop {
            match format::read_entry(run.bytes, at) {
                Entry::Mutation(mutation, next) => {
                    let offset = (run.shift + next) as u32;
                    let position = LogPosition { segment: self.file.id, offset };
                    report.mutations += 1;
                    report.unmarked += u64::from(run.kind == Kind::Unmarked);
                    visit(Logged { position, version: self.header.version, mutation })?;
                    at = next;
                }
                Entry::End => return Ok(()),
                Entry::Damaged(detail) => {
                    let next = find_entry(run.bytes, at + 1);
                    let gap = at..next.unwrap_or(run.bytes.len());
                    match run.kind {
                        Kind::Section => self.damage(gap, false, detail, report)?,
                        Kind::CutOff => self.damage(gap, next.is_none(), detail, report)?,
                        Kind::Decompressed => {
                            let whole = format!("{detail} (at {at} of a decompressed section)");
                            self.refuse(run.shift, &whole, report)?;
                        }
                        // A write that was under way when the process ended.
                        Kind::Unmarked => self.torn(at, detail, report),
                    }
                    match next {
                        Some(next) => at = next,
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    /// Judges damage: an error, or the trace of a machine that stopped.
    fn damage(
        &self,
        place: Range<usize>,
        is_end_of_file: bool,
        detail: &str,
        report: &mut ReplayReport,
    ) -> Result<(), EngineError> {
        if self.is_last && (is_end_of_file || has_zero_sector(self.bytes, &place)) {
            self.torn(place.start, detail, report);
            return Ok(());
        }
        self.refuse(place.start, detail, report)
    }

    fn torn(&self, offset: usize, detail: &str, report: &mut ReplayReport) {
        report.torn += 1;
        let path = self.file.path.display();
        tracing::warn!(%path, offset, detail, "the commit log ends torn: the machine stopped before it was synced");
    }

    fn refuse(&self, offset: usize, detail: &str, report: &mut ReplayReport) -> Result<(), EngineError> {
        if !self.ignore_errors {
            return Err(self.file.error(offset as u64, detail.to_owned()));
        }
        report.ignored += 1;
        let path = self.file.path.display();
        tracing::error!(%path, offset, detail, "ignoring damage in the commit log");
        Ok(())
    }

    /// The next place, from `at` on, where a section stands.
    fn resync(&self, at: usize) -> Option<usize> {
        let last = self.bytes.len().checked_sub(MARKER_BYTES)?;
        (at..=last).find(|at| {
            matches!(format::read_marker(self.bytes, self.file.id, *at as u32), Marker::Section(_))
        })
    }
}

/// The entries of a compressed section. What it claims to hold is believed as far as its bytes can become
/// that much and a segment can be that long.
fn decompress(compressor: Compressor, section: &[u8], bytes_max: u64) -> Result<Vec<u8>, String> {
    let Some((len, payload)) = section.split_first_chunk::<4>() else {
        return Err("a compressed section without its length".to_owned());
    };
    let len = u32::from_be_bytes(*len);
    if u64::from(len) > compressor.decompressed_max(payload.len()).min(bytes_max) {
        return Err(format!("a section of {} bytes claims to hold {len}", section.len()));
    }
    compressor.decompress(payload, len as usize)
}

/// The next place, from `at` on, where a whole entry stands.
fn find_entry(bytes: &[u8], at: usize) -> Option<usize> {
    (at..bytes.len()).find(|at| {
        // Most of what is searched is zeroes.
        bytes.get(*at..at + 4).is_some_and(|size| size != [0; 4])
            && matches!(format::read_entry(bytes, *at), Entry::Mutation(..))
    })
}

/// Whether a sector that touches `place` holds nothing but zeroes.
fn has_zero_sector(bytes: &[u8], place: &Range<usize>) -> bool {
    let first = place.start / SECTOR_BYTES;
    let last = place.end.max(place.start + 1).div_ceil(SECTOR_BYTES);
    (first..last).any(|sector| {
        let end = ((sector + 1) * SECTOR_BYTES).min(bytes.len());
        bytes.get(sector * SECTOR_BYTES..end).is_some_and(|sector| !sector.is_empty() && is_zero(sector))
    })
}
