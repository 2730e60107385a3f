//! Whether Data.db is the file that was written, found out by reading it once.
//!
//! The checksums of chunks say nothing of their places, and of a file that Cassandra wrote only Digest.crc32
//! tells when two of them changed places. So such a file is read once:
//!
//! 1. [`SsTable::prove`] reads Data.db in order, around all caches, and compares what it sums up to with
//!    Digest.crc32.
//! 2. If that fits, the checksum of each chunk is known to be the one that belongs in its place. From then on
//!    every read is compared with it. [`SsTable::keep_proof`] writes the checksums to Proof.db for the next
//!    opening.
//! 3. If not, the SSTable is condemned: every read of it fails from then on ([`Standing`]). Reads that
//!    salvage do not, if the checksums of chunks say which of them are damaged.
//!    [`SsTable::mark_of_damage`] lets the next opening know: then reads fail until it was compared again,
//!    with a Data.db that may have been mended.
//!
//! Whoever serves reads may have them wait for it ([`SsTable::await_proof`]). Then no read begins before. The
//! exception is a file whose chunks have their checksums, and so their places, elsewhere (CRC.db).
//!
//! Nothing is proven of the index: a bit of it may have been flipped before.
//!
//! The same pass may describe the rows of large partitions as Ilion does ([`crate::adopted`]).

use super::{OnDisk, SsTable};
use crate::adopted::{Adopted, Adoption, Failure, Made, Maker};
use crate::checksum::stored_digest;
use crate::data_walk::{DataWalk, Unfiltered};
use crate::descriptor::Component;
use crate::error::{OpenError, file_name, read_optional};
use crate::header_table::table_of_header;
use crate::outline::Outline;
use crate::pages::Pass;
use crate::proof::{Found, Proof, mark_of_damage};
use env::fs::{Access, FileSystem};
use model::key::KeyRange;
use model::{ClusteringBound, TableSchema};
use partition::codec::Layout;
use partition::{Fragment, ReadContext, ReadError};
use std::cmp::Ordering;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{Arc, OnceLock};

/// Bytes of rows between two looks at the pace.
const PACE_BYTES: u64 = 256 << 10;

/// Why Data.db is not what was written.
#[derive(Clone, Debug)]
struct Condemnation {
    error: ReadError,
    /// Whether chunks differ from their own checksums. Of the others nothing is known but that they fit
    /// theirs.
    is_in_chunks: bool,
}

/// What is known of Data.db as a whole.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Whether it is as Digest.crc32 says, once that is known.
    verdict: OnceLock<Result<(), Condemnation>>,
    /// The checksum of CompressionInfo.db or CRC.db, 0 where there is none.
    table_crc: u32,
    /// Why the Proof.db that is there is left aside.
    unfit: Option<ReadError>,
    /// That it was found to be damaged before it was opened; counts while there is no verdict.
    suspicion: Option<ReadError>,
    /// Whether reads are not begun while there is no verdict.
    is_awaited: AtomicBool,
    /// Whether TOC.txt may lack Proof.db: the node may have ended before it was there.
    may_be_unlisted: AtomicBool,
    /// Whether the index is of Ilion, and so needs nothing beside it.
    has_own_index: bool,
    /// Whether the rows of large partitions could not be described.
    cannot_adopt: AtomicBool,
}

impl Standing {
    /// The standing of an SSTable that is being written.
    pub fn proven() -> Standing {
        Standing { verdict: OnceLock::from(Ok(())), has_own_index: true, ..Standing::default() }
    }

    pub fn of(found: &Found, table_crc: u32) -> Standing {
        let mut standing = Standing { table_crc, ..Standing::default() };
        match found {
            Found::Fit(proof) => {
                standing.verdict = OnceLock::from(Ok(()));
                standing.may_be_unlisted = AtomicBool::new(proof.index.is_none());
                standing.has_own_index = proof.index.is_some();
            }
            Found::Unfit(error) => standing.unfit = Some(error.clone()),
            Found::Damaged(error) => standing.suspicion = Some(error.clone()),
            Found::Nothing => {}
        }
        standing
    }

    /// Fails in three cases: Data.db (`name`) is known to be damaged, unless the read `salvages` what is
    /// sound in it; it was known to be damaged before it was opened, and was not compared since; or it has to
    /// be compared before it is read.
    #[inline]
    pub fn check(&self, name: &Arc<str>, salvages: bool) -> Result<(), ReadError> {
        match self.verdict.get() {
            Some(Ok(())) => Ok(()),
            Some(Err(found)) if found.is_in_chunks && salvages => Ok(()),
            Some(Err(found)) => Err(found.error.clone()),
            None => self.check_undecided(name, salvages),
        }
    }

    fn check_undecided(&self, name: &Arc<str>, salvages: bool) -> Result<(), ReadError> {
        let is_awaited = self.is_awaited.load(Memory::Acquire);
        match &self.suspicion {
            // The comparison tells where the damage is.
            Some(_) if salvages && is_awaited => {}
            Some(error) => return Err(error.clone()),
            None if !is_awaited => return Ok(()),
            None => {}
        }
        // It may be there since it was looked for.
        match self.verdict.get() {
            Some(_) => self.check(name, salvages),
            None => Err(ReadError::Unproven(Arc::clone(name))),
        }
    }

    #[inline]
    fn refusal(&self) -> Option<&ReadError> {
        match self.verdict.get() {
            Some(verdict) => verdict.as_ref().err().map(|found| &found.error),
            None => self.suspicion.as_ref(),
        }
    }
}

/// A Proof.db that is still to be written: a proof, or a mark of damage.
#[derive(Clone, Debug)]
pub struct NewProof {
    content: Vec<u8>,
    /// What belongs to it.
    made: Option<Arc<Made>>,
    /// Why the rows of large partitions were not described, though they were to be.
    failure: Option<String>,
}

impl NewProof {
    fn of(content: Vec<u8>) -> NewProof {
        NewProof { content, made: None, failure: None }
    }

    /// How many large partitions were described.
    pub fn adopted_partitions(&self) -> Option<u64> {
        self.made.as_ref().map(|made| made.proof.directory.len() as u64)
    }

    /// Why the rows of large partitions were not described, though they were to be.
    pub fn adoption_failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// What came of an attempt to prove an SSTable.
#[derive(Clone, Debug)]
pub enum Proved {
    /// Data.db is the file that was written.
    Sound(NewProof),
    /// That was known already; now the rows of large partitions are described, or cannot be.
    Adopted(NewProof),
    /// It was known already.
    Known,
    /// There is no Digest.crc32, or it holds no number.
    NoDigest,
    /// Whoever gave the pace ended it.
    Stopped,
}

impl SsTable {
    /// Whether nobody has compared Data.db with Digest.crc32 yet.
    pub fn is_unproven(&self) -> bool {
        self.standing.verdict.get().is_none()
    }

    /// Whether reads are to fail with [`ReadError::Unproven`] until Data.db was compared. Where each chunk is
    /// compared with a checksum of CRC.db, which belongs to its place, they never do.
    pub fn await_proof(&self, is_awaited: bool) {
        self.standing.is_awaited.store(is_awaited && !self.data.has_checked_places(), Memory::Release);
    }

    /// Whether reads fail with [`ReadError::Unproven`].
    pub fn is_awaited(&self) -> bool {
        self.is_unproven() && self.standing.is_awaited.load(Memory::Acquire)
    }

    /// Data.db, as errors name it.
    pub fn data_name(&self) -> &Arc<str> {
        &self.data.name
    }

    /// [`Standing::check`] of a read. One that salvages relies on the checksums of chunks, so it takes
    /// nothing where a `crc_check_chance` below 1 leaves some of them out.
    #[inline]
    pub(crate) fn check_standing(&self, table: &TableSchema, context: &ReadContext) -> Result<(), ReadError> {
        let salvages =
            context.salvages && self.data.crc_checks.are_all_due_with(table.options.crc_check_chance);
        self.standing.check(&self.data.name, salvages)
    }

    /// Why nothing is read from here any more.
    pub fn condemned(&self) -> Option<&ReadError> {
        self.standing.verdict.get().and_then(|verdict| verdict.as_ref().err()).map(|found| &found.error)
    }

    /// Why reads fail: it is condemned, or was when it was open before and was not compared again yet.
    pub fn refusal(&self) -> Option<&ReadError> {
        self.standing.refusal()
    }

    /// Why the Proof.db that was there at the opening was left aside.
    pub fn unfit_proof(&self) -> Option<&ReadError> {
        self.standing.unfit.as_ref()
    }

    /// Whether [`SsTable::list_proof`] has something to look at.
    pub fn may_lack_listing(&self) -> bool {
        self.standing.may_be_unlisted.load(Memory::Relaxed)
    }

    /// Whether it would be read better if the rows of its large partitions were described here. It is so for
    /// what another program wrote, if it has such partitions and nobody tried in vain.
    pub fn wants_adoption(&self) -> bool {
        self.wants(&Adoption::default())
    }

    fn wants(&self, adoption: &Adoption) -> bool {
        let is_adopted = self.adopted.get().is_some_and(|adopted| !adopted.is_damaged());
        !self.standing.has_own_index
            && !is_adopted
            && !self.standing.cannot_adopt.load(Memory::Relaxed)
            && self.condemned().is_none()
            && self
                .believed()
                .is_some_and(|stats| stats.partition_sizes.max() as u64 >= adoption.partition_bytes_min)
    }

    /// How many large partitions are described here, and bytes that this takes, if they are.
    pub fn adopted(&self) -> Option<(u64, u64)> {
        let adopted = self.adopted.get()?;
        let outline = self.outline.get().map_or(0, |outline| outline.file_bytes());
        Some((adopted.partitions(), adopted.file_bytes() + outline))
    }

    /// Reads Data.db from end to end, around all caches, and compares it with Digest.crc32. `pace` is told of
    /// the bytes of each stretch, and ends the reading by `false`. When it is found to be damaged, every
    /// later read fails with the same error. With `adoption`, and if it [`SsTable::wants_adoption`], the rows
    /// of large partitions are described in the same pass, also of what was compared before.
    ///
    /// # Errors
    /// When it is damaged, and then [`SsTable::condemned`] says the same, or cannot be read.
    pub fn prove(
        &self,
        fs: &Arc<dyn FileSystem>,
        adoption: Option<Adoption>,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Proved, ReadError> {
        let adoption = adoption.filter(|adoption| self.wants(adoption));
        match self.standing.verdict.get() {
            Some(Ok(())) if adoption.is_none() => return Ok(Proved::Known),
            Some(Err(found)) => return Err(found.error.clone()),
            Some(Ok(())) | None => {}
        }
        let fs_of_all = fs;
        let fs = fs.as_ref();
        let digest = stored_digest(fs, &self.descriptor).map_err(|error| match error {
            OpenError::Read(error) => error,
            other => ReadError::from(io::Error::other(other.to_string())),
        })?;
        let Some(digest) = digest else { return Ok(Proved::NoDigest) };
        let file = fs.open_read_by(&self.descriptor.path(Component::Data), Access::Direct)?;
        let mut pass = Pass::new(&self.data, file.as_ref(), pace);
        let described = adoption.map(|adoption| self.describe(fs_of_all, adoption, &mut pass));
        let sums = match pass.finish() {
            Ok(Some(sums)) => sums,
            Ok(None) => return Ok(Proved::Stopped),
            Err(error) => return Err(self.condemn(error, false)),
        };
        match (sums.digest == digest, sums.damage) {
            (true, None) => {}
            (true, Some(error)) => return Err(self.condemn(self.of_table(&error), false)),
            (false, Some(error)) => return Err(self.condemn(error, true)),
            (false, None) => {
                let what = format!("the checksum of the file is {}, Digest.crc32 has {digest}", sums.digest);
                let Some(place) = self.first_misplaced(pace) else { return Ok(Proved::Stopped) };
                let error = match place {
                    Some((offset, detail)) => self.data.corrupt(offset, format!("{what}: {detail}")),
                    None => self.data.corrupt(0, format!("{what}; no chunk nor row tells where it differs")),
                };
                return Err(self.condemn(error, false));
            }
        }
        let finished = described.map(|maker| maker.and_then(|maker| maker.finish(digest, self.data.len)));
        let (made, failure) = match finished {
            Some(Ok(made)) => (Some(Arc::new(made)), None),
            Some(Err(failure)) => {
                self.standing.cannot_adopt.store(true, Memory::Relaxed);
                (None, Some(failure.to_string()))
            }
            None => (None, None),
        };
        let proof = Proof {
            digest,
            data_len: self.data.len,
            table_crc: self.standing.table_crc,
            index: None,
            chunks: sums.chunks,
            adopted: made.as_ref().map(|made| made.proof.clone()),
        };
        let new = NewProof { content: proof.encode(), made, failure };
        self.data.set_places(proof.chunks);
        match self.standing.verdict.set(Ok(())) {
            Ok(()) => Ok(Proved::Sound(new)),
            // It was known before, or another reader of it was faster.
            Err(_) => {
                self.standing.check(&self.data.name, false)?;
                Ok(if adoption.is_some() { Proved::Adopted(new) } else { Proved::Known })
            }
        }
    }

    /// Describes the rows of large partitions while Data.db is read.
    fn describe(
        &self,
        fs: &Arc<dyn FileSystem>,
        adoption: Adoption,
        pass: &mut Pass<'_>,
    ) -> Result<Maker, Failure> {
        let unfit = |detail: String| {
            Failure::Read(ReadError::corrupt(
                &file_name(&self.descriptor.path(Component::Statistics)),
                0,
                detail,
            ))
        };
        let table = Arc::new(table_of_header(self.header()).map_err(|e| unfit(e.to_string()))?);
        let layout = Layout::of_sstable(self.header(), &table).map_err(|e| unfit(e.to_string()))?;
        let context = ReadContext { fill_cache: false, ..ReadContext::default() };
        let layout = Arc::new(layout);
        let mut maker = Maker::new(fs, &self.descriptor, table, Arc::clone(&layout), adoption)?;
        let mut data = self.data_cursor(&context);
        if let Some((_, mut index)) = self.index.walk(&KeyRange::FULL, &layout, &mut data)? {
            maker.run(&mut index, pass)?;
        }
        Ok(maker)
    }

    /// What [`SsTable::keep_proof`] writes for a condemned SSTable. `None` when it is there already, or when
    /// nothing says any more what Data.db should be.
    ///
    /// # Errors
    /// When Digest.crc32 cannot be read.
    pub fn mark_of_damage(&self, fs: &dyn FileSystem) -> Result<Option<NewProof>, OpenError> {
        if self.condemned().is_none() || self.standing.suspicion.is_some() {
            return Ok(None);
        }
        Ok(stored_digest(fs, &self.descriptor)?.map(|digest| NewProof::of(mark_of_damage(digest))))
    }

    /// Makes reads fail with the error, if it is one of damage. Those that salvage fail, too, unless chunks
    /// are what is damaged.
    fn condemn(&self, error: ReadError, is_in_chunks: bool) -> ReadError {
        if matches!(error, ReadError::Corrupt { .. }) {
            let _ = self.standing.verdict.set(Err(Condemnation { error: error.clone(), is_in_chunks }));
        }
        error
    }

    /// The error of a page whose checksum does not fit though the file is as it was written.
    fn of_table(&self, error: &ReadError) -> ReadError {
        let table = match self.data.chunks() {
            0 => Component::Crc,
            _ => Component::CompressionInfo,
        };
        let detail = format!("it does not fit Data.db, which is as Digest.crc32 says: {error}");
        ReadError::corrupt(&file_name(&self.descriptor.path(table)), 0, detail)
    }

    /// Where in the uncompressed data a row or a partition is first met that cannot lie there; `None` when
    /// `pace` ended the search.
    fn first_misplaced(&self, pace: &mut dyn FnMut(u64) -> bool) -> Option<Option<(u64, String)>> {
        let Ok(table) = table_of_header(self.header()) else { return Some(None) };
        let Ok(layout) = Layout::of_sstable(self.header(), &table) else { return Some(None) };
        let mut walk = DataWalk::new(&self.data, Arc::new(layout), ReadContext::default());
        let comparator = table.comparator();
        let mut fragment = Fragment::default();
        let mut last_key = None;
        let (mut position, mut told) = (0, 0);
        let mut goes_on = true;
        while position < self.data.len && goes_on {
            let mut partition = || -> Result<Option<(u64, String)>, ReadError> {
                walk.start_partition(position, &mut fragment)?;
                if last_key.as_ref().is_some_and(|last| *last >= fragment.key) {
                    return Ok(Some((position, "partitions are out of order".to_owned())));
                }
                last_key = Some(fragment.key.clone());
                walk.static_row(&mut fragment.row)?;
                let mut last: Option<ClusteringBound> = None;
                loop {
                    if walk.position() >= told + PACE_BYTES {
                        goes_on = pace(walk.position() - told);
                        told = walk.position();
                    }
                    if !goes_on {
                        return Ok(None);
                    }
                    let here = match walk.next(&mut fragment)? {
                        Unfiltered::End => return Ok(None),
                        Unfiltered::Row => {
                            ClusteringBound::new(model::BoundKind::Row, fragment.row.clustering.clone())
                        }
                        Unfiltered::Change => fragment.change.position.clone(),
                    };
                    let ascends = last.as_ref().is_none_or(|last| {
                        comparator.compare_positions(last.position(), here.position()) == Ordering::Less
                    });
                    if !ascends {
                        let at = walk.unfiltered_start();
                        return Ok(Some((at, "rows or markers are out of order".to_owned())));
                    }
                    last = Some(here);
                }
            };
            match partition() {
                Ok(None) => {}
                Ok(Some(place)) => return Some(Some(place)),
                Err(ReadError::Corrupt { offset, detail, .. }) => return Some(Some((offset, detail))),
                Err(_) => return Some(None),
            }
            position = walk.position().max(position + 1);
        }
        goes_on.then_some(None)
    }

    /// Writes Proof.db, durably, with what belongs to it, then makes TOC.txt name them. From then on reads
    /// use what was described. The SSTable must not be removed meanwhile.
    ///
    /// # Errors
    /// When the file system fails. What is there then is one of before or after, and the proof stays in force
    /// in memory.
    pub fn keep_proof(&self, fs: &dyn FileSystem, proof: &NewProof) -> io::Result<()> {
        let kept = self.write_proof(fs, proof);
        if kept.is_err() {
            // It would be read again and again.
            self.standing.cannot_adopt.store(true, Memory::Relaxed);
        }
        kept
    }

    fn write_proof(&self, fs: &dyn FileSystem, proof: &NewProof) -> io::Result<()> {
        if let Some(made) = &proof.made {
            made.keep()?;
        }
        // This makes the names of the others durable, too.
        fs.write_atomic(&self.descriptor.path(Component::Proof), &proof.content)?;
        self.standing.may_be_unlisted.store(true, Memory::Relaxed);
        // Whoever links the files finds all that TOC.txt names.
        self.on_disk.store(Arc::new(OnDisk::list(fs, &self.descriptor)));
        self.list_proof(fs)?;
        proof.made.as_ref().map_or(Ok(()), |made| self.adopt(fs, made))
    }

    fn adopt(&self, fs: &dyn FileSystem, made: &Made) -> io::Result<()> {
        let failed = |error: OpenError| io::Error::other(error.to_string());
        let (pages, number) = (self.pages.as_ref(), self.number());
        let outline = Outline::open(fs, &self.descriptor, number, self.data.len).map_err(failed)?;
        let adopted = Adopted::open(fs, &self.descriptor, number, pages, made.proof.clone());
        outline.into_iter().for_each(|outline| drop(self.outline.set(outline)));
        adopted
            .map_err(|e| failed(e.into()))?
            .into_iter()
            .for_each(|adopted| drop(self.adopted.set(adopted)));
        Ok(())
    }

    /// Makes TOC.txt, where there is one, name Proof.db and what belongs to it. The SSTable must not be
    /// removed meanwhile.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn list_proof(&self, fs: &dyn FileSystem) -> io::Result<()> {
        let path = self.descriptor.path(Component::Toc);
        let text = match read_optional(fs, &self.descriptor, Component::Toc) {
            Ok(text) => text,
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        if let Some(text) = text {
            let mut text = String::from_utf8_lossy(&text).into_owned();
            let is_listed = |text: &str, name: &str| text.lines().any(|line| line.trim() == name);
            let here = self.components();
            let missing = [Component::Outline, Component::Blocks, Component::Proof]
                .into_iter()
                .filter(|component| here.contains(component) && !is_listed(&text, component.file_part()));
            let missing: Vec<_> = missing.collect();
            if !missing.is_empty() {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                missing.iter().for_each(|component| {
                    text.push_str(component.file_part());
                    text.push('\n');
                });
                fs.write_atomic(&path, text.as_bytes())?;
            }
        }
        self.standing.may_be_unlisted.store(false, Memory::Relaxed);
        Ok(())
    }
}
