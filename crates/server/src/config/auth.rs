//! `authenticator`, `authorizer` and their relatives: which classes Ilion has, and what follows from the
//! choice.
//!
//! | key | classes |
//! |---|---|
//! | `authenticator` | AllowAllAuthenticator, PasswordAuthenticator |
//! | `authorizer` | AllowAllAuthorizer, CassandraAuthorizer |
//! | `role_manager` | CassandraRoleManager |
//! | `network_authorizer`, `cidr_authorizer` | those that allow everything |
//!
//! A class stands alone or in a map, with its package or without, as in Cassandra.

use super::Settings;
use serde_norway::Value;

/// Whether clients log in, and whether they are held to what they were granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// Clients log in with a name and a password.
    pub passwords: bool,
    /// They may do only what they were granted.
    pub permissions: bool,
}

impl AuthSettings {
    /// Notes what a key asks for; whether Ilion has it is looked at elsewhere.
    ///
    /// # Errors
    /// Where the classes have parameters, which none of them takes.
    pub(super) fn note(&mut self, key: &str, value: &Value) -> Result<(), String> {
        if !matches!(
            key,
            "authenticator" | "authorizer" | "role_manager" | "network_authorizer" | "cidr_authorizer"
        ) {
            return Ok(());
        }
        let (class, parameters) = match value {
            Value::Mapping(map) => {
                (map.get("class_name").cloned().unwrap_or_default(), map.get("parameters"))
            }
            single => (single.clone(), None),
        };
        if parameters.is_some_and(|parameters| !super::is_blank(parameters)) {
            return Err("the class takes no parameters".to_owned());
        }
        let class = class.as_str().unwrap_or_default();
        let short = class.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        match key {
            "authenticator" => self.passwords = short == "passwordauthenticator",
            "authorizer" => self.permissions = short == "cassandraauthorizer",
            _ => {}
        }
        Ok(())
    }

    /// Refuses classes that do not go together, and doors without a lock beside them.
    ///
    /// # Errors
    /// In Cassandra's words where it has some.
    pub(super) fn check(self, settings: &Settings) -> Result<(), String> {
        if self.passwords && settings.flight_port.is_some() {
            return Err(
                "flight_port can't be used with PasswordAuthenticator: Flight asks for no passwords yet"
                    .to_owned(),
            );
        }
        if self.permissions && !self.passwords {
            return Err("AllowAllAuthenticator can't be used with CassandraAuthorizer".to_owned());
        }
        Ok(())
    }

    /// The classes that were chosen, as `system_views.settings` names and shows them.
    pub(super) fn shown(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let classes = [
            (self.passwords, "authenticator.class_name", "PasswordAuthenticator"),
            (self.permissions, "authorizer.class_name", "CassandraAuthorizer"),
        ];
        classes.into_iter().filter(|(is_chosen, ..)| *is_chosen).map(|(_, name, class)| (name, class))
    }
}
