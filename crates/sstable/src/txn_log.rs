//! Transaction logs: what makes a set of new SSTables replace a set of old ones at one instant
//! (docs/formats/sstable-big.md).
//!
//! ```text
//! <version>_txn_<operation>_<time uuid>.log, for big; bti-<version>_txn_... for bti; lines:
//! ADD:[<prefix of a new SSTable's files>,0,<file count>][<CRC32>]
//! REMOVE:[<prefix of an old SSTable's files>,<newest modification ms>,<file count>][<CRC32>]
//! COMMIT:[,0,0][<CRC32>]   or   ABORT:[,0,0][<CRC32>]
//! ```
//! The checksum covers the prefix, the word, the low and the high half of the time, and the count.
//!
//! 1. [`TxnLog::create`], then [`TxnLog::add`] for each new SSTable *before* its first file is made;
//! 2. the new SSTables are written and finished; [`TxnLog::remove`] for the old ones;
//! 3. [`TxnLog::commit`]: from here on the new ones count. [`Committed::clean_up`] removes the old files,
//!    then the log.
//!
//! A crash may leave a log behind. [`understand`] says what has to go: with a commit the old files, without
//! one the new ones; [`Leftover::finish`] removes them, then the log. A transaction of Cassandra's may span
//! several data directories: then each has a copy of the log. A torn last line counts as not written. When a
//! retired SSTable has more or other files than were recorded, somebody has put files back: that is an error.
//!
//! A commit that fails is taken back: the log goes, durably, then the new files. Until the log is gone,
//! nobody knows what the next start would find. A sync that failed says nothing of what is on the disk, and
//! neither does one that is tried again. When taking back fails, too, the outcome is [in
//! doubt](CommitError::InDoubt). The old SSTables go on, and nothing of either set may change until the next
//! start has decided.

use crate::descriptor::{Descriptor, Version, list};
use env::fs::{FileSystem, WriteFile};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// Lines are synced together as long as they lie in one such part of the log. With more parts, a machine that
/// stops may keep the end and not the middle, and only a last line may be torn.
const PAGE_BYTES: usize = 4096;

/// What a transaction is for; part of the log's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A memtable becomes SSTables.
    Flush,
    /// SSTables become others.
    Compaction,
    /// SSTables come from outside.
    Import,
    /// An SSTable is written anew with what can be read of it.
    Scrub,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Flush => "flush",
            Operation::Compaction => "compaction",
            Operation::Import => "write",
            Operation::Scrub => "scrub",
        }
    }
}

/// Why a transaction cannot be recovered.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The file system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line other than the last is damaged.
    #[error("{log} is damaged in line {line}")]
    Damaged {
        /// The log.
        log: String,
        /// Number of the line, from 1.
        line: usize,
    },
    /// The copies of a log in two directories say different things.
    #[error("{log} and its copy {other} differ in line {line}")]
    CopiesDiffer {
        /// The log.
        log: String,
        /// The other copy.
        other: String,
        /// Number of the line, from 1.
        line: usize,
    },
    /// The files of a retired SSTable are not those that were retired.
    #[error(
        "{log} retires {prefix} of {expected} files last changed at {modified_ms} ms, but found are {found}"
    )]
    Mismatch {
        /// The log.
        log: String,
        /// What the names of the files begin with.
        prefix: String,
        /// Number of files that were retired.
        expected: usize,
        /// When the newest of them had changed.
        modified_ms: i64,
        /// What is there.
        found: String,
    },
}

/// Why a transaction did not commit. The old SSTables count.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The new files are gone, the log too.
    #[error(transparent)]
    Undone(io::Error),
    /// The next start may find that it did commit. Until then the files of both sets must stay as they are.
    /// Otherwise a tombstone of the old ones could be purged, and rows of the new ones would come back.
    #[error("{0}; the next start decides which of its SSTables stay")]
    InDoubt(io::Error),
}

impl CommitError {
    /// Whether the next start may find that it did commit.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self, CommitError::InDoubt(_))
    }
}

impl From<CommitError> for io::Error {
    fn from(error: CommitError) -> io::Error {
        match error {
            CommitError::Undone(cause) => cause,
            CommitError::InDoubt(ref cause) => io::Error::new(cause.kind(), error.to_string()),
        }
    }
}

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A new SSTable.
    Add,
    /// An old SSTable.
    Remove,
    /// The transaction counts.
    Commit,
    /// The transaction does not count.
    Abort,
}

impl RecordKind {
    const ALL: [RecordKind; 4] = [RecordKind::Add, RecordKind::Remove, RecordKind::Commit, RecordKind::Abort];

    fn word(self) -> &'static str {
        match self {
            RecordKind::Add => "ADD",
            RecordKind::Remove => "REMOVE",
            RecordKind::Commit => "COMMIT",
            RecordKind::Abort => "ABORT",
        }
    }
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it says.
    pub kind: RecordKind,
    /// Absolute path that the files' names begin with, the last `-` included; empty for commit and abort.
    pub prefix: String,
    /// Newest modification of the files, milliseconds since 1970; 0 where it does not matter.
    pub modified_ms: i64,
    /// Number of files.
    pub files: i32,
}

impl Record {
    fn end(kind: RecordKind) -> Record {
        Record { kind, prefix: String::new(), modified_ms: 0, files: 0 }
    }

    fn checksum(&self) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(self.prefix.as_bytes());
        crc.update(self.kind.word().as_bytes());
        crc.update(&(self.modified_ms as u32).to_be_bytes());
        crc.update(&((self.modified_ms as u64 >> 32) as u32).to_be_bytes());
        crc.update(&self.files.to_be_bytes());
        crc.finalize()
    }

    /// The line, with its checksum and end.
    pub fn line(&self) -> String {
        let Record { kind, prefix, modified_ms, files } = self;
        format!("{}:[{prefix},{modified_ms},{files}][{}]\n", kind.word(), self.checksum())
    }

    fn parse(line: &str) -> Option<Record> {
        let (word, rest) = line.split_once(":[")?;
        let kind = RecordKind::ALL.into_iter().find(|kind| kind.word() == word)?;
        let (body, checksum) = rest.strip_suffix(']')?.rsplit_once("][")?;
        let mut parts = body.rsplitn(3, ',');
        let files = parts.next()?.parse().ok()?;
        let modified_ms = parts.next()?.parse().ok()?;
        let record = Record { kind, prefix: parts.next()?.to_owned(), modified_ms, files };
        (checksum.parse() == Ok(record.checksum())).then_some(record)
    }

    /// The table's directory when the record was written, and the index's below it whose files they are.
    fn place(&self) -> Option<(&Path, Option<&OsStr>)> {
        let above = Path::new(&self.prefix).parent()?;
        let index = above.file_name().filter(|name| name.to_string_lossy().starts_with('.'));
        Some((if index.is_some() { above.parent()? } else { above }, index))
    }

    /// Where the files lie, among a table's directories or in an index's below them. A data directory may
    /// have been moved since: then any of them.
    fn directories(&self, of_table: &[PathBuf]) -> Vec<PathBuf> {
        let Some((table, index)) = self.place() else { return Vec::new() };
        let here =
            |directory: &PathBuf| index.map_or_else(|| directory.clone(), |index| directory.join(index));
        match of_table.iter().find(|directory| *directory == table) {
            Some(exact) => vec![here(exact)],
            None => of_table.iter().map(here).collect(),
        }
    }

    /// The part of the prefix that is in the names of files, without the directory.
    fn name_prefix(&self) -> Option<&str> {
        let name = self.prefix.rsplit('/').next().unwrap_or_default();
        (name.ends_with('-') && name.len() > 1).then_some(name)
    }
}

/// The records of a log; the number of the line that is damaged, when it is not the last.
pub fn parse(bytes: &[u8]) -> Result<Vec<Record>, usize> {
    parse_to_end(bytes).map(|(records, _)| records)
}

/// The records, and whether a last line is there that is none.
fn parse_to_end(bytes: &[u8]) -> Result<(Vec<Record>, bool), usize> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        match Record::parse(line) {
            Some(record) => out.push(record),
            None if i + 1 == lines.len() => return Ok((out, true)),
            None => return Err(i + 1),
        }
    }
    Ok((out, false))
}

/// Whether a file in a table's directory is a transaction log, by its name.
pub fn is_log_name(name: &str) -> bool {
    name.strip_suffix(".log").is_some_and(|name| name.contains("_txn_") || name.starts_with("txn_"))
}

/// A transaction that is under way.
#[derive(Debug)]
pub struct TxnLog {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    path: PathBuf,
    file: Box<dyn WriteFile>,
    added: Vec<Descriptor>,
    removed: Vec<Descriptor>,
    /// Whether a line may be there in part: nothing is written behind it.
    is_torn: bool,
}

impl TxnLog {
    /// Starts a transaction in a table's directory, which will write SSTables of `version`. `id` is a time
    /// uuid of this operation's own.
    ///
    /// # Errors
    /// When the log cannot be made.
    pub fn create(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        version: Version,
        operation: Operation,
        id: Uuid,
    ) -> io::Result<TxnLog> {
        // Cassandra up to 4.1 knows the form for big only.
        let layout = if version.is_bti() { "bti-" } else { "" };
        let path = directory.join(format!("{layout}{version}_txn_{}_{id}.log", operation.name()));
        let file = fs.create_new(&path)?;
        fs.sync_dir(directory)?;
        let directory = directory.to_owned();
        Ok(TxnLog { fs, directory, path, file, added: Vec::new(), removed: Vec::new(), is_torn: false })
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        self.append_lines(&record.line())
    }

    /// Lines that are synced together.
    fn append_lines(&mut self, lines: &str) -> io::Result<()> {
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| self.file.sync_data());
        self.is_torn |= written.is_err();
        written
    }

    fn prefix(&self, descriptor: &Descriptor) -> String {
        self.directory.join(descriptor.prefix()).to_string_lossy().into_owned()
    }

    /// Records an SSTable that is going to be written.
    ///
    /// # Errors
    /// When the log cannot be written; the SSTable must not be started then.
    pub fn add(&mut self, descriptor: &Descriptor) -> io::Result<()> {
        let files = crate::Component::ALL.len() as i32;
        let prefix = self.prefix(descriptor);
        self.append(&Record { kind: RecordKind::Add, prefix, modified_ms: 0, files })?;
        self.added.push(descriptor.clone());
        Ok(())
    }

    /// Records SSTables that go when the transaction commits. The directory is listed once for all of them.
    ///
    /// # Errors
    /// When the log cannot be written or the SSTables' files cannot be looked up.
    pub fn remove<'a>(&mut self, descriptors: impl IntoIterator<Item = &'a Descriptor>) -> io::Result<()> {
        let names = Names::of(self.fs.as_ref(), &self.directory)?;
        let mut lines = String::new();
        for descriptor in descriptors {
            let (modified_ms, files) = names.with(self.fs.as_ref(), &descriptor.prefix())?;
            let (prefix, files) = (self.prefix(descriptor), files.len() as i32);
            let line = Record { kind: RecordKind::Remove, prefix, modified_ms, files }.line();
            let room = PAGE_BYTES - self.file.position() as usize % PAGE_BYTES;
            if lines.len() + line.len() > room && !lines.is_empty() {
                self.append_lines(&std::mem::take(&mut lines))?;
            }
            lines.push_str(&line);
            self.removed.push(descriptor.clone());
        }
        if lines.is_empty() { Ok(()) } else { self.append_lines(&lines) }
    }

    /// Makes the transaction count.
    ///
    /// # Errors
    /// When the log cannot be written; [`CommitError`] says what became of the files.
    pub fn commit(mut self) -> Result<Committed, CommitError> {
        match self.append(&Record::end(RecordKind::Commit)) {
            Ok(()) => {
                let TxnLog { fs, directory, path, removed, .. } = self;
                Ok(Committed { fs, directory, path, removed })
            }
            Err(cause) => Err(match self.take_back() {
                Ok(()) => CommitError::Undone(cause),
                Err(_) => CommitError::InDoubt(cause),
            }),
        }
    }

    /// Removes the log, then what was added. The log first: with a commit in it and the new files gone, a
    /// start would remove the old ones. A crash in between leaves both sets, which say the same.
    fn take_back(&self) -> io::Result<()> {
        self.fs.remove_file(&self.path)?;
        self.fs.sync_dir(&self.directory)?;
        remove_tables(self.fs.as_ref(), &self.directory, &self.added)
    }

    /// Gives up: removes what was added, then the log.
    ///
    /// # Errors
    /// When a file cannot be removed; [`understand`] finds what is left of it.
    pub fn abort(mut self) -> io::Result<()> {
        // A log without an end does not count either, and on a full disk the line may find no room.
        if !self.is_torn {
            let _ = self.append(&Record::end(RecordKind::Abort));
        }
        remove_tables(self.fs.as_ref(), &self.directory, &self.added)?;
        self.fs.remove_file(&self.path)?;
        self.fs.sync_dir(&self.directory)
    }
}

/// A transaction that counts, whose old files may still be there.
#[derive(Debug)]
pub struct Committed {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    path: PathBuf,
    removed: Vec<Descriptor>,
}

impl Committed {
    /// Removes the files of the old SSTables, then the log. Readers that have them open go on.
    ///
    /// # Errors
    /// When a file cannot be removed; [`understand`] finds what is left of it.
    pub fn clean_up(self) -> io::Result<()> {
        remove_tables(self.fs.as_ref(), &self.directory, &self.removed)?;
        self.fs.remove_file(&self.path)?;
        self.fs.sync_dir(&self.directory)
    }
}

/// The names in a directory at one moment, in order.
struct Names {
    directory: PathBuf,
    names: Vec<String>,
}

impl Names {
    fn of(fs: &dyn FileSystem, directory: &Path) -> io::Result<Names> {
        let entries = match fs.read_dir(directory) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        let mut names: Vec<String> = entries.into_iter().filter_map(|e| e.name.into_string().ok()).collect();
        names.sort_unstable();
        Ok(Names { directory: directory.to_owned(), names })
    }

    /// Newest modification and paths of the files that begin with `prefix`, those that changed first before
    /// the others.
    fn with(&self, fs: &dyn FileSystem, prefix: &str) -> io::Result<(i64, Vec<PathBuf>)> {
        let from = self.names.partition_point(|name| name.as_str() < prefix);
        let names = self.names.iter().skip(from).take_while(|name| name.starts_with(prefix));
        let mut files = Vec::new();
        for path in names.map(|name| self.directory.join(name)) {
            files.push((fs.modified_ms(&path)?, path));
        }
        files.sort();
        let newest = files.last().map_or(0, |(modified, _)| *modified);
        Ok((newest, files.into_iter().map(|(_, path)| path).collect()))
    }
}

/// Removes the files of SSTables, of each the newest last: when half of it is done, a record of the newest
/// change still fits what is left.
fn remove_tables(fs: &dyn FileSystem, directory: &Path, tables: &[Descriptor]) -> io::Result<()> {
    let names = Names::of(fs, directory)?;
    for descriptor in tables {
        names.with(fs, &descriptor.prefix())?.1.iter().try_for_each(|path| fs.remove_file(path))?;
    }
    fs.sync_dir(directory)
}

/// A transaction that a crash left, understood but not touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its log: one copy in each directory that takes part.
    pub logs: Vec<PathBuf>,
    /// Whether it had committed.
    pub committed: bool,
    /// Files that go: of each SSTable those that changed last come last.
    pub gone: Vec<PathBuf>,
    /// Whether it takes part in several data directories. One of them alone does not tell whether it had
    /// committed.
    pub spans_directories: bool,
    /// What the log says, all copies together.
    text: String,
}

impl Leftover {
    /// Whether it was of such an operation, by the name of its log.
    pub fn is_of(&self, operation: Operation) -> bool {
        let part = format!("_txn_{}_", operation.name());
        let named =
            |log: &PathBuf| log.file_name().is_some_and(|name| name.to_string_lossy().contains(&part));
        self.logs.iter().all(named)
    }

    /// Removes the files, then the log.
    ///
    /// # Errors
    /// When the file system fails; [`understand`] finds what is left of the transaction.
    pub fn finish(&self, fs: &dyn FileSystem) -> io::Result<()> {
        let directories: BTreeSet<&Path> =
            self.logs.iter().chain(&self.gone).map(|path| env::fs::parent(path)).collect();
        let sync = || directories.iter().try_for_each(|directory| fs.sync_dir(directory));
        // The commit may have been read from memory, its sync failed: it has to be on the disk before an old
        // file goes.
        if self.committed && !self.gone.is_empty() {
            self.logs.iter().try_for_each(|path| fs.write_atomic(path, self.text.as_bytes()))?;
        }
        // Removals of before may not be durable yet, and must not be found undone behind those of now.
        sync()?;
        self.gone.iter().try_for_each(|path| fs.remove_file(path))?;
        sync()?;
        self.logs.iter().try_for_each(|path| fs.remove_file(path))?;
        sync()
    }
}

/// Reads the transactions that a crash left in the directories of one table, one in each data directory.
/// Nothing is changed.
///
/// # Errors
/// When a log is damaged, or does not fit the files or its copy in another directory.
pub fn understand(fs: &dyn FileSystem, directories: &[PathBuf]) -> Result<Vec<Leftover>, RecoverError> {
    let mut by_name: BTreeMap<OsString, Vec<PathBuf>> = BTreeMap::new();
    for directory in directories {
        for log in list(fs, directory)?.txn_logs {
            by_name.entry(log.file_name().unwrap_or_default().to_owned()).or_default().push(log);
        }
    }
    let mut listed = BTreeMap::new();
    let mut understood = |copies| Replicas::read(fs, copies)?.understand(fs, directories, &mut listed);
    by_name.into_values().map(&mut understood).collect()
}

/// The copies of one log.
struct Replicas {
    paths: Vec<PathBuf>,
    records: Vec<Record>,
    /// Whether a last line is there that says nothing: the machine stopped while it was written.
    torn: bool,
}

impl Replicas {
    /// Reads the copies. The end of a transaction may be missing or torn in some of them.
    fn read(fs: &dyn FileSystem, paths: Vec<PathBuf>) -> Result<Replicas, RecoverError> {
        let mut longest = Replicas { paths: Vec::new(), records: Vec::new(), torn: false };
        for path in &paths {
            let bytes = fs.read(path)?;
            let (records, torn) = parse_to_end(&bytes)
                .map_err(|line| RecoverError::Damaged { log: path.display().to_string(), line })?;
            let both = records.len().min(longest.records.len());
            if let Some(line) = (0..both).find(|line| records.get(*line) != longest.records.get(*line)) {
                let (log, line) = (path.display().to_string(), line + 1);
                let other = paths.first().map(|p| p.display().to_string()).unwrap_or_default();
                return Err(RecoverError::CopiesDiffer { log, other, line });
            }
            if records.len() > longest.records.len() {
                longest.records = records;
                longest.torn = torn;
            } else if records.len() == longest.records.len() {
                longest.torn |= torn;
            }
        }
        let is_end = |r: &Record| matches!(r.kind, RecordKind::Commit | RecordKind::Abort);
        let end = longest.records.iter().position(is_end).filter(|end| end + 1 < longest.records.len());
        if let Some(end) = end {
            let log = paths.first().map(|p| p.display().to_string()).unwrap_or_default();
            return Err(RecoverError::Damaged { log, line: end + 2 });
        }
        Ok(Replicas { paths, ..longest })
    }

    /// What has to go. Directories are listed once, into `listed`.
    fn understand(
        self,
        fs: &dyn FileSystem,
        directories: &[PathBuf],
        listed: &mut BTreeMap<PathBuf, Names>,
    ) -> Result<Leftover, RecoverError> {
        let committed = self.records.last().is_some_and(|last| last.kind == RecordKind::Commit);
        let goes = if committed { RecordKind::Remove } else { RecordKind::Add };
        let mut gone = Vec::new();
        for record in &self.records {
            let Some(name) = record.name_prefix() else { continue };
            let (mut newest, mut files) = (0, Vec::new());
            for directory in record.directories(directories) {
                let names = match listed.entry(directory) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let names = Names::of(fs, new.key())?;
                        new.insert(names)
                    }
                };
                let found = names.with(fs, name)?;
                newest = newest.max(found.0);
                files.extend(found.1);
            }
            if record.kind == RecordKind::Remove {
                let expected = record.files.max(0) as usize;
                let changed = !files.is_empty() && newest != record.modified_ms || files.len() > expected;
                if changed || self.torn && files.len() < expected {
                    return Err(RecoverError::Mismatch {
                        log: self.paths.first().map(|p| p.display().to_string()).unwrap_or_default(),
                        prefix: record.prefix.clone(),
                        expected,
                        modified_ms: record.modified_ms,
                        found: format!("{} files last changed at {newest} ms", files.len()),
                    });
                }
            }
            if record.kind == goes {
                gone.extend(files);
            }
        }
        let text = self.records.iter().map(Record::line).collect();
        let within: BTreeSet<&Path> = self.records.iter().filter_map(|r| Some(r.place()?.0)).collect();
        let spans_directories = self.paths.len() > 1 || within.len() > 1;
        Ok(Leftover { logs: self.paths, committed, gone, spans_directories, text })
    }
}
