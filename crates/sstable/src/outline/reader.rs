//! Finding runs, in place: one leaf at a time, found by the root, which stays in memory, and the directories
//! below it.

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
    /// Opens the outline of an SSTable with so many bytes of data. `None` when it has none, when the outline
    /// belongs to another Data.db, or when a later Ilion wrote it in an unknown form.
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

    /// The pages that a cache may have.
    pub fn pages(&self) -> impl Iterator<Item = (FileId, u64)> + use<> {
        self.file.pages()
    }

    /// Bytes of Outline.db.
    pub fn file_bytes(&self) -> u64 {
        self.file.len
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
                reader.pass(reader.run.end)?;
            }
            end = reader.run.end;
            if end > until {
                return Err(reader.corrupt("runs that reach into the next leaf"));
            }
        }
        Ok(())
    }

    /// The page whose runs may reach `position`, and up to where in the data no other one's can; no page
    /// before the first run.
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

/// A run that was found.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Where it starts in the data.
    pub start: u64,
    /// Which bytes of the leaf it is.
    pub bytes: Range<usize>,
    /// Whether the leaf is the one of the run that was found before.
    pub is_in_same_leaf: bool,
}

/// A place in an outline. Runs that lie ahead are found at the cost of those between.
#[derive(Clone, Debug)]
pub(crate) struct OutlineReader {
    /// For whoever reads both files: whether the page in hand is a run.
    pub is_here: bool,
    outline: Arc<Outline>,
    /// Number and content of the leaf; empty when there is none before [`OutlineReader::until`].
    leaf: (u64, Bytes),
    /// The stretch of data whose runs are all in the leaf.
    from: u64,
    until: u64,
    /// How many runs of the leaf are left.
    left: u16,
    /// The last run: where it lies in the data, and in the leaf; the next one follows.
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
            left: 0,
            run: 0..0,
            bytes: 0..0,
        }
    }

    /// The leaf of the run that was found last.
    pub fn leaf(&self) -> &Bytes {
        &self.leaf.1
    }

    /// The run that has the byte at `position` of the data.
    #[inline]
    pub fn run_at(
        &mut self,
        position: u64,
        pages: &dyn PageSource,
        context: &ReadContext,
    ) -> Result<Option<Run>, ReadError> {
        let is_in_same_leaf = position >= self.from && position < self.until;
        if !is_in_same_leaf {
            self.turn_leaf(position, pages, context)?;
        } else if position < self.run.start {
            self.rewind()?;
        }
        if !self.pass(position)? || position < self.run.start {
            return Ok(None);
        }
        Ok(Some(Run { start: self.run.start, bytes: self.bytes.clone(), is_in_same_leaf }))
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
        (self.left, self.run, self.bytes) = (0, 0..0, 0..0);
        let Some((runs, rest)) = self.leaf.1.split_first_chunk() else { return Ok(()) };
        let Some(first) = number(rest, 0) else { return Err(self.corrupt("a leaf without runs")) };
        self.left = u16::from_be_bytes(*runs);
        (self.run, self.bytes) = (first..first, LEAF_HEAD_BYTES..LEAF_HEAD_BYTES);
        match self.left {
            0 => Err(self.corrupt("a leaf without runs")),
            _ => self.pass(first).map(drop),
        }
    }

    /// Goes on to the run that ends behind `position`, unless it is there; returns whether the leaf has it.
    #[inline]
    fn pass(&mut self, position: u64) -> Result<bool, ReadError> {
        if position < self.run.end {
            return Ok(true);
        }
        match self.decode_until(position) {
            Some(found) => Ok(found),
            None => {
                (self.from, self.until) = (0, 0);
                Err(self.corrupt("a run that does not lie in its leaf or in the data"))
            }
        }
    }

    /// Decodes runs up to the one that ends behind `position`, and says whether there is one. Those between
    /// are as many as the rows have long values, so that each takes few steps.
    fn decode_until(&mut self, position: u64) -> Option<bool> {
        let leaf: &[u8] = &self.leaf.1;
        let (mut start, mut end) = (self.run.start, self.run.end);
        let (mut at, mut until, mut left) = (self.bytes.start, self.bytes.end, self.left);
        while position >= end && left > 0 {
            let rest = leaf.get(until..)?;
            let (gap, gap_len) = vint::read_unsigned(rest)?;
            let (len, len_len) = vint::read_unsigned(rest.get(gap_len..)?)?;
            start = end.checked_add(gap)?;
            end = start.checked_add(len).filter(|end| *end > start)?;
            at = until + gap_len + len_len;
            until = at.checked_add(usize::try_from(len).ok()?)?;
            left -= 1;
        }
        // Places only grow.
        if end > self.outline.data_len || until > leaf.len() {
            return None;
        }
        (self.run, self.bytes, self.left) = (start..end, at..until, left);
        Some(position < end)
    }

    #[cold]
    fn corrupt(&self, detail: &str) -> ReadError {
        self.outline.corrupt(self.leaf.0, detail)
    }
}
