//! Tables of the engine as `bulk` wants them.

use crate::state::NodeState;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bulk::{Batches, BulkError, Loss, Scan, ScanCounts, ScanRequest, Source, Split, Table, Tables};
use engine::Compared;
use env::sync::{Condvar, Mutex};
use model::{Schema, TableSchema};
use partition::ReadError;
use std::fmt;
use std::sync::Arc;

/// All tables of a node but the virtual ones.
pub(crate) struct NodeTables {
    state: Arc<NodeState>,
    asked_by: &'static str,
}

impl NodeTables {
    pub fn new(state: Arc<NodeState>, asked_by: &'static str) -> NodeTables {
        NodeTables { state, asked_by }
    }
}

impl fmt::Debug for NodeTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeTables").field("asked_by", &self.asked_by).finish_non_exhaustive()
    }
}

impl Tables for NodeTables {
    fn schema(&self) -> Arc<Schema> {
        self.state.schema()
    }

    fn table(&self, keyspace: &str, name: &str) -> Result<Arc<dyn Table>, BulkError> {
        let schema = self.state.schema();
        let definition = schema.keyspace(keyspace).and_then(|keyspace| keyspace.store(name));
        let store = definition.and_then(|table| self.state.engine.table(table.id));
        let store = store.ok_or_else(|| BulkError::UnknownTable(format!("{keyspace}.{name}")))?;
        if self.state.is_drained() {
            return Err(BulkError::ShutDown);
        }
        let table = StoredTable { state: Arc::clone(&self.state), source: Source::of_node(store.hold()) };
        Ok(self.state.bulk.watch(Arc::new(table), self.asked_by))
    }

    fn names(&self) -> Vec<(String, String)> {
        let schema = self.state.schema();
        let mut out: Vec<(String, String)> = schema
            .keyspaces
            .values()
            .flat_map(|keyspace| keyspace.stores())
            .filter(|table| self.state.engine.table(table.id).is_some())
            .map(|table| (table.keyspace.clone(), table.name.clone()))
            .collect();
        out.sort();
        out
    }
}

/// A table of the node, held.
struct StoredTable {
    state: Arc<NodeState>,
    source: Source,
}

impl fmt::Debug for StoredTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Table for StoredTable {
    fn definition(&self) -> &Arc<TableSchema> {
        self.source.table()
    }

    fn files(&self) -> Vec<(String, u64)> {
        // Flushes and compactions change them at any time.
        Vec::new()
    }

    fn data_bytes(&self) -> Result<u64, BulkError> {
        Ok(self.source.data_bytes())
    }

    fn known_rows(&self) -> Result<Option<u64>, BulkError> {
        Ok(self.source.known_rows())
    }

    fn splits(&self, request: &ScanRequest, parts: u64) -> Result<Vec<Split>, BulkError> {
        self.source.splits(request, parts)
    }

    fn scan(&self, request: &ScanRequest, split: &Split) -> Result<Box<dyn Batches>, BulkError> {
        Ok(Box::new(ProvenScan {
            scan: self.source.scan(request, split),
            state: Arc::clone(&self.state),
            source: self.source.clone(),
            request: request.clone(),
            split: split.clone(),
            damaged: None,
        }))
    }
}

/// A scan that waits for SSTables which were not compared yet.
struct ProvenScan {
    scan: Scan,
    state: Arc<NodeState>,
    source: Source,
    request: ScanRequest,
    split: Split,
    /// The SSTable that was found damaged last.
    damaged: Option<Arc<str>>,
}

impl ProvenScan {
    /// Waits until it is known what an SSTable is.
    fn wait(&self, name: &Arc<str>) -> Result<(), BulkError> {
        let told = Arc::new((Mutex::new(None), Condvar::new()));
        let tell = {
            let told = Arc::clone(&told);
            move |compared: Compared| {
                *told.0.lock() = Some(compared);
                told.1.notify_one();
            }
        };
        let unwanted = Arc::downgrade(&told);
        self.request.cancel.on_cancel(move || {
            if let Some(told) = unwanted.upgrade() {
                *told.0.lock() = Some(Compared::Ended);
                told.1.notify_one();
            }
        });
        let _demand = self.state.engine.demand_proof(name, Box::new(tell));
        let mut found = told.0.lock();
        loop {
            match found.take() {
                Some(Compared::Known) => return Ok(()),
                Some(Compared::Failed(error)) => return Err(error.into()),
                Some(Compared::Ended) if self.request.cancel.is_cancelled() => {
                    return Err(BulkError::Cancelled);
                }
                Some(Compared::Ended) => return Err(BulkError::ShutDown),
                None => told.1.wait(&mut found),
            }
        }
    }
}

impl Iterator for ProvenScan {
    type Item = Result<RecordBatch, BulkError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let name = match self.scan.next() {
                Some(Err(BulkError::Read(ReadError::Unproven(name)))) => name,
                next => return next,
            };
            if self.scan.counts().rows > 0 {
                // A scan opens all that it reads before its first row.
                return Some(Err(BulkError::Read(ReadError::Unproven(name))));
            }
            match self.wait(&name) {
                Ok(()) => {}
                // What a salvage can take of it, it takes.
                Err(BulkError::Read(ReadError::Corrupt { .. }))
                    if self.request.salvages && self.damaged.as_ref() != Some(&name) =>
                {
                    self.damaged = Some(name);
                }
                Err(error) => return Some(Err(error)),
            }
            self.scan = self.source.scan(&self.request, &self.split);
        }
    }
}

impl Batches for ProvenScan {
    fn schema(&self) -> &SchemaRef {
        self.scan.schema()
    }

    fn counts(&self) -> ScanCounts {
        self.scan.counts()
    }

    fn bytes_done(&self) -> u64 {
        self.scan.bytes_done()
    }

    fn losses(&self) -> &[Loss] {
        self.scan.losses()
    }
}
