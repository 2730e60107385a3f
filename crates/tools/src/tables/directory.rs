//! The SSTables of a directory, and what table they are of.
//!
//! The schema is looked for in this order:
//! 1. the file that was named;
//! 2. `schema.cql` beside the SSTables, which snapshots have;
//! 3. `system_schema` of the data directory that the SSTables lie in;
//! 4. the headers of the SSTables, which know no names of key columns, no dropped columns and no options. The
//!    directory may tell the name of the table.

use super::{Failure, schema_file, split_name};
use engine::schema_of_directory;
use env::Env;
use env::fs::FileSystem;
use model::schema::Replication;
use model::{KeyspaceSchema, Schema, TableSchema};
use sstable::{Descriptor, SsTable, Uncached, descriptor, table_of_header, table_with_frozen_types};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories above a table's in which `system_schema` is looked for: a snapshot lies four below the data
/// directory.
const LEVELS_MAX: usize = 5;
/// Hexadecimal digits of a table's id in the name of its directory.
const ID_DIGITS: usize = 32;

/// A directory of one table.
pub(super) struct Place {
    pub sstables: Vec<Descriptor>,
    pub schema: Schema,
    pub table: Arc<TableSchema>,
    /// What the schema cannot tell.
    pub note: Option<String>,
}

/// The SSTables and the table of a directory.
pub(super) fn find(
    env: &Env,
    what: &Path,
    schema: Option<&Path>,
    table: Option<&str>,
) -> Result<Place, Failure> {
    let fs = env.fs.as_ref();
    if fs.read_dir(what).is_err() {
        return Err(Failure::Usage(format!("there is no directory {}", what.display())));
    }
    let what = &fs.canonical(what).map_err(Failure::usage)?;
    let now_s = u32::try_from(env.now_seconds()).unwrap_or(0);
    let beside = what.join("schema.cql");
    let beside = fs.exists(&beside).map_err(Failure::usage)?.then_some(beside);
    if let Some(file) = schema.or(beside.as_deref()) {
        let read = schema_file::read(env, file)?;
        let table = read.table(table.map(split_name).transpose()?, &file.display().to_string())?;
        return Ok(Place { sstables: listed(fs, what)?, schema: read.schema, table, note: None });
    }
    if let Some((schema, data_dir)) = stored_schema(fs, what, now_s)? {
        let (table, directory) = match table.map(split_name).transpose()? {
            Some((keyspace, name)) => {
                let table = schema.table(keyspace, name).ok_or_else(|| {
                    Failure::Usage(format!("{} knows no table {keyspace}.{name}", data_dir.display()))
                })?;
                let home = data_dir.join(keyspace).join(table.directory_name());
                (Arc::clone(table), if *what == data_dir { home } else { what.clone() })
            }
            None if *what == data_dir => {
                return Err(Failure::Usage(format!(
                    "{} is a data directory: --table KEYSPACE.TABLE says which table",
                    what.display()
                )));
            }
            None => (of_path(&schema, &data_dir, what)?, what.clone()),
        };
        return Ok(Place { sstables: listed(fs, &directory)?, schema, table, note: None });
    }
    let name = match table.map(split_name).transpose()? {
        Some((keyspace, name)) => Some((keyspace.to_owned(), name.to_owned())),
        None => name_of_path(what),
    };
    of_headers(fs, listed(fs, what)?, name)
}

fn listed(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<Descriptor>, Failure> {
    let found = descriptor::live(fs, directory).map_err(|error| {
        Failure::Work(format!("which SSTables of {} count is not known: {error}", directory.display()))
    })?;
    match found.is_empty() {
        true => Err(Failure::Usage(format!("there are no SSTables in {}", directory.display()))),
        false => Ok(found),
    }
}

/// The schema of the data directory that is this one or lies above it.
fn stored_schema(
    fs: &dyn FileSystem,
    directory: &Path,
    now_s: u32,
) -> Result<Option<(Schema, PathBuf)>, Failure> {
    for above in directory.ancestors().take(LEVELS_MAX) {
        if let Some(schema) = schema_of_directory(fs, above, now_s).map_err(Failure::work)? {
            return Ok(Some((schema, above.to_owned())));
        }
    }
    Ok(None)
}

/// The table that a directory below a data directory belongs to: `keyspace/table-id/...`.
fn of_path(schema: &Schema, data_dir: &Path, directory: &Path) -> Result<Arc<TableSchema>, Failure> {
    let mut names = directory.strip_prefix(data_dir).into_iter().flat_map(Path::iter);
    let mut name = || names.next().and_then(|name| name.to_str()).unwrap_or_default();
    let (keyspace, table) = (name(), name());
    let found = schema.keyspace(keyspace).and_then(|k| k.stores().find(|t| t.directory_name() == table));
    found.cloned().ok_or_else(|| {
        Failure::Usage(format!(
            "{} knows no table of {}: --table KEYSPACE.TABLE says which one it is",
            data_dir.display(),
            directory.display()
        ))
    })
}

/// The keyspace and the table that a directory is named for: `keyspace/table-id/...`.
fn name_of_path(directory: &Path) -> Option<(String, String)> {
    let is_id = |id: &str| id.len() == ID_DIGITS && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    directory.ancestors().take(LEVELS_MAX).find_map(|above| {
        let (table, id) = above.file_name()?.to_str()?.rsplit_once('-')?;
        let keyspace = above.parent()?.file_name()?.to_str()?;
        (is_id(id) && !table.is_empty()).then(|| (keyspace.to_owned(), table.to_owned()))
    })
}

/// The table as far as the SSTables tell, by the name that it has elsewhere. An SSTable that cannot be read
/// is left to who reads its rows, if another tells of the table.
pub(super) fn of_headers(
    fs: &dyn FileSystem,
    sstables: Vec<Descriptor>,
    name: Option<(String, String)>,
) -> Result<Place, Failure> {
    let (mut table, mut failure): (Option<TableSchema>, _) = (None, None);
    for descriptor in &sstables {
        let known = table_with_frozen_types(fs, descriptor);
        let sstable = match SsTable::open_as(fs, descriptor, 0, Arc::new(Uncached), known.as_ref()) {
            Ok(sstable) => sstable,
            Err(error) => {
                failure.get_or_insert(error);
                continue;
            }
        };
        let found =
            table_of_header(sstable.header()).map_err(|e| Failure::Work(format!("{descriptor}: {e}")))?;
        let Some(known) = &table else {
            table = Some(found);
            continue;
        };
        let mut builder = known.to_builder();
        for column in found.static_columns().iter().filter(|c| known.column(&c.name).is_none()) {
            builder = builder.static_column(&column.name, column.ty.clone());
        }
        for column in found.regular_columns().iter().filter(|c| known.column(&c.name).is_none()) {
            builder = builder.regular(&column.name, column.ty.clone());
        }
        table = Some(builder.build());
    }
    let mut table = match (table, failure) {
        (Some(table), _) => table,
        (None, Some(error)) => return Err(Failure::work(error)),
        (None, None) => return Err(Failure::Usage("there are no SSTables".to_owned())),
    };
    if let Some((keyspace, name)) = name {
        (table.keyspace, table.name) = (keyspace, name);
    }
    let table = Arc::new(table);
    let mut keyspace = KeyspaceSchema::new(&table.keyspace, Replication::simple(1));
    keyspace.tables.insert(table.name.clone(), Arc::clone(&table));
    let mut schema = Schema::default();
    schema.keyspaces.insert(table.keyspace.clone(), Arc::new(keyspace));
    let note = format!(
        "no schema was found, so the table is called {}.{}, key columns have made-up names (key, clustering), and \
         columns that were dropped may be there; --schema FILE.cql tells more",
        table.keyspace, table.name
    );
    Ok(Place { sstables, schema, table, note: Some(note) })
}
