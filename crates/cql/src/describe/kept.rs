//! What is kept for Cassandra, as CQL text: indexes, views, functions, aggregates, masks.

use super::text::{full_name, literal, map_text, names, properties, quoted, write_order};
use super::{Described, Element, by_name};
use crate::analysis::masks;
use model::schema::{ColumnMask, Index, UserAggregate, UserFunction, View};
use model::{CqlType, KeyspaceSchema, TableSchema};
use std::collections::BTreeMap;

impl Described<'_> {
    /// The functions of a keyspace, in the order of their names.
    pub(super) fn functions(&self, keyspace: &KeyspaceSchema) -> Vec<Element> {
        let texts =
            keyspace.functions.iter().map(|f| (signature(&f.name, &f.argument_types), function(keyspace, f)));
        elements(keyspace, "function", texts)
    }

    /// The aggregates of a keyspace.
    pub(super) fn aggregates(&self, keyspace: &KeyspaceSchema) -> Vec<Element> {
        let texts = keyspace
            .aggregates
            .iter()
            .map(|a| (signature(&a.name, &a.argument_types), aggregate(keyspace, a)));
        elements(keyspace, "aggregate", texts)
    }

    /// The indexes and views of a table, which follow it.
    pub(super) fn derived(&self, keyspace: &KeyspaceSchema, table: &TableSchema) -> Vec<Element> {
        let indexes = table.indexes.iter().map(|i| (quoted(&i.name), index(table, i)));
        let mut out = elements(keyspace, "index", indexes);
        let views: BTreeMap<String, &View> =
            keyspace.views_of(table.id).map(|view| (view.table.name.clone(), view.as_ref())).collect();
        out.extend(by_name(&views).map(|(_, view)| self.view(keyspace, view)));
        out
    }

    /// A view.
    pub(super) fn view(&self, keyspace: &KeyspaceSchema, view: &View) -> Element {
        let table = &view.table;
        let columns = if view.include_all_columns { "*".to_owned() } else { self.view_columns(table) };
        let key = match table.partition_key() {
            [single] => quoted(&single.name),
            several => format!("({})", names(several)),
        };
        let key: Vec<String> =
            [key].into_iter().chain(table.clustering_columns().iter().map(|c| quoted(&c.name))).collect();
        let text = format!(
            "CREATE MATERIALIZED VIEW {} AS\n    SELECT {columns}\n    FROM {}\n    WHERE {}\n    PRIMARY KEY ({})\n WITH {};",
            full_name(&keyspace.name, &table.name),
            full_name(&keyspace.name, &view.base_name),
            view.where_clause,
            key.join(", "),
            properties(table, &self.form(false, true)).join("\n    AND ")
        );
        let kind = "materialized_view";
        Element { keyspace: keyspace.name.clone(), kind, name: quoted(&table.name), text }
    }

    fn view_columns(&self, table: &TableSchema) -> String {
        write_order(table).map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
    }
}

fn elements(
    keyspace: &KeyspaceSchema,
    kind: &'static str,
    texts: impl Iterator<Item = (String, String)>,
) -> Vec<Element> {
    let mut out: Vec<Element> =
        texts.map(|(name, text)| Element { keyspace: keyspace.name.clone(), kind, name, text }).collect();
    out.sort_by_key(|element| element.name.trim_matches('"').to_lowercase());
    out
}

fn signature(name: &str, argument_types: &[String]) -> String {
    format!("{}({})", quoted(name), argument_types.join(", "))
}

fn index(table: &TableSchema, index: &Index) -> String {
    let (name, on) = (quoted(&index.name), full_name(&table.keyspace, &table.name));
    let target = index.target();
    let Some(class) = index.options.get("class_name") else {
        return format!("CREATE INDEX {name} ON {on} ({target});");
    };
    let options = index.options.iter().filter(|(key, _)| !matches!(key.as_str(), "class_name" | "target"));
    let options: Vec<(&str, &str)> = options.map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let with =
        if options.is_empty() { String::new() } else { format!(" WITH OPTIONS = {}", map_text(options)) };
    format!("CREATE CUSTOM INDEX {name} ON {on} ({target}) USING {}{with};", literal(class))
}

fn function(keyspace: &KeyspaceSchema, function: &UserFunction) -> String {
    let arguments: Vec<String> = function
        .argument_names
        .iter()
        .zip(&function.argument_types)
        .map(|(name, ty)| format!("{} {ty}", quoted(name)))
        .collect();
    let on_null = if function.called_on_null_input { "CALLED" } else { "RETURNS NULL" };
    format!(
        "CREATE FUNCTION {}({})\n    {on_null} ON NULL INPUT\n    RETURNS {}\n    LANGUAGE {}\n    AS $${}$$;",
        full_name(&keyspace.name, &function.name),
        arguments.join(", "),
        function.return_type,
        function.language,
        function.body
    )
}

fn aggregate(keyspace: &KeyspaceSchema, aggregate: &UserAggregate) -> String {
    let mut text = format!(
        "CREATE AGGREGATE {}({})\n    SFUNC {}\n    STYPE {}",
        full_name(&keyspace.name, &aggregate.name),
        aggregate.argument_types.join(", "),
        quoted(&aggregate.state_function),
        aggregate.state_type
    );
    if let Some(last) = &aggregate.final_function {
        text.push_str(&format!("\n    FINALFUNC {}", quoted(last)));
    }
    if let Some(first) = &aggregate.initial_condition {
        text.push_str(&format!("\n    INITCOND {first}"));
    }
    text.push(';');
    text
}

/// What stands behind a column of type `ty` that is masked.
pub(super) fn mask(mask: &ColumnMask, ty: &CqlType) -> String {
    // A function of the user's may be described without being known.
    let as_stored = || {
        let arguments = mask.arguments.iter().zip(&mask.argument_types).map(|(value, ty)| match value {
            None => "null".to_owned(),
            Some(text) if matches!(ty.as_str(), "text" | "ascii" | "varchar") => literal(text),
            Some(other) => other.clone(),
        });
        arguments.collect()
    };
    let arguments: Vec<String> = masks::literals(mask, ty).unwrap_or_else(as_stored);
    let name = full_name(&mask.function_keyspace, &mask.function_name);
    format!(" MASKED WITH {name}({})", arguments.join(", "))
}
