//! Elements of a schema that are kept for Cassandra and described, and not carried out: materialized views,
//! secondary indexes, triggers, functions, aggregates. They come with the directory of a Cassandra, never
//! from a statement here. Masks stand beside them, and are carried out. What the others mean for writes,
//! [`KeyspaceSchema::write_obstacle`](super::KeyspaceSchema::write_obstacle) says.

use super::TableSchema;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

const SAI_CLASSES: [&str; 3] =
    ["sai", "storageattachedindex", "org.apache.cassandra.index.sai.storageattachedindex"];

/// Who sees to it that an index shows what was written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexUpkeep {
    /// A table of its own, which Cassandra builds anew when `system."IndexInfo"` does not call it built.
    BuiltAnew,
    /// Components of each SSTable, which Cassandra adds to SSTables that lack them before it answers from the
    /// index.
    OfEachSsTable,
    /// Nobody.
    None,
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Name, unique in the keyspace.
    pub name: String,
    /// `COMPOSITES`, `KEYS` or `CUSTOM`.
    pub kind: String,
    /// `target`, and for custom indexes `class_name` and options of the class.
    pub options: BTreeMap<String, String>,
}

impl Index {
    /// What is indexed: a column, or `keys(column)` and the like.
    pub fn target(&self) -> &str {
        self.options.get("target").map_or("", String::as_str)
    }

    /// Whether the index is on `column`, which may be quoted in the target.
    pub fn is_on(&self, column: &str) -> bool {
        let target = self.target();
        let inner = target.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(target);
        let bare = inner.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        bare.map_or(inner == column, |bare| bare.replace("\"\"", "\"") == column)
    }

    /// Who keeps it up.
    pub fn upkeep(&self) -> IndexUpkeep {
        let class = self.options.get("class_name").map(|class| class.to_ascii_lowercase());
        match (self.kind.as_str(), class) {
            ("COMPOSITES" | "KEYS", _) => IndexUpkeep::BuiltAnew,
            (_, Some(class)) if SAI_CLASSES.contains(&class.as_str()) => IndexUpkeep::OfEachSsTable,
            _ => IndexUpkeep::None,
        }
    }
}

/// A trigger: code of the user's that sees each write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Name, unique for the table.
    pub name: String,
    /// `class`.
    pub options: BTreeMap<String, String>,
}

/// The function that users without a permission see a column through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMask {
    /// The column.
    pub column: String,
    /// Keyspace of the function.
    pub function_keyspace: String,
    /// Name of the function.
    pub function_name: String,
    /// CQL types of its arguments after the column.
    pub argument_types: Vec<String>,
    /// Those arguments as text; `None` for null.
    pub arguments: Vec<Option<String>>,
}

/// A materialized view: a table that shows another one in another order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its rows.
    pub table: Arc<TableSchema>,
    /// Id of the table that it shows.
    pub base_id: Uuid,
    /// Name of that table.
    pub base_name: String,
    /// Whether it was made with `SELECT *`.
    pub include_all_columns: bool,
    /// Which rows of the table it shows, in CQL.
    pub where_clause: String,
}

/// A function of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFunction {
    /// Name.
    pub name: String,
    /// CQL types of the arguments.
    pub argument_types: Vec<String>,
    /// Names of the arguments.
    pub argument_names: Vec<String>,
    /// CQL type of the result.
    pub return_type: String,
    /// Language of the body.
    pub language: String,
    /// The code.
    pub body: String,
    /// Whether it is called when an argument is null.
    pub called_on_null_input: bool,
}

/// An aggregate of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAggregate {
    /// Name.
    pub name: String,
    /// CQL types of the arguments.
    pub argument_types: Vec<String>,
    /// CQL type of the result.
    pub return_type: String,
    /// Function that adds a row to the state.
    pub state_function: String,
    /// CQL type of the state.
    pub state_type: String,
    /// Function that makes the result of the last state.
    pub final_function: Option<String>,
    /// The first state as CQL.
    pub initial_condition: Option<String>,
}

/// What a table holds that only the node itself writes; `None` for other tables. With anything else in it,
/// neither Ilion nor Cassandra starts on the directory any more, or it trusts clients that it must not trust.
fn own_purpose(keyspace: &str, table: &str) -> Option<&'static str> {
    match (keyspace, table) {
        ("system_schema", _) => Some("the schema, which CREATE, ALTER and DROP change"),
        ("system", "local") => Some("who the node is"),
        ("system", "prepared_statements") => {
            Some("statements that clients prepared; a node prepares them when it starts")
        }
        ("system", "batches") => Some("logged batches, in the node's own encoding"),
        ("system", "paxos") => {
            Some("states of Paxos, in Cassandra's own encoding, and Cassandra does not start with others")
        }
        ("system", _) => Some("what the node knows about itself and its data"),
        // Whoever could write there would be a superuser on the day somebody asks.
        ("system_auth", _) => Some("roles and permissions, which only statements on roles change"),
        _ => None,
    }
}

impl super::KeyspaceSchema {
    /// The views of a table, by name.
    pub fn views_of(&self, base: Uuid) -> impl Iterator<Item = &Arc<View>> {
        self.views.values().filter(move |view| view.base_id == base)
    }

    /// Tables and the tables of views: everything that has files.
    pub fn stores(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.tables.values().chain(self.views.values().map(|view| &view.table))
    }

    /// A table or a view by name.
    pub fn store(&self, name: &str) -> Option<&Arc<TableSchema>> {
        self.tables.get(name).or_else(|| self.views.get(name).map(|view| &view.table))
    }

    /// Why `table` may not be emptied; `None` when it may. What the node can do without may be forgotten.
    pub fn truncate_obstacle(&self, table: &TableSchema) -> Option<String> {
        match (table.keyspace.as_str(), table.name.as_str()) {
            ("system", name) if !matches!(name, "local" | "paxos") => None,
            _ => self.write_obstacle(table),
        }
    }

    /// Why nothing may be written to `table`; `None` when it may. Tables that the node itself relies on must
    /// not be written by hand. And Cassandra would derive more from a write: rows of views, entries of
    /// indexes, what a trigger does. These must not be missing when it serves the table again.
    pub fn write_obstacle(&self, table: &TableSchema) -> Option<String> {
        if self.views.contains_key(&table.name) {
            return Some("Cannot directly modify a materialized view".to_owned());
        }
        let full = format!("{}.{}", table.keyspace, table.name);
        if let Some(purpose) = own_purpose(&table.keyspace, &table.name) {
            return Some(format!("Cannot write to {full}: it holds {purpose}"));
        }
        let views: Vec<&str> = self.views_of(table.id).map(|view| view.table.name.as_str()).collect();
        if !views.is_empty() {
            return Some(format!(
                "Cannot write to {full}: materialized views depend on it ({}), and Ilion does not keep views up",
                views.join(", ")
            ));
        }
        if let Some(trigger) = table.triggers.first() {
            return Some(format!(
                "Cannot write to {full}: it has the trigger {}, and Ilion does not run triggers",
                trigger.name
            ));
        }
        let index = table.indexes.iter().find(|index| index.upkeep() == IndexUpkeep::None)?;
        Some(format!(
            "Cannot write to {full}: it has the index {} of class {}, which neither Ilion nor the next start of Cassandra \
             would bring up to date",
            index.name,
            index.options.get("class_name").map_or("?", String::as_str)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{KeyspaceSchema, Replication};
    use crate::types::CqlType;

    fn index(kind: &str, class: Option<&str>, target: &str) -> Index {
        let class = class.map(|class| ("class_name".to_owned(), class.to_owned()));
        let options = class.into_iter().chain([("target".to_owned(), target.to_owned())]).collect();
        Index { name: "i".to_owned(), kind: kind.to_owned(), options }
    }

    #[test]
    fn an_index_knows_its_column() {
        assert!(index("COMPOSITES", None, "a").is_on("a"));
        assert!(index("COMPOSITES", None, "values(c)").is_on("c"));
        assert!(index("COMPOSITES", None, "keys(\"C\"\"x\")").is_on("C\"x"));
        assert!(!index("COMPOSITES", None, "\"A\"").is_on("a"));
    }

    #[test]
    fn writes_are_refused_where_nobody_would_derive_what_hangs_by_them() {
        let table = |change: &dyn Fn(&mut super::super::TableBuilder)| {
            let mut builder = TableSchema::builder("ks", "t", Uuid::from_u128(1))
                .partition_key("k", CqlType::Int)
                .regular("v", CqlType::Text);
            change(&mut builder);
            builder.build()
        };
        for (name, table, holds) in [
            ("system_schema", "tables", Some("the schema")),
            ("system", "local", Some("who the node is")),
            ("system", "prepared_statements", Some("clients prepared")),
            ("system", "batches", Some("logged batches")),
            ("system", "paxos", Some("states of Paxos")),
            ("system", "peers", Some("knows about itself")),
            ("system_auth", "roles", Some("roles and permissions")),
            ("system_traces", "sessions", None),
            ("system_distributed", "parent_repair_history", None),
            ("ks", "local", None),
        ] {
            let keyspace = KeyspaceSchema::new(name, Replication::local());
            let table = TableSchema::builder(name, table, Uuid::from_u128(1));
            let table = table.partition_key("k", CqlType::Int).build();
            let said = keyspace.write_obstacle(&table);
            assert_eq!(said.is_some(), holds.is_some(), "{said:?}");
            let may_be_forgotten = matches!(table.name.as_str(), "batches" | "prepared_statements" | "peers");
            assert_eq!(keyspace.truncate_obstacle(&table).is_some(), holds.is_some() && !may_be_forgotten);
            assert!(said.unwrap_or_default().contains(holds.unwrap_or_default()));
        }
        let mut keyspace = KeyspaceSchema::new("ks", Replication::simple(1));
        let obstacle =
            |keyspace: &KeyspaceSchema, change: &dyn Fn(&mut _)| keyspace.write_obstacle(&table(change));
        assert_eq!(obstacle(&keyspace, &|_| {}), None);
        let legacy = index("COMPOSITES", None, "v");
        assert_eq!(obstacle(&keyspace, &|t| t.indexes.push(legacy.clone())), None);
        assert_eq!(obstacle(&keyspace, &|t| t.indexes.push(index("CUSTOM", Some("SAI"), "v"))), None);
        let sasi = index("CUSTOM", Some("org.apache.cassandra.index.sasi.SASIIndex"), "v");
        let said = obstacle(&keyspace, &|t| t.indexes.push(sasi.clone())).unwrap();
        assert!(said.contains("SASIIndex"), "{said}");
        let trigger = Trigger { name: "audit".to_owned(), options: BTreeMap::new() };
        let said = obstacle(&keyspace, &|t| t.triggers.push(trigger.clone())).unwrap();
        assert!(said.contains("trigger audit"), "{said}");

        let view = TableSchema::builder("ks", "by_v", Uuid::from_u128(2))
            .partition_key("v", CqlType::Text)
            .clustering("k", CqlType::Int, false)
            .build();
        let view = Arc::new(view);
        keyspace.views.insert(
            "by_v".to_owned(),
            Arc::new(View {
                table: Arc::clone(&view),
                base_id: Uuid::from_u128(1),
                base_name: "t".to_owned(),
                include_all_columns: true,
                where_clause: "v IS NOT NULL".to_owned(),
            }),
        );
        let said = obstacle(&keyspace, &|_| {}).unwrap();
        assert!(said.contains("(by_v)"), "{said}");
        assert_eq!(
            keyspace.write_obstacle(&view).as_deref(),
            Some("Cannot directly modify a materialized view")
        );
    }
}
