//! Blocks.db: where rows lie in large partitions of an SSTable that another program wrote
//! (docs/formats/blocks.md).
//!
//! Cassandra describes the rows of a large partition by blocks of 64 KiB (`big`) or 16 KiB (`bti`). A read of
//! one row decompresses and walks half a block. Ilion's own files have blocks of 4 KiB that end where chunks
//! do, fences, and an outline. So the pass that compares a Data.db with its digest
//! ([`crate::SsTable::prove`]) also makes these for the partitions that are large:
//!
//! 1. [`maker`] goes through their rows while Data.db is read, over what [`window`] has of it. It writes
//!    Blocks.db, and Outline.db where there are long values.
//! 2. They get their names once Data.db is known to be as its digest says. Proof.db has the checksums of the
//!    pages of Blocks.db, and what is kept in memory: the place of each entry, and fences.
//! 3. A read of a partition looks here before it asks the index. Reading goes on as in a file of Ilion.
//!
//! ```text
//! Blocks.db := entry*          as those of Index.db (`big/index.rs`), also where the index is made of tries
//! ```
//! What is here was found in Data.db alone. The index only said where partitions begin, and that is compared:
//! one has to end where the next begins. What is missing or damaged is made anew; until then reads go by the
//! index.

mod maker;
mod window;

pub(crate) use maker::{Failure, Made, Maker};

use crate::big::fences::Fences;
use crate::big::index::IndexEntry;
use crate::big::samples::Sample;
use crate::descriptor::{Component, Descriptor};
use crate::error::file_name;
use crate::index::Entry;
use crate::pages::{Cursor, FileId, FilePart, PageLayout, PageSource, PagedFile};
use crate::proof::{PageSums, proven};
use env::fs::FileSystem;
use model::DecoratedKey;
use partition::{ReadContext, ReadError};
use std::io;
use std::sync::Arc;

/// How partitions of an SSTable of another program are described.
#[derive(Clone, Copy, Debug)]
pub struct Adoption {
    /// Shorter partitions are left to the index, in bytes of data.
    pub partition_bytes_min: u64,
    /// Bytes of data after which a block ends.
    pub block_bytes: u64,
    /// Bytes of data for each byte that describes a block, at least.
    pub bytes_for_one: u64,
}

impl Default for Adoption {
    fn default() -> Self {
        Adoption { partition_bytes_min: 64 << 10, block_bytes: 4 << 10, bytes_for_one: 100 }
    }
}

/// What Proof.db says of Blocks.db.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AdoptedProof {
    /// Checksums of its pages; there is no file if there are none.
    pub pages: PageSums,
    /// Where the entry of each partition starts, in the order of tokens.
    pub directory: Vec<Sample>,
    /// Fences between blocks.
    pub fences: Fences,
}

/// An open Blocks.db.
#[derive(Debug)]
pub(crate) struct Adopted {
    /// `None` if no partition is large.
    file: Option<Arc<PagedFile>>,
    directory: Vec<Sample>,
    fences: Fences,
}

impl Adopted {
    /// Opens Blocks.db. `None` if it is missing, or of another length than Proof.db says.
    ///
    /// # Errors
    /// When it is there and cannot be opened.
    pub fn open(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
        number: u64,
        pages: &dyn PageSource,
        proof: AdoptedProof,
    ) -> Result<Option<Adopted>, ReadError> {
        let AdoptedProof { pages: sums, directory, fences } = proof;
        if sums.len == 0 {
            return Ok(Some(Adopted { file: None, directory: Vec::new(), fences: Fences::default() }));
        }
        let path = descriptor.path(Component::Blocks);
        let file = match fs.open_read_by(&path, pages.access(FilePart::Blocks)) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let id = FileId { sstable: number, part: FilePart::Blocks };
        let file = PagedFile::new(id, file_name(&path), file, PageLayout::Plain);
        let file = proven(file, sums).ok();
        Ok(file.map(|file| Adopted { file: Some(Arc::new(file)), directory, fences }))
    }

    /// Whether something in it was found to be damaged. Then reads go by the index until the SSTable is
    /// opened again.
    pub fn is_damaged(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.is_damaged())
    }

    /// The entry of a partition, if it is here.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn find(
        &self,
        key: &DecoratedKey,
        pages: &Arc<dyn PageSource>,
        context: &ReadContext,
    ) -> Result<Option<Entry>, ReadError> {
        let Some(file) = self.file.as_ref().filter(|_| !self.is_damaged()) else { return Ok(None) };
        let from = self.directory.partition_point(|entry| entry.token < key.token);
        let places = self.directory.iter().skip(from).take_while(|entry| entry.token == key.token);
        for place in places {
            let mut cursor = Cursor::new(Arc::clone(file), Arc::clone(pages), context.clone());
            cursor.seek(place.position);
            let entry = IndexEntry::read(&mut cursor)?;
            if entry.key == key.key.0 {
                return Ok(Some(Entry::Big(entry, Box::new(cursor))));
            }
        }
        Ok(None)
    }

    /// What lies between the blocks of large partitions.
    pub fn fences(&self) -> &Fences {
        &self.fences
    }

    /// Number of partitions that are described.
    pub fn partitions(&self) -> u64 {
        self.directory.len() as u64
    }

    /// Bytes of Blocks.db.
    pub fn file_bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.len)
    }

    /// Bytes of memory, pages aside.
    pub fn memory_bytes(&self) -> usize {
        let pages = self.file.as_ref().map_or(0, |file| file.memory_bytes());
        pages + size_of_val(self.directory.as_slice()) + self.fences.memory_bytes()
    }

    /// The pages that a cache may have.
    pub fn pages(&self) -> impl Iterator<Item = (FileId, u64)> + '_ {
        self.file.iter().flat_map(|file| file.pages())
    }

    /// How many [`Adopted::pages`] yields.
    pub fn page_count(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.page_count())
    }
}
