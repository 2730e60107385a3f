//! Reading the segments of an earlier run.
//!
//! 1. Segments are read in the order of their ids, sections in the order of the file.
//! 2. Zeroes where a marker should be are the end of a segment, if nothing follows them.
//! 3. Anything else that is not a section, or an entry that does not match its checksum, is damage. When two fences
//!    stand behind it, in this segment or a later one, the bytes had been on the device: that is an error, which
//!    names file and offset. Otherwise the machine stopped before they were: they were not acknowledged as durable,
//!    and reading goes on with the next section that can be found.
//! 4. A segment whose header is damaged was never used if all behind the header is zeroes.

use super::format::{self, Entry, HEADER_BYTES, MARKER_BYTES, Marker};
use super::position::LogPosition;
use crate::error::EngineError;
use env::Env;
use std::path::{Path, PathBuf};

/// A segment found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    /// Id, from its name.
    pub id: i64,
    /// Format version, from its name.
    pub version: i32,
    /// Where it lies.
    pub path: PathBuf,
}

/// The segments in `dir`, oldest first.
///
/// # Errors
/// When the directory cannot be listed.
pub fn list(env: &Env, dir: &Path) -> Result<Vec<SegmentFile>, EngineError> {
    let mut out = Vec::new();
    for entry in env.fs.read_dir(dir)? {
        if let Some((version, id)) = entry.name.to_str().and_then(format::parse_file_name) {
            out.push(SegmentFile { id, version, path: dir.join(&entry.name) });
        }
    }
    out.sort_by_key(|s| s.id);
    Ok(out)
}

/// What replay met besides mutations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Mutations handed out.
    pub mutations: u64,
    /// Places where bytes that had not been synced were damaged or missing.
    pub torn: u64,
    /// Places with real damage that were skipped because the options say so.
    pub ignored: u64,
}

/// Reads `segments` in order and hands each mutation to `visit` with the position behind its entry.
///
/// # Errors
/// Damage where data had been kept (unless `ignore_errors`), what `visit` returns, and failing reads.
pub fn replay(
    env: &Env,
    segments: &[SegmentFile],
    ignore_errors: bool,
    mut visit: impl FnMut(LogPosition, &[u8]) -> Result<(), EngineError>,
) -> Result<ReplayReport, EngineError> {
    let mut report = ReplayReport::default();
    for (index, segment) in segments.iter().enumerate() {
        let bytes = env.fs.read(&segment.path)?;
        let later = segments.get(index + 1..).unwrap_or_default();
        let mut reader = Reader { env, segment, bytes: &bytes, later, ignore_errors, report: &mut report };
        reader.run(&mut visit)?;
    }
    Ok(report)
}

struct Reader<'a> {
    env: &'a Env,
    segment: &'a SegmentFile,
    bytes: &'a [u8],
    later: &'a [SegmentFile],
    ignore_errors: bool,
    report: &'a mut ReplayReport,
}

impl Reader<'_> {
    fn run(
        &mut self,
        visit: &mut impl FnMut(LogPosition, &[u8]) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let Some(mut at) = self.start()? else { return Ok(()) };
        loop {
            match format::read_marker(self.bytes, self.segment.id, at as u32) {
                Marker::Section(end) => match self.section(at + MARKER_BYTES, end as usize, visit)? {
                    Some(next) => at = next,
                    None => return Ok(()),
                },
                Marker::End if is_zero(self.bytes.get(at..).unwrap_or_default()) => return Ok(()),
                _ => {
                    self.damage(at, "neither a section nor the end of the segment")?;
                    match self.resync(at + 1) {
                        Some(next) => at = next,
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    /// Where the first section starts; `None` for a segment that was never used.
    fn start(&mut self) -> Result<Option<usize>, EngineError> {
        let Some(header) = format::read_header(self.bytes) else {
            if is_zero(self.bytes.get(HEADER_BYTES..).unwrap_or_default()) {
                return Ok(None);
            }
            let detail = "the checksum of the header does not match".to_owned();
            if self.ignore_errors {
                self.report.ignored += 1;
                tracing::error!(path = %self.segment.path.display(), detail, "ignoring a commit log segment");
                return Ok(None);
            }
            return Err(self.error(0, detail));
        };
        if header.version != format::VERSION || header.parameters.contains("ompression") {
            let detail = format!(
                "segments of version {} with parameters {} are not read here; drain the node that wrote it first",
                header.version, header.parameters
            );
            return Err(self.error(0, detail));
        }
        if header.id != self.segment.id {
            return Err(self.error(4, format!("the header names segment {}", header.id)));
        }
        Ok(Some(header.len))
    }

    /// Reads the entries of a section; where the next section starts, `None` when there is none.
    fn section(
        &mut self,
        start: usize,
        end: usize,
        visit: &mut impl FnMut(LogPosition, &[u8]) -> Result<(), EngineError>,
    ) -> Result<Option<usize>, EngineError> {
        let content = self.bytes.get(..end).unwrap_or_default();
        let mut at = start;
        loop {
            match format::read_entry(content, at) {
                Entry::Mutation(mutation, next) => {
                    let position = LogPosition { segment: self.segment.id, offset: next as u32 };
                    self.report.mutations += 1;
                    visit(position, mutation)?;
                    at = next;
                }
                Entry::End => return Ok(Some(end)),
                Entry::Damaged(detail) => {
                    self.damage(at, detail)?;
                    // No checksum covers the end that a marker names, so it is not trusted now.
                    return Ok(self.resync(at + 1));
                }
            }
        }
    }

    /// Judges damage at `at`: an error, or the trace of a machine that stopped.
    fn damage(&mut self, at: usize, detail: &str) -> Result<(), EngineError> {
        let path = self.segment.path.display();
        if !self.was_synced(at)? {
            self.report.torn += 1;
            tracing::warn!(%path, offset = at, detail, "the commit log ends torn: the machine stopped before it was synced");
            return Ok(());
        }
        if self.ignore_errors {
            self.report.ignored += 1;
            tracing::error!(%path, offset = at, detail, "ignoring damage in the commit log");
            return Ok(());
        }
        Err(self.error(at as u64, detail.to_owned()))
    }

    /// Whether two fences stand behind `at`.
    fn was_synced(&self, at: usize) -> Result<bool, EngineError> {
        let mut fences = count_fences(self.bytes, self.segment.id, at);
        for segment in self.later {
            if fences >= 2 {
                break;
            }
            fences += count_fences(&self.env.fs.read(&segment.path)?, segment.id, 0);
        }
        Ok(fences >= 2)
    }

    /// The next place, from `at` on, where a whole section or a fence stands.
    fn resync(&self, at: usize) -> Option<usize> {
        let last = self.bytes.len().checked_sub(MARKER_BYTES)?;
        (at..=last).find(|at| {
            let Marker::Section(end) = format::read_marker(self.bytes, self.segment.id, *at as u32) else {
                return false;
            };
            let content = self.bytes.get(..end as usize).unwrap_or_default();
            end as usize == at + MARKER_BYTES
                || matches!(format::read_entry(content, at + MARKER_BYTES), Entry::Mutation(..))
        })
    }

    fn error(&self, offset: u64, detail: String) -> EngineError {
        EngineError::CommitLog { path: self.segment.path.clone(), offset, detail }
    }
}

/// The number of fences from `at` on, counted up to 2.
fn count_fences(bytes: &[u8], id: i64, at: usize) -> usize {
    let last = bytes.len().saturating_sub(MARKER_BYTES);
    (at..=last).filter(|at| format::is_fence(bytes, id, *at as u32)).take(2).count()
}

/// Most of a segment may be zeroes, so they are looked at many at a time.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|page| page.iter().fold(0, |all, byte| all | byte) == 0)
}
