//! Where the SSTables are, and what table they are of.
//!
//! The schema is looked for in this order:
//! 1. the file that was named;
//! 2. `schema.cql` beside the SSTables, which snapshots have;
//! 3. `system_schema` of the data directory that the SSTables lie in;
//! 4. the headers of the SSTables, which know no names of key columns, no dropped columns and no options.

use super::{Failure, schema_file, split_name};
use bulk::{BulkError, Source, Table, Tables};
use engine::schema_of_directory;
use env::Env;
use env::fs::FileSystem;
use model::schema::Replication;
use model::{KeyspaceSchema, Schema, TableSchema};
use sstable::{Descriptor, SsTable, Uncached, descriptor, table_of_header, table_with_frozen_types};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories above a table's in which `system_schema` is looked for: a snapshot lies four below the data
/// directory.
const LEVELS_MAX: usize = 5;

/// What is exported.
pub(crate) struct Place {
    pub sstables: Vec<Descriptor>,
    pub schema: Schema,
    pub table: Arc<TableSchema>,
    /// What the schema cannot tell.
    pub note: Option<String>,
}

/// The SSTables and the table of a directory.
pub(crate) fn find(
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
    of_headers(fs, listed(fs, what)?)
}

fn listed(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<Descriptor>, Failure> {
    let of = |error: &dyn std::fmt::Display| {
        Failure::Usage(format!("which SSTables of {} count is not known: {error}", directory.display()))
    };
    let found = descriptor::live(fs, directory).map_err(|e| of(&e))?;
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

/// The table as far as the SSTables tell.
fn of_headers(fs: &dyn FileSystem, sstables: Vec<Descriptor>) -> Result<Place, Failure> {
    let mut table: Option<TableSchema> = None;
    for descriptor in &sstables {
        let known = table_with_frozen_types(fs, descriptor);
        let sstable = SsTable::open_as(fs, descriptor, 0, Arc::new(Uncached), known.as_ref());
        let sstable = sstable.map_err(Failure::work)?;
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
    let table = table.ok_or_else(|| Failure::Usage("there are no SSTables".to_owned()))?;
    let table = Arc::new(table);
    let mut keyspace = KeyspaceSchema::new(&table.keyspace, Replication::simple(1));
    keyspace.tables.insert(table.name.clone(), Arc::clone(&table));
    let mut schema = Schema::default();
    schema.keyspaces.insert(table.keyspace.clone(), Arc::new(keyspace));
    let note = "no schema was found, so key columns have made-up names (key, clustering), and columns that were \
                dropped may be there; --schema FILE.cql tells more";
    Ok(Place { sstables, schema, table, note: Some(note.to_owned()) })
}

/// The tables of directories.
#[derive(Debug)]
pub(crate) struct DirectoryTables {
    env: Env,
    schema: Arc<Schema>,
    /// Where the SSTables of each table are, by keyspace and name.
    homes: BTreeMap<(String, String), Home>,
}

/// Where the SSTables of a table are.
#[derive(Debug)]
enum Home {
    /// In this directory, if it is there.
    Directory(PathBuf),
    /// These.
    SsTables(Vec<Descriptor>),
}

impl DirectoryTables {
    /// Opens directories: all tables of a data directory, and the one table of any other. What the schema
    /// cannot tell is said to `note`.
    pub fn open(
        env: &Env,
        directories: &[PathBuf],
        schema: Option<&Path>,
        table: Option<&str>,
        note: impl Fn(&str),
    ) -> Result<DirectoryTables, Failure> {
        let fs = env.fs.as_ref();
        let now_s = u32::try_from(env.now_seconds()).unwrap_or(0);
        let mut out = DirectoryTables { env: env.clone(), schema: Arc::default(), homes: BTreeMap::new() };
        for directory in directories {
            let stored = match schema.is_none() && table.is_none() {
                true => schema_of_directory(fs, directory, now_s).map_err(Failure::work)?,
                false => None,
            };
            let Some(found) = stored else {
                let place = find(env, directory, schema, table)?;
                place.note.iter().for_each(|text| note(text));
                let name = (place.table.keyspace.clone(), place.table.name.clone());
                out.add(&place.schema);
                out.homes.insert(name, Home::SsTables(place.sstables));
                continue;
            };
            for table in found.keyspaces.values().flat_map(|keyspace| keyspace.stores()) {
                let home = directory.join(&table.keyspace).join(table.directory_name());
                out.homes.insert((table.keyspace.clone(), table.name.clone()), Home::Directory(home));
            }
            out.add(&found);
        }
        Ok(out)
    }

    fn add(&mut self, schema: &Schema) {
        let all = Arc::make_mut(&mut self.schema);
        for (name, keyspace) in &schema.keyspaces {
            match all.keyspaces.get_mut(name) {
                // Two directories may each have a table of one keyspace.
                Some(known) => {
                    let known = Arc::make_mut(known);
                    known.tables.extend(keyspace.tables.clone());
                    known.types.extend(keyspace.types.clone());
                }
                None => {
                    all.keyspaces.insert(name.clone(), Arc::clone(keyspace));
                }
            }
        }
    }
}

impl Tables for DirectoryTables {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }

    fn table(&self, keyspace: &str, name: &str) -> Result<Arc<dyn Table>, BulkError> {
        let unknown = || BulkError::UnknownTable(format!("{keyspace}.{name}"));
        let fs = self.env.fs.as_ref();
        let definition = self.schema.keyspace(keyspace).and_then(|keyspace| keyspace.store(name));
        let definition = definition.ok_or_else(unknown)?;
        let home = self.homes.get(&(keyspace.to_owned(), name.to_owned())).ok_or_else(unknown)?;
        let live;
        let sstables = match home {
            Home::SsTables(sstables) => sstables,
            Home::Directory(directory) => {
                live = match fs.exists(directory)? {
                    true => descriptor::live(fs, directory).map_err(|error| {
                        let directory = directory.display();
                        BulkError::Request(format!(
                            "which SSTables of {directory} count is not known: {error}"
                        ))
                    })?,
                    // Nothing was ever written.
                    false => Vec::new(),
                };
                &live
            }
        };
        let source = Source::of_sstables(&self.env.fs, sstables, definition)
            .map_err(|error| BulkError::Request(error.to_string()))?;
        Ok(Arc::new(source))
    }

    fn names(&self) -> Vec<(String, String)> {
        self.homes.keys().cloned().collect()
    }
}
