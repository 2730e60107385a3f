//! A table as files, one for each split.
//!
//! ```text
//! DIR/_manifest.json            what is exported, its splits, and which of them are whole
//! DIR/part-00003.parquet        a split that is whole
//! DIR/_part-00004.parquet.tmp   one that is being written
//! ```
//! Who reads a directory as one data set leaves out names that begin with an underscore.
//!
//! 1. The manifest is written before the first file. It has the table, the request, the files of the source
//!    and the moment at which TTLs are judged.
//! 2. Each split is written under a temporary name, synced, and given its name. Then the manifest says so.
//! 3. An export that finds a manifest goes on with it, if that is of the same table, request and source.
//!    What the manifest does not call whole is written again. So a file under a final name is always whole.
//! 4. Where damage is left out, each file's losses stand in the manifest.
//! 5. With a limit the splits are written one after the other, until there are enough rows.
//!
//! One process at a time works in a directory.

mod files;
mod manifest;

pub use files::{Compression, Format};
pub use manifest::{Identity, Manifest, WholeFile};

use crate::{BulkError, Loss, ScanCounts, ScanRequest, Split, Table};
use env::Env;
use env::sync::Mutex;
use files::Writer;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Splits for each thread: enough that the last ones end at about the same time.
const SPLITS_PER_THREAD: u64 = 8;
/// Bytes of a split, before compression, below which there is no use in more splits.
const SPLIT_BYTES_MIN: u64 = 16 << 20;
/// Bytes of a split, before compression, above which there are more splits: files of this size are handy.
const SPLIT_BYTES_MAX: u64 = 512 << 20;
/// The name of the manifest.
pub const MANIFEST: &str = "_manifest.json";

/// Where and how files are written.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The directory; it is made if it is missing.
    pub directory: PathBuf,
    /// The format of the files.
    pub format: Format,
    /// How they are compressed.
    pub compression: Compression,
    /// Threads that scan and write.
    pub threads: usize,
}

/// Told of how an export goes on, from the threads that work for it.
pub trait Progress: Send + Sync {
    /// The export begins, or goes on: bytes in all, and those of splits that are whole already.
    fn begin(&self, bytes: u64, done: u64) {
        let _ = (bytes, done);
    }

    /// So many more rows were written, and so many more bytes of the source are done.
    fn add(&self, rows: u64, bytes: u64) {
        let _ = (rows, bytes);
    }

    /// Whether the export is to stop.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Nobody is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}

/// What an export came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rows in all files.
    pub rows: u64,
    /// How many of them are deletions.
    pub deletions: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Files.
    pub files: usize,
    /// Files that an earlier run had written.
    pub files_before: usize,
    /// Empty values that became null.
    pub empty_values: u64,
    /// What is in no file because one of the source is damaged.
    pub losses: Vec<Loss>,
}

/// What the threads of an export share.
struct Shared {
    env: Env,
    source: Arc<dyn Table>,
    request: ScanRequest,
    options: ExportOptions,
    manifest: Mutex<Manifest>,
    /// The splits that are not whole, and which of them is the next.
    left: Vec<(usize, Split)>,
    next: AtomicUsize,
    /// Rows that may still be written.
    rows_left: AtomicU64,
    failure: Mutex<Option<BulkError>>,
    has_failed: AtomicBool,
    progress: Arc<dyn Progress>,
}

/// Exports what a request asks for of a source. `asked` is the request in words, as the manifest keeps it: a
/// later run that says something else is refused.
///
/// # Errors
/// When the directory holds another export, or the source cannot be read, or a file cannot be written. What
/// was whole before stays, and the same call goes on behind it.
pub fn export(
    env: &Env,
    source: &Arc<dyn Table>,
    request: &ScanRequest,
    asked: &[(String, String)],
    options: &ExportOptions,
    progress: Arc<dyn Progress>,
) -> Result<Summary, BulkError> {
    options.format.check(options.compression)?;
    let fs = env.fs.as_ref();
    fs.create_dir_all_durable(&options.directory)?;
    let _lock = fs.lock_exclusive(&options.directory).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => {
            BulkError::Directory(format!("another export is at work in {}", options.directory.display()))
        }
        _ => e.into(),
    })?;
    let identity = Identity::of(source.as_ref(), request, asked, options);
    let path = options.directory.join(MANIFEST);
    let (manifest, mut request) = match Manifest::read(fs, &path)? {
        Some(found) => {
            found.check(&identity, &path)?;
            let mut request = request.clone();
            Arc::make_mut(&mut request.command).now_s = found.now_s;
            (found, request)
        }
        None => {
            refuse_strangers(env, &options.directory, options.format)?;
            let splits = source.splits(request, parts(source.data_bytes()?, options))?;
            let manifest = Manifest::new(identity, request.command.now_s, splits);
            manifest.write(fs, &path)?;
            (manifest, request.clone())
        }
    };
    remove_unfinished(env, &options.directory)?;
    let files_before = manifest.files.len();
    let is_whole = |i: &usize| manifest.files.iter().any(|file| file.split == *i);
    let rows_before: u64 = manifest.files.iter().map(|file| file.rows).sum();
    let rows_left = request.limit().map_or(u64::MAX, |limit| limit.saturating_sub(rows_before));
    let threads = if request.limit().is_some() { 1 } else { options.threads.max(1) };
    // The limit of the whole is kept split by split, below.
    Arc::make_mut(&mut request.command).limits.rows = u64::MAX;
    let bytes = |only_whole: bool| -> u64 {
        let splits = manifest.splits.iter().enumerate();
        splits.filter(|(i, _)| !only_whole || is_whole(i)).map(|(_, split)| split.bytes_estimate).sum()
    };
    progress.begin(bytes(false), bytes(true));
    let left: Vec<_> = manifest.splits.iter().cloned().enumerate().filter(|(i, _)| !is_whole(i)).collect();
    let shared = Arc::new(Shared {
        env: env.clone(),
        source: Arc::clone(source),
        request,
        options: options.clone(),
        left,
        next: AtomicUsize::new(0),
        rows_left: AtomicU64::new(rows_left),
        manifest: Mutex::new(manifest),
        failure: Mutex::new(None),
        has_failed: AtomicBool::new(false),
        progress,
    });
    let work = |shared: &Arc<Shared>| {
        let shared = Arc::clone(shared);
        env.tasks.spawn("export", move || shared.work())
    };
    let started: Vec<_> = (1..threads.min(shared.left.len())).map(|_| work(&shared)).collect();
    shared.work();
    // Where the system gives no thread, the others do its part.
    started.into_iter().flatten().for_each(|task| task.join());
    if let Some(failure) = shared.failure.lock().take() {
        return Err(failure);
    }
    let mut manifest = shared.manifest.lock();
    manifest.is_complete = true;
    manifest.write(fs, &path)?;
    let sum = |of: fn(&WholeFile) -> u64| manifest.files.iter().map(of).sum();
    Ok(Summary {
        rows: sum(|file| file.rows),
        deletions: sum(|file| file.deletions),
        bytes: sum(|file| file.bytes),
        empty_values: sum(|file| file.empty_values),
        files: manifest.files.len(),
        files_before,
        losses: manifest.files.iter().flat_map(|file| file.losses.iter().cloned()).collect(),
    })
}

/// How many splits there are to be.
fn parts(bytes: u64, options: &ExportOptions) -> u64 {
    let wanted = options.threads.max(1) as u64 * SPLITS_PER_THREAD;
    wanted.min(bytes / SPLIT_BYTES_MIN).max(bytes.div_ceil(SPLIT_BYTES_MAX)).max(1)
}

/// A directory without a manifest must have no files that look like ours: they would be taken for parts.
fn refuse_strangers(env: &Env, directory: &Path, format: Format) -> Result<(), BulkError> {
    let is_part = |name: &str| name.starts_with("part-") && name.ends_with(format.extension());
    for entry in env.fs.read_dir(directory)? {
        if entry.name.to_str().is_some_and(is_part) {
            return Err(BulkError::Directory(format!(
                "{} has {} but no {MANIFEST}; export into an empty directory",
                directory.display(),
                entry.name.display()
            )));
        }
    }
    Ok(())
}

/// Removes what a run that was killed left under temporary names.
fn remove_unfinished(env: &Env, directory: &Path) -> io::Result<()> {
    let is_ours = |name: &str| name.starts_with("_part-") && name.ends_with(".tmp");
    for entry in env.fs.read_dir(directory)? {
        if entry.name.to_str().is_some_and(is_ours) {
            env.fs.remove_file(&directory.join(&entry.name))?;
        }
    }
    Ok(())
}

impl Shared {
    /// Takes one split after the other, until none is left or something fails.
    fn work(&self) {
        while !self.has_failed.load(Ordering::Relaxed) && self.rows_left.load(Ordering::Relaxed) > 0 {
            let Some((number, split)) = self.left.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            let written = self.write_split(*number, split).and_then(|file| self.note(file));
            if let Err(error) = written {
                self.has_failed.store(true, Ordering::Relaxed);
                self.failure.lock().get_or_insert(error);
                return;
            }
        }
    }

    fn note(&self, file: WholeFile) -> Result<(), BulkError> {
        let mut manifest = self.manifest.lock();
        manifest.files.push(file);
        manifest.files.sort_by_key(|file| file.split);
        manifest.write(self.env.fs.as_ref(), &self.options.directory.join(MANIFEST))
    }

    fn write_split(&self, number: usize, split: &Split) -> Result<WholeFile, BulkError> {
        let fs = self.env.fs.as_ref();
        let name = format!("part-{number:05}.{}", self.options.format.extension());
        let path = self.options.directory.join(&name);
        let beside = self.options.directory.join(format!("_{name}.tmp"));
        let result = self.write_file(&beside, split);
        let (rows, bytes, counts, losses) = match result {
            Ok(found) => found,
            Err(error) => {
                // The next run would remove it, too.
                let _ = fs.remove_file(&beside);
                return Err(error);
            }
        };
        fs.rename(&beside, &path)?;
        fs.sync_dir(&self.options.directory)?;
        let ScanCounts { deletions, empty_values, .. } = counts;
        Ok(WholeFile { split: number, name, rows, deletions, bytes, empty_values, losses })
    }

    /// Writes the rows of a split to a file and syncs it. Returns rows and bytes of the file, and what the
    /// scan counted and left out.
    fn write_file(&self, path: &Path, split: &Split) -> Result<(u64, u64, ScanCounts, Vec<Loss>), BulkError> {
        let mut scan = self.source.scan(&self.request, split)?;
        let file = self.env.fs.create(path)?;
        let sorted_by = self.request.options.token.then_some(0);
        let Shared { options, .. } = self;
        let mut writer = Writer::new(file, scan.schema(), options.format, options.compression, sorted_by)?;
        let mut told = 0;
        while let Some(batch) = scan.next() {
            let mut batch = batch?;
            if self.progress.is_stopped() {
                return Err(BulkError::Stopped);
            }
            let rows_left = self.take_rows(batch.num_rows() as u64);
            if (batch.num_rows() as u64) > rows_left {
                batch = batch.slice(0, rows_left as usize);
            }
            let rows = batch.num_rows() as u64;
            writer.write(&batch)?;
            let done = scan.bytes_done().min(split.bytes_estimate);
            self.progress.add(rows, done.saturating_sub(told));
            told = told.max(done);
            if rows_left == rows {
                break;
            }
        }
        self.progress.add(0, split.bytes_estimate.saturating_sub(told));
        let (rows, bytes) = writer.finish()?;
        Ok((rows, bytes, scan.counts(), scan.losses().to_vec()))
    }

    /// Takes so many rows of those that may still be written. Returns how many these were before; no other
    /// thread gets the same.
    fn take_rows(&self, rows: u64) -> u64 {
        let take = |left: u64| Some(if left == u64::MAX { left } else { left.saturating_sub(rows) });
        let taken = self.rows_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.unwrap_or_else(|left| left)
    }
}
