//! What changes tables from outside: definitions, imported and refreshed SSTables, truncations, snapshots,
//! and the end of a node's writes.

pub(crate) mod ddl;
pub(crate) mod import;
pub(crate) mod refresh;
pub(crate) mod schema_exchange;
pub(crate) mod snapshot;
pub(crate) mod truncate;

use crate::background::Background;
use crate::catalog::Catalog;
use crate::intake::schema_exchange::SchemaChangeHook;
use crate::intake::snapshot::{NextExpiry, SchemaText};
use crate::writing::Writing;
use env::sync::Mutex;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};

/// The room of what changes tables from outside.
pub(crate) struct Intake {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) writing: Arc<Writing>,
    pub(crate) background: Arc<Background>,
    /// Held while the schema changes.
    pub(crate) schema_turn: Mutex<()>,
    /// Timestamp of the last change of the schema.
    pub(crate) schema_micros: AtomicI64,
    pub(crate) schema_text: OnceLock<SchemaText>,
    pub(crate) next_expiry: NextExpiry,
    pub(crate) schema_changed: OnceLock<SchemaChangeHook>,
}

impl Intake {
    pub(crate) fn new(catalog: Arc<Catalog>, writing: Arc<Writing>, background: Arc<Background>) -> Intake {
        Intake {
            catalog,
            writing,
            background,
            schema_turn: Mutex::new(()),
            schema_micros: AtomicI64::new(0),
            schema_text: OnceLock::new(),
            next_expiry: NextExpiry::default(),
            schema_changed: OnceLock::new(),
        }
    }
}
