//! `authenticator`, `authorizer` and their relatives: which classes Ilion has, and what follows from the
//! choice.
//!
//! | key | classes |
//! |---|---|
//! | `authenticator` | AllowAll-, Password-, MutualTls-, MutualTlsWithPasswordFallbackAuthenticator |
//! | `authorizer` | AllowAllAuthorizer, CassandraAuthorizer |
//! | `role_manager` | CassandraRoleManager |
//! | `network_authorizer` | AllowAllNetworkAuthorizer, CassandraNetworkAuthorizer |
//! | `cidr_authorizer` | AllowAllCIDRAuthorizer, CassandraCIDRAuthorizer |
//!
//! A class stands alone or in a map, with its package or without, as in Cassandra. Those of mutual TLS take
//! `validator_class_name`: what says which name of a certificate is the client's.

use super::{ClientAuth, Settings};
use serde_norway::Value;

/// What says which name of a certificate is the client's identity.
const VALIDATOR: &str = "SpiffeCertificateValidator";

/// How clients show who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authenticator {
    /// Nobody asks them.
    #[default]
    AllowAll,
    /// By a name and a password.
    Password,
    /// By a certificate.
    MutualTls,
    /// By a certificate; those without one by a name and a password.
    MutualTlsOrPassword,
}

impl Authenticator {
    const ALL: [Authenticator; 4] = [
        Authenticator::AllowAll,
        Authenticator::Password,
        Authenticator::MutualTls,
        Authenticator::MutualTlsOrPassword,
    ];

    /// Cassandra's class, with its package.
    pub fn class(self) -> &'static str {
        match self {
            Authenticator::AllowAll => "org.apache.cassandra.auth.AllowAllAuthenticator",
            Authenticator::Password => "org.apache.cassandra.auth.PasswordAuthenticator",
            Authenticator::MutualTls => "org.apache.cassandra.auth.MutualTlsAuthenticator",
            Authenticator::MutualTlsOrPassword => {
                "org.apache.cassandra.auth.MutualTlsWithPasswordFallbackAuthenticator"
            }
        }
    }

    /// Cassandra's class, without its package.
    pub fn name(self) -> &'static str {
        short(self.class())
    }

    /// Whether clients have to show who they are.
    pub fn asks(self) -> bool {
        self != Authenticator::AllowAll
    }

    /// Whether a certificate is a login.
    pub fn takes_certificates(self) -> bool {
        matches!(self, Authenticator::MutualTls | Authenticator::MutualTlsOrPassword)
    }

    /// Whether the certificate of a client is its login, rather than a password.
    pub fn logs_in_by_certificate(self, has_certificate: bool) -> bool {
        match self {
            Authenticator::AllowAll | Authenticator::Password => false,
            Authenticator::MutualTls => true,
            Authenticator::MutualTlsOrPassword => has_certificate,
        }
    }

    /// Whether a password is a login.
    pub fn takes_passwords(self) -> bool {
        matches!(self, Authenticator::Password | Authenticator::MutualTlsOrPassword)
    }
}

/// The parameters of CassandraCIDRAuthorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CidrSettings {
    /// `cidr_authorizer_mode`: who comes from elsewhere is refused (ENFORCE), not only told of (MONITOR).
    pub enforces: bool,
    /// `cidr_checks_for_superusers`.
    pub checks_superusers: bool,
    /// `cidr_groups_cache_refresh_interval`, in minutes.
    pub refresh_minutes: u32,
    /// `ip_cache_max_size`: addresses whose groups are remembered.
    pub ip_cache_max: u32,
}

impl Default for CidrSettings {
    fn default() -> Self {
        CidrSettings { enforces: false, checks_superusers: false, refresh_minutes: 5, ip_cache_max: 100 }
    }
}

impl CidrSettings {
    fn of(parameters: &[(String, Value)]) -> Result<CidrSettings, String> {
        let mut settings = CidrSettings::default();
        for (name, value) in parameters.iter().filter(|(_, value)| !super::is_blank(value)) {
            let text = match value {
                Value::String(text) => text.trim().to_owned(),
                other => serde_norway::to_string(other).unwrap_or_default().trim().to_owned(),
            };
            let bad = |wanted: &str| format!("parameters: {name}: {text:?} is not {wanted}");
            let number = || text.parse::<u32>().map_err(|_| bad("a number"));
            match name.as_str() {
                "cidr_authorizer_mode" => {
                    settings.enforces = match text.to_ascii_uppercase().as_str() {
                        "ENFORCE" => true,
                        "MONITOR" => false,
                        _ => return Err(bad("MONITOR or ENFORCE")),
                    };
                }
                // As Java reads a boolean.
                "cidr_checks_for_superusers" => {
                    settings.checks_superusers = text.eq_ignore_ascii_case("true")
                }
                "cidr_groups_cache_refresh_interval" => {
                    settings.refresh_minutes = number()?;
                    if settings.refresh_minutes == 0 {
                        return Err(bad("a number of minutes from 1 on"));
                    }
                }
                "ip_cache_max_size" => settings.ip_cache_max = number()?,
                _ => return Err(format!("parameters: {name} is not known")),
            }
        }
        Ok(settings)
    }
}

/// Whether clients log in, and whether they are held to what they were granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthSettings {
    /// How clients show who they are.
    pub authenticator: Authenticator,
    /// They may do only what they were granted.
    pub permissions: bool,
    /// They may come in where their role may: CassandraNetworkAuthorizer.
    pub datacenters: bool,
    /// They may come from where their role may: CassandraCIDRAuthorizer.
    pub cidr: Option<CidrSettings>,
    /// It was said which name of a certificate is the client's.
    pub has_validator: bool,
}

/// The name of a class without its package.
fn short(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or(class)
}

impl AuthSettings {
    /// Notes what a key asks for; whether Ilion has it is looked at elsewhere.
    ///
    /// # Errors
    /// Where the classes have parameters that they do not take.
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
        let class = short(class.as_str().unwrap_or_default()).to_ascii_lowercase();
        let parameters = parameters_of(parameters)?;
        if key == "authenticator" {
            let is_named = |known: &Authenticator| known.name().eq_ignore_ascii_case(&class);
            self.authenticator = Authenticator::ALL.into_iter().find(is_named).unwrap_or_default();
            self.has_validator = false;
            if self.authenticator.takes_certificates() {
                return self.note_validator(&parameters);
            }
        }
        if key == "cidr_authorizer" {
            let settings = CidrSettings::of(&parameters)?;
            self.cidr = (class == "cassandracidrauthorizer").then_some(settings);
            return Ok(());
        }
        if !parameters.is_empty() {
            return Err("the class takes no parameters".to_owned());
        }
        match key {
            "authorizer" => self.permissions = class == "cassandraauthorizer",
            "network_authorizer" => self.datacenters = class == "cassandranetworkauthorizer",
            _ => {}
        }
        Ok(())
    }

    /// The parameters of the classes of mutual TLS.
    fn note_validator(&mut self, parameters: &[(String, Value)]) -> Result<(), String> {
        for (name, value) in parameters {
            if name != "validator_class_name" {
                return Err(format!("parameters: {name} is not known: there is validator_class_name"));
            }
            let class = value.as_str().unwrap_or_default();
            if class.is_empty() {
                continue;
            }
            let is_known = class == VALIDATOR || class == format!("org.apache.cassandra.auth.{VALIDATOR}");
            if !is_known {
                return Err(format!("validator_class_name: {class} is not supported: Ilion has {VALIDATOR}"));
            }
            self.has_validator = true;
        }
        Ok(())
    }

    /// Refuses classes that do not go together.
    ///
    /// # Errors
    /// In Cassandra's words where it has some.
    pub(super) fn check(self, settings: &Settings) -> Result<(), String> {
        let name = self.authenticator.name();
        if self.authenticator.takes_certificates() && !self.has_validator {
            return Err("authenticator.parameters.validator_class_name is not set".to_owned());
        }
        if self.permissions && !self.authenticator.asks() {
            return Err("AllowAllAuthenticator can't be used with CassandraAuthorizer".to_owned());
        }
        let places = [
            (self.datacenters, "CassandraNetworkAuthorizer"),
            (self.cidr.is_some(), "CassandraCIDRAuthorizer"),
        ];
        let is_alone = |(is_chosen, _): &&(bool, &str)| *is_chosen && !self.authenticator.asks();
        if let Some((_, class)) = places.iter().find(is_alone) {
            return Err(format!("{class} can't be used with AllowAllAuthenticator"));
        }
        let options = &settings.client_encryption_options;
        match self.authenticator {
            Authenticator::MutualTls
                if !options.enabled || options.require_client_auth != ClientAuth::Required =>
            {
                Err(format!(
                    "{name} requires client_encryption_options.enabled to be true & \
                     client_encryption_options.require_client_auth to be true"
                ))
            }
            Authenticator::MutualTlsOrPassword if options.require_client_auth == ClientAuth::No => Err(
                format!("{name} requires client_encryption_options.require_client_auth to be optional/true"),
            ),
            _ => Ok(()),
        }
    }

    /// The classes that were chosen, as `system_views.settings` names and shows them.
    pub(super) fn shown(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let classes = [
            (self.authenticator.asks(), "authenticator.class_name", self.authenticator.name()),
            (self.permissions, "authorizer.class_name", "CassandraAuthorizer"),
            (self.datacenters, "network_authorizer.class_name", "CassandraNetworkAuthorizer"),
            (self.cidr.is_some(), "cidr_authorizer.class_name", "CassandraCIDRAuthorizer"),
        ];
        classes.into_iter().filter(|(is_chosen, ..)| *is_chosen).map(|(_, name, class)| (name, class))
    }
}

/// The parameters of a class: a map, or a list with one map as older files have it.
fn parameters_of(value: Option<&Value>) -> Result<Vec<(String, Value)>, String> {
    let value = match value {
        Some(Value::Sequence(list)) if list.len() == 1 => list.first(),
        other => other,
    };
    match value {
        None => Ok(Vec::new()),
        Some(value) if super::is_blank(value) => Ok(Vec::new()),
        Some(Value::Mapping(map)) => {
            let named = |(name, value): (&Value, &Value)| {
                (name.as_str().unwrap_or_default().to_owned(), value.clone())
            };
            Ok(map.iter().map(named).collect())
        }
        Some(_) => Err("parameters are keys and values".to_owned()),
    }
}
