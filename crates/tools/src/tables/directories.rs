//! The tables of several directories.
//!
//! Directories of one table together are that table: the disks of a node, or backups of several nodes. Their
//! rows are reconciled as those of replicas are.

use super::Failure;
use super::directory::{Place, find, of_headers};
use bulk::{Batches, BulkError, ScanRequest, Source, Split, Table, Tables};
use engine::schema_of_directory;
use env::Env;
use env::fs::FileSystem;
use model::{Schema, TableSchema};
use sstable::{Descriptor, descriptor};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The tables of directories.
#[derive(Debug)]
pub(crate) struct DirectoryTables {
    env: Env,
    schema: Arc<Schema>,
    /// By keyspace and name.
    homes: BTreeMap<(String, String), Arc<Home>>,
}

/// What there is of a table.
#[derive(Clone, Debug)]
struct Home {
    table: Arc<TableSchema>,
    /// The directory that told of it first.
    first: PathBuf,
    parts: Vec<Part>,
    /// Whether SSTables are all that tells of it.
    is_of_headers: bool,
    /// Why it cannot be read: directories know different tables of this name.
    refusal: Option<String>,
}

/// Where SSTables of a table are.
#[derive(Clone, Debug)]
enum Part {
    /// In this directory, if it is there.
    Directory(PathBuf),
    /// These.
    SsTables(Vec<Descriptor>),
}

impl Home {
    /// All SSTables of the table, as they are now.
    fn sstables(&self, fs: &dyn FileSystem) -> Result<Vec<Descriptor>, BulkError> {
        if let Some(refusal) = &self.refusal {
            return Err(BulkError::Request(refusal.clone()));
        }
        let mut sstables = Vec::new();
        for part in &self.parts {
            match part {
                Part::SsTables(listed) => sstables.extend(listed.iter().cloned()),
                Part::Directory(directory) if fs.exists(directory)? => {
                    sstables.extend(descriptor::live(fs, directory).map_err(|error| {
                        let directory = directory.display();
                        let text = format!("which SSTables of {directory} count is not known: {error}");
                        BulkError::Io(io::Error::other(text))
                    })?);
                }
                // Nothing was ever written.
                Part::Directory(_) => {}
            }
        }
        Ok(sstables)
    }
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
        let mut others = Vec::new();
        for directory in directories {
            let stored = match schema.is_none() && table.is_none() {
                true => schema_of_directory(fs, directory, now_s).map_err(Failure::work)?,
                false => None,
            };
            match stored {
                Some(found) => out.add_data_directory(directory, &found),
                None => others.push(directory),
            }
        }
        for directory in others {
            if out.add_disk(fs, directory)? {
                continue;
            }
            let place = find(env, directory, schema, table)?;
            place.note.iter().for_each(|text| note(text));
            out.add_place(fs, directory, place)?;
        }
        Ok(out)
    }

    /// Adds all tables of a data directory.
    fn add_data_directory(&mut self, directory: &Path, schema: &Schema) {
        self.add_schema(schema);
        for table in schema.keyspaces.values().flat_map(|keyspace| keyspace.stores()) {
            let part = directory.join(&table.keyspace).join(table.directory_name());
            self.add(directory, table, Part::Directory(part), false);
        }
    }

    /// Adds what a node keeps on another disk than its schema. Returns whether there is anything of it.
    fn add_disk(&mut self, fs: &dyn FileSystem, directory: &Path) -> Result<bool, Failure> {
        let mut found = false;
        for home in self.homes.values_mut() {
            let home = Arc::make_mut(home);
            let part = directory.join(&home.table.keyspace).join(home.table.directory_name());
            if fs.exists(&part).map_err(Failure::usage)? {
                home.parts.push(Part::Directory(part));
                found = true;
            }
        }
        Ok(found)
    }

    /// Adds the table of a directory.
    fn add_place(&mut self, fs: &dyn FileSystem, directory: &Path, place: Place) -> Result<(), Failure> {
        let name = name_of(&place.table);
        let is_of_headers = place.note.is_some();
        let place = match self.homes.get_mut(&name) {
            // What is not in one SSTable is in another.
            Some(home) if home.is_of_headers && is_of_headers && has_same_keys(&home.table, &place.table) => {
                let home = Arc::make_mut(home);
                let known = home.parts.iter().flat_map(|part| match part {
                    Part::SsTables(sstables) => sstables.as_slice(),
                    Part::Directory(_) => &[],
                });
                let all = of_headers(fs, known.chain(&place.sstables).cloned().collect(), Some(name))?;
                home.table = Arc::clone(&all.table);
                Place { sstables: place.sstables, ..all }
            }
            _ => place,
        };
        self.add_schema(&place.schema);
        self.add(directory, &place.table, Part::SsTables(place.sstables), is_of_headers);
        Ok(())
    }

    fn add(&mut self, directory: &Path, table: &Arc<TableSchema>, part: Part, is_of_headers: bool) {
        let home = self.homes.entry(name_of(table)).or_insert_with(|| {
            let (table, first) = (Arc::clone(table), directory.to_owned());
            Arc::new(Home { table, first, parts: Vec::new(), is_of_headers, refusal: None })
        });
        let home = Arc::make_mut(home);
        if !has_same_rows(&home.table, table) {
            home.refusal.get_or_insert_with(|| {
                format!(
                    "{} and {} know different tables {}.{}: ask them one by one, or name the schema of both with \
                     --schema FILE.cql",
                    home.first.display(),
                    directory.display(),
                    table.keyspace,
                    table.name
                )
            });
        }
        home.parts.push(part);
    }

    /// Adds what is not known yet.
    fn add_schema(&mut self, schema: &Schema) {
        let all = Arc::make_mut(&mut self.schema);
        for (name, keyspace) in &schema.keyspaces {
            let Some(known) = all.keyspaces.get_mut(name) else {
                all.keyspaces.insert(name.clone(), Arc::clone(keyspace));
                continue;
            };
            let known = Arc::make_mut(known);
            for (name, table) in &keyspace.tables {
                known.tables.entry(name.clone()).or_insert_with(|| Arc::clone(table));
            }
            for (name, ty) in &keyspace.types {
                known.types.entry(name.clone()).or_insert_with(|| ty.clone());
            }
        }
    }
}

fn name_of(table: &TableSchema) -> (String, String) {
    (table.keyspace.clone(), table.name.clone())
}

fn has_same_keys(one: &TableSchema, other: &TableSchema) -> bool {
    one.partition_key() == other.partition_key() && one.clustering_columns() == other.clustering_columns()
}

/// Whether the same is read of the SSTables of one as of the other.
fn has_same_rows(one: &TableSchema, other: &TableSchema) -> bool {
    has_same_keys(one, other)
        && one.static_columns() == other.static_columns()
        && one.regular_columns() == other.regular_columns()
        && one.dropped == other.dropped
        && (one.is_counter, &one.compact) == (other.is_counter, &other.compact)
}

impl Tables for DirectoryTables {
    fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.schema)
    }

    fn table(&self, keyspace: &str, name: &str) -> Result<Arc<dyn Table>, BulkError> {
        let home = self.homes.get(&(keyspace.to_owned(), name.to_owned()));
        let home = home.ok_or_else(|| BulkError::UnknownTable(format!("{keyspace}.{name}")))?;
        let fs = Arc::clone(&self.env.fs);
        Ok(Arc::new(DirectoryTable { fs, home: Arc::clone(home), source: OnceLock::new() }))
    }

    fn names(&self) -> Vec<(String, String)> {
        self.homes.keys().cloned().collect()
    }
}

/// A table, whose SSTables are opened when its rows are asked for: who lists tables opens none.
#[derive(Debug)]
struct DirectoryTable {
    fs: Arc<dyn FileSystem>,
    home: Arc<Home>,
    source: OnceLock<Source>,
}

impl DirectoryTable {
    fn source(&self) -> Result<&Source, BulkError> {
        if let Some(source) = self.source.get() {
            return Ok(source);
        }
        let source = Source::of_sstables(&self.fs, &self.home.sstables(self.fs.as_ref())?, &self.home.table)?;
        Ok(self.source.get_or_init(|| source))
    }
}

impl Table for DirectoryTable {
    fn definition(&self) -> &Arc<TableSchema> {
        &self.home.table
    }

    fn files(&self) -> Vec<(String, u64)> {
        // Whoever goes on is told why there are none.
        self.source().map(Source::files).unwrap_or_default()
    }

    fn data_bytes(&self) -> Result<u64, BulkError> {
        Ok(self.source()?.data_bytes())
    }

    fn known_rows(&self) -> Result<Option<u64>, BulkError> {
        Ok(self.source()?.known_rows())
    }

    fn splits(&self, request: &ScanRequest, parts: u64) -> Result<Vec<Split>, BulkError> {
        self.source()?.splits(request, parts)
    }

    fn scan(&self, request: &ScanRequest, split: &Split) -> Result<Box<dyn Batches>, BulkError> {
        Ok(Box::new(self.source()?.scan(request, split)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bulk::Select;
    use env::fs::disk::DiskFileSystem;
    use env::fs::memory::MemoryFileSystem;
    use sstable::Component;

    const ID: &str = "5a1c395eb41f11e59f22ba0be0483c18";

    fn env() -> Env {
        Env::for_test(1).with_fs(Arc::new(MemoryFileSystem::new()))
    }

    /// Copies a fixture of Cassandra 5.0 to a directory, and returns that.
    fn copied(env: &Env, fixture: &str, to: &str) -> PathBuf {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/5.0.5-oa");
        let (from, to) = (fixtures.join(fixture), PathBuf::from(to));
        env.fs.create_dir_all(&to).unwrap();
        for entry in DiskFileSystem.read_dir(&from).unwrap() {
            let bytes = DiskFileSystem.read(&from.join(&entry.name)).unwrap();
            env.fs.write(&to.join(&entry.name), &bytes).unwrap();
        }
        to
    }

    fn opened(env: &Env, directories: &[PathBuf]) -> DirectoryTables {
        DirectoryTables::open(env, directories, None, None, |_| ()).unwrap()
    }

    fn rows(env: &Env, tables: &DirectoryTables, keyspace: &str, name: &str) -> Result<usize, BulkError> {
        let request = Select::of(keyspace, name).request(env, &tables.schema())?;
        let table = tables.table(keyspace, name)?;
        let mut rows = 0;
        for split in table.splits(&request, 4)? {
            for batch in table.scan(&request, &split)? {
                rows += batch?.num_rows();
            }
        }
        Ok(rows)
    }

    #[test]
    fn directories_of_one_table_are_read_together() {
        let env = env();
        let home = format!("ks/mix-{ID}");
        let one = copied(&env, "mix_lz4", &format!("/one/{home}/snapshots/s"));
        let other = copied(&env, "mix_zstd", &format!("/other/{home}"));
        let read = |directories: &[PathBuf]| {
            let tables = opened(&env, directories);
            assert_eq!(tables.names(), [("ks".to_owned(), "mix".to_owned())]);
            let files = tables.table("ks", "mix").unwrap().files();
            (files.len(), rows(&env, &tables, "ks", "mix").unwrap())
        };
        assert_eq!(read(std::slice::from_ref(&one)), (1, 28));
        assert_eq!(read(&[one, other]), (2, 28), "what both of them have counts once");
    }

    #[test]
    fn different_tables_of_one_name_are_refused() {
        let env = env();
        let one = copied(&env, "many", "/one");
        let other = copied(&env, "indexed", "/other");
        let sound = copied(&env, "big_cells", &format!("/third/ks/t-{ID}"));
        let tables = opened(&env, &[one, other, sound]);
        let refusal = rows(&env, &tables, "keyspace", "table").unwrap_err().to_string();
        assert!(refusal.starts_with("/one and /other know different tables keyspace.table"), "{refusal}");
        assert_eq!(rows(&env, &tables, "ks", "t").unwrap(), 5);
    }

    #[test]
    fn who_names_no_damaged_table_is_told_of_none() {
        let env = env();
        let sound = copied(&env, "many", &format!("/data/ks/many-{ID}"));
        let damaged = copied(&env, "indexed", &format!("/data/ks/indexed-{ID}"));
        let tables = opened(&env, &[sound, damaged.clone()]);
        let found = descriptor::live(env.fs.as_ref(), &damaged).unwrap();
        env.fs.write(&found[0].path(Component::Statistics), b"").unwrap();
        assert_eq!(tables.names().len(), 2);
        assert!(tables.names().iter().all(|(keyspace, name)| tables.table(keyspace, name).is_ok()));
        assert_eq!(rows(&env, &tables, "ks", "many").unwrap(), 300);
        let error = rows(&env, &tables, "ks", "indexed").unwrap_err();
        assert!(error.to_string().contains("-Statistics.db is corrupt at offset 0"), "{error}");
        assert!(matches!(Failure::from(error), Failure::Work(_)));
    }
}
