//! Reading the segments of an earlier run. Nothing is changed.
//!
//! 1. Segments are read in the order of their ids, sections in the order of the file.
//! 2. Zeroes where a marker should be are the end of a segment, if nothing follows them.
//! 3. Anything else that is not a section, or an entry that does not match its checksum, is damage. When two
//!    fences stand behind it, in this segment or a later one, the bytes had been on the device: that is an
//!    error, which names file and offset. Otherwise the machine stopped before they were: they were not
//!    acknowledged as durable, and reading goes on with the next section that can be found.
//! 4. A segment whose header is damaged was never used if all behind the header is zeroes.
//! 5. Segments that Cassandra wrote have no fences; [`foreign`](super::foreign) has their rules.

use super::foreign::ForeignSegment;
use super::format::{self, Entry, HEADER_BYTES, Header, MARKER_BYTES, Marker, Writer};
use super::position::LogPosition;
use crate::error::EngineError;
use bytes::Bytes;
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

impl SegmentFile {
    pub(super) fn error(&self, offset: u64, detail: String) -> EngineError {
        EngineError::CommitLog { path: self.path.clone(), offset, detail }
    }
}

/// What replay met besides mutations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Mutations handed out.
    pub mutations: u64,
    /// Those of them that stand behind the last marker of a segment of Cassandra's, where only we find them.
    pub unmarked: u64,
    /// Places where bytes that had not been synced were damaged or missing.
    pub torn: u64,
    /// Places with real damage that were skipped because the options say so.
    pub ignored: u64,
}

/// A mutation in the log.
#[derive(Clone, Copy, Debug)]
pub struct Logged<'a> {
    /// Just behind its entry.
    pub position: LogPosition,
    /// Version of its segment.
    pub version: i32,
    /// Its bytes.
    pub mutation: &'a [u8],
}

/// The segments of a directory. What was read once is kept in memory, as far as there is room.
#[derive(Debug)]
pub struct Segments {
    env: Env,
    files: Vec<SegmentFile>,
    kept: Vec<Option<Bytes>>,
    room_bytes: u64,
    section_bytes_max: u64,
}

/// What a compressed section of Cassandra's may hold: no more than a segment of the node that wrote it, of
/// which only this node's setting is known. Its default is 32 MiB.
const SECTION_BYTES_MAX: u64 = 256 << 20;

impl Segments {
    /// Finds the segments in `dir`; a directory that is missing has none. Of their content `kept_bytes_max`
    /// may stay in memory.
    ///
    /// # Errors
    /// When the directory cannot be listed, or holds a segment that is too old to have a version.
    pub fn list(env: &Env, dir: &Path, kept_bytes_max: u64) -> Result<Segments, EngineError> {
        let mut files = Vec::new();
        let entries = match env.fs.read_dir(dir) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        for entry in entries {
            let Some(name) = entry.name.to_str() else { continue };
            if let Some((version, id)) = format::parse_file_name(name) {
                files.push(SegmentFile { id, version, path: dir.join(name) });
            } else if name.starts_with("CommitLog-") && name.ends_with(".log") {
                let detail = "its name is none of a segment that Cassandra 3.0 or later wrote".to_owned();
                return Err(EngineError::CommitLog { path: dir.join(name), offset: 0, detail });
            }
        }
        files.sort_by_key(|s| s.id);
        let kept = vec![None; files.len()];
        let section_bytes_max = SECTION_BYTES_MAX;
        Ok(Segments { env: env.clone(), files, kept, room_bytes: kept_bytes_max, section_bytes_max })
    }

    /// Also takes compressed sections that are as long as this node's segments.
    pub fn with_segment_bytes(self, segment_bytes: u64) -> Segments {
        Segments { section_bytes_max: SECTION_BYTES_MAX.max(segment_bytes), ..self }
    }

    /// The segments, oldest first.
    pub fn files(&self) -> &[SegmentFile] {
        &self.files
    }

    /// Forgets what was kept in memory.
    pub fn forget(&mut self) {
        self.kept.iter_mut().for_each(|bytes| *bytes = None);
        self.room_bytes = 0;
    }

    /// The content of a segment.
    fn bytes(&mut self, index: usize) -> Result<Bytes, EngineError> {
        if let Some(Some(bytes)) = self.kept.get(index) {
            return Ok(bytes.clone());
        }
        let Some(file) = self.files.get(index) else { return Ok(Bytes::new()) };
        let bytes = Bytes::from(self.env.fs.read(&file.path)?);
        let len = bytes.len() as u64;
        if len <= self.room_bytes
            && let Some(slot) = self.kept.get_mut(index)
        {
            self.room_bytes -= len;
            *slot = Some(bytes.clone());
        }
        Ok(bytes)
    }

    /// Reads the segments in order and hands each mutation to `visit`.
    ///
    /// # Errors
    /// Damage where data had been kept (unless `ignore_errors`), segments that cannot be read at all, what
    /// `visit` returns, and failing reads.
    pub fn replay(
        &mut self,
        ignore_errors: bool,
        mut visit: impl FnMut(Logged<'_>) -> Result<(), EngineError>,
    ) -> Result<ReplayReport, EngineError> {
        let mut report = ReplayReport::default();
        for index in 0..self.files.len() {
            let bytes = self.bytes(index)?;
            let Some(file) = self.files.get(index).cloned() else { continue };
            let Some(header) = read_header(&file, &bytes, ignore_errors, &mut report)? else {
                self.check_unused(index, &bytes, ignore_errors, &mut report)?;
                continue;
            };
            match header.writer().map_err(|why| file.error(0, why))? {
                Writer::Ilion => {
                    let reader = Reader {
                        segments: self,
                        index,
                        segment: &file,
                        bytes: &bytes,
                        ignore_errors,
                        report: &mut report,
                    };
                    reader.run(header.len, &mut visit)?;
                }
                Writer::Cassandra(compressor) => {
                    let is_last = self.are_unused(index + 1)?;
                    let segment = ForeignSegment {
                        file: &file,
                        header: &header,
                        compressor,
                        bytes: &bytes,
                        is_last,
                        ignore_errors,
                        section_bytes_max: self.section_bytes_max,
                    };
                    segment.read(&mut report, &mut visit)?;
                }
            }
        }
        Ok(report)
    }

    /// Judges a segment without a header. A machine that stops leaves none but the last that was being made:
    /// a segment is used only when the header of the one before is durable.
    fn check_unused(
        &mut self,
        index: usize,
        bytes: &[u8],
        ignore_errors: bool,
        report: &mut ReplayReport,
    ) -> Result<(), EngineError> {
        let Some(segment) = self.files.get(index).cloned() else { return Ok(()) };
        let path = segment.path.display();
        if self.are_unused(index + 1)? {
            if bytes.len() < HEADER_BYTES || !is_zero(bytes) {
                tracing::warn!(%path, bytes = bytes.len(), "a commit log segment has no header and counts as unused: the machine stopped while it was made, or the file was cut");
            }
            return Ok(());
        }
        let detail = "the segment has no header, and later ones hold writes".to_owned();
        if ignore_errors {
            report.ignored += 1;
            tracing::error!(%path, detail, "ignoring a commit log segment");
            return Ok(());
        }
        Err(segment.error(0, detail))
    }

    /// Whether nothing was written to the segments from `first` on.
    fn are_unused(&mut self, first: usize) -> Result<bool, EngineError> {
        for index in first..self.files.len() {
            let bytes = self.bytes(index)?;
            let start = format::read_header(&bytes).map_or(HEADER_BYTES, |header| header.len);
            if !is_zero(bytes.get(start..).unwrap_or_default()) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The header; `None` for a segment that was never used, or that is ignored.
fn read_header(
    segment: &SegmentFile,
    bytes: &[u8],
    ignore_errors: bool,
    report: &mut ReplayReport,
) -> Result<Option<Header>, EngineError> {
    let Some(header) = format::read_header(bytes) else {
        if is_zero(bytes.get(HEADER_BYTES..).unwrap_or_default()) {
            return Ok(None);
        }
        let detail = "the checksum of the header does not match".to_owned();
        if ignore_errors {
            report.ignored += 1;
            tracing::error!(path = %segment.path.display(), detail, "ignoring a commit log segment");
            return Ok(None);
        }
        return Err(segment.error(0, detail));
    };
    if header.id != segment.id {
        return Err(segment.error(4, format!("the header names segment {}", header.id)));
    }
    if header.version != segment.version {
        return Err(segment.error(0, format!("the header names version {}", header.version)));
    }
    Ok(Some(header))
}

/// A segment of this node.
struct Reader<'a> {
    segments: &'a mut Segments,
    index: usize,
    segment: &'a SegmentFile,
    bytes: &'a [u8],
    ignore_errors: bool,
    report: &'a mut ReplayReport,
}

type Visit<'v> = &'v mut dyn FnMut(Logged<'_>) -> Result<(), EngineError>;

impl Reader<'_> {
    fn run(mut self, start: usize, visit: Visit<'_>) -> Result<(), EngineError> {
        let mut at = start;
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

    /// Reads the entries of a section; where the next section starts, `None` when there is none.
    fn section(&mut self, start: usize, end: usize, visit: Visit<'_>) -> Result<Option<usize>, EngineError> {
        let content = self.bytes.get(..end).unwrap_or_default();
        let mut at = start;
        loop {
            match format::read_entry(content, at) {
                Entry::Mutation(mutation, next) => {
                    let position = LogPosition { segment: self.segment.id, offset: next as u32 };
                    self.report.mutations += 1;
                    visit(Logged { position, version: self.segment.version, mutation })?;
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
        Err(self.segment.error(at as u64, detail.to_owned()))
    }

    /// Whether two fences stand behind `at`.
    fn was_synced(&mut self, at: usize) -> Result<bool, EngineError> {
        let mut fences = count_fences(self.bytes, self.segment.id, at);
        for later in self.index + 1..self.segments.files.len() {
            if fences >= 2 {
                break;
            }
            let bytes = self.segments.bytes(later)?;
            let id = self.segments.files.get(later).map_or(0, |s| s.id);
            fences += count_fences(&bytes, id, 0);
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
}

/// The number of fences from `at` on, counted up to 2.
fn count_fences(bytes: &[u8], id: i64, at: usize) -> usize {
    let last = bytes.len().saturating_sub(MARKER_BYTES);
    (at..=last).filter(|at| format::is_fence(bytes, id, *at as u32)).take(2).count()
}

/// Most of a segment may be zeroes, so they are looked at many at a time.
pub(super) fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(4096).all(|page| page.iter().fold(0, |all, byte| all | byte) == 0)
}
