//! The files of one log: one is written, the others are there to be read, all together have a bound.
//!
//! ```text
//! audit-20261126T010000Z-0.jsonl    closed
//! audit-20261126T020000Z-0.jsonl    closed: the cycle was over
//! audit-20261126T020000Z-1.jsonl    written: the one before was large, or a write of it failed
//! ```
//! 1. A file ends when its cycle is over, or when it has a quarter of the bound.
//! 2. When all are larger than the bound together, the oldest goes.
//! 3. What is appended is in the file, whole, when the call returns; a failed call leaves nothing of it, and
//!    the next one begins a new file. On the device it is when the file ends.
//! 4. Only files of this log's own name are counted and removed.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use env::Env;
use env::fs::{EntryKind, WriteFile};

use super::roll::{self, RollCycle};

/// Names that are tried in a cycle, after restarts and failures.
const SEQUENCE_MAX: u32 = 100_000;

/// How files are called: `PREFIX-20261126T010000Z-0.EXTENSION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Naming {
    /// What it begins with.
    pub(super) prefix: &'static str,
    /// What it ends with.
    pub(super) extension: &'static str,
}

impl Naming {
    fn name(self, (stamp, sequence): &Place) -> String {
        format!("{}-{stamp}-{sequence}.{}", self.prefix, self.extension)
    }

    /// The place of a file in the order of all; `None` for a file of something else.
    fn place(self, name: &str) -> Option<Place> {
        let rest = name.strip_prefix(self.prefix)?.strip_prefix('-')?;
        let (stamp, sequence) = rest.strip_suffix(self.extension)?.strip_suffix('.')?.split_once('-')?;
        let is_stamp = stamp.len() == 16 && stamp.is_ascii();
        is_stamp.then_some((stamp.to_owned(), sequence.parse().ok()?))
    }
}

/// The file that is written.
#[derive(Debug)]
struct Current {
    file: Box<dyn WriteFile>,
    path: PathBuf,
    began_s: i64,
    bytes: u64,
}

/// The files of a log.
#[derive(Debug)]
pub(super) struct RolledFiles {
    env: Env,
    directory: PathBuf,
    naming: Naming,
    cycle: RollCycle,
    bytes_max: u64,
    /// The oldest first.
    closed: VecDeque<(PathBuf, u64)>,
    current: Option<Current>,
    /// The place of the newest file.
    last: Option<Place>,
    /// Written before each file.
    head: &'static [u8],
}

/// Where a file stands among the others: the beginning of its cycle as names have it, and its number.
type Place = (String, u32);

impl RolledFiles {
    /// Finds what is there, and makes the directory where it is missing.
    ///
    /// # Errors
    /// When the directory cannot be made, or read.
    pub(super) fn open(
        env: &Env,
        (directory, naming): (PathBuf, Naming),
        cycle: RollCycle,
        bytes_max: u64,
        head: &'static [u8],
    ) -> io::Result<RolledFiles> {
        env.fs.create_dir_all(&directory)?;
        let there = found(env, &directory, naming)?;
        let mut files = RolledFiles {
            env: env.clone(),
            directory,
            naming,
            cycle,
            bytes_max,
            last: there.last().map(|(place, ..)| place.clone()),
            closed: there.into_iter().map(|(_, path, bytes)| (path, bytes)).collect(),
            current: None,
            head,
        };
        files.current = Some(files.begin(env.now_seconds())?);
        files.remove_oldest();
        Ok(files)
    }

    /// Appends bytes that stay together.
    ///
    /// # Errors
    /// When the file system refuses.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let now_s = self.env.now_seconds();
        let began_s = self.cycle.beginning(now_s);
        let is_over =
            |current: &Current| current.began_s != began_s || current.bytes >= (self.bytes_max / 4).max(1);
        if self.current.as_ref().is_some_and(is_over) {
            self.end();
        }
        let mut current = match self.current.take() {
            Some(current) => current,
            None => self.begin(now_s)?,
        };
        if let Err(error) = current.file.write_all(bytes).and_then(|()| current.file.flush()) {
            let Current { file, path, bytes, .. } = current;
            drop(file);
            // Nothing of it stays, so that what is written again stands there once.
            let cut = self.env.fs.open_rw(&path).and_then(|mut file| file.truncate(bytes));
            if let Err(error) = cut {
                tracing::warn!(%error, "a file of a log ends in the middle of an entry");
            }
            self.closed.push_back((path, bytes));
            return Err(error);
        }
        current.bytes += bytes.len() as u64;
        self.current = Some(current);
        self.remove_oldest();
        Ok(())
    }

    /// Ends the file that is written.
    pub(super) fn end(&mut self) {
        let Some(Current { mut file, path, bytes, .. }) = self.current.take() else { return };
        if let Err(error) = file.sync_data() {
            tracing::warn!(%error, "a file of a log may not be on the disk");
        }
        self.closed.push_back((path, bytes));
    }

    fn begin(&mut self, now_s: i64) -> io::Result<Current> {
        let began_s = self.cycle.beginning(now_s);
        let stamp = roll::stamp(began_s);
        // A number is not used twice: the order of names is that of files, whichever of them are gone.
        let first = match &self.last {
            Some((last, sequence)) if *last == stamp => sequence.saturating_add(1),
            _ => 0,
        };
        for sequence in first..SEQUENCE_MAX {
            let place = (stamp.clone(), sequence);
            let path = self.directory.join(self.naming.name(&place));
            match self.env.fs.create_new(&path) {
                Ok(mut file) => {
                    file.write_all(self.head)?;
                    self.last = Some(place);
                    return Ok(Current { file, path, began_s, bytes: self.head.len() as u64 });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "a log has too many files of one cycle"))
    }

    fn remove_oldest(&mut self) {
        let current = self.current.as_ref().map_or(0, |current| current.bytes);
        let mut total = self.closed.iter().map(|(_, bytes)| bytes).sum::<u64>() + current;
        while total > self.bytes_max
            && let Some((path, bytes)) = self.closed.pop_front()
        {
            match self.env.fs.remove_file(&path) {
                Ok(()) => tracing::info!(path = %path.display(), bytes, "the oldest file of a log made room"),
                Err(error) => tracing::warn!(%error, "the oldest file of a log stays"),
            }
            total -= bytes;
        }
    }
}

/// The files of a log in their order.
fn found(env: &Env, directory: &Path, naming: Naming) -> io::Result<Vec<(Place, PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in env.fs.read_dir(directory)?.into_iter().filter(|entry| entry.kind == EntryKind::File) {
        let Some(name) = entry.name.to_str() else { continue };
        if let Some(place) = naming.place(name) {
            let path = directory.join(name);
            let bytes = env.fs.file_len(&path)?;
            found.push((place, path, bytes));
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the files of a log.
///
/// # Errors
/// When the file system refuses; what was removed is gone.
pub(super) fn remove_all(env: &Env, directory: &Path, naming: Naming) -> io::Result<usize> {
    if !env.fs.exists(directory)? {
        return Ok(0);
    }
    let files = found(env, directory, naming)?;
    for (_, path, _) in &files {
        env.fs.remove_file(path)?;
    }
    Ok(files.len())
}

/// What the files of a log hold, in their order.
#[cfg(test)]
pub(super) fn contents(env: &Env, directory: &str, naming: Naming) -> Vec<(String, String)> {
    let files = found(env, directory.as_ref(), naming).unwrap();
    let content = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, env.fs.read_to_string(path).unwrap())
    };
    files.iter().map(|(_, path, _)| content(path)).collect()
}

/// A world whose clock a test moves.
#[cfg(test)]
pub(super) fn world() -> (Env, std::sync::Arc<env::clock::ManualClock>) {
    use std::sync::Arc;
    let clock = Arc::new(env::clock::ManualClock::default());
    let random = Arc::new(env::random::Random::from_seed(1));
    let fs = Arc::new(env::fs::memory::MemoryFileSystem::new());
    (Env::new(Arc::clone(&clock) as Arc<dyn env::clock::Clock>, random, fs), clock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::fs::faulty::{Fault, FaultyFileSystem, Op};
    use std::sync::Arc;

    const NAMING: Naming = Naming { prefix: "audit", extension: "log" };

    fn open(env: &Env, bytes_max: u64) -> RolledFiles {
        let place = (PathBuf::from("/audit"), NAMING);
        RolledFiles::open(env, place, RollCycle::parse("MINUTELY").unwrap(), bytes_max, b"").unwrap()
    }

    fn texts(env: &Env) -> Vec<String> {
        contents(env, "/audit", NAMING).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_file_ends_with_its_cycle() {
        let (env, clock) = world();
        let mut files = open(&env, 1 << 20);
        files.append(b"one\n").unwrap();
        files.append(b"two\n").unwrap();
        clock.advance(std::time::Duration::from_secs(60));
        files.append(b"three\n").unwrap();
        assert_eq!(texts(&env), ["one\ntwo\n", "three\n"]);
    }

    #[test]
    fn a_restart_begins_a_file_and_leaves_the_others() {
        let (env, _) = world();
        for text in ["one\n", "two\n"] {
            open(&env, 1 << 20).append(text.as_bytes()).unwrap();
        }
        env.fs.write("/audit/other-20261126T010000Z-0.log".as_ref(), b"x").unwrap();
        assert_eq!(texts(&env), ["one\n", "two\n"]);
    }

    #[test]
    fn the_oldest_files_make_room_and_no_others_do() {
        let (env, _) = world();
        env.fs.create_dir_all("/audit".as_ref()).unwrap();
        env.fs.write("/audit/audit.log".as_ref(), &[b'x'; 100]).unwrap();
        let mut files = open(&env, 40);
        for at in 0..20 {
            files.append(format!("entry {at:03}\n").as_bytes()).unwrap();
        }
        let texts = texts(&env);
        assert!(texts.iter().map(String::len).sum::<usize>() <= 40, "{texts:?}");
        assert_eq!(texts.last().unwrap(), "entry 019\n");
        assert!(env.fs.exists("/audit/audit.log".as_ref()).unwrap());
    }

    #[test]
    fn a_failed_write_leaves_nothing_of_what_it_was_to_write() {
        let (plain, _) = world();
        let faulty = FaultyFileSystem::new(Arc::clone(&plain.fs));
        let env = plain.with_fs(Arc::new(faulty.clone()));
        let mut files = open(&env, 1 << 20);
        files.append(b"one\n").unwrap();
        faulty.add(Fault::on(Op::Write).short_write(2).times(1));
        files.append(b"two\n").unwrap_err();
        files.append(b"two\n").unwrap();
        assert_eq!(texts(&env), ["one\n", "two\n"]);
    }
}
