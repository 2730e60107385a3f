//! The container of Proof.db: tagged pieces, each with its length and its checksum.
//!
//! ```text
//! file    := "IlnProof" | u32 sections | section*
//! section := [u8; 4] tag | u64 bytes of content | content | u32 CRC32 of tag, length and content
//! ```
//! 1. A tag stands once at most, and the order of sections says nothing.
//! 2. Nothing follows the last section. So a file that was cut is malformed, between two sections as well.
//! 3. A reader verifies every section, and skips those whose tag it does not know. A section that limits what
//!    another one says would be skipped, too: the other one has to get a new tag then.

use bytes::Bytes;
use partition::codec::{DecodeError, Input, SliceInput};

pub(crate) const MAGIC: &[u8; 8] = b"IlnProof";
/// Bytes before the first section.
pub(crate) const HEAD_BYTES: usize = 12;
/// Sections that a file may have: a few times those that are known.
const SECTIONS_MAX: u32 = 64;

/// Says what a section is about: four letters.
pub(crate) type Tag = [u8; 4];

/// Writes a file, section by section.
#[derive(Debug)]
pub(crate) struct SectionWriter {
    out: Vec<u8>,
    sections: u32,
}

impl SectionWriter {
    pub fn new() -> SectionWriter {
        SectionWriter { out: [&MAGIC[..], &[0; 4]].concat(), sections: 0 }
    }

    /// Adds a section with the content that `write` appends.
    pub fn section(&mut self, tag: Tag, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend_from_slice(&tag);
        self.out.extend_from_slice(&[0; 8]);
        let content = self.out.len();
        write(&mut self.out);
        let len = (self.out.len() - content) as u64;
        self.put_at(content - 8, &len.to_be_bytes());
        let crc = crc32fast::hash(self.out.get(start..).unwrap_or_default());
        self.out.extend_from_slice(&crc.to_be_bytes());
        self.sections += 1;
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.put_at(MAGIC.len(), &self.sections.to_be_bytes());
        self.out
    }

    fn put_at(&mut self, at: usize, bytes: &[u8]) {
        self.out.iter_mut().skip(at).zip(bytes).for_each(|(slot, byte)| *slot = *byte);
    }
}

/// The sections of a file, whose checksums hold.
#[derive(Debug)]
pub(super) struct Sections {
    file: Bytes,
    /// Tag, and where the content starts and ends.
    found: Vec<(Tag, u64, u64)>,
}

impl Sections {
    /// Reads the file; `None` for one with another magic.
    pub fn read(file: Bytes) -> Result<Option<Sections>, DecodeError> {
        let mut input = SliceInput::new(file.clone());
        if input.array::<8>()? != *MAGIC {
            return Ok(None);
        }
        let count = u32::from_be_bytes(input.array()?);
        if count > SECTIONS_MAX {
            return Err(input.malformed(format!("{count} sections, at most {SECTIONS_MAX} expected")));
        }
        let mut found: Vec<(Tag, u64, u64)> = Vec::new();
        for _ in 0..count {
            let start = input.position();
            let tag: Tag = input.array()?;
            let len = u64::from_be_bytes(input.array()?);
            let content = input.position();
            input.skip(len)?;
            let end = input.position();
            let covered = file.get(start as usize..end as usize).unwrap_or_default();
            let (expected, stored) = (crc32fast::hash(covered), u32::from_be_bytes(input.array()?));
            let name = tag.escape_ascii();
            if expected != stored {
                return Err(DecodeError {
                    offset: start,
                    detail: format!("section {name}: checksum {expected:08x} expected, {stored:08x} found"),
                });
            }
            if found.iter().any(|(other, ..)| *other == tag) {
                return Err(DecodeError { offset: start, detail: format!("section {name} stands twice") });
            }
            found.push((tag, content, end));
        }
        match input.remaining() {
            0 => Ok(Some(Sections { file, found })),
            more => Err(input.malformed(format!("{more} bytes behind the last section"))),
        }
    }

    /// The content of a section, if it is there. Positions of the input are those in the file.
    pub fn get(&self, tag: Tag) -> Result<Option<SliceInput>, DecodeError> {
        let Some((_, start, end)) = self.found.iter().find(|(found, ..)| *found == tag) else {
            return Ok(None);
        };
        let mut input = SliceInput::new(self.file.slice(..*end as usize));
        input.skip(*start)?;
        Ok(Some(input))
    }

    /// The content of a section that has to be there.
    pub fn needed(&self, tag: Tag) -> Result<SliceInput, DecodeError> {
        let missing =
            || DecodeError { offset: 0, detail: format!("section {} is missing", tag.escape_ascii()) };
        self.get(tag)?.ok_or_else(missing)
    }
}
