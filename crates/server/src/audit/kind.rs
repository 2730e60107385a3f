//! What an entry of the audit log is about: Cassandra's `AuditLogEntryType` and its categories, and what a
//! statement says of itself (`AuditLogContext`): type, keyspace, and scope, the table, view, type, index or
//! function.
//!
//! INSERT is an UPDATE, TRUNCATE is DDL and LIST USERS is LIST_ROLES, as in Cassandra. EXPLAIN, which
//! Cassandra does not have, is a SELECT.

use cql::ast::{FunctionName, Identifier, QualifiedName, Statement as Tree};
use cql::plan::{Prepared, StatementKind};

use crate::auth::resource::Resource;

macro_rules! kinds {
    ($($kind:ident $name:literal $category:ident,)+) => {
        /// The type of an entry.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($kind,)+ }

        impl Kind {
            /// Cassandra's word.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)+ }
            }

            /// The category that filters name.
            pub(crate) fn category(self) -> Category {
                match self { $(Kind::$kind => Category::$category,)+ }
            }
        }
    };
}

kinds! {
    Select "SELECT" Query,
    Update "UPDATE" Dml,
    Delete "DELETE" Dml,
    Batch "BATCH" Dml,
    Truncate "TRUNCATE" Ddl,
    CreateKeyspace "CREATE_KEYSPACE" Ddl,
    AlterKeyspace "ALTER_KEYSPACE" Ddl,
    DropKeyspace "DROP_KEYSPACE" Ddl,
    CreateTable "CREATE_TABLE" Ddl,
    AlterTable "ALTER_TABLE" Ddl,
    DropTable "DROP_TABLE" Ddl,
    CreateType "CREATE_TYPE" Ddl,
    AlterType "ALTER_TYPE" Ddl,
    DropType "DROP_TYPE" Ddl,
    CreateIndex "CREATE_INDEX" Ddl,
    DropIndex "DROP_INDEX" Ddl,
    CreateView "CREATE_VIEW" Ddl,
    AlterView "ALTER_VIEW" Ddl,
    DropView "DROP_VIEW" Ddl,
    CreateFunction "CREATE_FUNCTION" Ddl,
    DropFunction "DROP_FUNCTION" Ddl,
    CreateAggregate "CREATE_AGGREGATE" Ddl,
    DropAggregate "DROP_AGGREGATE" Ddl,
    CreateTrigger "CREATE_TRIGGER" Ddl,
    DropTrigger "DROP_TRIGGER" Ddl,
    CreateRole "CREATE_ROLE" Dcl,
    AlterRole "ALTER_ROLE" Dcl,
    DropRole "DROP_ROLE" Dcl,
    Grant "GRANT" Dcl,
    Revoke "REVOKE" Dcl,
    ListPermissions "LIST_PERMISSIONS" Dcl,
    ListRoles "LIST_ROLES" Dcl,
    CreateIdentity "CREATE_IDENTITY" Dcl,
    DropIdentity "DROP_IDENTITY" Dcl,
    UseKeyspace "USE_KEYSPACE" Other,
    Describe "DESCRIBE" Other,
    PrepareStatement "PREPARE_STATEMENT" Prepare,
    RequestFailure "REQUEST_FAILURE" Error,
    LoginError "LOGIN_ERROR" Auth,
    UnauthorizedAttempt "UNAUTHORIZED_ATTEMPT" Auth,
    LoginSuccess "LOGIN_SUCCESS" Auth,
}

/// What kinds are filtered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Category {
    Query,
    Dml,
    Ddl,
    Dcl,
    Other,
    Auth,
    Error,
    Prepare,
}

impl Category {
    const ALL: [Category; 8] = [
        Category::Query,
        Category::Dml,
        Category::Ddl,
        Category::Dcl,
        Category::Other,
        Category::Auth,
        Category::Error,
        Category::Prepare,
    ];

    /// Cassandra's word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Category::Query => "QUERY",
            Category::Dml => "DML",
            Category::Ddl => "DDL",
            Category::Dcl => "DCL",
            Category::Other => "OTHER",
            Category::Auth => "AUTH",
            Category::Error => "ERROR",
            Category::Prepare => "PREPARE",
        }
    }

    /// Whether there is a category of this name.
    pub(crate) fn is_known(name: &str) -> bool {
        Category::ALL.iter().any(|category| category.name() == name)
    }
}

/// What a statement says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) kind: Kind,
    pub(crate) keyspace: Option<String>,
    pub(crate) scope: Option<String>,
}

impl Context {
    fn of(kind: Kind) -> Context {
        Context { kind, keyspace: None, scope: None }
    }

    fn named(kind: Kind, keyspace: impl Into<String>, scope: impl Into<String>) -> Context {
        Context { kind, keyspace: Some(keyspace.into()), scope: Some(scope.into()) }
    }

    /// The context of a statement whose unqualified names are of a keyspace.
    pub(crate) fn of_statement(plan: &Prepared, keyspace: Option<&str>) -> Context {
        let on_table = |kind| match plan.tables.first() {
            Some(table) => Context::named(kind, &table.keyspace, &table.table),
            None => Context::of(kind),
        };
        match plan.kind {
            StatementKind::Select | StatementKind::Explain => on_table(Kind::Select),
            StatementKind::Insert | StatementKind::Update => on_table(Kind::Update),
            StatementKind::Delete => on_table(Kind::Delete),
            StatementKind::Truncate => on_table(Kind::Truncate),
            StatementKind::Batch => Context::of(Kind::Batch),
            StatementKind::Describe => Context::of(Kind::Describe),
            StatementKind::Use => Context {
                keyspace: plan.used_keyspace().map(str::to_owned),
                ..Context::of(Kind::UseKeyspace)
            },
            StatementKind::Schema | StatementKind::Role => {
                match plan.schema_change().or(plan.about_roles()) {
                    Some(tree) => of_tree(tree, keyspace.unwrap_or_default()),
                    None => Context::of(Kind::RequestFailure),
                }
            }
        }
    }
}

/// The context of a statement that changes the schema or is about roles.
fn of_tree(tree: &Tree, in_use: &str) -> Context {
    let in_keyspace = |kind, keyspace: Option<&Identifier>, name: &str| {
        Context::named(kind, keyspace.map_or(in_use, Identifier::as_str), name)
    };
    let name = |kind, name: &QualifiedName| in_keyspace(kind, name.keyspace.as_ref(), name.name.as_str());
    let function = |kind, name: &FunctionName| in_keyspace(kind, name.keyspace.as_ref(), name.name.as_str());
    let keyspace =
        |kind, keyspace: &Identifier| Context { keyspace: Some(keyspace.to_string()), ..Context::of(kind) };
    let on_resource = |kind, resource| {
        let resource = Resource::of(resource, Some(in_use));
        let above = resource.parent().unwrap_or_else(|| resource.clone());
        Context::named(kind, above.name(), resource.name())
    };
    match tree {
        Tree::CreateKeyspace(create) => keyspace(Kind::CreateKeyspace, &create.keyspace),
        Tree::AlterKeyspace(alter) => keyspace(Kind::AlterKeyspace, &alter.keyspace),
        Tree::DropKeyspace { keyspace: dropped, .. } => keyspace(Kind::DropKeyspace, dropped),
        Tree::CreateTable(create) => name(Kind::CreateTable, &create.table),
        Tree::AlterTable(alter) => name(Kind::AlterTable, &alter.table),
        Tree::DropTable { table, .. } => name(Kind::DropTable, table),
        Tree::CreateType(create) => name(Kind::CreateType, &create.name),
        Tree::AlterType(alter) => name(Kind::AlterType, &alter.name),
        Tree::DropType { name: dropped, .. } => name(Kind::DropType, dropped),
        Tree::CreateIndex(create) => {
            let index = create.name.as_ref().map_or("", Identifier::as_str);
            in_keyspace(Kind::CreateIndex, create.table.keyspace.as_ref(), index)
        }
        Tree::DropIndex { index, .. } => name(Kind::DropIndex, index),
        Tree::CreateMaterializedView(create) => name(Kind::CreateView, &create.view),
        Tree::AlterMaterializedView(alter) => name(Kind::AlterView, &alter.view),
        Tree::DropMaterializedView { view, .. } => name(Kind::DropView, view),
        Tree::CreateFunction(create) => function(Kind::CreateFunction, &create.name),
        Tree::DropFunction(dropped) => function(Kind::DropFunction, &dropped.name),
        Tree::CreateAggregate(create) => function(Kind::CreateAggregate, &create.name),
        Tree::DropAggregate(dropped) => function(Kind::DropAggregate, &dropped.name),
        Tree::CreateTrigger(create) => {
            in_keyspace(Kind::CreateTrigger, create.table.keyspace.as_ref(), create.name.as_str())
        }
        Tree::DropTrigger { name: dropped, table, .. } => {
            in_keyspace(Kind::DropTrigger, table.keyspace.as_ref(), dropped.as_str())
        }
        Tree::CreateRole(_) => Context::of(Kind::CreateRole),
        Tree::AlterRole(_) => Context::of(Kind::AlterRole),
        Tree::DropRole { .. } => Context::of(Kind::DropRole),
        Tree::Grant(grant) => on_resource(Kind::Grant, &grant.resource),
        Tree::Revoke(revoke) => on_resource(Kind::Revoke, &revoke.resource),
        Tree::GrantRole(_) => Context::of(Kind::Grant),
        Tree::RevokeRole(_) => Context::of(Kind::Revoke),
        Tree::ListPermissions(_) => Context::of(Kind::ListPermissions),
        Tree::ListRoles(_) | Tree::ListUsers => Context::of(Kind::ListRoles),
        Tree::AddIdentity { .. } => Context::of(Kind::CreateIdentity),
        Tree::DropIdentity { .. } => Context::of(Kind::DropIdentity),
        // Planned as something else.
        Tree::Select(_)
        | Tree::Insert(_)
        | Tree::InsertJson(_)
        | Tree::Update(_)
        | Tree::Delete(_)
        | Tree::Batch(_)
        | Tree::Use(_)
        | Tree::Truncate(_)
        | Tree::Describe(_)
        | Tree::Explain { .. } => Context::of(Kind::RequestFailure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Schema;
    use std::sync::Arc;

    fn context(statement: &str) -> (&'static str, Option<String>, Option<String>) {
        let schema = Arc::new(Schema::default());
        let parsed = cql::parser::parse_statement(statement).expect("CQL");
        let plan = cql::plan::prepare(parsed, &schema, Some("ks")).expect("a plan");
        let Context { kind, keyspace, scope } = Context::of_statement(&plan, Some("ks"));
        (kind.name(), keyspace, scope)
    }

    #[test]
    fn statements_say_of_themselves_what_cassandras_do() {
        let options = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        for (statement, kind, keyspace, scope) in [
            (format!("CREATE KEYSPACE k WITH replication = {options}"), "CREATE_KEYSPACE", Some("k"), None),
            ("CREATE TABLE t (k int PRIMARY KEY)".to_owned(), "CREATE_TABLE", Some("ks"), Some("t")),
            ("DROP TABLE k2.t".to_owned(), "DROP_TABLE", Some("k2"), Some("t")),
            ("DROP TYPE IF EXISTS u".to_owned(), "DROP_TYPE", Some("ks"), Some("u")),
            ("CREATE INDEX i ON k2.t (v)".to_owned(), "CREATE_INDEX", Some("k2"), Some("i")),
            ("DROP FUNCTION f".to_owned(), "DROP_FUNCTION", Some("ks"), Some("f")),
            ("CREATE ROLE r WITH PASSWORD = 'x'".to_owned(), "CREATE_ROLE", None, None),
            ("CREATE USER r".to_owned(), "CREATE_ROLE", None, None),
            ("GRANT SELECT ON t TO r".to_owned(), "GRANT", Some("data/ks/*"), Some("data/ks/t")),
            ("REVOKE ALL ON ALL KEYSPACES FROM r".to_owned(), "REVOKE", Some("data"), Some("data")),
            ("GRANT a TO b".to_owned(), "GRANT", None, None),
            ("LIST ALL PERMISSIONS".to_owned(), "LIST_PERMISSIONS", None, None),
            ("LIST USERS".to_owned(), "LIST_ROLES", None, None),
            ("DESCRIBE TABLES".to_owned(), "DESCRIBE", None, None),
        ] {
            let expected = (kind, keyspace.map(str::to_owned), scope.map(str::to_owned));
            assert_eq!(context(&statement), expected, "{statement}");
        }
    }

    #[test]
    fn each_category_is_known_by_its_name_alone() {
        assert!(Category::ALL.iter().all(|category| Category::is_known(category.name())));
        assert!(!Category::is_known("query") && !Category::is_known(""));
        assert_eq!(Kind::Truncate.category(), Category::Ddl);
    }
}
