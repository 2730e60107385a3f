//! What cassandra.yaml says of new tables: `default_compaction` and `memtable`.

use super::Settings;
use super::units::OldUnit;
use super::values::{Setting, scalar};
use cql::ddl::TableDefaults;
use serde_norway::Value;

/// `default_compaction`: a class and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultCompaction {
    /// The class, by its long or short name.
    pub class_name: String,
    /// Its options, in the order of the file.
    pub parameters: Vec<(String, String)>,
}

/// `memtable`: names for kinds of memtables. Ilion has one kind, under every name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memtables(Vec<(String, String)>);

/// What the settings say of new tables.
///
/// # Errors
/// A compaction that no statement could ask for.
pub(super) fn defaults(settings: &Settings) -> Result<TableDefaults, String> {
    let of_compaction = |compaction: &DefaultCompaction| {
        let mut map = compaction.parameters.clone();
        map.push(("class".to_owned(), compaction.class_name.clone()));
        TableDefaults::parse_compaction(&map).map_err(|error| format!("default_compaction: {error}"))
    };
    let compaction = settings.default_compaction.as_ref().map(of_compaction).transpose()?;
    let memtables = settings.memtable.0.iter().map(|(name, _)| name.clone()).collect();
    Ok(TableDefaults { compaction, memtables: Some(memtables) })
}

/// The entries of a map whose values are scalars; of none for null.
fn options(value: Option<&Value>, what: &str) -> Result<Vec<(String, String)>, String> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Mapping(map)) => map.iter().map(|(k, v)| Ok((scalar(k)?, scalar(v)?))).collect(),
        // Older files have a list of one map, as for other classes with parameters.
        Some(Value::Sequence(items)) if items.len() == 1 => options(items.first(), what),
        Some(_) => Err(format!("{what} must be a map")),
    }
}

/// A map as Java prints it.
fn show(options: &[(String, String)]) -> String {
    let entries: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{{{}}}", entries.join(", "))
}

impl Setting for DefaultCompaction {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        let class_name = match value {
            Value::Mapping(map) => map.get("class_name").map(scalar).transpose()?,
            class => Some(scalar(class)?),
        };
        let class_name = class_name.filter(|name| !name.is_empty()).ok_or("it has no class_name")?;
        Ok(DefaultCompaction { class_name, parameters: options(value.get("parameters"), "parameters")? })
    }

    fn print(&self) -> Option<String> {
        Some(format!("{}{}", self.class_name, show(&self.parameters)))
    }
}

impl Setting for Memtables {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        let configurations = match value.get("configurations") {
            None | Some(Value::Null) => return Ok(Memtables::default()),
            Some(Value::Mapping(map)) => map,
            Some(_) => return Err("configurations must be a map".to_owned()),
        };
        let mut named = Vec::new();
        for (name, kind) in configurations {
            let text = |key: &str| kind.get(key).filter(|v| !v.is_null()).map(scalar).transpose();
            let inherited = text("inherits")?;
            if let Some(from) = inherited.as_ref().filter(|from| configurations.get(from.as_str()).is_none())
            {
                let name = scalar(name)?;
                return Err(format!("Configuration entry {name} inherits non-existing entry {from}"));
            }
            let mut shown = inherited.map(|from| from + "+").unwrap_or_default();
            shown += &text("class_name")?.unwrap_or_default();
            let parameters = options(kind.get("parameters"), "parameters")?;
            if !parameters.is_empty() {
                shown += &show(&parameters);
            }
            named.push((scalar(name)?, shown));
        }
        Ok(Memtables(named))
    }

    fn print(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| show(&self.0))
    }
}

impl Settings {
    /// The parts of these settings, as `system_views.settings` has them.
    pub(super) fn of_tables(&self) -> [(&'static str, Option<String>); 3] {
        let compaction = self.default_compaction.as_ref();
        [
            ("default_compaction.class_name", compaction.map(|c| c.class_name.clone())),
            (
                "default_compaction.parameters",
                compaction.map(|c| show(&c.parameters)).filter(|shown| shown != "{}"),
            ),
            ("memtable.configurations", self.memtable.print()),
        ]
    }
}
