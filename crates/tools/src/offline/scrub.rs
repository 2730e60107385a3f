//! `ilion sstable scrub`: new SSTables with every row that can be saved.
//!
//! 1. The lock of the data directory is taken, so that no node runs on it, or of a directory that is in none,
//!    so that no other scrub does.
//! 2. What a scrub that was killed left is ended as a node's start would end it. A transaction of another
//!    kind, or one that takes part in several data directories, is not for this tool to finish: it refuses.
//! 3. Links to the old files, and a manifest, go to `snapshots/pre-scrub-<time>`, which has `.unfinished`
//!    behind its name until they are complete. What a scrub that was killed left under such a name goes in
//!    step 2.
//! 4. The new SSTables are written under a transaction log, read back, and replace the old one at its COMMIT:
//!    a crash leaves the old files or the new ones.
//!
//! With `--output` the new SSTables go elsewhere and the old ones stay as they are: steps 1 and 2 concern the
//! directory that is written to, and step 3 is left out. Nothing says there that an old SSTable was done:
//! where a killed scrub had reached its COMMIT, the next one ends with step 2, lest it writes the same rows
//! again.

use super::dump::{key_text, times};
use super::output::Output;
use super::progress::Progress;
use super::source;
use super::{Failure, Outcome, lock};
use clap::Args;
use env::Env;
use serde_json::json;
use sstable::txn_log::{self, Operation, TxnLog};
use sstable::{
    Component, Descriptor, Loss, Salvaged, SsTable, SsTableId, Uncached, Version, descriptor, salvage,
    table_of_header,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SNAPSHOTS: &str = "snapshots";
/// What the names of snapshots begin with, before the time in milliseconds.
const TAG: &str = "pre-scrub-";
/// What follows the name of a snapshot that is not complete.
const UNFINISHED: &str = ".unfinished";

/// Arguments of `scrub`.
#[derive(Debug, Args)]
pub(super) struct ScrubArgs {
    /// Components of SSTables, or directories
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Where the new SSTables go; in the place of the old ones if it is not given
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// A JSON array with an object for each SSTable
    #[arg(long)]
    json: bool,
}

/// Ends what killed scrubs left in directories; the log of one that had committed. Nothing is touched before
/// all of it is understood.
fn end_leftovers(env: &Env, directories: &[PathBuf]) -> Result<Option<PathBuf>, Failure> {
    let mut all = Vec::new();
    for directory in directories {
        let here =
            txn_log::understand(env.fs.as_ref(), std::slice::from_ref(directory)).map_err(Failure::new)?;
        let foreign = here.iter().find(|left| !left.is_of(Operation::Scrub) || left.spans_directories);
        if let Some(log) = foreign.and_then(|left| left.logs.first()) {
            return Err(Failure::Usage(format!(
                "{} was left by an operation that did not end: start the node on the directory once",
                log.display()
            )));
        }
        all.extend(here);
    }
    for leftover in &all {
        leftover.finish(env.fs.as_ref())?;
        let outcome =
            if leftover.committed { "had committed, the old" } else { "had not committed, its new" };
        for log in &leftover.logs {
            crate::console::complain(&format!(
                "ilion sstable: {} of a scrub that did not end {outcome} files are removed\n",
                log.display()
            ));
        }
    }
    for directory in directories {
        remove_unfinished(env, &directory.join(SNAPSHOTS))?;
    }
    Ok(all.iter().filter(|left| left.committed).find_map(|left| left.logs.first().cloned()))
}

/// Removes the snapshots that killed scrubs did not finish.
fn remove_unfinished(env: &Env, snapshots: &Path) -> io::Result<()> {
    let entries = match env.fs.read_dir(snapshots) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let is_ours = |name: &str| name.starts_with(TAG) && name.ends_with(UNFINISHED);
        if entry.name.to_str().is_some_and(is_ours) {
            env.fs.remove_dir_all(&snapshots.join(&entry.name))?;
        }
    }
    Ok(())
}

/// Names for new SSTables in a directory: numbers or uuids, as the old one has.
struct Names<'a> {
    env: &'a Env,
    directory: PathBuf,
    with_uuid: bool,
    version: Version,
    last: u64,
}

impl<'a> Names<'a> {
    fn new(env: &'a Env, old: &Descriptor, directory: &Path) -> io::Result<Names<'a>> {
        let listed = descriptor::list(env.fs.as_ref(), directory)?;
        let numbers = listed.tables.keys().map(|d| match d.id {
            SsTableId::Sequence(n) => n,
            SsTableId::Uuid(_) => 0,
        });
        Ok(Names {
            env,
            directory: directory.to_owned(),
            // What is not written any more becomes what every node since 4.0 reads.
            version: if old.version.is_written() { old.version } else { Version::NB },
            with_uuid: matches!(old.id, SsTableId::Uuid(_)),
            last: numbers.max().unwrap_or(0),
        })
    }

    fn next(&mut self) -> Descriptor {
        self.last += 1;
        let id = match self.with_uuid {
            true => SsTableId::Uuid(self.env.time_uuid()),
            false => SsTableId::Sequence(self.last),
        };
        Descriptor::new(&self.directory, id, self.version)
    }
}

/// Links the files of an SSTable into a snapshot.
fn keep(env: &Env, old: &Descriptor, target: &Path) -> Result<(), Failure> {
    env.fs.create_dir_all_durable(target)?;
    for entry in env.fs.read_dir(&old.directory)? {
        let Some(name) = entry.name.to_str().filter(|name| name.starts_with(&old.prefix())) else { continue };
        env.fs.hard_link(&old.directory.join(name), &target.join(name))?;
    }
    Ok(env.fs.sync_dir(target)?)
}

/// Writes the manifest of a table's snapshot, which says when it was taken and of which files.
fn write_manifest(env: &Env, kept: &[&Descriptor], target: &Path) -> Result<(), Failure> {
    let files: Vec<String> = kept.iter().map(|d| format!("{}{}", d.prefix(), Component::Data)).collect();
    let manifest = json!({
        "files": files,
        "created_at": times::of_micros(env.clock.now_millis() * 1_000),
        "expires_at": null,
        "ephemeral": false,
    });
    let text = serde_json::to_string_pretty(&manifest).map_err(Failure::new)?;
    Ok(env.fs.write_atomic(&target.join("manifest.json"), text.as_bytes())?)
}

/// Keeps the old files of a table in the snapshot `tag`.
fn snapshot(env: &Env, directory: &Path, kept: &[&Descriptor], tag: &str) -> Result<(), Failure> {
    let snapshots = directory.join(SNAPSHOTS);
    let unfinished = snapshots.join(format!("{tag}{UNFINISHED}"));
    let made = kept.iter().try_for_each(|old| keep(env, old, &unfinished));
    if let Err(failure) = made.and_then(|()| write_manifest(env, kept, &unfinished)) {
        // Half a snapshot is none, and on a full disk it would be in the way.
        let _ = env.fs.remove_dir_all(&unfinished);
        return Err(failure);
    }
    env.fs.rename(&unfinished, &snapshots.join(tag))?;
    Ok(env.fs.sync_dir(&snapshots)?)
}

/// Salvages one SSTable.
fn scrub(env: &Env, old: &Descriptor, output: Option<&Path>) -> Result<Salvaged, Failure> {
    let directory = output.unwrap_or(&old.directory);
    let mut names = Names::new(env, old, directory)?;
    // Whoever ends it may work elsewhere.
    let within = std::path::absolute(directory)?;
    let id = env.time_uuid();
    let log = TxnLog::create(Arc::clone(&env.fs), &within, names.version, Operation::Scrub, id)?;
    let log = RefCell::new(log);
    let salvaged = {
        let progress = Progress::new(&format!("scrub {}", old.name()), Some(0));
        let mut next = || {
            let descriptor = names.next();
            log.borrow_mut().add(&descriptor)?;
            Ok(descriptor)
        };
        salvage(&env.fs, old, &mut next, &|work| progress.tell(work)).map_err(Failure::new)
    };
    let checked = salvaged.and_then(|salvaged| {
        for meta in &salvaged.written {
            SsTable::open(env.fs.as_ref(), &meta.descriptor, 0, Arc::new(Uncached)).map_err(Failure::new)?;
        }
        if output.is_none() {
            log.borrow_mut().remove([old])?;
        }
        Ok(salvaged)
    });
    let log = log.into_inner();
    match checked {
        Ok(salvaged) => {
            log.commit().map_err(std::io::Error::from)?.clean_up()?;
            Ok(salvaged)
        }
        Err(failure) => {
            log.abort()?;
            Err(failure)
        }
    }
}

struct Report<'a> {
    old: &'a Descriptor,
    salvaged: &'a Salvaged,
    /// The old SSTable's table, to show keys with.
    table: Option<model::TableSchema>,
}

impl Report<'_> {
    fn key(&self, loss: &Loss) -> Option<String> {
        Some(key_text(self.table.as_ref()?, loss.key.as_ref()?))
    }

    fn json(&self) -> serde_json::Value {
        let Salvaged { written, losses, loss_count, partitions, rows, stray_partitions, stray_rows } =
            self.salvaged;
        let losses = losses.iter().map(|loss| {
            json!({"partition": self.key(loss), "from": loss.from, "to": loss.to, "detail": loss.detail})
        });
        json!({
            "sstable": self.old.to_string(),
            "written": written.iter().map(|meta| meta.descriptor.to_string()).collect::<Vec<_>>(),
            "partitions": partitions,
            "rows": rows,
            "partitions_out_of_order": stray_partitions,
            "rows_out_of_order": stray_rows,
            "loss_count": loss_count,
            "losses": losses.collect::<Vec<_>>(),
        })
    }

    fn print(&self, out: &mut Output) -> io::Result<()> {
        let Salvaged { written, losses, loss_count, partitions, rows, stray_partitions, stray_rows } =
            self.salvaged;
        let lost = match loss_count {
            0 => "nothing lost".to_owned(),
            1 => "1 loss".to_owned(),
            n => format!("{n} losses"),
        };
        out.line(&format!("{}: {partitions} partitions and {rows} rows saved, {lost}", self.old))?;
        for meta in written {
            out.line(&format!("  written: {}", meta.descriptor))?;
        }
        if *stray_partitions > 0 || *stray_rows > 0 {
            out.line(&format!("  put in order: {stray_partitions} partitions, {stray_rows} rows"))?;
        }
        for loss in losses {
            let Loss { from, to, detail, .. } = loss;
            let key =
                self.key(loss).map_or("unknown partitions".to_owned(), |key| format!("partition {key}"));
            out.line(&format!("  lost: {key}, {from} to {to} of the data: {detail}"))?;
        }
        Ok(())
    }
}

pub(super) fn run(env: &Env, args: &ScrubArgs, out: &mut Output) -> Result<Outcome, Failure> {
    let directories = match &args.output {
        Some(output) => {
            env.fs.create_dir_all_durable(output)?;
            vec![output.clone()]
        }
        None => source::directories(env, &args.paths)?,
    };
    // Held until the end.
    let _locks = lock::all(env, &directories, "stop it first, or write elsewhere with --output")?;
    let committed = end_leftovers(env, &directories)?;
    if let Some((log, output)) = committed.zip(args.output.as_ref()) {
        return Err(Failure::Usage(format!(
            "what the scrub of {} wrote is whole and stays in {}: scrub again what is not there, or all with another --output",
            log.display(),
            output.display()
        )));
    }
    let descriptors = source::find(env, &args.paths)?;
    let tag = format!("{TAG}{}", env.clock.now_millis());
    let mut outcome = Outcome::Sound;
    let mut documents = Vec::new();
    if args.output.is_none() {
        let mut of_table: BTreeMap<&Path, Vec<&Descriptor>> = BTreeMap::new();
        descriptors.iter().for_each(|d| of_table.entry(&d.directory).or_default().push(d));
        for (directory, kept) in &of_table {
            snapshot(env, directory, kept, &tag)?;
        }
    }
    for old in &descriptors {
        let statistics = sstable::statistics::Statistics::read(env.fs.as_ref(), old).ok();
        let table = statistics.and_then(|s| table_of_header(&s.header).ok());
        let salvaged = scrub(env, old, args.output.as_deref())?;
        if salvaged.loss_count > 0 {
            outcome = Outcome::Findings;
        }
        let report = Report { old, salvaged: &salvaged, table };
        match args.json {
            true => documents.push(report.json()),
            false => report.print(out)?,
        }
    }
    if args.json {
        out.json(&documents)?;
    } else if args.output.is_none() {
        out.line(&format!("the old files are in snapshots/{tag}"))?;
    }
    Ok(outcome)
}

#[cfg(test)]
mod tests;
