//! Finding runs, in place: one leaf at a time, found by the root, which stays in memory, and the directories below it.

use super::{FAN_OUT, LEAF_HEAD_BYTES, MAGIC, ROOT_HEAD_BYTES, levels};
use crate::checksum::{SEALED_BYTES, stored_digest};
use crate::descriptor::{Component, Descriptor};
use crate::error::{OpenError, file_name};
use crate::pages::{Cursor, FileId, FilePart, INDEX_PAGE_BYTES, PageLayout, PageSource, PagedFile, Uncached};
use bytes::Bytes;
use env::fs::{Access, FileSystem};
use model::vint;
use partition::codec::Input;
use partition::{ReadContext, ReadError};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// An Outline.db that belongs to its Data.db.
#[derive(Debug)]
pub(crate) struct Outline {
    file: PagedFile,
    leaves: u64,
    directory: Directory,
    data_len: u64,
}

/// Where the first run of each leaf starts in the data.
#[derive(Debug)]
enum Directory {
    /// The root's part of it, with the pages below.
    Root(Bytes),
    /// All of it, of an outline that is being written.
    Whole(Vec<u64>),
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn optional<T>(result: io::Result<T>) -> Result<Option<T>, ReadError> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        other => Ok(Some(other?)),
    }
}

impl Outline {
    /// Opens the outline of an SSTable with so many bytes of data. `None` when it has none, or one that another Data.db
    /// was written with, or a later Ilion in a way that is not known.
    pub fn open(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
        sstable: u64,
        data_len: u64,
    ) -> Result<Option<Arc<Outline>>, OpenError> {
        let path = descriptor.path(Component::Outline);
        let Some(file) = optional(fs.open_read_by(&path, Access::Buffered))? else { return Ok(None) };
        let id = FileId { sstable, part: FilePart::Outline };
        let file = PagedFile::new(id, file_name(&path), file, PageLayout::Sealed);
        if file.len == 0 || !file.len.is_multiple_of(INDEX_PAGE_BYTES) {
            return Err(file.corrupt(0, format!("{} bytes are no whole pages", file.len)).into());
        }
        let root_page = file.page_count() - 1;
        let root = file.load(root_page, &ReadContext::default())?;
        let (Some(data), Some(leaves)) = (number(&root, 12), number(&root, 20)) else { return Ok(None) };
        if root.get(..8) != Some(MAGIC) {
            return Ok(None);
        }
        if leaves == 0
            || leaves >= file.page_count()
            || levels(leaves).sum::<u64>() + leaves != file.page_count()
        {
            let detail = format!("{leaves} leaves in {} pages", file.page_count());
            return Err(file.corrupt(root_page * INDEX_PAGE_BYTES, detail).into());
        }
        let digest = stored_digest(fs, descriptor)?.map(u32::to_be_bytes);
        if data != data_len || digest.as_ref().map(|digest| &digest[..]) != root.get(8..12) {
            return Ok(None);
        }
        let directory = Directory::Root(root.slice(ROOT_HEAD_BYTES..));
        Ok(Some(Arc::new(Outline { file, leaves, directory, data_len })))
    }

    /// An outline that is being written, whose file has the leaves that start there.
    pub fn growing(file: PagedFile, firsts: Vec<u64>, data_len: u64) -> Arc<Outline> {
        Arc::new(Outline { file, leaves: firsts.len() as u64, directory: Directory::Whole(firsts), data_len })
    }

    /// Bytes of memory that the open outline takes.
    pub fn memory_bytes(&self) -> usize {
        match &self.directory {
            Directory::Root(_) => SEALED_BYTES,
            Directory::Whole(firsts) => size_of_val(firsts.as_slice()),
        }
    }

    #[cold]
    fn corrupt(&self, page: u64, detail: &str) -> ReadError {
        self.file.corrupt(page * INDEX_PAGE_BYTES, detail.to_owned())
    }

    fn page(&self, page: u64, pages: &dyn PageSource, context: &ReadContext) -> Result<Bytes, ReadError> {
        pages.page(self.file.id, page, context, &mut || self.file.load(page, context))
    }

    /// Compares all runs with the bytes of the data, which `data` reads.
    ///
    /// # Errors
    /// For the first page in which something is not as it should be.
    pub fn check(self: &Arc<Self>, data: &mut Cursor) -> Result<(), ReadError> {
        let context = data.context().clone();
        let mut reader = OutlineReader::new(Arc::clone(self));
        let mut end = 0;
        for leaf in 0..self.leaves {
            reader.leaf = (leaf, self.page(leaf, &Uncached, &context)?);
            reader.rewind()?;
            let (found, until) = self.leaf_at(reader.run.start, &Uncached, &context)?;
            if found != Some(leaf) || reader.run.start < end {
                return Err(reader.corrupt("a leaf to which the directory does not lead"));
            }
            loop {
                let run = reader.leaf.1.slice(reader.bytes.clone());
                data.seek(reader.run.start);
                if !data.with_slice(run.len() as u64, |found| found == run)? {
                    let place = reader.run.start;
                    return Err(reader.corrupt(&format!("other bytes than Data.db has at {place}")));
                }
                if reader.left == 0 {
                    break;
                }
                reader.read_run()?;
            }
            end = reader.run.end;
            if end > until {
                return Err(reader.corrupt("runs that reach into the next leaf"));
            }
        }
        Ok(())
    }

    /// The page whose runs may reach `position`, and up to where in the data no other one's can; no page before the
    /// first run.
    fn leaf_at(
        &self,
        position: u64,
        pages: &dyn PageSource,
        context: &ReadContext,
    ) -> Result<(Option<u64>, u64), ReadError> {
        let root = match &self.directory {
            Directory::Root(root) => root,
            Directory::Whole(firsts) => {
                let behind = firsts.partition_point(|first| *first <= position);
                let until = firsts.get(behind).copied().unwrap_or(u64::MAX);
                return Ok((behind.checked_sub(1).map(|leaf| leaf as u64), until));
            }
        };
        let counts: Vec<u64> = levels(self.leaves).collect();
        let mut first_page = self.file.page_count() - 1;
        let (mut here, mut until) = (0, u64::MAX);
        let mut directory = root.clone();
        for level in (0..counts.len()).rev() {
            let below =
                level.checked_sub(1).and_then(|level| counts.get(level)).copied().unwrap_or(self.leaves);
            let page = first_page + here;
            let base = here * FAN_OUT as u64;
            let expected = below.saturating_sub(base).min(FAN_OUT as u64);
            let entry = |i: u64| number(&directory, 2 + i as usize * 8);
            let count = directory.first_chunk().map_or(0, |n| u16::from_be_bytes(*n)) as u64;
            if count != expected || count == 0 {
                return Err(self.corrupt(page, &format!("a directory of {count} entries, not {expected}")));
            }
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = low + (high - low) / 2;
                match entry(middle).is_some_and(|first| first <= position) {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            if low < count {
                until = entry(low).unwrap_or(until).min(until);
            }
            let Some(at) = low.checked_sub(1) else { return Ok((None, until)) };
            here = base + at;
            first_page = first_page.saturating_sub(below);
            if level > 0 {
                directory = self.page(first_page + here, pages, context)?;
            }
        }
        Ok((Some(here), until))
    }
}

/// A place in an outline. Runs that lie ahead are found at the cost of those between.
#[derive(Clone, Debug)]
pub(crate) struct OutlineReader {
    /// For whoever reads both files: whether the page in hand is a run.
    pub is_here: bool,
    outline: Arc<Outline>,
    /// Number and content of the leaf; empty when there is none before [`OutlineReader::until`].
    leaf: (u64, Bytes),
    /// The stretch of data of which the leaf has all runs.
    from: u64,
    until: u64,
    /// Where in the leaf the next run is, and how many are left.
    next: usize,
    left: u16,
    /// The last run: where it lies in the data, and in the leaf.
    run: Range<u64>,
    bytes: Range<usize>,
}

impl OutlineReader {
    pub fn new(outline: Arc<Outline>) -> OutlineReader {
        OutlineReader {
            is_here: false,
            outline,
            leaf: (0, Bytes::new()),
            from: 0,
            until: 0,
            next: 0,
            left: 0,
            run: 0..0,
            bytes: 0..0,
        }
    }

    /// The run that has the byte at `position` of the data: where it starts, and its bytes.
    pub fn run_at(
        &mut self,
        position: u64,
        pages: &dyn PageSource,
        context: &ReadContext,
    ) -> Result<Option<(u64, Bytes)>, ReadError> {
        if position < self.from || position >= self.until {
            self.turn_leaf(position, pages, context)?;
        } else if position < self.run.start {
            self.rewind()?;
        }
        while position >= self.run.end {
            if self.left == 0 {
                return Ok(None);
            }
            self.read_run()?;
        }
        Ok((position >= self.run.start).then(|| (self.run.start, self.leaf.1.slice(self.bytes.clone()))))
    }

    fn turn_leaf(
        &mut self,
        position: u64,
        pages: &dyn PageSource,
        context: &ReadContext,
    ) -> Result<(), ReadError> {
        let (leaf, until) = self.outline.leaf_at(position, pages, context)?;
        // Nothing is known until the leaf is here.
        (self.from, self.until) = (0, 0);
        self.leaf = match leaf {
            Some(leaf) => (leaf, self.outline.page(leaf, pages, context)?),
            None => (0, Bytes::new()),
        };
        self.rewind()?;
        if leaf.is_some() && self.run.start > position {
            return Err(self.corrupt("the directory has another first run for this leaf"));
        }
        (self.from, self.until) = (self.run.start.min(position), until);
        Ok(())
    }

    /// Goes to the first run of the leaf.
    fn rewind(&mut self) -> Result<(), ReadError> {
        (self.next, self.left, self.run, self.bytes) = (LEAF_HEAD_BYTES, 0, 0..0, 0..0);
        let Some((runs, rest)) = self.leaf.1.split_first_chunk() else { return Ok(()) };
        let Some(first) = number(rest, 0) else { return Err(self.corrupt("a leaf without runs")) };
        self.left = u16::from_be_bytes(*runs);
        self.run = first..first;
        match self.left {
            0 => Err(self.corrupt("a leaf without runs")),
            _ => self.read_run(),
        }
    }

    fn read_run(&mut self) -> Result<(), ReadError> {
        match self.decode_run() {
            Some((run, bytes)) => {
                (self.run, self.bytes) = (run, bytes);
                self.next = self.bytes.end;
                self.left -= 1;
                Ok(())
            }
            None => Err(self.corrupt("a run that does not lie in its leaf or in the data")),
        }
    }

    fn decode_run(&self) -> Option<(Range<u64>, Range<usize>)> {
        let (gap, gap_len) = vint::read_unsigned(self.leaf.1.get(self.next..)?)?;
        let (len, len_len) = vint::read_unsigned(self.leaf.1.get(self.next + gap_len..)?)?;
        let start = self.run.end.checked_add(gap)?;
        let end = start.checked_add(len).filter(|end| *end > start && *end <= self.outline.data_len)?;
        let at = self.next + gap_len + len_len;
        let bytes = at..at.checked_add(usize::try_from(len).ok()?)?;
        self.leaf.1.get(bytes.clone())?;
        Some((start..end, bytes))
    }

    #[cold]
    fn corrupt(&self, detail: &str) -> ReadError {
        self.outline.corrupt(self.leaf.0, detail)
    }
}
