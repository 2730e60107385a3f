//! What permissions are about: names as `system_auth` holds them, and as messages show them.
//!
//! ```text
//! data                 all keyspaces            roles          all roles
//! data/ks              a keyspace               roles/r        a role
//! data/ks/*            all its tables           functions      all functions
//! data/ks/t            a table                  functions/ks   those of a keyspace
//! mbean                all MBeans               functions/ks/f[type^type]
//! mbean/name           one, or a pattern
//! ```
//! A permission on a resource holds for what is below it.

use std::fmt;

use cql::ast;
use cql::plan::roles;
use model::Schema;
use model::schema::{LOCAL_SYSTEM_KEYSPACES, REPLICATED_SYSTEM_KEYSPACES};

use super::permission::PermissionSet;

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Resource {
    AllKeyspaces,
    Keyspace(String),
    AllTables(String),
    Table(String, String),
    AllRoles,
    Role(String),
    AllFunctions,
    FunctionsIn(String),
    /// Keyspace, name, and classes of the arguments.
    Function(String, String, Vec<String>),
    AllMbeans,
    Mbean(String),
}

impl Resource {
    pub(crate) fn table(keyspace: &str, table: &str) -> Resource {
        Resource::Table(keyspace.to_owned(), table.to_owned())
    }

    /// The resource that a statement names. `in_use` is the keyspace of a table without one, which was
    /// looked for before.
    pub(crate) fn of(resource: &ast::Resource, in_use: Option<&str>) -> Resource {
        match resource {
            ast::Resource::AllKeyspaces => Resource::AllKeyspaces,
            ast::Resource::Keyspace(keyspace) => Resource::Keyspace(keyspace.to_string()),
            ast::Resource::AllTables(keyspace) => Resource::AllTables(keyspace.to_string()),
            ast::Resource::Table(name) => {
                let keyspace = name.keyspace.as_ref().map(ast::Identifier::as_str).or(in_use);
                Resource::table(keyspace.unwrap_or_default(), name.name.as_str())
            }
            ast::Resource::AllRoles => Resource::AllRoles,
            ast::Resource::Role(role) => Resource::Role(role.0.clone()),
            ast::Resource::AllFunctions => Resource::AllFunctions,
            ast::Resource::AllFunctionsIn(keyspace) => Resource::FunctionsIn(keyspace.to_string()),
            ast::Resource::Function { name, argument_types } => Resource::Function(
                name.keyspace.as_ref().map(ToString::to_string).unwrap_or_default(),
                name.name.to_string(),
                argument_types.iter().map(ToString::to_string).collect(),
            ),
            ast::Resource::AllMbeans => Resource::AllMbeans,
            ast::Resource::Mbean(name) | ast::Resource::Mbeans(name) => Resource::Mbean(name.clone()),
        }
    }

    /// Its name in `system_auth`.
    pub(crate) fn name(&self) -> String {
        match self {
            Resource::AllKeyspaces => "data".to_owned(),
            Resource::Keyspace(keyspace) => format!("data/{keyspace}"),
            Resource::AllTables(keyspace) => format!("data/{keyspace}/*"),
            Resource::Table(keyspace, table) => format!("data/{keyspace}/{table}"),
            Resource::AllRoles => "roles".to_owned(),
            Resource::Role(role) => format!("roles/{role}"),
            Resource::AllFunctions => "functions".to_owned(),
            Resource::FunctionsIn(keyspace) => format!("functions/{keyspace}"),
            Resource::Function(keyspace, name, types) => {
                format!("functions/{keyspace}/{name}[{}]", types.join("^"))
            }
            Resource::AllMbeans => "mbean".to_owned(),
            Resource::Mbean(name) => format!("mbean/{name}"),
        }
    }

    /// The resource of a name; `None` for one that is none.
    pub(crate) fn of_name(name: &str) -> Option<Resource> {
        let (kind, rest) = match name.split_once('/') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (name, None),
        };
        Some(match (kind, rest) {
            ("data", None) => Resource::AllKeyspaces,
            ("data", Some(rest)) => match rest.split_once('/') {
                None => Resource::Keyspace(rest.to_owned()),
                Some((keyspace, "*")) => Resource::AllTables(keyspace.to_owned()),
                Some((keyspace, table)) => Resource::table(keyspace, table),
            },
            ("roles", None) => Resource::AllRoles,
            ("roles", Some(role)) => Resource::Role(role.to_owned()),
            ("functions", None) => Resource::AllFunctions,
            ("functions", Some(rest)) => match rest.split_once('/') {
                None => Resource::FunctionsIn(rest.to_owned()),
                Some((keyspace, function)) => {
                    let (name, types) = function.strip_suffix(']')?.split_once('[')?;
                    let types = types.split('^').filter(|name| !name.is_empty()).map(str::to_owned);
                    Resource::Function(keyspace.to_owned(), name.to_owned(), types.collect())
                }
            },
            ("mbean", None) => Resource::AllMbeans,
            ("mbean", Some(name)) => Resource::Mbean(name.to_owned()),
            _ => return None,
        })
    }

    /// What it is a part of.
    pub(crate) fn parent(&self) -> Option<Resource> {
        match self {
            Resource::AllKeyspaces | Resource::AllRoles | Resource::AllFunctions | Resource::AllMbeans => {
                None
            }
            Resource::Keyspace(_) => Some(Resource::AllKeyspaces),
            Resource::AllTables(keyspace) => Some(Resource::Keyspace(keyspace.clone())),
            Resource::Table(keyspace, _) => Some(Resource::AllTables(keyspace.clone())),
            Resource::Role(_) => Some(Resource::AllRoles),
            Resource::FunctionsIn(_) => Some(Resource::AllFunctions),
            Resource::Function(keyspace, ..) => Some(Resource::FunctionsIn(keyspace.clone())),
            Resource::Mbean(_) => Some(Resource::AllMbeans),
        }
    }

    /// The resource and all that it is a part of, the smallest first.
    pub(crate) fn chain(&self) -> Vec<Resource> {
        std::iter::successors(Some(self.clone()), Resource::parent).collect()
    }

    /// The permissions that there are on it.
    pub(crate) fn applicable(&self) -> PermissionSet {
        use ast::Resource as Tree;
        let name = || ast::Identifier::quoted("");
        // Only the kind counts.
        let (_, permissions) = roles::applicable(&match self {
            Resource::AllKeyspaces => Tree::AllKeyspaces,
            Resource::Keyspace(_) => Tree::Keyspace(name()),
            Resource::AllTables(_) => Tree::AllTables(name()),
            Resource::Table(..) => Tree::Table(ast::QualifiedName { keyspace: None, name: name() }),
            Resource::AllRoles => Tree::AllRoles,
            Resource::Role(_) => Tree::Role(ast::RoleName(String::new())),
            Resource::AllFunctions => Tree::AllFunctions,
            Resource::FunctionsIn(_) => Tree::AllFunctionsIn(name()),
            Resource::Function(..) => Tree::Function {
                name: ast::FunctionName { keyspace: None, name: name() },
                argument_types: Vec::new(),
            },
            Resource::AllMbeans => Tree::AllMbeans,
            Resource::Mbean(_) => Tree::Mbean(String::new()),
        });
        permissions.iter().copied().collect()
    }

    /// Whether it is of a keyspace of the system's that is no virtual one.
    pub(crate) fn is_of_system(&self) -> bool {
        match self {
            Resource::Keyspace(keyspace) | Resource::AllTables(keyspace) | Resource::Table(keyspace, _) => {
                LOCAL_SYSTEM_KEYSPACES.contains(&keyspace.as_str())
                    || REPLICATED_SYSTEM_KEYSPACES.contains(&keyspace.as_str())
            }
            _ => false,
        }
    }

    /// Whether it is in the schema. Roles are looked for elsewhere, MBeans nowhere: there are none here.
    pub(crate) fn is_in(&self, schema: &Schema) -> bool {
        match self {
            Resource::Keyspace(keyspace)
            | Resource::AllTables(keyspace)
            | Resource::FunctionsIn(keyspace) => schema.keyspace(keyspace).is_some(),
            Resource::Table(keyspace, table) => {
                schema.keyspace(keyspace).is_some_and(|keyspace| keyspace.store(table).is_some())
            }
            // Functions that came with a directory are not run here.
            Resource::Function(..) => false,
            _ => true,
        }
    }
}

/// As messages and LIST PERMISSIONS show it.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::AllKeyspaces => f.write_str("<all keyspaces>"),
            Resource::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Resource::AllTables(keyspace) => write!(f, "<all tables in {keyspace}>"),
            Resource::Table(keyspace, table) => write!(f, "<table {keyspace}.{table}>"),
            Resource::AllRoles => f.write_str("<all roles>"),
            Resource::Role(role) => write!(f, "<role {role}>"),
            Resource::AllFunctions => f.write_str("<all functions>"),
            Resource::FunctionsIn(keyspace) => write!(f, "<all functions in {keyspace}>"),
            Resource::Function(keyspace, name, types) => {
                write!(f, "<function {keyspace}.{name}({})>", types.join(", "))
            }
            Resource::AllMbeans => f.write_str("<all mbeans>"),
            Resource::Mbean(name) => write!(f, "<mbean {name}>"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_went() {
        for (name, shown) in [
            ("data", "<all keyspaces>"),
            ("data/ks", "<keyspace ks>"),
            ("data/ks/*", "<all tables in ks>"),
            ("data/ks/t", "<table ks.t>"),
            ("roles", "<all roles>"),
            ("roles/a/b", "<role a/b>"),
            ("functions", "<all functions>"),
            ("functions/ks", "<all functions in ks>"),
            ("functions/ks/f[a^b]", "<function ks.f(a, b)>"),
            ("functions/ks/f[]", "<function ks.f()>"),
            ("mbean", "<all mbeans>"),
            ("mbean/a:b=c", "<mbean a:b=c>"),
        ] {
            let resource = Resource::of_name(name).unwrap();
            assert_eq!((resource.name().as_str(), resource.to_string().as_str()), (name, shown));
        }
        for none in ["", "x", "x/y", "functions/ks/f", "functions/ks/f["] {
            assert_eq!(Resource::of_name(none), None, "{none}");
        }
        let chain = Resource::table("ks", "t").chain();
        let names: Vec<String> = chain.iter().map(Resource::name).collect();
        assert_eq!(names, ["data/ks/t", "data/ks/*", "data/ks", "data"]);
    }
}
