//! Which entries the audit log has: Cassandra's `AuditLogFilter`, and the categories that there are.
//!
//! An entry is left out if its keyspace, its category or its user is excluded, or is not among those that are
//! included where any are. What is in both lists is excluded. A failed login has no user: it is left out
//! where users are included.

use super::kind::Category;

/// Names that are left out, and names that alone are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists {
    included: Vec<String>,
    excluded: Vec<String>,
}

impl Lists {
    fn new(included: &str, excluded: &str) -> Lists {
        let excluded = names(excluded);
        let included = names(included).into_iter().filter(|name| !excluded.contains(name)).collect();
        Lists { included, excluded }
    }

    fn keep(&self, name: Option<&str>) -> bool {
        let holds = |list: &[String]| name.is_some_and(|name| list.iter().any(|known| known == name));
        !holds(&self.excluded) && (self.included.is_empty() || holds(&self.included))
    }
}

/// The filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    keyspaces: Lists,
    categories: Lists,
    users: Lists,
}

/// Six lists of names with commas between them, under the names of cassandra.yaml.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Cassandra's words")]
pub struct FilterOptions {
    pub included_keyspaces: String,
    pub excluded_keyspaces: String,
    pub included_categories: String,
    pub excluded_categories: String,
    pub included_users: String,
    pub excluded_users: String,
}

impl Default for FilterOptions {
    fn default() -> Self {
        FilterOptions {
            included_keyspaces: String::new(),
            excluded_keyspaces: "system,system_schema,system_virtual_schema".to_owned(),
            included_categories: String::new(),
            excluded_categories: String::new(),
            included_users: String::new(),
            excluded_users: String::new(),
        }
    }
}

impl FilterOptions {
    /// Refuses categories that there are not.
    ///
    /// # Errors
    /// In Cassandra's words.
    pub fn check(&self) -> Result<(), String> {
        let named = [&self.included_categories, &self.excluded_categories].map(|list| names(list)).concat();
        match named.iter().find(|name| !Category::is_known(name)) {
            None => Ok(()),
            Some(name) => {
                Err(format!("category {name} not found in org.apache.cassandra.audit.AuditLogEntryCategory"))
            }
        }
    }

    /// The lists as they are in force: without what is in both, as `nodetool getauditlog` shows them.
    pub fn in_force(&self) -> FilterOptions {
        let filter = Filter::new(self);
        FilterOptions {
            included_keyspaces: filter.keyspaces.included.join(","),
            excluded_keyspaces: filter.keyspaces.excluded.join(","),
            included_categories: filter.categories.included.join(","),
            excluded_categories: filter.categories.excluded.join(","),
            included_users: filter.users.included.join(","),
            excluded_users: filter.users.excluded.join(","),
        }
    }
}

impl Filter {
    pub(super) fn new(options: &FilterOptions) -> Filter {
        Filter {
            keyspaces: Lists::new(&options.included_keyspaces, &options.excluded_keyspaces),
            categories: Lists::new(&options.included_categories, &options.excluded_categories),
            users: Lists::new(&options.included_users, &options.excluded_users),
        }
    }

    /// Whether the log has an entry.
    pub(super) fn keep(&self, keyspace: Option<&str>, category: Category, user: Option<&str>) -> bool {
        self.keyspaces.keep(keyspace) && self.categories.keep(Some(category.name())) && self.users.keep(user)
    }
}

fn names(list: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_excluded_is_left_out_even_where_it_is_included() {
        let lists = Lists::new("a, b,,c", "b");
        assert!(lists.keep(Some("a")) && lists.keep(Some("c")));
        assert!(!lists.keep(Some("b")) && !lists.keep(Some("d")) && !lists.keep(None));
        let none = Lists::new("", "b");
        assert!(none.keep(None) && none.keep(Some("a")) && !none.keep(Some("b")));
    }

    #[test]
    fn the_systems_keyspaces_are_left_out_by_default() {
        let filter = Filter::new(&FilterOptions::default());
        assert!(!filter.keep(Some("system"), Category::Query, Some("anonymous")));
        assert!(filter.keep(Some("ks"), Category::Query, Some("anonymous")));
        assert!(filter.keep(None, Category::Auth, None));
    }

    #[test]
    fn categories_that_there_are_not_are_refused() {
        let options =
            FilterOptions { included_categories: "QUERY,DLM".to_owned(), ..FilterOptions::default() };
        assert_eq!(
            options.check().unwrap_err(),
            "category DLM not found in org.apache.cassandra.audit.AuditLogEntryCategory"
        );
    }
}
