//! Whether every component of an SSTable is sound.
//!
//! | step | what is checked |
//! |---|---|
//! | 1 | TOC.txt names the components that are there |
//! | 2 | Statistics.db, CompressionInfo.db, CRC.db, Filter.db, Summary.db decode, with all their checksums |
//! | 3 | every chunk of Data.db against its checksum, the whole file against the digest |
//! | 4 | Data.db from its start: order of partitions and rows, sizes, values of their types, within what the statistics say |
//! | 5 | the index against it: each partition is found where it is, each block of rows starts where one is said to |
//! | 6 | the filter has every key |
//! | 7 | the outline, if there is one, is of this Data.db and has the same bytes |
//! | 8 | the proof, if there is one, is of this Data.db, and every page of the index is as it says |
//!
//! A step goes on after what it finds as far as it makes sense.

mod rows;

use crate::bloom::BloomFilter;
use crate::checksum::{digest_of, file_crc};
use crate::data_walk::{DataFile, DataPages, Tell, WorkDone};
use crate::descriptor::{Component, Descriptor};
use crate::error::{OpenError, file_name};
use crate::frozen::table_with_frozen_types;
use crate::pages::{Cursor, Uncached};
use crate::proof::Proof;
use crate::statistics::Statistics;
use crate::table::SsTable;
use env::fs::FileSystem;
use model::TableSchema;
use partition::{ReadContext, ReadError};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

/// Findings that are kept.
const FINDINGS_MAX: usize = 1_000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The file.
    pub component: Component,
    /// Where in the file, or in its uncompressed content; `None` for the file as a whole.
    pub offset: Option<u64>,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// What a check saw.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// What is wrong; at most the first thousand things.
    pub findings: Vec<Finding>,
    /// Partitions that were read.
    pub partitions: u64,
    /// Rows that were read, static ones included.
    pub rows: u64,
    /// Bytes of all components.
    pub bytes: u64,
}

/// Times that [`verify`] reads Data.db: its chunks, the whole for its digest, its rows.
const PASSES: u64 = 3;

/// Checks the SSTable. `progress` hears how far it is.
///
/// # Errors
/// When a file is there and cannot be read at all. What is missing or damaged is a finding.
pub fn verify(fs: &dyn FileSystem, descriptor: &Descriptor, progress: Tell<'_>) -> io::Result<Verified> {
    verify_as(fs, descriptor, table_with_frozen_types(fs, descriptor).as_ref(), progress)
}

/// As [`verify`], of a table whose columns say what the header may not ([`SsTable::open_as`]).
///
/// # Errors
/// As [`verify`].
pub fn verify_as(
    fs: &dyn FileSystem,
    descriptor: &Descriptor,
    table: Option<&TableSchema>,
    progress: Tell<'_>,
) -> io::Result<Verified> {
    let mut check = Check {
        fs,
        descriptor,
        table,
        out: Verified::default(),
        seen: HashSet::new(),
        context: ReadContext::default(),
        progress,
    };
    check.run()?;
    Ok(check.out)
}

struct Check<'a> {
    fs: &'a dyn FileSystem,
    descriptor: &'a Descriptor,
    table: Option<&'a TableSchema>,
    out: Verified,
    seen: HashSet<Finding>,
    context: ReadContext,
    progress: Tell<'a>,
}

impl Check<'_> {
    /// Tells how far one of the passes over Data.db is.
    fn tell(&self, pass: u64, data: &DataFile, position: u64) {
        let len = data.file.len;
        (self.progress)(WorkDone { done: len * pass + position.min(len), of: len * PASSES });
    }

    fn found(
        &mut self,
        component: Component,
        offset: Option<u64>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        // Where the index is meant, the layout decides which file that is.
        let component = match component {
            Component::Index if self.descriptor.version.is_bti() => Component::Partitions,
            other => other,
        };
        let finding = Finding { component, offset, expected: expected.into(), found: found.into() };
        if self.out.findings.len() < FINDINGS_MAX && self.seen.insert(finding.clone()) {
            self.out.findings.push(finding);
        }
    }

    /// An error of reading `component`, which may be about another one.
    fn failed(&mut self, component: Component, error: &ReadError) {
        match error {
            ReadError::Corrupt { file, offset, detail } => {
                let named = |c: &&Component| file_name(&self.descriptor.path(**c)) == *file;
                let component = Component::ALL.iter().find(named).copied().unwrap_or(component);
                self.found(component, Some(*offset), "what can be decoded", detail.clone());
            }
            other => self.found(component, None, "a file that can be read", other.to_string()),
        }
    }

    fn failed_to_open(&mut self, component: Component, error: &OpenError) {
        match error {
            OpenError::Read(error) => self.failed(component, error),
            OpenError::MissingComponent { component, .. } => {
                self.found(*component, None, "the file", "it is missing");
            }
            other => self.found(component, None, "what can be opened", other.to_string()),
        }
    }

    fn bytes(&self, component: Component) -> io::Result<Option<bytes::Bytes>> {
        match self.fs.read(&self.descriptor.path(component)) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        for component in Component::ALL {
            let len = self.fs.file_len(&self.descriptor.path(*component));
            self.out.bytes += len.unwrap_or(0);
        }
        if !self.descriptor.version.is_supported() {
            let version = self.descriptor.version.to_string();
            self.found(Component::Data, None, "a version that is understood", version);
            return Ok(());
        }
        self.toc()?;
        self.small_components()?;
        let pages = match DataPages::of(self.fs, self.descriptor) {
            Ok(pages) => pages,
            Err(error) => {
                self.failed_to_open(Component::CompressionInfo, &error);
                // The data can still be read without CRC.db, and cannot without CompressionInfo.db.
                let is_bare = matches!(error, OpenError::MissingComponent { .. });
                if is_bare || self.bytes(Component::CompressionInfo)?.is_some() {
                    return Ok(());
                }
                DataPages::plain()
            }
        };
        let table_crc = pages.table_crc;
        let data = match DataFile::open(self.fs, self.descriptor, pages, self.table) {
            Ok(data) => data,
            Err(error) => {
                self.failed_to_open(Component::Data, &error);
                return Ok(());
            }
        };
        self.chunks(&data)?;
        match Proof::check(self.fs, self.descriptor, &data.file, table_crc) {
            Ok(errors) => errors.iter().for_each(|error| self.failed(Component::Proof, error)),
            Err(error) => self.failed_to_open(Component::Proof, &error),
        }
        let sstable = match SsTable::open_as(self.fs, self.descriptor, 0, Arc::new(Uncached), self.table) {
            Ok(sstable) => Some(sstable),
            Err(error) => {
                self.failed_to_open(Component::Index, &error);
                None
            }
        };
        self.rows(&data, sstable.as_ref());
        if let Some(sstable) = &sstable {
            let minima = sstable.prove_minima(&self.context);
            minima.unwrap_or_else(|error| self.failed(Component::Statistics, &error));
            let filter = sstable.check_filter(&self.context);
            filter.unwrap_or_else(|error| self.failed(Component::Filter, &error));
            self.outline(&data, sstable)?;
        }
        Ok(())
    }

    /// Step 7.
    fn outline(&mut self, data: &DataFile, sstable: &SsTable) -> io::Result<()> {
        let Some(outline) = sstable.outline.get() else {
            if self.fs.exists(&self.descriptor.path(Component::Outline))? {
                self.found(Component::Outline, None, "an outline of this Data.db", "it is not used");
            }
            return Ok(());
        };
        let mut data = Cursor::new(Arc::clone(&data.file), Arc::new(Uncached), self.context.clone());
        if let Err(error) = outline.check(&mut data) {
            self.failed(Component::Outline, &error);
        }
        Ok(())
    }

    /// Step 1.
    fn toc(&mut self) -> io::Result<()> {
        let Some(bytes) = self.bytes(Component::Toc)? else {
            self.found(Component::Toc, None, "the file", "it is missing");
            return Ok(());
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let names: HashSet<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        for component in Component::ALL {
            let is_there = self.fs.exists(&self.descriptor.path(*component))?;
            let is_named = names.contains(component.file_part());
            if is_named && !is_there {
                self.found(*component, None, "the file, which TOC.txt names", "it is missing");
            } else if is_there && !is_named && *component != Component::Toc {
                self.found(
                    Component::Toc,
                    None,
                    format!("a line with {component}"),
                    "it names other files only",
                );
            }
        }
        Ok(())
    }

    /// Step 2, for what opening would not tell apart.
    fn small_components(&mut self) -> io::Result<()> {
        if let Some(bytes) = self.bytes(Component::Statistics)?
            && let Err(e) = Statistics::decode(bytes, self.descriptor.version)
        {
            self.found(Component::Statistics, Some(e.offset), "what can be decoded", e.detail);
        }
        if let Some(bytes) = self.bytes(Component::Filter)?
            && let Err(e) = BloomFilter::decode(bytes, self.descriptor.version)
        {
            self.found(Component::Filter, Some(e.offset), "what can be decoded", e.detail);
        }
        Ok(())
    }

    /// Step 3.
    fn chunks(&mut self, data: &DataFile) -> io::Result<()> {
        let (count, len) = (data.file.page_count(), data.file.len);
        for page in 0..count {
            if let Err(error) = data.file.check_page(page, &self.context) {
                self.failed(Component::Data, &error);
            }
            self.tell(0, data, len / count.max(1) * page);
        }
        // Cassandra ends some files with the checksum of an empty chunk.
        if let Some(stored) = data.file.stored_pages()
            && stored > count + 1
        {
            self.found(Component::Crc, None, format!("checksums of {count} chunks"), format!("{stored}"));
        }
        let Some(text) = self.bytes(Component::Digest)? else {
            self.found(Component::Digest, None, "the file", "it is missing");
            return Ok(());
        };
        let told = |done: u64, of: u64| self.tell(1, data, (len as f64 * done as f64 / of as f64) as u64);
        let computed = file_crc(self.fs, &self.descriptor.path(Component::Data), told)?;
        if digest_of(&text) != Some(computed) {
            let found = String::from_utf8_lossy(&text).trim().to_owned();
            self.found(Component::Digest, None, format!("{computed}, the checksum of Data.db"), found);
        }
        Ok(())
    }
}
