//! SSTables that somebody put into a table's directories while the node runs: `nodetool refresh`, all of them
//! or none.
//!
//! 1. The directories are looked through, with no flush of the table under way and no transaction.
//! 2. What is not open is opened, held against the table's schema and compared with its digest. That may take
//!    as long as reading it does, so nothing is locked meanwhile and nobody reads it.
//! 3. The directories are looked through once more, while nobody changes the table's view. If everything
//!    there is ready it becomes part of the view; if more has come, it goes on with 2.
//!
//! One that is damaged is refused and left where it is.

use crate::background::prover::Newcomer;
use crate::error::EngineError;
use crate::intake::Intake;
use crate::intake::import::check_fits;
use crate::table::{TableStore, TableView};
use env::fs::FileSystem;
use sstable::{Descriptor, descriptor};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;

type Ready = BTreeMap<Descriptor, Newcomer>;

impl Intake {
    /// [`crate::Engine::load_new_sstables`].
    pub(crate) fn load_new_sstables(&self, keyspace: &str, table: &str) -> Result<Vec<String>, EngineError> {
        let store = self.catalog.table_named(keyspace, table)?;
        if self.writing.is_drained() {
            return Err(EngineError::Drained);
        }
        self.writing.admit_foreign_rows(&store)?;
        let mut ready = Ready::new();
        loop {
            let unready = store.add_new(self.catalog.env.fs.as_ref(), &mut ready)?;
            if unready.is_empty() {
                break;
            }
            for descriptor in unready {
                let schema = store.schema();
                let sstable = self.catalog.files.open(&descriptor, &schema)?;
                check_fits(&sstable, &schema)
                    .map_err(|reason| EngineError::Foreign { sstable: descriptor.to_string(), reason })?;
                let newcomer = self.background.prove_newcomer(&schema, sstable)?;
                self.catalog.back_up(&store, &newcomer.sstable);
                ready.insert(descriptor, newcomer);
            }
        }
        self.background.welcome(&store, ready.values());
        Ok(ready.keys().map(ToString::to_string).collect())
    }
}

impl TableStore {
    /// Steps 1 and 3: adds what is new in the directories, if all of it is ready; what is not. `ready` is
    /// what was added when there was nothing.
    fn add_new(&self, fs: &dyn FileSystem, ready: &mut Ready) -> Result<Vec<Descriptor>, EngineError> {
        // No flush gives an SSTable its name while the directories are looked through.
        let _turn = self.flush_turn.lock();
        self.check_settled()?;
        let mut result = Ok(Vec::new());
        self.change_view(|view| {
            result = self.new_in(fs, view).map(|new| {
                let unready: Vec<_> = new.iter().filter(|new| !ready.contains_key(*new)).cloned().collect();
                if unready.is_empty() {
                    // Somebody may have taken files away meanwhile.
                    ready.retain(|descriptor, _| new.contains(descriptor));
                    view.replace_sstables(&[], ready.values().map(|new| new.sstable.clone()));
                    view.forget_cached_rows();
                    // Every SSTable in the directories is open now.
                    view.damage = None;
                }
                unready
            });
        });
        result
    }

    /// What lies in the directories and is not part of the view.
    fn new_in(&self, fs: &dyn FileSystem, view: &TableView) -> Result<BTreeSet<Descriptor>, EngineError> {
        if self.is_dropped() {
            let schema = self.schema();
            return Err(EngineError::UnknownTable {
                keyspace: schema.keyspace.clone(),
                table: schema.name.clone(),
            });
        }
        let known: HashSet<&Descriptor> = view.sstables.iter().map(|t| t.descriptor()).collect();
        let mut new = BTreeSet::new();
        for dir in self.dirs() {
            if !fs.exists(dir)? {
                continue;
            }
            let listing = descriptor::list(fs, dir)?;
            if !listing.txn_logs.is_empty() {
                let busy = format!("{} has a transaction under way, try again later", dir.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, busy).into());
            }
            new.extend(listing.tables.into_keys().filter(|descriptor| !known.contains(descriptor)));
        }
        new.iter().for_each(|descriptor| self.note_name(descriptor.id));
        Ok(new)
    }
}
