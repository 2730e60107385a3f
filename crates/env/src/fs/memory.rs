//! A file system in memory that can lose power.
//!
//! Every file and every directory exists twice: as the running process sees it, and as the device holds it.
//! Between the two stands the list of what was not synced yet. [`MemoryFileSystem::crash`] builds the file
//! system that a machine finds after the power came back, from the device's half and as much of the list as
//! the [`Crash`] lets through:
//!
//! | kept | [`Crash::LoseUnsynced`] | [`Crash::TornPrefix`] | [`Crash::ScatteredPages`] |
//! |---|---|---|---|
//! | synced bytes, synced names | yes | yes | yes |
//! | writes to a file since its last sync | none | the first few, the last one perhaps in part | any of their pages |
//! | changes of a directory since its last sync | none | the first few | the first few |
//!
//! A change of two names of one directory by one rename is kept whole or not at all; a rename between two
//! directories is a change of each. A seed decides what "few" is, anew for each file and directory.
//!
//! The crashed file system itself goes on for whoever still holds it: threads of the "dead" process cannot
//! touch the files of the next one.

mod content;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use self::content::Content;
use super::buffered::{BufferedFile, RawFile};
use super::{Advice, DirEntry, EntryKind, FileLock, FileSystem, ReadFile, Space, WriteFile, with_path};
use crate::clock::Clock;
use crate::random::Random;

/// What the device reports as its size, all of it free. A smaller disk is a matter of
/// [`super::faulty::FaultyFileSystem::set_free_bytes`].
const DEVICE_BYTES: u64 = 1 << 40;

/// What a loss of power spares; see the table at the top of the module. The numbers are seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Nothing that was not synced.
    LoseUnsynced,
    /// Unsynced changes in their order, up to some point.
    TornPrefix(u64),
    /// Unsynced pages of 4096 bytes in no order, as a page cache may have written them back.
    ScatteredPages(u64),
}

/// A file system in memory. Clones are the same file system.
#[derive(Clone, Debug)]
pub struct MemoryFileSystem {
    tree: Arc<Mutex<Tree>>,
    locks: Arc<Mutex<HashSet<PathBuf>>>,
    /// Files that others may change.
    shared: Arc<Mutex<HashSet<PathBuf>>>,
}

type File = Arc<RwLock<Content>>;

/// Index of a directory in [`Tree::dirs`].
type DirId = usize;

const ROOT: DirId = 0;

#[derive(Clone, Debug)]
enum Entry {
    File(File),
    Dir(DirId),
}

/// Names that one call changed together: the new entry, or `None` where the name went away.
type Change = Vec<(OsString, Option<Entry>)>;

#[derive(Debug, Default)]
struct Dir {
    /// As the process sees it.
    entries: BTreeMap<OsString, Entry>,
    /// As the device holds it.
    durable: BTreeMap<OsString, Entry>,
    /// What leads from `durable` to `entries`.
    unsynced: Vec<Change>,
}

impl Dir {
    fn change(&mut self, change: Change) {
        apply(&mut self.entries, &change);
        self.unsynced.push(change);
    }
}

fn apply(entries: &mut BTreeMap<OsString, Entry>, change: &Change) {
    for (name, entry) in change {
        match entry {
            Some(entry) => entries.insert(name.clone(), entry.clone()),
            None => entries.remove(name),
        };
    }
}

/// Directories by id; the root is always there. Removed ones stay in the list, out of reach.
#[derive(Debug)]
struct Tree {
    dirs: Vec<Dir>,
    clock: Option<Arc<dyn Clock>>,
}

impl Default for MemoryFileSystem {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryFileSystem {
    /// An empty file system: the root directory alone. Relative paths start at the root.
    pub fn new() -> Self {
        Self::from_tree(Tree { dirs: vec![Dir::default()], clock: None })
    }

    /// An empty file system that knows when its files were made: [`FileSystem::modified_ms`].
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::from_tree(Tree { dirs: vec![Dir::default()], clock: Some(clock) })
    }

    /// Makes a file one that others may change: [`FileSystem::is_private`] says so.
    pub fn share(&self, path: &Path) {
        self.shared.lock().insert(path.to_owned());
    }

    fn from_tree(tree: Tree) -> Self {
        Self { tree: Arc::new(Mutex::new(tree)), locks: Arc::default(), shared: Arc::default() }
    }

    /// The file system that is there after a loss of power at this moment. All of it is durable and nobody
    /// holds a lock.
    pub fn crash(&self, crash: Crash) -> Self {
        let seed = match crash {
            Crash::LoseUnsynced => 0,
            Crash::TornPrefix(seed) | Crash::ScatteredPages(seed) => seed,
        };
        let tree = self.tree.lock();
        let mut survivor = Survivor {
            tree: &tree,
            crash,
            random: Random::from_seed(seed),
            dirs: Vec::new(),
            moved: HashMap::new(),
            files: HashMap::new(),
        };
        survivor.keep_dir(ROOT);
        let dirs = survivor.dirs;
        Self::from_tree(Tree { dirs, clock: tree.clock.clone() })
    }

    fn with_parent<T>(
        &self,
        operation: &'static str,
        path: &Path,
        body: impl FnOnce(&mut Tree, DirId, &OsStr) -> io::Result<T>,
    ) -> io::Result<T> {
        let names = normal(path);
        let mut tree = self.tree.lock();
        let result = match names.split_last() {
            None => Err(io::ErrorKind::IsADirectory.into()),
            Some((name, above)) => tree.dir(above).and_then(|dir| body(&mut tree, dir, name)),
        };
        result.map_err(|e| with_path(operation, path, e))
    }

    fn file(&self, operation: &'static str, path: &Path) -> io::Result<File> {
        self.with_parent(operation, path, |tree, dir, name| tree.file(dir, name).cloned())
    }
}

/// Copies what a crash spares.
struct Survivor<'a> {
    tree: &'a Tree,
    crash: Crash,
    random: Random,
    dirs: Vec<Dir>,
    /// Where directories went, for one that two names reach after half a rename.
    moved: HashMap<DirId, DirId>,
    /// Where files went by their old address, so that hard links stay links.
    files: HashMap<*const RwLock<Content>, File>,
}

impl Survivor<'_> {
    fn keep_dir(&mut self, old: DirId) -> DirId {
        if let Some(new) = self.moved.get(&old) {
            return *new;
        }
        let new = self.dirs.len();
        self.dirs.push(Dir::default());
        self.moved.insert(old, new);

        let dir = &self.tree.dirs[old];
        let mut entries = dir.durable.clone();
        let kept = match self.crash {
            Crash::LoseUnsynced => 0,
            _ => self.random.below(dir.unsynced.len() as u64 + 1) as usize,
        };
        dir.unsynced[..kept].iter().for_each(|change| apply(&mut entries, change));

        let entries: BTreeMap<_, _> = entries
            .into_iter()
            .map(|(name, entry)| match entry {
                Entry::Dir(id) => (name, Entry::Dir(self.keep_dir(id))),
                Entry::File(file) => (name, Entry::File(self.keep_file(&file))),
            })
            .collect();
        self.dirs[new] = Dir { durable: entries.clone(), entries, unsynced: Vec::new() };
        new
    }

    fn keep_file(&mut self, old: &File) -> File {
        let (crash, random) = (self.crash, &self.random);
        self.files
            .entry(Arc::as_ptr(old))
            .or_insert_with(|| Arc::new(RwLock::new(old.read().after_crash(crash, random))))
            .clone()
    }
}

impl Tree {
    /// The directory that a list of names leads to.
    fn dir(&self, names: &[OsString]) -> io::Result<DirId> {
        names.iter().try_fold(ROOT, |dir, name| match self.dirs[dir].entries.get(name) {
            Some(Entry::Dir(id)) => Ok(*id),
            Some(Entry::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn entry(&self, dir: DirId, name: &OsStr) -> io::Result<&Entry> {
        self.dirs[dir].entries.get(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&self, dir: DirId, name: &OsStr) -> io::Result<&File> {
        match self.entry(dir, name)? {
            Entry::File(file) => Ok(file),
            Entry::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn add_dir(&mut self, parent: DirId, name: &OsStr) -> DirId {
        let id = self.dirs.len();
        self.dirs.push(Dir::default());
        self.dirs[parent].change(vec![(name.to_owned(), Some(Entry::Dir(id)))]);
        id
    }

    fn add_file(&mut self, parent: DirId, name: &OsStr) -> File {
        let made_ms = self.clock.as_ref().map_or(0, |clock| clock.now_millis());
        let file = Arc::new(RwLock::new(Content::made_at(made_ms)));
        self.dirs[parent].change(vec![(name.to_owned(), Some(Entry::File(file.clone())))]);
        file
    }

    /// Whether `dir` is `below` or holds it.
    fn holds(&self, dir: DirId, below: DirId) -> bool {
        dir == below
            || self.dirs[dir].entries.values().any(|entry| match entry {
                Entry::Dir(id) => self.holds(*id, below),
                Entry::File(_) => false,
            })
    }

    /// Whether an entry may be renamed onto what is there.
    fn check_replace(&self, moved: &Entry, target: Option<&Entry>) -> io::Result<()> {
        match (moved, target) {
            (_, None) | (Entry::File(_), Some(Entry::File(_))) => Ok(()),
            (Entry::File(_), Some(Entry::Dir(_))) => Err(io::ErrorKind::IsADirectory.into()),
            (Entry::Dir(_), Some(Entry::File(_))) => Err(io::ErrorKind::NotADirectory.into()),
            (Entry::Dir(_), Some(Entry::Dir(id))) if self.dirs[*id].entries.is_empty() => Ok(()),
            (Entry::Dir(_), Some(Entry::Dir(_))) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        }
    }
}

/// The names of a path from the root on, `.` and `..` resolved.
fn normal(path: &Path) -> Vec<OsString> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    names
}

fn writer(file: File, path: &Path, position: u64) -> Box<dyn WriteFile> {
    Box::new(BufferedFile::new(file, path, position))
}

impl FileSystem for MemoryFileSystem {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut tree = self.tree.lock();
        let mut dir = ROOT;
        for name in normal(path) {
            dir = match tree.dirs[dir].entries.get(&name) {
                Some(Entry::Dir(id)) => *id,
                Some(Entry::File(_)) => {
                    return Err(with_path("create directory", path, io::ErrorKind::NotADirectory.into()));
                }
                None => tree.add_dir(dir, &name),
            };
        }
        Ok(())
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let tree = self.tree.lock();
        let dir = tree.dir(&normal(path)).map_err(|e| with_path("list", path, e))?;
        let kind = |entry: &Entry| match entry {
            Entry::File(_) => EntryKind::File,
            Entry::Dir(_) => EntryKind::Dir,
        };
        let entries = tree.dirs[dir].entries.iter();
        Ok(entries.map(|(name, entry)| DirEntry { name: name.clone(), kind: kind(entry) }).collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let names = normal(path);
        let Some((name, above)) = names.split_last() else { return Ok(true) };
        let tree = self.tree.lock();
        Ok(tree.dir(above).is_ok_and(|dir| tree.dirs[dir].entries.contains_key(name)))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(Path::new("/").join(normal(path).iter().collect::<PathBuf>()))
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        Ok(self.file("measure", path)?.read().len())
    }

    fn modified_ms(&self, path: &Path) -> io::Result<i64> {
        Ok(self.file("examine", path)?.read().made_ms)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let file = self.file("open", path)?;
        let len = file.read().len();
        Ok(Arc::new(MemoryReadFile { file, len, path: path.to_owned() }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.with_parent("create", path, |tree, dir, name| {
            if !tree.dirs[dir].entries.contains_key(name) {
                return Ok(writer(tree.add_file(dir, name), path, 0));
            }
            let file = tree.file(dir, name)?.clone();
            file.write().set_len(0);
            Ok(writer(file, path, 0))
        })
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.with_parent("create", path, |tree, dir, name| {
            if tree.dirs[dir].entries.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(writer(tree.add_file(dir, name), path, 0))
        })
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        self.with_parent("open", path, |tree, dir, name| {
            let file = if tree.dirs[dir].entries.contains_key(name) {
                tree.file(dir, name)?.clone()
            } else {
                tree.add_file(dir, name)
            };
            let end = file.read().len();
            Ok(writer(file, path, end))
        })
    }

    fn open_rw(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(writer(self.file("open", path)?, path, 0))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (old_names, new_names) = (normal(from), normal(to));
        let mut tree = self.tree.lock();
        let mut rename = || {
            let (Some((old, above_old)), Some((new, above_new))) =
                (old_names.split_last(), new_names.split_last())
            else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let (old_dir, new_dir) = (tree.dir(above_old)?, tree.dir(above_new)?);
            let moved = tree.entry(old_dir, old)?.clone();
            if (old_dir, old) == (new_dir, new) {
                return Ok(());
            }
            if matches!(moved, Entry::Dir(id) if tree.holds(id, new_dir)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            tree.check_replace(&moved, tree.dirs[new_dir].entries.get(new))?;
            let (gone, come) = ((old.clone(), None), (new.clone(), Some(moved)));
            if old_dir == new_dir {
                tree.dirs[old_dir].change(vec![gone, come]);
            } else {
                tree.dirs[new_dir].change(vec![come]);
                tree.dirs[old_dir].change(vec![gone]);
            }
            Ok(())
        };
        rename().map_err(|e| with_path("rename", from, e))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.with_parent("remove", path, |tree, dir, name| {
            tree.file(dir, name)?;
            tree.dirs[dir].change(vec![(name.to_owned(), None)]);
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.with_parent("remove directory", path, |tree, dir, name| {
            match tree.entry(dir, name)? {
                Entry::File(_) => return Err(io::ErrorKind::NotADirectory.into()),
                Entry::Dir(id) if !tree.dirs[*id].entries.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                Entry::Dir(_) => tree.dirs[dir].change(vec![(name.to_owned(), None)]),
            }
            Ok(())
        })
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.with_parent("remove directory", path, |tree, dir, name| {
            if let Entry::File(_) = tree.entry(dir, name)? {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            tree.dirs[dir].change(vec![(name.to_owned(), None)]);
            Ok(())
        })
    }

    fn is_private(&self, path: &Path) -> io::Result<bool> {
        self.file("look up", path).map(|_| !self.shared.lock().contains(path))
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()> {
        let file = self.file("link", existing)?;
        self.with_parent("link", link, |tree, dir, name| {
            if tree.dirs[dir].entries.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            tree.dirs[dir].change(vec![(name.to_owned(), Some(Entry::File(file)))]);
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut tree = self.tree.lock();
        let dir = tree.dir(&normal(path)).map_err(|e| with_path("sync directory", path, e))?;
        let dir = &mut tree.dirs[dir];
        for change in std::mem::take(&mut dir.unsynced) {
            apply(&mut dir.durable, &change);
        }
        Ok(())
    }

    fn space(&self, _path: &Path) -> io::Result<Space> {
        Ok(Space { device: 0, total_bytes: DEVICE_BYTES, free_bytes: DEVICE_BYTES })
    }

    fn lock_exclusive(&self, path: &Path) -> io::Result<FileLock> {
        if self.read_dir(path).is_err() {
            drop(self.open_append(path)?);
        }
        let name: PathBuf = normal(path).iter().collect();
        if !self.locks.lock().insert(name.clone()) {
            let held = io::Error::new(io::ErrorKind::WouldBlock, "another process holds it");
            return Err(with_path("lock", path, held));
        }
        Ok(FileLock::new(path, Held { locks: self.locks.clone(), name }))
    }
}

/// Gives a lock back when it is dropped.
struct Held {
    locks: Arc<Mutex<HashSet<PathBuf>>>,
    name: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.locks.lock().remove(&self.name);
    }
}

#[derive(Debug)]
struct MemoryReadFile {
    file: File,
    len: u64,
    path: PathBuf,
}

impl ReadFile for MemoryReadFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(self.file.read().read_at(offset, buf))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise(&self, _offset: u64, _len: u64, _advice: Advice) {}

    fn path(&self) -> &Path {
        &self.path
    }
}

impl RawFile for File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write().write_at(offset, bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.write().sync();
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.write().set_len(len);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut content = self.write();
        if content.len() < len {
            content.set_len(len);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
