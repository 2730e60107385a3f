//! Proof.db: checksums for what Cassandra's format has none for, so that what a reader was told need not be
//! compared with the data first (docs/formats/proof.md).
//!
//! ```text
//! file := sections (`proof/sections.rs`) with these tags:
//!
//! DATA   u32 checksum in Digest.crc32 | u64 bytes of data | u32 CRC32 of CompressionInfo.db or CRC.db
//! CHNK   u32 CRC32 of each chunk of a compressed Data.db
//! INDX   u32 CRC32 of Summary.db, 0 where there is none | pages of Index.db or Partitions.db
//! ROWS   pages of Rows.db
//! SAMP   (i64 token, u64 place in Index.db) of each sample
//! FENC   fences between the blocks of large partitions (`big/fences.rs`)
//! BLKP   pages of Blocks.db
//! BLKD   (i64 token, u64 place in Blocks.db) of each entry
//! BLKF   fences between the blocks that Blocks.db describes
//! DMGD   u32 checksum in Digest.crc32
//!
//! pages := u64 bytes of the file | u32 CRC32 of each 4096 bytes, the last as many as there are
//! ```
//! The checksums of chunks are those that follow them in Data.db, in order: they tell whether a chunk lies in
//! its place. CRC.db does the same for files that are not compressed. A section that would be empty is not
//! there.
//!
//! Which sections there are depends on when the file was made:
//!
//! * With its SSTable: DATA and INDX, and of the others but DMGD those that there is something for. Samples
//!   are places of Index.db that lookups begin at (`big/samples.rs`).
//! * Later, of a Data.db that was found to be as Digest.crc32 says ([`crate::SsTable::prove`]): DATA and
//!   CHNK. It says nothing of the index, which may have been damaged before. BLKP, and BLKD and BLKF where
//!   there is something for them, if the rows of large partitions were described in the same pass
//!   ([`crate::adopted`]).
//! * As a mark of a Data.db that was found not to be so: DMGD alone. Nothing is read from there before it was
//!   compared again.
//!
//! What is here is kept in memory, 4 bytes for 4 KiB of an index and for each chunk, half of what the chunks'
//! places take. A file that is missing, damaged, of another SSTable or with another magic is not used: then
//! everything is compared as if Cassandra had written it. Cassandra does not know the component, and what it
//! compacts has none.

pub(crate) mod sections;

use crate::adopted::AdoptedProof;
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
use sections::{SectionWriter, Sections, Tag};
use std::io;

/// What ties the file to its Data.db.
pub(crate) const DATA: Tag = *b"DATA";
/// The mark of a damaged Data.db.
pub(crate) const DAMAGED: Tag = *b"DMGD";
const CHUNKS: Tag = *b"CHNK";
const INDEX: Tag = *b"INDX";
const ROWS: Tag = *b"ROWS";
const SAMPLES: Tag = *b"SAMP";
const FENCES: Tag = *b"FENC";
const BLOCKS: Tag = *b"BLKP";
const BLOCKS_DIRECTORY: Tag = *b"BLKD";
const BLOCKS_FENCES: Tag = *b"BLKF";
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

impl IndexProof {
    /// From the section of the index, and those that add to it.
    fn decode(mut input: SliceInput, sections: &Sections) -> Result<IndexProof, DecodeError> {
        let summary_crc = u32(&mut input)?;
        let index = pages(&mut input)?;
        let rows = match sections.get(ROWS)? {
            Some(mut rows) => pages(&mut rows)?,
            None => PageSums::default(),
        };
        let (samples, fences) = (samples(sections, SAMPLES)?, fences(sections, FENCES)?);
        Ok(IndexProof { summary_crc, index, rows, samples, fences })
    }
}

impl AdoptedProof {
    /// What is there of Blocks.db, if anything.
    fn decode(sections: &Sections) -> Result<Option<AdoptedProof>, DecodeError> {
        let Some(mut section) = sections.get(BLOCKS)? else { return Ok(None) };
        let (pages, directory) = (pages(&mut section)?, samples(sections, BLOCKS_DIRECTORY)?);
        if !directory.is_sorted_by_key(|entry| entry.token) {
            return Err(section.malformed("entries of Blocks.db out of order".to_owned()));
        }
        Ok(Some(AdoptedProof { pages, directory, fences: fences(sections, BLOCKS_FENCES)? }))
    }

    fn encode(&self, file: &mut SectionWriter) {
        file.section(BLOCKS, |out| put_pages(out, &self.pages));
        put_samples(file, BLOCKS_DIRECTORY, &self.directory);
        put_fences(file, BLOCKS_FENCES, &self.fences);
    }
}

/// A Proof.db that is no mark.
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
    /// What belongs to a Blocks.db, of an SSTable whose large partitions were described.
    pub adopted: Option<AdoptedProof>,
}

/// The Proof.db of an SSTable.
#[allow(clippy::large_enum_variant, reason = "there is one, for a moment, when an SSTable is opened")]
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

/// What a file says that was read.
#[allow(clippy::large_enum_variant, reason = "there is one, for a moment, when an SSTable is opened")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Proof(Proof),
    /// A mark: Data.db was not as its digest says, which was this one.
    Damaged(u32),
    /// Something with another magic.
    OtherLayout,
}

impl Content {
    /// The proof, if it is one.
    pub fn proof(self) -> Option<Proof> {
        match self {
            Content::Proof(proof) => Some(proof),
            Content::Damaged(_) | Content::OtherLayout => None,
        }
    }
}

/// The mark of a Data.db that is not as Digest.crc32 says.
pub(crate) fn mark_of_damage(digest: u32) -> Vec<u8> {
    let mut file = SectionWriter::new();
    file.section(DAMAGED, |out| out.extend_from_slice(&digest.to_be_bytes()));
    file.finish()
}

fn put_sums(out: &mut Vec<u8>, sums: &[u32]) {
    out.reserve(4 * sums.len());
    sums.iter().for_each(|sum| out.extend_from_slice(&sum.to_be_bytes()));
}

fn put_pages(out: &mut Vec<u8>, pages: &PageSums) {
    out.extend_from_slice(&pages.len.to_be_bytes());
    put_sums(out, &pages.crcs);
}

fn put_samples(file: &mut SectionWriter, tag: Tag, samples: &[Sample]) {
    if samples.is_empty() {
        return;
    }
    file.section(tag, |out| {
        for Sample { token, position } in samples {
            out.extend_from_slice(&token.0.to_be_bytes());
            out.extend_from_slice(&position.to_be_bytes());
        }
    });
}

fn put_fences(file: &mut SectionWriter, tag: Tag, fences: &Fences) {
    let fences = fences.encode();
    if !fences.is_empty() {
        file.section(tag, |out| out.extend_from_slice(&fences));
    }
}

/// The samples of a section; none where it is not there.
fn samples(sections: &Sections, tag: Tag) -> Result<Vec<Sample>, DecodeError> {
    sections.get(tag)?.map_or(Ok(Vec::new()), |mut section| pieces(&mut section, sample))
}

/// The fences of a section; none where it is not there.
fn fences(sections: &Sections, tag: Tag) -> Result<Fences, DecodeError> {
    let Some(mut section) = sections.get(tag)? else { return Ok(Fences::default()) };
    let start = section.position();
    let content = section.bytes(section.remaining() as u64)?;
    Fences::decode(content).map_err(|e| DecodeError { offset: start + e.offset, ..e })
}

fn u32(input: &mut SliceInput) -> Result<u32, DecodeError> {
    Ok(u32::from_be_bytes(input.array()?))
}

fn u64(input: &mut SliceInput) -> Result<u64, DecodeError> {
    Ok(u64::from_be_bytes(input.array()?))
}

/// The rest of a section, as pieces of `N` bytes.
fn pieces<const N: usize, T>(
    input: &mut SliceInput,
    piece: impl Fn(&[u8; N]) -> T,
) -> Result<Vec<T>, DecodeError> {
    let len = input.remaining();
    if !len.is_multiple_of(N) {
        return Err(input.malformed(format!("a multiple of {N} bytes expected, {len} found")));
    }
    input.with_slice(len as u64, |bytes| bytes.as_chunks::<N>().0.iter().map(piece).collect())
}

fn sample(bytes: &[u8; 16]) -> Sample {
    let both = u128::from_be_bytes(*bytes);
    Sample { token: Token((both >> 64) as i64), position: both as u64 }
}

/// Pages, to the end of the section.
fn pages(input: &mut SliceInput) -> Result<PageSums, DecodeError> {
    let len = u64(input)?;
    let crcs = pieces(input, |crc| u32::from_be_bytes(*crc))?;
    if crcs.len() as u64 != len.div_ceil(INDEX_PAGE_BYTES) {
        return Err(input.malformed(format!("checksums of {} pages for {len} bytes", crcs.len())));
    }
    Ok(PageSums { len, crcs })
}

fn ended(input: &SliceInput) -> Result<(), DecodeError> {
    match input.remaining() {
        0 => Ok(()),
        more => Err(input.malformed(format!("{more} bytes more than the section has"))),
    }
}

impl Proof {
    pub fn encode(&self) -> Vec<u8> {
        let mut file = SectionWriter::new();
        file.section(DATA, |out| {
            out.extend_from_slice(&self.digest.to_be_bytes());
            out.extend_from_slice(&self.data_len.to_be_bytes());
            out.extend_from_slice(&self.table_crc.to_be_bytes());
        });
        if !self.chunks.is_empty() {
            file.section(CHUNKS, |out| put_sums(out, &self.chunks));
        }
        if let Some(IndexProof { summary_crc, index, rows, samples, fences }) = &self.index {
            file.section(INDEX, |out| {
                out.extend_from_slice(&summary_crc.to_be_bytes());
                put_pages(out, index);
            });
            if rows.len > 0 {
                file.section(ROWS, |out| put_pages(out, rows));
            }
            put_samples(&mut file, SAMPLES, samples);
            put_fences(&mut file, FENCES, fences);
        }
        if let Some(adopted) = &self.adopted {
            adopted.encode(&mut file);
        }
        file.finish()
    }

    /// Reads the file.
    pub fn decode(bytes: Bytes) -> Result<Content, DecodeError> {
        let Some(sections) = Sections::read(bytes)? else { return Ok(Content::OtherLayout) };
        if let Some(mut mark) = sections.get(DAMAGED)? {
            let digest = u32(&mut mark)?;
            ended(&mark)?;
            return Ok(Content::Damaged(digest));
        }
        let mut data = sections.needed(DATA)?;
        let (digest, data_len, table_crc) = (u32(&mut data)?, u64(&mut data)?, u32(&mut data)?);
        ended(&data)?;
        let chunks = match sections.get(CHUNKS)? {
            Some(mut chunks) => pieces(&mut chunks, |crc| u32::from_be_bytes(*crc))?,
            None => Vec::new(),
        };
        let index = match sections.get(INDEX)? {
            Some(index) => Some(IndexProof::decode(index, &sections)?),
            None => None,
        };
        let adopted = AdoptedProof::decode(&sections)?;
        Ok(Content::Proof(Proof { digest, data_len, table_crc, index, chunks, adopted }))
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
        match Proof::decode(bytes) {
            Ok(Content::Proof(proof)) if proof.fits(data, table_crc) => {
                match stored_digest(fs, descriptor)? {
                    Some(digest) if digest == proof.digest => Ok(Found::Fit(proof)),
                    _ => unfit("it is of another Data.db, and not used"),
                }
            }
            Ok(Content::Proof(_)) => unfit("it is of another Data.db, and not used"),
            Ok(Content::Damaged(marked)) => match stored_digest(fs, descriptor)? {
                Some(digest) if digest == marked => {
                    let detail = "it was found not to be as Digest.crc32 says, and is not read before it was compared again";
                    Ok(Found::Damaged(data.corrupt(0, detail.to_owned())))
                }
                _ => unfit("it is of another Data.db, and not used"),
            },
            Ok(Content::OtherLayout) => unfit("it is of another layout, and not used"),
            Err(e) => Ok(Found::Unfit(corrupt(&path, e))),
        }
    }

    /// Everything that keeps the proof of an SSTable from being used, and every page of the index or of
    /// Blocks.db that is not as it says.
    ///
    /// # Errors
    /// When a file is there and cannot be read.
    pub fn check(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
        data: &PagedFile,
        table_crc: u32,
    ) -> Result<Vec<ReadError>, OpenError> {
        let (index, adopted) = match Proof::find(fs, descriptor, data, table_crc)? {
            Found::Fit(proof) => (proof.index, proof.adopted),
            Found::Unfit(error) => return Ok(vec![error]),
            Found::Damaged(_) => {
                let name = file_name(&descriptor.path(Component::Proof));
                let detail = "it says that Data.db was found not to be as Digest.crc32 says";
                return Ok(vec![ReadError::corrupt(&name, 0, detail.to_owned())]);
            }
            Found::Nothing => (None, None),
        };
        let mut files = match index {
            None => Vec::new(),
            Some(IndexProof { index, rows, .. }) if descriptor.version.is_bti() => {
                vec![(Component::Partitions, index), (Component::Rows, rows)]
            }
            Some(IndexProof { index, .. }) => vec![(Component::Index, index)],
        };
        let blocks = adopted.map(|adopted| adopted.pages).filter(|pages| pages.len > 0);
        files.extend(blocks.map(|pages| (Component::Blocks, pages)));
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
