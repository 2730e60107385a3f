//! What a Cassandra derived from its tables and believes to be up to date: secondary indexes and materialized
//! views.
//!
//! An index with a table of its own counts as built while `system."IndexInfo"` names it; Cassandra builds it
//! anew at its start otherwise, and answers nothing from it before. So the name goes, durably and into an
//! SSTable (Cassandra decides before it replays a log), before the first write that such an index does not
//! see. Entries for what was overwritten need no care: Cassandra compares them with the rows they lead to.
//!
//! Nothing is written to the tables of views ([`model::KeyspaceSchema::write_obstacle`]). A view that goes is
//! forgotten in `system.built_views`, or Cassandra would never fill one that gets its name.

use crate::error::EngineError;
use crate::system::{self, SYSTEM};
use crate::writing::Writing;
use crate::writing::write::WriteOptions;
use crate::{WriteError, table::TableStore};
use bytes::Bytes;
use model::schema::IndexUpkeep;
use model::{
    Clustering, DecoratedKey, Deletion, Mutation, PartitionKey, PartitionUpdate, Row, Schema, TableSchema,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const INDEX_INFO: &str = "IndexInfo";
const BUILT_VIEWS: &str = "built_views";

impl Writing {
    /// Makes sure that Cassandra builds the indexes of the mutation's tables anew.
    pub(crate) fn leave_indexes_to_cassandra(
        &self,
        mutation: &Mutation,
        options: WriteOptions,
    ) -> Result<(), WriteError> {
        for update in mutation.updates.iter().filter(|update| !update.table.indexes.is_empty()) {
            let Some(table) = self.catalog.table(update.table.id) else { continue };
            if table.indexes_left.load(Ordering::Acquire) {
                continue;
            }
            if !options.may_block {
                return Err(WriteError::WouldBlock);
            }
            self.leave_indexes(&table).map_err(|error| match error {
                EngineError::Write(error) => error,
                other => WriteError::CommitLog(Arc::new(io::Error::other(other.to_string()))),
            })?;
        }
        Ok(())
    }

    /// What has to be before a table gets SSTables from outside.
    ///
    /// # Errors
    /// [`EngineError::NotWritable`], where writes are refused too.
    pub(crate) fn admit_foreign_rows(&self, table: &TableStore) -> Result<(), EngineError> {
        let schema = table.schema();
        let keyspace = self.catalog.schema().keyspace(&schema.keyspace).cloned();
        if let Some(obstacle) = keyspace.and_then(|keyspace| keyspace.write_obstacle(&schema)) {
            return Err(EngineError::NotWritable(obstacle));
        }
        self.flush_definition(table);
        self.leave_indexes(table)
    }

    /// The same for a table that gets rows in another way.
    pub(crate) fn leave_indexes(&self, table: &TableStore) -> Result<(), EngineError> {
        let schema = table.schema();
        let built: Vec<&str> = schema
            .indexes
            .iter()
            .filter(|index| index.upkeep() == IndexUpkeep::BuiltAnew)
            .map(|index| index.name.as_str())
            .collect();
        if !built.is_empty() && !table.indexes_left.load(Ordering::Acquire) {
            self.apply_durably(&[self.without_rows(INDEX_INFO, &schema.keyspace, &built)])?;
            self.flush(SYSTEM, Some(INDEX_INFO))?;
            tracing::info!(
                keyspace = schema.keyspace,
                table = schema.name,
                indexes = built.join(", "),
                "written to: Cassandra will build these indexes anew when it starts on this directory"
            );
        }
        table.indexes_left.store(true, Ordering::Release);
        Ok(())
    }

    /// A replay of the commit log may not have brought rows to tables with views: what these show cannot be
    /// derived here.
    ///
    /// # Errors
    /// [`EngineError::UndrainedViews`].
    pub(crate) fn check_replayed_views(&self) -> Result<(), EngineError> {
        let schema = self.catalog.schema();
        let of_base = |table: &TableSchema| {
            schema.keyspace(&table.keyspace).is_some_and(|k| k.views_of(table.id).next().is_some())
        };
        let mut written =
            self.catalog.tables().into_iter().filter(|t| !t.view().memtable.is_empty()).map(|t| t.schema());
        match written.find(|table| of_base(table)) {
            Some(table) => Err(EngineError::UndrainedViews {
                keyspace: table.keyspace.clone(),
                table: table.name.clone(),
            }),
            None => Ok(()),
        }
    }

    /// What a replay brought does not go past indexes either.
    pub(crate) fn settle_replayed(&self) -> Result<(), EngineError> {
        let written = self.catalog.tables().into_iter().filter(|table| !table.view().memtable.is_empty());
        written
            .filter(|table| !table.schema().indexes.is_empty())
            .try_for_each(|table| self.leave_indexes(&table))
    }

    /// Forgets what was derived from tables that `new` does not have any more.
    pub(crate) fn forget_derived(&self, old: &Schema, new: &Schema) -> Result<(), EngineError> {
        for before in old.keyspaces.values() {
            let after = new.keyspace(&before.name);
            let is_gone = |table: &TableSchema| new.table_by_id(table.id).is_none();
            let gone = before.tables.values().filter(|table| is_gone(table));
            let indexes: Vec<&str> = gone.flat_map(|t| &t.indexes).map(|index| index.name.as_str()).collect();
            let views: Vec<&str> = before
                .views
                .keys()
                .filter(|name| after.is_none_or(|k| !k.views.contains_key(*name)))
                .map(String::as_str)
                .collect();
            for (table, names) in [(INDEX_INFO, indexes), (BUILT_VIEWS, views)] {
                if !names.is_empty() {
                    self.apply_durably(&[self.without_rows(table, &before.name, &names)])?;
                }
            }
        }
        Ok(())
    }

    /// Deletes rows of a table of `system` whose partitions are keyspaces.
    fn without_rows(&self, table: &str, keyspace: &str, names: &[&str]) -> Mutation {
        let table = system::table(self.catalog.release(), SYSTEM, table);
        let key = DecoratedKey::new(PartitionKey::from_components(&[keyspace.as_bytes()]));
        let mut update = PartitionUpdate::new(table, key);
        for name in names {
            let name = Bytes::copy_from_slice(name.as_bytes());
            let mut row = Row::new(Clustering::from_values([name.as_ref()]));
            row.deletion = Deletion::new(self.catalog.env.now_micros(), self.catalog.now_s());
            update.add_row(row);
        }
        Mutation::of(update)
    }
}
