//! Proof.db: checksums for what Cassandra's format has none for, so that what a reader was told need not be
//! compared with the data first (docs/formats/proof.md).
//!
//! ```text
//! file  := "IlProof1" | data | u32 CRC32 of Summary.db, 0 where there is none
//!          | u64 bytes of Index.db or Partitions.db | u64 bytes of Rows.db | u64 chunks of a compressed Data.db
//!          | u32 CRC32 of each page of 4096 bytes of the index | the same of Rows.db | u32 CRC32 of each chunk | end
//!        | "IlProof3" | as the first up to the chunks | u64 samples | checksums as in the first
//!          | (i64 token, u64 place in Index.db) of each sample | end
//!        | "IlProof5" | as the third up to the samples | u64 bytes of fences | checksums and samples as in the third | fences | end
//!        | "IlProof2" | data | u64 chunks of a compressed Data.db | u32 CRC32 of each chunk | end
//!        | "IlProof4" | u32 checksum in Digest.crc32 | end
//! data  := u32 checksum in Digest.crc32 | u64 bytes of data | u32 CRC32 of CompressionInfo.db or CRC.db
//! end   := u32 CRC32 of the bytes before
//! ```
//! The checksums of chunks are those that follow them in Data.db, in order: they tell whether a chunk lies in
//! its place. CRC.db does the same for files that are not compressed.
//!
//! The first kind is written with the SSTable. The second is made later, of a Data.db that was found to be as
//! Digest.crc32 says ([`crate::SsTable::prove`]). It says nothing of the index, which may have been damaged
//! before. The third is the first with samples: places of Index.db that lookups begin at (`big/samples.rs`),
//! where there are any. The fifth is the third with fences between the blocks of large partitions
//! (`big/fences.rs`). The fourth is a mark: Data.db was found not to be as Digest.crc32 says. Nothing is read
//! from there before it was compared again.
//!
//! What is here is kept in memory, 4 bytes for 4 KiB of an index and for each chunk, half of what the chunks'
//! places take. A file that is missing, damaged or of another SSTable is not used: then everything is
//! compared as if Cassandra had written it. Cassandra does not know the component, and what it compacts has
//! none.

use crate::big::fences::Fences;
use crate::big::samples::Sample;
use crate::checksum::{ChunkCrcs, stored_digest};
use crate::descriptor::{Component, Descriptor};
use crate::error::{OpenError, corrupt, file_name, read_optional};
use crate::pages::{FileId, FilePart, INDEX_PAGE_BYTES, PageLayout, PagedFile};
use bytes::Bytes;
use crc32fast::Hasher;
use env::fs::FileSystem;
use model::key::Token;
use partition::codec::{DecodeError, Input, SliceInput};
use partition::{ReadContext, ReadError};
use std::io;

const MAGIC_WHOLE: &[u8; 8] = b"IlProof1";
pub(crate) const MAGIC_DATA: &[u8; 8] = b"IlProof2";
pub(crate) const MAGIC_SAMPLED: &[u8; 8] = b"IlProof3";
const MAGIC_FENCED: &[u8; 8] = b"IlProof5";
/// A token and a place.
const SAMPLE_BYTES: u64 = 16;
pub(crate) const MAGIC_DAMAGED: &[u8; 8] = b"IlProof4";
/// Bytes that tie the file to its Data.db, the magic among them.
pub(crate) const TIED_BYTES: usize = 24;
const PAGE_BYTES: usize = INDEX_PAGE_BYTES as usize;

/// The checksums of a file's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageSums {
    /// Bytes of the file.
    pub len: u64,
    /// The checksum of each page of [`INDEX_PAGE_BYTES`]; the last page may be shorter.
    pub crcs: Vec<u32>,
}

impl PageSums {
    /// How pages lie in such a file.
    pub fn layout(self) -> PageLayout {
        PageLayout::Checked(ChunkCrcs { chunk_len: INDEX_PAGE_BYTES as u32, crcs: self.crcs })
    }
}

/// Makes the checksums of a file's pages while it is written from start to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageSummer {
    len: u64,
    crcs: Vec<u32>,
    /// The checksum of the page that is not full.
    open: Hasher,
}

impl PageSummer {
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = PAGE_BYTES - self.len as usize % PAGE_BYTES;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.open.update(now);
            self.len += now.len() as u64;
            bytes = later;
            if now.len() == room {
                self.crcs.push(std::mem::take(&mut self.open).finalize());
            }
        }
    }

    /// How the full pages lie.
    pub fn so_far(&self) -> PageLayout {
        PageSums { len: self.len, crcs: self.crcs.clone() }.layout()
    }

    pub fn finish(mut self) -> PageSums {
        if !self.len.is_multiple_of(INDEX_PAGE_BYTES) {
            self.crcs.push(self.open.finalize());
        }
        PageSums { len: self.len, crcs: self.crcs }
    }
}

/// What the index was when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexProof {
    /// The CRC-32 of Summary.db; 0 where there is none.
    pub summary_crc: u32,
    /// Checksums of Index.db or Partitions.db.
    pub index: PageSums,
    /// Checksums of Rows.db.
    pub rows: PageSums,
    /// Samples of Index.db between those of the summary, in the order of the file.
    pub samples: Vec<Sample>,
    /// Fences between blocks of large partitions in Index.db.
    pub fences: Fences,
}

/// A Proof.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    /// What Digest.crc32 says of Data.db.
    pub digest: u32,
    /// Bytes of Data.db before compression.
    pub data_len: u64,
    /// The CRC-32 of CompressionInfo.db or CRC.db.
    pub table_crc: u32,
    /// `None` in a proof that was made later, of Data.db alone.
    pub index: Option<IndexProof>,
    /// The checksums of the chunks of a compressed Data.db.
    pub chunks: Vec<u32>,
}

/// The Proof.db of an SSTable.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is none.
    Nothing,
    /// One that is damaged or of another SSTable: why it is left aside.
    Unfit(ReadError),
    /// A mark: Data.db was found to be damaged.
    Damaged(ReadError),
    Fit(Proof),
}

/// The mark of a Data.db that is not as Digest.crc32 says.
pub(crate) fn mark_of_damage(digest: u32) -> Vec<u8> {
    let mut out = [&MAGIC_DAMAGED[..], &digest.to_be_bytes()].concat();
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_be_bytes());
    out
}

/// The digest in a mark of damage, if the file is one.
fn marked_digest(bytes: &[u8]) -> Option<u32> {
    let digest = bytes.strip_prefix(MAGIC_DAMAGED)?.first_chunk::<4>()?;
    let digest = u32::from_be_bytes(*digest);
    (bytes == mark_of_damage(digest)).then_some(digest)
}

impl Proof {
    pub fn encode(&self) -> Vec<u8> {
        let none: &[u32] = &[];
        let pages = self.index.as_ref().map_or([none, none], |index| [&index.index.crcs, &index.rows.crcs]);
        let sums = [pages[0], pages[1], &self.chunks];
        let samples = self.index.as_ref().map_or(&[][..], |index| &index.samples);
        let fences = self.index.as_ref().map(|index| index.fences.encode()).filter(|bytes| !bytes.is_empty());
        let sums_bytes = 4 * sums.iter().map(|sums| sums.len()).sum::<usize>();
        let fences_bytes = fences.as_ref().map_or(0, Vec::len);
        let mut out =
            Vec::with_capacity(80 + sums_bytes + SAMPLE_BYTES as usize * samples.len() + fences_bytes);
        out.extend_from_slice(match &self.index {
            None => MAGIC_DATA,
            Some(_) if fences.is_some() => MAGIC_FENCED,
            Some(_) if samples.is_empty() => MAGIC_WHOLE,
            Some(_) => MAGIC_SAMPLED,
        });
        out.extend_from_slice(&self.digest.to_be_bytes());
        out.extend_from_slice(&self.data_len.to_be_bytes());
        out.extend_from_slice(&self.table_crc.to_be_bytes());
        if let Some(proof) = &self.index {
            out.extend_from_slice(&proof.summary_crc.to_be_bytes());
            out.extend_from_slice(&proof.index.len.to_be_bytes());
            out.extend_from_slice(&proof.rows.len.to_be_bytes());
        }
        out.extend_from_slice(&(self.chunks.len() as u64).to_be_bytes());
        if !samples.is_empty() || fences.is_some() {
            out.extend_from_slice(&(samples.len() as u64).to_be_bytes());
        }
        if fences.is_some() {
            out.extend_from_slice(&(fences_bytes as u64).to_be_bytes());
        }
        for sum in sums.into_iter().flatten() {
            out.extend_from_slice(&sum.to_be_bytes());
        }
        for Sample { token, position } in samples {
            out.extend_from_slice(&token.0.to_be_bytes());
            out.extend_from_slice(&position.to_be_bytes());
        }
        out.extend_from_slice(&fences.unwrap_or_default());
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_be_bytes());
        out
    }

    /// Reads the file; `None` for one that a later Ilion wrote in a way that is not known.
    pub fn decode(bytes: Bytes) -> Result<Option<Proof>, DecodeError> {
        let mut input = SliceInput::new(bytes.slice(..bytes.len().saturating_sub(4)));
        let (has_index, has_samples, has_fences) = match &input.array::<8>()? {
            MAGIC_WHOLE => (true, false, false),
            MAGIC_SAMPLED => (true, true, false),
            MAGIC_FENCED => (true, true, true),
            MAGIC_DATA => (false, false, false),
            _ => return Ok(None),
        };
        let sound = bytes
            .split_last_chunk::<4>()
            .is_some_and(|(content, sum)| crc32fast::hash(content) == u32::from_be_bytes(*sum));
        if !sound {
            return Err(input.malformed("the last four bytes are not the checksum of the others".to_owned()));
        }
        let u32 = |input: &mut SliceInput| Ok(u32::from_be_bytes(input.array()?));
        let u64 = |input: &mut SliceInput| Ok(u64::from_be_bytes(input.array()?));
        let digest = u32(&mut input)?;
        let data_len = u64(&mut input)?;
        let table_crc = u32(&mut input)?;
        let (summary_crc, index_len, rows_len) = match has_index {
            true => (u32(&mut input)?, u64(&mut input)?, u64(&mut input)?),
            false => (0, 0, 0),
        };
        let chunks = u64(&mut input)?;
        let counts = [index_len.div_ceil(INDEX_PAGE_BYTES), rows_len.div_ceil(INDEX_PAGE_BYTES), chunks];
        let samples = if has_samples { u64(&mut input)? } else { 0 };
        let fences_bytes = if has_fences { u64(&mut input)? } else { 0 };
        let sums = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
        let sums_bytes = sums.and_then(|sums| sums.checked_mul(4));
        let needed = sums_bytes.zip(samples.checked_mul(SAMPLE_BYTES)).and_then(|(a, b)| a.checked_add(b));
        let needed = needed.and_then(|needed| needed.checked_add(fences_bytes));
        if needed != Some(input.remaining() as u64) {
            let remaining = input.remaining();
            let detail = format!(
                "checksums of {counts:?} pages and chunks, {samples} samples and {fences_bytes} bytes of fences in {remaining} bytes"
            );
            return Err(input.malformed(detail));
        }
        let mut sums =
            |count: u64| -> Result<Vec<u32>, DecodeError> { (0..count).map(|_| u32(&mut input)).collect() };
        let [index, rows, chunks] = counts;
        let index = PageSums { len: index_len, crcs: sums(index)? };
        let rows = PageSums { len: rows_len, crcs: sums(rows)? };
        let chunks = sums(chunks)?;
        let mut sample = || -> Result<Sample, DecodeError> {
            Ok(Sample { token: Token(u64(&mut input)? as i64), position: u64(&mut input)? })
        };
        let samples = (0..samples).map(|_| sample()).collect::<Result<_, _>>()?;
        let fences = Fences::decode(input.bytes(fences_bytes)?)?;
        let index = has_index.then_some(IndexProof { summary_crc, index, rows, samples, fences });
        Ok(Some(Proof { digest, data_len, table_crc, index, chunks }))
    }

    /// The proof of an SSTable with this Data.db, as far as it was opened.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn find(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
        data: &PagedFile,
        table_crc: u32,
    ) -> Result<Found, OpenError> {
        let Some(bytes) = read_optional(fs, descriptor, Component::Proof)? else { return Ok(Found::Nothing) };
        let path = descriptor.path(Component::Proof);
        let unfit =
            |detail: &str| Ok(Found::Unfit(ReadError::corrupt(&file_name(&path), 0, detail.to_owned())));
        if let Some(marked) = marked_digest(&bytes) {
            let detail =
                "it was found not to be as Digest.crc32 says, and is not read before it was compared again";
            return match stored_digest(fs, descriptor)? {
                Some(digest) if digest == marked => Ok(Found::Damaged(data.corrupt(0, detail.to_owned()))),
                _ => unfit("it is of another Data.db, and not used"),
            };
        }
        match Proof::decode(bytes) {
            Ok(Some(proof)) if proof.fits(data, table_crc) => match stored_digest(fs, descriptor)? {
                Some(digest) if digest == proof.digest => Ok(Found::Fit(proof)),
                _ => unfit("it is of another Data.db, and not used"),
            },
            Ok(Some(_)) => unfit("it is of another Data.db, and not used"),
            Ok(None) => unfit("it is of another layout, and not used"),
            Err(e) => Ok(Found::Unfit(corrupt(&path, e))),
        }
    }

    /// Everything that keeps the proof of an SSTable from being used, and every page of the index that is not
    /// as it says.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn check(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
        data: &PagedFile,
        table_crc: u32,
    ) -> Result<Vec<ReadError>, OpenError> {
        let proof = match Proof::find(fs, descriptor, data, table_crc)? {
            Found::Fit(proof) => proof.index,
            Found::Unfit(error) => return Ok(vec![error]),
            Found::Damaged(_) => {
                let name = file_name(&descriptor.path(Component::Proof));
                let detail = "it says that Data.db was found not to be as Digest.crc32 says";
                return Ok(vec![ReadError::corrupt(&name, 0, detail.to_owned())]);
            }
            Found::Nothing => None,
        };
        let Some(IndexProof { index, rows, .. }) = proof else { return Ok(Vec::new()) };
        let files = match descriptor.version.is_bti() {
            true => vec![(Component::Partitions, index), (Component::Rows, rows)],
            false => vec![(Component::Index, index)],
        };
        let mut out = Vec::new();
        for (component, sums) in files {
            let path = descriptor.path(component);
            let file = match fs.open_read(&path) {
                Ok(file) => file,
                // Whoever opens the SSTable says so.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(ReadError::from(e).into()),
            };
            let id = FileId { sstable: 0, part: FilePart::Index };
            match proven(PagedFile::new(id, file_name(&path), file, PageLayout::Plain), sums) {
                Ok(file) => {
                    let context = ReadContext::default();
                    out.extend(
                        (0..file.page_count()).filter_map(|page| file.check_page(page, &context).err()),
                    );
                }
                Err(error) => out.push(error),
            }
        }
        Ok(out)
    }

    /// Whether it was made of this Data.db, its digest aside.
    fn fits(&self, data: &PagedFile, table_crc: u32) -> bool {
        self.data_len == data.len && self.table_crc == table_crc && self.chunks.len() as u64 == data.chunks()
    }
}

/// Gives the file of an index the checksums of its pages.
///
/// # Errors
/// When it is of another length.
pub(crate) fn proven(file: PagedFile, sums: PageSums) -> Result<PagedFile, ReadError> {
    match file.len == sums.len {
        true => Ok(file.with_layout(sums.layout())),
        false => {
            let detail = format!("{} bytes, where Proof.db has {}", file.len, sums.len);
            Err(file.corrupt(file.len.min(sums.len), detail))
        }
    }
}
