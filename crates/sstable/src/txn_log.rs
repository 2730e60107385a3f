//! Transaction logs: what makes a set of new SSTables replace a set of old ones at one instant (docs/formats/sstable-nb.md).
//!
//! ```text
//! nb_txn_<operation>_<time uuid>.log, lines:
//! ADD:[<prefix of a new SSTable's files>,0,<file count>][<CRC32>]
//! REMOVE:[<prefix of an old SSTable's files>,<newest modification ms>,<file count>][<CRC32>]
//! COMMIT:[,0,0][<CRC32>]   or   ABORT:[,0,0][<CRC32>]
//! ```
//! The checksum covers the prefix, the word, the low and the high half of the time, and the count.
//!
//! 1. [`TxnLog::create`], then [`TxnLog::add`] for each new SSTable *before* its first file is made;
//! 2. the new SSTables are written and finished; [`TxnLog::remove`] for each old one;
//! 3. [`TxnLog::commit`]: from here on the new ones count. [`Committed::clean_up`] removes the old files, then the log.
//!
//! [`recover`] finishes what a crash left: with a commit, the old files go, without one the new ones, then the log.
//! It runs before a directory is listed. A torn last line counts as not written. When a retired SSTable has more or
//! newer files than were recorded, somebody has put files back: nothing is touched and the error says so.

use crate::descriptor::{Descriptor, list};
use env::fs::{FileSystem, WriteFile};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// What a transaction is for; part of the log's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A memtable becomes SSTables.
    Flush,
    /// SSTables become others.
    Compaction,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Flush => "flush",
            Operation::Compaction => "compaction",
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

    fn line(&self) -> String {
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

    /// The part of the prefix that is in the names of files, without the directory: a data directory may have been
    /// moved since.
    fn name_prefix(&self) -> Option<&str> {
        let name = self.prefix.rsplit('/').next().unwrap_or_default();
        (name.ends_with('-') && name.len() > 1).then_some(name)
    }
}

/// The records of a log; the number of the line that is damaged, when it is not the last.
pub fn parse(bytes: &[u8]) -> Result<Vec<Record>, usize> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        match Record::parse(line) {
            Some(record) => out.push(record),
            None if i + 1 == lines.len() => {}
            None => return Err(i + 1),
        }
    }
    Ok(out)
}

/// Whether a file in a table's directory is a transaction log, by its name.
pub fn is_log_name(name: &str) -> bool {
    name.strip_suffix(".log").is_some_and(|name| name.contains("_txn_"))
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
}

impl TxnLog {
    /// Starts a transaction in a table's directory. `id` is a time uuid of this operation's own.
    ///
    /// # Errors
    /// When the log cannot be made.
    pub fn create(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        operation: Operation,
        id: Uuid,
    ) -> io::Result<TxnLog> {
        let path = directory.join(format!("nb_txn_{}_{id}.log", operation.name()));
        let file = fs.create_new(&path)?;
        fs.sync_dir(directory)?;
        Ok(TxnLog { fs, directory: directory.to_owned(), path, file, added: Vec::new(), removed: Vec::new() })
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        self.file.write_all(record.line().as_bytes())?;
        self.file.sync_data()
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

    /// Records an SSTable that goes when the transaction commits.
    ///
    /// # Errors
    /// When the log cannot be written or the SSTable's files cannot be looked up.
    pub fn remove(&mut self, descriptor: &Descriptor) -> io::Result<()> {
        let (modified_ms, files) = present(self.fs.as_ref(), &self.directory, &descriptor.prefix())?;
        let prefix = self.prefix(descriptor);
        self.append(&Record { kind: RecordKind::Remove, prefix, modified_ms, files: files.len() as i32 })?;
        self.removed.push(descriptor.clone());
        Ok(())
    }

    /// Makes the transaction count.
    ///
    /// # Errors
    /// When the log cannot be written. Whether the transaction counts is open then until [`recover`] has run: the
    /// node must stop using the directory.
    pub fn commit(mut self) -> io::Result<Committed> {
        self.append(&Record::end(RecordKind::Commit))?;
        Ok(Committed { fs: self.fs, directory: self.directory, path: self.path, removed: self.removed })
    }

    /// Gives up: removes what was added, then the log.
    ///
    /// # Errors
    /// When a file cannot be removed; [`recover`] tries again.
    pub fn abort(mut self) -> io::Result<()> {
        // A log without an end does not count either, and on a full disk the line may find no room.
        let _ = self.append(&Record::end(RecordKind::Abort));
        remove_tables(self.fs.as_ref(), &self.directory, self.added.iter().map(Descriptor::prefix))?;
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
    /// When a file cannot be removed; [`recover`] tries again.
    pub fn clean_up(self) -> io::Result<()> {
        remove_tables(self.fs.as_ref(), &self.directory, self.removed.iter().map(Descriptor::prefix))?;
        self.fs.remove_file(&self.path)?;
        self.fs.sync_dir(&self.directory)
    }
}

/// Newest modification and paths of the files that begin with `prefix`.
fn present(fs: &dyn FileSystem, directory: &Path, prefix: &str) -> io::Result<(i64, Vec<PathBuf>)> {
    let (mut newest, mut files) = (0, Vec::new());
    for entry in fs.read_dir(directory)? {
        if entry.name.to_str().is_some_and(|name| name.starts_with(prefix)) {
            let path = directory.join(&entry.name);
            newest = newest.max(fs.modified_ms(&path)?);
            files.push(path);
        }
    }
    Ok((newest, files))
}

fn remove_tables(
    fs: &dyn FileSystem,
    directory: &Path,
    prefixes: impl Iterator<Item = String>,
) -> io::Result<()> {
    for prefix in prefixes {
        for path in present(fs, directory, &prefix)?.1 {
            fs.remove_file(&path)?;
        }
    }
    fs.sync_dir(directory)
}

/// A transaction that [`recover`] finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Its log, removed now.
    pub log: PathBuf,
    /// Whether it had committed.
    pub committed: bool,
    /// Files that were removed.
    pub removed: Vec<PathBuf>,
}

/// Finishes the transactions that a crash left in a directory.
///
/// # Errors
/// When a log is damaged or does not fit the files; then nothing of that transaction was touched.
pub fn recover(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<Recovered>, RecoverError> {
    let mut out = Vec::new();
    for log in list(fs, directory)?.txn_logs {
        let name = log.display().to_string();
        let records =
            parse(&fs.read(&log)?).map_err(|line| RecoverError::Damaged { log: name.clone(), line })?;
        let committed = records.last().is_some_and(|last| last.kind == RecordKind::Commit);
        let gone = if committed { RecordKind::Remove } else { RecordKind::Add };
        let mut removed = Vec::new();
        for record in records.iter().filter(|record| record.kind == gone) {
            let Some(prefix) = record.name_prefix() else { continue };
            let (newest, files) = present(fs, directory, prefix)?;
            let changed = files.len() > record.files.max(0) as usize || newest > record.modified_ms;
            if committed && changed {
                let mut found = String::new();
                let _ = write!(found, "{} files last changed at {newest} ms", files.len());
                return Err(RecoverError::Mismatch {
                    log: name,
                    prefix: record.prefix.clone(),
                    expected: record.files.max(0) as usize,
                    modified_ms: record.modified_ms,
                    found,
                });
            }
            removed.extend(files);
        }
        for path in &removed {
            fs.remove_file(path)?;
        }
        fs.sync_dir(directory)?;
        fs.remove_file(&log)?;
        fs.sync_dir(directory)?;
        out.push(Recovered { log, committed, removed });
    }
    Ok(out)
}
