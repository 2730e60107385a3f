//! `server_encryption_options`: what the file says of TLS between nodes. Its options are those of
//! [`EncryptionOptions`], and those below.
//!
//! - `internode_encryption`: `none`, `all`, `dc` (with nodes of other data centers), `rack` (of other racks,
//!   too);
//! - `outbound_keystore`, with its password: the key that is shown to nodes which this one connects to;
//!   `keystore` if there is none;
//! - `outbound_private_key`, with its password: the same as PEM, among the parameters of the PEM factory;
//! - `legacy_ssl_storage_port_enabled`: refused, for only nodes of Cassandra 3 need it.

use super::encryption::{ContextFactory, parameter, parameters};
use super::encryption::{EncryptionOptions, EncryptionPolicy, Secret, StoreFile};
use super::units::OldUnit;
use super::values::{Setting, scalar};
use serde_norway::Value;
use std::path::PathBuf;

/// What the PEM factory knows of nodes alone.
const OUTBOUND_PARAMETERS: [&str; 2] = ["outbound_private_key", "outbound_private_key_password"];

/// With which nodes TLS is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InternodeEncryption {
    /// With none.
    #[default]
    None,
    /// With all.
    All,
    /// With those of other data centers.
    Dc,
    /// With those of other racks.
    Rack,
}

/// The value of `server_encryption_options`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InternodeOptions {
    /// With which nodes TLS is spoken.
    pub internode: InternodeEncryption,
    /// The key that is shown to nodes which this one connects to. Its path is empty where there is only a
    /// password, that of `outbound_private_key`.
    pub outbound_keystore: Option<StoreFile>,
    /// Parameters of the PEM factory: the same, key and chain.
    pub outbound_private_key: Option<Secret>,
    /// What opens either.
    pub outbound_private_key_password: Option<Secret>,
    /// What nodes have in common with clients.
    pub options: EncryptionOptions,
}

impl InternodeOptions {
    /// Who has to speak TLS, where there is a key or none. Where some nodes need none, all may do without:
    /// who it is that connects is known only later.
    pub fn policy(&self, has_key: bool) -> EncryptionPolicy {
        match self.internode {
            InternodeEncryption::Dc | InternodeEncryption::Rack => EncryptionPolicy::Optional,
            InternodeEncryption::All | InternodeEncryption::None => self.options.policy(has_key),
        }
    }

    fn outbound(&mut self) -> &mut StoreFile {
        let empty = || StoreFile { path: PathBuf::new(), password: None, password_file: None };
        self.outbound_keystore.get_or_insert_with(empty)
    }

    /// The key that is shown to nodes which this one connects to, in the place of the node's own; `None` if
    /// that is the one.
    pub fn outbound_key(&self) -> Option<EncryptionOptions> {
        let is_pem = self.options.factory == ContextFactory::Pem;
        let private_key = self.outbound_private_key.clone().filter(|_| is_pem);
        if private_key.is_none() && self.outbound_keystore.is_none() {
            return None;
        }
        let own = &self.options;
        let no_file = || StoreFile { path: PathBuf::new(), password: None, password_file: None };
        let mut keystore = self.outbound_keystore.clone().unwrap_or_else(no_file);
        let mut private_key_password = self.outbound_private_key_password.clone().filter(|_| is_pem);
        if private_key_password.is_none() && keystore.password.is_none() && keystore.password_file.is_none() {
            private_key_password = own.private_key_password.clone().filter(|_| is_pem);
            keystore.password = own.keystore.password.clone();
            keystore.password_file = own.keystore.password_file.clone();
        }
        Some(EncryptionOptions { keystore, private_key, private_key_password, ..own.clone() })
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<(), String> {
        let text = || String::parse(value, OldUnit::None);
        let path = || PathBuf::parse(value, OldUnit::None);
        match name {
            "internode_encryption" => self.internode = internode(&text()?)?,
            "outbound_keystore" => self.outbound().path = path()?,
            "outbound_keystore_password" => self.outbound().password = Some(text()?.into()),
            "outbound_keystore_password_file" => self.outbound().password_file = Some(path()?),
            "ssl_context_factory" => {
                self.options.set(name, value)?;
                self.options.unknown.retain(|name| !OUTBOUND_PARAMETERS.contains(&name.as_str()));
                for (name, value) in parameters(value)? {
                    let given = match name.as_str() {
                        "outbound_private_key" => &mut self.outbound_private_key,
                        "outbound_private_key_password" => &mut self.outbound_private_key_password,
                        _ => continue,
                    };
                    *given = Some(parameter(&name, value)?.into());
                }
            }
            // Whether it is enabled, internode_encryption says.
            "enabled" => {
                bool::parse(value, OldUnit::None)?;
            }
            "legacy_ssl_storage_port_enabled" | "enable_legacy_ssl_storage_port" => {
                if bool::parse(value, OldUnit::None)? {
                    return Err(
                        "it is not supported: only nodes of Cassandra 3 need a port of their own".to_owned()
                    );
                }
            }
            other => self.options.set(other, value)?,
        }
        Ok(())
    }

    /// As [`EncryptionOptions::shown`], also under the names that Cassandra 4.0 had.
    pub(super) fn shown(&self) -> Vec<(&'static str, Option<String>)> {
        let internode = match self.internode {
            InternodeEncryption::None => "none",
            InternodeEncryption::All => "all",
            InternodeEncryption::Dc => "dc",
            InternodeEncryption::Rack => "rack",
        };
        let mut shown = self.options.shown();
        if let Some((_, optional)) = shown.iter_mut().find(|(name, _)| *name == "optional") {
            *optional = Some((self.policy(false) == EncryptionPolicy::Optional).to_string());
        }
        for (old, new) in [
            ("client_auth", "require_client_auth"),
            ("endpoint_verification", "require_endpoint_verification"),
        ] {
            let value = shown.iter().find(|(name, _)| *name == new).and_then(|(_, value)| value.clone());
            shown.push((old, value));
        }
        let outbound = self.outbound_keystore.as_ref().filter(|store| has_file(store));
        let outbound = outbound.map(|store| store.path.display().to_string());
        shown.extend([
            ("internode_encryption", Some(internode.to_owned())),
            ("legacy_ssl_storage_port", Some("false".to_owned())),
            ("legacy_ssl_storage_port_enabled", Some("false".to_owned())),
            ("outbound_keystore", outbound),
            ("outbound_keystore_password", None),
        ]);
        shown
    }
}

impl Setting for InternodeOptions {
    fn parse(value: &Value, _: OldUnit) -> Result<Self, String> {
        let Value::Mapping(map) = value else { return Err("it must be a map of options".to_owned()) };
        let mut found = InternodeOptions::default();
        for (name, value) in map {
            let name = scalar(name)?;
            if !value.is_null() {
                found.set(&name, value).map_err(|reason| format!("{name}: {reason}"))?;
            }
        }
        let has_key =
            found.outbound_private_key.is_some() || found.outbound_keystore.as_ref().is_none_or(has_file);
        if !has_key {
            return Err("outbound_keystore_password: there is no outbound_keystore".to_owned());
        }
        found.options.enabled = found.internode != InternodeEncryption::None;
        Ok(found)
    }

    fn print(&self) -> Option<String> {
        self.options.print()
    }
}

/// Whether more than its password is given.
fn has_file(store: &StoreFile) -> bool {
    !store.path.as_os_str().is_empty()
}

fn internode(word: &str) -> Result<InternodeEncryption, String> {
    match word.to_ascii_lowercase().as_str() {
        "none" => Ok(InternodeEncryption::None),
        "all" => Ok(InternodeEncryption::All),
        "dc" => Ok(InternodeEncryption::Dc),
        "rack" => Ok(InternodeEncryption::Rack),
        _ => Err(format!("{word} is none of none, all, dc and rack")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClientAuth;

    fn parse(yaml: &str) -> Result<InternodeOptions, String> {
        InternodeOptions::parse(&serde_norway::from_str(yaml).expect("YAML"), OldUnit::None)
    }

    #[test]
    fn options_are_read_as_cassandra_spells_them() {
        let found = parse(
            "{internode_encryption: dc, keystore: /k, keystore_password: x, outbound_keystore: /o, \
             outbound_keystore_password: y, truststore: /t, require_client_auth: true, enabled: false, \
             enable_legacy_ssl_storage_port: false, other: 1}",
        )
        .unwrap();
        assert_eq!((found.internode, found.options.enabled), (InternodeEncryption::Dc, true));
        assert_eq!(found.outbound_keystore.unwrap().path, PathBuf::from("/o"));
        assert_eq!(found.options.require_client_auth, ClientAuth::Required);
        assert_eq!(found.options.unknown, ["other"]);
    }

    /// The key that is shown to nodes which this one connects to: its file, its PEM, and what opens it.
    fn outbound(yaml: &str) -> Option<[Option<String>; 3]> {
        let key = parse(yaml).unwrap().outbound_key()?;
        let revealed = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.reveal().to_owned());
        let password = revealed(&key.private_key_password).or(revealed(&key.keystore.password));
        let file = Some(key.keystore.path.display().to_string()).filter(|path| !path.is_empty());
        Some([file, revealed(&key.private_key), password])
    }

    #[test]
    fn a_node_may_show_another_key_to_those_that_it_connects_to() {
        let pem = |more: &str, parameters: &str| {
            format!(
                "{{{more} ssl_context_factory: {{class_name: PEMBasedSslContextFactory, parameters: {{{parameters}}}}}}}"
            )
        };
        let some =
            |words: [&str; 3]| Some(words.map(|word| Some(word.to_owned()).filter(|word| !word.is_empty())));
        assert_eq!(outbound("{keystore: /k}"), None);
        assert_eq!(outbound("{outbound_keystore: /o, outbound_keystore_password: y}"), some(["/o", "", "y"]));
        assert_eq!(outbound("{outbound_keystore: /o, keystore_password: x}"), some(["/o", "", "x"]));
        assert_eq!(outbound(&pem("", "private_key: own")), None);
        assert_eq!(
            outbound(&pem("", "private_key: own, private_key_password: x, outbound_private_key: other")),
            some(["", "other", "x"])
        );
        let named = "private_key_password: x, outbound_private_key: other, outbound_private_key_password: z";
        assert_eq!(outbound(&pem("outbound_keystore_password: y,", named)), some(["", "other", "z"]));
        let unnamed = "private_key_password: x, outbound_private_key: other";
        assert_eq!(outbound(&pem("outbound_keystore_password: y,", unnamed)), some(["", "other", "y"]));
        assert_eq!(outbound(&pem("outbound_keystore: /o,", "private_key: own")), some(["/o", "", ""]));
        // Only the PEM factory knows it.
        let default = "{ssl_context_factory: {parameters: {outbound_private_key: other}}}";
        assert_eq!(outbound(default), None);
        let found = parse(&pem("", "outbound_private_key: abc, other: 1")).unwrap();
        assert_eq!(found.options.unknown, ["other"]);
        assert!(!format!("{found:?}").contains("abc"), "{found:?}");
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (yaml, words) in [
            ("{internode_encryption: some}", &["internode_encryption", "some", "rack"][..]),
            ("{legacy_ssl_storage_port_enabled: true}", &["legacy_ssl_storage_port_enabled", "Cassandra 3"]),
            ("{outbound_keystore_password: x}", &["outbound_keystore"]),
            ("{require_client_auth: maybe}", &["require_client_auth"]),
        ] {
            let error = parse(yaml).expect_err(yaml);
            assert!(words.iter().all(|word| error.contains(word)), "{yaml}: {error}");
        }
    }

    #[test]
    fn who_has_to_speak_tls_is_as_in_cassandra() {
        use EncryptionPolicy::{Encrypted, Optional, Unencrypted};
        for (yaml, without_key, with_key) in [
            ("{}", Unencrypted, Optional),
            ("{internode_encryption: all}", Encrypted, Encrypted),
            ("{internode_encryption: all, optional: true}", Optional, Optional),
            ("{internode_encryption: dc, optional: false}", Optional, Optional),
            ("{internode_encryption: rack}", Optional, Optional),
        ] {
            let found = parse(yaml).unwrap();
            assert_eq!((found.policy(false), found.policy(true)), (without_key, with_key), "{yaml}");
        }
    }
}
