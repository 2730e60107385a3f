//! `client_encryption_options`, and what `server_encryption_options` have in common with them: what the
//! file says of TLS. Whether files are there and fit together is seen
//! when they are loaded ([`crate::tls`]).
//!
//! An option that is not known gives a warning, a value that cannot be ends the start. What is secret is
//! neither printed nor told in an error.

use super::units::{Millis, OldUnit};
use super::values::{Setting, scalar};
use serde_norway::Value;
use std::fmt;
use std::path::PathBuf;

/// Where keys are looked for when nobody says.
const KEYSTORE: &str = "conf/.keystore";
const TRUSTSTORE: &str = "conf/.truststore";
/// The package of Cassandra's factories.
const FACTORIES: &str = "org.apache.cassandra.security.";

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(text)
    }
}

/// Whether clients have to show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// None is asked for.
    No,
    /// One is asked for, and checked if it comes.
    Optional,
    /// Who has none is not let in.
    Required,
}

/// Where keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextFactory {
    /// DefaultSslContextFactory: key stores of Java.
    Default,
    /// PEMBasedSslContextFactory: PEM, in files or in the configuration itself.
    Pem,
}

/// Who has to speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncryptionPolicy {
    /// Nobody can.
    Unencrypted,
    /// Everybody may.
    Optional,
    /// Everybody has to.
    Encrypted,
}

/// A key store or a trust store, by its file.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreFile {
    /// The file.
    pub path: PathBuf,
    /// What opens it.
    pub password: Option<Secret>,
    /// The file that has what opens it.
    pub password_file: Option<PathBuf>,
}

/// The value of `client_encryption_options`. What is said of clients holds for nodes, too.
#[derive(Clone, Debug, PartialEq)]
pub struct EncryptionOptions {
    /// Whether clients have to speak TLS, unless `optional`.
    pub enabled: bool,
    /// Whether they may also not; when not set, they may if TLS is not enabled and there is a key.
    pub optional: Option<bool>,
    /// The node's key.
    pub keystore: StoreFile,
    /// Who signs certificates of clients.
    pub truststore: StoreFile,
    /// Where both come from.
    pub factory: ContextFactory,
    /// Parameters of the PEM factory: key and chain.
    pub private_key: Option<Secret>,
    /// What opens the key.
    pub private_key_password: Option<Secret>,
    /// Who signs certificates of clients.
    pub trusted_certificates: Option<String>,
    /// A version of TLS, or `TLS`.
    pub protocol: Option<String>,
    /// Versions of TLS.
    pub accepted_protocols: Option<Vec<String>>,
    /// Java's names of cipher suites.
    pub cipher_suites: Option<Vec<String>>,
    /// Java's word for how certificates are checked; it has no effect.
    pub algorithm: Option<String>,
    /// Java's word for the kind of the stores; their bytes tell it.
    pub store_type: Option<String>,
    /// Whether clients show certificates.
    pub require_client_auth: ClientAuth,
    /// Whether these have to be for the address that the client comes from.
    pub require_endpoint_verification: bool,
    /// The longest time for which a client's certificate may be valid.
    pub max_certificate_validity_period: Option<Millis>,
    /// The time before the end of a client's certificate from which on it is warned of.
    pub certificate_validity_warn_threshold: Option<Millis>,
    /// Options that nobody knows.
    pub unknown: Vec<String>,
}

impl Default for EncryptionOptions {
    fn default() -> Self {
        let store = |path: &str| StoreFile { path: path.into(), password: None, password_file: None };
        EncryptionOptions {
            enabled: false,
            optional: None,
            keystore: store(KEYSTORE),
            truststore: store(TRUSTSTORE),
            factory: ContextFactory::Default,
            private_key: None,
            private_key_password: None,
            trusted_certificates: None,
            protocol: None,
            accepted_protocols: None,
            cipher_suites: None,
            algorithm: None,
            store_type: None,
            require_client_auth: ClientAuth::No,
            require_endpoint_verification: false,
            max_certificate_validity_period: None,
            certificate_validity_warn_threshold: None,
            unknown: Vec::new(),
        }
    }
}

impl EncryptionOptions {
    /// Who has to speak TLS, where there is a key or none. As in Cassandra, a key that is there is used for
    /// those who want it, if nothing is said of them.
    pub fn policy(&self, has_key: bool) -> EncryptionPolicy {
        match (self.optional.unwrap_or(!self.enabled && has_key), self.enabled) {
            (true, _) => EncryptionPolicy::Optional,
            (false, true) => EncryptionPolicy::Encrypted,
            (false, false) => EncryptionPolicy::Unencrypted,
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let text = || String::parse(value, OldUnit::None);
        let path = || PathBuf::parse(value, OldUnit::None);
        let flag = || bool::parse(value, OldUnit::None);
        let time = || Millis::parse(value, OldUnit::None);
        match name {
            "enabled" => self.enabled = flag()?,
            "optional" => self.optional = Some(flag()?),
            "keystore" => self.keystore.path = path()?,
            "keystore_password" => self.keystore.password = Some(text()?.into()),
            "keystore_password_file" => self.keystore.password_file = Some(path()?),
            "truststore" => self.truststore.path = path()?,
            "truststore_password" => self.truststore.password = Some(text()?.into()),
            "truststore_password_file" => self.truststore.password_file = Some(path()?),
            "protocol" => self.protocol = Some(text()?),
            "accepted_protocols" => self.accepted_protocols = Some(words(value)?),
            "cipher_suites" => self.cipher_suites = Some(words(value)?),
            "algorithm" => self.algorithm = Some(text()?),
            "store_type" => self.store_type = Some(known_store(text()?)?),
            "require_client_auth" => self.require_client_auth = client_auth(&text()?)?,
            "require_endpoint_verification" => self.require_endpoint_verification = flag()?,
            "max_certificate_validity_period" => self.max_certificate_validity_period = Some(time()?),
            "certificate_validity_warn_threshold" => self.certificate_validity_warn_threshold = Some(time()?),
            "ssl_context_factory" => self.set_factory(value)?,
            other => self.unknown.push(other.to_owned()),
        }
        Ok(())
    }

    fn set_factory(&mut self, value: &Value) -> Result<(), String> {
        let Value::Mapping(map) = value else {
            self.factory = factory(&String::parse(value, OldUnit::None)?)?;
            return Ok(());
        };
        if let Some(class) = map.get("class_name").filter(|class| !class.is_null()) {
            self.factory = factory(&String::parse(class, OldUnit::None)?)?;
        }
        for (name, value) in parameters(value)? {
            let text = || parameter(&name, value);
            match name.as_str() {
                "private_key" => self.private_key = Some(text()?.into()),
                "private_key_password" => self.private_key_password = Some(text()?.into()),
                "trusted_certificates" => self.trusted_certificates = Some(text()?),
                _ => self.unknown.push(name),
            }
        }
        Ok(())
    }

    /// Options as `system_views.settings` shows them behind the name of their map, and their values but for
    /// secrets.
    pub(super) fn shown(&self) -> Vec<(&'static str, Option<String>)> {
        let path = |path: &PathBuf| Some(path.display().to_string());
        let list = |words: &Option<Vec<String>>| words.as_ref().map(|w| format!("[{}]", w.join(", ")));
        let auth = match self.require_client_auth {
            ClientAuth::No => "false",
            ClientAuth::Optional => "optional",
            ClientAuth::Required => "true",
        };
        let class = match self.factory {
            ContextFactory::Default => "org.apache.cassandra.security.DefaultSslContextFactory",
            ContextFactory::Pem => "org.apache.cassandra.security.PEMBasedSslContextFactory",
        };
        vec![
            ("accepted_protocols", list(&self.accepted_protocols)),
            ("algorithm", self.algorithm.clone()),
            ("cipher_suites", list(&self.cipher_suites)),
            ("enabled", Some(self.enabled.to_string())),
            ("keystore", path(&self.keystore.path)),
            ("keystore_password", None),
            ("optional", Some(self.optional.unwrap_or_default().to_string())),
            ("protocol", self.protocol.clone()),
            ("require_client_auth", Some(auth.to_owned())),
            ("require_endpoint_verification", Some(self.require_endpoint_verification.to_string())),
            ("ssl_context_factory.class_name", Some(class.to_owned())),
            ("ssl_context_factory.parameters", Some("{}".to_owned())),
            ("store_type", Some(self.store_type.clone().unwrap_or_else(|| "JKS".to_owned()))),
            ("truststore", path(&self.truststore.path)),
            ("truststore_password", None),
        ]
    }
}

impl Setting for EncryptionOptions {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        let Value::Mapping(map) = value else { return Err("it must be a map of options".to_owned()) };
        let mut options = EncryptionOptions::default();
        for (name, value) in map {
            let name = scalar(name)?;
            if !value.is_null() {
                options.set(&name, value).map_err(|reason| format!("{name}: {reason}"))?;
            }
        }
        Ok(options)
    }

    fn print(&self) -> Option<String> {
        Some(format!("{{enabled: {}, optional: {}}}", self.enabled, self.optional.unwrap_or_default()))
    }
}

/// The parameters of a factory that have a value: a map, or as other classes of the file have them, a list of
/// maps.
pub(super) fn parameters(factory: &Value) -> Result<Vec<(String, &Value)>, String> {
    let maps: Vec<&Value> = match factory.as_mapping().and_then(|factory| factory.get("parameters")) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Sequence(maps)) => maps.iter().collect(),
        Some(map) => vec![map],
    };
    let all = maps.into_iter().filter_map(Value::as_mapping).flatten();
    all.filter(|(_, value)| !value.is_null()).map(|(name, value)| Ok((scalar(name)?, value))).collect()
}

/// A parameter that is a text.
pub(super) fn parameter(name: &str, value: &Value) -> Result<String, String> {
    String::parse(value, OldUnit::None).map_err(|reason| format!("{name}: {reason}"))
}

/// A list of words, or one text with commas between them.
fn words(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Sequence(items) => items.iter().map(scalar).collect(),
        single => Ok(scalar(single)?.split(',').map(|word| word.trim().to_owned()).collect()),
    }
}

fn client_auth(word: &str) -> Result<ClientAuth, String> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "required" => Ok(ClientAuth::Required),
        "optional" => Ok(ClientAuth::Optional),
        "false" | "no" | "off" | "not_required" => Ok(ClientAuth::No),
        _ => Err(format!("{word} is none of true, false and optional")),
    }
}

fn known_store(word: String) -> Result<String, String> {
    match word.to_ascii_uppercase().as_str() {
        "JKS" | "PKCS12" | "PEM" => Ok(word),
        _ => Err(format!("{word} is not supported: Ilion reads JKS, PKCS12 and PEM")),
    }
}

fn factory(class: &str) -> Result<ContextFactory, String> {
    match class.strip_prefix(FACTORIES).unwrap_or(class) {
        "DefaultSslContextFactory" => Ok(ContextFactory::Default),
        "PEMBasedSslContextFactory" => Ok(ContextFactory::Pem),
        _ => Err(format!(
            "{class} is not supported: Ilion has DefaultSslContextFactory and PEMBasedSslContextFactory"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(yaml: &str) -> Result<EncryptionOptions, String> {
        EncryptionOptions::parse(&serde_norway::from_str(yaml).expect("YAML"), OldUnit::None)
    }

    #[test]
    fn options_are_read_as_cassandra_spells_them() {
        let options = parse(
            "{enabled: true, optional: false, keystore: /k, keystore_password: x, truststore: /t, \
             require_client_auth: optional, accepted_protocols: [TLSv1.3], cipher_suites: 'A, B', \
             max_certificate_validity_period: 365d, store_type: PKCS12, \
             ssl_context_factory: {class_name: org.apache.cassandra.security.PEMBasedSslContextFactory, \
             parameters: {private_key: abc}}, other: 1}",
        )
        .unwrap();
        assert_eq!(options.keystore.path, PathBuf::from("/k"));
        assert_eq!(options.require_client_auth, ClientAuth::Optional);
        assert_eq!(options.cipher_suites.as_deref(), Some(&["A".to_owned(), "B".to_owned()][..]));
        assert_eq!(options.max_certificate_validity_period, Some(Millis(365 * 86_400_000)));
        assert_eq!(options.factory, ContextFactory::Pem);
        assert_eq!(options.private_key.as_ref().map(Secret::reveal), Some("abc"));
        assert_eq!(options.unknown, ["other"]);
        assert!(!format!("{options:?}").contains("abc"), "{options:?}");
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (yaml, words) in [
            ("[enabled]", &["map"][..]),
            ("{enabled: perhaps}", &["enabled", "perhaps"]),
            ("{require_client_auth: some}", &["require_client_auth", "some", "optional"]),
            ("{store_type: JCEKS}", &["store_type", "JCEKS"]),
            ("{ssl_context_factory: {class_name: com.acme.Keys}}", &["ssl_context_factory", "com.acme.Keys"]),
            ("{max_certificate_validity_period: 3}", &["max_certificate_validity_period"]),
        ] {
            let error = parse(yaml).expect_err(yaml);
            assert!(words.iter().all(|word| error.contains(word)), "{yaml}: {error}");
        }
    }

    #[test]
    fn a_key_that_is_there_is_for_those_who_want_it() {
        use EncryptionPolicy::{Encrypted, Optional, Unencrypted};
        for (yaml, without_key, with_key) in [
            ("{}", Unencrypted, Optional),
            ("{optional: false}", Unencrypted, Unencrypted),
            ("{optional: true}", Optional, Optional),
            ("{enabled: true}", Encrypted, Encrypted),
            ("{enabled: true, optional: true}", Optional, Optional),
        ] {
            let options = parse(yaml).unwrap();
            assert_eq!((options.policy(false), options.policy(true)), (without_key, with_key), "{yaml}");
        }
    }
}
