//! SSTables from other directories: `nodetool import`.
//!
//! For each directory, all of its SSTables or none:
//!
//! 1. They are opened and compared with the table's schema, and verified, every component of them.
//! 2. A transaction log is started in the table's directory; each SSTable gets a name of its own there and
//!    its files are linked, or copied where links cannot be, or where somebody else may write to them: a link
//!    is the same file, and who owns it, or has it open to write, could change what the table reads, or cut a
//!    file that is mapped, which ends the process. The level and the marks of repairs go, unless they are to
//!    be kept.
//! 3. They are opened under their new names and compared with their digests, also where nothing is to be
//!    verified; COMMIT; they join the view.
//! 4. Unless they were to be copied, their old files are removed.
//!
//! A crash before COMMIT leaves the directory as it was and nothing in the table, one after it everything in
//! the table; old files that are still there then hold nothing that the table lacks, and importing them again
//! changes nothing.

use crate::background::prover::Newcomer;
use crate::error::EngineError;
use crate::intake::Intake;
use crate::table::{FileContext, TableStore};
use env::fs::{FileSystem, PathError};
use model::{CqlType, TableSchema};
use partition::codec::{HeaderColumn, Layout};
use sstable::statistics::Statistics;
use sstable::txn_log::{Operation, TxnLog};
use sstable::{Component, Descriptor, SsTable, descriptor, statistics, verify_as};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const COPY_BYTES: usize = 1 << 20;

/// How SSTables are imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Whether every component is verified before.
    pub verify: bool,
    /// Whether the old files stay.
    pub copy: bool,
    /// Whether SSTables keep their level.
    pub keep_level: bool,
    /// Whether SSTables keep what is known about repairs.
    pub keep_repaired: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions { verify: true, copy: false, keep_level: false, keep_repaired: false }
    }
}

/// What became of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedDirectory {
    /// The directory.
    pub directory: PathBuf,
    /// The SSTables by their new names; empty when there were none, and when it failed.
    pub sstables: Vec<String>,
    /// Why nothing of the directory was imported.
    pub failure: Option<String>,
}

impl Intake {
    /// [`crate::Engine::import`].
    pub(crate) fn import(
        &self,
        keyspace: &str,
        table: &str,
        directories: &[PathBuf],
        options: &ImportOptions,
    ) -> Result<Vec<ImportedDirectory>, EngineError> {
        let store = self.catalog.table_named(keyspace, table)?;
        if self.writing.is_drained() {
            return Err(EngineError::Drained);
        }
        for directory in directories {
            if self.catalog.env.fs.read_dir(directory).is_err() {
                return Err(EngineError::NoDirectory(directory.clone()));
            }
        }
        self.writing.admit_foreign_rows(&store)?;
        let tables = self.catalog.tables();
        let import = Import { intake: self, store: &store, tables: &tables, options };
        let mut out = Vec::new();
        for directory in directories {
            let (sstables, failure) = match import.directory(directory) {
                Ok(names) => (names, None),
                Err(reason) => {
                    tracing::error!(directory = %directory.display(), keyspace, table, reason, "import failed");
                    (Vec::new(), Some(reason))
                }
            };
            tracing::info!(directory = %directory.display(), keyspace, table, ?sstables, "imported");
            out.push(ImportedDirectory { directory: directory.clone(), sstables, failure });
        }
        Ok(out)
    }
}

struct Import<'a> {
    intake: &'a Intake,
    store: &'a Arc<TableStore>,
    /// All tables of the node.
    tables: &'a [Arc<TableStore>],
    options: &'a ImportOptions,
}

/// Why a directory is not imported.
type Reason = String;

fn reason(error: impl std::fmt::Display) -> Reason {
    error.to_string()
}

impl Import<'_> {
    fn files(&self) -> &FileContext {
        &self.intake.catalog.files
    }

    fn fs(&self) -> &dyn FileSystem {
        self.intake.catalog.env.fs.as_ref()
    }

    fn directory(&self, directory: &Path) -> Result<Vec<String>, Reason> {
        self.check_is_nobodys(directory)?;
        let listing = descriptor::list(self.fs(), directory).map_err(reason)?;
        if let Some(log) = listing.txn_logs.first() {
            return Err(format!("{} says that an operation has not ended", log.display()));
        }
        let old: Vec<Descriptor> = listing.tables.into_keys().collect();
        if old.is_empty() {
            return Ok(Vec::new());
        }
        for descriptor in &old {
            self.check(descriptor).map_err(|why| format!("{descriptor}: {why}"))?;
        }
        let tables = self.take_in(&old)?;
        if !self.options.copy {
            for descriptor in &old {
                sstable::remove_files(self.fs(), descriptor).unwrap_or_else(|error| {
                    tracing::warn!(%descriptor, %error, "files of an imported SSTable stay behind");
                });
            }
        }
        self.intake.background.welcome(self.store, &tables);
        Ok(tables.iter().map(|table| table.sstable.descriptor().to_string()).collect())
    }

    /// Files are not taken from under a table that has them open.
    fn check_is_nobodys(&self, directory: &Path) -> Result<(), Reason> {
        let place = self.fs().canonical(directory).map_err(reason)?;
        let is_here = |dir: &PathBuf| self.fs().canonical(dir).is_ok_and(|dir| dir == place);
        let Some(owner) = self.tables.iter().find(|table| table.dirs().iter().any(is_here)) else {
            return Ok(());
        };
        if Arc::ptr_eq(owner, self.store) {
            return Err("the directory is the table's own: refresh finds new files there".to_owned());
        }
        if self.options.copy {
            return Ok(());
        }
        let (keyspace, name) = (&owner.schema().keyspace, &owner.schema().name);
        Err(format!(
            "the directory is that of {keyspace}.{name}, which would lose its files: import a snapshot, or copy them"
        ))
    }

    /// Step 1.
    fn check(&self, descriptor: &Descriptor) -> Result<(), Reason> {
        let schema = self.store.schema();
        let table = self.files().open(descriptor, &schema).map_err(reason)?;
        check_fits(&table, &schema)?;
        if !self.options.verify {
            return Ok(());
        }
        let verified = verify_as(self.fs(), descriptor, Some(&schema), &|_| {}).map_err(reason)?;
        match verified.findings.first() {
            None => Ok(()),
            Some(f) => {
                let offset = f.offset.map_or(String::new(), |offset| format!(" at {offset}"));
                let count = match verified.findings.len() {
                    1 => "1 finding".to_owned(),
                    count => format!("{count} findings"),
                };
                Err(format!(
                    "{count}, the first in {}{offset}: {} expected, {}",
                    f.component, f.expected, f.found
                ))
            }
        }
    }

    /// Steps 2 and 3.
    fn take_in(&self, old: &[Descriptor]) -> Result<Vec<Newcomer>, Reason> {
        let directory = self.files().home(self.store.homes()).map_err(reason)?;
        let env = &self.intake.catalog.env;
        let mut log = TxnLog::create(
            Arc::clone(&env.fs),
            &directory,
            self.files().version,
            Operation::Import,
            env.time_uuid(),
        )
        .map_err(|error| self.failed_in(&directory, error))?;
        let taken = old.iter().map(|old| {
            let new = self.store.next_descriptor(self.files(), &directory);
            let new = Descriptor { version: old.version, ..new };
            log.add(&new).map_err(|error| self.failed_in(&directory, error))?;
            self.bring(old, &new)?;
            let table = self.files().open(&new, &self.store.schema()).map_err(reason)?;
            let compared = self.intake.background.prove_newcomer(&self.store.schema(), table);
            compared.map_err(|why| format!("{old}: {why}"))
        });
        let taken = taken.collect::<Result<Vec<_>, Reason>>().and_then(|tables| {
            self.fs().sync_dir(&directory).map_err(|error| self.failed_in(&directory, error))?;
            Ok(tables)
        });
        let tables = match taken {
            Ok(tables) => tables,
            Err(why) => {
                if let Err(error) = log.abort() {
                    tracing::warn!(%error, "files of a failed import stay until the next start");
                }
                return Err(why);
            }
        };
        tables.iter().for_each(|new| self.intake.catalog.back_up(self.store, &new.sstable));
        // Compactions and truncations change the view at the same moment as their logs, and so does this.
        let mut committed = None;
        self.store.change_view(|view| {
            if self.store.is_dropped() {
                committed = Some(log.abort().and(Err(io::Error::other("the table was dropped"))));
                return;
            }
            let result = log.commit().inspect_err(|error| self.store.note(error)).map_err(io::Error::from);
            if result.is_ok() {
                view.replace_sstables(&[], tables.iter().map(|new| new.sstable.clone()));
                view.forget_cached_rows();
            }
            committed = Some(result);
        });
        if let Some(result) = committed {
            result.map_err(reason)?.clean_up().unwrap_or_else(|error| {
                tracing::warn!(%error, "the log of an import stays until the next start");
            });
        }
        Ok(tables)
    }

    /// The reason, and that the data directory may be given up, if it was a call on a file there.
    fn failed_in(&self, directory: &Path, error: io::Error) -> Reason {
        let path =
            error.get_ref().and_then(|cause| cause.downcast_ref::<PathError>()).map(|cause| &cause.path);
        let is_there = path.is_some_and(|path| path.starts_with(directory));
        let error = EngineError::from(error);
        if is_there {
            self.files().homes.note_failure(directory, self.store.homes(), &error);
        }
        reason(error)
    }

    /// Gives the files of `old` the names of `new` as well, TOC.txt last.
    fn bring(&self, old: &Descriptor, new: &Descriptor) -> Result<(), Reason> {
        let fs = self.fs();
        let failed = |error| self.failed_in(&new.directory, error);
        for component in Component::ALL {
            let (from, to) = (old.path(*component), new.path(*component));
            if !fs.exists(&from).map_err(reason)? {
                continue;
            }
            // A link would let whoever changes the one change the other.
            let may_link = !self.options.copy && fs.is_private(&from).map_err(reason)?;
            let is_linked = may_link && fs.hard_link(&from, &to).is_ok();
            match is_linked {
                // Whoever put the file there may not have synced it.
                true => fs.open_rw(&to).and_then(|mut file| file.sync_data()).map_err(failed)?,
                false => copy(fs, &from, &to).map_err(failed)?,
            }
        }
        let ImportOptions { keep_level, keep_repaired, .. } = *self.options;
        let stats = Statistics::read(fs, new).map_err(reason)?.stats;
        let is_repaired = stats.repaired_at_ms != 0 || stats.pending_repair.is_some() || stats.is_transient;
        if (keep_level || stats.level == 0) && (keep_repaired || !is_repaired) {
            return Ok(());
        }
        statistics::rewrite(fs, new, |stats| {
            if !keep_level {
                stats.level = 0;
            }
            if !keep_repaired {
                stats.repaired_at_ms = 0;
                stats.pending_repair = None;
                stats.is_transient = false;
            }
        })
        .map_err(reason)
    }
}

fn copy(fs: &dyn FileSystem, from: &Path, to: &Path) -> io::Result<()> {
    if fs.clone_file(from, to)? {
        return fs.open_rw(to)?.sync_data();
    }
    let source = fs.open_read(from)?;
    let mut target = fs.create_new(to)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < source.len() {
        let len = usize::try_from(source.len() - at).unwrap_or(COPY_BYTES).min(COPY_BYTES);
        let part = &mut buffer[..len];
        source.read_exact_at(at, part)?;
        target.write_all(part)?;
        at += len as u64;
    }
    target.sync_data()
}

/// Whether an SSTable is one of the table: key and clustering of the same types, and no column that the table
/// never had or that has another type.
pub(crate) fn check_fits(sstable: &SsTable, table: &TableSchema) -> Result<(), String> {
    let header = sstable.header();
    let expected = table.partition_key_class();
    // As a key's a type is frozen, whether its name says so or not (CASSANDRA-15035).
    let key_types = |class: &str| {
        let types = CqlType::parse_key_class(class).ok()?;
        Some(types.iter().map(CqlType::frozen).collect::<Vec<_>>())
    };
    if key_types(&header.key_type) != key_types(&expected) {
        return Err(format!(
            "the partition key is of type {}, that of the table {expected}",
            header.key_type
        ));
    }
    let clustering = table.clustering_columns().iter().map(|c| (c.ty.clone(), c.descending));
    if !header.clustering.iter().cloned().eq(clustering) {
        return Err("the clustering columns are not those of the table".to_owned());
    }
    Layout::of_sstable(header, table).map_err(|e| e.to_string())?;
    for columns in [&header.static_columns, &header.regular_columns] {
        for HeaderColumn { name, ty } in columns {
            let Some(column) = table.column(name) else { continue };
            if !holds(&column.ty, ty) && table.dropped.iter().all(|gone| gone.name != *name) {
                return Err(format!("column {name} is of type {ty}, in the table it is {}", column.ty));
            }
        }
    }
    Ok(())
}

/// Whether values of type `found` are values of type `declared`. That both have cells of their own, or both
/// not, the layout has found.
fn holds(declared: &CqlType, found: &CqlType) -> bool {
    use CqlType::{
        Ascii, BigInt, Blob, Int, List, Map, Set, Text, TimeUuid, Timestamp, Udt, Uuid, Varint, Vector,
    };
    match (declared, found) {
        (a, b) if a == b => true,
        (Blob, _) | (Text, Ascii) | (Uuid, TimeUuid) | (Timestamp, BigInt) | (BigInt, Timestamp) => true,
        (Varint, Int | BigInt | Timestamp) => true,
        (List { element: a, .. }, List { element: b, .. })
        | (Set { element: a, .. }, Set { element: b, .. }) => holds(a, b),
        (Map { key: a, value: v, .. }, Map { key: b, value: w, .. }) => holds(a, b) && holds(v, w),
        (Vector { element: a, dimension: m }, Vector { element: b, dimension: n }) => m == n && holds(a, b),
        // Fields are only ever added at the end.
        (Udt { definition: a, .. }, Udt { definition: b, .. }) => {
            a.fields.len() >= b.fields.len()
                && a.fields.iter().zip(&b.fields).all(|((_, a), (_, b))| holds(a, b))
        }
        (CqlType::Tuple(a), CqlType::Tuple(b)) => {
            a.len() >= b.len() && a.iter().zip(b.iter()).all(|(a, b)| holds(a, b))
        }
        (CqlType::Composite(a), CqlType::Composite(b)) => {
            let holds = |(a, b): (&model::types::Component, &model::types::Component)| {
                (a.reversed, a.old_class) == (b.reversed, b.old_class) && holds(&a.ty, &b.ty)
            };
            a.len() >= b.len() && a.iter().zip(b.iter()).all(holds)
        }
        (CqlType::DynamicComposite(a), CqlType::DynamicComposite(b)) => {
            b.iter().all(|(alias, ty)| a.get(*alias) == Some(ty))
        }
        _ => false,
    }
}
