//! Names: keyspaces are the schemas of SQL.

use super::provider::CqlTable;
use super::{ANY_KEYSPACE, Scope};
use crate::BulkError;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::DataFusionError;
use std::fmt;
use std::sync::Arc;

/// All keyspaces.
#[derive(Debug)]
pub(super) struct Keyspaces {
    scope: Arc<Scope>,
    names: Vec<(String, String)>,
}

/// The tables of a keyspace.
struct Keyspace {
    scope: Arc<Scope>,
    /// Keyspaces and names of the tables, by the names that they have here.
    tables: Vec<(String, (String, String))>,
    /// Names that mean several tables.
    ambiguous: Vec<String>,
}

impl Keyspaces {
    pub fn new(scope: Arc<Scope>) -> Keyspaces {
        let names = scope.tables.names();
        Keyspaces { scope, names }
    }
}

impl CatalogProvider for Keyspaces {
    fn schema_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.names.iter().map(|(keyspace, _)| keyspace.clone()).collect();
        names.dedup();
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let scope = Arc::clone(&self.scope);
        let tables: Vec<_> = self
            .names
            .iter()
            .filter(|(keyspace, _)| name == ANY_KEYSPACE || keyspace == name)
            .map(|of| (of.1.clone(), of.clone()))
            .collect();
        if name != ANY_KEYSPACE || tables.iter().any(|(_, (keyspace, _))| keyspace == name) {
            let tables: Vec<_> = tables.into_iter().filter(|(_, (keyspace, _))| keyspace == name).collect();
            return (!tables.is_empty())
                .then(|| Arc::new(Keyspace { scope, tables, ambiguous: Vec::new() }) as _);
        }
        let is_ambiguous = |name: &String| tables.iter().filter(|(other, _)| other == name).count() > 1;
        let mut ambiguous: Vec<String> =
            tables.iter().map(|(name, _)| name).filter(|name| is_ambiguous(name)).cloned().collect();
        ambiguous.dedup();
        Some(Arc::new(Keyspace { scope, tables, ambiguous }))
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("tables", &self.tables).finish_non_exhaustive()
    }
}

#[tonic::async_trait]
impl SchemaProvider for Keyspace {
    fn table_names(&self) -> Vec<String> {
        // What lists tables (`information_schema`) opens each of them. Whoever names one that it may not read
        // is told so.
        let readable =
            self.tables.iter().filter(|(_, (keyspace, table))| self.scope.tables.may_read(keyspace, table));
        readable.map(|(name, _)| name.clone()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        if self.ambiguous.iter().any(|other| other == name) {
            let keyspaces: Vec<&str> = self
                .tables
                .iter()
                .filter(|(other, _)| other == name)
                .map(|(_, (keyspace, _))| keyspace.as_str())
                .collect();
            let message = format!("{name} is a table of several keyspaces: {}", keyspaces.join(", "));
            return Err(DataFusionError::External(Box::new(BulkError::Request(message))));
        }
        let Some((_, (keyspace, table))) = self.tables.iter().find(|(other, _)| other == name) else {
            return Ok(None);
        };
        let (scope, keyspace, table) = (Arc::clone(&self.scope), keyspace.clone(), table.clone());
        let opened = super::waiting(move || CqlTable::open(scope, &keyspace, &table)).await?;
        Ok(Some(Arc::new(opened)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.iter().any(|(other, _)| other == name)
    }
}
