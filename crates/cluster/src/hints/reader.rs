//! Reading a file of hints, a page at a time.
//!
//! 1. An entry whose own checksum does not match is passed over, and told of: the next one follows it.
//! 2. Where the size of an entry, or a block, does not match, nothing behind it can be found. What comes
//!    before is good.
//! 3. A file that ends inside an entry, or in zeroes, was not closed: the machine or the process stopped.
//!    That is its end.

use super::format::{
    Damage, ENTRY_OVERHEAD_BYTES, Encoding, Entry, FileId, HEADER_BYTES_MIN, HINT_BYTES_MAX, Header,
    HintsError, JSON_BYTES_MAX, halves, read_entry, read_header,
};
use bytes::Bytes;
use env::fs::{FileSystem, ReadFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are read at once, unless one hint has more (`ChecksummedDataInput` of Cassandra reads as many).
pub const PAGE_BYTES: usize = 512 << 10;
/// LZ4 makes at most so many bytes of one: a byte of a length adds 255 bytes of a match.
const LZ4_RATIO_MAX: u64 = 255;

/// Where an entry starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Offset of the entry, or of its block.
    pub at: u64,
    /// Offset in the decompressed block.
    pub inside: usize,
}

/// An entry that was read.
#[derive(Debug)]
pub struct ReadHint {
    /// The hint, or why it is none.
    pub hint: Result<Bytes, HintsError>,
    /// Where the next entry starts.
    pub next: Position,
}

/// What follows a page.
#[derive(Debug)]
pub enum Next {
    /// The page that starts here.
    Page(Position),
    /// Nothing: the file ends.
    End,
    /// Nothing that could be found.
    Lost(HintsError),
}

/// Entries that follow each other.
#[derive(Debug)]
pub struct Page {
    /// The entries.
    pub hints: Vec<ReadHint>,
    /// What follows them.
    pub next: Next,
}

/// A file that is read.
#[derive(Debug)]
pub struct HintsReader {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    header: Header,
    len: u64,
}

/// Entries of a run of bytes, and why it ends.
struct Parsed {
    hints: Vec<(usize, Result<Bytes, Damage>)>,
    /// Where the last entry ends.
    end: usize,
    /// What stands there; nothing at the end of the bytes.
    stop: Option<Entry>,
}

fn parse(bytes: &Bytes, from: usize) -> Parsed {
    let (mut hints, mut at) = (Vec::new(), from);
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return Parsed { hints, end: at, stop: None };
        }
        match read_entry(rest) {
            Entry::Hint(size, is_whole) => {
                let hint = is_whole.map(|()| bytes.slice(at + 8..at + 8 + size));
                at += size + ENTRY_OVERHEAD_BYTES;
                hints.push((at, hint));
            }
            stop => return Parsed { hints, end: at, stop: Some(stop) },
        }
    }
}

impl HintsReader {
    /// Opens the file `path`, of which the first `len` bytes count.
    ///
    /// # Errors
    /// [`HintsError`]; what it says is of the header.
    pub fn open(fs: &dyn FileSystem, path: &Path, len: u64) -> Result<HintsReader, HintsError> {
        let file = fs.open_read(path)?;
        let len = len.min(file.len());
        let wanted = (HEADER_BYTES_MIN + JSON_BYTES_MAX + 4).min(usize::try_from(len).unwrap_or(usize::MAX));
        let mut bytes = vec![0; wanted];
        file.read_exact_at(0, &mut bytes)?;
        let header = read_header(&bytes, path)?;
        Ok(HintsReader { file, path: path.to_owned(), header, len })
    }

    /// Whose file it is, as its header says.
    pub fn id(&self) -> FileId {
        self.header.id
    }

    /// Where the first entry starts.
    pub fn start(&self) -> Position {
        Position { at: self.header.len as u64, inside: 0 }
    }

    /// The page that starts at `from`, a position that this reader gave.
    ///
    /// # Errors
    /// When a call of the file system fails.
    pub fn page(&self, from: Position) -> Result<Page, HintsError> {
        match self.header.encoding {
            Encoding::Plain => self.plain(from.at),
            Encoding::Lz4 => self.block(from),
        }
    }

    fn read(&self, at: u64, len: usize) -> Result<Bytes, HintsError> {
        let mut bytes = vec![0; len];
        self.file.read_exact_at(at, &mut bytes)?;
        Ok(bytes.into())
    }

    /// Bytes of the file from `at` on, as far as there are `wanted`.
    fn left(&self, at: u64, wanted: usize) -> usize {
        usize::try_from(self.len.saturating_sub(at)).map_or(wanted, |left| left.min(wanted))
    }

    fn plain(&self, at: u64) -> Result<Page, HintsError> {
        let mut wanted = PAGE_BYTES;
        loop {
            let bytes = self.read(at, self.left(at, wanted))?;
            let is_last = at + bytes.len() as u64 >= self.len;
            let Parsed { hints, end, stop } = parse(&bytes, 0);
            let end = at + end as u64;
            let next = match stop {
                None if is_last => Next::End,
                None => Next::Page(Position { at: end, inside: 0 }),
                Some(Entry::CutOff(_)) if is_last => {
                    self.ends_torn(end, "inside a hint");
                    Next::End
                }
                Some(Entry::CutOff(needed)) if hints.is_empty() => {
                    wanted = needed;
                    continue;
                }
                Some(Entry::CutOff(_) | Entry::Hint(..)) => Next::Page(Position { at: end, inside: 0 }),
                Some(Entry::Lost(_)) if self.is_zero_from(end)? => {
                    self.ends_torn(end, "in zeroes");
                    Next::End
                }
                Some(Entry::Lost(damage)) => Next::Lost(HintsError::damaged(&self.path, end, damage)),
            };
            let hints = hints.into_iter().scan(at, |start, (end, hint)| {
                let next = at + end as u64;
                let offset = std::mem::replace(start, next);
                let hint = hint.map_err(|damage| HintsError::damaged(&self.path, offset, damage));
                Some(ReadHint { hint, next: Position { at: next, inside: 0 } })
            });
            return Ok(Page { hints: hints.collect(), next });
        }
    }

    /// Tells of an end that nobody wrote: the machine or the process stopped there.
    fn ends_torn(&self, offset: u64, how: &str) {
        let path = self.path.display();
        tracing::warn!(%path, offset, "a file of hints ends {how}: it was not closed");
    }

    /// Whether nothing but zeroes follows: the length of the file reached the device, its bytes did not.
    fn is_zero_from(&self, mut at: u64) -> Result<bool, HintsError> {
        while at < self.len {
            let bytes = self.read(at, self.left(at, PAGE_BYTES))?;
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            at += bytes.len() as u64;
        }
        Ok(true)
    }

    fn block(&self, from: Position) -> Result<Page, HintsError> {
        let lost = |damage| {
            let next = Next::Lost(HintsError::damaged(&self.path, from.at, damage));
            Ok(Page { hints: Vec::new(), next })
        };
        let head = self.read(from.at, self.left(from.at, 8))?;
        if head.is_empty() {
            return Ok(Page { hints: Vec::new(), next: Next::End });
        }
        let torn = || {
            self.ends_torn(from.at, "inside a block");
            Ok(Page { hints: Vec::new(), next: Next::End })
        };
        let Some(head) = head.first_chunk::<8>() else { return torn() };
        let (len, compressed_len) = halves(head);
        let is_believed = len <= HINT_BYTES_MAX
            && u64::from(len) <= u64::from(compressed_len).saturating_mul(LZ4_RATIO_MAX);
        if !is_believed || compressed_len == 0 {
            return match self.is_zero_from(from.at)? {
                true => torn(),
                false => {
                    lost(Damage::Content(format!("a block of {compressed_len} bytes claims to hold {len}")))
                }
            };
        }
        let body = from.at + 8;
        let compressed = self.read(body, self.left(body, compressed_len as usize))?;
        if compressed.len() < compressed_len as usize {
            return torn();
        }
        let block = match decompress(&compressed, len) {
            Ok(block) => Bytes::from(block),
            Err(why) => return lost(Damage::Content(why)),
        };
        let behind = body + u64::from(compressed_len);
        let Parsed { hints, end, stop } = parse(&block, from.inside);
        let next = match stop {
            None if behind >= self.len => Next::End,
            None => Next::Page(Position { at: behind, inside: 0 }),
            Some(stop) => {
                let what = format!("no entry at byte {end} of the block: {stop:?}");
                Next::Lost(HintsError::damaged(&self.path, from.at, Damage::Content(what)))
            }
        };
        let of_entry = |(end, hint): (usize, Result<Bytes, Damage>)| {
            let is_last = end >= block.len();
            let next =
                if is_last { Position { at: behind, inside: 0 } } else { Position { inside: end, ..from } };
            ReadHint { hint: hint.map_err(|damage| HintsError::damaged(&self.path, from.at, damage)), next }
        };
        Ok(Page { hints: hints.into_iter().map(of_entry).collect(), next })
    }
}

/// LZ4 as Cassandra writes it: a little-endian length, then one block.
fn decompress(compressed: &[u8], len: u32) -> Result<Vec<u8>, String> {
    let Some((prefix, block)) = compressed.split_first_chunk::<4>() else {
        return Err("an LZ4 block without its length".to_owned());
    };
    let claimed = u32::from_le_bytes(*prefix);
    if claimed != len {
        return Err(format!("a block of {len} bytes that LZ4 says has {claimed}"));
    }
    let out = lz4_flex::block::decompress(block, len as usize).map_err(|error| error.to_string())?;
    match out.len() == len as usize {
        true => Ok(out),
        false => Err(format!("a block of {len} bytes has {}", out.len())),
    }
}
